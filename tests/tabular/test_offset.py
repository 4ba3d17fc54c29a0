"""Offsets of the ensembles for tables: exposures of counts, and margins of other models."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy.special import expit, log_softmax
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer, mean_poisson_deviance, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import TabularClassifier, TabularRegressor, model_selection
from sknet.losses import GaussianNLL, Ordinal, Quantile, SquaredError
from sknet.tabular import Members
from tests.estimators.test_offset import assert_same, glm, with_ones
from tests.freezing.test_python import module_of

RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 3))
KIND = RNG.choice(list("xyz"), N)
FRAME = pd.DataFrame({"size": X[:, 0], "kind": KIND, "age": X[:, 1]})
EXPOSURE = RNG.uniform(0.1, 10.0, N)
LOG = np.log(EXPOSURE)
COUNTS = RNG.poisson(np.exp(0.7 * X[:, 0] + (KIND == "x")) * EXPOSURE).astype(float)
MARGIN = RNG.normal(size=N)
LABELS = np.where(RNG.random(N) < expit(X[:, 0] + MARGIN), "yes", "no")
MARGINS = RNG.normal(size=(N, 3))
THREE = np.array(["a", "b", "c"])[(2 * MARGINS + X + RNG.gumbel(size=(N, 3))).argmax(axis=1)]
QUICK = {"budget": 0.1, "n_folds": 2, "random_state": 0, "n_jobs": 1}
ONE_FOLD = QUICK | {"cv": [(np.arange(160), np.arange(160, N))], "n_folds": 1}
CASES = {
    "poisson": (lambda **p: TabularRegressor(loss="poisson", **p), COUNTS, LOG),
    "gamma": (lambda **p: TabularRegressor(loss="gamma", **p), COUNTS + 1.0, LOG),
    "squared": (TabularRegressor, X[:, 0] + EXPOSURE, EXPOSURE),
    "absolute": (
        lambda **p: TabularRegressor(loss="absolute_error", **p),
        X[:, 0] + EXPOSURE,
        EXPOSURE,
    ),
    "two targets": (TabularRegressor, np.c_[X[:, 0] + EXPOSURE, MARGIN], np.c_[EXPOSURE, MARGIN]),
    "quantile": (lambda **p: TabularRegressor(loss=Quantile(0.7), **p), X[:, 0] + EXPOSURE, EXPOSURE),
    "binary": (TabularClassifier, LABELS, MARGIN),
    "three classes": (TabularClassifier, THREE, MARGINS),
    "labels": (TabularClassifier, (X[:, :2] > 0).astype(int), MARGINS[:, :2]),
    "columns": (TabularClassifier, np.c_[THREE, LABELS], np.c_[MARGINS, -MARGIN, MARGIN]),
    "ordinal": (lambda **p: TabularClassifier(loss=Ordinal(), **p), THREE, MARGINS[:, :2]),
    "hinge": (lambda **p: TabularClassifier(loss="hinge", **p), LABELS, MARGIN),
    "balanced": (lambda **p: TabularClassifier(class_weight="balanced", **p), THREE, MARGINS),
    "one kind": (lambda **p: TabularClassifier(smooth=None, **p), LABELS, MARGIN),
}
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "predict_quantiles")


@cache
def fitted(case):
    """Return an ensemble with the offsets of a case, which no test changes."""
    make, y, offset = CASES[case]
    return make(**QUICK).fit(FRAME, y, offset=offset)


def predictions(model, X=FRAME, **given):
    return {name: getattr(model, name)(X, **given) for name in METHODS if hasattr(model, name)}


def close(rtol=1e-4, atol=1e-5):
    def compare(found, expected):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)
        else:
            assert np.mean(found == expected) > 0.99  # labels of equal probabilities

    return compare


# -- what is learned ---------------------------------------------------------------------------------


def test_rates_of_counts_with_exposures_are_those_of_a_glm():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(1500, 3))
    exposure = np.exp(rng.normal(size=1500) + Z[:, 0])  # larger where events are rarer
    rate = np.exp(Z @ [-0.6, 0.5, 0.2] + 1.5)
    y = rng.poisson(rate * exposure).astype(float)
    model = TabularRegressor(loss="poisson", budget=0.3, n_folds=2, random_state=0)
    fitted = clone(model).fit(Z, y, offset=np.log(exposure))
    linear = np.exp(with_ones(Z) @ glm(Z, y, np.log(exposure)))
    assert np.corrcoef(np.log(fitted.predict(Z)), np.log(linear))[0, 1] > 0.98
    assert np.std(np.log(fitted.predict(Z) / linear)) < 0.15
    assert abs(np.mean(np.log(fitted.predict(Z) / linear))) < 0.05
    mean = fitted.predict(Z, offset=np.log(exposure))
    own, best = mean_poisson_deviance(y, mean), mean_poisson_deviance(y, linear * exposure)
    assert own < 1.03 * best
    counted = model.fit(Z, y).predict(Z)  # which rise where rates fall
    assert np.corrcoef(np.log(counted), np.log(linear))[0, 1] < 0.8


def test_of_a_squared_error_it_is_subtracted_from_targets():
    y = 2.0 * X[:, 0] + EXPOSURE
    model = TabularRegressor(extrapolate=True, **QUICK)
    moved, plain = clone(model).fit(FRAME, y, offset=EXPOSURE), clone(model).fit(FRAME, y - EXPOSURE)
    np.testing.assert_allclose(moved.predict(FRAME), plain.predict(FRAME), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(
        moved.predict(FRAME, offset=EXPOSURE), moved.predict(FRAME) + EXPOSURE, rtol=1e-9
    )
    np.testing.assert_allclose(moved.feature_importances_, plain.feature_importances_, atol=1e-3)
    np.testing.assert_allclose(moved.oof_prediction_, plain.oof_prediction_ + EXPOSURE, rtol=1e-3, atol=1e-3)
    assert moved.mix_ == plain.mix_


def test_a_constant_exposure_is_a_unit():
    model = TabularRegressor(loss="poisson", extrapolate=True, **QUICK)
    counted, rates = clone(model).fit(FRAME, COUNTS), clone(model).fit(FRAME, COUNTS, offset=np.full(N, 2.0))
    np.testing.assert_allclose(rates.predict(FRAME) * np.exp(2.0), counted.predict(FRAME), rtol=1e-3)
    assert rates.oof_score_ == pytest.approx(counted.oof_score_, abs=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_zeros_are_no_offset(case):
    make, y, offset = CASES[case]
    if case == "ordinal":
        return  # of which encoders see slopes at two thresholds, not three classes
    more = {"extrapolate": True} if isinstance(make(), TabularRegressor) else {}
    plain = make(**QUICK, **more).fit(FRAME, y)
    zeros = make(**QUICK, **more).fit(FRAME, y, offset=np.zeros_like(offset))
    assert zeros.mix_ == plain.mix_
    np.testing.assert_allclose(zeros.feature_importances_, plain.feature_importances_, atol=1e-3)
    # Means of categories are those of the classes, but for the unit that they are standardized to.
    assert_same(predictions(zeros), predictions(plain), close(1e-3, 1e-3))
    assert zeros.oof_score_ == pytest.approx(plain.oof_score_, abs=1e-3)


def test_predictions_without_offset_add_zero():
    """As those of boosted trees with an `init_score`, which they do not keep."""
    model = fitted("poisson")
    np.testing.assert_allclose(model.predict(FRAME, offset=np.zeros(N)), model.predict(FRAME), rtol=1e-6)
    np.testing.assert_allclose(model.predict(FRAME, offset=LOG), model.predict(FRAME) * EXPOSURE, rtol=1e-6)
    clf = fitted("three classes")
    raw = clf.decision_function(FRAME)
    np.testing.assert_allclose(clf.decision_function(FRAME, offset=MARGINS), raw + MARGINS, atol=1e-5)
    found = clf.predict_log_proba(FRAME, offset=MARGINS)
    np.testing.assert_allclose(found, log_softmax(raw + MARGINS, axis=1), rtol=1e-4, atol=1e-5)
    best = clf.classes_[(raw + MARGINS).argmax(axis=1)]
    np.testing.assert_array_equal(clf.predict(FRAME, offset=MARGINS), best)
    assert clf.score(FRAME, THREE, offset=MARGINS) == np.mean(best == THREE)
    single = clf.predict_proba(FRAME[:1], offset=MARGINS[:1])
    assert single.dtype == clf.predict_proba(FRAME[:1]).dtype


def test_levels_are_told_by_their_rates():
    """A level with twice the exposure and half the rate has the same counts."""
    rng = np.random.default_rng(3)
    kind = rng.integers(3, size=600)
    exposure = np.array([1.0, 2.0, 1.0])[kind]
    y = rng.poisson(10 * np.array([1.0, 0.5, 0.5])[kind] * exposure).astype(float)
    table = pd.DataFrame({"kind": np.array(["a", "b", "c"])[kind]})
    model = TabularRegressor(loss="poisson", **QUICK).fit(table, y, offset=np.log(exposure))
    a, b = model.predict(pd.DataFrame({"kind": ["a", "b"]}))
    assert a / b == pytest.approx(2.0, rel=0.1)
    assert a == pytest.approx(10.0, rel=0.1)


def test_rows_without_weight_have_no_offset():
    offset, y, weight = LOG.copy(), COUNTS.copy(), np.ones(N)
    weight[::5] = 0.0
    offset[::5], y[::5] = 30.0, 0.0
    plain = Members(piecewise=None, batch_size=N, dropout=0.0)
    options = QUICK | {"smooth": plain, "sharp": None, "loss": "poisson"}
    numbers = FRAME[["size", "age"]]
    other = TabularRegressor(**options).fit(numbers, y, weight, offset=offset)
    model = TabularRegressor(**options).fit(numbers, COUNTS, weight, offset=LOG)
    np.testing.assert_allclose(other.predict(numbers), model.predict(numbers), rtol=1e-3)


def test_missing_targets():
    y = np.c_[X[:, 0] + EXPOSURE, MARGIN + X[:, 1]]
    y[::3, 0] = np.nan
    offset = np.c_[EXPOSURE, MARGIN]
    model = TabularRegressor(**QUICK | {"budget": 0.5}).fit(X, y, offset=offset)
    there = ~np.isnan(y[:, 0])
    assert r2_score(X[there, 0], model.predict(X)[there, 0]) > 0.9
    assert model.score(X, y, offset=offset) > 0.9
    assert model.oof_score_ > 0.9
    other = offset.copy()
    other[::3, 0] = 1e3  # of targets that are missing
    moved = TabularRegressor(**QUICK | {"budget": 0.5}).fit(X, y, offset=other)
    np.testing.assert_allclose(moved.predict(X), model.predict(X), rtol=1e-3, atol=1e-3)


def test_single_precision_beside_large_offsets():
    large = 1e7 + EXPOSURE
    model = TabularRegressor(**QUICK | {"budget": 0.5}).fit(FRAME, X[:, 0] + large, offset=large)
    assert r2_score(X[:, 0], model.predict(FRAME)) > 0.95
    assert r2_score(X[:, 0], model.predict(FRAME, offset=large) - large) > 0.95
    held_out = np.isfinite(model.oof_prediction_)
    assert r2_score(X[held_out, 0], (model.oof_prediction_ - large)[held_out]) > 0.9


def test_monotonic_constraints_hold_with_offsets():
    model = TabularRegressor(loss="poisson", monotonic_cst={"size": 1}, **QUICK)
    model.fit(FRAME, COUNTS, offset=LOG)
    grid = FRAME.loc[np.zeros(50, int)].assign(size=np.linspace(-4, 4, 50))
    assert (np.diff(model.predict(grid, offset=np.full(50, 1.5))) >= 0).all()


# -- held-out rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_held_out_rows_are_predicted_with_their_offset(case):
    make, y, offset = CASES[case]
    held_out = slice(160, None)
    split = make(**ONE_FOLD).fit(FRAME, y, offset=offset)
    method = "predict_proba" if hasattr(split, "predict_proba") else "predict"
    method = "decision_function" if case == "hinge" else method
    found = getattr(split, method)(FRAME[held_out], offset=offset[held_out])
    found = np.concatenate(found, axis=1) if isinstance(found, list) else found
    kept = split.oof_prediction_[held_out]
    np.testing.assert_allclose(kept.reshape(found.shape), found, rtol=1e-5, atol=1e-6)
    if case == "columns":
        right = (split.predict(FRAME[held_out], offset=offset[held_out]) == y[held_out]).all(axis=1)
        assert split.oof_score_ == np.mean(right)
    elif case != "balanced":  # whose score counts the weights of classes
        score = split.score(FRAME[held_out], y[held_out], offset=offset[held_out])
        assert split.oof_score_ == pytest.approx(score, abs=1e-6)
    val = {"X_val": FRAME[held_out], "y_val": y[held_out], "offset_val": offset[held_out]}
    given = make(**QUICK).fit(FRAME[:160], y[:160], offset=offset[:160], **val)
    found = getattr(given, method)(FRAME[held_out], offset=offset[held_out])
    found = np.concatenate(found, axis=1) if isinstance(found, list) else found
    np.testing.assert_allclose(given.oof_prediction_.reshape(found.shape), found, rtol=1e-5, atol=1e-6)


def test_temperatures_are_those_of_outputs_beside_offsets():
    held_out = slice(160, None)
    model = TabularClassifier(sharp=None, **ONE_FOLD).fit(FRAME, THREE, offset=MARGINS)
    [temperature] = model.temperature_.values()
    raw = model.decision_function(FRAME[held_out]) * temperature
    codes = np.searchsorted(model.classes_, THREE[held_out])
    grid = np.geomspace(0.05, 20.0, 4001)
    losses = [-log_softmax(raw / t + MARGINS[held_out], axis=1)[np.arange(80), codes].mean() for t in grid]
    assert temperature == pytest.approx(grid[np.argmin(losses)], rel=0.01)


def test_kinds_are_mixed_by_errors_with_offsets():
    rng = np.random.default_rng(5)
    margins = 4.0 * rng.normal(size=(N, 3))
    y = margins.argmax(axis=1)
    model = TabularClassifier(**ONE_FOLD).fit(FRAME, y, offset=margins)
    assert model.score(FRAME, y, offset=margins) > 0.95
    assert model.oof_score_ > 0.95
    assert model.score(FRAME, y) < 0.6


def test_scorers_see_offsets():
    options = ONE_FOLD | {"scoring": "neg_mean_poisson_deviance"}
    model = TabularRegressor(loss="poisson", **options).fit(FRAME, COUNTS, offset=LOG)
    expected = -mean_poisson_deviance(COUNTS[160:], model.predict(FRAME[160:], offset=LOG[160:]))
    assert model.oof_score_ == pytest.approx(expected, rel=1e-5)
    scorer = make_scorer(accuracy_score)
    clf = TabularClassifier(**ONE_FOLD | {"scoring": scorer}).fit(FRAME, THREE, offset=MARGINS)
    assert clf.oof_score_ == clf.score(FRAME[160:], THREE[160:], offset=MARGINS[160:])


@pytest.mark.filterwarnings("ignore:a budget of")  # which is short where much else runs
def test_budgets_in_seconds():
    model = TabularRegressor(loss="poisson", **QUICK | {"budget": "0.5s"}).fit(FRAME, COUNTS, offset=LOG)
    np.testing.assert_allclose(model.predict(FRAME, offset=LOG), model.predict(FRAME) * EXPOSURE, rtol=1e-6)


# -- files and predictors ----------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_copies_predict_the_same_bits(case, tmp_path):
    make, y, offset = CASES[case]
    model = fitted(case)
    again = make(**QUICK).fit(FRAME, y, offset=offset)
    frozen = model.freeze()
    sknet.save(model, tmp_path / "model")
    sknet.save(frozen, tmp_path / "frozen")
    copies = [
        again,
        frozen,
        sknet.load(tmp_path / "model"),
        sknet.load(tmp_path / "frozen"),
        pickle.loads(pickle.dumps(model)),
        pickle.loads(pickle.dumps(frozen)),
        model.slim(),
    ]
    for rows, given in ((slice(None), {"offset": offset}), (slice(0, 7), {})):
        expected = predictions(model, FRAME[rows], **given)
        for other in copies:
            assert_same(predictions(other, FRAME[rows], **given), expected)
    row = predictions(model, FRAME[:1], offset=offset[:1])
    assert_same(predictions(frozen, FRAME[:1], offset=offset[:1]), row, close(1e-5, 1e-6))


@pytest.mark.parametrize("case", ["poisson", "two targets", "three classes", "columns", "hinge"])
def test_python_files_add_offsets_to_the_same_bits(case, tmp_path):
    offset, frozen = CASES[case][2], fitted(case).freeze()
    frozen.to_python(tmp_path / "tables.py")
    module = module_of(tmp_path / "tables.py")
    for given in ({"offset": offset}, {}):
        found, expected = predictions(module, **given), predictions(frozen, **given)
        assert_same(found, expected, close(1e-6))  # SciPy's logistic function is another in a file
        for name in found.keys() - {"predict_proba", "predict_log_proba"}:
            assert_same({name: found[name]}, {name: expected[name]})
    with pytest.raises(ValueError, match=r"offset must have finite numbers of shape .*; got shape \(2,\)"):
        module.predict(FRAME, offset=[1.0, 2.0])


def test_frozen_pipelines_pass_offsets_on():
    pipe = make_pipeline(StandardScaler(), TabularClassifier(**QUICK))
    pipe.fit(X, THREE, tabularclassifier__offset=MARGINS)
    frozen = sknet.freeze(pipe)
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        expected = getattr(pipe[-1], name)(pipe[:-1].transform(X), offset=MARGINS)
        np.testing.assert_array_equal(getattr(frozen, name)(X, offset=MARGINS), expected)


def test_summary_and_representation():
    model = fitted("poisson")
    assert "offset: added to the outputs" in str(model.summary())
    assert "loss: Poisson(" in str(model.summary())
    assert "targets: divided by their mean" in str(model.summary())
    assert repr(model.freeze()).endswith("members, Poisson)")


# -- routing -----------------------------------------------------------------------------------------


def by_hand(splitter):
    found = []
    for training, test in splitter.split(X):
        model = TabularRegressor(loss="poisson", **QUICK)
        model.fit(X[training], COUNTS[training], offset=LOG[training])
        found.append(model.score(X[test], COUNTS[test], offset=LOG[test]))
    return found


@pytest.mark.parametrize("function", [cross_validate, model_selection.cross_validate])
def test_cross_validation_routes_offsets(function):
    splitter = KFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        model = TabularRegressor(loss="poisson", **QUICK)
        model.set_fit_request(offset=True).set_score_request(offset=True)
        found = function(model, X, COUNTS, cv=splitter, params={"offset": LOG})
    np.testing.assert_allclose(found["test_score"], by_hand(splitter))


@pytest.mark.parametrize("search", [GridSearchCV, model_selection.GridSearchCV])
def test_searches_route_offsets(search):
    splitter = KFold(2)
    with sklearn.config_context(enable_metadata_routing=True):
        model = TabularRegressor(loss="poisson", **QUICK).set_fit_request(offset=True)
        model.set_score_request(offset=True).set_predict_request(offset=True)
        found = search(model, {"budget": [0.1, 0.02]}, cv=splitter).fit(X, COUNTS, offset=LOG)
        assert clone(model).get_metadata_routing().predict.requests["offset"] is True
    scores = [found.cv_results_[f"split{k}_test_score"][0] for k in range(2)]
    np.testing.assert_allclose(scores, by_hand(splitter))
    again = clone(found.best_estimator_).fit(X, COUNTS, offset=LOG)
    np.testing.assert_array_equal(found.best_estimator_.predict(X, offset=LOG), again.predict(X, offset=LOG))


# -- errors ------------------------------------------------------------------------------------------


class SquareError(SquaredError):
    """A squared error whose predictions are squares."""

    def predict(self, output):
        return output * output


VAL = {"X_val": FRAME, "y_val": COUNTS}
ERRORS = {
    "shape": ("poisson", {"offset": LOG[:-1]}, r"shape \(240, 1\) or \(240,\); got shape \(239,\)"),
    "columns": ("three classes", {"offset": MARGIN}, r"shape \(240, 3\); got shape \(240,\)"),
    "NaN": ("poisson", {"offset": np.where(np.arange(N) == 7, np.nan, LOG)}, r"got nan at offset\[7\]"),
    "infinity": ("poisson", {"offset": np.full(N, -np.inf)}, r"got -inf at offset\[0\]"),
    "text": ("poisson", {"offset": "exposure"}, "finite numbers.*got 'exposure'"),
    "no offset_val": ("poisson", {"offset": LOG, **VAL}, "offset is given without offset_val"),
    "no offset": ("poisson", {"offset_val": LOG, **VAL}, "offset_val is given without offset"),
    "no X_val": ("poisson", {"offset_val": LOG, "offset": LOG}, "belong together, got only offset_val"),
    "shape of offset_val": (
        "poisson",
        {"offset": LOG, **VAL, "offset_val": LOG[:3]},
        r"(?s)X_val and y_val do not fit.*offset_val is added.*got shape \(3,\)",
    ),
}


@pytest.mark.parametrize(("case", "given", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(case, given, message):
    make, y, _ = CASES[case]
    with pytest.raises(ValueError, match=message):
        make(**QUICK).fit(FRAME, y, **given)


@pytest.mark.parametrize("loss", [GaussianNLL(), Quantile([0.1, 0.9])])
def test_losses_with_several_outputs_have_none(loss):
    with pytest.raises(ValueError, match=r"has 2 outputs for a target: use a loss with one"):
        TabularRegressor(loss=loss, **QUICK).fit(FRAME, COUNTS, offset=LOG)


def test_errors_of_links_and_predictions():
    with pytest.raises(
        ValueError, match=r"predictions are its outputs, and those of SquareError.*no scaling"
    ):
        TabularRegressor(loss=SquareError(), **QUICK).fit(FRAME, COUNTS, offset=LOG)
    plain = TabularRegressor(loss="poisson", **QUICK).fit(FRAME, COUNTS)
    moved = fitted("poisson")
    for model in (plain, plain.freeze()):
        with pytest.raises(ValueError, match="was fitted with one, and this one was not"):
            model.predict(FRAME, offset=LOG)
    for model in (moved, moved.freeze()):
        with pytest.raises(ValueError, match=r"shape \(240, 1\) or \(240,\); got shape \(3,\)"):
            model.predict(FRAME, offset=[1.0, 2.0, 3.0])
