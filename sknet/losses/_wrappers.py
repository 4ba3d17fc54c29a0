"""Losses made of functions and other losses: of standardized targets, several columns, ensembles."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from itertools import accumulate, pairwise
from numbers import Integral, Real
from operator import attrgetter
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import Taking
from sknet._fields import NOT_NEGATIVE, POSITIVE, Each
from sknet._params import Interval, StrOptions
from sknet.core import Tensor, as_tensor
from sknet.device import to_device
from sknet.exceptions import DtypeError, InvalidParameterError, ShapeError
from sknet.losses._base import Loss, Scaling, _target_shapes, shape_error
from sknet.losses._classification import LogLoss

MOST = 2.0**100


class Wrapping(Loss):
    """Abstract base of losses that compute with another, whose properties they have."""

    loss: Loss

    tasks = property(attrgetter("loss.tasks"))
    mean_over_outputs = property(attrgetter("loss.mean_over_outputs"))
    of_probabilities = property(attrgetter("loss.of_probabilities"))
    has_probabilities = property(attrgetter("loss.has_probabilities"))
    outputs_per_target = property(attrgetter("loss.outputs_per_target"))
    columns_per_target = property(attrgetter("loss.columns_per_target"))

    @property
    def score(self) -> Callable[..., float]:
        """A function of targets and predictions, if the loss inside has one of its own."""
        return _any(self.loss).score

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        return self.loss.of_targets(output, target)

    def for_task(self, task: str) -> Loss:
        super().for_task(task)
        return self


@dataclass(frozen=True)
class InUnits:
    """A method of a loss whose result is multiplied by a scale, and shifted, column by column."""

    head: Callable[..., Tensor]
    scale: tuple[float, ...]
    shift: tuple[float, ...] | None
    dtype: str
    shape: tuple[int, ...] = (-1,)

    def __call__(self, output: Tensor, *args: Any) -> Tensor:
        found = self.head(output, *args)
        # In float32, numbers whose spread is small beside their mean would all be the same.
        x: Tensor = ops.astype(found, np.float64)
        x = x * row_of(self.scale, x, self.shape)
        x = x if self.shift is None else x + row_of(self.shift, x, self.shape)
        return ops.astype(x, np.result_type(found.dtype, self.dtype))


def row_of(numbers: Sequence[float], like: Any, shape: tuple[int, ...] = (-1,)) -> Tensor | float:
    """Return numbers as a row in the dtype and on the device of a tensor; a single one as a float."""
    if len(numbers) == 1:
        return numbers[0]
    like = as_tensor(like)
    return Tensor(to_device(np.asarray(numbers, like.dtype).reshape(shape), like.device))


def check_units(mean: Any, scale: Any) -> None:
    """Raise a ValueError unless there are finite means, and a scale above 0 for each."""
    mean, scale = np.asarray(mean), np.asarray(scale)
    are_numbers = mean.dtype.kind in "fiu" and scale.dtype.kind in "fiu" and mean.ndim == 1
    if not are_numbers or not mean.size or mean.shape != scale.shape:
        raise ValueError("it must have a mean and a scale of each target")
    if not np.isfinite(mean).all() or not (np.isfinite(scale) & (scale > 0)).all():
        raise ValueError("its means must be finite, and its scales finite and above 0")


class Standardized(Wrapping):
    r"""A loss for standardized targets: predictions and reported values are in the original units."""

    _parameter_constraints = {
        "loss": [Loss],
        "mean": ["array-like"],
        "scale": ["array-like"],
        "target_dtype": [StrOptions({"float16", "float32", "float64"})],
    }

    def _check_stored(self) -> None:
        if self.loss.scaling is None:
            raise ValueError("it must have a loss that can be scaled")
        check_units(self.mean, self.scale)

    def __init__(
        self,
        loss: Loss,
        mean: Sequence[float] = (0.0,),
        scale: Sequence[float] = (1.0,),
        target_dtype: str = "float64",
    ) -> None:
        self.loss = loss
        self.mean = mean
        self.scale = scale
        self.target_dtype = target_dtype

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return self.loss.values(output, target)

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return self.loss.counts(output, target)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        self.loss.check_target(y, name=name, n_outputs=n_outputs)

    def predict(self, output: Tensor) -> Tensor:
        return self._in_units("predict")(as_tensor(output))

    @property
    def reporting(self) -> Loss:
        return _OfTargets(self.loss, self.scale)

    @property
    def unit(self) -> float:
        """The value of a loss of 1 in the original units, on average over the columns."""
        return float(np.mean([s**self._scaling.power for s in self.scale]))

    @property
    def shifts(self) -> bool:
        """True if predictions are shifted by the means."""
        return self._scaling.shifts

    @property
    def _scaling(self) -> Scaling:
        scaling = self.loss.scaling
        assert scaling is not None
        return scaling

    def _in_units(self, name: str) -> InUnits:
        shift = tuple(self.mean) if self.shifts and name != "predict_std" else None
        return InUnits(getattr(self.loss, name), tuple(self.scale), shift, self.target_dtype)

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict_std", "predict_quantiles", "predict_interval"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._in_units(name)  # without such a method of the loss inside, an AttributeError too


class _OfTargets(Wrapping):
    """The loss of targets and predictions in their original units, from standardized ones."""

    def __init__(self, loss: Loss, scale: Sequence[float]) -> None:
        self.loss = loss
        self.scale = scale

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        scaling, count = self.loss.scaling, len(self.scale)
        assert scaling is not None
        z, y = as_tensor(output), as_tensor(target)
        factors = [s**scaling.power for s in self.scale]
        # Of targets in extreme units float32 cannot hold the losses.
        is_wide = not all(1 / MOST < factor < MOST for factor in factors)

        def values(z: Tensor, y: Tensor, factor: float) -> Tensor:
            found = self.loss.values(z, y)
            return (ops.astype(found, np.float64) if is_wide else found) * factor

        found: Tensor
        if len(set(factors)) == 1:
            found = values(z, y, factors[0])
        else:
            columns = [values(z[:, k::count], y[:, k : k + 1], factors[k]) for k in range(count)]
            found = sum(columns[1:], columns[0])
        if not scaling.adds_log:
            return found
        seen = y[:, count] if self.loss.columns_per_target > 1 else 1.0  # of times, those of events
        return found + float(np.log(self.scale).sum()) * seen

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        scaling = self.loss.scaling
        assert scaling is not None
        found = ops.astype(self.loss.of_targets(output, target), np.float64)
        found = found * row_of([s**scaling.power for s in self.scale], found)
        return found + row_of(np.log(self.scale).tolist(), found) if scaling.adds_log else found

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return self.loss.counts(output, target)


class WithOffset(Wrapping):
    r"""A loss of outputs to which the last columns of the targets are added."""

    # A prediction is made of an output and an offset by `shifted`, and without an offset as if it were 0.
    # With standardized targets, offsets are divided by `scale` after `center` is subtracted.

    # Loops, devices, validation and resume carry targets; as an input, it would change what X is.
    _parameter_constraints = {
        "loss": [Loss],
        "n_columns": [Interval(Integral, 0, None, closed="left")],
        "center": ["array-like"],
        "scale": ["array-like"],
    }

    def _check_stored(self) -> None:
        check_units(self.center, self.scale)

    def __init__(
        self,
        loss: Loss,
        n_columns: int = 1,
        center: Sequence[float] = (0.0,),
        scale: Sequence[float] = (1.0,),
    ) -> None:
        self.loss = loss
        self.n_columns = n_columns  # of targets; 0 for numbers of classes, one a row
        self.center = center
        self.scale = scale

    def around(self, loss: Loss, center: Any = None, scale: Any = None) -> "WithOffset":
        """Return another loss with offsets in the same units, or in those of its standardized targets."""
        units = {} if center is None else {"center": tuple(center.tolist()), "scale": tuple(scale.tolist())}
        made = type(self)(**{**self.get_params(deep=False), "loss": loss, **units})
        if isinstance(loss, Standardized) and loss.shifts:
            mean = tuple(np.subtract(loss.mean, made.center).tolist())
            made.loss = Standardized(loss.loss, mean, loss.scale, loss.target_dtype)
        return made

    @property
    def reporting(self) -> Loss:
        reporting = self.loss.reporting
        return self if reporting is self.loss else self.around(reporting)

    unit = property(attrgetter("loss.unit"))

    def in_units(self, offset: Any) -> Any:
        """Return what is added to outputs in a training."""
        return (offset - np.asarray(self.center)) / np.asarray(self.scale)

    def joined(self, y: Any, offset: Any) -> Any:
        """Return targets with further columns, the offsets of outputs."""
        return np.concatenate([y.reshape(len(y), -1), self.in_units(offset)], axis=1)

    def targets_of(self, joined: Any) -> Any:
        y = joined[:, : max(self.n_columns, 1)]
        if self.n_columns and not isinstance(self.loss, Columns):
            return y
        y = ops.astype(y, np.int64) if isinstance(y, Tensor) else y.astype(np.int64)
        return y if self.n_columns else y[:, 0]

    def split(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        z, joined, width = as_tensor(output), as_tensor(target), max(self.n_columns, 1)
        if z.ndim != 2 or joined.shape != (z.shape[0], width + z.shape[1]):
            expected = f"(n_samples, {width} and the number of outputs), targets and offsets"
            raise shape_error(self, z.shape, joined.shape, expected=expected)
        return z + ops.astype(joined[:, width:], z.dtype), self.targets_of(joined)

    def shifted(self, output: Tensor, offset: Any) -> Tensor:
        """Return outputs of which predictions are made, for an offset that a user gives."""
        z = as_tensor(output)
        if not isinstance(offset, Tensor):
            offset = Tensor(to_device(np.asarray(offset, z.dtype), z.device))
        return z + ops.astype(offset, z.dtype) / row_of(self.scale, z)

    def uncentered(self, output: Tensor) -> Tensor:
        """Return outputs as `shifted` returns them, of those that `split` returns."""
        shift = np.asarray(self.center) / np.asarray(self.scale)
        if not shift.any():
            return output
        z: Tensor = ops.astype(output, np.float64)
        return z + row_of(shift.tolist(), z)

    @property
    def likelihood(self) -> "WithOffset":
        """The likelihood of the loss inside, of outputs with their offset."""
        return self.around(_any(self.loss).likelihood)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return self.loss.values(*self.split(output, target))

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        return self.loss.of_targets(*self.split(output, target))

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return self.loss.counts(*self.split(output, target))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        self.loss.check_target(self.targets_of(y), name=name, n_outputs=n_outputs)

    def predict(self, output: Tensor) -> Tensor:
        z = as_tensor(output)
        has_mean = getattr(self.loss, "shifts", False)  # of targets without their offset
        return self.loss.predict(z if has_mean or not any(self.center) else z - row_of(self.center, z))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "loss" not in vars(self) or not hasattr(self.loss, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.loss, name)


def without_offset(loss: Loss) -> Loss:
    """Return the loss that offsets are added for, or one without them as it is."""
    return loss.loss if isinstance(loss, WithOffset) else loss


class Columns(Wrapping):
    """The sum of a loss of classes over several columns, each of which has classes of its own."""

    _parameter_constraints = {"loss": [Loss], "n_classes": ["array-like"]}

    def _check_stored(self) -> None:
        if not Each((tuple, list), POSITIVE).is_satisfied_by(self.n_classes) or not self.n_classes:
            raise ValueError(f"it must have the number of classes of each column, got {self.n_classes!r:.80}")

    def __init__(self, loss: Loss, n_classes: Sequence[int]) -> None:
        self.loss = loss
        self.n_classes = n_classes

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        width, count = sum(self.n_classes), len(self.n_classes)
        if z.ndim != 2 or z.shape[1] != width or y.shape != (z.shape[0], count):
            expected = f"(n_samples, {count}), and the output (n_samples, {width})"
            raise shape_error(self, z.shape, y.shape, expected=expected)
        if np.dtype(y.dtype).kind not in "iu":
            raise DtypeError(
                f"Columns got targets of dtype {y.dtype}; they must be integers, the numbers of classes. "
                "Cast them with astype."
            )
        each = self._each(z, y)
        return sum(each[1:], each[0])

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        return ops.stack(self._each(as_tensor(output), as_tensor(target)), axis=1)

    def _each(self, z: Tensor, y: Tensor) -> list[Tensor]:
        return [self.loss.values(part, y[:, k]) for k, part in enumerate(self.parts(z))]

    def parts(self, output: Any) -> list[Any]:
        return split_columns(output, self.n_classes)

    def predict(self, output: Tensor) -> Tensor:
        return self._of_each(self.loss.predict, output)

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of what `predict` returns, accurate also where that is nearly 0."""
        loss: Any = self.loss  # one that is for logits
        return self._of_each(loss.log_predict, output)

    def tempered(self, output: Tensor, temperature: Sequence[float]) -> Tensor:
        z = as_tensor(output)
        return z / row_of(np.repeat(temperature, self.n_classes).tolist(), z)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        for k, count in enumerate(self.n_classes):
            self.loss.check_target(y[:, k], name=f"{name}[:, {k}]", n_outputs=count)

    def _of_each(self, link: Callable[[Tensor], Tensor], output: Tensor) -> Tensor:
        return ops.concat([link(part) for part in self.parts(as_tensor(output))], axis=-1)


