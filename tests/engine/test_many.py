"""Many fits together: each as its own fit to the bit, whatever the number of threads and the order."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse
import sklearn

import sknet
from sknet import Model, nn
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.engine import _runner_cache, fit_many
from sknet.engine._many import run_together
from sknet.engine._scheduler import Group, _in_threads, current_group, grouped, n_threads_for
from sknet.exceptions import NonFiniteError
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
