"""Normalization: large means, and messages."""

import numpy as np
import pytest

from sknet import ops
from sknet.exceptions import DtypeError, ShapeError


@pytest.mark.parametrize(
    "norm", [lambda x: ops.layer_norm(x, 50), lambda x: ops.batch_norm(x.T), lambda x: ops.group_norm(x, 1)]
)
def test_a_large_mean_cancels_nothing(norm):
    x = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    np.testing.assert_allclose(norm(x + np.float32(1e4)).numpy(), norm(x).numpy(), atol=5e-3)


X = np.ones((2, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ops.layer_norm(X, 3),
            ShapeError,
            r"layer_norm: expected .* \(\.\.\., 3\), got \(2, 4\)",
        ),
        (lambda: ops.layer_norm(X, ()), ShapeError, "layer_norm: expected an input of shape"),
        (
            lambda: ops.rms_norm(X, (3, 4)),
            ShapeError,
            r"rms_norm: expected .* \(\.\.\., 3, 4\), got",
        ),
        (lambda: ops.rms_norm(X.astype(int), 4), DtypeError, "rms_norm: expected a floating-point operand"),
        (lambda: ops.group_norm(X, 3), ShapeError, "group_norm: 4 channels cannot be divided into 3 groups"),
        (
            lambda: ops.group_norm(X[0], 1),
            ShapeError,
            r"at least 2 axes, \(n, channels, \.\.\.\)",
        ),
        (lambda: ops.instance_norm(X), ShapeError, "instance_norm: expected an input of at least 3 axes"),
        (lambda: ops.batch_norm(X, mean=X[0]), ValueError, "mean and variance must be given together"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
