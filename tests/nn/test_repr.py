"""The repr of modules."""

import pytest

from sknet import nn


def test_tree():
    net = nn.Sequential(
        nn.Linear(3, 2), nn.Sequential(nn.ReLU(), nn.Dropout(0.2)), nn.Linear(2, 1, bias=False)
    )
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Linear(3, 2)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(0.2)\n"
        "  )\n"
        "  (2): Linear(2, 1, bias=False)\n"
        ")"
    )


def test_shared_modules_are_shown_up_to_a_limit():
    net = nn.Sequential(nn.Tanh())
    for _ in range(40):
        net = nn.Sequential(net, net)
    lines = repr(net).split("\n")
    assert len(lines) == 1001
    assert lines[-1] == "..."
    assert lines[40:42] == ["  " * 40 + "(0): Sequential(", "  " * 41 + "(0): Tanh()"]


def test_deep_modules_are_shown_up_to_a_limit():
    net = nn.Sequential(nn.Tanh())
    for _ in range(150):
        net = nn.Sequential(net)
    lines = repr(net).split("\n")
    assert len(lines) == 201
    assert lines[100] == "  " * 100 + "(0): Sequential(...)"


def test_a_representation_of_its_own():
    class Named(nn.Module):
        def __repr__(self):
            return "a\nb"

    assert repr(nn.Sequential(Named())) == "Sequential(\n  (0): a\n  b\n)"


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.LeakyReLU(), "LeakyReLU()"),
        (nn.LeakyReLU(0.2), "LeakyReLU(negative_slope=0.2)"),
        (nn.GELU("tanh"), "GELU(approximate='tanh')"),
        (nn.BatchNorm(3), "BatchNorm(num_features=3)"),
        (nn.BatchNorm(3, momentum=None), "BatchNorm(num_features=3, momentum=None)"),
        (nn.LayerNorm((2, 3)), "LayerNorm(normalized_shape=(2, 3))"),
        (nn.Sequential(), "Sequential()"),
    ],
)
def test_arguments(layer, expected):
    assert repr(layer) == expected


def test_a_users_module():
    class Block(nn.Module):
        def __init__(self, width, depth=1, inner=None):
            self.width, self.depth = width, depth
            self.inner = inner

    assert repr(Block(3)) == "Block(width=3)"
    assert repr(Block(3, 2, nn.ReLU())) == "Block(width=3, depth=2\n  (inner): ReLU()\n)"


def test_extra_repr():
    class Block(nn.Module):
        def extra_repr(self):
            return "words"

    assert repr(Block()) == "Block(words)"
