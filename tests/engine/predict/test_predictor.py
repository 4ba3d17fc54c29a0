"""Compiled passes: few of them, for any number of rows."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.engine.extend import Predictor


class Counting(nn.Module):
    """Counts its captures; eager passes and programs do not count."""

    captured: list = []

    def forward(self, x):
        Counting.captured.append(x.shape[0])
        return ops.tanh(x)


def predictor(most_rows=16, head=None):
    model = Model(nn.Sequential(nn.Linear(3, 4), Counting()), dtype="float64", random_state=0)
    flat = np.zeros(model.memory.layout.size)
    model.memory.layout.fill(flat, model.parameters)
    return model, Predictor(model.module, model.memory.layout, flat, head, most_rows)


@pytest.mark.parametrize("most_rows", [1, 5, 16, 40])
def test_a_few_programs_compute_any_number_of_rows(most_rows):
    model, predict = predictor(most_rows)
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
        model = Model(module, dtype="float64", random_state=0)
        layout, flat = model.memory.layout, np.zeros(model.memory.layout.size)
        layout.fill(flat, model.parameters)
        predict = Predictor(model.module, layout, flat, is_fixed=True)
        before = predict(X)
        np.testing.assert_array_equal(predict.of_row(X), before)
        if is_watched:
            model.module.factors[0] = 5.0
            assert predict.of_row(X) is None
            np.testing.assert_array_equal(predict(X), [[5.0, 2.0, 3.0]])
        flat[:] = 0.5  # parameters are read by every call
        if not is_watched:
            np.testing.assert_array_equal(predict.of_row(X), [[2.0, 2.0, 2.0]])


def test_the_head_is_applied_row_by_row():
    model, predict = predictor(4, lambda output: output * 2.0)
    X = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(predict(X), 2 * model(X, training=False).numpy(), rtol=1e-12)
