"""Targets: what a user calls them, encoded for the loss, and what outputs mean, decoded.

An encoder is made of the targets of a first fit, and serves those that continue it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar, Literal, Self

import numpy as np

from sknet import nn, ops
from sknet._constraints import StrOptions, shown
from sknet._fields import ABSENT, COUNT, LEVEL, POSITIVE, Arrays, Each, Named
from sknet._frames import all_finite, are_indices, is_gap
from sknet.core import Tensor, as_tensor, no_grad
from sknet.device import to_host
from sknet.engine import Accuracy, Batches, RSquared, Score
from sknet.engine._inputs import row_weights
from sknet.engine._network import Head
from sknet.engine._scores import Share
from sknet.estimators._scaling import Units
from sknet.exceptions import ShapeError
from sknet.losses import Loss
from sknet.losses._wrappers import (
    Averaged,
    Columns,
    InUnits,
    Standardized,
    WithOffset,
    has_offset,
    row_of,
    without_offset,
)

LABELS = Arrays("biufOUSMm", "n_classes")
ONE_TYPE = "the labels of y must be of one type"


@contextmanager
def naming_labels(y: Any) -> Iterator[None]:
    """Raise errors of targets whose labels are of several types, missing or boxed, with these."""
    try:
        with np.errstate(invalid="ignore"):  # scikit-learn casts labels to integers
            yield
    except (TypeError, ValueError) as error:
        labels = np.asarray(y) if hasattr(y, "dtype") else np.empty(0)
        known: dict[str, Any] = {}
        for each in labels.reshape(-1) if labels.dtype == object else ():
            label = each.item() if isinstance(each, np.generic) else each
            known.setdefault("missing" if is_gap(label) else type(label).__name__, label)
        if (known.keys() <= {"str", "missing"} and len(known) < 2) or ONE_TYPE in str(error):
            raise
        found = ", ".join(f"{shown(label)} ({kind})" for kind, label in known.items())
        kind = TypeError if isinstance(error, TypeError) else ValueError
        if len(known) < 2:
            to = next(iter(known)) if known.keys() <= {"int", "float", "bool"} else "str"
            told = f"y has the dtype object, for {found}: convert it, as by y.astype({to}). {error}"
            raise kind(told) from error
        raise kind(
            f"{ONE_TYPE}, without missing ones, got {found}: convert them, as by y.astype(str), and leave "
            f"rows without a label out. {error}"
        ) from error


def unique_labels(*y: Any) -> Any:
    from sklearn.utils import multiclass

    with naming_labels(y[0]):
        return multiclass.unique_labels(*y)


def check_labels(y: Any) -> None:
    from sklearn.utils import multiclass

    with naming_labels(y):
        multiclass.check_classification_targets(y)


def kind_of_labels(y: Any) -> str:
    """Return what scikit-learn calls a kind of targets, such as "multiclass"."""
    from sklearn.utils import multiclass

    with naming_labels(y):
        found = str(multiclass.type_of_target(y, input_name="y"))
    has_labels = found == "multilabel-indicator" and not hasattr(y, "tocsr") and not np.isin(y, (0, 1)).all()
    return "multiclass-multioutput" if has_labels else found


def check_classes(classes: Any) -> None:
    """Raise a ValueError unless labels are sorted, and each is there once."""
    if not len(classes) or not all(LEVEL.is_satisfied_by(label) for label in classes):
        raise ValueError("there are no classes, or some are no labels")
    if not bool(np.all(classes[:-1] < classes[1:])):
        raise ValueError("the classes are not sorted, or one is there twice")


def tempered(link: Head, loss: Any, temperature: Any) -> Head:
    """Return a link of calibrated outputs."""
    return link if temperature is None else Tempered(link, loss.tempered, temperature)


@dataclass(frozen=True)
class Tempered:
    """A link of outputs divided by a temperature, to which an offset is added as it is."""

    link: Head
    tempered: Callable[[Tensor, Any], Tensor]
    temperature: Any

    def __call__(self, output: Tensor) -> Tensor:
        return self.link(self.tempered(output, self.temperature))


def _decided(head: Head | None, loss: Any, temperature: Any) -> Head | None:
    """Return the head of decisions, with calibrated outputs where the temperature changes decisions."""
    if temperature is None or not (isinstance(loss, Averaged) or has_offset(loss)):
        return head
    return tempered(head or as_tensor, loss, temperature)


IGNORED = -1  # the number of a label that is ignored, of which no class has it


def by_labels(loss: Loss, classes: Any, ignored: int | None = None) -> Loss:
    """Return a loss whose `class_weight` and `ignore_index` are by the numbers of classes."""
    changed: dict[str, Any] = {}
    if getattr(loss, "ignore_index", None) is not None:
        changed["ignore_index"] = ignored
    weights = getattr(loss, "class_weight", None)
    if isinstance(weights, Mapping):
        changed["class_weight"] = label_weights(weights, classes, f"{type(loss).__name__}: ")
    return type(loss)(**{**loss.get_params(deep=False), **changed}) if changed else loss


def label_weights(weights: Mapping[Any, Any], classes: Any, of: str = "") -> list[Any]:
    labels, found = classes.tolist(), [1.0] * len(classes)
    # A date of NumPy has another hash than that of Python, which `tolist` returns.
    numbers = {label: k for same in (labels, classes) for k, label in enumerate(same)}
    for label, weight in weights.items():
        if label not in numbers:
            raise ValueError(
                f"{of}class_weight names {shown(label)}, which is not among the labels {shown(labels)}: its "
                "keys are labels"
            )
        found[numbers[label]] = weight
    return found


def check_columns(loss: Loss) -> None:
    """Raise a ValueError if a loss names labels, for several columns of labels, each with its own."""
    refuse_ignored(loss, "for several columns of labels")
    if isinstance(getattr(loss, "class_weight", None), Mapping):
        raise ValueError(
            f"{loss!r}: class_weight by labels is of one column of them, and y has several: give the "
            "estimator class_weight=[{label: weight}, ...], one dict for each column"
        )


def refuse_ignored(loss: Loss, what: str) -> None:
    ignored = getattr(loss, "ignore_index", None)
    if ignored is not None:
        raise ValueError(
            f"{loss!r}: ignore_index is not supported {what}. Leave rows with the label {ignored} out of the "
            "fit, and set ignore_index=None"
        )


def counted_labels(y: Any, ignored: Any) -> Any:
    y = np.asarray(y)
    if ignored is None or y.dtype.kind not in "biufO":
        return np.ones(y.shape, bool)
    return np.asarray(y != ignored, bool)


class ClassEncoder(ABC):
    """Abstract base: labels as numbers for a loss and labels and probabilities from a network's output."""

    conformity: Any = None
    _stored_fields: ClassVar[dict[str, Any]] = {
        "conformity": [Arrays("f", "n_calibrated"), None, ABSENT],
    }
    task: str
    classes: Any
    n_outputs: int

    @abstractmethod
    def encode(self, y: Any) -> Any:
        """Encode labels as the loss expects them."""

    @abstractmethod
    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        """Return the indices in `labels` of the labels that decisions stand for."""

    @property
    def labels(self) -> Any:
        """Labels that `numbers` count: the classes, column after column; None if numbers are labels."""
        return self.classes

    def decode(self, decision: Any, threshold: float = 0.0) -> Any:
        numbers, labels = self.numbers(decision, threshold), self.labels
        return numbers if labels is None else labels[numbers]

    def trained(self, loss: Loss) -> Loss:
        """Return the loss to train with, for these targets."""
        return loss.for_task(self.task)

    def deciding(self, loss: Loss, temperature: Any = None) -> Head | None:
        """Return the function from outputs to decisions for a `loss`; None where outputs are decisions."""
        head = loss.deciding(self.task) if isinstance(loss, Averaged) else None
        return _decided(head, loss, temperature)

    def probable(self, link: Head, loss: Loss) -> Head:
        """Return a link of the loss, such as its `predict`, with a column for each class."""
        return link

    def decisions(self, decision: Any) -> Any:
        return self.per_column(decision)

    def per_column(self, result: Any) -> Any:
        """Return decisions or probabilities in the form that users get: a list for several columns."""
        return result

    @abstractmethod
    def new_score(self, loss: Loss) -> Callable[[], Score]:
        """Return a function that creates an empty score of training rows, for a `loss`."""

    def unlike(self, classes: Any) -> bool:
        return not np.array_equal(self.classes, unique_labels(classes))

    def found_in(self, y: Any) -> Any:
        """Return the classes that occur in the labels `y`, as `classes` has them."""
        return unique_labels(y)

    def single(self) -> Any:
        """Return a class beside which there is no other, or None."""
        return self.classes.tolist()[0] if len(self.classes) == 1 else None

    def check_several(self, name: str) -> None:
        """Raise a ValueError that names the estimator if there is a class beside which there is no other."""
        single = self.single()
        if single is not None:
            raise ValueError(
                f"{name} needs samples of at least 2 classes in the data, but the data contains only one "
                f"class: {single!r}"
            )


