"""Convolutions with kernels of three by three, by tiles of the image."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import Tensor, config_context, ops
from sknet.compile import capture, compile
from sknet.core import gradients
from sknet.device import MetaArray
from sknet.ops import _convolution, _convolution_algorithms, _shares
from sknet.ops._convolution import ROLES, convolution_work
from sknet.ops._convolution_algorithms import Winograd
from sknet.ops._windows import Windows

torch = pytest.importorskip("torch", reason="the reference is PyTorch: install scikit-neural[oracle]")
pytest.importorskip("sknet._native._core", reason="native code was not built")

# Shape of the images, filters, groups, padding.
CASES = [
    ((13, 16, 20, 22), 16, 1, 1),
    ((4, 32, 14, 14), 64, 1, 1),
    ((9, 32, 15, 13), 64, 2, (1, 0)),
    ((28, 17, 12, 10), 20, 1, 2),
    ((5, 48, 28, 28), 48, 3, (2, 1)),
    ((33, 32, 28, 28), 32, 1, 1),  # several shares, the last of which is shorter
    ((9, 16, 40, 9), 33, 1, 0),
    ((70, 40, 2, 70), 24, 1, 1),  # wide tiles
    ((70, 40, 3, 3), 44, 1, 1),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
each_native = pytest.mark.parametrize("native", ["never", "always"])


def data(case, dtype):
    """Return images, kernels, weights of the results, and how to convolve."""
    shape, filters, groups, padding = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape).astype(dtype)
    w = rng.standard_normal((filters, shape[1] // groups, 3, 3)).astype(dtype)
    where = {"padding": padding, "groups": groups}
    size = ops.conv2d(x, w, **where).shape
    return x, w, rng.standard_normal(size).astype(dtype), where


def results(x, w, g, where):
    """Return the convolution, and the gradients of its product with g."""
    x, w = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    out = ops.conv2d(x, w, **where)
    return [each.detach().numpy() for each in (out, *gradients((out * g).sum(), [x, w]))]


def training(where):
    """Return the same as a function that can be captured."""

    def function(x, w, g):
        leaves = [x.detach(), w.detach()]
        for leaf in leaves:
            leaf.requires_grad = True
        out = ops.conv2d(*leaves, **where)
        return [out, *gradients((out * g).sum(), leaves)]

    return function


def of_torch(x, w, g, where):
    """Return the same by PyTorch, in double precision."""
    leaves = [torch.from_numpy(each.astype("float64")).requires_grad_() for each in (x, w)]
    out = torch.nn.functional.conv2d(*leaves, **where)
    (out * torch.from_numpy(g)).sum().backward()
    return [each.detach().numpy() for each in (out, *[leaf.grad for leaf in leaves])]


@pytest.mark.slow
@each_native
@each_dtype
@each_case
def test_it_is_pytorchs(case, dtype, native):
    given = data(case, dtype)
    with config_context(native=native):
        found = results(*given)
    eps = np.finfo(dtype).eps
    for ours, theirs in zip(found, of_torch(*given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=50 * eps, atol=40 * eps * np.abs(theirs).max())


@each_dtype
@each_case
def test_they_are_by_tiles(case, dtype):
    x, w, g, where = data(case, dtype)
    graph = capture(training(where), x, w, g)
    found = [each for each in graph.equations if each.primitive in ROLES]
    assert [sum(convolution_work(each)) for each in found] == [g.size * w[0].size] * 3
    rooms = [len(each.primitive.scratch(*each.operands, **each.params)) for each in found]
    assert sorted(rooms) == [4, 4, 6]


@each_case
def test_any_number_of_threads_leaves_the_same_bits(case):
    given, found = data(case, "float32"), []
    for count in (1, 2):
        with config_context(native="always"), threadpool_limits(count, "blas"):
            found.append(results(*given))
    for one, two in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes()


@each_native
def test_integers_are_computed_exactly(native):
    """Halves of sums of kernels are exact, too; so the order of sums is all that is not known."""
    rng = np.random.default_rng(3)
    x, w = rng.integers(-8, 9, (16, 16, 17, 19)), rng.integers(-8, 9, (18, 16, 3, 3))
    g = rng.integers(-3, 4, (16, 18, 17, 19))
    given = *(each.astype("float32") for each in (x, w, g)), {"padding": 1}
    with config_context(native=native):
        found = results(*given)
    for ours, theirs in zip(found, of_torch(*given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


LAYOUTS = {
    "reversed": lambda x: x[:, :, ::-1],
    "turned": lambda x: x.swapaxes(2, 3),
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "broadcast": lambda x: np.broadcast_to(x[..., :1], x.shape),
    "every other": lambda x: x.repeat(2, axis=3)[..., ::2],
}


@each_native
@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_of_any_layout(layout, native):
    x, w, g, where = data(((13, 16, 20, 20), 16, 1, 1), "float32")
    given, slopes = LAYOUTS[layout](x), LAYOUTS[layout](g)
    with config_context(native=native):
        found = results(given, w, slopes, where)
        expected = results(given.copy(), w, slopes.copy(), where)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


@each_native
def test_a_bias_is_that_of_a_sum(native):
    x, w, _, _ = data(CASES[1], "float32")
    bias = np.random.default_rng(1).standard_normal(len(w)).astype("float32")
    biased = compile(lambda x, w, b: ops.conv2d(x, w, b, padding=1), (x, w, bias))
    with config_context(native=native):
        found = biased(x, w, bias)
        expected = ops.conv2d(x, w, padding=1).numpy() + bias[:, None, None]
    assert found.tobytes() == expected.tobytes()


@each_native
@each_case
def test_an_exact_plan_leaves_the_same_bits(case, native):
    x, w, g, where = data(case, "float32")
    with config_context(native=native):
        planned = compile(training(where), (x, w, g), exact=True)(x, w, g)
        for ours, theirs in zip(planned, results(x, w, g, where), strict=True):
            assert np.asarray(ours).tobytes() == theirs.tobytes()


@pytest.mark.parametrize(("planned", "run"), [("never", "always"), ("always", "never")])
def test_a_plan_may_run_under_another_setting(planned, run):
    x, w, _, where = data(CASES[1], "float32")
    with config_context(native=planned):
        program = compile(lambda x, w: ops.conv2d(x, w, **where), (x, w))
    with config_context(native=run):
        assert program(x, w).tobytes() == ops.conv2d(x, w, **where).numpy().tobytes()


def test_no_samples():
    x, w, _, where = data(CASES[0], "float32")
    out, dx, dw = results(x[:0], w, np.empty((0, 16, 20, 22), np.float32), where)
    assert out.shape == dx.shape == (0, 16, 20, 22)
    np.testing.assert_array_equal(dw, np.zeros_like(w))


@pytest.mark.parametrize("cache", [1, 1 << 16, 1 << 30])
@pytest.mark.parametrize(("grain", "most"), [(1, 8), (1, 3), (1 << 40, 8), (1, 1)])
def test_any_parts_and_shares_give_the_same(cache, grain, most, monkeypatch):
    given = data(((21, 16, 14, 14), 18, 1, 1), "float64")
    expected = of_torch(*given)
    monkeypatch.setattr(_convolution_algorithms, "WINOGRAD_CACHE", cache)
    monkeypatch.setattr(_convolution_algorithms, "WINOGRAD_GRAIN", grain)
    monkeypatch.setattr(_shares, "MOST", most)
    for native in ("never", "always"):
        with config_context(native=native):
            found = results(*given)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())


def test_every_sample_is_in_one_share():
    windows = Windows((14, 14), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    for n in range(1, 70):
        task = Winograd.of((n, 64, 14, 14), 64, 1, windows, 4)
        shares = [range(n)[task.shares.samples(share)] for share in range(task.shares.n_shares)]
        assert [i for share in shares for i in share] == list(range(n))
        assert all(shares)


def test_memory_does_not_grow_with_the_batch():
    windows = Windows((28, 28), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    sizes = [
        sum(int(np.prod(shape)) * 4 for shape, _ in task.scratch_of_weight(np.dtype("f4")))
        for task in (Winograd.of((n, 64, 28, 28), 64, 1, windows, 4, of_weight=True) for n in (64, 1024))
    ]
    n_shares = Winograd.of((64, 64, 28, 28), 64, 1, windows, 4).shares.n_shares
    assert sizes[0] == sizes[1] < 2 * n_shares * _convolution_algorithms.WINOGRAD_CACHE


@pytest.mark.parametrize(
    ("shape", "filters", "groups", "more", "dtype", "expected"),
    [
        ((32, 64, 28, 28), 64, 1, {}, "float32", True),
        ((32, 3, 28, 28), 64, 1, {}, "float32", False),
        ((32, 64, 28, 28), 64, 32, {}, "float32", False),
        ((1, 64, 14, 14), 64, 1, {}, "float32", False),
        ((400, 64, 1, 1), 64, 1, {}, "float32", False),
        ((32, 64, 28, 28), 64, 1, {"kernel": (5, 5)}, "float32", False),
        ((32, 64, 28, 28), 64, 1, {"stride": (2, 2)}, "float32", False),
        ((32, 64, 28, 28), 64, 1, {"dilation": (2, 2)}, "float32", False),
        ((32, 64, 28, 28), 64, 1, {}, "float16", False),
    ],
)
def test_which_are_by_tiles(shape, filters, groups, more, dtype, expected):
    where = {"kernel": (3, 3), "stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1)} | more
    assert Winograd.fits(shape, filters, groups, Windows(shape[2:], **where), np.dtype(dtype)) is expected


def test_without_native_code_all_are_by_columns(monkeypatch):
    x, w, g, where = data(CASES[1], "float32")
    monkeypatch.setattr(_convolution.backend("cpu").xp, "may_be_native", lambda: False)
    found = results(x, w, g, where)
    for ours, theirs in zip(found, of_torch(x, w, g, where), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    assert len(_convolution._conv.scratch(x, w, **_full(where))) == 3


def _full(where):
    pad = where["padding"]
    return {
        "stride": (1, 1),
        "dilation": (1, 1),
        "padding": ((pad, pad), (pad, pad)),
        "groups": where["groups"],
    }


RNG = np.random.default_rng(0)


def results_of_columns(x, w, **options):
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
    expected = results_of_columns(x, w, **options)
    monkeypatch.setattr(_convolution_algorithms, "COLUMNS_GRAIN", grain)
    for large in (0, 10**9):
        for waste in (0, 10):
            for cache in (1, 3 * 9 * 9 * 8 * 8, 10**9):
                monkeypatch.setattr(_convolution_algorithms, "LARGE_IMAGE", large)
                monkeypatch.setattr(_convolution_algorithms, "COLUMNS_WASTE", waste)
                monkeypatch.setattr(_convolution_algorithms, "COLUMNS_CACHE", cache)
                for mine, other in zip(results_of_columns(x, w, **options), expected, strict=True):
                    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


def test_memory_does_not_grow_with_the_batch_of_columns():
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
