"""Ensembles for tables: every kind of target, held-out rows, and options."""

import itertools
import pickle
import time
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import estimator_checks
from sklearn.utils._testing import assert_allclose_dense_sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

import sknet
from sknet.losses import NLL, Ordinal, Quantile
from sknet.tabular import Members, TabularClassifier, TabularRegressor
from tests.estimators.checks import run_check
from tests.fuzz.tables import drawn, harmed

QUICK = {"n_folds": 2, "members": 1, "budget": 0.1, "random_state": 0}
SMALL = {**QUICK, "smooth": Members(hidden_layer_sizes=[16]), "sharp": Members(hidden_layer_sizes=[16])}
TINY = {**QUICK, "budget": 0.6, "smooth": Members(hidden_layer_sizes=[8]), "sharp": None}
# As in scikit-learn's own ensembles: batches, folds and dropout are drawn by rows, repeated ones differently.
STOCHASTIC = {f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")}
# The last bits of a row's products in float32 depend on its place in the batch where BLAS uses AVX-512.
PLACED = {f"check_methods_{kind}_invariance" for kind in ("sample_order", "subset")}


@parametrize_with_checks([TabularClassifier(**TINY), TabularRegressor(**TINY)])
def test_check(estimator, check, monkeypatch):
    if check.func.__name__ in PLACED:
        to_float32 = partial(assert_allclose_dense_sparse, rtol=1e-5, atol=1e-6)
        monkeypatch.setattr(estimator_checks, "assert_allclose_dense_sparse", to_float32)
    if check.func.__name__ not in STOCHASTIC:
        run_check(estimator, check, budget=0.1)
        return
    with pytest.raises(AssertionError, match="fitting with `sample_weight` is not equivalent"):
        run_check(estimator, check, budget=0.1)


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 80, n)),
            "city": pd.Series(rng.choice(["Rome", "Bern", "Oslo"], n), dtype="category"),
            "member": rng.random(n) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    signal = frame["member"] * 2.0 - (frame["city"] == "Bern") + frame["age"].fillna(40) / 40
    return frame, (signal + 0.2 * rng.normal(size=n)).to_numpy()


X, SIGNAL = table()
LABELS = {
    "binary": (SIGNAL > 1.7).astype(int),
    "strings": np.where(SIGNAL > 1.7, "yes", "no"),
    "multiclass": np.digitize(SIGNAL, [1.0, 2.0, 2.5]),
    "multilabel": np.stack([SIGNAL > 1.5, X["member"], X["city"] == "Rome"], axis=1).astype(int),
    "columns": np.stack([np.digitize(SIGNAL, [1.0, 2.0]), np.digitize(SIGNAL, [1.5])], axis=1),
}
NUMBERS = {"one": SIGNAL, "large": 1e6 + 1e3 * SIGNAL, "several": np.stack([SIGNAL, -SIGNAL + 5], axis=1)}


@pytest.mark.parametrize("loss", ["squared_error", "gaussian_nll", Quantile([0.1, 0.5, 0.9])], ids=str)
@pytest.mark.parametrize("base", [2_460_000.5, 1e8])
def test_targets_far_from_zero_keep_their_precision(base, loss):
    """Their neighbours in float32 are a quarter or 8 apart, and they vary by 1."""
    z = SIGNAL / SIGNAL.std()
    near, far = (TabularRegressor(**SMALL, loss=loss).fit(X, base * shift + z) for shift in (0, 1))
    assert far.oof_score_ == pytest.approx(near.oof_score_, abs=1e-3)
    for model in (far, far.freeze()):
        assert model.predict(X).dtype == np.float64
        np.testing.assert_allclose(model.predict(X) - base, near.predict(X), atol=1e-3)
        for method in ("predict_std", "predict_interval"):
            if hasattr(near, method):
                shift = 0.0 if method == "predict_std" else base
                found = getattr(model, method)(X)
                np.testing.assert_allclose(found - shift, getattr(near, method)(X), atol=1e-3)


@pytest.mark.parametrize("unit", [2.0**-400, 2.0**-90, 2.0**-30, 2.0**60, 2.0**400])
def test_the_unit_of_targets_does_not_matter(unit):
    """Not even for which epochs are the best, by losses in this unit."""
    one, other = (TabularRegressor(**SMALL).fit(X, SIGNAL * u) for u in (1.0, unit))
    assert other.oof_score_ == pytest.approx(one.oof_score_, abs=0.02)
    same = TabularRegressor(**SMALL).fit(X, SIGNAL * 2.0**-300)  # trees see numbers in these units otherwise
    if unit < 1:
        np.testing.assert_allclose(other.predict(X) / unit, same.predict(X) / 2.0**-300, rtol=1e-6)


