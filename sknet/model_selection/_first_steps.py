"""The steps of a Pipeline before its network, fitted once per fold."""

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["FirstSteps", "share_first_steps", "steps_key"]


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
