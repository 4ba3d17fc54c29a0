"""Scores for `Model.fit`: by name, or functions of targets and predictions."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._hints import suggestion
from sknet.callbacks.extend import direction_of
from sknet.core import Tensor, no_grad
from sknet.device import to_host
from sknet.engine.loop._scores import Accuracy, RSquared, Score, may_wait
from sknet.losses import Loss

__all__ = ["NamedScores", "check_scores"]

TAKEN = ("epoch", "loss", "lr", "time")  # columns of a history other than scores
Compute = Callable[[Any, Any, Any], Any]


class NamedScores(Score):
    """Several scores by name, of the same rows."""

    may_wait = False  # but for those whose scores all may

    def __init__(self, scores: Mapping[str, Score]) -> None:
        self._scores = dict(scores)
        self.may_wait = all(map(may_wait, self._scores.values()))
        self.reads_outputs = any(score.reads_outputs for score in self._scores.values())

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        for score in self._scores.values():
            score.add(output, target, weight, rows)

    def result(self) -> float:
        return next(iter(self.results().values()), math.nan)

    def results(self) -> dict[str, float]:
        return {name: score.result() for name, score in self._scores.items()}

    def state(self) -> dict[str, Any]:
        return {name: score.state() for name, score in self._scores.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        for name, score in self._scores.items():
            score.load_state(state[name])


class Collected(Score):
    """A score computed from all rows at once: outputs, targets and weights are kept until then."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute
        self._parts: list[tuple[Any, Any, Any]] = []

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        weight = None if weight is None else np.array(to_host(weight))
        self._parts.append((np.array(to_host(output)), np.array(to_host(target)), weight))

    def _joined(self) -> tuple[Any, ...]:
        if len(self._parts) > 1:
            outputs, targets, weights = zip(*self._parts, strict=True)
            weight = None if weights[0] is None else np.concatenate(weights)
            self._parts = [(np.concatenate(outputs), np.concatenate(targets), weight)]
        return self._parts[0]

    def result(self) -> float:
        if not self._parts or not np.isfinite(self._joined()[0]).all():
            return math.nan
        return float(self._compute(*self._joined()))

    def state(self) -> dict[str, Any]:
        if not self._parts:
            return {}
        return dict(zip(("outputs", "targets", "weights"), self._joined(), strict=True))

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._parts = [(state["outputs"], state["targets"], state["weights"])] if state else []


def _r2(loss: Loss, output: Any, target: Any, weight: Any) -> float:
    score = RSquared(target, weight, loss)
    score.add(output, target, weight)
    return score.result()


def _metric(
    name: str, function: Callable[..., Any], loss: Loss, output: Any, target: Any, weight: Any
) -> float:
    with no_grad():
        predicted = to_host(loss.predict(Tensor(output)).data)
    if predicted.shape != target.shape and predicted.size == target.size:
        predicted = predicted.reshape(target.shape)  # a single output
    more = {"sample_weight": weight} if weight is not None and _takes_weight(function) else {}
    value = function(target, predicted, **more)
    if np.ndim(value) or not isinstance(value, (int, float, np.generic, np.ndarray)):
        raise TypeError(f"score {name!r} returned {value!r}: a score must return one number")
    return float(value)


def _takes_weight(function: Callable[..., Any]) -> bool:
    try:
        return "sample_weight" in signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False


SCORES: dict[str, Callable[[Loss], Score]] = {
    "accuracy": lambda loss: Accuracy(loss.threshold, getattr(loss, "ignore_index", None)),
    "r2": lambda loss: Collected(partial(_r2, loss)),
}


def check_scores(scores: Any, caller: str) -> "tuple[Callable[[Loss], NamedScores], dict[str, bool | None]]":
    """Return a factory of the scores that a user asks for, and whether higher is better."""
    if scores is None:
        given = []
    elif isinstance(scores, Mapping):
        given = list(scores.items())
    else:
        several = scores if isinstance(scores, (list, tuple)) else [scores]
        given = [(getattr(each, "__name__", None) or each, each) for each in several]
    made: dict[str, Callable[[Loss], Score]] = {}
    directions: dict[str, bool | None] = {}
    for name, score in given:
        _check_name(name, made, caller)
        made[name] = _maker(name, score, caller)
        directions[name] = True if isinstance(score, str) else direction_of(score)
    return lambda loss: NamedScores({name: make(loss) for name, make in made.items()}), directions


def _check_name(name: Any, before: Mapping[str, Any], caller: str) -> None:
    if not isinstance(name, str):
        raise TypeError(
            f"The 'scores' parameter of {caller} must be 'accuracy', 'r2', a function of (y_true, y_pred), "
            f"or a list or dict of them. Got {shown(name)} instead: give a dict, {{name: function}}."
        )
    if name in TAKEN or name.startswith("validation_") or name in before:
        raise ValueError(
            f"a score of {caller} cannot be named {name!r}, which is another column of the history: pass a "
            "dict, {name: score}"
        )


def _maker(name: str, score: Any, caller: str) -> Callable[[Loss], Score]:
    if isinstance(score, str):
        if score not in SCORES:
            raise ValueError(
                f"The 'scores' parameter of {caller} "
                f"got {shown(score)}, expected one of {sorted(SCORES)} or a "
                f"function of (y_true, y_pred){suggestion(score, SCORES)}"
            )
        return SCORES[score]
    if not callable(score) or isinstance(score, type) or hasattr(score, "_sign"):
        raise TypeError(
            f"score {name!r} of {caller} is {score!r}, expected 'accuracy', 'r2' or a function of (y_true, "
            "y_pred); a scorer of (estimator, X, y) needs an estimator, such as NetClassifier"
        )
    return lambda loss: Collected(partial(_metric, name, score, loss))
