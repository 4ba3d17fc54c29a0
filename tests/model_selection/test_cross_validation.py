"""Cross-validation in threads of one group: the results of scikit-learn's functions."""

import inspect
import os
import threading
import warnings
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn import model_selection
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import MLPClassifier, MLPRegressor, MultiHeadNet, NetClassifier, nn
from sknet.callbacks import Callback
from sknet.optim import SGD

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),
]
X, y = load_iris(return_X_y=True)
TWO = np.column_stack([y == 0, y == 1]).astype(int)
NET = MLPClassifier((4,), max_iter=2, random_state=0)
FOLDS = KFold(3, shuffle=True, random_state=0)

FUNCTIONS = sknet.model_selection.cross_validate, sknet.model_selection.cross_val_predict


@pytest.mark.parametrize("function", FUNCTIONS)
def test_wrong_arguments_are_named(function):
    for none in ([], (), iter([])):
        with pytest.raises(ValueError, match="cv yields no folds"):
            function(NET, X, y, cv=none)
    for other in (len, sknet.nn.ReLU(), MLPClassifier):
        with pytest.raises((TypeError, ValueError), match="estimator"):
            function(other, X, y, cv=2)
    folds = [(np.arange(0, 150, 2), np.arange(1, 150, 2)), (np.arange(1, 150, 2), np.arange(0, 150, 2))]
    found, expected = (function(NET, X, y, cv=cv) for cv in (iter(folds), folds))
    key = "test_score" if isinstance(found, dict) else slice(None)
    np.testing.assert_array_equal(found[key], expected[key])


VALIDATED = {
    "network": (NET, y, {}),
    "Pipeline": (make_pipeline(StandardScaler(), NET), y, {"return_train_score": True}),
    "rows": (NET, y, {"return_indices": True}),
    "groups": (NET, y, {"cv": GroupKFold(2), "groups": np.arange(150) % 5}),
    "several scores": (NET, y, {"scoring": ["accuracy", "neg_log_loss"], "cv": FOLDS}),
    "estimators": (NET, y, {"return_estimator": True}),
    "regression": (MLPRegressor((4,), max_iter=2, random_state=0), X[:, 0], {"cv": FOLDS}),
    "several labels": (NET, TWO, {"cv": FOLDS}),
    "no network": (LogisticRegression(), y, {}),
    "weights": (NET, y, {"params": {"sample_weight": np.linspace(0, 1, 150)}}),
    "some fits fail": (
        MLPClassifier((4,), SGD(1e30), max_iter=2, random_state=0), y,
        {"error_score": -1.0, "cv": [(np.arange(10), np.arange(50)), (np.zeros(5, int), np.arange(50))]},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("n_jobs", [None, 2, 3])
@pytest.mark.parametrize("name", VALIDATED)
def test_cross_validate_has_scikit_learns_results(name, n_jobs):
    estimator, target, told = VALIDATED[name]
    try:
        theirs = model_selection.cross_validate(estimator, X, target, **told)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error).splitlines()[1][:30]):
            sknet.model_selection.cross_validate(estimator, X, target, n_jobs=n_jobs, **told)
        return
    ours = sknet.model_selection.cross_validate(estimator, X, target, n_jobs=n_jobs, **told)
    assert list(ours) == list(theirs)
    for key, column in theirs.items():
        if key == "estimator":
            for one, other in zip(ours[key], column, strict=True):
                np.testing.assert_array_equal(one.predict(X), other.predict(X))
        elif "time" not in key:
            np.testing.assert_equal(ours[key], column)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(("target", "method"), [(y, "predict"), (y, "predict_proba"), (TWO, "predict_proba")])
def test_cross_val_predict_has_scikit_learns_results(target, method, n_jobs):
    told = {"method": method, "cv": FOLDS}
    theirs = model_selection.cross_val_predict(NET, X, target, **told)
    ours = sknet.model_selection.cross_val_predict(NET, X, target, n_jobs=n_jobs, **told)
    np.testing.assert_equal(ours, theirs)


@pytest.mark.parametrize("name", ["cross_validate", "cross_val_predict"])
def test_parameters_are_scikit_learns(name):
    ours, theirs = (
        {key: str(each.default) for key, each in inspect.signature(getattr(module, name)).parameters.items()}
        for module in (sknet.model_selection, model_selection)
    )
    assert ours == theirs


class Where(Callback):
    seen: set = set()

    def on_fit_begin(self, fit):
        Where.seen.add((os.getpid(), threading.current_thread() is threading.main_thread()))


@pytest.mark.parametrize("function", ["cross_validate", "cross_val_predict"])
def test_networks_are_fitted_in_threads_of_this_process(function):
    Where.seen = set()
    net = MLPClassifier((4,), max_iter=1, callbacks=[Where()])
    getattr(sknet.model_selection, function)(net, X, y, n_jobs=2)
    assert Where.seen == {(os.getpid(), False)}


