"""Steps that compute new numeric columns: projections, selections, products, bins and norms."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._fields import COUNT, POSITIVE, Arrays, Dtypes, Each, Together
from sknet._scipy import issparse, special
from sknet.freezing._arrays import as_array, as_floats
from sknet.freezing._encoding import one_hot
from sknet.freezing._scaling import Scaling, standard_scaler

__all__ = [
    "THRESHOLD",
    "Binarizing",
    "Bins",
    "BoxCox",
    "Normalizing",
    "Powers",
    "Products",
    "Projection",
    "Quantiles",
    "Selection",
    "binarizer",
    "binned",
    "by_powers",
    "k_bins",
    "normalizer",
    "polynomial_features",
    "power_transformer",
    "principal_components",
    "quantile_transformer",
    "ranks_of",
    "selector",
    "truncated_svd",
]

PRECISIONS = tuple(map(np.dtype, ("float64", "float32")))


def _finite(X: Any, dtypes: tuple[Any, ...] | None = None) -> Any:
    """Return a table as finite numbers, of one of `dtypes`."""
    X = as_floats(X)
    if dtypes is not None and X.dtype not in dtypes:
        X = X.astype(dtypes[0])
    if np.isnan(X.data if issparse(X) else X).any():
        raise ValueError("Input X contains NaN: impute or drop such rows first")
    return X


def _dense(X: Any) -> Any:
    if issparse(X):
        raise TypeError("this pipeline takes no sparse X: use X.toarray()")
    return X


@dataclass(frozen=True)
class Projection:
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

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        weights = self.memory[:: -1 if self.is_reversed else 1, : self.n_columns]
        found = _finite(X, PRECISIONS) @ (weights.T if self.is_turned else weights)
        if self.center is not None:
            found -= self.center
        if self.scale is not None:
            found /= self.scale
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
    """Freeze a PCA."""
    matrix = _of_matrix(pca.components_)
    center = np.reshape(pca.mean_, (1, -1)) @ pca.components_.T
    scale = None
    if pca.whiten:
        scale = np.sqrt(pca.explained_variance_)
        scale[scale < np.finfo(scale.dtype).eps] = np.finfo(scale.dtype).eps
    return Projection(*matrix, center, scale)


def truncated_svd(svd: Any) -> Projection:
    """Freeze a TruncatedSVD."""
    return Projection(*_of_matrix(svd.components_))


@dataclass(frozen=True)
class Selection:
    """Some of the columns."""

    mask: Any
    allows_nan: bool
    _stored_fields = {
        "mask": Arrays("b", "n_features"),
    }

    def __call__(self, X: Any) -> Any:
        """Return these columns."""
        X = X.tocsr() if issparse(X) else as_array(X)
        values = X.data if issparse(X) else X
        if values.dtype.kind in "fO" and self._is_wrong(values):
            raise ValueError("Input X contains NaN or infinity")
        return X[:, self.mask]

    def _is_wrong(self, values: Any) -> bool:
        if self.allows_nan:
            return False
        return bool((values != values if values.dtype.kind == "O" else ~np.isfinite(values)).any())


def selector(chosen: Any) -> Selection:
    """Freeze a transformer that selects columns."""
    mask = np.array(chosen.get_support())
    if not mask.any():
        raise ValueError("it selects no columns")
    tags = chosen.__sklearn_tags__()
    return Selection(mask, bool(tags.input_tags.allow_nan))


@dataclass(frozen=True)
class Products:
    """Columns and their products."""

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

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        X = _finite(_dense(X))
        parts = [X]
        for before, columns in self.degrees:
            parts.append(parts[-1][:, before] * X[:, columns])
        if self.has_bias:
            parts.insert(0, np.ones((len(X), 1), X.dtype))
        found = np.concatenate(parts, axis=1)[:, self.n_left_out :]
        return np.array(found, order=self.order)  # type: ignore[call-overload]


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
class Bins:
    """The index of a value's interval, or an output for each interval."""

    edges: tuple[Any, ...]
    dtype: Any
    container: str | None
    _stored_fields = {
        "edges": Each(tuple, Arrays("f", "n_edges")),
        "dtype": [Dtypes("f"), None],
        "container": [Literal["array", "csr_array", "csr_matrix"], None],
    }

    def __call__(self, X: Any) -> Any:
        """Return the outputs."""
        X = np.array(_finite(_dense(X), PRECISIONS if self.dtype is None else (self.dtype,)))
        X = binned(X, self.edges)
        if self.container is None:
            return X
        starts = np.cumsum([0, *(len(edges) + 1 for edges in self.edges)])
        return one_hot(X.astype(np.int64) + starts[:-1], int(starts[-1]), X.dtype, self.container)


