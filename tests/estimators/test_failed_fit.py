"""A fit that fails midway leaves no trace, in the estimator or in later fits."""

import signal
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse

from sknet.exceptions import FitInterruptedWarning
from sknet.losses import LogLoss
from sknet.optim import SGD, Adam
from tests.compile.native import KINDS
from tests.estimators.data import TABLES, estimator_for, first_part, outputs, quiet, same_bits, unchanged

X, Y = TABLES["binary"]
CALLS = []  # of every loss below: estimators copy their losses


class Counted(LogLoss):
    """A loss that raises, or performs an action, at its k-th call."""

    def __init__(self, multilabel=False, at=None, what="fails"):
        super().__init__(multilabel)
        self.at = at
        self.what = what

    def values(self, output, target):
        CALLS.append(self.at)
        if len(CALLS) == self.at:
            WHAT[self.what]()
        return super().values(output, target)


def fails():
    raise RuntimeError("the loss has failed")


def interrupts():
    raise KeyboardInterrupt


def presses():
    signal.raise_signal(signal.SIGINT)


def presses_twice():
    presses()
    presses()


WHAT = {"fails": fails, "interrupts": interrupts, "presses": presses, "presses twice": presses_twice}


@pytest.fixture(autouse=True)
def fresh_calls():
    CALLS.clear()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _one_operation_after_the_other(monkeypatch):
    """Let every step call the loss: a compiled one does not."""
    monkeypatch.setattr("sknet.engine._runner_cache.steps_for", lambda *args, **_: KINDS["eager"](*args[:3]))


def rows():
    return scipy.sparse.csr_array(X)


def trained(**params):
    estimator = estimator_for("binary", **{"warm_start": True, "loss": Counted()} | params)
    with quiet():
        estimator.fit(rows(), Y)
    CALLS.clear()
    return estimator


FITS = {
    "refit": ({"warm_start": False}, lambda e: e.fit(rows(), Y)),
    "warm fit": ({}, lambda e: e.fit(rows(), Y)),
    "part in one step": ({"batch_size": 230}, lambda e: e.partial_fit(rows(), Y)),
    "part in many steps": ({}, lambda e: e.partial_fit(rows(), Y)),
    "other optimizer": ({"optimizer": SGD()}, lambda e: e.fit(rows(), Y)),
    "part with other optimizer": ({"optimizer": SGD()}, lambda e: e.partial_fit(rows(), Y)),
    "part with other rate": ({"optimizer": Adam(lr=0.5), "alpha": 1.0}, lambda e: e.partial_fit(rows(), Y)),
    "early stopping": ({"early_stopping": True}, lambda e: e.fit(rows(), Y)),
    "lbfgs": ({"optimizer": "lbfgs"}, lambda e: e.fit(rows(), Y)),
}
FAILING = [(name, at) for name in FITS for at in (1, 3) if not (name == "part in one step" and at > 1)]


@pytest.mark.parametrize(("name", "at"), FAILING)
def test_a_failed_fit_changes_nothing(name, at):
    params, call = FITS[name]
    estimator = trained()
    params = {"loss": Counted(at=at)} | params
    estimator.set_params(**params)
    twin = deepcopy(estimator)
    with unchanged(estimator, X), pytest.raises(RuntimeError, match="the loss has failed"):
        call(estimator)
    estimator.set_params(loss="log_loss")
    twin.set_params(loss="log_loss")
    with quiet():
        call(estimator)
        call(twin)
    assert same_bits(estimator, twin)


@pytest.mark.parametrize("part", [True, False])
def test_a_failed_first_fit_leaves_no_attributes(part):
    estimator = estimator_for("binary", loss=Counted(at=2))
    before = set(vars(estimator))
    with pytest.raises(RuntimeError, match="the loss has failed"):
        first_part("binary", estimator, rows(), Y) if part else estimator.fit(rows(), Y)
    assert set(vars(estimator)) == before


def test_a_users_random_state_is_restored():
    estimator = estimator_for("binary", loss=Counted(at=6), random_state=np.random.RandomState(0))
    with pytest.raises(RuntimeError, match="the loss has failed"):
        estimator.fit(rows(), Y)
    other = estimator_for("binary", loss=Counted(), random_state=np.random.RandomState(0))
    estimator.set_params(loss=Counted())
    with quiet():
        assert same_bits(estimator.fit(rows(), Y), other.fit(rows(), Y))


# -- Ctrl-C ------------------------------------------------------------------------------------------

INTERRUPTED = "interrupted by user after 1 whole epochs; what was learned is kept"


@pytest.mark.parametrize("what", ["interrupts", "presses"])
def test_an_interrupt_keeps_the_result(what):
    estimator = estimator_for("binary", loss=Counted(at=6, what=what))
    with pytest.warns(FitInterruptedWarning, match=INTERRUPTED):
        estimator.fit(rows(), Y)
    assert (estimator.n_iter_, len(estimator.loss_curve_)) == (1, 1)
    # Ctrl-C waits for the end of its step, an exception cannot
    assert estimator.model_.progress.step == {"interrupts": 5, "presses": 6}[what]
    assert estimator.score(X, Y) > 0
    with quiet():
        estimator.set_params(loss="log_loss").partial_fit(rows(), Y)


def test_an_interrupt_before_the_first_epoch_ends():
    estimator = estimator_for("binary", loss=Counted(at=2, what="interrupts"), early_stopping=True)
    with pytest.warns(FitInterruptedWarning, match="after 0 whole epochs"):
        estimator.fit(rows(), Y)
    assert estimator.n_iter_ == 0
    assert estimator.validation_scores_ == []
    assert np.isnan(estimator.loss_)
    assert outputs(estimator, X).shape == (230, 2)


def test_an_interrupt_restores_the_best_epoch():
    estimator = estimator_for(
        "binary",
        loss=Counted(at=60, what="interrupts"),
        early_stopping=True,
        optimizer=Adam(0.5),
        max_iter=99,
    )
    with pytest.warns(FitInterruptedWarning):
        estimator.fit(rows(), Y)
    assert estimator.best_epoch_ == 1 + np.argmin(estimator.history_["validation_loss"])


@pytest.mark.parametrize("name", [name for name in FITS if name != "part in one step"])
def test_a_second_interrupt_ends_at_once_and_undoes(name):
    params, call = FITS[name]
    estimator = trained().set_params(**{"loss": Counted(at=3, what="presses twice")} | params)
    with unchanged(estimator, X), pytest.raises(KeyboardInterrupt):
        call(estimator)


def test_an_interrupt_of_lbfgs():
    estimator = estimator_for("binary", optimizer="lbfgs", loss=Counted(at=12, what="presses"), max_iter=100)
    with pytest.warns(FitInterruptedWarning, match=r"after \d+ whole iterations; what was learned is kept"):
        estimator.fit(X, Y)
    assert 1 <= estimator.n_iter_ < 12
    assert estimator.score(X, Y) > 0.5


def test_an_interrupt_of_a_warm_fit_and_of_a_part():
    for call in (lambda e: e.fit(rows(), Y), lambda e: e.partial_fit(rows(), Y)):
        estimator = trained()
        steps = estimator.model_.progress.step
        estimator.set_params(loss=Counted(at=3, what="interrupts"))
        with pytest.warns(FitInterruptedWarning, match="after 0 whole epochs"):
            call(estimator)
        assert estimator.model_.progress.step == steps + 2
        assert len(estimator.loss_curve_) == 3
        CALLS.clear()
