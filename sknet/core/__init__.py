"""Tensor, the record of a primitive, the tape and the backward pass.

The rules of the primitives are attached by `sknet.ops`, which is loaded right after this package.
"""

from sknet._late import complete
from sknet.core._axes import normalize_axes, normalize_axis
from sknet.core._backward import depends_on, gradients, release
from sknet.core._bind import Shaped, bind
from sknet.core._carry import cargo_of, carry
from sknet.core._changes import note_write
from sknet.core._hooks import HookHandle
from sknet.core._methods import Methods
from sknet.core._modes import (
    capturing,
    enable_grad,
    inference_mode,
    is_capturing,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from sknet.core._operators import as_operand
from sknet.core._primitive import PRIMITIVES, Primitive
from sknet.core._scalar_functions import SCALAR_FUNCTIONS, ScalarFunction
from sknet.core._tensor import Tensor, as_tensor, leaf_node
from sknet.core._traced import TracedArray
from sknet.core._user_line import user_line

__all__ = [
    "PRIMITIVES",
    "SCALAR_FUNCTIONS",
    "HookHandle",
    "Methods",
    "Primitive",
    "ScalarFunction",
    "Shaped",
    "Tensor",
    "TracedArray",
    "as_operand",
    "as_tensor",
    "bind",
    "capturing",
    "cargo_of",
    "carry",
    "depends_on",
    "enable_grad",
    "gradients",
    "inference_mode",
    "is_capturing",
    "is_grad_enabled",
    "leaf_node",
    "no_grad",
    "normalize_axes",
    "normalize_axis",
    "note_write",
    "release",
    "set_grad_enabled",
    "user_line",
]

complete(__name__)