class Heads(Loss):
    r"""The weighted sum of the losses of several heads, whose outputs and targets are side by side."""

    tasks = ("heads",)
    _parameter_constraints = {
        "heads": [dict],
        "weights": [dict],
        "outputs": [dict, None],
        "columns": [dict, None],
        "numbered": ["array-like"],
    }

    def _check_stored(self) -> None:
        if not self.heads or not all(isinstance(loss, Loss) for loss in self.heads.values()):
            raise ValueError("it must have a loss for each head")
        counts = [each for each in (self.outputs, self.columns) if each is not None]
        if any(list(each) != list(self.heads) for each in (self.weights, *counts)):
            raise ValueError("it must have a weight and numbers of outputs and of targets for each head")
        if not all(POSITIVE.is_satisfied_by(count) for each in counts for count in each.values()):
            raise ValueError("numbers of outputs and of targets must be positive integers")
        if not all(NOT_NEGATIVE.is_satisfied_by(weight) for weight in self.weights.values()):
            raise ValueError("weights of heads must be numbers of at least 0")
        if not set(self.numbered) <= self.heads.keys():
            raise ValueError("it has numbers of classes for other heads")

    def __init__(
        self,
        heads: Mapping[str, Loss],
        weights: Mapping[str, float],
        outputs: Mapping[str, int] | None = None,
        columns: Mapping[str, int] | None = None,
        numbered: Sequence[str] = (),
    ) -> None:
        self.heads = heads
        self.weights = weights
        self.outputs = outputs
        self.columns = columns
        self.numbered = numbered

    @property
    def has_probabilities(self) -> bool:  # type: ignore[override]
        return any("regression" not in loss.tasks and loss.has_probabilities for loss in self.heads.values())

    @property
    def columns_per_target(self) -> int:  # type: ignore[override]
        """Largest number of columns of y that form one target of a head."""
        return max(loss.columns_per_target for loss in self.heads.values())

    @property
    def scaling(self) -> Scaling | None:
        """The largest dependence of a head's loss on the unit of its targets."""
        found = [loss.scaling for loss in self.heads.values() if loss.scaling is not None]
        return max(found, key=lambda each: each.power) if found else None

    def parts(self, output: Any) -> dict[str, Any]:
        return slices(output, self.outputs or {})

    def targets(self, target: Any) -> dict[str, Any]:
        parts = slices(target, self.columns or {})
        for name, loss in self.heads.items():
            if name in self.numbered or isinstance(loss, Columns):
                parts[name] = parts[name].astype(np.int64)
            if name in self.numbered:
                parts[name] = parts[name][:, 0]
        return parts

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        each = [loss.values(z, y) * weight for loss, weight, z, y in self._each(output, target)]
        return sum(each[1:], each[0])

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        each = []
        for loss, weight, z, y in self._each(output, target):
            is_of_rows = y.ndim == 1 or loss.columns_per_target > 1
            values = loss.values(z, y) if is_of_rows else loss.of_targets(z, y)
            count = (
                y.shape[1] if y.ndim > 1 and is_of_rows else 1
            )  # of columns that are one target, each a share
            column = ops.reshape(values / count, (-1, 1)) if values.ndim == 1 else values
            each.extend([column * weight] * count)
        return ops.concat(each, axis=1)

    def _each(self, output: Tensor, target: Tensor) -> Iterator[tuple[Loss, float, Tensor, Tensor]]:
        z, y = as_tensor(output), as_tensor(target)
        shapes = [(z.shape[0], sum((each or {}).values())) for each in (self.outputs, self.columns)]
        if [z.shape, y.shape] != shapes:
            expected = f"{shapes[1]}, and the output {shapes[0]}"
            raise shape_error(self, z.shape, y.shape, expected=expected)
        outputs, targets = self.parts(z), self.targets(y)
        for name, loss in self.heads.items():
            yield loss, self.weights[name], outputs[name], targets[name]

    def predict(self, output: Tensor) -> Tensor:
        parts = self.parts(as_tensor(output))
        return side_by_side([loss.predict(parts[name]) for name, loss in self.heads.items()])

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        for head, part in self.targets(y).items():
            loss = self.heads[head]
            count = (self.outputs or {})[head] // loss.outputs_per_target
            loss.check_target(part, name=f"{name}[{head!r}]", n_outputs=count)