def binned(X: Any, edges: Any) -> Any:
    """Replace the columns of an array by the indices of intervals, in place, and return it."""
    for i, inner in enumerate(edges):
        X[:, i] = np.searchsorted(inner, X[:, i], side="right")
    return X


def k_bins(discretizer: Any) -> Bins:
    """Freeze a KBinsDiscretizer."""
    edges = tuple(np.array(each[1:-1]) for each in discretizer.bin_edges_)
    container = None
    if discretizer.encode != "ordinal":
        found = discretizer._encoder.transform(np.zeros((1, len(edges))))
        container = type(found).__name__ if discretizer.encode == "onehot" else "array"
    dtype = None if discretizer.dtype is None else np.dtype(discretizer.dtype)
    return Bins(edges, dtype, container)


NORMS: Mapping[str, Any] = {
    "l1": lambda X: np.sum(np.abs(X), axis=1),
    "l2": lambda X: np.sqrt(np.einsum("ij,ij->i", X, X)),
    "max": lambda X: np.max(np.abs(X), axis=1),
}


@dataclass(frozen=True)
class Normalizing:
    """Rows divided by their norms."""

    norm: str
    _stored_fields = {
        "norm": Literal["l1", "l2", "max"],
    }

    def __call__(self, X: Any) -> Any:
        """Return the normalized rows."""
        X = np.array(_finite(_dense(X)))
        norms = NORMS[self.norm](X)
        norms[norms < 10 * np.finfo(norms.dtype).eps] = 1.0
        X /= norms[:, None]
        return X


def normalizer(found: Any) -> Normalizing:
    """Freeze a Normalizer."""
    return Normalizing(found.norm)


@dataclass(frozen=True)
class Binarizing:
    """Thresholding of values to 0 and 1."""

    threshold: float

    def __call__(self, X: Any) -> Any:
        """Return zeros and ones."""
        X = as_array(_dense(X))
        X = np.array(X) if X.dtype.kind in "iu" else np.array(_finite(X))
        X[...] = np.greater(X, self.threshold)
        return X


def binarizer(found: Any) -> Binarizing:
    """Freeze a Binarizer."""
    return Binarizing(float(found.threshold))


@dataclass(frozen=True)
class Powers:
    """The Yeo-Johnson transformation, with a parameter for each column."""

    lambdas: Any
    scaling: Scaling | None
    _stored_fields = {
        "lambdas": Arrays("f", "n_features"),
    }

    def __call__(self, X: Any) -> Any:
        """Return the transformed columns; NaN is kept."""
        X = by_powers(np.array(as_floats(_dense(X))), self.lambdas)
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
class BoxCox:
    """The Box-Cox transformation, with a parameter for each column."""

    lambdas: Any
    scaling: Scaling | None
    _stored_fields = {
        "lambdas": Arrays("f", "n_features"),
    }

    def __call__(self, X: Any) -> Any:
        """Return the transformed columns; NaN is kept."""
        X = np.array(as_floats(_dense(X)))
        if (X <= 0).any():
            raise ValueError("The Box-Cox transformation can only be applied to strictly positive data")
        for i, power in enumerate(self.lambdas):
            X[:, i] = special("boxcox")(X[:, i], power)
        return X if self.scaling is None else self.scaling(X)


def power_transformer(transformer: Any) -> Powers | BoxCox:
    """Freeze a PowerTransformer."""
    scaling = standard_scaler(transformer._scaler) if transformer.standardize else None
    kind = BoxCox if transformer.method == "box-cox" else Powers
    return kind(np.array(transformer.lambdas_), scaling)


THRESHOLD = 1e-7  # quantiles of the normal distribution are clipped this near to 0 and 1


@dataclass(frozen=True)
class Quantiles:
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

    def __call__(self, X: Any) -> Any:
        """Return the transformed columns; NaN is kept."""
        X = np.array(as_floats(_dense(X)))
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
    """Freeze a QuantileTransformer."""
    is_normal = transformer.output_distribution == "normal"
    return Quantiles(np.array(transformer.quantiles_), np.array(transformer.references_), is_normal)
