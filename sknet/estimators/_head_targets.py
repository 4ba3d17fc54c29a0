"""Targets of networks with several heads: classes and real numbers by name, side by side in one table."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._constraints import shown
from sknet._fields import POSITIVE, Each, Items, Named
from sknet._frames import all_finite, as_array, gaps_in, is_arrow, is_frame, names_of
from sknet._hints import suggestion
from sknet._params import StrOptions
from sknet.core import Tensor
from sknet.device import to_host
from sknet.engine import Batches, Score
from sknet.engine._network import Head
from sknet.engine._scores import NamedScores
from sknet.estimators._inputs import dense_targets, on_host
from sknet.estimators._targets import (
    ClassEncoder,
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    RealTargets,
    drawn_weight,
    kind_of_labels,
)
from sknet.losses import Loss
from sknet.losses._wrappers import Averaged, Heads, mean_of, side_by_side, slices, split_columns

MOST_CLASSES = 1 << 24  # whose numbers float32 holds


def as_heads(
    y: Any, names: Sequence[str], caller: str, of_fit: Mapping[str, str] | None = None
) -> tuple[dict[str, Any], str, dict[str, str]]:
    """Return the targets of each head, what kind of container they were in, and the heads of its columns."""
    # A head's columns are in the order that they had in the fit, given the heads of its columns.
    expects = f"{caller} has losses for the heads {list(names)}"
    if isinstance(y, Mapping) and not hasattr(y, "tocsr"):
        _check_names(list(y), names, f"{expects}, and y is a dict of {list(y)}")
        return {name: y[name] for name in names}, "dict", {}
    if is_frame(y):
        columns = names_of(y)
        of_column = {each: head_of(each, names) for each in columns}
        found_names = [head or each for each, head in of_column.items()]
        _check_names(found_names, names, f"{expects}, and y is a frame of {columns}")
        found = {}
        for name in names:
            own = in_order([each for each in columns if of_column[each] == name], name, of_fit)
            parts = [as_array(y[each]) for each in own]
            found[name] = parts[0] if len(parts) == 1 else np.stack(parts, axis=1)
        heads = {str(each): str(head) for each, head in of_column.items()}
        return found, "pandas" if hasattr(y, "iloc") else "pyarrow" if is_arrow(y) else "polars", heads
    if len(names) > 1:
        raise ValueError(f"{expects}: y must be a dict of arrays or a frame with these names, got {shown(y)}")
    return {names[0]: y}, "array", {}


def in_order(columns: list[Any], head: str, of_fit: Mapping[str, str] | None) -> list[Any]:
    known = [column for column, name in (of_fit or {}).items() if name == head]
    if len(known) < 2 or columns == [head]:
        return columns
    by_name = {str(each): each for each in columns}
    if by_name.keys() != set(known):
        raise ValueError(f"the head {head!r} was fitted with the columns {known}, got {list(by_name)}")
    return [by_name[name] for name in known]


def head_of(column: Any, names: Sequence[str]) -> str | None:
    """Return the head of a frame's column, which has its name, or begins with it as in ``box__0``."""
    if column in names:
        return str(column)
    first = str(column).partition("__")[0]
    return first if first in names else None


def _check_names(found: Sequence[Any], names: Sequence[str], said: str) -> None:
    missing = [name for name in names if name not in found]
    unknown = [each for each in found if each not in names]
    if missing:
        hint = suggestion(missing[0], [str(each) for each in unknown])
        raise ValueError(f"{said}: {missing[0]!r} is missing{hint}")
    if unknown:
        raise ValueError(
            f"{said}: there is no loss for {unknown[0]!r}{suggestion(str(unknown[0]), names)} Leave it out, "
            "or give it a loss"
        )


def has_classes(predictor: Any) -> bool:
    """Return whether a head predicts probabilities of classes; for ``available_if``."""
    loss = predictor._loss
    if loss is not None and not loss.has_probabilities:
        raise AttributeError(f"{type(predictor).__name__} has no head with probabilities of classes")
    return True


