"""The order in which a loop calls callbacks, and how they can affect it; for steps and L-BFGS alike."""

import sys
from contextlib import nullcontext

import numpy as np
import pytest

from sknet import Model, nn
from sknet.callbacks import Callback, EarlyStopping
from sknet.exceptions import CallbackWarning, FitInterruptedWarning, NonFiniteError
from sknet.optim import LBFGS, SGD, Adam
from sknet.optim.schedules import Adaptive, InverseTime
from tests.engine.helpers import assert_same, assert_same_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
BATCHES = 4  # of 16 rows


class Recorder(Callback):
    """Records every call; performs an action in one of them."""

    def __init__(self, name="", log=None, at=None, answer=None, error=None, nth=1):
        self.name, self.log, self.at, self.answer, self.error, self.nth = name, log, at, answer, error, nth

    def __sklearn_clone__(self):
        return self  # with the same log

    def _called(self, hook, fit):
        self.log.append((self.name, hook) if self.name else hook)
        self.calls = getattr(self, "calls", 0) + (hook == self.at)
        if hook == self.at and self.calls == self.nth:
            if self.error is not None:
                raise self.error
            return self.answer
        return None

    def on_fit_begin(self, fit):
        return self._called("on_fit_begin", fit)

    def on_epoch_begin(self, fit):
        return self._called("on_epoch_begin", fit)

    def on_block_end(self, fit):
        return self._called("on_block_end", fit)

    def on_epoch_end(self, fit):
        return self._called("on_epoch_end", fit)

    def on_fit_end(self, fit):
        self.exception, self.failed = fit.exception, fit.failed
        return self._called("on_fit_end", fit)


class EachBatch(Recorder):
    steps_per_block = 1


class Keeping(Recorder):
    keeps_result = True


def model_for(optimizer=None, **params):
    return Model(
        nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)),
        "log_loss",
        optimizer or Adam(),
        **{"dtype": "float64", "random_state": 0} | params,
    )


def in_steps(callbacks, epochs=3, model=None, weight=None, **more):
    """Return a model, the history of its fit, and the number of its epochs."""
    model = model_for() if model is None else model
    more = {"batch_size": 16, "scores": {"score": "accuracy"}} | more
    history = model.fit(X, CLASSES, weight, epochs=epochs, callbacks=callbacks, **more)
    return model, history, history.n_epochs


def full_batch(callbacks, epochs=3):
    model = model_for(LBFGS())
    history = model.fit(X, CLASSES, epochs=epochs, callbacks=callbacks)
    return model, history, history.n_epochs


HOOKS = ("on_fit_begin", "on_epoch_begin", "on_block_end", "on_epoch_end", "on_fit_end")
LOOPS = pytest.mark.parametrize("loop", [in_steps, full_batch])
IGNORED = pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
EPOCH = ["on_epoch_begin", "on_block_end", "on_epoch_end"]


@LOOPS
@IGNORED
def test_hooks_are_called_in_the_order_of_a_fit(loop):
    log = []
    loop([Recorder(log=log)])
    blocks = [hook for i, hook in enumerate(log) if not (hook == log[i - 1] == "on_block_end")]
    assert blocks == ["on_fit_begin", *EPOCH * 3, "on_fit_end"]


def test_a_callback_for_every_batch_is_called_for_each():
    log = []
    plain, *_ = in_steps([])
    model, *_ = in_steps([EachBatch(log=log), Recorder(log=[])])
    assert log == [
        "on_fit_begin",
        *["on_epoch_begin", *["on_block_end"] * BATCHES, "on_epoch_end"] * 3,
        "on_fit_end",
    ]
    assert_same_state(model.state, plain.state)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_block_has_as_many_steps_as_a_callback_wants_and_the_same_bits(size, compile):
    class Sized(Callback):
        steps_per_block = size

        def on_fit_begin(self, fit):
            self.losses, self.steps = [], []

        def on_block_end(self, fit):
            self.losses.append(fit.losses.copy())
            self.steps.append(fit.step)

    sized = Sized()
    plain, history, *_ = in_steps([], model=model_for(compile=compile))
    model, its, *_ = in_steps([sized], model=model_for(compile=compile))
    assert_same_state(model.state, plain.state)
    assert [its[name] for name in ("loss", "score", "lr")] == [
        history[name] for name in ("loss", "score", "lr")
    ]
    assert max(map(len, sized.losses)) <= size
    assert np.concatenate(sized.losses).size == sized.steps[-1] == 3 * BATCHES
    rows = [16, 16, 16, 2]
    assert history["loss"][0] == pytest.approx(np.average(np.concatenate(sized.losses)[:4], weights=rows))


