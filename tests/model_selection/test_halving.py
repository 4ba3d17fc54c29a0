"""Candidates continue from rung to rung, with the results of scikit-learn's halving, which restarts them."""

import pickle
import re
import warnings

import numpy as np
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import HalvingGridSearchCV as Grid
from sklearn.model_selection import HalvingRandomSearchCV as Random
from sklearn.model_selection import ShuffleSplit, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils._test_common.instance_generator import _get_expected_failed_checks
from sklearn.utils.estimator_checks import check_estimator

from sknet import MLPClassifier, MLPRegressor, NetClassifier, neural_network, nn, ops, optim
from sknet.callbacks import Callback
from sknet.exceptions import ContinuationWarning
from sknet.model_selection import HalvingGridSearchCV, HalvingRandomSearchCV
from sknet.optim import schedules

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:lbfgs failed")
DIGITS, LABELS = load_digits(return_X_y=True)
DIGITS = (DIGITS / 16).astype("float32")
X, y = DIGITS[:120], LABELS[:120]
ONE = ShuffleSplit(1, random_state=0)
SHORT = {"batch_size": 32, "max_iter": 9, "random_state": 0}
RATES = {"optimizer__lr": [1e-3, 1e-2, 1e-1]}


class Counts(Callback):
    """Counts the epochs of all fits."""

    epochs = 0

    def on_epoch_end(self, fit):
        Counts.epochs += 1


@pytest.fixture(autouse=True)
def from_zero():
    Counts.epochs = 0


def assert_same_results(ours, theirs, more=()):
    """Compare everything but times, to the bit."""
    assert [name for name in ours if name not in more] == list(theirs)
    for name, column in theirs.items():
        if "time" not in name:
            np.testing.assert_array_equal(ours[name], column, err_msg=name)


def public(search):
    return {name for name in vars(search) if not name.startswith("_")}


def assert_same_search(ours, theirs, X=X):
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_score_ == theirs.best_score_
    assert public(ours) == public(theirs)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def piped(network):
    return Pipeline([("scaler", StandardScaler()), ("net", network)])


class Two(nn.Module):
    def __init__(self, n_features, n_outputs, hidden=4):
        super().__init__()
        self.first, self.last = nn.Linear(n_features, hidden), nn.Linear(hidden, n_outputs)

    def forward(self, x):
        return self.last(ops.relu(self.first(x)))


CASES = {
    "dropout": (MLPClassifier((8,), dropout=0.3, **SHORT), RATES),
    "early stopping": (MLPClassifier((8,), early_stopping=True, n_iter_no_change=2, **SHORT), RATES),
    "out of patience": (MLPClassifier((8,), tol=0.5, n_iter_no_change=2, **SHORT), RATES),
    "plateaus": (
        MLPClassifier((8,), tol=0.1, optimizer=optim.SGD(schedules.Adaptive(0.1, patience=1)), **SHORT),
        {"alpha": [1e-4, 1e-2, 1.0]},
    ),
    "refit on all": (MLPClassifier((8,), early_stopping=True, refit_on_all=True, **SHORT), RATES),
    "drop-in": (
        neural_network.MLPClassifier((8,), early_stopping=True, **SHORT),
        {"learning_rate_init": [1e-3, 1e-2, 1e-1]},
    ),
    "regression": (MLPRegressor((8,), scale_target=True, shuffle=False, **SHORT), RATES),
    "own module": (NetClassifier(Two, **SHORT), {"module__hidden": [2, 4, 8]}),
    "pipeline": (
        piped(MLPClassifier((8,), dropout=0.3, **SHORT)),
        {"net__optimizer__lr": [1e-3, 1e-1], "scaler__with_mean": [False, True]},
    ),
    "whole steps": (
        piped(MLPClassifier((8,), **SHORT)),
        {
            "net": [MLPClassifier((4,), **SHORT), NetClassifier(Two, **SHORT)],
            "scaler": [None, StandardScaler()],
        },
    ),
}


def resource_of(estimator):
    return "net__max_iter" if isinstance(estimator, Pipeline) else "max_iter"


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_restarts_to_the_bit(name):
    estimator, grid = CASES[name]
    folds = 2 if isinstance(estimator, Pipeline) else ONE
    told = {"resource": resource_of(estimator), "max_resources": 9, "factor": 2, "cv": folds}
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContinuationWarning)
        ours = HalvingGridSearchCV(estimator, grid, **told).fit(X, y)
    assert_same_search(ours, Grid(estimator, grid, **told).fit(X, y))


