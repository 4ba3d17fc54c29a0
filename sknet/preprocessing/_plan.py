"""The encodings of all columns of a table."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sknet._scipy import scipy_sparse
from sknet.preprocessing._categories import CategoryColumn, fit_levels, fit_means
from sknet.preprocessing._numbers import Numbers, fit_number
from sknet.preprocessing._one_row import OneRow
from sknet.preprocessing._schema import Feature, Schema, Table
from sknet.preprocessing._sparse_numbers import SparseNumbers, fit_sparse
from sknet.preprocessing._targets import Target

__all__ = ["Options", "Plan", "fit_plan"]


@dataclass(frozen=True)
class Options:
    """The options of a `TableEncoder`, apart from its columns.

    Parameters
    ----------
    piecewise : {"both", "tree", "quantile"} or None, default="both"
        As for `TableEncoder`, like all that follow.
    n_bins, max_levels, min_count, n_folds : int, default=16, 40, 5, 5
        Number of bins, and options of categories.
    smoothing : float, default=20.0
        Smoothing of means.
    subsample : int or None, default=20_000
        Number of rows for medians and edges.

    Examples
    --------
    >>> Options(n_bins=8).max_levels
    40
    """

    piecewise: str | None = "both"
    n_bins: int = 16
    max_levels: int = 40
    min_count: int = 5
    n_folds: int = 5
    smoothing: float = 20.0
    subsample: int | None = 20_000


@dataclass(frozen=True)
class Plan:
    """The encodings of all columns of a table.

    Attributes
    ----------
    numbers : Numbers
        Encodings of the numbers of a dense table.
    sparse : SparseNumbers or None
        Encodings of the numbers of a sparse matrix.
    categories : tuple of CategoryColumn
        Encodings of categories, in the order of the table.
    """

    numbers: Numbers
    sparse: SparseNumbers | None
    categories: tuple[CategoryColumn, ...]

    @cached_property
    def names(self) -> list[str]:
        """Names of the outputs, all unique."""
        found = [
            *self.numbers.names,
            *(() if self.sparse is None else self.sparse.names),
            *(name for category in self.categories for name in category.names),
        ]
        return _different(found)

    @cached_property
    def width(self) -> int:
        """Number of outputs."""
        return len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def one_row(self) -> OneRow:
        """What encodes a single row faster, where numbers are dense."""
        return OneRow([self])

    def number_parts(self, n_numbers: int) -> tuple[Any, ...]:
        """Return the last arguments of `encode_numbers` for `n_numbers`; sparse ones are not centered."""
        if self.sparse is None:
            return self.numbers.parts
        none = np.zeros(0, np.intp)
        kept, flags = np.array(self.sparse.kept, np.intp), np.array(self.sparse.flagged, np.intp)
        values = (kept, np.zeros(len(kept)), self.sparse.scales)
        return np.zeros(n_numbers), values, none, (none, *(np.zeros(0) for _ in range(4))), flags

    def dense(self, table: Table, dtype: Any, fitted: "dict[int, np.ndarray] | None" = None) -> np.ndarray:
        """Return the outputs of a table as an array of shape (n_samples, width).

        Parameters
        ----------
        table : Table
            Read with the schema of the fit.
        dtype : dtype
            Dtype of the outputs.
        fitted : dict of int to ndarray, default=None
            Known outputs of categories, by the index of the category.

        Returns
        -------
        ndarray
            C-contiguous.
        """
        if table.n_rows == 1 and self.sparse is None and not fitted:
            return self.one_row(table, dtype)
        out = np.empty((table.n_rows, self.width), dtype)
        at = len(self.numbers.names)
        self.numbers.encode(table.numbers, out[:, :at])
        if self.sparse is not None:
            found = self.sparse.encode(table.sparse)
            out[:, at : at + found.shape[1]] = found.toarray()
            at += found.shape[1]
        for i, category in enumerate(self.categories):
            part = out[:, at : at + len(category.names)]
            if fitted is not None and i in fitted:
                part[:] = fitted[i]
            elif category.names:
                category.encode(table.codes[:, i], part)
            at += len(category.names)
        return out

    def csr(self, table: Table, dtype: Any, fitted: "dict[int, np.ndarray] | None" = None) -> Any:
        """Return the outputs as a CSR array; `table`, `dtype` and `fitted` are as for `dense`."""
        parts: list[Any] = []
        if self.numbers.names:
            block = np.empty((table.n_rows, len(self.numbers.names)), dtype)
            self.numbers.encode(table.numbers, block)
            parts.append(scipy_sparse().csr_array(block))
        if self.sparse is not None:
            parts.append(self.sparse.encode(table.sparse))
        for i, category in enumerate(self.categories):
            if fitted is not None and i in fitted:
                parts.append(scipy_sparse().csr_array(fitted[i]))
            elif category.names:
                parts.append(category.sparse(table.codes[:, i]))
        return scipy_sparse().hstack(parts, format="csr", dtype=dtype)

    @cached_property
    def density(self) -> float:
        """Approximate share of nonzero outputs."""
        full = len(self.numbers.names) + sum(
            category.density * len(category.names) for category in self.categories
        )
        return full / max(self.width, 1)


def _different(names: list[str]) -> list[str]:
    """Return unique names: repeated ones get a number."""
    taken = set(names)
    seen: set[str] = set()
    found = []
    for name in names:
        new, count = name, 2
        while new in seen or (new != name and new in taken):
            new, count = f"{name}_{count}", count + 1
        seen.add(new)
        found.append(new)
    return found


def fit_plan(
    schema: Schema, table: Table, target: Target | None, options: Options, random_state: Any
) -> tuple[Plan, dict[int, np.ndarray]]:
    """Fit the encoding of every column.

    Parameters
    ----------
    schema : Schema
        The kinds of the columns.
    table : Table
        The rows to learn from.
    target : Target or None
        Targets of the same rows.
    options : Options
        The user's options.
    random_state : RandomState
        Draws rows and folds.

    Returns
    -------
    plan : Plan
        The encoding.
    fitted : dict of int to ndarray of shape (n_samples, n_outputs)
        Cross-fitted outputs of these rows for target-encoded categories.

    Raises
    ------
    ValueError
        If no column is informative.
    """
    numbers = _fit_numbers(schema, table, target, options, random_state)
    sparse_names = [f.name for f in schema.features if f.kind == "number"] if schema.is_sparse else []
    sparse = None if table.sparse is None else fit_sparse(sparse_names, table.sparse)
    categories, fitted = _fit_categories(schema.categories, table, target, options, random_state)
    plan = Plan(numbers, sparse, categories)
    if not plan.width:
        labels = ", ".join(feature.label for feature in schema.features[:5])
        more = ", ..." if len(schema.features) > 5 else ""
        raise ValueError(
            f"nothing can be learned from X, n_samples = {table.n_rows}: each of its columns "
            f"({labels}{more}) is constant, is missing everywhere, or has no level that occurs "
            f"{options.min_count} times"
        )
    return plan, fitted


def _fit_numbers(
    schema: Schema, table: Table, target: Target | None, options: Options, random_state: Any
) -> Numbers:
    numbers, n_rows = table.numbers, table.n_rows
    missing = np.isnan(numbers).any(axis=0)
    if options.subsample is not None and n_rows > options.subsample:
        rows = np.sort(random_state.choice(n_rows, options.subsample, replace=False))
        numbers = numbers[rows]
        target = None if target is None else target.take(rows)
    names = [] if schema.is_sparse else schema.names
    columns = []
    for i, name in enumerate(names):
        fit = fit_number(
            name, numbers[:, i], target, options.piecewise, options.n_bins, is_phase=bool(schema.phased[i])
        )
        columns.append(fit.with_flag(bool(missing[i])))
    return Numbers(tuple(columns))


def _fit_categories(
    features: list[Feature], table: Table, target: Target | None, options: Options, random_state: Any
) -> tuple[tuple[CategoryColumn, ...], dict[int, np.ndarray]]:
    folds: list[Any] = []
    if table.n_rows > 1 and any(len(feature.levels) > options.max_levels for feature in features):
        from sklearn.model_selection import KFold  # it loads half of scikit-learn

        split = KFold(min(options.n_folds, table.n_rows), shuffle=True, random_state=random_state)
        folds = list(split.split(table.codes))
    categories, fitted = [], {}
    for i, feature in enumerate(features):
        codes, levels = table.codes[:, i], feature.levels
        if len(levels) <= options.max_levels:
            column = fit_levels(feature.name, levels, codes, options.min_count)
        elif target is None:
            column = fit_levels(feature.name, levels, codes, options.min_count, options.max_levels)
        else:
            column, fitted[i] = fit_means(feature.name, len(levels), codes, target, folds, options.smoothing)
        categories.append(column)
    return tuple(categories), fitted
