"""A second training after early stopping: on all rows, for as many updates as were best in the first."""

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from sknet import ops
from sknet.callbacks import Callback, FitView
from sknet.device import active, device_of, namespace
from sknet.engine import History
from sknet.engine.extend import join_leftover, load_model_state, model_state, train
from sknet.estimators._validation import DataSet, new_score_of

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["SecondTraining"]


class Reductions(Callback):
    """Remembers after which updates plateaus have lowered the learning rate."""

    order = 1  # after what lowers it

    def __init__(self) -> None:
        self.found_: list[tuple[int, int]] = []

    def on_epoch_end(self, fit: FitView) -> None:
        self.found_.append((fit.step, fit.model.progress.reductions))

    def state(self) -> dict[str, Any]:
        return {"found": [list(pair) for pair in self.found_]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.found_ = [(int(step), int(count)) for step, count in state["found"]]


class Repeat(Callback):
    """Lowers the learning rate after as many updates as in another fit."""

    def __init__(self, reductions: Reductions) -> None:
        self.reductions = reductions

    def on_epoch_end(self, fit: FitView) -> None:
        counts = [count for step, count in self.reductions.found_ if step <= fit.step]
        if counts:
            fit.model.progress = fit.model.progress._replace(reductions=counts[-1])


class SecondTraining:
    """Trains a model anew on all rows."""

    def __init__(self, fit: "Fit") -> None:
        self._model, self.noted = fit.model.copy(), Reductions()
        if fit.continuing:
            fit.start = model_state(self._model)
        if fit.saved is not None and "start" in fit.saved.state["began"]:
            fit.start = fit.saved.state["began"]["start"]
            load_model_state(self._model, fit.start, fit.saved.path)

    def run(self, fit: "Fit", callbacks: Sequence[Callback]) -> None:
        """Train for as many updates as were best, and let the fit have the result."""
        rows, batches, history = _all_rows(fit), fit.batches, History()
        everything = rows.batches(self._model, batches.size)
        join_leftover(self._model.materialize(everything.X), everything)
        n_updates = fit.stopping.best_step_
        settings = fit.settings._replace(
            max_iter=-(-n_updates // everything.n_batches),
            max_steps=n_updates,
            planned_steps=fit.settings.max_iter * batches.n_batches,
        )
        trained = copy.copy(fit)
        trained.model = self._model
        score = new_score_of(trained, rows, everything)
        shown = [*callbacks, Repeat(self.noted)]
        outcome = train(self._model, everything, history, settings, score, callbacks=shown)
        if not outcome.interrupted:
            fit.model, fit.refit_history = self._model, history


def _all_rows(fit: "Fit") -> DataSet:
    """Return all rows of X, and those of X_val."""
    X, held_out = fit.training._replace(rows=None), fit.held_out
    if held_out is None or fit.given.X_val is None:
        return X
    weights = (X.weight, held_out.weight), (X.sample_weight, held_out.sample_weight)
    return DataSet(
        _joined(X.X, held_out.X),
        _joined(X.labels, held_out.labels),
        _joined_weights(*weights[1], X.n_samples, held_out.n_samples),
        _joined(X.y, held_out.y),
        _joined_weights(*weights[0], X.n_samples, held_out.n_samples),
    )


def _joined(first: Any, second: Any) -> Any:
    """Return the rows of two arrays, on the device of the first."""
    if isinstance(first, Mapping):
        return {name: _joined(array, second[name]) for name, array in first.items()}
    if ops.is_sparse(first) and isinstance(first.data, np.ndarray):
        return scipy.sparse.vstack([first, second], format="csr")
    with active(device_of(first)):
        return namespace(first).concatenate([first, second])


def _joined_weights(first: Any, second: Any, n_first: int, n_second: int) -> Any:
    if first is None and second is None:
        return None
    dtype = (second if first is None else first).dtype
    ones = [np.ones(n, dtype) for n in (n_first, n_second)]
    given = zip((first, second), ones, strict=True)
    return np.concatenate([one if weight is None else weight for weight, one in given])
