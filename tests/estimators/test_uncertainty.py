"""Quantiles, intervals and standard deviations: their meaning, shapes, and errors."""

import copy
import pickle

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import QuantileRegressor
from sklearn.metrics import mean_pinball_loss

import sknet
from sknet import nn
from sknet.exceptions import InvalidParameterError
from sknet.losses import GaussianNLL, Quantile
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, quiet, same_bits

X, Y = TABLES["regression"]
_, MANY = TABLES["multioutput"]
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]


def fitted(y=Y, weight=None, **params):
    with quiet():
        return estimator_for("regression", **{"dtype": "float64", "max_iter": 30} | params).fit(X, y, weight)


def noisy(n=4000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 1))
    scale = np.exp(X[:, 0])
    return X, 2 * X[:, 0] + scale * rng.standard_normal(n), scale


class TestQuantiles:
    def test_each_is_the_quantile_of_the_targets(self):
        X, y, scale = noisy()
        settings = {"optimizer": sknet.optim.Adam(0.01), "max_iter": 60, "random_state": 0}
        with quiet():
            regressor = sknet.MLPRegressor((32,), loss=Quantile(LEVELS), **settings).fit(X, y)
        found = regressor.predict_quantiles(X)
        assert found.shape == (len(X), 5)
        for k, level in enumerate(LEVELS):
            assert np.mean(y < found[:, k]) == pytest.approx(level, abs=0.03)
            expected = 2 * X[:, 0] + scale * stats.norm.ppf(level)
            assert np.abs(found[:, k] - expected).mean() < 0.25
        np.testing.assert_array_equal(regressor.predict(X), found[:, 2])
        for coverage in (0.5, 0.9):
            low, high = regressor.predict_interval(X, coverage).T
            assert np.mean((low <= y) & (y <= high)) == pytest.approx(coverage, abs=0.04)

    def test_linear_quantiles_are_scikit_learns(self):
        settings = {
            "hidden_layer_sizes": (),
            "optimizer": "lbfgs",
            "alpha": 0.0,
            "max_iter": 5000,
            "tol": 1e-10,
        }
        y = Y + np.random.default_rng(0).normal(size=len(Y))
        ours = fitted(y, loss=Quantile([0.2, 0.5]), **settings)
        theirs = QuantileRegressor(quantile=0.5, alpha=0.0).fit(X, y)
        mine, other = (mean_pinball_loss(y, e.predict(X), alpha=0.5) for e in (ours, theirs))
        assert other <= mine < 1.02 * other

    @pytest.mark.parametrize("y", [Y, MANY], ids=["one", "several"])
    def test_they_never_cross_whatever_the_weights(self, y):
        regressor = fitted(y, loss=Quantile(LEVELS), max_iter=1)
        rng = np.random.default_rng(0)
        for scale in (1e-3, 1.0, 1e3, 1e12):
            regressor.coefs_ = [scale * rng.normal(size=w.shape) for w in regressor.coefs_]
            for predictor in (regressor, regressor.freeze()):
                found = predictor.predict_quantiles(1e3 * X)
                assert (np.diff(found, axis=1) >= 0).all()
        assert found.shape == (len(X), 5, *y.shape[1:])

    @pytest.mark.parametrize(
        "levels", [[0.1, 0.5, 0.9], [0.6, 0.7], [0.2, 0.8], [0.5], [1e-9, 0.4, 1 - 1e-9]]
    )
    def test_predict_is_the_level_nearest_to_the_median(self, levels):
        regressor = fitted(MANY, loss=Quantile(levels))
        nearest = min(range(len(levels)), key=lambda k: (round(abs(levels[k] - 0.5), 9), k))
        np.testing.assert_array_equal(regressor.predict(X), regressor.predict_quantiles(X)[:, nearest])
        assert regressor.n_outputs_ == 3 * len(levels)

    @pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weights"])
    @pytest.mark.parametrize("y", [Y, MANY], ids=["one", "several"])
    def test_the_loss_is_the_mean_of_pinball_losses(self, y, weight):
        regressor = fitted(y, weight, loss=Quantile([0.1, 0.4, 0.9]), optimizer="lbfgs", alpha=0.0)
        found = regressor.predict_quantiles(X).reshape(len(X), 3, -1)
        expected = np.mean([
            mean_pinball_loss(y.reshape(len(y), -1), found[:, k], sample_weight=weight, alpha=level)
            for k, level in enumerate([0.1, 0.4, 0.9])
        ])  # fmt: skip
        assert regressor.loss_ == pytest.approx(expected, rel=1e-9)

    def test_a_list_of_one_level_is_that_level(self):
        assert same_bits(fitted(loss=Quantile(0.3)), fitted(loss=Quantile([0.3])))
        one = fitted(loss=Quantile(0.3))
        np.testing.assert_array_equal(one.predict_quantiles(X), one.predict(X)[:, None])

    def test_grids_reach_the_levels_and_copies_keep_them(self):
        regressor = fitted(loss="quantile").set_params(loss__quantile=[0.1, 0.9])
        assert clone(regressor).loss == Quantile([0.1, 0.9])
        with quiet():
            regressor.fit(X, Y)
        for other in (copy.deepcopy(regressor), pickle.loads(pickle.dumps(regressor))):
            np.testing.assert_array_equal(other.predict_quantiles(X), regressor.predict_quantiles(X))
        part = estimator_for("regression", loss=Quantile([0.1, 0.9])).partial_fit(X, Y).partial_fit(X, Y)
        assert part.predict_interval(X).shape == (len(X), 2)
        with pytest.raises(ValueError, match=r"needs 4 output\(s\), and the network that was fitted has 2"):
            part.set_params(loss=Quantile([0.1, 0.5, 0.6, 0.9])).partial_fit(X, Y)

    @pytest.mark.parametrize(
        "levels", [[], [0.5, 0.1], [0.1, 0.1], [0.0, 0.5], [0.5, 1.0], [[0.1, 0.5]], ["a", "b"], [1, 2]]
    )
    def test_invalid_levels(self, levels):
        with pytest.raises(
            InvalidParameterError, match=r"must be a number between 0 and 1, or several in incr"
        ):
            fitted(loss=Quantile(levels))

    def test_intervals_between_other_levels_raise(self):
        regressor = fitted(loss=Quantile([0.1, 0.5, 0.9]))
        with pytest.raises(
            ValueError, match=r"0\.9 is between the quantiles 0\.05 and 0\.95, and this network has"
        ):
            regressor.predict_interval(X, coverage=0.9)
        for predictor in (regressor, regressor.freeze()):
            for coverage in (0, 1, -0.1, 1.5, "wide", np.nan):
                with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
                    predictor.predict_interval(X, coverage)

    @pytest.mark.parametrize("method", ["predict_quantiles", "predict_interval"])
    def test_other_losses_have_none(self, method):
        for estimator in (sknet.MLPRegressor(), fitted(), fitted().freeze()):
            assert not hasattr(estimator, method)
            with pytest.raises(AttributeError, match=method) as error:
                getattr(estimator, method)(X)
            assert "use loss=Quantile([0.1, 0.5, 0.9])" in str(error.value.__cause__)
        assert not hasattr(fitted(loss=Quantile(0.9)), "predict_interval")
        assert hasattr(sknet.MLPRegressor(loss=Quantile([0.1, 0.9])), method)


