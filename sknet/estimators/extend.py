"""What estimators of other signatures are built on; users of estimators do without it."""

from sknet.estimators._architecture import Architecture, Perceptron
from sknet.estimators._base import BaseNet
from sknet.estimators._classifier import BaseClassifier
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._perceptron import PerceptronLayers
from sknet.estimators._recipe import Recipe, layer_sizes, settings_of
from sknet.estimators._regressor import BaseRegressor

__all__ = [
    "Architecture",
    "BaseClassifier",
    "BaseNet",
    "BaseRegressor",
    "Perceptron",
    "PerceptronLayers",
    "Recipe",
    "follows_namespace",
    "layer_sizes",
    "settings_of",
]
