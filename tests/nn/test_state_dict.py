"""State dicts: round trips, and errors that change nothing."""

import copy
import json
import pickle

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.device import to_device, to_host
from sknet.exceptions import StateError


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(3, 2)
        self.norm = nn.BatchNorm(2)
        self.register_buffer("scratch", np.zeros(1), persistent=False)


def state(seed=0):
    return Net().initialize(seed).state_dict()


def assert_same(a, b):
    assert list(a) == list(b)
    for path in a:
        np.testing.assert_array_equal(a[path], b[path])


def test_paths_and_types():
    found = state()
    assert list(found) == [
        "first.weight", "first.bias", "norm.weight", "norm.bias",
        "norm.running_mean", "norm.running_var", "norm.num_batches",
    ]  # fmt: skip
    assert all(type(value) is np.ndarray for value in found.values())


def test_values_are_copies():
    net = Net().initialize(0)
    net.state_dict()["first.weight"][:] = 0
    assert net.first.weight.numpy().any()


def test_round_trip():
    net = Net()
    assert net.load_state_dict(state(1)) == ([], [])
    assert_same(net.state_dict(), state(1))


def test_loading_copies_and_keeps_the_parameters():
    net, given = Net(), state()
    weight = net.first.weight
    net.load_state_dict(given)
    given["first.weight"][:] = 0
    assert net.first.weight is weight
    assert weight.numpy().any()


def test_loading_marks_as_drawn():
    net = Net()
    net.load_state_dict(state(0))
    assert net.first.weight.is_drawn
    net.initialize(1)
    assert_same(net.state_dict(), state(0))


def test_loading_converts():
    net = Net().to(dtype="float64")
    net.load_state_dict({path: Tensor(value) for path, value in state().items()})
    assert net.first.weight.dtype == np.float64
    net.load_state_dict({**state(), "first.bias": [1, 2]})
    np.testing.assert_array_equal(net.first.bias.numpy(), [1.0, 2.0])


def test_shared_state_has_one_path():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    found = net.initialize(0).state_dict()
    assert list(found) == ["0.weight", "0.bias", "1.bias"]
    net.load_state_dict({**found, "0.weight": np.ones((2, 2))})
    np.testing.assert_array_equal(net[1].weight.numpy(), np.ones((2, 2)))


def test_misfits_are_all_named_and_nothing_is_loaded():
    net = Net().initialize(0)
    given = state(1)
    given["first.wieght"] = given.pop("first.weight")
    given["first.bias"] = np.zeros(5)
    given["norm.num_batches"] = np.array(1.5)
    given["norm.weight"] = np.array(["a", "b"])
    given["other"] = np.zeros(1)
    with pytest.raises(StateError) as caught:
        net.load_state_dict(given)
    message = str(caught.value)
    for part in (
        "this state does not fit Net; nothing was loaded:",
        "missing: 'first.weight'",
        "unexpected: 'first.wieght' (did you mean 'first.weight'?), 'other'",
        "strict=False loads what is common to both",
        "'first.bias': expected shape (2,), got (5,)",
        "'norm.num_batches': expected a dtype that converts to int64, got float64",
        "'norm.weight': expected a dtype that converts to float32, got <U1",
    ):
        assert part in message
    assert_same(net.state_dict(), state(0))


def test_not_strict():
    net = Net().initialize(0)
    net.load_state_dict({"first.bias": np.ones(2), "other": np.zeros(1)}, strict=False)
    np.testing.assert_array_equal(net.first.bias.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(net.first.weight.numpy(), state(0)["first.weight"])
    with pytest.raises(StateError, match=r"'first\.bias': expected shape \(2,\), got \(3,\)"):
        net.load_state_dict({"first.bias": np.ones(3)}, strict=False)


def test_differences_are_returned():
    found = Net().load_state_dict({"first.bias": np.ones(2), "other": np.zeros(1)}, strict=False)
    assert found.unexpected_keys == ["other"]
    assert found.missing_keys == [path for path in state() if path != "first.bias"]


# -- versions -----------------------------------------------------------------------------------


class Renamed(nn.Module):
    """A layer whose first version stored the logarithm of its parameter, as `scale`."""

    _version = 3

    def __init__(self):
        self.weight = nn.Parameter(np.ones(2))

    def forward(self, x):
        return x * self.weight

    def _migrate_state(self, state, prefix, version):
        if version < 2:
            state[f"{prefix}weight"] = state.pop(f"{prefix}scale")
        if version < 3:
            state[f"{prefix}weight"] = np.exp(state[f"{prefix}weight"])


def test_states_know_the_versions_of_their_classes():
    net = nn.Sequential(nn.Linear(2, 2, init="ones"), Renamed())
    found = net.state_dict()
    assert found.metadata == {"versions": {"1": 3}, "init_versions": {}}
    assert json.loads(json.dumps(found.metadata)) == found.metadata
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert twin.metadata == found.metadata
        assert_same(twin, found)


@pytest.mark.parametrize(("versions", "name"), [({}, "scale"), ({"1": 2}, "weight")])
def test_older_states_are_rewritten(versions, name):
    net = nn.Sequential(nn.Identity(), Renamed())
    old = nn.StateDict({f"1.{name}": np.zeros(2)}, {"versions": versions, "init_versions": {}})
    assert net.load_state_dict(old) == ([], [])
    np.testing.assert_array_equal(net[1].weight.numpy(), np.ones(2))
    assert list(old) == [f"1.{name}"]


def test_newer_states_and_states_without_versions():
    net = nn.Sequential(nn.Identity(), Renamed())
    newer = nn.StateDict({"1.weight": np.zeros(2)}, {"versions": {"1": 4}, "init_versions": {}})
    with pytest.raises(StateError, match="the state of '1' was written by version 4 of Renamed"):
        net.load_state_dict(newer)
    net.load_state_dict({"1.weight": np.zeros(2)})  # treated as a current one
    np.testing.assert_array_equal(net[1].weight.numpy(), np.zeros(2))


def test_a_state_brings_the_version_of_its_initial_weights():
    with nn.init.version(1):
        old = nn.Sequential(nn.Linear(2, 2))
    net = nn.Sequential(nn.Linear(2, 2))
    assert net.init_versions() == {"0": 2}
    net.load_state_dict(old.state_dict())
    assert net.init_versions() == {"0": 1}


@pytest.mark.parametrize("wrap", [lambda array: array, nn.Parameter], ids=["array", "parameter"])
def test_arrays_of_another_device_are_moved(wrap, fake_device):
    here, there = nn.Linear(3, 2).initialize(0), nn.Linear(3, 2).initialize(1)
    there.to(device=fake_device)
    there.load_state_dict(
        {path: wrap(to_device(value, fake_device)) for path, value in here.state_dict().items()}
    )
    assert there.weight.device == fake_device
    here.load_state_dict({path: wrap(p.data) for path, p in there.named_parameters()})
    np.testing.assert_array_equal(here.weight.numpy(), to_host(there.weight.data))
