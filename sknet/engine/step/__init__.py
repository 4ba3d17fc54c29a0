"""One training step: the objective, its gradient and the update, eager or compiled."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet.engine.step._batch_terms import (
    as_operand,
    as_operands,
    batch_as_reported,
    batch_terms,
    checked_targets,
    mean_loss,
    per_output,
    reported,
)
from sknet.engine.step._checks import (
    check_output,
    check_reached,
    last_layer,
    note_last_layer,
    recorded,
    warn_of_probabilities,
)
from sknet.engine.step._classes import check_classes_of, on_one_row
from sknet.engine.step._compiled_step import CompiledStep, compiled_step
from sknet.engine.step._first_data import show_batch, show_rows
from sknet.engine.step._functional import evaluate, forward
from sknet.engine.step._last_operation import look_at_output
from sknet.engine.step._programs import Programs, check_repeatable, gradient_function, hyper_slots
from sknet.engine.step._scheduled import follow_schedules
from sknet.engine.step._signature import (
    Batch,
    DeviceInputs,
    DeviceOutputs,
    GradientInputs,
    GradientOutputs,
    SparseForm,
    UpdateOutputs,
)
from sknet.engine.step._stepper import Stepper, eager_step, not_compiled
from sknet.engine.step._update import (
    advance,
    apply_update,
    check_finite_step,
    gradient_into,
    update_function,
)

if TYPE_CHECKING:
    from sknet.engine.step._split_step import Share, SplitStep

__all__ = [
    "Batch",
    "CompiledStep",
    "DeviceInputs",
    "DeviceOutputs",
    "GradientInputs",
    "GradientOutputs",
    "Programs",
    "Share",
    "SparseForm",
    "SplitStep",
    "Stepper",
    "UpdateOutputs",
    "advance",
    "apply_update",
    "as_operand",
    "as_operands",
    "batch_as_reported",
    "batch_terms",
    "check_classes_of",
    "check_finite_step",
    "check_output",
    "check_reached",
    "check_repeatable",
    "checked_targets",
    "compiled_step",
    "eager_step",
    "evaluate",
    "follow_schedules",
    "forward",
    "gradient_function",
    "gradient_into",
    "hyper_slots",
    "last_layer",
    "look_at_output",
    "mean_loss",
    "not_compiled",
    "note_last_layer",
    "on_one_row",
    "per_output",
    "recorded",
    "reported",
    "show_batch",
    "show_rows",
    "update_function",
    "warn_of_probabilities",
]

if not TYPE_CHECKING:
    __getattr__ = _Names({"sknet.engine.step._split_step": ("Share", "SplitStep")}).into(globals())
