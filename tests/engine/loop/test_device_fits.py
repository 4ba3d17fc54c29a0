"""Fits on a device: many at once, several epochs, rows that are streamed; errors, and what memory holds."""

import gc
import os
import signal
import threading
import time
import weakref

import numpy as np
import pytest
from sklearn.pipeline import Pipeline

from sknet import MLPClassifier, MLPRegressor, Model, nn, ops
from sknet.callbacks import Callback, Checkpoint, EarlyStopping, PrintLog
from sknet.compile._compile import forget_programs
from sknet.device import Feed, active, to_host
from sknet.engine import Batches, _device_runner, _many, _network, _runners, fit_many
from sknet.engine._batches import ComputedRows
from sknet.engine._device_runner import DeviceSteps
from sknet.engine._loop import Validation
from sknet.engine._many import run_stacked, run_together
from sknet.engine._stack import Stack
from sknet.exceptions import DeviceMemoryError, NonFiniteError
from sknet.model_selection import GridSearchCV
from sknet.model_selection._parallel_fits import rows_of_folds
from sknet.optim import EMA, LBFGS, SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine
from tests.callbacks.helpers import unconverged
from tests.devices import fake
from tests.engine.loop import streamed
from tests.engine.loop.streamed import BUFFERS, CASES, CLASSES, SIZE, learned, limited
from tests.engine.loop.test_device_steps import LAUNCHES
from tests.engine.loop.test_member_steps import EPOCHS
from tests.engine.loop.test_member_steps import made as made_of_members
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
from tests.estimators.data import quiet
from tests.project import ROOT

pytestmark = [
    pytest.mark.usefixtures("fake_device"),
    pytest.mark.filterwarnings("ignore:Stochastic Optimizer"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning"),
]


def made(device, of=RATES, count=MEMBERS):
    make = on(device, family(**of)[0])
    return [make(i) for i in range(count)]


def no_threads_are_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]


# -- errors -------------------------------------------------------------------------------------


def diverges(of, rate=1.7e308):
    return {"of": lambda i: {"optimizer": SGD(rate if i == of else 0.01 * (i + 1))}}


@pytest.mark.parametrize("is_long", [True, False])
def test_one_that_diverges_raises_its_own_error_and_the_others_are_unaffected(
    is_long, sizes, fake_device, limits
):
    if is_long:
        limits("seconds of a block of steps", 1e9)

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
def test_a_step_of_many_has_as_many_launches_as_one_of_few(name, most, fake_device, monkeypatch, limits):
    limits("seconds of a block of steps", 1e9)
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


def test_the_documents_state_the_launches(fake_device, monkeypatch, limits):
    """Of 50 networks 20-100-2 with Adam and a penalty, in batches of 256 rows, whose outputs are scored."""
    limits("seconds of a block of steps", 1e9)
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


def test_the_memory_of_a_stack_is_free_after_chunks_of_held_out_rows(fake_device, limits):
    limits("elements of a chunk of predictions", 8 * 8)
    seen = []

    class Sees(Callback):
        def on_epoch_end(self, fit):
            seen.append(weakref.ref(fit.model.memory.flat))

    models, twins = made_of_members(fake_device), made_of_members(fake_device)
    held_out = {"X_val": X, "y_val": LABELS, **EPOCHS}
    histories = fit_many(models, X, LABELS, callbacks=[Sees()], **held_out)
    gc.collect()
    assert len(seen) == 3 * len(models)
    assert not [each for each in seen if each() is not None]
    for model, history, twin in zip(models, histories, twins, strict=True):
        assert_same(model, history, twin, twin.fit(X, LABELS, **held_out))
        np.testing.assert_allclose(to_host(model.predict(X)), to_host(twin.predict(X)), rtol=1e-9)


@pytest.fixture
def long_blocks(limits):
    """Blocks of as many steps as memory permits."""
    limits("seconds of a block of steps", 1e9)


def fitted(estimator):
    with quiet():
        return estimator.fit(streamed.X, CLASSES)


