"""Sums of two numbers that ensembles find and read as columns of their own."""

import pickle

import numpy as np
import pandas as pd
import pytest

import sknet
from sknet.exceptions import LoadError
from sknet.tabular import TabularClassifier, TabularRegressor
from tests.freezing.test_python import module_of

QUICK = {"n_folds": 2, "members": 1, "budget": 0.2, "random_state": 0}


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.uniform(-2, 2, (n, 3)), columns=["east", "north", "other"])
    X["city"] = pd.Categorical(rng.choice(["Rome", "Bern"], n))
    X.loc[::50, "east"] = np.nan
    wave = np.sin(3 * (X["east"].fillna(0) + X["north"])) + (X["city"] == "Rome")
    return X, wave.to_numpy()


X, WAVE = rows()


@pytest.fixture(scope="module")
def fitted():
    return TabularRegressor(**QUICK).fit(X, WAVE)


def test_a_sum_is_found_and_worth_its_place(fitted):
    """What depends on the sum of two columns alone has no effect of a single one."""
    [first, second, a, b] = fitted.encoder_[0].schema.sums[0]
    assert (first, second) == (0, 1)
    assert a == pytest.approx(b, rel=0.1)
    with_other_folds = TabularRegressor(
        **{**QUICK, "n_folds": 1}, cv=[(np.arange(1500, 3000), np.arange(1500))]
    )
    assert with_other_folds.fit(X, WAVE).encoder_[0].schema.sums
    assert fitted.oof_score_ > 0.9
    held_out = np.arange(3000) % 2
    without = TabularRegressor(
        **QUICK, cv=[(np.flatnonzero(held_out == i), np.flatnonzero(held_out != i)) for i in (0, 1)]
    )
    without.fit(X, WAVE)
    assert not without.encoder_[0].schema.sums  # all rows are held out
    assert fitted.oof_score_ > without.oof_score_ + 0.05
    assert "east+north" in fitted.encoder_[0].get_feature_names_out()
    assert "east+north" in str(fitted.summary())


def test_sums_are_found_on_no_row_of_a_gap():
    gap = TabularRegressor(**QUICK, cv=[(np.arange(900), np.arange(1900, 3000))]).fit(X, WAVE)
    assert not gap.encoder_[0].schema.sums  # of fewer than a thousand rows


def test_its_values(fitted):
    encoder, own = fitted.encoder_[0], X[["east", "north"]].to_numpy()
    first, second, a, b = encoder.schema.sums[0]
    values = a * own[:, first] + b * own[:, second]
    found = encoder.transform(X)[:, encoder.get_feature_names_out().tolist().index("east+north")]
    known = np.isfinite(values)
    z = found[known] / np.sqrt(1 - (found[known] / 3) ** 2)  # what is clipped smoothly
    slope, center = np.polyfit(values[known], z, 1)
    assert slope > 0
    np.testing.assert_allclose(slope * values[known] + center, z, atol=1e-5)
    np.testing.assert_array_equal(found[~known], 0.0)  # the median


@pytest.mark.parametrize(
    "y",
    [
        np.random.default_rng(0).normal(size=3000),
        (2 * X["north"] + X["other"] ** 2).to_numpy(),
        np.exp(2 * X["north"] + X["other"] ** 2).to_numpy(),
        np.random.default_rng(0).integers(0, 3, 3000),
    ],
    ids=["noise", "additive", "multiplicative", "classes of noise"],
)
def test_none_is_found_where_none_tells(y):
    estimator = TabularRegressor if y.dtype.kind == "f" else TabularClassifier
    model = estimator(**{**QUICK, "budget": 0.02}).fit(X, y)
    assert model.encoder_[0].schema.sums == ()
    assert model.encoder_[0].plan.owners(model.encoder_[0].schema).shape == (
        model.encoder_[0].n_features_out_,
        2,
    )


AMOUNTS = {
    "with noise": np.random.default_rng(0).poisson,
    "large": lambda mean: 1e6 * mean,
    "huge": lambda mean: 2.0**450 * mean,
}