@pytest.mark.parametrize("target", ["one", "several"])
def test_predictions_go_beyond_the_targets_of_a_fit_only_if_asked_to(target, tmp_path):
    x = np.linspace(0, 1, 200)
    y = 10 * x if target == "one" else np.stack([10 * x, -10 * x], axis=1)
    X, beyond = x.reshape(-1, 1), np.array([[1.5], [-0.5]])
    bounded, free = (
        TabularRegressor(**{**SMALL, "budget": 1.0}, extrapolate=e).fit(X, y) for e in (False, True)
    )
    assert np.abs(bounded.predict(beyond)).max() <= 10.0
    sknet.save(free, tmp_path / "saved")
    for model in (free, free.freeze(), sknet.load(tmp_path / "saved"), pickle.loads(pickle.dumps(free))):
        found = model.predict(beyond).reshape(2, -1)[:, 0]
        assert found[0] > 10.5
        assert found[1] < -0.5
    np.testing.assert_array_equal(
        np.clip(free.predict(beyond), y.min(axis=0), y.max(axis=0)), bounded.predict(beyond)
    )


def test_ensembles_of_integers_are_saved(tmp_path):
    y = np.stack([np.arange(len(X)), -np.arange(len(X))], axis=1)
    reg = TabularRegressor(**SMALL).fit(X, y)
    sknet.save(reg, tmp_path / "saved")
    np.testing.assert_array_equal(sknet.load(tmp_path / "saved").predict(X), reg.predict(X))


def test_targets_that_are_dates_are_refused_by_name():
    frame, _ = table(60)
    with pytest.raises(sknet.exceptions.DtypeError, match="y must hold numbers, but its dtype is date"):
        TabularRegressor(**TINY).fit(frame, frame["since"])