PAIRS = [*((case, "chunks") for case in CASES), ("shuffled", "rows"), ("several inputs", "two rows")]


@pytest.mark.parametrize(("case", "buffers"), PAIRS)
def test_fits_have_the_same_bits(case, buffers):
    with fake.counted() as counts:
        expected = CASES[case]("fake")
    assert not counts.sent
    with fake.counted() as counts, limited("fake", BUFFERS[buffers]):
        found = CASES[case]("fake")
    assert counts.sent
    streamed.assert_same(found, expected)


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("case", ["shuffled", "early stopping", "in the order of the data"])
def test_long_blocks(case):
    expected = CASES[case]("fake")
    with limited("fake"):
        streamed.assert_same(CASES[case]("fake"), expected)


def test_fits_in_turn():
    """What stays on the host in one fit does not in the next one, with one generator of random numbers."""

    def fits(are_limited):
        rng, found = np.random.RandomState(0), []
        for is_limited in are_limited:
            with limited("fake", free=streamed.FREE if is_limited else 1 << 20):
                found += streamed.fitted("fake", random_state=rng)
        return [*found, rng.random_sample(3)]

    streamed.assert_same(fits([True, False, True]), fits([False, False, False]))


def test_a_file_that_is_mapped(tmp_path):
    rows = np.memmap(tmp_path / "rows", "float32", "w+", shape=streamed.X.shape)
    rows[...] = streamed.X
    expected = streamed.fitted("fake", np.array(rows))
    with limited("fake"), fake.counted() as counts:
        streamed.assert_same(streamed.fitted("fake", rows), expected)
    assert counts.sent


def steps_on(rows, device, chosen=None, y=CLASSES):
    model = Model(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), "log_loss", random_state=0,
                  device=device)  # fmt: skip
    batches = Batches(rows, y, None, SIZE, model.dtype, model.device, chosen)
    with active(device):
        model.materialize(np.zeros((2, 6), "float32"))
    return DeviceSteps(model, batches, True)


def trained(steps, order, first=0):
    """Train on the batches from `first` on."""
    losses = []
    while first < steps.batches.n_batches:
        losses.append(steps.run(order, first).losses)
        first += len(losses[-1])
    return [np.concatenate(losses), *map(to_host, steps.model.parameters.values())]


class Doubled(ComputedRows):
    """Rows that are computed when they are read."""

    def write(self, rows, out):
        np.multiply(streamed.X[rows], 2, out=out, casting="unsafe")


@pytest.mark.parametrize("order", [None, np.random.default_rng(1).permutation(51)], ids=["in order", "mixed"])
def test_rows_that_are_computed(order, fake_device):
    chosen = np.arange(102)[::-2]
    expected = trained(steps_on((2 * streamed.X).astype("f4"), fake_device, chosen), order)
    streamed.assert_same(
        trained(steps_on(Doubled(streamed.X.shape, np.dtype("f4")), fake_device, chosen), order), expected
    )


class Counting(ComputedRows):
    """Rows of ever larger numbers."""

    times = 0

    def write(self, rows, out):
        self.times += 1
        out[...] = self.times


def test_rows_are_computed_anew_in_every_epoch(fake_device):
    rows = Counting(streamed.X.shape, np.dtype("f4"))
    steps = steps_on(rows, fake_device)
    for n in (1, 2):
        with limited("fake"):
            trained(steps, None)
        assert rows.times == n  # all rows are one chunk


