"""Searches over networks on a device: one program, with the results of scikit-learn's search fit by fit."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn import model_selection
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from sknet import MLPClassifier, MLPRegressor
from sknet.callbacks import Callback
from sknet.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_validate,
)
from sknet.optim import SGD
from tests.devices import fake

pytestmark = [
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),
    pytest.mark.filterwarnings("ignore:One or more of the test scores are non-finite"),
]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 5))
LABELS, REAL = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5), X[:, 0] + X[:, 1] ** 2
NET = {"hidden_layer_sizes": (5,), "max_iter": 3, "batch_size": 16, "dtype": "float64", "random_state": 0}
RATES = {"optimizer__lr": [1e-3, 1e-2, 1e-1]}


def net(device, kind=MLPClassifier, **params):
    return kind(**NET | {"optimizer": "adam", "device": str(device)} | params)


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, column in expected.items():
        if name == "params" or name.startswith("param_"):
            assert str(found[name]) == str(column)
        elif "time" not in name:
            np.testing.assert_allclose(found[name], column, rtol=1e-9, err_msg=name)


KINDS = {
    "grid": (GridSearchCV, model_selection.GridSearchCV, {}),
    "random": (RandomizedSearchCV, model_selection.RandomizedSearchCV, {"n_iter": 3, "random_state": 0}),
}


@pytest.mark.parametrize(
    ("kind", "n_jobs", "is_piped"),
    [("grid", None, False), ("grid", 2, True), ("random", 2, False), ("random", None, True)],
)
def test_all_fits_of_a_search_are_one_program(kind, n_jobs, is_piped, sizes, fake_device):
    mine, theirs, told = KINDS[kind]
    told = told | {"cv": 3, "scoring": ["neg_log_loss", "accuracy"], "refit": "accuracy"}
    estimator, grid = net(fake_device), RATES | {"alpha": [0.01, 0.1]}
    if is_piped:
        estimator = Pipeline([("scaler", StandardScaler()), ("net", estimator)])
        grid = {f"net__{name}": values for name, values in grid.items()}
    expected = theirs(estimator, grid, **told, return_train_score=True).fit(X, LABELS)
    assert not sizes
    found = mine(estimator, grid, **told, return_train_score=True, n_jobs=n_jobs).fit(X, LABELS)
    n_fits = 3 * len(expected.cv_results_["params"])
    assert sizes == ([3, n_fits - 3] if is_piped else [n_fits])
    assert_same(found.cv_results_, expected.cv_results_)
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-8)


def test_halving_continues_in_stacks(sizes, fake_device):
    told = {"factor": 2, "cv": 2, "max_resources": 8, "scoring": "neg_log_loss", "refit": False}
    grid = {"optimizer__lr": [1e-3, 1e-2, 3e-2, 1e-1]}
    theirs = model_selection.HalvingGridSearchCV(net(fake_device), grid, resource="max_iter", **told)
    expected = theirs.fit(X, LABELS).cv_results_
    assert not sizes
    found = HalvingGridSearchCV(net(fake_device), grid, **told).fit(X, LABELS)
    assert sizes == [8, 4, 2]
    assert_same(found.cv_results_, expected)


def test_hyperband_continues_in_stacks(sizes, fake_device):
    told = {"max_resources": 4, "factor": 2, "cv": 2, "random_state": 0, "scoring": "neg_log_loss"}
    found, expected = (
        HyperbandSearchCV(net(device), {"optimizer__lr": [1e-3, 1e-2, 1e-1, 1.0]}, **told).fit(X, LABELS)
        for device in (fake_device, "cpu")
    )
    assert sizes == [2 * n for each in found.brackets_ for n in each["n_candidates"] if n > 0]
    assert_same(found.cv_results_, expected.cv_results_)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_cross_validation_is_one_program(n_jobs, sizes, fake_device):
    told = {"cv": 3, "scoring": "neg_log_loss", "return_train_score": True, "return_indices": True}
    expected = model_selection.cross_validate(net(fake_device), X, LABELS, **told)
    found = cross_validate(net(fake_device), X, LABELS, **told, n_jobs=n_jobs, return_estimator=True)
    assert sizes == [3]
    assert all(each.n_iter_ == 3 for each in found.pop("estimator"))
    for name in ("test_score", "train_score"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)
    assert list(found) == list(expected)
    real = {"n_jobs": n_jobs, "cv": 3}
    found = cross_val_predict(net(fake_device, MLPRegressor), X, REAL, **real)
    expected = model_selection.cross_val_predict(net(fake_device, MLPRegressor), X, REAL, cv=3)
    assert sizes == [3, 3]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_what_cannot_be_part_of_it_is_fitted_beside_it(sizes, fake_device):
    pipe = Pipeline([("net", net(fake_device))])
    others = [LogisticRegression(), net(fake_device, n_members=2), net("cpu")]
    grid = [{"net__optimizer__lr": [1e-3, 1e-2]}, {"net": others}, {"net__optimizer": ["lbfgs"]}]
    told = {"cv": 2, "scoring": "neg_log_loss", "refit": False}
    expected = model_selection.GridSearchCV(pipe, grid, **told).fit(X, LABELS)
    sizes.clear()
    found = GridSearchCV(pipe, grid, **told).fit(X, LABELS)
    assert sizes == [4, 2, 2]  # the last ones are the ensembles
    assert_same(found.cv_results_, expected.cv_results_)


def test_folds_of_other_sizes_are_stacks_of_their_own(sizes, fake_device):
    folds = [(np.arange(40), np.arange(40, 60)), (np.arange(30), np.arange(30, 60))]
    told = {"param_grid": RATES, "cv": folds, "scoring": "neg_log_loss", "refit": False}
    expected = model_selection.GridSearchCV(net(fake_device), **told).fit(X, LABELS)
    found = GridSearchCV(net(fake_device), **told).fit(X, LABELS)
    assert sizes == [3, 3]
    assert_same(found.cv_results_, expected.cv_results_)


def test_folds_that_memory_has_no_room_for_are_trained_one_after_another(sizes, fake_device, monkeypatch):
    wide = RNG.normal(size=(400, 50))
    labels = (wide[:, 0] > 0).astype(int)
    monkeypatch.setattr(
        fake, "FREE_MEMORY", 2 * 100_000
    )  # of which half is for rows: a fold has 80,000 bytes
    told = {"param_grid": RATES, "cv": 2, "scoring": "neg_log_loss", "refit": False}
    expected = model_selection.GridSearchCV(net(fake_device), **told).fit(wide, labels)
    found = GridSearchCV(net(fake_device), **told).fit(wide, labels)
    assert sizes == [3, 3]
    assert_same(found.cv_results_, expected.cv_results_)


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [np.nan, "raise"])
def test_a_fit_that_fails_is_a_score(how, sizes, fake_device):
    grid = {"optimizer": [SGD(1e-2), SGD(1e30), SGD(1e-1)]}
    told = {"cv": ShuffleSplit(2, random_state=0), "error_score": how, "refit": False}
    searches = [kind(net(fake_device), grid, **told) for kind in (GridSearchCV, model_selection.GridSearchCV)]
    if how == "raise":
        for each in searches:
            with pytest.raises(ValueError, match=r"diverged|non-finite"):
                each.fit(X, LABELS)
        return
    mine, theirs = (each.fit(X, LABELS) for each in searches)
    assert sizes[0] == 6
    assert_same(mine.cv_results_, theirs.cv_results_)
    assert np.isnan(mine.cv_results_["mean_test_score"]).tolist() == [False, True, False]


def test_members_that_stop_early_leave(sizes, fake_device):
    early = {"early_stopping": True, "n_iter_no_change": 1, "max_iter": 20, "tol": 1e-2}
    told = {"param_grid": RATES, "cv": 2, "scoring": "neg_log_loss"}
    mine, theirs = (
        kind(net(fake_device, **early), **told).fit(X, LABELS)
        for kind in (GridSearchCV, model_selection.GridSearchCV)
    )
    assert sizes[0] == 6
    assert_same(mine.cv_results_, theirs.cv_results_)
    assert mine.best_estimator_.n_iter_ == theirs.best_estimator_.n_iter_ < 20


class Interrupts(Callback):
    """Presses Ctrl-C in the second epoch."""

    def on_epoch_end(self, fit):
        if fit.epoch == 2:
            raise KeyboardInterrupt


def test_ctrl_c_ends_the_search(fake_device):
    search = GridSearchCV(net(fake_device, callbacks=[Interrupts()]), RATES, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, LABELS)
    assert not hasattr(search, "cv_results_")
    with pytest.raises(KeyboardInterrupt):
        cross_validate(search.estimator, X, LABELS, cv=2)


class Knows(Callback):
    """Does nothing, but where it comes the fake device is known."""


def test_a_chosen_backend_is_used(sizes, fake_device):
    told = {"param_grid": RATES, "cv": 2, "refit": False, "scoring": "neg_log_loss", "error_score": "raise"}
    here, there = (GridSearchCV(net(fake_device, callbacks=[Knows()]), **told) for _ in range(2))
    with parallel_config("threading", n_jobs=2):
        here.fit(X, LABELS)
    assert sizes == [6]
    with parallel_config("loky", n_jobs=2):
        there.fit(X, LABELS)
    assert sizes == [6]  # each has been trained by itself, in another process
    assert_same(here.cv_results_, there.cv_results_)


def test_what_each_fit_prints(fake_device, capsys):
    GridSearchCV(net(fake_device), RATES, cv=2, refit=False, verbose=3).fit(X, LABELS)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Fitting 2 folds for each of 3 candidates, totalling 6 fits"
    assert sum(line.startswith("[CV") and "END" in line for line in lines) == 6
    cross_validate(net(fake_device), X, LABELS, cv=2, verbose=1)
    assert "[Parallel(" in capsys.readouterr().err


# -- how many ------------------------------------------------------------------------------------
