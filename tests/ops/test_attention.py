"""Attention: large scores, masks that leave nothing, gradients through masks, messages."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_scores_and_masks_stay_finite(dtype):
    q = Tensor((1e4 * RNG.normal(size=(4, 3))).astype(dtype), requires_grad=True)
    nothing = np.full((4, 4), -np.inf)
    own = np.where(np.eye(4, dtype=bool), 0.0, -np.inf)
    for mask in (None, nothing, own, np.isfinite(nothing), RNG.normal(size=(4, 4))):
        for is_causal in (False, True):
            out = ops.scaled_dot_product_attention(q, q, q, mask, is_causal=is_causal)
            found = gradients(out.sum(), [q])[0]
            assert out.dtype == found.dtype == dtype
            assert np.isfinite(out.numpy()).all()
            assert np.isfinite(found.numpy()).all()


def test_a_query_that_sees_nothing_is_zero():
    q = RNG.normal(size=(3, 2))
    mask = np.array([[True, True, True], [False, False, False], [False, True, False]])
    weights = ops.attention_weights(q, q, mask).numpy()
    np.testing.assert_allclose(weights.sum(axis=-1), [1, 0, 1], rtol=1e-12)
    assert (weights[~mask] == 0).all()
    causal = ops.attention_weights(q, q, np.array([False, True, True]), is_causal=True).numpy()
    assert (causal[0] == 0).all()


def test_a_bias_learns():
    q, bias = RNG.normal(size=(3, 2)), Tensor(np.zeros((3, 3)), requires_grad=True)
    out = ops.scaled_dot_product_attention(q, q, q, bias, is_causal=True)
    [found] = gradients((out * q).sum(), [bias])
    later = np.triu(np.ones((3, 3), bool), 1)
    assert (found.numpy()[later] == 0).all()
    assert (found.numpy()[1:, :1] != 0).all()


def test_dropout_is_applied_to_the_weights():
    q = np.zeros((2, 1))
    out = ops.scaled_dot_product_attention(q, q, [[1.0], [3.0]], dropout=lambda weights: weights * 10.0)
    assert out.numpy().tolist() == [[20.0], [20.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda q: ops.attention_weights(q, q[:, :1]),
            ShapeError,
            r"expected queries and keys of shapes \(\.\.\., n, features\), got \(3, 2\) and \(3, 1\)",
        ),
        (
            lambda q: ops.attention_weights(q.astype(int), q),
            DtypeError,
            "attention: expected a floating-point",
        ),
        (
            lambda q: ops.attention_weights(q, q, np.ones((3, 3), int)),
            DtypeError,
            "attention: mask: expected a floating-point operand, got int64",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((3, 2)))
