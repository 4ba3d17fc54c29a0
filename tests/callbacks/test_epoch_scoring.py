"""Scorers of scikit-learn after every epoch, compared with scoring by hand."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, make_scorer, roc_auc_score

from sknet import MLPRegressor, Model
from sknet.callbacks import Callback, EarlyStopping, EpochScoring
from sknet.nn import Linear
from sknet.optim import Adam
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged


def gain(estimator, X, y):
    return float((estimator.predict(X) == y).mean())


gain.greater_is_better = True


def cost(estimator, X, y):
    return float((estimator.predict(X) != y).mean())


class ByHand(Callback):
    """Computes a custom score."""

    def on_fit_begin(self, fit):
        self.scores_ = []

    def on_epoch_end(self, fit):
        rows = fit.training if fit.validation is None else fit.validation
        positive = fit.estimator.predict_proba(rows.X)[:, 1]
        self.scores_.append(roc_auc_score(rows.y, positive))


class Held(Callback):
    """Keeps the held-out rows."""

    def on_fit_begin(self, fit):
        self.rows_ = fit.validation


@pytest.mark.parametrize("early_stopping", [True, False])
def test_it_is_the_score_of_the_rows(early_stopping):
    on = "validation" if early_stopping else "training"
    clf = fitted(EpochScoring("roc_auc", on=on), ByHand(), early_stopping=early_stopping)
    name = "validation_roc_auc" if early_stopping else "roc_auc"
    assert clf.callbacks_[0].name_ == name
    assert clf.history_[name] == clf.callbacks_[1].scores_


def test_the_last_score_is_that_of_the_fitted_estimator():
    clf = fitted(EpochScoring("f1_macro", on="training"), EpochScoring(on="training"))
    assert clf.history_["f1_macro"][-1] == f1_score(Y, clf.predict(X), average="macro")
    assert clf.history_["epoch_score"][-1] == clf.score(X, Y)


@pytest.mark.parametrize(
    ("scoring", "name"),
    [
        ("accuracy", "accuracy"),
        (make_scorer(f1_score, pos_label="yes"), "f1_score"),
        (gain, "gain"),
        (None, "epoch_score"),
    ],
)
def test_names(scoring, name):
    assert name in fitted(EpochScoring(scoring, on="training")).history_
    assert "mine" in fitted(EpochScoring(scoring, on="training", name="mine")).history_


def test_every_few_epochs():
    clf = fitted(EpochScoring("accuracy", on="training", every=2))
    np.testing.assert_array_equal(np.isnan(clf.history_["accuracy"]), [True, False] * 3)


def test_weights_of_rows_count():
    weight = np.arange(120.0)
    with unconverged():
        clf = classifier(EpochScoring("accuracy", on="training"), EpochScoring(on="training")).fit(
            X, Y, weight
        )
    expected = clf.score(X, Y, weight)
    assert clf.history_["accuracy"][-1] == clf.history_["epoch_score"][-1] == expected


def test_names_of_columns_are_kept():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with unconverged():
        clf = classifier(EpochScoring("accuracy"), early_stopping=True).fit(frame, Y)
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]


def test_a_loss_as_a_scorer_is_higher_when_it_is_better():
    stopping = EarlyStopping("neg_mean_squared_error", patience=2, tol=0.0)
    scoring = EpochScoring("neg_mean_squared_error", on="training")
    with unconverged():
        net = MLPRegressor((4,), max_iter=20, callbacks=[stopping, scoring], random_state=0).fit(X, X[:, 0])
    assert net.callbacks_[0].best_ == max(net.history_["neg_mean_squared_error"])


def rescored(function, direction):
    """Return the function with an attribute for its direction."""
    said = partial(function)
    said.greater_is_better = direction
    return said


# Arguments, and which value is the best.
DIRECTIONS = {
    "name": (EpochScoring("accuracy", name="it", on="training"), max),
    "negated loss": (EpochScoring("neg_log_loss", name="it", on="training"), max),
    "made": (EpochScoring(make_scorer(f1_score, pos_label="yes"), name="it", on="training"), max),
    "own": (EpochScoring(name="it", on="training"), max),
    "attribute": (EpochScoring(gain, name="it", on="training"), max),
    "attribute, lower": (EpochScoring(rescored(cost, False), name="it", on="training"), min),
    "parameter": (EpochScoring(rescored(gain, None), name="it", on="training", higher_is_better=True), max),
    "parameter, lower": (EpochScoring(cost, name="it", on="training", higher_is_better=False), min),
}


@pytest.mark.parametrize(("scoring", "best"), DIRECTIONS.values(), ids=DIRECTIONS)
def test_known_directions(scoring, best):
    clf = fitted(scoring, EarlyStopping("it", patience=60, tol=0.0), optimizer=Adam(0.03), max_iter=12)
    assert len(set(clf.history_["it"])) > 1
    assert clf.callbacks_[1].best_ == best(clf.history_["it"])


@pytest.mark.parametrize("scoring", [cost, rescored(cost, None), rescored(cost, "yes"), lambda *args: 1.0])
def test_unknown_directions_raise(scoring):
    with pytest.raises(
        ValueError, match=r"a higher or a lower '.*' is better: pass EpochScoring\(.*make_scorer"
    ):
        fitted(EpochScoring(scoring, on="training"))


def test_early_stopping_by_it_restores_those_weights():
    callbacks = [EpochScoring("roc_auc"), EarlyStopping("validation_roc_auc", patience=2), Held()]
    clf = fitted(*callbacks, early_stopping=True, max_iter=60)
    _, stopping, held = clf.callbacks_
    assert stopping.best_ == max(clf.history_["validation_roc_auc"])
    assert stopping.best_ == roc_auc_score(held.rows_.y, clf.predict_proba(held.rows_.X)[:, 1])
    assert clf.n_iter_ < 60


def test_missing_rows():
    with pytest.raises(ValueError, match=r"\(on='validation'\) found no validation rows: give the fit"):
        fitted(EpochScoring("accuracy"))
    model = Model(Linear(3, 1), "log_loss", random_state=0)
    for callback in (EpochScoring(on="training"), EpochScoring("accuracy", on="training")):
        with pytest.raises(ValueError, match=r"EpochScoring scores an estimator, and Model\.fit has none"):
            model.fit(X, Y == "yes", epochs=2, callbacks=[callback])
    with pytest.raises(ValueError, match=r"found no training rows: it needs the fit of an estimator"):
        model.train([(X, Y == "yes")], callbacks=[EpochScoring(on="training")])


def test_a_duplicate_name_raises():
    with pytest.raises(ValueError, match="already has a number 'accuracy': give EpochScoring another"):
        fitted(EpochScoring("accuracy", on="training"), EpochScoring("accuracy", on="training"))
    with pytest.raises(ValueError, match="already has a number 'loss'"):
        fitted(EpochScoring("accuracy", on="training", name="loss"))


def test_an_unknown_scorer():
    with pytest.raises(ValueError, match="acuracy"):
        fitted(EpochScoring("acuracy", on="training"))


def test_it_keeps_no_rows():
    assert not [x for x in vars(fitted(EpochScoring(on="training")).callbacks_[0]).values() if np.ndim(x)]
