"""Tensor, the record of a primitive, the tape and the backward pass."""

from sknet.core._axes import normalize_axes, normalize_axis
from sknet.core._backward import gradients
from sknet.core._bind import Shaped, bind
from sknet.core._carry import cargo_of, carry
from sknet.core._modes import enable_grad, is_grad_enabled, no_grad
from sknet.core._primitive import PRIMITIVES, Primitive
from sknet.core._tensor import Tensor, as_operand, as_tensor, leaf_node

__all__ = [
    "PRIMITIVES",
    "Primitive",
    "Shaped",
    "Tensor",
    "as_operand",
    "as_tensor",
    "bind",
    "cargo_of",
    "carry",
    "enable_grad",
    "gradients",
    "is_grad_enabled",
    "leaf_node",
    "no_grad",
    "normalize_axes",
    "normalize_axis",
]