def test_targets_whose_squares_overflow_or_vanish():
    for unit, wrong in ((1e200, "smaller"), (1e-200, "larger")):
        with pytest.raises(ValueError, match=rf"y must be {wrong}: its deviation is .*, and SquaredError"):
            TabularRegressor(**SMALL).fit(X, unit * SIGNAL)
        reg = TabularRegressor(**SMALL, loss="gaussian_nll").fit(X, unit * SIGNAL)  # has logarithms
        assert reg.oof_score_ > 0.9


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_kind(kind):
    y = LABELS[kind]
    clf = TabularClassifier(**SMALL).set_params(budget=1.0).fit(X, y)
    predicted = clf.predict(X)
    assert predicted.shape == y.shape
    assert set(np.unique(predicted)) <= set(np.unique(y))
    chance = max((np.unique(y, axis=0, return_counts=True)[1]) / len(y))
    assert clf.score(X, y) > chance + 0.5 * (1 - chance)
    found = clf.predict_proba(X)
    for part in found if isinstance(found, list) else [found]:
        assert np.isfinite(part).all()
        if kind != "multilabel":
            np.testing.assert_allclose(part.sum(axis=1), 1, rtol=1e-5)
    parts = (
        zip(found, clf.predict_log_proba(X), strict=True)
        if isinstance(found, list)
        else [(found, clf.predict_log_proba(X))]
    )
    for probability, logarithm in parts:
        np.testing.assert_allclose(np.exp(logarithm), probability, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_of_every_kind(kind):
    y = NUMBERS[kind]
    reg = TabularRegressor(**SMALL).set_params(budget=1.0).fit(X, y)
    assert reg.predict(X).shape == y.shape
    assert reg.score(X, y) > 0.8
    assert (reg.predict(X) <= y.max(axis=0)).all()
    assert (reg.predict(X) >= y.min(axis=0)).all()


@pytest.mark.parametrize("kind", [TabularClassifier, TabularRegressor])
def test_rows_out_of_fold_are_predicted_by_members_that_have_not_seen_them(kind):
    is_classifier = kind is TabularClassifier
    y = LABELS["strings"] if is_classifier else SIGNAL
    cv = list(KFold(3, shuffle=True, random_state=1).split(X))
    model = kind(**SMALL).set_params(cv=cv, members=2).fit(X, y)
    assert len(model.members_) == 3 * 2 * 2
    expected = np.zeros(len(X))
    for fold, (_, held_out) in enumerate(cv):
        for name, weight in model.mix_.items():
            members = [m for m in model.members_ if (m.kind, m.fold) == (name, fold)]
            inputs = members[0].encoder.transform(X.iloc[held_out])
            output = np.mean([m.outputs(inputs)[:, 0] for m in members], axis=0)
            expected[held_out] += weight / model.temperature_[name] * output
    if is_classifier:
        probability = 1 / (1 + np.exp(-expected))
        np.testing.assert_allclose(model.oof_prediction_[:, 1], probability, rtol=1e-4, atol=1e-6)
        labels = np.where(probability > 0.5, "yes", "no")
        assert model.oof_score_ == pytest.approx(accuracy_score(y, labels))
    else:
        found = np.clip(expected * y.std() + y.mean(), y.min(), y.max())
        np.testing.assert_allclose(model.oof_prediction_, found, rtol=1e-4, atol=1e-6)
        assert model.oof_score_ == pytest.approx(r2_score(y, found), abs=1e-5)


def test_an_encoder_has_not_seen_the_rows_held_out():
    """Each of its medians is that of the other rows."""
    model = TabularRegressor(**SMALL).set_params(sharp=None).fit(X[["age"]], SIGNAL)
    known = ~np.isnan(model.oof_prediction_)
    assert 0.15 < known.mean() < 0.25
    centers = [e.transform(pd.DataFrame({"age": [np.nan, 18.0, 79.0]})) for e in model.encoder_]
    assert not np.array_equal(*centers)


def test_scores_of_targets_in_other_containers():
    labels = np.array(["a", "b"])[LABELS["binary"]]
    model = TabularClassifier(**SMALL).fit(X, labels)
    expected = accuracy_score(labels, model.predict(X))
    assert model.score(X, np.reshape(labels, (-1, 1))) == expected
    assert model.score(X, labels, sample_weight=2.0) == expected
    codes = LABELS["binary"]
    of_codes = TabularClassifier(**SMALL).fit(X, codes)
    assert of_codes.score(X, sp.csr_array(codes[:, None])) == of_codes.score(X, codes)
    with pytest.raises(ValueError, match=r"y has the shape .* expected that of the predictions"):
        model.score(X, labels[:-1])


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_results_do_not_depend_on_threads(n_jobs):
    one, other = (TabularRegressor(**SMALL, n_jobs=n).fit(X, SIGNAL).predict(X) for n in (None, n_jobs))
    np.testing.assert_array_equal(one, other)


def test_frames_arrays_and_pickles_are_alike():
    clf = TabularClassifier(**SMALL).fit(X, LABELS["binary"])
    expected = clf.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), expected)
    again = clone(clf).fit(pl.from_pandas(X), LABELS["binary"])
    np.testing.assert_allclose(again.predict_proba(pl.from_pandas(X)), expected, rtol=1e-4, atol=1e-6)
    assert again.feature_names_in_.tolist() == list(X)
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(X[["city", "age", "member", "since"]])


def test_sparse_tables():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((200, 30)) < 0.2, rng.normal(size=(200, 30)), 0.0)
    y = (dense[:, :3].sum(axis=1) > 0).astype(int)
    clf = TabularClassifier(**SMALL).set_params(budget=1.0).fit(sp.csr_array(dense), y)
    assert clf.score(sp.csr_array(dense), y) > 0.9
    assert sp.issparse(clf.encoder_[0].transform(sp.csr_array(dense)))


def test_weights_of_rows_and_classes():
    noise = np.random.default_rng(0).random(300) < 0.5  # half of the labels are wrong, and weigh nothing
    y = np.where(noise, 1 - LABELS["binary"], LABELS["binary"])
    weighted = TabularClassifier(**SMALL).set_params(budget=1.0).fit(X, y, sample_weight=1.0 * ~noise)
    assert weighted.score(X, LABELS["binary"]) > 0.9
    rare = np.where(np.quantile(SIGNAL, 0.93) < SIGNAL, 1, 0) ^ (np.random.default_rng(1).random(300) < 0.05)
    plain, balanced = (
        TabularClassifier(**SMALL, class_weight=w).fit(X, rare).predict(X).sum() for w in (None, "balanced")
    )
    assert balanced > plain


