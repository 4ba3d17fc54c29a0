"""Small models and batches for the tests of the engine."""

from typing import Any

import numpy as np

from sknet import Model, nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4))
CLASSES = np.arange(12) % 3
REAL = RNG.normal(size=(12, 2))
WEIGHT = RNG.uniform(0.5, 2.0, 12)


@nn.init.version(1)  # no bias is zero: a difference from it has a scale
def network(n_outputs: int = 3, *, noisy: bool = False) -> nn.Sequential:
    """Return a small network; a noisy one has layers that draw numbers or keep statistics."""
    middle = [nn.BatchNorm(8), nn.Tanh(), nn.Dropout(0.3)] if noisy else [nn.Tanh()]
    return nn.Sequential(nn.Linear(4, 8), *middle, nn.Linear(8, n_outputs))


def classifier(*, noisy: bool = False, **params: Any) -> Model:
    """Return a model for three classes."""
    return Model(network(3, noisy=noisy), **{"loss": "log_loss", "random_state": 0} | params)


def assert_same(a: Any, b: Any) -> None:
    """Assert that two mappings of arrays are equal to the last bit."""
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(b[name]), err_msg=name)


def assert_same_state(a: Any, b: Any) -> None:
    """Assert that two states are equal to the last bit."""
    assert a.progress == b.progress
    assert a.optimizer.count == b.optimizer.count
    assert_same(a.parameters, b.parameters)
    assert_same(a.buffers, b.buffers)
    assert_same(a.optimizer.slots, b.optimizer.slots)
