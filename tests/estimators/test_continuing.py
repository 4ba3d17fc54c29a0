"""warm_start and partial_fit continue everything; history and attributes."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sknet
from sknet import neural_network
from sknet.optim import SGD, Adam, AdamW, RMSprop
from sknet.optim.schedules import InverseScaling
from tests.estimators.data import (
    TABLES,
    TASKS,
    WEIGHTS,
    estimator_for,
    first_part,
    quiet,
    same_bits,
    same_state,
)

OPTIMIZERS = [Adam(), AdamW(), RMSprop(), SGD(0.01, 0.9, True), SGD(InverseScaling(0.01))]


def same_model(a, b):
    progress = a.model_.progress._replace(total_steps=None)
    same_state(a.model_.state._replace(progress=progress), b.model_.state._replace(progress=progress))
    assert same_bits(a, b)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("task", TASKS)
def test_two_fits_are_one(task, optimizer):
    X, y = TABLES[task]
    common = {"optimizer": optimizer, "shuffle": False, "dropout": 0.2}
    twice = estimator_for(task, max_iter=2, warm_start=True, **common)
    once = estimator_for(task, max_iter=4, **common)
    with quiet():
        twice.fit(X, y, WEIGHTS).fit(X, y, WEIGHTS)
        once.fit(X, y, WEIGHTS)
    same_model(twice, once)
    assert twice.t_ == once.t_
    assert (twice.n_iter_, once.n_iter_) == (2, 4)
    assert twice.loss_curve_ == once.loss_curve_
    assert twice.best_loss_ == once.best_loss_


@pytest.mark.parametrize("optimizer", OPTIMIZERS[::3], ids=repr)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("size", [64, 230])
def test_parts_are_epochs(task, optimizer, size):
    X, y = TABLES[task]
    common = {"optimizer": optimizer, "shuffle": False, "dropout": 0.2, "batch_size": size}
    parts, whole = estimator_for(task, **common), estimator_for(task, max_iter=3, **common)
    for _ in range(3):
        first_part(task, parts, X, y, WEIGHTS)
    with quiet():
        whole.fit(X, y, WEIGHTS)
    same_model(parts, whole)
    assert (parts.n_iter_, whole.n_iter_) == (1, 3)


def test_shuffled_parts_continue_the_random_stream():
    """scikit-learn reseeds in every call, and so repeats one order forever."""
    X, y = TABLES["regression"]
    parts, fitted = estimator_for("regression"), estimator_for("regression", max_iter=1)
    parts.partial_fit(X, y)
    with quiet():
        fitted.fit(X, y)
    same_model(parts, fitted)
    state = parts.model_.random_state.get_state()[2]
    parts.partial_fit(X, y)
    assert parts.model_.random_state.get_state()[2] != state


def test_a_parameter_that_is_set_between_two_parts_takes_effect():
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    one = sknet.MLPClassifier((4,), random_state=0).partial_fit(X, y, classes=[0, 1])
    for _ in range(2):
        one.partial_fit(X, y)
    assert one.model_.alpha == 1e-4
    one.set_params(alpha=0.5).partial_fit(X, y)
    assert one.model_.alpha == 0.5
    one.model_.adopt(one.model_.optimizer, one.model_.loss_function, 0.25)  # a user's own change is undone
    one.partial_fit(X, y)
    assert one.model_.alpha == 0.5


def test_parts_after_a_fit_continue():
    X, y = TABLES["binary"]
    first = estimator_for("binary", shuffle=False, max_iter=2)
    whole = estimator_for("binary", shuffle=False, max_iter=3)
    with quiet():
        first.fit(X, y).partial_fit(X, y)
        whole.fit(X, y)
    same_model(first, whole)


def test_without_warm_start_a_fit_starts_from_scratch():
    X, y = TABLES["binary"]
    a, b = estimator_for("binary"), estimator_for("binary")
    with quiet():
        a.fit(X, y).fit(X, y)
        b.fit(X, y)
    same_model(a, b)
    assert len(a.history_["loss"]) == 3


def test_a_fit_from_scratch_may_have_other_data():
    estimator = estimator_for("binary")
    with quiet():
        estimator.fit(*TABLES["binary"])
        X, y = TABLES["multiclass"]
        estimator.fit(X[:, :3], np.array(list("abc"))[y])
    assert list(estimator.classes_) == ["a", "b", "c"]
    assert estimator.n_features_in_ == 3


def test_other_hyperparameters_take_effect():
    X, y = TABLES["binary"]
    estimator = estimator_for("binary", warm_start=True, max_iter=2)
    with quiet():
        estimator.fit(X, y)
        weights = [c.copy() for c in estimator.coefs_]
        estimator.set_params(optimizer=Adam(lr=1e-30), alpha=0.0).fit(X, y)
        for mine, before in zip(estimator.coefs_, weights, strict=True):
            np.testing.assert_array_equal(mine, before)
        assert estimator.history_["lr"] == pytest.approx([1e-3, 1e-3, 1e-30, 1e-30])
        before = estimator.loss_
        estimator.set_params(optimizer="lbfgs", max_iter=50).fit(X, y)
        assert estimator.loss_ < before
        estimator.set_params(optimizer="sgd", max_iter=1).fit(X, y)
    assert estimator.model_.progress.step == 4


@pytest.mark.parametrize("module", [sknet, neural_network])
def test_a_warm_fit_does_not_change_the_old_model(module):
    X, y = TABLES["binary"]
    estimator = module.MLPClassifier((5,), warm_start=True, max_iter=2, random_state=0)
    with quiet():
        estimator.fit(X, y)
        kept = estimator.model_
        before = kept.predict(X)
        estimator.fit(X, y)
    np.testing.assert_array_equal(kept.predict(X), before)


# -- history and attributes --------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("stop", [True, False])
def test_history(task, stop):
    X, y = TABLES[task]
    estimator = estimator_for(task, early_stopping=stop, warm_start=True)
    names = {"loss", "score", "lr", "time"} | ({"validation_loss", "validation_score"} if stop else set())
    with quiet():
        for n_epochs in (3, 6):
            estimator.fit(X, y)
            assert set(estimator.history_) == names
            assert {len(values) for values in estimator.history_.values()} == {n_epochs}
            assert all(type(v) is float for values in estimator.history_.values() for v in values)
    history = estimator.history_
    assert estimator.loss_curve_ == history["loss"]
    assert estimator.loss_ == history["loss"][-1]
    assert estimator.validation_scores_ == (history["validation_score"] if stop else None)
    if stop:
        assert estimator.best_validation_score_ == history["validation_score"][estimator.best_epoch_ - 1]
        assert estimator.best_loss_ is None
    else:
        assert estimator.best_loss_ == min(history["loss"])
        assert estimator.best_validation_score_ is None
    assert estimator.n_iter_ == 3
    assert estimator.t_ == 6 * (207 if stop else 230)


def test_lbfgs_has_an_entry_for_each_iteration():
    X, y = TABLES["regression"]
    estimator = estimator_for("regression", optimizer="lbfgs", max_iter=30)
    with quiet():
        estimator.fit(X, y)
    assert estimator.history_["loss"] == estimator.loss_curve_
    assert len(estimator.loss_curve_) == estimator.n_iter_
    assert estimator.loss_curve_[-1] == pytest.approx(estimator.loss_)
    assert estimator.best_loss_ == estimator.loss_
    residual = 0.5 * ((estimator.predict(X) - y) ** 2).mean()
    penalty = 0.5 * 1e-4 * sum((c**2).sum() for c in estimator.coefs_) / len(X)
    assert estimator.loss_ == pytest.approx(residual + penalty)


SHAPES = [
    ("binary", 1, "logistic"),
    ("multiclass", 3, "softmax"),
    ("multilabel", 5, "logistic"),
    ("regression", 1, "identity"),
    ("multioutput", 3, "identity"),
]


@pytest.mark.parametrize(("task", "n_outputs", "link"), SHAPES)
@pytest.mark.parametrize("sizes", [(), 4, [6, 5], np.array([3])])
def test_fitted_attributes(task, n_outputs, link, sizes):
    X, y = TABLES[task]
    estimator = estimator_for(task, hidden_layer_sizes=sizes, max_iter=1)
    with quiet():
        estimator.fit(X, y)
    widths = [12, *np.atleast_1d(np.array(sizes, dtype=int)), n_outputs]
    assert [c.shape for c in estimator.coefs_] == list(pairwise(widths))
    assert [b.shape for b in estimator.intercepts_] == [(width,) for width in widths[1:]]
    assert (estimator.n_layers_, estimator.n_outputs_) == (len(widths), n_outputs)
    assert (estimator.out_activation_, estimator.n_features_in_) == (link, 12)


def test_reaching_the_limit_of_epochs_warns_at_the_callers_line():
    X, y = TABLES["binary"]
    message = (
        r"Stochastic Optimizer: Maximum iterations \(3\) reached and the optimization hasn't converged yet"
    )
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        estimator_for("binary").fit(X, y)
    assert caught[0].filename == __file__


# -- early stopping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("monitor", ["loss", "score"])
def test_early_stopping_restores_the_best_weights(task, weight, monitor):
    """The held-out rows are those of scikit-learn's split with the same random numbers."""
    from sklearn.model_selection import train_test_split
    from sklearn.utils import check_random_state

    X, y = TABLES[task]
    params = {
        "early_stopping": True,
        "monitor": monitor,
        "optimizer": Adam(0.1),
        "max_iter": 25,
        "n_iter_no_change": 3,
        "dtype": "float64",
    }
    estimator = estimator_for(task, **params)
    with quiet():
        estimator.fit(X, y, weight)
    state = check_random_state(0)
    for shape, fan in (((12, 8), 20), ((8, estimator.n_outputs_), 8 + estimator.n_outputs_)):
        bound = np.sqrt(6 / fan)
        state.uniform(-bound, bound, shape)
        state.uniform(-bound, bound, shape[1])
    stratify = y if task == "binary" else None
    _, held_out = train_test_split(np.arange(len(y)), random_state=state, test_size=0.1, stratify=stratify)
    found = estimator.score(X[held_out], y[held_out], None if weight is None else weight[held_out])
    assert found == pytest.approx(estimator.best_validation_score_)
    assert len(estimator.validation_scores_) == estimator.n_iter_
    curve = np.array(estimator.history_[f"validation_{monitor}"]) * (1 if monitor == "score" else -1)
    assert estimator.best_epoch_ == 1 + curve.argmax()
    if estimator.n_iter_ < 25:
        assert max(curve[-4:]) <= max(curve[:-4]) + estimator.tol
