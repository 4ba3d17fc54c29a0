"""Layer norms in one pass: numbers, gradients, bits of native code, and which ones are."""

import numpy as np
import pytest

from sknet import NetClassifier, Tensor, config_context, nn, ops, vmap
from sknet.compile import capture, compile
from sknet.core import gradients

torch = pytest.importorskip("torch", reason="the reference is PyTorch: install scikit-neural[oracle]")

# Shape of x, and how many of its axes are normalized.
CASES = [
    ((64, 100, 128), 1),  # several blocks of rows, without a rest
    ((7, 37, 129), 1),
    ((3, 40, 50), 1),
    ((5, 1024, 2), 1),
    ((2, 513, 3), 1),
    ((3, 7, 8192), 1),  # a row is a block
    ((1, 1, 1500), 1),
    ((4, 6, 10, 31), 2),
    ((0, 64, 128), 1),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)
each_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def data(case, dtype):
    shape, axes = case
    rng = np.random.default_rng(0)
    x = 2 * rng.standard_normal(shape) + 1
    w, b = rng.standard_normal((2, *shape[-axes:]))
    return [v.astype(dtype) for v in (x, w, b, rng.standard_normal(shape))]


def function(x, w, b, g):
    """Return the norm, and the gradients of its product with g."""
    leaves = [v.detach() for v in (x, w, b)]
    for leaf in leaves:
        leaf.requires_grad = True
    out = ops.layer_norm(leaves[0], w.shape, *leaves[1:])
    return [out, *gradients((out * g).sum(), leaves)]


def results(arrays, native="auto"):
    with config_context(native=native):
        return [v.numpy() for v in function(*map(Tensor, arrays))]


def primitives_of(call, *arrays):
    return [equation.primitive.name for equation in capture(call, *arrays).equations]


@each_dtype
@each_case
def test_it_is_pytorchs(case, dtype):
    x, w, b, g = (torch.from_numpy(v.astype("float64")) for v in data(case, dtype))
    leaves = [v.requires_grad_() for v in (x, w, b)]
    out = torch.nn.functional.layer_norm(x, w.shape, w, b)
    (out * g).sum().backward()
    eps = np.finfo(dtype).eps
    expected = [out.detach().numpy(), *[v.grad.numpy() for v in leaves]]
    few = 100 if case[0][-1] < 5 else 1  # of two or three numbers, the variance may be next to nothing
    for found, theirs in zip(results(data(case, dtype)), expected, strict=True):
        assert (found.dtype, found.shape) == (dtype, theirs.shape)
        largest = abs(theirs).max(initial=1)
        np.testing.assert_allclose(found, theirs, rtol=1e3 * few * eps, atol=50 * few * eps * largest)


@each_dtype
@each_case
def test_native_code_leaves_the_same_bits(case, dtype):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    arrays = data(case, dtype)
    for found, expected in zip(results(arrays, "always"), results(arrays, "never"), strict=True):
        np.testing.assert_array_equal(found, expected)


@each_case
def test_a_plan_leaves_the_bits_of_single_calls(case):
    arrays = data(case, "float32")
    program = compile(function, tuple(arrays), exact=True)
    for found, expected in zip(program(*arrays), results(arrays), strict=True):
        np.testing.assert_array_equal(found, expected)


