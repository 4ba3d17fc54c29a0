"""Sequences of calls on a device: blocks of epochs leave the bits of single epochs, and values of the host.

A sequence is a function of what makes its estimators and models, and returns what is compared.
"""

import pickle
from copy import deepcopy
from cProfile import Profile

import numpy as np
import pytest
from sklearn.base import clone

from sknet import MLPClassifier, MLPRegressor, Model, NetClassifier, freeze, load, nn, save
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.device import Device, to_device, to_host
from sknet.engine import fit_many
from sknet.exceptions import NonFiniteError
from sknet.model_selection import GridSearchCV
from sknet.optim import EMA, SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine
from tests.devices import fake

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
NUMBERS = X[:, 0] - X[:, 2]
FEW = X[:5]


class Watching(Callback):
    """Looks at every epoch when it is trained, so that no two are one block."""

    def on_epoch_end(self, fit):
        return None


class Here:
    """A device, whether epochs are single, and a folder."""

    def __init__(self, device, single, path):
        self.device, self.single, self.path = device, single, path

    @property
    def callbacks(self):
        return [Watching()] if self.single else []

    def make(self, kind=MLPClassifier, callbacks=(), **params):
        settings = {"max_iter": 6, "batch_size": 20, "tol": 0.0, "random_state": 0, "dtype": "float64"}
        if kind in (MLPClassifier, MLPRegressor):
            settings["hidden_layer_sizes"] = (6,)
        settings |= {"device": str(self.device), "callbacks": [*callbacks, *self.callbacks]}
        return kind(**settings | params)

    def model(self, seed=0, lr=0.01):
        layers = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
        settings = {"random_state": seed, "dtype": "float64", "device": self.device}
        return Model(layers, "log_loss", Adam(lr), **settings)

    def fit(self, model, X=X, y=CLASSES, callbacks=(), **params):
        model.fit(X, y, batch_size=20, callbacks=[*callbacks, *self.callbacks], **params)

    def put(self, array):
        return to_device(array, self.device)


def read(array):
    """Return a copy on the host."""
    return np.array(to_host(array))


def outcome(estimator, X=X):
    """Return what an estimator has learned."""
    found = [read(x) for x in [*estimator.model_.parameters.values(), *estimator.model_.buffers.values()]]
    found += [read(x) for x in estimator.model_.memory.flat_buffers()[1].values()]
    found += [np.array(estimator.history_[name]) for name in sorted(set(estimator.history_) - {"time"})]
    found += [read(estimator.predict(X)), read(estimator.predict(X[:3]))]
    return [*found, str(estimator.model_.progress), estimator.n_iter_]


def learned(model):
    """Return what a model has learned."""
    found = [read(x) for x in [*model.parameters.values(), *model.buffers.values()]]
    found += [read(x) for x in model.memory.flat_buffers()[1].values()]
    return [*found, str(model.progress)]


def message(error, function, *args, **kwargs):
    """Return the message of an error that a call raises."""
    with pytest.raises(error) as raised:
        function(*args, **kwargs)
    return str(raised.value)


SEQUENCES = {}


def sequence(function):
    SEQUENCES[function.__name__] = function
    return function


@sequence
def fit_then_parts(here):
    est = here.make().fit(X, CLASSES)
    est.partial_fit(X[:33], CLASSES[:33]).partial_fit(X[40:47], CLASSES[40:47])
    return outcome(est)


@sequence
def warm_starts(here):
    est = here.make(warm_start=True).fit(X, CLASSES)
    found = outcome(est)
    for batch_size, n in ((25, 60), (60, 60), (7, 31)):
        found += outcome(est.set_params(batch_size=batch_size).fit(X[:n], CLASSES[:n]))
    return found


@sequence
def early_stopping_then_parts(here):
    rows = {"X_val": X[:9], "y_val": CLASSES[:9]}
    how = {"early_stopping": True, "max_iter": 20, "tol": 0.02, "n_iter_no_change": 3, "warm_start": True}
    est = here.make(**how).fit(X, CLASSES, **rows)
    found = outcome(est)
    est.partial_fit(X, CLASSES, **rows)
    return found + outcome(est) + outcome(est.fit(X, CLASSES))


class Stops(Callback):
    pauses = True

    def on_epoch_end(self, fit):
        return "stop" if fit.epoch == 4 else None


def paused(here, **how):
    """Fit in two parts, and as a whole, which leaves the same."""
    path = here.path / f"checkpoint-{here.device.kind}-{here.single}"
    here.make(callbacks=[Checkpoint(path), Stops()], **how).fit(X, CLASSES)
    est = here.make(callbacks=[Checkpoint(path)], **how).fit(X, CLASSES, resume_from=path)
    found = outcome(est)
    for one, other in zip(found, outcome(here.make(**how).fit(X, CLASSES)), strict=True):
        np.testing.assert_array_equal(one, other)
    return found


