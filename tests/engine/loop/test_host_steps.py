"""Steps on the host: several epochs in one call, outputs, orders, and steps that are left to later fits."""

import gc
import multiprocessing
import pickle
import threading
import weakref
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.datasets import load_iris

import sknet
from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet._native import needed
from sknet.callbacks import Callback, EarlyStopping
from sknet.device import Device, active, to_host
from sknet.engine import Accuracy, Batches, History, RSquared, Score, _batches, _loop, _runner_cache, _runners
from sknet.engine._batches import Buckets, ComputedRows, Orders, buckets_of
from sknet.engine._device_runner import DeviceRows
from sknet.engine._loop import Settings, train
from sknet.engine._runner_cache import ALONE
from sknet.engine._runners import CompiledSteps, NativeSteps, Outputs
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine, InverseScaling, Step
from sknet.persistence import _describe, digest
from tests.callbacks.helpers import unconverged
from tests.engine.test_many import FAMILIES, Steeper, SteeperAtLast, given, network, trace
from tests.engine.test_many import LABELS as MANY_LABELS
from tests.engine.test_many import X as MANY_X
from tests.estimators.data import quiet

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X, LABELS = load_iris(return_X_y=True)
NUMBERS = X[:, 3]


class Watching(Callback):
    """Looks at every epoch when it is trained, so that no two are trained in one call."""

    def on_epoch_end(self, fit):
        self.seen_ = [*getattr(self, "seen_", []), fit.epoch]


class Reading(Watching):
    """Reads records only, and allows some epochs ahead."""

    def __init__(self, ahead=5, ends=10**6):
        self.ahead = ahead
        self.ends = ends

    def epochs_ahead(self):
        return self.ahead

    def on_epoch_end(self, fit):
        super().on_epoch_end(fit)
        self.records_ = [*getattr(self, "records_", []), (fit.epoch, fit.step, *fit.record.items())]
        return "stop" if fit.epoch == self.ends else None


@pytest.fixture
def calls(monkeypatch, limits):
    """The numbers of epochs that were trained in one call."""
    limits("seconds of a block of steps", 1e9)
    found, run = [], _runners.NativeSteps.run_epochs

    def counting(self, orders, *others):
        found.append(len(orders))
        return run(self, orders, *others)

    monkeypatch.setattr(_runners.NativeSteps, "run_epochs", counting)
    with sknet.config_context(native="always"):
        yield found


def without_time(history):
    return {name: column for name, column in history.items() if name != "time"}


def assert_the_same(one, other):
    """Assert that two models are equal to the last bit, and so is what they draw."""
    assert one.progress == other.progress
    for mine, others in (
        (one.parameters, other.parameters),
        (one.memory.flat_buffers()[1], other.memory.flat_buffers()[1]),
    ):
        for name in mine:
            np.testing.assert_array_equal(mine[name], others[name])
    np.testing.assert_array_equal(one.random_state.rand(3), other.random_state.rand(3))


CASES = {
    "one batch": {},
    "batches": {"batch_size": 50},
    "a shorter one": {"batch_size": 40},
    "all rows": {"batch_size": 150},
    "in order": {"shuffle": False, "batch_size": 40},
    "dropout": {"dropout": 0.3, "batch_size": 40},
    "float64": {"dtype": "float64", "batch_size": 32},
    "momentum": {"optimizer": SGD(0.01, momentum=0.9)},
    "inverse scaling": {"optimizer": SGD(InverseScaling(0.05)), "batch_size": 50},
    "cosine": {"optimizer": Adam(Cosine(0.01)), "batch_size": 64},
    "steps by epoch": {"optimizer": Adam(Step(0.01, 3)), "batch_size": 64},
    "adaptive": {"optimizer": SGD(Adaptive(0.5)), "tol": 0.01, "n_iter_no_change": 3, "max_iter": 80},
    "patience": {"tol": 0.02, "n_iter_no_change": 4, "max_iter": 100},
    "little patience": {"tol": 0.05, "n_iter_no_change": 1, "max_iter": 100},
    "random state": {"random_state": np.random.RandomState(7)},
}


@pytest.mark.parametrize("batch_size", [150, 50, 40])
def test_several_epochs_are_one_call_of_native_code(batch_size, calls, monkeypatch):
    """Also where the last batch of each is shorter."""
    native, core = [], needed()
    counting = SimpleNamespace(steps=lambda *args: native.append(1) or core.steps(*args), passes=core.passes)
    monkeypatch.setattr("sknet.compile.native._run.needed", lambda: counting)
    params = {"max_iter": 12, "tol": 0.0, "callbacks": [Reading(ahead=4)], "batch_size": batch_size}
    MLPClassifier((9,), random_state=0, **params).fit(X, LABELS)
    assert calls == [4, 4, 4]
    assert len(native) == 3


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_one_by_one(kind, name, calls):
    y = LABELS if kind is MLPClassifier else NUMBERS
    params = {"random_state": 0, "max_iter": 30, **CASES[name]}
    if "dropout" in params:
        params |= {"hidden_layer_sizes": (8,), "dropout": params["dropout"]}
    found = {}
    for callbacks in ([], [Watching()]):
        given = {
            k: np.random.RandomState(7) if isinstance(v, np.random.RandomState) else v
            for k, v in params.items()
        }
        model = kind(**{"hidden_layer_sizes": (8,), **given}, callbacks=callbacks).fit(X, y)
        found[bool(callbacks)] = model
        if not callbacks:
            in_calls = sum(calls)
    several, single = found[False], found[True]
    assert sum(calls) == in_calls  # none with a callback that looks at each epoch
    assert in_calls > (0 if name in ("little patience", "adaptive") else single.n_iter_ / 2)
    assert several.n_iter_ == single.n_iter_
    assert without_time(several.history_) == without_time(single.history_)
    assert min(several.history_["time"]) > 0
    for one, other in zip(several.coefs_, single.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)