def slices(x: Any, widths: Mapping[str, int]) -> dict[str, Any]:
    """Return columns of an array or a tensor by name, as many as each name has."""
    return dict(zip(widths, split_columns(x, widths.values()), strict=True))


def split_columns(x: Any, widths: Iterable[int]) -> list[Any]:
    """Return columns of an array or a tensor in parts of some widths."""
    return [x[:, start:stop] for start, stop in pairwise(accumulate(widths, initial=0))]


def side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """Return columns of tensors in the widest of their dtypes."""
    dtype = np.result_type(*[part.dtype for part in parts])
    return ops.concat([ops.astype(part, dtype) for part in parts], axis=-1)


Link = Callable[[Tensor], Tensor]


class Averaged(Wrapping):
    r"""The losses of several networks whose outputs are side by side, and whose predictions are averaged."""

    _parameter_constraints = {"losses": ["array-like"]}

    def _check_stored(self) -> None:
        kinds = {type(each) for each in self.losses}
        if len(kinds) != 1 or not all(isinstance(each, Loss) for each in self.losses):
            raise ValueError("it must have at least one loss, all of one class")

    def __init__(self, losses: Sequence[Loss]) -> None:
        self.losses = losses

    @property
    def loss(self) -> Loss:  # type: ignore[override]
        return self.losses[0]

    @property
    def reporting(self) -> Loss:
        return Averaged([loss.reporting for loss in self.losses])

    def parts(self, output: Any) -> list[Any]:
        z = as_tensor(output)
        width = z.shape[-1] // len(self.losses)
        return [z[..., m * width : (m + 1) * width] for m in range(len(self.losses))]

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        return mean_of(self._each(lambda loss, z: loss.values(z, target), output))

    def of_targets(self, output: Tensor, target: Tensor) -> Tensor:
        return mean_of(self._each(lambda loss, z: loss.of_targets(z, target), output))

    def counts(self, output: Tensor, target: Tensor) -> Tensor | None:
        return self.loss.counts(self.parts(output)[0], target)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        self.loss.check_target(y, name=name, n_outputs=n_outputs)

    # -- predictions ------------------------------------------------------------------------------

    def predict(self, output: Tensor) -> Tensor:
        return self._average("predict", output)

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of what `predict` returns, accurate also where that is nearly 0."""
        logs = ops.stack(self._each(_calling("log_predict"), output), axis=0)
        return ops.logsumexp(logs, axis=0) - math.log(len(self.losses))

    def tempered(self, output: Tensor, temperature: Sequence[Any]) -> Tensor:
        parts = zip(self.losses, self.parts(output), temperature, strict=True)
        return ops.concat([_any(loss).tempered(z, each) for loss, z, each in parts], axis=-1)

    def predict_std(self, output: Tensor) -> Tensor:
        """Return the standard deviation of the mixture of what members predict."""
        means = self._each(_calling("predict"), output)
        mean = mean_of(means)
        variance = mean_of([ops.square(each - mean) for each in means])
        if hasattr(self.loss, "predict_std"):
            own = self._each(_calling("predict_std"), output)
            variance = variance + mean_of([ops.square(each) for each in own])
        return ops.sqrt(variance)

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict_quantiles", "predict_interval") or not hasattr(self.losses[0], name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._average_quantiles if name == "predict_quantiles" else self._average_interval

    def _average_quantiles(self, output: Tensor) -> Tensor:
        return self._average("predict_quantiles", output)

    def _average_interval(self, output: Tensor, coverage: float) -> Tensor:
        return self._average("predict_interval", output, coverage)

    def shifted(self, output: Tensor, offset: Any) -> Tensor:
        """Return outputs of which predictions are made, for an offset that a user gives."""
        return ops.concat(self._each(lambda loss, z: _any(loss).shifted(z, offset), output), axis=-1)

    # -- decisions --------------------------------------------------------------------------------

    def deciding(self, task: str) -> Link:
        """Return what decides between classes, from outputs: as certain as the mean probability is."""
        if not self.loss.has_probabilities or self.loss.of_probabilities:
            return self._mean_output
        return self.log_predict if task == "multiclass" else self._log_odds

    def _log_odds(self, output: Tensor) -> Tensor:
        return self.log_predict(output) - self.log_predict(-as_tensor(output))

    def _mean_output(self, output: Tensor) -> Tensor:
        return mean_of(self.parts(output))

    def _average(self, name: str, output: Tensor, *args: Any) -> Tensor:
        return mean_of(self._each(_calling(name, *args), output))

    def _each(self, function: Callable[[Any, Tensor], Tensor], output: Tensor) -> list[Tensor]:
        return [function(loss, z) for loss, z in zip(self.losses, self.parts(output), strict=True)]


def has_offset(loss: Loss | None) -> bool:
    """Tell whether a network was trained with an offset, or the members of an ensemble."""
    return isinstance(loss.loss if isinstance(loss, Averaged) else loss, WithOffset)


def inside(loss: Loss) -> tuple[Loss, dict[str, str]]:
    """Return the loss inside of those that wrap it in a fit, and what these are for."""
    said = {}
    if isinstance(loss, Averaged):
        said["members"] = str(len(loss.losses))
        loss = loss.loss
    if isinstance(loss, WithOffset):
        said["offset"] = "added to the outputs"
        loss = loss.loss
    if isinstance(loss, Standardized):
        said["targets"] = "standardized by the training rows" if loss.shifts else "divided by their mean"
        loss = loss.loss
    return loss, said


def _any(loss: Any) -> Any:
    return loss


def _calling(name: str, *args: Any) -> Callable[[Any, Tensor], Tensor]:
    def call(loss: Any, z: Tensor) -> Tensor:
        return getattr(loss, name)(z, *args)

    return call


def mean_of(each: Sequence[Tensor]) -> Tensor:
    """Return a mean as NumPy's over the first axis: one after the other is added."""
    total = each[0]
    for x in each[1:]:
        total = total + x
    return total / float(len(each))


