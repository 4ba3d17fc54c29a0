"""Cross-validation in threads of one group: the results of scikit-learn's functions."""

import inspect
import os
import threading
import warnings

import numpy as np
import pytest
from sklearn import model_selection
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import MLPClassifier, MLPRegressor
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
