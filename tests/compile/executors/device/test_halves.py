"""Arrays between products in bfloat16: numbers, errors, what is stored so, and what stays float32."""

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.compile import compile
from sknet.device import HALVES, active, to_device, to_host
from sknet.engine import fit_many
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam
from tests.devices import fake
from tests.devices.rounding import from_halves, to_halves
from tests.engine.loop.test_device_steps import LAYERS, data, steps_in
from tests.engine.precisions import host

RNG = np.random.default_rng(0)
UNIT = 2.0**-8  # of roundings to 7 bits of the fraction
N, WIDTHS, LR = 128, (40, 64, 36), 0.05


@pytest.fixture
def place(fake_device):
    """A device; the tests of an emulated GPU have another."""
    return fake_device


@pytest.fixture(autouse=True)
def _all_sizes(limits):
    limits("multiplications of a product in three parts", 1)


def run(function, arrays, device, precision="bfloat16"):
    """Return results of a compiled function, the program, and counts of what it did."""
    with active(device, precision):
        arrays = [to_device(x, device) for x in arrays]
        program = compile(function, tuple(arrays))
        with fake.counted() as counts:
            found = program(*arrays)
    return [to_host(x) for x in (found if isinstance(found, tuple) else (found,))], program, counts


def half(x):
    return from_halves(to_halves(np.asarray(x, "float32")))


def draws(*shapes):
    return [RNG.normal(size=shape).astype("float32") for shape in shapes]


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e18, 1e-38])
@pytest.mark.parametrize(
    "shapes", [((40, 33), (33, 50)), ((64, 900), (900, 32)), ((3, 32, 64), (3, 64, 40))], ids=str
)
def test_a_product_has_rounded_factors(fake_device, shapes, scale):
    x, y = draws(*shapes)
    x *= np.float32(scale)
    [found], _, counts = run(ops.matmul, (x, y), fake_device)
    assert found.dtype == "float32"
    assert counts.precisions == {HALVES: 1}
    np.testing.assert_array_equal(found, half(x) @ half(y))
    exact, most = x.astype(float) @ y.astype(float), np.abs(x.astype(float)) @ np.abs(y.astype(float))
    assert np.all(abs(found - exact) <= (2 * UNIT + UNIT**2 + 1e-5) * most + 1e-37)


VALUES = [0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 1.0, 1 + UNIT, 1 + 3 * UNIT, 1 + UNIT + 2**-20,
          1e-39, -1e-45, 2.0**-126, 1.00390625, 1.01171875]  # fmt: skip


def test_kernels_round_as_numpy_does(fake_device):
    """Ties to even, infinities, numbers that become infinite, denormals; NaN of any bits stays NaN."""
    bits = np.array([0x7F800001, 0xFFC00000, 0x7FFFFFFF], np.uint32).view(np.float32)
    x = np.tile(np.concatenate([np.float32(VALUES), bits, draws(13)[0]]), (32, 1))

    def function(x, y):
        x = ops.abs(x)
        return ops.matmul(x, y), ops.max(x, axis=0)

    with np.errstate(all="ignore"):
        [found, largest], program, _ = run(function, (x, np.eye(32, dtype="f4")), fake_device)
    assert "unsigned short" in program.source
    np.testing.assert_array_equal(largest, half(abs(x[0])))
    assert np.isnan(found).all()  # 0 times NaN and infinity


def test_errors_of_two_layers_against_float64(place):
    x, w, b, v = draws((96, 64), (64, 80), (80,), (80, 48))

    def function(x, w, b, v):
        return ops.matmul(ops.relu(ops.matmul(x, w) + b), v)

    [found], program, _ = run(function, (x, w, b, v), place)
    [single], *_ = run(function, (x, w, b, v), place, "float32")
    x, w, b, v = (each.astype(float) for each in (x, w, b, v))
    hidden = np.maximum(x @ w + b, 0)
    of_hidden = (2.1 * UNIT) * (abs(x) @ abs(w) + abs(b))
    of_hidden += UNIT * (hidden + of_hidden)
    most = of_hidden @ abs(v) * (1 + UNIT) + UNIT * (hidden @ abs(v))
    exact = hidden @ v
    assert np.all(abs(found - exact) <= most)
    relative = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 1e-4 < relative < 2 * UNIT
    assert np.linalg.norm(single - exact) / np.linalg.norm(exact) < 1e-6
    assert "unsigned short" in program.source


