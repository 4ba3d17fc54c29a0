"""Losses with a margin: worked examples, equal outputs, and training by pairs and triplets."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.exceptions import ShapeError
from sknet.losses import CosineEmbedding, Hinge, MarginRanking, MultiMargin, TripletMargin
from sknet.optim import Adam
from tests.losses.helpers import value_and_gradient

RNG = np.random.default_rng(0)


def test_all_classes_within_the_margin_are_penalized():
    z, y = np.array([[2.0, 1.5, 1.8, -3.0]]), np.array([0])
    np.testing.assert_allclose(MultiMargin().values(z, y).numpy(), [(0.5 + 0.8) / 4])
    np.testing.assert_allclose(Hinge().values(z, y).numpy(), [0.8])
    np.testing.assert_array_equal(MultiMargin().predict(z).numpy(), z)


def test_equal_outputs_have_finite_gradients():
    for loss, count in ((TripletMargin(), 3), (TripletMargin(p=3), 3), (CosineEmbedding(), 2)):
        for z in (np.ones((4, count, 3)), np.zeros((4, count, 3))):
            values, gradient = value_and_gradient(loss, z, np.ones(4))
            assert np.isfinite(values).all()
            assert np.isfinite(gradient).all()


@pytest.mark.parametrize("loss", [MarginRanking(), CosineEmbedding()], ids=str)
def test_targets_are_signs(loss):
    loss.check_target(np.array([1, -1, 1.0]))
    with pytest.raises(ValueError, match=rf"y must be 1 or -1 for {type(loss).__name__}, but y\[1\] is 0"):
        loss.check_target(np.array([1, 0]))


@pytest.mark.parametrize(
    ("loss", "shape", "expected"),
    [
        (MarginRanking(), (4, 3), r"\(4,\), and the output \(4, 2\)"),
        (CosineEmbedding(), (4, 3, 5), r"\(4,\), and the output \(n_samples, 2, length\)"),
        (TripletMargin(), (4, 2, 5), r"\(4,\), and the output \(n_samples, 3, length\)"),
    ],
    ids=str,
)
def test_outputs_that_are_not_pairs_or_triplets(loss, shape, expected):
    with pytest.raises(ShapeError, match=f"the target must have shape {expected}"):
        loss.values(np.zeros(shape), np.ones(4))


def test_a_ranking_is_learned_from_pairs():
    rank = RNG.normal(size=(200, 2, 3))
    worth = rank @ np.array([1.0, -2.0, 0.5])
    signs = np.where(worth[:, 0] > worth[:, 1], 1, -1)
    model = Model(nn.Linear(3, 1), MarginRanking(1.0), Adam(lr=0.1), dtype="float64", random_state=0)
    for _ in range(100):
        model.step(rank, signs)
    found = model.predict(rank)[..., 0]
    assert (np.where(found[:, 0] > found[:, 1], 1, -1) == signs).mean() > 0.97


@pytest.mark.parametrize("loss", [TripletMargin(), CosineEmbedding(0.2)], ids=str)
def test_samples_of_a_class_move_closer(loss):
    X, y = RNG.normal(size=(300, 6)), RNG.integers(0, 3, 300)
    X[np.arange(300), y] += 1.5
    anchor, positive = np.arange(300), np.array([RNG.choice(np.flatnonzero(y == k)) for k in y])
    negative = np.array([RNG.choice(np.flatnonzero(y != k)) for k in y])
    if isinstance(loss, TripletMargin):
        stacked, target = X[np.stack([anchor, positive, negative], 1)], np.zeros(300)
    else:
        stacked = np.concatenate([X[np.stack([anchor, other], 1)] for other in (positive, negative)])
        target = np.repeat([1, -1], 300)
    model = Model(nn.Linear(6, 2), loss, Adam(lr=0.05), dtype="float64", random_state=0)
    first = model.step(stacked, target).loss
    for _ in range(100):
        last = model.step(stacked, target).loss
    assert last < 0.8 * first