def _without_missing(y: Any, head: str) -> tuple[Any, Any]:
    """Return targets with a known one instead of those that are missing, and a mask of these."""
    gone = gaps_in(y)
    if not gone.any():
        return (np.array(y.tolist()) if y.dtype == object and y.size else y), gone
    if gone.all():
        raise ValueError(f"every target of the head {head!r} is missing: there is nothing to learn")
    known = y[~gone]
    known = np.array(known.tolist()) if known.dtype == object else known
    found = np.empty(y.shape, known.dtype)
    found[~gone], found[gone] = known, known[0]
    return found, gone


def of_kind(y: Any, loss: Loss, classes: Any = None) -> Any:
    """Return new targets of a head, of the kind that its loss learns."""
    if "regression" in loss.tasks:
        return RealTargets(y, loss.columns_per_target)
    if "ordinal" in loss.tasks:
        return OrderedTargets(y, classes, getattr(loss, "order", None))
    if np.ndim(y) == 2 and kind_of_labels(y) == "multiclass-multioutput":
        return ColumnTargets(y, classes)
    return ClassTargets(y, classes)


def _of_one(loss: Any) -> Heads:
    """Return the losses of heads, of an ensemble those of its first member."""
    return next(iter(getattr(loss, "losses", [loss])))


@dataclass(frozen=True)
class _Links:
    """Links of heads, applied to the outputs of each, side by side."""

    links: tuple[Head | None, ...]
    widths: tuple[int, ...]

    def __call__(self, output: Tensor) -> Tensor:
        found = zip(self.links, split_columns(output, self.widths), strict=True)
        return side_by_side([part if link is None else link(part) for link, part in found])


