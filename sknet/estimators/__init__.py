"""Networks as scikit-learn estimators."""

from sknet.estimators._autoencoder import Autoencoder
from sknet.estimators._frozen import FrozenClassifier, FrozenRegressor, FrozenTransformer
from sknet.estimators._layers import LayerOutput
from sknet.estimators._mlp import MLPClassifier, MLPRegressor
from sknet.estimators._net import NetClassifier, NetRegressor
from sknet.estimators._transformer import NetTransformer

__all__ = [
    "Autoencoder",
    "FrozenClassifier",
    "FrozenRegressor",
    "FrozenTransformer",
    "LayerOutput",
    "MLPClassifier",
    "MLPRegressor",
    "NetClassifier",
    "NetRegressor",
    "NetTransformer",
]
