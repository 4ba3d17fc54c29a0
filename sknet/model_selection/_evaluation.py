"""One candidate on one fold: its fit, continued from the previous rung, and its scores."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score

from sknet.callbacks.extend import SavedFit
from sknet.estimators.extend import attach_fit_extras
from sknet.model_selection._first_steps import share_first_steps
from sknet.model_selection._network import Continuation, network_of

__all__ = ["Evaluated", "Task", "evaluate"]


class Task(NamedTuple):
    """The evaluation of a candidate on a fold."""

    parameters: dict[str, Any]
    resource: str | None
    saved: SavedFit | None = None
    steps: "list[tuple[Any, Any]] | None" = None
    shares: bool = False


class Evaluated(NamedTuple):
    """The outcome of a task."""

    result: dict[str, Any]
    saved: SavedFit | None
    why_not: str
    steps: "list[tuple[Any, Any]] | None"


class AlreadySet(dict[str, Any]):
    """Parameters that an estimator already has: they are named in messages, but not set again."""

    def __sklearn_clone__(self) -> dict[str, Any]:
        return {}


def evaluate(estimator: Any, X: Any, y: Any, task: Task, arguments: Mapping[str, Any]) -> Evaluated:
    """Fit and score a candidate."""
    estimator = estimator.set_params(**clone(task.parameters, safe=False))
    memory = share_first_steps(estimator, task.steps) if task.shares or task.steps else None
    network = None if task.resource is None else network_of(estimator, task.resource)
    continuation = Continuation()
    if network is not None:
        attach_fit_extras(network, continuation, task.saved)
    result = _fit_and_score(estimator, X, y, parameters=AlreadySet(task.parameters), **arguments)
    why_not = continuation.why_not_
    if network is None and task.resource is not None:
        why_not = f"{task.resource} is not the number of epochs of a sknet network"
    elif network is not None and getattr(network, "n_members", 1) > 1:
        why_not = "each fit of an ensemble begins anew"
    failed = result["fit_error"] is not None
    return Evaluated(
        result,
        None if failed else continuation.kept(),
        why_not,
        memory.kept() if memory is not None and task.shares and not failed else None,
    )
