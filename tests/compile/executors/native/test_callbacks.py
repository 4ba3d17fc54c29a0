"""Functions that native code calls back: their errors, and Ctrl-C meanwhile; nothing is left half updated."""

import copy
import signal
import warnings

import numpy as np
import pytest

from sknet import NetClassifier, nn
from sknet.callbacks import Callback
from sknet.core import PRIMITIVES, Primitive, bind
from sknet.exceptions import FitInterruptedWarning
from sknet.optim import SGD
from tests.fuzz.same import assert_same

pytest.importorskip("sknet._native._core", reason="native code was not built")

X = np.random.default_rng(0).normal(size=(48, 1, 6, 6)).astype("f4")
Y = np.arange(48) % 3


class Called:
    """An operation that is a function of Python, which may do something in one of its calls."""

    def __init__(self, name):
        self.calls, self._first, self._last, self._act = 0, 0, 0, None
        Primitive(name).define(
            forward=self._forward,
            shape=lambda x: (x.shape, x.dtype),
            vjp=(lambda g, out, x: call_back(name, g),),
            writes_out=False,
        )

    def _forward(self, xp, x):
        self.calls += 1
        if self._first <= self.calls < self._last:
            self._act()
        return xp.multiply(x, x.dtype.type(1))

    def after(self, calls, act, often=1):
        """Do something in the call after this many more, and in those that follow it."""
        self._act, self._first = act, self.calls + calls
        self._last = self._first + often


def call_back(name, x):
    return bind(PRIMITIVES[name], (x,), {})


@pytest.fixture
def called(monkeypatch):
    """The operations that networks and updates call, in native code."""
    monkeypatch.setenv("SKNET_NATIVE", "always")
    names = "in_a_network", "in_an_update"
    yield {name: Called(name) for name in names}
    for name in names:
        del PRIMITIVES[name]


@pytest.fixture
def pressed(called):
    """What presses Ctrl-C some times in one of the calls."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def after(calls, times):
        def press():
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)

        called["in_a_network"].after(calls, press)

    yield after
    signal.signal(signal.SIGINT, before)


class Network(nn.Module):
    """Functions are called back in the gradient and before it, and buffers change in every step."""

    def __init__(self, n_outputs):
        self.body = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm(3), nn.ReLU(), nn.Flatten(1))
        self.last = nn.LazyLinear(n_outputs)

    def forward(self, x):
        hidden = call_back("in_a_network", self.body(x))
        return call_back("in_a_network", self.last(hidden))


class Update(SGD):
    """Calls back in the update."""

    def rule(self, gradient, param, slots, hyper):
        delta, slots = super().rule(gradient, param, slots, hyper)
        return call_back("in_an_update", delta), slots


def made(optimizer="adam"):
    settings = {"batch_size": 8, "max_iter": 4, "n_iter_no_change": 9, "random_state": 0}
    return NetClassifier(Network, optimizer=optimizer, **settings)


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
def test_a_part_that_is_cut_off_leaves_the_estimator_as_it_was(pressed, called, calls):
    net = made()
    net.partial_fit(X, Y, classes=[0, 1, 2])
    net.partial_fit(X, Y)
    before, twin = contents(net), copy.deepcopy(net)
    last = called["in_a_network"].calls + calls
    pressed(calls, times=2)
    with pytest.raises(KeyboardInterrupt):
        net.partial_fit(X, Y)
    assert called["in_a_network"].calls == last  # the step is not repeated
    assert_same(contents(net), before, "after the interrupt")
    for each in (net, twin):
        each.partial_fit(X, Y)
    assert_same(contents(net), contents(twin), "a part later")


@pytest.mark.parametrize("calls", [3, 17])
def test_a_fit_that_is_cut_off_leaves_what_was_fitted_before(pressed, calls):
    with warnings.catch_warnings(action="ignore"):
        net = made().fit(X, Y)
        before = contents(net)
        pressed(calls, times=2)
        with pytest.raises(KeyboardInterrupt):
            net.fit(X, Y)
        assert_same(contents(net), before, "after the interrupt")
        assert_same(contents(net.fit(X, Y)), before, "fitted again")


def test_a_single_ctrl_c_ends_the_fit_after_the_step(pressed):
    net = made()
    pressed(9, times=1)
    with pytest.warns(FitInterruptedWarning, match="interrupted by user"):
        net.fit(X, Y)
    step = net.model_.progress.step
    assert 0 < step < 24
    stopped = made().fit(X, Y, callbacks=[Stop(step)])
    assert_same(weights(net), weights(stopped), f"after {step} steps")


@pytest.mark.parametrize("place", ["in_a_network", "in_an_update"])
def test_calls_see_numbers_below_the_least_normal_one(called, place):
    found = []
    called[place].after(5, lambda: found.append(np.array([5e-324, 1e-310]) * 0.5))
    with warnings.catch_warnings(action="ignore"):
        made(Update()).fit(X, Y)
    [found] = found
    np.testing.assert_array_equal(found, [0.0, 5e-311])


# -- errors -------------------------------------------------------------------------------------


def fail():
    raise ValueError("as told")


def test_errors_before_the_update_are_left_to_numpy_which_repeats_the_step(called):
    with warnings.catch_warnings(action="ignore"):
        expected = contents(made(SGD()).fit(X, Y))
        called["in_a_network"].after(9, fail)
        assert_same(contents(made(SGD()).fit(X, Y)), expected, "a step repeated")
        called["in_a_network"].after(9, fail, often=1000)
        with pytest.raises(ValueError, match="as told"):
            made(SGD()).fit(X, Y)


def test_errors_in_the_update_are_raised(called):
    """A step that has begun to update cannot be repeated."""
    with warnings.catch_warnings(action="ignore"):
        net = made(Update()).fit(X, Y)
        before = contents(net)
        called["in_an_update"].after(3, fail)
        with pytest.raises(ValueError, match="as told"):
            net.fit(X, Y)
    assert_same(contents(net), before, "after the error")
