"""Refitting on all rows after early stopping: the same initial weights, and the best number of updates."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine
from tests.estimators.data import HELD_OUT, ROWS, TABLES, TRAINING, estimator_for, parts, quiet


@pytest.mark.parametrize("how", ["fraction", "split", "given"])
@pytest.mark.parametrize("task", ["binary", "regression"])
def test_refit_makes_as_many_updates_on_all_rows(task, how):
    X, y = TABLES[task]
    params = {"early_stopping": True, "optimizer": Adam(0.05), "n_iter_no_change": 3, "max_iter": 60}
    if how == "split":
        params["validation_split"] = (ROWS[TRAINING], ROWS[HELD_OUT])
    elif how == "fraction":
        params["validation_fraction"] = 0.3
    given = {"X_val": X[HELD_OUT], "y_val": y[HELD_OUT]} if how == "given" else {}
    rows = TRAINING if how == "given" else slice(None)
    stopped, refitted = (estimator_for(task, **params, refit_on_all=refit) for refit in (False, True))
    with quiet():
        stopped.fit(X[rows], y[rows], **given)
        refitted.fit(X[rows], y[rows], **given)
    assert stopped.history_["validation_loss"] == refitted.history_["validation_loss"]
    assert stopped.best_epoch_ == refitted.best_epoch_
    n_training = 230 - 69 if how == "fraction" else 160
    n_updates = stopped.best_epoch_ * -(-n_training // 64)
    assert refitted.model_.progress.step == n_updates
    assert len(refitted.refit_history_["loss"]) == -(-n_updates // 4)
    assert not all(map(np.array_equal, stopped.coefs_, refitted.coefs_))


def test_refit_without_shuffling_is_a_fit_of_all_rows():
    X, y = TABLES["regression"]
    params = {"optimizer": Adam(0.02), "shuffle": False, "batch_size": 23, "alpha": 0.0}
    pair = (ROWS[:115], ROWS[115:])
    refitted = estimator_for(
        "regression", **params, early_stopping=True, refit_on_all=True, validation_split=pair, max_iter=40
    )
    with quiet():
        refitted.fit(X, y)
        n_updates = refitted.best_epoch_ * 5
        expected = estimator_for("regression", **params, tol=0, max_iter=n_updates // 10).fit(X, y)
        for start in range(n_updates % 10):  # what is left of an epoch
            rows = slice(23 * start, 23 * start + 23)
            expected.model_.step(X[rows], y[rows].reshape(-1, 1))
    for mine, theirs in zip(refitted.coefs_, expected.coefs_, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_refit_follows_the_same_schedule():
    X, y = TABLES["regression"]
    pair = (ROWS[:115], ROWS[115:])
    params = {"optimizer": SGD(Cosine(0.05)), "batch_size": 23, "max_iter": 40, "early_stopping": True}
    with quiet():
        reg = estimator_for("regression", **params, validation_split=pair, refit_on_all=True).fit(X, y)
    by_update = {5 * (epoch + 1): lr for epoch, lr in enumerate(reg.history_["lr"])}
    for epoch, lr in enumerate(reg.refit_history_["lr"][:-1]):
        assert lr == pytest.approx(by_update[10 * (epoch + 1)])


def test_refit_lowers_the_rate_after_as_many_updates():
    X, y = TABLES["regression"]
    params = {"optimizer": SGD(Adaptive(0.3), momentum=0.0), "batch_size": 23, "n_iter_no_change": 1}
    params |= {"early_stopping": True, "tol": 1e-3, "alpha": 0.0, "max_iter": 100, "monitor": "loss"}
    pair = (ROWS[:115], ROWS[115:])
    with quiet():
        reg = estimator_for("regression", **params, validation_split=pair, refit_on_all=True).fit(X, y)
    # An epoch of all rows is as long as two of half of them, and has the rate of the first.
    expected = reg.history_["lr"][: reg.best_epoch_ : 2]
    assert len(set(expected)) > 3
    assert reg.refit_history_["lr"] == pytest.approx(expected)


@pytest.mark.parametrize("convert", [csr_array, np.asarray])
@pytest.mark.parametrize("weighted", ["none", "training", "both"])
def test_refit_on_given_rows_trains_on_all_of_them(convert, weighted):
    (X, y, w), (X_val, y_val, w_val) = parts("regression")
    given = {} if weighted == "none" else {"sample_weight": w}
    given |= {"sample_weight_val": w_val} if weighted == "both" else {}
    params = {"shuffle": False, "batch_size": 10, "alpha": 0.0, "max_iter": 12}
    reg = estimator_for("regression", **params, early_stopping=True, refit_on_all=True)
    with quiet():
        reg.fit(convert(X), y, X_val=convert(X_val), y_val=y_val, **given)
        n_updates = reg.best_epoch_ * 16
        weight = None if weighted == "none" else np.r_[w, w_val if weighted == "both" else np.ones(70)]
        both = np.concatenate([X, X_val]), np.r_[y, y_val]
        epochs = n_updates // 23
        expected = estimator_for("regression", **params | {"max_iter": max(1, epochs)}, tol=0).fit(
            *both, weight
        )
    assert reg.refit_history_["loss"][:epochs] == pytest.approx(expected.history_["loss"][:epochs])
    assert reg.model_.progress.step == n_updates


def test_a_warm_start_continues_from_the_refit():
    (X, y, _), (X_val, y_val, _) = parts("regression")
    reg = estimator_for("regression", early_stopping=True, refit_on_all=True, warm_start=True, max_iter=5)
    with quiet():
        reg.fit(X, y, X_val=X_val, y_val=y_val)
        steps = reg.model_.progress.step
        reg.fit(X, y, X_val=X_val, y_val=y_val)
    assert reg.best_epoch_ > 5
    assert reg.model_.progress.step == steps + (reg.best_epoch_ - 5) * 3


def test_refit_is_for_whole_fits():
    (X, y, _), (X_val, y_val, _) = parts("binary")
    clf = estimator_for("binary", early_stopping=True, refit_on_all=True)
    with pytest.raises(ValueError, match="partial_fit does not support refit_on_all=True"):
        clf.partial_fit(X, y, classes=[0, 1], X_val=X_val, y_val=y_val)
