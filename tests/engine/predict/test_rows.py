"""Predictions in chunks of bounded memory, by programs, of layers and inside; gradients by inputs."""

import gc
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, Tensor, nn, ops
from sknet.compile._compile import forget_programs
from sknet.core import no_grad
from sknet.device import active, to_device, to_host
from sknet.engine import Accuracy, Batches, _layer_outputs, _network
from sknet.engine._batches import ComputedRows
from sknet.engine._layer_outputs import (
    Chosen,
    input_gradients,
    integrated_gradients,
    layer_rows,
    output_shapes,
)
from sknet.engine._loop import Validation
from sknet.engine._network import FEW_ROWS, Network, chunk_rows, in_chunks, predict_rows
from sknet.exceptions import ShapeError, StateError
from sknet.nn._layer_outputs import Call, Calls, run_to
from sknet.optim import EMA, SGD, Adam
from tests.devices import fake
from tests.devices.rounding import BITS
from tests.engine.helpers import CLASSES as SMALL_LABELS
from tests.engine.helpers import X as SMALL
from tests.engine.helpers import classifier
from tests.engine.precisions import FITTING, PRECISIONS, N, assert_close, by_hand, host, predicted_by_hand
from tests.engine.precisions import model_on as precise
from tests.engine.precisions import rows as rows_of_a_table
from tests.fuzz.same import assert_same
from tests.threads import run_in_threads


@nn.init.version(1)  # outputs near 1, whatever the width
def model(n_features=5, width=7, dtype="float64"):
    net = nn.Sequential(
        nn.Linear(n_features, width), nn.BatchNorm(width), nn.Dropout(0.5), nn.Linear(width, 2)
    )
    return Model(net, random_state=0, dtype=dtype)


def images():
    net = nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Model(net, random_state=0)


def test_chunks_shrink_with_the_largest_activation():
    assert chunk_rows(model(width=64), (5,)) == (1 << 20) // 64
    assert chunk_rows(model(n_features=1 << 12), (1 << 12,)) == (1 << 20) // (1 << 12)
    assert chunk_rows(Model(nn.Sequential(nn.Identity())), (3,)) == (1 << 20) // 3
    # Parameters say nothing about it: they are 640, and a row of outputs 3 million numbers.
    assert chunk_rows(images(), (1, 224, 224)) == 1
    assert 50 < chunk_rows(images(), (1, 12, 12)) <= (1 << 20) // (64 * 10 * 10)


def test_networks_of_one_structure_have_chunks_of_one_size():
    sizes = [(8, 5), (300, 5), (8, 700), (300, 700)]
    shapes = [((features,), None) for _, features in sizes] + [
        ((features,), "float64") for _, features in sizes
    ]
    found = []
    for _ in range(2):  # others of the same structure, the second time
        models = [model(features, width) for width, features in sizes] * 2
        found.append([chunk_rows(each, *shape) for each, shape in zip(models, shapes, strict=True)])
    assert found[0] == found[1] == [(1 << 20) // max(size) for size in sizes] * 2


class Reading(nn.Module):
    """It reads a value, so that no shape pass is possible."""

    def __init__(self):
        self.layer = nn.Linear(5, 300)

    def forward(self, x):
        return self.layer(x) if x.sum().item() < 1e9 else x


def test_what_cannot_run_without_data_is_estimated_by_its_parameters():
    assert chunk_rows(Model(Reading(), random_state=0), (5,)) == (1 << 20) // 300


def test_measuring_runs_no_hooks_and_leaves_no_traces():
    net, seen = model(), []
    net.module.register_forward_hook(lambda module, args, output: seen.append(output))
    predict_rows(net, np.zeros((4, 5)))
    assert [output.shape for output in seen] == [(4, 2)]
    assert seen[0].numpy().shape == (4, 2)


def test_memory_is_bounded_for_images():
    """All rows at once would take 205 MB for the outputs of the convolution alone."""
    net = images()
    X = np.random.default_rng(0).normal(size=(16, 1, 226, 226)).astype("float32")
    tracemalloc.start()
    found = predict_rows(net, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6
    np.testing.assert_allclose(found[3:5], net(X[3:5], training=False).numpy(), rtol=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("n_samples", [0, 1, 255, 256, 257, 1000])
def test_chunks_give_what_the_whole_gives(kind, n_samples):
    net = model(width=1 << 12)
    X = np.random.default_rng(0).normal(size=(n_samples, 5))
    assert chunk_rows(net, (5,)) == 256
    chunked = predict_rows(net, kind(X)) if n_samples else net(X, training=False).numpy()
    np.testing.assert_allclose(chunked, net(X, training=False).numpy(), rtol=1e-12, atol=1e-14)
    assert chunked.shape == (n_samples, 2)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_other_dtypes_are_converted_chunk_by_chunk(kind):
    net = model(width=1 << 12, dtype="float32")
    X = np.random.default_rng(0).normal(size=(600, 5))
    output = predict_rows(net, kind(X))
    assert output.dtype == "float32"
    np.testing.assert_allclose(output, predict_rows(net, X.astype("float32")), atol=1e-6)


def test_memory_is_bounded():
    """The hidden layer's outputs of all rows would take 640 MB."""
    net = model(width=1 << 12, dtype="float32")
    X = np.zeros((40_000, 5), dtype="float32")
    tracemalloc.start()
    predict_rows(net, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6


NETWORKS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(7, 33), nn.Tanh(), nn.Linear(33, 3)), (7,)),
    "norms": (lambda: nn.Sequential(nn.Linear(7, 19), nn.BatchNorm(19), nn.GELU(), nn.LayerNorm(19)), (7,)),
    "softmax": (lambda: nn.Sequential(nn.Linear(7, 21), nn.Softmax()), (7,)),
    "dropout": (lambda: nn.Sequential(nn.Linear(7, 8), nn.Dropout(0.5), nn.Linear(8, 1)), (7,)),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(1), nn.LazyLinear(2)),
        (2, 6, 5),
    ),
    "sequences": (lambda: nn.Sequential(nn.LSTM(4, 5), nn.Lambda(lambda found: found[0])), (6, 4)),
}


