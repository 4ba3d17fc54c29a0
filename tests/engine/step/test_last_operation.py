"""A fit of a network whose outputs are between 0 and 1, by a loss of logits, warns, and only such a one."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sknet import Model, MultiHeadNet, NetClassifier, NetRegressor, losses, nn, ops
from sknet.engine import fit_many

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)).astype("float32")
Y = {1: RNG.integers(0, 2, 30), 2: RNG.integers(0, 2, 30), 3: np.arange(30) % 3}
LOOKS = r"expects raw outputs \(logits\), but these look like probabilities: remove the softmax or sigmoid"


class Ends(nn.Module):
    """A network of one's own, whose last operation is no layer."""

    def __init__(self, n_outputs, end):
        self.head, self.end = nn.Linear(3, n_outputs), end

    def forward(self, x):
        return self.end(self.head(x))


def ending(n_outputs, end):
    """Yield networks with a last operation: of layers, where there is such a layer, and of one's own."""
    layers = {ops.sigmoid: nn.Sigmoid, ops.softmax: nn.Softmax, ops.hardsigmoid: nn.Hardsigmoid}
    yield nn.Sequential(nn.Linear(3, n_outputs), nn.Lambda(end))
    if end in layers:
        yield nn.Sequential(nn.Linear(3, n_outputs), layers[end]())
        yield nn.Sequential(nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, n_outputs), layers[end]())
        yield nn.Sequential(Ends(n_outputs, end))
    yield Ends(n_outputs, end)


def fits(loss, network, y):
    """Yield every way to fit."""
    new = lambda: Model(network, loss, random_state=0)  # noqa: E731
    yield lambda: new().fit(X, y, epochs=2)
    yield lambda: new().train([(X, y)] * 2)
    yield lambda: step_twice(new(), y)
    yield lambda: fit_many([new()], X, y, epochs=2)
    if loss.tasks[0] == "ordinal" or y.max() == 1 or y.ndim == 2:
        return
    params = {"loss": loss, "max_iter": 2, "random_state": 0}
    yield lambda: NetClassifier(network, **params).fit(X, y)
    yield lambda: NetClassifier(network, optimizer="lbfgs", **params).fit(X, y)
    yield lambda: NetClassifier(network, **params).partial_fit(X, y, classes=[0, 1, 2])


def step_twice(model, y):
    for _ in range(2):
        model.step(X, y)


def warned(fit):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit()
    return [each for each in found if re.search(LOOKS, str(each.message))]


WRONG = [
    (losses.LogLoss(), 1, ops.sigmoid),
    (losses.LogLoss(), 3, ops.softmax),
    (losses.LogLoss(), 3, ops.sigmoid),
    (losses.Focal(), 3, ops.softmax),
    (losses.Ordinal(), 2, ops.sigmoid),
    (losses.LogLoss(), 3, lambda x: ops.reshape(ops.softmax(x), (-1, 3))),
    (losses.LogLoss(), 1, ops.hardsigmoid),
    (losses.LogLoss(), 1, lambda x: 1 / (1 + ops.exp(-x))),
    (losses.LogLoss(), 1, lambda x: 0.5 * (1.0 + ops.tanh(0.5 * x))),
    (losses.LogLoss(), 1, lambda x: ops.clip(ops.sigmoid(x), 1e-7, 1 - 1e-7)),
    (losses.LogLoss(), 1, lambda x: 1.0 - ops.sigmoid(x)),
    (losses.LogLoss(), 3, lambda x: ops.exp(ops.log_softmax(x))),
    (losses.LogLoss(), 3, lambda x: ops.exp(x) / ops.sum(ops.exp(x), axis=-1, keepdims=True)),
    (losses.LogLoss(), 3, lambda x: ops.stack([ops.softmax(x), ops.softmax(2.0 * x)]).mean(axis=0)),
]


@pytest.mark.parametrize(("loss", "n_outputs", "end"), WRONG)
def test_each_fit_warns_once_at_the_users_line(loss, n_outputs, end):
    for network in ending(n_outputs, end):
        for fit in fits(loss, network, Y[n_outputs]):
            [warning] = warned(fit)
            assert warning.filename == __file__ or "thread" in warning.filename