@LOOPS
@IGNORED
def test_the_order_is_that_of_the_list_and_of_the_class(loop):
    log = []

    class First(Recorder):
        order = -1

    class Last(Recorder):
        order = 1

    loop([Last("c", log), Recorder("a", log), Recorder("b", log), First("0", log)], 1)
    for hook in HOOKS:
        names = [name for name, called in log if called == hook]
        assert names[:4] == (["c", "b", "a", "0"] if hook == "on_fit_end" else ["0", "a", "b", "c"])


@LOOPS
@IGNORED
def test_what_a_hook_sees(loop):
    seen = []

    class Looking(Callback):
        def on_fit_begin(self, fit):
            seen.append((fit.epoch, fit.step, fit.max_epochs, len(fit.losses), fit.record, fit.exception))

        def on_epoch_begin(self, fit):
            seen.append(fit.epoch)

        def on_epoch_end(self, fit):
            seen.append((fit.epoch, fit.record["loss"], fit.history["loss"][-1], fit.model.progress is None))
            assert fit.estimator is fit.validation is None
            assert fit.training.X is X
            assert fit.monitor == "loss"
            assert fit.directions["loss"] is False
            assert fit.batches.n_samples == 50

    _, history, *_ = loop([Looking()], 2)
    assert seen[0] == (0, 0, 2, 0, {}, None)
    assert seen[1::2] == [1, 2]
    assert seen[2::2] == [(k, history["loss"][k - 1], history["loss"][k - 1], False) for k in (1, 2)]


def test_the_view_is_read_only():
    class Setting(Callback):
        def on_epoch_end(self, fit):
            fit.epoch = 3

    with pytest.raises(AttributeError, match="a callback cannot set 'epoch' of a fit, which is read-only"):
        in_steps([Setting()])


def test_the_learning_rate_is_that_of_the_next_step():
    rates = []

    class Rate(Callback):
        def on_epoch_begin(self, fit):
            rates.append(fit.lr)

    in_steps([Rate()], model=model_for(SGD(0.25)))
    assert rates == [0.25] * 3


# -- what is added to the record -----------------------------------------------------------------------


class Adding(Callback):
    order = -1

    def __init__(self, name="twice", value=lambda fit: 2 * fit.record["loss"], every=1, higher=None):
        self.name, self.value, self.every, self.higher = name, value, every, higher

    def on_fit_begin(self, fit):
        if self.higher is not None:
            fit.announce(self.name, higher_is_better=self.higher)

    def on_epoch_end(self, fit):
        if fit.epoch % self.every == 0:
            fit.record[self.name] = self.value(fit)


@LOOPS
@IGNORED
def test_a_score_that_is_added_is_in_the_history(loop):
    _, history, *_ = loop([Adding()])
    assert history["twice"] == [2 * loss for loss in history["loss"]]
    _, history, *_ = loop([Adding(every=2)], 5)
    np.testing.assert_array_equal(np.isnan(history["twice"]), [True, False, True, False, True])


@pytest.mark.parametrize(
    ("callback", "error", "message"),
    [
        (Adding("loss"), ValueError, "this epoch already has a number 'loss', .*: choose another name"),
        (Adding(value=lambda fit: "much"), TypeError, r"record\['twice'\] must be a number, got 'much'"),
        (Adding(value=lambda fit: np.ones(2)), TypeError, r"must be a number, got array"),
    ],
)
def test_invalid_additions_to_the_record(callback, error, message):
    with pytest.raises(error, match=message):
        in_steps([callback])


