"""Importances and attributions of the columns of a table, for ensembles."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import RFE, SelectFromModel

import sknet
from sknet import TabularClassifier, TabularRegressor

QUICK = {"budget": 0.1, "n_folds": 2, "random_state": 0}


def table(n=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "kind": rng.choice(list("xyz"), n),
            "noise": rng.normal(size=n),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    return X, 3.0 * X["a"] + 2.0 * (X["kind"] == "x")


@pytest.fixture(scope="module")
def regressor():
    X, y = table()
    return TabularRegressor(**QUICK).fit(X, y)


def test_columns_that_matter(regressor):
    # By hand: replaced values raise the mean squared error by twice the variance of a column's part.
    X, _ = table()
    parts = [9 * X["a"].var(), 4 * (X["kind"] == "x").var(), 0.0, 0.0]
    np.testing.assert_allclose(regressor.feature_importances_, np.divide(parts, sum(parts)), atol=0.06)
    assert regressor.feature_importances_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_importances_are_rises_of_the_loss_of_predictions(is_sparse):
    X, y = table()
    if is_sparse:
        X = scipy.sparse.random(300, 6, 0.7, format="csr", random_state=0)
        y = X[:, [0]].toarray().ravel() + X[:, [3]].toarray().ravel()
    others, y_others = X[7:9], np.asarray(y)[7:9]
    # Of two rows, each has the values of the other one; with this seed, not its own.
    reg = TabularRegressor(budget=0.1, n_folds=1, random_state=0, extrapolate=True)
    reg.fit(X[10:], y[10:], X_val=others, y_val=y_others)

    def loss(rows):
        return ((reg.predict(rows).astype(float) - y_others) ** 2).mean()

    rises = []
    for i in range(X.shape[1]):
        swapped = others.copy()
        if is_sparse:
            swapped = swapped.toarray()
            swapped[:, i] = swapped[::-1, i]
            swapped = scipy.sparse.csr_matrix(swapped)
        else:
            swapped.isetitem(i, others.iloc[::-1, i].to_numpy())
        rises.append(max(loss(swapped) - loss(others), 0.0))
    assert sum(rises) > 0
    np.testing.assert_allclose(reg.feature_importances_, rises / np.sum(rises), rtol=1e-3, atol=1e-4)


def test_importances_are_those_of_the_seed_for_any_number_of_threads(regressor):
    X, y = table()
    again = TabularRegressor(**QUICK, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(again.feature_importances_, regressor.feature_importances_)


def test_importances_are_saved(regressor, tmp_path):
    sknet.save(regressor, tmp_path / "it")
    loaded = sknet.load(tmp_path / "it")
    np.testing.assert_array_equal(loaded.feature_importances_, regressor.feature_importances_)


def test_sparse_and_dense_columns_alike():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(200, 12, 0.4, format="csr", random_state=0)
    y = X[:, [2]].toarray().ravel() * 5 + 0.01 * rng.normal(size=200)
    found = TabularRegressor(**QUICK).fit(X, y)
    assert found.feature_importances_.argmax() == 2
    assert found.feature_importances_[2] > 0.8
    assert found.integrated_gradients(X[:2]).shape == (2, 12)


def test_contributions_sum_to_the_difference(regressor):
    X, _ = table()
    baseline = X.iloc[:1]
    found = regressor.integrated_gradients(X[:20], baseline, n_steps=300)
    difference = regressor.predict(X[:20]) - regressor.predict(baseline)
    assert found.shape == (20, 4)
    np.testing.assert_allclose(found.sum(axis=1), difference, atol=0.02)
    is_same = X["kind"][:20] == X["kind"][0]
    assert not found[is_same, 1].any()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_to_a_class(n_classes):
    X, _ = table()
    y = X["kind"].to_numpy()
    y = np.where(y == "z", "y", y) if n_classes == 2 else y
    clf = TabularClassifier(**QUICK).fit(X, y)
    assert clf.feature_importances_.argmax() == 1
    found = clf.integrated_gradients(X[:9], target="x", n_steps=300)
    decisions = clf.decision_function(X[:9])
    decisions = -decisions if n_classes == 2 else decisions[:, 0]
    # Relative to one baseline: the differences between rows are those of their decisions.
    sums = found.sum(axis=1)
    np.testing.assert_allclose(sums - sums[0], decisions - decisions[0], atol=0.02 * np.abs(decisions).max())
    np.testing.assert_array_equal(
        clf.integrated_gradients(X[:9]), clf.integrated_gradients(X[:9], target=clf.predict(X[:9]))
    )


def test_selection_of_features():
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :5]
    clf = TabularClassifier(budget=0.05, n_folds=1, random_state=0)
    assert RFE(clf, n_features_to_select=4).fit(X, y).support_.sum() == 4
    chosen = SelectFromModel(clf).fit(X, y)
    importances = chosen.estimator_.feature_importances_
    np.testing.assert_array_equal(chosen.get_support(), importances >= importances.mean())


def test_arguments_of_contributions(regressor):
    X, _ = table()
    with pytest.raises(ValueError, match="baseline must have one row, or the 3 of X, got 2"):
        regressor.integrated_gradients(X[:3], X[:2])
    with pytest.raises(ValueError, match=r"'n_steps' parameter"):
        regressor.integrated_gradients(X[:3], n_steps=0)
    with pytest.raises(ValueError, match="there is no output 1"):
        regressor.integrated_gradients(X[:3], target=1)


def test_weights_of_zero_count_for_nothing():
    X, y = table(100)
    weight = np.zeros(100)
    weight[:60] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = TabularRegressor(**QUICK).fit(X, y, sample_weight=weight).feature_importances_
    assert found.argmax() == 0