@sequence
def resumed(here):
    return paused(here, max_iter=9)


@sequence
def resumed_with_held_out_rows(here):
    return paused(here, max_iter=11, early_stopping=True, batch_size=17, dropout=0.2)


@sequence
def many_then_each_alone(here):
    models = [here.model(i, 0.01 * (i + 1)) for i in range(3)]
    fit_many(models, X, CLASSES, epochs=4, batch_size=20, callbacks=here.callbacks)
    found = [x for model in models for x in learned(model)]
    for i, model in enumerate(models):
        here.fit(model, epochs=2 + i)
    return found + [x for model in models for x in learned(model)]


@sequence
def many_again_and_again(here):
    models = [here.model(i, 0.01 * (i + 1)) for i in range(3)]
    here.fit(models[1], epochs=3)
    for epochs, chosen in ((2, [0, 1, 2]), (3, [2, 0]), (1, [1, 2])):
        how = {"epochs": epochs, "batch_size": 25, "callbacks": here.callbacks}
        fit_many([models[i] for i in chosen], X, CLASSES, **how)
    return [x for model in models for x in learned(model)]


@sequence
def a_search_then_parts(here):
    grid = {"alpha": [1e-4, 1e-2], "optimizer__lr": [0.01, 0.1]}
    search = GridSearchCV(here.make(optimizer=Adam()), grid, cv=2).fit(X, CLASSES)
    best = search.best_estimator_
    found = [search.cv_results_["mean_test_score"], *outcome(best)]
    return found + outcome(best.partial_fit(X, CLASSES))


@sequence
def to_the_host_and_back(here):
    est = here.make().fit(X, CLASSES)
    found = outcome(est)
    found += outcome(est.set_params(device="cpu").fit(X, CLASSES))
    return found + outcome(est.set_params(device=str(here.device)).fit(X, CLASSES))


@sequence
def rows_of_device_and_host(here):
    est = here.make(warm_start=True).fit(here.put(X), here.put(CLASSES))
    found = [read(est.predict_proba(here.put(FEW))), read(est.predict_proba(FEW))]
    est.fit(X, CLASSES)
    found += [read(est.predict_proba(here.put(FEW))), read(est.predict_proba(FEW))]
    est.partial_fit(here.put(X[:20]), here.put(CLASSES[:20]))
    return found + outcome(est)


class Predicting(Callback):
    """Predicts few rows and many at the end of each epoch."""

    reads_model = True

    def epochs_ahead(self):
        return 3

    def on_epoch_end(self, fit):
        rows = [read(fit.model.predict(x)) for x in (FEW, X[:2], X)]
        self.seen_ = [*getattr(self, "seen_", []), *rows]


@sequence
def few_rows_between_epochs(here):
    est = here.make(callbacks=[Predicting()], max_iter=8).fit(X, CLASSES)
    return outcome(est) + est.callbacks_[0].seen_


@sequence
def few_rows_between_epochs_of_averages(here):
    how = {"optimizer": EMA(Adam(0.01)), "early_stopping": True}
    est = here.make(callbacks=[Predicting()], max_iter=8, **how).fit(X, CLASSES)
    return outcome(est) + est.callbacks_[0].seen_


class Changing(Callback):
    """Changes the weights at the end of some epochs."""

    def on_epoch_end(self, fit):
        if fit.epoch % 3 == 2:
            for array in fit.model.parameters.values():
                array *= 0.5


@sequence
def a_callback_that_changes_weights(here):
    est = here.make(callbacks=[Changing()], max_iter=9, warm_start=True).fit(X, CLASSES)
    found = outcome(est)
    return found + outcome(est.set_params(callbacks=here.callbacks).fit(X, CLASSES))


class ChangingBlocks(Callback):
    """Changes the weights at the end of blocks."""

    steps_per_block = 1

    def on_block_end(self, fit):
        for array in fit.model.parameters.values():
            array *= 0.9


@sequence
def a_callback_that_changes_weights_in_an_epoch(here):
    return outcome(here.make(callbacks=[ChangingBlocks()], max_iter=4, batch_size=9).fit(X, CLASSES))


@sequence
def weights_written_between_fits(here):
    est = here.make(warm_start=True).fit(X, CLASSES)
    for array in est.model_.parameters.values():
        array[...] = array * 0.25
    found = outcome(est)
    est.partial_fit(X, CLASSES)
    return found + outcome(est) + outcome(est.fit(X, CLASSES))


@sequence
def a_fit_that_diverges_then_parts(here):
    est = here.make(MLPRegressor, activation="identity", scale_target=False).fit(X, NUMBERS)
    said = message(NonFiniteError, est.set_params(optimizer=SGD(1e150), max_iter=30).fit, X, NUMBERS)
    return [said, *outcome(est), *outcome(est.set_params(optimizer="adam").fit(X, NUMBERS))]


