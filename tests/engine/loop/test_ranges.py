"""Inputs and targets beyond a model's dtype are errors before any training, which say how to mend it."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPRegressor, Model, nn

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X[:, 0]


def fits(scale_x, scale_y, dtype):
    """Yield fits of all kinds in a dtype."""
    given, y = X * scale_x, Y * scale_y
    raw = {"scale_inputs": False, "scale_target": False, "dtype": dtype}
    yield lambda: Model(nn.Linear(3, 1), "squared_error", dtype=dtype).fit(given, y, epochs=1)
    yield lambda: Model(nn.Linear(3, 1), "squared_error", dtype=dtype).train([(given, y)])
    yield lambda: Model(nn.Linear(3, 1), "squared_error", dtype=dtype).step(given, y[:, None])
    yield lambda: Model(nn.Linear(3, 1), "squared_error", "lbfgs", dtype=dtype).fit(given, y, epochs=1)
    yield lambda: MLPRegressor(**raw, optimizer="lbfgs", max_iter=2).fit(given, y)
    yield lambda: MLPRegressor(**raw, max_iter=2).fit(given, y)
    yield lambda: MLPRegressor(**raw).partial_fit(given, y)


@pytest.mark.parametrize("which", range(7))
@pytest.mark.parametrize("scale", [1e20, 1e30, 1e39, 1e150])
def test_large_targets_in_single_precision(scale, which):
    found = [*fits(1.0, scale, "float32")][which]
    with pytest.raises(
        ValueError, match=r"y has values from -\d.* to \d.*, too large for .*float32"
    ) as caught:
        found()
    assert "scale_target=True" in str(caught.value)
    assert "dtype='float64'" in str(caught.value)


@pytest.mark.parametrize("which", range(7))
@pytest.mark.parametrize(("dtype", "scale"), [("float32", 1e-9), ("float32", 1e-30), ("float64", 1e-30)])
def test_small_targets_warn(dtype, scale, which):
    # float32 rounds an output of 1 by 1.2e-7: a network of such outputs cannot tell these targets apart.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.warns(UserWarning, match=r"y has values from -\d.* too small for a network") as caught:
            [*fits(1.0, scale, dtype)][which]()
    said = next(str(each.message) for each in caught if "too small" in str(each.message))
    assert "Multiply y by a constant, or in estimators of networks set scale_target=True" in said
    assert ("dtype='float64'" in said) == (dtype == "float32")


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
def test_small_targets_are_learned_with_scale_target(optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = MLPRegressor((8,), optimizer=optimizer, scale_target=True, max_iter=300, random_state=0)
        assert model.fit(X, Y * 1e-30).score(X, Y * 1e-30) > 0.5


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("power", [-300, 300])
def test_standardized_fits_are_the_same_in_any_units(optimizer, power):
    # Multiplied by powers of 2, numbers have the same digits.
    unit, found = 2.0**power, []
    for x, y in ((X, Y), (X * unit, Y), (X, Y * unit), (X * unit, Y * unit)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MLPRegressor((8,), optimizer=optimizer, max_iter=5, random_state=0).fit(x, y)
        found.append(model.predict(x) / (y[0] / Y[0]))
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("kind", ["step", "loss"])
def test_large_weights_of_a_step_raise(kind):
    model = Model(nn.Linear(3, 1), random_state=0)
    weight, output = np.full(60, 1e39), model(X)
    found = {"step": partial(model.step, X), "loss": partial(model.loss, output)}[kind]
    with pytest.raises(ValueError, match=r"sample_weight has values .* too large for float32.* Divide the w"):
        found(Y[:, None], weight)


def test_large_inputs_of_the_functional_form_raise():
    model = Model(nn.Linear(3, 1), random_state=0)
    with pytest.raises(ValueError, match=r"X has values .* too large for float32"):
        model(X * 1e39)
    with pytest.raises(ValueError, match=r"y has values .* too large for float32"):
        model.loss(model(X), Y[:, None] * 1e39)


@pytest.mark.parametrize("which", range(7))
def test_large_inputs_in_single_precision(which):
    found = [*fits(1e39, 1.0, "float32")][which]
    with pytest.raises(
        ValueError, match=r"X has values from -\d.* too large for float32.*StandardScaler|too large"
    ):
        found()


def test_squares_beyond_double_precision():
    with pytest.raises(ValueError, match=r"too large for SquaredError\(\) in float64: their power of 2"):
        MLPRegressor(scale_target=False, max_iter=2).fit(X, Y * 1e160)


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_what_is_within_the_range_is_trained_on(loss):
    scale = {"squared_error": 1e17, "absolute_error": 1e30}[loss]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Model(nn.Linear(3, 1), loss, random_state=0, dtype="float32").fit(X, Y * scale, epochs=2)
    assert np.isfinite(model["loss"]).all()
