"""Inputs and targets beyond a model's dtype are errors before any training, which say how to mend it."""

import warnings

import numpy as np
import pytest

from sknet import MLPRegressor, Model, nn

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0]


def fits(scale_x, scale_y, dtype):
    """Yield fits of all kinds in a dtype."""
    given, y = X * scale_x, Y * scale_y
    yield lambda: Model(nn.Linear(3, 1), "squared_error", dtype=dtype).fit(given, y, epochs=1)
    yield lambda: Model(nn.Linear(3, 1), "squared_error", dtype=dtype).train([(given, y)])
    yield lambda: MLPRegressor(dtype=dtype, max_iter=2).fit(given, y)
    yield lambda: MLPRegressor(dtype=dtype).partial_fit(given, y)


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("scale", [1e20, 1e30, 1e39, 1e150])
def test_large_targets_in_single_precision(scale, which):
    found = [*fits(1.0, scale, "float32")][which]
    with pytest.raises(
        ValueError, match=r"y has values from -\d.* to \d.*, too large for .*float32"
    ) as caught:
        found()
    assert "scale_target=True" in str(caught.value)
    assert "dtype='float64'" in str(caught.value)


@pytest.mark.parametrize("which", range(4))
def test_large_inputs_in_single_precision(which):
    found = [*fits(1e39, 1.0, "float32")][which]
    with pytest.raises(
        ValueError, match=r"X has values from -\d.* too large for float32.*StandardScaler|too large"
    ):
        found()


def test_squares_beyond_double_precision():
    with pytest.raises(ValueError, match=r"too large for SquaredError\(\) in float64: their power of 2"):
        MLPRegressor(max_iter=2).fit(X, Y * 1e160)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_what_is_within_the_range_is_trained_on(loss):
    scale = {"squared_error": 1e17, "absolute_error": 1e30}[loss]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Model(nn.Linear(3, 1), loss, random_state=0, dtype="float32").fit(X, Y * scale, epochs=2)
    assert np.isfinite(model["loss"]).all()
