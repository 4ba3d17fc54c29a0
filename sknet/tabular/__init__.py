"""Estimators for raw tables, with measured defaults."""

from sknet.preprocessing import TableEncoder
from sknet.tabular import _base, _frozen, _members, _mixing, _network, _training
from sknet.tabular._classifier import TabularClassifier
from sknet.tabular._frozen import FrozenTabularClassifier, FrozenTabularRegressor
from sknet.tabular._members import Members
from sknet.tabular._regressor import TabularRegressor
from sknet.tabular._training import Member

__all__ = [
    "FrozenTabularClassifier",
    "FrozenTabularRegressor",
    "Member",
    "Members",
    "TableEncoder",
    "TabularClassifier",
    "TabularRegressor",
]

# Classes of the parts of fitted estimators, by their names in files.
PARTS = {
    name: value
    for module in (_base, _frozen, _members, _mixing, _network, _training)
    for name, value in vars(module).items()
    if isinstance(value, type) and value.__module__ == module.__name__
}
