"""Rows that are computed when they are read, compared with arrays."""

import numpy as np
import pytest

import sknet
from sknet import Model, nn
from sknet.engine import Batches, History, RSquared, _batches
from sknet.engine._batches import ComputedRows
from sknet.engine._loop import Settings, train
from sknet.persistence import _describe, digest


class Stored(ComputedRows):
    """Rows of an array; counts how many were read."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype)
        self.array, self.read, self.most = array, 0, 0

    def write(self, rows, out):
        self.read += len(rows)
        self.most = max(self.most, len(rows))
        out[...] = self.array[rows]


def trained(X, y, native, *, size, weight=None, rows=None, max_iter=4, max_steps=None, shuffle=True):
    model = Model(
        nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)), optimizer="adam", random_state=0
    )
    batches = Batches(X, y, weight, size, model.dtype, model.device, rows)
    history = History()
    settings = Settings(max_iter=max_iter, max_steps=max_steps, shuffle=shuffle)
    with sknet.config_context(native=native):
        train(model, batches, history, settings, lambda: RSquared(batches.y, None, model.loss_function))
    return [value.copy() for value in model.parameters.values()], history["loss"], history["score"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(203, 5)).astype("float32")
    return X, X[:, :1] ** 2, rng.random(203).astype("float32")


CASES = {
    "batches": {"size": 20},
    "one batch": {"size": 203},
    "single rows": {"size": 1, "max_iter": 2},
    "in order": {"size": 20, "shuffle": False},
    "some rows": {"size": 16, "rows": np.arange(203)[::-2].copy()},
    "until a step": {"size": 20, "max_steps": 17},
    "a short last batch": {"size": 101},
}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("window", [1, 500, 1 << 20])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_training_has_the_bits_of_an_array(data, case, window, weighted, native, monkeypatch):
    monkeypatch.setattr(_batches, "WINDOW_BYTES", window)
    X, y, weight = data
    weight = np.where(weight < 0.2, 0, weight) if weighted else None
    expected, found = (trained(x, y, native, weight=weight, **case) for x in (X, Stored(X)))
    for one, other in zip(*(each[0] for each in (expected, found)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert expected[1:] == found[1:]


def test_every_row_is_computed_once_in_an_epoch(data):
    X, y, _ = data
    reads = []
    for max_iter in (3, 8):
        rows = Stored(X)
        trained(rows, y, "always", size=20, max_iter=max_iter)
        reads.append(rows.read)
    assert reads[1] - reads[0] == 5 * len(X)


def test_it_behaves_like_an_array(data):
    X, *_ = data
    rows = Stored(X)
    assert (len(rows), rows.ndim, rows.nbytes) == (203, 2, X.nbytes)
    np.testing.assert_array_equal(rows[5:9], X[5:9])
    for chosen in ([3, 3], -1, np.int32(4), X[:, 0] > 0, slice(None, None, -7), np.zeros(0, int)):
        np.testing.assert_array_equal(rows[chosen], X[chosen])
    assert np.asarray(rows).dtype == X.dtype
    np.testing.assert_array_equal(np.array(rows), X)
    np.testing.assert_array_equal(np.asarray(rows, "float64"), X.astype("float64"))
    with pytest.raises(ValueError, match="cannot be an array without copy"):
        np.array(rows, copy=False)
    for outside in (203, -204):
        with pytest.raises(IndexError, match="out of bounds"):
            rows[outside]
    out = np.empty((2, 5), "float32")
    assert rows.take([1, 0], axis=0, out=out) is out
    np.testing.assert_array_equal(out, X[[1, 0]])


def test_a_digest_reads_a_few_rows_at_a_time(data, monkeypatch):
    monkeypatch.setattr(_describe, "CHUNK", 400)
    X, *_ = data
    rows = Stored(X)
    assert digest(rows) == digest(X)
    assert rows.most == 20
