"""Several epochs on a device are one block, with the results of one after the other."""

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.callbacks import Callback, EarlyStopping, PrintLog
from sknet.device import to_host
from sknet.engine import _device_runner, _network, _runners
from sknet.engine._loop import Validation
from sknet.exceptions import NonFiniteError
from sknet.optim import EMA, SGD, Adam
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
    rows = {"X_val": X[::3], "y_val": y[::3]} if settings.pop("given", False) else {}
    return kind((6,), device=str(device), callbacks=callbacks, **settings).fit(X, y, **rows)


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


HELD_OUT = {
    "the score decides": {"early_stopping": True, "monitor": "score"},
    "the loss decides": {"early_stopping": True, "monitor": "loss", "batch_size": 25},
    "given rows": {"early_stopping": True, "given": True},
    "small chunks": {"early_stopping": True, "given": True, "chunk": 7},
    "patience": {"early_stopping": True, "tol": 0.05, "n_iter_no_change": 3, "max_iter": 30},
    "adaptive": {
        "early_stopping": True, "optimizer": SGD(Adaptive(0.5)),
        "tol": 0.01, "n_iter_no_change": 3, "max_iter": 30,
    },
    "averages": {"early_stopping": True, "optimizer": EMA(Adam(0.01))},
    "not stopping": {"validation_split": (np.arange(40), np.arange(40, 60)), "early_stopping": False},
    "no score": {"early_stopping": True, "scoring": "loss"},
    "refit": {"early_stopping": True, "refit_on_all": True, "tol": 0.05, "max_iter": 20},
    "dropout": {"early_stopping": True, "dropout": 0.3},
}  # fmt: skip
CASES |= HELD_OUT
# The task decides about the loss and the score alone.
OF_NUMBERS = (
    "full batches",
    "a shorter one",
    "patience",
    "only the loss",
    "small chunks",
    "the score decides",
)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(MLPClassifier, name) for name in CASES] + [(MLPRegressor, name) for name in OF_NUMBERS],
)
def test_the_same_bits_as_one_by_one(kind, name, fake_device, blocks, monkeypatch, request):
    y, params = CLASSES if kind is MLPClassifier else NUMBERS, dict(CASES[name])
    if "chunk" in params:
        monkeypatch.setattr(_network, "CHUNK_ELEMENTS", 6 * params.pop("chunk"))
        _network._by_structure.clear()
        request.addfinalizer(_network._by_structure.clear)
    alone = fitted(kind, y, fake_device, [Watching()], **params)
    assert not blocks
    together = fitted(kind, y, fake_device, [], **params)
    assert max(blocks) > 1
    assert together.n_iter_ == alone.n_iter_
    assert getattr(together, "best_epoch_", None) == getattr(alone, "best_epoch_", None)
    for column in alone.history_.keys() - {"time"}:
        assert together.history_[column] == alone.history_[column], column
    for mine, other in zip(together.coefs_, alone.coefs_, strict=True):
        np.testing.assert_array_equal(to_host(mine), to_host(other))
    assert together.model_.progress == alone.model_.progress
    np.testing.assert_array_equal(together.model_.random_state.rand(3), alone.model_.random_state.rand(3))


@pytest.mark.parametrize(("kind", "y"), [(MLPClassifier, CLASSES), (MLPRegressor, NUMBERS)])
@pytest.mark.parametrize("batch_size", [20, 25])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_host_reads_less_than_once_an_epoch(kind, y, batch_size, early_stopping, fake_device, blocks):
    params = {"early_stopping": early_stopping, "monitor": "loss", "n_iter_no_change": 100}
    params |= {"callbacks": [PrintLog(100)]}
    estimator, reads = fitted(kind, y, fake_device, batch_size=batch_size, **params), []
    for max_iter in (24, 48):
        estimator.set_params(warm_start=True, max_iter=max_iter)
        with fake.counted() as counts:
            estimator.fit(X, y)
        reads.append(counts.reads)
    assert sum(blocks) > 60
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


class Reading(Callback):
    """Keeps the numbers of each epoch and a parameter of its model, which is that of the epoch."""

    reads_model = True

    def epochs_ahead(self):
        return 4

    def on_epoch_end(self, fit):
        weight = to_host(next(iter(fit.model.parameters.values()))).sum()
        numbers = [value for name, value in fit.record.items() if name != "time"]
        self.seen_ = [*getattr(self, "seen_", []), (fit.epoch, fit.step, fit.lr, float(weight), *numbers)]


