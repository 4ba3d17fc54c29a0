"""Tensor, the record of a primitive, the tape and the backward pass.

The rules of the primitives are attached by `sknet.ops`, which is loaded right after this package.
"""

from sknet._late import complete
from sknet.core._backward import HookHandle, attach_aux, attached_to, aux_of, depends_on, gradients, release
from sknet.core._methods import Methods
from sknet.core._primitive import (
    PRIMITIVES,
    SCALAR_FUNCTIONS,
    Primitive,
    ScalarFunction,
    normalize_axes,
    normalize_axis,
)
from sknet.core._tape import (
    Shaped,
    TracedArray,
    capturing,
    enable_grad,
    inference_mode,
    is_capturing,
    is_grad_enabled,
    leaf_node,
    no_grad,
    note_write,
    set_grad_enabled,
    user_line,
)
from sknet.core._tensor import Tensor, as_operand, as_tensor, bind
from sknet.device import Device

__all__ = [
    "PRIMITIVES", "SCALAR_FUNCTIONS", "Device", "HookHandle", "Methods", "Primitive", "ScalarFunction",
    "Shaped", "Tensor", "TracedArray", "as_operand", "as_tensor", "attach_aux", "attached_to", "aux_of",
    "bind", "capturing", "depends_on", "enable_grad", "gradients", "inference_mode", "is_capturing",
    "is_grad_enabled", "leaf_node", "no_grad", "normalize_axes", "normalize_axis", "note_write", "release",
    "set_grad_enabled", "user_line",
]  # fmt: skip

__dir__ = __all__.copy


complete(__name__)
