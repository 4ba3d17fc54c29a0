"""Targets of which some are missing: as if they had no weight, and each target as if it were alone."""

import pickle

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    f1_score,
    log_loss,
    make_scorer,
    mean_absolute_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight

import sknet
from sknet import (
    MLPClassifier,
    MLPRegressor,
    Model,
    NetClassifier,
    NetRegressor,
    TabularClassifier,
    TabularRegressor,
    losses,
    model_selection,
    neural_network,
    nn,
    onnx,
)
from sknet.callbacks import Checkpoint, EpochScoring
from sknet.engine import Accuracy, RSquared
from sknet.model_selection import target_scorer
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


def by_target(metric, y, predicted, weight=None):
    """Return the mean over targets of a metric of the rows that have each."""
    found = []
    for k, seen in enumerate(pd.notna(y).T):
        more = {} if weight is None else {"sample_weight": weight[seen]}
        found.append(metric(np.array(y[seen, k].tolist()), predicted[seen, k], **more))
    return np.mean(found)


SCORES = {"r2": r2_score, "neg_mean_absolute_error": lambda *a, **k: -mean_absolute_error(*a, **k)}


@pytest.mark.parametrize("of_scikit_learn", [False, True])
def test_scorers_of_regressors_score_each_target_by_its_rows(of_scikit_learn):
    net, folds = MLPRegressor(**SMALL), KFold(3)
    fits = [(clone(net).fit(X[a], Y[a]).predict(X[b]), b) for a, b in folds.split(X)]
    expected = {name: [by_target(m, Y[b], p) for p, b in fits] for name, m in SCORES.items()}
    if of_scikit_learn:
        scoring = {name: target_scorer(name) for name in SCORES}
        module, score = sklearn.model_selection, target_scorer("r2")
    else:
        scoring, module, score = [*SCORES], model_selection, "r2"
    found = module.cross_validate(net, X, Y, scoring=scoring, cv=folds)
    for name, values in expected.items():
        np.testing.assert_allclose(found[f"test_{name}"], values)
    one = module.cross_val_score(net, X, Y, scoring=score, cv=folds)
    np.testing.assert_allclose(one, expected["r2"])
    grid = {"random_state": [0]}
    for given, refit in ((scoring, "r2"), (score, True)):
        search = module.GridSearchCV(net, grid, scoring=given, refit=refit, cv=folds).fit(X, Y)
        assert search.best_score_ == pytest.approx(np.mean(expected["r2"]))
        assert search.score(X, Y) == pytest.approx(by_target(r2_score, Y, search.predict(X)))


@pytest.mark.parametrize("name", ["accuracy", "roc_auc", "neg_log_loss", "f1"])
def test_scorers_of_labels_score_each_label_by_its_rows(name):
    clf = MLPClassifier(**SMALL).fit(X, LABELS)
    positive = clf.predict_proba(X)
    metric, predicted = {
        "accuracy": (accuracy_score, clf.predict(X)),
        "roc_auc": (roc_auc_score, positive),
        "neg_log_loss": (lambda *a, **k: -log_loss(*a, **k), positive),
        "f1": (f1_score, clf.predict(X)),
    }[name]
    scorer = target_scorer(name)
    assert scorer(clf, X, LABELS) == pytest.approx(by_target(metric, LABELS, predicted))
    expected = by_target(metric, LABELS, predicted, WEIGHT)
    assert scorer(clf, X, LABELS, sample_weight=WEIGHT) == pytest.approx(expected)
    by_each = np.repeat(WEIGHT[:, np.newaxis], 3, axis=1)
    assert scorer(clf, X, LABELS, sample_weight=by_each) == pytest.approx(expected)
    search = model_selection.GridSearchCV(clf, {"alpha": [0.1]}, scoring=name, cv=2).fit(X, LABELS)
    assert np.isfinite(search.best_score_)


def test_scorers_of_scikit_learn_with_its_own_searches_and_of_functions():
    clf = MLPClassifier(**SMALL)
    own = model_selection.cross_val_score(clf, X, LABELS, cv=2, scoring="roc_auc")
    other = sklearn.model_selection.cross_val_score(
        clf, X, LABELS, cv=KFold(2), scoring=target_scorer("roc_auc")
    )
    np.testing.assert_allclose(own, other)
    assert np.isfinite(own).all()

    def gap(estimator, X, y):
        return np.mean(np.abs(estimator.predict(X) - y))

    net = MLPRegressor(**SMALL).fit(X, Y)
    expected = by_target(mean_absolute_error, Y, net.predict(X))
    assert target_scorer(gap)(net, X, Y) == pytest.approx(expected)
    assert repr(target_scorer("r2")) == "target_scorer('r2')"
    assert pickle.loads(pickle.dumps(target_scorer("r2")))(net, X, Y) == target_scorer("r2")(net, X, Y)
    with pytest.raises(ValueError, match=r"scores the columns of y.*got \(300,\)"):
        target_scorer("r2")(net, X, Y[:, 0])
    with pytest.raises(ValueError, match="every target of y is missing"):
        target_scorer("r2")(net, X, Y * np.nan)
    with pytest.raises(ValueError, match="cross_validate takes several"):
        model_selection.cross_val_score(net, X, Y, scoring=["r2"])


