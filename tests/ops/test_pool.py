"""Pooling: ties, padding, elements in no window, messages."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import Tensor, config_context, ops
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError


def slope(function, x):
    leaf = Tensor(x, requires_grad=True)
    return gradients(function(leaf).sum(), [leaf])[0].numpy()


def test_the_first_of_equal_elements_has_the_gradient():
    np.testing.assert_array_equal(
        slope(lambda x: ops.max_pool2d(x, 2), np.ones((1, 2, 5))), [[[1, 0, 1, 0, 0], [0, 0, 0, 0, 0]]]
    )
    np.testing.assert_array_equal(
        slope(lambda x: ops.max_pool1d(x, 2, stride=1), np.array([[1.0, 3.0, 3.0, 2.0]])), [[0, 2, 1, 0]]
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("size", "where"),
    [
        ((28, 28), {"kernel_size": 2}),
        ((7, 9), {"kernel_size": 2}),
        ((7, 9), {"kernel_size": (3, 2)}),
        ((8, 8), {"kernel_size": 2, "stride": 3}),
        ((6, 6), {"kernel_size": (1, 2), "stride": (2, 2)}),
        ((5, 5), {"kernel_size": 3, "stride": 1, "padding": 1}),  # these go back to NumPy
        ((5, 5), {"kernel_size": 2, "ceil_mode": True}),
        ((6, 6), {"kernel_size": 2, "stride": 4, "dilation": 2}),
    ],
)
def test_native_code_leaves_the_same_bits(size, where, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 4, (3, 5, *size)).astype(dtype)  # many are equal
    x[0, 0, 0, 0], x[0, 1, 1, 1], x[1, 1, 0, 0] = np.nan, np.inf, -np.inf
    found = []
    for native in ("never", "always"):
        with config_context(native=native):
            leaf = Tensor(x, requires_grad=True)
            pooled = ops.max_pool2d(leaf, **where)
            given = np.random.default_rng(1).normal(size=pooled.shape).astype(dtype)
            turned = ops.max_pool2d(x.swapaxes(-1, -2), **where)  # not contiguous
            found.append([pooled.numpy(), *gradients(pooled, [leaf], given), turned.numpy()])
    for one, other in zip(*found, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def test_shares_of_images_are_those_of_numpy():
    """Enough images for threads to share, and not a multiple of the shares."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (59, 7, 28, 26)).astype("float32")
    g, found = rng.normal(size=(59, 7, 14, 13)).astype("float32"), []
    for native, count in (("never", 1), ("always", 1), ("always", 2), ("always", 4)):
        with config_context(native=native), threadpool_limits(count, "blas"):
            leaf = Tensor(x, requires_grad=True)
            pooled = ops.max_pool2d(leaf, 2)
            found.append([pooled.numpy().tobytes(), gradients(pooled, [leaf], g)[0].numpy().tobytes()])
    assert all(each == found[0] for each in found)


def test_padding_is_never_the_largest():
    assert ops.max_pool1d([[-5.0, -7.0]], 3, stride=1, padding=1).numpy().tolist() == [[-5.0, -5.0]]


def test_the_mean_with_and_without_padding():
    x = np.ones((1, 2))
    assert ops.avg_pool1d(x, 2, stride=1, padding=1).numpy().tolist() == [[0.5, 1.0, 0.5]]
    without = ops.avg_pool1d(x, 2, stride=1, padding=1, count_include_pad=False)
    assert without.numpy().tolist() == [[1.0, 1.0, 1.0]]


def test_leading_axes_are_batches():
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 6, 8))
    for pool in (ops.max_pool2d, ops.avg_pool2d, ops.adaptive_avg_pool2d, ops.adaptive_max_pool2d):
        np.testing.assert_array_equal(pool(x, 2).numpy()[1, 2], pool(x[1, 2], 2).numpy())


X = np.ones((1, 2, 5, 4))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ops.max_pool2d(X[0, 0], 2), ShapeError, r"max_pool2d: expected an input of shape"),
        (lambda: ops.max_pool2d(X, 6), ShapeError, r"a window of \(6, 6\) does not fit on a padded input"),
        (
            lambda: ops.avg_pool1d(X[0], (2, 2)),
            ValueError,
            "avg_pool1d: kernel_size must be an int >= 1",
        ),
        (
            lambda: ops.max_pool2d(X, 2, padding=2),
            ValueError,
            r"at most half of the kernel_size \(2, 2\)",
        ),
        (
            lambda: ops.max_pool2d(X.astype(int), 2),
            DtypeError,
            "expected a floating-point operand",
        ),
        (lambda: ops.adaptive_avg_pool2d(X, 0), ValueError, "output_size must be an int >= 1 or 2 of them"),
        (lambda: ops.adaptive_max_pool2d(X, (1, 2, 3)), ValueError, "output_size must be an int >= 1 or 2"),
        (
            lambda: ops.adaptive_avg_pool2d(X[..., :0], 1),
            ShapeError,
            "there is no element in an input",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