@pytest.mark.usefixtures("long_blocks")
def test_launches_and_bytes(fake_device):
    counts = {}
    for free in (streamed.FREE, 1 << 20):
        with limited("fake", free=free), np.errstate(all="ignore"):
            steps = steps_on(streamed.X, fake_device)
            steps.run(None, 0)
            for n in (5, 20):
                with fake.counted() as counts[free, n]:
                    assert len(steps.run(None, 0, n).losses) == n
    few, many = counts[streamed.FREE, 5], counts[streamed.FREE, 20]
    resident = counts[1 << 20, 20].launches - counts[1 << 20, 5].launches
    assert many.launches - few.launches == resident
    assert many.allocations == few.allocations
    assert many.reads == few.reads == 1
    assert [few.sent, many.sent] == [4, 11]  # chunks of two batches, and the one that comes next
    assert many.sent_bytes == 11 * 2 * SIZE * 6 * 4


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("batch", [0, 1, 7, 25])
def test_a_row_that_is_not_finite(batch, fake_device):
    wrong = streamed.X.copy()
    wrong[batch * SIZE] = np.nan
    expected = steps_on(streamed.X, fake_device)
    for first in range(batch):
        expected.run(None, first, 1)
    with limited("fake"):
        steps = steps_on(wrong, fake_device)
        with np.errstate(all="ignore"):
            done = len(steps.run(None, 0).losses) if batch else 0
            while done < batch:
                done += len(steps.run(None, done).losses)
            assert done == batch
            with pytest.raises(NonFiniteError):
                steps.run(None, done)
        # The rows of that batch are passed by, and those after it are what they are.
        if batch < 25:
            streamed.assert_same(trained(steps, None, batch + 1), trained(expected, None, batch + 1))


class Failing(ComputedRows):
    """Rows that cannot be read from number 20 on, at first."""

    is_broken = True

    def write(self, rows, out):
        if self.is_broken and rows.max() >= 20:
            raise OSError("the disk is gone")
        out[...] = streamed.X[rows]


@pytest.mark.usefixtures("long_blocks")
def test_rows_that_cannot_be_read(fake_device):
    rows = Failing(streamed.X.shape, np.dtype("f4"))
    with limited("fake"):
        steps = steps_on(rows, fake_device)
        assert len(steps.run(None, 0).losses) == 4  # the chunk of the fifth batch cannot be read
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                steps.run(None, 4)
        assert steps.model.progress.step == 4
        rows.is_broken = False
        found = trained(steps, None, 4)[1:]
    streamed.assert_same(found, trained(steps_on(streamed.X.astype("f4"), fake_device), None)[1:])


@pytest.mark.usefixtures("long_blocks")
def test_ctrl_c_while_rows_are_read(fake_device):
    class Interrupted(Failing):
        def write(self, rows, out):
            if self.is_broken and rows.max() >= 20:
                raise KeyboardInterrupt
            out[...] = streamed.X[rows]

    rows = Interrupted(streamed.X.shape, np.dtype("f4"))
    with limited("fake"):
        steps = steps_on(rows, fake_device)
        with pytest.raises(KeyboardInterrupt):
            steps.run(None, 0)
        rows.is_broken = False
        assert len(trained(steps, None)[0]) == steps.batches.n_batches


def test_no_memory_for_the_chunks(fake_device):
    messages = []
    with limited("fake"):
        for count in range(30):
            try:
                with fake.allocating(count):
                    steps_on(streamed.X, fake_device)
            except DeviceMemoryError as error:
                messages.append(str(error))
    said = (
        "in a fit with batches of 4 rows, for the rows of the data, an array of shape (16, 6) takes 384 bytes"
    )
    assert any(said in message for message in messages)


def test_a_message_says_what_chunks_take(fake_device):
    with limited("fake"):
        steps = steps_on(streamed.X, fake_device)
        with fake.allocating(0), pytest.raises(DeviceMemoryError, match="chunk by chunk take 384 bytes"):
            steps.run(None, 0)


def test_a_buffer_is_not_written_while_it_is_copied(fake_device):
    """Buffers of one row: the third is that of the first, which the device may not have read."""

    def write(start, stop, arrays):
        arrays[0][...] = np.arange(start, stop)

    with limited("fake", 1), active(fake_device):
        feed = Feed(fake_device, [((), np.dtype("f8"))], 20, 5, write)
        for first in range(0, 20, 5):
            place = feed.place_of(first)
            found = to_host(feed.arrays[0])[place : place + 5]
            np.testing.assert_array_equal(found, np.arange(first, first + 5))
            feed.look_ahead()


