"""Every candidate once: scikit-learn's results, with the first steps of Pipelines fitted once per fold."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from scipy.stats import loguniform
from sklearn import model_selection
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils._test_common.instance_generator import _get_expected_failed_checks
from sklearn.utils.estimator_checks import check_estimator

from sknet import MLPClassifier
from sknet.model_selection import GridSearchCV, RandomizedSearchCV

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X, y = load_iris(return_X_y=True)
CLASSES = {GridSearchCV: model_selection.GridSearchCV, RandomizedSearchCV: model_selection.RandomizedSearchCV}


class CountingScaler(StandardScaler):
    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        CountingScaler.fits += 1
        return super().fit(X, y, sample_weight)


@pytest.fixture(autouse=True)
def from_zero():
    CountingScaler.fits = 0


def piped(*steps):
    return Pipeline([*steps, ("net", MLPClassifier((4,), max_iter=2, random_state=0))])


SCALER, REDUCE = ("scaler", CountingScaler()), ("reduce", PCA(2, random_state=0))
ALPHAS = {"net__alpha": [1e-4, 1e-2, 1.0]}
# A Pipeline, its grid, and how often each fold fits the scaler.
CASES = {
    "network alone": (MLPClassifier((4,), max_iter=2, random_state=0), {"alpha": [1e-4, 1.0]}, 0),
    "one head": (piped(SCALER, REDUCE), ALPHAS, 1),
    "several heads": (piped(SCALER, REDUCE), {**ALPHAS, "reduce__n_components": [1, 2]}, 2),
    "a step is passed through": (piped(SCALER, REDUCE), {**ALPHAS, "reduce": ["passthrough", PCA(1)]}, 2),
    "functions": (piped(SCALER, ("f", FunctionTransformer(lambda x: x[:, :2]))), ALPHAS, 1),
    "a Pipeline in a Pipeline": (
        make_pipeline(CountingScaler(), piped(("inner", StandardScaler()))),
        {"pipeline__net__alpha": [1e-4, 1.0]},
        1,
    ),
    "another last step": (
        make_pipeline(CountingScaler(), LogisticRegression()),
        {"logisticregression__C": [0.1, 1]},
        1,
    ),
    "several grids": (piped(SCALER), [ALPHAS, {"scaler__with_std": [False], "net__alpha": [1e-2, 1.0]}], 2),
    "all steps at once": (piped(SCALER), {"steps": [piped(SCALER).steps, piped(SCALER, REDUCE).steps]}, 2),
}


def public(search):
    return {name for name in vars(search) if not name.startswith("_")}


def assert_same_search(ours, theirs):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for name, column in theirs.cv_results_.items():
        if "time" in name:
            continue
        if name == "params" or name.startswith("param_"):
            assert str(ours.cv_results_[name]) == str(column)
        else:
            np.testing.assert_array_equal(ours.cv_results_[name], column, err_msg=name)
    assert public(ours) == public(theirs)
    assert str(ours.best_params_) == str(theirs.best_params_)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("name", CASES)
def test_results_are_scikit_learns_and_first_steps_are_fitted_once_per_fold(name):
    estimator, grid, fits = CASES[name]
    ours, theirs = (
        kind(estimator, grid, cv=2, return_train_score=True) for kind in (GridSearchCV, CLASSES[GridSearchCV])
    )
    ours.fit(X, y)
    assert CountingScaler.fits == fits * 2 + bool(fits)  # and once for all rows
    assert_same_search(ours, theirs.fit(X, y))


SCORES = {
    "one": {"scoring": "f1_macro"},
    "several": {"scoring": ["accuracy", "neg_log_loss"], "refit": "neg_log_loss"},
    "a function of several": {
        "scoring": lambda estimator, X, y: {"a": estimator.score(X, y), "b": 1.0},
        "refit": "a",
    },
    "own choice": {"refit": lambda results: int(np.argmin(results["mean_test_score"]))},
}


@pytest.mark.parametrize("name", SCORES)
def test_scorers_groups_and_threads(name):
    told = {"cv": GroupKFold(3), "random_state": 0, "n_iter": 3, **SCORES[name]}
    groups = np.arange(len(X)) % 5
    rates = {"net__optimizer__lr": loguniform(1e-3, 1)}
    with parallel_config("threading", n_jobs=2):
        ours = RandomizedSearchCV(piped(SCALER), rates, **told).fit(X, y, groups=groups)
    assert CountingScaler.fits == 3 + 1
    assert_same_search(
        ours, model_selection.RandomizedSearchCV(piped(SCALER), rates, **told).fit(X, y, groups=groups)
    )
    again = pickle.loads(pickle.dumps(ours.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), ours.predict(X))
    assert ours.best_estimator_.memory is None


def test_a_memory_of_the_users_own_is_kept(tmp_path):
    pipe = piped(SCALER).set_params(memory=str(tmp_path))
    search = GridSearchCV(pipe, ALPHAS, cv=2, refit=False).fit(X, y)
    assert list(tmp_path.iterdir())
    assert search.best_score_ > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSES)
def test_scikit_learns_checks_pass(kind):
    told = {"cv": 2, "error_score": "raise"} | ({} if kind is GridSearchCV else {"n_iter": 2})
    theirs = CLASSES[kind](LogisticRegression(), {"C": [0.1, 1.0]}, **told)
    ours = kind(theirs.estimator, {"C": [0.1, 1.0]}, **told)
    expected = _get_expected_failed_checks(theirs)
    check_estimator(ours, legacy=False, expected_failed_checks=expected, on_skip=None)
    assert ours.get_params(deep=False).keys() == theirs.get_params(deep=False).keys()
