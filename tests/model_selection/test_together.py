"""Fits of a search in threads of one group: scikit-learn's results, whatever is searched."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from joblib.parallel import ThreadingBackend, get_active_backend
from sklearn import model_selection
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sknet import MLPClassifier, MLPRegressor, Model, TabularClassifier, nn
from sknet.callbacks import Callback
from sknet.engine import fit_many
from sknet.model_selection import GridSearchCV, RandomizedSearchCV, cross_validate
from sknet.optim import SGD, Adam

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite"),
    pytest.mark.filterwarnings("ignore:Got `batch_size`"),
]
X, LABELS = load_iris(return_X_y=True)
REAL = X[:, 3] + np.sin(X[:, 0])
GROUPS = np.arange(len(X)) % 7
DIVERGES = SGD(lr=1e30)  # so that the fit fails


# -- a generator of searches ---------------------------------------------------------------------------


def chosen(rng, options, count):
    names = rng.choice(sorted(options), size=count, replace=False)
    return {name: options[name] for name in names}


def random_search(seed):
    """Return two searches that differ only in their class, their targets, and the arguments of `fit`."""
    rng = np.random.default_rng(seed)
    is_real, is_piped = rng.random() < 0.3, rng.random() < 0.5
    kind, other = (MLPRegressor, Ridge()) if is_real else (MLPClassifier, LogisticRegression())
    net = kind((4,), max_iter=2, random_state=0, batch_size=32)
    options = {
        "alpha": [0.0, 1e-3, 1.0],
        "hidden_layer_sizes": [(3,), (4, 2)],
        "optimizer": [Adam(0.01), SGD(0.1), "adam"],
        "random_state": [0, 1, 2],
        "early_stopping": [True, False],
        "batch_size": [16, 200],
        "dropout": [0.0, 0.5],
    }
    if rng.random() < 0.3:
        options["optimizer"] = [DIVERGES, Adam()]
    grid = chosen(rng, options, 2)
    estimator = net
    if is_piped:
        estimator = Pipeline([("scaler", StandardScaler()), ("net", net)])
        grid = {f"net__{name}": values for name, values in grid.items()}
        if rng.random() < 0.5:  # a candidate that is no network
            grid = [grid, {"net": [other, kind((5,), max_iter=1, random_state=1)]}]
    scorers = ["r2", "neg_mean_absolute_error"] if is_real else ["accuracy", "neg_log_loss"]
    told = {
        "cv": [2, KFold(3, shuffle=True, random_state=0), GroupKFold(2), ShuffleSplit(2, random_state=0)][
            rng.integers(4)
        ],
        "scoring": [None, scorers[1], scorers][rng.integers(3)],
        "return_train_score": bool(rng.integers(2)),
        "error_score": [np.nan, -100.0][rng.integers(2)],
        "n_jobs": int(rng.integers(1, 4)),
    }
    if isinstance(told["scoring"], list):
        told["refit"] = [scorers[0], False][rng.integers(2)]
    fitted = {"groups": GROUPS} if isinstance(told["cv"], GroupKFold) else {}
    if rng.random() < 0.5:
        pair = [k(estimator, grid, **told) for k in (GridSearchCV, model_selection.GridSearchCV)]
    else:
        told |= {"n_iter": 3, "random_state": seed}
        kinds = RandomizedSearchCV, model_selection.RandomizedSearchCV
        pair = [k(estimator, grid, **told) for k in kinds]
    return *pair, REAL if is_real else LABELS, fitted


def assert_same_search(ours, theirs):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, column in theirs.cv_results_.items():
        if name == "params" or name.startswith("param_"):
            assert str(ours.cv_results_[name]) == str(column)
        elif "time" not in name:
            np.testing.assert_array_equal(ours.cv_results_[name], column, err_msg=name)
    for name in ("best_index_", "best_score_", "n_splits_", "multimetric_"):
        assert hasattr(ours, name) == hasattr(theirs, name)
        if hasattr(ours, name):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert hasattr(ours, "best_estimator_") == hasattr(theirs, "best_estimator_")
    if hasattr(ours, "best_estimator_"):
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_random_searches_have_scikit_learns_results(seed):
    ours, theirs, y, fitted = random_search(seed)
    theirs.set_params(n_jobs=1)
    try:
        theirs.fit(X, y, **fitted)
    except ValueError as error:  # all of its fits fail
        with pytest.raises(ValueError, match=str(error).splitlines()[0][:40]):
            ours.fit(X, y, **fitted)
    else:
        assert_same_search(ours.fit(X, y, **fitted), theirs)


def test_weights_are_routed_to_fits_in_threads():
    weight = np.random.default_rng(0).random(len(X))
    with sklearn.config_context(enable_metadata_routing=True):
        net = MLPClassifier((4,), optimizer=Adam(0.05), max_iter=20, random_state=0)
        net.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        told = {"param_grid": {"alpha": [0.0, 1.0]}, "cv": StratifiedKFold(2), "n_jobs": 2}
        ours, theirs = (kind(net, **told) for kind in (GridSearchCV, model_selection.GridSearchCV))
        theirs.set_params(n_jobs=1)
        assert_same_search(
            ours.fit(X, LABELS, sample_weight=weight), theirs.fit(X, LABELS, sample_weight=weight)
        )
        unweighted = theirs.fit(X, LABELS).cv_results_["mean_test_score"]
    assert (ours.cv_results_["mean_test_score"] != unweighted).any()


# -- where fits run ------------------------------------------------------------------------------------


class Where(Callback):
    """Notes the process and the thread of each fit."""

    seen: set = set()

    def on_fit_begin(self, fit):
        Where.seen.add((os.getpid(), threading.current_thread() is threading.main_thread()))
        time.sleep(0.02)  # so that another thread takes the next


def places(**told):
    Where.seen = set()
    net = MLPClassifier((4,), max_iter=1, random_state=0, callbacks=[Where()])
    GridSearchCV(net, {"alpha": [0.0, 1.0]}, cv=2, refit=False, **told).fit(X, LABELS)
    return Where.seen


def test_networks_are_fitted_in_threads_of_this_process():
    me = os.getpid()
    assert places() == {(me, True)}
    assert places(n_jobs=2) == {(me, False)}
    with parallel_config(n_jobs=2):
        assert places() == {(me, False)}


class Around(Callback):
    """Notes what holds in the thread of each fit."""

    seen: list = []

    def on_fit_begin(self, fit):
        backend, _ = get_active_backend()
        Around.seen.append((list(warnings.filters), type(backend), backend.nesting_level))


@pytest.mark.parametrize(
    "run",
    [
        lambda net: GridSearchCV(net, {"alpha": [0.0, 1.0]}, cv=3, refit=False, n_jobs=2).fit(X, LABELS),
        lambda net: fit_many(
            [Model(nn.Linear(4, 3), "log_loss") for _ in range(3)],
            X,
            LABELS,
            epochs=1,
            n_jobs=2,
            callbacks=net.callbacks,
        ),
    ],
    ids=["search", "fits"],
)
def test_filters_of_warnings_stay_and_joblib_starts_no_processes_inside(run):
    Around.seen = []
    run(MLPClassifier((4,), max_iter=2, callbacks=[Around()]))
    assert len(Around.seen) >= 3
    for filters, backend, level in Around.seen:
        assert (filters, backend, level) == (warnings.filters, ThreadingBackend, 1)


@pytest.mark.parametrize("n_jobs", [None, 1])
@pytest.mark.parametrize(
    "run",
    [
        lambda net, n_jobs: GridSearchCV(net, {"alpha": [0.0]}, cv=2, n_jobs=n_jobs).fit(X, LABELS),
        lambda net, n_jobs: cross_validate(net, X, LABELS, cv=2, n_jobs=n_jobs),
    ],
    ids=["search", "folds"],
)
def test_one_fit_at_a_time_may_have_threads_of_its_own(run, n_jobs):
    Around.seen = []
    run(MLPClassifier((4,), max_iter=2, callbacks=[Around()]), n_jobs)
    assert {level for _, _, level in Around.seen} == {0}


def test_a_chosen_backend_is_used():
    with parallel_config("loky"):
        assert places(n_jobs=2) == set()  # noted in other processes
    with parallel_config("sequential"):
        assert places(n_jobs=2) == {(os.getpid(), True)}


def test_searches_inside_of_searches_have_the_same_results():
    net = MLPClassifier((4,), max_iter=2, random_state=0)
    inner = {"param_grid": {"alpha": [0.0, 1.0]}, "cv": 2, "n_jobs": 2}
    outer = {"param_grid": {"estimator__random_state": [0, 1]}, "cv": 2}
    theirs = model_selection.GridSearchCV(model_selection.GridSearchCV(net, **inner | {"n_jobs": 1}), **outer)
    for n_jobs in (1, 2):
        ours = GridSearchCV(GridSearchCV(net, **inner), n_jobs=n_jobs, **outer)
        assert_same_search(ours.fit(X, LABELS), theirs.fit(X, LABELS))


# -- what goes wrong -----------------------------------------------------------------------------------


class Counts(Callback):
    """Counts epochs; the first fit fails, or is interrupted."""

    begun = 0
    epochs = 0
    how = None

    def on_fit_begin(self, fit):
        Counts.begun += 1
        self.is_first = Counts.begun == 1

    def on_epoch_end(self, fit):
        Counts.epochs += 1
        if self.is_first and fit.epoch == 2:
            Counts.how()


def fail():
    raise RuntimeError("as told")


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("how", "kind"), [(fail, RuntimeError), (interrupt, KeyboardInterrupt)])
def test_an_error_ends_all_fits_and_leaves_the_search_as_it_was(n_jobs, how, kind):
    Counts.begun = Counts.epochs = 0
    Counts.how = staticmethod(how)
    net = MLPClassifier((4,), max_iter=10**6, tol=0.0, n_iter_no_change=np.inf, callbacks=[Counts()])
    search = GridSearchCV(net, {"alpha": [0.0, 1.0]}, cv=3, error_score="raise", n_jobs=n_jobs)
    with pytest.raises(kind):
        search.fit(X, LABELS)
    epochs = Counts.epochs
    time.sleep(0.05)
    assert Counts.epochs == epochs  # no thread continues
    assert Counts.begun <= n_jobs + 1
    assert not hasattr(search, "cv_results_")
    search.set_params(estimator=MLPClassifier((4,), max_iter=1)).fit(X, LABELS)
    assert search.best_score_ > 0


@pytest.mark.parametrize(
    "run",
    [
        lambda X, y: GridSearchCV(MLPClassifier(max_iter=1), {"alpha": [0.1]}, n_jobs=0).fit(X, y),
        lambda X, y: cross_validate(MLPClassifier(max_iter=1), X, y, n_jobs=0),
        lambda X, y: TabularClassifier(budget=0.01, n_jobs=0).fit(X, y),
        lambda X, y: fit_many([Model(nn.Linear(2, 1))], X, y[:, None], n_jobs=0),
    ],
)
def test_no_jobs_are_refused_in_words(run):
    X = np.random.default_rng(0).normal(size=(12, 2))
    with pytest.raises(ValueError, match=r"n_jobs must be a number of jobs, a negative number .* got 0"):
        run(X, np.arange(12) % 2)
