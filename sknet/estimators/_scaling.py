"""Standardization of inputs: each feature less its mean in the training rows, divided by its deviation."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from sknet import nn, ops
from sknet._params import Interval
from sknet.device import active, device_of, namespace, to_device, to_host
from sknet.engine._batches import ComputedRows, take_rows

AT_ONCE = 1 << 15  # numbers that are converted together on the host: they stay in the cache
AT_ONCE_ON_DEVICE = 1 << 24
MOST_BYTES = 1 << 25  # of rows to predict that are converted as a whole
MOST_DIGITS = 1022  # of an exponent, so that twice as large a number is finite
LEAST_VARIANCE = 1e-280  # below, squares of deviations have lost digits
ROUNDING = 4 * float(np.finfo(np.float64).eps)  # a deviation that rounding alone can have made is none
POSITIVE = Interval(Real, 0, None, closed="neither")
SOME = 1e-300  # of weights, where all steps are padding
FEWEST_ROWS = 10  # of a part of a stream that determines the unit of a column that was constant before
FAR = 10.0  # from that constant: then fewer rows do
ONE = "X"  # the name of the input of a network that has one
LIMIT = 5.0  # deviations from the mean at which tables are clipped: few rows are further (docs/ablation.md)


@dataclass(frozen=True, eq=False)
class Units:
    """Mean and deviation of the features of an input, in shapes that broadcast against its rows."""

    # What is further than `limit` deviations from the mean is as if at that distance. What was `constant` so
    # far gets its deviation from the first part of a stream in which it varies.

    mean: np.ndarray
    scale: np.ndarray
    limit: float | None = None
    constant: np.ndarray | None = None
    _stored_fields: ClassVar[Mapping[str, Any]] = {"limit": [POSITIVE, None], "constant": [np.ndarray, None]}

    def _check_stored(self) -> None:
        constant = self.constant
        if constant is not None and (constant.dtype != bool or constant.shape != self.mean.shape):
            raise ValueError("there must be a boolean for each mean that says whether its column is constant")
        for x in (self.mean, self.scale):
            if x.dtype != np.float64 or x.shape != self.mean.shape or not np.isfinite(x).all():
                raise ValueError("means and deviations must be finite float64 arrays of one shape")
        if not (self.scale > 0).all():
            raise ValueError("deviations must be above 0")

    def deviations(self, x: Any) -> np.ndarray:
        """Return how many deviations rows are from the means, or the numbers that a sparse matrix holds."""
        if ops.is_sparse(x):
            found = to_host(x.data).astype(np.float64) / self.scale[to_host(x.indices)]
        else:
            found = (to_host(x).astype(np.float64) - self.mean) / self.scale
        return np.abs(found)

    def followed(self, x: Any, at_most: int) -> "Units":
        """Return units for later rows of a table, in which columns may vary that were constant before."""
        if self.constant is None:
            return self
        x, [which] = x[:at_most], self.constant.nonzero()
        mean = self.mean[which].astype(x.dtype)  # constants of the dtype that rows have now
        values = None if ops.is_sparse(x) else to_host(x).take(which, axis=1)
        if values is not None and (values == mean).all():
            return self
        with np.errstate(over="ignore"):
            if values is None:
                largest = np.zeros(x.shape[1])
                np.maximum.at(largest, to_host(x.indices), self.deviations(x))
                largest = largest[which]
            else:
                largest = (np.abs(values.astype(np.float64) - mean) / self.scale[which]).max(axis=0)
        least = ROUNDING * np.abs(mean) if x.shape[0] >= FEWEST_ROWS else FAR
        begins = (largest > least) & np.isfinite(largest)
        if not begins.any():
            return self
        scale, constant = self.scale.copy(), self.constant.copy()
        scale[which[begins]] = largest[begins]  # the mean stays: rows before are zero as they were
        constant[which[begins]] = False
        return replace(self, scale=scale, constant=constant if constant.any() else None)

    def are_near(self, x: Any, z: Any, limit: float) -> bool:
        """Tell whether rows `x` that are `z` in these units are near their means, as far as `z` can tell."""
        if type(x) is not np.ndarray or type(z) is not np.ndarray or not z.size:
            return False
        if self.limit is None and z.flags.c_contiguous:
            flat = z.reshape(-1)
            if flat.dot(flat) <= limit * limit * len(z):  # so for each feature; not with NaN
                return True
        most = limit if self.limit is None else min(limit, self.limit)
        if -most < z.item(z.argmin()) and z.item(z.argmax()) < most:  # nothing is clipped, or NaN
            return True
        if self.limit is not None or z.ndim != 2:
            return False
        return bool(np.einsum("ij,ij->j", z, z).max() <= limit * limit * len(z))  # not with NaN

    def _clip(self, z: Any) -> None:
        if self.limit is not None:
            xp = namespace(z)
            xp.minimum(z, self.limit, out=z)
            xp.maximum(z, -self.limit, out=z)

    def scaled(self, x: Any, dtype: Any, *, is_lazy: bool = False) -> Any:
        """Return rows in these units; many of them, lazily or of a file, are computed when they are read."""
        if type(x) is np.ndarray and x.size <= AT_ONCE:
            try:
                return self._at_once(x, np.dtype(dtype))
            except ValueError:
                n, lengths = self.mean.size, str(("n", *x.shape[1:])).replace("'", "")
                raise ValueError(f"X of shape {lengths} must have {n} features, as in the fit") from None
        if isinstance(x, np.ndarray):
            rows = ScaledRows(x, self, np.dtype(dtype))
            return rows if (is_lazy or _is_mapped(x)) and rows.nbytes > MOST_BYTES else rows[:]
        if ops.is_sparse(x):
            return self._of_sparse(x, dtype)
        with active(device_of(x)):
            xp, found = namespace(x), None
            mean, scale = (to_device(each, device_of(x)) for each in (self.mean, self.scale))
            for part in _parts(x.shape, AT_ONCE_ON_DEVICE):
                z = (x[part].astype(np.float64) - mean) / scale
                self._clip(z)
                z = z.astype(dtype)
                if part.stop - part.start == x.shape[0]:
                    return z
                found = xp.empty(x.shape, dtype) if found is None else found
                found[part] = z
            return found

    def _at_once(self, x: np.ndarray, dtype: Any) -> np.ndarray:
        """Return a few rows of the host in these units."""
        with np.errstate(all="ignore"):  # what overflows, is said of predictions and losses
            z = x.astype(np.float64)
            z -= self.mean
            z /= self.scale
            self._clip(z)
            return z.astype(dtype, order="C", copy=False)

    def _of_sparse(self, x: Any, dtype: Any) -> Any:
        if self.mean.any():
            return self.scaled(x.toarray(), dtype)
        with active(device_of(x)), np.errstate(all="ignore"):
            scale = to_device(np.broadcast_to(self.scale, x.shape[1:]).copy(), device_of(x))
            data = x.data.astype(np.float64) / scale[x.indices]
            self._clip(data)
            return type(x)((data.astype(dtype), x.indices, x.indptr), shape=x.shape)

    def of_gradient(self, gradient: Any, z: Any) -> Any:
        """Return gradients with respect to rows `z` in these units as those with respect to the rows."""
        with active(device_of(gradient)):
            found = gradient.astype(np.float64) / to_device(self.scale, device_of(gradient))
            if self.limit is not None:
                found *= abs(z.toarray() if ops.is_sparse(z) else z) < self.limit
            return found.astype(gradient.dtype)


def _is_mapped(x: Any) -> bool:
    """Tell whether an array is a view of a file, which may be larger than memory."""
    while x is not None and not isinstance(x, np.memmap):
        x = getattr(x, "base", None)
    return x is not None


class ScaledRows(ComputedRows):
    """Rows of the host in units, computed when they are read."""

    def __init__(self, x: np.ndarray, units: Units, dtype: Any) -> None:
        super().__init__(x.shape, dtype)
        self._x, self._units = x, units

    def __getitem__(self, rows: Any) -> np.ndarray:
        if not isinstance(rows, slice):
            return super().__getitem__(rows)
        x = self._x[rows]
        out = np.empty(x.shape, self.dtype)
        self._write(x, out)
        return out

    def write(self, rows: np.ndarray, out: np.ndarray) -> None:
        for part in _parts(out.shape, AT_ONCE):
            self._write(self._x.take(rows[part], axis=0), out[part])

    def _write(self, x: np.ndarray, out: np.ndarray) -> None:
        with np.errstate(all="ignore"):
            for part in _parts(x.shape, AT_ONCE):
                out[part] = self._units._at_once(x[part], np.float64)


@dataclass(frozen=True, eq=False)
class InputScaling:
    """Units of the inputs that are standardized, by name: "X" is that of a network with one input."""

    inputs: Mapping[str, Units]

    def _check_stored(self) -> None:
        if not self.inputs:
            raise ValueError("an estimator that standardizes no input has no scaling")

    def check_shapes(self, shapes: Any, integers: Any) -> None:
        """Raise a ValueError if units do not fit the shapes of rows, or are of integers."""
        named = shapes if isinstance(shapes, dict) else {ONE: shapes}
        whole = integers if isinstance(shapes, dict) else {ONE: integers}
        for name, units in self.inputs.items():
            if name not in named or whole[name]:
                raise ValueError(f"there is no input {name!r} of real numbers that is standardized")
            row, mean = tuple(named[name]), units.mean.shape
            # Sequences of other lengths than in the fit have the same features.
            if len(mean) > len(row) or any(
                n not in (1, m) for n, m in zip(mean[::-1], row[::-1], strict=False)
            ):
                raise ValueError(f"means of shape {mean} do not fit rows of shape {row}")

    def equals(self, other: "InputScaling") -> bool:
        """Tell whether the same inputs have the same means, deviations and limits."""
        return self.inputs.keys() == other.inputs.keys() and all(
            np.array_equal(units.mean, other.inputs[name].mean)
            and np.array_equal(units.scale, other.inputs[name].scale)
            and units.limit == other.inputs[name].limit
            for name, units in self.inputs.items()
        )

    def scaled(self, X: Any, dtype: Any, *, is_lazy: bool = False) -> Any:
        """Return inputs with those of them that are standardized in their units."""
        if not isinstance(X, dict):
            return self.inputs[ONE].scaled(X, dtype, is_lazy=is_lazy)
        return {
            name: self.inputs[name].scaled(x, dtype, is_lazy=is_lazy) if name in self.inputs else x
            for name, x in X.items()
        }

    @property
    def of_table(self) -> Units:
        return self.inputs[ONE]

    def of_gradient(self, gradients: Any, Z: Any) -> Any:
        """Return gradients with respect to standardized inputs `Z` as those with respect to the inputs."""
        if gradients is None:
            return None
        if not isinstance(gradients, dict):
            return self.inputs[ONE].of_gradient(gradients, Z)
        return {
            name: self.inputs[name].of_gradient(x, Z[name]) if name in self.inputs and x is not None else x
            for name, x in gradients.items()
        }

    def followed(self, X: Any, at_most: int) -> "InputScaling":
        """Return units for a later part of a stream, of which so many rows are read."""
        rows = X if isinstance(X, dict) else {ONE: X}
        found = {name: each.followed(rows[name], at_most) for name, each in self.inputs.items()}
        return self if found == self.inputs else InputScaling(found)

    def clipped(self) -> "InputScaling":
        return InputScaling(
            {
                name: Units(units.mean, units.scale, LIMIT if units.mean.ndim == 1 else None, units.constant)
                for name, units in self.inputs.items()
            }
        )

    def each(self, field: str) -> Any:
        """Return the means or the deviations: an array, or a dict of those of several inputs."""
        found = {name: getattr(units, field) for name, units in self.inputs.items()}
        return found[ONE] if found.keys() == {ONE} else found


def feature_axis(shape: tuple[int, ...], first: nn.Module | None) -> int | None:
    """Return the axis of the features that a first layer reads: channels of images, or the last axis."""
    ndim = len(shape)
    if ndim == 1 or (isinstance(first, nn.Conv2d) and ndim < 4):  # the network adds an axis of channels
        return None
    if isinstance(first, nn.Conv2d) or (isinstance(first, nn.Conv1d) and ndim == 3):
        return ndim - 1 if shape[1] != first.in_channels == shape[-1] else 1
    return 1 if ndim != 3 else 2


def units_of(x: Any, rows: Any, weight: Any, lengths: Any, axis: int | None, name: str) -> Units:
    """Return the units of an input from some of its rows, or all: steps that are padding count nothing."""
    if weight is not None:
        weight = np.abs(weight)
        counted = np.flatnonzero(weight if rows is None else weight[rows])
        rows = counted if rows is None else np.asarray(rows)[counted]
    if type(x) is np.ndarray or not ops.is_sparse(x):
        mean, scale = _of_columns(_Columns(x, rows, weight, lengths, axis), name)
    else:
        mean, scale = _of_sparse(x, rows, weight)
    return _units(mean, scale, x.ndim if axis is not None else 1, axis)


def units_of_moments(mean: Any, variance: Any, ndim: int, axis: int | None, name: str) -> Units:
    """Return the units of an input from moments that were computed elsewhere."""
    scale = np.sqrt(variance)
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise ValueError(_too_large(name, int(np.argmin(np.isfinite(mean) & np.isfinite(scale)))))
    return _units(mean, scale, ndim, axis)


def _units(mean: Any, scale: Any, ndim: int, axis: int | None) -> Units:
    varies = scale > ROUNDING * np.abs(mean)
    scale = np.where(varies, scale, 1.0)
    shape = () if axis is None else (-1, *[1] * (ndim - 1 - axis))
    constant = ~varies if shape == (-1,) and not varies.all() else None
    return Units(mean.reshape(shape), scale.reshape(shape), constant=constant)


def _too_large(name: str, column: int) -> str:
    return (
        f"feature {column} of {name} has numbers near the largest float64, and cannot be standardized: "
        "divide it by a constant"
    )


def _parts(shape: tuple[int, ...], at_once: int) -> Iterator[slice]:
    """Yield slices of rows that hold at most so many numbers, or one row."""
    n_rows = shape[0]
    step = max(1, at_once * n_rows // max(1, math.prod(shape)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


class _Columns:
    """The features of some rows as columns of double precision, a part of them at a time."""

    def __init__(self, x: Any, rows: Any, weight: Any, lengths: Any, axis: int | None) -> None:
        self._x, self._rows, self._weight, self._lengths, self._axis = x, rows, weight, lengths, axis
        self.device = device_of(x)
        self._n_rows = x.shape[0] if rows is None else len(rows)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self.chosen(slice(None))

    def chosen(self, which: Any) -> Iterator[tuple[Any, Any]]:
        is_table = self._axis == 1 and self._x.ndim == 2
        at_once = AT_ONCE if self.device.kind == "cpu" else AT_ONCE_ON_DEVICE
        for part in _parts((self._n_rows, *self._x.shape[1:]), at_once):
            rows = part if self._rows is None else self._rows[part]
            x = take_rows(self._x, rows)
            x = (x[:, which] if is_table else x).astype(np.float64)
            x = np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x  # sums depend on the order
            weight: Any = None if self._weight is None else np.asarray(self._weight[rows], np.float64)
            if self._lengths is not None:
                steps = np.arange(x.shape[1]) < np.asarray(self._lengths[rows])[:, np.newaxis]
                weight = steps * (1.0 if weight is None else weight[:, np.newaxis])
            x, weight = self._flat(x, weight)
            yield x if is_table else x[:, which], weight

    def _flat(self, x: Any, weight: Any) -> tuple[Any, Any]:
        shape = x.shape
        if self._axis is None:
            columns = x.reshape(-1, 1)
        else:
            others = [axis for axis in range(len(shape)) if axis != self._axis]
            columns = x.transpose(*others, self._axis).reshape(-1, shape[self._axis])
        if weight is not None:
            sizes = [n for axis, n in enumerate(shape) if axis != self._axis]
            weight = weight.reshape(*weight.shape, *[1] * (len(sizes) - weight.ndim))
            weight = to_device(np.broadcast_to(weight, sizes).flatten(), self.device)
        return columns, weight


def _of_columns(columns: _Columns, name: str) -> tuple[Any, Any]:
    """Return means and deviations, by two passes."""
    with active(columns.device), np.errstate(all="ignore"):
        mean, variance = (to_host(each) for each in _moments(columns))
        scale = np.sqrt(variance)
        if variance.size and math.isfinite(mean.dot(mean)):
            least, largest = variance.item(variance.argmin()), variance.item(variance.argmax())  # or NaN
            if least > LEAST_VARIANCE and largest < math.inf:
                return mean, scale
        doubtful = np.flatnonzero(~(np.isfinite(mean) & np.isfinite(variance) & (variance > LEAST_VARIANCE)))
        if len(doubtful):
            mean[doubtful], scale[doubtful] = _of_extremes(columns, doubtful, name)
    return mean, scale


def _moments(columns: Any) -> tuple[Any, Any]:
    """Return mean and variance of columns, overwriting them, by deviations that are exact for constants."""
    first: Any = None
    mean: Any = 0.0
    total, squares = 0.0, 0.0
    for x, weight in columns:
        if first is None:
            first = x[0 if weight is None else int(to_host(weight).argmax())].copy()
        count = len(x) if weight is None else float(weight.sum())
        if not count:
            continue
        x -= first
        of_part = _sum(x, weight) / count
        x -= of_part
        x *= x
        if not total:
            mean, squares, total = of_part, _sum(x, weight), count
            continue
        total += count
        # Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance.
        squares = squares + _sum(x, weight) + (of_part - mean) ** 2 * (count - count * (count / total))
        mean = mean + (of_part - mean) * (count / total)
    return first + mean, squares / max(total, SOME)


def _moments_of_seen(columns: Callable[[], Iterator[tuple[Any, Any]]]) -> tuple[Any, Any]:
    """Return mean and variance of what is there of columns with missing numbers, NaN."""
    if not any(np.isnan(x).any() for x, _ in columns()):
        return _moments(_Again(columns))
    total, sums, squares = 0.0, 0.0, 0.0
    counted = [
        (np.nan_to_num(x), ~np.isnan(x) * (1.0 if weight is None else weight[:, np.newaxis]))
        for x, weight in columns()
    ]
    for x, seen in counted:
        total, sums = total + seen.sum(axis=0), sums + (seen * x).sum(axis=0)
    mean = sums / np.maximum(total, SOME)
    for x, seen in counted:
        squares = squares + (seen * (x - mean) ** 2).sum(axis=0)
    return mean, squares / np.maximum(total, SOME)


def _sum(x: Any, weight: Any) -> Any:
    return x.sum(axis=0) if weight is None else weight @ x


def _of_extremes(columns: _Columns, which: Any, name: str) -> tuple[Any, Any]:
    """Return means and deviations of columns that are constant, or whose squares overflow or vanish."""

    def chosen(change: Callable[[Any], Any]) -> Iterator[tuple[Any, Any]]:
        for x, weight in columns.chosen(which):
            yield change(to_host(x)), None if weight is None else to_host(weight)

    largest, first, same = np.zeros(len(which)), None, np.ones(len(which), bool)
    for x, weight in chosen(lambda x: x):
        counted = x if weight is None else x[weight > 0]
        first = counted[0] if first is None and len(counted) else first
        same &= (counted == first).all(axis=0)
        # NaN is a missing number.
        largest = np.fmax(largest, np.fmax.reduce(np.abs(counted), axis=0, initial=0.0))
    _, digits = np.frexp(largest)
    if (digits > MOST_DIGITS).any():
        raise ValueError(_too_large(name, int(which[np.argmax(digits)])))
    mean, scale = np.where(same, 0.0 if first is None else first, 0.0), np.zeros(len(which))
    which, digits = which[~same], digits[~same]
    if len(which):
        found, variance = _moments_of_seen(lambda: chosen(lambda x: np.ldexp(x, -digits)))
        mean[~same], scale[~same] = np.ldexp(found, digits), np.ldexp(np.sqrt(variance), digits)
    return mean, scale


@dataclass(frozen=True)
class _Again:
    """Iterable that starts anew each time."""

    start: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.start()


def _of_sparse(x: Any, rows: Any, weight: Any) -> tuple[Any, Any]:
    """Return zeros and deviations of a sparse matrix, which is not centred."""
    x = to_host(x)
    x, weight = x if rows is None else x[rows], None if weight is None else weight[rows]
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    n_columns = x.shape[1]
    data = x.data.astype(np.float64)
    largest = np.zeros(n_columns)
    np.maximum.at(largest, x.indices, np.abs(data))
    _, digits = np.frexp(largest)
    data = np.ldexp(data, -digits[x.indices])
    w = np.ones(x.shape[0]) if weight is None else np.asarray(weight, np.float64)
    each, total = np.repeat(w, np.diff(x.indptr)), w.sum()

    def added(values: Any) -> Any:
        return np.bincount(x.indices, values, n_columns)

    mean = added(each * data) / total
    squares = added(each * (data - mean[x.indices]) ** 2) + (total - added(each)) * mean**2
    scale = np.sqrt(np.maximum(squares / total, 0.0))
    scale = np.where(scale > ROUNDING * np.abs(mean), np.ldexp(scale, digits), largest > 0)  # or none yet
    return np.zeros(n_columns), scale
