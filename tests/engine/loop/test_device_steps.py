"""Steps on a device: values, launches, copies, memory, scores; step by step, and as one launch."""

import re
import warnings
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest

from sknet import MLPClassifier, Model, nn, ops
from sknet.callbacks import Callback, Checkpoint
from sknet.compile import compile
from sknet.compile._compile import before_last, forget_programs
from sknet.device import HALVES, Device, active, backend, to_device, to_host
from sknet.engine import Accuracy, Batches, History, _persistent, _runners, fit_many
from sknet.engine._device_runner import DeviceSteps, counted
from sknet.engine._loop import Settings, train
from sknet.engine._runner_cache import steps_for
from sknet.engine._runners import Outputs
from sknet.exceptions import DeviceError, DeviceMemoryError, NonFiniteError
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam, AdamW, RMSprop
from sknet.optim.schedules import Cosine
from tests.callbacks.helpers import unconverged
from tests.compile.native import KINDS
from tests.devices import fake, kernels
from tests.engine.test_optimizers import AVERAGING, BY_NAME, ELEMENTWISE, name_of
from tests.optim.test_contract import CASES
from tests.project import ROOT


def shaped(*shape):
    """Return a layer that reshapes rows of numbers."""
    return nn.Lambda(lambda x: ops.reshape(x, (x.shape[0], *shape)))


LAYERS = {
    "relu": lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)),
    "tanh": lambda: nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)),
    "gelu": lambda: nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)),
    "dropout": lambda: nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 3)),
    "mixup": lambda: nn.Sequential(nn.Mixup(), nn.Linear(6, 9), nn.BatchNorm(9), nn.ReLU(), nn.Linear(9, 3)),
    "batch norm": lambda: nn.Sequential(nn.Linear(6, 16), nn.BatchNorm(16), nn.ReLU(), nn.Linear(16, 3)),
    "layer norm": lambda: nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 3)),
    "lazy": lambda: nn.Sequential(nn.LazyLinear(16), nn.Tanh(), nn.LazyLinear(3)),
    "alpha dropout": lambda: nn.Sequential(
        nn.Linear(6, 16), nn.SELU(), nn.AlphaDropout(0.3), nn.Linear(16, 3)
    ),
    "images": lambda: nn.Sequential(
        shaped(1, 2, 3), nn.Conv2d(1, 4, 2, padding=1), nn.Tanh(), nn.Dropout2d(0.3), nn.MaxPool2d(2),
        nn.GroupNorm(2, 4), nn.Flatten(), nn.LazyLinear(3),
    ),
    "sequences": lambda: nn.Sequential(
        shaped(3, 2), nn.LSTM(2, 4, num_layers=2, dropout=0.3, returns="sequence"),
        nn.GRU(4, 3, returns="last"),
    ),
    "attention": lambda: nn.Sequential(
        shaped(3, 2), nn.Linear(2, 8), nn.TransformerEncoderLayer(8, 2, 4, dropout=0.2), nn.Flatten(),
        nn.LazyLinear(3),
    ),
}  # fmt: skip
OPTIMIZERS = [
    SGD(0.05, momentum=0.9, nesterov=True),
    Adam(1e-2),
    AdamW(Cosine(1e-2, n_steps=100)),
    RMSprop(1e-3, momentum=0.5),
]
EVERY_OPTIMIZER = [*(case.optimizer for case in CASES), *ELEMENTWISE]
N, SIZE = 50, 8  # six batches and a rest of two rows


def data(loss="log_loss", dtype=np.float64, seed=0, n=N):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 6)).astype(dtype)
    if loss == "log_loss":
        return X, rng.integers(0, 3, n)
    return X, np.abs(rng.standard_normal((n, 3))).astype(dtype)


def trained(
    kind,
    module,
    X,
    y,
    weight=None,
    *,
    device,
    epochs=4,
    order="new",
    rows=None,
    dtype="float64",
    loss="log_loss",
    **settings,
):
    """Train a fresh model; return it, and the losses and outputs of all steps."""
    model = Model(module, loss, random_state=0, dtype=dtype, device=device, **settings)
    batches = Batches(X, y, weight, SIZE, model.dtype, model.device, rows)
    model.materialize(batches.X)
    steps = KINDS[kind](model, batches, True)
    rng, losses, outputs, kept = np.random.default_rng(1), [], [], Outputs(batches.n_samples)
    for _ in range(epochs):
        chosen, done = rng.permutation(batches.n_samples) if order == "new" else order, 0
        while done < batches.n_batches:
            with active(device), np.errstate(all="ignore"):
                block = steps.run(chosen, done, outputs=kept)
            done += len(block.losses)
            losses += list(block.losses)
            kept.add(block.n_rows)
            outputs += [to_host(part).copy() for part in kept.parts(also_last=True)]
    return model, np.array(losses), np.concatenate(outputs)


def assert_same_training(module, *args, device, tolerance=1e-9, **settings):
    """Train both ways and compare all results."""
    expected, losses, outputs = trained("eager", module(), *args, device=device, **settings)
    found, found_losses, found_outputs = trained("device", module(), *args, device=device, **settings)

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)

    close(found_losses, losses)
    close(found_outputs, outputs)
    assert found.progress == expected.progress
    for mine, theirs in (
        (found.state.parameters, expected.state.parameters),
        (found.state.optimizer.slots, expected.state.optimizer.slots),
        (found.buffers, expected.buffers),
    ):
        assert set(mine) == set(theirs)
        for name, array in mine.items():
            close(to_host(array), to_host(theirs[name]))


