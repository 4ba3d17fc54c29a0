"""Estimators for raw tables, with measured defaults."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder
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
PARTS = _Names(
    {
        "sknet.tabular._base": ("BaseTabular",),
        "sknet.tabular._jobs": ("Job", "Task"),
        "sknet.tabular._frozen": ("FrozenTabularClassifier", "FrozenTabularRegressor", "Parts"),
        "sknet.tabular._members": ("Members", "Setting"),
        "sknet.tabular._mixing": ("Mix",),
        "sknet.tabular._network": ("TabularNet",),
        "sknet.tabular._training": ("Member", "NoScore", "Rows"),
    }
)

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.preprocessing": ("TableEncoder",),
            "sknet.tabular._classifier": ("TabularClassifier",),
            "sknet.tabular._frozen": ("FrozenTabularClassifier", "FrozenTabularRegressor"),
            "sknet.tabular._members": ("Members",),
            "sknet.tabular._regressor": ("TabularRegressor",),
            "sknet.tabular._training": ("Member",),
        }
    ).into(globals())
