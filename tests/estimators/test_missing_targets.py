"""Targets of which some are missing: as if they had no weight, and each target as if it were alone."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import (
    MLPClassifier,
    MLPRegressor,
    Model,
    NetRegressor,
    TabularClassifier,
    TabularRegressor,
    losses,
    model_selection,
    neural_network,
    nn,
)
from sknet.callbacks import Checkpoint
from sknet.engine import Accuracy, RSquared
from tests.estimators.data import quiet

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
FULL = np.c_[X[:, 0] * 100 + 1e3, X[:, 1] - X[:, 2], X[:, 3] ** 2] + RNG.normal(size=(300, 3))
GONE = RNG.random(FULL.shape) < [0.2, 0.5, 0.8]
Y = np.where(GONE, np.nan, FULL)
SEEN = (~GONE).astype(float)
WEIGHT = RNG.uniform(0.5, 2.0, 300)
LABELS = np.where(GONE, np.nan, np.median(FULL, axis=0) < FULL)
SHARES = RNG.dirichlet(np.ones(3), 300)
LINEAR = {"hidden_layer_sizes": (), "optimizer": "lbfgs", "alpha": 0.0, "max_iter": 500, "tol": 1e-8}
SMALL = {"hidden_layer_sizes": (8,), "max_iter": 4, "random_state": 0, "dtype": "float64"}


def test_linear_regression_of_each_target_on_its_rows():
    net = MLPRegressor(**LINEAR, random_state=0, dtype="float64").fit(X, Y)
    for k, seen in enumerate(~GONE.T):
        expected = LinearRegression().fit(X[seen], FULL[seen, k]).predict(X)
        np.testing.assert_allclose(net.predict(X)[:, k], expected, rtol=1e-3, atol=1e-3)


def test_weighted_linear_regression():
    net = MLPRegressor(**LINEAR, random_state=0, dtype="float64").fit(X, Y, sample_weight=WEIGHT)
    for k, seen in enumerate(~GONE.T):
        linear = LinearRegression().fit(X[seen], FULL[seen, k], sample_weight=WEIGHT[seen])
        np.testing.assert_allclose(net.predict(X)[:, k], linear.predict(X), rtol=1e-3, atol=1e-3)


def test_logistic_regression_of_each_label_on_its_rows():
    net = MLPClassifier(**LINEAR, random_state=0, dtype="float64").fit(X, LABELS)
    assert net.predict(X).shape == LABELS.shape
    for k, seen in enumerate(~GONE.T):
        logistic = LogisticRegression(C=np.inf, tol=1e-8, max_iter=1000).fit(X[seen], LABELS[seen, k])
        np.testing.assert_allclose(net.predict_proba(X)[:, k], logistic.predict_proba(X)[:, 1], atol=2e-3)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"scale_target": False},
        {"early_stopping": True},
        {"loss": "gaussian_nll"},
        {"loss": losses.Quantile([0.1, 0.5, 0.9])},
        {"loss": "huber", "n_members": 2, "bootstrap": True},
    ],
    ids=str,
)
def test_missing_targets_are_targets_without_weight(params):
    other = np.where(GONE, -FULL, FULL)
    found = MLPRegressor(**SMALL | params).fit(X, Y, sample_weight=WEIGHT)
    expected = MLPRegressor(**SMALL | params).fit(X, other, sample_weight=SEEN * WEIGHT[:, np.newaxis])
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)
    np.testing.assert_allclose(found.loss_curve_, expected.loss_curve_, rtol=1e-9)
    for name in found.history_.keys() - {"time"}:
        np.testing.assert_allclose(found.history_[name], expected.history_[name], rtol=1e-9)


def test_equal_weights_of_all_targets_are_weights_of_rows():
    of_targets = MLPRegressor(**SMALL).fit(X, FULL, np.repeat(WEIGHT[:, np.newaxis], 3, axis=1))
    np.testing.assert_allclose(of_targets.predict(X), MLPRegressor(**SMALL).fit(X, FULL, WEIGHT).predict(X))


def test_missing_labels_are_labels_without_weight():
    flipped = np.where(GONE, 0.0, LABELS)
    for params in ({}, {"early_stopping": True, "calibrate": "temperature"}, {"n_members": 2}):
        found = MLPClassifier(**SMALL | params).fit(X, LABELS)
        expected = MLPClassifier(**SMALL | params).fit(X, flipped, sample_weight=SEEN)
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-9)


def test_scores_are_those_of_what_is_there():
    net = MLPRegressor(**SMALL | {"early_stopping": True}).fit(X[50:], Y[50:], X_val=X[:50], y_val=Y[:50])
    columns = [
        r2_score(FULL[s, k], net.predict(X)[s, k], sample_weight=WEIGHT[s]) for k, s in enumerate(~GONE.T)
    ]
    assert net.score(X, Y, WEIGHT) == pytest.approx(np.mean(columns))
    assert net.score(X[:50], Y[:50]) == pytest.approx(net.best_validation_score_)
    clf = MLPClassifier(**SMALL).fit(X, LABELS)
    right = ((clf.predict(X) == LABELS) | GONE).all(axis=1)
    assert clf.score(X, LABELS) == pytest.approx(np.average(right, weights=SEEN.mean(axis=1)))
    assert clf.history_["score"][-1] > 0


def test_column_without_targets_is_not_scored():
    y = Y[:50].copy()
    y[:, 1] = np.nan
    net = MLPRegressor(**SMALL | {"early_stopping": True}).fit(X[50:], Y[50:], X_val=X[:50], y_val=y)
    predicted = net.predict(X[:50])
    columns = [r2_score(y[s, k], predicted[s, k]) for k, s in ((0, ~GONE[:50, 0]), (2, ~GONE[:50, 2]))]
    assert net.score(X[:50], y) == pytest.approx(np.mean(columns))


def test_scores_of_batches():
    score = Accuracy()
    weight = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    score.add(np.array([[2.0, -1.0], [2.0, -1.0], [2.0, 1.0]]), np.ones((3, 2)), weight)
    assert score.result() == pytest.approx(0.5 / 1.5)  # the first row is right, and half of it is known
    target = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 5.0]])
    weight = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    score = RSquared(target, weight, losses.SquaredError())
    score.add(target + np.array([[0.0, 9.0], [0.5, 9.0], [7.0, 9.0]]), target, weight)
    assert score.result() == pytest.approx(1 - 0.25 / 0.5)


def test_class_weights_of_labels_that_are_there():
    weights = [{0: 1.0, 1: 2.0}, {0: 3.0, 1: 1.0}, {0: 1.0, 1: 1.0}]
    found = MLPClassifier(**SMALL, class_weight=weights).fit(X, LABELS)
    rows = zip(weights, LABELS.T, GONE.T, strict=True)
    factor = np.prod([np.where(gone, 1.0, np.where(y == 1, w[1], w[0])) for w, y, gone in rows], axis=0)
    expected = MLPClassifier(**SMALL).fit(X, LABELS, sample_weight=factor)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-9)
    assert np.isfinite(MLPClassifier(**SMALL, class_weight="balanced").fit(X, LABELS).predict_proba(X)).all()


def test_continued_resumed_saved_and_frozen(tmp_path):
    net = MLPRegressor(**SMALL, warm_start=True).fit(X, Y)
    net.set_params(max_iter=2).fit(X, Y).partial_fit(X[:50], Y[:50])
    sknet.save(net, tmp_path / "net.safetensors")
    for other in (sknet.load(tmp_path / "net.safetensors"), pickle.loads(pickle.dumps(net)), net.freeze()):
        np.testing.assert_array_equal(other.predict(X), net.predict(X))
    kept = Checkpoint(tmp_path / "fit")
    MLPRegressor(**SMALL | {"max_iter": 2}, callbacks=[kept]).fit(X, Y)
    resumed = MLPRegressor(**SMALL).fit(X, Y, resume_from=tmp_path / "fit")
    np.testing.assert_array_equal(resumed.predict(X), MLPRegressor(**SMALL).fit(X, Y).predict(X))


def test_columns_of_classes_and_tables():
    y = np.where(GONE[:, :2], np.nan, np.c_[np.digitize(FULL[:, 1], [-1, 1]), FULL[:, 2] > 1])
    clf = MLPClassifier(**SMALL).fit(X, y)
    assert [len(classes) for classes in clf.classes_] == [3, 2]
    other = MLPClassifier(**SMALL).fit(X, np.where(GONE[:, :2], 1.0, y), sample_weight=SEEN[:, :2])
    np.testing.assert_allclose(clf.predict_proba(X)[0], other.predict_proba(X)[0], rtol=1e-9)
    table = MLPRegressor(**SMALL, encoder="table").fit(X, Y)
    assert np.isfinite(table.predict(X)).all()


def test_ensembles_for_tables():
    options = {"budget": 0.1, "n_folds": 2, "random_state": 0}
    net = TabularRegressor(**options).fit(X, Y)
    other = TabularRegressor(**options).fit(
        X, np.where(GONE, np.median(FULL, axis=0), FULL), sample_weight=SEEN
    )
    assert net.oof_score_ > 0.3
    assert net.score(X, Y) == pytest.approx(other.score(X, Y), abs=0.1)
    clf = TabularClassifier(**options).fit(X, LABELS)
    assert clf.score(X, LABELS) > 0.5
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("clf", [MLPClassifier(**SMALL), TabularClassifier(budget=0.02, random_state=0)])
def test_searches_and_cross_validation_split_missing_labels(clf):
    folds = KFold(3)
    by_hand = [clone(clf).fit(X[a], LABELS[a]).score(X[b], LABELS[b]) for a, b in folds.split(X)]
    for cv in (3, folds):
        found = model_selection.cross_validate(clf, X, LABELS, cv=cv)["test_score"]
        np.testing.assert_allclose(found, by_hand)
    search = model_selection.GridSearchCV(clf, {"random_state": [0]}, cv=3).fit(X, LABELS)
    assert search.best_score_ == pytest.approx(np.mean(by_hand))
    pipe = make_pipeline(StandardScaler(), clf)
    assert model_selection.cross_val_predict(pipe, X, LABELS, cv=3).shape == LABELS.shape


@pytest.mark.parametrize("kind", ["Int64", "boolean", "Float64", "object", "list"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: MLPClassifier(**SMALL),
        lambda: TabularClassifier(budget=0.02, random_state=0),
        lambda: MLPRegressor(**SMALL),
        lambda: TabularRegressor(budget=0.02, random_state=0),
    ],
)
def test_containers_of_missing_targets(make, kind):
    frame = pd.DataFrame(LABELS, columns=["a", "b", "c"])
    if kind in ("object", "list"):
        y = frame.astype(object).where(frame.notna(), None)
        y = y.to_numpy().tolist() if kind == "list" else y
    else:
        y = frame.astype("Int64").astype(kind)
    plain, fitted = make().fit(X, LABELS), make().fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), plain.predict(X))
    assert fitted.score(X, y) == plain.score(X, LABELS)
    assert fitted.score(X, y, WEIGHT) == plain.score(X, LABELS, WEIGHT)


def test_data_frames_and_lists():
    pandas = pytest.importorskip("pandas")
    expected = MLPRegressor(**SMALL).fit(X, Y).predict(X)
    given = [pandas.DataFrame(Y), pandas.DataFrame(Y).astype("Float64"), Y.tolist()]
    for y in given:
        np.testing.assert_array_equal(MLPRegressor(**SMALL).fit(X, y).predict(X), expected)


def test_networks_and_models():
    net = NetRegressor(nn.Sequential(nn.LazyLinear(3)), max_iter=3, random_state=0)
    assert np.isfinite(net.fit(X, Y).predict(X)).all()
    model = Model(nn.Linear(4, 3), "squared_error", random_state=0, dtype="float64")
    values = np.square(model.predict(X) - FULL) / 2
    step = model.step(X, FULL, sample_weight=SEEN)
    assert step.loss == pytest.approx(3 * (SEEN * values).sum() / SEEN.sum())


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: MLPRegressor(**SMALL).fit(X, Y[:, 0]), "NaN"),
        (lambda: MLPRegressor(**SMALL).fit(X, Y * np.nan), "every target of y is missing"),
        (
            lambda: MLPRegressor(**SMALL).fit(X, Y * [1, np.nan, 1]),
            "column 1 of y has no target",
        ),
        (lambda: MLPRegressor(**SMALL).fit(X, np.where(GONE, np.inf, FULL)), "infinity"),
        (lambda: MLPRegressor(**SMALL).fit(X, FULL, sample_weight=SEEN[:, :2]), "Sample weights must be 1D"),
        (
            lambda: MLPRegressor(**SMALL, loss=losses.KLDivergence()).fit(X, SHARES, SEEN),
            "whole distributions",
        ),
        (lambda: neural_network.MLPRegressor().fit(X, Y), "NaN"),
    ],
    ids=["one", "all", "column", "infinity", "shape", "divergence", "drop-in"],
)
def test_errors(fit, message):
    with quiet(), pytest.raises(ValueError, match=message):
        fit()
