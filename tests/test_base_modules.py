"""Modules below all packages: frames and single rows of them, indices, trees, random states, late names."""

import copy
import datetime
import gc
import pickle
import random
import re
import subprocess
import sys
import tracemalloc
from collections import OrderedDict, namedtuple
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import PCG64, RandomState
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import sknet
from sknet import _random, nn
from sknet._frames import RowReader, all_finite, are_indices, is_basic, may_repeat, rows_of, with_ellipsis
from sknet._late import Names, imported, version_of
from sknet._random import RandomSnapshot, check_random_state, twin_of
from sknet._tree import leaves, map_leaves, paths, rebuild

Pair = namedtuple("Pair", "first second")
TREE = {"b": [1, (2, 3)], "a": Pair(4, None), "c": {}, "d": OrderedDict(x=5)}


def test_leaves_keep_their_order():
    assert leaves(TREE) == [1, 2, 3, 4, 5]
    assert paths(TREE) == ["b.0", "b.1.0", "b.1.1", "a.first", "d.x"]
    assert (leaves(7), paths(7)) == ([7], [""])
    assert leaves(None) == leaves([]) == []
    assert leaves("text") == ["text"]


def test_map_keeps_the_structure():
    doubled = map_leaves(lambda x: 2 * x, TREE)
    assert doubled == {"b": [2, (4, 6)], "a": Pair(8, None), "c": {}, "d": OrderedDict(x=10)}
    assert [type(doubled[k]) for k in "bad"] == [list, Pair, OrderedDict]
    assert list(doubled) == list(TREE)
    assert map_leaves(lambda x: 2 * x, 3) == 6


def test_map_over_several():
    total = map_leaves(lambda *xs: sum(xs), {"a": 1, "b": [2]}, {"a": 10, "b": [20]}, {"a": 100, "b": (200,)})
    assert total == {"a": 111, "b": [222]}


def test_arrays_are_leaves():
    x = np.ones(3)
    [leaf] = leaves({"x": x})
    assert leaf is x


@pytest.mark.parametrize(
    ("other", "got"),
    [
        ({"a": 1}, r"\['a'\]"),
        ({"a": 1, "c": 2}, r"\['a', 'c'\]"),
        ({"b": 1, "a": 2}, r"\['b', 'a'\]"),  # of the same size, but with every leaf in a different place
        ([1, 2], r"\['0', '1'\]"),
        (None, r"\[\]"),
    ],
)
def test_another_structure_raises(other, got):
    message = rf"trees of different structure: expected leaves at \['a', 'b'\], got {got}"
    with pytest.raises(ValueError, match=message):
        map_leaves(lambda x, y: x, {"a": 1, "b": 2}, other)


def test_rebuild_takes_values_in_order():
    assert rebuild(TREE, iter("abcde")) == {
        "b": ["a", ("b", "c")],
        "a": Pair("d", None),
        "c": {},
        "d": {"x": "e"},
    }
    assert rebuild(None, iter([])) is None


X = np.arange(24).reshape(2, 3, 4)
INDICES = [
    0, np.int64(1), slice(1, None), None, Ellipsis, (0, slice(None)), (1, 2, 3), (..., 0), (None, 1), (),
    [0, 1], np.array([1, 0, 1]), (slice(None), np.array([0, 0])), X % 2 == 0, np.array([True, False]),
    (np.array([0, 1]), np.array([2, 2]), 0), (np.array([[0], [1]]), slice(None), np.array([0, 3, 3])),
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indices_are_told_apart_as_numpy_does(index):
    found = X[with_ellipsis(index)] if not isinstance(index, list) else X[index]
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, X[index])
    assert is_basic(index) == np.may_share_memory(found, X)
    if not isinstance(index, list):
        assert may_repeat(index) >= (np.unique(found).size < found.size)


