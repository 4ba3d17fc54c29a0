"""Single rows of frames: the values that pandas gives, whatever was read before, or none at all."""

import datetime
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import sknet
from sknet._frames import RowReader

N = 30
RNG = np.random.default_rng(0)
DAYS = pd.date_range("2024-01-01", periods=N).to_series(index=range(N))
# Columns by kind, and whether their values are read one by one.
COLUMNS = {
    "float64": (RNG.normal(size=N), True),
    "float64 with gaps": (np.where(RNG.random(N) < 0.3, np.nan, 1.5), True),
    "infinite": (np.full(N, np.inf), True),
    "int64": (RNG.integers(-5, 5, N), True),
    "large": (np.full(N, 2**60 + 1), True),
    "texts": (RNG.choice(["x", "y"], N), True),
    "objects": (pd.Series(["a", None, float("nan")] * 10, dtype=object), True),
    "nothing": (pd.Series([None] * N, dtype=object), True),
    "str": (pd.Series(["a", "b", "é"] * 10, dtype="str"), True),
    "str with gaps": (pd.Series(["a", None, "c"] * 10, dtype="str"), True),
    "categories": (pd.Categorical(["u", "v", "w"] * 10), True),
    "categories with gaps": (pd.Categorical(["u", None, "w"] * 10), True),
    "numbered categories": (pd.Categorical([3, 1, 2] * 10), True),
    "float32": (RNG.normal(size=N).astype("float32"), False),
    **{
        name: (np.arange(N, dtype=name), True)
        for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32")
    },
    "uint64": (np.full(N, 2**64 - 1, dtype="uint64"), True),
    "bool": (np.arange(N) % 2 == 0, False),
    "complex": (np.arange(N) * 1j, False),
    "dates": (DAYS, False),
    "spans": (DAYS - DAYS[0], False),
    "zones": (DAYS.dt.tz_localize("UTC"), False),
    "periods": (DAYS.dt.to_period("D"), False),
    "objects of numbers": (pd.Series([1.5, 2, True] * 10, dtype=object), False),
    "objects of dates": (pd.Series([datetime.date(2024, 1, 1)] * N, dtype=object), False),
    "NA": (pd.Series([None] * N, dtype="Float64"), False),
    "boolean": (pd.Series([True] * N, dtype="boolean"), False),
    "intervals": (pd.cut(np.arange(N), 3), False),
}


