"""Networks as scikit-learn estimators."""

from sknet.estimators._frozen import FrozenClassifier, FrozenRegressor
from sknet.estimators._layers import LayerOutput
from sknet.estimators._mlp import MLPClassifier, MLPRegressor
from sknet.estimators._net import NetClassifier, NetRegressor

__all__ = [
    "FrozenClassifier",
    "FrozenRegressor",
    "LayerOutput",
    "MLPClassifier",
    "MLPRegressor",
    "NetClassifier",
    "NetRegressor",
]
