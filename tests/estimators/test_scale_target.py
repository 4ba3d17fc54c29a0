"""Standardized targets: the fit equals that on scaled data, and all results are in the original units."""

import copy
import pickle
import re
from contextlib import nullcontext

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance, mean_tweedie_deviance
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import nn
from sknet.losses import (
    AbsoluteError,
    Gamma,
    GaussianNLL,
    Huber,
    LogCosh,
    Loss,
    Poisson,
    Quantile,
    Scaling,
    SquaredError,
    Tweedie,
)
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, quiet, same_bits

X, Y = TABLES["regression"]
_, MANY = TABLES["multioutput"]
COUNTS = TABLES["counts"][1]
UNITS = np.array([1e-3, 1.0, 5e4])
SHIFTS = np.array([-2.0, 300.0, 1e6])
LARGE, OTHERS = 1e5 * Y + 3e5, MANY * UNITS + SHIFTS
LOCATION = [
    SquaredError(),
    AbsoluteError(),
    Huber(),
    LogCosh(),
    Quantile(0.8),
    Quantile([0.1, 0.5, 0.9]),
    GaussianNLL(),
]
POSITIVE = [Poisson(), Gamma(), Tweedie(), Tweedie(2.5)]
TARGETS = {"one": LARGE, "several": OTHERS}


def fitted(y, weight=None, **params):
    params = {"scale_target": True, "dtype": "float64", "max_iter": 20} | params
    with quiet():
        return estimator_for("regression", **params).fit(X, y, weight)


def standardized(y, weight=None):
    y = y.reshape(len(y), -1)
    mean = np.average(y, axis=0, weights=weight)
    return mean, np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weight))


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("loss", LOCATION, ids=str)
def test_it_is_the_fit_of_standardized_targets(loss, kind, optimizer):
    y = TARGETS[kind]
    ours = fitted(y, loss=loss, optimizer=optimizer)
    regressor = clone(ours).set_params(scale_target=False)
    with quiet():
        theirs = TransformedTargetRegressor(regressor, transformer=StandardScaler()).fit(X, y)
    mean, scale = (x if kind == "several" else x[0] for x in standardized(y))
    plain = theirs.regressor_
    for mine, other in zip(ours.coefs_, plain.coefs_, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), rel=1e-6)
    if hasattr(ours, "predict_std"):
        np.testing.assert_allclose(ours.predict_std(X), plain.predict_std(X) * scale, rtol=1e-6)
    if hasattr(ours, "predict_quantiles"):
        np.testing.assert_allclose(
            ours.predict_quantiles(X), plain.predict_quantiles(X) * scale + mean, rtol=1e-6
        )
    if hasattr(ours, "predict_interval"):
        np.testing.assert_allclose(
            ours.predict_interval(X, 0.8), plain.predict_interval(X, 0.8) * scale + mean, rtol=1e-6
        )


def reported(loss, estimator, y, weight):
    """Return the loss of a fitted estimator's predictions, by formulas for the targets' own units."""
    y, mean = y.reshape(len(y), -1), estimator.predict(X).reshape(len(y), -1)
    scale, r = standardized(y, weight)[1], mean - y
    if isinstance(loss, GaussianNLL):
        std = estimator.predict_std(X).reshape(len(y), -1)
        return np.average((np.log(std) + 0.5 * (r / std) ** 2).sum(axis=1), weights=weight)
    if isinstance(loss, Quantile):
        every = estimator.predict_quantiles(X).reshape(len(y), len(loss.levels), -1)
        levels = np.array(loss.levels)[None, :, None]
        excess = every - y[:, None]
        return np.average(np.maximum(excess, 0) - levels * excess, axis=0, weights=weight).mean()
    terms = {
        SquaredError: lambda: 0.5 * r**2,
        AbsoluteError: lambda: np.abs(r),
        # their delta is one standard deviation
        Huber: lambda: np.where(np.abs(r) < scale, 0.5 * r**2, scale * (np.abs(r) - 0.5 * scale)),
        LogCosh: lambda: scale**2 * np.log(np.cosh(r / scale)),
    }[type(loss)]()
    return np.average(terms, axis=0, weights=weight).mean()