def test_random_candidates_are_the_same_in_threads():
    told = {"n_candidates": 6, "factor": 2, "cv": 2, "random_state": 0, "max_resources": 4}
    net, rates = MLPClassifier((8,), **SHORT), {"optimizer__lr": [1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3]}
    with parallel_config("threading"):
        ours = HalvingRandomSearchCV(net, rates, n_jobs=2, **told).fit(X, y)
    theirs = Random(net, rates, resource="max_iter", **told).fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)


class Writes(Callback):
    """Writes a letter for every epoch to a file, which other processes write to as well."""

    def __init__(self, path=None):
        self.path = path

    def on_epoch_end(self, fit):
        with open(self.path, "a") as file:
            file.write("e")


def test_states_and_fitted_steps_travel_to_processes(tmp_path):
    estimator, grid = CASES["pipeline"]
    told = {"resource": "net__max_iter", "max_resources": 9, "factor": 2, "cv": 2, "refit": False}
    counted = clone(estimator).set_params(net__callbacks=[Writes(tmp_path / "epochs")])
    with parallel_config("loky", n_jobs=2):
        ours = HalvingGridSearchCV(counted, grid, **told).fit(X, y)
    theirs = Grid(estimator, grid, **told).fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    before = [0, *ours.n_resources_]
    rungs = zip(ours.n_candidates_, ours.n_resources_, before, strict=False)
    assert len((tmp_path / "epochs").read_text()) == 2 * sum(n * (last - first) for n, last, first in rungs)


class Break(Callback):
    """Takes a break in the middle of the second epoch of short fits."""

    pauses = True
    steps_per_block = 1

    def on_block_end(self, fit):
        return "stop" if fit.max_epochs < 9 and fit.epoch == 2 and fit.step % 2 == 0 else None

    def on_epoch_end(self, fit):
        return self.on_block_end(fit)


def test_a_break_keeps_the_state_before_it():
    told = {"max_resources": 9, "min_resources": 3, "factor": 3, "cv": ONE, "refit": False}
    net, whole = (
        MLPClassifier((8,), callbacks=callbacks, dropout=0.2, **SHORT) for callbacks in ([Break()], [])
    )
    ours = HalvingGridSearchCV(net, RATES, **told).fit(X, y)
    theirs = Grid(net, RATES, resource="max_iter", **told).fit(X, y)
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    [last] = [
        score
        for score, rung in zip(ours.cv_results_["mean_test_score"], ours.cv_results_["iter"], strict=True)
        if rung == 1
    ]
    assert last == cross_val_score(whole.set_params(**ours.cv_results_["params"][-1]), X, y, cv=ONE).mean()


class Tasks:
    """A callback of scikit-learn's protocol that notes the tasks other than epochs."""

    max_propagation_depth = None

    def __init__(self):
        self.seen = []

    def setup(self, **given):
        self.seen.append("setup")

    def teardown(self, **given):
        self.seen.append("teardown")

    def on_fit_task_begin(self, estimator, context, **given):
        if context.task_name != "epoch":
            self.seen.append(("begin", context.task_name, type(estimator).__name__, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, **given):
        if context.task_name != "epoch":
            self.seen.append(("end", context.task_name, type(estimator).__name__))


def test_scikit_learns_callbacks_see_the_tasks_of_its_own_search():
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")
    net, seen = MLPClassifier((4,), **SHORT), []
    for kind in (HalvingGridSearchCV, Grid):
        tasks = Tasks()
        search = kind(net, RATES, resource="max_iter", max_resources=4, factor=2, cv=ONE)
        search.set_callbacks(tasks).fit(X, y)
        seen.append(tasks.seen)
    assert seen[0] == seen[1]
    assert ("begin", "halving-iteration", "HalvingGridSearchCV", 3) in seen[0]


@pytest.mark.slow
def test_27_candidates_need_less_than_half_of_the_epochs():
    net = MLPClassifier((16,), callbacks=[Counts()], tol=0, n_iter_no_change=np.inf, random_state=0)
    grid = {
        "optimizer__lr": [1e-4, 1e-3, 1e-2],
        "optimizer__beta1": [0.5, 0.9, 0.99],
        "alpha": [1e-4, 1.0, 100.0],
    }
    told = {"factor": 1.5, "cv": ONE, "max_resources": 60, "refit": False, "return_train_score": False}
    counts, searches = [], []
    for kind in (HalvingGridSearchCV, Grid):
        Counts.epochs = 0
        searches.append(kind(net, grid, resource="max_iter", **told).fit(DIGITS[:200], LABELS[:200]))
        counts.append(Counts.epochs)
    ours, theirs = searches
    assert_same_results(ours.cv_results_, theirs.cv_results_)
    assert ours.best_params_ == theirs.best_params_
    rungs = list(zip(ours.n_candidates_, ours.n_resources_, strict=True))
    assert counts[1] == sum(n * epochs for n, epochs in rungs)
    before = [0, *ours.n_resources_]
    assert counts[0] == sum(n * (epochs - past) for (n, epochs), past in zip(rungs, before, strict=False))
    assert counts[0] <= 0.45 * counts[1]


def test_elimination_at_the_same_number_of_epochs_is_free():
    told = {"aggressive_elimination": True, "factor": 2, "min_resources": 4, "max_resources": 8, "cv": ONE}
    net = MLPClassifier((4,), callbacks=[Counts()], tol=0, n_iter_no_change=99, random_state=0)
    search = HalvingGridSearchCV(
        net, {"alpha": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]}, refit=False, **told
    )
    search.fit(X, y)
    assert search.n_resources_ == [4, 4, 4, 8]
    assert Counts.epochs == 8 * 4 + 4