def eager(model, X, head):
    """Return the outputs for some rows without any program."""
    output = model(X, training=False).data
    return output if head is None else head(Tensor(output)).data


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("given", ["float32", "float64"])
@pytest.mark.parametrize("case", NETWORKS)
def test_rows_have_the_same_bits_whether_they_came_before(case, given, dtype):
    make, shape = NETWORKS[case]
    rng = np.random.default_rng(0)
    model = Model(make(), dtype=dtype, random_state=0).materialize((4, *shape))
    for rows in (2, 3, 5, 8, 15, FEW_ROWS):
        X = rng.normal(size=(rows, *shape)).astype(given)
        for head in (None, ops.exp):
            name = "raw" if head is None else "exp"
            wanted = eager(model, X.astype(dtype), head)
            for _ in range(3):
                assert_same(predict_rows(model, X, name, head), wanted, f"{rows} rows")


CHANGES = {
    "nothing": lambda model: None,
    "weights": lambda model: model.step(np.ones((4, 6), "f4"), np.ones((4, 2), "f4")),
    "an attribute": lambda model: setattr(model.module[1], "negative_slope", 0.5),
    "another layer": lambda model: model.module.__setitem__(1, nn.Tanh()),
    "a hook": lambda model: model.module[0].register_forward_hook(lambda module, args, output: output * 2.0),
    "values": lambda model: setattr(model.module[0].weight, "data", np.full((6, 5), 0.25, "f4")),
    "a frozen layer": lambda model: model.module[0].requires_grad_(False),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_predictions_counts(change):
    network = nn.Sequential(nn.Linear(6, 5), nn.LeakyReLU(0.1), nn.BatchNorm(5), nn.Linear(5, 2))
    model = Model(network, random_state=0)
    X = np.random.default_rng(1).normal(size=(5, 6)).astype("f4")
    for _ in range(3):
        predict_rows(model, X)
    CHANGES[change](model)
    wanted = eager(model, X, None)
    for _ in range(3):
        assert_same(predict_rows(model, X), wanted, change)


@pytest.mark.parametrize("layout", ["columns", "every second row", "every second column"])
def test_other_layouts_are_computed_as_they_are(layout):
    model = Model(nn.Sequential(nn.Linear(8, 50), nn.Linear(50, 4)), random_state=0)
    X = np.random.default_rng(2).normal(size=(6, 8)).astype("f4")
    made = {
        "columns": np.asfortranarray(X),
        "every second row": np.repeat(X, 2, axis=0)[::2],
        "every second column": np.repeat(X, 2, axis=1)[:, ::2],
    }
    for _ in range(3):
        predict_rows(model, X)
    assert_same(predict_rows(model, made[layout]), eager(model, made[layout], None), layout)


def test_rows_that_are_computed_in_chunks_stay_so(limits):
    limits("elements of a chunk of predictions", 3 * 40)
    model = Model(nn.Sequential(nn.Linear(4, 40), nn.Linear(40, 40)), random_state=0)
    X = np.random.default_rng(3).normal(size=(8, 4)).astype("f4")
    wanted = np.concatenate([eager(model, X[start : start + 3], None) for start in (0, 3, 6)])
    for _ in range(3):
        assert_same(predict_rows(model, X), wanted, "chunks")


def test_threads_predict_at_the_same_time():
    model = Model(nn.Sequential(nn.Linear(4, 30), nn.Tanh(), nn.Linear(30, 3)), random_state=0)
    rng, wrong = np.random.default_rng(4), []
    inputs = [rng.normal(size=(rows, 4)).astype("f4") for rows in range(2, 10)]
    wanted = [eager(model, X, None) for X in inputs]

    def predicting(i):
        for _ in range(50):
            if predict_rows(model, inputs[i]).tobytes() != wanted[i].tobytes():
                wrong.append(i)

    run_in_threads(predicting, [(i,) for i in range(8)])
    assert not wrong


SIZE, WIDTH = 16, 43  # no other test has such networks: the size of their chunks is remembered
X = np.random.default_rng(0).normal(size=(5 * SIZE + 7, 5)).astype("float32")
CLASSES = np.arange(len(X)) % 3


@pytest.fixture
def small_chunks(limits):
    limits("elements of a chunk of predictions", SIZE * WIDTH)


def model_on(device, dtype="float32"):
    layers = nn.Linear(5, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)
    return Model(nn.Sequential(*layers), "log_loss", random_state=0, dtype=dtype, device=device)


KINDS = {
    "as they are": X,
    "another dtype": X.astype("float64"),
    "integers": np.arange(X.size).reshape(X.shape) % 7,
    "some columns": np.repeat(X, 2, axis=1)[:, ::2],
    "in Fortran order": np.asfortranarray(X),
}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kind", KINDS)
def test_predictions_have_the_same_bits(kind, fake_device):
    model, rows = model_on(fake_device), KINDS[kind]
    expected = predict_rows(model, to_device(np.ascontiguousarray(rows).astype("f4"), fake_device))
    if kind == "integers":  # they would stay integers, for an embedding
        rows = rows.astype("f8")
    with fake.counted() as counts:
        found = predict_rows(model, rows)
    np.testing.assert_array_equal(to_host(found), to_host(expected))
    assert (counts.sent, counts.sent_bytes) == (6, X.nbytes)


@pytest.mark.usefixtures("small_chunks")
def test_few_rows_are_not_sent_ahead(fake_device):
    with fake.counted() as counts:
        predict_rows(model_on(fake_device), X[:SIZE])
    assert not counts.sent


@pytest.mark.usefixtures("small_chunks")
def test_results_that_are_their_rows(fake_device):
    """Views of a chunk would become the rows of the one after the next."""
    found = in_chunks(lambda chunk: chunk[:, :2], X, SIZE, X.dtype, fake_device)
    np.testing.assert_array_equal(to_host(found), X[:, :2])


class Doubled(ComputedRows):
    def write(self, rows, out):
        np.multiply(X[rows], 2, out=out)


@pytest.mark.usefixtures("small_chunks")
def test_several_inputs_of_many_kinds(fake_device):
    def joined(rows):
        ids = ops.astype(rows["ids"], "float32")
        return (rows["sparse"] @ ops.ones((5, 1), device=fake_device).data) + rows["there"] + ids.data

    ids = np.arange(5 * len(X)).reshape(-1, 5)
    given = {"sparse": scipy.sparse.csr_array(X), "there": to_device(X, fake_device), "ids": ids}
    with fake.counted() as counts:
        found = in_chunks(joined, given, SIZE, X.dtype, fake_device)
    np.testing.assert_allclose(to_host(found), X.sum(axis=1, keepdims=True) + X + ids, rtol=1e-5)
    assert (counts.sent, counts.sent_bytes) == (6, ids.nbytes)


@pytest.mark.usefixtures("small_chunks")
def test_without_memory_for_two_chunks(fake_device, monkeypatch):
    """Rows are then copied chunk by chunk, as they are asked for."""
    model = model_on(fake_device)
    expected = to_host(predict_rows(model, X))
    failing = fake.FakeBackend.empty

    def full(self, shape, dtype, device):
        if shape == (2 * SIZE, 5):
            raise fake.FakeOutOfMemoryError
        return failing(self, shape, dtype, device)

    monkeypatch.setattr(fake.FakeBackend, "empty", full)
    with fake.counted() as counts:
        np.testing.assert_array_equal(to_host(predict_rows(model, X)), expected)
    assert not counts.sent


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("rows", [X, Doubled(X.shape, X.dtype)], ids=["array", "computed"])
@pytest.mark.parametrize("chosen", [None, np.arange(len(X))[::-2]], ids=["all", "some"])
def test_held_out_rows(chosen, rows, fake_device):
    y = CLASSES if chosen is None else CLASSES[chosen]
    weight = np.random.default_rng(1).uniform(size=len(y))
    found = []
    for device, given in (("cpu", rows), (fake_device, rows), (fake_device, to_device(rows[:], fake_device))):
        model = model_on(device)
        batches = Batches(given, CLASSES, None, SIZE, model.dtype, model.device, chosen)
        if chosen is None:
            batches = Batches(given, CLASSES, weight, SIZE, model.dtype, model.device)
        with fake.counted() as counts:
            found += [Validation(batches, Accuracy).evaluate(model) for _ in range(2)]
        is_sent = device is fake_device and isinstance(given, Doubled)  # arrays stay there between epochs
        assert counts.sent == (2 * batches.n_batches if is_sent else 0)
    assert found[2] == found[3] == found[4]
    for name, value in found[0].items():
        np.testing.assert_allclose(found[2][name], value, rtol=1e-5)


SIZE_CHUNKS, WIDTH_CHUNKS = 64, 37  # no other test has such networks: the size of their chunks is remembered


@pytest.fixture
def small_chunks_there(limits):
    limits("elements of a chunk of predictions", SIZE_CHUNKS * WIDTH_CHUNKS)


def network():
    return nn.Sequential(
        nn.Linear(5, WIDTH_CHUNKS), nn.BatchNorm(WIDTH_CHUNKS), nn.ReLU(), nn.Linear(WIDTH_CHUNKS, 3)
    )


def drawn(n=5 * SIZE_CHUNKS + 7):
    return np.random.default_rng(0).normal(size=(n, 5)).astype("float32")


def models(fake_device, **settings):
    made = [
        Model(network(), loss="log_loss", random_state=0, dtype="float32", device=device, **settings)
        for device in ("cpu", fake_device)
    ]
    y = np.arange(SIZE_CHUNKS) % 3
    for model in made:
        with active(model.device):
            model.step(to_device(drawn(SIZE_CHUNKS), model.device), to_device(y, model.device))
    return made


@pytest.mark.usefixtures("small_chunks_there")
@pytest.mark.parametrize("head", [None, ops.softmax])
@pytest.mark.parametrize("place", ["host", "device"])
def test_chunks_have_the_results_of_the_host(head, place, fake_device):
    here, there = models(fake_device)
    X = drawn()
    given = X if place == "host" else to_device(X, fake_device)
    expected = predict_rows(here, X, "raw", head)
    for _ in range(2):
        found = predict_rows(there, given, "raw", head)
        np.testing.assert_allclose(to_host(found), expected, rtol=1e-4, atol=1e-5)
    for model in (here, there):  # parameters and running means are read again
        with active(model.device):
            y = to_device(np.arange(SIZE_CHUNKS) % 3, model.device)
            model.step(to_device(3 * drawn(SIZE_CHUNKS), model.device), y)
    expected = predict_rows(here, X, "raw", head)
    np.testing.assert_allclose(
        to_host(predict_rows(there, given, "raw", head)), expected, rtol=1e-3, atol=1e-4
    )


@pytest.mark.usefixtures("small_chunks_there")
def test_a_chunk_is_a_few_launches(fake_device):
    _, there = models(fake_device)
    launches = []
    for n in (3, 7):
        X = to_device(drawn(n * SIZE_CHUNKS), fake_device)
        predict_rows(there, X)
        with fake.counted() as counts:
            predict_rows(there, X)
        launches.append(counts.launches)
    with fake.counted() as counts, active(fake_device):
        _network.predict_raw(there, X[:SIZE_CHUNKS])
    assert 4 * counts.launches > launches[1] - launches[0]


@pytest.mark.usefixtures("small_chunks_there")
def test_what_is_not_compiled(fake_device):
    """Few rows, averages, and code that depends on values are computed operation by operation."""

    class Reading(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(5, WIDTH_CHUNKS)

        def forward(self, x):
            return self.layer(x) if x.sum().item() < 1e9 else x

    forget_programs()
    X = drawn()
    for module, settings in ((network(), {"optimizer": EMA(SGD(0.1))}), (Reading(), {})):
        made = [
            Model(module.copy(), "squared_error", random_state=0, dtype="float32", device=device, **settings)
            for device in ("cpu", fake_device)
        ]
        expected, found = (to_host(predict_rows(model, X)) for model in made)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("small_chunks_there")
def test_held_out_rows_of_chunks(fake_device):
    found = []
    for model in models(fake_device):
        X, y = drawn(), (np.arange(5 * SIZE_CHUNKS + 7) % 3)[:, None]
        batches = Batches(X, y[:, 0], None, SIZE_CHUNKS, model.dtype, model.device)
        with active(model.device):
            for _ in range(2):
                numbers = Validation(batches, Accuracy).evaluate(model)
        found.append(numbers)
    assert found[0]["score"] == found[1]["score"]
    np.testing.assert_allclose(found[0]["loss"], found[1]["loss"], rtol=1e-5)


class Counting(nn.Module):
    """Counts its captures; eager passes and programs do not count."""

    captured: list = []

    def forward(self, x):
        Counting.captured.append(x.shape[0])
        return ops.tanh(x)


def small_network():
    model = Model(nn.Sequential(nn.Linear(3, 4), Counting()), dtype="float64", random_state=0)
    return model, Network.fixed(model.module.copy(), np.float64)


def part(module, scope, args):
    """Run a module; as with a pass to a layer, all rows are computed by programs."""
    return nn.run(module, scope, args)


@pytest.mark.parametrize("most_rows", [1, 5, 16, 40])
def test_a_few_programs_compute_any_number_of_rows(most_rows, monkeypatch):
    monkeypatch.setattr(_network, "rows_at_once", lambda *of: most_rows)
    model, found = small_network()

    def predict(X):
        return found.compute(X, "part", by=part)

    X = np.random.default_rng(0).normal(size=(100, 3))
    expected = model(X, training=False).numpy()
    Counting.captured.clear()
    for n in (*range(1, 40), 100):
        np.testing.assert_allclose(predict(X[:n]), expected[:n], rtol=1e-12)
    sizes = [size for size in (*range(1, 17), 32) if size <= most_rows]
    assert sorted(set(Counting.captured)) == sizes
    once = len(Counting.captured)
    for n in range(1, 40):
        predict(X[:n])
    assert len(Counting.captured) == once


class Scaled(nn.Module):
    """A module of one's own, with a list that programs hold as constants."""

    def __init__(self):
        self.factors = [1.0, 2.0, 3.0]

    def forward(self, x):
        return x * np.array(self.factors)


def test_only_modules_of_ones_own_are_watched_where_nobody_else_has_them():
    X = np.ones((1, 3))
    for module, is_watched in ((Scaled(), True), (nn.Linear(3, 3), False)):
        found = Network.fixed(Model(module, dtype="float64", random_state=0).module.copy(), np.float64)
        before = found.compute(X)
        np.testing.assert_array_equal(found.unchecked(X, "raw"), before)
        if is_watched:
            found.module.factors[0] = 5.0
            assert found.unchecked(X, "raw") is None
            np.testing.assert_array_equal(found.compute(X), [[5.0, 2.0, 3.0]])
        found.flat[:] = 0.5  # parameters are read by every call
        if not is_watched:
            np.testing.assert_array_equal(found.unchecked(X, "raw"), [[2.0, 2.0, 2.0]])


def test_the_head_is_applied_row_by_row():
    model, found = small_network()
    X = np.random.default_rng(0).normal(size=(7, 3))
    predicted = found.compute(X, "twice", lambda output: output * 2.0)
    np.testing.assert_allclose(predicted, 2 * model(X, training=False).numpy(), rtol=1e-12)


RNG = np.random.default_rng(0)
X_LAYERS = RNG.normal(size=(300, 5))
IMAGES = RNG.normal(size=(9, 2, 6, 6))


class CountingLayers(nn.Module):
    """Counts the passes that reach it."""

    seen: list = []

    def forward(self, x):
        CountingLayers.seen.append(x.shape[0])
        return ops.tanh(x)


class Parts(nn.Module):
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm(4), nn.ReLU())
        self.scale = nn.Parameter(np.full(4, 3.0))
        self.register_buffer("shift", np.full(4, 0.5))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.encoder(x) * self.scale + self.shift)


