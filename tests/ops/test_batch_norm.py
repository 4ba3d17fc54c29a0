"""Batch norms in few passes: numbers, gradients, bits of native code, and which ones are."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import Model, Tensor, config_context, nn, vmap
from sknet.compile import capture, compile
from sknet.core import gradients

torch = pytest.importorskip("torch", reason="the reference is PyTorch: install scikit-neural[oracle]")

SHAPES = [
    (32, 32, 28, 28),
    (3, 141, 13, 9),  # vectors with a rest
    (5, 1024, 16),  # as short as rows are
    (2, 3, 512, 33),  # rows are halves of an image
    (1, 500, 33),
    (3, 32, 8, 8, 9),
    (33, 128, 3, 7),  # in single operations
]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def data(shape, dtype):
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal(shape) + 5
    w, b = rng.standard_normal((2, shape[1]))
    return [v.astype(dtype) for v in (x, w, b, rng.standard_normal(shape))]


def moments(x, w, b, eps=1e-3):
    """Return the norm of a batch, and its mean and biased variance, as the layer finds them."""
    layer = nn.BatchNorm(x.shape[1], eps=eps, momentum=1.0).to(dtype=str(x.dtype))
    out, found = nn.functional_call(layer, {"weight": w, "bias": b}, x)
    count = x.size // x.shape[1]
    return out, found["running_mean"], found["running_var"] * ((count - 1) / count)


def in_few_passes(arrays):
    x, w, b = map(Tensor, arrays[:3])
    graph = capture(lambda *given: moments(*given)[0], x, w, b)
    return any(equation.primitive.name == "channel_norm" for equation in graph.equations)


def function(x, w, b, g):
    """Return the norm, mean and variance, and the gradients of products of the norm with others."""
    leaves = [v.detach() for v in (x, w, b)]
    for leaf in leaves:
        leaf.requires_grad = True
    out, *found = moments(*leaves)
    return [out, *found, *gradients((out * g).sum(), leaves)]


def results(arrays, native="auto"):
    with config_context(native=native):
        return [v.numpy() for v in function(*map(Tensor, arrays))]


@each_dtype
@each_shape
def test_it_is_pytorchs(shape, dtype):
    x, w, b, g = (torch.from_numpy(v.astype("float64")) for v in data(shape, dtype))
    leaves = [v.requires_grad_() for v in (x, w, b)]
    out = torch.nn.functional.batch_norm(x, None, None, w, b, training=True, eps=1e-3)
    axes = (0, *range(2, x.ndim))
    found = [x.mean(axes), x.var(axes, correction=0)]
    (out * g).sum().backward()
    expected = [v.detach().numpy() for v in (out, *found)] + [v.grad.numpy() for v in leaves]
    eps = np.finfo(dtype).eps
    for mine, theirs in zip(results(data(shape, dtype)), expected, strict=True):
        assert (mine.dtype, mine.shape) == (dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e3 * eps, atol=50 * eps * abs(theirs).max())


@each_shape
def test_native_code_leaves_the_same_bits(shape):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    arrays = data(shape, "float32")
    for found, expected in zip(results(arrays, "always"), results(arrays, "never"), strict=True):
        np.testing.assert_array_equal(found, expected)


@each_shape
def test_the_bits_are_the_same_for_any_number_of_threads(shape):
    """Also where rows are divided into shares, which threads take as they come."""
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    arrays, found = data((3 * shape[0], *shape[1:]), "float32"), []
    for count in (1, 2, 4):
        with threadpool_limits(count, "blas"):
            found.append([x.tobytes() for x in results(arrays, "always")])
    assert found[0] == found[1] == found[2]


@each_shape
def test_a_plan_leaves_the_bits_of_single_calls(shape):
    arrays = data(shape, "float32")
    program = compile(function, tuple(arrays), exact=True)
    for found, expected in zip(program(*arrays), results(arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


LAYOUTS = {
    "reversed": lambda x: x[::-1, :, ::-1],
    "turned": lambda x: x.swapaxes(2, 3),
    "channels last": lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "every other": lambda x: x[:, :, ::2],
}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout(layout, native):
    x, w, b, g = data((4, 280, 12, 10), "float32")
    x, g = LAYOUTS[layout](x), LAYOUTS[layout](g)
    assert in_few_passes((x, w, b))
    copies = [np.array(v, order="C") for v in (x, w[::-1], b, g)]
    for found, expected in zip(results((x, w[::-1], b, g), native), results(copies, native), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("native", ["never", "always"])
def test_infinities_and_nan_stay_in_their_channels(native):
    arrays = data((4, 140, 12, 10), "float32")
    arrays[0][0, 3, 4, 5], arrays[0][1, 7, 0, 0] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        out, mean, variance, dx, *_ = results(arrays, native)
    for found in (out, dx):
        assert set(np.flatnonzero(~np.isfinite(found).all(axis=(0, 2, 3)))) == {3, 7}
    assert set(np.flatnonzero(~np.isfinite(mean + variance))) == {3, 7}


def test_a_large_mean_does_not_cancel():
    rng = np.random.default_rng(0)
    x = (1e4 + rng.standard_normal((8, 40, 21, 20))).astype("float32")
    *_, variance = moments(Tensor(x), *map(Tensor, np.ones((2, 40), "float32")), 1e-5)
    expected = x.astype("float64").var(axis=(0, 2, 3))
    np.testing.assert_allclose(variance.numpy().ravel(), expected, rtol=1e-4)


def test_which_ones_are_in_few_passes():
    """The batch does not matter: programs for any number of rows are captured for some."""

    def count(shape, dtype="float32", of_parameters=None):
        x = np.ones(shape, dtype)
        w, b = np.ones((2, shape[1]), of_parameters or dtype)
        graph = capture(lambda *given: moments(*given)[0], x, w, b)
        return [equation.primitive.name for equation in graph.equations].count("channel_norm")

    assert count((2, 32, 24, 24)) == count((500, 32, 24, 24)) == count((2, 1024, 16)) == 1
    assert count((2, 2, 100, 100)) == 1
    assert count((2, 32, 24, 24), "float64") == count((2, 32, 24, 24), "float32", "float64") == 0
    assert count((500, 32, 9, 9)) == count((500, 2048, 3, 5)) == count((4096, 20000)) == 0
    assert count((2, 2, 10007)) == 0  # a prime number: rows of one element


def test_running_statistics_are_pytorchs():
    rng = np.random.default_rng(0)
    ours, theirs = nn.BatchNorm(204).initialize(0), torch.nn.BatchNorm2d(204)
    for _ in range(3):
        x = rng.standard_normal((4, 204, 9, 9), dtype=np.float32)
        ours(x)
        theirs(torch.from_numpy(x))
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(getattr(ours, name).numpy(), getattr(theirs, name).numpy(), 1e-5, 1e-7)
    x = rng.standard_normal((4, 204, 9, 9), dtype=np.float32)
    expected = theirs.eval()(torch.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(ours.eval()(x).numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mapped", [(0,) * 4, (0, None, None, 0), (None, 0, 0, 0), (None, 0, 0, None)])
def test_a_stack_is_one_after_the_other(mapped):
    arrays = [np.stack([v] * 3) for v in data((3, 560, 6, 5), "float32")]
    for v in arrays:
        v += np.random.default_rng(1).normal(size=v.shape).astype("float32")
    arrays = [v if axis == 0 else v[0] for v, axis in zip(arrays, mapped, strict=True)]
    found = vmap(lambda *given: tuple(function(*given)), in_axes=mapped)(*map(Tensor, arrays))
    for i in range(3):
        each = [v[i] if axis == 0 else v for v, axis in zip(arrays, mapped, strict=True)]
        for ours, expected in zip(found, results(each), strict=True):
            ours = ours.numpy() if ours.shape == expected.shape else ours.numpy()[i]
            np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-3)


def test_gradients_of_a_stack_are_those_of_its_members():
    arrays = [np.stack([v, v + 1]) for v in data((3, 560, 6, 5), "float32")]
    leaves = [Tensor(v, requires_grad=True) for v in arrays[:3]]
    out = vmap(lambda *given: moments(*given)[0])(*leaves)
    found = gradients((out * arrays[3]).sum(), leaves)
    for i in range(2):
        members = [Tensor(v[i], requires_grad=True) for v in arrays[:3]]
        each = moments(*members)[0]
        for ours, expected in zip(found, gradients((each * arrays[3][i]).sum(), members), strict=True):
            np.testing.assert_allclose(ours.numpy()[i], expected.numpy(), rtol=1e-3, atol=1e-3)


def test_second_derivatives_are_those_of_single_operations():
    """Double precision takes single operations."""

    def penalty(dtype):
        leaves = [Tensor(v, requires_grad=True) for v in data((3, 560, 6, 5), dtype)[:3]]
        out, *_ = moments(*leaves)
        first = gradients((out**3).mean(), leaves, create_graph=True)
        return [v.numpy() for v in gradients(sum((v**2).sum() for v in first), leaves)]

    for found, expected in zip(penalty("float32"), penalty("float64"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * abs(expected).max())


def test_a_fit_has_the_same_bits_in_native_code():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 3, 18, 18), dtype=np.float32), np.arange(60) % 3

    def loss_and_weights(native):
        layers = [nn.Conv2d(3, 64, 3), nn.BatchNorm(64), nn.ReLU(), nn.Flatten(), nn.Linear(16384, 3)]
        with config_context(native=native):
            model = Model(nn.Sequential(*layers), loss="log_loss", random_state=0)
            losses = [float(model.step(X[i : i + 20], y[i : i + 20]).loss) for i in (0, 20, 40)]
        return [losses, *model.module.state_dict().values()]

    for found, expected in zip(loss_and_weights("always"), loss_and_weights("never"), strict=True):
        np.testing.assert_array_equal(found, expected)