class FrozenLoss(Loss):
    """Links of a loss, as graphs: what a predictor needs of it where the loss's class does not exist."""

    _parameter_constraints = {
        "name": [str],
        "tasks": [list],
        "heads": [dict],
        "n_outputs": [Interval(Integral, 1, None, closed="left")],
        "middle": [Interval(Real, None, None, closed="neither")],
        "has_probabilities": ["boolean"],
        "of_probabilities": ["boolean"],
        "base": [Loss, None],
        "scales": [list, None],
    }

    def __init__(
        self,
        name: str,
        tasks: Sequence[str],
        heads: Mapping[str, Any],
        n_outputs: int = 1,
        middle: float = 0.0,
        has_probabilities: bool = True,
        of_probabilities: bool = False,
        base: Loss | None = None,
        scales: Sequence[Any] | None = None,
    ) -> None:
        self.name = name
        self.tasks = tasks  # type: ignore[misc, assignment]
        self.heads = heads
        self.n_outputs = n_outputs
        self.middle = middle
        self.has_probabilities = has_probabilities  # type: ignore[misc]
        self.of_probabilities = of_probabilities  # type: ignore[misc]
        self.base = base
        self.scales = scales

    def _check_stored(self) -> None:
        if not all(isinstance(task, str) for task in self.tasks):
            raise ValueError("its tasks must be names")

    def validate(self) -> None:
        super().validate()
        kinds = [bool, float, bool] if self.scales is None else [type(x) for x in self.scales]
        if kinds != [bool, float, bool]:
            raise InvalidParameterError(f"the scales of a FrozenLoss must be {Scaling._fields}, got {kinds}")
        if "predict" not in self.heads or not all(callable(head) for head in self.heads.values()):
            raise InvalidParameterError("the heads of a FrozenLoss must be functions, one called 'predict'")

    @property
    def outputs_per_target(self) -> int:
        return self.n_outputs

    @property
    def scaling(self) -> Scaling | None:
        return None if self.scales is None else Scaling(*self.scales)

    @property
    def threshold(self) -> float:
        return self.middle

    def __getattr__(self, name: str) -> Any:
        heads, base = vars(self).get("heads", {}), vars(self).get("base")
        if name in heads:
            return heads[name]
        if base is None or name.startswith("__") or not hasattr(base, name):
            raise AttributeError(f"the loss {vars(self).get('name')!r} has no {name!r}")
        method = getattr_static(type(base), name, None)
        # Its methods ask for what the loss has in place of its own.
        return MethodType(method, self) if isinstance(method, FunctionType) else getattr(base, name)

    def predict(self, output: Tensor) -> Tensor:
        return self.heads["predict"](as_tensor(output))

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        raise TypeError(f"a frozen predictor only predicts: the values of {self.name} need its class")