def flat():
    return nn.Sequential(
        nn.Linear(5, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)
    )


def pictures():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))


CASES = {
    "flat": (flat, X_LAYERS, [0, -2, "3", ""]),
    "parts": (Parts, X_LAYERS, [0, 1, -2, "encoder", "head"]),
    "pictures": (pictures, IMAGES, [0, 1, 2, -1]),
}
TARGETS = RNG.normal(size=(300, 2))


def trained(make, inputs, n_steps=3, **options):
    model = Model(make(), dtype="float64", random_state=0, **options)
    for _ in range(n_steps):
        model.step(inputs[:8], TARGETS[:8])
    return model


def by_hooks(model, inputs, path):
    """Return the outputs of the module at a path, as a hook of a copy sees them."""
    twin, found = model.module.copy().eval(), []
    twin.load_state_dict({name: to_host(x) for name, x in model.evaluation_parameters.items()}, strict=False)
    twin.to(device="cpu").get_submodule(path).register_forward_hook(
        lambda m, args, out: found.append(out.numpy())
    )
    twin(inputs)
    return found[-1]


def agree(model, inputs, layer, path):
    expected = by_hooks(model, inputs, path)
    for n in (1, 2, len(inputs), 1):
        np.testing.assert_allclose(
            to_host(layer_rows(model, inputs[:n], layer)), expected[:n], rtol=1e-12, atol=1e-12
        )


