"""Classes that have an order: probabilities by cumulative log odds, in any order of the labels."""

import copy
import pickle

import numpy as np
import pytest
import scipy.optimize
from scipy.special import expit
from sklearn.base import clone
from sklearn.metrics import log_loss, make_scorer
from sklearn.model_selection import cross_val_score

import sknet
from sknet.losses import Ordinal
from tests.estimators.data import TABLES, WEIGHTS, estimator_for, quiet

X, Y = TABLES["ordinal"]
NAMES = np.array(["poor", "fair", "good", "best"])  # in their order, which is not the sorted one


def fitted(y=Y, weight=None, **params):
    with quiet():
        settings = {"max_iter": 60, "optimizer": sknet.optim.Adam(0.01), "dtype": "float64"} | params
        return estimator_for("ordinal", **settings).fit(X, y, weight)


def probabilities(outputs):
    """Return probabilities by the definition, differences of logistic functions."""
    steps = np.logaddexp(0, outputs[:, 1:])
    odds = outputs[:, :1] - np.concatenate([np.zeros((len(outputs), 1)), steps.cumsum(axis=1)], axis=1)
    beyond = np.concatenate([np.ones((len(odds), 1)), expit(odds), np.zeros((len(odds), 1))], axis=1)
    return beyond[:, :-1] - beyond[:, 1:]


