"""Scores of a fit, accumulated batch by batch."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from sknet._config import native_core
from sknet._constraints import shown
from sknet._frames import all_finite, are_indices
from sknet._hints import suggestion
from sknet.callbacks._scoring import direction_of, is_scikit_learns
from sknet.compile import native
from sknet.core import Tensor, no_grad
from sknet.device import device_of, namespace, to_device, to_host
from sknet.engine._batches import MOST_KEPT
from sknet.engine._inputs import row_weights
from sknet.exceptions import ShapeError
from sknet.losses import Loss

NARROW = 64  # up to this many classes, a loop over columns is faster than one over rows,
FEW = 250  # but not for so few rows: it is ten calls instead of two


class Score(ABC):
    """A score over rows that are added in batches.

    Attributes
    ----------
    reads_outputs : bool
        Whether `add` has to be called.
    may_wait : bool
        Whether it only reads the arguments of `add`, so that `add` may be called after further training.
        Subclasses do not inherit it.

    Examples
    --------
    >>> import numpy as np
    >>> score = Accuracy()
    >>> score.add(np.array([[0.2], [-1.0]]), np.array([[1.0], [1.0]]), None)
    >>> score.result()
    0.5
    """

    reads_outputs: bool = True
    may_wait: bool = False

    @abstractmethod
    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        """Add some rows: raw outputs of the network, targets as the loss expects them, and weights or None.

        `output` has shape (n_samples, n_outputs), `target` one value or as many for each row, `weight` one.
        Scores that need them get the indices `rows` in the data set.

        Raises
        ------
        ShapeError
            If the shapes do not match; nothing is broadcast.
        """

    def of_epochs(
        self, n_epochs: int, output: Any, target: Any, sizes: Sequence[int] | None = None
    ) -> "list[Score] | None":
        """Return the scores of `n_epochs` epochs of equally many rows, with the options of this empty one.

        `output` and `target` are as for `add`, one epoch after the other; `sizes` are the numbers of rows
        that are added at a time to the score of one epoch, None for all. None means that the rows of each
        epoch must be added to an empty score instead.
        """
        return None

    @abstractmethod
    def result(self) -> float:
        """Return the score of all rows so far; NaN if a prediction was not finite."""

    def results(self) -> dict[str, float]:
        """Return all scores of the rows so far by name; here, ``"score"`` is that of `result`."""
        return {"score": self.result()}

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the accumulated state, as immutable numbers and arrays."""

    @abstractmethod
    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state` of a score of the same rows."""


def may_wait(score: Score) -> bool:
    """Tell whether rows may be added to a score after further training."""
    return "may_wait" in vars(type(score)) and score.may_wait


class Share(Score):
    _right = _all = 0.0
    _finite = True

    def result(self) -> float:
        return self._right / self._all if self._finite and self._all else float("nan")

    def state(self) -> dict[str, Any]:
        return {"right": self._right, "all": self._all, "finite": self._finite}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._right, self._all, self._finite = state["right"], state["all"], state["finite"]


class Accuracy(Share):
    """Weighted share of rows with all labels right.

    A target of the output's shape, or of shape (n_samples,) for a single output, holds 0/1 labels; 1 is
    predicted where the output is above the threshold. A target with one axis less than the output holds
    class numbers; the largest output is the prediction. Each position of a sequence counts as a row.

    Parameters
    ----------
    threshold : float, default=0.0
        The loss's threshold: 0 for logits.
    ignore_index : int or None, default=None
        The loss's `ignore_index`: rows with this class number, or with this label, are ignored.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine import Accuracy
    >>> score = Accuracy()
    >>> score.add(np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([0, 0]), None)
    >>> score.result()
    0.5
    """

    may_wait = True

    def __init__(self, threshold: float = 0.0, ignore_index: int | None = None) -> None:
        self._threshold, self._ignore_index = threshold, ignore_index

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        counted = self._counted(1, output, target) if weight is None else None
        if counted is not None:
            self._right += counted[0]
            self._all += len(output)
            return
        has_class = target.ndim == 1 and output.ndim == 2 and len(target) == len(output)
        if not (has_class and output.shape[1] > 1 and weight is None and type(target) is np.ndarray):
            output, target, weight = _as_rows(to_host(output), to_host(target), weight)
        self._finite = self._finite and all_finite(output)
        if self._ignore_index is not None:
            counts = (target != self._ignore_index).reshape(len(target), -1).all(axis=1)
            output, target = output[counts], target[counts]
            weight = None if weight is None else weight[counts]
        right = self._is_right(output, target, weight)
        weight = row_weights(weight)
        self._right += float(np.count_nonzero(right) if weight is None else weight[right].sum())
        self._all += float(len(right) if weight is None else weight.sum())

    def _counted(self, n_parts: int, output: Any, target: Any) -> list[int] | None:
        """Return how many rows of each part are right, if they can be counted in one pass and are finite."""
        if self._ignore_index is not None:
            return None
        if not isinstance(output, np.ndarray):
            from sknet.engine._device_runner import counted  # the host does without it

            found = counted(output, target, self._threshold, n_parts)
            if found is None or any(x.outside or x.infinite for x in found):
                return None
            return [x.right for x in found]
        is_class = target.ndim == 1 and output.ndim == 2 and len(target) == len(output)
        if not (is_class and output.shape[1] > 1 and native_core() is not None):
            return None
        return native.right_rows(n_parts, output, target)

    def of_epochs(
        self, n_epochs: int, output: Any, target: Any, sizes: Sequence[int] | None = None
    ) -> "list[Score] | None":
        if self._ignore_index is not None or type(self) is not Accuracy:
            return None
        counts = None if isinstance(output, np.ndarray) else self._counted(n_epochs, output, target)
        if counts is None:
            output, target, _ = _as_rows(to_host(output), to_host(target), None)
            counts = self._counted(n_epochs, output, target)
        if counts is None:
            right = self._is_right(output, target).reshape(n_epochs, -1)
            if not all_finite(output):
                return None
            counts = np.count_nonzero(right, axis=1).tolist()
        n_rows = output.size // (output.shape[-1] if output.ndim > 1 else 1) // n_epochs
        found: list[Score] = []
        for count in counts:
            score = Accuracy(self._threshold)
            score._right, score._all = float(count), float(n_rows)
            found.append(score)
        return found

    def _is_right(self, output: Any, target: Any, weight: Any = None) -> Any:
        """Return a mask of the rows with all labels right that count."""
        if target.ndim == output.ndim:
            right = (output > self._threshold) == (target > 0.5)
            right |= False if weight is None or weight.ndim < 2 else weight == 0
            return right[:, 0] if right.shape[1] == 1 else right.all(axis=1)
        return _is_largest(output, _class_numbers(target, output.shape[1]))


def _as_rows(output: Any, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return output and labels of shape (n_rows, n_outputs), or class numbers (n_rows,), and weights."""
    given = target.shape
    if output.ndim == 1 and target.ndim == 1:
        output, target = output.reshape(-1, 1), target.reshape(-1, 1)
    elif output.ndim > 1 and output.shape[-1] == 1 and target.shape == output.shape[:-1]:
        target = target.reshape(output.shape)  # the label of a single output
    if output.ndim < 2 or (target.shape != output.shape and target.shape != output.shape[:-1]):
        raise ShapeError(
            f"Accuracy got an output of shape {output.shape} and a target of shape {target.shape}; "
            f"the target must be 0/1 labels of shape {output.shape}, or class numbers of shape "
            f"{output.shape[:-1]}. Nothing is broadcast: reshape the target."
        )
    positions = output.shape[:-1]
    if weight is not None and len(positions) > 1 and weight.shape == positions:  # one weight per position
        weight = to_host(weight).reshape(-1)
    elif weight is None or weight.shape != given or len(positions) > 1:  # not one per label
        weight = _weights(weight, len(output), "Accuracy")
        weight = None if weight is None else np.repeat(weight, math.prod(positions[1:]))
    else:
        weight = to_host(weight)
    if output.ndim > 2:
        target = target.reshape((-1, *target.shape[output.ndim - 1 :]))
        output = output.reshape(-1, output.shape[-1])
    return output, target, weight


def _weights(weight: Any, n_rows: int, who: str) -> Any:
    weight = None if weight is None else to_host(weight)
    if weight is not None and weight.shape != (n_rows,):
        raise ShapeError(f"{who} got weights of shape {weight.shape}, expected one per row: {(n_rows,)}")
    return weight


def _class_numbers(target: Any, n_classes: int) -> Any:
    if not are_indices(target, n_classes):
        wrong = target[(target < 0) | (target >= n_classes)][0]
        raise ValueError(f"Accuracy got the class number {wrong}: expected 0 to {n_classes - 1}")
    return target


def _is_largest(output: Any, target: Any) -> Any:
    """Return a mask of the rows whose target is the index of the largest output, the first of equal ones."""
    n_rows, n_classes = output.shape
    if n_rows <= FEW or not 1 < n_classes <= NARROW:
        return output.argmax(axis=1) == target
    # Column by column: argmax over short rows mispredicts nearly every branch.
    columns = np.ascontiguousarray(output.T)
    largest = np.maximum.reduce(columns)
    if np.count_nonzero(columns == largest) != n_rows:  # ties, or values that are not finite
        return output.argmax(axis=1) == target
    places = target.astype(np.intp) * n_rows + np.arange(n_rows)
    return columns.reshape(-1).take(places) == largest


class RSquared(Score):
    """Coefficient of determination, the mean over outputs; scikit-learn's ``r2_score``.

    Parameters
    ----------
    target : array of shape (n_samples,) or (n_samples, n_outputs)
        All targets that will be added: the total variance is computed from them up front, since
        subtracting accumulated sums of squares would lose precision.
    weight : array of shape (n_samples,) or (n_samples, n_outputs), or None
        Weights of rows, or of targets: those without any weight are not scored.
    loss : Loss
        The loss, whose inverse link turns outputs into predictions.

    Raises
    ------
    ShapeError
        If there is not one weight per row.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.engine import RSquared
    >>> from sknet.losses import SquaredError
    >>> target = np.array([1.0, 2.0, 3.0])
    >>> score = RSquared(target, None, SquaredError())
    >>> score.add(target.reshape(-1, 1), target, None)
    >>> score.result()
    1.0
    """

    may_wait = True

    _counted: Any = None  # the columns of targets that are there, where some may be missing

    def __init__(self, target: Any, weight: Any, loss: Loss) -> None:
        self._predict = loss.predict
        weight, target = self._weights(weight, target), _columns(to_host(target))
        if weight is None or weight.ndim == 1:
            mean = np.average(target, axis=0, weights=weight)
        else:
            self._counted = weight.any(axis=0)
            sums = np.where(self._counted, weight.sum(axis=0), 1.0)
            mean = (weight * target).sum(axis=0) / sums
        with np.errstate(over="ignore"):  # a loss that squares targets refuses such in its own words
            self._total = self._sum((target - mean) ** 2, weight)
        self._residual = np.zeros_like(self._total)

    def emptied(self) -> "RSquared":
        """Return an empty score for the same targets."""
        score = copy(self)
        score._residual = np.zeros_like(self._total)
        return score

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        self._add(to_host(self._predict(Tensor(output)).data), to_host(target), weight)

    def of_epochs(
        self, n_epochs: int, output: Any, target: Any, sizes: Sequence[int] | None = None
    ) -> "list[Score] | None":
        if sizes is None:
            if output.size // n_epochs > MOST_KEPT:  # an epoch is added in parts, whose sums have other bits
                return None
            sizes = [len(output) // n_epochs]
        predicted, target = to_host(self._predict(Tensor(output)).data), to_host(target)
        found, start = list[Score](), 0
        for _ in range(n_epochs):
            score = self.emptied()
            for size in sizes:
                part = slice(start, start := start + size)
                score._add(predicted[part], target[part], None)
            found.append(score)
        return found

    def _add(self, predicted: Any, target: Any, weight: Any) -> None:
        columns = [_columns(predicted), _columns(target)]
        if columns[0].shape != columns[1].shape or columns[1].shape[1:] != self._total.shape:
            raise ShapeError(
                f"RSquared got predictions of shape {predicted.shape} and a target of shape {target.shape}, "
                f"but was created for targets with {len(self._total)} column(s); they must agree. Nothing is "
                "broadcast: reshape the target."
            )
        residual = (columns[1] - columns[0]) ** 2
        self._residual += self._sum(residual, self._weights(weight, target))

    @staticmethod
    def _weights(weight: Any, target: Any) -> Any:
        if weight is not None and weight.ndim > 1 and weight.shape == target.shape:
            return _columns(to_host(weight))  # one for each target
        return _weights(weight, len(target), "RSquared")

    @staticmethod
    def _sum(squares: Any, weight: Any) -> Any:
        if weight is None:
            return squares.sum(axis=0)
        return (weight * squares).sum(axis=0) if weight.ndim == 2 else weight.astype(np.float64) @ squares

    def result(self) -> float:
        if not np.isfinite(self._residual).all():
            return float("nan")
        constant = self._total == 0
        ratio = self._residual / np.where(constant, 1.0, self._total)
        # For a constant target, as in scikit-learn: 1 if it is predicted exactly, else 0.
        found = np.where(constant, self._residual == 0, 1.0 - ratio)
        return float(found.mean() if self._counted is None else found.mean(where=self._counted))

    def state(self) -> dict[str, Any]:
        return {"residual": self._residual.copy()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._residual = np.array(state["residual"], dtype=np.float64)


def _columns(array: Any) -> Any:
    array = np.asarray(array, dtype=np.float64)
    return array.reshape(*(array.shape[:1] or (1,)), -1)


class Gathered(Score):
    """Scores computed from the raw outputs of all rows, in whatever batches and order they are added."""

    # A row that comes several times counts as often, with its last output.

    may_wait = False  # but for those that compute nothing: others may look at the model

    def __init__(
        self, n_samples: int, compute: Callable[[Any, Any], Mapping[str, float]], names: Sequence[str]
    ) -> None:
        self._compute, self._names = compute, list(names)
        self.reads_outputs = bool(self._names)
        self.may_wait = not self._names
        self._came = np.zeros(n_samples, dtype=np.int32)
        self._outputs: Any = None

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        if rows is None:
            raise ValueError("Gathered needs the indices of the rows: add(output, target, weight, rows)")
        xp = namespace(output)
        if self._outputs is None:
            self._outputs = xp.empty((len(self._came), *output.shape[1:]), dtype=output.dtype)
        elif device_of(self._outputs) != device_of(output):  # restored on the host
            self._outputs = to_device(self._outputs, device_of(output))
        self._outputs[rows if isinstance(rows, slice) else xp.asarray(rows)] = output
        np.add.at(self._came, rows, 1)

    def result(self) -> float:
        return self.results()[self._names[0]]

    def results(self) -> dict[str, float]:
        rows, outputs = None, self._outputs
        if outputs is not None and (self._came != 1).any():
            rows = np.repeat(np.arange(len(self._came)), self._came)
            outputs = outputs[namespace(outputs).asarray(rows)]
        if outputs is None or not namespace(outputs).isfinite(outputs).all().item():
            return dict.fromkeys(self._names, math.nan)
        return {name: float(value) for name, value in self._compute(outputs, rows).items()}

    def state(self) -> dict[str, Any]:
        outputs = self._outputs
        kept = None if outputs is None else np.array(to_host(outputs)[self._came > 0])
        return {"came": self._came.copy(), "outputs": kept}

    def load_state(self, state: Mapping[str, Any]) -> None:
        self._came = np.array(state["came"], dtype=np.int32)
        outputs, self._outputs = state["outputs"], None
        if outputs is not None:
            whole = np.empty((len(self._came), *outputs.shape[1:]), dtype=outputs.dtype)
            whole[self._came > 0] = outputs
            self._outputs = whole


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
    more = {"sample_weight": weight} if weight is not None and takes_weight(function) else {}
    value = function(target, predicted, **more)
    if np.ndim(value) or not isinstance(value, (int, float, np.generic, np.ndarray)):
        raise TypeError(f"score {name!r} returned {value!r}: a score must return one number")
    return float(value)


def takes_weight(function: Callable[..., Any]) -> bool:
    try:
        return "sample_weight" in signature(function).parameters
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False


def _takes_pairs(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        pass
    return True


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
    if not callable(score) or isinstance(score, type) or is_scikit_learns(score) or not _takes_pairs(score):
        raise TypeError(
            f"score {name!r} of {caller} is {score!r}, expected 'accuracy', 'r2' or a function of (y_true, "
            "y_pred); a scorer of (estimator, X, y) needs an estimator, such as NetClassifier"
        )
    return lambda loss: Collected(partial(_metric, name, score, loss))
