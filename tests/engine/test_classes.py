"""Targets that the network has no output for are errors that name them, wherever a model trains."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.engine import fit_many
from sknet.losses import NLL, BinaryCrossEntropy, Focal, LogLoss, MultiMargin

X = np.random.default_rng(0).normal(size=(40, 4))
METHODS = ["fit", "validation", "train", "second batch", "step", "compiled step", "loss", "fit_many"]
LOSSES = [
    (LogLoss(), 3, 7, "a class, an integer from 0 to 2"),
    (LogLoss(ignore_index=9), 3, 7, "a class, an integer from 0 to 2, or 9 to be ignored"),
    (LogLoss(), 1, 2, "0 or 1 for LogLoss()"),
    (Focal(), 1, 2, "0 or 1 for Focal()"),
    (Focal(), 3, 3, "a class, an integer from 0 to 2"),
    (NLL(), 3, 7, "a class, an integer from 0 to 2"),
    (MultiMargin(), 3, 7, "a class, an integer from 0 to 2"),
    ("ordinal", 3, 4, "a class, an integer from 0 to 3"),
]


class ReadsValues(nn.Module):
    """Its code depends on values, so that no pass without data tells how many outputs there are."""

    def __init__(self, network):
        self.network = network

    def forward(self, x):
        found = self.network(x)
        return found / (1.0 + float(np.abs(x.numpy()).max())) if x.numpy().sum() else found


class NeedsRows(ReadsValues):
    """Nor does a pass of one row."""

    def forward(self, x):
        if x.shape[0] < 2:
            raise ValueError("rows are compared with one another")
        return self.network(x - float(x.numpy().mean()))


NETWORKS = [lambda network: network, ReadsValues]


def model_for(loss, n_outputs, wrapped=NETWORKS[0]):
    linear = nn.LazyLinear(n_outputs) if wrapped is NETWORKS[0] else nn.Linear(4, n_outputs)
    layers = [linear, nn.Softmax()] if isinstance(loss, NLL) else [linear]
    return Model(wrapped(nn.Sequential(*layers)), loss=loss, random_state=0)


def train(model, method, good, bad):
    if method == "fit":
        model.fit(X, bad, epochs=1)
    elif method == "fit_many":
        fit_many([model], X, bad, epochs=1)
    elif method == "loss":
        model.loss(model(X), bad)
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
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_names_targets_beyond_the_outputs(network, loss, n_outputs, value, expected, method):
    good = np.arange(len(X)) % 2
    bad = good.copy()
    bad[3] = value
    model = model_for(loss, n_outputs, network)
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


@pytest.mark.parametrize(
    "batch", [slice(None), slice(8, 16)], ids=["in any batch", "in the batch after the first"]
)
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_a_fit_with_such_targets_changes_nothing(network, batch):
    y = np.zeros(len(X), int)
    y[batch] = 3
    model = model_for(LogLoss(), 3, network).materialize(X)
    before = [parameter.numpy().copy() for parameter in model.module.parameters()]
    with pytest.raises(ValueError, match="y must be a class"):
        model.fit(X, y, epochs=1, batch_size=8, shuffle=False)
    for parameter, values in zip(model.module.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.numpy(), values)


def test_names_labels_that_a_loss_of_ones_own_loop_cannot_take():
    model = Model(nn.Sequential(nn.Linear(4, 3), nn.Sigmoid()), BinaryCrossEntropy(), random_state=0)
    y = np.zeros((40, 3), int)
    y[2, 1] = 2
    with pytest.raises(ValueError, match=r"y\[2, 1\] is 2"):
        model.loss(model(X), y)


@pytest.mark.parametrize("method", ["fit", "train", "step", "loss"])
@pytest.mark.parametrize(("loss", "n_outputs", "value", "expected"), LOSSES)
@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_names_them_where_the_first_batch_tells_how_many_outputs_there_are(
    loss, n_outputs, value, expected, method
):
    bad = np.full(len(X), value)
    with pytest.raises(ValueError, match="must be") as caught:
        train(model_for(loss, n_outputs, NeedsRows), method, bad, bad)
    assert str(caught.value).startswith(f"y must be {expected}, but y[")
