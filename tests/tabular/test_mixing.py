"""Mixing weights, compared with a grid search by scikit-learn's metrics."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, softmax
from sklearn.metrics import log_loss

from sknet import TabularClassifier
from sknet.losses import LogLoss, SquaredError
from sknet.tabular._predicting import mixed

rng = np.random.default_rng(0)


def best(badness):
    found = [badness(i / 10) for i in range(11)]
    return found.index(min(found)) / 10


def test_numbers_are_mixed_by_squared_error():
    y = rng.normal(size=(200, 1))
    outputs = {"smooth": y + rng.normal(size=y.shape), "sharp": y + 0.7 * rng.normal(size=y.shape)}
    mix = mixed(outputs, y, None, SquaredError().for_task("regression"), by_error=False)
    expected = best(lambda w: np.mean(((1 - w) * outputs["smooth"] + w * outputs["sharp"] - y) ** 2))
    assert mix.weights == pytest.approx({"smooth": 1 - expected, "sharp": expected})
    assert 0 < expected < 1
    assert mix.temperatures == {"smooth": 1.0, "sharp": 1.0}
    w = mix.weights["sharp"]
    np.testing.assert_allclose(mix.of(outputs), (1 - w) * outputs["smooth"] + w * outputs["sharp"])


def test_each_kind_has_its_temperature():
    p = rng.random(2000)
    y = (rng.random(2000) < p).astype(float).reshape(-1, 1)
    logits = np.log(p / (1 - p)).reshape(-1, 1)
    outputs = {"smooth": 0.5 * logits, "sharp": 3 * logits + 0.1 * rng.normal(size=logits.shape)}
    mix = mixed(outputs, y, None, LogLoss().for_task("binary"), by_error=False)
    for kind, output in outputs.items():
        found = minimize_scalar(
            lambda t, z=output: log_loss(y, expit(z / t)), bounds=(0.05, 20), method="bounded"
        )
        assert mix.temperatures[kind] == pytest.approx(found.x, rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_are_mixed_by_their_errors(weighted):
    y = rng.integers(0, 4, 400)
    weight = rng.random(400) if weighted else None
    right = np.eye(4)[y]
    outputs = {
        kind: 2 * right + scale * rng.normal(size=right.shape)
        for kind, scale in (("smooth", 2.0), ("sharp", 1.6))
    }
    mix = mixed(outputs, y, weight, LogLoss().for_task("multiclass"), by_error=True)

    def badness(w):
        z = (1 - w) * outputs["smooth"] / mix.temperatures["smooth"]
        z = z + w * outputs["sharp"] / mix.temperatures["sharp"]
        error = np.average(z.argmax(axis=1) != y, weights=weight)
        return error, log_loss(y, softmax(z, axis=1), sample_weight=weight)

    assert mix.weights["sharp"] == pytest.approx(best(badness))


def test_one_kind_alone_is_all():
    y = rng.normal(size=(20, 1))
    mix = mixed({"sharp": y}, y, None, SquaredError().for_task("regression"), by_error=False)
    assert mix.weights == {"sharp": 1.0}


@pytest.mark.parametrize("n_rows", [3, 4, 12])
def test_few_rows_leave_numbers_that_vanish_unmentioned(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 2))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # so few rows tell no temperature
        clf = TabularClassifier(budget=0.05, n_folds=2, random_state=0).fit(X, np.arange(n_rows) % 2)
        assert np.isfinite(clf.predict_proba(X)).all()
