"""Many fits on a device as one program: what goes wrong, what cannot be one program, and what that costs."""

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest

from sknet import Model, nn, ops
from sknet.callbacks import Callback, Checkpoint
from sknet.compile._compile import forget_programs
from sknet.device import to_host
from sknet.engine import _many, _runners, fit_many
from sknet.engine._many import run_stacked, run_together
from sknet.engine._stack import Stack
from sknet.exceptions import DeviceMemoryError, NonFiniteError
from sknet.optim import LBFGS, SGD, Adam
from tests.callbacks.helpers import unconverged
from tests.devices import fake
from tests.engine.loop.test_device_counts import LAUNCHES
from tests.engine.loop.test_stacks import (
    FAMILIES,
    LABELS,
    MEMBERS,
    RATES,
    RNG,
    N,
    X,
    assert_all_same,
    assert_same,
    family,
    fitted_alone_and_together,
    network,
    on,
)
from tests.project import ROOT


def made(device, of=RATES, count=MEMBERS):
    make = on(device, family(**of)[0])
    return [make(i) for i in range(count)]


def no_threads_are_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]


# -- errors -------------------------------------------------------------------------------------


def diverges(of, rate=1.7e308):
    return {"of": lambda i: {"optimizer": SGD(rate if i == of else 0.01 * (i + 1))}}


@pytest.mark.parametrize("long_blocks", [True, False])
def test_one_that_diverges_raises_its_own_error_and_the_others_are_unaffected(
    long_blocks, sizes, fake_device, monkeypatch
):
    if long_blocks:
        monkeypatch.setattr(_runners, "SECONDS", 1e9)

    def fit(model):
        try:
            return model.fit(X, LABELS, epochs=4, batch_size=16)
        except NonFiniteError as error:
            return error

    alone, joint = made(fake_device, diverges(2)), made(fake_device, diverges(2))
    expected = [fit(model) for model in alone]
    found = run_stacked([lambda model=model: fit(model) for model in joint], [True] * MEMBERS)
    assert sizes[0] == MEMBERS
    assert str(found[2]) == str(expected[2])
    assert joint[2].progress == alone[2].progress
    np.testing.assert_allclose(to_host(joint[2].weights().flat), to_host(alone[2].weights().flat))
    for i in (0, 1, 3):
        assert_same(joint[i], found[i], alone[i], expected[i])


def test_the_first_error_ends_all(fake_device):
    models = made(fake_device, diverges(1))
    with pytest.raises(NonFiniteError, match="training diverged in epoch 1, batch 2 of 4") as error:
        fit_many(models, X, LABELS, epochs=10**5, batch_size=16)
    assert error.value.__notes__ == ["in fit 1 of 4, counted from 0"]
    assert no_threads_are_left()
    for model in models:
        assert model.progress.step >= 1
        assert np.isfinite(to_host(model.weights().flat)).all()
    models[0].step(X, LABELS)


class Fails(Callback):
    def on_epoch_end(self, fit):
        if fit.epoch == 2 and fit.model.optimizer.lr == 0.02:
            raise RuntimeError("as told")


def test_errors_of_callbacks_and_of_schedules_are_of_one_fit(fake_device):
    def fails_later(progress):
        if progress.step == 5:
            raise RuntimeError("as told")
        return 0.1

    with pytest.raises(RuntimeError, match="as told") as error:
        fit_many(made(fake_device), X, LABELS, epochs=10**5, callbacks=[Fails()])
    assert error.value.__notes__ == ["in fit 1 of 4, counted from 0"]
    models = [
        Model(network(), "log_loss", SGD(fails_later if i == 2 else 0.1), random_state=i, device=fake_device)
        for i in range(4)
    ]
    with pytest.raises(RuntimeError, match="as told") as error:
        fit_many(models, X, LABELS, epochs=10**5, batch_size=16)
    assert error.value.__notes__ == ["in fit 2 of 4, counted from 0"]
    assert no_threads_are_left()


def test_ctrl_c_ends_all(fake_device):
    models, begun = made(fake_device), []

    class Interrupts(Callback):
        def on_epoch_end(self, fit):
            if not begun:
                begun.append(fit.model)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit_many(models, X, LABELS, epochs=10**5, callbacks=[Interrupts()])
    assert len(begun) == 1
    assert no_threads_are_left()
    assert len({model.progress.step for model in models}) == 1
    for model in models:
        model.fit(X, LABELS, epochs=1)


def test_a_second_ctrl_c_does_not_wait_for_a_callback(fake_device):
    begun = []

    class Hangs(Callback):
        def on_epoch_end(self, fit):
            begun.append(fit)
            for _ in range(2 if len(begun) == 1 else 0):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)

    with pytest.raises(KeyboardInterrupt):
        fit_many(made(fake_device), X, LABELS, epochs=10**5, callbacks=[Hangs()])
    assert no_threads_are_left()


# -- memory -------------------------------------------------------------------------------------