@pytest.mark.parametrize("mode", ["auto", False])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weights"])
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("loss", LOCATION, ids=str)
def test_losses_are_reported_for_the_targets_in_their_own_units(loss, kind, weight, mode):
    """A step too small to change anything reports the loss of the current network."""
    y, settings = TARGETS[kind], {"optimizer": sknet.optim.SGD(1e-300), "alpha": 0.0}
    settings |= {"batch_size": len(X), "max_iter": 1}
    estimator = fitted(y, weight, loss=loss, **settings)
    expected = reported(loss, estimator, y, weight)
    assert estimator.loss_ == pytest.approx(expected, rel=1e-9)
    model = estimator.model_.copy()
    model.compile = mode
    encoded = (y.reshape(len(y), -1) - standardized(y, weight)[0]) / standardized(y, weight)[1]
    steps = model.fit(X, encoded, weight, epochs=3, batch_size=len(X), shuffle=False)["loss"]
    np.testing.assert_allclose(steps, expected, rtol=1e-9)
    estimator.set_params(optimizer="lbfgs", max_iter=1)
    with quiet():
        assert estimator.fit(X, y, weight).loss_ == pytest.approx(
            reported(loss, estimator, y, weight), rel=1e-9
        )


@pytest.mark.parametrize("loss", POSITIVE, ids=str)
def test_positive_targets_are_divided_by_their_means(loss):
    y = 1e4 * COUNTS
    estimator = fitted(y, loss=loss, optimizer="lbfgs", alpha=0.0)
    plain = fitted(y / y.mean(), loss=loss, optimizer="lbfgs", alpha=0.0, scale_target=False)
    np.testing.assert_allclose(estimator.predict(X), plain.predict(X) * y.mean(), rtol=1e-6)
    assert (estimator.predict(X) > 0).all()
    deviance = {
        Poisson: mean_poisson_deviance,
        Gamma: mean_gamma_deviance,
        Tweedie: lambda a, b: mean_tweedie_deviance(a, b, power=loss.power),
    }[type(loss)]
    assert estimator.loss_ == pytest.approx(deviance(y, estimator.predict(X)) / 2, rel=1e-9)


def test_losses_in_tiny_units_are_reported_in_single_precision_too():
    one, other = (fitted(Y * u, dtype="float32", max_iter=5) for u in (1.0, 1e-30))
    np.testing.assert_allclose(other.loss_curve_, np.array(one.loss_curve_) * 1e-60, rtol=1e-4)


def test_targets_whose_squares_overflow_raise():
    with pytest.raises(
        ValueError, match=r"deviation is .*e\+160, and SquaredError\(\).* infinite in float64"
    ):
        fitted(1e160 * Y / Y.std())
    with pytest.raises(ValueError, match=r"is 0 in float64. Multiply y by a constant"):
        fitted(1e-160 * Y / Y.std())
    estimator = fitted(1e160 * Y, loss="absolute_error")
    np.testing.assert_allclose(
        estimator.predict(X) / 1e160, fitted(Y, loss="absolute_error").predict(X), rtol=1e-6
    )


@pytest.mark.parametrize("unit", [1e-140, 1e-6, 1.0, 1e6, 1e140])
def test_the_unit_of_the_targets_does_not_matter(unit):
    """Number of epochs, early stopping and all predictions do not depend on the units."""
    stopping = {"early_stopping": True, "max_iter": 300, "optimizer": sknet.optim.Adam(0.02)}
    for settings in ({"max_iter": 300, "tol": 1e-3, "optimizer": sknet.optim.Adam(0.02)}, stopping):
        one, other = (fitted(Y * u, alpha=0.01, **settings) for u in (1.0, unit))
        assert one.n_iter_ == other.n_iter_ < 300
        np.testing.assert_allclose(other.predict(X), one.predict(X) * unit, rtol=1e-6, atol=1e-9 * unit)
        np.testing.assert_allclose(other.loss_curve_, np.array(one.loss_curve_) * unit**2, rtol=1e-6)
        np.testing.assert_allclose(other.history_["score"], one.history_["score"], rtol=1e-6)