RIGHT = [
    (losses.LogLoss(), 1, lambda x: x),
    (losses.LogLoss(), 3, lambda x: 1e-3 * ops.abs(x)),  # between 0 and 1, by chance
    (losses.LogLoss(), 3, lambda x: 4.0 * ops.sigmoid(x) - 2.0),
    (losses.LogLoss(), 3, ops.log_softmax),
    (losses.LogLoss(), 3, lambda x: x * ops.sigmoid(x)),
    (losses.LogLoss(), 1, lambda x: 1.5 * ops.sigmoid(x) - 0.25),
    (losses.LogLoss(), 3, lambda x: x / ops.sum(x, axis=-1, keepdims=True)),
    (losses.LogLoss(), 3, lambda x: ops.relu(x) / ops.sum(ops.exp(x), axis=-1, keepdims=True)),
    (losses.NLL(), 3, ops.softmax),
    (losses.Hinge(), 3, ops.tanh),
]


@pytest.mark.parametrize(("loss", "n_outputs", "end"), RIGHT)
def test_others_do_not(loss, n_outputs, end):
    for network in ending(n_outputs, end):
        assert not warned(lambda: Model(network, loss, random_state=0).fit(X, Y[n_outputs], epochs=2))  # noqa: B023


class Heads(nn.Module):
    """A network with three heads, each of which ends in an operation."""

    def __init__(self, returns, **ends):
        self.layers = nn.ModuleDict(
            {"size": nn.Linear(3, 1), "is_red": nn.Linear(3, 1), "kind": nn.Linear(3, 3)}
        )
        self.returns, self.ends = returns, ends

    def forward(self, x):
        found = {name: self.ends.get(name, ops.positive)(layer(x)) for name, layer in self.layers.items()}
        return self.returns(found)


RETURNS = {
    "dict": dict,
    "dict in another order": lambda found: dict(reversed(found.items())),
    "tuple": lambda found: tuple(found.values()),
    "columns": lambda found: ops.concat(list(found.values()), axis=1),
}


@pytest.mark.parametrize("returns", RETURNS)
@pytest.mark.parametrize(
    ("ends", "named"),
    [
        ({"is_red": ops.sigmoid}, ["is_red"]),
        ({"kind": ops.softmax}, ["kind"]),
        ({"size": ops.sigmoid}, []),
        ({"size": ops.sigmoid, "is_red": ops.sigmoid, "kind": ops.softmax}, ["is_red", "kind"]),
    ],
    ids=["binary", "classes", "a number", "all"],
)
def test_each_head_is_looked_at(returns, ends, named):
    kinds = {"size": "squared_error", "is_red": "log_loss", "kind": "log_loss"}
    y = {"size": X[:, 0], "is_red": Y[1], "kind": Y[3]}
    classes = {"is_red": [0, 1], "kind": [0, 1, 2]}
    net = MultiHeadNet(Heads(RETURNS[returns], **ends), loss=kinds, max_iter=2, random_state=0)
    for fit in (lambda: net.fit(X, y), lambda: clone(net).partial_fit(X, y, classes=classes)):
        found = [re.search(r"of the head '(\w+)'", str(each.message))[1] for each in warned(fit)]
        assert found == named


def test_a_regression_between_0_and_1_may_end_in_a_sigmoid():
    network = nn.Sequential(nn.Linear(3, 1), nn.Sigmoid())
    net = NetRegressor(network, max_iter=2, random_state=0)
    assert not warned(lambda: net.fit(X, Y[1] * 1.0))


def test_a_fit_that_continues_warns_no_more():
    model = Model(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()), "log_loss", random_state=0)
    assert len(warned(lambda: model.fit(X, Y[1], epochs=1))) == 1
    assert not warned(lambda: model.fit(X, Y[1], epochs=1))
    net = NetClassifier(nn.Sequential(nn.Linear(3, 1), nn.Sigmoid()), random_state=0)
    assert len(warned(lambda: net.partial_fit(X, Y[1], classes=[0, 1]))) == 1
    assert not warned(lambda: net.partial_fit(X, Y[1]))


def test_code_that_reads_values_is_left_to_the_first_step():
    def end(x):
        return x if float(x.sum()) > 1e9 else ops.sigmoid(x)

    model = Model(Ends(1, end), "log_loss", random_state=0, compile=False)
    assert not warned(lambda: model.fit(X, Y[1], epochs=1))
