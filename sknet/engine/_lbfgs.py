"""Full-batch fits: L-BFGS."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.callbacks import Callback
from sknet.core import no_grad
from sknet.device import active, leased, to_device, to_host
from sknet.engine._batches import Batches
from sknet.engine._checks import check_losses, look_at_output, note_inputs
from sknet.engine._fit import Fit, History, Hooks, KeptError, Source
from sknet.engine._memory import Weights
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import batch_as_reported, batch_terms, per_output
from sknet.engine._programs import show_batch
from sknet.engine._scheduler import InterruptGuard, current_group, raise_if_cancelled
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, NonFiniteError


def minimize(
    model: ModelLike,
    batches: Batches,
    max_iter: int,
    tol: float,
    verbose: bool | int,
    history: History | None = None,
    callbacks: Sequence[Callback] = (),
    source: Source | None = None,
) -> tuple[int, float]:
    """Minimize the objective over all rows in place, with the model's `LBFGS`."""
    history = History() if history is None else history
    fit = Fit(model, batches, history, max_iter, source=source, measured={"loss": False})
    with leased(model.device, raise_if_cancelled):
        return _minimized(fit, batches, tol, verbose, callbacks)


def _minimized(
    fit: Fit, batches: Batches, tol: float, verbose: bool | int, callbacks: Sequence[Callback]
) -> tuple[int, float]:
    model = fit.model
    with active(model.device, model.precision):
        X, y, weight = batches.take(slice(None))
    model.materialize(X)
    check_losses(model, batches.y, batches.weight)
    show_batch(model, X)
    note_inputs(model, batches.X)
    look_at_output(model, batches.inputs)
    guard = InterruptGuard()
    with Hooks(callbacks, fit) as hooks:
        objective = _Objective(fit, (X, y, weight), guard, hooks)
        latest = objective.latest
        try:
            with guard, active(model.device, model.precision), np.errstate(all="ignore"):
                if not objective.begin():
                    found = model.optimizer.minimize(
                        objective.value_and_grad, latest[0], fit.max_epochs, tol, verbose, objective.remember
                    )
                    latest[:] = found.x, found.n_iter
        except KeyboardInterrupt as error:
            if guard.is_urgent:
                raise
            if current_group() is not None:  # not to begin the next fit of a group
                model.restore_weights(Weights(_on_device(latest[0], model), {}, {}))
                raise
            fit.exception = error
            warn_caller(
                f"Training interrupted by user after {latest[1]} whole iterations; what was learned is kept.",
                FitInterruptedWarning,
            )
        except KeptError as kept:
            fit.exception = kept.error
            warn_caller(
                f"{kept}: the fit ends after {latest[1]} whole iterations; what was learned is kept.",
                CallbackWarning,
            )
        else:
            if hooks.stopped_by is None and not found.converged:
                _warn_of_limit(found)
        x, n_iter = latest
        if not np.isfinite(x).all():
            raise NonFiniteError("L-BFGS ended with parameters that are not finite: scale the data")
        model.restore_weights(Weights(_on_device(x, model), {}, {}))
        model.progress = model.progress.stepped(n_iter)
    return n_iter, _reported(model, X, y, weight)


def _warn_of_limit(found: Any) -> None:
    from sklearn.exceptions import ConvergenceWarning  # predictors do without

    warn_caller(
        f"lbfgs failed to converge after {found.n_iter} iteration(s): {found.message}. "
        "Raise max_iter or max_fun, or scale the data.",
        ConvergenceWarning,
    )


class _Objective:
    """The objective as a function of a flat vector, and the latest iterate."""

    def __init__(self, fit: Fit, batch: tuple[Any, Any, Any], guard: InterruptGuard, hooks: Hooks) -> None:
        self._fit, self._model, self._batch, self._guard, self._hooks = fit, fit.model, batch, guard, hooks
        self._reported: dict[float, float] = {}
        self._started = time.perf_counter()
        self.latest: list[Any] = [to_host(fit.model.weights().flat).astype(np.float64), 0]

    def value_and_grad(self, x: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        self._guard.poll()
        model, (X, y, weight) = self._model, self._batch
        model.restore_weights(Weights(_on_device(x, model), {}, {}))
        output = model(X)
        data, penalty = batch_terms(model, output, y, weight)
        loss = data if penalty is None else data + penalty
        value = loss.item()
        # The reported loss is a mean over outputs, the minimized one their sum.
        with no_grad():
            data, penalty = batch_as_reported(model, output, y, weight, data, penalty)
        self._reported[value] = per_output(model, data.item(), output) + _number(penalty)
        return value, to_host(model.backward(loss).flat).astype(np.float64)

    def begin(self) -> bool:
        """Call the hooks before the first iteration; return whether a callback ends the fit."""
        if self._hooks.begin():
            return True
        self._fit.epoch = 1
        return self._hooks.call("on_epoch_begin")

    def remember(self, n_iter: int, value: float, x: np.ndarray[Any, Any]) -> bool:
        """Record the result of an iteration; return whether a callback ends the fit."""
        self.latest[:] = x, n_iter
        fit, hooks = self._fit, self._hooks
        loss, seconds = self._reported.get(value, value), time.perf_counter() - self._started
        self._reported.clear()
        if hooks:  # the last evaluation may not be the accepted iterate
            fit.model.restore_weights(Weights(_on_device(x, fit.model), {}, {}))
        fit.epoch = fit.step = n_iter
        fit.losses = np.array([loss])
        fit.close_epoch({"loss": loss, "time": seconds})
        hooks.call("on_block_end")
        stopped = hooks.call("on_epoch_end")
        if not stopped and n_iter < fit.max_epochs:
            fit.epoch = n_iter + 1
            stopped = hooks.call("on_epoch_begin")
        self._started = time.perf_counter()
        return stopped


def _number(penalty: Any) -> float:
    return 0.0 if penalty is None else penalty.item()


def _reported(model: ModelLike, X: Any, y: Any, weight: Any) -> float:
    """Return the reported objective: regression losses as the mean over outputs."""
    trained = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    with no_grad(), active(model.device, model.precision), np.errstate(all="ignore"):
        output = model(X)
        data, penalty = batch_terms(model, output, y, weight, trained)
        data, penalty = batch_as_reported(model, output, y, weight, data, penalty)
    return per_output(model, data.item(), output) + _number(penalty)


def _on_device(x: np.ndarray[Any, Any], model: ModelLike) -> Any:
    return to_device(x.astype(model.dtype), model.device)
