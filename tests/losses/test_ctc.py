"""CTC: the sum over all paths, rows of different lengths, impossible labels, and errors."""

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, logsumexp

from sknet import Model, Tensor, nn
from sknet.exceptions import DtypeError, ShapeError
from sknet.losses import CTC
from tests.combinations import every
from tests.losses.helpers import value_and_gradient

RNG = np.random.default_rng(0)


def by_all_paths(z, labels, blank=0):
    """Return the loss of one row by its definition, enumerating all paths."""
    log_p = log_softmax(z, axis=-1)
    found = [
        sum(log_p[t, k] for t, k in enumerate(path))
        for path in itertools.product(range(z.shape[1]), repeat=len(z))
        if [k for k, _ in itertools.groupby(path) if k != blank] == list(labels)
    ]
    return -logsumexp(found) if found else np.inf


@pytest.mark.parametrize("labels", [[], [1], [1, 1], [1, 3], [3, 1, 3], [1, 1, 1], [1, 3, 3, 1]], ids=str)
@every(blank=[0, 2], steps=[1, 3, 5])
def test_the_sum_over_all_paths(labels, steps, blank):
    z = RNG.normal(size=(1, steps, 4))
    target = np.array([[*labels, -1]])
    expected = by_all_paths(z[0], labels, blank)
    np.testing.assert_allclose(CTC(blank).values(z, target).numpy(), [expected], rtol=1e-12)
    if np.isinf(expected):
        values, gradient = value_and_gradient(CTC(blank, zero_infinity=True), z, target)
        np.testing.assert_array_equal(values, 0)
        np.testing.assert_array_equal(gradient, 0)


def test_rows_of_fewer_steps():
    z, y = RNG.normal(size=(4, 6, 4)), np.array([[1, 2], [3, -1], [2, 2], [-1, -1]])
    lengths = np.array([6, 1, 4, 3])
    loss, output = CTC(), Tensor(z, requires_grad=True)
    values = loss.values(loss.blank_after(output, lengths), y)
    values.sum().backward()
    for i, n in enumerate(lengths):
        alone, slope = value_and_gradient(loss, z[i : i + 1, :n], y[i : i + 1])
        np.testing.assert_allclose(values[i].item(), alone[0], rtol=1e-12)
        np.testing.assert_allclose(output.grad.numpy()[i, :n], slope[0], rtol=1e-10, atol=1e-14)
        np.testing.assert_array_equal(output.grad.numpy()[i, n:], 0)


def test_long_sequences_in_single_precision():
    z = RNG.normal(size=(2, 200, 30)).astype("float32")
    y = RNG.integers(1, 30, (2, 40))
    exact = CTC().values(z.astype("float64"), y).numpy()
    np.testing.assert_allclose(CTC().values(z, y).numpy(), exact, rtol=1e-5)


def test_a_model_learns_an_alignment():
    """Each label occurs somewhere in three steps, at an unknown position."""
    labels = RNG.integers(1, 4, (60, 3))
    X = np.zeros((60, 9, 4))
    places = np.arange(3) * 3 + RNG.integers(0, 3, (60, 3))
    X[np.arange(60)[:, None], places, labels] = 1.0
    model = Model(nn.Linear(4, 4), CTC(), "adam", dtype="float64", random_state=0)
    model = Model(nn.Linear(4, 4), CTC(), model.optimizer.set_params(lr=0.1), dtype="float64", random_state=0)
    for _ in range(150):
        loss = model.step(X, labels).loss
    paths = model.predict(X).argmax(-1)
    read = [[k for k, _ in itertools.groupby(path) if k] for path in paths.tolist()]
    assert loss < 1
    repeats = (labels[:, 1:] == labels[:, :-1]).any(1)
    assert [row for row, again in zip(read, repeats, strict=True) if not again] == labels[~repeats].tolist()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [[1, 0]],
            r"a class other than the blank 0, or -1 after the last label, but y\[0, 1\] is 0",
        ),
        ([[1, 4]], r"but y\[0, 1\] is 4"),
        ([[1, -2]], r"but y\[0, 1\] is -2"),
        ([[-1, 2]], r"must be -1 after the first -1, but y\[:, 1:\]\[0, 0\] is 2"),
    ],
)
def test_invalid_labels(y, message):
    with pytest.raises(ValueError, match=message):
        CTC().values(np.zeros((1, 3, 4)), np.array(y))


def test_misfits():
    with pytest.raises(ShapeError, match=r"must have shape \(n_samples, n_labels\), and the output \("):
        CTC().values(np.zeros((2, 4)), np.ones((2, 1), int))
    with pytest.raises(DtypeError, match="CTC got targets of dtype float64; labels must be integers"):
        CTC().values(np.zeros((2, 3, 4)), np.ones((2, 1)))
    with pytest.raises(ShapeError, match=r"CTC\(blank=4\) got outputs of 4 classes: blank must be one"):
        CTC(blank=4).values(np.zeros((2, 3, 4)), np.ones((2, 1), int))