@pytest.mark.parametrize("index", [i for i in INDICES if not isinstance(i, list)], ids=repr)
def test_rows_of_an_index_are_what_it_takes(index):
    rows, length = rows_of(np, index, X.shape)
    np.testing.assert_array_equal(X.reshape(-1, length)[rows].ravel(), X[index].ravel())


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64", ">i4", ">u2", "bool", "float64"])
@pytest.mark.parametrize(
    ("numbers", "are"),
    [([], True), ([0, 1], True), ([1, 1, 0], True), ([0, 2], False), ([0, -1], False), ([5, -1], False)],
)
def test_numbers_below_a_length_are_indices(numbers, are, dtype):
    x = np.array(numbers).astype(dtype)
    expected = all(0 <= number < 2 for number in x.tolist())
    assert are_indices(x, 2) == expected
    assert expected == are or dtype == "bool"  # in which every number is 0 or 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_length_may_exceed_what_a_dtype_holds(dtype):
    assert are_indices(np.arange(100, dtype=dtype), 1000)
    assert are_indices(np.array([-1]).astype(dtype), 1000) == (dtype == "uint8")


@pytest.mark.parametrize("size", [1, 100, 1 << 16, (1 << 16) + 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.filterwarnings("error")
def test_all_finite(size, dtype):
    most = np.finfo(dtype).max
    for number in (0.5, most, -most):  # the sum of the largest overflows
        x = np.full(size, number, dtype)
        assert all_finite(x)
        for wrong in (np.nan, np.inf, -np.inf):
            for i in (0, -1):
                y = x.copy()
                y[i] = wrong
                assert not all_finite(y)


def test_infinities_that_cancel():
    x = np.zeros((2, 1 << 16))
    x[0, 0], x[1, 0] = np.inf, -np.inf
    assert not all_finite(x)
    assert not all_finite(x[:, :1])
    assert all_finite(x[:, 1:])


def test_integers_and_no_numbers():
    assert all_finite(np.arange(3))
    assert all_finite(np.zeros((0, 4)))


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that notes whether garbage is collected during its import."""
    (tmp_path / "noting.py").write_text("import gc\nenabled = gc.isenabled()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "noting"
    sys.modules.pop("noting", None)


@pytest.mark.parametrize("before", [True, False])
def test_no_garbage_is_collected_during_an_import(module, before):
    try:
        (gc.enable if before else gc.disable)()
        assert not Names({module: ("enabled",)})["enabled"]
        assert gc.isenabled() == before
    finally:
        gc.enable()


MADE = """
import gc
{before}
frozen = gc.get_freeze_count()
from sknet import Tensor
old = {{id(each) for each in gc.get_objects(generation=2)}}
print(gc.isenabled(), gc.get_freeze_count() > frozen / 2, id(Tensor) in old)
"""


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("", "True False True"),
        ("gc.freeze()", "True True False"),
        ("gc.disable()", "False False False"),
    ],
)
def test_what_an_import_has_made_is_old_and_what_was_frozen_stays_so(before, said):
    script = MADE.format(before=before)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == (said)


def test_collections_go_on_after_an_import_that_fails(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ZeroDivisionError):
        imported("broken")
    assert gc.isenabled()


def test_names_may_be_other_ones_than_in_their_modules():
    names = Names({"fractions": {"ratio": "Fraction"}})
    assert list(names) == ["ratio"]
    assert names["ratio"](1, 2) + names["ratio"](1, 2) == 1


def test_a_package_says_what_it_does_not_have():
    def missing(name):
        raise AttributeError(f"no {name}, but a Fraction")

    package = {"__name__": "numbers"}
    names = Names({"fractions": ("Fraction",)})
    assert names.into(package, missing)("Fraction") is package["Fraction"]
    with pytest.raises(AttributeError, match="no Fractoin, but a Fraction"):
        names.into(package, missing)("Fractoin")
    with pytest.raises(AttributeError, match="module 'numbers' has no attribute 'Fractoin'"):
        names.into(package)("Fractoin")


def test_versions_are_those_of_the_packages():
    assert version_of("numpy") == np.__version__
    assert version_of("no-package-of-this-name") is None


DRAWS = {
    "nothing": lambda source: None,
    "a normal number, so that another is left over": lambda source: source.normal(),
    "two normal numbers": lambda source: source.normal(size=2),
    "a permutation": lambda source: source.permutation(50),
    "all words": lambda source: source.randint(2**32, size=624 - source.get_state()[2], dtype=np.uint32),
    "many": lambda source: source.uniform(size=1000),
}


class Mine(RandomState):
    """A class of a user's own."""


def sources():
    return {"seed": RandomState(5), "subclass": Mine(7), "other generator": RandomState(PCG64(3))}


TWISTERS = ("seed", "subclass")


def as_text(source):
    return repr(source.get_state(legacy=False))


CASES = [
    (kind, *draws)
    for kind in sources()
    for draws in product(DRAWS, repeat=2)
    if kind in TWISTERS or "all words" not in draws
]


@pytest.mark.parametrize(("kind", "before", "after"), CASES)
def test_a_snapshot_is_the_state_and_restores_it(kind, before, after):
    source = sources()[kind]
    DRAWS[before](source)
    wanted, state = as_text(source), source.get_state(legacy=False)
    snapshot = RandomSnapshot(source)
    DRAWS[after](source)
    taken = snapshot.state()
    assert repr(taken) == wanted
    if kind in TWISTERS:
        np.testing.assert_array_equal(taken["state"]["key"], state["state"]["key"])
    snapshot.restore()
    assert as_text(source) == wanted
    assert source.normal() == _drawn_after(kind, before)


def _drawn_after(kind, before):
    source = sources()[kind]
    DRAWS[before](source)
    return source.normal()


@pytest.mark.parametrize("kind", sources())
def test_where_memory_cannot_be_read_the_state_is_asked_for(kind, monkeypatch):
    monkeypatch.setattr(_random, "places_of_state", lambda: None)
    source = sources()[kind]
    source.normal()
    wanted, snapshot = as_text(source), RandomSnapshot(source)
    source.normal(size=4)
    snapshot.restore()
    assert as_text(source) == wanted


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1, np.int64(7)])
def test_a_seed_gives_numpys_random_state(seed):
    mine, theirs = check_random_state(seed), RandomState(int(seed))
    assert as_text(mine) == as_text(theirs)
    assert pickle.dumps(mine) == pickle.dumps(theirs)
    assert copy.deepcopy(mine).normal() == theirs.normal() == mine.normal()


