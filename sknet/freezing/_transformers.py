"""Steps that compute numeric columns, made from scikit-learn's transformers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._fields import COUNT, POSITIVE, Arrays, Each, Together
from sknet._frames import FLOATS, Frame, are_numbers, with_columns
from sknet._late import issparse, scipy_sparse, special
from sknet._params import StrOptions

PRECISIONS = tuple(map(np.dtype, ("float64", "float32")))


def as_floats(X: Any) -> Any:
    """Return a table as real numbers; NaN is allowed."""
    if issparse(X):
        X = X.tocsr()
        X = X if X.dtype in FLOATS else X.astype(FLOATS[0])
        check_finite(X.data)
        return X
    try:
        if type(X) is Frame:
            X = X.array(FLOATS)
        elif X.dtype not in FLOATS:
            X = np.asarray(X, dtype=FLOATS[0])
    except (ValueError, TypeError) as error:
        raise with_columns(error, X) from None
    check_finite(X)
    return X


def as_array(X: Any, dtype: Any = None) -> Any:
    if issparse(X):
        raise TypeError("this pipeline takes no sparse X: use X.toarray()")
    return X.array(dtype) if type(X) is Frame else np.asarray(X, dtype=dtype)


def as_plain(X: Any) -> Any:
    """Return a table as NumPy converts it."""
    return X.plain() if type(X) is Frame else X


def check_finite(values: Any) -> None:
    """Raise a ValueError if a value is infinite; NaN is allowed."""
    if not are_numbers(values):
        raise ValueError("Input X contains infinity or a value too large for its dtype")


def finite(X: Any, dtypes: tuple[Any, ...] | None = None) -> Any:
    X = as_floats(X)
    if dtypes is not None and X.dtype not in dtypes:
        X = X.astype(dtypes[0])
    check_no_nan(X.data if issparse(X) else X)
    return X


def check_no_nan(values: Any) -> None:
    if np.isnan(values).any():
        raise ValueError("Input X contains NaN: impute or drop such rows first")


def dense(X: Any) -> Any:
    if issparse(X):
        raise TypeError("this pipeline takes no sparse X: use X.toarray()")
    return X


Known = dict[tuple[int, int], int]


class Step(ABC):
    """A step of a pipeline, which computes columns from columns."""

    @abstractmethod
    def __call__(self, X: Any) -> Any:
        """Return the outputs."""

    @property
    def can_write(self) -> bool:
        """True if `write` transforms single rows in double precision."""
        return False

    def _n_outputs(self, n: int, known: Known) -> int:
        return n

    def n_outputs(self, n: int, known: Known) -> int:
        """Return how many columns are made of `n`, or raise a ValueError if these are too few or too many."""
        key = id(self), n
        if key not in known:  # files can hold a step many times
            known[key] = self._n_outputs(n, known)
        return known[key]

    def write(self, row: Any, out: Any) -> None:
        """Transform a row into `out`, zeros of shape (width,)."""
        raise NotImplementedError

    def _check(self, takes: int, given: int) -> None:
        if takes != given:
            raise ValueError(f"a step {type(self).__name__} takes {takes} columns, but is given {given}")

    def _check_positions(self, positions: Any, given: int) -> None:
        if len(positions) and not (min(positions) >= 0 and max(positions) < given):
            raise ValueError(
                f"a step {type(self).__name__} takes column {max(positions)}, but is given {given} columns"
            )


UFUNCS: Mapping[str, Any] = {
    "add": np.add,
    "divide": np.divide,
    "multiply": np.multiply,
    "subtract": np.subtract,
}
INVERSE = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}


@dataclass(frozen=True)
class Scaling(Step):
    """Arithmetic with one number per column."""

    operations: tuple[tuple[str, Any], ...]
    bounds: tuple[float, float] | None = None
    rounds: bool = False
    _stored_fields = {"operations": Each(tuple, Together(StrOptions({*UFUNCS}), Arrays("f", "n_features")))}

    def __call__(self, X: Any) -> Any:
        X = as_floats(X)
        return self._sparse(X) if issparse(X) else scaled(X, *self.data())

    def data(self) -> tuple[Any, ...]:
        return [(UFUNCS[name], values) for name, values in self.operations], self.bounds, self.rounds

    def _n_outputs(self, n: int, known: Known) -> int:
        for _, values in self.operations:
            self._check(len(values), n)
        return n

    @property
    def can_write(self) -> bool:
        return True

    def write(self, row: Any, out: Any) -> None:
        if not math.isfinite(row.dot(row)):  # in a third of the time of a sum
            check_finite(row)
        for name, values in self.operations:
            UFUNCS[name](row, values, out)
            row = out
        if self.bounds is not None:
            np.clip(row, *self.bounds, out=out)
        elif row is not out:
            out[:] = row

    def _sparse(self, X: Any) -> Any:
        if any(name != "divide" for name, _ in self.operations):
            raise TypeError("a sparse X cannot be shifted: use X.toarray()")
        X = X.copy()
        for _, values in self.operations:
            X.data *= (1 / values).take(X.indices)
        if self.bounds is not None:
            np.clip(X.data, *self.bounds, out=X.data)
        return X

    @property
    def inverse(self) -> "Scaling":
        undone = [(INVERSE[name], values) for name, values in reversed(self.operations)]
        return Scaling(tuple(undone), None, self.rounds)


def scaled(X: Any, operations: Any, bounds: Any, rounds: bool) -> Any:
    """Return the columns after arithmetic with a number for each, one operation after the other."""
    found = X
    for operation, values in operations:
        if rounds and values.dtype != X.dtype:
            values = values.astype(X.dtype)
        out = np.empty_like(X) if found is X else found
        found = operation(found, values, out=out, casting="same_kind")
    if bounds is not None:
        lowest, highest = [X.dtype.type(bound) for bound in bounds]
        found = np.clip(found, lowest, highest, out=np.empty_like(X) if found is X else found)
    return np.array(X) if found is X else found


def standard_scaler(scaler: Any) -> Scaling:
    import sklearn

    operations = []
    if scaler.with_mean:
        operations.append(("subtract", np.array(scaler.mean_)))
    if scaler.with_std:
        operations.append(("divide", np.array(scaler.scale_)))
    version = tuple(map(int, sklearn.__version__.split(".")[:2]))
    return Scaling(tuple(operations), rounds=version >= ROUNDING_SINCE)


ROUNDING_SINCE = (1, 8)


def min_max_scaler(scaler: Any) -> Scaling:
    operations = (("multiply", np.array(scaler.scale_)), ("add", np.array(scaler.min_)))
    lowest, highest = scaler.feature_range
    return Scaling(operations, (float(lowest), float(highest)) if scaler.clip else None)


def max_abs_scaler(scaler: Any) -> Scaling:
    bounds = (-1.0, 1.0) if getattr(scaler, "clip", False) else None
    return Scaling((("divide", np.array(scaler.scale_)),), bounds)


def robust_scaler(scaler: Any) -> Scaling:
    operations = []
    if scaler.with_centering:
        operations.append(("subtract", np.array(scaler.center_)))
    if scaler.with_scaling:
        operations.append(("divide", np.array(scaler.scale_)))
    return Scaling(tuple(operations))


FUNCTIONS: Mapping[str, Any] = {
    ufunc.__name__: ufunc
    for ufunc in (
        *(np.absolute, np.arcsinh, np.arctan, np.cbrt, np.ceil, np.cos, np.exp, np.exp2, np.expm1, np.floor),
        *(np.log, np.log10, np.log1p, np.log2, np.negative, np.reciprocal, np.rint, np.sign, np.sin, np.sinh),
        *(np.sqrt, np.square, np.tanh, np.trunc),
    )
}

"""The NumPy functions supported in a FunctionTransformer."""


@dataclass(frozen=True)
class Elementwise(Step):
    """A NumPy function by its name."""

    name: str | None
    checks: bool = False
    _stored_fields = {"name": [StrOptions({*FUNCTIONS}), None]}

    def __call__(self, X: Any) -> Any:
        if self.checks and not issparse(X):
            X = as_array(X)
            X = X if X.dtype.kind != "O" else X.astype(np.float64)
            if X.dtype.kind == "f" and not np.isfinite(X).all():
                raise ValueError("Input X contains NaN or infinity")
        if self.name is None:
            return X
        found = FUNCTIONS[self.name](X.frame if type(X) is Frame else X)
        return Frame(found, X.names) if type(X) is Frame and hasattr(found, "columns") else found

    @property
    def can_write(self) -> bool:
        return not self.checks

    def write(self, row: Any, out: Any) -> None:
        out[:] = row if self.name is None else FUNCTIONS[self.name](row)


@dataclass(frozen=True)
class Imputing(Step):
    """Replaces missing values by a value for each column."""

    reads: str
    missing: Any
    values: Any
    kept: Any = None
    flagged: Any = None
    _stored_fields = {
        "reads": Literal["floats", "objects", "any"],
        "missing": [float, str, bool, None],
        "values": Arrays("biufOU", "n_kept"),
        "kept": [Arrays("i", "n_kept"), None],
        "flagged": [Arrays("i", "n_flags"), None],
    }

    def __call__(self, X: Any) -> Any:
        if issparse(X):
            return self._sparse(X)
        return imputed(self._read(X), self.missing, self.values, self.kept, self.flagged)

    def _n_outputs(self, n: int, known: Known) -> int:
        if self.kept is None:
            self._check(len(self.values), n)
        else:
            self._check_positions(self.kept, n)
        flagged = () if self.flagged is None else self.flagged
        self._check_positions(flagged, n)
        return len(self.values) + len(flagged)

    @property
    def can_write(self) -> bool:
        is_plain = self.reads == "floats" and self.kept is None and self.flagged is None
        return is_plain and _is_nan(self.missing)

    def write(self, row: Any, out: Any) -> None:
        out[:] = row
        if not math.isfinite(row.dot(row)):
            np.copyto(out, self.values, where=np.isnan(row), casting="unsafe")
            if not math.isfinite(out.dot(out)):
                check_finite(row)

    def _sparse(self, X: Any) -> Any:
        """Return a sparse matrix without missing values; elements that are not stored are not missing."""
        X = (as_floats(X) if self.reads == "floats" else X).tocsc(copy=True)
        missing = missing_in(X.data, self.missing)
        mask = type(X)((missing, X.indices.copy(), X.indptr.copy()), X.shape, dtype=bool)
        X = X if self.kept is None else X[:, self.kept]
        holes = missing_in(X.data, self.missing)
        X.data[holes] = self.values[np.repeat(np.arange(X.shape[1]), np.diff(X.indptr))[holes]]
        if self.flagged is None:
            return X
        mask.eliminate_zeros()
        return type(X)(scipy_sparse().hstack((X, mask[:, self.flagged]), format="csc"))

    def _read(self, X: Any) -> Any:
        if self.reads == "floats":
            X = as_array(as_floats(X))
        else:
            X = as_array(X, np.dtype(object) if self.reads == "objects" else None)
        if X.dtype.kind not in "iufO":
            raise ValueError(f"an imputer takes numbers or objects, got an array of {X.dtype}")
        return X


def imputed(X: Any, missing: Any, values: Any, kept: Any, flagged: Any) -> Any:
    """Return the table with missing values replaced, and an output for each flagged column."""
    mask = missing_in(X, missing)
    out, holes = (X, mask) if kept is None else (X[:, kept], mask[:, kept])
    out = np.array(out)  # in the memory order of scikit-learn's imputer, which affects rounding
    if holes.any():
        np.copyto(out, values, where=holes, casting="unsafe")
    return out if flagged is None else np.hstack((out, mask[:, flagged]))


def missing_in(X: Any, missing: Any) -> Any:
    if not _is_nan(missing):
        return X == missing  # noqa: SIM300  not a constant
    if X.dtype.kind == "f":
        return np.isnan(X)
    return np.zeros(X.shape, dtype=bool) if X.dtype.kind in "iu" else X != X


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(value != value)


def simple_imputer(imputer: Any) -> Imputing:
    if type(imputer.missing_values).__name__ == "NAType":
        raise ValueError("missing_values=pandas.NA: use missing_values=np.nan")
    reads = "floats" if imputer.strategy not in ("most_frequent", "constant") else "any"
    if imputer._fit_dtype.kind == "O":
        reads = "objects"
    statistics, kept = imputer.statistics_, None
    if not imputer.keep_empty_features:
        is_empty = np.array([_is_nan(value) for value in statistics.tolist()], dtype=bool)
        kept = np.flatnonzero(~is_empty) if is_empty.any() else None
    values = statistics if kept is None else statistics[kept]
    values = values.astype(getattr(imputer, "_fill_dtype", imputer._fit_dtype))
    flagged = np.array(imputer.indicator_.features_) if imputer.add_indicator else None
    return Imputing(reads, imputer.missing_values, values, kept, flagged)


@dataclass(frozen=True)
class Projection(Step):
    """A matrix product."""

    memory: Any
    n_columns: int
    is_turned: bool
    is_reversed: bool
    center: Any = None
    scale: Any = None
    _stored_fields = {
        "memory": Arrays("f", "n_rows", "n_lengths"),
        "n_columns": POSITIVE,
        "center": [Arrays("f", 1, "n_outputs"), None],
        "scale": [Arrays("f", "n_outputs"), None],
    }

    def _check_stored(self) -> None:
        n_outputs = self.memory.shape[0] if self.is_turned else self.n_columns
        wrong = [x for x in (self.center, self.scale) if x is not None and x.shape[-1] != n_outputs]
        if wrong or self.n_columns > self.memory.shape[1]:
            raise ValueError(f"a projection to {n_outputs} columns has a memory of shape {self.memory.shape}")

    def _n_outputs(self, n: int, known: Known) -> int:
        takes, gives = self.memory.shape[0], self.n_columns
        if self.is_turned:
            takes, gives = gives, takes
        self._check(takes, n)
        return int(gives)

    def __call__(self, X: Any) -> Any:
        return projected(finite(X, PRECISIONS), *self.data())

    def data(self) -> tuple[Any, ...]:
        return self.memory, self.n_columns, self.is_turned, self.is_reversed, self.center, self.scale


def projected(
    X: Any, memory: Any, n_columns: int, is_turned: bool, is_reversed: bool, center: Any, scale: Any
) -> Any:
    """Return products with a matrix, less the center and divided by the scale."""
    weights = memory[:: -1 if is_reversed else 1, :n_columns]
    found = X @ (weights.T if is_turned else weights)
    if center is not None:
        found -= center
    if scale is not None:
        found /= scale
    return found


def _of_matrix(components: Any) -> tuple[Any, int, bool, bool]:
    """Return the attributes of a projection whose outputs are products with the rows of a matrix."""
    is_turned = components.strides[1] == components.itemsize
    matrix = components if is_turned else components.T
    if matrix.strides[1] != matrix.itemsize:
        raise ValueError("its components are not laid out in rows or columns")
    is_reversed = matrix.strides[0] < 0
    matrix = matrix[::-1] if is_reversed else matrix
    n_rows, n_columns = matrix.shape
    memory = np.zeros((n_rows, max(matrix.strides[0] // matrix.itemsize, n_columns)), matrix.dtype)
    memory[:, :n_columns] = matrix
    return memory, n_columns, is_turned, is_reversed


def principal_components(pca: Any) -> Projection:
    matrix = _of_matrix(pca.components_)
    center = np.reshape(pca.mean_, (1, -1)) @ pca.components_.T
    scale = None
    if pca.whiten:
        scale = np.sqrt(pca.explained_variance_)
        scale[scale < np.finfo(scale.dtype).eps] = np.finfo(scale.dtype).eps
    return Projection(*matrix, center, scale)


def truncated_svd(svd: Any) -> Projection:
    return Projection(*_of_matrix(svd.components_))


@dataclass(frozen=True)
class Selection(Step):
    mask: Any
    allows_nan: bool
    _stored_fields = {"mask": Arrays("b", "n_features")}

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(len(self.mask), n)
        return int(self.mask.sum())

    def __call__(self, X: Any) -> Any:
        X = X.tocsr() if issparse(X) else as_array(X)
        return selected(X, X.data if issparse(X) else X, *self.data())

    def data(self) -> tuple[Any, ...]:
        return self.mask, self.allows_nan


def selected(X: Any, values: Any, mask: Any, allows_nan: bool) -> Any:
    """Return some of the columns, after a check of the values of all."""
    if values.dtype.kind in "fO" and not allows_nan:
        is_wrong = values != values if values.dtype.kind == "O" else ~np.isfinite(values)
        if is_wrong.any():
            raise ValueError("Input X contains NaN or infinity")
    return X[:, mask]


def selector(chosen: Any) -> Selection:
    mask = np.array(chosen.get_support())
    if not mask.any():
        raise ValueError("it selects no columns")
    tags = chosen.__sklearn_tags__()
    return Selection(mask, bool(tags.input_tags.allow_nan))


@dataclass(frozen=True)
class Products(Step):
    has_bias: bool
    degrees: tuple[tuple[Any, Any], ...]
    n_left_out: int
    order: str
    _stored_fields = {
        "degrees": Each(tuple, Together(Arrays("i", "n"), Arrays("i", "n"))),
        "n_left_out": COUNT,
        "order": Literal["C", "F"],
    }

    def _check_stored(self) -> None:
        n_before = None
        for before, columns in self.degrees:
            wrong = before.shape != columns.shape or min(before.min(initial=0), columns.min(initial=0)) < 0
            if wrong or (n_before is not None and before.max(initial=-1) >= n_before):
                raise ValueError(
                    f"products of {len(before)} and {len(columns)} columns, or of some that are not there"
                )
            n_before = len(before)

    def _n_outputs(self, n: int, known: Known) -> int:
        for i, (before, columns) in enumerate(self.degrees):
            self._check_positions(columns, n)
            if not i:
                self._check_positions(before, n)
        gives = self.has_bias + n + sum(len(columns) for _, columns in self.degrees) - self.n_left_out
        if gives < 0:
            raise ValueError(f"a step Products leaves out {self.n_left_out} columns, which are too many")
        return gives

    def __call__(self, X: Any) -> Any:
        return products(finite(dense(X)), *self.data())

    def data(self) -> tuple[Any, ...]:
        return self.has_bias, self.degrees, self.n_left_out, self.order


def products(X: Any, has_bias: bool, degrees: Any, n_left_out: int, order: Any) -> Any:
    parts = [X]
    for before, columns in degrees:
        parts.append(parts[-1][:, before] * X[:, columns])
    if has_bias:
        parts.insert(0, np.ones((len(X), 1), X.dtype))
    return np.array(np.concatenate(parts, axis=1)[:, n_left_out:], order=order)


def polynomial_features(polynomial: Any) -> Products:
    """Freeze PolynomialFeatures: a product of columns is its last factors' product by the first."""
    n_features, lowest = polynomial.n_features_in_, polynomial._min_degree
    before: dict[tuple[int, ...], int] = {(i,): i for i in range(n_features)}
    degrees, n_left_out = [], n_features if lowest > 1 else 0
    for degree in range(2, polynomial._max_degree + 1):
        combinations = polynomial._combinations(
            n_features, degree, degree, polynomial.interaction_only, include_bias=False
        )
        chosen = [tuple(map(int, each)) for each in combinations]
        if not chosen:
            break
        degrees.append(
            (np.array([before[each[1:]] for each in chosen]), np.array([each[0] for each in chosen]))
        )
        before = {each: i for i, each in enumerate(chosen)}
        n_left_out += len(chosen) if degree < lowest else 0
    if polynomial._max_degree == 0 or (polynomial.include_bias and lowest > 1):
        raise ValueError("degree 0, and a bias without columns of degree 1, are not supported")
    return Products(bool(polynomial.include_bias), tuple(degrees), n_left_out, polynomial.order)