class TestDeviations:
    @pytest.mark.parametrize("y", [Y, MANY], ids=["one", "several"])
    def test_predict_returns_them_too(self, y):
        regressor = fitted(y, loss="gaussian_nll")
        for predictor in (regressor, regressor.freeze()):
            mean, std = predictor.predict(X, return_std=True)
            np.testing.assert_array_equal(mean, predictor.predict(X))
            np.testing.assert_array_equal(std, predictor.predict_std(X))
            assert mean.shape == std.shape == y.shape

    @pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
    def test_intervals_are_those_of_normal_distributions(self, coverage):
        regressor = fitted(MANY, loss=GaussianNLL())
        mean, std = regressor.predict(X, return_std=True)
        expected = np.stack(stats.norm(mean, std).interval(coverage), axis=1)
        np.testing.assert_allclose(regressor.predict_interval(X, coverage), expected, rtol=1e-9)
        assert fitted(loss="gaussian_nll").predict_interval(X).shape == (len(X), 2)

    def test_other_losses_have_none(self):
        for predictor in (fitted(), fitted().freeze(), fitted(loss=Quantile([0.1, 0.9]))):
            with pytest.raises(
                ValueError, match=r"needs a loss that learns standard deviations, got (Squared|Quantile)"
            ):
                predictor.predict(X, return_std=True)

    def test_the_drop_in_has_scikit_learns_signature(self):
        regressor = sknet.neural_network.MLPRegressor(max_iter=2)
        with quiet():
            regressor.fit(X, Y)
        with pytest.raises(TypeError, match="return_std"):
            regressor.predict(X, return_std=True)


def test_a_custom_network():
    network = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(9))
    with quiet():
        regressor = sknet.NetRegressor(network, loss=Quantile([0.1, 0.5, 0.9]), max_iter=5).fit(X, MANY)
    assert regressor.predict_quantiles(X).shape == (len(X), 3, 3)
    with pytest.raises(ValueError, match=r"returns 9 output\(s\) for each row, and .* need 6"):
        clone(regressor).set_params(loss__quantile=[0.1, 0.9]).fit(X, MANY)
