"""The training loop: epochs, patience, validation, and interruptions."""

import itertools
import time
import warnings
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier, Model, nn
from sknet.callbacks import EarlyStopping
from sknet.exceptions import FitInterruptedWarning, NonFiniteError
from sknet.losses import LogLoss, SquaredError
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Adaptive, Cosine, InverseScaling
from tests.engine.helpers import assert_same, assert_same_state

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 4))
CLASSES = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
TARGET = X[:, :2] ** 2


@nn.init.version(1)  # no bias is zero: a difference from it has a scale
def model_for(loss="log_loss", **params):
    n_outputs = 3 if isinstance(loss, LogLoss) or loss == "log_loss" else 2
    first = nn.Linear(4, 8, bias=False)  # before a norm it would have the gradients of rounding errors
    net = nn.Sequential(first, nn.BatchNorm(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, n_outputs))
    return Model(net, loss, **{"dtype": "float64", "random_state": 0} | params)


def run(model, X=X, y=None, weight=None, size=16, epochs=4, **more):
    y = (TARGET if isinstance(model.loss_function, SquaredError) else CLASSES) if y is None else y
    scores = {"score": "accuracy" if y.ndim == 1 else "r2"}
    return model.fit(X, y, weight, epochs=epochs, batch_size=size, scores=scores, **more)