def test_scorers_of_epochs_score_each_target_by_its_rows():
    options = SMALL | {"early_stopping": True, "scoring": "r2", "max_iter": 2}
    net = MLPRegressor(**options, callbacks=[EpochScoring("neg_max_error")])
    net.fit(X[50:], Y[50:], X_val=X[:50], y_val=Y[:50])
    predicted = net.predict(X[:50])
    assert max(net.history_["validation_r2"]) == pytest.approx(by_target(r2_score, Y[:50], predicted))
    assert min(net.history_["validation_neg_max_error"]) < 0


def test_requests_for_weights_reach_scorers():
    weight = np.where(np.arange(300) < 150, 1.0, 5.0)
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(r2_score).set_score_request(sample_weight=True)
        net = MLPRegressor(**SMALL).set_fit_request(sample_weight=False)
        params = {"sample_weight": weight}
        found = model_selection.cross_val_score(net, X, Y, scoring=scorer, cv=KFold(2), params=params)
    fits = [(clone(net).fit(X[a], Y[a]).predict(X[b]), b) for a, b in KFold(2).split(X)]
    np.testing.assert_allclose(found, [by_target(r2_score, Y[b], p, weight[b]) for p, b in fits])


def exported(estimator, folder):
    """Return the `predict` of the Python file of an estimator."""
    estimator.freeze().to_python(folder / "net.py")
    names = {}
    exec((folder / "net.py").read_text(), names)
    return names["predict"]


NAMES = np.where(GONE[:, :2], None, np.where(LABELS[:, :2] == 1, ["red", "tall"], ["blue", "flat"]))
NAMES[~GONE[:, 1] & (FULL[:, 1] > 1), 1] = "huge"
TEXTS = {
    "objects": NAMES,
    "list": NAMES.tolist(),
    "frame": pd.DataFrame(NAMES, columns=["a", "b"]),
    "strings": pd.DataFrame(NAMES, columns=["a", "b"]).astype("string"),
    "categories": pd.DataFrame(NAMES, columns=["a", "b"]).astype("category"),
    "polars": pl.DataFrame(NAMES.tolist(), schema=["a", "b"], orient="row"),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("params", [{}, {"class_weight": "balanced", "early_stopping": True}], ids=str)
def test_missing_texts_are_labels_without_weight(kind, params):
    known = np.where(GONE[:, :2], ["blue", "flat"], NAMES).astype(str)
    if "class_weight" in params:  # of what is there alone
        weights = [compute_sample_weight("balanced", known[~gone, k]) for k, gone in enumerate(GONE[:, :2].T)]
        row = np.ones(300)
        for weight, gone in zip(weights, GONE[:, :2].T, strict=True):
            row[~gone] *= weight
        if params["early_stopping"]:
            params = {"class_weight": "balanced"}
    else:
        row = np.ones(300)
    clf = MLPClassifier(**SMALL | params).fit(X, TEXTS[kind])
    expected = MLPClassifier(**SMALL).fit(X, known, sample_weight=SEEN[:, :2] * row[:, np.newaxis])
    for found, other in zip(clf.predict_proba(X), expected.predict_proba(X), strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-9)
    assert set(np.unique(clf.predict(X)[:, 1])) <= {"flat", "huge", "tall"}
    right = ((clf.predict(X) == NAMES) | GONE[:, :2]).all(axis=1)
    expected = np.average(right, weights=SEEN[:, :2].mean(axis=1))
    assert clf.score(X, TEXTS[kind]) == pytest.approx(expected)


def test_missing_texts_are_scored_searched_saved_and_continued(tmp_path):
    clf = MLPClassifier(**SMALL, early_stopping=True).fit(X, NAMES)
    expected = by_target(accuracy_score, NAMES, clf.predict(X))
    assert target_scorer("accuracy")(clf, X, NAMES) == pytest.approx(expected)
    for scoring in (None, "accuracy", "neg_log_loss"):
        found = model_selection.cross_val_score(clf, X, NAMES, scoring=scoring, cv=2)
        assert np.isfinite(found).all()
    sknet.save(clf, tmp_path / "clf.safetensors")
    for other in (sknet.load(tmp_path / "clf.safetensors"), pickle.loads(pickle.dumps(clf)), clf.freeze()):
        assert (other.predict(X) == clf.predict(X)).all()
    assert (exported(clf, tmp_path)(X) == clf.predict(X)).all()
    session = onnxruntime.InferenceSession(onnx.export(clf).SerializeToString())
    [labels] = session.run(["label"], {"X": X.astype(np.float32)})
    assert (labels == clf.predict(X)).all()
    classes = [["blue", "red"], ["flat", "huge", "tall"]]
    part = MLPClassifier(**SMALL).partial_fit(X[:99], NAMES[:99], classes=classes)
    assert part.partial_fit(X[99:], NAMES[99:]).predict(X).shape == (300, 2)
    table = TabularClassifier(budget=0.02, random_state=0)
    assert table.fit(X, NAMES).score(X, NAMES) > 0.5
    assert set(np.unique(table.predict(X)[:, 0])) == {"blue", "red"}
    with pytest.raises(ValueError, match="column 1 of y has no label at all"):
        MLPClassifier().fit(X, np.c_[NAMES[:, :1], np.full((300, 1), None)])


class Image(nn.Module):
    """A picture of 3 x 2 numbers of four inputs."""

    def __init__(self, n_outputs):
        self.head = nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (3, 2)))

    def forward(self, x):
        return self.head(x)


