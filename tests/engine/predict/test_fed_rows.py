"""Rows of the host that are predicted or scored on a device, sent there beside what it computes."""

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, ops
from sknet.device import to_device, to_host
from sknet.engine import Accuracy, Batches, _network
from sknet.engine._batches import ComputedRows
from sknet.engine._loop import Validation
from sknet.engine._network import in_chunks, predict_rows
from tests.devices import fake

SIZE, WIDTH = 16, 43  # no other test has such networks: the size of their chunks is remembered
X = np.random.default_rng(0).normal(size=(5 * SIZE + 7, 5)).astype("float32")
CLASSES = np.arange(len(X)) % 3


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(_network, "CHUNK_ELEMENTS", SIZE * WIDTH)


def model_on(device, dtype="float32"):
    layers = nn.Linear(5, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
    return Model(nn.Sequential(*layers), "log_loss", random_state=0, dtype=dtype, device=device)


KINDS = {
    "as they are": X,
    "another dtype": X.astype("float64"),
    "integers": np.arange(X.size).reshape(X.shape) % 7,
    "some columns": np.repeat(X, 2, axis=1)[:, ::2],
    "in Fortran order": np.asfortranarray(X),
}


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_have_the_same_bits(kind, fake_device):
    model, rows = model_on(fake_device), KINDS[kind]
    expected = predict_rows(model, to_device(np.ascontiguousarray(rows).astype("f4"), fake_device))
    if kind == "integers":  # they would stay integers, for an embedding
        rows = rows.astype("f8")
    with fake.counted() as counts:
        found = predict_rows(model, rows)
    np.testing.assert_array_equal(to_host(found), to_host(expected))
    assert (counts.sent, counts.sent_bytes) == (6, X.nbytes)


def test_few_rows_are_not_sent_ahead(fake_device):
    with fake.counted() as counts:
        predict_rows(model_on(fake_device), X[:SIZE])
    assert not counts.sent


def test_results_that_are_their_rows(fake_device):
    """Views of a chunk would become the rows of the one after the next."""
    found = in_chunks(lambda chunk: chunk[:, :2], X, SIZE, X.dtype, fake_device)
    np.testing.assert_array_equal(to_host(found), X[:, :2])


class Doubled(ComputedRows):
    def write(self, rows, out):
        np.multiply(X[rows], 2, out=out)


def test_several_inputs_of_many_kinds(fake_device):
    def joined(rows):
        ids = ops.astype(rows["ids"], "float32")
        return (rows["sparse"] @ ops.ones((5, 1), device=fake_device).data) + rows["there"] + ids.data

    ids = np.arange(5 * len(X)).reshape(-1, 5)
    given = {"sparse": scipy.sparse.csr_array(X), "there": to_device(X, fake_device), "ids": ids}
    with fake.counted() as counts:
        found = in_chunks(joined, given, SIZE, X.dtype, fake_device)
    np.testing.assert_allclose(to_host(found), X.sum(axis=1, keepdims=True) + X + ids, rtol=1e-5)
    assert (counts.sent, counts.sent_bytes) == (6, ids.nbytes)


def test_without_memory_for_two_chunks(fake_device, monkeypatch):
    """Rows are then copied chunk by chunk, as they are asked for."""
    model = model_on(fake_device)
    expected = to_host(predict_rows(model, X))
    failing = fake.FakeBackend.empty

    def full(self, shape, dtype, device):
        if shape == (2 * SIZE, 5):
            raise fake.FakeOutOfMemoryError
        return failing(self, shape, dtype, device)

    monkeypatch.setattr(fake.FakeBackend, "empty", full)
    with fake.counted() as counts:
        np.testing.assert_array_equal(to_host(predict_rows(model, X)), expected)
    assert not counts.sent


@pytest.mark.parametrize("rows", [X, Doubled(X.shape, X.dtype)], ids=["array", "computed"])
@pytest.mark.parametrize("chosen", [None, np.arange(len(X))[::-2]], ids=["all", "some"])
def test_held_out_rows(chosen, rows, fake_device):
    y = CLASSES if chosen is None else CLASSES[chosen]
    weight = np.random.default_rng(1).uniform(size=len(y))
    found = []
    for device, given in (("cpu", rows), (fake_device, rows), (fake_device, to_device(rows[:], fake_device))):
        model = model_on(device)
        batches = Batches(given, CLASSES, None, SIZE, model.dtype, model.device, chosen)
        if chosen is None:
            batches = Batches(given, CLASSES, weight, SIZE, model.dtype, model.device)
        with fake.counted() as counts:
            found += [Validation(batches, Accuracy).evaluate(model) for _ in range(2)]
        is_sent = device is fake_device and isinstance(given, Doubled)  # arrays stay there between epochs
        assert counts.sent == (2 * batches.n_batches if is_sent else 0)
    assert found[2] == found[3] == found[4]
    for name, value in found[0].items():
        np.testing.assert_allclose(found[2][name], value, rtol=1e-5)
