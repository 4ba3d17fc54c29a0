"""What estimators of other signatures are built on; users of estimators do without it."""

from sknet.estimators._architecture import Architecture, Perceptron
from sknet.estimators._autoencoder import Coder, SymmetricCoder, Transposed
from sknet.estimators._base import BaseNet
from sknet.estimators._calibration import best_temperature
from sknet.estimators._class_weights import class_weighted
from sknet.estimators._classifier import BaseClassifier
from sknet.estimators._computation import computation_of, is_estimator
from sknet.estimators._encoded import Encoded
from sknet.estimators._heads import (
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    interval_head,
    probability_head,
)
from sknet.estimators._input import check_weights, check_y
from sknet.estimators._inputs import Inputs
from sknet.estimators._modules import Built, Ready
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._perceptron import PerceptronLayers
from sknet.estimators._recipe import Recipe, layer_sizes, settings_of
from sknet.estimators._regressor import BaseRegressor
from sknet.estimators._targets import (
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    PositionTargets,
    RealTargets,
)
from sknet.estimators._validation import Compared

__all__ = [
    "PARTS",
    "Architecture",
    "BaseClassifier",
    "BaseNet",
    "BaseRegressor",
    "ClassTargets",
    "ColumnTargets",
    "Perceptron",
    "PerceptronLayers",
    "RealTargets",
    "Recipe",
    "best_temperature",
    "check_weights",
    "check_y",
    "class_weighted",
    "computation_of",
    "follows_namespace",
    "gives_deviations",
    "gives_intervals",
    "gives_probabilities",
    "gives_quantiles",
    "interval_head",
    "is_estimator",
    "layer_sizes",
    "probability_head",
    "settings_of",
]

PARTS = {
    each.__name__: each
    for each in (
        *(ClassTargets, ColumnTargets, OrderedTargets, PositionTargets, RealTargets),
        *(Built, Perceptron, Ready, SymmetricCoder),
        *(Coder, Transposed),
        *(Compared, Encoded, Inputs),
    )
}