@pytest.mark.parametrize("rows", [[0, 3, 1, 4, 2, 0], [4, 3, 2, 1, 0], [0, 2, 4, 0, 2, 4], [1, 1, 4, 4]])
@pytest.mark.parametrize("looks_ahead", [True, False])
def test_chunks_in_any_order(rows, looks_ahead, fake_device):
    def write(start, stop, arrays):
        arrays[0][...] = np.arange(start, stop)

    with active(fake_device):
        feed = Feed(fake_device, [((), np.dtype("f8"))], 5, 1, write)
        for row in rows:
            place = feed.place_of(row)
            assert to_host(feed.arrays[0])[place] == row
            if looks_ahead:
                feed.look_ahead()


@pytest.mark.parametrize("method", ["send", "follow"])
def test_a_device_that_fails_in_a_copy_leaves_the_estimator_as_it_was(method, monkeypatch):
    estimator = streamed.classifier("fake", early_stopping=True)
    with limited("fake"):
        before = learned(fitted(estimator))
    working, left = getattr(fake.FakeTransfers, method), [0]

    def failing(self, *args):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("the device is lost")
        return working(self, *args)

    expected = learned(fitted(streamed.classifier("fake", early_stopping=True, alpha=0.1)))
    monkeypatch.setattr(fake.FakeTransfers, method, failing)
    for left[0] in (0, 1, 5, 20):
        with limited("fake"), pytest.raises(RuntimeError, match="the device is lost"):
            fitted(estimator.set_params(alpha=0.1))
        left[0] = 10**9
        with limited("fake"):
            streamed.assert_same(learned(estimator), before)
    with limited("fake"):
        streamed.assert_same(learned(fitted(estimator)), expected)


def test_rows_without_elements(fake_device):
    with active(fake_device):
        feed = Feed(fake_device, [((0,), np.dtype("f4"))], 5, 2, lambda start, stop, arrays: None)
        assert [feed.place_of(row) for row in (0, 2, 4)] == [0, 2, 0]
        assert not feed.nbytes


RNG_SEARCH = np.random.default_rng(0)
X_SEARCH = RNG_SEARCH.normal(size=(60, 5))
LABELS_SEARCH, REAL = (
    (X_SEARCH[:, 0] > 0).astype(int) + (X_SEARCH[:, 1] > 0.5),
    X_SEARCH[:, 0] + X_SEARCH[:, 1] ** 2,
)
NET = {"hidden_layer_sizes": (5,), "max_iter": 3, "batch_size": 16, "dtype": "float64", "random_state": 0}
RATES_SEARCH = {"optimizer__lr": [1e-3, 1e-2, 1e-1]}


def net(device, kind=MLPClassifier, **params):
    return kind(**NET | {"optimizer": "adam", "device": str(device)} | params)


def test_rows_of_a_fold_are_there_once(fake_device, monkeypatch):
    kept = []

    class Seen(Stack):
        def __init__(self, plan):
            kept.extend(member.batches.X for member in plan.members)
            super().__init__(plan)

    monkeypatch.setattr(_many, "Stack", Seen)
    GridSearchCV(net(fake_device), RATES_SEARCH, cv=2, refit=False).fit(X_SEARCH, LABELS_SEARCH)
    assert len(kept) == 6
    assert len({id(x) for x in kept}) == 2
    with pytest.raises(ValueError, match="read-only"):
        kept[0][0] = 0


def test_rows_are_those_of_the_array():
    first, second = np.arange(3), np.arange(3, 7)
    rows = rows_of_folds(net("cpu"), X_SEARCH)
    taken = rows[first, ...]
    assert all(each is taken for each in (rows[first], rows[first.copy()], np.take(rows, first, axis=0)))
    np.testing.assert_array_equal(rows[second], X_SEARCH[second])
    for key in (2, slice(4), (first, 1), (..., 1), X_SEARCH[:, 0] > 0, [1, 2]):
        np.testing.assert_array_equal(rows[key], X_SEARCH[key])
    np.testing.assert_array_equal(rows.take([1, 2]), X_SEARCH.take([1, 2]))
    doubled = 2 * rows
    assert doubled[first] is not doubled[first]
    assert rows_of_folds(Pipeline([("net", net("cpu"))]), X_SEARCH) is X_SEARCH


