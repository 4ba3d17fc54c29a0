"""Derivatives of functions, functions with custom derivatives, and checks of both."""

from sknet.autograd._anomaly import detect_anomaly
from sknet.autograd._checkpoint import checkpoint
from sknet.autograd._function import Context, Function, once_differentiable
from sknet.autograd._gradcheck import gradcheck
from sknet.autograd._jacobian import hessian, jacobian
from sknet.autograd._transforms import grad, hvp, jvp, value_and_grad, vjp
from sknet.autograd._vmap import vmap

__all__ = [
    "Context",
    "Function",
    "checkpoint",
    "detect_anomaly",
    "grad",
    "gradcheck",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "once_differentiable",
    "value_and_grad",
    "vjp",
    "vmap",
]
