"""Estimators with every optimizer, by name and as an object; averages after the fit."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import GridSearchCV

from sknet.callbacks import Callback
from sknet.optim import (
    EMA,
    OPTIMIZERS,
    SGD,
    SWA,
    Accumulate,
    Adam,
    ClipNorm,
    ClipValue,
    Groups,
    Lookahead,
    Muon,
    ScheduleFreeAdamW,
    WeightDecay,
)
from sknet.optim.schedules import Adaptive, Constant, Cosine, Joined, WarmUp
from tests.estimators.data import TABLES, estimator_for, quiet, same_bits

X, Y = TABLES["multiclass"]
COMBINED = [
    ClipNorm(Adam(0.01)),
    ClipValue(Adam(WarmUp(Cosine(0.02), n_steps=5)), 0.1),
    WeightDecay(Adam(0.01), 0.1),
    Groups({"0.*": SGD(0.1), "*": Adam(0.01)}),
    Accumulate(Adam(0.03), 2),
    Lookahead(Adam(0.01)),
    Muon(rest=Adam(0.01)),
]
AVERAGING = [
    EMA(Adam(0.02), 0.8),
    SWA(Adam(Joined([0.02, 0.01], boundaries=[20])), start=0.5),
    ScheduleFreeAdamW(0.03, warmup=3),
    Accumulate(ClipNorm(EMA(Adam(0.03), 0.7)), 2),
    Groups({"0.*": EMA(SGD(0.1), 0.9), "*": Adam(0.01)}),
]


def name_of(optimizer):
    return " ".join(str(optimizer).split())


def fit(task="multiclass", **params):
    with quiet():
        return estimator_for(task, **{"max_iter": 12} | params).fit(*TABLES[task])


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "lbfgs"])
@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_by_name(name, task):
    curve = fit(task, optimizer=name).loss_curve_
    assert curve[-1] < curve[0]


@pytest.mark.parametrize("optimizer", [*COMBINED, *AVERAGING], ids=name_of)
def test_as_an_object(optimizer):
    clf = fit(optimizer=clone(optimizer))
    assert clf.loss_curve_[-1] < 0.95 * clf.loss_curve_[0]
    assert clf.optimizer == optimizer
    assert same_bits(clf, fit(optimizer=optimizer))
    assert repr(clone(clf)) == repr(clf)


@pytest.mark.parametrize("optimizer", AVERAGING, ids=name_of)
def test_fitted_attributes_use_the_average(optimizer):
    clf = fit(optimizer=optimizer)
    model = clf.model_
    assert not np.array_equal(clf.intercepts_[0], model.parameters["0.bias"])
    hidden = np.maximum(X @ clf.coefs_[0] + clf.intercepts_[0], 0)
    scores = hidden @ clf.coefs_[1] + clf.intercepts_[1]
    np.testing.assert_allclose(clf.decision_function(X), scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(clf.freeze().predict_proba(X), clf.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(clf.predict_proba(X[:1]), clf.predict_proba(X)[:1], rtol=1e-9)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(clf)).predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize("optimizer", [EMA(SGD(0.2), 0.9), ScheduleFreeAdamW(0.05), COMBINED[3]], ids=name_of)
def test_parts_continue_from_the_trained_parameters(optimizer):
    """Fits in parts equal one fit, also across a pickle: averages do not affect training."""
    settings = {"optimizer": optimizer, "tol": 0.0, "shuffle": False}
    whole = fit(max_iter=6, **settings)
    parts = estimator_for("multiclass", **settings)
    for _ in range(6):
        parts.partial_fit(X, Y, classes=np.unique(Y))
        parts.predict(X)
        parts = pickle.loads(pickle.dumps(parts))
    assert same_bits(parts, whole)
    warm = estimator_for("multiclass", warm_start=True, max_iter=3, **settings)
    with quiet():
        warm.fit(X, Y).fit(X, Y)
    assert same_bits(warm, whole)


class HeldOut(Callback):
    """Keeps the rows that a fit holds out."""

    def on_fit_begin(self, fit):
        self.rows_ = fit.validation


@pytest.mark.parametrize("optimizer", AVERAGING, ids=name_of)
def test_early_stopping_keeps_the_best_average(optimizer):
    told = {"optimizer": optimizer, "early_stopping": True, "validation_fraction": 0.3, "max_iter": 25}
    clf = fit(callbacks=[HeldOut()], **told)
    best = int(np.argmin(clf.history_["validation_loss"]))
    assert clf.best_validation_score_ == clf.validation_scores_[best]
    assert same_bits(clf, fit(**told))
    X, y, _ = clf.callbacks_[0].rows_
    assert len(X) == 0.3 * len(Y)
    assert accuracy_score(y, clf.predict(X)) == pytest.approx(clf.best_validation_score_)
    assert log_loss(y, clf.predict_proba(X)) == pytest.approx(clf.history_["validation_loss"][best])


def test_grids_reach_inside():
    grid = {"optimizer__optimizer__lr": [1e-9, 0.05], "optimizer__max_norm": [1.0]}
    with quiet():
        search = GridSearchCV(estimator_for("multiclass", optimizer=ClipNorm(Adam())), grid, cv=2).fit(X, Y)
    assert search.best_params_["optimizer__optimizer__lr"] == 0.05
    groups = Groups({"*.bias": SGD(), "*": Adam(Joined([Constant(1e-9), 0.1], [5]))})
    grid = {"optimizer__*__lr__0__lr": [1e-9, 0.05], "optimizer__*.bias__lr": [0.1]}
    with quiet():
        search = GridSearchCV(estimator_for("multiclass", optimizer=groups), grid, cv=2).fit(X, Y)
    assert search.best_params_["optimizer__*__lr__0__lr"] == 0.05


def test_a_plateau_lowers_the_rate_before_it_stops():
    lr = WarmUp(Adaptive(0.1, factor=2.0, patience=1), n_steps=1)
    clf = fit(optimizer=SGD(lr), tol=10.0, n_iter_no_change=4, max_iter=50)
    assert clf.history_["lr"][-1] < clf.history_["lr"][1]
    assert clf.n_iter_ == 6


def test_wrong_patterns_name_the_parameters():
    with pytest.raises(ValueError, match=r"Got 'head\.\*', which matches none of \['0\.weight', '0\.bias'"):
        fit(optimizer=Groups({"head.*": SGD(), "*": Adam()}))
