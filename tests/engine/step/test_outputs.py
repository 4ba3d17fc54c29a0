"""Outputs that no loss can read raise errors that name them and their layer."""

import re

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn, ops

X = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
Y = np.zeros((8, 1), "float32")


class Forgetful(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        self.layer(x)


class Passing(Forgetful):
    """Returns a given function of its output."""

    def __init__(self, made):
        super().__init__()
        self.made = made

    def forward(self, x):
        return self.made(self.layer(x))


RETURNED = {
    "nothing": (Forgetful(), "Forgetful.forward returned None, expected a tensor: end it with `return`"),
    "two": (
        Passing(lambda x: (x, x)),
        "Passing.forward returned a tuple of 2, expected one tensor, as a loss expects it: return only that",
    ),
    "names": (Passing(lambda x: {"a": x}), "Passing.forward returned a dict of 1, expected one tensor"),
    "number": (
        Passing(lambda x: 3.0),
        "Passing.forward returned an object of type float, expected a tensor: compute with sknet.ops",
    ),
    "inside": (
        nn.Sequential(nn.Linear(4, 4), Forgetful(), nn.Linear(1, 1)),
        "Forgetful.forward returned None, expected a tensor: end it with `return`\n"
        "in layer '1' of a Sequential",
    ),
}


@pytest.mark.parametrize("returned", RETURNED)
@pytest.mark.parametrize("compile", [True, False, "auto"])
def test_a_forward_that_returns_no_tensor(returned, compile):
    module, message = RETURNED[returned]
    model = Model(module, random_state=0, compile=compile)
    before = model.state
    for call in (lambda: model.step(X, Y), lambda: model(X), lambda: model.predict(X)):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()
    for name, array in before.parameters.items():
        np.testing.assert_array_equal(model.parameters[name], array)


@pytest.mark.parametrize("compile", [True, False, "auto"])
@pytest.mark.parametrize("n_outputs", [2, 3])
def test_too_few_outputs_for_the_classes(n_outputs, compile):
    module = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, n_outputs)))
    model = Model(module, loss="log_loss", random_state=0, compile=compile)
    classes = np.arange(8) % (n_outputs + 1)
    expected = (
        rf"an integer from 0 to {n_outputs - 1}, but y\[{n_outputs}\] is {n_outputs}[\s\S]*"
        rf"the last layer of the network is '1\.1': Linear\(4, {n_outputs}\)"
    )
    for _ in range(3):
        with pytest.raises(ValueError, match=expected):
            model.step(X, classes)
    model.step(X, classes % n_outputs)
    model.step(X, classes % n_outputs)
    with pytest.raises(ValueError, match=expected):
        model.step(X, classes)


@pytest.mark.parametrize(("n_outputs", "target"), [(1, (8, 3)), (2, (8, 3)), (3, (8,)), (3, (8, 1))])
def test_other_numbers_of_outputs_than_targets(n_outputs, target):
    model = Model(nn.Sequential(nn.Linear(4, 5), nn.Linear(5, n_outputs)), random_state=0)
    expected = (
        rf"SquaredError got an output of shape \(8, {n_outputs}\) and a target of shape "
        rf"{re.escape(str(target))}[\s\S]*the last layer of the network is '1': Linear\(5, {n_outputs}\)"
    )
    with pytest.raises(ValueError, match=expected):
        model.step(X, np.zeros(target, "float32"))


def test_an_activation_that_returns_nothing():
    class Silent(nn.Module):
        def forward(self, x):
            ops.relu(x)

    with pytest.raises(ValueError, match=r"activation Silent\(\) must return an array of shape"):
        MLPClassifier((4,), activation=Silent()).fit(X, np.arange(8) % 2)