PICTURES = FULL[:, [0, 1, 2, 2, 1, 0]].reshape(300, 3, 2) / 100
HOLES = np.random.default_rng(1).random(PICTURES.shape) < 0.4
MASKED = np.where(HOLES, np.nan, PICTURES)


class Classes(nn.Module):
    """Logits of two classes for each of 3 x 2 pixels."""

    def __init__(self, n_outputs):
        self.head = nn.Sequential(nn.Linear(4, 12), nn.Unflatten(1, (3, 2, 2)))

    def forward(self, x):
        return self.head(x)


@pytest.mark.parametrize("loss", ["squared_error", "huber", "log_loss"])
@pytest.mark.parametrize("params", [{}, {"early_stopping": True, "scale_target": True}], ids=str)
def test_holes_in_arrays_are_targets_without_weight(loss, params):
    if loss == "log_loss":
        net, y = NetClassifier(Classes, max_iter=3, random_state=0), (PICTURES.mean(axis=0) < PICTURES) * 1.0
        params = {name: value for name, value in params.items() if name != "scale_target"}
    else:
        net, y = NetRegressor(Image, loss=loss, max_iter=3, random_state=0), PICTURES
    masked = np.where(HOLES, np.nan, y)
    found = clone(net).set_params(**params).fit(X, masked, sample_weight=WEIGHT)
    other = np.where(HOLES, 1 - y, y)
    expected = (
        clone(net)
        .set_params(**params)
        .fit(X, other, sample_weight=~HOLES * WEIGHT[:, np.newaxis, np.newaxis])
    )
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-5)
    np.testing.assert_allclose(found.loss_curve_, expected.loss_curve_, rtol=1e-5)


def test_holes_in_arrays_are_those_of_columns(tmp_path):
    image = Image(6)
    net = NetRegressor(image, scale_target=False, max_iter=5, random_state=0, dtype="float64")
    table = clone(net).set_params(module=nn.Sequential(image, nn.Flatten()))
    found, other = net.fit(X, MASKED), table.fit(X, MASKED.reshape(300, 6))
    np.testing.assert_allclose(found.predict(X).reshape(300, 6), other.predict(X), rtol=1e-9)
    assert found.score(X, MASKED) == pytest.approx(other.score(X, MASKED.reshape(300, 6)))
    np.testing.assert_allclose(found.loss_curve_, other.loss_curve_, rtol=1e-9)
    sknet.save(found, tmp_path / "net.safetensors")
    read = sknet.load(tmp_path / "net.safetensors", trusted=[Image])
    for same in (read, pickle.loads(pickle.dumps(found)), found.freeze()):
        np.testing.assert_array_equal(same.predict(X), found.predict(X))
    np.testing.assert_array_equal(exported(found, tmp_path)(X), found.predict(X))
    session = onnxruntime.InferenceSession(onnx.export(found, dtype="float64").SerializeToString())
    [predicted] = session.run(None, {"X": X})
    np.testing.assert_allclose(predicted, found.predict(X), rtol=1e-6)
    found.partial_fit(X[:50], MASKED[:50])
    assert np.isfinite(found.predict(X)).all()


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