def test_what_memory_has_no_room_for_is_a_second_stack(sizes, fake_device, monkeypatch):
    fitted_alone_and_together(fake_device, RATES)
    assert sizes == [MEMBERS]
    monkeypatch.setattr(_many, "SHARE_OF_STACK", 0.04)
    assert_all_same(*fitted_alone_and_together(fake_device, RATES, count=7))
    assert len(sizes) > 2
    assert sum(sizes[1:]) >= 6  # one that is left over is alone
    assert max(sizes[1:]) < 7


def test_without_room_for_two_each_is_alone(sizes, fake_device, monkeypatch):
    monkeypatch.setattr(_many, "SHARE_OF_STACK", 0.0)
    assert_all_same(*fitted_alone_and_together(fake_device, RATES))
    assert sizes == []


def test_wherever_memory_ends_all_is_done_or_an_error_says_what_to_lower(fake_device):
    wanted = made(fake_device)
    fit_many(wanted, X, LABELS, epochs=2, batch_size=16)
    messages, count = [], 0
    while True:
        models = made(fake_device)
        try:
            with fake.allocating(count):  # in each thread
                fit_many(models, X, LABELS, epochs=2, batch_size=16)
            break
        except DeviceMemoryError as error:
            messages.append(str(error))
        assert no_threads_are_left()
        for model in models:
            assert np.isfinite(to_host(model.weights().flat)).all()
        count += 7
    assert len(messages) > 5
    assert all("Lower batch_size, or use a smaller network" in message for message in messages)
    for model, other in zip(models, wanted, strict=True):
        np.testing.assert_allclose(to_host(model.weights().flat), to_host(other.weights().flat))


# -- what cannot be one program -------------------------------------------------------------------


def test_others_are_fitted_as_ever_in_the_same_call(sizes, fake_device):
    layers = {
        "sorted": lambda: network(nn.Lambda(lambda x: ops.sort(x) + ops.argsort(x))),
        "recurrent": lambda: nn.Sequential(nn.Unflatten(1, (3, 2)), nn.LSTM(2, 3, returns="last")),
        "scheduled": lambda: network(nn.Dropout(lambda progress: 0.1)),
    }

    def make(i):
        settings = {"loss": "log_loss", "random_state": i, "dtype": "float64", "device": fake_device}
        if i < 3:
            return Model(network(nn.Tanh()), optimizer=Adam(0.01 * (i + 1)), **settings)
        if i < 6:
            return Model(list(layers.values())[i - 3](), **settings)
        if i == 6:
            return Model(network(), compile=False, **settings)
        if i == 7:
            return Model(network(), optimizer=LBFGS(), **settings)
        return Model(network(), **{**settings, "device": "cpu"})

    alone, joint = ([make(i) for i in range(9)] for _ in range(2))
    with unconverged():
        expected = [model.fit(X, LABELS, epochs=2, batch_size=16) for model in alone]
        found = fit_many(joint, X, LABELS, epochs=2, batch_size=16)
    assert_all_same(joint, found, alone, expected)
    assert sizes == [3]


@pytest.mark.parametrize(
    "rows",
    [np.arange(60), np.zeros(0, int), np.arange(N) > 3, [[0], [1]]],
    ids=["too many", "none", "mask", "matrix"],
)
def test_parts_that_are_no_rows_are_those_of_single_fits(rows, fake_device):
    """What `take` makes of them, errors included."""

    def outcome(count, device):
        models = [Model(network(), "log_loss", random_state=i, device=device) for i in range(count)]
        try:
            return [history["loss"] for history in fit_many(models, X, LABELS, rows=[rows] * count, epochs=1)]
        except Exception as raised:
            return type(raised)

    found, expected = outcome(2, fake_device), outcome(2, "cpu")
    if isinstance(expected, list):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        assert found is expected


def test_two_structures_are_two_stacks(sizes, fake_device):
    def make(i):
        return Model(
            nn.Sequential(nn.Linear(6, 4 + i % 2), nn.ReLU(), nn.Linear(4 + i % 2, 3)), "log_loss",
            random_state=i, dtype="float64", device=fake_device,
        )  # fmt: skip

    alone, joint = ([make(i) for i in range(5)] for _ in range(2))
    expected = [model.fit(X, LABELS, epochs=2) for model in alone]
    assert_all_same(joint, fit_many(joint, X, LABELS, epochs=2), alone, expected)
    assert sizes == [3, 2]


def test_embeddings_take_rows_of_their_own_tables(sizes, fake_device):
    codes = RNG.integers(0, 7, size=(N, 2))

    def make(i):
        layers = nn.Sequential(nn.Embedding(7, 4), nn.Flatten(), nn.Linear(8, 3))
        return Model(layers, "log_loss", random_state=i, dtype="float64", device=fake_device)

    alone, joint = ([make(i) for i in range(3)] for _ in range(2))
    expected = [model.fit(codes, LABELS, epochs=2, batch_size=16) for model in alone]
    assert_all_same(joint, fit_many(joint, codes, LABELS, epochs=2, batch_size=16), alone, expected)
    assert sizes == [3]


