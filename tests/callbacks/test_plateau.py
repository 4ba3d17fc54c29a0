"""When patience runs out: cases worked by hand, and PyTorch's schedule on random losses."""

import math

import numpy as np
import pytest

from sknet import Model, nn
from sknet.callbacks import Callback, Checkpoint, EarlyStopping
from sknet.optim import SGD
from sknet.optim.schedules import Adaptive
from tests.callbacks.helpers import Dies, X, Y, classifier, unconverged

CASES = [
    # patience, tol, higher, values, count after each
    (2, 0.1, False, [1.0, 0.8, 0.75, 0.74, 0.73], [0, 0, 1, 2, 3]),
    (2, 0.1, False, [1.0, 0.95, 0.91, 0.80], [0, 1, 2, 0]),  # best moves with every better value
    (1, 0.0, False, [1.0, 1.0, 1.0], [0, 0, 0]),  # equal is at most best - 0
    (1, 0.0, False, [1.0, 1.1, 1.0], [0, 1, 0]),
    (1, 0.5, False, [1.0, 0.5, 0.0], [0, 0, 0]),  # exactly tol is enough
    (2, 0.1, True, [0.5, 0.6, 0.65, 0.69, 0.7], [0, 0, 1, 2, 3]),
    (2, 0.1, True, [0.5, 0.4, 0.8], [0, 1, 0]),
    (math.inf, 1e9, False, [1.0, 0.5, 0.4, 0.3], [0, 1, 2, 3]),
    (1, 0.1, True, [-5.0, math.nan, -6.0], [0, 0, 1]),  # a NaN counts as an improvement
    (1, 0.1, False, [math.nan, 3.0, 4.0], [0, 0, 1]),
]


class Values(Callback):
    """Adds a number to the record of each epoch."""

    order = -1

    def __init__(self, values):
        self.values = values

    def on_epoch_end(self, fit):
        fit.record["mine"] = self.values[fit.epoch - 1]


class Stopping(EarlyStopping):
    """Notes its state and its answer after every epoch."""

    def on_fit_begin(self, fit):
        self.seen_ = []
        return super().on_fit_begin(fit)

    def on_epoch_end(self, fit):
        answer = super().on_epoch_end(fit)
        self.seen_.append({**self.state(), "answer": answer, "epoch": self.best_epoch_})
        return answer


def watched(values, patience, tol, higher, lr=0.1):
    """Return the rates of a fit whose epochs have these values, and early stopping."""
    model = Model(nn.Linear(3, 1), optimizer=SGD(lr), random_state=0)
    stopping = Stopping("mine", patience=patience, tol=tol, higher_is_better=higher)
    history = model.fit(X, X[:, :1], epochs=len(values), callbacks=[Values(values), stopping])
    return history["lr"], stopping


@pytest.mark.parametrize(("patience", "tol", "higher", "values", "counts"), CASES)
def test_worked_cases(patience, tol, higher, values, counts):
    _, stopping = watched(values, patience, tol, higher)
    seen = stopping.seen_
    assert [each["count"] for each in seen] == counts
    assert [each["answer"] == "stop" for each in seen] == [count > patience for count in counts]
    finite = [value for value in values if not math.isnan(value)]
    assert stopping.best_ == (max(finite) if higher else min(finite))


def test_it_records_the_best():
    _, stopping = watched([0.5, 0.4, 0.5, 0.6, math.nan], 3, 0.0, True)
    assert [each["epoch"] for each in stopping.seen_] == [1, 1, 1, 4, 4]


def test_a_restart_keeps_the_best():
    rates, stopping = watched([1.0, 1.0, 0.95, 0.9], 0, 0.1, False, Adaptive(0.5, factor=5.0))
    assert [(x["count"], x["best"]) for x in stopping.seen_] == [(0, 1.0), (0, 1.0), (0, 0.95), (0, 0.9)]
    np.testing.assert_allclose(rates, [0.5, 0.5, 0.1, 0.02])


def test_a_resumed_fit_knows_which_reductions_were_seen(tmp_path):
    """In epoch 3 the second lowers the rate, after the first has looked; there the other fit is killed."""

    def stopping():
        stops = [EarlyStopping("mine", patience=n, tol=0.0, higher_is_better=False) for n in (2, 1)]
        return classifier(Values([1.0, 2.0, 2.0, 2.0]), *stops, max_iter=4, optimizer=SGD(Adaptive(0.5)))

    with unconverged():
        whole = stopping().fit(X, Y)
        with pytest.raises(RuntimeError, match="died"):
            stopping().fit(X, Y, callbacks=[Checkpoint(tmp_path), Dies(3)])
        resumed = stopping().fit(X, Y, resume_from=tmp_path)
    assert resumed.model_.progress == whole.model_.progress
    assert whole.model_.progress.reductions == 1


@pytest.mark.parametrize("higher", [True, False])
def test_another_fit_goes_on_with_the_state(higher):
    stops = [
        Stopping("mine", patience=1, tol=0.1, higher_is_better=False),
        Stopping("mine", patience=5, tol=0.2, higher_is_better=higher),
    ]
    clf = classifier(Values([1.0] * 2), stops[0], max_iter=2, warm_start=True)
    with unconverged():
        clf.fit(X, Y)
        assert clf.callbacks_[1].seen_[-1]["count"] == 1
        clf.set_params(callbacks=[Values([0.9] * 6), stops[1]], max_iter=6).fit(X, Y)
    seen = clf.callbacks_[1].seen_
    assert (seen[0]["best"], seen[0]["count"]) == (0.9, 0 if higher else 2)
    assert [each["answer"] for each in seen] == [None] * 6 if higher else [*[None] * 4, "stop"]


@pytest.mark.parametrize("cooldown", [0, 1, 5])
@pytest.mark.parametrize("seed", range(4))
def test_rates_that_a_plateau_lowers_equal_pytorchs(cooldown, seed):
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=3, threshold=0.0, threshold_mode="abs", cooldown=cooldown
    )
    schedule = Adaptive(0.1, factor=2.0, min_lr=0.0, patience=3, cooldown=cooldown)
    losses = np.random.default_rng(seed).normal(size=100) + np.linspace(2, 0, 100)
    rates, _ = watched(losses.tolist(), math.inf, 0.0, False, schedule)
    expected = []
    for loss in losses:
        expected.append(optimizer.param_groups[0]["lr"])
        theirs.step(loss)
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    assert len(set(expected)) > 4