LAYOUTS = {
    "reversed": lambda x: x[::-1, :, ::-1],
    "turned": lambda x: x.swapaxes(0, 1),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "every other": lambda x: x[:, ::2],
}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout(layout, native):
    x, w, b, g = data(((6, 90, 50), 1), "float32")
    x, g = LAYOUTS[layout](x), LAYOUTS[layout](g)
    copies = [np.array(v, order="C") for v in (x, w[::-1], b, g)]
    for found, expected in zip(results((x, w[::-1], b, g), native), results(copies, native), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("case", CASES[:-1], ids=str)
def test_a_gradient_of_one_number_is_as_one_of_many(case, native):
    x, w, b, _ = data(case, "float32")
    leaves = [Tensor(v, requires_grad=True) for v in (x, w, b)]
    with config_context(native=native):
        found = gradients(ops.layer_norm(leaves[0], w.shape, *leaves[1:]).sum(), leaves)
    for each, expected in zip(found, results((x, w, b, np.ones_like(x)), native)[1:], strict=True):
        np.testing.assert_array_equal(each.numpy(), expected)


def test_a_plan_keeps_one_number_for_a_gradient_of_many():
    """The gradient of a sum: a plan reads it as one number, too, and has the bits of single calls."""
    x, w, b, _ = data(((64, 100, 128), 1), "float32")

    def step(*given):
        leaves = [v.detach() for v in given]
        for leaf in leaves:
            leaf.requires_grad = True
        return gradients(ops.layer_norm(leaves[0], 128, *leaves[1:]).sum(), leaves)

    program = compile(step, (x, w, b), exact=True)
    assert sum(v.strides != (0, 0, 0) for v in program.plan.constants.values() if v.ndim == 3) == 0
    for found, expected in zip(program(x, w, b), step(*map(Tensor, (x, w, b))), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize("native", ["never", "always"])
def test_infinities_and_nan_stay_in_their_rows(native):
    arrays = data(((2, 90, 100), 1), "float32")
    arrays[0][0, 3, 4], arrays[0][1, 70, 0] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        out, dx, *_ = results(arrays, native)
    for found in (out, dx):
        finite = np.isfinite(found).all(axis=-1)
        assert set(zip(*np.nonzero(~finite), strict=True)) == {(0, 3), (1, 70)}


def test_which_ones_are_in_one_pass():
    """The batch does not matter: programs for any number of rows are captured for some."""

    def norm(x, *affine):
        return ops.layer_norm(x, x.shape[-1], *affine)

    def count(shape, dtype="float32"):
        x, w, b = np.ones(shape, dtype), *np.ones((2, shape[-1]), dtype)
        return primitives_of(norm, x, w, b).count("layer_norm")

    assert count((1, 32, 32)) == count((500, 32, 32)) == 1
    assert (
        count((500, 32, 32), "float64")
        == count((500, 31, 32))
        == count((4096, 1024))
        == count((2, 2, 8193))
        == 0
    )
    assert "layer_norm" not in primitives_of(norm, np.ones((2, 64, 64), "float32"))
    mixed = np.ones((2, 64, 64), "float32"), np.ones(64), np.ones(64)
    assert "layer_norm" not in primitives_of(norm, *mixed)


@pytest.mark.parametrize("mapped", [(0, 0, 0, 0), (0, None, None, 0), (None, 0, 0, 0), (None, 0, None, None)])
def test_a_stack_is_one_after_the_other(mapped):
    arrays = [np.stack([v] * 3) for v in data(((3, 40, 30), 1), "float32")]
    for v in arrays:
        v += np.random.default_rng(1).normal(size=v.shape).astype("float32")
    arrays = [v if axis == 0 else v[0] for v, axis in zip(arrays, mapped, strict=True)]
    found = vmap(lambda *given: tuple(function(*given)), in_axes=mapped)(*map(Tensor, arrays))
    for i in range(3):
        each = [v[i] if axis == 0 else v for v, axis in zip(arrays, mapped, strict=True)]
        for ours, expected in zip(found, results(each), strict=True):
            np.testing.assert_allclose(ours.numpy()[i], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*Maximum iterations")
def test_a_fit_has_the_same_bits_in_native_code():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 40, 32), dtype=np.float32), np.arange(60) % 3

    def loss_and_weights(native):
        net = nn.Sequential(
            nn.LayerNorm(32), nn.Linear(32, 4), nn.GELU(), nn.LayerNorm((40, 4)), nn.Flatten()
        )
        net = nn.Sequential(net, nn.Linear(160, 3))
        with config_context(native=native):
            fitted = NetClassifier(net, batch_size=16, max_iter=3, random_state=0).fit(X, y)
        return [fitted.loss_curve_, *[v.numpy() for v in fitted.model_.module.parameters()]]

    for found, expected in zip(loss_and_weights("always"), loss_and_weights("never"), strict=True):
        np.testing.assert_array_equal(found, expected)