def launches_of_blocks(count, device, monkeypatch):
    """Search over so many networks; return the launches of each block of steps."""
    found = []

    class Counted(Stack):
        def run(self, waiting):
            with fake.counted() as counts:
                turns = super().run(waiting)
            found.append((self.size, len(turns), counts.launches))
            return turns

    monkeypatch.setattr(_many, "Stack", Counted)
    few = {"hidden_layer_sizes": (2,), "max_iter": 1, "batch_size": 5}
    grid = {"optimizer__lr": np.linspace(1e-3, 1e-1, count)}
    one_fold = [(np.arange(15), np.arange(15, 20))]
    told = {"cv": one_fold, "refit": False, "error_score": "raise"}
    search = GridSearchCV(net(device, **few), grid, **told).fit(X_SEARCH[:20, :2], LABELS_SEARCH[:20] > 0)
    assert len(search.cv_results_["params"]) == count
    return found


def test_a_grid_of_a_thousand_small_networks_is_one_program(fake_device, monkeypatch):
    monkeypatch.setattr(_runners, "SECONDS", 1e9)
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 33)
    [(_, _, launches)] = launches_of_blocks(2, fake_device, monkeypatch)
    assert launches_of_blocks(1000, fake_device, monkeypatch) == [(1000, 1000, launches)]


RNG_EPOCHS = np.random.default_rng(0)
X_EPOCHS = RNG_EPOCHS.normal(size=(60, 4)).astype(np.float32)
CLASSES_EPOCHS = (X_EPOCHS[:, 0] > 0).astype(int) + (X_EPOCHS[:, 1] > 1)
NUMBERS = X_EPOCHS[:, 0] - X_EPOCHS[:, 2]


class Watching(Callback):
    """Looks at every epoch when it is trained, so that no two are one block."""

    def on_epoch_end(self, fit):
        return None


@pytest.fixture(params=[0, 200_000], ids=["step by step", "in one launch"])
def blocks(request, fake_device, monkeypatch, limits):
    """The numbers of epochs of the blocks, of steps that are launched each or all at once."""
    limits("seconds of a block of steps", 1e9)
    found, run = [], _device_runner.DeviceSteps.run_epochs

    def counting(self, orders, *others):
        found.append(len(orders))
        return run(self, orders, *others)

    monkeypatch.setattr(_device_runner.DeviceSteps, "run_epochs", counting)
    with fake.sharing(request.param):
        yield found


def fitted_of_epochs(kind, y, device, callbacks, **params):
    settings = {"max_iter": 10, "batch_size": 20, "tol": 0.0, "random_state": 0} | params
    rows = {"X_val": X_EPOCHS[::3], "y_val": y[::3]} if settings.pop("given", False) else {}
    return kind((6,), device=str(device), callbacks=callbacks, **settings).fit(X_EPOCHS, y, **rows)


CASES_EPOCHS = {
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
CASES_EPOCHS |= HELD_OUT
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
    [(MLPClassifier, name) for name in CASES_EPOCHS] + [(MLPRegressor, name) for name in OF_NUMBERS],
)
def test_the_same_bits_as_one_by_one(kind, name, fake_device, blocks, request, limits):
    y, params = CLASSES_EPOCHS if kind is MLPClassifier else NUMBERS, dict(CASES_EPOCHS[name])
    if "chunk" in params:
        limits("elements of a chunk of predictions", 6 * params.pop("chunk"))
        _network._by_structure.clear()
        request.addfinalizer(_network._by_structure.clear)
    alone = fitted_of_epochs(kind, y, fake_device, [Watching()], **params)
    assert not blocks
    together = fitted_of_epochs(kind, y, fake_device, [], **params)
    assert max(blocks) > 1
    assert together.n_iter_ == alone.n_iter_
    assert getattr(together, "best_epoch_", None) == getattr(alone, "best_epoch_", None)
    for column in alone.history_.keys() - {"time"}:
        assert together.history_[column] == alone.history_[column], column
    for mine, other in zip(together.coefs_, alone.coefs_, strict=True):
        np.testing.assert_array_equal(to_host(mine), to_host(other))
    assert together.model_.progress == alone.model_.progress
    np.testing.assert_array_equal(together.model_.random_state.rand(3), alone.model_.random_state.rand(3))