@pytest.mark.filterwarnings("ignore:sample_weight has 6 negative weights")
@pytest.mark.parametrize("least", [-1.0, -2.0])
def test_rows_held_out_whose_weights_do_not_add_up(least):
    """The mix is chosen as if they weighed alike."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    y, weight = X[:, 0], np.ones(60)
    weight[:6] = least
    held_out = [(np.arange(12, 60), np.arange(12))]
    reg = TabularRegressor(budget=0.05, cv=held_out, random_state=0)
    assert clone(reg).fit(X, y, sample_weight=weight).mix_ == reg.fit(X, y).mix_


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({"yes": 2.0, "perhaps": 1.0}, r"names 'perhaps', which is not among the labels \['no', 'yes'\]"),
        ({"yes": -1.0}, r"class_weight\['yes'\] must be a finite number >= 0, got -1.0"),
        ({"yes": 0.0, "no": 0.0}, "at least one sample must have a positive weight"),
        ([1.0], "must hold one dict for each label of y"),
    ],
)
def test_invalid_class_weights(class_weight, message):
    with pytest.raises(ValueError, match=message):
        TabularClassifier(**SMALL, class_weight=class_weight).fit(X, LABELS["strings"])


def test_custom_groups_and_folds():
    groups = np.repeat(np.arange(60), 5)
    grouped = TabularRegressor(**SMALL).fit(X, SIGNAL, groups=groups)
    held = ~np.isnan(grouped.oof_prediction_)
    assert (held.reshape(60, 5).all(axis=1) | ~held.reshape(60, 5).any(axis=1)).all()
    every = TabularRegressor(**SMALL).set_params(cv=GroupKFold(3)).fit(X, SIGNAL, groups=groups)
    assert not np.isnan(every.oof_prediction_).any()


def test_quantiles_and_deviations():
    reg = TabularRegressor(**SMALL, loss=Quantile([0.1, 0.5, 0.9])).set_params(budget=2.0).fit(X, SIGNAL)
    low, high = reg.predict_interval(X, 0.8).T
    assert (low < high).all()
    assert 0.6 < np.mean((low <= SIGNAL) & (high >= SIGNAL)) < 0.97
    assert reg.predict_quantiles(X).shape == (300, 3)
    assert not hasattr(TabularRegressor(), "predict_std")
    deviations = TabularRegressor(**SMALL, loss="gaussian_nll").fit(X, SIGNAL).predict_std(X)
    assert (deviations > 0).all()
    assert not hasattr(TabularClassifier(loss="hinge"), "predict_proba")


ORDER = ["low", "middle", "high"]


@pytest.mark.parametrize("order", [None, ORDER])
def test_classes_in_order(order):
    names = np.array(ORDER if order else ["a", "b", "c"])
    y = names[np.digitize(SIGNAL, [1.0, 2.0])]
    clf = TabularClassifier(**SMALL, loss=Ordinal(order)).set_params(budget=1.0).fit(X, y)
    assert clf.score(X, y) > 0.8
    assert clf.oof_score_ > 0.8
    assert clf.classes_.tolist() == sorted(names)
    found = clf.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_array_equal(clf.classes_[found.argmax(axis=1)], clf.predict(X))
    far = found[:, [clf.classes_.tolist().index(names[i]) for i in (0, 2)]]
    assert (far.min(axis=1) < 0.34).all()  # the lowest and the highest are never both likely
    assert set(clf.temperature_.values()) == {1.0}
    with pytest.raises(ValueError, match="must name every class once"):
        clf.set_params(loss=Ordinal(["low", "high"])).fit(X, y)


@pytest.mark.parametrize("loss", ["nll", "binary_cross_entropy", NLL()])
def test_losses_of_probabilities_are_refused(loss):
    """A network of an ensemble has no link, so that such a loss would return what is no probability."""
    y = LABELS["multiclass" if loss != "binary_cross_entropy" else "binary"]
    with pytest.raises(ValueError, match="expects probabilities, but TabularClassifier outputs logits"):
        TabularClassifier(**SMALL, loss=loss).fit(X, y)


def test_members_are_reached_by_name():
    clf = TabularClassifier().set_params(sharp__epochs=3, smooth__lr=0.01)
    assert clf.sharp == Members(epochs=3)
    assert clf.smooth == Members(lr=0.01)
    assert clone(clf).get_params()["sharp__epochs"] == 3
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        clf.set_params(depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'epoch'"):
        clf.set_params(sharp__epoch=3)
    clf = TabularRegressor(**{**SMALL, "budget": 1.0}).set_params(sharp=None, smooth__epochs=3).fit(X, SIGNAL)
    assert {len(member.history["loss"]) for member in clf.members_} == {3}
    assert {member.kind for member in clf.members_} == {"smooth"}
    assert clf.mix_ == {"smooth": 1.0}


@pytest.mark.parametrize(("n_rows", "held_out"), [(4_990, 499), (5_000, 250)])
def test_several_rows_have_smaller_folds(n_rows, held_out):
    rows = np.random.default_rng(0).normal(size=(n_rows, 1))
    reg = TabularRegressor(**{**SMALL, "budget": 0.02, "sharp": None}).fit(rows, rows[:, 0])
    assert np.isfinite(reg.oof_prediction_).sum() == 2 * held_out  # in two folds


def test_budget():
    one, three = (
        len(TabularRegressor(**{**SMALL, "budget": b}).fit(X, SIGNAL).members_[0].history["loss"])
        for b in (0.1, 0.3)
    )
    assert abs(three - 3 * one) <= 2
    with pytest.warns(UserWarning, match="a budget of 0.001 s is too short .* for 2 epochs of 17 updates"):
        short = TabularRegressor(**{**SMALL, "budget": "0.001 s"}).fit(X, SIGNAL)
    assert [len(member.history["loss"]) for member in short.members_] == [2]
    assert np.isfinite(short.oof_prediction_).sum() == len(X) // 10
    with pytest.raises(
        ValueError, match=r"The 'budget' parameter of TabularRegressor must be .*\(0.0, 1000.0\]"
    ):
        TabularRegressor(budget=1e300).fit(X, SIGNAL)


def test_a_budget_in_seconds_includes_what_it_takes_to_estimate_it(monkeypatch):
    """By a clock on which each look takes a second, rows are encoded in 1, and an epoch takes 1.

    Of the 45 seconds 6 have gone by then; all but a twentieth of the others are for the epochs of two
    members, of which 2 are done, and for the encoding of the other fold.
    """
    clock = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    few = Members(hidden_layer_sizes=[8], epochs=20, per_fold=1)
    model = TabularRegressor(budget="45s", smooth=few, sharp=None, n_folds=2, n_jobs=1, random_state=0)
    members = model.fit(X, SIGNAL).members_
    assert {len(member.history["loss"]) for member in members} == {int((0.95 * 39 + 2 - 1) / 2)}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cv": [1]}, r"cv must .*pairs of \(training, held-out\) rows, got 1"),
        ({"cv": 3}, r"cv must be a splitter or yield pairs .*, got 3: n_folds is their number"),
        ({"cv": [(np.arange(9), np.arange(9, 12), np.arange(3))]}, "cv must .*pairs"),
        ({"budget": "soon"}, "must be a multiple of the default work, .* such as '30s'. Got 'soon'"),
        ({"budget": 0}, "The 'budget' parameter of TabularRegressor must be"),
        ({"smooth": None, "sharp": None}, "leave no members"),
        ({"smooth": "rough"}, "The 'smooth' parameter of TabularRegressor must be"),
        ({"n_folds": 0}, "The 'n_folds' parameter of TabularRegressor must be"),
        ({"loss": "log_loss"}, "regression"),
    ],
)
def test_invalid_parameters(parameters, message):
    reg = TabularRegressor(**{**SMALL, **parameters})
    with pytest.raises(ValueError, match=message):
        reg.fit(X, SIGNAL)
    assert not hasattr(reg, "n_features_in_")


def test_one_class_is_an_error_and_leaves_the_fit():
    clf = TabularClassifier(**SMALL).fit(X, LABELS["binary"])
    before = clf.predict_proba(X)
    with pytest.raises(ValueError, match="contains only one class: 1"):
        clf.fit(X, np.ones(len(X), int))
    np.testing.assert_array_equal(clf.predict_proba(X), before)


@pytest.mark.parametrize("seed", range(12))
def test_any_table(seed):
    task = ["binary", "multiclass", "regression"][seed % 3]
    rows, y = drawn(seed, task)
    model = (TabularRegressor if task == "regression" else TabularClassifier)(**SMALL)
    try:
        model.fit(rows, y)
    except ValueError as error:
        assert "column 'c0'" in str(error)  # noqa: PT017  which of the two it is depends on the table
        return
    unit = np.std(y) if task == "regression" else 1.0  # networks compute in float32, in units of the targets
    for part in (rows, harmed(rows, seed)):
        found = model.predict(part) if task == "regression" else model.predict_proba(part)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(
            (model.predict if task == "regression" else model.predict_proba)(part.iloc[1:2]),
            found[1:2],
            rtol=1e-4,
            atol=1e-6 * unit,
        )
