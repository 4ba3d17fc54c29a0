"""Convolution layers: shapes and names of parameters, initial weights, messages."""

import math

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import DtypeError, ShapeError


def test_parameters():
    layer = nn.Conv2d(4, 6, (3, 2), groups=2)
    assert {name: p.shape for name, p in layer.named_parameters()} == {"weight": (6, 2, 3, 2), "bias": (6,)}
    layer = nn.ConvTranspose1d(4, 6, 3, groups=2, bias=False)
    assert {name: p.shape for name, p in layer.named_parameters()} == {"weight": (4, 3, 3)}


@pytest.mark.parametrize(
    ("layer", "fan_in"), [(nn.Conv2d(64, 128, 3), 64 * 9), (nn.Conv1d(64, 256, 5, groups=2), 32 * 5)]
)
def test_initial_weights(layer, fan_in):
    """He initialization: the variance of a rectified signal is preserved."""
    layer.initialize(0)
    assert layer.weight.numpy().std() == pytest.approx(math.sqrt(2 / fan_in), rel=0.02)
    assert not layer.bias.numpy().any()
    assert nn.Conv2d(1, 2, 3, init="orthogonal").initialize(0).weight.shape == (2, 1, 3, 3)


@pytest.mark.parametrize(
    ("layer", "shown"),
    [
        (nn.Conv2d(3, 8, 3, padding="same"), "Conv2d(3, 8, kernel_size=3, padding='same')"),
        (
            nn.Conv1d(4, 8, 3, 2, 1, 2, 4, False),
            "Conv1d(4, 8, kernel_size=3, stride=2, padding=1, dilation=2, groups=4, bias=False)",
        ),
        (
            nn.ConvTranspose2d(4, 8, (2, 3), 2, output_padding=(1, 0)),
            "ConvTranspose2d(4, 8, kernel_size=(2, 3), stride=2, output_padding=(1, 0))",
        ),
    ],
)
def test_repr(layer, shown):
    assert repr(layer) == shown


@pytest.mark.parametrize("shape", [(5, 2, 8, 8), (8, 8), (5, 3, 8)])
def test_wrong_input(shape):
    message = r"Conv2d\(3, 4, kernel_size=3\): expected an input of shape \(n, 3, height, width\), got \("
    with pytest.raises(ShapeError, match=message):
        nn.Conv2d(3, 4, 3)(np.ones(shape))


def test_images_without_an_axis_of_channels_and_with_channels_last():
    layer = nn.Conv2d(3, 4, 3)
    with pytest.raises(
        ShapeError, match=r"got \(5, 8, 8\). It seems to have no axis of channels: X\[:, None\]"
    ):
        layer(np.ones((5, 8, 8)))
    message = r"got \(5, 8, 8, 3\). Its channels seem to be last: np.moveaxis\(X, -1, 1\) puts them first$"
    with pytest.raises(ShapeError, match=message):
        layer(np.ones((5, 8, 8, 3)))
    with pytest.raises(ShapeError, match=r"got \(5, 2, 8, 8\)$"):
        layer(np.ones((5, 2, 8, 8)))


def test_integers_are_refused():
    with pytest.raises(DtypeError, match=r"conv2d: expected a floating-point .* use .astype\('float32'\)"):
        nn.Conv2d(1, 2, 3)(np.ones((1, 1, 4, 4), np.uint8))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(0, 1, 3), "The 'in_channels' parameter of Conv2d must be an int in the range"),
        (lambda: nn.Conv2d(1, 1, 0), "The 'kernel_size' parameter of Conv2d must be an int in the range"),
        (
            lambda: nn.Conv2d(1, 1, (3,)),
            r"'kernel_size' parameter of Conv2d must be an int or a tuple of 2. Got",
        ),
        (
            lambda: nn.Conv1d(1, 1, 3, stride=(1, 1)),
            "'stride' parameter of Conv1d must be an int or a tuple of 1",
        ),
        (lambda: nn.Conv2d(1, 1, 3, dilation=(1, 0)), "The 'dilation' parameter of Conv2d must be an int"),
        (lambda: nn.Conv2d(1, 1, 3, padding="full"), "The 'padding' parameter of Conv2d must be"),
        (
            lambda: nn.ConvTranspose2d(1, 1, 3, padding="same"),
            "'padding' parameter of ConvTranspose2d must be",
        ),
        (
            lambda: nn.Conv2d(4, 6, 3, groups=4),
            "Conv2d: groups=4 must divide in_channels=4 and out_channels=6",
        ),
        (lambda: nn.Conv2d(1, 1, 3, init="he"), "The 'init' parameter of Conv2d must be"),
        (lambda: nn.MaxPool2d(0), "The 'kernel_size' parameter of MaxPool2d must be an int in the range"),
        (lambda: nn.AdaptiveAvgPool1d(0), "The 'output_size' parameter of AdaptiveAvgPool1d must be"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
