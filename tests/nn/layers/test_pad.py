"""Padding layers, and convolutions with other padding than zeros, against PyTorch."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import ShapeError
from tests.combinations import every
from tests.nn.layers.pytorch import same

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")

RNG = np.random.default_rng(0)
SHAPES = {1: (2, 3, 5), 2: (2, 3, 5, 6), 3: (2, 3, 4, 5, 6)}
PADDINGS = {1: [0, 2, ((1, 3),)], 2: [1, (2, 1), ((0, 1), (3, 2))], 3: [2, (1, 0, 2), ((0, 1), 2, (3, 1))]}
THEIRS = {"constant": "Constant", "reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


def flat(padding, rank):
    """Return a padding in PyTorch's order, the last axis first."""
    each = [padding] * rank if isinstance(padding, int) else padding
    pairs = [(n, n) if isinstance(n, int) else n for n in each]
    return tuple(n for pair in pairs[::-1] for n in pair)


@pytest.mark.parametrize(("rank", "padding"), [(rank, p) for rank, each in PADDINGS.items() for p in each])
@every(mode=THEIRS)
def test_padding(rank, padding, mode):
    value = {"value": 1.5} if mode == "constant" else {}
    theirs = getattr(torch.nn, f"{THEIRS[mode]}Pad{rank}d")(flat(padding, rank), **value)
    same(getattr(nn, f"Pad{rank}d")(padding, mode, **value), theirs, SHAPES[rank])


@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"padding": 2, "stride": 2},
        {"padding": "same", "dilation": 2},
        {"padding": "valid"},
        pytest.param(
            {"padding": "same", "kernel_size": 4},
            marks=pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths"),
        ),
    ],
    ids=str,
)
@every(mode=["zeros", "reflect", "replicate", "circular"], rank=[1, 2])
def test_convolution(rank, options, mode):
    options = {"kernel_size": 3, **options, "padding_mode": mode}
    mine = getattr(nn, f"Conv{rank}d")(3, 4, **options).to(dtype="float64").initialize(0)
    theirs = getattr(torch.nn, f"Conv{rank}d")(3, 4, **options).double()
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(mine.weight.numpy()))
        theirs.bias.copy_(torch.tensor(mine.bias.numpy()))
    same(mine, theirs, (2, 3, 9, 8)[: rank + 2])
    assert (f"padding_mode='{mode}'" in repr(mine)) == (mode != "zeros")


def test_a_stride_does_not_keep_the_size():
    layer = nn.Conv1d(1, 1, 3, stride=2, padding="same", padding_mode="reflect")
    with pytest.raises(ValueError, match=r"Conv1d\(1, 1, .*: padding 'same' is for a stride of 1"):
        layer(np.ones((1, 1, 5), np.float32))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nn.Pad2d((1, 2, 3, 4)),
            r"for each of 2 axes an int or a pair .* Got \(1, 2, 3, 4\) instead",
        ),
        (lambda: nn.Pad1d((1, 2)), r"'padding' parameter of Pad1d must be an int, or for each of 1 axes"),
        (lambda: nn.Pad1d(((1, -2),)), r"none negative\. Got \(\(1, -2\),\) instead"),
        (lambda: nn.Pad1d(((1, 2, 3),)), r"a pair \(before, after\)"),
        (lambda: nn.Pad1d(-1), "'padding' parameter of Pad1d must be an int in the range"),
        (lambda: nn.Pad1d(1, "mirror"), "'mode' parameter of Pad1d must be a str among"),
        (
            lambda: nn.Conv1d(1, 1, 1, padding_mode="mirror"),
            "'padding_mode' parameter of Conv1d must be a str",
        ),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_too_few_axes():
    with pytest.raises(
        ShapeError, match=r"Pad2d\(padding=1\): expected .* \(..., channels, height, width\), got"
    ):
        nn.Pad2d(1)(np.ones((3, 4)))
