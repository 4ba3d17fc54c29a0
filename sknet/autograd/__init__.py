"""Derivatives of functions, functions with custom derivatives, and checks of both."""

from sknet.autograd._checks import detect_anomaly, gradcheck
from sknet.autograd._function import Context, Function, checkpoint, once_differentiable
from sknet.autograd._transforms import grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp
from sknet.autograd._vmap import vmap

__all__ = [
    "Context", "Function", "checkpoint", "detect_anomaly", "grad", "gradcheck", "hessian", "hvp", "jacobian",
    "jvp", "once_differentiable", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

__dir__ = __all__.copy