PATHS = {
    "flat": {0: "0", -2: "4", "3": "3", "": ""},
    "parts": {0: "encoder.0", 1: "encoder.1", -2: "encoder.2", "encoder": "encoder", "head": "head"},
    "pictures": {0: "0", 1: "1", 2: "2", -1: "3"},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "fake:1"])
def test_layers(name, device, fake_device):
    make, inputs, layers = CASES[name]
    model = trained(make, inputs, device=device)
    for layer in layers:
        agree(model, inputs, layer, PATHS[name][layer])


def test_single_rows_are_compiled_and_end_with_the_layer():
    model = Model(
        nn.Sequential(nn.Linear(5, 4), CountingLayers(), nn.Linear(4, 2), CountingLayers()), random_state=0
    )
    CountingLayers.seen.clear()
    layer_rows(model, X_LAYERS[:1], 1)
    # Both are called to find out which layers there are; one is captured. One row needs no sizes.
    assert len(CountingLayers.seen) == 2 + 1
    CountingLayers.seen.clear()
    for row in X_LAYERS[:20]:
        layer_rows(model, row[None], 1)
    assert not CountingLayers.seen
    for _ in range(3):
        layer_rows(model, X_LAYERS[:20], 1)  # in two parts, of 16 and of 4 rows
    assert [n for n in CountingLayers.seen if n > 2] == [16, 4]