@pytest.mark.parametrize("layers", LAYERS)
def test_layers(layers, fake_device):
    assert_same_training(LAYERS[layers], *data(), optimizer=SGD(0.05, momentum=0.9), device=fake_device)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("float64", 1e-8)])
@pytest.mark.parametrize(
    ("loss", "optimizer"),
    list(zip(["log_loss", "squared_error", "huber", "poisson"], OPTIMIZERS, strict=True)),
)
def test_losses_and_optimizers(loss, optimizer, dtype, tolerance, fake_device):
    settings = {"loss": loss, "optimizer": optimizer, "alpha": 1e-3, "dtype": dtype}
    assert_same_training(
        LAYERS["tanh"], *data(loss, dtype), **settings, device=fake_device, tolerance=tolerance
    )


@pytest.mark.parametrize("optimizer", [*EVERY_OPTIMIZER, *BY_NAME, *AVERAGING], ids=name_of)
def test_every_optimizer_and_combinator(optimizer, fake_device):
    assert_same_training(
        LAYERS["tanh"], *data(n=3 * SIZE), optimizer=optimizer, alpha=1e-3, device=fake_device, epochs=3,
        tolerance=1e-8,
    )  # fmt: skip


@pytest.mark.parametrize("weight", [None, "weights"])
@pytest.mark.parametrize("loss", [LogLoss(label_smoothing=0.1), LogLoss()], ids=str)
def test_a_class_for_each_element_of_a_sequence(loss, weight, fake_device):
    X, _ = data()
    y = np.random.default_rng(1).integers(0, 4, (N, 2))

    def module():
        return nn.Sequential(shaped(2, 3), nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))

    assert_same_training(module, X, y, weight and WEIGHTS, loss=loss, device=fake_device)


def test_label_smoothing(fake_device):
    assert_same_training(LAYERS["tanh"], *data(), loss=LogLoss(label_smoothing=0.1), device=fake_device)


@pytest.mark.parametrize("place", ["host", "device", "too large"])
def test_integer_inputs_stay_integers(place, fake_device, monkeypatch):
    X, y = np.random.default_rng(3).integers(0, 5, (N, 4)), data()[1]
    if place == "too large":
        monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    if place == "device":
        X = to_device(X, fake_device)

    def module():
        return nn.Sequential(nn.Embedding(5, 3), nn.Flatten(), nn.Linear(12, 3))

    assert_same_training(module, X, y, device=fake_device)


WEIGHTS = np.random.default_rng(2).uniform(0.5, 1.5, N)


@pytest.mark.parametrize(
    "how",
    [
        {"weight": WEIGHTS},
        {"order": None},
        {"rows": np.arange(N)[::-2]},
        {"rows": np.arange(N)[::-2], "order": None, "weight": WEIGHTS},
    ],
    ids=["weights", "in order", "some rows", "some rows in order, with weights"],
)
def test_rows(how, fake_device):
    assert_same_training(
        LAYERS["relu"], *data("squared_error"), loss="squared_error", **how, device=fake_device
    )


@pytest.mark.parametrize("kind", ["host", "device", "another dtype", "too large", "too large, another dtype"])
def test_where_rows_come_from(kind, fake_device, monkeypatch):
    X, y = data(dtype=np.float32 if "another" in kind else np.float64)
    if "too large" in kind:
        monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    if kind != "host":
        X = to_device(X, fake_device)
    assert_same_training(LAYERS["relu"], X, y, device=fake_device)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("fits", [True, False])
def test_rows_on_another_device_than_the_model(dtype, fits, fake_device, monkeypatch):
    rows, labels = np.random.default_rng(0).integers(0, 9, (42, 5)).astype(dtype), np.arange(42) % 3
    if not fits:
        monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    found = []
    for place, X in (("cpu", rows), (fake_device, to_device(rows, Device.parse("fake:1")))):
        model = Model(nn.Linear(5, 3), "log_loss", random_state=0, device=place)
        found.append(model.fit(X, labels, epochs=2, batch_size=8)["loss"])
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize("kind", ["in columns", "some columns", "backwards", "columns backwards"])
def test_rows_that_are_not_contiguous(kind, fake_device):
    X, y = data("squared_error")
    there = to_device(np.asfortranarray(X), fake_device)
    if kind == "some columns":
        there = to_device(np.repeat(X, 2, axis=1), fake_device)[:, ::2]
    elif kind == "backwards":
        there, X = there[::-1], X[::-1].copy()
    elif kind == "columns backwards":
        there, X = there[:, ::-1], X[:, ::-1].copy()
    assert not there.flags.c_contiguous
    found = [
        trained("device", LAYERS["relu"](), rows, y, device=fake_device, loss="squared_error")
        for rows in (there, to_device(X, fake_device))
    ]
    np.testing.assert_array_equal(*[losses for _, losses, _ in found])


