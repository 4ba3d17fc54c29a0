"""An output for every class: of two classes, and of each position of a sequence."""

import pickle

import numpy as np
import pytest

from sknet import NetClassifier, nn
from sknet.nn.init import GlorotUniform
from tests.estimators.data import TABLES, quiet
from tests.estimators.nets import sequential

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 6, 4))
NAMES = np.array(["a", "b", "c"])
LABELS = NAMES[RNG.integers(0, 3, (48, 6))]
GLOROT = GlorotUniform(6.0)


class Each(nn.Module):
    """A linear layer for each position: the same as one over all positions as rows."""

    def __init__(self, n_outputs):
        self.head = nn.Linear(4, n_outputs, init=GLOROT)

    def forward(self, x):
        return self.head(x)


def estimator(module, batch_size, **params):
    few = {"max_iter": 3, "batch_size": batch_size, "shuffle": False, "scale_inputs": False}
    return NetClassifier(module, **few | {"random_state": 0} | params)


@pytest.mark.parametrize("params", [{}, {"optimizer": "lbfgs"}, {"loss": "focal"}], ids=str)
@pytest.mark.parametrize(
    "module", [Each, nn.Sequential(nn.Linear(4, 3, init=GLOROT))], ids=["class", "ready"]
)
def test_positions_are_rows(params, module):
    rows, labels = X.reshape(-1, 4), LABELS.reshape(-1)
    with quiet():
        net = estimator(module, 16, alpha=0.0, **params).fit(X, LABELS)
        flat = estimator(module, 96, alpha=0.0, **params).fit(rows, labels)
    assert list(net.classes_) == list(flat.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(net.predict_proba(X).reshape(-1, 3), flat.predict_proba(rows), rtol=1e-8)
    assert np.array_equal(net.predict(X).reshape(-1), flat.predict(rows))
    assert net.score(X, LABELS) == pytest.approx(flat.score(rows, labels))
    assert net.history_["loss"] == pytest.approx(flat.history_["loss"])
    if "optimizer" not in params:
        assert net.history_["score"] == pytest.approx(flat.history_["score"])
    for other in (net.freeze(), pickle.loads(pickle.dumps(net))):
        assert np.array_equal(other.predict(X), net.predict(X))
    assert np.array_equal(net.predict(X[:1]), net.predict(X)[:1])


def test_positions_in_parts_held_out_and_weighted():
    net = estimator(Each, 16).partial_fit(X[:20], LABELS[:20], classes=NAMES).partial_fit(X, LABELS)
    assert net.predict(X).shape == (48, 6)
    with quiet():
        net.set_params(early_stopping=True).fit(X, LABELS, np.arange(48.0))
    assert len(net.history_["validation_score"]) == net.n_iter_
    with pytest.raises(ValueError, match="has classes not in"):
        net.set_params(early_stopping=False).partial_fit(X, np.full((48, 6), "d"))


@pytest.mark.parametrize("labels", [np.array([0, 1]), np.array(["no", "yes"])])
def test_two_outputs_for_two_classes_are_the_usual_softmax(labels):
    table, y = TABLES["binary"]
    y = labels[y]
    with quiet():
        two = estimator(sequential(12, 2), 50).fit(table, y)
        one = estimator(sequential(12, 1), 50).fit(table, y)
    probabilities = two.predict_proba(table)
    assert probabilities.shape == one.predict_proba(table).shape == (len(table), 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    output = two.model_.module(table).numpy()
    expected = np.exp(output) / np.exp(output).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(probabilities, expected, rtol=1e-6)
    assert np.array_equal(two.predict(table), labels[output.argmax(axis=1)])
    assert two.n_outputs_ == 2


# -- padding -------------------------------------------------------------------------------------------

LENGTHS = RNG.integers(1, 7, 48)
COUNTED = np.arange(6) < LENGTHS[:, None]


class EachCounted(Each):
    def forward(self, x, lengths=None):
        return self.head(x)


@pytest.mark.parametrize("compiled", ["auto", False])
def test_padding_is_not_a_position(compiled):
    """A fit of padded sequences is a fit of the positions that are not padding."""
    with quiet():
        net = estimator(EachCounted, 48, alpha=0.0).fit(X, LABELS, lengths=LENGTHS)
        net.model_.compile = compiled
        net.set_params(warm_start=True, max_iter=4).fit(X, LABELS, lengths=LENGTHS)
        flat = estimator(Each, int(COUNTED.sum()), alpha=0.0).fit(X[COUNTED], LABELS[COUNTED])
        flat.set_params(warm_start=True, max_iter=4).fit(X[COUNTED], LABELS[COUNTED])
    np.testing.assert_allclose(
        net.predict_proba(X, lengths=LENGTHS)[COUNTED], flat.predict_proba(X[COUNTED]), rtol=1e-8
    )
    assert net.score(X, LABELS, lengths=LENGTHS) == pytest.approx(flat.score(X[COUNTED], LABELS[COUNTED]))
    assert net.score({"x": X, "lengths": LENGTHS}, LABELS) == net.score(X, LABELS, lengths=LENGTHS)
    for column in ("loss", "score"):
        assert net.history_[column] == pytest.approx(flat.history_[column])


def test_padding_is_not_a_position_of_a_validation():
    other = np.where(COUNTED, LABELS, np.roll(LABELS, 1, axis=0))
    assert (other != LABELS).any()
    parts = slice(0, 30), slice(30, None)
    weight = RNG.uniform(0.5, 2.0, 48)
    found = []
    for labels in (LABELS, other):
        (X_, y_, n_, w_), (X_val, y_val, n_val, w_val) = (
            (X[part], labels[part], LENGTHS[part], weight[part]) for part in parts
        )
        net = estimator(EachCounted, 16, early_stopping=True, calibrate="temperature")
        with quiet():
            net.fit(
                X_, y_, w_, lengths=n_, X_val=X_val, y_val=y_val, lengths_val=n_val, sample_weight_val=w_val
            )
        epoch = net.best_epoch_ - 1
        assert net.history_["validation_score"][epoch] == pytest.approx(
            net.score(X_val, y_val, w_val, lengths=n_val)
        )
        found.append(net)
    one, two = found
    assert one.temperature_ == pytest.approx(two.temperature_)
    one, two = (net.predict_proba(X, lengths=LENGTHS) for net in found)
    np.testing.assert_allclose(one, two, rtol=1e-9)