def same(found, expected):
    """Compare values of Python with those that pandas gives, which may be NumPy's."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert not isinstance(a, np.generic)
        assert a == b or (a != a and b != b) or (a is None and b is None)
        assert isinstance(a, str) == isinstance(b, str)


@pytest.mark.parametrize("name", COLUMNS)
def test_values_are_those_of_the_column(name):
    column, is_read = COLUMNS[name]
    table = pd.DataFrame({"a": RNG.normal(size=N), "b": column, "c": 1.0, "d": list("pq") * 15})
    read = RowReader(("a", "b", "c", "d"))
    for i in range(6):
        row = table.iloc[i : i + 1]
        found = read(row)
        if is_read:
            same(found, [row[name].iloc[0] for name in table.columns])
        else:
            assert found is None


def changed(rng, table):
    """Return a table with one change of those that a caller could make, of the same or another object."""
    table, name = table.copy(deep=bool(rng.integers(2))), table.columns[int(rng.integers(len(table.columns)))]
    column = pd.Series(COLUMNS[str(rng.choice(list(COLUMNS)))][0])
    value = column.iloc[: len(table)].set_axis(table.index)
    ways = [
        lambda: table.__setitem__(name, value),
        lambda: table.isetitem(int(rng.integers(len(table.columns))), value),
        lambda: table.insert(int(rng.integers(len(table.columns))), f"more {rng.integers(10**9)}", value),
        lambda: table.iloc[:, rng.permutation(len(table.columns))],
        lambda: table.drop(columns=name),
        lambda: table.set_axis(rng.choice(list(map(str, table.columns)), len(table.columns)), axis=1),
        lambda: table.rename(columns={name: 3}),
        lambda: table.set_axis(pd.Index(table.columns, dtype=object), axis=1),
        lambda: table.set_axis(pd.CategoricalIndex(list(map(str, table.columns))), axis=1),
        lambda: table.set_axis(pd.MultiIndex.from_product([["top"], table.columns]), axis=1),
        lambda: table.astype(object),
        lambda: pd.DataFrame(dict(zip(names, table.to_numpy(dtype=object).T.tolist(), strict=True))),
        lambda: pd.concat([table, table]),
        lambda: table.iloc[:0],
    ]
    names = [f"c{i}" if rng.random() < 0.1 else str(name) for i, name in enumerate(table.columns)]
    found = ways[int(rng.integers(len(ways)))]()
    return table if found is None else found


@pytest.mark.parametrize("seed", range(12))
def test_sequences_of_tables(seed):
    """A reader remembers columns, and is never misled by them."""
    rng = np.random.default_rng(seed)
    names = ("n", "m", "t", "k")
    fresh = pd.DataFrame({"n": [0.5], "m": [2], "t": ["x"], "k": pd.Categorical(["u"])})
    read, table, n_read = RowReader(names), fresh, 0
    for _ in range(40):
        is_fresh = rng.random() < 0.4 or table.empty or table.columns.nlevels > 1
        table = fresh.assign(n=rng.normal()) if is_fresh else changed(rng, table)
        row = table.iloc[[0]] if len(table) > 1 and rng.random() < 0.7 else table
        found, again = read(row), RowReader(names)(row)
        assert (found is None) == (again is None)
        if found is not None:
            n_read += 1
            assert sorted(row.columns) == sorted(names)
            same(found, [row[name].iloc[0] for name in names])
    assert n_read > 5


def test_equal_names_are_read_by_position():
    table = pd.DataFrame([[1.5, "x", 2]], columns=["a", "a", "b"])
    assert RowReader(("a", "a", "b"))(table) == [1.5, "x", 2]
    assert RowReader(("a", "b", "a"))(table) is None
    assert RowReader(("a", "b"))(table) is None


def test_columns_in_another_order_are_read_only_if_they_may_be():
    table = pd.DataFrame({"a": [1.5], "b": ["x"]})
    read = RowReader(("a", "b"), any_order=False)
    assert read(table) == [1.5, "x"]
    assert read(table[["b", "a"]]) is None
    assert read(table) == [1.5, "x"]


@pytest.mark.slow
def test_levels_of_categories_are_those_of_each_frame():
    """Frames come and go, and with them the indices of their levels, in the same memory."""
    read = RowReader(("a", "b"))
    for i in range(3000):
        levels = [f"{i % 7}{letter}" for letter in "xyz"]
        table = pd.DataFrame(
            {"a": pd.Categorical([levels[i % 3]], levels), "b": pd.Categorical([i, i + 1][:1])}
        )
        assert read(table) == [levels[i % 3], i]


def test_others_are_not_read():
    read = RowReader(("a", "b"))
    table = pd.DataFrame({"a": [1.0], "b": ["x"]})
    for X in (pl.from_pandas(table), table["a"], table.to_numpy(), [[1.0, "x"]], {"a": 1.0}, None, table.T):
        assert read(X) is None
    assert read(table) == [1.0, "x"]


class Elsewhere:
    """A frame with the public parts of pandas, whose arrays are elsewhere."""

    def __init__(self, frame):
        self.frame = frame

    def __getattr__(self, name):
        if name == "_mgr":
            raise AttributeError(name)
        return getattr(self.frame, name)

    def __len__(self):
        return len(self.frame)


def test_frames_whose_arrays_are_elsewhere_are_read_value_by_value():
    table = pd.DataFrame({"a": [1.5], "b": ["x"], "c": pd.Categorical(["u"]), "d": [3]})
    assert RowReader(("d", "b", "c", "a"))(Elsewhere(table)) == [3, "x", "u", 1.5]
    assert RowReader(("a", "b", "c", "d"))(Elsewhere(table.astype({"a": "float32"}))) is None


def test_a_text_in_a_column_of_numbers_is_named():
    table = pd.DataFrame({"n": [0.5, 1.5, 3.0] * 4, "t": list("xyz") * 4})
    columns = ColumnTransformer([("a", StandardScaler(), ["n"]), ("b", OneHotEncoder(), ["t"])]).fit(table)
    frozen = sknet.freeze(columns)
    for row in (table.iloc[:1].assign(n="big"), table.iloc[:2].assign(n="big")):
        with pytest.raises(
            ValueError, match="could not convert string to float: 'big': not numbers are the columns 'n'"
        ):
            frozen.transform(row)


def outcome(compute, X):
    try:
        return compute(X)
    except (ValueError, TypeError):
        return None


@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_pipeline_reads_what_the_pipeline_reads(seed):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "n": rng.normal(size=N),
            "m": np.where(rng.random(N) < 0.3, np.nan, rng.normal(size=N)),
            "t": rng.choice(["x", "y"], N),
            "k": pd.Categorical(rng.choice(["u", "v"], N)),
        }
    )
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["n", "m"]),
            ("texts", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["t"]),
            ("kinds", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["k"]),
        ]
    ).fit(table)
    frozen, n_same = sknet.freeze(columns), 0
    for _ in range(60):
        row = table.iloc[[int(rng.integers(N))]]
        if rng.random() < 0.5:
            row = changed(rng, row)
        expected = outcome(columns.transform, row)
        found = outcome(frozen.transform, row)
        if expected is not None and row.columns.is_unique:
            n_same += 1
            np.testing.assert_array_equal(found, expected)
    assert n_same > 20


@pytest.mark.slow
def test_rows_with_categories_of_their_own_are_read_and_their_levels_are_not_kept():
    """As where a service gets each row as a frame."""
    read = RowReader(("a", "b"))

    def row(number):
        names = [f"{number}-{i}" for i in range(20_000)]
        return pd.DataFrame({"a": [0.5], "b": pd.Categorical([names[number]], names)})

    assert [read(row(i)) for i in range(12)] == [[0.5, f"{i}-{i}"] for i in range(12)]
    same = row(3)
    assert [read(same) for _ in range(3)] == [[0.5, "3-3"]] * 3
    tracemalloc.start()
    try:
        for i in range(20):
            read(row(i))
        assert tracemalloc.get_traced_memory()[0] < 1e7  # some 3e6 for each row if all levels were kept
    finally:
        tracemalloc.stop()