@dataclass(frozen=True)
class _MeanOf:
    """The mean over the members of an ensemble of what links make of their outputs."""

    links: tuple[Head, ...]

    def __call__(self, output: Tensor) -> Tensor:
        count = len(self.links)
        parts = split_columns(output, [output.shape[-1] // count] * count)
        return mean_of([link(part) for link, part in zip(self.links, parts, strict=True)])


class HeadTargets(RealTargets):
    """Targets of several heads: a table of class numbers and real numbers, and what they were given in."""

    task = "heads"
    are_predicted = True
    _stored_fields = {
        "heads": Items(str, Named("ClassEncoder", "RealTargets")),
        "columns": Items(str, POSITIVE),
        "numbered": Each((tuple,), str),
        "shifts": Items(str, bool),
        "container": StrOptions({"dict", "array", "pandas", "polars", "pyarrow"}),
        "frame": Items(str, str),
        "n_outputs": POSITIVE,
        "n_columns": POSITIVE,
        "outputs": Items(str, POSITIVE),
    }

    def _check_stored(self) -> None:
        names = list(self.heads)
        if not names or any(list(each) != names for each in (self.columns, self.outputs)):
            raise ValueError("it must have a number of columns and of outputs for each head")
        totals = sum(self.outputs.values()), sum(self.columns.values())
        if totals != (self.n_outputs, self.n_columns):
            raise ValueError(
                f"{totals} outputs and columns of heads are not {self.n_outputs, self.n_columns}"
            )
        if not {*self.numbered, *self.shifts, *self.frame.values()} <= {*names}:
            raise ValueError("it describes heads that it does not have")

    def __init__(self, y: Any, loss: Heads, standardized: bool, classes: Any, caller: str) -> None:
        found, self.container, self.frame = as_heads(y, list(loss.heads), caller)
        self.heads: dict[str, Any] = {}
        self.columns: dict[str, int] = {}
        self.outputs: dict[str, int] = {}
        numbered, self.shifts = [], {}
        for name, part in found.items():
            own, known = loss.heads[name], _without_missing(host_array(part, name), name)[0]
            with naming_head(name):
                targets = of_kind(known, own, None if classes is None else classes.get(name))
                encoded = targets.encode(known)
            if not isinstance(targets, RealTargets):
                _check_number(targets, name)
            elif standardized and own.scaling is not None:
                self.shifts[name] = own.scaling.shifts
            if encoded.ndim == 1:
                numbered.append(name)
            self.heads[name], self.columns[name] = targets, 1 if encoded.ndim == 1 else encoded.shape[1]
            self.outputs[name] = targets.n_outputs * own.outputs_per_target
        self.numbered = tuple(numbered)
        self.n_outputs, self.n_columns = sum(self.outputs.values()), sum(self.columns.values())

    @property
    def classes(self) -> dict[str, Any]:
        return {name: each.classes for name, each in self.heads.items() if isinstance(each, ClassEncoder)}

    @property
    def labels(self) -> dict[str, Any]:
        """The labels that numbers of each head count, of those that have some."""
        found = {name: self.heads[name].labels for name in self.classes}
        return {name: labels for name, labels in found.items() if labels is not None}

    def read(self, y: Any, caller: str) -> Any:
        """Return targets as a table of numbers, NaN where one is missing."""
        columns = []
        given = as_heads(y, list(self.heads), caller, self.frame)[0]
        for name, targets in self.heads.items():
            known, gone = _without_missing(host_array(given[name], name), name)
            with naming_head(name):
                if isinstance(targets, RealTargets):
                    found = _real(known).reshape(len(known), -1)
                    if found.shape[1] != self.columns[name]:
                        raise ValueError(f"expected {self.columns[name]} column(s), got {found.shape[1]}")
                else:
                    found = targets.encode(known)
            found = np.array(found, np.float64).reshape(len(found), -1)
            found[gone.reshape(len(found), -1)] = np.nan
            columns.append(found)
        counts = {name: len(each) for name, each in zip(self.heads, columns, strict=True)}
        if len(set(counts.values())) > 1:
            raise ValueError(f"the heads of y must have one target a row each, got numbers of rows {counts}")
        table = np.concatenate(columns, axis=1)
        return table[:, 0] if table.shape[1] == 1 else table

    def part(self, table: Any, name: str) -> Any:
        return slices(table.reshape(len(table), -1), self.columns)[name]

    def strata(self, table: Any) -> Any:
        """Return a number for each combination of labels, of heads with one label a row; None without any."""
        labels = [self.part(table, name) for name in self.classes if self.columns[name] == 1]
        if not labels:
            return None
        known = np.nan_to_num(np.concatenate(labels, axis=1), nan=-1.0)
        return np.unique(known, axis=0, return_inverse=True)[1].ravel()

    def given(self, table: Any) -> Any:
        """Return targets that `read` has returned as users give them, missing ones as NaN or None."""
        parts = slices(table.reshape(len(table), -1), self.columns)
        return self.contained({name: labels_of(self.heads[name], part) for name, part in parts.items()})

    # -- standardized -------------------------------------------------------------------------------

    @property
    def mean(self) -> Any:
        """Means of the columns, 0 of those that are not standardized; None if none is."""
        return self._of_columns("mean", 0.0)

    @mean.setter
    def mean(self, value: Any) -> None:
        self._set("mean", value)

    @property
    def scale(self) -> Any:
        """Deviations of the columns, 1 of those that are not standardized; None if none is."""
        return self._of_columns("scale", 1.0)

    @scale.setter
    def scale(self, value: Any) -> None:
        self._set("scale", value)

    def _of_columns(self, field: str, other: float) -> Any:
        found = [
            np.full(self.columns[name], other)
            if getattr(each, "scale", None) is None
            else getattr(each, field)
            for name, each in self.heads.items()
        ]
        is_any = any(getattr(each, "scale", None) is not None for each in self.heads.values())
        return np.concatenate(found) if is_any else None

    def _set(self, field: str, value: Any) -> None:
        for name, part in slices(value.reshape(1, -1), self.columns).items():
            if name in self.shifts:
                setattr(self.heads[name], field, part[0])

    def standardize(self, y: Any, weight: Any, *, shifts: bool) -> Self:
        weights = self.weights(weight)
        for name, own in self.shifts.items():
            with naming_head(name):
                self.heads[name].standardize(self.part(y, name), weights[name], shifts=own)
        return self

    def in_units(self, y: Any) -> Any:
        return y

    def scaled_columns(self, y: Any, scaling: Any) -> list[tuple[str, Any, bool]]:
        found = []
        for name, own in self.shifts.items():
            [(_, part, _)] = self.heads[name].scaled_columns(self.part(y, name), scaling)
            found.append((f"y[{name!r}]", part, own))
        return found

    def check_reported(self, loss: Loss) -> None:
        """Accept all: the loss is reported as it is minimized, of standardized targets."""

    # -- losses and scores --------------------------------------------------------------------------

    def trained(self, loss: Any) -> Loss:
        losses = {}
        for name, targets in self.heads.items():
            with naming_head(name):
                losses[name] = targets.trained(loss.heads[name])
        return Heads(losses, loss.weights, self.outputs, self.columns, self.numbered)

    def weights(self, weight: Any) -> dict[str, Any]:
        if weight is None or weight.ndim == 1:
            return dict.fromkeys(self.heads, weight)
        found = slices(weight, self.columns)
        return found | {name: found[name][:, 0] for name in self.numbered}

    def new_score(self, batches: Batches, loss: Any) -> Any:
        y, weight = to_host(batches.y), drawn_weight(batches)
        weight = None if weight is None else to_host(weight)
        return lambda: HeadScore(self, loss, y, weight)

    def scores(self, loss: Any, y: Any, weight: Any) -> dict[str, Score]:
        """Return the empty scores of all heads whose predictions are targets."""
        targets, weights, found = loss.targets(y), self.weights(weight), {}
        for name, each in self.heads.items():
            if not isinstance(each, RealTargets):
                found[name] = each.new_score(loss.heads[name])()
            elif each.are_predicted:
                part: Any = _Rows(targets[name], weights[name])
                found[name] = each.new_score(part, loss.heads[name])()
        return found

    @staticmethod
    def own_score(loss: Any, name: str) -> Any:
        return getattr(_of_one(loss).heads[name], "score", None)

    @staticmethod
    def has_probabilities(loss: Any, name: str) -> bool:
        """Tell whether the loss of a head learns probabilities."""
        return bool(_of_one(loss).heads[name].has_probabilities)

    # -- predictions --------------------------------------------------------------------------------

    def link(self, loss: Any, kind: str) -> Head:
        """Return what makes "labels" or "probabilities" of outputs, those of all heads side by side."""
        if isinstance(loss, Averaged):
            members: Any = loss.losses
            return _MeanOf(tuple(self._links(each, "probabilities") for each in members))
        return self._links(loss, kind)

    def _links(self, loss: Heads, kind: str) -> _Links:
        links: list[Any] = []
        for name, own in loss.heads.items():
            targets = self.heads[name]
            if isinstance(targets, RealTargets):
                links.append(own.predict)
            elif kind == "labels":
                links.append(targets.deciding(own))
            else:
                links.append(targets.probable(own.predict, own) if own.has_probabilities else None)
        return _Links(tuple(links), tuple(self.outputs.values()))

    def results(self, found: Any, loss: Any, kind: str, dtype: Any) -> dict[str, Any]:
        """Return predictions of each head: numbers and labels, or probabilities of those with classes."""
        results = self.numbers(found, loss, kind, dtype)
        for name in self.classes if kind == "labels" else ():
            labels = self.heads[name].labels
            results[name] = results[name] if labels is None else labels[results[name]]
        return results

    def numbers(self, found: Any, loss: Any, kind: str, dtype: Any) -> dict[str, Any]:
        """Return what a link has made of outputs for each head, labels as their numbers."""
        is_ensemble, own = isinstance(loss, Averaged), _of_one(loss)
        probable = is_ensemble or kind == "probabilities"
        widths = {name: self._width(name, own.heads[name], probable) for name in self.heads}
        results = {}
        for name, part in slices(found, widths).items():
            targets, of_head = self.heads[name], own.heads[name]
            if isinstance(targets, RealTargets):
                if kind == "labels":
                    wide = dtype if targets.scale is None else np.result_type(dtype, targets.dtype)
                    results[name] = targets.decode(part.astype(wide))
            elif kind == "probabilities":
                if of_head.has_probabilities:
                    results[name] = targets.per_column(part.astype(dtype))
            elif is_ensemble and of_head.has_probabilities:
                both = isinstance(targets, ClassTargets) and targets.task == "binary"
                results[name] = targets.numbers(part[:, 1:] if both else part, 0.5)
            else:
                results[name] = targets.numbers(part, of_head.threshold)
        return results

    def _width(self, name: str, loss: Loss, probable: bool) -> int:
        """Return how many columns a link makes of a head's outputs."""
        targets = self.heads[name]
        if isinstance(targets, RealTargets):
            return int(targets.n_outputs)
        if isinstance(targets, OrderedTargets):
            count = len(targets.order)
            return count if count > 2 or (probable and loss.has_probabilities) else 1
        binary = isinstance(targets, ClassTargets) and targets.task == "binary"
        return 2 if binary and probable and loss.has_probabilities else int(targets.n_outputs)

    def contained(self, found: Mapping[str, Any], index: Any = None) -> Any:
        """Return results of heads in a container like that of the targets of the fit."""
        if self.container == "array":
            return next(iter(found.values()))
        if self.container == "dict":
            return dict(found)
        columns: dict[str, Any] = {}
        taken = dict.fromkeys(self.heads, 0)
        of_head = list(self.frame.values())
        for column, name in self.frame.items():
            part = found[name]
            if part.ndim == 1:  # of several columns that the loss alone reads there is one prediction
                columns[column if of_head.count(name) == 1 else name] = part
            else:
                columns[column] = part[:, taken[name]]
            taken[name] += 1
        library = import_module(self.container)
        if self.container == "pyarrow":
            return library.table(columns)
        frame: Any = library.DataFrame
        return frame(columns, index=index) if self.container == "pandas" else frame(columns)


class HeadScore(NamedScores):
    """The mean of the scores of heads: accuracies, and R2 of numbers."""

    may_wait = True

    def __init__(self, targets: HeadTargets, loss: Heads, y: Any, weight: Any) -> None:
        self._targets, self._loss = targets, loss
        self._scores = targets.scores(loss, y, weight)

    def add(self, output: Any, target: Any, weight: Any, rows: Any = None) -> None:
        outputs, targets = self._loss.parts(to_host(output)), self._loss.targets(to_host(target))
        weights = self._targets.weights(None if weight is None else to_host(weight))
        for name, score in self._scores.items():
            score.add(outputs[name], targets[name], weights[name])

    def result(self) -> float:
        return float(np.mean([score.result() for score in self._scores.values()]))

    def results(self) -> dict[str, float]:
        return Score.results(self) if self._scores else {}  # no head has a score while it is trained


class _Rows(NamedTuple):
    y: Any
    weight: Any
    shares: None = None  # which the weights have already


@contextmanager
def naming_head(name: str) -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"head {name!r}: {error}") from error


def host_array(y: Any, name: str) -> Any:
    """Return what was given for a head as an array with one or two axes."""
    found = as_array(dense_targets(on_host(y)))
    found = found.reshape(-1) if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim not in (1, 2) or not found.size:
        raise ValueError(
            f"the targets of the head {name!r} must have one or two axes, a row for each sample, got shape "
            f"{found.shape}"
        )
    return found


def _real(y: Any) -> Any:
    """Return the targets of a regression as finite numbers."""
    if y.dtype.kind == "c":
        raise ValueError("Complex data not supported")
    if y.dtype.kind not in "biuf":
        raise ValueError(f"a regression needs numbers, got targets of dtype {y.dtype}: such as {shown(y[0])}")
    if not all_finite(y):
        raise ValueError("targets must be finite, got infinity")
    return y


def _check_number(targets: ClassEncoder, name: str) -> None:
    counts = targets.n_classes if isinstance(targets, ColumnTargets) else [len(targets.classes)]
    if max(counts) > MOST_CLASSES:
        raise ValueError(f"the head {name!r} has {max(counts)} classes, and there may be {MOST_CLASSES}")


def labels_of(targets: Any, numbers: Any) -> Any:
    """Return targets of a head as users give them, from the columns that hold their numbers."""
    if isinstance(targets, RealTargets):
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers
    gone = np.isnan(numbers)
    places = np.where(gone, 0, numbers).astype(np.int64)
    if isinstance(targets, ColumnTargets):
        found = np.stack([known[k] for known, k in zip(targets.classes, places.T, strict=True)], axis=1)
    elif targets.task == "multilabel":
        found = places
    else:
        order = targets.order if isinstance(targets, OrderedTargets) else targets.classes
        found, gone = order[places[:, 0]], gone[:, 0]
    if gone.any():
        found = found.astype(object)
        found[gone] = None
    return found
