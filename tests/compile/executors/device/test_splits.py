"""float32 products as three in TF32: their errors, infinities, and what remains one product."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.compile import compile
from sknet.device import active, to_device, to_host
from tests.devices import fake
from tests.engine.precisions import host

RNG = np.random.default_rng(0)
SHAPES = [((40, 33), (33, 50)), ((64, 900), (900, 32)), ((3, 32, 64), (3, 64, 40)), ((2, 40, 64), (64, 32))]
SCALES = [(1.0, 1.0), (1e-30, 1e-3), (1e32, 1e-30), (1e18, 1e18), (1e-39, 1.0)]


@pytest.fixture(autouse=True)
def _all_sizes(limits):
    limits("multiplications of a product in three parts", 1)


def product(x, y, device, precision, function=ops.matmul):
    """Return a product, and how many there were in which precision."""
    with active(device, precision):
        arrays = to_device(x, device), to_device(y, device)
        program = compile(function, arrays)
        with fake.counted() as counts:
            found = to_host(program(*arrays))
    return found, counts.precisions


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_errors_are_near_those_of_float32(fake_device, shapes, scales):
    x, y = (
        (RNG.normal(size=shape) * scale).astype("float32")
        for shape, scale in zip(shapes, scales, strict=True)
    )
    expected, errors = x.astype(float) @ y.astype(float), {}
    for precision in ("float32", "tf32", "tf32x3"):
        found, counts = product(x, y, fake_device, precision)
        errors[precision] = abs(found - expected).max()
        assert counts == {"tf32": 3} if precision == "tf32x3" else {precision: 1}
    assert errors["tf32x3"] <= 4 * errors["float32"] < errors["tf32"]


def test_the_same_elements_are_not_finite(fake_device):
    x, y = (RNG.normal(size=(32, 32)).astype("float32") for _ in range(2))
    x[:8, 3] = np.nan, np.inf, -np.inf, 3.4e38, 1e30, 1e38, 6e33, 0
    y[3, :7] = np.inf, 0, -np.inf, 3.4e38, 1e30, 1e-30, np.nan
    with np.errstate(all="ignore"):
        found, _ = product(x, y, fake_device, "tf32x3")
        expected = x.astype(float) @ y.astype(float)
    # What is infinite may be NaN, as terms of both signs overflow.
    finite = abs(expected) <= np.finfo("float32").max
    np.testing.assert_array_equal(np.isfinite(found), finite)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=2e-3, atol=1e-4)


def test_a_transpose_is_that_of_the_parts(fake_device):
    x, y = RNG.normal(size=(2, 64, 64)).astype("float32")

    def function(x, y):
        return ops.matmul(ops.matrix_transpose(x), y), ops.matmul(x, y)

    with active(fake_device, "tf32x3"):
        program = compile(function, (to_device(x, fake_device), to_device(y, fake_device)))
    assert program.source.count("8193") == 4  # twice for each array
    found = program(to_device(x, fake_device), to_device(y, fake_device))
    for each, expected in zip(found, (x.T @ y, x @ y), strict=True):
        np.testing.assert_allclose(to_host(each), expected, atol=1e-4)


FLOAT32 = {
    "few rows": ((31, 64), (64, 64), ops.matmul),
    "few columns": ((64, 64), (64, 31), ops.matmul),
    "few terms": ((64, 31), (31, 64), ops.matmul),
    "a vector": ((64,), (64, 64), ops.matmul),
    "convolution": ((4, 32, 40), (32, 32, 3), ops.conv1d),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_others_are_float32(fake_device, name):
    *shapes, function = FLOAT32[name]
    x, y = (RNG.normal(size=shape).astype("float32") for shape in shapes)
    found, counts = product(x, y, fake_device, "tf32x3", function)
    same, _ = product(x, y, fake_device, "float32", function)
    assert set(counts) <= {"tf32x3", "float32"}  # no library has the first, and computes in the second
    np.testing.assert_array_equal(found, same)


def test_small_products_are_float32(fake_device, limits):
    limits("multiplications of a product in three parts", 64**3 + 1)
    _, counts = product(*RNG.normal(size=(2, 64, 64)).astype("float32"), fake_device, "tf32x3")
    assert "tf32" not in counts


def test_a_fit_is_nearly_that_in_float32(fake_device):
    X, y = RNG.normal(size=(128, 40)).astype("float32"), RNG.normal(size=(128, 1)).astype("float32")
    fits, counts = {}, {}
    for precision in ("float32", "tf32", "tf32x3"):
        layers = nn.Linear(40, 64), nn.ReLU(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 1)
        settings = {"dtype": precision, "device": fake_device, "random_state": 0}
        model = Model(nn.Sequential(*layers), "squared_error", "sgd", alpha=1e-3, **settings)
        with fake.counted() as counted:
            model.fit(X, y, epochs=3, batch_size=64)
        fits[precision], counts = host(model), counted.precisions
    # The last layer's are narrow; that of X's gradient is not computed. Each epoch has two steps.
    assert counts["tf32"] == 3 * (2 + 2 + 1) * 6
    for name, weights in fits["float32"].items():
        np.testing.assert_allclose(fits["tf32x3"][name], weights, rtol=0, atol=1e-6)
    assert abs(fits["tf32"]["0.weight"] - fits["float32"]["0.weight"]).max() > 1e-5
