"""Bounds from operations hold for all values, and are met where a closed form says so."""

import numpy as np
import pytest

from sknet import nn, ops
from sknet.engine._checks import Bounds
from sknet.nn._lazy import shadows, shape_pass

INF = np.inf
X = np.concatenate([np.linspace(-30, 30, 601), [0.0, 1e-8, -1e-8]]).reshape(-1, 2)

KNOWN = [
    (lambda x: x, -INF, INF),
    (ops.sigmoid, 0, 1),
    (lambda x: ops.softmax(x, axis=-1), 0, 1),
    (ops.tanh, -1, 1),
    (ops.log_sigmoid, -INF, 0),
    (ops.softplus, 0, INF),
    (ops.exp, 0, INF),
    (lambda x: ops.exp(ops.tanh(x)), np.exp(-1), np.e),
    (lambda x: ops.expm1(ops.clip(x, -1, 2)), np.expm1(-1), np.expm1(2)),
    (lambda x: ops.square(ops.clip(x, -2, 1)), 0, 4),
    (lambda x: ops.square(ops.clip(x, -2, -1)), 1, 4),
    (lambda x: ops.abs(ops.clip(x, -2, -1)), 1, 2),
    (lambda x: ops.abs(ops.clip(x, -2, 1)), 0, 2),
    (lambda x: ops.relu(ops.clip(x, -2, 1)), 0, 1),
    (lambda x: 3 - 2 * ops.sigmoid(x), 1, 3),
    (lambda x: -ops.sigmoid(x) * ops.tanh(x), -1, 1),
    (lambda x: 1 / (2 + ops.tanh(x)), 1 / 3, 1),
    (lambda x: 1 / ops.tanh(x + 0.01), -INF, INF),
    (lambda x: ops.tanh(x) / ops.exp(ops.clip(x, 0, 1)), -1, 1),
    (lambda x: ops.maximum(ops.tanh(x), 0.25), 0.25, 1),
    (lambda x: ops.minimum(ops.tanh(x), 0.25), -1, 0.25),
    (lambda x: ops.where(ops.greater(x, 0), ops.sigmoid(x), -2.0), -2, 1),
    (lambda x: ops.concat([ops.sigmoid(x), ops.tanh(x)], axis=1), -1, 1),
    (lambda x: ops.sum(ops.sigmoid(x), axis=1), 0, 2),
    (lambda x: ops.mean(ops.sigmoid(x), axis=1), 0, 1),
    (lambda x: ops.max(ops.sigmoid(x), axis=1), 0, 1),
    (lambda x: ops.sigmoid(x)[:, 0], 0, 1),
    (ops.hardsigmoid, 0, 1),
    (lambda x: ops.exp(x) / ops.sum(ops.exp(x), axis=1, keepdims=True), 0, 1),
    (lambda x: ops.exp(2 * x) / ops.sum(ops.exp(x), axis=1, keepdims=True), 0, INF),
    (lambda x: ops.square(x) / ops.expand_dims(ops.sum(ops.square(x), axis=1), 1), 0, 1),
    (lambda x: x * np.array([np.nan, 1.0]), -INF, INF),
]


@pytest.mark.parametrize(("function", "low", "high"), KNOWN)
def test_bounds_are_those_of_the_closed_form(function, low, high):
    bounds = Bounds()
    output = shape_pass(nn.Lambda(function), shadows((X.shape,), "float64", bounds), seen=bounds)
    np.testing.assert_allclose(bounds.of(output.data), (low, high), rtol=1e-12, atol=1e-12)
    with np.errstate(all="ignore"):
        values = function(ops.positive(X)).numpy()
    finite = values[np.isfinite(values)]
    assert (finite >= low - 1e-12).all()
    assert (finite <= high + 1e-12).all()
