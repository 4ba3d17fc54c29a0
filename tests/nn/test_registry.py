"""Parameters, buffers and modules as attributes, and their paths."""

import numpy as np
import pytest

from sknet import Tensor, nn
from sknet.exceptions import ShapeError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.scale = nn.Parameter([1.0])
        self.register_buffer("mean", np.zeros(2))
        self.inner = nn.Sequential(nn.ReLU(), nn.BatchNorm(2))


def names(pairs):
    return [path for path, _ in pairs]


def test_paths():
    net = Net()
    assert names(net.named_parameters()) == [
        "scale", "first.weight", "first.bias", "inner.1.weight", "inner.1.bias",
    ]  # fmt: skip
    assert names(net.named_buffers()) == [
        "mean", "inner.1.running_mean", "inner.1.running_var", "inner.1.num_batches",
    ]  # fmt: skip
    assert names(net.named_modules()) == ["", "first", "inner", "inner.0", "inner.1"]
    assert names(net.named_children()) == ["first", "inner"]


def test_prefix():
    net = nn.Sequential(nn.Linear(2, 1))
    assert names(net.named_parameters("net")) == ["net.0.weight", "net.0.bias"]
    assert names(net.named_modules("net")) == ["net", "net.0"]
    assert names(nn.BatchNorm(1).named_buffers("norm"))[0] == "norm.running_mean"


def test_without_names():
    net = Net()
    assert [id(p) for p in net.parameters()] == [id(p) for _, p in net.named_parameters()]
    assert [id(b) for b in net.buffers()] == [id(b) for _, b in net.named_buffers()]
    assert list(net.modules()) == [m for _, m in net.named_modules()]
    assert list(net.children()) == [net.first, net.inner]


def test_attributes_are_what_was_assigned():
    net, weight = Net(), nn.Parameter([2.0])
    net.scale = weight
    assert net.scale is weight
    assert net.inner[1].weight is next(net.inner[1].parameters())
    assert isinstance(net.mean, Tensor)
    assert {"scale", "mean", "first"} <= set(dir(net))


def test_a_shared_parameter_appears_once():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "1.bias"]


def test_a_shared_module_appears_once():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.ReLU(), layer)
    assert names(net.named_parameters()) == ["0.weight", "0.bias"]
    assert names(net.named_modules()) == ["", "0", "1"]
    assert len(net) == 3


def test_a_module_that_contains_itself():
    net = nn.Sequential(nn.Linear(2, 2))
    net.append(net)
    assert names(net.named_parameters()) == ["0.weight", "0.bias"]


def test_init_of_the_base_may_be_left_out():
    class Forgetful(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter([1.0])
            self.layer = nn.ReLU()

    net = Forgetful()
    assert names(net.named_parameters()) == ["weight"]
    assert names(net.named_children()) == ["layer"]
    assert net.training


def test_reassigning_keeps_the_place():
    net = nn.Linear(2, 1)
    net.weight = nn.Parameter(np.ones((2, 1)))
    assert names(net.named_parameters()) == ["weight", "bias"]


def test_a_name_is_in_one_place_only():
    net = nn.Module()
    net.part = nn.Parameter([1.0])
    net.part = nn.ReLU()
    assert names(net.named_parameters()) == []
    assert isinstance(net.part, nn.ReLU)
    net.part = nn.Parameter([1.0])
    assert names(net.named_children()) == []
    assert isinstance(net.part, nn.Parameter)
    net.register_buffer("part", np.zeros(1))
    assert names(net.named_parameters()) == []
    assert names(net.named_buffers()) == ["part"]


def test_none_removes():
    net = Net()
    net.scale = net.first = net.mean = None
    assert net.scale is net.first is net.mean is None
    assert "scale" not in names(net.named_parameters())
    assert names(net.named_children()) == ["inner"]
    assert "mean" not in names(net.named_buffers())


def test_deleting():
    net = Net()
    net.plain = 1
    del net.scale, net.first, net.mean, net.plain
    assert names(net.named_children()) == ["inner"]
    for name in ("scale", "first", "mean", "plain"):
        assert not hasattr(net, name)
    with pytest.raises(AttributeError, match="nothing"):
        del net.nothing


def test_unknown_attribute():
    net = Net()
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scael'") as caught:
        _ = net.scael
    assert caught.value.name == "scael"
    assert caught.value.obj is net


@pytest.mark.parametrize("value", [np.ones(1), Tensor([1.0]), 1.0, np.ndarray])
def test_only_a_parameter_replaces_a_parameter(value):
    net = Net()
    with pytest.raises(TypeError, match=r"Net\.scale is a Parameter, and .* cannot take its place"):
        net.scale = value


def test_only_a_module_replaces_a_module():
    net = Net()
    with pytest.raises(
        TypeError, match=r"Net\.first is a Module, and the class Linear cannot take its place"
    ):
        net.first = nn.Linear
    with pytest.raises(
        TypeError, match="an object of type function cannot take its place: assign a Module, or None"
    ):
        net.first = names


@pytest.mark.parametrize("make", [list, tuple, lambda parts: {"a": parts[0]}])
@pytest.mark.parametrize("part", [nn.ReLU(), nn.Parameter([1.0])])
def test_hidden_state_is_refused(make, part):
    net = nn.Module()
    with pytest.raises(TypeError, match=r"Module\.parts: modules or parameters inside a \w+ are not found"):
        net.parts = make([part])


def test_plain_attributes():
    net = nn.Module()
    net.sizes, net.table, net.constant = [1, 2], {"a": 1}, np.ones(2)
    assert net.sizes == [1, 2]
    assert names(net.named_buffers()) == []


@pytest.mark.parametrize("name", ["", "a.b", 3])
@pytest.mark.parametrize("register", ["register_parameter", "register_module", "register_buffer"])
def test_bad_names(register, name):
    value = {
        "register_parameter": nn.Parameter([1.0]),
        "register_module": nn.ReLU(),
        "register_buffer": [1.0],
    }
    with pytest.raises(ValueError, match="a name in Module must be a non-empty str without dots"):
        getattr(nn.Module(), register)(name, value[register])


def test_names_of_methods():
    with pytest.raises(ValueError, match=r"Module\.forward cannot be registered: the class has an attribute"):
        nn.Module().forward = nn.ReLU()


@pytest.mark.parametrize(
    "name", ["_parameters", "_buffers", "_transient", "_children", "_training", "_hooks"]
)
@pytest.mark.parametrize("value", [nn.ReLU(), nn.Parameter([1.0]), [], None, True])
def test_names_of_a_modules_own_state(name, value):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3))
    with pytest.raises(ValueError, match=f"Sequential.{name} cannot be set: modules keep state of their own"):
        setattr(net, name, value)
    with pytest.raises(ValueError, match=f"Sequential.{name} cannot be set"):
        net.register_buffer(name, [1.0])
    assert len(list(net.named_parameters())) == 4
    assert net.training