@dataclass(frozen=True)
class Normalizing(Step):
    """Rows divided by their norms."""

    norm: str
    _stored_fields = {"norm": Literal["l1", "l2", "max"]}

    def __call__(self, X: Any) -> Any:
        return normalized(finite(dense(X)), *self.data())

    def data(self) -> tuple[Any, ...]:
        return (self.norm,)


def normalized(X: Any, norm: str) -> Any:
    """Return rows divided by their norms."""
    X = np.array(X)  # as scikit-learn: sums of einsum depend on strides and alignment
    if norm == "l2":
        norms = np.sqrt(np.einsum("ij,ij->i", X, X))
    else:
        norms = (np.sum if norm == "l1" else np.max)(np.abs(X), axis=1)
    norms[norms < 10 * np.finfo(norms.dtype).eps] = 1.0
    X /= norms[:, None]
    return X


def normalizer(found: Any) -> Normalizing:
    return Normalizing(found.norm)


@dataclass(frozen=True)
class Binarizing(Step):
    threshold: float

    def __call__(self, X: Any) -> Any:
        X = as_array(dense(X))
        X = np.array(X) if X.dtype.kind in "iu" else np.array(finite(X))
        X[...] = np.greater(X, self.threshold)
        return X


def binarizer(found: Any) -> Binarizing:
    return Binarizing(float(found.threshold))