def test_rows_with_several_axes_that_are_not_contiguous(fake_device):
    X, y = data("squared_error")
    there = to_device(X.reshape(N, 2, 3), fake_device).transpose(0, 2, 1)
    here = X.reshape(N, 2, 3).transpose(0, 2, 1).copy()
    found = [
        trained("device", nn.Sequential(nn.Flatten(), nn.Linear(6, 3)), rows, y, device=fake_device,
                loss="squared_error")
        for rows in (there, to_device(here, fake_device))
    ]  # fmt: skip
    np.testing.assert_array_equal(*[losses for _, losses, _ in found])


def test_more_rows_than_fit_on_the_device(fake_device, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    assert_same_training(LAYERS["relu"], *data(), device=fake_device)


# -- what a step costs ------------------------------------------------------------------------


def block_of(fake_device, n_steps, limits):
    limits("seconds of a block of steps", 1e9)
    limits("steps of a block on a device", n_steps)
    model = Model(LAYERS["dropout"](), loss="log_loss", alpha=1e-3, random_state=0, device=fake_device)
    steps = DeviceSteps(model, Batches(*data(), None, SIZE, model.dtype, model.device), True)
    order = np.arange(N)
    for _ in range(2):  # at first the order is put on the device
        with fake.counted() as counts, np.errstate(all="ignore"):
            block = steps.run(order, 0)
        assert len(block.losses) == n_steps
    return counts


def test_a_step_allocates_nothing_and_the_host_looks_once(fake_device, limits):
    one, six = block_of(fake_device, 1, limits), block_of(fake_device, 6, limits)
    assert one.reads == six.reads == 1
    assert one.allocations == six.allocations
    assert six.kernels - one.kernels == 5 * (one.kernels - 1)  # and one at the end of the block


@pytest.mark.parametrize(("free", "n_steps"), [(0, 3), (1 << 20, 6), (16 * 4 * 8 * SIZE * 3, 4)])
def test_outputs_that_wait_for_scores_have_a_part_of_the_memory(
    free, n_steps, fake_device, monkeypatch, limits
):
    """At least two steps and what a third needs: a part has 17 rows."""
    limits("seconds of a block of steps", 1e9)
    monkeypatch.setattr(_runners, "MOST_KEPT", 17 * 3)
    model = Model(LAYERS["relu"](), loss="log_loss", random_state=0, device=fake_device, dtype="float64")
    X, y = data()
    batches = Batches(to_device(X, fake_device), y, None, SIZE, model.dtype, model.device)
    model.materialize(batches.X)
    monkeypatch.setattr(fake, "FREE_MEMORY", free)
    steps, outputs = DeviceSteps(model, batches, True), Outputs(N)
    block = steps.run(None, 0, outputs=outputs)
    outputs.add(block.n_rows)
    assert len(block.losses) == n_steps
    parts = [to_host(part) for part in outputs.parts(also_last=True)]
    assert [len(part) for part in parts] == [17] * (n_steps * SIZE // 17) + [n_steps * SIZE % 17]


# -- what is not finite -----------------------------------------------------------------------


def in_order(steps):
    """Train one epoch, as many steps at once as possible."""
    done = 0
    with active(steps.model.device), np.errstate(all="ignore"):
        while done < steps.batches.n_batches:
            done += len(steps.run(None, done).losses)


@pytest.mark.parametrize("batch", [0, 3])
@pytest.mark.parametrize("layers", ["relu", "batch norm"])
def test_a_failing_step_changes_nothing(batch, layers, fake_device, limits):
    limits("seconds of a block of steps", 1e9)
    X, y = data()
    X[batch * SIZE + 1, 0] = np.nan
    states, errors = [], []
    for kind in ("eager", "device"):
        model = Model(LAYERS[layers](), loss="log_loss", random_state=0, dtype="float64", device=fake_device)
        steps = KINDS[kind](model, Batches(X, y, None, SIZE, model.dtype, model.device), True)
        with pytest.raises(NonFiniteError) as error:
            in_order(steps)
        assert model.progress.step == batch
        states.append(model.state)
        errors.append(error.value)
    assert str(errors[0]) == str(errors[1])
    assert states[0].progress == states[1].progress
    # Before a batch norm the gradient of a bias is only rounding.
    for expected, found in (
        (states[0].parameters, states[1].parameters),
        (states[0].buffers, states[1].buffers),
    ):
        for name, array in expected.items():
            np.testing.assert_allclose(to_host(found[name]), to_host(array), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["X", "0.weight", "0.bias", "2.weight", "2.bias"])
def test_what_is_not_finite_is_seen_through_a_relu(where, value, fake_device, limits):
    """In float32 the product's launch has the ReLU, which makes 0 of NaN."""
    limits("seconds of a block of steps", 1e9)
    X, y = data(dtype=np.float32)
    network = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
    model = Model(network, loss="log_loss", random_state=0, dtype="float32", device=fake_device)
    if where == "X":
        X[:, 0] = value
    model.materialize(X)
    if where != "X":
        values = {name: to_host(x).copy() for name, x in model.parameters.items()}
        values[where].reshape(-1)[0] = value
        model.module.load_state_dict({name: to_device(x, fake_device) for name, x in values.items()})
    steps = DeviceSteps(model, Batches(X, y, None, SIZE, model.dtype, model.device), True)
    assert "'relu'" in steps.program_for(SIZE).source
    with pytest.raises(NonFiniteError), np.errstate(all="ignore"):
        in_order(steps)
    assert model.progress.step == 0


def test_what_overflows_only_when_squared_goes_on(fake_device):
    X, y = data("squared_error", np.float32)
    settings = {"loss": "squared_error", "optimizer": SGD(1e-30), "dtype": "float32"}
    y = y * np.float32(1e17)
    y[0] = 1e18
    model, losses, _ = trained(
        "device", nn.Linear(6, 3), 1e3 * X, y, device=fake_device, epochs=1, order=None, **settings
    )
    assert np.isfinite(losses).all()
    assert model.progress.step == 7


def test_without_the_check_steps_go_on(fake_device):
    X, y = data()
    X[0, 0] = np.nan
    model = Model(LAYERS["tanh"](), loss="log_loss", random_state=0, device=fake_device)
    batches = Batches(X, y, None, SIZE, model.dtype, model.device)
    in_order(DeviceSteps(model, batches, False))
    assert model.progress.step == 7
    assert all(np.isnan(to_host(array)).any() for array in model.parameters.values())


# -- the choice -------------------------------------------------------------------------------


def test_models_on_a_device_take_these_steps(fake_device):
    model = Model(LAYERS["relu"](), loss="log_loss", random_state=0, device=fake_device)
    batches = Batches(*data(), None, SIZE, model.dtype, model.device)
    assert type(steps_for(model, batches, True)) is DeviceSteps


def test_batches_of_zero_weight_are_skipped(fake_device):
    X, y = data()
    weight = np.ones(N)
    weight[2 * SIZE : 4 * SIZE] = 0
    losses = []
    for device in (fake_device, "cpu"):
        model = Model(
            LAYERS["relu"](), loss="log_loss", optimizer="sgd", random_state=0, dtype="float64", device=device
        )
        batches = Batches(X, y, weight, SIZE, model.dtype, model.device)
        history = History()
        settings = Settings(max_iter=3, shuffle=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train(model, batches, history, settings, Accuracy)
        losses.append(history["loss"])
        assert model.progress.step == 15
    np.testing.assert_allclose(*losses, rtol=1e-9)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "alpha", 0.5),
        lambda model: setattr(model, "optimizer", SGD(0.5)),
        lambda model: setattr(model, "loss", "squared_error"),
    ],
    ids=["penalty", "optimizer", "loss"],
)
def test_what_a_callback_assigns_is_followed(change, fake_device):
    class Changes(Callback):
        def on_epoch_end(self, fit):
            if fit.epoch == 1:
                change(fit.model)

    found = []
    X, y = data("squared_error")
    for compiles in (True, False):
        model = Model(
            LAYERS["tanh"](),
            "huber",
            SGD(0.1),
            random_state=0,
            dtype="float64",
            device=fake_device,
            compile=compiles,
        )
        found.append(model.fit(X, y, epochs=3, batch_size=SIZE, callbacks=[Changes()])["loss"])
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64", "float64"])
def test_rows_of_any_dtype_in_float32(kind, together, fake_device):
    """Products of int32 and float32 are float64, and so is the loss that a step reports."""
    rows = np.random.default_rng(0).integers(0, 9, (42, 5)).astype(kind)
    labels = np.arange(42) % 3

    def losses(device):
        models = [Model(nn.Linear(5, 3), "log_loss", random_state=i, device=device) for i in range(2)]
        options = {"epochs": 3, "batch_size": 4, "shuffle": False}
        if together:
            return [history["loss"] for history in fit_many(models, rows, labels, **options)]
        return [model.fit(rows, labels, **options)["loss"] for model in models]

    np.testing.assert_allclose(losses(fake_device), losses("cpu"), rtol=1e-5)