def diverged(here, **more):
    """Return a model whose training fails in a block of epochs, and the message of the error."""
    settings = {"random_state": 3, "dtype": "float64", "device": here.device}
    model = Model(nn.Linear(4, 1), "squared_error", SGD(3.0, momentum=0.9), **settings)
    return model, message(NonFiniteError, here.fit, model, X * 10, NUMBERS[:, None], epochs=200, **more)


@sequence
def an_error_in_a_block_then_more_epochs(here):
    model, said = diverged(here)
    found = [said, *learned(model)]
    for array in (*model.parameters.values(), *model.memory.flat_buffers()[1].values()):
        array *= 0.0
    here.fit(model, X * 0.01, NUMBERS[:, None], epochs=3)
    return found + learned(model)


@sequence
def an_error_in_a_block_with_held_out_rows(here):
    rows = {"X_val": X[:9], "y_val": NUMBERS[:9, None]}
    model, said = diverged(here, callbacks=[EarlyStopping(patience=500)], **rows)
    return [said, *learned(model)]


@sequence
def held_out_rows_that_overflow(here):
    """The network is finite, and the outputs for held-out rows are not."""
    est = here.make(MLPRegressor, early_stopping=True, max_iter=5, scale_inputs=False, activation="identity")
    rows = X[:6].copy()
    rows[2] = 1.7e308
    return outcome(est.fit(X, NUMBERS, X_val=rows, y_val=NUMBERS[:6]))


class Failing(Callback):
    """Raises in the middle of a block."""

    def epochs_ahead(self):
        return 4

    def on_epoch_end(self, fit):
        if fit.epoch == 6:
            raise RuntimeError("no")


class FailingAtTheEnd(Callback):
    """Raises where the block ends whose middle has the sixth epoch."""

    def on_epoch_end(self, fit):
        if fit.epoch == 8:
            raise RuntimeError("no")


@sequence
def an_error_of_a_callback_then_more_epochs(here):
    model, has_blocks = here.model(), not here.single and here.device.kind != "cpu"
    callbacks = [Failing() if has_blocks else FailingAtTheEnd()]
    said = message(RuntimeError, here.fit, model, epochs=20, callbacks=callbacks)
    found = [said, *learned(model)]
    here.fit(model, epochs=3)
    return found + learned(model)


class Interrupts(Callback):
    def on_epoch_end(self, fit):
        if fit.epoch == 3:
            raise KeyboardInterrupt


@sequence
def ctrl_c_then_parts(here):
    est = here.make(callbacks=[Interrupts()])
    est.fit(X, CLASSES)  # warns, and keeps three epochs
    est.set_params(callbacks=here.callbacks)
    return [*outcome(est.partial_fit(X, CLASSES, classes=[0, 1, 2]))]


@sequence
def copies_go_on_alone(here):
    est = here.make(warm_start=True).fit(X, CLASSES)
    other, third = deepcopy(est), pickle.loads(pickle.dumps(est))
    est.fit(X, CLASSES)
    other.partial_fit(X[:30], CLASSES[:30])
    found = outcome(est) + outcome(other) + outcome(third)
    return found + outcome(third.fit(X, CLASSES)) + outcome(clone(est).fit(X, CLASSES))


@sequence
def saved_and_loaded(here):
    est = here.make(warm_start=True, early_stopping=True).fit(X, CLASSES)
    save(est, here.path / "file.sknet")
    found = load(here.path / "file.sknet", trusted=[Watching])
    est.fit(X, CLASSES)
    return outcome(est) + outcome(found.set_params(device=str(here.device)).fit(X, CLASSES))


@sequence
def frozen_between_fits(here):
    est = here.make(warm_start=True).fit(X, CLASSES)
    first = freeze(est)
    est.fit(X, CLASSES)
    second = freeze(est)
    return [first.predict_proba(X), second.predict_proba(X), first.predict_proba(FEW), *outcome(est)]


@sequence
def members_then_more(here):
    est = here.make(n_members=3, early_stopping=True).fit(X, CLASSES)
    return [read(est.predict_proba(X)), read(est.fit(X, CLASSES).predict_proba(X))]


@sequence
def weights_of_rows_then_none(here):
    weight = np.linspace(0.1, 2, 60)
    est = here.make(warm_start=True).fit(X, CLASSES, sample_weight=weight)
    found = outcome(est)
    est.fit(X, CLASSES)
    est.partial_fit(X, CLASSES, sample_weight=weight)
    return found + outcome(est)