@pytest.mark.parametrize("name", CASES)
def test_after_training(name):
    make, inputs, layers = CASES[name]
    model = trained(make, inputs)
    for _ in range(3):
        for layer in layers:
            agree(model, inputs, layer, PATHS[name][layer])
        model.step(inputs[:8], TARGETS[:8])


def test_averages_and_frozen_weights():
    model = trained(Parts, X_LAYERS, optimizer=EMA(Adam(0.1), decay=0.9))
    agree(model, X_LAYERS, "encoder", "encoder")
    model.module.encoder.requires_grad_(False)
    agree(model, X_LAYERS, -2, "encoder.2")
    model.step(X_LAYERS[:8], TARGETS[:8])
    agree(model, X_LAYERS, "encoder", "encoder")
    model.module.requires_grad_(True)
    agree(model, X_LAYERS, 0, "encoder.0")


CHANGES_LAYERS = {
    "attribute": lambda net: setattr(net.encoder[1], "eps", 0.5),
    "child": lambda net: setattr(net.encoder, "2", nn.LeakyReLU(0.3)),
    "values": lambda net: net.encoder[0].load_state_dict({"weight": np.ones((5, 4)), "bias": np.ones(4)}),
    "buffer": lambda net: net.encoder[1].set_buffer("running_mean", np.arange(4.0)),
    "inserted": lambda net: setattr(net, "encoder", nn.Sequential(nn.Tanh(), net.encoder)),
    "hook": lambda net: net.encoder[0].register_forward_hook(lambda m, args, out: out * 2),
}


@pytest.mark.parametrize("change", CHANGES_LAYERS)
def test_after_the_module_was_changed(change):
    model = trained(Parts, X_LAYERS)
    for layer in ("encoder", -1):
        agree(model, X_LAYERS, layer, "encoder" if layer == "encoder" else "head")
    CHANGES_LAYERS[change](model.module)
    for layer in ("encoder", -1):
        agree(model, X_LAYERS, layer, "encoder" if layer == "encoder" else "head")


def test_numbers_follow_a_change():
    model = trained(Parts, X_LAYERS)
    agree(model, X_LAYERS, 0, "encoder.0")
    model.module.encoder = nn.Sequential(nn.Tanh(), model.module.encoder)
    agree(model, X_LAYERS, 0, "encoder.0")
    agree(model, X_LAYERS, 1, "encoder.1.0")


def test_sparse_rows():
    model, data = (
        trained(flat, X_LAYERS),
        scipy.sparse.random_array((50, 5), density=0.4, format="csr", rng=0),
    )
    expected = by_hooks(model, data.toarray(), "1")
    np.testing.assert_allclose(layer_rows(model, data, 1), expected, atol=1e-12)
    np.testing.assert_allclose(layer_rows(model, data[:1], 1), expected[:1], atol=1e-12)


def test_threads_ask_for_different_layers():
    model = trained(flat, X_LAYERS)
    expected = {layer: by_hooks(model, X_LAYERS, str(layer)) for layer in range(6)}

    def one(i):
        layer, row = i % 6, i % len(X_LAYERS)
        return np.allclose(
            layer_rows(model, X_LAYERS[row : row + 1], layer), expected[layer][row], atol=1e-12
        )

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(300)))


class Folding(nn.Module):
    """Its rows are not the samples."""

    def __init__(self):
        self.inner = nn.Linear(5, 2)
        self.none = nn.Lambda(lambda x: "nothing")

    def forward(self, x):
        self.none(x)
        return self.inner(ops.concat([x, x])).reshape(x.shape[0], -1)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("inner", r"layer 'inner' returned shape \(2, 2\) for 1 rows"),
        ("none", "layer 'none' returned no array"),
    ],
)
def test_outputs_that_are_not_rows(layer, message):
    with pytest.raises(ShapeError, match=message):
        layer_rows(Model(Folding(), random_state=0), X_LAYERS[:1], layer)


def test_the_first_of_several_arrays():
    net = nn.Sequential(nn.LSTM(5, 3), nn.Lambda(lambda both: both[0].sum(axis=1)), nn.Linear(3, 1))
    model = Model(net, dtype="float64", random_state=0)
    steps = RNG.normal(size=(4, 7, 5))
    found = layer_rows(model, steps, 0)
    np.testing.assert_allclose(found, by_hooks_of_first(model, steps), atol=1e-12)
    assert found.shape == (4, 7, 3)


def by_hooks_of_first(model, steps):
    found = []
    twin = model.module.copy()
    twin[0].register_forward_hook(lambda m, args, out: found.append(out[0].numpy()))
    twin(steps)
    return found[0]


def test_shapes_of_layers_keep_no_network_alive():
    """A state of the model, which is kept, has its layout in common with it."""
    model = Model(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), loss="squared_error", random_state=0)
    model.step(X_LAYERS, np.zeros((300, 3)))
    assert output_shapes(model, X_LAYERS)["0"] == (3,)
    state, network, memory = model.state, weakref.ref(model.module), weakref.ref(model.memory)
    del model
    gc.collect()
    assert network() is None
    assert memory() is None
    assert state is not None


def test_shapes_of_layers_are_known_for_a_few_kinds_of_rows():
    model = Model(nn.Sequential(nn.Conv1d(1, 3, 3), nn.ReLU()), loss="squared_error", random_state=0)
    for length in (*range(5, 40), 6):
        assert output_shapes(model, np.zeros((2, 1, length)))["0"] == (3, length - 2)
    assert len(_layer_outputs._known[model.memory][1]) == _layer_outputs.MOST_KINDS


X_ATTRIBUTIONS = RNG.normal(size=(30, 5))
IMAGES_ATTRIBUTIONS = RNG.normal(size=(7, 2, 5, 5))
COLUMNS = RNG.integers(2, size=30)
SIGNS = RNG.choice([-1.0, 1.0, 2.0], size=30)


def smooth():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.BatchNorm(8), nn.Dropout(0.5), nn.Linear(8, 2))


def tall_images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.GELU(), nn.Flatten(), nn.LazyLinear(2))


class Attention(nn.Module):
    def __init__(self):
        self.attention = nn.MultiheadAttention(5, 1)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        x = x.reshape(x.shape[0], -1, 5)
        return self.head(self.attention(x, x, x).mean(axis=1))


