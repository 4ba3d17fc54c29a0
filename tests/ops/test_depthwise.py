"""Convolutions in which every channel has a kernel of its own."""

import numpy as np
import pytest

from sknet import Tensor, config_context, ops
from sknet.compile import compile
from sknet.core import gradients

torch = pytest.importorskip("torch", reason="the reference is PyTorch: install scikit-neural[oracle]")

# Shape of the images, rows and columns of a kernel, stride, padding, dilation.
CASES = [
    ((3, 5, 9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((4, 3, 6, 7), (3, 3), (1, 1), (0, 0), (1, 1)),
    ((2, 4, 10, 9), (2, 5), (2, 3), (1, 2), (2, 1)),
    ((1, 2, 7, 7), (5, 5), (1, 1), (2, 2), (1, 1)),
    ((5, 2, 4, 4), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 3, 3, 12), (3, 3), (1, 2), (0, 1), (1, 1)),
    ((2, 3, 9, 9), (3, 3), (1, 1), (2, 2), (2, 2)),
    ((17, 2, 3, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((9, 2, 3, 3), (3, 3), (1, 1), (0, 0), (1, 1)),
    ((33, 40, 28, 28), (3, 3), (1, 1), (1, 1), (1, 1)),  # in several parts
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def data(case, dtype):
    shape, kernel, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    w = rng.standard_normal((shape[1], 1, *kernel)).astype(dtype)
    where = {"stride": stride, "padding": padding, "dilation": dilation, "groups": shape[1]}
    with torch.no_grad():
        size = torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), None, *where.values()).shape
    return x, w, rng.standard_normal(tuple(size)).astype(dtype), where


def results(x, w, g, where):
    """Return the convolution, and the gradients of its product with g."""
    x, w = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    out = ops.conv2d(x, w, **where)
    return [out, *gradients((out * g).sum(), [x, w])]


def planned(x, w, g, where):
    """Return the same from a compiled program."""

    def function(x, w, g):
        for leaf in (leaves := [x.detach(), w.detach()]):
            leaf.requires_grad = True
        out = ops.conv2d(*leaves, **where)
        return [out, *gradients((out * g).sum(), leaves)]

    return compile(function, (x, w, g), exact=True)(x, w, g)


@each_dtype
@each_case
def test_it_is_pytorchs(case, dtype):
    x, w, g, where = data(case, dtype)
    xs, ws = torch.from_numpy(x).requires_grad_(), torch.from_numpy(w).requires_grad_()
    out = torch.conv2d(xs, ws, None, *where.values())
    (out * torch.from_numpy(g)).sum().backward()
    eps = np.finfo(dtype).eps
    for ours, theirs in zip(results(x, w, g, where), (out.detach(), xs.grad, ws.grad), strict=True):
        largest = float(theirs.abs().max())
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=50 * eps, atol=100 * eps * largest)


@each_dtype
@each_case
def test_native_code_leaves_the_same_bits(case, dtype):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    given = data(case, dtype)
    with config_context(native="never"):
        expected = results(*given)
    with config_context(native="always"):
        found = results(*given)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("native", ["never", "always"])
def test_infinities_and_nan_stay_in_their_windows(native):
    x, w, _, where = data(CASES[0], "float32")
    x[0, 0, 0, 0], x[1, 1, 4, 10], x[2, 2, 8, 5] = np.inf, np.nan, -np.inf
    with config_context(native=native):
        found = ops.conv2d(x, w, **where).numpy()
    expected = torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), None, *where.values()).numpy()
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))


LAYOUTS = {
    "reversed": lambda x: x[:, :, ::-1],
    "turned": lambda x: x.swapaxes(2, 3),
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "every other": lambda x: x[..., ::2],
}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_of_any_layout(layout, native):
    x, w, _, where = data(CASES[0], "float32")
    given = LAYOUTS[layout](x)
    with config_context(native=native):
        found = ops.conv2d(given, w, **where).numpy()
        expected = ops.conv2d(given.copy(), w, **where).numpy()
    np.testing.assert_array_equal(found, expected)


@each_case
def test_an_exact_plan_leaves_the_same_bits(case):
    given = data(case, "float32")
    for ours, theirs in zip(planned(*given), results(*given), strict=True):
        np.testing.assert_array_equal(ours, theirs.numpy())


def test_no_samples():
    x, w, _, where = data(CASES[0], "float32")
    out, dx, dw = results(x[:0], w, np.empty((0, 5, 9, 11), np.float32), where)
    assert out.shape == dx.shape == (0, 5, 9, 11)
    np.testing.assert_array_equal(dw.numpy(), np.zeros_like(w))
