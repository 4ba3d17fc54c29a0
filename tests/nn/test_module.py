"""Modules: calls, modes, initial weights, moves and copies."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from sknet import Tensor, nn
from sknet.device import Device
from sknet.exceptions import DeviceError, DtypeError


class Net(nn.Module):
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.norm = nn.BatchNorm(4)
        self.head = nn.Linear(4, 2)
        self.register_buffer("seen", np.zeros(2, np.float32))
        self.register_buffer("scratch", np.zeros(2, np.float32), persistent=False)

    def forward(self, x, factor=1.0):
        return self.head(self.norm(self.encoder(x))) * factor


X = np.random.default_rng(0).normal(size=(6, 3))


def test_call_runs_forward():
    net = Net().initialize(0)
    np.testing.assert_array_equal(net(X, factor=2.0).numpy(), net.forward(X).numpy() * 2.0)


def test_without_forward():
    class Empty(nn.Module):
        pass

    with pytest.raises(TypeError, match="Empty cannot be called: it has no forward pass, write `def forward"):
        Empty()(X)


def test_modes():
    net = Net()
    assert all(module.training for module in net.modules())
    assert net.eval() is net
    assert not any(module.training for module in net.modules())
    assert net.train() is net
    assert all(module.training for module in net.modules())
    net.head.eval()
    assert (net.training, net.head.training) == (True, False)
    with pytest.raises(AttributeError, match="training"):
        net.training = False


# -- initial weights ----------------------------------------------------------------------------


def test_initialize_draws_in_order():
    with nn.init.version(1):
        net = Net().to(dtype="float64").initialize(7)
    random_state = np.random.RandomState(7)
    for layer, fan_in, fan_out in ((net.encoder[0], 3, 4), (net.head, 4, 2)):
        bound = np.sqrt(6 / (fan_in + fan_out))
        np.testing.assert_array_equal(
            layer.weight.numpy(), random_state.uniform(-bound, bound, (fan_in, fan_out))
        )
        np.testing.assert_array_equal(layer.bias.numpy(), random_state.uniform(-bound, bound, fan_out))


@pytest.mark.parametrize(("activation", "factor"), [("relu", 6.0), ("logistic", 2.0)])
def test_initial_weights_are_those_of_scikit_learn(activation, factor):
    y = np.array([0, 1, 2, 0, 1, 2])
    sizes, init = (3, 5, 4, 3), nn.init.GlorotUniform(factor)
    # at this learning rate a step changes no bit of a weight
    settings = {"activation": activation, "solver": "sgd", "momentum": 0.0, "learning_rate_init": 1e-300}
    theirs = MLPClassifier(sizes[1:-1], max_iter=1, random_state=3, **settings)
    with pytest.warns(UserWarning, match="Maximum iterations"):
        theirs.fit(X, y)
    ours = nn.Sequential(*(nn.Linear(*pair, init=init) for pair in itertools.pairwise(sizes)))
    ours.to(dtype="float64").initialize(3)
    for layer, weight, bias in zip(ours, theirs.coefs_, theirs.intercepts_, strict=True):
        np.testing.assert_array_equal(layer.weight.numpy(), weight)
        np.testing.assert_array_equal(layer.bias.numpy(), bias)


def test_initialize_takes_what_scikit_learn_takes():
    from_seed = nn.Linear(3, 2).initialize(5).weight.numpy()
    from_state = nn.Linear(3, 2).initialize(np.random.RandomState(5)).weight.numpy()
    np.testing.assert_array_equal(from_seed, from_state)
    with pytest.raises(ValueError, match="cannot be used to seed"):
        nn.Linear(3, 2).initialize("five")


def test_initialize_draws_the_same_in_every_dtype():
    single, double = nn.Linear(3, 2).initialize(0), nn.Linear(3, 2).to(dtype="float64").initialize(0)
    np.testing.assert_array_equal(single.weight.numpy(), double.weight.numpy().astype(np.float32))


def test_initialize_keeps_existing_values():
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    net[0].weight = nn.Parameter(np.ones((3, 2)))
    net[1].bias.draw(99)
    kept = net[1].bias.numpy().copy()
    net.initialize(0)
    np.testing.assert_array_equal(net[0].weight.numpy(), np.ones((3, 2)))
    np.testing.assert_array_equal(net[1].bias.numpy(), kept)
    before = net.state_dict()
    net.initialize(1)
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])


def test_initialize_draws_shared_parameters_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    plain = nn.Linear(2, 2).initialize(0)
    np.testing.assert_array_equal(net.initialize(0)[1].weight.numpy(), plain.weight.numpy())


def test_a_forward_pass_draws_what_was_never_drawn():
    net = Net()
    net(X)
    assert all(parameter.is_drawn for parameter in net.parameters())


def test_looking_at_a_module_does_not_draw():
    net = Net()
    repr(net)
    sum(parameter.size for parameter in net.parameters())
    net.copy()
    net.to(dtype="float64")
    assert not net.head.weight.is_drawn


# -- moving -------------------------------------------------------------------------------------


def test_to_dtype():
    net = Net().initialize(0)
    before = net.head.weight.numpy()
    assert net.to(dtype="float64") is net
    assert {parameter.dtype for parameter in net.parameters()} == {np.dtype(np.float64)}
    assert net.norm.running_mean.dtype == np.float64
    assert net.norm.num_batches.dtype == np.int64
    np.testing.assert_array_equal(net.head.weight.numpy(), before)


def test_to_forgets_gradients():
    net = nn.Linear(3, 1).initialize(0)
    net(X).sum().backward()
    net.to(dtype="float32")
    assert net.weight.grad is not None
    net.to(dtype="float64")
    assert net.weight.grad is None


def test_to_meta():
    net = Net().to(device="meta")
    assert {parameter.device for parameter in net.parameters()} == {Device("meta")}
    assert {buffer.device for buffer in net.buffers()} == {Device("meta")}
    assert net(Tensor(X, device="meta")).shape == (6, 2)


def test_to_is_checked_before_anything_changes():
    net = Net()
    with pytest.raises(DtypeError, match="the dtype of Net must be one of"):
        net.to(dtype="int8")
    with pytest.raises(DeviceError, match="unknown device 'tpu'"):
        net.to(dtype="float64", device="tpu")
    assert net.head.weight.dtype == np.float32


# -- copies -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "duplicate", [nn.Module.copy, copy.copy, copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))]
)
def test_copies(duplicate):
    net = Net().initialize(0)
    net(X)
    net.head.eval()
    twin = duplicate(net)
    assert type(twin) is Net
    assert repr(twin) == repr(net)
    assert [path for path, _ in twin.named_parameters()] == [path for path, _ in net.named_parameters()]
    assert (twin.training, twin.head.training) == (True, False)
    assert list(twin.state_dict()) == list(net.state_dict())
    before = net.state_dict()
    twin(X + 1.0)
    twin.head.weight.data = np.zeros((4, 2))
    twin.head.bias = None
    twin.extra = nn.ReLU()
    twin.register_buffer("scratch", np.zeros(2))
    twin.train()
    twin.to(dtype="float64")
    for path, value in net.state_dict().items():
        np.testing.assert_array_equal(value, before[path])
        assert value.dtype == before[path].dtype
    assert not hasattr(net, "extra")
    assert not net.head.training


@pytest.mark.parametrize(
    "duplicate", [nn.Module.copy, copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))]
)
def test_copies_keep_sharing(duplicate):
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, layer, nn.Linear(2, 2))
    net[2].weight = layer.weight
    twin = duplicate(net)
    assert twin[0] is twin[1]
    assert twin[0] is not layer
    assert twin[2].weight is twin[0].weight
    assert twin[2].weight is not layer.weight
    assert not twin[0].weight.is_drawn


def test_copy_shares_values():
    net = Net().initialize(0)
    twin = net.copy()
    assert twin.head.weight.data is net.head.weight.data
    assert twin.head.weight is not net.head.weight
    assert twin.seen.data is net.seen.data


def test_copies_compute_the_same():
    net = Net().initialize(0).eval()
    expected = net(X).numpy()
    for twin in (net.copy(), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        np.testing.assert_array_equal(twin(X).numpy(), expected)


class AllOfIt(nn.Module):
    """Its state is the dict of its attributes itself, as in many classes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", np.ones(2), persistent=False)

    def __getstate__(self):
        return vars(self)


