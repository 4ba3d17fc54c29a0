"""Derivatives of functions, functions with a derivative of their own, and a check of both."""

from sknet.autograd._function import Context, Function
from sknet.autograd._gradcheck import gradcheck
from sknet.autograd._transforms import grad, value_and_grad

__all__ = ["Context", "Function", "grad", "gradcheck", "value_and_grad"]