class Overlaps(Callback):
    """Lets the second fit end after the thread of the first one."""

    both = threading.Barrier(2, timeout=20)
    first: list = []

    def on_fit_begin(self, fit):
        if not Overlaps.both.wait():
            Overlaps.first.append(threading.current_thread())

    def on_fit_end(self, fit):
        [first] = Overlaps.first
        if first is not threading.current_thread():
            first.join(20)


def test_filters_of_warnings_are_restored():
    """scikit-learn's tasks exchange them, for all threads: the last to end restores those of another."""
    before, filters = warnings.filters, list(warnings.filters)
    net = MLPClassifier((4,), max_iter=1, callbacks=[Overlaps()])
    sknet.model_selection.cross_validate(net, X, y, cv=2, n_jobs=2)
    assert warnings.filters is before
    assert filters == before


SEVERAL = {
    "labels": (np.column_stack([np.array(["a", "b", "zz"])[y], X[:, 0] > 5.8]), (150, 3)),
    "positions": (np.where(np.median(X, axis=0) < X, 5, np.array([1, 3, 3, 3])), (150, 4, 3)),
    "images": (np.where(np.median(X, axis=0) < X, 5, 1).reshape(150, 2, 2), (150, 2, 2, 2)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_columns_of_probabilities_are_those_of_all_classes(name):
    target, shape = SEVERAL[name]
    if name == "labels":
        net, rows = MLPClassifier((4,), max_iter=3, random_state=0), X
    else:
        net = NetClassifier(lambda n_outputs: nn.LazyLinear(n_outputs), max_iter=3, random_state=0)
        rows = X.reshape(*target.shape, 1)
    folds = KFold(3)  # one of which is trained without the class "a", and two without others
    found = sknet.model_selection.cross_val_predict(net, rows, target, cv=folds, method="predict_proba")
    found, labels = (found[0], target[:, 0]) if name == "labels" else (found, target)
    assert found.shape == shape
    for train, test in folds.split(X):
        fitted = clone(net).fit(rows[train], target[train])
        expected, classes = fitted.predict_proba(rows[test]), fitted.classes_
        if name == "labels":
            expected, classes = expected[0], classes[0]
        columns = np.isin(np.unique(labels), classes)
        np.testing.assert_array_equal(found[test][..., columns], expected)
        assert not found[test][..., ~columns].any()


def test_missing_labels_are_no_class():
    gaps = np.where(np.arange(300).reshape(150, 2) % 7 == 0, np.nan, TWO)
    for method in ("predict_proba", "decision_function", "predict_log_proba"):
        found = sknet.model_selection.cross_val_predict(NET, X, gaps, cv=FOLDS, method=method)
        for train, test in FOLDS.split(X):
            expected = getattr(clone(NET).fit(X[train], gaps[train]), method)(X[test])
            np.testing.assert_array_equal(found[test], expected)


class Heads(nn.Module):
    def __init__(self, n_outputs):
        self.kind = nn.LazyLinear(n_outputs["kind"])

    def forward(self, x):
        return {"kind": self.kind(x)}


def test_folds_whose_decisions_differ_in_kind():
    with pytest.raises(ValueError, match="let cv give all classes to each fold"):
        sknet.model_selection.cross_val_predict(
            NET, X, np.column_stack([y, y]), cv=KFold(3), method="decision_function"
        )


def test_probabilities_of_heads_have_columns_for_all_classes():
    net = MultiHeadNet(Heads, {"kind": "log_loss"}, max_iter=2, random_state=0)
    found = sknet.model_selection.cross_val_predict(net, X, {"kind": y}, cv=KFold(3), method="predict_proba")[
        "kind"
    ]
    assert found.shape == (150, 3)
    for k, (train, test) in enumerate(KFold(3).split(X)):
        fitted = clone(net).fit(X[train], {"kind": y[train]})
        np.testing.assert_array_equal(
            np.delete(found[test], k, axis=1), fitted.predict_proba(X[test])["kind"]
        )
        assert not found[test, k].any()


def test_predictions_are_given_what_they_request():
    offset = np.linspace(-1, 1, 150)
    counts = np.random.default_rng(0).poisson(np.exp(offset))
    net = MLPRegressor((4,), loss="poisson", max_iter=3, random_state=0)
    told = {"X": X, "y": counts, "cv": FOLDS, "params": {"offset": offset}}
    rates = model_selection.cross_val_predict(net, **told)
    with sklearn.config_context(enable_metadata_routing=True):
        net.set_fit_request(offset=True)
        predict = partial(sknet.model_selection.cross_val_predict, **told)
        with pytest.raises(ValueError, match=r"set_predict_request"):
            predict(net)
        np.testing.assert_array_equal(predict(clone(net).set_predict_request(offset=False)), rates)
        net.set_predict_request(offset=True)
        np.testing.assert_allclose(predict(net), rates * np.exp(offset))
        np.testing.assert_allclose(predict(make_pipeline("passthrough", net)), rates * np.exp(offset))
