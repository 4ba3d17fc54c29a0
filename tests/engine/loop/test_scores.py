"""Scores that are summed up in parts, against scikit-learn's of the whole."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from sknet.engine import Accuracy, RSquared
from sknet.losses import Poisson, SquaredError

RNG = np.random.default_rng(0)
N = 57
WEIGHTS = [None, RNG.uniform(0, 2, N), (np.arange(N) % 2).astype(float)]
PARTS = [slice(0, 20), slice(20, 21), slice(21, N)]


def summed(score, output, target, weight):
    for part in PARTS:
        score.add(output[part], target[part], None if weight is None else weight[part])
    return score.result()


@pytest.mark.parametrize("weight", WEIGHTS, ids=["none", "some", "zeros"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_accuracy(weight, dtype):
    logits, classes = RNG.normal(size=(N, 4)).astype(dtype), RNG.integers(4, size=N)
    expected = accuracy_score(classes, logits.argmax(axis=1), sample_weight=weight)
    assert summed(Accuracy(), logits, classes, weight) == pytest.approx(expected)
    labels = RNG.integers(2, size=(N, 3)).astype(dtype)
    expected = accuracy_score(labels, logits[:, :3] > 0, sample_weight=weight)
    assert summed(Accuracy(), logits[:, :3], labels, weight) == pytest.approx(expected)
    expected = accuracy_score(labels[:, :1], logits[:, :1] > 0, sample_weight=weight)
    assert summed(Accuracy(), logits[:, :1], labels[:, :1], weight) == pytest.approx(expected)


@pytest.mark.parametrize("n_classes", [2, 64, 65])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_of_equal_outputs_the_first_is_predicted(n_classes, dtype):
    logits = RNG.integers(3, size=(N, n_classes)).astype("float32")
    classes = np.where(np.arange(N) % 3, logits.argmax(axis=1), RNG.integers(n_classes, size=N)).astype(dtype)
    expected = accuracy_score(classes, logits.argmax(axis=1))
    assert 0 < expected < 1
    assert summed(Accuracy(), logits, classes, None) == pytest.approx(expected)


@pytest.mark.parametrize("weight", WEIGHTS, ids=["none", "some", "zeros"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_r_squared(weight, n_outputs, offset):
    target = RNG.normal(size=(N, n_outputs)) + offset
    output = target + 0.3 * RNG.normal(size=target.shape)
    expected = r2_score(target, output, sample_weight=weight)
    assert summed(RSquared(target, weight, SquaredError()), output, target, weight) == pytest.approx(expected)


def test_r_squared_applies_the_link():
    target = RNG.poisson(3, size=(N, 2)).astype(float)
    output = np.log(target + 1)
    found = summed(RSquared(target, None, Poisson()), output, target, None)
    assert found == pytest.approx(r2_score(target, np.exp(output)))


@pytest.mark.parametrize("met", [True, False])
def test_constant_targets(met):
    target = np.column_stack([np.ones(N), RNG.normal(size=N)])
    output = target + np.array([0.0 if met else 0.1, 0.2])
    found = summed(RSquared(target, None, SquaredError()), output, target, None)
    assert found == pytest.approx(r2_score(target, output))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prediction_that_is_not_finite_has_no_score(bad):
    output, target = np.zeros((N, 1)), np.ones((N, 1))
    output[3] = bad
    with np.errstate(invalid="ignore"):
        assert np.isnan(summed(Accuracy(), output, target, None))
        assert np.isnan(summed(RSquared(target, None, SquaredError()), output, target, None))


def test_without_weight_there_is_no_accuracy():
    assert np.isnan(summed(Accuracy(), np.ones((N, 1)), np.ones((N, 1)), np.zeros(N)))
