"""The encoding of a table as Python that needs only NumPy.

The functions above the line are written into such files, with what they use.
"""

import warnings
from typing import Any

import numpy as np

from sknet.exceptions import CaptureError
from sknet.graphs._literals import literal
from sknet.graphs._python import PythonSource
from sknet.preprocessing._columns import (
    CATEGORY,
    DATE,
    DROPPED,
    HUGE,
    TEXT,
    array_of,
    is_missing,
    lasting,
    local_dates,
    of_another_kind,
    phases,
    seconds,
)
from sknet.preprocessing._encodings import FIRST, ValueMeans, chunk_of, encode_numbers, value_codes
from sknet.preprocessing._plan import Plan
from sknet.preprocessing._schema import MISSING, UNSEEN, Schema, with_sums
from sknet.preprocessing._texts import BOOLEAN, boolean_of, read_column, unread
from sknet.preprocessing._words import numbers_of_words

PLAIN = (str, bool, int, float, bytes)


def columns_of(X: Any, count: int, names: Any) -> Any:
    """Return a table with the columns of the fit as an array: numbers, or objects if there are others."""
    known = X.keys() if hasattr(X, "keys") else getattr(X, "column_names", getattr(X, "columns", None))
    if names is not None and known is not None:
        missing = [name for name in names if name not in known]
        if missing:
            raise ValueError(f"X has no column {missing[0]!r}: expected {list(names)}, got {list(known)}")
        columns = [array_of(X[name]) for name in names]
        if all(column.dtype.kind in "biuf" for column in columns):
            return np.column_stack(columns)
        X = np.empty((len(columns[0]), len(columns)), dtype=object)
        for i, column in enumerate(columns):
            # Nanoseconds would become integers in a list.
            values = column if column.dtype.kind in "mM" else column.tolist()
            for row, value in enumerate(values):
                X[row, i] = value
    elif not hasattr(X, "dtype") and not hasattr(X, "columns"):
        array = np.asarray(X)
        X = array if array.dtype.kind in "biuf" else np.array(X, dtype=object)
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    if X.ndim != 2 or X.shape[1] != count or not len(X):
        raise ValueError(f"expected rows of {count} columns, and at least one, got shape {X.shape}")
    return X


