"""Containers: as lists, and their outputs."""

from collections import OrderedDict

import numpy as np
import pytest

from sknet import nn, ops
from sknet.exceptions import ShapeError


def make():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).initialize(0)


X = np.random.default_rng(0).normal(size=(5, 3))


def test_forward():
    net = make()
    np.testing.assert_array_equal(net(X).numpy(), net[2](net[1](net[0](X))).numpy())


def test_list():
    net = make()
    assert len(net) == 3
    assert list(net) == [net[0], net[1], net[2]]
    assert net[-1] is net[2]
    with pytest.raises(IndexError, match="layer 3 does not exist: this Sequential has 3 layers"):
        _ = net[3]


def test_slices_share_their_layers():
    net = make()
    tail = net[1:]
    assert isinstance(tail, nn.Sequential)
    assert [name for name, _ in tail.named_children()] == ["0", "1"]
    assert tail[1] is net[2]
    np.testing.assert_array_equal(net(X).numpy(), net[1:](net[:1](X)).numpy())


def test_append():
    net = nn.Sequential()
    assert net.append(nn.ReLU()).append(nn.Tanh()) is net
    assert [name for name, _ in net.named_children()] == ["0", "1"]


def test_empty():
    assert nn.Sequential()(X) is X


def test_errors_say_which_layer():
    net = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(5, 2)))
    with pytest.raises(ShapeError, match=r"Linear\(5, 2\)") as caught:
        net(X)
    assert caught.value.__notes__ == [
        "in layer '1' of a Sequential of 2",
        "in layer '1' of a Sequential of 2",
    ]


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"separate arguments: write Sequential\(\*layers\)"):
        nn.Sequential([nn.ReLU()])
    with pytest.raises(TypeError, match=r"Sequential\.1 must be a Module, got the class ReLU"):
        nn.Sequential(nn.ReLU(), nn.ReLU)


# -- names and order ----------------------------------------------------------------------------


def names(net):
    return [name for name, _ in net.named_children()]


def test_named_layers():
    first, squash = nn.Linear(3, 4), nn.Tanh()
    for mapping in ({"first": first, "squash": squash}, OrderedDict(first=first, squash=squash)):
        net = nn.Sequential(mapping)
        assert names(net) == ["first", "squash"]
        assert net.squash is net[1] is squash
    assert names(net.append(nn.ReLU())) == ["first", "squash", "2"]
    assert names(net[1:]) == ["squash", "1"]
    with pytest.raises(ValueError, match="must be a non-empty str without dots"):
        nn.Sequential({"a.b": first})
    with pytest.raises(ValueError, match=r"Sequential\.forward cannot be registered"):
        nn.Sequential({"forward": first})


def test_inserting_and_deleting_renumbers():
    a, b, c, d = nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.Identity()
    net = nn.Sequential(a, c).insert(1, b).extend([d]).insert(-1, nn.ELU())
    assert [type(layer).__name__ for layer in net] == ["ReLU", "Tanh", "Sigmoid", "ELU", "Identity"]
    assert names(net) == ["0", "1", "2", "3", "4"]
    del net[3]
    del net[:1]
    assert list(net) == [b, c, d]
    assert names(net) == ["0", "1", "2"]
    assert not hasattr(net, "3")
    net[-1] = a
    assert list(net) == [b, c, a]
    assert net.get_submodule("2") is a
    with pytest.raises(IndexError, match="layer -4 does not exist: this Sequential has 3 layers"):
        net[-4] = a
    with pytest.raises(IndexError, match="layer 3 does not exist"):
        del net[3]


def test_names_stay_when_numbers_move():
    net = nn.Sequential({"in": nn.Linear(2, 2), "0": nn.ReLU(), "out": nn.Linear(2, 2)})
    assert names(net) == ["in", "1", "out"]
    assert names(net.insert(0, nn.Tanh())) == ["0", "in", "2", "out"]


def test_a_wrong_entry_changes_nothing():
    net = make()
    before = list(net)
    with pytest.raises(TypeError, match="must be a Module, got an object of type int"):
        net.insert(1, 3)
    assert list(net) == before
    assert names(net) == ["0", "1", "2"]
    assert net(X).shape == (5, 2)


# -- shortcuts, towers, functions -----------------------------------------------------------------


def test_residual():
    block = nn.Residual(nn.Linear(3, 3)).initialize(0)
    np.testing.assert_allclose(block(X).numpy(), X + block.module(X).numpy(), rtol=1e-6)
    projected = nn.Residual(nn.Linear(3, 2), nn.Linear(3, 2, bias=False)).initialize(0)
    expected = projected.projection(X).numpy() + projected.module(X).numpy()
    np.testing.assert_allclose(projected(X).numpy(), expected, rtol=1e-6)
    assert [path for path, _ in projected.named_parameters()] == [
        "module.weight",
        "module.bias",
        "projection.weight",
    ]


def test_a_residual_does_not_broadcast():
    block = nn.Residual(nn.Linear(3, 1))
    with pytest.raises(ShapeError, match=r"has shape \(5, 1\), the shortcut's \(5, 3\): give"):
        block(X)
    with pytest.raises(TypeError, match=r"Residual\.module must be a Module, got the class ReLU"):
        nn.Residual(nn.ReLU)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("concat", lambda a, b: np.concatenate([a, b], axis=0)),
        ("stack", lambda a, b: np.stack([a, b], axis=0)),
        ("sum", lambda a, b: a + b),
        ("mean", lambda a, b: (a + b) / 2),
        ("product", lambda a, b: a * b),
    ],
)
def test_parallel(reduce, expected):
    towers = nn.Parallel({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)}, reduce=reduce, axis=0).initialize(0)
    outputs = [tower(X).numpy() for tower in towers]
    np.testing.assert_allclose(towers(X).numpy(), expected(*outputs), rtol=1e-6)
    part = towers[:1]
    assert (part.reduce, part.axis, len(part)) == (reduce, 0, 1)
    assert "a.weight" in towers.state_dict()


def test_parallel_outputs_that_do_not_fit():
    towers = nn.Parallel(nn.Linear(3, 2), nn.Linear(3, 1), reduce="sum")
    with pytest.raises(ShapeError, match=r"Parallel\(reduce='sum'\): expected outputs of one shape"):
        towers(X)
    with pytest.raises(ShapeError, match="expected at least one module"):
        nn.Parallel()(X)
    with pytest.raises(ValueError, match="'reduce' parameter of Parallel must be a str among"):
        nn.Parallel(nn.ReLU(), reduce="max")


def test_lambda():
    layer = nn.Lambda(ops.exp)
    np.testing.assert_array_equal(layer(X).numpy(), np.exp(X))
    assert repr(nn.Lambda(lambda x: x)).endswith("<lambda>)")
    for wrong in (3, nn.ReLU()):
        with pytest.raises(TypeError, match=f"Lambda needs a function, got {type(wrong).__name__}"):
            nn.Lambda(wrong)
    with pytest.raises(TypeError, match="function that can be called with the input alone, got <function"):
        nn.Lambda(lambda: 1)