def test_early_stopping_reads_what_another_callback_adds():
    value = lambda fit: -abs(fit.epoch - 3)  # noqa: E731
    stopping = EarlyStopping("peak", patience=2, tol=0)
    for every in (1, 3):
        stopping = EarlyStopping("peak", patience=2, tol=0)
        _, _, n_iter = in_steps([stopping, Adding("peak", value, every, higher=True)], 20)
        assert (stopping.best_, stopping.best_epoch_, stopping.best_step_) == (0, 3, 3 * BATCHES)
        assert n_iter == (6 if every == 1 else 12)
    stopping = EarlyStopping("peak", patience=2, tol=0, higher_is_better=False)
    assert in_steps([stopping, Adding("peak", value)], 20)[2] == 4
    assert stopping.best_ == -2


def test_early_stopping_requires_an_existing_number_and_its_direction():
    with pytest.raises(ValueError, match=r"monitor='los'\): this fit has no such number.* mean 'loss'\?"):
        in_steps([EarlyStopping("los")])
    with pytest.raises(ValueError, match="monitor='twice'\\) does not know whether higher is better: give"):
        in_steps([EarlyStopping("twice"), Adding()])


# -- stopping --------------------------------------------------------------------------------------------


@LOOPS
@pytest.mark.parametrize(("hook", "n_iter"), list(zip(HOOKS[:4], [0, 0, 1, 1], strict=True)))
def test_stop_ends_the_fit_in_order(hook, n_iter, loop):
    log = []
    first, second = Recorder("a", log, at=hook, answer="stop"), Recorder("b", log)
    model, _, found = loop([first, second])
    assert found == n_iter
    assert log[-2:] == [("b", "on_fit_end"), ("a", "on_fit_end")]
    assert ("b", hook) in log  # the others are called too
    assert not first.failed
    assert first.exception is None
    assert model.progress.epoch == (n_iter if loop is in_steps else 0)


def test_stop_in_the_middle_of_an_epoch_ends_the_epoch():
    log = []
    stopping = EachBatch(log=log, at="on_block_end", answer="stop", nth=BATCHES + 2)
    model, history, n_iter = in_steps([stopping])
    assert (n_iter, model.progress.step, model.progress.samples) == (2, BATCHES + 2, 50 + 32)
    assert log[-2:] == ["on_epoch_end", "on_fit_end"]
    other = model_for()
    order = np.arange(50)
    for _ in range(2):
        order = order[other.random_state.permutation(50)]
        losses = []
        for start in range(0, 50, 16)[: 4 if other.progress.step == 0 else 2]:
            rows = order[start : start + 16]
            losses.append(other.step(X[rows], CLASSES[rows]).loss)
    assert history["loss"][1] == pytest.approx(np.mean(losses))
    np.testing.assert_allclose(model.parameters["0.weight"], other.parameters["0.weight"])


@LOOPS
@IGNORED
@pytest.mark.parametrize("answer", [True, False, 0, "halt", np.zeros(2)])
@pytest.mark.parametrize("hook", HOOKS)
def test_any_other_answer_is_an_error(hook, answer, loop):
    log = []
    with pytest.raises(TypeError, match=rf"Recorder.{hook} returned .*, but must return None"):
        loop([Recorder(log=log, at=hook, answer=answer)])
    assert log.count("on_fit_end") == 1


@LOOPS
@IGNORED
def test_stop_at_the_end_is_an_error(loop):
    with pytest.raises(TypeError, match=r"on_fit_end returned 'stop', but must return None$"):
        loop([Recorder(log=[], at="on_fit_end", answer="stop")])


# -- errors ----------------------------------------------------------------------------------------------


class Error(Exception):
    pass