def test_records_are_those_of_each_epoch(calls):
    seen = {}
    for ahead in (1, 3, 7):
        reading = Reading(ahead)
        model = MLPClassifier((8,), random_state=0, max_iter=20, callbacks=[reading], tol=0.0).fit(X, LABELS)
        seen[ahead] = (
            [
                [(name, value) for name, value in rest if name != "time"]
                for _, _, *rest in model.callbacks_[0].records_
            ],
            [record[:2] for record in model.callbacks_[0].records_],
        )
        assert model.callbacks_[0].seen_ == list(range(1, 21))
    assert seen[1] == seen[3] == seen[7]
    assert set(calls) >= {3, 7}


def test_a_callback_ends_the_fit_only_where_it_said(calls):
    fits = [
        MLPClassifier((8,), random_state=0, max_iter=20, callbacks=[Reading(ahead, ends)], tol=0.0)
        for ahead, ends in ((5, 10), (1, 10), (5, 12))
    ]
    assert fits[0].fit(X, LABELS).n_iter_ == fits[1].fit(X, LABELS).n_iter_ == 10
    np.testing.assert_array_equal(fits[0].coefs_[0], fits[1].coefs_[0])
    with pytest.raises(RuntimeError, match=r"Reading ended the fit in epoch 12, but its epochs_ahead\(\)"):
        fits[2].fit(X, LABELS)


def test_a_subclass_that_looks_at_epochs_allows_none_ahead(calls):
    """Whatever the class it is of allows."""

    class BelowALoss(EarlyStopping):
        def on_epoch_end(self, fit):
            super().on_epoch_end(fit)
            self.norms_ = [*getattr(self, "norms_", []), float(abs(fit.model.parameters["0.weight"]).sum())]
            return "stop" if fit.record["loss"] < 1.0 else None

    stopping = BelowALoss("loss", patience=np.inf, restore_best=False)
    params = {"random_state": 0, "max_iter": 300, "tol": 0.0, "n_iter_no_change": np.inf}
    model = MLPClassifier((8,), **params, callbacks=[stopping]).fit(X, LABELS)
    assert not calls
    assert model.history_["loss"][-1] < 1.0 <= min(model.history_["loss"][:-1])
    assert len(set(model.callbacks_[0].norms_)) == model.n_iter_


def test_a_callback_before_epochs_is_called_in_time(calls):
    class Beginning(Reading):
        def on_epoch_begin(self, fit):
            return "stop" if fit.epoch == 8 else None

    model = MLPClassifier((8,), random_state=0, max_iter=20, callbacks=[Beginning(5)]).fit(X, LABELS)
    assert not calls
    assert model.n_iter_ == 7


def test_scores_that_look_at_the_model_see_each_epoch(calls):
    """Those of functions may; a score that is known reads outputs alone."""
    models = [Model(nn.Linear(4, 3), "log_loss", Adam(0.01), random_state=0) for _ in range(2)]
    found = []
    for model, callbacks in zip(models, ([], [Watching()]), strict=True):
        scores = {"norm": lambda *_, model=model: float(abs(model.parameters["weight"]).sum())}
        found.append(model.fit(X, LABELS, epochs=12, scores=scores, callbacks=callbacks)["norm"])
    assert found[0] == found[1]
    assert len(set(found[0])) == 12
    assert not calls

    def mean_probability(estimator, X, y):
        return float(estimator.predict_proba(X + 1.0)[:, 0].mean())

    for callbacks in ([], [Watching()]):
        model = MLPClassifier(
            (8,), random_state=0, max_iter=12, scoring=mean_probability, callbacks=callbacks
        )
        found.append(model.fit(X, LABELS).history_["mean_probability"])
    assert found[2] == found[3]
    assert not calls


class Wrong(sknet.engine.Accuracy):
    def result(self):
        return 1.0 - super().result()


class WaitingWrong(Wrong):
    may_wait = True


@pytest.mark.parametrize("score", [Wrong, WaitingWrong, sknet.engine.Accuracy])
def test_subclasses_of_scores_score_themselves(score, calls):
    found = []
    for callbacks in ([], [Watching()]):
        model = Model(nn.Linear(4, 3), "log_loss", Adam(0.01), random_state=0)
        batches, history = sknet.engine.Batches(X, LABELS, None, 50, model.dtype, model.device), {}
        history = sknet.engine.History()
        _loop.train(model, batches, history, _loop.Settings(max_iter=12), score, callbacks=callbacks)
        found.append(history["score"])
    assert found[0] == found[1]
    assert bool(calls) == (score is not Wrong)


def test_outputs_that_are_not_finite_do_not_reach_other_epochs(calls):
    """With ties in some epochs, and NaN in others."""
    found = []
    for callbacks in ([], [Watching()]):
        rate = SGD(lambda progress: 0.0 if progress.epoch < 4 else 1e38)
        model = Model(nn.Linear(4, 3, init="zeros"), "log_loss", rate, random_state=0)
        history = sknet.engine.History()
        batches = sknet.engine.Batches(X, LABELS, None, 150, model.dtype, model.device)
        settings = _loop.Settings(max_iter=12, check_finite=False)
        with np.errstate(all="ignore"):
            _loop.train(model, batches, history, settings, sknet.engine.Accuracy, callbacks=callbacks)
        found.append(history["score"])
    np.testing.assert_array_equal(*found)
    assert calls
    assert np.isnan(found[0]).any()


