"""Fits that see all rows at once: L-BFGS."""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sknet.core import no_grad
from sknet.device import active, to_device, to_host
from sknet.engine._model import Model
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._interrupt import InterruptGuard
from sknet.engine.state import Weights
from sknet.exceptions import FitInterruptedWarning, NonFiniteError
from sknet.optim import LBFGS

__all__ = ["minimize"]


def minimize(
    model: Model, batches: Batches, max_iter: int, tol: float, verbose: bool | int
) -> tuple[int, float]:
    """Minimise the objective over all rows in place, with the model's `LBFGS`.

    Parameters
    ----------
    model : Model
        Its parameters become the best found.
    batches : Batches
        All rows as one batch.
    max_iter : int
        Iterations at most.
    tol : float
        Stop where no component of the gradient is larger.
    verbose : bool or int
        Print the objective of every iteration.

    Returns
    -------
    n_iter : int
        Iterations done.
    loss : float
        The objective found, as it is reported: for regression losses the mean over outputs.

    Raises
    ------
    NonFiniteError
        If the objective is not finite where the search ends.

    Warns
    -----
    ConvergenceWarning
        If a limit ended the search.
    FitInterruptedWarning
        If Ctrl-C did; the parameters of the last whole iteration are kept. A second Ctrl-C is raised.
    """
    optimizer = model.optimizer
    assert isinstance(optimizer, LBFGS)
    with active(model.device):
        X, y, weight = batches.take(slice(None))
    model.materialize(X)
    guard = InterruptGuard()

    def value_and_grad(x: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        guard.poll()
        model.restore_weights(Weights(_on_device(x, model), {}, {}))
        loss = model.loss(model(X), y, weight)
        return loss.item(), to_host(model.backward(loss).flat).astype(np.float64)

    latest: list[Any] = [to_host(model.weights().flat).astype(np.float64), 0]

    def remember(n_iter: int, value: float, x: np.ndarray[Any, Any]) -> None:
        latest[:] = x, n_iter

    try:
        with guard, active(model.device), np.errstate(all="ignore"):
            found = optimizer.minimize(value_and_grad, latest[0], max_iter, tol, verbose, remember)
            latest[:] = found.x, found.n_iter
    except KeyboardInterrupt:
        if guard.is_urgent:
            raise
        warnings.warn(
            f"Training interrupted by user after {latest[1]} whole iterations; what was learned is kept.",
            FitInterruptedWarning,
            stacklevel=2,
        )
    else:
        if not found.converged:
            warnings.warn(
                f"lbfgs failed to converge after {found.n_iter} iteration(s): {found.message}. "
                "Raise max_iter or max_fun, or scale the data.",
                ConvergenceWarning,
                stacklevel=2,
            )
    x, n_iter = latest
    if not np.isfinite(x).all():
        raise NonFiniteError("L-BFGS ended with parameters that are not finite: scale the data")
    model.restore_weights(Weights(_on_device(x, model), {}, {}))
    model.progress = model.progress.stepped(n_iter)
    return n_iter, _reported(model, X, y, weight)


def _reported(model: Model, X: Any, y: Any, weight: Any) -> float:
    """Return the objective as it is reported: regression losses as the mean over outputs."""
    trained = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    with no_grad(), active(model.device):
        output = model(X)
        data, penalty = model.terms(output, y, weight, trained)
    return model.per_output(data.item(), output.shape[-1]) + (0.0 if penalty is None else penalty.item())


def _on_device(x: np.ndarray[Any, Any], model: Model) -> Any:
    return to_device(x.astype(model.dtype), model.device)