def test_a_copy_leaves_the_state_that_a_class_returns_as_it_is():
    net = AllOfIt()
    for twin in (copy.deepcopy(net), net):
        twin.register_buffer("other", np.ones(1))
        assert list(twin.state_dict()) == ["other"]


# -- all modules at once ------------------------------------------------------------------------


def test_apply_goes_from_below():
    net, seen = Net(), []
    assert net.apply(seen.append) is net
    assert seen == [*net.encoder, net.encoder, net.norm, net.head, net]
    shared = nn.Sequential(net.head, net.head)
    seen.clear()
    shared.apply(seen.append)
    assert seen == [net.head, shared]


def test_freezing():
    net = Net().initialize(0)
    assert net.encoder.requires_grad_(False) is net.encoder
    trained = [path for path, parameter in net.named_parameters() if parameter.requires_grad]
    assert trained == ["norm.weight", "norm.bias", "head.weight", "head.bias"]
    net(X).sum().backward()
    assert net.head.weight.grad is not None
    assert all(parameter.grad is None for parameter in net.encoder.parameters())
    assert all(parameter.requires_grad for parameter in net.requires_grad_().parameters())


def test_frozen_before_they_are_drawn():
    net = Net().requires_grad_(False).initialize(0)
    assert not net(X).requires_grad
    assert not any(parameter.requires_grad for parameter in net.copy().parameters())


# -- the meta device ----------------------------------------------------------------------------


def test_modules_created_on_meta_are_drawn_after_moving():
    net = nn.Linear(4, 3, device="meta").initialize(0)
    assert net(Tensor(np.zeros((2, 4)), device="meta")).device.kind == "meta"
    assert not net.weight.is_drawn
    twin = pickle.loads(pickle.dumps(net))
    assert twin.weight.device.kind == "meta"
    there = net.to(device="cpu").initialize(0)
    np.testing.assert_array_equal(there.weight.numpy(), nn.Linear(4, 3).initialize(0).weight.numpy())


@pytest.mark.parametrize("kind", [lambda n, **kw: nn.Linear(n, n, **kw), nn.BatchNorm, nn.LayerNorm])
def test_meta_allocates_nothing(kind):
    net = kind(10**12, device="meta")  # no machine has the memory
    assert all(x.device.kind == "meta" for x in (*net.parameters(), *net.buffers()))
