"""Sequential: one after the other, as a list and as a module."""

import numpy as np
import pytest

from sknet import nn
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
