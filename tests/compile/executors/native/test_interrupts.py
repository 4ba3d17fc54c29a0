"""Ctrl-C while native code calls NumPy back: nothing is left half updated."""

import copy
import signal
import warnings

import numpy as np
import pytest

from sknet import NetClassifier, nn
from sknet.callbacks import Callback
from sknet.compile.native._run import HostCalls
from sknet.exceptions import FitInterruptedWarning
from tests.fuzz.same import assert_same

pytest.importorskip("sknet._native._core", reason="native code was not built")

X = np.random.default_rng(0).normal(size=(48, 1, 6, 6)).astype("f4")
Y = np.arange(48) % 3


class Network(nn.Module):
    """Convolutions are called back, in the gradient and before it, and buffers change in every step."""

    def __init__(self, n_outputs):
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.ReLU(), nn.Flatten(1))
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, x):
        return self.last(self.body(x))


class Pressed:
    """Presses Ctrl-C some times in one of the calls."""

    def __init__(self, monkeypatch):
        self.calls, self.at, self.times = 0, -1, 0
        add = HostCalls.add

        def interrupting(function):
            def call():
                self.calls += 1
                if self.calls == self.at:
                    for _ in range(self.times):
                        signal.raise_signal(signal.SIGINT)
                function()

            return call

        monkeypatch.setattr(HostCalls, "add", lambda host, function: add(host, interrupting(function)))

    def after(self, calls, times):
        """Press it in the call after this many more."""
        self.at, self.times = self.calls + calls, times


@pytest.fixture
def pressed(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "always")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield Pressed(monkeypatch)
    signal.signal(signal.SIGINT, before)


def made():
    return NetClassifier(Network, batch_size=8, max_iter=4, n_iter_no_change=9, random_state=0)


class Stop(Callback):
    """Ends a fit after some steps."""

    steps_per_block = 1

    def __init__(self, step):
        self.step = step

    def on_block_end(self, fit):
        return "stop" if fit.step == self.step else None


def weights(net):
    state = net.model_.state
    found = {name: p.numpy().copy() for name, p in net.model_.module.named_parameters()}
    found |= {f"slot {name}": array.copy() for name, array in state.optimizer.slots.items()}
    return found | {f"buffer {name}": array.copy() for name, array in state.buffers.items()}


def contents(net):
    columns = {name: list(values) for name, values in net.history_.items() if name != "time"}
    drawn = net.model_.random_state.get_state()[1]
    return {**weights(net), **columns, "progress": tuple(net.model_.progress), "drawn": drawn}


@pytest.mark.parametrize("calls", [1, 2, 5, 11])
def test_a_part_that_is_cut_off_leaves_the_estimator_as_it_was(pressed, calls):
    net = made()
    net.partial_fit(X, Y, classes=[0, 1, 2])
    net.partial_fit(X, Y)
    before, twin = contents(net), copy.deepcopy(net)
    pressed.after(calls, times=2)
    with pytest.raises(KeyboardInterrupt):
        net.partial_fit(X, Y)
    assert_same(contents(net), before, "after the interrupt")
    for each in (net, twin):
        each.partial_fit(X, Y)
    assert_same(contents(net), contents(twin), "a part later")


@pytest.mark.parametrize("calls", [3, 17])
def test_a_fit_that_is_cut_off_leaves_what_was_fitted_before(pressed, calls):
    with warnings.catch_warnings(action="ignore"):
        net = made().fit(X, Y)
        before = contents(net)
        pressed.after(calls, times=2)
        with pytest.raises(KeyboardInterrupt):
            net.fit(X, Y)
        assert_same(contents(net), before, "after the interrupt")
        assert_same(contents(net.fit(X, Y)), before, "fitted again")


def test_a_single_ctrl_c_ends_the_fit_after_the_step(pressed):
    net = made()
    pressed.after(9, times=1)
    with pytest.warns(FitInterruptedWarning, match="interrupted by user"):
        net.fit(X, Y)
    step = net.model_.progress.step
    assert 0 < step < 24
    stopped = made().fit(X, Y, callbacks=[Stop(step)])
    assert_same(weights(net), weights(stopped), f"after {step} steps")