def test_mean_and_scale_are_those_of_the_rows_that_are_trained_on():
    y = LARGE.copy()
    estimator = fitted(y, early_stopping=True)
    shift, scale = estimator.model_.loss_function.mean[0], estimator.model_.loss_function.scale[0]
    mean, std = (x[0] for x in standardized(y))
    assert shift != pytest.approx(mean, rel=1e-9)
    assert abs(shift - mean) < 0.1 * std
    assert scale == pytest.approx(std, rel=0.1)
    held_out = estimator.history_["validation_loss"]
    assert 0.0 < min(held_out) < 2 * y.var()


@pytest.mark.parametrize("kind", TARGETS)
def test_rows_given_to_validate_on_are_in_their_own_units_too(kind):
    y, (training, held_out) = TARGETS[kind], (np.arange(150), np.arange(150, len(X)))
    settings = {"scale_target": True, "early_stopping": True, "max_iter": 15, "dtype": "float64"}
    settings |= {"scoring": ["neg_mean_absolute_error", "r2"], "monitor": "neg_mean_absolute_error"}
    with quiet():
        given = estimator_for("regression", **settings).fit(
            X[training], y[training], X_val=X[held_out], y_val=y[held_out]
        )
        split = estimator_for("regression", validation_split=(training, held_out), **settings).fit(X, y)
    assert same_bits(given, split)
    best = int(np.argmax(given.history_["validation_neg_mean_absolute_error"]))
    predicted = given.predict(X[held_out])
    error = np.abs(predicted - y[held_out]).mean()
    assert given.history_["validation_neg_mean_absolute_error"][best] == pytest.approx(-error, rel=1e-9)
    squared = 0.5 * ((predicted - y[held_out]) ** 2).mean()
    assert given.history_["validation_loss"][best] == pytest.approx(squared, rel=1e-9)
    assert given.model_.loss_function.mean == pytest.approx(standardized(y[training])[0])


def test_a_second_training_on_all_rows_is_in_the_same_units():
    settings = {"early_stopping": True, "max_iter": 200, "optimizer": sknet.optim.Adam(0.02)}
    first, second = (fitted(LARGE, refit_on_all=refit, **settings) for refit in (False, True))
    assert second.model_.loss_function == first.model_.loss_function
    assert second.score(X, LARGE) > 0.9
    last = second.refit_history_["loss"][-1]
    assert last == pytest.approx(0.5 * ((second.predict(X) - LARGE) ** 2).mean(), rel=0.5)


def test_weights_are_repetitions():
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    settings = {"optimizer": "lbfgs", "alpha": 0.0}
    repeated = np.repeat(np.arange(len(X)), weight)
    with quiet():
        one = estimator_for("regression", scale_target=True, dtype="float64", **settings)
        other = clone(one).fit(X[repeated], LARGE[repeated])
        one.fit(X, LARGE, weight)
    np.testing.assert_allclose(one.model_.loss_function.scale, other.model_.loss_function.scale, rtol=1e-12)
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-5)


def test_columns_that_do_not_vary():
    y = np.stack([Y, np.full(len(Y), 7.0), np.full(len(Y), 0.1)], axis=1)
    estimator = fitted(y, max_iter=200, optimizer=sknet.optim.Adam(0.02))
    assert estimator.model_.loss_function.scale[1:] == (1.0, 1.0)
    np.testing.assert_allclose(estimator.predict(X)[:, 1:], y[:, 1:], atol=0.5)


UNLIKE = "times as large as those that the first fit was standardized by .* scale y by constants"


@pytest.mark.parametrize("y", [np.full(20, 3.0), np.zeros(20), np.c_[Y[:20], np.ones(20)]], ids=str)
def test_a_stream_cannot_begin_with_targets_that_do_not_vary(y):
    reg = estimator_for("regression", scale_target=True, batch_size="auto")
    where = "y is" if y.ndim == 1 else "column 1 of y is"
    with pytest.raises(
        ValueError, match=f"standardizes by the first part of a stream, and {where} [0-9.]+ in all"
    ):
        reg.partial_fit(X[:20], y)
    assert not hasattr(reg, "model_")
    reg.partial_fit(X[:20], Y[:20]).partial_fit(X[:20], np.full(20, Y[0]))  # later parts may
    estimator_for("regression", batch_size="auto").partial_fit(X[:20], y)


