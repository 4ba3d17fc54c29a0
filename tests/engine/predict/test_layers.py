"""Outputs of layers for any number of rows agree with forward hooks on a copy of the network."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, ops
from sknet.device import to_host
from sknet.engine import _layer_outputs
from sknet.engine._layer_outputs import layer_rows, output_shapes
from sknet.exceptions import ShapeError
from sknet.optim import EMA, Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 5))
IMAGES = RNG.normal(size=(9, 2, 6, 6))


class Counting(nn.Module):
    """Counts the passes that reach it."""

    seen: list = []

    def forward(self, x):
        Counting.seen.append(x.shape[0])
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


def images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))


CASES = {
    "flat": (flat, X, [0, -2, "3", ""]),
    "parts": (Parts, X, [0, 1, -2, "encoder", "head"]),
    "images": (images, IMAGES, [0, 1, 2, -1]),
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
    "images": {0: "0", 1: "1", 2: "2", -1: "3"},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("device", ["cpu", "fake:1"])
def test_layers(name, device, fake_device):
    make, inputs, layers = CASES[name]
    model = trained(make, inputs, device=device)
    for layer in layers:
        agree(model, inputs, layer, PATHS[name][layer])


def test_single_rows_are_compiled_and_end_with_the_layer():
    model = Model(nn.Sequential(nn.Linear(5, 4), Counting(), nn.Linear(4, 2), Counting()), random_state=0)
    Counting.seen.clear()
    layer_rows(model, X[:1], 1)
    # Both are called to find out which layers there are, and twice for their sizes; one is captured.
    assert len(Counting.seen) == 2 + 4 + 1
    Counting.seen.clear()
    for row in X[:20]:
        layer_rows(model, row[None], 1)
    assert not Counting.seen
    for _ in range(3):
        layer_rows(model, X[:20], 1)  # in two parts, of 16 and of 4 rows
    assert [n for n in Counting.seen if n > 2] == [16, 4]


@pytest.mark.parametrize("name", CASES)
def test_after_training(name):
    make, inputs, layers = CASES[name]
    model = trained(make, inputs)
    for _ in range(3):
        for layer in layers:
            agree(model, inputs, layer, PATHS[name][layer])
        model.step(inputs[:8], TARGETS[:8])


def test_averages_and_frozen_weights():
    model = trained(Parts, X, optimizer=EMA(Adam(0.1), decay=0.9))
    agree(model, X, "encoder", "encoder")
    model.module.encoder.requires_grad_(False)
    agree(model, X, -2, "encoder.2")
    model.step(X[:8], TARGETS[:8])
    agree(model, X, "encoder", "encoder")
    model.module.requires_grad_(True)
    agree(model, X, 0, "encoder.0")


CHANGES = {
    "attribute": lambda net: setattr(net.encoder[1], "eps", 0.5),
    "child": lambda net: setattr(net.encoder, "2", nn.LeakyReLU(0.3)),
    "values": lambda net: net.encoder[0].load_state_dict({"weight": np.ones((5, 4)), "bias": np.ones(4)}),
    "buffer": lambda net: net.encoder[1].set_buffer("running_mean", np.arange(4.0)),
    "inserted": lambda net: setattr(net, "encoder", nn.Sequential(nn.Tanh(), net.encoder)),
    "hook": lambda net: net.encoder[0].register_forward_hook(lambda m, args, out: out * 2),
}


@pytest.mark.parametrize("change", CHANGES)
def test_after_the_module_was_changed(change):
    model = trained(Parts, X)
    for layer in ("encoder", -1):
        agree(model, X, layer, "encoder" if layer == "encoder" else "head")
    CHANGES[change](model.module)
    for layer in ("encoder", -1):
        agree(model, X, layer, "encoder" if layer == "encoder" else "head")


def test_numbers_follow_a_change():
    model = trained(Parts, X)
    agree(model, X, 0, "encoder.0")
    model.module.encoder = nn.Sequential(nn.Tanh(), model.module.encoder)
    agree(model, X, 0, "encoder.0")
    agree(model, X, 1, "encoder.1.0")


def test_sparse_rows():
    model, data = trained(flat, X), scipy.sparse.random_array((50, 5), density=0.4, format="csr", rng=0)
    expected = by_hooks(model, data.toarray(), "1")
    np.testing.assert_allclose(layer_rows(model, data, 1), expected, atol=1e-12)
    np.testing.assert_allclose(layer_rows(model, data[:1], 1), expected[:1], atol=1e-12)


def test_threads_ask_for_different_layers():
    model = trained(flat, X)
    expected = {layer: by_hooks(model, X, str(layer)) for layer in range(6)}

    def one(i):
        layer, row = i % 6, i % len(X)
        return np.allclose(layer_rows(model, X[row : row + 1], layer), expected[layer][row], atol=1e-12)

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
        layer_rows(Model(Folding(), random_state=0), X[:1], layer)


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
    model.step(X, np.zeros((300, 3)))
    assert output_shapes(model, X)["0"] == (3,)
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
