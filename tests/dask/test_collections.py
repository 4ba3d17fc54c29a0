import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from sknet.dask._collections import Moments, Partition, facts_of, moments_of, partitions_of


def array(n_rows=10, chunks=(4, 3, 3), columns=4):
    return da.from_array(np.arange(n_rows * columns, dtype="f4").reshape(n_rows, columns), chunks=(chunks, 2))


def frame(n_rows=10, n_partitions=3):
    return dd.from_pandas(pd.DataFrame({"a": np.arange(n_rows), "b": 0.5}), npartitions=n_partitions)


def computed(parts):
    return dask.compute(*parts, scheduler="synchronous")


def test_arrays_have_all_columns_and_targets_are_divided_as_they_are():
    y = da.from_array(np.arange(10), chunks=5)
    parts = computed(partitions_of(array(), y, np.arange(10) / 2))
    assert [part.X.shape for part in parts] == [(4, 4), (3, 4), (3, 4)]
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), array().compute())
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), np.arange(10))
    np.testing.assert_array_equal(np.concatenate([part.weight for part in parts]), np.arange(10) / 2)


def test_frames_and_series_are_divided_as_they_are():
    table = frame()
    parts = computed(partitions_of(table, table["a"], None))
    assert [list(part.X.columns) for part in parts] == [["a", "b"]] * len(parts)
    assert pd.concat([part.y for part in parts]).tolist() == list(range(10))
    assert {part.weight for part in parts} == {None}


def unknown():
    """Return an array of which it is unknown how many rows its three partitions have."""
    return frame().to_dask_array()


REFUSED = {
    "other parts": (lambda: (unknown(), da.zeros(10, chunks=5)), ValueError, "X has 3, y has 2.*compute_ch"),
    "beside unknown": (lambda: (frame(), np.zeros(10)), ValueError, "y is in memory, and how many rows"),
    "other rows": (lambda: (array(), da.zeros(9, chunks=3)), ValueError, "X has 10 rows, and y has 9"),
    "other rows in memory": (lambda: (array(), np.zeros(9)), ValueError, "X has 10 rows, and y has 9"),
    "a bag": (lambda: (db.from_sequence([1, 2]), array()), TypeError, "X must be a Dask array.*got Bag"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_divided_alike_is_refused(case):
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        partitions_of(*make(), None)


def test_facts_of_arrays_and_frames():
    part = Partition(np.zeros((3, 2), "f4"), np.array(["b", "a", "b"]), None)
    facts = facts_of(part, counts_labels=True)
    assert facts[:5] == (3, 3, (2,), None, "float32")
    assert facts.labels.tolist(), facts.counts.tolist() == (["a", "b"], [1, 2])
    table = pd.DataFrame({"x": [1, 2], "z": [0.5, 1.0]})
    facts = facts_of(Partition(table, np.zeros(2), None), counts_labels=False)
    assert facts == (2, 2, (2,), ("x", "z"), "int64 float64", None, None, "", 2.0, "")


@pytest.mark.parametrize("seed", range(5))
def test_moments_of_parts_are_those_of_all(seed):
    rng = np.random.default_rng(seed)
    y = 1e3 + rng.normal(size=(60, 2))
    weight = rng.uniform(size=60) * (rng.uniform(size=60) > 0.2)
    pieces = np.split(np.arange(60), np.sort(rng.integers(0, 60, 4)))
    found = [moments_of(Partition(None, y[p], weight[p]), i, seed, 0.0)[0] for i, p in enumerate(pieces)]
    joined = found[0]
    for each in found[1:]:
        joined = joined.joined(each)
    mean = np.average(y, axis=0, weights=weight)
    np.testing.assert_allclose(joined.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(joined.squares, weight @ (y - mean) ** 2, rtol=1e-8)
    assert joined.weight == pytest.approx(weight.sum())


def test_nothing_joined_with_nothing_is_nothing():
    nothing = Moments(0.0, np.zeros(1), np.zeros(1))
    assert nothing.joined(nothing) is nothing