CASES_ATTRIBUTIONS = {
    "smooth": (smooth, X_ATTRIBUTIONS),
    "tall_images": (tall_images, IMAGES_ATTRIBUTIONS),
    "attention": (Attention, RNG.normal(size=(6, 20))),
}
HEADS = {"raw": None, "exp": ops.exp}


def made(name, n_steps=2, **options):
    make, inputs = CASES_ATTRIBUTIONS[name]
    model = Model(make(), dtype="float64", random_state=0, **options).materialize(inputs)
    for _ in range(n_steps):
        model.step(inputs, RNG.normal(size=(len(inputs), 2)))
    return model, inputs


def outputs(model, inputs, chosen):
    raw = to_host(model(inputs, training=False).data)
    meant = raw if chosen.head is None else np.exp(raw)
    rows = np.arange(len(inputs))
    return meant[rows, chosen.columns[rows]] * chosen.signs[rows]


def differences(model, inputs, chosen, eps=1e-6):
    found = np.empty(inputs.shape)
    for place in np.ndindex(inputs.shape[1:]):
        step = np.zeros(inputs.shape[1:])
        step[place] = eps
        both = [outputs(model, inputs + s, chosen) for s in (step, -step)]
        found[(slice(None), *place)] = (both[0] - both[1]) / (2 * eps)
    return found


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", CASES_ATTRIBUTIONS)
def test_gradients_are_those_of_central_differences(name, head):
    model, inputs = made(name)
    chosen = Chosen(COLUMNS, SIGNS, HEADS[head])
    found = input_gradients(model, inputs, chosen)
    np.testing.assert_allclose(found, differences(model, inputs, chosen), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", CASES_ATTRIBUTIONS)
def test_integrated_gradients_sum_to_the_difference_of_the_outputs(name, head):
    model, inputs = made(name)
    chosen = Chosen(COLUMNS, SIGNS, HEADS[head])
    for baseline in (np.zeros((1, *inputs.shape[1:])), RNG.normal(size=inputs.shape)):
        found = integrated_gradients(model, inputs, baseline, chosen, 60)
        assert found.shape == inputs.shape
        start = outputs(model, np.broadcast_to(baseline, inputs.shape), chosen)
        np.testing.assert_allclose(
            found.reshape(len(inputs), -1).sum(axis=1),
            outputs(model, inputs, chosen) - start,
            rtol=1e-7,
            atol=1e-8,
        )


def test_a_linear_network_has_a_closed_form():
    model = Model(nn.Linear(5, 2), dtype="float64", random_state=0)
    weight = model.parameters["weight"][:, COLUMNS].T * SIGNS[:, None]
    chosen, baseline = Chosen(COLUMNS, SIGNS), RNG.normal(size=(1, 5))
    np.testing.assert_allclose(input_gradients(model, X_ATTRIBUTIONS, chosen), weight, rtol=1e-12)
    found = integrated_gradients(model, X_ATTRIBUTIONS, baseline, chosen, 1)  # one step is enough
    np.testing.assert_allclose(found, weight * (X_ATTRIBUTIONS - baseline), rtol=1e-12)


def test_an_input_without_effect_has_no_attribution():
    model, _ = made("smooth")
    weight = model.parameters["0.weight"].copy()
    weight[3] = 0
    model.module[0].weight.data[3] = 0
    chosen = Chosen(COLUMNS, SIGNS)
    assert not input_gradients(model, X_ATTRIBUTIONS, chosen)[:, 3].any()
    assert not integrated_gradients(model, X_ATTRIBUTIONS, np.zeros((1, 5)), chosen, 5)[:, 3].any()


def wide():
    return Model(nn.Sequential(nn.Linear(5, 1 << 18), nn.Tanh(), nn.Linear(1 << 18, 2)), random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3, 4, 9])
