"""Steps on a device: many without synchronizing with the host, with the same results as eager steps."""

import warnings

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.callbacks import Callback
from sknet.device import Device, active, to_device, to_host
from sknet.engine import Accuracy, Batches, History, _device_runner, _runners, fit_many
from sknet.engine._device_runner import DeviceSteps
from sknet.engine._loop import Settings, train
from sknet.engine._runner_cache import steps_for
from sknet.engine._runners import Outputs
from sknet.exceptions import NonFiniteError
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam, AdamW, RMSprop
from sknet.optim.schedules import Cosine
from tests.compile.native import KINDS
from tests.devices import fake
from tests.engine.test_optimizers import AVERAGING, BY_NAME, ELEMENTWISE, name_of
from tests.optim.test_contract import CASES


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


def block_of(fake_device, n_steps, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    monkeypatch.setattr(_device_runner, "MOST_STEPS", n_steps)
    model = Model(LAYERS["dropout"](), loss="log_loss", alpha=1e-3, random_state=0, device=fake_device)
    steps = DeviceSteps(model, Batches(*data(), None, SIZE, model.dtype, model.device), True)
    order = np.arange(N)
    for _ in range(2):  # at first the order is put on the device
        with fake.counted() as counts, np.errstate(all="ignore"):
            block = steps.run(order, 0)
        assert len(block.losses) == n_steps
    return counts


def test_a_step_allocates_nothing_and_the_host_looks_once(fake_device, monkeypatch):
    one, six = block_of(fake_device, 1, monkeypatch), block_of(fake_device, 6, monkeypatch)
    assert one.reads == six.reads == 1
    assert one.allocations == six.allocations
    assert six.kernels - one.kernels == 5 * (one.kernels - 1)  # and one at the end of the block


@pytest.mark.parametrize(("free", "n_steps"), [(0, 3), (1 << 20, 6), (16 * 4 * 8 * SIZE * 3, 4)])
def test_outputs_that_wait_for_scores_have_a_part_of_the_memory(free, n_steps, fake_device, monkeypatch):
    """At least two steps and what a third needs: a part has 17 rows."""
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
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
def test_a_failing_step_changes_nothing(batch, layers, fake_device, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)  # all in one block
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
def test_what_is_not_finite_is_seen_through_a_relu(where, value, fake_device, monkeypatch):
    """In float32 the product's launch has the ReLU, which makes 0 of NaN."""
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
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