class FunctionLoss(Loss):
    """A function ``function(y_true, output)`` as a loss, with the log loss's link in classifications."""

    tasks = ("binary", "multiclass", "multilabel", "regression")
    _parameter_constraints = {"function": [Taking(2, "y_true and the output")], "task": [str]}

    def __init__(self, function: Callable[[Tensor, Tensor], Any], task: str = "regression") -> None:
        self.function = function
        self.task = task

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if y.shape in _target_shapes(z.shape):
            z, y = self.pair(z, y)
        name = getattr(self.function, "__qualname__", repr(self.function))
        try:
            found = as_tensor(self.function(y, z))
        except Exception as error:
            error.add_note(
                f"in the loss {name}: y_true has shape {y.shape} and the output {z.shape}, and it returns "
                f"one value per row, shape {z.shape[:1]}"
            )
            raise
        if found.shape != z.shape[:1]:
            raise ShapeError(
                f"the loss {name} returned an array of shape {found.shape} for y_true of shape {y.shape} and "
                f"an output of shape {z.shape}: return one value per row, shape {z.shape[:1]}. Sum over the "
                "outputs of a row, axis=1, and not over rows, which are weighted before they are averaged"
            )
        return found

    def predict(self, output: Tensor) -> Tensor:
        return as_tensor(output) if self.task == "regression" else self._log_loss.predict(output)

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        if self.task == "regression":
            super().check_target(y, name=name, n_outputs=n_outputs)
        else:
            self._log_loss.check_target(y, name=name, n_outputs=n_outputs)

    def for_task(self, task: str) -> Loss:
        super().for_task(task)
        return FunctionLoss(self.function, task)

    @property
    def _log_loss(self) -> LogLoss:
        return LogLoss(multilabel=self.task == "multilabel")