def test_blocks_make_no_difference(n_steps):
    """Four rows at once: paths are split into several parts, and rows into several blocks."""
    model, chosen = wide(), Chosen(COLUMNS, SIGNS)
    baseline = RNG.normal(size=(30, 5))
    inputs, starts = X_ATTRIBUTIONS[:9].astype("float32"), baseline[:9].astype("float32")
    found = integrated_gradients(model, inputs, starts, chosen, n_steps)
    gradient = input_gradients(model, inputs, chosen)
    for i in range(9):
        one = Chosen(COLUMNS[i : i + 1], SIGNS[i : i + 1])
        alone = integrated_gradients(model, inputs[i : i + 1], starts[i : i + 1], one, n_steps)
        np.testing.assert_allclose(found[i], alone[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            gradient[i], input_gradients(model, inputs[i : i + 1], one)[0], rtol=1e-4, atol=1e-4
        )


def test_memory_does_not_grow_with_the_rows():
    model = Model(nn.Sequential(nn.Linear(5, 1 << 12), nn.Tanh(), nn.Linear(1 << 12, 2)), random_state=0)

    def peak(n_rows):
        rows = RNG.normal(size=(n_rows, 5)).astype("float32")
        chosen = Chosen(np.zeros(n_rows, int), np.ones(n_rows))
        tracemalloc.start()
        input_gradients(model, rows, chosen)
        integrated_gradients(model, rows, rows[:1], chosen, 3)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(10)
    assert peak(2000) < 1.2 * peak(600)


def test_averages_are_what_is_differentiated():
    model, inputs = made("smooth", optimizer=EMA(Adam(0.5), decay=0.9))
    chosen = Chosen(COLUMNS, SIGNS)
    found = input_gradients(model, inputs, chosen)
    np.testing.assert_allclose(found, differences(model, inputs, chosen), rtol=1e-5, atol=1e-7)


def test_frozen_parameters_are_passed_through():
    model, inputs = made("smooth")
    chosen = Chosen(COLUMNS, SIGNS)
    before = input_gradients(model, inputs, chosen)
    model.module.requires_grad_(False)
    np.testing.assert_array_equal(input_gradients(model, inputs, chosen), before)


def test_parameters_get_no_gradient():
    model, inputs = made("smooth")
    state = model.state
    input_gradients(model, inputs, Chosen(COLUMNS, SIGNS))
    assert all(parameter.grad is None for parameter in model.module.parameters())
    np.testing.assert_array_equal(model.state.parameters["0.weight"], state.parameters["0.weight"])


def test_sparse_rows_and_other_dtypes():
    model, _ = made("smooth")
    chosen = Chosen(COLUMNS, SIGNS)
    data = scipy.sparse.random_array((30, 5), density=0.4, format="csr", rng=0)
    for given in (data, data.astype("float32")):
        dense = given.toarray().astype("float64")
        found = integrated_gradients(model, given, np.ones((1, 5)), chosen, 4)
        np.testing.assert_array_equal(found, integrated_gradients(model, dense, np.ones((1, 5)), chosen, 4))
        np.testing.assert_array_equal(
            input_gradients(model, given, chosen), input_gradients(model, dense, chosen)
        )


@pytest.mark.parametrize("name", CASES_ATTRIBUTIONS)
def test_on_a_device(name, fake_device):
    here, inputs = made(name, n_steps=0)
    there, _ = made(name, n_steps=0, device="fake:1")
    chosen, baseline = Chosen(COLUMNS, SIGNS), RNG.normal(size=inputs.shape)
    for function in (
        lambda model: input_gradients(model, inputs, chosen),
        lambda model: integrated_gradients(model, inputs, baseline, chosen, 3),
    ):
        found = function(there)
        assert str(found.device if hasattr(found, "device") else found.index) in ("fake:1", "1")
        np.testing.assert_allclose(to_host(found), function(here), rtol=1e-10, atol=1e-12)


def test_outputs_of_another_rank():
    model = Model(nn.Sequential(nn.Conv2d(2, 3, 3)), random_state=0)
    with pytest.raises(ShapeError, match=r"outputs of shape \(n_samples, n_outputs\), got \(7, 3, 3, 3\)"):
        input_gradients(model, IMAGES_ATTRIBUTIONS, Chosen(COLUMNS, SIGNS))


X_PRECISIONS, Y = rows_of_a_table()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_predictions(place, precision, limits):
    """At once, and in chunks, of which whole ones are compiled."""
    model = precise(place, precision)
    expected = predicted_by_hand(host(model), precision, X_PRECISIONS)
    np.testing.assert_allclose(
        to_host(model.predict(to_device(X_PRECISIONS, place))), expected, rtol=0, atol=1e-6
    )
    for elements in (1 << 20, 32 * 25):
        limits("elements of a chunk of predictions", elements)
        _network._by_structure.clear()
        model.recompile()
        np.testing.assert_allclose(to_host(predict_rows(model, X_PRECISIONS)), expected, rtol=0, atol=1e-6)
    model.precision = "float32"
    changed = to_host(predict_rows(model, X_PRECISIONS))
    np.testing.assert_allclose(
        changed, predicted_by_hand(host(model), "float32", X_PRECISIONS), rtol=0, atol=1e-6
    )
    _network._by_structure.clear()


@pytest.mark.parametrize("precision", BITS)
def test_rows_that_do_not_fit_on_the_device(fake_device, precision, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 13)
    model = precise(fake_device, precision)
    start, many = host(model), (np.tile(X_PRECISIONS, (40, 1)), np.tile(Y, (40, 1)))
    with fake.counted() as counts:
        model.fit(*many, epochs=1, X_val=many[0], y_val=many[1], **FITTING)
        found = predict_rows(model, many[0])
    assert counts.sent > 20
    assert set(counts.precisions) == {precision}
    expected = by_hand(start, precision, 40)
    assert_close(host(model), expected, 1e-5)
    by = predicted_by_hand(host(model), precision, X_PRECISIONS)
    np.testing.assert_allclose(to_host(found)[:N], by, rtol=0, atol=1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_all_products_of_a_fit_ask_for_it(fake_device, precision):
    model = precise(fake_device, precision)
    with fake.counted() as counts:
        model.fit(X_PRECISIONS, Y, epochs=2, X_val=X_PRECISIONS, y_val=Y, **FITTING)
        model.predict(to_device(X_PRECISIONS, fake_device))
        predict_rows(model, X_PRECISIONS)
    assert set(counts.precisions) == {precision}


def test_compiled_predictions_follow_the_training():
    model = classifier(optimizer=EMA(SGD(0.5), 0.5), dtype="float64")
    for _ in range(3):
        model.step(SMALL, SMALL_LABELS)
        with no_grad():
            np.testing.assert_allclose(
                predict_rows(model, SMALL[:1]), model(SMALL, training=False).data[:1], rtol=1e-12
            )


X_TAPS = RNG.normal(size=(4, 3))


class Shared(nn.Module):
    """Registers in another order than it calls, and calls one activation twice."""

    def __init__(self):
        self.act = nn.Tanh()
        self.last = nn.Linear(3, 2)
        self.first = nn.Linear(3, 5)
        self.middle = nn.Linear(5, 3)
        self.unused = nn.Linear(1, 1)

    def forward(self, x):
        return self.last(self.act(self.middle(self.act(self.first(x)))))


class Wrapper(nn.Module):
    """Calls a single module, as many user networks do."""

    def __init__(self, net):
        self.net = net

    def forward(self, x):
        return self.net(x)


class Encoder(nn.Module):
    """Two parts and something in between that is not a module."""

    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.ReLU())
        self.head = nn.Residual(nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()))
        self.twice = nn.ModuleDict({"same": self.encoder})

    def forward(self, x):
        try:
            hidden = self.encoder(x) * 2
        except Exception:  # what ends a pass is not an Exception
            hidden = ops.zeros(())
        return self.head(hidden)


def tuples(x):
    return x, x + 1


NETWORKS_TAPS = {
    "flat": lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2)),
    "nested": lambda: nn.Sequential(
        nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Sequential(nn.Sequential(nn.Tanh()), nn.Linear(4, 2))
    ),
    "wrapped": lambda: Wrapper(Wrapper(nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1)))),
    "shared": Shared,
    "parts": Encoder,
    "side by side": lambda: nn.Sequential(nn.Parallel(nn.Linear(3, 2), nn.Linear(3, 3)), nn.Linear(5, 1)),
    "alone": lambda: nn.Linear(3, 2),
}
LAYERS = {
    "flat": ["0", "1", "2", "3"],
    "nested": ["0.0", "0.1", "1.0.0", "1.1"],
    "wrapped": ["net.net.0", "net.net.1", "net.net.2"],
    "shared": ["first", "act", "middle", "act", "last"],
    "parts": ["encoder.0", "encoder.1", "encoder.2", "head"],
    "side by side": ["0", "1"],
    "alone": [""],
}


