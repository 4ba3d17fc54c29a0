"""Many fits at once: results, errors and Ctrl-C, threads that take turns, and other processes."""

import os
import signal
import threading
import time
from functools import partial

import joblib
import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn import model_selection
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import sknet
from sknet import MLPClassifier, Model, nn
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.engine import _runner_cache, _scheduler, fit_many
from sknet.engine._many import are_sent, in_common, run_together
from sknet.engine._scheduler import (
    Group,
    InterruptGuard,
    _in_threads,
    current_fiber,
    current_group,
    grouped,
    n_threads_for,
    run_in_fibers,
    run_in_threads,
)
from sknet.estimators._base import BaseNet
from sknet.exceptions import NonFiniteError
from sknet.model_selection._parallel_fits import fits_networks
from sknet.optim import EMA, LBFGS, SGD, Adam, Muon
from sknet.optim.schedules import Cosine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 6)).astype("f4")
LABELS, REAL = np.arange(90) % 3, X[:, :3] ** 2
WEIGHT = RNG.random(90)
SHARED = np.random.RandomState(0)


def network(*layers):
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


class Own(nn.Module):
    """A user's module, whose programs are not shared."""

    def __init__(self):
        self.a, self.b = nn.Linear(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def half_frozen():
    found = network(nn.ReLU())
    found[0].requires_grad_(False)
    return found


def wide():
    return nn.Sequential(nn.Linear(6, 9000), nn.Linear(9000, 3))


OPTIMIZERS = [SGD(0.1), Adam(), Muon(), EMA(Adam())]


def family(make=lambda: network(nn.ReLU()), of=lambda i: {}, **options):
    """Return a function that makes the i-th model, and what fits are given besides the rows."""
    return (lambda i: Model(make(), **{"loss": "log_loss", "random_state": i, **of(i)})), options


FAMILIES = {
    "rates": family(of=lambda i: {"optimizer": Adam(0.01 * (i + 1))}),
    "schedules": family(of=lambda i: {"optimizer": SGD(Cosine(0.1 * (i + 1)))}),
    "optimizers": family(of=lambda i: {"optimizer": OPTIMIZERS[i % 4]}),
    "penalties": family(of=lambda i: {"alpha": [0.0, 0.1, 0.1][i % 3]}),
    "losses": family(of=lambda i: {"loss": ["squared_error", "huber"][i % 2]}, y=REAL),
    "dropout": family(lambda: network(nn.ReLU(), nn.Dropout(0.3)), lambda i: {"random_state": i // 2}),
    "running means": family(lambda: network(nn.BatchNorm(8))),
    "frozen": family(half_frozen),
    "own modules": family(Own),
    "lazy": family(lambda: nn.Sequential(nn.LazyLinear(5), nn.LazyLinear(3))),
    "float64": family(of=lambda i: {"dtype": "float64"}),
    "weights": family(sample_weight=WEIGHT),
    "sparse": family(X=scipy.sparse.csr_array(X)),
    "in order": family(shuffle=False),
    "eager": family(of=lambda i: {"compile": False}),
    "a score": family(scores="accuracy"),
    "many parameters": family(wide),
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """Fits outside of groups share nothing, so that those inside are compared with something else."""
    monkeypatch.setattr(_runner_cache, "MOST_EPOCHS_ALONE", -1)


def trace(models, histories):
    """Everything that a fit leaves behind."""
    return [
        (
            model.weights().flat.tobytes(),
            {name: slot.tobytes() for name, slot in model.memory.slots.items()},
            {name: np.asarray(buffer).tobytes() for name, buffer in model.buffers.items()},
            str(model.random_state.get_state()[1:]),
            model.progress,
            {name: column for name, column in history.items() if name != "time"},
        )
        for model, history in zip(models, histories, strict=True)
    ]


def given(options):
    rest = {"X": X, "y": LABELS, "epochs": 3, "batch_size": 16, **options}
    return rest.pop("X"), rest.pop("y"), rest


@pytest.mark.slow
@pytest.mark.parametrize("native", ["always", "never"])
@pytest.mark.parametrize("name", FAMILIES)
def test_each_is_its_own_fit_to_the_bit(name, native):
    make, options = FAMILIES[name]
    A, y, options = given(options)
    with sknet.config_context(native=native):
        alone = [make(i) for i in range(5)]
        wanted = trace(alone, [model.fit(A, y, **options) for model in alone])
        for n_jobs, order in ((1, range(5)), (2, range(5)), (3, [4, 2, 0, 1, 3])):
            models = [make(i) for i in order]
            found = trace(models, fit_many(models, A, y, n_jobs=n_jobs, **options))
            assert found == [wanted[i] for i in order]


def test_rows_are_those_of_each():
    rows = [RNG.integers(90, size=n) for n in (90, 90, 45, 46)]
    make, _ = FAMILIES["rates"]
    alone, together = ([make(i) for i in range(4)] for _ in range(2))
    histories = [
        model.fit(X[part], LABELS[part], WEIGHT[part], epochs=2)
        for model, part in zip(alone, rows, strict=True)
    ]
    found = fit_many(together, X, LABELS, WEIGHT, rows=rows, epochs=2)
    assert trace(alone, histories) == trace(together, found)


def test_rows_of_several_inputs_are_taken_from_each():
    class Two(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(2, 3), nn.Linear(4, 3)

        def forward(self, left, right):
            return self.a(left) + self.b(right)

    inputs, rows = {"left": X[:, :2], "right": X[:, 2:]}, np.arange(0, 90, 2)
    alone, together = (Model(Two(), "log_loss", random_state=0) for _ in range(2))
    history = alone.fit({name: x[rows] for name, x in inputs.items()}, LABELS[rows])
    assert trace([alone], [history]) == trace([together], fit_many([together], inputs, LABELS, rows=[rows]))


def test_fits_go_on_as_if_each_had_been_alone():
    """A model's memory is its own again afterwards: in steps, in other groups, and in copies."""
    make, _ = FAMILIES["rates"]
    alone, together = ([make(i) for i in range(3)] for _ in range(2))
    for model in alone:
        model.fit(X, LABELS, epochs=2)
        model.step(X[:20], LABELS[:20])
        model.fit(X, LABELS, epochs=1)
    fit_many(together, X, LABELS, epochs=2)
    for model in together:
        model.step(X[:20], LABELS[:20])
    copies = [model.copy() for model in together]
    histories = fit_many(together, X, LABELS, epochs=1)
    assert trace(alone, histories) == trace(together, histories)
    assert trace(alone, histories) == trace(copies, fit_many(copies, X, LABELS, epochs=1))


def test_those_that_stop_early_leave():
    rates = [1e-12, 0.05, 1e-12, 0.02]
    make = lambda i: Model(network(nn.ReLU()), "log_loss", SGD(rates[i]), random_state=i)  # noqa: E731
    stopping = EarlyStopping("loss", patience=2)
    alone, together = ([make(i) for i in range(4)] for _ in range(2))
    histories = [model.fit(X, LABELS, epochs=9, callbacks=[stopping]) for model in alone]
    found = fit_many(together, X, LABELS, epochs=9, callbacks=[stopping], n_jobs=2)
    assert trace(alone, histories) == trace(together, found)
    assert [len(history["loss"]) < 9 for history in found] == [True, False, True, False]


class Changes(Callback):
    """Changes the model during its fit."""

    def __init__(self, change):
        self.change = change

    def on_epoch_end(self, fit):
        if fit.epoch == 1:
            self.change(fit.model)


@pytest.mark.parametrize(
    "change",
    [
        lambda model: setattr(model, "alpha", 0.5),
        lambda model: setattr(model, "optimizer", SGD(0.5)),
        lambda model: model.module[0].requires_grad_(False),
        lambda model: model.restore_weights(Model(network(nn.ReLU()), random_state=9).weights()),
    ],
    ids=["penalty", "optimizer", "frozen", "weights"],
)
def test_what_a_callback_changes_is_followed(change):
    make, _ = FAMILIES["rates"]
    alone, together = ([make(i) for i in range(3)] for _ in range(2))
    # Only the second changes, with the steps that the first has left.
    histories = [
        alone[i].fit(X, LABELS, epochs=3, callbacks=[Changes(change)] if i == 1 else []) for i in range(3)
    ]
    fits = [
        lambda i=i: together[i].fit(X, LABELS, epochs=3, callbacks=[Changes(change)] if i == 1 else [])
        for i in range(3)
    ]
    assert trace(alone, histories) == trace(together, run_together(fits, 1))


def test_a_checkpoint_of_one_of_many_is_resumed_alone_and_the_other_way_round(tmp_path):
    make, _ = FAMILIES["rates"]
    whole = [make(i) for i in range(3)]
    wanted = trace(whole, [model.fit(X, LABELS, epochs=5) for model in whole])

    def fit(model, i, epochs, **more):
        return model.fit(X, LABELS, epochs=epochs, callbacks=[Checkpoint(tmp_path / str(i))], **more)

    def first(i, epochs=2):
        return fit(make(i), i, epochs)

    def resumed(i):
        model = make(i)
        [found] = trace([model], [fit(model, i, 5, resume_from=tmp_path / str(i))])
        return found

    run_together([lambda i=i: first(i) for i in range(3)], 2)
    assert [resumed(i) for i in range(3)] == wanted
    for i in range(3):
        first(i)
    assert run_together([lambda i=i: resumed(i) for i in range(3)], 2) == wanted


class CountsThreads(Callback):
    most = 0

    def on_epoch_end(self, fit):
        CountsThreads.most = max(CountsThreads.most, threading.active_count())


def test_many_fits_have_no_thread_for_each(monkeypatch):
    monkeypatch.setattr(CountsThreads, "most", 0)
    make, before = FAMILIES["rates"][0], threading.active_count()
    fit_many([make(i) for i in range(50)], X, LABELS, epochs=2, n_jobs=2, callbacks=[CountsThreads()])
    assert before < CountsThreads.most <= before + 2


# -- what goes wrong ---------------------------------------------------------------------------------


class Fails(Callback):
    def on_epoch_end(self, fit):
        raise RuntimeError("as told")


class Counts(Callback):
    ended = 0

    def on_epoch_end(self, fit):
        Counts.ended += 1


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_first_error_ends_all(n_jobs):
    Counts.ended = 0
    make, _ = FAMILIES["rates"]
    models = [make(i) for i in range(4)]

    def fit(i):
        time.sleep(0.1 * (i == 0 and n_jobs > 1))  # others have begun
        return models[i].fit(
            X, LABELS, epochs=1 if i == 0 else 10**6, callbacks=[Fails() if i == 0 else Counts()]
        )

    with pytest.raises(RuntimeError, match="as told"):
        run_together([lambda i=i: fit(i) for i in range(4)], n_jobs)
    ended = Counts.ended
    assert threading.active_count() == 1 or not [
        t for t in threading.enumerate() if t.name.startswith("sknet-fit")
    ]
    time.sleep(0.05)
    assert Counts.ended == ended < 10**6
    for model in models:  # each is at the end of a step, and goes on
        assert np.isfinite(model.weights().flat).all()
        model.fit(X, LABELS, epochs=1)


def test_an_update_that_is_not_finite_is_reported_as_in_a_fit_alone():
    bad = X.copy()
    bad[3, 2] = np.inf
    make, _ = FAMILIES["rates"]
    alone, models = make(0), [make(i) for i in range(3)]
    with pytest.raises(NonFiniteError) as wanted:
        alone.fit(bad, LABELS)
    with pytest.raises(NonFiniteError) as found:
        fit_many(models, bad, LABELS, n_jobs=1)
    assert str(wanted.value) == str(found.value)
    assert models[0].weights().flat.tobytes() == alone.weights().flat.tobytes()


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("optimizer", [Adam(), LBFGS()], ids=["in steps", "L-BFGS"])
def test_ctrl_c_ends_all(n_jobs, optimizer):
    make = lambda i: Model(network(nn.ReLU()), "squared_error", optimizer, random_state=i)  # noqa: E731
    models, begun = [make(i) for i in range(4)], []

    class Interrupts(Callback):
        def on_epoch_end(self, fit):
            if not begun:
                begun.append(fit.model)
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fit_many(
            models,
            X,
            REAL + RNG.normal(size=REAL.shape),
            epochs=10**5,
            callbacks=[Interrupts()],
            n_jobs=n_jobs,
        )
    assert len(begun) == 1
    assert not [t for t in threading.enumerate() if t.name.startswith("sknet-fit")]
    assert models[-1].progress.step == 0
    assert all(np.isfinite(model.weights().flat).all() for model in models)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (
            lambda models: {"models": [*models, 3]},
            TypeError,
            "needs a sequence of Model, got int at position 2",
        ),
        (lambda models: {"models": [*models, models[0]]}, ValueError, "the same model at positions 0 and 2"),
        (
            lambda models: {"models": [Model(each.module, random_state=SHARED) for each in models]},
            ValueError,
            "positions 0 and 1 of fit_many draw from the same random_state",
        ),
        (lambda models: {"rows": [np.arange(3)]}, ValueError, "got 1 arrays of rows for 2 models"),
        (lambda models: {"callbacks": Counts()}, TypeError, "fit_many"),
    ],
)
def test_wrong_arguments_are_named(change, kind, message):
    make, _ = FAMILIES["rates"]
    models = [make(i) for i in range(2)]
    with pytest.raises(kind, match=message):
        fit_many(**{"models": models, "X": X, "y": LABELS, **change(models)})
    assert all(model.progress.step == 0 for model in models)


def test_no_model_is_no_fit():
    assert fit_many([], X, LABELS) == []


def test_what_fits_share_is_bounded():
    """The memory of steps that were used longest ago is freed."""
    with grouped(1) as group:
        idle = group.idle
        for form in range(100):
            idle.put(form % 50, [form])
        assert idle.take(17) is None  # 17 and 67 were used before the last 32
        assert idle.take(18) == [68]
        assert idle.take(18) is None
        assert [idle.take(49), idle.take(49)] == [[99], None]
        idle.put(49, "first")
        idle.put(49, "second")
        assert [idle.take(49), idle.take(49), idle.take(49)] == ["second", "first", None]
        with grouped(2) as inner:
            assert inner.idle is idle


class Steeper(Callback):
    """Changes the activation of the model after the first of two batches of different lengths."""

    def on_block_end(self, fit):
        fit.model.module[1].negative_slope = 5.0


class SteeperAtLast(Callback):
    """Changes the activation of the model after its last step."""

    def on_epoch_end(self, fit):
        if fit.epoch == 3:
            fit.model.module[1].negative_slope = 5.0


@pytest.mark.parametrize("callback", [Steeper, SteeperAtLast])
def test_what_a_fit_changes_does_not_reach_those_after_it(callback):
    make = lambda i: Model(network(nn.LeakyReLU(0.1)), "log_loss", SGD(0.1), random_state=i)  # noqa: E731
    alone, together = ([make(i) for i in range(4)] for _ in range(2))
    fits = [
        [
            lambda i=i, models=models: models[i].fit(
                X, LABELS, epochs=3, batch_size=64, callbacks=[callback()] if i in (0, 2) else []
            )
            for i in range(4)
        ]
        for models in (alone, together)
    ]
    assert trace(alone, [fit() for fit in fits[0]]) == trace(together, run_together(fits[1], 1))


# -- threads -----------------------------------------------------------------------------------------


def test_inside_of_a_group_there_is_one_thread():
    assert n_threads_for(2, 5) == 2
    assert n_threads_for(8, 3) == 3
    assert run_together([lambda: n_threads_for(2, 5)] * 2, 2) == [1, 1]
    [inner] = run_together([lambda: run_together([threading.get_ident] * 2, 1)], 2)
    assert inner == [threading.get_ident()] * 2
    [inner] = run_together([lambda: run_together([lambda: time.sleep(0.05) or threading.get_ident()] * 2, 2)])
    assert len({*inner, threading.get_ident()}) == 3
    deep = run_together([lambda: run_together([lambda: n_threads_for(8, 5)], 1)] * 2, 2)
    assert deep == [[1], [1]]


def test_a_group_inside_ends_when_the_one_around_it_is_cancelled():
    begun = threading.Event()

    def inner():
        fits = [lambda: begun.set() or time.sleep(0.2)] * 6
        return run_together(fits, 1)

    def fails():
        begun.wait(5)
        raise RuntimeError("the first error")

    with pytest.raises(RuntimeError, match="the first error"):
        run_together([inner, fails], 2)
    with grouped(2) as outer, grouped(1):
        outer.cancel()
        with pytest.raises(KeyboardInterrupt):
            _in_threads([int, int], Group(2, current_group()))


def test_an_error_of_a_group_inside_of_another_ends_that_one_alone():
    make, _ = FAMILIES["rates"]

    def outer(i):
        try:
            run_together(
                [lambda i=i: make(i).fit(X, LABELS, epochs=2, callbacks=[Fails()] * (i == 1))] * 2, 2
            )
        except RuntimeError:
            return "failed"
        return "done"

    for n_jobs in (1, 2):
        assert run_together([lambda i=i: outer(i) for i in range(3)], n_jobs) == ["done", "failed", "done"]


def test_settings_of_the_caller_hold_in_threads():
    with sklearn.config_context(assume_finite=True), sknet.config_context(native="never"):
        found = run_together(
            [lambda: (sklearn.get_config()["assume_finite"], sknet.get_config()["native"])] * 4, 2
        )
    assert found == [(True, "never")] * 4


def together(waiting):
    """Answer all that wait with what all have asked for."""
    asked = [fiber.asked for fiber in waiting]
    for fiber in waiting:
        fiber.answer(asked)
    return waiting


def no_threads_are_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]


def test_all_wait_for_one_another_as_long_as_they_take_part():
    def fit(i):
        return [current_fiber().wait((i, step)) for step in range(i)]

    found = run_in_fibers([lambda i=i: fit(i) for i in range(4)], [True] * 4, 1, together)
    assert found == [[[(j, step) for j in range(step + 1, 4)] for step in range(i)] for i in range(4)]
    assert current_fiber() is None


def test_one_runs_at_a_time_and_those_that_leave_beside_them():
    running, most, begun = [], {True: 0, False: 0}, threading.Event()

    def fit(i):
        fiber = current_fiber()
        running.append(i)
        most[True] = max(most[True], len([j for j in running if j < 3]))
        most[False] = max(most[False], len([j for j in running if j >= 3]))
        if i >= 3:
            begun.set()
            time.sleep(0.05)
        running.remove(i)
        if fiber is not None:
            fiber.wait(None)
            assert begun.wait(5)
        return fiber is None

    takes = [True] * 3 + [False] * 5
    assert run_in_fibers([lambda i=i: fit(i) for i in range(8)], takes, 2, together) == [not x for x in takes]
    assert most == {True: 1, False: 2}


def test_who_leaves_in_its_turn_goes_on_beside_the_others():
    left = threading.Event()

    def leaves():
        fiber = current_fiber()
        fiber.leave()
        fiber.leave()
        assert current_fiber() is None
        assert left.wait(5)
        return "left"

    def stays():
        found = current_fiber().wait("asked")
        left.set()
        return found

    assert run_in_fibers([leaves, stays], [True, True], 1, together) == ["left", ["asked"]]


@pytest.mark.parametrize("of", ["a fit", "one that has left", "what serves"])
def test_an_error_ends_all(of):
    ended = []

    def fit(i):
        fiber = current_fiber()
        try:
            if i == 1 and of == "one that has left":
                fiber.leave()
            if i == 1 and of != "what serves":
                raise ValueError("as told")
            while True:
                fiber.wait(i)
                time.sleep(0.01)
        finally:
            ended.append(i)

    def fails(waiting):
        raise ValueError("as told")

    serve = fails if of == "what serves" else together
    with pytest.raises(ValueError, match="as told") as error:
        run_in_fibers([lambda i=i: fit(i) for i in range(3)], [True] * 3, 1, serve)
    if of != "what serves":
        assert error.value.__notes__ == ["in fit 1 of 3, counted from 0"]
    assert set(ended) <= {0, 1, 2}
    assert no_threads_are_left()


def test_what_has_been_done_for_a_fit_is_counted_when_another_fails():
    counted = []

    def fit(i):
        current_fiber().wait(i)
        if i == 0:
            raise ValueError("as told")
        counted.append(i)
        current_fiber().wait(i)

    with pytest.raises(ValueError, match="as told"):
        run_in_fibers([lambda i=i: fit(i) for i in range(3)], [True] * 3, 1, together)
    assert counted == [1, 2]


def test_an_error_that_is_an_answer_is_raised_by_the_fit():
    def serve(waiting):
        waiting[0].answer(ValueError("as told"))
        return waiting[:1]

    def fit():
        with pytest.raises(ValueError, match="as told"):
            current_fiber().wait(None)
        return "went on"

    assert run_in_fibers([fit, fit], [True, True], 1, serve) == ["went on", "went on"]


def test_fits_end_by_themselves_after_ctrl_c_while_others_end():
    """One takes its time, and who presses Ctrl-C twice does not wait for it; no thread waits for ever."""
    ended = []

    def fit(i):
        try:
            current_fiber().wait(i)
        finally:
            for _ in range(0 if i else 2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            ended.append(i)

    def serve(waiting):
        raise ValueError("as told")

    with pytest.raises(KeyboardInterrupt):
        run_in_fibers([lambda i=i: fit(i) for i in range(4)], [True] * 4, 1, serve)
    for thread in threading.enumerate():
        if thread.name.startswith("sknet-fit"):
            thread.join(10)
    assert no_threads_are_left()
    assert sorted(ended) == [0, 1, 2, 3]


def most_at_a_time(n_fits, takes=lambda i: True):
    """Run fits of two steps each; return how many ran at a time."""
    running, most, lock = set(), [0], threading.Lock()

    def fit(i):
        with lock:
            running.add(i)
            most[0] = max(most[0], len(running))
        fiber = current_fiber()
        if fiber is None:
            time.sleep(0.01)
        else:
            for _ in range(2):
                fiber.wait(i)
        with lock:
            running.remove(i)
        return i

    fits = [lambda i=i: fit(i) for i in range(n_fits)]
    assert run_in_fibers(fits, [takes(i) for i in range(n_fits)], 2, together) == list(range(n_fits))
    assert no_threads_are_left()
    return most[0]


@pytest.mark.parametrize("takes", [lambda i: True, lambda i: i % 3 == 0, lambda i: False])
def test_fits_begin_when_others_have_ended(takes, monkeypatch):
    monkeypatch.setattr(_scheduler, "MOST", 4)
    assert 2 <= most_at_a_time(11, takes) <= 4


def failing_from(number, monkeypatch):
    """Let the system have so many threads, besides those that run now."""
    most, start = threading.active_count() + number, threading.Thread.start

    def may_fail(self):
        if threading.active_count() >= most:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", may_fail)


def test_a_system_without_more_threads_has_as_many_fits_at_a_time(monkeypatch):
    failing_from(3, monkeypatch)
    assert most_at_a_time(9) <= 3


def test_a_system_without_any_thread_says_so(monkeypatch):
    failing_from(0, monkeypatch)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        most_at_a_time(2)


def test_ctrl_c_is_seen_while_others_run_beside(monkeypatch):
    monkeypatch.setattr(_scheduler, "MOST", 1)
    begun, end = threading.Event(), threading.Event()

    def beside():
        begun.set()
        end.wait(10)

    def press():
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        end.set()

    presses = threading.Thread(target=press)
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        run_in_fibers([beside, beside], [False, False], 1, together)
    presses.join()
    assert no_threads_are_left()


@pytest.mark.parametrize("in_fibers", [True, False])
def test_ctrl_c_between_the_start_of_a_thread_and_the_note_of_it(in_fibers, monkeypatch):
    class Interrupted(threading.Thread):
        def start(self):
            super().start()
            if self.name == "sknet-fit-1":
                raise KeyboardInterrupt

    monkeypatch.setattr(_scheduler.threading, "Thread", Interrupted)
    fits, begun = [lambda: begun.append(1)] * 3, []
    with pytest.raises(KeyboardInterrupt):
        run_in_fibers(fits, [True] * 3, 1, together) if in_fibers else run_in_threads(fits, 3)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not no_threads_are_left():
        time.sleep(0.001)
    assert no_threads_are_left()
    assert not begun


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def guarded(*steps):
    """Do some steps under a guard, and return how many were done."""
    done = []
    guard = InterruptGuard()

    def run():
        with guard:
            for step in steps:
                step(guard) if step is InterruptGuard.poll else step()
                done.append(step)

    return run, done, guard


def test_it_is_held_until_raised():
    run, done, guard = guarded(press, print, InterruptGuard.poll, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press, print]
    assert not guard.is_urgent


def test_it_is_raised_at_the_end_at_the_latest():
    run, done, _ = guarded(press, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press, print]


def test_a_second_one_is_not_held_back():
    run, done, guard = guarded(press, press, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press]
    assert guard.is_urgent


def test_an_answered_one_is_not_the_first_of_two():
    with InterruptGuard() as guard:
        press()
        with pytest.raises(KeyboardInterrupt):
            guard.poll()
        press()
        with pytest.raises(KeyboardInterrupt):
            guard.poll()
        guard.poll()
    assert not guard.is_urgent


def test_another_error_comes_first():
    run, *_ = guarded(press, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()


def test_the_handler_is_restored():
    with InterruptGuard():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_users_handler_is_not_changed():
    pressed = []
    mine = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with InterruptGuard() as guard:
            press()
            guard.poll()
    finally:
        signal.signal(signal.SIGINT, mine)
    assert pressed == [signal.SIGINT]


def test_other_threads_are_not_affected():
    errors = []

    def work():
        try:
            with InterruptGuard() as guard:
                guard.poll()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors


PLACES = [
    ({}, False),
    ({"n_jobs": 2}, False),
    ({"backend": "threading", "n_jobs": 2}, False),
    ({"backend": "sequential"}, False),
    ({"prefer": "processes"}, False),
    ({"backend": "loky"}, True),
    ({"backend": "multiprocessing"}, True),
    ({"backend": "loky", "n_jobs": 1}, True),
]


@pytest.mark.parametrize(("config", "expected"), PLACES)
def test_a_backend_of_processes_is_chosen_by_its_name(config, expected):
    with joblib.parallel_config(**config):
        assert are_sent() is expected
        with grouped(2):
            assert not are_sent()


@pytest.mark.parametrize("config", [{"n_jobs": 2}, {"n_jobs": 1}], ids=["two processes", "this one"])
def test_fits_in_processes_are_those_of_this_one(config):
    """Rows are large enough to be memory-mapped, which makes them read-only."""
    rows = np.random.default_rng(0).normal(size=(50_000, 6)).astype("f4")
    labels = np.arange(len(rows)) % 3

    def models():
        return [Model(network(nn.ReLU()), "log_loss", random_state=i) for i in range(3)]

    here, there = models(), models()
    options = {"epochs": 1, "batch_size": 500}
    wanted = trace(here, fit_many(here, rows, labels, **options))
    with joblib.parallel_config("loky", **config), sknet.config_context(native="never"):
        found = trace(there, fit_many(there, rows, labels, **options))
    assert found == wanted


def settings(number):
    return sknet.get_config()["native"], are_sent()


def test_settings_of_the_caller_hold_in_processes():
    with joblib.parallel_config("loky", n_jobs=2), sknet.config_context(native="never"):
        assert run_together([partial(settings, i) for i in range(3)]) == [("never", False)] * 3
        assert run_together([]) == []


def test_what_fits_have_in_common_is_what_several_take():
    shared, own = np.arange(3), [np.arange(4), np.arange(5)]
    fits = [partial(print, {"a": shared}, own[i], end=shared, sep="x") for i in range(2)]
    assert [id(each) for each in in_common([*fits, lambda: None])] == [id(shared)]
    assert [len(each) for each in in_common(fits[:1])] == [3, 4]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_here_says_which_fit_it_is_of(n_jobs):
    models = [Model(network(nn.ReLU()), "log_loss", random_state=i) for i in range(3)]
    bad = [X, X * np.nan, X]
    fits = [partial(model.fit, rows, LABELS) for model, rows in zip(models, bad, strict=True)]
    with pytest.raises(ValueError, match=r"not finite|nan|NaN") as error:
        run_together(fits, n_jobs)
    assert error.value.__notes__ == ["in fit 1 of 3, counted from 0"]
    with pytest.raises(ValueError, match=r"not finite|nan|NaN") as error:
        run_together(fits[1:2], n_jobs)
    assert not hasattr(error.value, "__notes__")


NET = MLPClassifier((4,))
GROUPED = [
    (NET, {}, True),
    (NET, {"device": "cuda"}, False),
    (MLPClassifier(device="cuda"), {"device": "cpu"}, True),
    (LogisticRegression(), {"C": 1.0}, False),
    (Pipeline([("scaler", StandardScaler()), ("net", NET)]), {"net__alpha": 0.1}, True),
    (Pipeline([("scaler", StandardScaler()), ("net", NET)]), {"net": LogisticRegression()}, False),
    (Pipeline([("scaler", StandardScaler()), ("net", LogisticRegression())]), {"net": NET}, True),
    (Pipeline([("net", MLPClassifier(device="cuda"))]), {"net": NET}, True),
    (model_selection.GridSearchCV(NET, {"alpha": [0.0]}), {}, True),
]


@pytest.mark.parametrize(("estimator", "candidate", "expected"), GROUPED)
def test_what_has_a_network_on_the_host_is_grouped(estimator, candidate, expected):
    before = str(estimator)
    assert fits_networks(estimator, candidate) is expected
    assert str(estimator) == before
    assert issubclass(MLPClassifier, BaseNet)