@sequence
def batch_norm_and_the_best_epoch(here):
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm(8), nn.ReLU(), nn.Dropout(0.2), nn.LazyLinear(3))
    how = {"early_stopping": True, "max_iter": 15, "warm_start": True, "monitor": "loss"}
    est = here.make(lambda **params: NetClassifier(layers, **params), **how).fit(X, CLASSES)
    return outcome(est) + outcome(est.fit(X[:50], CLASSES[:50]))


@sequence
def schedules_go_on(here):
    est = here.make(optimizer=SGD(Adaptive(0.3)), warm_start=True, tol=0.01, n_iter_no_change=2, max_iter=25)
    found = outcome(est.fit(X, CLASSES)) + outcome(est.fit(X, CLASSES))
    est = here.make(optimizer=Adam(Cosine(0.05)), warm_start=True, max_iter=10).fit(X, CLASSES)
    return found + outcome(est.fit(X, CLASSES))


@sequence
def single_steps_between(here):
    model = here.model()
    here.fit(model, epochs=3)
    for part in (slice(0, 20), slice(20, 27)):
        model.step(X[part], CLASSES[part])
    here.fit(model, epochs=3)
    return learned(model)


@sequence
def a_fit_within_a_fit(here):
    class Fits(Callback):
        reads_model = True

        def epochs_ahead(self):
            return 3

        def on_epoch_end(self, fit):
            inner = here.make(max_iter=4, random_state=fit.epoch).fit(X, CLASSES)
            self.seen_ = [*getattr(self, "seen_", []), *outcome(inner)]

    est = here.make(callbacks=[Fits()], max_iter=7).fit(X, CLASSES)
    return outcome(est) + est.callbacks_[0].seen_


@sequence
def memory_that_ends_between(here):
    est = here.make(warm_start=True).fit(X, CLASSES)
    if here.device.kind != "cpu":
        with fake.allocating(3), pytest.raises(MemoryError):
            est.set_params(batch_size=13).fit(X, CLASSES)
    return outcome(est) + outcome(est.set_params(batch_size=20).fit(X, CLASSES))


@sequence
def two_outputs_and_an_output_of_one(here):
    targets = np.stack([NUMBERS, X[:, 1]], axis=1)
    est = here.make(MLPRegressor).fit(X, targets)
    found = outcome(est)
    return found + outcome(est.fit(X, NUMBERS)) + outcome(est.partial_fit(X, NUMBERS))


@sequence
def one_row_more_or_less(here):
    est = here.make(warm_start=True, batch_size=20, early_stopping=False)
    found = []
    for n in (41, 40, 39, 21, 20, 19):
        found += outcome(est.fit(X[:n], np.arange(n) % 3))
    return found


IN_ONE_LAUNCH = (
    "warm_starts",
    "resumed_with_held_out_rows",
    "many_again_and_again",
    "few_rows_between_epochs",
    "a_callback_that_changes_weights",
    "an_error_in_a_block_then_more_epochs",
    "an_error_in_a_block_with_held_out_rows",
    "an_error_of_a_callback_then_more_epochs",
    "batch_norm_and_the_best_epoch",
    "memory_that_ends_between",
    "one_row_more_or_less",
)
WITHOUT_BLOCKS = {
    "a_callback_that_changes_weights_in_an_epoch",  # it looks at every step
    "batch_norm_and_the_best_epoch",  # buffers change with every step
    "ctrl_c_then_parts",  # its callback looks at every epoch, and a part is one epoch
    "members_then_more",  # networks that train as one have single epochs
}


BLOCKS = "code object _run_several"  # of the loop, which trains in blocks of epochs


@pytest.mark.parametrize(
    ("name", "shared"), [*((name, 0) for name in SEQUENCES), *((name, 200_000) for name in IN_ONE_LAUNCH)]
)
def test_a_sequence(name, shared, fake_device, limits, tmp_path):
    limits("seconds of a block of steps", 1e9)
    limits("multiplications of rows predicted on the host", 1 << 20)
    places = (fake_device, False), (fake_device, True), (Device("cpu"), False)
    counts = []

    def found_at(place):
        with Profile() as profile:
            found = SEQUENCES[name](Here(*place, tmp_path))
        counts.append(sum(each.callcount for each in profile.getstats() if BLOCKS in str(each.code)))
        return found

    with np.errstate(all="ignore"), fake.sharing(shared):
        together, alone, host = map(found_at, places)
    assert (counts[0] > 0) is (name not in WITHOUT_BLOCKS)
    assert counts[1] == 0
    for number, (found, same, near) in enumerate(zip(together, alone, host, strict=True)):
        np.testing.assert_array_equal(found, same, err_msg=str(number))
        if isinstance(found, (str, int)):
            assert found == near
        else:
            np.testing.assert_allclose(found, near, rtol=1e-6, atol=1e-8, err_msg=str(number))