@dataclass(frozen=True)
class Powers(Step):
    """The Yeo-Johnson transformation, with a parameter for each column."""

    lambdas: Any
    scaling: Scaling | None
    _stored_fields = {"lambdas": Arrays("f", "n_features")}

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(len(self.lambdas), n)
        return n if self.scaling is None else self.scaling.n_outputs(n, known)

    def __call__(self, X: Any) -> Any:
        X = by_powers(np.array(as_floats(dense(X))), self.lambdas)
        return X if self.scaling is None else self.scaling(X)


def by_powers(X: Any, lambdas: Any) -> Any:
    """Transform the columns of an array by Yeo and Johnson's formula, in place, and return it."""
    for i, power in enumerate(lambdas):
        X[:, i] = yeo_johnson(X[:, i], power)
    return X


def yeo_johnson(x: Any, power: Any) -> Any:
    """Return what Yeo and Johnson's formula makes of a column."""
    found = np.zeros_like(x, dtype=np.result_type(x, power))
    smallest, rest, up = np.finfo(found.dtype).eps, 2 - power, x >= 0
    if abs(power) < smallest:
        found[up] = np.log1p(x[up])
    else:
        found[up] = np.expm1(power * np.log1p(x[up])) / power
    if abs(rest) > smallest:
        found[~up] = -np.expm1(rest * np.log1p(-x[~up])) / rest
    else:
        found[~up] = -np.log1p(-x[~up])
    return found