ACTIVATIONS = {"relu": ops.relu, "gelu": ops.gelu, "tanh": ops.tanh}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_have_half_the_memory(fake_device, name):
    arrays = draws((256, 64), (64, 96), (96,), (96, 64))

    def function(x, w, b, v):
        return ops.matmul(ACTIVATIONS[name](ops.matmul(x, w) + b), v)

    counts = {}
    for precision in ("float32", "bfloat16"):
        with fake.idle():
            _, _, counts[precision] = run(function, arrays, fake_device, precision)
    hidden, copied = 4 * 256 * 96, sum(x.nbytes for x in (arrays[0], arrays[1], arrays[3]))
    passes = 2 if name == "relu" else 4  # of the hidden array: between launches
    assert counts["float32"].nbytes - passes * hidden // 2 <= counts["bfloat16"].nbytes
    assert counts["bfloat16"].nbytes <= counts["float32"].nbytes - passes * hidden // 2 + 2 * copied


def fit_by_hand(parameters, X, y, epochs):
    """Return parameters after gradient descent in which factors and their gradients are bfloat16."""
    names = "0.weight", "0.bias", "2.weight", "2.bias"
    w1, b1, w2, b2 = trained = [parameters[name].copy() for name in names]
    for start in [*range(0, len(X), 64)] * epochs:
        x, target = half(X[start : start + 64]), y[start : start + 64]
        hidden = half(np.maximum(x @ half(w1) + half(b1), 0))
        error = half((hidden @ half(w2) + b2 - target) / np.float32(64))
        back = half(error @ half(w2).T) * (hidden > 0)
        gradients = x.T @ back, back.sum(0), hidden.T @ error, error.sum(0)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter -= np.float32(LR) * gradient
    return dict(zip(names, trained, strict=True))


def model_on(device, precision, optimizer=None):
    layers = nn.Linear(*WIDTHS[:2]), nn.ReLU(), nn.Linear(*WIDTHS[1:])
    settings = {"dtype": precision, "device": device, "random_state": 0}
    return Model(nn.Sequential(*layers), "squared_error", optimizer or SGD(LR, momentum=0.0), **settings)


def test_a_fit_is_that_by_hand(place):
    """Where sums differ in their last bit, so may a rounded number."""
    X, y = draws((N, WIDTHS[0]), (N, WIDTHS[-1]))
    start, model = host(model_on(place, "bfloat16")), _fitted(place, "bfloat16", X, y)
    expected, found, whole = fit_by_hand(start, X, y, 3), host(model), host(_fitted(place, "float32", X, y))
    for name in expected:
        assert found[name].dtype == "float32"
        rest, error, learned = (np.linalg.norm(found[name] - x[name]) for x in (expected, whole, start))
        assert 20 * rest < error < 8 * UNIT * learned
    assert {str(x.dtype) for x in (*model.parameters.values(), model.memory.flat)} == {"float32"}


def _fitted(device, precision, X, y):
    model = model_on(device, precision)
    with fake.counted() as counts:
        model.fit(X, y, epochs=3, batch_size=64, shuffle=False)
    if device.kind == "fake":
        assert set(counts.precisions) == {HALVES if precision == "bfloat16" else precision}
    return model