LAUNCHES = {((54, 512, 512, 7), 4096): 10, ((784, 1024, 1024, 10), 8192): 10, ((20, 100, 2), 256): 6}
# Of the arrays that a step's program reads and writes.
NBYTES = {((54, 512, 512, 7), 4096): 122_924_026, ((784, 1024, 1024, 10), 8192): 560_081_210,
          ((20, 100, 2), 256): 649_458}  # fmt: skip
# With products in three parts: launches of the sizes in which a product is large, and bytes of one.
SPLIT = {((54, 512, 512, 7), 4096): 30, ((784, 1024, 1024, 10), 8192): 30}
SPLIT_NBYTES = 1_795_287_354
# With arrays between products in bfloat16: parameters have a copy, and rows are rounded as they are gathered.
HALF = {((54, 512, 512, 7), 4096): 11, ((784, 1024, 1024, 10), 8192): 11}
HALF_NBYTES = {((54, 512, 512, 7), 4096): 68_052_058, ((784, 1024, 1024, 10), 8192): 321_317_274}
GELUS = {((54, 512, 512, 7), 4096): 10 + 2, ((20, 100, 2), 256): 6 + 1}  # a launch more for each
# Of 50 time steps. Each takes two launches forward and two back.
RECURRENT = {"RNN": 219, "LSTM": 222, "GRU": 223}


def recurrent_steps(name, n_steps, device, dtype="float32"):
    """Return the training steps of a recurrent layer with a linear one."""
    layers = getattr(nn, name)(32, 128, returns="last"), nn.Linear(128, 10)
    X, y = np.zeros((6 * 64, n_steps, 32), np.float32), np.arange(6 * 64) % 10
    settings = {"optimizer": "adam", "random_state": 0, "device": device, "dtype": dtype}
    return steps_in(Model(nn.Sequential(*layers), "log_loss", **settings), X, y, 64)