def test_an_error_leaves_all_that_is_trained(calls):
    """The counters of the model are those of its weights, so that it can go on."""

    class Failing(Reading):
        def epochs_ahead(self):
            return self.ahead

        def on_epoch_end(self, fit):
            if fit.epoch == 7:
                raise RuntimeError("no")

    models = [Model(nn.Linear(4, 3), "log_loss", Adam(Cosine(0.01)), random_state=0) for _ in range(2)]
    how = {"batch_size": 50}
    with pytest.raises(RuntimeError, match="no"):
        models[0].fit(X, LABELS, epochs=20, **how, callbacks=[Failing(5)])
    assert calls[:2] == [5, 5]
    models[1].fit(X, LABELS, epochs=20, **how, callbacks=[Reading(5, ends=10)])
    assert_the_same(*models)


def test_the_losses_at_the_end_are_those_of_the_last_batches(calls):
    class Ending(Callback):
        def on_fit_end(self, fit):
            self.losses_ = fit.losses.tolist()

    model = MLPClassifier((8,), random_state=0, max_iter=9, batch_size=50, callbacks=[Ending()])
    losses = model.fit(X, LABELS).callbacks_[0].losses_
    assert calls
    assert np.mean(losses) == pytest.approx(model.history_["loss"][-1])


@pytest.mark.parametrize("batch_size", [150, 50, 40])
@pytest.mark.parametrize("shuffle", [True, False])
def test_a_step_that_fails_leaves_what_was_there_before(batch_size, shuffle, calls):
    """Also the random numbers, and in the middle of an epoch."""
    y = LABELS.astype(float)
    models = []
    how = {"batch_size": batch_size, "shuffle": shuffle, "epochs": 40}
    for callbacks in ([], [Watching()]):
        model = Model(nn.Linear(4, 1), "squared_error", SGD(Cosine(0.9, n_steps=1000)), random_state=3)
        model.fit(X * 1e-3, y[:, np.newaxis], **how, callbacks=callbacks)
        with pytest.raises(NonFiniteError) as raised:
            model.fit(X, y[:, np.newaxis], **how, callbacks=callbacks)
        models.append((model, str(raised.value)))
    (several, error), (single, expected) = models
    assert error == expected
    assert calls
    assert_the_same(several, single)


def test_no_more_steps_than_allowed(calls):
    for most in (7, 8, 9):
        ends = []
        for callbacks in ([], [Watching()]):
            model = Model(nn.Linear(4, 3), "log_loss", Adam(0.01), random_state=0)
            batches = sknet.engine.Batches(X, LABELS, None, 50, model.dtype, model.device)
            settings = _loop.Settings(max_iter=50, max_steps=most)
            _loop.train(
                model, batches, sknet.engine.History(), settings, sknet.engine.Accuracy, callbacks=callbacks
            )
            ends.append(model)
        assert ends[0].progress.step == ends[1].progress.step == most
        assert_the_same(*ends)


@pytest.mark.parametrize(
    ("stopping", "expected"),
    [
        (EarlyStopping("loss", patience=4, restore_best=False), 5),
        (EarlyStopping("loss", patience=np.inf, restore_best=False), 1 << 20),
        (EarlyStopping("loss", patience=4), 5),
    ],
)
def test_how_far_early_stopping_looks_ahead(stopping, expected):
    """Restoring weights needs those of each epoch, which not all steps keep."""
    found = []

    class Asking(Callback):
        order = 1

        def on_fit_begin(self, fit):
            found.append(used[0].epochs_ahead())

    used = [stopping]
    model = Model(nn.Linear(4, 3), "log_loss", Adam(0.01), random_state=0)
    _loop.train(
        model,
        sknet.engine.Batches(X, LABELS, None, 50, model.dtype, model.device),
        sknet.engine.History(),
        _loop.Settings(max_iter=2),
        sknet.engine.Accuracy,
        callbacks=[stopping, Asking()],
    )
    assert found[0] in (expected, expected + 1)


RNG = np.random.default_rng(0)
X_OUTPUTS, CLASSES = RNG.normal(size=(50, 4)).astype("f4"), RNG.integers(0, 3, 50)