def test_names_of_class_attributes():
    class Net(nn.Module):
        bias = None

    with pytest.raises(ValueError, match=r"Net\.bias cannot be registered: the class has an attribute"):
        Net().bias = nn.Parameter([1.0])


def test_wrong_kinds():
    net = nn.Module()
    with pytest.raises(TypeError, match=r"Module\.w must be a Parameter, got an object of type ndarray"):
        net.register_parameter("w", np.ones(1))
    with pytest.raises(
        TypeError, match=r"must be a Module, got the class ReLU: pass an instance, ReLU\(\.\.\.\)"
    ):
        net.register_module("act", nn.ReLU)
    with pytest.raises(TypeError, match=r"Module\.act must be a Module, got an object of type function"):
        net.register_module("act", names)


def test_set_buffer():
    net = Net()
    net.set_buffer("mean", np.ones(2, np.float32))
    np.testing.assert_array_equal(net.mean.numpy(), [1.0, 1.0])
    assert net.mean.dtype == np.float64
    net.mean = [3.0, 4.0]
    np.testing.assert_array_equal(net.mean.numpy(), [3.0, 4.0])


def test_a_buffer_has_no_history():
    net = Net()
    net.set_buffer("mean", nn.Parameter([1.0, 2.0]) * 2)
    assert not net.mean.requires_grad


def test_wrong_buffers():
    net = Net()
    with pytest.raises(AttributeError, match=r"Net\.scale is not a buffer: register_buffer adds one"):
        net.set_buffer("scale", [1.0])
    with pytest.raises(ShapeError, match=r"Net\.mean is a buffer of shape \(2,\), got \(3,\)"):
        net.set_buffer("mean", np.ones(3))


# -- by path ------------------------------------------------------------------------------------


def test_looking_up_paths():
    net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm(3)), nn.Linear(3, 1))
    assert net.get_submodule("") is net
    assert net.get_submodule("0.1") is net[0][1]
    for path, parameter in net.named_parameters():
        assert net.get_parameter(path) is parameter
    for path, buffer in net.named_buffers():
        assert net.get_buffer(path) is buffer
    stand_in = np.zeros((3, 1))

    class Reads(nn.Module):
        def __init__(self):
            self.inner = net

        def forward(self):
            return self.get_parameter("inner.1.weight")

    assert nn.functional_call(Reads(), {"inner.1.weight": stand_in}, ())[0].data is stand_in


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("get_submodule", "enc.0", r"no module 'enc.0': Named has no 'enc' \(did you mean 'encoder'\?\)"),
        ("get_submodule", "encoder.7", r"no module 'encoder.7': Sequential has no '7', only \['0'\]"),
        ("get_submodule", "a" * 10**5, r"no module 'a.{0,2000}: Named has no 'a.{0,2000}, only"),
        ("get_buffer", "a" * 10**5, r"no buffer 'a.{0,2000}: Named has no 'a.{0,2000}"),
        ("get_parameter", "encoder.0.wait", r"no parameter 'encoder.0.wait': Linear has no 'wait'"),
        ("get_parameter", "encoder.0", r"no parameter 'encoder.0': Sequential has no '0', only \[\]"),
        (
            "get_buffer",
            "encoder.0.weight",
            r"no buffer 'encoder.0.weight': Linear has no 'weight', only \[\]",
        ),
    ],
)
def test_unknown_paths(method, path, message):
    class Named(nn.Module):
        def __init__(self):
            self.encoder = nn.Sequential(nn.Linear(2, 2))

    with pytest.raises(AttributeError, match=message):
        getattr(Named(), method)(path)


def test_buffers_live_where_they_are_told():
    layer = nn.Identity()
    layer.register_buffer("mean", np.zeros(2), device="meta")
    assert layer.mean.device.kind == "meta"