def seen_by_hooks(module, x):
    """Return the outputs of all modules' calls by path, using hooks."""
    outputs = {}
    for path, each in module.named_modules():
        each.register_forward_hook(
            lambda module, args, output, path=path: outputs.setdefault(path, []).append(output.numpy())
        )
    module(x)
    return outputs


def made_of_taps(name):
    return NETWORKS_TAPS[name]().to(dtype="float64").initialize(0).eval()


def calls_of(module):
    return Calls(module, lambda twin: twin(X_TAPS[:1]))


@pytest.mark.parametrize("name", NETWORKS_TAPS)
def test_indices_count_the_calls_of_the_pass(name):
    module = made_of_taps(name)
    calls = calls_of(module)
    assert [call.path for call in calls.layers] == LAYERS[name]
    for i, call in enumerate(calls.layers):
        assert calls.find(i) == calls.find(np.int64(i - len(calls.layers))) == call


@pytest.mark.parametrize("name", NETWORKS_TAPS)
def test_every_call_of_every_module(name):
    module = made_of_taps(name)
    calls, outputs = calls_of(module), seen_by_hooks(made_of_taps(name), X_TAPS)
    for path, found in outputs.items():
        for number, expected in enumerate(found):
            call = calls.find(f"{path}:{number}")
            assert calls.find(f"{path}:{number - len(found)}") == call
            np.testing.assert_array_equal(run_to(module, call, nn.Scope({}), (X_TAPS,)).numpy(), expected)
            assert calls.shapes[call] == (1, *expected.shape[1:])
        if len(found) == 1:
            assert calls.find(path) == Call(path)


def test_a_shared_module_is_found_by_every_path():
    assert calls_of(made_of_taps("parts")).find("twice.same.1") == Call("encoder.1")


def test_later_layers_are_not_computed():
    ran = []
    module = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Lambda(lambda x: ran.append(1) or x)).initialize(0)
    run_to(module, Call("1"), nn.Scope({}), (X_TAPS,))
    assert not ran


def test_a_scope_is_seen_inside():
    """Its parameters and buffers are used, for the layer itself and those before it."""
    module = made_of_taps("parts")
    places = nn.bindings(module)
    state = module.state_dict()
    values = {path: (9 * RNG.random(value.shape)).astype(value.dtype) for path, value in state.items()}
    other = made_of_taps("parts")
    other.load_state_dict(values)
    scope = nn.Scope({places[path]: Tensor(value) for path, value in values.items()})
    expected = seen_by_hooks(other, X_TAPS)
    for path in ("encoder.1", "encoder", "head"):
        np.testing.assert_array_equal(run_to(module, Call(path), scope, (X_TAPS,)).numpy(), expected[path][0])


def test_user_hooks_run_and_see_the_same_values():
    module = made_of_taps("flat")
    module[1].register_forward_hook(lambda module, args, output: output * 3)
    module.register_forward_pre_hook(lambda module, args: args[0] * 2)
    expected = np.maximum(2 * X_TAPS @ module[0].weight.numpy() + module[0].bias.numpy(), 0) * 3
    np.testing.assert_allclose(run_to(module, Call("1"), nn.Scope({}), (X_TAPS,)).numpy(), expected)


def test_the_network_is_left_alone():
    module = made_of_taps("parts")
    before = {path: (each, dict(vars(each))) for path, each in module.named_modules()}
    calls_of(module)
    run_to(module, Call("encoder.1"), nn.Scope({}), (X_TAPS,))
    for path, each in module.named_modules():
        assert before[path] == (each, vars(each))


BAD = [
    ("flat", 4, ValueError, r"there is no layer 4: Sequential has 4, 0: '0' \(Linear\), .*from -4 to 3"),
    ("flat", -5, ValueError, "there is no layer -5"),
    ("flat", True, TypeError, "layer must be a number or the path of a module, .* got True of type bool"),
    ("flat", 1.0, TypeError, "got 1.0 of type float"),
    ("flat", None, TypeError, "got None"),
    (
        "parts",
        "encodr.1",
        ValueError,
        r"there is no layer 'encodr.1' \(did you mean 'encoder.1'\?\): Encoder",
    ),
    (
        "parts",
        "twice",
        ValueError,
        "layer 'twice' has no output: the forward pass of Encoder does not call it",
    ),
    ("shared", "unused", ValueError, "layer 'unused' has no output"),
    ("shared", "act", ValueError, "layer 'act' is called 2 times .* 'act:0' to 'act:1'"),
    ("shared", "act:2", ValueError, "there is no call 'act:2': layer 'act' is called 2 time"),
    ("shared", "act:-3", ValueError, "there is no call 'act:-3'"),
    ("alone", -2, ValueError, r"Linear has no hidden layer, .* its only layer is .*\. Give layer=-1 for"),
]


@pytest.mark.parametrize(("name", "layer", "kind", "message"), BAD)
def test_bad_layers(name, layer, kind, message):
    with pytest.raises(kind, match=message):
        calls_of(made_of_taps(name)).find(layer)


def test_a_call_that_depends_on_the_input():
    class Sometimes(nn.Module):
        def __init__(self):
            self.act = nn.Tanh()

        def forward(self, x):
            return self.act(x) if x.shape[0] == 1 else x

    module = Sometimes()
    call = calls_of(module).find("act")
    with pytest.raises(StateError, match=r"layer 'act' was not called 1 time\(s\) .* depends on its input"):
        run_to(module, call, nn.Scope({}), (Tensor(X_TAPS),))


def test_the_output_of_a_pass_that_returns_several_arrays():
    module = nn.Sequential(nn.Lambda(tuples), nn.Lambda(lambda pair: pair[0]))
    calls = Calls(module, lambda twin: twin(Tensor(X_TAPS)))
    assert calls.shapes[Call("0")] == (4, 3)
    assert len(run_to(module, Call("0"), nn.Scope({}), (Tensor(X_TAPS),))) == 2