@LOOPS
@IGNORED
@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize("hook", HOOKS)
def test_an_error_calls_on_fit_end_of_started_callbacks(hook, which, loop):
    log = []
    callbacks = [
        Recorder(name, log, at=hook if which == name else None, error=Error("broken")) for name in "ab"
    ]
    with pytest.raises(Error, match="broken"):
        loop(callbacks)
    ended = [name for name, called in log if called == "on_fit_end"]
    assert ended == (["a"] if (hook, which) == ("on_fit_begin", "a") else ["b", "a"])
    if hook != "on_fit_end":
        assert [c.failed for c in callbacks[: len(ended)]] == [True] * len(ended)
        assert all(isinstance(c.exception, Error) for c in callbacks[: len(ended)])


@LOOPS
@IGNORED
@pytest.mark.parametrize("which", ["a", "b"])
@pytest.mark.parametrize("hook", HOOKS[1:])
def test_an_error_of_a_callback_that_keeps_the_result_is_a_warning(hook, which, loop):
    log = []
    callbacks = [Keeping(name, log, at=hook if which == name else None, error=Error("full")) for name in "ab"]
    with pytest.warns(CallbackWarning, match=rf"Keeping.{hook} raised Error\('full'\): .*kept"):
        _, history, n_iter = loop(callbacks)
    whole = {"on_epoch_end": 1, "on_fit_end": 3, "on_block_end": int(loop is full_batch)}
    assert n_iter == whole.get(hook, 0)
    assert history.n_epochs == n_iter
    assert [name for name, called in log if called == "on_fit_end"] == ["b", "a"]
    assert not callbacks[0].failed


@LOOPS
def test_there_is_nothing_to_keep_before_the_fit_begins(loop):
    with pytest.raises(Error, match="full"):
        loop([Keeping(log=[], at="on_fit_begin", error=Error("full"))])


def test_errors_at_the_end_do_not_hide_each_other():
    def callbacks():
        return [Recorder(log=[], at="on_fit_end", error=Error(name)) for name in "abc"]

    with pytest.raises(Error, match="c") as caught:
        in_steps(callbacks())
    assert [note[-10:] for note in caught.value.__notes__] == ["Error('b')", "Error('a')"]
    with pytest.raises(ZeroDivisionError) as caught:
        in_steps([*callbacks(), Recorder(log=[], at="on_epoch_end", error=ZeroDivisionError())])
    assert len(caught.value.__notes__) == 3


def test_a_diverging_fit_calls_on_fit_end_too():
    recorder = Recorder(log=[])
    with pytest.raises(NonFiniteError):
        in_steps([recorder], model=model_for(SGD(1e308)), weight=np.full(50, 1e200))
    assert isinstance(recorder.exception, NonFiniteError)
    assert recorder.failed
    assert recorder.log[-1] == "on_fit_end"


@LOOPS
def test_an_interrupt_keeps_the_result(loop):
    recorder = Recorder(log=[], at="on_epoch_end", error=KeyboardInterrupt(), nth=2)
    with pytest.warns(FitInterruptedWarning, match="interrupted by user after 2 whole"):
        _, history, n_iter = loop([recorder])
    assert n_iter == history.n_epochs == 2
    assert isinstance(recorder.exception, KeyboardInterrupt)
    assert not recorder.failed


def test_numpy_warns_in_a_callback_as_it_does_outside():
    class Dividing(Callback):
        def on_epoch_end(self, fit):
            np.log(np.zeros(1))

    with pytest.warns(RuntimeWarning, match="divide by zero"):
        in_steps([Dividing()], 1)


# -- best weights ----------------------------------------------------------------------------------------


def weights_after(epochs):
    model, *_ = in_steps([], epochs)
    return model.parameters


