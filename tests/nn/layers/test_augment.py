"""Random changes of images: every result is one of those possible, as often as it should be."""

import numpy as np
import pytest
import scipy.stats

from sknet import nn
from sknet.exceptions import ShapeError

RNG = np.random.default_rng(0)
N = 2000
LEAST = 1e-3  # of the probability of counts as far from what is expected


def changed(layer, x, key=(0, 0)):
    return nn.functional_call(layer, {}, x, key=key)[0].numpy()


@pytest.mark.parametrize(
    ("limit", "odds"),
    [(1, [1, 2, 1]), (2, [1, 2, 2, 2, 1]), (3, [1, 1, 1, 2, 1, 1, 1]), (4, [1, *[2] * 7, 1])],
)
@pytest.mark.parametrize("mode", ["replicate", "constant", "reflect", "circular"])
def test_shifts_are_those_of_padded_images(limit, odds, mode):
    x = RNG.normal(size=(1, 2, 10, 11))
    found = changed(nn.RandomShift(limit, mode), np.repeat(x, N, axis=0))
    widths = [(0, 0), (0, 0), (limit, limit), (limit, limit)]
    named = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    wide = np.pad(x, widths, named)[0]
    counts = np.zeros((2 * limit + 1, 2 * limit + 1), int)
    for row in range(2 * limit + 1):
        for column in range(2 * limit + 1):
            counts[row, column] = (
                (found == wide[:, row : row + 10, column : column + 11]).all((1, 2, 3)).sum()
            )
    assert counts.sum() == N
    expected = np.outer(odds, odds) / np.sum(odds) ** 2
    assert scipy.stats.chisquare(counts.ravel(), N * expected.ravel()).pvalue > LEAST


@pytest.mark.parametrize(("shape", "limit"), [((8, 9), 1), ((28, 40), 1), ((80, 57), 2)])
def test_shifts_follow_the_size_of_images(shape, limit):
    x = RNG.normal(size=(20, 1, *shape))
    np.testing.assert_array_equal(changed(nn.RandomShift(), x), changed(nn.RandomShift(limit), x))


@pytest.mark.parametrize("axis", [-1, -2])
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_flips(axis, p):
    x = RNG.normal(size=(N, 3, 2, 5))
    found = changed(nn.RandomFlip(p, axis), x)
    is_mirrored = (found == np.flip(x, axis)).all((1, 2, 3))
    assert (is_mirrored | (found == x).all((1, 2, 3))).all()
    assert scipy.stats.binomtest(int(is_mirrored.sum()), N, p).pvalue > LEAST


@pytest.mark.parametrize("size", [1, 2, 3, 20])
def test_erased_squares_are_the_same_in_all_channels(size):
    height, width = 6, 9
    erased = changed(nn.RandomErasing(size), np.ones((N, 2, height, width))) == 0
    assert (erased[:, 0] == erased[:, 1]).all()
    rows, columns = erased[:, 0].any(2), erased[:, 0].any(1)
    assert (erased[:, 0] == rows[:, :, None] & columns[:, None, :]).all()  # a rectangle
    for marks in (rows, columns):
        lengths = marks.sum(1)
        assert lengths.min() == min((size + 1) // 2, marks.shape[1])
        assert lengths.max() == min(size, marks.shape[1])
        assert (np.abs(np.diff(marks.astype(int))).sum(1) <= 2).all()  # in one piece
        assert marks.any(0).all()  # anywhere


def test_nothing_changes_in_prediction_and_draws_follow_the_key():
    x = RNG.normal(size=(8, 1, 6, 6)).astype(np.float32)
    for layer in (nn.RandomShift(), nn.RandomFlip(), nn.RandomErasing(2)):
        still, _ = nn.functional_call(layer, {}, x, training=False)
        np.testing.assert_array_equal(still.numpy(), x)
        np.testing.assert_array_equal(changed(layer, x, (1, 2)), changed(layer, x, (1, 2)))
        assert (changed(layer, x, (1, 2)) != changed(layer, x, (1, 3))).any()


@pytest.mark.parametrize("layer", [nn.RandomShift(), nn.RandomFlip(), nn.RandomErasing(2)])
def test_what_is_no_image(layer):
    with pytest.raises(ShapeError, match=r"expected images of shape \(n, channels, height, width\)"):
        layer(np.ones((2, 3, 4)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.RandomShift(0),
        lambda: nn.RandomShift(1, "edge"),
        lambda: nn.RandomFlip(1.5),
        lambda: nn.RandomFlip(axis=0),
        lambda: nn.RandomErasing(2.5),
    ],
)
def test_wrong_arguments(make):
    with pytest.raises(ValueError, match="must be"):
        make()
