"""sknet: neural networks as scikit-learn estimators, on a tensor and autograd core of their own."""

from sknet import autograd, losses, nn, ops, optim
from sknet.autograd import Function, grad, value_and_grad
from sknet.core import Tensor, enable_grad, inference_mode, no_grad, set_grad_enabled
from sknet.engine import Model
from sknet.estimators import MLPClassifier, MLPRegressor

__version__ = "0.1.0"

__all__ = [
    "Function",
    "MLPClassifier",
    "MLPRegressor",
    "Model",
    "Tensor",
    "__version__",
    "autograd",
    "enable_grad",
    "grad",
    "inference_mode",
    "losses",
    "nn",
    "no_grad",
    "ops",
    "optim",
    "set_grad_enabled",
    "value_and_grad",
]