@pytest.mark.parametrize("seed", [-1, 2**32, np.timedelta64(3, "s"), np.timedelta64(3, "ns")])
def test_a_seed_out_of_range_is_refused_by_name(seed):
    with pytest.raises(ValueError, match=re.escape("random_state must be an int from 0 to 2**32 - 1")):
        check_random_state(seed)


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("kind", sources())
@pytest.mark.parametrize(
    "before", ["nothing", "a normal number, so that another is left over", "a permutation"]
)
def test_a_twin_goes_on_and_leaves_its_source_alone(kind, before, memory, monkeypatch):
    if not memory:
        monkeypatch.setattr(_random, "places_of_state", lambda: None)
    source, again = sources()[kind], sources()[kind]
    for each in (source, again):
        DRAWS[before](each)
    state = as_text(source)
    assert twin_of(source).normal(size=3).tolist() == again.normal(size=3).tolist()
    assert as_text(source) == state


UNSEEDED = {
    "random": random.random,
    "global": np.random.random,
    "RandomState": lambda: RandomState().random(),
    "default_rng": lambda: np.random.default_rng().random(),
    "parameter": lambda: nn.Linear(1, 1).initialize().weight.item(),
}
drawn = {}


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("kind", UNSEEDED)
def test_unseeded_numbers_are_the_same_in_each_test_but_not_within(kind, number):
    first, second = UNSEEDED[kind](), UNSEEDED[kind]()
    assert first != second
    assert drawn.setdefault(kind, first) == first


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


# Columns by kind, and whether their values are read one by one.


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
