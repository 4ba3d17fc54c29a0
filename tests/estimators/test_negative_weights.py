"""Sample weights below zero: rows that are subtracted, compared with fits without the rows they cancel."""

import numpy as np
import pytest
import scipy.optimize

from sknet import MLPClassifier, MLPRegressor, Model, TabularClassifier, nn
from sknet.optim import SGD

NEGATIVE = "negative weights, and the loss falls without bound"
pytestmark = [
    pytest.mark.filterwarnings("ignore:.* negative weights"),
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Z = X @ [1.0, -2.0, 0.5] + RNG.normal(size=200)
WEIGHT = np.where(RNG.random(200) < 0.2, -0.5, 1.0)
LINEAR = {"hidden_layer_sizes": (), "optimizer": "lbfgs", "alpha": 0.0, "max_iter": 500, "tol": 1e-9}


@pytest.mark.parametrize("scale_target", [False, True])
def test_linear_regression_has_the_solution_of_the_normal_equations(scale_target):
    net = MLPRegressor(**LINEAR, scale_target=scale_target, random_state=0, dtype="float64")
    net.fit(X, Z, sample_weight=WEIGHT)
    design = np.c_[X, np.ones(len(X))]
    expected = np.linalg.solve((design.T * WEIGHT) @ design, (design.T * WEIGHT) @ Z)
    np.testing.assert_allclose(net.predict(X), design @ expected, rtol=1e-5, atol=1e-5)


def test_logistic_regression_has_the_minimum_that_scipy_finds():
    y = (Z > 0).astype(int)
    net = MLPClassifier(**LINEAR, random_state=0, dtype="float64").fit(X, y, sample_weight=WEIGHT)
    design, signs = np.c_[X, np.ones(len(X))], 2.0 * y - 1

    def loss(b):
        return np.sum(WEIGHT * np.logaddexp(0, -signs * (design @ b)))

    expected = scipy.optimize.minimize(loss, np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(net.decision_function(X), design @ expected, rtol=1e-3, atol=1e-3)


def test_rows_cancel():
    extra, target = RNG.normal(size=(50, 3)), RNG.normal(size=50)
    X_all = np.concatenate([X, extra, extra])
    z_all = np.concatenate([Z, target, target])
    weight = np.concatenate([np.ones(200), np.ones(50), -np.ones(50)])
    options = LINEAR | {"scale_inputs": False, "dtype": "float64", "random_state": 0}
    found = MLPRegressor(**options).fit(X_all, z_all, sample_weight=weight).predict(X)
    np.testing.assert_allclose(found, MLPRegressor(**options).fit(X, Z).predict(X), rtol=1e-4, atol=1e-4)


def test_step_of_a_batch_whose_weights_have_a_negative_sum():
    x = np.array([[1.0], [2.0], [3.0], [4.0]])
    y, weight = np.array([1.0, 0.0, 2.0, 1.0]), np.array([2.0, 1.0, 0.5, -2.0])
    model = Model(nn.Sequential(nn.Linear(1, 1, bias=False)), "squared_error", SGD(lr=0.1), dtype="float64")
    [coefficient] = [p for _, p in model.module.named_parameters()]
    coefficient.data[...] = b = 0.3
    model.fit(x, y, weight, epochs=1, batch_size=2, shuffle=False)
    for rows in (slice(0, 2), slice(2, 4)):
        gradient = weight[rows] * (x[rows, 0] * b - y[rows]) * x[rows, 0]
        b -= 0.1 * gradient.sum() / np.abs(weight[rows]).sum()
    np.testing.assert_allclose(coefficient.numpy(), [[b]], rtol=1e-12)


def test_all_estimators_learn():
    y = (X[:, 0] > 0).astype(int)
    network = MLPClassifier((8,), max_iter=30, lr=0.01, random_state=0)
    for clf in (network, TabularClassifier(budget=0.05, random_state=0)):
        assert clf.fit(X, y, sample_weight=WEIGHT).score(X, y) > 0.8
    half = {"X_val": X[:100], "y_val": y[:100], "sample_weight_val": WEIGHT[:100]}
    network.set_params(early_stopping=True).fit(X, y, sample_weight=WEIGHT, **half)
    assert network.score(X, y) > 0.8
    assert np.isfinite(network.validation_scores_).all()


@pytest.mark.filterwarnings("default:.* negative weights")
def test_warning_and_error():
    with pytest.warns(UserWarning, match=NEGATIVE):
        MLPRegressor((2,), max_iter=1).fit(X, Z, sample_weight=WEIGHT)
    model = Model(nn.Linear(3, 1), "squared_error", random_state=0)
    with pytest.warns(UserWarning, match=NEGATIVE):
        model.step(X, Z, sample_weight=WEIGHT)
    for fit in (MLPRegressor((2,), max_iter=1).fit, model.fit):
        with pytest.raises(ValueError, match=r"sample_weight must have a positive sum, got -"):
            fit(X, Z, -np.abs(WEIGHT))