def numbers_of(values: Any, label: str) -> Any:
    """Return a column as real numbers, NaN where missing; durations become seconds."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "m":
        durations = values.astype("timedelta64[us]")
        return np.where(np.isnat(durations), np.nan, durations.astype(np.int64) / 1e6)
    found = np.empty(len(values))
    for row, value in enumerate(values):
        try:
            found[row] = np.nan if is_missing(value) else float(lasting(value))
        except (TypeError, ValueError):
            raise ValueError(f"{label}: expected numbers, got {value!r} in row {row}") from None
    return found


def codes_of(values: Any, known: Any, form: Any, label: str) -> Any:
    codes = []
    for row, value in enumerate(values.tolist()):
        value = value.item() if isinstance(value, np.generic) else value
        try:
            codes.append(MISSING if is_missing(value) else known.get(value, UNSEEN))
        except TypeError:
            raise TypeError(f"{label}: expected a string or a number, got {value!r} in row {row}") from None
    if form != BOOLEAN and UNSEEN in codes and not any(code >= 0 for code in codes):
        levels = [value for value, code in zip(values.tolist(), codes, strict=True) if code == UNSEEN]
        told = of_another_kind(levels, known)
        if told:
            warnings.warn(f"{label}: {told}", UserWarning, stacklevel=2)
    return np.array(codes, np.int64)


def of_texts(values: Any, kind: str, form: str, zone: Any, label: str) -> Any:
    """Return the numbers or dates of a column of texts, missing where they are none."""
    found, strange = read_column(values, kind, form, zone, label)
    if strange:
        warnings.warn(unread(label, kind, strange), UserWarning, stacklevel=2)
    return found


def table_of(X: Any, columns: Any) -> Any:
    numbers, codes = [], []
    for i, (label, kind, known, form) in enumerate(columns):
        values = X[:, i]
        if kind == CATEGORY:
            if form == BOOLEAN:
                values = np.array([boolean_of(value) for value in values.tolist()], object)
            codes.append(codes_of(values, known, form, label))
        elif kind == TEXT:
            numbers += list(numbers_of_words(values.tolist(), known[0], known[1], known[2], form).T)
        elif kind == DATE:
            periods, zone = known
            dates = (
                local_dates(values, zone, label)
                if form is None
                else of_texts(values, kind, form, zone, label)
            )
            numbers += [seconds(dates), *(part for period in periods for part in phases(dates, period))]
        elif kind != DROPPED:
            numbers.append(
                numbers_of(values, label) if form is None else of_texts(values, kind, form, None, label)
            )
    together = np.stack(numbers, axis=1) if numbers else np.empty((len(X), 0))
    return np.clip(together, -HUGE, HUGE), codes


def encoded(
    X: Any, columns: Any, sums: Any, numbers: Any, categories: Any, value_means: Any, width: int, dtype: str
) -> Any:
    table, codes = table_of(X, columns)
    table = with_sums(table, sums)
    codes += [value_codes(table[:, number], known) for number, known, _ in value_means]
    levels = [*categories, *(values for _, _, values in value_means)]
    out = np.empty((len(X), width), dtype)
    at = width - sum(values.shape[1] for values in levels)
    size = chunk_of(out.shape[1])
    for start in range(0, len(out), size):
        encode_numbers(table[start : start + size], out[start : start + size, :at], *numbers)
    for values, places in zip(levels, codes, strict=True):
        out[:, at : at + values.shape[1]] = values[places + FIRST]
        at += values.shape[1]
    return out


# -- writing them -------------------------------------------------------------------------------


def table_facts(count: int, names: Any) -> str:
    names = None if names is None else tuple(map(str, names))
    return f"N_COLUMNS = {literal(count)}\nNAMES = {literal(names)}"


def encoding_call(source: PythonSource, encoder: Any, name: str, table: str) -> str:
    """Return an expression for the outputs of an encoder, or of a step with its schema, plan and dtype."""
    schema: Schema = encoder.schema
    plan: Plan = encoder.plan
    columns = "".join(
        f"        {_column(source, feature, f'{name}_texts_{i}')},\n"
        for i, feature in enumerate(schema.features)
    )
    levels = [source.array(x.values, f"{name}_{i}") for i, x in enumerate(plan.categories)]
    means = [_means(source, x, f"{name}_means_{i}") for i, x in enumerate(plan.value_means)]
    parts = [_stored(source, part, f"{name}_numbers") for part in plan.number_parts(len(schema.names))]
    function = source.value(encoded)
    last = f"{literal(plan.width)}, {literal(encoder.dtype)}"
    return (
        f"{function}(\n    {table},\n    [\n{columns}    ],\n    {literal(schema.sums)},\n"
        f"    ({', '.join(parts)}),\n    [{', '.join(levels)}],\n    [{', '.join(means)}],\n    {last},\n)"
    )


def _means(source: PythonSource, means: ValueMeans, name: str) -> str:
    known, values = source.array(means.levels, f"{name}_of"), source.array(means.column.values, name)
    return f"({literal(means.number)}, {known}, {values})"


def _stored(source: PythonSource, part: Any, name: str) -> str:
    if isinstance(part, tuple):
        return f"({', '.join(_stored(source, each, name) for each in part)})"
    return source.array(part, name)


def _column(source: PythonSource, feature: Any, name: str) -> str:
    if feature.words is not None:
        words = feature.words
        arrays = (source.array(x, name) for x in (words.weights, words.directions))
        stored = f"({literal(dict(words.codes))}, {', '.join(arrays)})"
        return f"({literal(feature.label)}, {literal(feature.kind)}, {stored}, {literal(feature.form)})"
    known: Any = (feature.periods, feature.zone)
    if feature.kind == CATEGORY:
        for level in feature.levels:
            if type(level) not in PLAIN and not isinstance(level, np.generic):
                raise CaptureError(f"{feature.label}: a level {level!r:.80} cannot be written in Python")
        known = feature.codes
    return literal((feature.label, feature.kind, known, feature.form))


class EncodedTable:
    """Encoding of a table in a Python file, before a network that has an encoder."""

    def __init__(self, encoder: Any, title: str, before: Any = None) -> None:
        self.encoder, self.title, self.before = encoder, title, before
        self.inverse = None if before is None else before.inverse

    def write(self, source: PythonSource, name: str = "prepared") -> str:
        """Return the definition of a function that encodes tables."""
        before, table = table_source(source, self.encoder, self.before)
        body = encoding_call(source, self.encoder, "encoder", table).replace("\n", "\n    ")
        return (
            f'{before}\n\n\ndef {name}(X):\n    """Return the encoded rows of a table."""\n    return {body}'
        )


def table_source(source: PythonSource, encoder: Any, before: Any) -> tuple[str, str]:
    """Return definitions for reading a table, and the expression of what an encoder gets."""
    if before is not None:
        return before.write(source, "transformed"), "transformed(X)"
    facts = table_facts(encoder.n_features_in_, getattr(encoder, "feature_names_in_", None))
    return facts, f"{source.value(columns_of)}(X, N_COLUMNS, NAMES)"
