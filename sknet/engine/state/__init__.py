"""What a model owns: parameters in one flat buffer, optimizer state, buffers, and copies of them."""

from sknet.engine.state._layout import Gradient, Layout
from sknet.engine.state._memory import Memory, Pending
from sknet.engine.state._optimizer import averaging, check_parameters, kind_of, slot_names
from sknet.engine.state._state import ModelState, StepResult, Weights, copied_random_state

__all__ = [
    "Gradient",
    "Layout",
    "Memory",
    "ModelState",
    "Pending",
    "StepResult",
    "Weights",
    "averaging",
    "check_parameters",
    "copied_random_state",
    "kind_of",
    "slot_names",
]
