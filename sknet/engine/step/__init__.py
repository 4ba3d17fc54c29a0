"""One training step: the objective, its gradient and the update, eager or compiled."""

from sknet.engine.step._checks import (
    check_output,
    check_reached,
    check_targets,
    check_weights,
    last_layer,
    note_last_layer,
    warn_of_probabilities,
)
from sknet.engine.step._compiled_step import CompiledStep, compiled_step
from sknet.engine.step._programs import Programs, check_repeatable, gradient_function, hyper_slots
from sknet.engine.step._signature import (
    Batch,
    DeviceInputs,
    DeviceOutputs,
    GradientInputs,
    GradientOutputs,
    UpdateOutputs,
)
from sknet.engine.step._stepper import Stepper, eager_step, not_compiled
from sknet.engine.step._update import apply_update, check_finite_step, update_function

__all__ = [
    "Batch",
    "CompiledStep",
    "DeviceInputs",
    "DeviceOutputs",
    "GradientInputs",
    "GradientOutputs",
    "Programs",
    "Stepper",
    "UpdateOutputs",
    "apply_update",
    "check_finite_step",
    "check_output",
    "check_reached",
    "check_repeatable",
    "check_targets",
    "check_weights",
    "compiled_step",
    "eager_step",
    "gradient_function",
    "hyper_slots",
    "last_layer",
    "not_compiled",
    "note_last_layer",
    "update_function",
    "warn_of_probabilities",
]
