"""Training loops: batches, epochs, scores, history, and when to stop."""

from typing import TYPE_CHECKING

from sknet._late import Names as _Names
from sknet._parallel import BlasThreads, blas_threads
from sknet.engine.loop._batches import Batches, take_rows
from sknet.engine.loop._computed import ComputedRows
from sknet.engine.loop._fit import Source
from sknet.engine.loop._gathered import Gathered
from sknet.engine.loop._group import grouped, n_threads_for, run_in_threads
from sknet.engine.loop._history import History
from sknet.engine.loop._interrupt import InterruptGuard
from sknet.engine.loop._kept import KeptSteps
from sknet.engine.loop._leftover import join_leftover
from sknet.engine.loop._loop import Outcome
from sknet.engine.loop._model_state import load_model_state, model_state
from sknet.engine.loop._scores import Accuracy, RSquared, Score
from sknet.engine.loop._train import Settings, train
from sknet.engine.loop._validation import Validation

if TYPE_CHECKING:
    from sknet.engine.loop._elsewhere import StepsElsewhere, train_elsewhere
    from sknet.engine.loop._full_batch import minimize
    from sknet.engine.loop._model_fit import Options, Part, fit_rows
    from sknet.engine.loop._sent import (
        are_sent,
        in_common,
        in_group_of,
        new_group,
        on_the_cluster,
        run_together,
    )
    from sknet.engine.loop._stacks import may_be_stacked, run_stacked
    from sknet.engine.loop._stream import fit_batches

__all__ = [
    "Accuracy",
    "Batches",
    "BlasThreads",
    "ComputedRows",
    "Gathered",
    "History",
    "InterruptGuard",
    "KeptSteps",
    "Options",
    "Outcome",
    "Part",
    "RSquared",
    "Score",
    "Settings",
    "Source",
    "StepsElsewhere",
    "Validation",
    "are_sent",
    "blas_threads",
    "fit_batches",
    "fit_rows",
    "grouped",
    "in_common",
    "in_group_of",
    "join_leftover",
    "load_model_state",
    "may_be_stacked",
    "minimize",
    "model_state",
    "n_threads_for",
    "new_group",
    "on_the_cluster",
    "run_in_threads",
    "run_stacked",
    "run_together",
    "take_rows",
    "train",
    "train_elsewhere",
]

if not TYPE_CHECKING:
    __getattr__ = _Names(
        {
            "sknet.engine.loop._elsewhere": ("StepsElsewhere", "train_elsewhere"),
            "sknet.engine.loop._full_batch": ("minimize",),
            "sknet.engine.loop._model_fit": ("Options", "Part", "fit_rows"),
            "sknet.engine.loop._sent": (
                "are_sent",
                "in_common",
                "in_group_of",
                "new_group",
                "on_the_cluster",
                "run_together",
            ),
            "sknet.engine.loop._stacks": ("may_be_stacked", "run_stacked"),
            "sknet.engine.loop._stream": ("fit_batches",),
        }
    ).into(globals())
