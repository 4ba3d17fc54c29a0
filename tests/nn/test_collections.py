"""Lists and dicts of modules and parameters: registered, ordered, and read like any attribute."""

import copy
import pickle

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.nn import functional_call


class Members(nn.Module):
    def __init__(self):
        self.members = nn.ModuleList(nn.Linear(3, 2), nn.Linear(3, 2))
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 1), "b": nn.Identity()})
        self.scales = nn.ParameterList(nn.Parameter([1.0]), nn.Parameter([2.0, 3.0]))
        self.named = nn.ParameterDict({"shift": nn.Parameter([0.5])})

    def forward(self, x):
        joint = sum(member(x) * scale for member, scale in zip(self.members, self.scales, strict=True))
        return sum(head(joint) for head in self.heads.values()) + self.named["shift"]


X = np.random.default_rng(0).normal(size=(5, 3))
PATHS = [
    "members.0.weight", "members.0.bias", "members.1.weight", "members.1.bias", "heads.a.weight",
    "heads.a.bias", "scales.0", "scales.1", "named.shift",
]  # fmt: skip


def test_everything_is_found():
    net = Members().initialize(0)
    assert [path for path, _ in net.named_parameters()] == PATHS
    assert list(net.state_dict()) == PATHS
    other = Members()
    other.load_state_dict(net.state_dict())
    for twin in (other, net.copy(), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(twin) == repr(net)
        np.testing.assert_array_equal(twin(X).numpy(), net(X).numpy())


def test_values_stand_in_for_entries():
    net = Members().initialize(0)
    values = {path: np.zeros(parameter.shape) for path, parameter in net.named_parameters()}
    values["named.shift"] = np.array([7.0])
    np.testing.assert_array_equal(functional_call(net, values, X)[0].numpy(), np.full((5, 2), 7.0))
    scale = Tensor([3.0], requires_grad=True)
    functional_call(net, {"scales.0": scale}, X)[0].sum().backward()
    assert scale.grad is not None


def test_lists():
    first, second, third = (nn.Parameter([float(i)]) for i in range(3))
    found = nn.ParameterList(first).append(third).insert(1, second)
    assert [parameter.item() for parameter in found] == [0.0, 1.0, 2.0]
    assert found[-1] is third
    assert [parameter.item() for parameter in found[1:]] == [1.0, 2.0]
    found[0] = third
    del found[1]
    assert list(dict(found.named_parameters())) == ["0"]  # shared: it is listed under its first path
    with pytest.raises(IndexError, match="parameter 5 does not exist: this ParameterList has 2 parameters"):
        _ = found[5]
    with pytest.raises(TypeError, match=r"ParameterList\.2 must be a Parameter, got an object"):
        found.append(Tensor([1.0]))
    with pytest.raises(TypeError, match=r"ModuleList takes modules as separate arguments"):
        nn.ModuleList([nn.ReLU()])
    assert repr(nn.ModuleList(nn.ReLU())) == "ModuleList(\n  (0): ReLU()\n)"


def test_dicts():
    net = nn.ModuleDict()
    net["a"] = nn.ReLU()
    net.update({"b": nn.Tanh()})
    assert (net.keys(), list(net), len(net)) == (["a", "b"],) * 2 + (2,)
    assert "a" in net
    assert "c" not in net
    assert net.items() == [("a", net.a), ("b", net["b"])]
    del net["a"]
    assert net.keys() == ["b"]
    assert not hasattr(net, "a")
    with pytest.raises(KeyError, match=r"'a' is not in this ModuleDict, only \['b'\]"):
        net["a"]
    with pytest.raises(KeyError, match="a"):
        del net["a"]
    with pytest.raises(ValueError, match=r"ModuleDict\.keys cannot be registered"):
        net["keys"] = nn.ReLU()
    with pytest.raises(TypeError, match=r"ParameterDict\.a must be a Parameter"):
        nn.ParameterDict({"a": nn.ReLU()})


def test_they_do_not_compute():
    with pytest.raises(TypeError, match="ModuleList cannot be called"):
        nn.ModuleList(nn.ReLU())(X)


def test_the_hint_leads_here():
    with pytest.raises(TypeError, match=r"keep them in nn\.ModuleList, nn\.ModuleDict"):
        nn.Module().parts = [nn.ReLU()]
