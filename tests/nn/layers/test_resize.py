"""Upsampling and pixel shuffles, against PyTorch."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import DtypeError, ShapeError
from tests.combinations import every
from tests.nn.layers.pytorch import same

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@every(old=[1, 2, 3, 7, 10], size=[1, 2, 5, 7, 12, 30])
def test_sizes(old, size, mode):
    for corners in ({}, {"align_corners": True})[: 1 if mode == "nearest" else 2]:
        layer = nn.Upsample(size, mode=mode, **corners)
        theirs = torch.nn.Upsample(size, mode=mode, **corners)
        same(layer, theirs, (2, 3, old, old + 1))


@pytest.mark.parametrize("factor", [1, 2, 3, 0.5, 1.3, 2.7, (2.0, 0.7)])
@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_factors(factor, mode):
    same(nn.Upsample(scale_factor=factor, mode=mode), torch.nn.Upsample(None, factor, mode), (2, 1, 6, 5))


@every(seed=range(200))
def test_nearest(seed):
    """Values and gradients: repeated elements, selected ones, and both in one image or volume."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    shape = (2, 3, *(int(n) for n in rng.integers(1, 6, rank)))
    if rng.random() < 0.5:
        layer = {"size": tuple(int(n) for n in rng.integers(1, 13, rank))}
    else:
        factors = [1.0, 2.0, 3.0, 1.5, 2.5, *([0.5] if min(shape) > 1 else [])]
        layer = {"scale_factor": tuple(float(rng.choice(factors)) for _ in range(rank))}
    same(nn.Upsample(**layer), torch.nn.Upsample(**layer), shape)


@pytest.mark.parametrize("shape", [(2, 12, 3, 4), (8, 2, 1), (2, 3, 4, 5, 6)])
def test_pixel_shuffles(shape):
    same(nn.PixelShuffle(2), torch.nn.PixelShuffle(2), shape) if shape[-3] % 4 == 0 else None
    back = (*shape[:-3], shape[-3], shape[-2] * 3, shape[-1] * 3)
    same(nn.PixelUnshuffle(3), torch.nn.PixelUnshuffle(3), back)


@pytest.mark.parametrize("shape", [(2, 6, 3), (1, 6, 2, 4)])
def test_channel_shuffle(shape):
    same(nn.ChannelShuffle(3), torch.nn.ChannelShuffle(3), shape)
    with pytest.raises(
        ShapeError, match=r"ChannelShuffle\(groups=4\): expected .* \(n, 4 \* k, \.\.\.\), got"
    ):
        nn.ChannelShuffle(4)(np.ones(shape))


def test_a_value_that_is_no_number_stays_where_it_is():
    x = np.zeros((1, 1, 6, 6))
    x[0, 0, 1, 1] = np.nan
    assert np.isfinite(nn.Upsample(12, mode="bilinear")(x).numpy()[..., 8:, :]).all()


@pytest.mark.parametrize(
    ("settings", "shape", "error", "message"),
    [
        ({}, (), ValueError, "Upsample: exactly one of size and scale_factor must be given"),
        ({"size": 2, "scale_factor": 2.0}, (), ValueError, "exactly one of size and scale_factor"),
        ({"size": 2, "mode": "cubic"}, (), ValueError, "'mode' parameter of Upsample must be a str among"),
        ({"size": 2, "mode": "linear"}, (1, 1, 2, 2), ShapeError, "mode 'linear' is for inputs of 3 axes"),
        ({"size": (2, 2)}, (1, 1, 2), ShapeError, "size must be a positive number, or one for each of the 1"),
        ({"size": 2}, (1, 2), ShapeError, "expected an input of three to five axes"),
        ({"size": 2}, (1, 2, 0), ShapeError, "has no element to interpolate from"),
        ({"scale_factor": 0.1}, (1, 2, 3), ShapeError, "scale_factor=0.1 makes an axis"),
        (
            {"size": 2, "align_corners": True},
            (1, 2, 3),
            ValueError,
            "align_corners is not for mode 'nearest'",
        ),
    ],
)
def test_upsampling_that_does_not_fit(settings, shape, error, message):
    with pytest.raises(error, match=message):
        nn.Upsample(**settings)(np.ones(shape))


def test_weighted_integers():
    with pytest.raises(DtypeError, match="interpolate: expected a floating-point operand, got int64"):
        nn.Upsample(2, mode="linear")(np.ones((1, 1, 2), int))
    assert nn.Upsample(4)(np.ones((1, 1, 2), int)).dtype == np.int64


def test_shuffles_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"shape \(\.\.\., 4 \* channels, height, width\), got \(1, 3, 2, 2"):
        nn.PixelShuffle(2)(np.ones((1, 3, 2, 2)))
    with pytest.raises(ShapeError, match=r"2 \* height, 2 \* width\), got \(1, 3, 3, 2\)"):
        nn.PixelUnshuffle(2)(np.ones((1, 3, 3, 2)))
