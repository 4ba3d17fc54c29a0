"""Scalers and elementwise functions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sknet._fields import Arrays, Each, Together
from sknet._frames import Frame
from sknet._params import StrOptions
from sknet._scipy import issparse
from sknet.freezing._arrays import as_array, as_floats, check_finite

__all__ = [
    "FUNCTIONS",
    "Elementwise",
    "Scaling",
    "max_abs_scaler",
    "min_max_scaler",
    "robust_scaler",
    "standard_scaler",
]

UFUNCS: Mapping[str, Any] = {
    "add": np.add,
    "divide": np.divide,
    "multiply": np.multiply,
    "subtract": np.subtract,
}
INVERSE = {"add": "subtract", "subtract": "add", "multiply": "divide", "divide": "multiply"}


@dataclass(frozen=True)
class Scaling:
    """Arithmetic with one number per column."""

    operations: tuple[tuple[str, Any], ...]
    bounds: tuple[float, float] | None = None
    rounds: bool = False
    _stored_fields = {
        "operations": Each(tuple, Together(StrOptions({*UFUNCS}), Arrays("f", "n_features"))),
    }

    def __call__(self, X: Any) -> Any:
        """Return the columns scaled."""
        X = as_floats(X)
        if issparse(X):
            return self._sparse(X)
        found = X
        for name, values in self.operations:
            if self.rounds and values.dtype != X.dtype:
                values = values.astype(X.dtype)
            out = np.empty_like(X) if found is X else found
            found = UFUNCS[name](found, values, out=out, casting="same_kind")
        if self.bounds is not None:
            lowest, highest = (X.dtype.type(bound) for bound in self.bounds)
            found = np.clip(found, lowest, highest, out=np.empty_like(X) if found is X else found)
        return np.array(X) if found is X else found

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes for `n_features` columns."""
        return n_features

    def write(self, row: Any, out: Any) -> None:
        """Transform a row in double precision into `out`; both have shape (n_features,)."""
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
        """The inverse transformation."""
        undone = [(INVERSE[name], values) for name, values in reversed(self.operations)]
        return Scaling(tuple(undone), None, self.rounds)


def standard_scaler(scaler: Any) -> Scaling:
    """Freeze a StandardScaler."""
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
    """Freeze a MinMaxScaler."""
    operations = (("multiply", np.array(scaler.scale_)), ("add", np.array(scaler.min_)))
    lowest, highest = scaler.feature_range
    return Scaling(operations, (float(lowest), float(highest)) if scaler.clip else None)


def max_abs_scaler(scaler: Any) -> Scaling:
    """Freeze a MaxAbsScaler."""
    bounds = (-1.0, 1.0) if getattr(scaler, "clip", False) else None
    return Scaling((("divide", np.array(scaler.scale_)),), bounds)


def robust_scaler(scaler: Any) -> Scaling:
    """Freeze a RobustScaler."""
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
class Elementwise:
    """A NumPy function by its name."""

    name: str | None
    checks: bool = False
    _stored_fields = {
        "name": [StrOptions({*FUNCTIONS}), None],
    }

    def __call__(self, X: Any) -> Any:
        """Return the function of X."""
        if self.checks and not issparse(X):
            X = as_array(X)
            X = X if X.dtype.kind != "O" else X.astype(np.float64)
            if X.dtype.kind == "f" and not np.isfinite(X).all():
                raise ValueError("Input X contains NaN or infinity")
        if self.name is None:
            return X
        found = FUNCTIONS[self.name](X.frame if type(X) is Frame else X)
        return Frame(found, X.names) if type(X) is Frame and hasattr(found, "columns") else found

    def row_width(self, n_features: int) -> int | None:
        """Return how many outputs `write` writes for `n_features` columns; None if it cannot."""
        return None if self.checks else n_features

    def write(self, row: Any, out: Any) -> None:
        """Transform a row into `out`; both have shape (n_features,)."""
        out[:] = row if self.name is None else FUNCTIONS[self.name](row)
