"""Several epochs on a device are one block, with the results of one after the other."""

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor
from sknet.callbacks import Callback
from sknet.device import to_host
from sknet.engine import _device_runner, _runners
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine
from tests.devices import fake

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4)).astype(np.float32)
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
NUMBERS = X[:, 0] - X[:, 2]


class Watching(Callback):
    """Looks at every epoch when it is trained, so that no two are one block."""

    def on_epoch_end(self, fit):
        return None


@pytest.fixture(params=[0, 200_000], ids=["step by step", "in one launch"])
def blocks(request, fake_device, monkeypatch):
    """The numbers of epochs of the blocks, of steps that are launched each or all at once."""
    found, run = [], _device_runner.DeviceSteps.run_epochs

    def counting(self, orders, *others):
        found.append(len(orders))
        return run(self, orders, *others)

    monkeypatch.setattr(_device_runner.DeviceSteps, "run_epochs", counting)
    monkeypatch.setattr(_runners, "SECONDS", 1e3)
    with fake.sharing(request.param):
        yield found


def fitted(kind, y, device, callbacks, **params):
    settings = {"max_iter": 10, "batch_size": 20, "tol": 0.0, "random_state": 0} | params
    return kind((6,), device=str(device), callbacks=callbacks, **settings).fit(X, y)


CASES = {
    "full batches": {},
    "a shorter one": {"batch_size": 25},
    "one batch": {"batch_size": 60},
    "in order": {"shuffle": False, "batch_size": 25},
    "dropout": {"dropout": 0.3},
    "float64": {"dtype": "float64", "batch_size": 25},
    "cosine": {"optimizer": Adam(Cosine(0.01))},
    "adaptive": {"optimizer": SGD(Adaptive(0.5)), "tol": 0.01, "n_iter_no_change": 3, "max_iter": 30},
    "patience": {"tol": 0.05, "n_iter_no_change": 2, "max_iter": 30},
    "only the loss": {"scoring": "loss"},
}


# The task decides about the loss and the score alone.
OF_NUMBERS = ("full batches", "a shorter one", "patience", "only the loss")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(MLPClassifier, name) for name in CASES] + [(MLPRegressor, name) for name in OF_NUMBERS],
)
def test_the_same_bits_as_one_by_one(kind, name, fake_device, blocks):
    y = CLASSES if kind is MLPClassifier else NUMBERS
    alone = fitted(kind, y, fake_device, [Watching()], **CASES[name])
    assert not blocks
    together = fitted(kind, y, fake_device, [], **CASES[name])
    assert max(blocks) > 1
    assert together.n_iter_ == alone.n_iter_
    for column in alone.history_.keys() - {"time"}:
        assert together.history_[column] == alone.history_[column], column
    for mine, other in zip(together.coefs_, alone.coefs_, strict=True):
        np.testing.assert_array_equal(to_host(mine), to_host(other))
    assert together.model_.progress == alone.model_.progress
    np.testing.assert_array_equal(together.model_.random_state.rand(3), alone.model_.random_state.rand(3))


@pytest.mark.parametrize(("kind", "y"), [(MLPClassifier, CLASSES), (MLPRegressor, NUMBERS)])
@pytest.mark.parametrize("batch_size", [20, 25])
def test_the_host_reads_less_than_once_an_epoch(kind, y, batch_size, fake_device, blocks):
    estimator, reads = fitted(kind, y, fake_device, [], batch_size=batch_size), []
    for max_iter in (24, 48):
        estimator.set_params(warm_start=True, max_iter=max_iter)
        with fake.counted() as counts:
            estimator.fit(X, y)
        reads.append(counts.reads)
    assert sum(blocks) > 70
    assert reads[1] - reads[0] <= 12  # in 24 epochs more


def test_a_step_that_fails_is_said_of_its_epoch_and_batch(fake_device, blocks):
    said = []
    for callbacks in ([Watching()], []):
        estimator = MLPRegressor(
            (6,), activation="identity", optimizer=SGD(1e3), scale_target=False, device=str(fake_device),
            callbacks=callbacks, batch_size=25, random_state=0, max_iter=20, tol=0.0,
        )  # fmt: skip
        with pytest.raises(NonFiniteError) as error:
            estimator.fit(X, NUMBERS)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert blocks