def steps_in(model, X, y, size):
    """Return the training steps of a model in batches of a size."""
    batches = Batches(X, y, None, size, model.dtype, model.device)
    model.materialize(batches.X)
    return DeviceSteps(model, batches, True)


def steps_of(widths, size, device, dtype="float32", activation=nn.ReLU):
    layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), activation())][:-1]
    X, y = np.zeros((6 * size, widths[0]), np.float32), np.arange(6 * size) % widths[-1]
    settings = {"optimizer": Adam(), "alpha": 1e-4, "random_state": 0, "dtype": dtype}
    return steps_in(Model(nn.Sequential(*layers), "log_loss", device=device, **settings), X, y, size)


def outputs_of(steps):
    """Return an empty buffer for the outputs of an epoch."""
    outputs, n_samples = Outputs(steps.batches.n_samples), steps.batches.n_samples
    outputs.free(n_samples, steps._output.shape[1:], np.float32, backend(steps.model.device.kind).xp)
    return outputs


@pytest.fixture
def _idle(monkeypatch):
    """Kernels and products that do nothing; their programs are forgotten."""
    forget_programs()
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 33)
    with kernels.recorded(), fake.idle():
        yield
    forget_programs()


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step_with_nothing_in_the_launches_of_products(widths, size):
    """As where there is no cuBLASLt: bias with ReLU, penalties, the last layer, and the last sums."""
    layers = len(widths) - 1
    with active(Device("fake")), fake.plain_products():
        steps, counts = steps_of(widths, size, Device("fake")), {}
        order = np.arange(6 * size)
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    more = layers - 1 + layers + 3 + 1
    assert counts[5].launches - counts[2].launches == 3 * (LAUNCHES[widths, size] + more)


def test_the_asked_launches_and_bytes():
    large = [key for key in LAUNCHES if len(key[0]) == 4]
    assert [LAUNCHES[key] for key in large] == [10, 10]
    assert NBYTES[large[1]] <= 580e6
    assert all(HALF_NBYTES[key] < 0.58 * NBYTES[key] for key in large)


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step(widths, size, dtype):
    steps, order, counts = steps_of(widths, size, Device("fake"), dtype), np.arange(6 * size), {}
    with active(Device("fake")):
        outputs = outputs_of(steps)
        for n_steps in (1, 2, 5):  # at first the order is put on the device
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, outputs)
    is_half = dtype == "bfloat16" and (widths, size) in HALF
    launches = (LAUNCHES | HALF if is_half else LAUNCHES)[widths, size]
    assert counts[5].launches - counts[2].launches == 3 * launches
    assert counts[5].allocations == counts[2].allocations
    assert counts[5].reads == counts[2].reads == 1
    # The gradient of X is not computed, and of the last layer, that of the weights is a product.
    assert counts[5].precisions == {HALVES if is_half else dtype: 5 * (3 * (len(widths) - 1) - 3)}


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), LAUNCHES)
def test_a_step_with_products_in_three_parts(widths, size):
    steps, order, counts = steps_of(widths, size, Device("fake"), "tf32x3"), np.arange(6 * size), {}
    with active(Device("fake")):
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    assert counts[5].launches - counts[2].launches == 3 * (LAUNCHES | SPLIT)[widths, size]
    assert counts[5].allocations == counts[2].allocations
    # Forward, of gradients and of weights; the last layer is narrow, and there is no gradient of X.
    parts = {"tf32": 5 * 5 * 3, "tf32x3": 5 * 3} if (widths, size) in SPLIT else {"tf32x3": 5 * 3}
    assert counts[5].precisions == parts


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize(("widths", "size"), GELUS)
def test_a_step_with_gelu(widths, size, approximate):
    order, counts = np.arange(6 * size), {}
    steps = steps_of(widths, size, Device("fake"), activation=lambda: nn.GELU(approximate))
    with active(Device("fake")):
        for n_steps in (1, 2, 5):
            with fake.counted() as counts[n_steps]:
                steps._issue(order, 0, size, n_steps, None)
    assert counts[5].launches - counts[2].launches == 3 * GELUS[widths, size]
    assert counts[5].allocations == counts[2].allocations


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("dtype", ["float32", "tf32"])
@pytest.mark.parametrize("n_steps", [50, 53])
@pytest.mark.parametrize("name", RECURRENT)
def test_a_step_of_a_recurrent_network(name, n_steps, dtype):
    steps, counts = recurrent_steps(name, n_steps, Device("fake"), dtype), {}
    with active(Device("fake")):
        for n in (1, 2, 5):
            with fake.counted() as counts[n]:
                steps._issue(None, 0, 64, n, None)
    assert counts[5].launches - counts[2].launches == 3 * (RECURRENT[name] + 4 * (n_steps - 50))
    assert counts[5].allocations == counts[2].allocations
    assert counts[5].reads == counts[2].reads == 1
    # Of all inputs, of the states, of gradients: two for each step, two for weights, two of the linear layer.
    assert counts[5].precisions == {dtype: 5 * (1 + 2 * n_steps + 2 + 3)}


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(("widths", "size"), NBYTES)
def test_the_bytes_of_a_step(widths, size):
    program = steps_of(widths, size, Device("fake")).program_for(size)
    program.run()
    with fake.counted() as counts:
        program.run()
    assert counts.nbytes == NBYTES[widths, size]


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize(
    ("dtype", "widths", "size", "nbytes"),
    [
        ("tf32x3", (784, 1024, 1024, 10), 8192, SPLIT_NBYTES),
        *[("bfloat16", *key, nbytes) for key, nbytes in HALF_NBYTES.items()],
        ("bfloat16", (20, 100, 2), 256, NBYTES[(20, 100, 2), 256]),
    ],
)
def test_the_bytes_of_a_step_in_other_precisions(dtype, widths, size, nbytes):
    program = steps_of(widths, size, Device("fake"), dtype).program_for(size)
    program.run()
    with fake.counted() as counts:
        program.run()
    assert counts.nbytes == nbytes


