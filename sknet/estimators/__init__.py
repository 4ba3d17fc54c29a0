"""Networks as scikit-learn estimators."""

from sknet.estimators._mlp import MLPClassifier, MLPRegressor

__all__ = ["MLPClassifier", "MLPRegressor"]