@pytest.mark.parametrize("kind", [HalvingGridSearchCV, HalvingRandomSearchCV])
@pytest.mark.parametrize("factor", [1, 1.0, 0.5, True, np.int8(1)])
def test_factors_that_leave_all_candidates_are_refused(kind, factor):
    search = kind(MLPClassifier((4,), random_state=0), {"alpha": [0.1, 0.2]}, factor=factor)
    with pytest.raises(ValueError, match=r"'factor' parameter of Halving.* in the range \(1.0, inf\). Got "):
        search.fit(X, y)


SPANS = {
    "L-BFGS": (MLPClassifier((4,), optimizer="lbfgs", **SHORT), "LBFGS is inside SciPy"),
    "cosine": (
        MLPClassifier((4,), optimizer=optim.Adam(schedules.Cosine(0.01)), **SHORT),
        r"Adam\(lr=Cosine\(.* depends on the total number of epochs",
    ),
    "average": (MLPClassifier((4,), optimizer=optim.SWA(optim.Adam(), start=0.5), **SHORT), r"SWA\("),
    "own schedule": (
        MLPClassifier((4,), optimizer=optim.SGD(lambda at: 0.1 if at.step < at.total_steps / 2 else 0.01)),
        r"SGD\(",
    ),
    "ensemble": (MLPClassifier((4,), n_members=2, **SHORT), "each fit of an ensemble begins anew"),
    "another library": (
        SGDClassifier(random_state=0),
        "max_iter is not the number of epochs of a sknet network",
    ),
}