@pytest.mark.parametrize(("kind", "y"), [(MLPClassifier, CLASSES_EPOCHS), (MLPRegressor, NUMBERS)])
@pytest.mark.parametrize("batch_size", [20, 25])
@pytest.mark.parametrize("early_stopping", [False, True])
def test_the_host_reads_less_than_once_an_epoch(kind, y, batch_size, early_stopping, fake_device, blocks):
    params = {"early_stopping": early_stopping, "monitor": "loss", "n_iter_no_change": 100}
    params |= {"callbacks": [PrintLog(100)]}
    estimator, reads = fitted_of_epochs(kind, y, fake_device, batch_size=batch_size, **params), []
    for max_iter in (24, 48):
        estimator.set_params(warm_start=True, max_iter=max_iter)
        with fake.counted() as counts:
            estimator.fit(X_EPOCHS, y)
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
            estimator.fit(X_EPOCHS, NUMBERS)
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
        estimator = fitted_of_epochs(MLPClassifier, CLASSES_EPOCHS, fake_device, callbacks, **how)
        seen.append(estimator.callbacks_[-1].seen_)
    assert blocks == [4, 4, 4]
    assert seen[0] == seen[1]
    assert len({each[3] for each in seen[0]}) == 13


class FailingEpochs(Reading):
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
    how = {"batch_size": 20, "X_val": X_EPOCHS[:9], "y_val": CLASSES_EPOCHS[:9]}
    with pytest.raises(RuntimeError, match="no"):
        models[0].fit(X_EPOCHS, CLASSES_EPOCHS, epochs=20, **how, callbacks=[FailingEpochs()])
    assert blocks == [4, 4]
    models[1].fit(X_EPOCHS, CLASSES_EPOCHS, epochs=20, **how, callbacks=[Ending()])
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
            model.fit(
                X_EPOCHS * 10,
                y,
                epochs=60,
                batch_size=25,
                X_val=X_EPOCHS[:9],
                y_val=y[:9],
                callbacks=callbacks,
            )
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
    together = fitted_of_epochs(MLPClassifier, CLASSES_EPOCHS, fake_device, [Reading()], **how)
    alone = fitted_of_epochs(MLPClassifier, CLASSES_EPOCHS, fake_device, [Watching(), Reading()], **how)
    assert blocks[0] == 4
    assert together.callbacks_[0].seen_ == alone.callbacks_[1].seen_


@pytest.mark.parametrize("free", [1 << 20, 1 << 13])
def test_held_out_rows_stay_on_the_device_if_there_is_memory(free, fake_device, monkeypatch, request, limits):
    """Otherwise they are sent chunk by chunk for each epoch."""
    limits("elements of a chunk of predictions", 6 * 7)
    _network._by_structure.clear()
    request.addfinalizer(_network._by_structure.clear)
    estimator = fitted_of_epochs(
        MLPClassifier, CLASSES_EPOCHS, fake_device, [Watching()], early_stopping=True, given=True
    )
    sent, many = [], {"X_val": np.tile(X_EPOCHS, (4, 1)), "y_val": np.tile(CLASSES_EPOCHS, 4)}
    for max_iter in (4, 8):
        estimator.set_params(max_iter=max_iter)
        monkeypatch.setattr(fake, "FREE_MEMORY", free)
        with fake.counted() as counts:
            estimator.fit(X_EPOCHS, CLASSES_EPOCHS, **many)
        sent.append(counts.sent)
    assert (sent[1] > sent[0]) == (free == 1 << 13)