def test_the_documents_state_the_counts():
    text = (ROOT / "docs" / "gpu.md").read_text()
    for (widths, size), launches in LAUNCHES.items():
        name, nbytes = "-".join(map(str, widths)), NBYTES[widths, size] / 1e6
        assert f"| {name}, batches of {size} | {launches} | {nbytes:.3g} MB |" in text
    [launches] = set(SPLIT.values())
    assert f"the first two {launches} launches" in text.replace("\n", " ")
    assert f"the second {SPLIT_NBYTES / 1e6:,.0f} MB" in text.replace("\n", " ")
    [launches] = set(HALF.values())
    nbytes = " and ".join(f"{each / 1e6:.0f}" for each in HALF_NBYTES.values())
    assert f"it takes them {launches}, and {nbytes} MB" in text.replace("\n", " ")
    assert f"takes {RECURRENT['LSTM']} for 50 steps" in text.replace("\n", " ")


# Steps of these allocate: their primitives take indices that are arrays, or work in arrays that no plan
# knows of (`compile/cuda/_executor.py`). Everything else can be captured.


RNG = np.random.default_rng(0)
X, CLASSES = RNG.normal(size=(50, 4)).astype("f4"), RNG.integers(0, 3, 50)
ADVICE = r"Lower batch_size, or use a smaller network or dtype='float32' \(Out of memory allocating"
FREE = r"[\d,]+ bytes are free\."


def fitted(estimator):
    with unconverged():
        return estimator.fit(X, CLASSES)


def test_an_estimator_is_as_it_was_whenever_memory_ends():
    estimator = MLPClassifier(
        (5,), max_iter=2, batch_size=16, random_state=0, device="fake", validation_fraction=0.2
    )
    before = fitted(estimator).predict_proba(X)
    count, messages, causes = 0, set(), set()
    estimator.set_params(hidden_layer_sizes=(7,))
    while True:
        with fake.allocating(count):
            try:
                fitted(estimator)
                break
            except DeviceMemoryError as error:
                messages.add(re.sub(r"[\d,]+ bytes", "N bytes", str(error)))
                causes.add(type(error.__cause__))
        assert [c.shape for c in estimator.coefs_] == [(4, 5), (5, 3)]
        np.testing.assert_array_equal(estimator.predict_proba(X), before)
        count += 1
    assert count > 20
    assert causes == {fake.FakeOutOfMemoryError}
    assert [c.shape for c in estimator.coefs_] == [(4, 7), (7, 3)]
    assert all(re.search(ADVICE, message) for message in messages)
    assert any("where the plan of a step on 16 rows takes N bytes" in message for message in messages)


def steps_on(device, size=8, rows=X):
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, device=device)
    return steps_in(model, rows, CLASSES, size)


def test_the_message(fake_device):
    steps = steps_on(fake_device)
    nbytes = steps.program_for(8).nbytes
    with fake.allocating(0), pytest.raises(DeviceError) as error:
        steps.run(None, 0)
    assert re.fullmatch(
        rf"device 'fake:0' is out of memory: in a fit with batches of 8 rows, for a step, where the plan of "
        rf"a step on 8 rows takes {nbytes:,} bytes, .*; {FREE} {ADVICE} .*\)",
        str(error.value),
    )


def test_a_block_ends_before_the_step_that_has_no_memory(fake_device, monkeypatch, limits):
    """The rows are on the device, but do not fit there in the dtype of steps: each takes memory for some."""
    limits("seconds of a block of steps", 1e9)
    expected = steps_on(fake_device)
    for first in range(3):
        expected.run(None, first, 1)
    monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    steps = steps_on(fake_device, rows=to_device(X.astype("f8"), fake_device))
    sending = steps._rows.send

    def failing(order, start, n_rows, slots):
        with fake.allocating(0) if start >= 24 else nullcontext():
            sending(order, start, n_rows, slots)

    monkeypatch.setattr(steps._rows, "send", failing)
    assert len(steps.run(None, 0).losses) == 3
    with pytest.raises(DeviceMemoryError):
        steps.run(None, 3)
    assert steps.model.progress == expected.model.progress
    for name, values in expected.model.parameters.items():
        np.testing.assert_array_equal(to_host(steps.model.parameters[name]), to_host(values))


