"""Networks as scikit-learn estimators."""

from sknet.estimators._frozen import FrozenClassifier, FrozenRegressor
from sknet.estimators._mlp import MLPClassifier, MLPRegressor

__all__ = ["FrozenClassifier", "FrozenRegressor", "MLPClassifier", "MLPRegressor"]
