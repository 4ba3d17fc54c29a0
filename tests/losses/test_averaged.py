"""The loss of an ensemble, against NumPy."""

import numpy as np
import pytest
from scipy.special import logsumexp

from sknet.exceptions import ShapeError
from sknet.losses import GaussianNLL, Hinge, LogLoss, Quantile, SquaredError
from sknet.losses._wrappers import Averaged, Columns, Standardized

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(7, 6))


def parts(count):
    return np.split(Z, count, axis=1)


@pytest.mark.parametrize(
    ("loss", "count", "target"),
    [
        (SquaredError(), 3, RNG.normal(size=(7, 2))),
        (LogLoss(), 2, RNG.integers(3, size=7)),
        (LogLoss(), 6, RNG.integers(2, size=7).astype(float)),
        (GaussianNLL(), 3, RNG.normal(size=7)),
        (Columns(LogLoss(), (2, 1)), 2, np.stack([RNG.integers(2, size=7), np.zeros(7, int)], axis=1)),
    ],
    ids=str,
)
def test_values_and_predictions_are_means_of_the_members(loss, count, target):
    averaged = Averaged([loss] * count)
    found = averaged.values(Z, target).numpy()
    np.testing.assert_allclose(found, np.mean([loss.values(z, target).numpy() for z in parts(count)], axis=0))
    expected = np.mean([loss.predict(z).numpy() for z in parts(count)], axis=0)
    np.testing.assert_array_equal(averaged.predict(Z).numpy(), expected)
    assert averaged.tasks == loss.tasks
    averaged.check_target(target)
    with pytest.raises((ShapeError, ValueError, IndexError)):
        averaged.values(Z, np.zeros((7, 9)))


def test_each_member_has_units_of_its_own():
    losses = [Standardized(SquaredError(), [m], [s]) for m, s in ((1.0, 2.0), (-3.0, 0.5))]
    averaged, z = Averaged(losses), Z[:, :2]
    expected = (z[:, :1] * 2 + 1 + (z[:, 1:] * 0.5 - 3)) / 2
    np.testing.assert_allclose(averaged.predict(z).numpy(), expected)
    y = np.zeros((7, 1))
    reported = np.mean(
        [loss.reporting.values(z[:, m : m + 1], y).numpy() for m, loss in enumerate(losses)], axis=0
    )
    np.testing.assert_allclose(averaged.reporting.values(z, y).numpy(), reported)


def test_logarithms_are_finite_where_probabilities_underflow():
    z = np.array([[-2000.0, 0.0, -1000.0, 0.0]])
    averaged = Averaged([LogLoss(), LogLoss()])
    logs = np.stack([part - logsumexp(part, axis=1, keepdims=True) for part in np.split(z, 2, axis=1)])
    np.testing.assert_allclose(averaged.log_predict(z).numpy(), logsumexp(logs, axis=0) - np.log(2))


@pytest.mark.parametrize("task", ["binary", "multilabel"])
def test_log_odds_are_those_of_the_mean_probability(task):
    averaged = Averaged([LogLoss(multilabel=task == "multilabel")] * (6 if task == "binary" else 2))
    p = averaged.predict(Z).numpy()
    np.testing.assert_allclose(averaged.deciding(task)(Z).numpy(), np.log(p / (1 - p)), rtol=1e-9)


def test_distances_are_averaged():
    averaged = Averaged([Hinge()] * 2)
    np.testing.assert_allclose(averaged.deciding("multiclass")(Z).numpy(), (Z[:, :3] + Z[:, 3:]) / 2)


def test_temperatures_are_those_of_each():
    found = Averaged([LogLoss()] * 2).tempered(Z, (2.0, 4.0)).numpy()
    np.testing.assert_allclose(found, np.concatenate([Z[:, :3] / 2, Z[:, 3:] / 4], axis=1))


def test_deviations_are_those_of_the_mixture():
    averaged = Averaged([GaussianNLL()] * 3)
    means = np.stack([GaussianNLL().predict(z).numpy() for z in parts(3)])
    own = np.stack([GaussianNLL().predict_std(z).numpy() for z in parts(3)])
    rows = RNG.integers(3, size=200_000)
    drawn = means[rows, :, 0] + own[rows, :, 0] * RNG.standard_normal((200_000, 1))
    np.testing.assert_allclose(averaged.predict_std(Z).numpy()[:, 0], drawn.std(axis=0), rtol=0.02)


def test_methods_are_those_of_the_loss():
    quantiles = Averaged([Quantile([0.1, 0.5, 0.9])] * 2)
    expected = np.mean([Quantile([0.1, 0.5, 0.9]).predict_quantiles(z).numpy() for z in parts(2)], axis=0)
    np.testing.assert_array_equal(quantiles.predict_quantiles(Z).numpy(), expected)
    assert not hasattr(Averaged([SquaredError()]), "predict_quantiles")
    with pytest.raises(AttributeError, match="'Averaged' object has no attribute 'nothing'"):
        quantiles.nothing  # noqa: B018
