"""Building blocks for custom estimators and training loops."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet._parallel import BlasThreads, blas_threads
from sknet.engine._batches import ComputedRows, join_leftover, take_rows
from sknet.engine._checkpoint import load_model_state, model_state
from sknet.engine._checks import check_given, check_range, check_signs, last_layer
from sknet.engine._fit import Source
from sknet.engine._inputs import (
    Batch,
    SparseForm,
    any_sparse,
    are_arrays,
    arguments,
    computed_dtype,
    each_input,
    first_input,
    n_rows,
    row_shapes,
)
from sknet.engine._loop import Outcome, Validation
from sknet.engine._model_copies import rollback_of
from sknet.engine._network import (
    FEW_ROWS,
    MOST_ROWS,
    Head,
    Network,
    Part,
    Pass,
    apply_head,
    chunk_rows,
    chunk_rows_of,
    in_chunks,
    network_of,
    predict_raw,
    predict_rows,
    rows_at_once,
    warn_of_overflow,
)
from sknet.engine._objective import mean_loss
from sknet.engine._optimizer import minimises_alike
from sknet.engine._scheduler import InterruptGuard, grouped, n_threads_for, run_in_threads
from sknet.engine._scores import Gathered
from sknet.engine._state import Layout, Weights
from sknet.engine._step import show_rows
from sknet.engine._train import Settings, train

if TYPE_CHECKING:
    from sknet.engine._layer_outputs import (
        Chosen,
        Layer,
        detached,
        find_layer,
        input_gradients,
        integrated_gradients,
        layer_rows,
        model_layer,
        output_shapes,
        part_rows,
    )
    from sknet.engine._lbfgs import minimize
    from sknet.engine._many import are_sent, in_common, in_group_of, new_group, on_the_cluster, run_together
    from sknet.engine._model_copies import parts_of, restored_model, slim_model
    from sknet.engine._remote import RemoteSteps, Share, SplitStep, train_remotely

__all__ = [
    "FEW_ROWS",
    "MOST_ROWS",
    "PARTS",
    "Batch",
    "BlasThreads",
    "Chosen",
    "ComputedRows",
    "Gathered",
    "Head",
    "InterruptGuard",
    "Layer",
    "Layout",
    "Network",
    "Outcome",
    "Part",
    "Pass",
    "RemoteSteps",
    "Settings",
    "Share",
    "Source",
    "SparseForm",
    "SplitStep",
    "Validation",
    "Weights",
    "any_sparse",
    "apply_head",
    "are_arrays",
    "are_sent",
    "arguments",
    "blas_threads",
    "check_given",
    "check_range",
    "check_signs",
    "chunk_rows",
    "chunk_rows_of",
    "computed_dtype",
    "detached",
    "each_input",
    "find_layer",
    "first_input",
    "grouped",
    "in_chunks",
    "in_common",
    "in_group_of",
    "input_gradients",
    "integrated_gradients",
    "join_leftover",
    "last_layer",
    "layer_rows",
    "load_model_state",
    "mean_loss",
    "minimises_alike",
    "minimize",
    "model_layer",
    "model_state",
    "n_rows",
    "n_threads_for",
    "network_of",
    "new_group",
    "on_the_cluster",
    "output_shapes",
    "part_rows",
    "parts_of",
    "predict_raw",
    "predict_rows",
    "restored_model",
    "rollback_of",
    "row_shapes",
    "rows_at_once",
    "run_in_threads",
    "run_together",
    "show_rows",
    "slim_model",
    "take_rows",
    "train",
    "train_remotely",
    "warn_of_overflow",
]

PARTS = {"Batch": Batch, "SparseForm": SparseForm}

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.engine._layer_outputs": (
                "Chosen",
                "Layer",
                "detached",
                "find_layer",
                "input_gradients",
                "integrated_gradients",
                "layer_rows",
                "model_layer",
                "output_shapes",
                "part_rows",
            ),
            "sknet.engine._lbfgs": ("minimize",),
            "sknet.engine._many": (
                "are_sent",
                "in_common",
                "in_group_of",
                "new_group",
                "on_the_cluster",
                "run_together",
            ),
            "sknet.engine._model_copies": (
                "parts_of",
                "restored_model",
                "slim_model",
            ),
            "sknet.engine._remote": (
                "Share",
                "SplitStep",
                "RemoteSteps",
                "train_remotely",
            ),
        }
    ).into(globals())
