"""Importances of the columns of X in networks."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.feature_selection import RFE, SelectFromModel

import sknet
from sknet import Autoencoder, MLPClassifier, MLPRegressor, NetClassifier, nn
from sknet.optim import LBFGS

QUICK = {"max_iter": 30, "tol": 10.0, "n_iter_no_change": 20, "random_state": 0}


def linear(n=150):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4)) * [1.0, 10.0, 0.1, 1.0] + [5.0, 0.0, 1.0, 0.0]
    return X, X @ [2.0, 0.1, 0.0, -1.0]


def test_of_a_linear_model_they_are_its_products():
    X, y = linear()
    reg = MLPRegressor((), optimizer=LBFGS(), max_iter=500, random_state=0, dtype="float64").fit(X, y)
    parts = np.abs((X - X.mean(axis=0)) * [2.0, 0.1, 0.0, -1.0]).mean(axis=0)
    np.testing.assert_allclose(reg.feature_importances_, parts / parts.sum(), atol=2e-3)


def test_sparse_rows_and_several_outputs():
    X, y = linear()
    both = MLPRegressor((8,), **QUICK).fit(X, np.c_[y, -y])
    assert both.feature_importances_.shape == (4,)
    assert both.feature_importances_.sum() == pytest.approx(1.0)
    raw = QUICK | {"scale_inputs": False}  # sparse rows are divided only
    dense = MLPRegressor((8,), **raw).fit(X, y).feature_importances_
    sparse = MLPRegressor((8,), **raw).fit(scipy.sparse.csr_array(X), y).feature_importances_
    np.testing.assert_allclose(sparse, dense, atol=1e-3)


def test_classes():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.c_[X, rng.normal(size=len(X))]
    for labels in (y, y == 1, np.c_[y == 0, y == 1].astype(int)):
        found = (
            MLPClassifier((16,), max_iter=500, tol=1e-2, random_state=0).fit(X, labels).feature_importances_
        )
        assert found.shape == (5,)
        assert found[2:4].sum() > found[4]
        assert found.sum() == pytest.approx(1.0)


def test_columns_of_a_table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"n": rng.normal(size=300), "kind": rng.choice(list("xyz"), 300), "a": rng.normal(size=300)}
    )
    y = 3.0 * (X["kind"] == "x") + 0.5 * X["n"]
    reg = MLPRegressor((16,), encoder="table", max_iter=200, tol=1e-3, random_state=0).fit(X, y)
    found = reg.feature_importances_
    assert found.argsort().tolist() == [2, 0, 1]
    contributions = reg.integrated_gradients(X[:10])
    assert contributions.shape == (10, 3)
    decoded = reg.predict(X[:10]) - contributions.sum(axis=1)  # each is the prediction for encodings of 0
    np.testing.assert_allclose(decoded, decoded[0], atol=0.05)


def test_selection():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    clf = MLPClassifier((8,), **QUICK)
    assert RFE(clf, n_features_to_select=25, step=5).fit(X, y).support_.sum() == 25
    chosen = SelectFromModel(clf).fit(X, y)
    found = chosen.estimator_.feature_importances_
    np.testing.assert_array_equal(chosen.get_support(), found >= found.mean())


def test_they_outlive_files_and_not_slimming(tmp_path):
    X, y = linear()
    reg = MLPRegressor((8,), **QUICK).fit(X, y)
    found = reg.feature_importances_
    sknet.save(reg, tmp_path / "it")
    for other in (pickle.loads(pickle.dumps(reg)), sknet.load(tmp_path / "it")):
        np.testing.assert_array_equal(other.feature_importances_, found)
    with pytest.raises(AttributeError, match=r"no feature_importances_.*permutation_importance"):
        _ = reg.slim().feature_importances_


def test_where_there_are_no_columns():
    images = np.random.default_rng(0).normal(size=(20, 1, 4, 4)).astype("float32")
    clf = NetClassifier(
        nn.Sequential(nn.Flatten(), nn.LazyLinear(2)),
        max_iter=3,
        tol=10.0,
        n_iter_no_change=1,
        random_state=0,
    ).fit(images, np.arange(20) % 2)
    assert not hasattr(clf, "feature_importances_")
    coder = Autoencoder((2,), **QUICK).fit(linear()[0])
    assert not hasattr(coder, "feature_importances_")