def test_rows_stay_on_the_host_if_free_memory_is_in_pieces(fake_device):
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, device=fake_device)
    batches = Batches(X, CLASSES, None, 8, model.dtype, model.device)
    model.materialize(batches.X)
    failing = fake.FakeBackend.from_host

    def full(self, array, device):
        with fake.allocating(0) if np.shape(array) == X.shape else nullcontext():
            return failing(self, array, device)

    with pytest.MonkeyPatch.context() as patch, active(fake_device):
        patch.setattr(fake.FakeBackend, "from_host", full)
        steps = DeviceSteps(model, batches, True)
    assert steps._rows._X is X
    assert len(steps.run(None, 0).losses)


def test_compiled_functions_and_arrays(fake_device):
    x = to_device(np.ones((30, 5)), fake_device)
    compiled = compile(lambda x: (x @ x.T) * 2.0, (x,))
    said = rf"plan of a compiled function takes {compiled.nbytes:,} bytes, .*; {FREE} {ADVICE}"
    with fake.allocating(1), pytest.raises(DeviceMemoryError, match=said):
        compiled(x)
    compiled(x)
    with fake.allocating(0):
        with pytest.raises(DeviceMemoryError, match=r"an array of shape \(2, 3\) takes 24 bytes;"):
            backend("fake").zeros((2, 3), "float32", fake_device)
        with pytest.raises(DeviceMemoryError, match=r"an array of shape \(7,\) takes 56 bytes;"):
            to_device(np.ones(7), fake_device)


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


CASES_PERSISTENT = {
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
@pytest.mark.parametrize("case", CASES_PERSISTENT)
def test_values_are_those_of_eager_steps(case, dtype, tolerance, fake_device, launches):
    layers, settings = CASES_PERSISTENT[case]
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
def test_rows_of_persistent_blocks(how, fake_device, launches):
    assert_same_training(
        LAYERS["relu"], *data("squared_error"), loss="squared_error", **how, device=fake_device
    )
    assert launches


def persistent_steps(fake_device, layers="dropout", dtype="float32"):
    model = Model(LAYERS[layers](), "log_loss", Adam(1e-2), alpha=1e-3, random_state=0, dtype=dtype,
                  device=fake_device)  # fmt: skip
    return DeviceSteps(model, Batches(*data(dtype=dtype), None, SIZE, model.dtype, model.device), True)


@pytest.mark.parametrize("n_steps", [1, 6])
def test_a_block_is_one_launch_and_the_host_looks_once(n_steps, fake_device, launches, limits):
    limits("seconds of a block of steps", 1e9)
    limits("steps of a block on a device", n_steps)
    steps = persistent_steps(fake_device)
    order = np.arange(N)
    for _ in range(2):  # at first the order is put on the device
        with fake.counted() as counts, np.errstate(all="ignore"):
            block = steps.run(order, 0)
        assert len(block.losses) == n_steps
    assert launches == [n_steps, n_steps]
    assert (counts.kernels, counts.reads) == (1, 1)


OPTED_IN = 232_448  # bytes of shared memory that a block of an H100 can ask for


@pytest.mark.usefixtures("_idle")
@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16"])
def test_all_steps_of_c_are_one_launch(dtype):
    with fake.sharing(OPTED_IN), active(Device("fake")):
        steps = steps_of((20, 100, 2), 256, Device("fake"), dtype)
        order, outputs = np.arange(6 * 256), outputs_of(steps)
        for _ in range(2):
            with fake.counted() as counts:
                steps._issue(order, 0, 256, 6, outputs)
    assert (counts.kernels, counts.reads) == (1, 1)


def flats_of(fake_device, seconds, limits):
    limits("seconds of a block of steps", seconds)
    steps, outputs, found = persistent_steps(fake_device), Outputs(N), []
    for seed in range(2):
        order, done = np.random.default_rng(seed).permutation(N), 0
        while done < steps.batches.n_batches:
            block = steps.run(order, done, outputs=outputs)
            outputs.add(block.n_rows)
            found += [block.losses, *map(to_host, outputs.parts(also_last=True))]
            done += len(block.losses)
    flat, slots = steps.model.memory.flat_buffers()
    return [*map(to_host, (flat, *slots.values())), *found]


def test_bits_do_not_depend_on_the_run_or_on_the_blocks(fake_device, launches, limits):
    first, again, in_pieces = (flats_of(fake_device, seconds, limits) for seconds in (1e9, 1e9, 1e-9))
    assert launches.count(6) == 4
    assert launches.count(1) == 2 * 2 + 14  # the last batch is shorter
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(first[:3], in_pieces[:3], strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("batch", [0, 3])
def test_a_failing_step_of_a_persistent_block_changes_nothing(batch, fake_device, launches, limits):
    limits("seconds of a block of steps", 1e9)
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


def test_one_of_many_that_fails_ends_as_in_launches_of_each_step(fake_device, launches, limits):
    limits("seconds of a block of steps", 1e9)
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
            in_order(persistent_steps(fake_device, "relu"))
        assert bool(launches) == is_whole


def test_rows_that_stay_on_the_host_are_sent_step_by_step(fake_device, launches, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 0)
    trained("device", LAYERS["relu"](), *data(), device=fake_device, epochs=1)
    assert not launches


ROWS_SCORED = 1000


def arrays(kind, columns, dtype, target, seed=0):
    rng = np.random.default_rng(seed)
    output = rng.integers(-3, 4, size=(ROWS_SCORED, columns)).astype(dtype)  # with equal ones
    if kind == "classes":
        return output, rng.integers(columns, size=ROWS_SCORED).astype(target)
    return output, rng.integers(2, size=(ROWS_SCORED, columns)).astype(target)


def scored(output, target, threshold=0.0):
    score = Accuracy(threshold)
    for part in (slice(0, 300), slice(300, 301), slice(301, ROWS_SCORED)):
        score.add(output[part], target[part], None)
    return score


CASES_SCORES = [
    *[("classes", n, target) for n in (2, 3, 70) for target in ("int32", "int64")],
    *[("labels", n, target) for n in (1, 4) for target in ("float32", "float64")],
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "columns", "target"), CASES_SCORES)
def test_it_is_that_of_the_host(kind, columns, dtype, target, fake_device):
    output, labels = arrays(kind, columns, dtype, target)
    for threshold in (0.0, -1.0):
        with fake.counted() as counts:
            there = scored(to_device(output, fake_device), to_device(labels, fake_device), threshold)
        assert counts.kernels == counts.reads == 3
        assert there.state() == scored(output, labels, threshold).state()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("kind", "columns", "target"), [("classes", 3, "int64"), ("labels", 2, "float32")])