@pytest.mark.parametrize("weight", [None, RNG.uniform(0.1, 2, 50)], ids=["alike", "weighted"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd", "adamw", "rmsprop"])
def test_an_epoch_is_one_step_a_batch(weight, optimizer):
    """The loop captures and replays a step; the model's own runs eagerly."""
    looped, stepped = (model_for(optimizer=optimizer, alpha=0.1) for _ in range(2))
    history = run(looped, epochs=3, shuffle=False, weight=weight)
    for epoch in range(3):
        total = 0.0
        for start in range(0, 50, 16):
            part = slice(start, start + 16)
            result = stepped.step(X[part], CLASSES[part], None if weight is None else weight[part])
            total += result.loss * len(X[part])
        assert history["loss"][epoch] == pytest.approx(total / 50)
    for name, array in stepped.parameters.items():
        np.testing.assert_allclose(looped.parameters[name], array, rtol=1e-9, atol=1e-12)
    for name, array in stepped.buffers.items():
        np.testing.assert_allclose(looped.buffers[name], array, rtol=1e-9, atol=1e-12)
    assert (looped.progress.step, looped.progress.epoch, looped.progress.samples) == (12, 3, 150)


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_training_scores_are_those_of_the_running_outputs(loss):
    model = Model(
        nn.Linear(4, 3 if loss == "log_loss" else 2), loss, SGD(1e-12), dtype="float64", random_state=0
    )
    history = run(model, epochs=1)
    output = model(X).numpy()
    if loss == "log_loss":
        expected = (output.argmax(axis=1) == CLASSES).mean()
    else:
        expected = (
            1 - ((output - TARGET) ** 2).sum(axis=0) / ((TARGET - TARGET.mean(axis=0)) ** 2).sum(axis=0)
        ).mean()
    assert history["score"] == pytest.approx([expected])
    assert history["time"][0] > 0


def test_row_orders_are_drawn_from_the_models_random_state():
    a, b, c = model_for(), model_for(), model_for()
    run(a)
    b.random_state.rand()
    run(b)
    run(c)
    assert_same(a.parameters, c.parameters)
    assert not np.array_equal(a.parameters["0.weight"], b.parameters["0.weight"])


def test_sparse_rows():
    data = np.where(X > 0, X, 0)
    sparse, dense = model_for(), model_for()
    run(sparse, X=scipy.sparse.csr_array(data))
    run(dense, X=data)
    for name, array in dense.parameters.items():
        np.testing.assert_allclose(sparse.parameters[name], array, rtol=1e-9, atol=1e-12)


def test_patience_ends_the_fit():
    stopping = EarlyStopping(tol=1e3, patience=3)
    history = run(model_for(optimizer=SGD(1e-9)), epochs=100, callbacks=[stopping])
    assert len(history["loss"]) == history.n_epochs == 5
    assert run(model_for(), epochs=2, callbacks=[EarlyStopping(tol=0)]).n_epochs == 2


def test_a_schedule_that_can_lower_the_rate_does_so_first(capsys):
    model = model_for(optimizer=SGD(Adaptive(1e-5)))
    history = run(model, epochs=100, callbacks=[EarlyStopping(tol=1e3, patience=1, verbose=True)])
    assert history["lr"] == pytest.approx([1e-5] * 3 + [2e-6] * 2 + [4e-7] * 2)
    assert model.progress.reductions == 2
    printed = capsys.readouterr().out
    assert "for 1 consecutive epochs. Setting learning rate to 0.000002" in printed
    assert printed.endswith("Learning rate too small. Stopping.\n")


def test_schedules_see_the_whole_fit():
    history = run(model_for(optimizer=Adam(Cosine(0.1))), epochs=5)
    assert history["lr"][-1] == pytest.approx(0, abs=1e-12)
    history = run(model_for(optimizer=SGD(InverseScaling(0.1, 0.5))), epochs=3)
    assert history["lr"] == pytest.approx([0.1 / np.sqrt(50 * k + 1) for k in range(3)])


HELD_OUT = {"X_val": X[:20], "y_val": CLASSES[:20]}


def validated(model, weight=None):
    """Return loss and accuracy of the held-out rows as the model is."""
    output = model(X[:20], training=False).numpy()
    values = LogLoss().values(output, CLASSES[:20]).numpy()
    right = output.argmax(axis=1) == CLASSES[:20]
    return [np.average(x, weights=weight) for x in (values, right)]


def test_best_weights_are_those_of_the_best_score():
    model = model_for(optimizer=Adam(0.3))
    stopping = EarlyStopping("validation_score", tol=0, patience=50)
    history = run(model, epochs=30, callbacks=[stopping], **HELD_OUT)
    best = int(np.argmax(history["validation_score"]))
    loss, score = validated(model)
    assert score == max(history["validation_score"]) == stopping.best_
    assert (stopping.best_epoch_, stopping.best_step_) == (best + 1, (best + 1) * 4)
    assert loss == pytest.approx(history["validation_loss"][best])


def test_validation_is_the_weighted_mean_of_all_rows():
    model, weight = model_for(), RNG.uniform(0, 2, 20)
    history = run(model, epochs=1, **HELD_OUT, sample_weight_val=weight)
    found = history["validation_loss"][0], history["validation_score"][0]
    assert found == pytest.approx(validated(model, weight))


def test_batches_of_zero_weight_are_skipped():
    weight = np.ones(50)
    weight[16:32] = 0
    model, shorter = model_for(), model_for()
    settings = {"epochs": 2, "shuffle": False}
    history = run(model, weight=weight, **settings)
    kept = np.r_[0:16, 32:50]
    run(shorter, **settings, X=X[kept], y=CLASSES[kept], weight=weight[kept])
    assert model.progress.step == shorter.progress.step == 6
    for name, array in shorter.parameters.items():
        np.testing.assert_allclose(model.parameters[name], array)
    assert np.isfinite(history["score"]).all()


def test_divergence_names_epoch_batch_and_parameter():
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    model = Model(net, SquaredError(), SGD(1e160), random_state=0, dtype="float64")
    with pytest.raises(
        NonFiniteError, match=r"training diverged in epoch 1, batch \d of 4: .*'0\.weight'"
    ) as caught:
        run(model, epochs=9, shuffle=False)
    assert caught.value.parameter == "0.weight"


def test_divergence_can_be_ignored():
    model = Model(nn.Linear(4, 2), SquaredError(), SGD(1e200), random_state=0, dtype="float64")
    history = run(model, epochs=3, check_finite=False)
    assert history.n_epochs == 3
    assert not np.isfinite(history["loss"][-1])


class Interrupting(LogLoss):
    """Raises KeyboardInterrupt at its k-th call."""

    calls = 0

    def __init__(self, multilabel=False, after=5):
        super().__init__(multilabel)
        self.after = after

    def values(self, output, target):
        type(self).calls += 1
        if type(self).calls > self.after:
            raise KeyboardInterrupt
        return super().values(output, target)


def test_an_interrupt_keeps_the_result():
    Interrupting.calls = 0
    model, other = model_for(Interrupting(), compile=False), model_for(compile=False)
    with pytest.warns(
        FitInterruptedWarning, match="interrupted by user after 1 whole epochs; what was learned is kept"
    ):
        history = run(model, epochs=3, shuffle=False, X=scipy.sparse.csr_array(X))
    assert len(history["loss"]) == history.n_epochs == 1
    for start in (0, 16, 32, 48, 0):
        other.step(scipy.sparse.csr_array(X)[start : start + 16], CLASSES[start : start + 16])
    assert_same(model.parameters, other.parameters)


def test_early_stopping_continues_in_the_next_fit():
    told = {"optimizer": "adam", "tol": 0.1, "shuffle": False, "batch_size": 16, "random_state": 0}
    first, second = (
        MLPClassifier(
            (8,), **told, warm_start=True, callbacks=[EarlyStopping(tol=0.1, restore_best=False)], max_iter=n
        )
        for n in (2, 4)
    )
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        first.fit(X, CLASSES).fit(X, CLASSES)
        second.fit(X, CLASSES)
    assert first.history_["loss"] == second.history_["loss"]
    mine, its = (clf.callbacks_[0].state() for clf in (first, second))
    assert [mine[name] for name in ("best", "count")] == [its[name] for name in ("best", "count")]
    assert mine["count"] > 0
    assert_same(first.model_.parameters, second.model_.parameters)
    state = second.model_.state
    assert_same_state(first.model_.state._replace(progress=state.progress), state)


WITH_GAPS = np.where(np.isin(np.arange(50) // 4, (3, 7)), 0.0, RNG.uniform(0.1, 2, 50))
CLOCKS = {"blocks of one step": 1e3, "long blocks": 1e-9}  # seconds from one look to the next


@pytest.fixture
def ticking(monkeypatch):
    """Return a function that sets how much time passes whenever somebody looks at the clock."""
    return lambda seconds: monkeypatch.setattr(
        time, "perf_counter", partial(next, itertools.count(step=seconds))
    )


@pytest.mark.parametrize("times", [1, 4000], ids=["few rows", "rows that are scored in parts"])
@pytest.mark.parametrize("weight", [None, WITH_GAPS], ids=["alike", "two batches without weight"])
@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_the_size_of_blocks_does_not_matter(loss, weight, times, ticking):
    found, y = [], TARGET if loss == "squared_error" else CLASSES
    repeated = [None if x is None else np.repeat(x, times, axis=0) for x in (X, y, weight)]
    for seconds in CLOCKS.values():
        ticking(seconds)
        model = model_for(loss)
        rows, y, w = repeated
        history = run(
            model, rows, y, w, shuffle=weight is None, size=4 * times, epochs=4 if times == 1 else 1
        )
        found.append((model, history))
    (first, one), (second, other) = found
    assert [one[name] for name in ("loss", "score", "lr")] == [
        other[name] for name in ("loss", "score", "lr")
    ]
    assert_same_state(first.state, second.state)


@pytest.mark.parametrize("seconds", CLOCKS.values(), ids=list(CLOCKS))
def test_a_failing_step_in_a_block_is_named_and_changes_nothing(seconds, ticking):
    ticking(seconds)
    model, other, bad = model_for(), model_for(), X.copy()
    bad[22] = np.inf
    with pytest.raises(NonFiniteError, match="diverged in epoch 1, batch 6 of 13"):
        run(model, shuffle=False, X=bad, size=4)
    run(other, epochs=1, shuffle=False, X=X[:20], y=CLASSES[:20], size=4)
    assert model.progress.step == 5
    assert_same(model.parameters, other.parameters)
    assert_same(model.buffers, other.buffers)
