"""Lazy layers become ordinary ones at their first input, without a trace of laziness."""

import copy
import inspect
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.exceptions import DeviceError, InvalidParameterError, ShapeError, StateError

# class -> (arguments, shape of an input, the ordinary layer's arguments)
ROWS = {
    nn.LazyLinear: ((3,), (5, 2, 4), (4, 3)),
    nn.LazyBatchNorm: ((), (5, 4), (4,)),
    nn.LazyConv1d: ((6, 3), (5, 4, 9), (4, 6, 3)),
    nn.LazyConv2d: ((6, (3, 2)), (5, 4, 9, 8), (4, 6, (3, 2))),
    nn.LazyConvTranspose1d: ((6, 3, 2), (5, 4, 9), (4, 6, 3, 2)),
    nn.LazyConvTranspose2d: ((6, 3), (5, 4, 9, 8), (4, 6, 3)),
}
EACH = pytest.mark.parametrize("kind", ROWS)
COPIES = pytest.mark.parametrize(
    "duplicate", [lambda x: x.copy(), copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)


def made(kind):
    """Return a lazy layer, an input, and the ordinary layer that it becomes."""
    arguments, shape, full = ROWS[kind]
    ordinary = kind.__bases__[-1](*full)
    return kind(*arguments), np.random.default_rng(0).normal(size=shape).astype("float32"), ordinary


def test_every_lazy_layer_has_a_row():
    lazy = {x for x in vars(nn).values() if isinstance(x, type) and issubclass(x, nn.Lazy)}
    assert lazy - {nn.Lazy} == set(ROWS)


def assert_ordinary(layer, ordinary):
    assert type(layer) is type(ordinary)
    assert repr(layer) == repr(ordinary)
    assert vars(layer).keys() == vars(ordinary).keys()
    assert layer.init_versions() == ordinary.init_versions()
    layer.load_state_dict(ordinary.initialize(0).state_dict())


@EACH
@COPIES
def test_the_first_call_makes_it_ordinary(kind, duplicate):
    layer, x, ordinary = made(kind)
    layer = duplicate(layer)
    assert nn.is_lazy(layer)
    layer(x)
    assert not nn.is_lazy(layer)
    assert_ordinary(layer, ordinary)
    np.testing.assert_array_equal(duplicate(layer)(x).numpy(), layer.copy()(x).numpy())


@EACH
def test_materialize_makes_it_ordinary(kind):
    layer, x, ordinary = made(kind)
    assert nn.materialize(layer, x.shape) is layer
    assert nn.materialize(layer, (1, 999)) is layer  # the shapes are known by now
    assert_ordinary(layer, ordinary)
    by_example, _, ordinary = made(kind)
    assert_ordinary(nn.materialize(by_example, x), ordinary)


@EACH
def test_values_set_before_are_kept(kind):
    layer, x, _ = made(kind)
    layer.eval().to(dtype="float64").to(device="meta")
    handle = layer.register_forward_hook(lambda module, args, output: [output])
    [output] = layer(Tensor(x, device="meta"))
    handle.remove()
    assert not layer.training
    assert {str(p.dtype) for p in layer.parameters()} == {"float64"}
    assert {p.device.kind for p in (*layer.parameters(), *layer.buffers(), output)} == {"meta"}


def test_a_seed_draws_the_same_weights():
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    eager = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).initialize(0)
    nn.materialize(lazy, (5, 3)).initialize(0)
    for a, b in zip(lazy.parameters(), eager.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_the_version_is_the_one_it_was_made_for():
    with nn.init.version(1):
        layer = nn.LazyLinear(2)
    assert layer.init_versions() == {"": 1}
    layer([[1.0]])
    assert layer.init_versions() == {"": 1}


def test_shared_layers_stay_shared():
    layer = nn.LazyLinear(3)
    net = nn.Sequential(layer, nn.Tanh(), layer)
    nn.materialize(net, (2, 3))
    assert net[0] is net[2] is layer
    assert len(list(net.parameters())) == 2


def test_trees_of_inputs():
    class Two(nn.Module):
        def __init__(self):
            self.left, self.right = nn.LazyLinear(2), nn.LazyLinear(2)

        def forward(self, pair, *, scale=1.0):
            return self.left(pair["a"]) + self.right(pair["b"][0]) * scale

    net = nn.materialize(Two(), {"a": (5, 3), "b": [np.zeros((5, 4))]})
    assert (net.left.in_features, net.right.in_features) == (3, 4)


def test_threads_may_make_the_first_call_together():
    for _ in range(20):
        layer = nn.LazyLinear(3)
        with ThreadPoolExecutor(4) as pool:
            first, *others = pool.map(lambda x, layer=layer: layer(x).numpy(), [np.ones((1, 50))] * 4)
        for other in others:
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize(
    "ask",
    [
        lambda net: list(net.parameters()),
        lambda net: net.initialize(0),
        lambda net: net.state_dict(),
        lambda net: net.load_state_dict({}),
        lambda net: net.requires_grad_(False),
        lambda net: nn.bindings(net),
    ],
)
def test_before_the_first_call_there_are_no_parameters(ask):
    net = nn.Sequential(nn.Linear(2, 2), nn.LazyLinear(3, bias=False))
    message = r"LazyLinear\(out_features=3, bias=False\) has no parameters before its in_features is known"
    with pytest.raises(StateError, match=message):
        ask(net)
    assert repr(net).count("LazyLinear(out_features=3, bias=False)") == 1


def test_bad_arguments():
    with pytest.raises(InvalidParameterError, match="'out_features' parameter of LazyLinear must be an int"):
        nn.LazyLinear(0)
    with pytest.raises(TypeError, match="missing a required argument: 'out_features'"):
        nn.LazyLinear()
    with pytest.raises(TypeError, match="has no argument 'width' to leave out"):
        type("Wrong", (nn.Lazy, nn.Linear), {}, infer="width")


def test_a_network_of_convolutions():
    net = nn.Sequential(
        nn.LazyConv2d(8, 3, stride=2), nn.LazyBatchNorm(), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    found = nn.summary(net, (5, 3, 28, 28))
    assert [row.output_shape for row in found.rows[1:]] == [
        *[(5, 8, 13, 13)] * 3,
        (5, 8 * 13 * 13),
        (5, 10),
    ]
    assert nn.materialize(net, (1, 3, 28, 28))[4].in_features == 8 * 13 * 13
    odd = nn.LazyConv2d(4, 3, groups=2)
    with pytest.raises(ValueError, match="groups=2 must divide in_channels=3"):
        odd(np.zeros((1, 3, 9, 9)))
    assert nn.is_lazy(odd)


def test_bad_inputs_do_not_change_it():
    layer = nn.LazyBatchNorm()
    with pytest.raises(ShapeError, match=r"an axis 1, whose length is its num_features, got shape \(3,\)"):
        layer(np.zeros(3))
    net = nn.Sequential(nn.LazyLinear(3), nn.Linear(4, 2))
    with pytest.raises(ShapeError, match=r"Linear\(4, 2\): expected an input of shape"):
        nn.materialize(net, (5, 2))
    assert nn.is_lazy(net[0])
    assert nn.is_lazy(layer)
    with pytest.raises(InvalidParameterError, match="'in_features' parameter of Linear must be an int"):
        net(np.zeros((5, 0)))
    assert nn.is_lazy(net[0])


def test_a_pass_that_reads_values():
    class Branches(nn.Module):
        def __init__(self):
            self.inner = nn.LazyLinear(1)

        def forward(self, x):
            return self.inner(x) if x.sum().item() > 0 else x

    with pytest.raises(DeviceError, match="a meta array has no data") as caught:
        nn.materialize(Branches(), (2, 3))
    assert caught.value.__notes__ == ["in a pass without data, which determines shapes"]


def test_signature_and_documentation():
    names = ["out_features", "bias", "parametrization", "init", "device"]
    assert list(inspect.signature(nn.LazyLinear).parameters) == names
    assert "in_features : int" not in nn.LazyLinear.__doc__
    assert "out_features : int" in nn.LazyLinear.__doc__


def test_it_becomes_one_on_its_device(fake_device):
    net = nn.Sequential(nn.LazyLinear(3, device=fake_device), nn.LazyBatchNorm()).to(device=fake_device)
    output = net(Tensor(np.ones((5, 2), np.float32), device=fake_device))
    assert {x.device for x in (*net.parameters(), *net.buffers(), output)} == {fake_device}


def test_images_whose_channels_seem_to_be_last():
    with pytest.warns(UserWarning, match=r"np\.moveaxis\(X, -1, 1\) puts them first") as found:
        nn.LazyConv2d(4, 3, padding=1)(np.ones((5, 8, 8, 3), np.float32))
    assert found[0].filename == __file__
    for shape in ((5, 3, 8, 8), (5, 8, 8, 8), (5, 64, 4, 4), (5, 4, 4, 4)):  # warnings are errors
        nn.LazyConv2d(4, 3, padding=1)(np.ones(shape, np.float32))
