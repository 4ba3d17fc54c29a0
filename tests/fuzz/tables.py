"""Difficult random tables: every dtype, missing values, constants, duplicates, infinities, mixed types.

`drawn` returns a data frame and targets for a seed, and `harmed` rows to predict: with new missing values,
new levels, and huge numbers.
"""

import datetime
from collections.abc import Callable

import numpy as np
import pandas as pd
from numpy.random import Generator

LETTERS = np.array(list("abcdefghijklmnopqrstuvwxyz"))


def numbers(rng: Generator, n: int) -> pd.Series:
    kind = rng.choice(["normal", "skewed", "integer", "tiny", "huge", "infinite", "constant", "float32"])
    values = rng.normal(size=n)
    if kind == "integer":
        return pd.Series(rng.integers(0, 7, n), dtype=str(rng.choice(["int8", "int64", "uint8", "UInt16"])))
    made = {
        "normal": values,
        "skewed": np.exp(3 * values),
        "tiny": 1e-300 * values,
        "huge": 1e307 * values,
        "infinite": np.where(rng.random(n) < 0.2, np.copysign(np.inf, values), values),
        "constant": np.full(n, 3.5),
        "float32": values.astype(np.float32),
    }
    return pd.Series(made[kind])


def levels(rng: Generator, n: int) -> pd.Series:
    count = int(rng.choice([1, 2, 3, 20, 200]))
    names = np.array([f"{LETTERS[i % 26]}{i}" for i in range(count)], dtype=object)
    values = names[rng.integers(0, count, n)]
    kind = rng.choice(["category", "unused", "object", "str", "bool", "boolean", "mixed", "ordered"])
    if kind in ("bool", "boolean"):
        return pd.Series(rng.random(n) < 0.3, dtype=kind)
    if kind == "mixed":
        others = [1, 2.5, True, None, b"x", (1, 2), datetime.date(2024, 1, 1), np.float64("nan")]
        drawn_ = [
            others[i] if i < len(others) else v for i, v in zip(rng.integers(0, 16, n), values, strict=True)
        ]
        return pd.Series(drawn_, dtype=object)
    if kind in ("category", "unused", "ordered"):
        known = [*names, "never"] if kind == "unused" else list(names)
        return pd.Series(pd.Categorical(values, categories=known, ordered=kind == "ordered"))
    return pd.Series(values, dtype=kind)


def dates(rng: Generator, n: int) -> pd.Series:
    days = pd.Series(pd.Timestamp("2020-02-28") + pd.to_timedelta(rng.integers(0, 2000, n), unit="D"))
    kind = rng.choice(["day", "second", "zone", "delta", "constant"])
    if kind == "second":
        return days + pd.to_timedelta(rng.integers(0, 86400, n), unit="s")
    if kind == "zone":
        return days.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")
    if kind == "delta":
        return days - days.iloc[0]
    return days if kind == "day" else pd.Series([days.iloc[0]] * n)


def nothing(rng: Generator, n: int) -> pd.Series:
    kind = str(rng.choice(["float64", "object", "category", "Int64", "datetime64[ns]"]))
    return pd.Series([None] * n, dtype=kind)


KINDS: list[Callable[[Generator, int], pd.Series]] = [numbers, numbers, levels, levels, dates, nothing]


def with_gaps(rng: Generator, column: pd.Series) -> pd.Series:
    gone = rng.random(len(column)) < rng.choice([0.01, 0.3, 0.9])
    return column.astype("boolean" if column.dtype == bool else column.dtype).mask(gone)


def codes(rng: Generator, y: np.ndarray) -> pd.Series:
    """Return a number whose values, rather than their size, tell of the targets."""
    side = y > np.median(y) if y.dtype.kind == "f" else y % 2 == 1
    known = 2 * rng.integers(0, 20, len(y)) + side
    return pd.Series(np.where(rng.random(len(y)) < 0.3, 0.0, known + 0.1))


def drawn(seed: int, task: str = "any") -> tuple[pd.DataFrame, np.ndarray]:
    """Return a frame, and targets of a task: "binary", "multiclass", "regression" or any of them."""
    rng = np.random.default_rng([20260202, seed])
    n = int(rng.choice([8, 30, 120, 400]))
    columns = [rng.choice(KINDS)(rng, n) for _ in range(rng.integers(1, 7))]
    columns = [with_gaps(rng, c) if rng.random() < 0.4 else c for c in columns]
    if rng.random() < 0.2:
        columns.append(columns[0].copy())
    frame = pd.concat(columns, axis=1, keys=[f"c{i}" for i in range(len(columns))])
    if rng.random() < 0.2:
        frame = frame.iloc[rng.integers(0, n, n)]  # with rows, and their index, several times
    task = str(rng.choice(["binary", "multiclass", "regression"])) if task == "any" else task
    count = 2 if task == "binary" else int(rng.integers(3, 6))
    y = np.concatenate([np.arange(count), rng.integers(0, count, n - count)])
    if task == "regression":
        y = rng.normal(size=n) * 10 ** rng.uniform(-3, 3)
    if rng.random() < 0.3:
        frame = frame.assign(codes=codes(rng, y).set_axis(frame.index))
    if task == "regression":
        return frame, y
    return frame, LETTERS[y] if rng.random() < 0.5 else y


def harmed(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return rows of a data frame with new levels, missing values, and huge numbers."""
    rng = np.random.default_rng([20260303, seed])
    columns = []
    for name, column in frame.items():
        if pd.api.types.infer_dtype(column) in ("time", "timedelta", "date", "datetime"):  # texts are neither
            new = column
        elif isinstance(column.dtype, pd.CategoricalDtype) or column.dtype == object:
            new = column.astype(object).where(rng.random(len(column)) < 0.5, "new level")
        elif column.dtype.kind == "f":
            new = column.astype("float64").where(
                rng.random(len(column)) < 0.5, rng.choice([1e300, -np.inf, 0.0])
            )
        else:
            new = column
        new = new.astype("boolean") if new.dtype == bool else new
        columns.append(new.mask(rng.random(len(column)) < 0.3).rename(name))
    return pd.concat(columns, axis=1)
