"""Random streams that are functions of a counter."""

import copy
import itertools

import numpy as np
import pytest

from sknet.device import philox_uniform, stream_key


def draw(key=(1, 2), step=0, site=0, shape=(1000,), dtype="float64"):
    return philox_uniform(key, step, site, shape, dtype)


def test_the_same_for_the_same_arguments():
    np.testing.assert_array_equal(draw(), draw())
    assert draw(shape=(2, 3)).shape == (2, 3)
    assert draw(shape=()).shape == ()
    assert draw(shape=(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(dtype):
    values = draw(shape=(100_000,), dtype=dtype)
    assert values.dtype == dtype
    assert 0 <= values.min() < 1e-3
    assert 1 - 1e-3 < values.max() < 1
    assert abs(values.mean() - 0.5) < 0.01
    assert abs(values.var() - 1 / 12) < 0.01


def test_independent_of_one_another():
    """No two streams overlap or correlate, whichever of key, step and site they differ in."""
    streams = [
        draw(key, step, site)
        for key, step, site in itertools.product([(1, 2), (2, 1), (0, 2**64 - 1)], [0, 1, 2**40], [0, 1])
    ]
    correlation = np.corrcoef(streams) - np.eye(len(streams))
    assert abs(correlation).max() < 0.2
    chance = 2**16 * (1 - (1 - 2**-16) ** (1000 * len(streams)))
    assert abs(len(np.unique(np.concatenate(streams))) - chance) < 300  # seven deviations


def test_a_shorter_draw_is_a_prefix_of_a_longer_one():
    np.testing.assert_array_equal(draw(shape=(10,)), draw()[:10])


def test_numpys_philox_agrees():
    bits = np.random.Philox(key=np.array([1, 2], np.uint64), counter=np.array([0, 0, 5, 7], np.uint64))
    expected = np.random.Generator(bits).integers(0, 2**16, 1000, np.uint16)
    np.testing.assert_array_equal(draw(step=7, site=5) * 2**16, expected)


@pytest.mark.parametrize(
    "make", [lambda: np.random.RandomState(3), lambda: np.random.RandomState(np.random.PCG64(3))]
)
def test_a_key_is_derived_without_advancing_the_state(make):
    state = make()
    before = copy.deepcopy(state)
    key = stream_key(state)
    assert key == stream_key(state) == stream_key(make())
    assert all(0 <= part < 2**64 for part in key)
    assert state.randint(2**31) == before.randint(2**31)
    assert stream_key(state) != key  # the state has moved on
