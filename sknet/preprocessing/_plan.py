"""The encodings of all columns of a table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sknet._cached import cached_property
from sknet._fields import COUNT
from sknet._scipy import scipy_sparse
from sknet.preprocessing._categories import FIRST, CategoryColumn, Crossed, fit_levels, fit_means
from sknet.preprocessing._numbers import Numbers, fit_number, quartiles_of
from sknet.preprocessing._one_row import OneRow
from sknet.preprocessing._schema import Feature, Schema, Table
from sknet.preprocessing._sparse_numbers import SparseNumbers, fit_sparse
from sknet.preprocessing._targets import Target
from sknet.preprocessing._value_means import ValueMeans, fit_value_means, values_repeat, values_tell_more

__all__ = ["Options", "Plan", "check_plan", "fit_plan"]

Folds = Sequence[tuple[np.ndarray, np.ndarray]]
BLOCK = 4096  # rows that are looked at together


@dataclass(frozen=True)
class Options:
    """The options of a `TableEncoder`, apart from its columns."""

    piecewise: str | None = "both"
    n_bins: int = 16
    max_levels: int = 40
    min_count: int = 5
    n_folds: int = 5
    smoothing: float = 20.0
    value_means: bool = True
    subsample: int | None = 20_000
    _stored_fields = {
        "piecewise": Literal["both", "tree", "quantile", None],
        "n_bins": COUNT,
        "max_levels": COUNT,
        "min_count": COUNT,
        "n_folds": COUNT,
    }


@dataclass(frozen=True)
class Plan:
    """The encodings of all columns of a table."""

    numbers: Numbers
    sparse: SparseNumbers | None
    categories: tuple[CategoryColumn, ...]
    value_means: tuple[ValueMeans, ...] = ()

    def _check_stored(self) -> None:
        n_numbers = len(self.numbers.columns)
        wrong = [each.number for each in self.value_means if each.number >= n_numbers]
        if wrong:
            raise ValueError(f"there are means of the values of number {wrong[0]} of {n_numbers}")

    @cached_property
    def names(self) -> list[str]:
        """Names of the outputs, all unique."""
        found = [
            *self.numbers.names,
            *(() if self.sparse is None else self.sparse.names),
            *(name for column in self._columns for name in column.names),
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
        """Return the last arguments of ``encode_numbers`` for `n_numbers`; sparse ones are not centered."""
        if self.sparse is None:
            return self.numbers.parts
        none = np.zeros(0, np.intp)
        kept, flags = np.array(self.sparse.kept, np.intp), np.array(self.sparse.flagged, np.intp)
        values = (kept, np.zeros(len(kept)), self.sparse.scales)
        return np.zeros(n_numbers), values, none, (none, *(np.zeros(0) for _ in range(4))), flags

    def dense(self, table: Table, dtype: Any, fitted: "dict[int, Crossed] | None" = None) -> np.ndarray:
        """Return the outputs of a table as an array of shape (n_samples, width)."""
        if table.n_rows == 1 and self.sparse is None and not fitted:
            return self.one_row(table, dtype)
        out = np.empty((table.n_rows, self.width), dtype)
        at = len(self.numbers.names)
        self.numbers.encode(table.numbers, out[:, :at])
        if self.sparse is not None:
            found = self.sparse.encode(table.sparse)
            out[:, at : at + found.shape[1]] = found.toarray()
            at += found.shape[1]
        for i, (column, codes) in enumerate(self._coded(table)):
            part = out[:, at : at + len(column.names)]
            if fitted is not None and i in fitted:
                part[:] = fitted[i].take(slice(None))
            elif column.names:
                column.encode(codes, part)
            at += len(column.names)
        return out

    def csr(self, table: Table, dtype: Any, fitted: "dict[int, Crossed] | None" = None) -> Any:
        """Return the outputs as a CSR array; `table`, `dtype` and `fitted` are as for `dense`."""
        parts: list[Any] = []
        if self.numbers.names:
            block = np.empty((table.n_rows, len(self.numbers.names)), dtype)
            self.numbers.encode(table.numbers, block)
            parts.append(scipy_sparse().csr_array(block))
        if self.sparse is not None:
            parts.append(self.sparse.encode(table.sparse))
        for i, (column, codes) in enumerate(self._coded(table)):
            if fitted is not None and i in fitted:
                parts.append(scipy_sparse().csr_array(fitted[i].take(slice(None))))
            elif column.names:
                parts.append(column.sparse(codes))
        return scipy_sparse().hstack(parts, format="csr", dtype=dtype)

    @cached_property
    def density(self) -> float:
        """Approximate share of nonzero outputs."""
        full = len(self.numbers.names) + sum(column.density * len(column.names) for column in self._columns)
        return full / max(self.width, 1)

    @cached_property
    def one_hot(self) -> tuple[tuple[int, int], ...]:
        """The first output, and the last, exclusively, of each category with one for every level."""
        ends = np.cumsum([len(column.names) for column in self._columns]).tolist()
        at = self.width - (ends[-1] if ends else 0)
        places = zip(self._columns, ends, strict=True)
        return tuple([(at + end - len(each.names), at + end) for each, end in places if each.is_one_hot])

    @property
    def _columns(self) -> tuple[CategoryColumn, ...]:
        """The encodings of codes."""
        return (*self.categories, *(means.column for means in self.value_means))

    def _coded(self, table: Table) -> Iterator[tuple[CategoryColumn, np.ndarray]]:
        """Yield the encodings of codes with the codes of a table."""
        yield from zip(self.categories, table.codes.T, strict=True)
        for means in self.value_means:
            yield means.column, means.codes(table.numbers)


def check_plan(schema: Schema, plan: Plan, n_features: int, width: int) -> None:
    """Raise a ValueError unless a plan encodes the columns of a schema."""
    sizes = [len(feature.levels) + FIRST for feature in schema.categories]
    rows = [len(column.values) for column in plan.categories]
    if len(rows) != len(sizes) or any(
        x.names and n != m for x, n, m in zip(plan.categories, rows, sizes, strict=True)
    ):
        raise ValueError(f"categories with {sizes} codes are encoded by tables of {rows} rows")
    n_numbers = len(schema.names)
    sparse = plan.sparse
    if schema.is_sparse != (sparse is not None) or (
        sparse is None and len(plan.numbers.columns) != n_numbers
    ):
        raise ValueError(f"{n_numbers} numbers have encodings of {len(plan.numbers.columns)}")
    if sparse is not None and max(sparse.kept.max(initial=-1), sparse.flagged.max(initial=-1)) >= n_numbers:
        raise ValueError(f"there are only {n_numbers} sparse numbers")
    if len(schema.features) != n_features or plan.width != width:
        raise ValueError(
            f"{n_features} columns have {len(schema.features)} descriptions, and {width} outputs {plan.width}"
        )


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
    schema: Schema, table: Table, target: Target | None, options: Options, random_state: Any, rows: Any = None
) -> tuple[Plan, dict[int, Crossed]]:
    """Fit the encoding of every column."""
    n_rows = table.n_rows if rows is None else len(rows)
    sample, of_sample = _sample(table, target, options, random_state, rows, n_rows)
    numbers = _fit_numbers(schema, table, sample, of_sample, options, rows)
    sparse_names = [f.name for f in schema.features if f.kind == "number"] if schema.is_sparse else []
    sparse = None if table.sparse is None else fit_sparse(sparse_names, _of(table.sparse, rows))
    telling = _telling(numbers, sample, of_sample, options)
    several = any(len(feature.levels) > options.max_levels for feature in schema.categories)
    if target is not None and (telling or several):
        target = target.take(slice(None) if rows is None else rows)
    folds = _folds(bool(telling) or several, n_rows, options, random_state)
    categories, fitted = _fit_categories(schema.categories, table, target, options, folds, rows)
    means, of_means = _fit_value_means(numbers, telling, table, target, options, folds, rows)
    fitted.update(enumerate(of_means, len(categories)))
    plan = Plan(numbers, sparse, categories, means)
    if not plan.width:
        labels = ", ".join(feature.label for feature in schema.features[:5])
        more = ", ..." if len(schema.features) > 5 else ""
        raise ValueError(
            f"nothing can be learned from X, n_samples = {n_rows}: each of its columns "
            f"({labels}{more}) is constant, is missing everywhere, or has no level that occurs "
            f"{options.min_count} times"
        )
    return plan, fitted


def _of(array: Any, rows: Any) -> Any:
    """Return some rows of an array, or the array itself for None."""
    return array if rows is None else array[rows]


def _sample(
    table: Table, target: Target | None, options: Options, random_state: Any, rows: Any, n_rows: int
) -> tuple[np.ndarray, Target | None]:
    """Return the numbers that medians and edges are found from, and the targets of their rows."""
    if options.subsample is not None and n_rows > options.subsample:
        drawn = np.sort(random_state.choice(n_rows, options.subsample, replace=False))
        rows = drawn if rows is None else rows[drawn]
    if rows is None:
        return table.numbers, target
    return table.numbers[rows], None if target is None else target.take(rows)


def _fit_numbers(
    schema: Schema, table: Table, sample: np.ndarray, target: Target | None, options: Options, rows: Any
) -> Numbers:
    missing = _have_missing(table.numbers, rows)
    names = [] if schema.is_sparse else schema.names
    columns, quartiles = [], quartiles_of(sample)
    for i, name in enumerate(names):
        fit = fit_number(
            name,
            sample[:, i],
            target,
            options.piecewise,
            options.n_bins,
            is_phase=bool(schema.phased[i]),
            quartiles=quartiles.get(i),
        )
        columns.append(fit.with_flag(bool(missing[i])))
    return Numbers(tuple(columns))


def _have_missing(numbers: np.ndarray, rows: Any) -> np.ndarray:
    """Return a mask of the columns with a missing value, found block by block."""
    found = np.zeros(numbers.shape[1], dtype=bool)
    for start in range(0, len(numbers) if rows is None else len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        found |= np.isnan(numbers[block if rows is None else rows[block]]).any(axis=0)
    return found


def _telling(numbers: Numbers, sample: np.ndarray, target: Target | None, options: Options) -> list[int]:
    """Return the indices of the numbers whose values have means of their own."""
    if target is None or not options.value_means:
        return []
    # Shuffled, since rows may be in order; not drawn from the random state, so that draws do not depend on y.
    folds = np.random.RandomState(0).permutation(len(sample)) % options.n_folds
    how = options.min_count, folds, options.smoothing
    repeated = values_repeat(sample, options.min_count)
    return [
        i
        for i, column in enumerate(numbers.columns)
        if repeated[i]
        and column.scale
        and not column.is_phase
        and values_tell_more(sample[:, i], target, column.edges, *how)
    ]


def _fit_value_means(
    numbers: Numbers,
    telling: list[int],
    table: Table,
    target: Target | None,
    options: Options,
    folds: Folds,
    rows: Any,
) -> tuple[tuple[ValueMeans, ...], list[Crossed]]:
    if target is None:
        return (), []
    found = []
    for i in telling:
        name, values = numbers.columns[i].name, _of(table.numbers[:, i], rows)
        found.append(fit_value_means(name, i, values, target, folds, options.smoothing))
    return tuple(means for means, _ in found), [crossed for _, crossed in found]


def _folds(is_needed: bool, n_rows: int, options: Options, random_state: Any) -> Folds:
    """Return the folds of target encoding: rows to learn from and rows to encode; none if none are needed."""
    if n_rows < 2 or not is_needed:
        return []
    from sklearn.model_selection import KFold  # it loads half of scikit-learn

    split = KFold(min(options.n_folds, n_rows), shuffle=True, random_state=random_state)
    return list(split.split(np.empty((n_rows, 0))))


def _fit_categories(
    features: list[Feature],
    table: Table,
    target: Target | None,
    options: Options,
    folds: Folds,
    rows: Any,
) -> tuple[tuple[CategoryColumn, ...], dict[int, Crossed]]:
    categories, fitted = [], {}
    for i, feature in enumerate(features):
        codes, levels = _of(table.codes[:, i], rows), feature.levels
        if len(levels) <= options.max_levels:
            column = fit_levels(feature.name, levels, codes, options.min_count)
        elif target is None:
            column = fit_levels(feature.name, levels, codes, options.min_count, options.max_levels)
        else:
            column, fitted[i] = fit_means(feature.name, len(levels), codes, target, folds, options.smoothing)
        categories.append(column)
    return tuple(categories), fitted
