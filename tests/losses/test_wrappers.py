"""Losses around losses: of members, columns, standardized targets and offsets, against NumPy."""

import pickle

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

import sknet
from sknet import ops
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import Focal, GaussianNLL, Hinge, LogLoss, Quantile, SquaredError
from sknet.losses._wrappers import Averaged, Columns, Standardized, WithOffset
from tests.losses.helpers import value_and_gradient

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


@pytest.mark.parametrize("loss", [LogLoss(label_smoothing=0.1), Focal(), Hinge()], ids=str)
def test_values_and_gradients_are_those_of_each_column(loss):
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(7, 9)), np.stack([rng.integers(0, n, 7) for n in (3, 2, 4)], axis=1)
    values, gradient = value_and_gradient(Columns(loss, (3, 2, 4)), z, y)
    parts = [value_and_gradient(loss, part, y[:, k]) for k, part in enumerate(np.split(z, [3, 5], axis=1))]
    np.testing.assert_allclose(values, sum(v for v, _ in parts), rtol=1e-14)
    np.testing.assert_allclose(gradient, np.concatenate([g for _, g in parts], axis=1), rtol=1e-14)


def test_shapes_and_dtypes_that_do_not_fit():
    loss = Columns(LogLoss(), (3, 2))
    with pytest.raises(
        ShapeError, match=r"must have shape \(n_samples, 2\), and the output \(n_samples, 5\)"
    ):
        loss.values(np.zeros((4, 4)), np.zeros((4, 2), int))
    with pytest.raises(DtypeError, match="Columns got targets of dtype float64"):
        loss.values(np.zeros((4, 5)), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"y\[:, 1\] must be a class, an integer from 0 to 1"):
        loss.check_target(np.array([[2, 2]]))


def test_loss_splits_targets():
    loss = WithOffset(Columns(sknet.losses.LogLoss(), (2, 3)), 2, (0.0,) * 5, (1.0,) * 5)
    y, offset, z = RNG.integers(2, size=(6, 2)), RNG.normal(size=(6, 5)), RNG.normal(size=(6, 5))
    found = loss.values(z, loss.joined(y, offset)).numpy()
    np.testing.assert_allclose(found, loss.loss.values(z + offset, y).numpy())
    with pytest.raises(ValueError, match="targets and offsets"):
        loss.values(z, y)


def test_predictions_of_a_standardized_loss_are_in_units_of_the_targets():
    loss = Standardized(Quantile([0.1, 0.5, 0.9]), (1.0, 10.0), (2.0, 5.0))
    z = np.random.default_rng(0).normal(size=(4, 6))
    inner = loss.loss
    scale, mean = np.array([2.0, 5.0]), np.array([1.0, 10.0])
    for name, more in (("predict", ()), ("predict_quantiles", ()), ("predict_interval", (0.8,))):
        expected = getattr(inner, name)(z, *more).numpy() * scale + mean
        np.testing.assert_allclose(getattr(loss, name)(z, *more).numpy(), expected, rtol=1e-14)
    assert not hasattr(loss, "predict_std")
    assert not hasattr(Standardized(SquaredError()), "predict_quantiles")
    assert pickle.loads(pickle.dumps(loss)) == loss == clone(loss)
    assert ops.astype(loss.predict(z.astype("float32")), "float32").dtype == np.float32
