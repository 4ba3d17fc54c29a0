"""Encoders of tables: their columns as inputs, and their encodings as nodes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sknet._warnings import warn_caller
from sknet.compile._symbolic import Length
from sknet.exceptions import CaptureError
from sknet.onnx._elementwise import expression
from sknet.onnx._writer import Value, Writer
from sknet.preprocessing._columns import HUGE
from sknet.preprocessing._encodings import ValueMeans
from sknet.preprocessing._plan import FittedEncoder, Plan
from sknet.preprocessing._schema import MISSING, UNSEEN, Feature, Sums
from sknet.preprocessing._texts import spellings

DOUBLE, INTEGER, TEXT = np.dtype(np.float64), np.dtype(np.int64), np.dtype(object)
FIRST = -UNSEEN  # the row of the first level in a table of levels
NEVER = np.iinfo(np.int64).min  # what NumPy has for a missing date
DAY = 86_400_000_000  # microseconds
MONDAY = 3 * DAY  # 1970 began on a Thursday

# Dates of the Gregorian calendar by integer arithmetic, in years that begin in March: a cycle of 400 of them
# has 146,097 days, and the days before a month are (153 * month + 2) // 5.
CALENDAR = {
    "day": f"x // {DAY}",
    "of_cycle": "(day + 719468) % 146097",
    "of_400": "(of_cycle - of_cycle // 1460 + of_cycle // 36524 - of_cycle // 146096) // 365",
    "of_year": "of_cycle - (365 * of_400 + of_400 // 4 - of_400 // 100)",
    "march": "(5 * of_year + 2) // 153",
    "of_month": "of_year - (153 * march + 2) // 5",
    "month": "march + 3 if march < 10 else march - 9",
    "year": "of_400 + (day + 719468) // 146097 * 400 + (1 if march >= 10 else 0)",
    "leap": "1 if year % 4 == 0 and year % 100 != 0 or year % 400 == 0 else 0",
}
# For each period: how much of it has passed, and its length, in microseconds.
PERIODS = {
    "day": (f"x % {DAY}", f"x * 0 + {DAY}"),
    "week": (f"(x + {MONDAY}) % {7 * DAY}", f"x * 0 + {7 * DAY}"),
    "month": (
        f"of_month * {DAY} + x % {DAY}",
        f"(28 + leap if month == 2 else 30 + (month + month // 8) % 2) * {DAY}",
    ),
    "year": (
        f"(of_year + 59 + leap if march < 10 else of_year - 306) * {DAY} + x % {DAY}",
        f"(365 + leap) * {DAY}",
    ),
}


class Tables:
    """The columns of a table as inputs, and what encoders make of them."""

    def __init__(self, encoders: Sequence[FittedEncoder], dtype: Any, splits: bool | None) -> None:
        self._encoders, self._dtype = encoders, np.dtype(dtype)
        features = encoders[0].schema.features
        self._features = [feature for feature in features if feature.kind != "dropped"]
        types = [self._type_of(feature) for feature in self._features]
        is_single = all(each.kind == "f" for each in types) and len(types) == len(features)
        if splits is None:
            splits = not is_single
        if not splits and not is_single:
            names = [f.label for f, each in zip(self._features, types, strict=True) if each.kind != "f"]
            names += [feature.label for feature in features if feature.kind == "dropped"]
            raise CaptureError(
                f"{', '.join(names)}: not all columns are numbers, so each must be an input of its own"
            )
        _warn_of_empty_texts([f.label for f in self._features if "" in f.levels])
        self._is_split, rows = splits, Length(1, 0)
        self.inputs = [Value("X", self._dtype, (rows, len(types)))]
        if splits:
            pairs = zip(self._features, types, strict=True)
            self.inputs = [Value(feature.name, each, (rows, 1)) for feature, each in pairs]

    def _type_of(self, feature: Feature) -> np.dtype[Any]:
        if feature.form == "boolean":
            return TEXT
        if feature.form is not None:
            how = (
                "leave it out" if feature.kind == "text" else f"convert the column to a {feature.kind} dtype"
            )
            raise CaptureError(
                f"{feature.label} holds {feature.note}, which no ONNX model can read: {how} before the fit"
            )
        if feature.kind == "date":
            return INTEGER
        levels = [x.item() if isinstance(x, np.generic) else x for x in feature.levels]
        if all(isinstance(x, str) for x in levels) and levels:
            return TEXT
        if feature.kind == "category" and not all(isinstance(x, (bool, int, float)) for x in levels):
            raise CaptureError(
                f"{feature.label}: its levels are {levels[:5]}, and an input of an ONNX model holds "
                "either texts or numbers: convert the column before the fit"
            )
        if levels and all(isinstance(x, bool) for x in levels):
            return np.dtype(bool)
        return INTEGER if levels and all(isinstance(x, int) for x in levels) else self._dtype

    @property
    def first(self) -> str:
        return self.inputs[0].name

    def numbers(self) -> Iterator[tuple[str, Any, Any]]:
        """Yield the columns that are numbers of the dtype, with their centers and deviations."""
        labels = [
            feature.label if self._type_of(feature).kind == "f" else None
            for feature in self._features
            if feature.kind != "category"
            for _ in range(1 + 2 * len(feature.periods))
        ]
        for encoder in self._encoders[:1]:
            for number, *units in zip(*encoder.plan.number_parts(len(labels))[1], strict=True):
                if number < len(labels) and labels[number] is not None:  # sums are behind
                    yield labels[number], *units

    def write(self, w: Writer, value: Value) -> Value:
        """Write the encodings, which are the first value; others are inputs as they are."""
        if value.name != "X":
            self.inputs.append(value)
            return value
        sums = self._encoders[0].schema.sums
        columns = _Columns(w, self.inputs, self._features, sums, is_split=self._is_split)
        parts = [part for encoder in self._encoders for part in _encoded(w, encoder.plan, columns)]
        joined = parts[0] if len(parts) == 1 else w.add("Concat", *parts, shape=value.shape, axis=1)
        return w.cast(joined, value.dtype)


def _warn_of_empty_texts(labels: list[str]) -> None:
    """Warn that an input of texts has one value for an empty and for a missing one."""
    if labels:
        warn_caller(
            f"{', '.join(labels)}: empty texts are a level, and an input of an ONNX model cannot tell them "
            "from missing texts, which will be encoded as empty ones: replace empty texts before the fit",
            UserWarning,
        )


class _Columns:
    """Numbers and rows of levels of a table."""

    def __init__(
        self, w: Writer, inputs: Sequence[Value], features: Sequence[Feature], sums: Sums, *, is_split: bool
    ) -> None:
        self.w, self.rows = w, inputs[0].shape[0]
        numbers: list[Value] = []
        self._floats: dict[int, Value] = {}  # numbers in the dtype that they come in, by index
        self.codes: list[Value] = []
        for i, feature in enumerate(features):
            x = inputs[i] if is_split else self._column(inputs[0], i)
            if feature.kind == "category":
                self.codes.append(self._codes(x, feature))
            elif feature.kind == "date":
                numbers += self._date(x, feature)
            else:
                if x.dtype.kind == "f":
                    self._floats[len(numbers)] = x
                numbers.append(w.cast(x, DOUBLE))
        self.n_numbers = len(numbers) + len(sums)
        if numbers:
            shape = (self.rows, len(numbers))
            together = numbers[0] if len(numbers) == 1 else w.add("Concat", *numbers, shape=shape, axis=1)
            self.missing = w.add("IsNaN", together, dtype=bool)
            self.numbers = together
        if sums:
            self._add_sums(sums)

    def _add_sums(self, sums: Sums) -> None:
        """Add sums of two numbers, which are missing where one of them is."""
        w, (*places, a, b) = self.w, (np.array(each)[np.newaxis] for each in zip(*sums, strict=True))
        shape, wide = (self.rows, len(sums)), (self.rows, self.n_numbers)
        known = w.add("Where", self.missing, w.constant(0.0, DOUBLE), self.numbers, dtype=DOUBLE)
        known = _bounded(w, known)

        def taken(x: Value, i: int) -> Value:
            return w.add("Gather", x, w.constant(places[i][0], INTEGER), shape=shape, axis=1, dtype=x.dtype)

        names = {
            "x": taken(known, 0),
            "y": taken(known, 1),
            "a": w.constant(a, DOUBLE),
            "b": w.constant(b, DOUBLE),
        }
        found = expression(w, "x * a + y * b", names, DOUBLE)
        missing = w.add("Or", taken(self.missing, 0), taken(self.missing, 1), dtype=bool)
        self.numbers = w.add("Concat", self.numbers, found, shape=wide, axis=1)
        self.missing = w.add("Concat", self.missing, missing, shape=wide, axis=1)

    def _column(self, x: Value, i: int) -> Value:
        return self.w.add("Gather", x, self.w.constant([i], INTEGER), shape=(self.rows, 1), axis=1)

    def _date(self, x: Value, feature: Feature) -> list[Value]:
        """Return seconds, sines and cosines of timestamps in microseconds."""
        w = self.w
        is_known = w.add("Not", w.add("Equal", x, w.constant(NEVER, INTEGER), dtype=bool))
        nan = w.constant(np.nan, DOUBLE)

        def known(value: Value) -> Value:
            return w.add("Where", is_known, value, nan, dtype=DOUBLE, shape=x.shape)

        names = {"x": x}
        if {"month", "year"} & set(feature.periods):
            for name, text in CALENDAR.items():
                names[name] = expression(w, text, names, INTEGER)
        found = [known(expression(w, "x / 1e6", {"x": w.cast(x, DOUBLE)}, DOUBLE))]
        for period in feature.periods:
            passed, length = (w.cast(expression(w, text, names, INTEGER), DOUBLE) for text in PERIODS[period])
            angle = expression(w, f"{2 * np.pi!r} * (x / y)", {"x": passed, "y": length}, DOUBLE)
            found += [known(w.add("Sin", angle)), known(w.add("Cos", angle))]
        return found

    def _codes(self, x: Value, feature: Feature) -> Value:
        """Return the row of each value's level in a table of levels, of shape (n_samples,)."""
        w, codes = self.w, feature.codes
        if feature.form == "boolean":
            codes = {text: MISSING if value is None else codes[value] for text, value in spellings().items()}
        if x.dtype == TEXT or x.dtype == INTEGER:
            known = {"": MISSING} | codes if x.dtype == TEXT else codes
            kind = "strings" if x.dtype == TEXT else "int64s"
            values = [code + FIRST for code in known.values()]
            keys = {f"keys_{kind}": list(known), "values_int64s": values, "default_int64": UNSEEN + FIRST}
            found = w.add("LabelEncoder", x, dtype=INTEGER, **keys)
        elif x.dtype == np.dtype(bool):
            places = [codes.get(value, UNSEEN) + FIRST for value in (False, True)]
            found = w.add("Where", x, *(w.constant(n, INTEGER) for n in reversed(places)), dtype=INTEGER)
        else:
            found = self._of_floats(x, codes)
        return w.reshaped(found, (self.rows,))

    def codes_of(self, means: ValueMeans) -> Value:
        """Return the row of each value of a number in its table of means, of shape (n_samples,)."""
        w, known = self.w, {value: code for code, value in enumerate(means.levels.tolist())}
        # Numbers of float32 are compared with values that are rounded as they are.
        x = self._floats.get(means.number) or self._column(self.numbers, means.number)
        return w.reshaped(self._of_floats(x, known, missing=UNSEEN), (self.rows,))

    def _of_floats(self, x: Value, codes: dict[Any, int], missing: int = MISSING) -> Value:
        w, wide = self.w, (self.rows, len(codes))
        levels = w.constant(np.array([list(codes)]), x.dtype)
        is_equal = w.add("Equal", x, levels, dtype=bool, shape=wide)
        places = w.constant(np.array([list(codes.values())]) + FIRST, INTEGER)
        unseen = w.constant(UNSEEN + FIRST, INTEGER)
        found = w.add("Where", is_equal, places, unseen, dtype=INTEGER, shape=wide)
        axes = w.constant([1], INTEGER)
        best = w.add("ReduceMax", found, axes, shape=(self.rows, 1), keepdims=1)
        row = w.constant(missing + FIRST, INTEGER)
        return w.add("Where", w.add("IsNaN", x, dtype=bool), row, best, dtype=INTEGER)


