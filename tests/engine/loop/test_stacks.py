"""Many fits on a device as one program: each as its own fit, in everything but the last digits."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.device import to_host
from sknet.engine import fit_many
from sknet.engine.loop import _stacks
from sknet.engine.loop._stack import Stack
from sknet.losses import Huber
from sknet.optim import SGD, Adam, AdamW, ClipNorm, Muon
from sknet.optim.schedules import Cosine

RNG = np.random.default_rng(0)
N = 50  # three batches of 16 rows, and a rest of two
X = RNG.normal(size=(N, 6))
LABELS, REAL = np.arange(N) % 3, X[:, :3] ** 2
WEIGHT = RNG.random(N)
MEMBERS = 4


def network(*layers):
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


def half_frozen():
    found = network(nn.Tanh())
    found[0].requires_grad_(False)
    return found


class Own(nn.Module):
    """A user's module."""

    def __init__(self):
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def family(make=lambda: network(nn.Tanh()), of=lambda i: {}, **options):
    """Return a function that makes the i-th model, and what fits are given besides the rows."""
    return (lambda i: Model(make(), **{"loss": "log_loss", "random_state": i, **of(i)})), options


FAMILIES = {
    "rates": family(of=lambda i: {"optimizer": Adam(0.01 * (i + 1))}),
    "constants of the optimizer": family(of=lambda i: {"optimizer": Adam(0.01, beta1=0.9 - 0.1 * i, eps=10.0**-i)}),
    "decays": family(of=lambda i: {"optimizer": AdamW(0.01, weight_decay=0.1 * i)}),
    "momentum": family(of=lambda i: {"optimizer": SGD(0.1, momentum=0.5 + 0.1 * i)}),
    "schedules": family(of=lambda i: {"optimizer": SGD(Cosine(0.1 * (i + 1)))}),
    "norms": family(of=lambda i: {"optimizer": ClipNorm(SGD(0.1), 0.1 * (i + 1))}),
    "matrices": family(of=lambda i: {"optimizer": Muon(0.01 * (i + 1))}),
    "penalties": family(of=lambda i: {"alpha": 0.01 * (i + 1)}),
    "losses": family(of=lambda i: {"loss": Huber(0.1 + i)}, y=REAL),
    "squared error": family(of=lambda i: {"loss": "squared_error"}, y=REAL),
    "dropout": family(lambda: network(nn.ReLU(), nn.Dropout(0.3))),
    "running means": family(lambda: network(nn.BatchNorm(8))),
    "frozen": family(half_frozen),
    "own modules": family(Own),
    "lazy": family(lambda: nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(3))),
    "weights": family(sample_weight=WEIGHT),
    "in order": family(shuffle=False),
    "a score": family(scores="accuracy"),
    "held out": family(X_val=X[:7], y_val=LABELS[:7], scores="accuracy"),
    "not checked": family(check_finite=False),
    "one batch": family(batch_size=64),
}  # fmt: skip


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the stacks that are made."""
    found = []

    class Seen(Stack):
        def __init__(self, plan):
            super().__init__(plan)
            found.append(self.size)

    monkeypatch.setattr(_stacks, "Stack", Seen)
    return found


def made(make, device, count=MEMBERS):
    models = [make(i) for i in range(count)]
    return [model.to(device) if model.device.kind != device.kind else model for model in models]


def given(options):
    rest = {"X": X, "y": LABELS, "epochs": 3, "batch_size": 16, **options}
    return rest.pop("X"), rest.pop("y"), rest


def assert_same(model, history, expected, expected_history, tolerance=1e-9):
    def close(found, wanted):
        np.testing.assert_allclose(to_host(found), to_host(wanted), rtol=tolerance, atol=tolerance)

    close(model.weights().flat, expected.weights().flat)
    for mine, theirs in ((model.memory.slots, expected.memory.slots), (model.buffers, expected.buffers)):
        assert list(mine) == list(theirs)
        for name in mine:
            close(mine[name], theirs[name])
    assert model.progress == expected.progress
    assert str(model.random_state.get_state()) == str(expected.random_state.get_state())
    assert list(history) == list(expected_history)
    for name in history:
        assert len(history[name]) == len(expected_history[name])
        if name != "time":
            np.testing.assert_allclose(history[name], expected_history[name], rtol=tolerance, atol=tolerance)


def assert_as_alone(make, fit, together):
    """Fit models alone, and others together; compare each."""
    alone, joint = ([make(i) for i in range(MEMBERS)] for _ in range(2))
    expected = [fit(model, i) for i, model in enumerate(alone)]
    found = together(joint)
    for pairs in zip(joint, found, alone, expected, strict=True):
        assert_same(*pairs)
    return found


def on(device, make, dtype="float64"):
    """Return what makes models on a device."""

    def moved(i):
        model = make(i)
        settings = {"loss": model.loss_function, "optimizer": model.optimizer, "alpha": model.alpha}
        return Model(model.module.copy(), **settings, random_state=i, dtype=dtype, device=device)

    return moved


@pytest.mark.parametrize("name", FAMILIES)
def test_each_is_its_own_fit(name, sizes, fake_device):
    make, options = FAMILIES[name]
    A, y, options = given(options)
    assert_as_alone(
        on(fake_device, make),
        lambda model, i: model.fit(A, y, **options),
        lambda models: fit_many(models, A, y, **options),
    )
    assert sizes == [MEMBERS]
