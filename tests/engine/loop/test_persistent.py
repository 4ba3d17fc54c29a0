"""Steps of small networks as one launch for a whole block: values, bits, costs and the choice."""

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn
from sknet.callbacks import Callback, Checkpoint
from sknet.device import to_host
from sknet.engine import Batches, _device_runner, _persistent, _runners, fit_many
from sknet.engine._device_runner import DeviceSteps
from sknet.engine._runners import Outputs
from sknet.exceptions import NonFiniteError
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam, AdamW, RMSprop
from sknet.optim.schedules import Cosine
from tests.compile.native import KINDS
from tests.devices import fake
from tests.engine.loop.test_device_steps import (
    LAYERS,
    SIZE,
    WEIGHTS,
    N,
    assert_same_training,
    data,
    in_order,
    trained,
)

SHARED = 200_000  # bytes


@pytest.fixture
def launches(monkeypatch):
    """Count the launches of blocks of steps, which the fake device can make."""
    made, call = [], _persistent.Persistent.__call__

    def counted(self, steps, *firsts):
        made.append(steps)
        call(self, steps, *firsts)

    monkeypatch.setattr(_persistent.Persistent, "__call__", counted)
    with fake.sharing(SHARED):
        yield made


class Stop(Callback):
    """Stop a fit after some epochs."""

    pauses = True

    def __init__(self, n_epochs):
        self.n_epochs = n_epochs

    def on_epoch_end(self, fit):
        return "stop" if fit.epoch == self.n_epochs else None


CASES = {
    "relu": ("relu", {"optimizer": Adam(1e-2), "alpha": 1e-3}),
    "tanh": ("tanh", {"optimizer": SGD(0.05, momentum=0.9, nesterov=True), "alpha": 1e-3}),
    "gelu": ("gelu", {"optimizer": AdamW(Cosine(1e-2, n_steps=100))}),
    "dropout": ("dropout", {"optimizer": RMSprop(1e-3, momentum=0.5)}),
    "batch norm": ("batch norm", {"optimizer": SGD(0.05, momentum=0.9)}),
    "layer norm": ("layer norm", {"optimizer": SGD(0.05)}),
    "squared error": ("tanh", {"loss": "squared_error", "optimizer": Adam(1e-2)}),
    "huber": ("relu", {"loss": "huber", "optimizer": RMSprop(1e-2)}),
    "poisson": ("relu", {"loss": "poisson"}),
    "label smoothing": ("tanh", {"loss": LogLoss(label_smoothing=0.1)}),
}


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-9)])
@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_eager_steps(case, dtype, tolerance, fake_device, launches):
    layers, settings = CASES[case]
    settings = {"optimizer": Adam(1e-2)} | settings
    X, y = data(settings.get("loss") if isinstance(settings.get("loss"), str) else "log_loss", dtype)
    assert_same_training(
        LAYERS[layers], X, y, **settings, dtype=dtype, device=fake_device, tolerance=tolerance
    )
    assert launches


def test_two_classes(fake_device, launches):
    X, y = data()
    assert_same_training(
        lambda: nn.Sequential(nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 1)), X, (y > 0) + 0.0,
        loss=LogLoss(), device=fake_device,
    )  # fmt: skip
    assert launches


@pytest.mark.parametrize(
    "how",
    [
        {"weight": WEIGHTS},
        {"order": None},
        {"rows": np.arange(N)[::-2], "weight": WEIGHTS},
    ],
    ids=["weights", "in order", "some rows, with weights"],
)
def test_rows(how, fake_device, launches):
    assert_same_training(
        LAYERS["relu"], *data("squared_error"), loss="squared_error", **how, device=fake_device
    )
    assert launches


# -- what a block costs, and its bits ----------------------------------------------------------


def steps_of(fake_device, layers="dropout", dtype="float32"):
    model = Model(LAYERS[layers](), "log_loss", Adam(1e-2), alpha=1e-3, random_state=0, dtype=dtype,
                  device=fake_device)  # fmt: skip
    return DeviceSteps(model, Batches(*data(dtype=dtype), None, SIZE, model.dtype, model.device), True)


