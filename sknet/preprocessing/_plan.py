"""The encodings of all columns of a table, and what a fitted encoder is frozen into."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from sknet._fields import ABSENT, COUNT, Texts
from sknet._frames import names_of
from sknet._late import FieldsAlone, cached_property, scipy_sparse
from sknet.ops._codes import Blocks
from sknet.preprocessing._columns import CATEGORY, HUGE
from sknet.preprocessing._encodings import (
    FIRST,
    CategoryColumn,
    Crossed,
    Numbers,
    SparseNumbers,
    Target,
    ValueMeans,
    fit_levels,
    fit_means,
    fit_number,
    fit_sparse,
    fit_value_means,
    quartiles_of,
    smoothly_clipped,
    values_repeat,
    values_tell_more,
)
from sknet.preprocessing._schema import Feature, Schema, Table

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
class Plan(FieldsAlone):
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
        found = [
            *self.numbers.names,
            *(() if self.sparse is None else self.sparse.names),
            *(name for column in self._columns for name in column.names),
        ]
        return _different(found)

    @cached_property
    def width(self) -> int:
        return len(self.names)

    @cached_property
    def one_row(self) -> "OneRow":
        """Faster encoder of a single row, where numbers are dense."""
        return OneRow([self])

    def number_parts(self, n_numbers: int) -> tuple[Any, ...]:
        """Return the last arguments of ``encode_numbers`` for `n_numbers`; sparse ones are not centered."""
        if self.sparse is None:
            return self.numbers.parts
        none = np.zeros(0, np.intp)
        kept, flags = np.array(self.sparse.kept, np.intp), np.array(self.sparse.flagged, np.intp)
        values = (kept, np.zeros(len(kept)), self.sparse.scales)
        return np.zeros(n_numbers), values, none, (none, *(np.zeros(0) for _ in range(4))), flags

    @np.errstate(under="ignore")
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

    @np.errstate(under="ignore")
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

    @cached_property
    def blocks(self) -> Blocks:
        """Columns of the outputs of which a row has a value in one, see `coded_matmul`."""
        values, flags = len(self.numbers.values[0]), len(self.numbers.flags)
        found = [(1, 0)] * values
        found += [(len(x) - 1, 1) for column in self.numbers.columns for x in column.edges.values()]
        found += [(1, 0)] * flags
        return (*found, *(block for column in self._columns for block in column.blocks))

    def narrowed(self, is_kept: np.ndarray) -> "Plan":
        """Return a plan of dense values, flags and categories that are kept: a category as a whole."""
        ends = np.cumsum([len(x) for x in (self.numbers.values[0], self.numbers.bins[0], self.numbers.flags)])
        values, flags = np.zeros((2, len(self.numbers.columns)), bool)
        values[self.numbers.values[0]], flags[self.numbers.flags] = (
            is_kept[: ends[0]],
            is_kept[ends[1] : ends[2]],
        )
        numbers = [
            replace(column, scale=column.scale * has_value, edges={}, has_flag=bool(has_flag))
            for column, has_value, has_flag in zip(self.numbers.columns, values, flags, strict=True)
        ]
        categories, at = [], ends[2]
        for column in self.categories:
            width = len(column.names)
            is_whole = is_kept[at : at + width].all()
            categories.append(column if is_whole else CategoryColumn((), column.values[:, :0]))
            at += width
        return Plan(Numbers(tuple(numbers)), None, tuple(categories))

    def directions(self, of_numbers: np.ndarray | None) -> np.ndarray | None:
        """Return -1, 0 or 1 for each output, given that for each number; flags have no direction."""
        if of_numbers is None:
            return None
        found = np.zeros(self.width, np.int8)
        if self.sparse is None:
            numbers = np.concatenate([self.numbers.values[0], self.numbers.bins[0]])
        else:
            numbers = self.sparse.kept
        found[: len(numbers)] = of_numbers[numbers]
        return found

    def owners(self, schema: Schema) -> np.ndarray:
        """Return the indices of both columns that an output comes from, of shape (width, 2).

        They are the same where it comes from one, and differ for sums.
        """
        numbers = schema.owners_of_numbers
        found = [*self.numbers.values[0], *self.numbers.bins[0], *self.numbers.flags]
        if self.sparse is not None:
            found = [*found, *self.sparse.kept, *self.sparse.flagged]
        owned = [numbers[i] for i in found]
        coded = [(i, i) for i, feature in enumerate(schema.features) if feature.kind == CATEGORY]
        coded += [numbers[means.number] for means in self.value_means]
        for column, owner in zip(self._columns, coded, strict=True):
            owned += [owner] * len(column.names)
        return np.array(owned, np.intp).reshape(-1, 2)

    @property
    def _columns(self) -> tuple[CategoryColumn, ...]:
        """The encodings of codes."""
        return (*self.categories, *(means.column for means in self.value_means))

    def _coded(self, table: Table) -> Iterator[tuple[CategoryColumn, np.ndarray]]:
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
    schema: Schema,
    table: Table,
    target: Target | None,
    options: Options,
    random_state: Any,
    rows: Any = None,
    directions: np.ndarray | None = None,
) -> tuple[Plan, dict[int, Crossed]]:
    """Fit the encoding of every column; all outputs of numbers with a direction rise with them."""
    n_rows = table.n_rows if rows is None else len(rows)
    sample, of_sample = _sample(table, target, options, random_state, rows, n_rows)
    numbers = _fit_numbers(schema, table, sample, of_sample, options, rows)
    sparse_names = [f.name for f in schema.features if f.kind == "number"] if schema.is_sparse else []
    matrix = None if table.sparse is None else _of(table.sparse, rows)
    sparse = None if matrix is None else fit_sparse(sparse_names, matrix, options.min_count)
    may_tell = ~schema.phased if directions is None else ~schema.phased & (directions == 0)
    may_tell[len(may_tell) - len(schema.sums) :] = False
    telling = _telling(numbers, may_tell, sample, of_sample, options)
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
        is_huge = (np.abs(sample if matrix is None else matrix.data) >= HUGE).any()
        huge = f" has magnitudes of {HUGE} or more, which count as infinite," if is_huge else ""
        raise ValueError(
            f"nothing can be learned from X, n_samples = {n_rows}: each of its columns "
            f"({labels}{more}) is constant,{huge} is missing everywhere, or has "
            f"{'no number or level in' if sparse else 'no level in'} {options.min_count} rows"
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


def _telling(
    numbers: Numbers, may_tell: np.ndarray, sample: np.ndarray, target: Target | None, options: Options
) -> list[int]:
    """Return the indices of the numbers, of those that may, whose values have means of their own."""
    if target is None or not options.value_means:
        return []
    # Shuffled, since rows may be in order; not drawn from the random state, so that draws do not depend on y.
    folds = np.random.RandomState(0).permutation(len(sample)) % options.n_folds
    how = options.min_count, folds, options.smoothing
    repeated = values_repeat(sample, options.min_count)
    return [
        i
        for i, column in enumerate(numbers.columns)
        if may_tell[i]
        and repeated[i]
        and column.scale
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
    features: list[Feature], table: Table, target: Target | None, options: Options, folds: Folds, rows: Any
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


class FittedEncoder:
    """An encoder that only reads and encodes tables."""

    n_features_in_: int
    _stored_fields = {
        "_schema": Schema,
        "_plan": Plan,
        "n_features_in_": COUNT,
        "n_features_out_": COUNT,
        "_dtype": Literal["float32", "float64"],
        "_is_sparse": bool,
        "feature_names_in_": [Texts("n_features_in_"), ABSENT],
    }

    def _check_stored(self) -> None:
        check_plan(self._schema, self._plan, self.n_features_in_, self.n_features_out_)

    def __init__(self, encoder: Any) -> None:
        self._schema: Schema = encoder._schema
        self._plan: Plan = encoder._plan
        self.n_features_in_, self.n_features_out_ = int(encoder.n_features_in_), int(encoder.n_features_out_)
        if hasattr(encoder, "feature_names_in_"):
            self.feature_names_in_ = np.array(encoder.feature_names_in_)
        self._dtype, self._is_sparse = str(encoder.dtype), bool(encoder._is_sparse())

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def schema(self) -> Schema:
        """Schema by which a table is read."""
        return self._schema

    @property
    def plan(self) -> Plan:
        """Encoding of every column."""
        return self._plan

    def read(self, X: Any) -> Table:
        """Read `X`, a table with the columns of the fit; pass the result to `encode`."""
        return self._schema.read(self, X)

    def encode(self, table: Table) -> Any:
        """Return the outputs for a table that has been read, of shape (n_samples, n_features_out_)."""
        encode = self._plan.csr if self._is_sparse else self._plan.dense
        return encode(table, np.dtype(self._dtype))

    def check_columns(self, X: Any) -> None:
        """Raise a ValueError if `X`, a table, has other columns than that of the fit."""
        known = vars(self).get("feature_names_in_")
        given = names_of(X) if hasattr(X, "columns") else None
        given = given if given and all(isinstance(name, str) for name in given) else None
        if known is not None and given is not None and given != known.tolist():
            missing, unseen = set(known) - set(given), set(given) - set(known)
            raise ValueError(
                "The feature names should match those that were passed during fit: "
                f"missing are {sorted(missing)}, unseen {sorted(unseen)}"
                if missing or unseen
                else "The feature names should match those that were passed during fit: they are in another "
                f"order, not {known.tolist()}"
            )
        if (known is None) != (given is None):
            was, now = ("with", "has no") if given is None else ("without", "has")
            warnings.warn(f"X {now} feature names, but the encoder was fitted {was} them", stacklevel=2)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but the encoder is expecting {self.n_features_in_} features"
            )


class OneRow:
    """Encodes single rows of dense tables as `Plan.dense` does, to the same bits."""

    def __init__(self, plans: "Sequence[Plan]") -> None:
        self.widths = [plan.width for plan in plans]
        numbers = [plan.numbers for plan in plans]
        kept, centers, scales = (np.concatenate(x) for x in zip(*(n.values for n in numbers), strict=True))
        self._values = kept, centers, scales
        offsets = np.cumsum([0, *(len(n.values[0]) for n in numbers[:-1])])
        phases = [n.phases + offset for n, offset in zip(numbers, offsets, strict=True)]
        self._phases = np.concatenate(phases)
        self._bins = tuple(np.concatenate(x) for x in zip(*(n.bins for n in numbers), strict=True))
        self._fills = np.concatenate([n.centers[n.bins[0]] for n in numbers])
        self._flags = np.concatenate([n.flags for n in numbers])
        n_categories = len(plans[0].categories)
        self._levels = [np.hstack([plan.categories[i].values for plan in plans]) for i in range(n_categories)]
        self._means = [means for plan in plans for means in plan.value_means]
        self._order = self._order_of(plans)

    @staticmethod
    def _order_of(plans: "Sequence[Plan]") -> np.ndarray:
        """Return where each output is: they are computed by kind, and returned by plan."""
        counts = [
            [
                *(len(x) for x in (plan.numbers.values[0], plan.numbers.bins[0], plan.numbers.flags)),
                *(len(category.names) for category in plan.categories),
                sum(len(means.column.names) for means in plan.value_means),
            ]
            for plan in plans
        ]
        places, at = {}, 0
        for kind in range(len(counts[0])):
            for i, of_plan in enumerate(counts):
                places[i, kind] = np.arange(at, at + of_plan[kind])
                at += of_plan[kind]
        return np.concatenate([places[i, kind] for i in range(len(plans)) for kind in range(len(counts[0]))])

    @np.errstate(over="ignore", under="ignore")
    def __call__(self, table: Table, dtype: Any) -> np.ndarray:
        """Return the outputs of the only row of a `table` in a `dtype`, of shape (1, sum(widths))."""
        numbers, codes = table.numbers[0], table.codes[0].tolist()
        parts = [self._numbers(numbers)] if len(numbers) else []
        parts += [values[code + FIRST] for values, code in zip(self._levels, codes, strict=True)]
        parts += [means.of(numbers.item(means.number)) for means in self._means]
        return np.concatenate(parts).take(self._order).astype(dtype).reshape(1, -1)

    def _numbers(self, numbers: np.ndarray) -> np.ndarray:
        missing = np.isnan(numbers)
        has_gaps = bool(missing.any())
        kept, centers, scales = self._values
        number, low, inverse, smallest, largest = self._bins
        z, t = numbers[kept], numbers[number]
        if has_gaps:
            z, t = np.where(missing[kept], centers, z), np.where(missing[number], self._fills, t)
        z -= centers
        t -= low
        z /= scales
        t *= inverse
        np.clip(z, -HUGE, HUGE, out=z)
        values = smoothly_clipped(z)
        if len(self._phases):
            values[self._phases] = z[self._phases]
        np.clip(t, smallest, largest, out=t)
        t -= 0.5
        parts = [values, t, missing[self._flags]] if len(self._flags) else [values, t]
        return np.concatenate(parts)