def test_two_runs_have_the_same_bits_and_losses_are_float32(fake_device):
    X, y = draws((N, WIDTHS[0]), (N, WIDTHS[-1]))
    fits = []
    for _ in range(2):
        model = model_on(fake_device, "bfloat16", "adam")
        history = model.fit(X, y, epochs=2, batch_size=64)
        fits.append((host(model), history["loss"]))
    for name in fits[0][0]:
        np.testing.assert_array_equal(fits[0][0][name], fits[1][0][name])
    assert fits[0][1] == fits[1][1]
    assert half(fits[0][1][0]) != np.float32(fits[0][1][0])


@pytest.mark.parametrize("name", sorted(LAYERS.keys() - {"sequences"}))
def test_networks_of_every_kind_learn_as_in_float32(name, fake_device, limits):
    """Also where rules, whose arrays are float32, make factors of products, or read what products make."""
    limits("rows of a product in three parts", 1)
    X, y = data(dtype=np.float32)
    losses, outputs = {}, {}
    for precision in ("float32", "bfloat16"):
        settings = {"dtype": precision, "device": fake_device, "random_state": 0}
        model = Model(LAYERS[name](), "log_loss", Adam(1e-2), alpha=1e-3, **settings)
        with fake.counted() as counts:
            losses[precision] = model.fit(X, y, epochs=2, batch_size=8)["loss"]
        outputs[precision] = to_host(model.predict(X))
    assert counts.precisions[HALVES]
    np.testing.assert_allclose(losses["bfloat16"], losses["float32"], rtol=5e-3)
    error = np.linalg.norm(outputs["bfloat16"] - outputs["float32"])
    assert 0 < error < 0.05 * np.linalg.norm(outputs["float32"])


def test_many_fits_are_what_each_is_alone(fake_device, limits):
    limits("rows of a product in three parts", 1)
    X, y = data(dtype=np.float32)

    def models():
        settings = {"dtype": "bfloat16", "device": fake_device}
        return [Model(LAYERS["gelu"](), "log_loss", Adam(1e-2), random_state=i, **settings) for i in range(3)]

    together, alone = models(), models()
    with fake.counted() as counts:
        histories = fit_many(together, X, y, epochs=2, batch_size=10)
    assert set(counts.precisions) == {HALVES}
    for model, other, history in zip(together, alone, histories, strict=True):
        np.testing.assert_allclose(
            history["loss"], other.fit(X, y, epochs=2, batch_size=10)["loss"], rtol=2e-3
        )
        for one, same in zip(host(model).values(), host(other).values(), strict=True):
            assert np.linalg.norm(one - same) < 2e-2 * np.linalg.norm(same)


PLACES = {
    "host": lambda X, place: X,
    "device": to_device,
    "in columns": lambda X, place: to_device(np.asfortranarray(X), place),
    "some columns": lambda X, place: to_device(np.repeat(X, 2, axis=1), place)[:, ::2],
    "some rows": lambda X, place: to_device(np.repeat(X, 2, axis=0), place)[::2],
    "from the second number": lambda X, place: to_device(np.insert(X, 0, 0, axis=1), place)[:, 1:],
}
LARGE = "elements from which rows are padded"


def steps_from(X, y, place, layers=(), size=64):
    modules = [*layers, nn.Linear(X.shape[1], 64), nn.ReLU(), nn.Linear(64, 36)]
    settings = {"dtype": "bfloat16", "device": place, "random_state": 0}
    model = Model(nn.Sequential(*modules), "squared_error", Adam(1e-2), **settings)
    return steps_in(model, X, y, size)


def losses_of(steps):
    order, found = np.random.default_rng(0).permutation(N), []
    with active(steps.model.device, "bfloat16"):
        while len(found) < steps.batches.n_batches:
            found += list(steps.run(order, len(found)).losses)
    return [np.array(found), *host(steps.model).values()]