def _encoded(w: Writer, plan: Plan, columns: _Columns) -> list[Value]:
    """Return the parts of a plan's outputs."""
    found = _numbers(w, plan, columns) if columns.n_numbers else []
    pairs = list(zip(plan.categories, columns.codes, strict=True))
    pairs += [(means.column, columns.codes_of(means)) for means in plan.value_means]
    for column, codes in pairs:
        if column.names:
            values, shape = w.constant(column.values), (columns.rows, len(column.names))
            found.append(w.add("Gather", values, codes, shape=shape, axis=0))
    return found


def _numbers(w: Writer, plan: Plan, columns: _Columns) -> list[Value]:
    """Return values, bins and flags of numbers, as `encode_numbers` does."""
    centers, (kept, middles, scales), phases, bins, flags = plan.number_parts(columns.n_numbers)

    def row(values: Any) -> Value:
        return w.constant(np.reshape(values, (1, -1)), DOUBLE)

    def taken(x: Value, indices: Any, dtype: Any = DOUBLE) -> Value:
        shape = (columns.rows, len(indices))
        return w.add("Gather", x, w.constant(indices, INTEGER), shape=shape, axis=1, dtype=dtype)

    numbers = columns.numbers
    filled = w.add("Where", columns.missing, row(centers), numbers, dtype=DOUBLE, shape=numbers.shape)
    filled = _bounded(w, filled)
    found = []
    if len(kept):
        names = {"x": taken(filled, kept), "middle": row(middles), "scale": row(scales)}
        z = expression(w, "(x - middle) / scale", names, DOUBLE)
        z = _bounded(w, z)
        values = expression(w, "z / sqrt(1 + z / 3 * (z / 3))", {"z": z}, DOUBLE)
        if len(phases):
            is_phase = w.constant(np.isin(np.arange(len(kept)), phases)[None])
            values = w.add("Where", is_phase, z, values, dtype=DOUBLE, shape=z.shape)
        found.append(values)
    number, low, inverse, smallest, largest = bins
    if len(number):
        names = {"x": taken(filled, number), "low": row(low), "inverse": row(inverse)}
        t = _between(w, expression(w, "(x - low) * inverse", names, DOUBLE), row(smallest), row(largest))
        found.append(w.add("Sub", t, w.constant(0.5, DOUBLE)))
    if len(flags):
        found.append(w.cast(taken(columns.missing, flags, bool), DOUBLE))
    return found


def _bounded(w: Writer, x: Value) -> Value:
    return _between(w, x, w.constant(-HUGE, DOUBLE), w.constant(HUGE, DOUBLE))


def _between(w: Writer, x: Value, lowest: Value, highest: Value) -> Value:
    return w.add("Min", w.add("Max", x, lowest), highest)