@pytest.mark.parametrize("n_steps", [1, 6])
def test_a_block_is_one_launch_and_the_host_looks_once(n_steps, fake_device, launches, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    monkeypatch.setattr(_device_runner, "MOST_STEPS", n_steps)
    steps = steps_of(fake_device)
    order = np.arange(N)
    for _ in range(2):  # at first the order is put on the device
        with fake.counted() as counts, np.errstate(all="ignore"):
            block = steps.run(order, 0)
        assert len(block.losses) == n_steps
    assert launches == [n_steps, n_steps]
    assert (counts.kernels, counts.reads) == (1, 1)


def flats_of(fake_device, seconds, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", seconds)
    steps, outputs, found = steps_of(fake_device), Outputs(N), []
    for seed in range(2):
        order, done = np.random.default_rng(seed).permutation(N), 0
        while done < steps.batches.n_batches:
            block = steps.run(order, done, outputs=outputs)
            outputs.add(block.n_rows)
            found += [block.losses, *map(to_host, outputs.parts(also_last=True))]
            done += len(block.losses)
    flat, slots = steps.model.memory.flat_buffers()
    return [*map(to_host, (flat, *slots.values())), *found]


def test_bits_do_not_depend_on_the_run_or_on_the_blocks(fake_device, launches, monkeypatch):
    first, again, in_pieces = (flats_of(fake_device, seconds, monkeypatch) for seconds in (1e9, 1e9, 1e-9))
    assert launches.count(6) == 4
    assert launches.count(1) == 2 * 2 + 14  # the last batch is shorter
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(first[:3], in_pieces[:3], strict=True):
        np.testing.assert_array_equal(x, y)


# -- what is not finite -----------------------------------------------------------------------


@pytest.mark.parametrize("batch", [0, 3])
def test_a_failing_step_changes_nothing(batch, fake_device, launches, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)  # all in one block
    X, y = data()
    X[batch * SIZE + 1, 0] = np.nan
    states, errors = [], []
    for kind in ("eager", "device"):
        model = Model(LAYERS["batch norm"](), "log_loss", random_state=0, dtype="float64", device=fake_device)
        steps = KINDS[kind](model, Batches(X, y, None, SIZE, model.dtype, model.device), True)
        with pytest.raises(NonFiniteError) as error:
            in_order(steps)
        assert model.progress.step == batch
        states.append(model.state)
        errors.append(str(error.value))
    assert launches
    assert errors[0] == errors[1]
    for expected, found in zip(
        (states[0].parameters, states[0].buffers), (states[1].parameters, states[1].buffers), strict=True
    ):
        for name, array in expected.items():
            np.testing.assert_allclose(to_host(found[name]), to_host(array), rtol=1e-9, atol=1e-11)


# -- whole fits -------------------------------------------------------------------------------


def estimator_on(device, **params):
    settings = {"batch_size": SIZE, "max_iter": 9, "lr": 1e-2, "dropout": 0.2, "dtype": "float64"}
    return MLPClassifier((10,), random_state=0, device=str(device), **(settings | params))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "params",
    [
        {"early_stopping": True, "validation_fraction": 0.3, "n_iter_no_change": 2, "monitor": "loss"},
        {"early_stopping": True, "validation_fraction": 0.3, "scoring": "neg_log_loss", "max_iter": 5},
        {"early_stopping": False, "n_iter_no_change": 2, "tol": 0.05, "max_iter": 30},
    ],
    ids=["stopped by held-out rows", "scored", "stopped by the loss"],
)
def test_fits_end_as_on_the_host(params, fake_device, launches):
    X, y = data(dtype="float64")
    expected = estimator_on("cpu", **params).fit(X, y)
    found = estimator_on(fake_device, **params).fit(X, y)
    assert launches
    assert found.n_iter_ == expected.n_iter_
    for name in expected.history_.keys() - {"time"}:
        column = expected.history_[name]
        np.testing.assert_allclose(found.history_[name], column, rtol=1e-8, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_that_was_stopped_resumes_to_the_bits_of_another(fake_device, launches, tmp_path):
    X, y = data(dtype="float64")
    whole = estimator_on(fake_device).fit(X, y)
    stopped = estimator_on(fake_device, callbacks=[Checkpoint(tmp_path), Stop(4)]).fit(X, y)
    assert stopped.n_iter_ == 4
    resumed = estimator_on(fake_device).fit(X, y, resume_from=tmp_path)
    assert launches
    assert resumed.history_["loss"] == whole.history_["loss"]
    for mine, theirs in zip(resumed.coefs_, whole.coefs_, strict=True):
        np.testing.assert_array_equal(to_host(mine), to_host(theirs))


# -- many networks ----------------------------------------------------------------------------


def models_of(fake_device, dtype="float64"):
    return [
        Model(LAYERS["dropout"](), "log_loss", Adam(0.01 * (i + 1)), alpha=1e-3 * (i + 1), random_state=i,
              dtype=dtype, device=fake_device)
        for i in range(3)
    ]  # fmt: skip


def test_many_fits_are_one_launch_and_each_is_its_own(fake_device, launches):
    X, y = data()
    options = {"epochs": 2, "batch_size": SIZE, "scores": "accuracy"}
    rows = [np.arange(40), np.arange(10, 50), np.arange(N)[::-1][:40]]
    joint, alone = models_of(fake_device), models_of(fake_device)
    histories = fit_many(joint, X, y, rows=rows, **options)
    together = len(launches)
    assert 2 <= together <= 10
    for model, other, history, part in zip(joint, alone, histories, rows, strict=True):
        expected = other.fit(X[part], y[part], **options)
        np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-12)
        assert history["accuracy"] == expected["accuracy"]
        np.testing.assert_allclose(
            to_host(model.weights().flat), to_host(other.weights().flat), rtol=1e-11, atol=1e-13
        )


def test_one_of_many_that_fails_ends_as_in_launches_of_each_step(fake_device, launches, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)  # else the others' steps depend on the time
    X, y = data()
    X[45, 0] = np.nan
    rows, ended = [np.arange(40), np.arange(10, 50)], []
    for most in (SHARED, 0):
        models = models_of(fake_device)[:2]
        with fake.sharing(most), pytest.raises(NonFiniteError) as error:
            fit_many(models, X, y, rows=rows, epochs=2, batch_size=SIZE, shuffle=False)
        ended.append((str(error.value), [(x.progress.step, to_host(x.weights().flat)) for x in models]))
    assert launches
    (text, found), (of_steps, expected) = ended
    assert text == of_steps
    for (step, flat), (other, theirs) in zip(found, expected, strict=True):
        assert step == other
        np.testing.assert_allclose(flat, theirs, rtol=1e-11, atol=1e-13)


# -- the choice -------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", ["images", "sequences", "attention"])
def test_other_networks_are_launched_step_by_step(layers, fake_device, launches):
    model = Model(LAYERS[layers](), "log_loss", random_state=0, device=fake_device)
    batches = Batches(*data(), None, SIZE, model.dtype, model.device)
    model.materialize(batches.X)
    in_order(DeviceSteps(model, batches, True))
    assert not launches
    assert model.progress.step == 7


def test_what_shared_memory_does_not_hold_is_launched_step_by_step(fake_device, launches):
    for most, is_whole in ((40_000, True), (2_000, False), (0, False)):
        launches.clear()
        with fake.sharing(most):
            in_order(steps_of(fake_device, "relu"))
        assert bool(launches) == is_whole


def test_rows_that_stay_on_the_host_are_sent_step_by_step(fake_device, launches, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    trained("device", LAYERS["relu"](), *data(), device=fake_device, epochs=1)
    assert not launches
