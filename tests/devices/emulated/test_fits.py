"""What a fit on a device costs the host: nothing that grows with the number of steps, but launches."""

import numpy as np
import pytest

from sknet import MLPClassifier
from tests.devices.emulated import counted
from tests.estimators.data import quiet

ONCE_A_BLOCK = ("allocations", "to_device", "to_host", "synchronizations", "fills")


def cost(steps, classes, epochs=2, **params):
    """Fit a network in so many steps an epoch, and return the counts."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((steps * 64, 20)).astype("float32"), rng.integers(0, classes, steps * 64)
    params = {"hidden_layer_sizes": (30, 20), "alpha": 1e-4, "dtype": "float32"} | params
    estimator = MLPClassifier(device="cuda", batch_size=64, max_iter=epochs, random_state=0, **params)
    with quiet(), counted() as counts:
        estimator.fit(X, y)
    return counts


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("params", [{}, {"dropout": 0.2}, {"optimizer": "sgd"}], ids=str)
def test_steps_read_nothing_and_ask_for_no_memory(classes, params, limits):
    limits("seconds of a block of steps", 1e9)  # blocks are as long as memory permits
    cost(4, classes, **params)  # compiles and loads everything
    few, more = cost(8, classes, **params), cost(16, classes, **params)
    assert [getattr(more, name) for name in ONCE_A_BLOCK] == [getattr(few, name) for name in ONCE_A_BLOCK]
    assert more.kernels - few.kernels >= 16


def test_few_rows_of_the_host_wait_once(limits):
    """For the parameters; on the device, for the result and its check, after launches."""
    limits("multiplications of rows predicted on the host", 1 << 20)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((512, 20)).astype("float32"), rng.integers(0, 3, 512)
    with quiet():
        estimator = MLPClassifier((100,), device="cuda", max_iter=2, random_state=0).fit(X, y)
    expected, found = estimator.predict_proba(X), estimator.predict_proba(X[:9])
    np.testing.assert_allclose(found, expected[:9], rtol=1e-5, atol=1e-7)
    with counted() as counts:
        estimator.predict_proba(X[:9])
    nbytes = estimator.model_.memory.flat.nbytes
    assert counts.named() == {"to_host": 1, "to_host_bytes": nbytes, "synchronizations": 1}
