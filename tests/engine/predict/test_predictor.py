"""Compiled passes: few of them, for any number of rows."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.engine import _network
from sknet.engine._network import Network


class Counting(nn.Module):
    """Counts its captures; eager passes and programs do not count."""

    captured: list = []

    def forward(self, x):
        Counting.captured.append(x.shape[0])
        return ops.tanh(x)


def network():
    model = Model(nn.Sequential(nn.Linear(3, 4), Counting()), dtype="float64", random_state=0)
    return model, Network.fixed(model.module.copy(), np.float64)


def part(module, scope, args):
    """Run a module; as with a pass to a layer, all rows are computed by programs."""
    return nn.run(module, scope, args)


@pytest.mark.parametrize("most_rows", [1, 5, 16, 40])
def test_a_few_programs_compute_any_number_of_rows(most_rows, monkeypatch):
    monkeypatch.setattr(_network, "rows_at_once", lambda *of: most_rows)
    model, found = network()

    def predict(X):
        return found.compute(X, "part", by=part)

    X = np.random.default_rng(0).normal(size=(100, 3))
    expected = model(X, training=False).numpy()
    Counting.captured.clear()
    for n in (*range(1, 40), 100):
        np.testing.assert_allclose(predict(X[:n]), expected[:n], rtol=1e-12)
    sizes = [size for size in (*range(1, 17), 32) if size <= most_rows]
    assert sorted(set(Counting.captured)) == sizes
    once = len(Counting.captured)
    for n in range(1, 40):
        predict(X[:n])
    assert len(Counting.captured) == once


class Scaled(nn.Module):
    """A module of one's own, with a list that programs hold as constants."""

    def __init__(self):
        self.factors = [1.0, 2.0, 3.0]

    def forward(self, x):
        return x * np.array(self.factors)


def test_only_modules_of_ones_own_are_watched_where_nobody_else_has_them():
    X = np.ones((1, 3))
    for module, is_watched in ((Scaled(), True), (nn.Linear(3, 3), False)):
        found = Network.fixed(Model(module, dtype="float64", random_state=0).module.copy(), np.float64)
        before = found.compute(X)
        np.testing.assert_array_equal(found.unchecked(X, "raw"), before)
        if is_watched:
            found.module.factors[0] = 5.0
            assert found.unchecked(X, "raw") is None
            np.testing.assert_array_equal(found.compute(X), [[5.0, 2.0, 3.0]])
        found.flat[:] = 0.5  # parameters are read by every call
        if not is_watched:
            np.testing.assert_array_equal(found.unchecked(X, "raw"), [[2.0, 2.0, 2.0]])


def test_the_head_is_applied_row_by_row():
    model, found = network()
    X = np.random.default_rng(0).normal(size=(7, 3))
    predicted = found.compute(X, "twice", lambda output: output * 2.0)
    np.testing.assert_allclose(predicted, 2 * model(X, training=False).numpy(), rtol=1e-12)