@dataclass(frozen=True)
class BoxCox(Powers):
    """The Box-Cox transformation, with a parameter for each column."""

    def __call__(self, X: Any) -> Any:
        X = np.array(as_floats(dense(X)))
        if (X <= 0).any():
            raise ValueError("The Box-Cox transformation can only be applied to strictly positive data")
        for i, power in enumerate(self.lambdas):
            X[:, i] = special("boxcox")(X[:, i], power)
        return X if self.scaling is None else self.scaling(X)


def power_transformer(transformer: Any) -> Powers:
    scaling = standard_scaler(transformer._scaler) if transformer.standardize else None
    kind = BoxCox if transformer.method == "box-cox" else Powers
    return kind(np.array(transformer.lambdas_), scaling)


THRESHOLD = 1e-7  # quantiles of the normal distribution are clipped this near to 0 and 1


@dataclass(frozen=True)
class Quantiles(Step):
    """The ranks of values among those of the fit."""

    quantiles: Any
    references: Any
    is_normal: bool
    _stored_fields = {
        "quantiles": Arrays("f", "n_quantiles", "n_features"),
        "references": Arrays("f", "n_quantiles"),
    }

    def _check_stored(self) -> None:
        if not len(self.references):
            raise ValueError("ranks without quantiles")

    def _n_outputs(self, n: int, known: Known) -> int:
        self._check(self.quantiles.shape[1], n)
        return n

    def __call__(self, X: Any) -> Any:
        X = np.array(as_floats(dense(X)))
        for i in range(X.shape[1]):
            X[:, i] = self._ranks(X[:, i], self.quantiles[:, i])
        return X

    def _ranks(self, x: Any, quantiles: Any) -> Any:
        found = ranks_of(x, quantiles, self.references, self.is_normal)
        if self.is_normal:
            inverse = special("ndtri")
            bounds = [inverse(p) for p in (THRESHOLD - np.spacing(1), 1 - (THRESHOLD - np.spacing(1)))]
            found = np.clip(inverse(found.astype(np.float64)), *bounds)
        return found


def ranks_of(x: Any, quantiles: Any, references: Any, is_normal: bool) -> Any:
    """Return the ranks of a column's values, from 0 to 1; NaN is kept."""
    lowest, highest = quantiles[0], quantiles[-1]
    if is_normal:
        is_low, is_high = x - THRESHOLD < lowest, x + THRESHOLD > highest
    else:
        is_low, is_high = x == lowest, x == highest
    found, is_there = x.copy(), ~np.isnan(x)
    kept = x[is_there]
    up = np.interp(kept, quantiles, references)
    found[is_there] = 0.5 * (up - np.interp(-kept, -quantiles[::-1], -references[::-1]))
    found[is_high] = 1
    found[is_low] = 0
    return found


def quantile_transformer(transformer: Any) -> Quantiles:
    is_normal = transformer.output_distribution == "normal"
    return Quantiles(np.array(transformer.quantiles_), np.array(transformer.references_), is_normal)
