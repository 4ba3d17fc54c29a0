"""Keys of models are equal only if their passes are; None if that is unknown."""

from functools import partial

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.engine._fingerprint import structure_of
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Cosine


class Own(nn.Module):
    def forward(self, x):
        return x


def shared():
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    other.weight = one.weight
    return nn.Sequential(one, other)


def twice():
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, layer)


def frozen():
    layer = nn.Linear(2, 2)
    layer.bias.requires_grad_(False)
    return layer


DIFFERENT = [
    lambda: nn.Linear(2, 2),
    lambda: nn.Linear(2, 2).to(dtype="float64"),
    lambda: nn.Linear(2, 2, bias=False),
    lambda: nn.Linear(2, 2, parametrization="ntp"),
    frozen,
    lambda: nn.Sequential(nn.Linear(2, 2)),
    lambda: nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
    shared,
    twice,
    lambda: nn.BatchNorm(2),
    lambda: nn.BatchNorm(2, momentum=None),
    lambda: nn.BatchNorm(2, track_running_stats=False),
    lambda: nn.LeakyReLU(0.0),
    lambda: nn.LeakyReLU(-0.0),
    lambda: nn.LeakyReLU(1),
    lambda: nn.LeakyReLU(1.0),
    lambda: nn.Lambda(ops.exp),
    lambda: nn.Lambda(ops.tanh),
    lambda: nn.Lambda(partial(ops.sum, axis=1)),
    lambda: nn.Lambda(partial(ops.sum, axis=0)),
    lambda: nn.PiecewiseLinearEncoding([[0.0, 1.0]]),
    lambda: nn.PiecewiseLinearEncoding([[0.0, 1.0, 2.0]]),
]


def test_keys_are_equal_for_equal_modules_and_for_no_others():
    keys = [structure_of(make()) for make in DIFFERENT]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert keys == [structure_of(make()) for make in DIFFERENT]


@pytest.mark.parametrize(
    "make",
    [
        Own,
        lambda: nn.Sequential(nn.Linear(2, 2), Own()),
        lambda: nn.Lambda(lambda x: x),
        lambda: nn.Lambda(partial(lambda x: x)),
        lambda: nn.Lambda(Own().forward),
        lambda: nn.Dropout(lambda progress: 0.5),
    ],
)
def test_user_code_has_no_key(make):
    assert structure_of(make()) is None


@pytest.mark.parametrize(
    "value",
    [
        *(object(), {1, 2}, np.array([None]), np.random.RandomState(0), Tensor([1.0])),
        {"deep": (lambda: 0,)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_attribute_of_unknown_use_leaves_no_key(value):
    layer = nn.Linear(2, 2)
    layer.more = [value]
    assert structure_of(layer) is None
    layer.more = [1.0, {"deep": (2, "text", None)}]
    assert structure_of(layer) is not None


def test_a_class_whose_forward_was_exchanged_has_no_key(monkeypatch):
    assert structure_of(nn.Tanh()) is not None
    monkeypatch.setattr(nn.Tanh, "forward", lambda self, x: x)
    assert structure_of(nn.Tanh()) is None


def test_keys_omit_learning_rates_but_no_other_hyperparameters():
    one = structure_of(None, Adam(lr=0.1))
    assert one == structure_of(None, Adam(lr=Cosine(0.3)))
    assert len({one, *(structure_of(None, x) for x in (Adam(beta1=0.5), SGD(), SGD(momentum=0.5)))}) == 4
    losses = [LogLoss(), LogLoss(class_weight=[1.0, 2.0]), LogLoss(class_weight=[1.0, 2.5])]
    assert len({structure_of(None, loss) for loss in losses}) == 3
    assert structure_of(None, losses[0].predict) == structure_of(None, LogLoss().predict)
