"""Modules as users write them, for tests of estimators over any network."""

from typing import Any

import sknet
from sknet import nn
from sknet.nn.init import GlorotUniform
from tests.estimators.data import CLASSIFICATIONS

GLOROT = GlorotUniform(6.0)


class Net(nn.Module):
    """Layers as those of a perceptron, whose sizes come from the data."""

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


def sequential(n_features: int, n_outputs: int, hidden: int = 8) -> nn.Sequential:
    """Return the same as a ready module."""
    return nn.Sequential(
        nn.Linear(n_features, hidden, init=GLOROT), nn.ReLU(), nn.Linear(hidden, n_outputs, init=GLOROT)
    )


def net_for(task: str, module: Any = Net, **params: Any) -> Any:
    """Return a small, quick estimator of a module for a task."""
    kind = sknet.NetClassifier if task in CLASSIFICATIONS else sknet.NetRegressor
    return kind(module, **{"max_iter": 3, "batch_size": 64, "random_state": 0} | params)