def test_probabilities_follow_from_the_outputs():
    estimator = fitted()
    outputs = estimator.model_(X).numpy()
    assert outputs.shape == (len(X), 3)
    found = estimator.predict_proba(X)
    np.testing.assert_allclose(found, probabilities(outputs), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
    assert (found > 0).all()
    np.testing.assert_allclose(estimator.predict_log_proba(X), np.log(found), rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(estimator.predict(X), found.argmax(axis=1))
    np.testing.assert_array_equal(estimator.decision_function(X), estimator.predict_log_proba(X))
    assert estimator.score(X, Y) > 0.75


def noisy_labels():
    return np.clip(Y + np.random.default_rng(0).integers(-1, 2, len(Y)), 0, 3)


def test_a_linear_model_is_what_scipy_finds():
    """Compare with the same model fitted by maximizing its likelihood, written out, from zero."""
    y = np.minimum(noisy_labels(), 2)
    settings = {"hidden_layer_sizes": (), "alpha": 0.0, "optimizer": "lbfgs", "max_iter": 2000, "tol": 1e-7}
    estimator = fitted(y, **settings)

    def negative_log_likelihood(flat):
        outputs = X @ flat[:24].reshape(12, 2) + flat[24:]
        return -np.log(np.maximum(probabilities(outputs)[np.arange(len(y)), y], 1e-300)).mean()

    found = scipy.optimize.minimize(negative_log_likelihood, np.zeros(26), method="BFGS")
    flat = np.concatenate([estimator.coefs_[0].ravel(), estimator.intercepts_[0]])
    assert estimator.loss_ == pytest.approx(negative_log_likelihood(flat), rel=1e-9)
    assert estimator.loss_ == pytest.approx(found.fun, abs=1e-5)
    expected = probabilities(X @ found.x[:24].reshape(12, 2) + found.x[24:])
    np.testing.assert_allclose(estimator.predict_proba(X), expected, atol=0.003)


@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alike", "weights"])
def test_the_sorting_of_labels_affects_only_the_columns(weight):
    plain = fitted(weight=weight)
    named = fitted(NAMES[Y], weight, loss=Ordinal(NAMES.tolist()))
    assert named.classes_.tolist() == sorted(NAMES)
    places = [NAMES.tolist().index(label) for label in named.classes_]
    np.testing.assert_array_equal(plain.loss_curve_, named.loss_curve_)
    np.testing.assert_array_equal(named.predict(X), NAMES[plain.predict(X)])
    np.testing.assert_array_equal(named.predict_proba(X), plain.predict_proba(X)[:, places])
    np.testing.assert_array_equal(named.classes_[named.decision_function(X).argmax(axis=1)], named.predict(X))
    expected = log_loss(NAMES[Y], named.predict_proba(X), labels=named.classes_)
    assert log_loss(Y, plain.predict_proba(X)) == pytest.approx(expected)


def test_tags_say_that_there_is_one_label_a_row():
    for loss, several in (("ordinal", False), (Ordinal(), False), ("log_loss", True)):
        tags = sknet.MLPClassifier(loss=loss).__sklearn_tags__()
        assert tags.classifier_tags.multi_label == tags.target_tags.multi_output == several


def test_two_classes_are_a_logistic_regression():
    y = TABLES["binary"][1]
    ordinal = fitted(y, hidden_layer_sizes=())
    plain = fitted(y, hidden_layer_sizes=(), loss="log_loss")
    np.testing.assert_allclose(ordinal.predict_proba(X), plain.predict_proba(X), rtol=1e-7)
    np.testing.assert_allclose(ordinal.decision_function(X), plain.decision_function(X), rtol=1e-7)
    turned = fitted(y, loss=Ordinal([1, 0]), hidden_layer_sizes=())
    assert turned.classes_.tolist() == [0, 1]
    np.testing.assert_array_equal(turned.decision_function(X) > 0, turned.predict(X) == 1)
    np.testing.assert_array_equal(turned.predict_proba(X).argmax(axis=1), turned.predict(X))
    assert turned.score(X, y) > 0.75


def test_missing_classes_have_a_probability():
    estimator = fitted(NAMES[np.minimum(Y, 2)], loss=Ordinal(NAMES.tolist()))
    assert len(estimator.classes_) == 4
    assert estimator.predict_proba(X).shape == (len(X), 4)
    assert (estimator.predict(X) != "best").all()


def test_it_misses_by_fewer_classes_than_a_loss_that_knows_no_order():
    scorer = make_scorer(lambda y, p: -np.abs(y - p).mean())
    settings = {"hidden_layer_sizes": (), "optimizer": "lbfgs", "max_iter": 500, "alpha": 1.0}
    scores = {
        loss: cross_val_score(
            estimator_for("ordinal", loss=loss, **settings), X, noisy_labels(), scoring=scorer
        )
        for loss in ("ordinal", "log_loss")
    }
    assert scores["ordinal"].mean() >= scores["log_loss"].mean() - 0.01


def test_class_weights_partial_fits_and_warm_starts():
    weights = {"poor": 2.0, "best": 0.5}
    weighted = fitted(NAMES[Y], loss=Ordinal(NAMES.tolist()), class_weight=weights)
    by_hand = fitted(NAMES[Y], np.array([weights.get(label, 1.0) for label in NAMES[Y]]),
                     loss=Ordinal(NAMES.tolist()))  # fmt: skip
    np.testing.assert_array_equal(weighted.coefs_[0], by_hand.coefs_[0])
    part = estimator_for("ordinal", loss=Ordinal(NAMES.tolist()))
    for rows in np.array_split(np.arange(len(X)), 3):
        part.partial_fit(X[rows], NAMES[Y[rows]], classes=NAMES)
    part.partial_fit(X, NAMES[np.minimum(Y, 1)])
    with pytest.raises(ValueError, match=r"has classes not in `self.classes_`"):
        part.partial_fit(X, np.full(len(X), "other"))
    with quiet():
        warm = estimator_for("ordinal", warm_start=True).fit(X, Y).fit(X, Y)
    assert len(warm.history_["loss"]) == 6
    for other in (copy.deepcopy(part), pickle.loads(pickle.dumps(part)), part.freeze()):
        np.testing.assert_array_equal(other.predict_proba(X), part.predict_proba(X))
    assert clone(part).loss == Ordinal(NAMES.tolist())


@pytest.mark.parametrize(
    ("order", "y", "message"),
    [
        (["poor", "fair"], NAMES[Y], r"must name every class once, .* labels of y are \['best', 'fair'"),
        (["poor", "fair", "good", "best", "fair"], NAMES[Y], "must name every class once"),
        (np.array(0.5), NAMES[Y], r"Ordinal\(order=array\(0\.5\)\) must name every class once"),
        ([None, "a", 1], NAMES[Y], r"Ordinal\(order=\[None, 'a', 1\]\) must name every class once"),
        (None, TABLES["multilabel"][1], "loss='ordinal' needs one label a row, got y of shape"),
        (None, TABLES["columns"][1], "loss='ordinal' needs one label a row, got y of shape"),
    ],
)
def test_invalid_orders(order, y, message):
    with pytest.raises(ValueError, match=message):
        estimator_for("ordinal", loss=Ordinal(order)).fit(X, y)
    with pytest.raises(ValueError, match="Ordinal supports the tasks ordinal"):
        sknet.MLPRegressor(loss="ordinal").fit(X, Y)