def test_a_stream_cannot_begin_with_a_column_of_missing_targets():
    reg = estimator_for("regression", scale_target=True, batch_size="auto")
    y = np.c_[Y[:20], np.full(20, np.nan)]
    with pytest.raises(ValueError, match="column 1 of y is missing in all its 20 rows"):
        reg.partial_fit(X[:20], y)
    y[:9, 1] = 3.0
    with pytest.raises(ValueError, match="column 1 of y is 3 in all its 20 rows"):
        reg.partial_fit(X[:20], y)


def test_a_stream_of_counts_cannot_begin_with_zeros():
    reg = estimator_for("regression", loss="poisson", scale_target=True, batch_size="auto")
    with pytest.raises(ValueError, match="y is 0 in all its 20 rows: give a first part whose targets vary"):
        reg.partial_fit(X[:20], np.zeros(20))
    reg.partial_fit(X[:20], np.ones(20))  # whose mean is a unit


@pytest.mark.parametrize("ratio", [20.0, 90.0])
@pytest.mark.parametrize("kind", TARGETS)
def test_later_parts_in_another_unit_warn(ratio, kind):
    y, reg = TARGETS[kind], estimator_for("regression", scale_target=True)
    reg.partial_fit(X, y).partial_fit(X, y)
    mean, deviation = standardized(y)
    other = (y.reshape(len(y), -1) - mean) / deviation * (ratio * deviation) + mean
    other = other.reshape(y.shape)
    with pytest.warns(UserWarning, match=f"targets are {re.escape(f'{ratio:.3g}')} {UNLIKE}"):
        reg.partial_fit(X, other)
    reg.partial_fit(X, y)


@pytest.mark.parametrize("kind", TARGETS)
def test_parts_of_a_stream_in_units_that_cannot_be_learned_are_refused(kind):
    y, reg = TARGETS[kind], estimator_for("regression", scale_target=True)
    reg.partial_fit(X, y)
    before = reg.predict(X)
    mean, deviation = standardized(y)
    other = (mean + 1000 * (y.reshape(len(y), -1) - mean)).reshape(y.shape)
    with pytest.raises(ValueError, match=r"times as far from the mean .* Begin anew with rows whose targets"):
        reg.partial_fit(X, other)
    np.testing.assert_array_equal(reg.predict(X), before)
    outlier = y.copy()
    outlier[0] += 1e4 * np.max(deviation)  # of which one row has little say
    with pytest.warns(UserWarning, match=UNLIKE):
        reg.partial_fit(X, outlier)


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_later_parts_that_vary_much_less_warn(loss):
    y = np.exp(Y / Y.std())
    reg = estimator_for("regression", loss=loss, scale_target=True, batch_size="auto")
    reg.partial_fit(X, 1000 * y)
    ratio = 1000.0 if loss == "squared_error" else 1000 * y.mean() / np.sqrt(np.mean(y**2))
    found = re.escape(f"{ratio:.3g}")
    with pytest.warns(UserWarning, match=f"targets vary {found} times less than those that the first fit"):
        reg.partial_fit(X, y)
    reg.partial_fit(X, 100 * y).partial_fit(X[:9], y[:9])  # nine rows tell little
    reg.partial_fit(X, np.zeros(len(X)))


def test_a_fit_that_continues_keeps_mean_and_scale():
    part = estimator_for("regression", scale_target=True).partial_fit(X[:100], LARGE[:100])
    before = part.model_.loss_function
    with pytest.warns(UserWarning, match=UNLIKE):
        part.partial_fit(X, LARGE * 10)
    assert part.model_.loss_function == before
    warm = fitted(LARGE, warm_start=True, max_iter=100)
    known, scale = warm.predict(X), warm.model_.loss_function.scale
    warm.set_params(optimizer=sknet.optim.SGD(1e-300), max_iter=1)
    with quiet(), pytest.warns(UserWarning, match=UNLIKE):
        warm.fit(X, LARGE * 10)
    assert warm.model_.loss_function.scale == scale
    np.testing.assert_array_equal(warm.predict(X), known)
    assert warm.loss_ > 10 * warm.loss_curve_[-2]  # of other targets, in the same units
    with pytest.raises(
        ValueError, match="scale_target was True when this network was fitted and is False now"
    ):
        warm.set_params(scale_target=False).fit(X, LARGE)