class Agreement(Share):
    """Share of rows for which all predicted classes are the true ones."""

    may_wait = True

    def __init__(self, decide: Callable[[Any], Any]) -> None:
        self._decide = decide

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        output, target = to_host(output), to_host(target)
        self._finite = self._finite and all_finite(output)
        right = self._decide(output) == target
        weight = None if weight is None else to_host(weight)
        if weight is not None and weight.shape == right.shape:
            right |= weight == 0  # missing labels
        right = right.reshape(len(target), -1).all(axis=1)
        weight = np.ones(len(right)) if weight is None else row_weights(weight)
        self._right += float(weight[right].sum())
        self._all += float(weight.sum())


def both_classes(link: Head, threshold: float) -> Head:
    """Return a link with a column for each of two classes, for a network that has one output for both."""
    return lambda output: ops.concat([link(2.0 * threshold - output), link(output)], axis=1)


class ClassTargets(ClassEncoder):
    """The classes of a classification, and their numbers."""

    _stored_fields = {
        "classes": LABELS,
        "task": Literal["binary", "multiclass", "multilabel"],
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        expected = 1 if self.task == "binary" else len(self.classes)
        if self.n_outputs != expected or (len(self.classes) > 2) > (self.task != "binary"):
            raise ValueError(
                f"{len(self.classes)} classes of a {self.task} task have {self.n_outputs} outputs"
            )

    def __init__(self, y: Any, classes: Any = None) -> None:
        known = None if classes is not None else labels_of_numbers(y)
        if known is not None:
            self._of_labels(known)
            return
        check_labels(y)
        kind = kind_of_labels(y)
        if kind == "multiclass-multioutput":
            raise ValueError(
                "Multioutput target data is not supported: expected one label a row, or a 0/1 indicator "
                f"matrix of labels, got y of shape {np.shape(y)} with several classes a column"
            )
        if kind == "multilabel-indicator":
            self.task, self.classes = "multilabel", np.arange(y.shape[1])
        else:
            self._of_labels(unique_labels(y if classes is None else classes))
            return
        self.n_outputs = len(self.classes)

    def _of_labels(self, classes: Any) -> None:
        self.classes = classes
        self.task = "binary" if len(classes) <= 2 else "multiclass"
        self.n_outputs = 1 if self.task == "binary" else len(classes)

    def encode(self, y: Any) -> Any:
        if self.task == "multilabel":
            if np.ndim(y) != 2 or y.shape[1] != self.n_outputs:
                raise ValueError(
                    f"y must be an indicator of {self.n_outputs} labels a row, got shape {np.shape(y)}"
                )
            return np.asarray(y, dtype=np.float64)
        numbers = numbers_of(y, self.classes)
        return numbers.astype(np.float64).reshape(-1, 1) if self.task == "binary" else numbers

    def trained(self, loss: Loss) -> Loss:
        found = super().trained(loss)
        return found if self.task == "multilabel" else by_labels(found, self.classes)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        if self.task == "multilabel":
            return (decision > threshold).astype(np.int64)
        if self.task == "binary":
            positive = (decision[:, 0] > threshold).astype(np.int64)
            return positive * 0 if len(self.classes) == 1 else positive
        return decision.argmax(axis=1)

    @property
    def labels(self) -> Any:
        return None if self.task == "multilabel" else self.classes

    def decisions(self, decision: Any) -> Any:
        return decision[:, 0] if self.task == "binary" else decision

    def probable(self, link: Head, loss: Loss) -> Head:
        return both_classes(link, loss.threshold) if self.task == "binary" else link

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Accuracy(loss.threshold, getattr(loss, "ignore_index", None))


def _is_one_number_a_row(y: Any) -> bool:
    return type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu" and len(y) > 0


def labels_of_numbers(y: Any) -> Any:
    """Return the sorted classes of integers, one a row; None for all else, and where there are very many."""
    if not _is_one_number_a_row(y):
        return None
    classes = np.unique(y)
    return classes if len(classes) <= max(2, len(y) // 4) else None


def numbers_of(y: Any, classes: Any, name: str = "`y`") -> Any:
    """Return the places of labels among sorted classes; raise a ValueError for a label that is none."""
    if _is_one_number_a_row(y) and _is_one_number_a_row(classes):
        if classes.item(0) == 0 and classes.item(-1) == len(classes) - 1 and are_indices(y, len(classes)):
            return y.astype(np.intp)  # the labels are numbers of classes
        places = classes.searchsorted(y)
        if (classes.take(places, mode="clip") == y).all():
            return places
    seen = unique_labels(y)
    if len(np.setdiff1d(seen, classes)):
        raise ValueError(
            f"{name} has classes not in `self.classes_`. `self.classes_` has {classes}. "
            f"{name.strip('`')!r} has {seen}. Name all classes in the first call: "
            "partial_fit(X, y, classes=...)."
        )
    return np.searchsorted(classes, y)


class ColumnTargets(ClassEncoder):
    """The classes of each column of labels, and their numbers."""

    task = "multiclass"
    _stored_fields = {
        "classes": Each(list, LABELS),
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        for column in self.classes:
            check_classes(column)
        if self.n_outputs != sum(map(len, self.classes)):
            raise ValueError(f"columns of {[*map(len, self.classes)]} classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None) -> None:
        check_labels(y)
        if classes is not None and len(classes) != y.shape[1]:
            raise ValueError(
                f"classes must be a list of the classes of each of {y.shape[1]} columns of y, got "
                f"{len(classes)} of them"
            )
        given = y.T if classes is None else classes
        self.classes = [unique_labels(column) for column in given]
        self.n_outputs = sum(self.n_classes)

    @property
    def n_classes(self) -> tuple[int, ...]:
        return tuple(len(classes) for classes in self.classes)

    def encode(self, y: Any) -> Any:
        if np.ndim(y) != 2 or y.shape[1] != len(self.classes):
            raise ValueError(f"y must have {len(self.classes)} columns of labels, got shape {np.shape(y)}")
        columns = [numbers_of(y[:, k], known, f"`y[:, {k}]`") for k, known in enumerate(self.classes)]
        return np.stack(columns, axis=1)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        # A column's numbers go on where those of the column before have ended.
        return self._places(decision) + self._ends[:-1]

    @property
    def labels(self) -> Any:
        return np.concatenate(self.classes)

    def _places(self, decision: Any) -> Any:
        stack = ops.stack if isinstance(decision, Tensor) else np.stack
        return stack([part.argmax(axis=1) for part in self.per_column(decision)], axis=1)

    @property
    def _ends(self) -> Any:
        return np.cumsum([0, *self.n_classes])

    def trained(self, loss: Loss) -> Loss:
        return Columns(loss.for_task(self.task), self.n_classes)

    def per_column(self, result: Any) -> Any:
        return [result[:, start:stop] for start, stop in pairwise(self._ends.tolist())]

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Agreement(self._places)

    def unlike(self, classes: Any) -> bool:
        return len(classes) != len(self.classes) or not all(
            np.array_equal(unique_labels(new), known)
            for new, known in zip(classes, self.classes, strict=True)
        )

    def found_in(self, y: Any) -> Any:
        return [unique_labels(column) for column in y.T]

    def single(self) -> Any:
        """Return a class that is the only one of its column, or None."""
        return next((classes.tolist()[0] for classes in self.classes if len(classes) == 1), None)


def _checked_order(order: Any, labels: Any) -> Any:
    """Return the array of an order that names every label once."""
    try:
        found = np.asarray(order)
        is_once = found.ndim == 1 and len(np.unique(found)) == len(found)
        if is_once and set(labels.tolist()) <= set(found.tolist()):
            return found
    except Exception:  # of objects that have no order, or are no labels
        pass
    raise ValueError(
        f"Ordinal(order={shown(order)}) must name every class once, from the lowest to the highest; the "
        f"labels of y are {labels.tolist()}"
    ) from None


class OrderedTargets(ClassEncoder):
    """Classes from the lowest to the highest, and their numbers in this order."""

    task = "ordinal"
    _stored_fields = {
        "order": LABELS,
        "classes": LABELS,
        "n_outputs": POSITIVE,
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        is_same = len(self.order) == len(self.classes) and bool((np.unique(self.order) == self.classes).all())
        if not is_same or self.n_outputs != max(len(self.order) - 1, 1):
            raise ValueError(f"{len(self.order)} ordered classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None, order: Any = None) -> None:
        check_labels(y)
        if kind_of_labels(y) not in ("binary", "multiclass"):
            raise ValueError(f"loss='ordinal' needs one label a row, got y of shape {np.shape(y)}")
        labels = unique_labels(y if classes is None else classes)
        self.order = labels if order is None else _checked_order(order, labels)
        self.classes = np.unique(self.order)
        self.n_outputs = max(len(self.order) - 1, 1)

    @property
    def _places(self) -> Any:
        """Rank of each of the sorted classes in the given order."""
        return np.argsort(np.searchsorted(self.classes, self.order))

    def encode(self, y: Any) -> Any:
        return self._places[numbers_of(y, self.classes)]

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        if decision.shape[1] == 1:
            return (decision[:, 0] > threshold).astype(np.int64)
        return decision.argmax(axis=1)

    def deciding(self, loss: Any, temperature: Any = None) -> Head | None:
        if len(self.classes) > 2:
            head: Head | None = self.probable(loss.log_predict, loss)
        elif isinstance(loss, Averaged):
            head = _Odds(self.probable(loss.log_predict, loss))
        else:
            head = None if self._is_sorted else ops.negative
        return _decided(head, loss, temperature)

    def decisions(self, decision: Any) -> Any:
        return decision[:, 0] if len(self.classes) == 2 else decision

    def probable(self, link: Head, loss: Any) -> Head:
        places = tuple(self._places.tolist())
        return link if self._is_sorted else lambda output: _columns(link(output), places)

    @property
    def _is_sorted(self) -> bool:
        return bool((self.order == self.classes).all())

    def new_score(self, loss: Any) -> Callable[[], Score]:
        def decide(output: Any) -> Any:
            with no_grad():
                found = loss.log_predict(Tensor(output)).data
            return found.argmax(axis=1)

        return lambda: Agreement(decide)

    def unlike(self, classes: Any) -> bool:
        return bool(len(np.setdiff1d(unique_labels(classes), self.classes)))

    def found_in(self, y: Any) -> Any:
        """Return all classes: an order may have some that do not occur."""
        return self.classes if not self.unlike(y) else unique_labels(y)


@dataclass(frozen=True)
class _Odds:
    """The log odds of the second of two classes, from their log probabilities."""

    log_probable: Head

    def __call__(self, output: Tensor) -> Tensor:
        found = self.log_probable(output)
        return found[:, 1:] - found[:, :1]


def _columns(x: Tensor, places: tuple[int, ...]) -> Tensor:
    return ops.stack([as_tensor(x)[..., place] for place in places], axis=-1)


class PositionTargets(ClassEncoder):
    """One label a row, or one for each position of a sequence, and an output for each class."""

    task = "multiclass"
    have_positions = True
    ignored: int | None = None
    _stored_fields = {
        "classes": LABELS,
        "n_outputs": POSITIVE,
        "ignored": [int, None, ABSENT],
    }

    def _check_stored(self) -> None:
        check_classes(self.classes)
        if self.n_outputs != len(self.classes):
            raise ValueError(f"{len(self.classes)} classes have {self.n_outputs} outputs")

    def __init__(self, y: Any, classes: Any = None, ignored: int | None = None) -> None:
        if ignored is not None:
            self.ignored = int(ignored)
        self.classes = self.found_in(y if classes is None else classes)
        self.n_outputs = len(self.classes)

    def encode(self, y: Any) -> Any:
        flat = np.ravel(y)
        counted = counted_labels(flat, self.ignored)
        if counted.all():
            return numbers_of(flat, self.classes).reshape(np.shape(y))
        found = np.full(flat.shape, IGNORED, np.int64)
        found[counted] = numbers_of(flat[counted], self.classes)
        return found.reshape(np.shape(y))

    def trained(self, loss: Loss) -> Loss:
        return by_labels(super().trained(loss), self.classes, None if self.ignored is None else IGNORED)

    def numbers(self, decision: Any, threshold: float = 0.0) -> Any:
        return decision.argmax(axis=-1)

    def new_score(self, loss: Loss) -> Callable[[], Score]:
        return lambda: Accuracy(loss.threshold, getattr(loss, "ignore_index", None))

    def unlike(self, classes: Any) -> bool:
        return not np.array_equal(self.classes, self.found_in(classes))

    def found_in(self, y: Any) -> Any:
        flat = np.ravel(y)
        return unique_labels(flat[counted_labels(flat, self.ignored)])


NARROW = ("float16", "float32")
# Of an exponent, with some that are left for losses of more than a squared deviation, or of less.
MOST_DIGITS = 960


UNITS: dict[str, Any] = {"units": [Named("Units"), ABSENT]}


class Reconstructed:
    """Targets that may be standardized inputs, which a network returns in the same units."""

    units: Units | None = None
    dtype = "float64"

    def in_units(self, y: Any) -> Any:
        """Return targets in the units that the network reads its inputs in."""
        return y if self.units is None else self.units.scaled(y, np.float64)

    def head(self, loss: Any) -> Any:
        """Return what makes predictions of raw outputs: a link of the `loss`."""
        if self.units is None:
            return loss.predict
        mean, scale = self.units.mean, self.units.scale
        return InUnits(
            loss.predict, tuple(scale.ravel().tolist()), tuple(mean.ravel().tolist()), self.dtype, mean.shape
        )


class RealTargets(Reconstructed):
    """Targets of a regression, in their own units or standardized."""

    task = "regression"
    mean: Any = None
    scale: Any = None
    n_columns: int | None = None
    conformity: Any = None
    _stored_fields = UNITS | {
        "conformity": [Arrays("f", "n_calibrated", "n_outputs"), None, ABSENT],
        "n_outputs": POSITIVE,
        "n_columns": [POSITIVE, None, ABSENT],
        "dtype": [StrOptions({"float16", "float32", "float64"}), ABSENT],
        "mean": [Arrays("f", "n_scales"), ABSENT],
        "scale": [Arrays("f", "n_scales"), ABSENT],
    }

    def _check_stored(self) -> None:
        n_columns = self.n_outputs if self.n_columns is None else self.n_columns
        if self.scale is not None and len(self.scale) != n_columns:
            raise ValueError(f"there are {len(self.scale)} scales for {n_columns} columns")
        self._check_mean()

    def _check_mean(self) -> None:
        if (self.mean is None) != (self.scale is None):
            raise ValueError("targets have a mean and a scale, or neither")

    def __init__(self, y: Any, columns_per_target: int = 1) -> None:
        self.n_outputs = 1 if y.ndim == 1 else y.shape[1]
        if columns_per_target > 1:
            self.read_by_loss(max(1, self.n_outputs // columns_per_target))
        if y.dtype in NARROW:
            self.dtype = str(y.dtype)

    def read_by_loss(self, n_outputs: int) -> None:
        """Let the loss compare all columns with a number of outputs that differs from that of the columns."""
        self.n_outputs, self.n_columns = n_outputs, self.n_outputs

    @property
    def are_predicted(self) -> bool:
        """True if predictions are targets, which a score compares."""
        return self.n_columns is None

    def standardize(self, y: Any, weight: Any, *, shifts: bool) -> Self:
        """Learn mean and scale from the rows of a training."""
        y = np.asarray(y, np.float64)
        weight = None if weight is None else np.abs(weight)
        if weight is not None and weight.ndim == 2 and not weight.any(axis=0).all():
            k = int(np.argmin(weight.any(axis=0)))
            raise ValueError(f"column {k} of y has no target with a weight among the rows to train on")
        _, digits = np.frexp(np.abs(y).max(axis=0))
        with np.errstate(under="ignore"):  # what is too small to count, or in its own units denormal
            y = np.ldexp(y, -digits)  # no square overflows or vanishes, and no bit of others changes
            mean = np.average(y, axis=0, weights=weight)
            squares = (y - mean) ** 2
            scale = np.sqrt(np.average(squares, axis=0, weights=weight)) if shifts else mean
            if not self.are_predicted:  # times: the loss of some far beyond the unit would explode
                scale = np.sqrt(np.average(y**2, axis=0, weights=weight))
            # A deviation that rounding alone can have made is none.
            tiny = len(y) * np.finfo(np.float64).eps * np.abs(mean) if shifts else 0.0
            mean, scale = np.ldexp(mean, digits), np.where(scale > tiny, np.ldexp(scale, digits), 1.0)
        if self.n_columns is not None:
            scale[self.n_outputs :] = 1.0
        self.mean, self.scale = mean if shifts else np.zeros_like(mean), scale
        return self

    def scaled_columns(self, y: Any, scaling: Any) -> list[tuple[str, Any, bool]]:
        """Return targets that are standardized, with their names, and whether they are shifted, too."""
        return [("y", y if self.are_predicted else y[:, : self.n_outputs], scaling.shifts)]

    def check_reported(self, loss: Loss) -> None:
        """Raise a ValueError if a `loss` in the units of the targets is infinite, or 0."""
        scaling = loss.scaling
        if self.scale is None or scaling is None:
            return
        for scale in self.scale.tolist():
            digits = scaling.power * np.log2(scale)
            if abs(digits) > MOST_DIGITS:
                wrong, found = ("smaller", "infinite") if digits > 0 else ("larger", "0")
                raise ValueError(
                    f"y must be {wrong}: its deviation is {scale:.3g}, and {loss!r} in these units, its "
                    f"power of {scaling.power:g}, is {found} in float64. Multiply y by a constant"
                )

    def encode(self, y: Any) -> Any:
        """Return targets of shape (n_samples, n_outputs)."""
        y = y.reshape(-1, 1) if y.ndim == 1 else y
        n_columns = self.n_outputs if self.n_columns is None else self.n_columns
        if y.shape[1] != n_columns:
            raise ValueError(f"y must have {n_columns} column(s) as in the fit before, got {y.shape[1]}")
        return self.in_units(y) if self.scale is None else (y - self.mean) / self.scale

    def trained(self, loss: Loss) -> Loss:
        loss = loss.for_task(self.task)
        if self.scale is None:
            return loss
        n = len(self.scale) if self.n_columns is None else self.n_outputs
        return Standardized(loss, tuple(self.mean[:n].tolist()), tuple(self.scale[:n].tolist()), self.dtype)

    def new_score(self, batches: Batches, loss: Any) -> Callable[[], Score]:
        """Return a function that creates an empty score of the rows of `batches`, by the `loss` of a fit."""
        y = loss.targets_of(to_host(batches.y)) if isinstance(loss, WithOffset) else batches.y
        loss = without_offset(loss)
        loss = loss if self.scale is None else loss.loss  # of standardized predictions, as the targets are
        weight = drawn_weight(batches)
        return RSquared(y, weight, loss).emptied

    def restore(self, prediction: Any) -> Any:
        """Return a `prediction` as a reconstruction, which has all columns."""
        return prediction

    def decode(self, prediction: Any) -> Any:
        """Return a `prediction` without the axis of a single target, which is the last."""
        return prediction.reshape(prediction.shape[:-1]) if self.n_outputs == 1 else prediction


def drawn_weight(batches: Batches) -> Any:
    """Return the weights of rows or targets, multiplied by how often an epoch draws them."""
    weight = batches.weight
    if batches.shares is None:
        return weight
    often = len(batches.shares) * batches.shares
    return often if weight is None else (often * to_host(weight).T).T


class ArrayTargets(RealTargets):
    """Arrays of one shape a row: real numbers, 0/1 labels, or integers that a network gives logits for."""

    are_predicted: ClassVar[bool] = False
    _stored_fields = RealTargets._stored_fields | {
        "_rank": COUNT,
        "_may_be_ids": bool,
        "task": Literal["regression", "multilabel", "multiclass"],
        "n_outputs": COUNT,
    }

    def _check_stored(self) -> None:
        self._check_mean()  # of any number of scales: one is that of all columns

    def __init__(self, y: Any, loss: Loss, may_be_ids: bool = True) -> None:
        self._rank, self._may_be_ids = y.ndim, may_be_ids
        if y.dtype in NARROW:
            self.dtype = str(y.dtype)
        self.task, self.n_outputs = "multilabel", y.shape[-1] if y.ndim < 4 else y.shape[1]
        if "regression" in loss.tasks:
            self.task = "regression"
        elif may_be_ids and y.ndim < 4:
            self.task, self.n_outputs = "multiclass", int(y.max()) + 1

    def meet(self, network: nn.Module, shape: "tuple[int, ...] | None", y: Any) -> None:
        """Take note of the shape of a network's output for one row."""
        if shape is None:
            return
        row = tuple(y.shape[1:])
        if self.task == "multiclass" and shape == row:
            self.task, self.n_outputs = "multilabel", row[-1]  # a logit for each 0 or 1
        elif self.task == "multilabel" and self._may_be_ids and shape[:-1] == row:
            self.task = "multiclass"
        found, has_classes = (shape[:-1], True) if self.task == "multiclass" else (shape, False)
        if found != row:
            also = ", and an axis of logits for the classes" if has_classes else ""
            hint = f"{type(network).__name__} may take input_shape, or have lazy layers"
            if self.task == "regression" and shape[:-1] == row:
                hint = "logits for the classes of integers are learned with loss='log_loss'"
            raise ShapeError(
                f"{type(network).__name__} returns an array of shape {shape} for each row, and what it shall "
                f"return has shape {row}{also}: {hint}"
            )
        if has_classes:
            self.n_outputs = shape[-1]

    def encode(self, y: Any) -> Any:
        if y.ndim != self._rank:
            raise ValueError(f"targets must have {self._rank} axes as in the fit before, got shape {y.shape}")
        if self.task == "multiclass":
            return y.astype(np.int64)
        return self.in_units(y) if self.scale is None else (y - self.mean) / self.scale

    def standardize(self, y: Any, weight: Any, *, shifts: bool) -> Self:
        """Learn one mean and one scale from the rows of a training."""
        if weight is not None:
            weight = np.reshape(weight, weight.shape + (1,) * (y.ndim - weight.ndim))
            weight = np.broadcast_to(weight, y.shape).ravel()
        return super().standardize(y.reshape(-1, 1), weight, shifts=shifts)

    def decode(self, prediction: Any) -> Any:
        return prediction

    @property
    def have_positions(self) -> bool:
        """True if the second axis of outputs counts the steps of sequences."""
        return self.task == "multiclass" or self._rank == 3

    def head(self, loss: Loss) -> Any:
        """Return what makes reconstructions of raw outputs; None for what `restore` makes by itself."""
        return None if self.task == "multiclass" else super().head(loss)

    def restore(self, output: Any) -> Any:
        """Return reconstructions in the form of the targets: of several classes the likeliest."""
        return output.argmax(axis=-1) if self.task == "multiclass" else output


# -- kinds of predictions -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Interval:
    """The bounds between which a share of the targets is expected."""

    predict_interval: Callable[[Tensor, float], Tensor]
    coverage: float

    def __call__(self, output: Tensor) -> Tensor:
        return self.predict_interval(output, self.coverage)


@dataclass(frozen=True)
class Bounds:
    """Predictions between the bounds that the loss has learned, or between those at a distance of 1."""

    # With `times`, conformal bounds: the distances are multiplied by one number for each target.

    loss: Any
    times: tuple[float, ...] | None = None

    def __call__(self, output: Tensor) -> Tensor:
        loss, center = self.loss, self.loss.predict(output)
        if hasattr(loss, "predict_quantiles"):
            low, high = (loss.predict_quantiles(output)[:, k] for k in (0, -1))
        elif loss.outputs_per_target > 1 and hasattr(loss, "predict_interval"):
            low, high = (loss.predict_interval(output, WIDTH)[:, k] for k in (0, 1))
        else:
            low, high = center - 1.0, center + 1.0
        if self.times is None:
            return ops.stack([low, center, high], axis=-2)
        times = row_of(self.times, center)
        return ops.stack([center - times * (center - low), center + times * (high - center)], axis=-2)


WIDTH = 0.8  # coverage of the intervals of a loss that are stretched


def conformal_quantile(conformity: Any, coverage: Any) -> Any:
    """Return the bound that the deviation of another row exceeds with at most the rest of the probability."""
    n = len(conformity)
    rank = math.ceil((n + 1) * _checked_coverage(coverage))
    if rank > n:
        least = math.ceil(float(coverage) / (1.0 - float(coverage)))
        raise ValueError(
            f"coverage={float(coverage):g} needs at least {least} rows to calibrate on, and there were {n}: "
            "hold out more rows, or ask for less"
        )
    return conformity[rank - 1]


def conformal_sets(targets: Any, probable: Any, coverage: Any) -> Any:
    """Return which classes are in the set of each row: those probable enough, and the likeliest one."""
    found = 1.0 - probable <= conformal_quantile(targets.conformity, coverage)
    found[np.arange(len(found)), probable.argmax(axis=1)] = True
    return found


def _checked_coverage(coverage: Any) -> float:
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {shown(coverage)}")
    return float(coverage)


def _interval_head(loss: Any, coverage: Any, targets: Any) -> Head:
    """Return the head that makes bounds of outputs, of shape (n_samples, 2, n_targets)."""
    coverage = _checked_coverage(coverage)
    if targets.conformity is not None:
        return Bounds(loss, tuple(conformal_quantile(targets.conformity, coverage).tolist()))
    return _Interval(loss.predict_interval, coverage)


LINKS = {
    "probabilities": "predict",
    "log_probabilities": "log_predict",
    "means": "predict",
    "deviations": "predict_std",
    "quantiles": "predict_quantiles",
}
DECODER = "decoder"
Prediction = tuple[str, Any, Callable[[Any], Any]]
"""The name of a pass, its head of raw outputs or None, and a function of what the head computes."""


def prediction_of(predictor: Any, kind: str, coverage: Any = None, *, numbered: bool = False) -> Prediction:
    """Return how a fitted predictor makes a kind of prediction; with `numbered`, labels are numbers."""
    loss, targets = predictor._loss, predictor._targets
    if targets.task == "heads":
        result = targets.numbers if numbered else targets.results
        dtype = predictor._dtype if hasattr(predictor, "_dtype") else predictor.model_.dtype
        return kind, targets.link(loss, kind), partial(result, loss=loss, kind=kind, dtype=dtype)
    if kind == "labels":
        result = targets.numbers if numbered else targets.decode
        result = partial(result, threshold=loss.threshold) if loss.threshold else result
        return "decisions", targets.deciding(loss, predictor._temperature), result
    if kind == "decisions":
        return kind, targets.deciding(loss, predictor._temperature), targets.decisions
    if kind == "interval":
        return kind, _interval_head(loss, coverage, targets), targets.decode
    if kind == DECODER:
        return kind, targets.head(loss), targets.restore
    link = getattr(loss, LINKS[kind])
    if targets.task == "regression":
        return kind, link, targets.decode
    return kind, tempered(targets.probable(link, loss), loss, predictor._temperature), targets.per_column