@pytest.mark.parametrize("width", [40, 43])
@pytest.mark.parametrize("where", [*PLACES, "chunks"])
def test_rows_are_rounded_as_they_are_gathered(where, width, place, limits, monkeypatch):
    """To the bits of copies, in a launch less a step."""
    X, y = draws((N, width), (N, 36))
    if where == "chunks":
        monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    given = PLACES.get(where, PLACES["host"])(X, place)
    found = []
    for least, dtype in ((1, np.uint16), (1 << 16, np.float32)):
        limits(LARGE, least)
        steps = steps_from(given, y, place)
        slot = steps.program_for(64).slots.X
        assert (slot.dtype, slot.shape[1]) == (dtype, -(-width // 8) * 8 if least == 1 else width)
        found.append(losses_of(steps))
    for rounded, copied in zip(*found, strict=True):
        np.testing.assert_array_equal(rounded, copied)


@pytest.mark.parametrize("width", [40, 43])
def test_gathered_rows_have_the_bits_of_numpys_roundings(width, place, limits):
    limits(LARGE, 1)
    X, y = draws((N, width), (N, 36))
    bits = np.array([0x7F800001, 0xFFC00000, 0x7FFFFFFF], np.uint32).view(np.float32)
    X[5:8, : len(VALUES)], X[9, -3:] = VALUES, bits
    steps, order = steps_from(to_device(X, place), y, place, size=N), np.arange(N)[::-1]
    with active(place, "bfloat16"), np.errstate(all="ignore"), pytest.raises(NonFiniteError):
        steps.run(order, 0)
    found = from_halves(to_host(steps.program_for(N).slots.X)[:, :width])
    np.testing.assert_array_equal(found, half(X[::-1]))


@pytest.mark.parametrize("layers", [[nn.Mixup()], [nn.Tanh()]], ids=str)
def test_rows_that_not_only_products_read_are_float32(layers, fake_device, limits):
    X, y = draws((N, 40), (N, 36))
    found = []
    for least in (1, 1 << 16):
        limits(LARGE, least)
        steps = steps_from(X, y, fake_device, layers)
        assert steps.program_for(64).slots.X.dtype == "float32"
        found.append(losses_of(steps))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


FLOAT32 = {
    "few rows": ((31, 64), (64, 64), ops.matmul),
    "few terms": ((64, 31), (31, 64), ops.matmul),
    "a vector": ((64,), (64, 64), ops.matmul),
}


@pytest.mark.parametrize("name", FLOAT32)
def test_without_a_large_product_factors_are_rounded_as_they_are_read(fake_device, name):
    *shapes, function = FLOAT32[name]
    _, program, counts = run(function, draws(*shapes), fake_device)
    assert HALVES not in counts.precisions
    assert "short" not in program.source


def test_without_a_library_arrays_are_float32(fake_device):
    x, w, v = draws((64, 64), (64, 64), (64, 64))
    with fake.plain_products():
        [found], program, _ = run(
            lambda x, w, v: ops.matmul(ops.relu(ops.matmul(x, w)), v), (x, w, v), fake_device
        )
    assert "short" not in program.source
    np.testing.assert_allclose(found, half(np.maximum(half(x) @ half(w), 0)) @ half(v), rtol=1e-6, atol=1e-4)


def test_products_of_users_integers_stay_whole(fake_device):
    x = RNG.integers(0, 9, (40, 40)).astype(np.uint16)
    y = draws((40, 40))[0]

    def function(x, y):
        return ops.matmul(x, x), ops.matmul(y, y)

    [found, _], *_ = run(function, (x, y), fake_device)
    np.testing.assert_array_equal(found, x @ x)


def test_a_sum_of_rows_that_a_kernel_computes_reads_bfloat16(fake_device):
    x, w, v = draws((64, 64), (64, 64), (64, 64))

    def function(x, w, v):
        h = ops.tanh(ops.matmul(x, w))
        return ops.matmul(h, v), ops.sum(h, axis=0), ops.sum(ops.square(h))

    found, program, _ = run(function, (x, w, v), fake_device)
    h = half(np.tanh(half(half(x) @ half(w))))
    for each, expected in zip(found, (h @ half(v), h.sum(0), (h * h).sum()), strict=True):
        np.testing.assert_allclose(each, expected, rtol=2e-5, atol=2e-3)
    assert program.source.count("from_half") > 1
