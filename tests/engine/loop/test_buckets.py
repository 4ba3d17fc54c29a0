"""Buckets of similar lengths: the same steps as with all padding, in an order that a seed decides."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.random import RandomState

from sknet import Model, NetClassifier, nn
from sknet.callbacks import Checkpoint
from sknet.device import Device
from sknet.engine import Batches, _batches
from sknet.engine._batches import Buckets, buckets_of
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
LENGTHS = np.maximum(1, np.exp(RNG.normal(1.5, 0.8, 123))).astype(int)
ROWS = [RNG.integers(1, 9, n) for n in LENGTHS]
SERIES = [RNG.normal(size=(n, 2)) for n in LENGTHS]
LABELS = np.array([int((row == 3).any()) for row in ROWS])
SMALL = {"gru": {"hidden_size": 5}, "tcn": {"channels": 6}, "transformer": {"embed_dim": 8}}


def fitted(name, rows, y=LABELS, epochs=3, given=(), **params):
    network = nn.NETWORKS[name].__sklearn_clone__().set_params(**SMALL[name], dropout=0.0)
    net = NetClassifier(
        network, max_iter=epochs, batch_size=10, tol=0, lr=0.01, random_state=0, dtype="float64", **params
    )
    with quiet():
        return net.fit(rows, y, **dict(given))


def weights(net):
    return net.model_.weights().flat


@pytest.mark.parametrize("n", [40, 41, 47, 123])
def test_orders(n):
    buckets, size, n_batches = Buckets(LENGTHS, LENGTHS.max()), 10, -(-n // 10)
    order = RNG.permutation(n)
    found = buckets.arranged(order, size, n_batches, RandomState(0))
    assert sorted(found) == list(range(n))
    parts = [found[i * size : (i + 1) * size] for i in range(n_batches)]
    ranges = sorted((LENGTHS[part].min(), LENGTHS[part].max()) for part in parts)
    assert all(below[1] <= above[0] for below, above in pairwise(ranges))
    assert LENGTHS[parts[-1]].max() == np.sort(LENGTHS[:n])[: len(parts[-1])].max()
    assert (found != buckets.arranged(order, size, n_batches, RandomState(1))).any()
    for part in parts:
        assert LENGTHS[part].max() <= buckets.width_of(part) <= max(1.5 * LENGTHS[part].max() + 1, 2)


@pytest.mark.parametrize(
    ("name", "rows"), [("gru", ROWS), ("gru", SERIES), ("tcn", ROWS), ("transformer", SERIES)]
)
@pytest.mark.parametrize("native", [True, False])
def test_steps_are_those_with_all_padding(name, rows, native, monkeypatch):
    if not native:
        monkeypatch.setenv("SKNET_NATIVE", "never")
    short = fitted(name, rows)
    monkeypatch.setattr(_batches, "MOST_WIDTHS", 1)
    whole = fitted(name, rows)
    np.testing.assert_allclose(weights(short), weights(whole), rtol=1e-8, atol=1e-10)
    monkeypatch.setattr(_batches, "LEAST_BATCHES", 1000)
    assert not np.allclose(weights(fitted(name, rows)), weights(whole))  # whose batches are others


@pytest.mark.parametrize("params", [{}, {"sampler": "balanced"}, {"early_stopping": True}, {"n_members": 2}])
def test_fits_have_the_same_bits_for_a_seed_and_resumed(params, tmp_path):
    first = fitted("gru", ROWS, epochs=4, **params)
    expected = first.predict_proba(ROWS)
    np.testing.assert_array_equal(fitted("gru", ROWS, epochs=4, **params).predict_proba(ROWS), expected)
    if "n_members" not in params:
        fitted("gru", ROWS, epochs=2, given={"callbacks": [Checkpoint(tmp_path)]}, **params)
        resumed = fitted("gru", ROWS, epochs=4, given={"resume_from": tmp_path}, **params)
        np.testing.assert_array_equal(resumed.predict_proba(ROWS), expected)


def test_eager_steps_and_zero_weights():
    X, lengths = nn.pad_sequences(ROWS)
    weight = np.where(LENGTHS > 8, 0.0, RNG.uniform(0.5, 2, len(ROWS)))
    found = []
    for compiled in (True, False):
        network = nn.RecurrentNet(X.shape[1:], 2, n_ids=9, hidden_size=3, dropout=0.0)
        model = Model(network, "log_loss", random_state=0, dtype="float64")
        model.compile = compiled
        model.fit({"x": X, "lengths": lengths}, LABELS, epochs=2, batch_size=10, sample_weight=weight)
        found.append(model.weights().flat)
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-10)


def test_rows_are_predicted_in_their_order():
    net = fitted("gru", ROWS)
    np.testing.assert_allclose(
        net.predict_proba(ROWS), [net.predict_proba([row])[0] for row in ROWS], rtol=1e-12
    )


class Steps(nn.Module):
    """A network of one output a step, or with a norm of steps."""

    def __init__(self, norm=False):
        self.norm, self.head = (nn.BatchNorm(2) if norm else nn.Identity()), nn.Linear(2, 1)

    def forward(self, x, lengths):
        return self.head(self.norm(x.reshape((-1, 2))).reshape(x.shape))


def test_what_has_no_buckets():
    X, lengths = nn.pad_sequences(SERIES)
    n_steps = X.shape[1]

    def found(module, y, lengths=lengths, size=10, device="cpu"):
        model = Model(module, "squared_error", random_state=0)
        batches = Batches({"x": X, "lengths": lengths}, y, None, size, np.dtype("f4"), Device(device))
        return buckets_of(model.materialize(batches.X), batches)

    rows, steps = np.zeros((len(X), 1)), np.zeros((len(X), n_steps, 1))
    network = nn.RecurrentNet((n_steps, 2), 1, hidden_size=3)
    assert found(network, rows) is not None
    assert found(network, rows, np.full(len(X), n_steps)) is None  # no padding
    assert found(network, rows, size=100) is None  # few batches
    assert found(Steps(), steps) is None
    assert found(Steps(norm=True), rows) is None
