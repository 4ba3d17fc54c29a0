"""Convolutions: all algorithms agree, shapes without data, messages."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import compile
from sknet.core import gradients
from sknet.device import MetaArray
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops import _convolution, _convolution_algorithms, _shares

RNG = np.random.default_rng(0)


def results(x, w, **options):
    """Return the output of a convolution and both gradients."""
    leaves = [Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)]
    out = ops.conv2d(*leaves, **options)
    weights = np.random.default_rng(1).normal(size=out.shape)
    return [out, *gradients((out * weights).sum(), leaves)]


@pytest.mark.parametrize("grain", [1, 1 << 40])
@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((7, 2, 9, 8), (3, 2, 3, 2), {"padding": 1}),
        ((7, 1, 9, 8), (6, 1, 3, 3), {"padding": (1, 0), "dilation": (1, 2)}),
        ((5, 4, 8, 8), (4, 2, 2, 3), {"groups": 2}),
        ((5, 2, 9, 9), (3, 2, 3, 3), {"stride": 2, "padding": 1}),
        ((3, 2, 1, 9), (3, 2, 1, 3), {}),
    ],
)
def test_every_way_gives_the_same(x, w, options, grain, monkeypatch):
    """One sample at a time or all, separately or together, in whole rows or not, in one share or several."""
    x, w = RNG.normal(size=x), RNG.normal(size=w)
    expected = results(x, w, **options)
    monkeypatch.setattr(_convolution_algorithms, "COLUMNS_GRAIN", grain)
    for large in (0, 10**9):
        for waste in (0, 10):
            for cache in (1, 3 * 9 * 9 * 8 * 8, 10**9):
                monkeypatch.setattr(_convolution_algorithms, "LARGE_IMAGE", large)
                monkeypatch.setattr(_convolution_algorithms, "COLUMNS_WASTE", waste)
                monkeypatch.setattr(_convolution_algorithms, "COLUMNS_CACHE", cache)
                for mine, other in zip(results(x, w, **options), expected, strict=True):
                    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


def test_a_compiled_step_allocates_nothing_for_the_columns():
    x, w = RNG.normal(size=(4, 3, 8, 8)), RNG.normal(size=(5, 3, 3, 3))
    compiled = compile(lambda x, w: ops.conv2d(x, w, padding=1), (x, w))
    [buffers] = [found for found in compiled.plan.scratch.values() if found]
    assert len(buffers) == 3
    assert "scratch=(" in compiled.source
    np.testing.assert_array_equal(compiled(x, w), ops.conv2d(x, w, padding=1).numpy())


def test_memory_does_not_grow_with_the_batch():
    where = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    w = MetaArray((64, 64, 3, 3), "float32")
    sizes = [
        sum(np.prod(shape) * 4 for shape, _ in _convolution._conv.scratch(x, w, **where))
        for x in (MetaArray((n, 64, 28, 28), "float32") for n in (16, 1024))
    ]
    assert sizes[0] == sizes[1] < 2 * _convolution_algorithms.COLUMNS_CACHE


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize(("size", "least"), [(16, 4), (512, 1)])
def test_many_cores_do_not_take_much_memory_for_large_images(kernel, size, least, monkeypatch):
    """Columns of one of the large images take 0.6 GB or more; of small ones, every core has some."""
    where = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    x, w = MetaArray((64, 64, size, size), "float32"), MetaArray((64, 64, kernel, kernel), "float32")
    n_bytes = []
    for cores in (2, 8):
        monkeypatch.setattr(_shares, "CORES", cores)
        n_bytes.append(sum(np.prod(shape) * 4 for shape, _ in _convolution._conv.scratch(x, w, **where)))
    assert n_bytes[1] == least * n_bytes[0]


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
