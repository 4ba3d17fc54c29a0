"""The regression losses: scikit-learn's and SciPy's values, their kinks, their targets."""

import numpy as np
import pytest
import scipy.special
from sklearn import metrics

from sknet.exceptions import ShapeError
from sknet.losses import AbsoluteError, Huber, LogCosh, Quantile, SquaredError
from tests.losses.helpers import value_and_gradient


def gradient_at(loss, z, y):
    return value_and_gradient(loss, np.array(z), np.array(y))[1]


@pytest.fixture
def outputs():
    return np.random.default_rng(0).normal(size=(40, 3)) * 3


@pytest.fixture
def targets():
    return np.random.default_rng(1).normal(size=(40, 3)) * 3


@pytest.mark.parametrize(
    ("loss", "metric"),
    [
        (SquaredError(), lambda y, z: metrics.mean_squared_error(y, z) / 2),
        (AbsoluteError(), metrics.mean_absolute_error),
        (Quantile(0.2), lambda y, z: metrics.mean_pinball_loss(y, z, alpha=0.2)),
        (Huber(2.0), lambda y, z: scipy.special.huber(2.0, y - z).mean()),
        (LogCosh(), lambda y, z: np.log(np.cosh(y - z)).mean()),
    ],
    ids=["squared_error", "absolute_error", "quantile", "huber", "log_cosh"],
)
def test_values_are_the_sum_over_outputs_of_a_known_metric(loss, metric, outputs, targets):
    expected = sum(metric(targets[:, k], outputs[:, k]) for k in range(3))
    assert loss.values(outputs, targets).numpy().mean() == pytest.approx(expected, rel=1e-13)
    np.testing.assert_array_equal(loss.predict(outputs).numpy(), outputs)


@pytest.mark.parametrize(
    ("loss", "at_the_kink"),
    [(AbsoluteError(), 0.0), (Quantile(0.3), -0.3), (SquaredError(), 0.0), (Huber(), 0.0), (LogCosh(), 0.0)],
    ids=str,
)
def test_gradient_where_output_and_target_are_equal(loss, at_the_kink):
    np.testing.assert_array_equal(gradient_at(loss, [[1.5]], [1.5]), [[at_the_kink]])


def test_huber_is_smooth_where_it_changes():
    np.testing.assert_allclose(
        gradient_at(Huber(0.5), [[0.5], [-0.5], [0.6], [-9.0]], np.zeros(4)).ravel(), [0.5, -0.5, 0.5, -0.5]
    )


@pytest.mark.parametrize("loss", [AbsoluteError(), Huber(), Quantile(0.3), LogCosh()], ids=str)
def test_large_errors_stay_exact(loss):
    z = np.array([[1e30], [-1e30]], np.float32)
    values = loss.values(z, np.zeros(2)).numpy()
    slopes = np.abs(gradient_at(loss, z, np.zeros(2)).ravel())
    np.testing.assert_allclose(values, 1e30 * slopes, rtol=1e-6)


@pytest.mark.parametrize("loss", [Huber(np.float64(0.5)), Quantile(np.float64(0.5))], ids=str)
def test_numpy_scalars_do_not_raise_the_precision(loss):
    assert loss.values(np.ones((2, 1), np.float32), np.zeros(2)).dtype == np.float32


def test_shape_error_says_what_is_expected():
    message = (
        r"SquaredError got an output of shape \(3, 1\) and a target of shape \(1, 3\); for this output the "
        r"target must have shape \(3,\) or \(3, 1\)"
    )
    with pytest.raises(ShapeError, match=message):
        SquaredError().values(np.zeros((3, 1)), np.zeros((1, 3)))
    with pytest.raises(ShapeError, match=r"must have shape \(3, 2\)\. Nothing"):
        SquaredError().values(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(ShapeError, match="must have shape one row for each sample"):
        SquaredError().values(np.float64(0.0), np.float64(0.0))
