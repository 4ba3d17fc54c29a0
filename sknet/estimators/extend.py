"""What estimators of other signatures are built on; users of estimators do without it."""

from sknet.estimators._base import BaseMLP
from sknet.estimators._classifier import ClassifierMLP
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._recipe import Recipe, layer_sizes, settings_of
from sknet.estimators._regressor import RegressorMLP

__all__ = [
    "BaseMLP",
    "ClassifierMLP",
    "Recipe",
    "RegressorMLP",
    "follows_namespace",
    "layer_sizes",
    "settings_of",
]
