"""What a model owns: parameters in one flat buffer, optimizer state, buffers, and copies of them."""

from sknet.engine.state._fingerprint import Fingerprint
from sknet.engine.state._inputs import any_sparse, arguments, each_input, first_input, n_rows, row_shapes
from sknet.engine.state._layout import Gradient, Layout
from sknet.engine.state._memory import Memory, Pending, check_free, copy_of
from sknet.engine.state._state import ModelState, StepResult, Weights, copied_random_state

__all__ = [
    "Fingerprint",
    "Gradient",
    "Layout",
    "Memory",
    "ModelState",
    "Pending",
    "StepResult",
    "Weights",
    "any_sparse",
    "arguments",
    "check_free",
    "copied_random_state",
    "copy_of",
    "each_input",
    "first_input",
    "n_rows",
    "row_shapes",
]