def test_callbacks_see_the_model_of_their_epoch(fake_device, blocks):
    seen = []
    for callbacks in ([Watching(), Reading()], [Reading()]):
        how = {"optimizer": Adam(Cosine(0.01)), "early_stopping": True, "max_iter": 13, "batch_size": 25}
        estimator = fitted(MLPClassifier, CLASSES, fake_device, callbacks, **how)
        seen.append(estimator.callbacks_[-1].seen_)
    assert blocks == [4, 4, 4]
    assert seen[0] == seen[1]
    assert len({each[3] for each in seen[0]}) == 13


class Failing(Reading):
    """Raises in the middle of a block."""

    def epochs_ahead(self):
        return 4

    def on_epoch_end(self, fit):
        super().on_epoch_end(fit)
        if fit.epoch == 6:
            raise RuntimeError("no")


class Ending(Watching):
    def on_epoch_end(self, fit):
        return "stop" if fit.epoch == 9 else None


def test_an_error_leaves_all_that_is_trained(fake_device, blocks):
    models = [
        Model(nn.Linear(4, 3), "log_loss", Adam(0.01), random_state=0, device=str(fake_device)) for _ in "ab"
    ]
    how = {"batch_size": 20, "X_val": X[:9], "y_val": CLASSES[:9]}
    with pytest.raises(RuntimeError, match="no"):
        models[0].fit(X, CLASSES, epochs=20, **how, callbacks=[Failing()])
    assert blocks == [4, 4]
    models[1].fit(X, CLASSES, epochs=20, **how, callbacks=[Ending()])
    assert_equal(*models)


def assert_equal(one, other):
    """Assert that all that training changes is equal in two models."""
    assert one.progress == other.progress
    for mine, others in zip(
        one.memory.flat_buffers()[1].values(), other.memory.flat_buffers()[1].values(), strict=True
    ):
        np.testing.assert_array_equal(to_host(mine), to_host(others))
    for name, array in one.parameters.items():
        np.testing.assert_array_equal(to_host(array), to_host(other.parameters[name]))
    np.testing.assert_array_equal(one.random_state.rand(3), other.random_state.rand(3))


def test_a_step_that_fails_leaves_what_was_there_before_with_held_out_rows(fake_device, blocks):
    """Also the state of the steps before it in its epoch, although callbacks see those of whole epochs."""
    models, said = [], []
    y = NUMBERS[:, np.newaxis]
    for callbacks in ([Watching(), EarlyStopping()], [EarlyStopping()]):
        model = Model(
            nn.Linear(4, 1), "squared_error", SGD(1.2, momentum=0.9), random_state=3, device=str(fake_device)
        )  # fmt: skip
        with pytest.raises(NonFiniteError) as error:
            model.fit(X * 10, y, epochs=60, batch_size=25, X_val=X[:9], y_val=y[:9], callbacks=callbacks)
        models.append(model)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert blocks
    assert_equal(*models)


def test_held_out_rows_that_cannot_be_computed_raise_where_they_did(fake_device, blocks, monkeypatch):
    """The epoch whose rows fail is trained to its end, and told by itself."""
    passed, n = Validation.passed, []

    def failing(self, model, *score):
        n.append(1)
        if len(n) == 3:
            raise MemoryError("once")
        return passed(self, model, *score)

    monkeypatch.setattr(Validation, "passed", failing)
    how = {"early_stopping": True, "max_iter": 14}
    together = fitted(MLPClassifier, CLASSES, fake_device, [Reading()], **how)
    alone = fitted(MLPClassifier, CLASSES, fake_device, [Watching(), Reading()], **how)
    assert blocks[0] == 4
    assert together.callbacks_[0].seen_ == alone.callbacks_[1].seen_


@pytest.mark.parametrize("free", [1 << 20, 1 << 13])
def test_held_out_rows_stay_on_the_device_if_there_is_memory(free, fake_device, monkeypatch, request):
    """Otherwise they are sent chunk by chunk for each epoch."""
    monkeypatch.setattr(_network, "CHUNK_ELEMENTS", 6 * 7)
    _network._by_structure.clear()
    request.addfinalizer(_network._by_structure.clear)
    estimator = fitted(MLPClassifier, CLASSES, fake_device, [Watching()], early_stopping=True, given=True)
    sent, many = [], {"X_val": np.tile(X, (4, 1)), "y_val": np.tile(CLASSES, 4)}
    for max_iter in (4, 8):
        estimator.set_params(max_iter=max_iter)
        monkeypatch.setattr(fake, "FREE_MEMORY", free)
        with fake.counted() as counts:
            estimator.fit(X, CLASSES, **many)
        sent.append(counts.sent)
    assert (sent[1] > sent[0]) == (free == 1 << 13)
