"""Targets with several columns of labels: one network, and scikit-learn's conventions for predictions."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.class_weight import compute_sample_weight

import sknet
from sknet import Model, nn, ops
from tests.estimators.data import TABLES, WEIGHTS, N, estimator_for, quiet, same_bits

X, Y = TABLES["columns"]
WORDS = np.array([["low", "mid", "high"][a] for a in Y[:, 0]]), np.array(["no", "yes"])[Y[:, 1] - 3]
TEXT = np.stack(WORDS, axis=1)
MIXED = np.array([[a, int(b)] for a, b in zip(WORDS[0], Y[:, 1], strict=True)], dtype=object)
TARGETS = {"numbers": Y, "text": TEXT, "objects": MIXED.astype(str)}


def fitted(y=Y, **params):
    with quiet():
        return estimator_for("columns", **{"max_iter": 40, "optimizer": sknet.optim.Adam(0.01)} | params).fit(
            X, y
        )


@pytest.mark.parametrize("kind", TARGETS)
def test_predictions_have_the_form_of_scikit_learns(kind):
    y = TARGETS[kind]
    ours, theirs = fitted(y), KNeighborsClassifier().fit(X, y)
    assert [c.tolist() for c in ours.classes_] == [c.tolist() for c in theirs.classes_]
    assert ours.predict(X).shape == theirs.predict(X).shape
    assert ours.predict(X).dtype.kind == theirs.predict(X).dtype.kind
    mine, others = ours.predict_proba(X), theirs.predict_proba(X)
    assert isinstance(mine, list)
    assert [p.shape for p in mine] == [p.shape for p in others]
    for k, p in enumerate(mine):
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
        np.testing.assert_array_equal(ours.classes_[k][p.argmax(axis=1)], ours.predict(X)[:, k])
        np.testing.assert_allclose(ours.predict_log_proba(X)[k], np.log(p), rtol=1e-9)
    decisions = ours.decision_function(X)
    assert [d.shape for d in decisions] == [p.shape for p in mine]
    assert (ours.predict(X) == y).mean(axis=0).min() > 0.75


@pytest.mark.parametrize("two", [(1, 2), (0, 2), (-1, 1), (1.0, 2.0)])
def test_two_labels_are_columns_unless_they_are_0_and_1(two):
    is_second = np.median(Y, axis=0) < Y
    y, as_text = np.where(is_second, two[1], two[0]), np.where(is_second, "b", "a")
    ours, same = fitted(y, max_iter=3), fitted(as_text, max_iter=3)
    assert [c.tolist() for c in ours.classes_] == [list(two)] * 2
    np.testing.assert_array_equal(ours.predict_proba(X), same.predict_proba(X))
    assert ours.score(X, y) == same.score(X, as_text)
    gaps = np.where(np.arange(y.size).reshape(y.shape) % 5 == 0, np.nan, y)
    assert [c.tolist() for c in fitted(gaps, max_iter=3).classes_] == [list(two)] * 2


def test_score_is_that_of_scikit_learns_rule():
    estimator = fitted()
    right = (estimator.predict(X) == Y).all(axis=1)
    assert estimator.score(X, Y) == pytest.approx(right.mean())
    assert estimator.score(X, Y, WEIGHTS) == pytest.approx(WEIGHTS[right].sum() / WEIGHTS.sum())
    of_each = MultiOutputClassifier(sknet.MLPClassifier((2,), max_iter=1))
    with quiet():
        of_each.fit(X, Y)
    assert of_each.score(X, Y) == pytest.approx((of_each.predict(X) == Y).all(axis=1).mean())
    with quiet():
        assert cross_val_score(clone(estimator), X, Y, cv=2).shape == (2,)


def test_history_has_the_share_of_rows_that_are_right_in_all_columns():
    with quiet():
        estimator = estimator_for("columns", optimizer=sknet.optim.SGD(1e-12), max_iter=1).fit(X, Y)
    assert estimator.history_["score"][0] == pytest.approx(estimator.score(X, Y))


@pytest.mark.parametrize("mode", ["auto", False])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weights"])
def test_training_is_that_of_a_sum_of_losses(mode, weight):
    """Compare with steps written by hand, of two losses of one network."""
    estimator = estimator_for("columns", shuffle=False, batch_size=N, alpha=0.0, max_iter=5, dtype="float64")
    with quiet():
        estimator.fit(X, Y, weight)
    with quiet():
        start = clone(estimator).set_params(max_iter=1, optimizer=sknet.optim.SGD(1e-300)).fit(X, Y)
    network = nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 5))
    model = Model(network, loss=_Sum(), optimizer="adam", dtype="float64", random_state=0, compile=mode)
    model.module.load_state_dict(start.model_.module.state_dict())
    numbers = np.stack([Y[:, 0], Y[:, 1] - 3], axis=1)
    losses = [model.step(X, numbers, weight).loss for _ in range(5)]
    np.testing.assert_allclose(estimator.loss_curve_, losses, rtol=1e-10)
    np.testing.assert_allclose(estimator.coefs_[1], model.module[2].weight.numpy(), rtol=1e-8, atol=1e-12)


class _Sum(sknet.losses.Loss):
    def values(self, output, target):
        a = ops.log_softmax(output[:, :3])
        b = ops.log_softmax(output[:, 3:])
        first = ops.sum(a * ops.one_hot(target[:, 0], 3, dtype=a.dtype), axis=-1)
        return -first - ops.sum(b * ops.one_hot(target[:, 1], 2, dtype=b.dtype), axis=-1)


def test_class_weights_are_those_of_scikit_learn():
    by_column = [{0: 1.0, 1: 2.0, 2: 0.5}, {3: 1.0, 4: 3.0}]
    for class_weight in (by_column, "balanced"):
        weight = compute_sample_weight(class_weight, Y)
        assert same_bits(fitted(class_weight=class_weight), _with_weight(weight))
    with pytest.raises(ValueError, match="class_weight should be a list of dicts"):
        fitted(class_weight={0: 1.0})
    with pytest.raises(ValueError, match="number of elements in class_weight should match number of outputs"):
        fitted(class_weight=by_column[:1])


def _with_weight(weight):
    with quiet():
        return estimator_for("columns", max_iter=40, optimizer=sknet.optim.Adam(0.01)).fit(X, Y, weight)


def test_continuing():
    classes = [np.arange(3), np.array([3, 4])]
    part = estimator_for("columns", batch_size=5).partial_fit(X[:5], Y[:5], classes=classes)
    part.partial_fit(X, Y)
    assert [c.tolist() for c in part.classes_] == [[0, 1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r"is not the same as on last call to partial_fit"):
        part.partial_fit(X, Y, classes=[np.arange(3), np.array([3, 5])])
    with pytest.raises(ValueError, match=r"`y\[:, 0\]` has classes not in `self.classes_`"):
        part.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match=r"y must have 2 columns of labels, got shape \(230, 3\)"):
        part.partial_fit(X, np.c_[Y, Y[:, 0]])
    with pytest.raises(ValueError, match="a list of the classes of each of 2 columns of y, got 3 of them"):
        estimator_for("columns").partial_fit(X, Y, classes=[[0, 1, 2], [3, 4], [5]])
    with quiet():
        warm = estimator_for("columns", warm_start=True).fit(X, Y).fit(X, Y)
        assert len(warm.history_["loss"]) == 6
        with pytest.raises(ValueError, match="the same classes as in the previous call"):
            warm.fit(X, np.where(Y == 4, 3, Y))


def test_copies_early_stopping_and_float32():
    estimator = fitted(early_stopping=True, dtype="float32")
    for other in (copy.deepcopy(estimator), pickle.loads(pickle.dumps(estimator)), estimator.freeze()):
        np.testing.assert_array_equal(other.predict(X), estimator.predict(X))
    assert 0.3 < estimator.best_validation_score_ <= 1
    assert estimator.predict_proba(X)[0].dtype == np.float32


def test_the_drop_in_rejects_them_as_scikit_learn_does():
    with pytest.raises(ValueError, match=r"Multioutput target data is not supported: .* shape \(230, 2\)"):
        sknet.neural_network.MLPClassifier().fit(X, Y)
    assert not sknet.neural_network.MLPClassifier().__sklearn_tags__().target_tags.multi_output
    assert sknet.MLPClassifier().__sklearn_tags__().target_tags.multi_output