def test_parts_are_those_of_a_whole():
    """The first part determines mean and scale: if it has all rows, parts are epochs."""
    part = estimator_for("regression", scale_target=True, shuffle=False)
    for _ in range(3):
        part.partial_fit(X, LARGE)
    assert same_bits(part, fitted(LARGE, max_iter=3, shuffle=False, dtype="auto"))


@pytest.mark.parametrize("kind", TARGETS)
def test_copies_and_frozen_predictors(kind):
    estimator = fitted(TARGETS[kind], loss=Quantile([0.1, 0.5, 0.9]), dtype="float32")
    assert estimator.predict(X).dtype == np.float64  # that of y
    for other in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator)), estimator.freeze()):
        for method in ("predict", "predict_quantiles", "predict_interval"):
            np.testing.assert_allclose(getattr(other, method)(X), getattr(estimator, method)(X), rtol=1e-5)
        np.testing.assert_array_equal(other.predict(X[:1]), estimator.predict(X[:1]))
    frozen = pickle.loads(pickle.dumps(estimator.freeze()))
    np.testing.assert_allclose(frozen.predict(X), estimator.predict(X), rtol=1e-5)
    assert "Quantile" in repr(frozen)
    assert clone(estimator).scale_target is True


FAR = {"far": 1e8 + Y / Y.std(), "dates": np.round(2_460_000.5 + 3 * Y / Y.std(), 1)}
CONTAINERS = {
    "float32": lambda X: X.astype("float32"),
    "integers": lambda X: np.round(100 * X).astype("int64"),
    "float64": lambda X: X,
}
MAKERS = {
    "table": lambda **settings: sknet.MLPRegressor((16,), encoder="table", max_iter=60, **settings),
    "members": lambda **settings: sknet.MLPRegressor((16,), n_members=3, max_iter=60, **settings),
    "network": lambda **settings: sknet.NetRegressor(
        nn.Sequential(nn.LazyLinear(16), nn.ReLU(), nn.LazyLinear(3)), max_iter=60, **settings
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("maker", MAKERS)
def test_targets_far_from_zero_keep_their_precision(maker, kind, container, tmp_path):
    """Predictions are those of standardized targets, scaled in float64."""
    y, given = FAR[kind], CONTAINERS[container](X)
    loss = Quantile([0.1, 0.5, 0.9])
    ours = MAKERS[maker](scale_target=True, loss=loss, dtype="float32", random_state=0)
    theirs = MAKERS[maker](loss=loss, dtype="float32", random_state=0)
    mean, scale = (x[0] for x in standardized(y))
    with quiet():
        ours.fit(given, y)
        theirs.fit(given, (y - mean) / scale)
    sknet.save(ours, tmp_path / "saved")
    frozen = ours.freeze()
    for method in ("predict", "predict_quantiles", "predict_interval"):
        expected = getattr(theirs, method)(given).astype(np.float64) * scale + mean
        for other in (ours, frozen, sknet.load(tmp_path / "saved"), pickle.loads(pickle.dumps(frozen))):
            found = getattr(other, method)(given)
            assert found.dtype == np.float64
            np.testing.assert_allclose((found - mean) / scale, (expected - mean) / scale, atol=1e-4)
            np.testing.assert_array_equal(getattr(other, method)(given[:1]), getattr(ours, method)(given[:1]))


def test_predictions_have_the_precision_of_the_targets():
    """Unless the network's is higher; integers are numbers in float64."""
    for dtype, expected in (
        ("float32", "float32"), ("float64", "float64"), ("int32", "float64"), ("float16", "float32")
    ):  # fmt: skip
        y = (10 * Y).astype(dtype)
        assert fitted(y, dtype="float32", max_iter=1).predict(X).dtype == expected
        assert fitted(y, dtype="float64", max_iter=1).predict(X).dtype == np.float64
        assert fitted(y, dtype="float32", max_iter=1, scale_target=False).predict(X).dtype == np.float32


def test_custom_networks():
    settings = {"scale_target": True, "random_state": 0, "max_iter": 20, "dtype": "float64"}
    network = nn.Sequential(nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(6))
    with quiet():
        estimator = sknet.NetRegressor(network, loss="gaussian_nll", **settings).fit(X, OTHERS)
    mean, std = estimator.predict(X, return_std=True)
    assert mean.shape == std.shape == OTHERS.shape
    np.testing.assert_allclose(np.log10(std / OTHERS.std(axis=0)), 0, atol=1.5)  # of units from 1e-3 to 5e4


class Mine(Loss):
    tasks = ("regression",)

    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total(abs(z - y) ** 1.5)


class Scaled(Mine):
    scaling = Scaling(shifts=True, power=1.5)


@pytest.mark.parametrize("loss", ["kl_divergence", Mine()], ids=str)
def test_losses_without_scaling_raise(loss):
    y = np.full((len(X), 2), 0.5)
    with pytest.raises(
        ValueError, match=r"scale_target=True does not fit (KLDivergence|Mine)\(\), which does"
    ):
        fitted(y, loss=loss)


def test_a_custom_loss():
    estimator = fitted(LARGE, loss=Scaled(), optimizer="lbfgs", alpha=0.0)
    assert estimator.loss_ == pytest.approx((np.abs(estimator.predict(X) - LARGE) ** 1.5).mean(), rel=1e-9)


@pytest.mark.parametrize("unit", [1e-30, 1e-18, 1.0])
@pytest.mark.parametrize("scale_target", [True, False])
@pytest.mark.parametrize(
    "params", [{}, {"optimizer": "lbfgs"}, {"early_stopping": True}, {"n_members": 2}], ids=str
)
def test_tiny_targets_leave_numbers_that_vanish_unmentioned(unit, scale_target, params):
    y = (Y * unit).astype("float32")
    too_small = pytest.warns(UserWarning, match="y has values .* too small for a network")
    with quiet(), np.errstate(under="raise"), nullcontext() if scale_target or unit == 1.0 else too_small:
        reg = estimator_for("regression", scale_target=scale_target, **params).fit(X.astype("float32"), y)
        score = reg.score(X.astype("float32"), y)
        reg.freeze().predict(X.astype("float32"))
    if scale_target and unit > 1e-20:  # below, squares in single precision vanish, in scikit-learn as well
        with quiet():
            other = estimator_for("regression", scale_target=True, **params).fit(X.astype("float32"), Y)
        assert score == pytest.approx(other.score(X.astype("float32"), Y), abs=0.02)


@pytest.mark.parametrize("exponent", [-100, 100, 130])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_targets_beyond_float32_scale_losses_and_predictions(exponent, early_stopping):
    """Targets times a power of 2 are the same standardized targets."""
    rng, unit = np.random.default_rng(0), 2.0**exponent
    X = rng.normal(size=(80, 3))
    y = X @ [1.0, 2.0, 3.0]
    params = {"alpha": 0.1, "early_stopping": early_stopping, "max_iter": 5, "tol": 0.0, "random_state": 0}
    with quiet():
        found, expected = (
            sknet.MLPRegressor((8,), dtype="float32", scale_target=True, **params).fit(X, y * by)
            for by in (unit, 1.0)
        )
    np.testing.assert_allclose(found.predict(X), expected.predict(X) * unit, rtol=1e-6)
    losses = [np.asarray(each.history_["loss"]) for each in (found, expected)]
    np.testing.assert_allclose(losses[0], losses[1] * unit**2, rtol=1e-5)


def test_a_part_by_a_loss_without_a_scaling_is_refused():
    estimator = sknet.MLPRegressor((2,), scale_target=True, max_iter=2, random_state=0)
    X, y = np.arange(12.0)[:, None], np.arange(12.0)
    with quiet():
        before = estimator.fit(X, y).predict(X)
    estimator.set_params(loss=lambda y_true, output: (y_true - output) ** 2)
    with pytest.raises(ValueError, match="has standardized its targets, and the loss"):
        estimator.partial_fit(X, y)
    assert np.array_equal(estimator.predict(X), before)
