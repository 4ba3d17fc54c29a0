"""A loss of logits that is given probabilities warns, once, when the loss is computed by the user."""

import re
import warnings

import numpy as np
import pytest

from sknet import Model, nn
from sknet.losses import NLL, BinaryCrossEntropy, Focal, Hinge, LogLoss

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 3)).astype("float32")
LOOKS = r"expects raw outputs \(logits\), but these look like probabilities: remove the"


def losses_of(loss, n_outputs, *end, calls=2):
    """Return the warnings of a few losses, for a network with this last layer."""
    model = Model(nn.Sequential(nn.Linear(3, n_outputs), *end), loss, random_state=0)
    y = RNG.integers(0, 2, (8, n_outputs) if getattr(loss, "multilabel", False) else 8)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(calls):
            model.loss(model(X), y)
        model.step(X, y)
    return found


@pytest.mark.parametrize(
    ("loss", "n_outputs", "end"),
    [
        (LogLoss(), 3, nn.Softmax()),
        (Focal(), 2, nn.Softmax()),
        (LogLoss(), 1, nn.Sigmoid()),
        (LogLoss(multilabel=True), 2, nn.Sigmoid()),
    ],
    ids=str,
)
def test_one_warning(loss, n_outputs, end):
    [warning] = losses_of(loss, n_outputs, end)
    assert warning.filename == __file__
    assert re.search(LOOKS, str(warning.message))


@pytest.mark.parametrize(
    ("loss", "n_outputs", "end"),
    [
        (LogLoss(), 3, nn.ReLU()),
        (LogLoss(), 3, nn.LogSoftmax()),
        (LogLoss(), 1, nn.Hardsigmoid()),
        (LogLoss(multilabel=True), 2, nn.Identity()),
        (NLL(), 3, nn.Softmax()),
        (BinaryCrossEntropy(), 1, nn.Sigmoid()),
        (Hinge(), 3, nn.Softmax()),
    ],
    ids=str,
)
def test_no_warning(loss, n_outputs, end):
    assert not losses_of(loss, n_outputs, end)


def test_a_step_before_it_has_warned():
    [warning] = losses_of(LogLoss(), 3, nn.Softmax(), calls=0)
    assert warning.filename == __file__