def test_what_is_not_finite_has_no_score(bad, kind, columns, target, fake_device):
    output, labels = arrays(kind, columns, "float32", target)
    output[700, columns - 1] = bad
    assert np.isnan(scored(to_device(output, fake_device), to_device(labels, fake_device)).result())


@pytest.mark.parametrize("wrong", [-1, 3])
def test_a_target_that_is_no_class_is_named(wrong, fake_device):
    output, labels = arrays("classes", 3, "float32", "int64")
    labels[400] = wrong
    with pytest.raises(ValueError, match=f"Accuracy got the class number {wrong}: expected 0 to 2"):
        scored(to_device(output, fake_device), to_device(labels, fake_device))


def test_other_arrays_are_scored_by_the_host(fake_device):
    output, labels = arrays("classes", 3, "float32", "int64")
    assert counted(output, labels, 0.0) is None
    there = to_device(output, fake_device), to_device(labels, fake_device)
    assert counted(there[0], labels, 0.0) is None
    assert counted(there[0][:, ::2], there[1], 0.0) is None
    assert counted(there[0], there[1][:10], 0.0) is None
    single = to_device(output[:, :1], fake_device)
    assert counted(single, there[1], 0.0) is None  # labels of one output
    weight = np.linspace(0, 1, ROWS_SCORED)
    weighted = Accuracy()
    weighted.add(*there, weight)
    expected = Accuracy()
    expected.add(output, labels, weight)
    assert weighted.state() == expected.state()


# -- rows that begin at multiples of 16 bytes -------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["relu", "batch norm", "images", "mixup"])
def test_padded_rows(name, weighted, fake_device, limits):
    """Where products alone read them; their results are those of other rows."""
    X, y = data(dtype="float32")
    weight = np.random.default_rng(1).random(N).astype("float32") if weighted else None
    found = {}
    for least in (1, 1 << 16):
        limits("elements from which rows are padded", least)
        model, losses, outputs = trained(
            "device", LAYERS[name](), X, y, weight, device=fake_device, dtype="float32"
        )
        found[least] = [*map(to_host, model.parameters.values()), losses, outputs]
    for padded, plain in zip(found[1], found[1 << 16], strict=True):
        np.testing.assert_allclose(padded, plain, rtol=2e-5, atol=1e-6)
    limits("elements from which rows are padded", 1)
    model = Model(LAYERS[name](), "log_loss", random_state=0, dtype="float32", device=fake_device)
    batches = Batches(X, y, weight, SIZE, model.dtype, model.device)
    model.materialize(batches.X)
    width = DeviceSteps(model, batches, True).program_for(SIZE).slots.X.shape[1]
    assert width == (8 if name in ("relu", "batch norm") else 6)


@pytest.mark.parametrize(
    ("function", "is_apart"),
    [
        (lambda w, x: (w - w * ops.sum(x), ops.sum(x)), True),
        (lambda w, x: (w - x[0] * ops.sum(x), ops.sum(x)), False),  # which reads x
        (lambda w, x: (w - ops.sum(x, 0), ops.sum(x)), False),  # which is no loop over elements
    ],
)
def test_the_last_kernel(function, is_apart, fake_device):
    w, x = np.arange(40.0), np.random.default_rng(0).normal(size=(3, 40))
    compiled = compile(function, (to_device(w, fake_device), to_device(x, fake_device)), donate=(0,))
    found = before_last(compiled, [compiled.slots[1]], compiled.returns[1:])
    assert (found is not None) == is_apart
    compiled.slots[0][...], compiled.slots[1][...] = (to_device(each, fake_device) for each in (w, x))
    if found is not None:
        run, kernel, arrays = found
        run()
        np.testing.assert_array_equal(to_host(compiled.slots[0]), w)
        backend("fake").kernels(kernel.text, [kernel.name], fake_device)[0]((1,), (32,), tuple(arrays))
        np.testing.assert_allclose(to_host(compiled.slots[0]), w - w * x.sum(), rtol=1e-13)
