"""One candidate on one fold: its fit, continued from the previous rung, and its scores."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.model_selection._validation import _fit_and_score
from sklearn.pipeline import Pipeline

from sknet.callbacks import FitView
from sknet.callbacks._checkpoint import KeepState, SavedFit
from sknet.estimators._base import BaseNet
from sknet.estimators._fit import SharedInputs, attach_fit_extras
from sknet.optim.schedules import Progress

EPOCHS = "max_iter"
PROBES = 32  # points of a fit at which an optimizer is compared with that of a longer fit


def network_of(estimator: Any, resource: str) -> BaseNet | None:
    """Return the network whose epochs a resource counts, if it is the estimator or its last step."""
    *names, parameter = resource.split("__")
    for name in names:
        if not isinstance(estimator, Pipeline) or estimator.steps[-1][0] != name:
            return None
        estimator = estimator.steps[-1][1]
    return estimator if parameter == EPOCHS and isinstance(estimator, BaseNet) else None


def epochs_of(estimator: Any) -> str | None:
    """Return the name of the parameter that limits the epochs of a network or of a Pipeline's last step."""
    names = []
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        names.append(name)
    return "__".join([*names, EPOCHS]) if isinstance(estimator, BaseNet) else None


class Continuation(KeepState):
    """Keeps the state of a candidate for its next rung, if a longer fit would start in the same way."""

    why_not_ = ""

    def on_fit_begin(self, fit: FitView) -> None:
        super().on_fit_begin(fit)
        optimizer = fit.model.optimizer
        if not optimizer.goes_in_steps:
            self.why_not_ = f"the state of {type(optimizer).__name__} is inside SciPy"
        elif depends_on_length(optimizer, fit.model.progress):
            self.why_not_ = f"{optimizer!r} depends on the total number of epochs from the first one on"

    def on_block_end(self, fit: FitView) -> None:
        if not self.why_not_:
            super().on_block_end(fit)

    def on_fit_end(self, fit: FitView) -> None:
        if not self.why_not_:
            super().on_fit_end(fit)

    def kept(self) -> SavedFit | None:
        """Return the state; None if the candidate has to start again, or its fit failed."""
        return None if self.why_not_ else self.saved_


def depends_on_length(optimizer: Any, progress: Progress) -> bool:
    """Tell whether updates depend on the number of updates of the whole fit."""
    total = progress.total_steps
    if total is None:
        return False
    for number in range(PROBES):
        step = number * total // PROBES
        at = progress._replace(step=step, epoch=number)
        numbers = optimizer.hyper(step + 1, at)
        for other in (None, 2 * total + 1):
            try:
                if optimizer.hyper(step + 1, at._replace(total_steps=other)) != numbers:
                    return True
            except Exception:  # a custom schedule may raise anything if the length is unknown
                return True
    return False


class FirstSteps:
    """The `memory` of a Pipeline for one fold: its transformers, and their outputs."""

    def __init__(self, steps: "list[tuple[Any, Any]] | None" = None) -> None:
        self.known = steps
        self.steps: list[tuple[Any, Any]] = []

    def cache(self, function: Callable[..., Any], **kwargs: Any) -> Callable[..., Any]:
        """Return a function that fits a step, or recalls it; a Pipeline calls it for each step in order."""

        def fitted(*args: Any, **kwargs: Any) -> Any:
            known = self.known
            found = function(*args, **kwargs) if known is None else known[len(self.steps)]
            self.steps.append(found)
            return found

        return fitted

    def kept(self) -> list[tuple[Any, Any]]:
        """Return the fitted steps; of the data, only the last output is needed again."""
        return [(None, fitted) for _, fitted in self.steps[:-1]] + self.steps[-1:]


def share_first_steps(estimator: Any, steps: "list[tuple[Any, Any]] | None") -> FirstSteps | None:
    """Let a Pipeline reuse its fitted steps."""
    if not _has_steps_to_share(estimator):
        return None
    memory = FirstSteps(steps)
    estimator.memory = memory
    return memory


def steps_key(estimator: Any, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the parameters of a candidate that its first steps depend on."""
    if not _has_steps_to_share(estimator):
        return None
    names = [name for name, _ in estimator.steps]
    touched = {name.partition("__")[0] for name in parameters}
    if not touched <= set(names):
        return None
    return {name: value for name, value in parameters.items() if name.partition("__")[0] != names[-1]}


def _has_steps_to_share(estimator: Any) -> bool:
    """Tell whether this is a Pipeline of several steps that the user does not cache."""
    return isinstance(estimator, Pipeline) and len(estimator.steps) > 1 and estimator.memory is None


class FoldTask(NamedTuple):
    parameters: dict[str, Any]
    resource: str | None
    saved: SavedFit | None = None
    steps: "list[tuple[Any, Any]] | None" = None
    shares: bool = False
    inputs: SharedInputs | None = None


class Evaluated(NamedTuple):
    result: dict[str, Any]
    saved: SavedFit | None
    why_not: str
    steps: "list[tuple[Any, Any]] | None"


class AlreadySet(dict[str, Any]):
    """Parameters that an estimator already has: they are named in messages, but not set again."""

    def __sklearn_clone__(self) -> dict[str, Any]:
        return {}


def evaluate(estimator: Any, X: Any, y: Any, task: FoldTask, arguments: Mapping[str, Any]) -> Evaluated:
    """Fit and score a candidate."""
    estimator = estimator.set_params(**clone(task.parameters, safe=False))
    memory = share_first_steps(estimator, task.steps) if task.shares or task.steps else None
    network = None if task.resource is None else network_of(estimator, task.resource)
    continuation = Continuation()
    if network is not None:
        attach_fit_extras(network, continuation, task.saved, inputs=task.inputs)
    elif task.inputs is not None:
        attach_fit_extras(estimator, inputs=task.inputs)
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
