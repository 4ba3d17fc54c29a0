"""Targets that the network has no output for are errors that name them, wherever a model trains."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.losses import NLL, Focal, LogLoss, MultiMargin

X = np.random.default_rng(0).normal(size=(40, 4))
METHODS = ["fit", "validation", "train", "second batch", "step", "compiled step"]
LOSSES = [
    (LogLoss(), 3, 7, "a class, an integer from 0 to 2"),
    (LogLoss(ignore_index=9), 3, 7, "a class, an integer from 0 to 2, or 9 to be ignored"),
    (LogLoss(), 1, 2, "0 or 1 for LogLoss()"),
    (Focal(), 3, 3, "a class, an integer from 0 to 2"),
    (NLL(), 3, 7, "a class, an integer from 0 to 2"),
    (MultiMargin(), 3, 7, "a class, an integer from 0 to 2"),
    ("ordinal", 3, 4, "a class, an integer from 0 to 3"),
]


def model_for(loss, n_outputs):
    layers = [nn.LazyLinear(n_outputs), nn.Softmax()] if isinstance(loss, NLL) else [nn.LazyLinear(n_outputs)]
    return Model(nn.Sequential(*layers), loss=loss, random_state=0)


def train(model, method, good, bad):
    if method == "fit":
        model.fit(X, bad, epochs=1)
    elif method == "validation":
        model.fit(X, good, epochs=1, X_val=X, y_val=bad)
    elif method == "train":
        model.train([(X, bad)])
    elif method == "second batch":
        model.train([(X, good), (X, bad)])
    else:
        for _ in range(3 if method == "compiled step" else 0):
            model.step(X, good)
        model.step(X, bad)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("loss", "n_outputs", "value", "expected"), LOSSES)
def test_names_targets_beyond_the_outputs(loss, n_outputs, value, expected, method):
    good = np.arange(len(X)) % 2
    bad = good.copy()
    bad[3] = value
    model = model_for(loss, n_outputs)
    with pytest.raises(ValueError, match="must be") as caught:
        train(model, method, good, bad)
    name = "y_val" if method == "validation" else "y"
    assert str(caught.value) == f"{name} must be {expected}, but {name}[3] is {value}."
    outputs = "1 output" if n_outputs == 1 else f"{n_outputs} outputs"
    assert any(outputs in note for note in caught.value.__notes__)
    assert any("last layer" in note for note in caught.value.__notes__)


def test_takes_each_class_that_has_an_output():
    for loss, n_outputs, classes in [(LogLoss(), 3, 3), ("ordinal", 3, 4), (LogLoss(), 1, 2)]:
        model = model_for(loss, n_outputs).fit(X, np.arange(len(X)) % classes, epochs=1)
        assert np.isfinite(model["loss"]).all()


def test_names_the_position_in_a_sequence():
    y = np.zeros((40, 4), dtype=int)
    y[5, 2] = 3
    with pytest.raises(ValueError, match=r"y\[5, 2\] is 3"):
        Model(nn.Linear(1, 3), loss="log_loss", random_state=0).fit(X[..., np.newaxis], y, epochs=1)
