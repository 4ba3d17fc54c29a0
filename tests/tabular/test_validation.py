"""Validation rows of the user's own, scorers, and progress of ensembles for tables."""

import sys
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score, roc_auc_score

import sknet
from sknet import TabularClassifier, TabularRegressor

QUICK = {"budget": 0.1, "n_folds": 2, "random_state": 0}


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.normal(size=n), "kind": rng.choice(list("xyz"), n)})
    return X, np.where(X["size"] + 2 * (X["kind"] == "x") + 0.3 * rng.normal(size=n) > 0.5, "yes", "no")


def test_validation_rows_are_held_out():
    (X, y), (X_val, y_val) = rows(200), rows(80, 1)
    clf = TabularClassifier(**QUICK).fit(X, y, X_val=X_val, y_val=y_val)
    assert clf.oof_prediction_.shape == (80, 2)
    np.testing.assert_allclose(clf.oof_prediction_, clf.predict_proba(X_val), atol=1e-6)
    assert clf.oof_score_ == accuracy_score(y_val, clf.predict(X_val))
    assert clf.feature_importances_.shape == (2,)
    other = TabularClassifier(**QUICK).fit(X, y, X_val=X_val, y_val=y_val[::-1])
    assert (other.oof_prediction_ != clf.oof_prediction_).any()  # they choose mix, temperature and weights


def test_validation_rows_are_not_trained_on():
    # Weights of the last epoch of one kind know nothing of the rows that are held out.
    X, y = rows(200)
    options = {**QUICK, "smooth": None}
    found = [
        TabularClassifier(**options).fit(X, y, X_val=X_val, y_val=y_val)
        for X_val, y_val in (rows(80, 1), rows(40, 2))
    ]
    first, second = (
        [member.outputs(member.encoder.transform(X)) for member in each.members_] for each in found
    )
    np.testing.assert_array_equal(first, second)


def test_targets_of_validation_rows_change_no_unit():
    (X, _), (X_val, _) = rows(200), rows(80, 1)
    y, y_val = 3.0 * X["size"], 3.0 * X_val["size"]
    weight = np.linspace(0.5, 1.5, 80)
    reg = TabularRegressor(**QUICK).fit(X, y, X_val=X_val, y_val=y_val, sample_weight_val=weight)
    assert reg.oof_prediction_.shape == (80,)
    assert reg.oof_score_ == pytest.approx(r2_score(y_val, reg.predict(X_val), sample_weight=weight))
    assert reg.predict(pd.DataFrame({"size": [99.0], "kind": ["x"]}))[0] <= y.max()


def test_sparse_validation_rows(tmp_path):
    X = scipy.sparse.random(150, 10, 0.3, format="csr", random_state=0)
    y = np.asarray(X.sum(axis=1)).ravel()
    reg = TabularRegressor(**QUICK).fit(X[:100], y[:100], X_val=X[100:], y_val=y[100:])
    np.testing.assert_allclose(reg.oof_prediction_, reg.predict(X[100:]), rtol=1e-4, atol=1e-5)
    sknet.save(reg, tmp_path / "it")
    np.testing.assert_array_equal(sknet.load(tmp_path / "it").predict(X), reg.predict(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X_val": 0}, "X_val and y_val belong together, got only X_val"),
        ({"y_val": 0}, "X_val and y_val belong together, got only y_val"),
        ({"sample_weight_val": 0}, "X_val and y_val belong together, got only sample_weight_val"),
        ({"X_val": 0, "y_val": 0, "groups": 0}, "groups has no effect: X_val holds rows out"),
        ({"X_val": rows(5)[0], "y_val": ["perhaps"] * 5}, "(?s)X_val and y_val do not fit .*perhaps"),
        ({"X_val": rows(5)[0][["size"]], "y_val": ["yes"] * 5}, "do not fit .* feature names should"),
    ],
)
def test_validation_rows_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        TabularClassifier(**QUICK).fit(*rows(40), **arguments)


def test_other_names_and_parts_have_hints():
    X, y = rows(40)
    with pytest.raises(TypeError, match="no argument 'eval_set': pass validation rows as X_val and y_val"):
        TabularClassifier().fit(X, y, eval_set=[(X, y)])
    assert not hasattr(TabularClassifier(), "partial_fit")
    with pytest.raises(AttributeError, match=r"'partial_fit': each fit .* MLPClassifier or MLPRegressor"):
        TabularClassifier().partial_fit(X, y)


def test_scorers():
    X, y = rows(200)
    clf = TabularClassifier(**QUICK, scoring="neg_log_loss").fit(X, y)
    known = ~np.isnan(clf.oof_prediction_[:, 0])
    assert clf.oof_score_ == pytest.approx(-log_loss(y[known], clf.oof_prediction_[known]))
    clf.set_params(scoring="roc_auc").fit(X, y)
    assert clf.oof_score_ == pytest.approx(roc_auc_score(y[known], clf.oof_prediction_[known, 1]))
    number = X["size"] * 2.0
    reg = TabularRegressor(**QUICK, scoring="neg_mean_absolute_error").fit(X, number)
    known = ~np.isnan(reg.oof_prediction_)
    assert reg.oof_score_ == pytest.approx(-mean_absolute_error(number[known], reg.oof_prediction_[known]))


def test_a_scorer_that_looks_at_rows():
    def among_x(estimator, X, y):
        is_x = (X["kind"] == "x").to_numpy()
        return accuracy_score(np.asarray(y)[is_x], estimator.predict(X)[is_x])

    (X, y), (X_val, y_val) = rows(200), rows(80, 1)
    clf = TabularClassifier(**QUICK, scoring=among_x).fit(X, y, X_val=X_val, y_val=y_val)
    assert clf.oof_score_ == among_x(clf, X_val, y_val)


@pytest.mark.parametrize(
    ("scoring", "message"), [("aucc", "not a scorer"), (["accuracy", "roc_auc"], "must be one scorer")]
)
def test_scorers_are_checked(scoring, message):
    with pytest.raises(ValueError, match=message):
        TabularClassifier(**QUICK, scoring=scoring).fit(*rows(60))


@pytest.mark.parametrize("is_watched", [True, False])
def test_a_long_fit_shows_its_progress(is_watched, capsys, monkeypatch):
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: 10_000 * now())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_watched, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    TabularClassifier(**QUICK, n_jobs=1).fit(*rows(60))
    assert ("Member 4 of 4" in capsys.readouterr().out) == is_watched


def test_a_scorer_that_lacks_a_class_names_it():
    X = np.random.default_rng(0).normal(size=(120, 2))
    y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)]
    y[0] = "c"
    clf = TabularClassifier(budget=0.05, scoring="neg_log_loss", random_state=0)
    with pytest.raises(ValueError, match="Held-out rows have no row of class 'c': score"):
        clf.fit(X, y)