def test_several_inputs(sizes, fake_device):
    class Two(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(2, 3), nn.Linear(4, 3)

        def forward(self, left, right):
            return self.a(left) + self.b(right)

    def make(i):
        return Model(Two(), "log_loss", random_state=i, dtype="float64", device=fake_device)

    inputs = {"left": X[:, :2], "right": X[:, 2:].astype("f4")}
    alone, joint = ([make(i) for i in range(3)] for _ in range(2))
    expected = [model.fit(inputs, LABELS, epochs=2) for model in alone]
    assert_all_same(joint, fit_many(joint, inputs, LABELS, epochs=2), alone, expected)
    assert sizes == [3]


@pytest.mark.filterwarnings("ignore:.* was written where rounding may differ")
def test_a_checkpoint_of_a_member_is_resumed_alone(sizes, fake_device, tmp_path):
    rows = [np.arange(40), np.arange(10, 50)]
    whole, begun, resumed = (made(fake_device, count=2) for _ in range(3))
    expected = [model.fit(X[part], LABELS[part], epochs=4) for model, part in zip(whole, rows, strict=True)]
    fits = [
        lambda i=i: begun[i].fit(
            X[rows[i]], LABELS[rows[i]], epochs=2, callbacks=[Checkpoint(tmp_path / str(i))]
        )
        for i in range(2)
    ]
    run_stacked(fits, [True, True])
    assert sizes == [2]
    for i, (model, part) in enumerate(zip(resumed, rows, strict=True)):
        found = model.fit(
            X[part], LABELS[part], epochs=4, callbacks=[Checkpoint(tmp_path / str(i))],
            resume_from=tmp_path / str(i),
        )  # fmt: skip
        assert_same(model, found, whole[i], expected[i])


def test_fits_within_a_fit_take_no_turns(fake_device):
    class Fits(Callback):
        def on_fit_end(self, fit):
            fit_many(made(fake_device, count=2), X, LABELS, epochs=1)

    assert_all_same(*fitted_alone_and_together(fake_device, RATES, callbacks=[Fits()]))


def test_one_thread_is_enough(sizes, fake_device):
    models = made(fake_device)
    fit_many(models, X, LABELS, epochs=1, n_jobs=1)
    assert sizes == [MEMBERS]
    run_together([lambda: fit_many(models, X, LABELS, epochs=1), lambda: None], 2)
    assert sizes == [MEMBERS] * 2


# -- what a step costs ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "most"), [("rates", 17), ("penalties", 23), ("dropout", 17), ("running means", 30)]
)
def test_a_step_of_many_has_as_many_launches_as_one_of_few(name, most, fake_device, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 33)
    make, _ = FAMILIES[name]

    def launches(count, batches):
        models = [on(fake_device, make)(i) for i in range(count)]
        rows = np.arange(10 * batches) % N
        with fake.counted() as counts:
            if count == 1:
                models[0].fit(X[rows], LABELS[rows], epochs=1, batch_size=10)
            else:
                fit_many(models, X[rows], LABELS[rows], epochs=1, batch_size=10)
        return counts

    def of_a_step(count):
        few, more = launches(count, 20), launches(count, 40)
        assert more.allocations <= few.allocations
        assert more.reads == few.reads
        return (more.launches - few.launches) / 20

    assert of_a_step(50) == of_a_step(3) == most


def test_the_documents_state_the_launches(fake_device, monkeypatch):
    """Of 50 networks 20-100-2 with Adam and a penalty, in batches of 256 rows, whose outputs are scored."""
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 40)
    layers = nn.Sequential(nn.Linear(20, 100), nn.ReLU(), nn.Linear(100, 2))
    settings = {"alpha": 1e-4, "dtype": "float32", "device": fake_device}

    def launches_of(batches):
        models = [
            Model(layers.copy(), "log_loss", Adam(1e-3 * (i + 1)), random_state=i, **settings)
            for i in range(50)
        ]
        X, y = np.zeros((batches * 256, 20), np.float32), np.arange(batches * 256) % 2
        with fake.counted() as counts:
            fit_many(models, X, y, epochs=1, batch_size=256, scores="accuracy")
        return counts.launches

    forget_programs()
    launches = (launches_of(8) - launches_of(4)) / 4
    forget_programs()
    one = LAUNCHES[(20, 100, 2), 256]
    design, guide = ((ROOT / "docs" / name).read_text() for name in ("gpu.md", "guide/search.md"))
    assert f"is {launches:g} launches, in place of 50 times {one}." in design.replace("\n", " ")
    assert f"{launches:g} launches in place of {50 * one}" in guide.replace("\n", " ")


def test_memory_is_free_as_soon_as_the_fits_have_ended(fake_device, monkeypatch):
    """Without a garbage collection, which nobody asks for if only a device has too little memory."""
    kept = []

    class Seen(Stack):
        def __init__(self, plan):
            super().__init__(plan)
            members = plan.members
            kept.extend(map(weakref.ref, (self, *self._programs.values(), *members, members[0].batches.y)))

    monkeypatch.setattr(_many, "Stack", Seen)
    models = made(fake_device)
    gc.disable()
    try:
        fit_many(models, X, LABELS, epochs=2, batch_size=16)
        assert len(kept) > MEMBERS
        assert not [each() for each in kept if each() is not None]
    finally:
        gc.enable()
