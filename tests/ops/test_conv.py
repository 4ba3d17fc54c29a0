"""Convolutions: all algorithms agree, shapes without data, messages."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import compile
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError

RNG = np.random.default_rng(0)


def test_a_compiled_step_allocates_nothing_for_the_columns():
    x, w = RNG.normal(size=(4, 3, 8, 8)), RNG.normal(size=(5, 3, 3, 3))
    compiled = compile(lambda x, w: ops.conv2d(x, w, padding=1), (x, w))
    [buffers] = [found for found in compiled.plan.scratch.values() if found]
    assert len(buffers) == 3
    assert "scratch=(" in compiled.source
    np.testing.assert_array_equal(compiled(x, w), ops.conv2d(x, w, padding=1).numpy())


def test_leading_axes_are_batches():
    x, w = RNG.normal(size=(2, 3, 1, 6, 5)), RNG.normal(size=(2, 1, 3, 3))
    out = ops.conv2d(x, w)
    assert out.shape == (2, 3, 2, 4, 3)
    np.testing.assert_array_equal(out.numpy()[1, 2], ops.conv2d(x[1, 2], w).numpy())


def test_a_wider_dtype_wins_and_each_gradient_keeps_its_own():
    x = Tensor(RNG.normal(size=(1, 1, 4, 4)).astype(np.float32), requires_grad=True)
    w = Tensor(RNG.normal(size=(1, 1, 2, 2)), requires_grad=True)
    out = ops.conv2d(x, w)
    assert out.dtype == np.float64
    assert [g.dtype for g in gradients(out.sum(), [x, w])] == [np.float32, np.float64]


X, W = np.ones((1, 2, 5, 4)), np.ones((3, 2, 2, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ops.conv2d(X[0, 0], W),
            ShapeError,
            r"conv2d: expected an input of shape .* height",
        ),
        (lambda: ops.conv1d(X[0, 0, 0], W[0]), ShapeError, r"conv1d: expected an input of shape .* length\)"),
        (lambda: ops.conv2d(X, W[0]), ShapeError, r"conv2d: expected a weight of 4 axes, .* got \(2, 2, 2\)"),
        (
            lambda: ops.conv2d(X[:, :1], W),
            ShapeError,
            r"an input of 2 channels, got shape \(1, 1, 5, 4\)",
        ),
        (
            lambda: ops.conv2d(X, W, groups=2),
            ValueError,
            "groups must be an int that divides .* 3, got 2",
        ),
        (lambda: ops.conv2d(X, W, groups=0), ValueError, "groups must be an int"),
        (lambda: ops.conv2d(X, W, np.ones(2)), ShapeError, r"expected a bias of shape \(3,\), got \(2,\)"),
        (lambda: ops.conv2d(X, W, stride=0), ValueError, "stride must be an int >= 1 or 2 of them, got 0"),
        (
            lambda: ops.conv2d(X, W, dilation=(1, 1, 1)),
            ValueError,
            "dilation must be an int >= 1 or 2 of",
        ),
        (
            lambda: ops.conv1d(X[:, :, 0], W[:, :, 0], stride="a"),
            ValueError,
            "stride must be an int >= 1, got 'a'",
        ),
        (
            lambda: ops.conv2d(X, W, padding=-1),
            ValueError,
            "padding must be an int >= 0 or 2 of them",
        ),
        (
            lambda: ops.conv2d(X, W, padding="full"),
            ValueError,
            "an int >= 0, 'same' or 'valid', got 'full'",
        ),
        (
            lambda: ops.conv2d(X, W, padding="same", stride=2),
            ValueError,
            r"padding='same' needs a stride of 1, got \(2, 2\)",
        ),
        (
            lambda: ops.conv2d(X, W, dilation=4),
            ShapeError,
            r"a window of \(5, 5\) does not fit on a padded input of \(5, 4\)",
        ),
        (
            lambda: ops.conv2d(X.astype(int), W),
            DtypeError,
            "expected a floating-point operand, got int64",
        ),
        (
            lambda: ops.conv_transpose2d(X, W[:2], stride=2, output_padding=2),
            ValueError,
            r"output_padding must be smaller than the stride \(2, 2\) or the dilation \(1, 1\), got 2",
        ),
        (
            lambda: ops.conv_transpose2d(X[..., :1, :1], W[:2], padding=1),
            ShapeError,
            r"an input of shape \(1, 2, 1, 1\) with padding=1 has an empty result",
        ),
        (lambda: ops.conv_transpose2d(X, W), ShapeError, "groups=1 needs an input of 3 channels"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
