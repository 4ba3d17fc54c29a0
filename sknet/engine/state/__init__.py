"""A model's state: parameters in one flat buffer, optimizer state, buffers, and copies of them."""

from sknet.engine.state._epoch import Epoch
from sknet.engine.state._fed_inputs import FedInputs, fed_inputs, gather, gather_by_threads, is_fed
from sknet.engine.state._fingerprint import Fingerprint
from sknet.engine.state._hyper import (
    Hyper,
    averaging,
    checked_hyper,
    minimises_alike,
    stepping_optimizer,
)
from sknet.engine.state._inputs import (
    any_sparse,
    are_arrays,
    arguments,
    computed_dtype,
    each_input,
    first_input,
    n_rows,
    row_shapes,
)
from sknet.engine.state._layout import Gradient, Layout
from sknet.engine.state._memory import Memory
from sknet.engine.state._methods import rollback_of, take_over
from sknet.engine.state._ownership import check_free, copy_of
from sknet.engine.state._pending import Pending, begin, give_shapes
from sknet.engine.state._state import ModelState, StepResult, Weights, copied_random_state, is_seeded
from sknet.engine.state._structure import structure_of

__all__ = [
    "Epoch",
    "FedInputs",
    "Fingerprint",
    "Gradient",
    "Hyper",
    "Layout",
    "Memory",
    "ModelState",
    "Pending",
    "StepResult",
    "Weights",
    "any_sparse",
    "are_arrays",
    "arguments",
    "averaging",
    "begin",
    "check_free",
    "checked_hyper",
    "computed_dtype",
    "copied_random_state",
    "copy_of",
    "each_input",
    "fed_inputs",
    "first_input",
    "gather",
    "gather_by_threads",
    "give_shapes",
    "is_fed",
    "is_seeded",
    "minimises_alike",
    "n_rows",
    "rollback_of",
    "row_shapes",
    "stepping_optimizer",
    "structure_of",
    "take_over",
]
