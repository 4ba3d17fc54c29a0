"""The largest array of a forward pass, found by a shape pass."""

import numpy as np
import pytest

from sknet import nn, ops
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import largest_activation

NETS = {
    "perceptron": (nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 3)), (5,), 40),
    "wide inputs": (nn.Linear(50, 3), (50,), 50),
    "identity": (nn.Identity(), (7, 2), 14),
    "convolution": (nn.Conv2d(1, 64, 3), (1, 224, 224), 64 * 222 * 222),
    "lazy": (nn.LazyLinear(60), (5,), 60),
    "attention scores": (nn.MultiheadAttention(4, 2), (100, 4), 2 * 100 * 100),
}


@pytest.mark.parametrize("name", NETS)
def test_the_largest_array_of_a_row(name):
    net, shape, expected = NETS[name]
    if name == "attention scores":
        inner = net

        class Attending(nn.Module):
            def __init__(self):
                self.inner = inner

            def forward(self, x):
                found = self.inner(x, x, x)
                return found[0] if isinstance(found, tuple) else found

        net = Attending()
    assert largest_activation(net, shape) == expected


def test_memory_that_an_operation_works_in_counts():
    """A transposed convolution spreads its inputs over columns that are larger than its output."""
    assert largest_activation(nn.ConvTranspose2d(3, 1, 4, stride=2), (3, 10, 10)) > 22 * 22


class Scaled(nn.Module):
    """Creates a new array from its weight, whose size does not depend on the number of rows."""

    def __init__(self):
        self.weight = nn.Parameter(np.ones((300, 300)))

    def forward(self, x):
        return ops.matmul(x, self.weight * 2.0)


def test_what_does_not_grow_with_the_rows_is_left_out():
    assert largest_activation(Scaled(), (300,)) == 300


class Branching(nn.Module):
    def forward(self, x):
        return ops.concat([x, x], axis=1) + 1 if x.shape[0] > 1 else x


def test_code_that_branches_on_the_number_of_rows():
    assert largest_activation(Branching(), (10,)) == 20


class Noting(nn.Module):
    def forward(self, x):
        self.last = x
        return x * 2


def test_the_module_is_left_alone():
    net, seen = nn.Sequential(Noting(), nn.LazyLinear(3)), []
    net.register_forward_hook(lambda *args: seen.append(args))
    assert largest_activation(net, (4,)) == 4
    assert not seen
    assert not hasattr(net[0], "last")
    assert nn.is_lazy(net)


def test_errors_of_the_pass():
    class Reading(nn.Module):
        def forward(self, x):
            return x * x.sum().item()

    with pytest.raises(DeviceError, match="has no data"):
        largest_activation(Reading(), (3,))
    with pytest.raises(ShapeError, match=r"\(1, 4\)"):
        largest_activation(nn.Linear(3, 2), (4,))
