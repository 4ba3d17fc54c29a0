"""Custom modules for tests of estimators."""

from typing import Any

import numpy as np

import sknet
from sknet import nn, ops
from sknet.nn.init import GlorotUniform
from tests.estimators.data import CLASSIFICATIONS

GLOROT = GlorotUniform(6.0)


class Net(nn.Module):
    """Layers like a perceptron's, with sizes from the data."""

    def __init__(self, n_features, n_outputs, hidden=8, dropout=0.0):
        self.first = nn.Linear(n_features, hidden, init=GLOROT)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(hidden, n_outputs, init=GLOROT)

    def forward(self, x):
        return self.last(self.dropout(nn.ReLU()(self.first(x))))


class LazyNet(nn.Module):
    """The same, lazy."""

    def __init__(self, n_outputs, hidden=8):
        self.first = nn.LazyLinear(hidden, init=GLOROT)
        self.last = nn.LazyLinear(n_outputs, init=GLOROT)

    def forward(self, x):
        return self.last(nn.ReLU()(self.first(x)))


class Normed(nn.Module):
    """With a norm that has buffers."""

    def __init__(self, n_features, n_outputs, hidden=6):
        self.body = nn.Sequential(nn.Linear(n_features, hidden), nn.BatchNorm(hidden), nn.Tanh())
        self.head = nn.Linear(hidden, n_outputs)

    def forward(self, x):
        return self.head(self.body(x))


class Gate(nn.Module):
    """A custom activation, with a buffer, a parameter, and a frozen parameter."""

    def __init__(self):
        self.scale = nn.Parameter(np.array([1.5]))
        self.fixed = nn.Parameter(np.array([0.5]))
        self.fixed.requires_grad = False
        self.register_buffer("seen", np.array([2.0]))

    def forward(self, x):
        return ops.tanh(x * self.scale) * self.seen + self.fixed


class Images(nn.Module):
    """Convolves images."""

    def __init__(self, n_outputs):
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.ReLU(), nn.MaxPool2d(2))
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, image):
        return self.last(nn.Flatten()(self.body(image)))


class Tokens(nn.Module):
    """Reads sequences of token ids."""

    def __init__(self, n_outputs, cell=nn.GRU):
        self.embedding = nn.Embedding(20, 6)
        self.rnn = cell(6, 5, returns="last")
        self.last = nn.Linear(5, n_outputs)

    def forward(self, tokens, lengths=None):
        return self.last(self.rnn(self.embedding(tokens), lengths=lengths))


class Both(nn.Module):
    """Takes numbers and a token id."""

    def __init__(self, n_outputs):
        self.embedding = nn.Embedding(20, 4)
        self.last = nn.Linear(4 + 3, n_outputs)

    def forward(self, numbers, word):
        return self.last(ops.concat([numbers, self.embedding(word)], axis=1))


def sequential(n_features: int, n_outputs: int, hidden: int = 8) -> nn.Sequential:
    """Return the same as a module instance."""
    return nn.Sequential(
        nn.Linear(n_features, hidden, init=GLOROT), nn.ReLU(), nn.Linear(hidden, n_outputs, init=GLOROT)
    )


def net_for(task: str, module: Any = Net, **params: Any) -> Any:
    """Return a small, quick estimator of a module for a task."""
    classifies = task in CLASSIFICATIONS
    kind = sknet.NetClassifier if classifies else sknet.NetRegressor
    defaults = {"max_iter": 3, "batch_size": 64, "random_state": 0}
    defaults |= {"scale_inputs": False, "early_stopping": False} | (
        {} if classifies else {"scale_target": False}
    )
    return kind(module, **defaults | params)