@pytest.mark.parametrize("ending", ["limit", "stop", "interrupt", "kept"])
def test_the_best_weights_are_there_however_the_fit_ends(ending):
    endings = {
        "limit": Callback(),
        "stop": Recorder(log=[], at="on_epoch_end", answer="stop", nth=5),
        "interrupt": Recorder(log=[], at="on_block_end", error=KeyboardInterrupt(), nth=4 * BATCHES + 1),
        "kept": Keeping(log=[], at="on_epoch_begin", error=Error(), nth=5),
    }
    scores = Adding("peak", lambda fit: -abs(fit.epoch - 3), higher=True)
    stopping = EarlyStopping("peak", patience=np.inf)
    endings["interrupt"].steps_per_block = 1
    kept = pytest.warns(UserWarning, match="what was learned is kept")
    with kept if ending in ("interrupt", "kept") else nullcontext():
        model, *_ = in_steps([scores, stopping, endings[ending]], 6)
    assert_same(model.parameters, weights_after(3))


def test_the_best_weights_of_lbfgs():
    scores = Adding("peak", lambda fit: -abs(fit.epoch - 3), higher=True)
    with pytest.warns(UserWarning, match="failed to converge"):
        shorter, *_ = full_batch([], 3)
    model, _, n_iter = full_batch([scores, EarlyStopping("peak", patience=1, tol=0)], 20)
    assert n_iter == 5
    assert_same(model.parameters, shorter.parameters)


def test_a_failed_fit_restores_nothing():
    scores = Adding("peak", lambda fit: -abs(fit.epoch - 1), higher=True)
    model = model_for()
    with pytest.raises(Error):
        in_steps(
            [scores, EarlyStopping("peak"), Recorder(log=[], at="on_epoch_end", error=Error(), nth=3)],
            model=model,
        )
    assert_same(model.parameters, weights_after(3))


def test_the_validation_decides_what_a_fit_goes_by():
    seen = []

    class Looking(Callback):
        def on_fit_begin(self, fit):
            seen.append((fit.monitor, fit.directions[fit.monitor]))

    in_steps([Looking()], 1)
    in_steps([Looking()], 1, X_val=X[:9], y_val=CLASSES[:9])
    assert seen == [("loss", False), ("validation_loss", False)]


def test_hooks_that_nobody_defines_cost_nothing():
    calls = []

    def counting(frame, event, arg):
        if event == "call" and "callbacks" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    model = model_for()
    sys.setprofile(counting)
    try:
        in_steps([EarlyStopping()], 2, model)
    finally:
        sys.setprofile(None)
    assert not {"on_block_end"} & set(calls)


def test_the_state_of_a_fit_is_whole_before_its_steps_are_needed():
    class Saving(Callback):
        needs = "state"

        def on_fit_begin(self, fit):
            self.saved = fit.state()
            return "stop"

    saving = Saving()
    _, _, n_iter = in_steps([saving])
    assert n_iter == 0
    assert saving.saved["environment"]["steps"]


class Patient(Callback):
    """Looks at the ends of epochs when many have been trained, so that each is entered."""

    def epochs_ahead(self):
        return 1000

    def on_epoch_end(self, fit):
        self.last = fit.epoch, fit.step, dict(fit.record), fit.model.progress, fit.losses.tolist()


@pytest.mark.parametrize("lr", [0.01, InverseTime(0.02, 5, 0.001), Adaptive(0.02, patience=2)])
@pytest.mark.parametrize("batch_size", [50, 16])
@pytest.mark.parametrize("monitor", ["loss", "score"])
def test_epochs_that_only_early_stopping_looks_at(lr, batch_size, monitor):
    found = []
    for looking in ([], [Patient()]):
        model = model_for(Adam(lr=lr))
        stopping = EarlyStopping(monitor, patience=6, tol=0.02, restore_best=False)
        _, history, n_epochs = in_steps([stopping, *looking], 60, model, batch_size=batch_size)
        columns = {name: column for name, column in history.items() if name != "time"}
        counts = stopping.state(), stopping.best_epoch_, stopping.best_step_, model.progress
        found.append((columns, counts, [p.tobytes() for p in model.parameters.values()]))
        assert min(history["time"]) > 0
        for each in looking:
            assert each.last[:2] == (n_epochs, n_epochs * -(-50 // batch_size))
    assert found[0] == found[1]
    assert 6 < len(found[0][0]["loss"]) < 60