def written(outputs, rows, size, rng):
    """Write the rows as blocks of batches would; return the parts."""
    found, start = [], 0
    while start < len(rows):
        one = min(size, len(rows) - start)
        free = outputs.free(one, rows.shape[1:], rows.dtype)
        stop = min(start + one * int(rng.integers(1, 4)), start + len(free) // one * one, len(rows))
        stop = stop if (stop - start) % one == 0 else start + one
        free[: stop - start] = rows[start:stop]
        outputs.add(stop - start)
        found += [part.copy() for part in outputs.parts()]
        start = stop
    return [*found, *[part.copy() for part in outputs.parts(also_last=True)]]


@pytest.mark.parametrize("seed", range(30))
def test_parts_do_not_depend_on_blocks(seed, monkeypatch):
    monkeypatch.setattr(_runners, "MOST_KEPT", 60)
    rng = np.random.default_rng(seed)
    n_samples, size, width = int(rng.integers(1, 80)), int(rng.integers(1, 30)), int(rng.integers(1, 90))
    shape = (width,) if seed % 2 else (width, 2)
    expected = max(1, min(n_samples, 60 // int(np.prod(shape))))
    outputs = Outputs(n_samples)
    for _ in range(2):  # epochs
        rows = rng.normal(size=(n_samples, *shape)).astype("f4")
        parts = written(outputs, rows, size, rng)
        assert [len(part) for part in parts[:-1]] == [expected] * (len(parts) - 1)
        np.testing.assert_array_equal(np.concatenate(parts), rows)
        assert outputs.n_rows == 0


def test_what_is_scored_by_batch_is_one_part():
    outputs = Outputs(None)
    for shape in ((5, 3), (7, 3), (2, 4, 3), (7, 3)):
        rows = RNG.normal(size=shape)
        outputs.free(len(rows), rows.shape[1:], rows.dtype)[: len(rows)] = rows
        outputs.add(len(rows))
        [part] = outputs.parts(also_last=True)
        np.testing.assert_array_equal(part, rows)


class Looking(Score):
    """Records the memory of outputs."""

    def __init__(self, seen):
        self._seen = seen

    def add(self, output, target, weight, rows=None):
        self._seen.append(output)

    def result(self):
        return 0.0

    def state(self):
        return {}

    def load_state(self, state):
        pass


KINDS = {"native": (True, "always"), "plan": (True, "never"), "eager": (False, "never")}


@pytest.mark.parametrize(("compiled", "native"), KINDS.values(), ids=KINDS)
def test_outputs_are_scored_where_steps_wrote_them(compiled, native, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    rooms, seen, free = [], [], Outputs.free

    def noted(self, *args):
        rooms.append(free(self, *args))
        return rooms[-1]

    monkeypatch.setattr(Outputs, "free", noted)
    model = Model(nn.Linear(4, 3), "log_loss", random_state=0, compile=compiled)
    batches = Batches(X_OUTPUTS, CLASSES, None, 8, model.dtype, model.device)
    train(model, batches, History(), Settings(3), lambda: Looking(seen))
    assert [part.shape for part in seen] == [(50, 3)] * 3  # an epoch at once
    assert all(np.shares_memory(part, seen[0]) for part in seen)
    assert all(np.shares_memory(room, seen[0]) for room in rooms)


def fit_estimator(**params):
    with unconverged():
        return MLPClassifier((5,), max_iter=3, random_state=0, **params).fit(X_OUTPUTS, CLASSES)


def fit_model(**params):
    return Model(nn.Linear(4, 3), "log_loss", random_state=0).fit(X_OUTPUTS, CLASSES, epochs=3, **params)


def fit_stream(**params):
    return Model(nn.Linear(4, 3), "log_loss", random_state=0).train(
        [(X_OUTPUTS, CLASSES)], epochs=3, **params
    )


HELD_OUT = {"X_val": X_OUTPUTS, "y_val": CLASSES}
# Fits without and with a score.
FITS = {
    "estimator": (fit_estimator, {"scoring": "loss"}, {}),
    "stopping": (fit_estimator, {"scoring": "loss", "early_stopping": True}, {"early_stopping": True}),
    "model": (fit_model, {}, {"scores": "accuracy"}),
    "model, validated": (fit_model, HELD_OUT, {**HELD_OUT, "scores": "accuracy"}),
    "stream": (fit_stream, HELD_OUT, {**HELD_OUT, "scores": "accuracy"}),
}


@pytest.mark.parametrize(("fit", "without", "params"), FITS.values(), ids=FITS)
@pytest.mark.parametrize("native", ["never", "always"])
def test_outputs_that_nobody_reads_are_not_kept(fit, without, params, native, monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", native)
    kept, scored, free, add = [], [], Outputs.free, Accuracy.add
    monkeypatch.setattr(Outputs, "free", lambda self, *args: kept.append(self) or free(self, *args))
    monkeypatch.setattr(Accuracy, "add", lambda self, *args: scored.append(self) or add(self, *args))
    run, of_epochs = NativeSteps.run_epochs, Accuracy.of_epochs
    monkeypatch.setattr(
        NativeSteps, "run_epochs", lambda *args: (kept.append(args) if args[3] else None) or run(*args)
    )
    monkeypatch.setattr(Accuracy, "of_epochs", lambda *args: scored.append(args) or of_epochs(*args))
    loss = fit(**without)
    assert not kept
    assert not scored
    scores = fit(**params)
    assert kept
    assert scored
    one, other = (getattr(found, "history_", found) for found in (loss, scores))
    assert one["loss"] == other["loss"]


X_KEPT, Y = RNG.normal(size=(90, 4)), np.arange(90) % 3
PARTS = [slice(0, 30), slice(30, 60), slice(60, 90), slice(0, 10)]


def weights(clf):
    return b"".join(array.tobytes() for array in (*clf.coefs_, *clf.intercepts_))


def in_parts(forgets, change=lambda clf, number: None, parts=PARTS, X_KEPT=X_KEPT, **params):
    clf = MLPClassifier((5,), scale_inputs=False, **{"random_state": 0, **params})
    for number, part in enumerate(parts * 2):
        change(clf, number)
        clf.partial_fit(X_KEPT[part], Y[part], classes=[0, 1, 2])
        if forgets:
            clf.model_.recompile()
    return clf


def another_rate(clf, number):
    clf.set_params(optimizer=Adam(lr=0.001 * (number + 1)))


def another_penalty(clf, number):
    clf.set_params(alpha=0.1 * number)


def another_optimizer(clf, number):
    clf.set_params(optimizer=[SGD(0.1), SGD(0.1, momentum=0.5), Adam(beta1=0.5)][number % 3])


def another_activation(clf, number):
    if number == 3:
        clf.model_.module[1].forward = lambda x: x * 2.0


def frozen(clf, number):
    clf.set_params(frozen="0.*" if number % 3 == 2 else None)


def of_other_kind(clf, number):
    clf.set_params(batch_size=[200, 8, 10][number % 3])


CHANGES = [another_rate, another_penalty, another_optimizer, another_activation, frozen, of_other_kind]


@pytest.mark.filterwarnings("ignore:Got `batch_size`")
@pytest.mark.filterwarnings("ignore:the training step is not compiled")
@pytest.mark.parametrize("change", [lambda clf, number: None, *CHANGES])
def test_kept_steps_are_bitwise_identical_to_new_ones(change):
    for params in ({}, {"shuffle": False, "batch_size": 8, "dropout": 0.5}):
        assert weights(in_parts(False, change, **params)) == weights(in_parts(True, change, **params))


def test_rows_of_another_layout_or_dtype_are_read_as_they_are():
    def mixed(forgets):
        clf = MLPClassifier((5,), random_state=0)
        for number in range(8):
            part = [X_KEPT[:30], np.asfortranarray(X_KEPT[:30]), X_KEPT[:60:2], X_KEPT[:30].astype("f4")][
                number % 4
            ]
            clf.partial_fit(part, Y[:30], classes=[0, 1, 2])
            if forgets:
                clf.model_.recompile()
        return weights(clf)

    assert mixed(False) == mixed(True)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_steps_are_captured_once_for_equal_parts(monkeypatch):
    made = []
    original = _runner_cache.steps_for
    monkeypatch.setattr(
        _runner_cache, "steps_for", lambda *args, **options: made.append(1) or original(*args, **options)
    )
    clf = in_parts(False, parts=PARTS[:3])
    assert len(made) == 1
    clf.fit(X_KEPT, Y)
    assert len(made) == 2


def test_few_rows_are_kept_and_copies_keep_nothing():
    clf = in_parts(False, parts=PARTS[:1])
    size = len(pickle.dumps(clf))
    wide = MLPClassifier((5,), random_state=0)
    many = np.tile(X_KEPT, (50, 1))
    for _ in range(2):
        wide.partial_fit(many, np.tile(Y, 50), classes=[0, 1, 2])
    rows = 200 * X_KEPT.shape[1] * X_KEPT.itemsize  # of whose contributions `feature_importances_` are means
    assert abs(len(pickle.dumps(wide)) - size) < 2000 + rows < X_KEPT.nbytes * 50
    twin = pickle.loads(pickle.dumps(clf))
    for each in (twin, clf):
        each.partial_fit(X_KEPT[:30], Y[:30])
    assert weights(twin) == weights(clf)
    assert clone(clf).partial_fit(X_KEPT, Y, classes=[0, 1, 2]).n_iter_ == 1


def test_a_model_can_be_trained_after_a_failed_part():
    clf, twin = in_parts(False, parts=PARTS[:1]), in_parts(False, parts=PARTS[:1])
    with pytest.raises(ValueError, match="classes not in"):
        clf.partial_fit(X_KEPT[:30], Y[:30] + 7)
    with pytest.raises(Exception, match="training diverged"):
        clf.partial_fit(X_KEPT[:30] * 1e200, Y[:30])
    for each in (clf, twin):
        each.partial_fit(X_KEPT[:30], Y[:30])
    assert weights(clf) == weights(twin)


def test_user_code_is_captured_for_every_part():
    class Own(nn.Module):
        times = 0

        def forward(self, x):
            Own.times += 1
            return x

        def __deepcopy__(self, memo):
            return self

    clf = in_parts(False, parts=PARTS[:1], activation=Own())
    before = Own.times
    clf.partial_fit(X_KEPT[:30], Y[:30])
    assert Own.times > before


MAKERS = [
    lambda i: Model(network(nn.ReLU()), "log_loss", Adam(0.01 + 0.01 * i), random_state=i),
    lambda i: Model(network(nn.Tanh()), "log_loss", SGD(0.1), alpha=0.1 * i, random_state=i),
    lambda i: Model(network(nn.BatchNorm(8)), "log_loss", SGD(0.1, momentum=0.9), random_state=i),
    lambda i: Model(network(nn.LeakyReLU(0.1 + i)), "log_loss", SGD(0.1), random_state=i),
]


@pytest.fixture
def _nothing_idle():
    ALONE.clear()
    yield
    ALONE.clear()


@contextmanager
def each_its_own():
    """Let no fit leave its steps to another one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_runner_cache, "MOST_EPOCHS_ALONE", -1)
        yield


@pytest.fixture
def taken(monkeypatch):
    """A list with an entry for each fit that took steps of another one."""
    found, bind = [], CompiledSteps.bind
    monkeypatch.setattr(CompiledSteps, "bind", lambda *args: found.append(args) or bind(*args))
    return found


@pytest.mark.usefixtures("_nothing_idle")
@pytest.mark.parametrize("native", ["always", "never"])
@pytest.mark.parametrize("name", FAMILIES)
def test_one_after_the_other(name, native):
    make, options = FAMILIES[name]
    A, y, options = given(options)

    def fits():
        models = [make(i) for i in range(4)]
        return trace(models, [model.fit(A, y, **options) for model in models])

    with sknet.config_context(native=native):
        with each_its_own():
            wanted = fits()
        assert fits() == wanted


@pytest.mark.usefixtures("_nothing_idle")
def test_the_second_fit_takes_the_steps_of_the_first(taken):
    for i in range(3):
        MAKERS[0](i).fit(MANY_X, MANY_LABELS, epochs=2)
    assert len(taken) == 2


KINDS_SHARED = [*["new"] * 3, *["fit"] * 3, "step", "change", "pickle", "fails"]


def drawn(seed):
    """Return what is done in a random order with models of few structures: functions of a list of models."""
    rng = np.random.default_rng(seed)
    done = []
    for number in range(30):
        which, size, rows = rng.integers(4), int(rng.choice([16, 30])), int(rng.choice([60, 90]))
        epochs, native = int(rng.integers(1, 4)), str(rng.choice(["always", "never"]))
        kind = rng.choice(
            ["new", "fit", "step", "change", "pickle", "fails"], p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1]
        )
        done.append((kind, int(which), number, size, rows, epochs, native))
    return done


class Fails(Callback):
    def on_epoch_end(self, fit):
        raise RuntimeError("in a callback")


def do(models, what):
    """Do one thing, and return what can be seen of it."""
    kind, which, number, size, rows, epochs, native = what
    if kind == "new" or not models:
        models.append(MAKERS[which](number))
    place = number % len(models)
    model, history = models[place], {}
    options = {"epochs": epochs, "batch_size": size}
    if kind == "pickle":
        model = models[place] = pickle.loads(pickle.dumps(model))
    if kind == "step":
        model.step(MANY_X[:size], MANY_LABELS[:size])
    if kind == "change":
        model.module[0].weight.data = np.full_like(model.module[0].weight.numpy(), 0.01 * number)
        model.alpha = 0.05 * which
    with sknet.config_context(native=native):
        if kind == "fails":
            with pytest.raises(RuntimeError, match="in a callback"):
                model.fit(MANY_X[:rows], MANY_LABELS[:rows], callbacks=[Fails()], **options)
        elif kind in ("new", "fit"):
            history = model.fit(MANY_X[:rows], MANY_LABELS[:rows], **options)
    return trace([model], [history]), model.predict(MANY_X[:3]).tobytes()


@pytest.mark.usefixtures("_nothing_idle")
@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_done_between_fits(seed, taken):
    shared, own = [], []
    for what in drawn(seed):
        with each_its_own():
            wanted = do(own, what)
        assert do(shared, what) == wanted
    assert taken


@pytest.mark.usefixtures("_nothing_idle")
@pytest.mark.parametrize("callback", [Steeper, SteeperAtLast])
def test_what_a_callback_changes_does_not_reach_the_next_fit(callback):
    def fits():
        models = [MAKERS[3](0) for _ in range(4)]
        with_callback = [[callback()] if i in (0, 2) else [] for i in range(4)]
        histories = [
            model.fit(MANY_X, MANY_LABELS, epochs=3, batch_size=64, callbacks=each)
            for model, each in zip(models, with_callback, strict=True)
        ]
        return trace(models, histories)

    with each_its_own():
        wanted = fits()
    assert fits() == wanted


@pytest.mark.usefixtures("_nothing_idle")
def test_models_and_rows_are_let_go():
    A = MANY_X.copy()
    model = MAKERS[0](0)
    model.fit(A, MANY_LABELS, epochs=2)
    gone = [weakref.ref(each) for each in (A, model, model.module, model.module[0], model.optimizer)]
    del A, model
    gc.collect()
    assert [each() for each in gone] == [None] * len(gone)


@pytest.mark.usefixtures("_nothing_idle")
def test_large_or_long_fits_leave_nothing():
    for width, epochs, batch in ((9000, 1, 16), (8, 101, 90)):
        Model(nn.Sequential(nn.Linear(6, width), nn.Linear(width, 3)), "log_loss", random_state=0).fit(
            MANY_X, MANY_LABELS, epochs=epochs, batch_size=batch
        )
    wide = np.ones((3000, 1000), "f4")
    Model(nn.Linear(1000, 3), "log_loss", random_state=0).fit(
        wide, np.arange(3000) % 3, epochs=1, batch_size=len(wide)
    )
    rows = np.tile(MANY_X, (2000, 1))
    Model(network(nn.ReLU()), "log_loss", random_state=0).fit(
        rows, np.tile(MANY_LABELS, 2000), epochs=1, batch_size=len(rows)
    )
    assert not ALONE._objects


@pytest.mark.usefixtures("_nothing_idle")
def test_threads():
    """Two fits at a time never have the same steps."""
    wanted = [fitted(i) for i in range(8)]
    found = {}
    threads = [
        threading.Thread(target=lambda k=k: found.update({i: fitted(i) for i in range(k, 8, 4)}))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(8)] == wanted


def fitted(seed):
    model = MAKERS[0](seed)
    model.fit(MANY_X, MANY_LABELS, epochs=5)
    return model.weights().flat.tobytes()


@pytest.mark.usefixtures("_nothing_idle")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_waits_for_no_thread_of_its_parent():
    wanted = fitted(0)
    with ALONE._lock, multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(fitted, (0,)).get(60) == wanted


class Stored(ComputedRows):
    """Rows of an array; counts how many were read."""

    def __init__(self, array):
        super().__init__(array.shape, array.dtype)
        self.array, self.read, self.most = array, 0, 0

    def write(self, rows, out):
        self.read += len(rows)
        self.most = max(self.most, len(rows))
        out[...] = self.array[rows]


def trained(X, y, native, *, size, weight=None, rows=None, max_iter=4, max_steps=None, shuffle=True):
    model = Model(
        nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 1)), optimizer="adam", random_state=0
    )
    batches = Batches(X, y, weight, size, model.dtype, model.device, rows)
    history = History()
    settings = Settings(max_iter=max_iter, max_steps=max_steps, shuffle=shuffle)
    with sknet.config_context(native=native):
        train(model, batches, history, settings, lambda: RSquared(batches.y, None, model.loss_function))
    return [value.copy() for value in model.parameters.values()], history["loss"], history["score"]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(203, 5)).astype("float32")
    return X, X[:, :1] ** 2, rng.random(203).astype("float32")


CASES_COMPUTED = {
    "batches": {"size": 20},
    "one batch": {"size": 203},
    "single rows": {"size": 1, "max_iter": 2},
    "in order": {"size": 20, "shuffle": False},
    "some rows": {"size": 16, "rows": np.arange(203)[::-2].copy()},
    "until a step": {"size": 20, "max_steps": 17},
    "a short last batch": {"size": 101},
}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("window", [1, 500, 1 << 20])
@pytest.mark.parametrize("case", CASES_COMPUTED.values(), ids=CASES_COMPUTED)
def test_training_has_the_bits_of_an_array(data, case, window, weighted, native, monkeypatch):
    monkeypatch.setattr(_batches, "WINDOW_BYTES", window)
    X, y, weight = data
    weight = np.where(weight < 0.2, 0, weight) if weighted else None
    expected, found = (trained(x, y, native, weight=weight, **case) for x in (X, Stored(X)))
    for one, other in zip(*(each[0] for each in (expected, found)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert expected[1:] == found[1:]


def test_every_row_is_computed_once_in_an_epoch(data):
    X, y, _ = data
    reads = []
    for max_iter in (3, 8):
        rows = Stored(X)
        trained(rows, y, "always", size=20, max_iter=max_iter)
        reads.append(rows.read)
    assert reads[1] - reads[0] == 5 * len(X)


def test_it_behaves_like_an_array(data):
    X, *_ = data
    rows = Stored(X)
    assert (len(rows), rows.ndim, rows.nbytes) == (203, 2, X.nbytes)
    np.testing.assert_array_equal(rows[5:9], X[5:9])
    for chosen in ([3, 3], -1, np.int32(4), X[:, 0] > 0, slice(None, None, -7), np.zeros(0, int)):
        np.testing.assert_array_equal(rows[chosen], X[chosen])
    assert np.asarray(rows).dtype == X.dtype
    np.testing.assert_array_equal(np.array(rows), X)
    np.testing.assert_array_equal(np.asarray(rows, "float64"), X.astype("float64"))
    with pytest.raises(ValueError, match="cannot be an array without copy"):
        np.array(rows, copy=False)
    for outside in (203, -204):
        with pytest.raises(IndexError, match="out of bounds"):
            rows[outside]
    out = np.empty((2, 5), "float32")
    assert rows.take([1, 0], axis=0, out=out) is out
    np.testing.assert_array_equal(out, X[[1, 0]])


def test_a_digest_reads_a_few_rows_at_a_time(data, monkeypatch):
    monkeypatch.setattr(_describe, "CHUNK", 400)
    X, *_ = data
    rows = Stored(X)
    assert digest(rows) == digest(X)
    assert rows.most == 20


X_ORDERS, y = RNG.normal(size=(50, 3)).astype("float32"), RNG.integers(3, size=50)
BETWEEN = {
    "nothing": lambda source: None,
    "a number": lambda source: source.random_sample(),
    "a normal number": lambda source: source.standard_normal(),
    "another seed": lambda source: source.seed(5),
    "its own state": lambda source: source.set_state(source.get_state()),
}


def source_of(seed, normal=False):
    source = np.random.RandomState(seed)
    if normal:
        source.standard_normal()  # of two, the second is left over
    return source


def drawn_of_orders(source, between, looks_ahead, n_epochs=8):
    """Return the orders of some epochs, and what is drawn_of_orders after them."""
    orders, found = Orders(SimpleNamespace(random_state=source), 20, True, n_epochs), []
    for i in range(n_epochs):
        orders.begin()
        found.append(orders.now)
        if looks_ahead:
            orders.look_ahead()
            orders.look_ahead()
        if i % 3:
            between(source)
    return np.array(found), source.standard_normal(3)


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_they_are_those_of_a_source_that_is_never_ahead(between, normal):
    for seed in range(5):
        plain = drawn_of_orders(source_of(seed, normal), between, False)
        ahead = drawn_of_orders(source_of(seed, normal), between, True)
        for mine, theirs in zip(ahead, plain, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kind", ["PCG64", "MT19937"])
def test_generators_of_any_kind(kind):
    made = [np.random.RandomState(getattr(np.random, kind)(0)) for _ in range(2)]
    found = [
        drawn_of_orders(source, BETWEEN["nothing"], ahead)
        for source, ahead in zip(made, (False, True), strict=True)
    ]
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_a_source_that_is_replaced():
    model = SimpleNamespace(random_state=source_of(0))
    orders = Orders(model, 20, True, 3)
    orders.begin()
    orders.look_ahead()
    model.random_state = source_of(1)
    expected = orders.now.copy()
    source_of(1).shuffle(expected)
    orders.begin()
    np.testing.assert_array_equal(orders.now, expected)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 64, 65, 1000, 70_000])
@pytest.mark.parametrize("kind", ["PCG64", "MT19937"])
def test_orders_are_those_of_numpy(kind, n_rows):
    mine, theirs = (RandomState(getattr(np.random, kind)(n_rows)) for _ in range(2))
    orders, expected = Orders(SimpleNamespace(random_state=mine), n_rows, True, 3), np.arange(n_rows)
    for _ in range(3):
        orders.begin()
        theirs.shuffle(expected)
        np.testing.assert_array_equal(orders.now, expected)
    assert repr(mine.get_state(legacy=False)) == repr(theirs.get_state(legacy=False))


def test_the_order_of_the_data():
    orders = Orders(SimpleNamespace(random_state=source_of(0)), 20, False, 3)
    orders.begin()
    assert orders.look_ahead() is None
    assert orders.now is None


def test_nothing_is_drawn_ahead_in_the_last_epoch():
    orders = Orders(SimpleNamespace(random_state=source_of(0)), 20, True, 2)
    orders.begin()
    following = orders.look_ahead()
    assert following is not None
    orders.begin()
    np.testing.assert_array_equal(orders.now, following)
    assert orders.look_ahead() is None


class Draws(Callback):
    """Draws a number at the end of some epochs, and keeps what is left of the random state."""

    def on_epoch_end(self, fit):
        if fit.epoch % 2:
            fit.model.random_state.random_sample()
        self.next_ = fit.model.random_state.get_state()[1].copy()


def test_a_fit_on_a_device_has_the_numbers_of_the_host(fake_device):
    fits = [
        MLPClassifier((4,), max_iter=7, batch_size=10, random_state=0, device=device, callbacks=[Draws()])
        for device in ("cpu", str(fake_device))
    ]
    for fit in fits:
        with quiet():
            fit.set_params(tol=0, n_iter_no_change=100).fit(X_ORDERS, y)
    np.testing.assert_allclose(fits[0].loss_curve_, fits[1].loss_curve_, rtol=1e-5)
    np.testing.assert_array_equal(fits[0].callbacks_[0].next_, fits[1].callbacks_[0].next_)


@pytest.mark.parametrize("chosen", [None, np.arange(50)[::-1].copy()])
def test_an_order_is_sent_before_its_epoch(chosen, fake_device):
    """One that is not taken in the end is sent again."""
    model = Model(nn.Linear(3, 3), "log_loss", random_state=0, device=fake_device, dtype="float32")
    batches = Batches(X_ORDERS, y, None, 10, model.dtype, model.device, chosen)
    rows = DeviceRows(batches)
    orders = [np.random.default_rng(i).permutation(50) for i in range(4)]
    with active(model.device):
        for order, following in zip(orders, [orders[1], orders[0], None, None], strict=True):
            rows.start(order)
            rows.look_ahead(following)
            np.testing.assert_array_equal(to_host(rows.order_of_targets)[:50], order)
            expected = order if chosen is None else chosen[order]
            np.testing.assert_array_equal(to_host(rows.order_of_X)[:50], expected)
            assert rows.order is order
        rows.start(None)
        np.testing.assert_array_equal(to_host(rows.order_of_targets)[:50], np.arange(50))


LENGTHS = np.maximum(1, np.exp(RNG.normal(1.5, 0.8, 123))).astype(int)
SERIES = [RNG.normal(size=(n, 2)) for n in LENGTHS]


@pytest.mark.parametrize("n", [40, 41, 47, 123])
def test_orders(n):
    buckets, size, n_batches = Buckets(LENGTHS, LENGTHS.max()), 10, -(-n // 10)
    order = RNG.permutation(n)
    found = buckets.arranged(order, size, n_batches, RandomState(0))
    assert sorted(found) == list(range(n))
    parts = [found[i * size : (i + 1) * size] for i in range(n_batches)]
    ranges = sorted((LENGTHS[part].min(), LENGTHS[part].max()) for part in parts)
    assert all(below[1] <= above[0] for below, above in pairwise(ranges))
    assert LENGTHS[parts[-1]].max() == np.sort(LENGTHS[:n])[: len(parts[-1])].max()
    assert (found != buckets.arranged(order, size, n_batches, RandomState(1))).any()
    for part in parts:
        assert LENGTHS[part].max() <= buckets.width_of(part) <= max(1.5 * LENGTHS[part].max() + 1, 2)


class Steps(nn.Module):
    """A network of one output a step, or with a norm of steps."""

    def __init__(self, norm=False):
        self.norm, self.head = (nn.BatchNorm(2) if norm else nn.Identity()), nn.Linear(2, 1)

    def forward(self, x, lengths):
        return self.head(self.norm(x.reshape((-1, 2))).reshape(x.shape))


def test_what_has_no_buckets():
    X, lengths = nn.pad_sequences(SERIES)
    n_steps = X.shape[1]

    def found(module, y, lengths=lengths, size=10, device="cpu"):
        model = Model(module, "squared_error", random_state=0)
        batches = Batches({"x": X, "lengths": lengths}, y, None, size, np.dtype("f4"), Device(device))
        return buckets_of(model.materialize(batches.X), batches)

    rows, steps = np.zeros((len(X), 1)), np.zeros((len(X), n_steps, 1))
    network = nn.RecurrentNet((n_steps, 2), 1, hidden_size=3)
    assert found(network, rows) is not None
    assert found(network, rows, np.full(len(X), n_steps)) is None  # no padding
    assert found(network, rows, size=100) is None  # few batches
    assert found(Steps(), steps) is None
    assert found(Steps(norm=True), rows) is None
