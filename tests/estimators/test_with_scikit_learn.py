"""scikit-learn's tools over the estimators: pipelines, searches, ensembles."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier, StackingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import neural_network
from sknet.losses import AbsoluteError, Huber
from sknet.optim import LBFGS, SGD, Adam
from sknet.optim.schedules import Constant
from tests.estimators.data import TABLES, estimator_for, quiet, same_bits

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = TABLES["multiclass"]
Z = TABLES["regression"][1]

GRIDS = [
    ("multiclass", {}, {"optimizer__lr": [1e-9, 3e-2]}),
    ("multiclass", {"optimizer": SGD()}, {"optimizer__lr": [1e-9, 1e-1], "optimizer__momentum": [0.0, 0.9]}),
    ("multiclass", {}, {"optimizer": ["sgd", Adam(0.05), LBFGS()], "hidden_layer_sizes": [(4,), (5, 5)]}),
    ("multiclass", {"optimizer": "sgd"}, {"optimizer": [Adam(), SGD()], "optimizer__lr": [0.01, 0.1]}),
    ("regression", {}, {"loss": ["squared_error", "huber", Huber(0.5), AbsoluteError()]}),
    ("regression", {"loss": "huber"}, {"loss__delta": [0.5, 2.0], "dropout": [0.0, 0.5]}),
    ("regression", {"optimizer": Adam(Constant(0.1))}, {"optimizer__lr__lr": [1e-9, 0.1]}),
]


@pytest.mark.parametrize(("task", "params", "grid"), GRIDS, ids=lambda case: str(case)[:40])
def test_grid_search(task, params, grid):
    X, y = TABLES[task]
    estimator = estimator_for(task, max_iter=5, **params)
    before = repr(estimator)
    search = GridSearchCV(estimator, grid, cv=2, n_jobs=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_.keys() == grid.keys()
    assert repr(estimator) == before
    best = clone(estimator).set_params(**search.best_params_).fit(X, y)
    assert same_bits(best, search.best_estimator_)


def test_a_grid_finds_the_rate_that_learns():
    search = GridSearchCV(estimator_for("binary", max_iter=20), {"optimizer__lr": [1e-9, 3e-2]}, cv=2)
    assert search.fit(*TABLES["binary"]).best_params_ == {"optimizer__lr": 3e-2}
    assert search.best_estimator_.history_["lr"] == [3e-2] * 20


def test_a_grid_reports_what_cannot_be_set():
    search = GridSearchCV(estimator_for("binary"), {"optimizer__rate": [1]}, cv=2)
    with pytest.raises(ValueError, match="Invalid parameter 'rate' for estimator Adam"):
        search.fit(*TABLES["binary"])


def test_setting_a_nested_parameter_makes_a_name_an_object():
    estimator = sknet.MLPRegressor(optimizer="sgd", loss="huber")
    estimator.set_params(optimizer__lr=0.5, loss__delta=2.0)
    assert estimator.optimizer == SGD(lr=0.5)
    assert estimator.loss == Huber(delta=2.0)
    assert estimator.set_params(optimizer="adam", optimizer__lr=0.25).optimizer == Adam(lr=0.25)
    assert estimator.get_params()["optimizer__lr"] == 0.25


def test_randomized_search_in_scikit_learns_signature():
    search = RandomizedSearchCV(
        neural_network.MLPClassifier(max_iter=3),
        {"learning_rate_init": [1e-3, 1e-2], "solver": ["adam", "sgd"]},
        n_iter=3,
        cv=2,
        random_state=0,
        n_jobs=2,
        error_score="raise",
    )
    assert np.isfinite(search.fit(X, Y).best_score_)


def test_pipeline():
    pipeline = make_pipeline(StandardScaler(), estimator_for("multiclass", max_iter=60, optimizer=Adam(0.02)))
    assert pipeline.fit(X, Y).score(X, Y) > 0.9
    weights = np.ones(len(Y))
    pipeline.fit(X, Y, mlpclassifier__sample_weight=weights)
    assert (
        GridSearchCV(pipeline, {"mlpclassifier__optimizer__lr": [1e-3, 1e-2]}, cv=2).fit(X, Y).best_score_ > 0
    )


@pytest.mark.parametrize("task", ["binary", "multiclass", "multilabel", "regression", "multioutput"])
def test_cross_validation(task):
    X, y = TABLES[task]
    scores = cross_val_score(estimator_for(task), X, y, cv=3, n_jobs=2, error_score="raise")
    assert scores.shape == (3,)
    again = cross_val_score(estimator_for(task), X, y, cv=3, error_score="raise")
    np.testing.assert_array_equal(scores, again)
    assert cross_val_predict(estimator_for(task), X, y, cv=3).shape == y.shape


def test_ensembles():
    base = estimator_for("multiclass", max_iter=30, optimizer=Adam(0.02))
    bagging = BaggingClassifier(base, n_estimators=4, n_jobs=2, random_state=0).fit(X, Y)
    assert bagging.score(X, Y) > 0.8
    boosting = AdaBoostClassifier(base, n_estimators=3, random_state=0).fit(X, Y)
    assert boosting.score(X, Y) > 0.8
    members = [("net", estimator_for("regression")), ("ridge", Ridge())]
    assert StackingRegressor(members, cv=2).fit(X, Z).predict(X).shape == Z.shape
    several = MultiOutputClassifier(estimator_for("binary")).fit(*TABLES["multilabel"])
    assert several.predict(X).shape == (230, 5)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration(method):
    calibrated = CalibratedClassifierCV(estimator_for("multiclass"), method=method, cv=2).fit(X, Y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)


def test_transformed_targets():
    estimator = TransformedTargetRegressor(
        estimator_for("regression"), func=np.cbrt, inverse_func=lambda z: z**3
    )
    assert estimator.fit(X, Z).predict(X).shape == Z.shape


def test_frames():
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)])
    estimator = estimator_for("multiclass").fit(frame, pd.Series(Y).map({0: "a", 1: "b", 2: "c"}))
    assert list(estimator.feature_names_in_) == list(frame)
    assert set(estimator.predict(frame)) <= {"a", "b", "c"}
    with pytest.raises(ValueError, match="The feature names should match"):
        estimator.predict(frame.rename(columns={"x0": "other"}))
    assert same_bits(estimator, estimator_for("multiclass").fit(X, np.array(list("abc"))[Y]))


@pytest.mark.parametrize(
    "labels",
    [[False, True], ["no", "yes"], [-1, 1], [2.0, 7.0], np.array(["no", "yes"], dtype=object)],
    ids=str,
)
def test_labels_of_every_kind(labels):
    X, y = TABLES["binary"]
    labels = np.asarray(labels)
    estimator = estimator_for("binary").fit(X, labels[y])
    plain = estimator_for("binary").fit(X, y)
    assert same_bits(estimator, plain)
    np.testing.assert_array_equal(estimator.classes_, labels)
    np.testing.assert_array_equal(estimator.predict(X), labels[plain.predict(X)])
    assert estimator.score(X, labels[y]) == plain.score(X, y)


def test_tags():
    assert is_classifier(sknet.MLPClassifier())
    assert is_regressor(sknet.MLPRegressor())
    assert sknet.MLPClassifier().__sklearn_tags__().classifier_tags.multi_label
    assert sknet.MLPRegressor().__sklearn_tags__().target_tags.multi_output
    assert sknet.MLPClassifier().__sklearn_tags__().input_tags.sparse
    assert not hasattr(sknet.MLPClassifier(optimizer="lbfgs"), "partial_fit")
    assert hasattr(sknet.MLPClassifier(), "partial_fit")


def test_a_linear_model_is_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    X, y = TABLES["binary"]
    with quiet():
        ours = sknet.MLPClassifier(
            (), optimizer=LBFGS(gtol=1e-9), alpha=1.0, max_iter=1000, scale_inputs=False, random_state=0
        ).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-9, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coefs_[0].ravel(), theirs.coef_.ravel(), atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
