"""Short epochs are trained several in one call, with the results of one after the other."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

import sknet
from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet._native import needed
from sknet.callbacks import Callback, EarlyStopping
from sknet.engine import _loop, _runners
from sknet.exceptions import NonFiniteError
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine, InverseScaling, Step

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
def calls(monkeypatch):
    """The numbers of epochs that were trained in one call."""
    found, run = [], _runners.NativeSteps.run_epochs

    def counting(self, orders, *others):
        found.append(len(orders))
        return run(self, orders, *others)

    monkeypatch.setattr(_runners.NativeSteps, "run_epochs", counting)
    monkeypatch.setattr(_runners, "SECONDS", 10.0)  # however long the machine pauses
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
    counting = SimpleNamespace(steps=lambda *args: native.append(1) or core.steps(*args))
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
