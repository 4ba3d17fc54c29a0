"""The likelihoods: scikit-learn's deviances, their targets, and a mean with its variance."""

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics

from sknet.exceptions import ShapeError
from sknet.losses import (
    AbsoluteError,
    Gamma,
    GaussianNLL,
    Huber,
    LogCosh,
    Poisson,
    Quantile,
    SquaredError,
    Tweedie,
)
from tests.losses.helpers import value_and_gradient

RNG = np.random.default_rng(0)
OUTPUTS = 2 * RNG.normal(size=(40, 3))
COUNTS = RNG.poisson(2.0, size=OUTPUTS.shape).astype(float)


@pytest.mark.parametrize(
    ("loss", "power", "y"),
    [
        (Poisson(), 1, COUNTS),
        (Gamma(), 2, COUNTS + 0.5),
        *((Tweedie(power), power, COUNTS) for power in (1, 1.2, 1.5, 1.9)),
        *((Tweedie(power), power, COUNTS + 0.5) for power in (2, 2.5, 3)),
    ],
    ids=str,
)
def test_values_are_half_the_deviance(loss, power, y):
    mean = loss.predict(OUTPUTS).numpy()
    np.testing.assert_allclose(mean, np.exp(OUTPUTS))
    expected = sum(metrics.mean_tweedie_deviance(y[:, k], mean[:, k], power=power) for k in range(3)) / 2
    assert loss.values(OUTPUTS, y).numpy().mean() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", [Poisson(), Gamma(), Tweedie(), Tweedie(2.5)], ids=str)
def test_nothing_is_lost_where_the_mean_is_the_target(loss):
    y = np.float32([0.5, 1.0, 7.0])
    values, gradient = value_and_gradient(loss, np.log(y)[:, None], y)
    np.testing.assert_allclose(values, 0, atol=3e-6)
    np.testing.assert_allclose(gradient, 0, atol=3e-6)


def test_gamma_keeps_the_digits_of_small_errors():
    values = Gamma().values([[1e-6]], [1.0]).numpy()
    np.testing.assert_allclose(values, 0.5e-12, rtol=1e-3)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (Poisson(), [0.0, -0.5], r"y must be 0 or more for Poisson, which is .*, but y\[1\] is -0.5"),
        (Gamma(), [1.0, 0.0], r"y must be above 0 for Gamma, which is .*, but y\[1\] is 0.0"),
        (Tweedie(), [0.0, -1.0], r"y must be 0 or more for Tweedie\(\), whose power is below 2, but"),
        (Tweedie(2), [0.0, 1.0], r"y must be above 0 for Tweedie\(power=2\), whose power is 2 or more, but"),
    ],
)
def test_targets_outside_the_domain(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check_target(np.array(y))


def test_targets_at_the_edge_of_the_domain():
    Poisson().check_target(np.array([0.0, 0.5, 3.0]))
    Tweedie(1.99).check_target(np.array([0, 3]))
    Gamma().check_target(np.array([1e-300]))


def test_only_sums_of_likelihoods_are_reported_as_sums():
    likelihoods = (Poisson, Gamma, Tweedie, GaussianNLL)
    assert not any(loss.mean_over_outputs for loss in likelihoods)
    assert all(loss.mean_over_outputs for loss in (SquaredError, AbsoluteError, Huber, Quantile, LogCosh))


class TestGaussian:
    def test_is_the_likelihood_but_for_a_constant(self):
        z, y = RNG.normal(size=(20, 6)), RNG.normal(size=(20, 3))
        loss = GaussianNLL()
        mean, std = loss.predict(z).numpy(), loss.predict_std(z).numpy()
        expected = -scipy.stats.norm(mean, std).logpdf(y).sum(axis=1) - 1.5 * np.log(2 * np.pi)
        np.testing.assert_allclose(loss.values(z, y).numpy(), expected, rtol=1e-12)

    def test_a_target_without_its_axis(self):
        z, y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
        values = GaussianNLL().values(z, y).numpy()
        np.testing.assert_array_equal(values, GaussianNLL().values(z, y[:, None]).numpy())

    @pytest.mark.parametrize(
        ("output", "target", "expected"),
        [
            ((4, 2), (4, 2), r"\(4, 1\) or \(4,\)"),
            ((4, 4), (4,), r"\(4, 2\)\. Nothing"),
            ((4, 3), (4, 1), r"\(n_samples, n_targets\), half as wide as the output"),
            ((4,), (4,), r"\(n_samples, n_targets\), half as wide as the output"),
        ],
    )
    def test_shapes(self, output, target, expected):
        with pytest.raises(
            ShapeError, match=rf"GaussianNLL got an output of shape .* must have shape {expected}"
        ):
            GaussianNLL().values(np.zeros(output), np.zeros(target))