@pytest.mark.parametrize("amounts", AMOUNTS.values(), ids=AMOUNTS)
def test_where_effects_multiply_sums_are_those_of_logarithms(amounts):
    """Products of effects are no sums, but leave far more of amounts than some percents of each."""
    mean = 10 * np.exp(1.5 * X["other"] + X["north"] + (X["city"] == "Rome") + 0.15 * WAVE)
    y = amounts(mean.to_numpy())
    model = TabularRegressor(**{**QUICK, "budget": 0.02}).fit(X, y)
    [[*pair, a, b]] = model.encoder_[0].schema.sums
    assert pair == [0, 1]
    assert a == pytest.approx(b, rel=0.1)
    plain = model.set_params(sharp__log_link=False).fit(X, y)
    assert (0, 1) not in [each[:2] for each in plain.encoder_[0].schema.sums]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("exponent", [-160, 160])
def test_units_of_targets_beyond_single_precision(fitted, exponent):
    model = TabularRegressor(**{**QUICK, "budget": 0.02}).fit(X, np.ldexp(WAVE, exponent))
    assert model.encoder_[0].schema.sums == fitted.encoder_[0].schema.sums


def test_of_classes_and_of_extreme_numbers():
    classes = np.digitize(WAVE, [-0.5, 0.5, 1.2])
    model = TabularClassifier(**{**QUICK, "budget": 0.05}).fit(X, classes)
    assert model.encoder_[0].schema.sums[0][:2] == (0, 1)
    far = X.assign(east=X["east"] * 1e140, north=X["north"] * 1e-140, other=1e-320 * X["other"])
    reg = TabularRegressor(**{**QUICK, "budget": 0.02}).fit(far, WAVE)
    assert np.isfinite(reg.predict(far)).all()


def test_numbers_with_a_direction_have_none():
    reg = TabularRegressor(**{**QUICK, "budget": 0.05}, monotonic_cst={"north": 1}).fit(X, WAVE)
    assert not any(1 in each[:2] for each in reg.encoder_[0].schema.sums)
    risen = reg.predict(X.assign(north=X["north"] + 1))
    assert (risen >= reg.predict(X) - 1e-5).all()


def test_frozen_stored_and_written(fitted, tmp_path):
    strange = pd.concat([X[:40], X[:4].assign(east=[np.inf, -np.inf, 1e300, np.nan], north=np.inf)])
    expected = fitted.predict(strange)
    frozen = fitted.freeze()
    sknet.save(fitted, tmp_path / "model")
    sknet.save(frozen, tmp_path / "frozen")
    copies = [
        frozen,
        pickle.loads(pickle.dumps(fitted)),
        sknet.load(tmp_path / "model"),
        sknet.load(tmp_path / "frozen"),
    ]
    frozen.to_python(tmp_path / "written.py")
    for copy in [*copies, module_of(tmp_path / "written.py")]:
        np.testing.assert_array_equal(copy.predict(strange), expected)
    for copy in copies:
        np.testing.assert_array_equal(copy.predict(X[3:4]), fitted.predict(X[3:4]))
    array = TabularRegressor(**{**QUICK, "budget": 0.02}).fit(X[["east", "north"]].to_numpy(), WAVE)
    assert array.encoder_[0].schema.sums
    some = X[["east", "north"]].to_numpy()[:9]
    np.testing.assert_array_equal(array.freeze().predict(some), array.predict(some))
    np.testing.assert_allclose(array.predict(some[3:4]), array.predict(some)[3:4], rtol=1e-5)


def test_what_a_sum_contributes_belongs_to_both_columns(fitted):
    shares = fitted.feature_importances_
    assert min(shares[0], shares[1]) > 10 * shares[2]
    found = fitted.integrated_gradients(X[:5], X[5:6])
    difference = fitted.predict(X[:5]) - fitted.predict(X[5:6])
    np.testing.assert_allclose(found.sum(axis=1), difference, atol=0.1)
    assert (np.abs(found[:, :2]).sum(axis=0) > np.abs(found[:, 2]).sum()).all()


def test_a_file_with_a_sum_of_no_numbers_is_refused(fitted, tmp_path):
    copy = pickle.loads(pickle.dumps(fitted))
    for member in copy.encoder_:
        object.__setattr__(member.schema, "sums", ((0, 9, 0.5, 0.5),))
    sknet.save(copy, tmp_path / "model")
    with pytest.raises(LoadError, match="a sum of the numbers 0 and 9, and there are 3 dense ones"):
        sknet.load(tmp_path / "model")