@pytest.mark.parametrize("name", SPANS)
def test_what_cannot_continue_restarts_with_one_warning(name):
    estimator, why = SPANS[name]
    told = {"resource": "max_iter", "max_resources": 9, "cv": ONE}
    grid = {"alpha": [1e-4, 1e-2, 1.0]}
    estimator = clone(estimator).set_params(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = HalvingGridSearchCV(estimator, grid, **told).fit(X, y)
        (warning,) = [each for each in caught if each.category is ContinuationWarning]
    assert re.search(why, str(warning.message))
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Grid(estimator, grid, **told).fit(X, y)
    assert_same_search(ours, theirs)


FREE = {
    "constant": optim.Adam(0.01),
    "inverse scaling": optim.SGD(schedules.InverseScaling(0.1)),
    "cosine of its own length": optim.Adam(schedules.Cosine(0.01, n_steps=20)),
    "every few epochs": optim.Adam(schedules.Step(0.1, every=2)),
    "average from a step on": optim.SWA(optim.Adam(), start=5),
    "own schedule": optim.SGD(lambda at: 0.1 / (1 + at.epoch)),
}


@pytest.mark.parametrize("name", FREE)
def test_schedules_that_do_not_depend_on_the_length_continue(name):
    net = MLPClassifier((4,), optimizer=FREE[name], callbacks=[Counts()], tol=0, n_iter_no_change=99, **SHORT)
    told = {"max_resources": 9, "resource": "max_iter", "cv": ONE, "refit": False}
    ours = HalvingGridSearchCV(net, {"alpha": [1e-4, 1e-2, 1.0]}, **told).fit(X, y)
    assert Counts.epochs == 3 * 3 + 6
    assert_same_results(
        ours.cv_results_, Grid(net, {"alpha": [1e-4, 1e-2, 1.0]}, **told).fit(X, y).cv_results_
    )


class CountingScaler(StandardScaler):
    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        CountingScaler.fits += 1
        return super().fit(X, y, sample_weight)


def test_first_steps_are_fitted_once_per_fold():
    CountingScaler.fits = 0
    pipe = Pipeline([("scaler", CountingScaler()), ("net", MLPClassifier((4,), **SHORT))])
    grid = {"net__alpha": [1e-4, 1e-2, 1.0], "scaler__with_mean": [False, True]}
    told = {"resource": "net__max_iter", "max_resources": 4, "factor": 2, "cv": 3, "refit": False}
    search = HalvingGridSearchCV(pipe, grid, **told).fit(X, y)
    assert CountingScaler.fits == 2 * 3
    assert pipe.memory is None
    assert search.best_params_.keys() == {"net__alpha", "net__max_iter", "scaler__with_mean"}


def test_a_failed_candidate_is_scored_like_scikit_learns():
    told = {"resource": "max_iter", "max_resources": 4, "factor": 2, "cv": 2}
    grid = {"optimizer__lr": [1e-3, 1e-2, 1e30], "optimizer": ["sgd"]}
    net = MLPRegressor((4,), **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (kind(net, grid, **told).fit(X, y) for kind in (HalvingGridSearchCV, Grid))
    assert np.isnan(ours.cv_results_["split0_test_score"]).any()
    assert_same_results(ours.cv_results_, theirs.cv_results_)


@pytest.mark.parametrize("routing", [False, True])
def test_metadata_reach_the_network_in_a_pipeline(routing):
    weight = np.linspace(0.1, 2, len(X))
    with sklearn.config_context(enable_metadata_routing=routing):
        net = MLPClassifier((4,), **SHORT)
        if routing:
            net.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            pipe = Pipeline([("scaler", StandardScaler().set_fit_request(sample_weight=False)), ("net", net)])
        else:
            pipe = piped(net)
        told = {"resource": "net__max_iter", "max_resources": 4, "factor": 2, "cv": 2}
        given = {"sample_weight" if routing else "net__sample_weight": weight}
        grid = {"net__alpha": [1e-4, 1.0]}
        ours, theirs = (kind(pipe, grid, **told).fit(X, y, **given) for kind in (HalvingGridSearchCV, Grid))
    assert_same_search(ours, theirs)


def test_a_search_is_cloned_pickled_and_compared_by_its_parameters():
    search = HalvingGridSearchCV(MLPClassifier((4,), **SHORT), RATES, cv=ONE, factor=4)
    assert clone(search).get_params(deep=False).keys() == Grid(None, {}).get_params(deep=False).keys()
    fitted = pickle.loads(pickle.dumps(search.fit(X, y)))
    np.testing.assert_array_equal(fitted.predict(X), search.predict(X))
    assert search.n_resources_ == [9]


@pytest.mark.slow
def test_scikit_learns_checks_pass():
    told = {"cv": 2, "error_score": "raise", "random_state": 0, "min_resources": "smallest"}
    theirs = Grid(LogisticRegression(), {"C": [0.1, 1.0]}, **told)
    ours = HalvingGridSearchCV(theirs.estimator, theirs.param_grid, resource="n_samples", **told)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(
            ours, legacy=False, expected_failed_checks=_get_expected_failed_checks(theirs), on_skip=None
        )


def test_the_epochs_of_a_pipeline_are_named():
    search = HalvingGridSearchCV(piped(MLPClassifier()), {"net__alpha": [1e-4, 1.0]})
    with pytest.raises(ValueError, match=r"not a parameter of this Pipeline: .*resource='net__max_iter'"):
        search.fit(X, y)
    with pytest.raises(ValueError, match=r"not a parameter of this SGDClassifier: see get_params"):
        HalvingGridSearchCV(SGDClassifier(), {"alpha": [1e-4, 1.0]}, resource="epochs").fit(X, y)
