"""The functional form with donated memory: same bits, little memory, and no surprises."""

import pickle

import numpy as np
import pytest

from sknet.exceptions import GradientError, StateError
from sknet.optim import EMA, SGD, Adam, Muon
from tests.engine.helpers import CLASSES, X, assert_same, assert_same_state, classifier
from tests.project import benchmark

BENCHMARK = benchmark("functional")
step = BENCHMARK["functional_step"]

OPTIMIZERS = [Adam(), SGD(0.1, 0.9), EMA(Adam()), Muon()]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "with BatchNorm and Dropout"])
def test_same_bits(optimizer, noisy):
    kept, donated = (classifier(noisy=noisy, optimizer=optimizer, alpha=0.1) for _ in range(2))
    for _ in range(4):
        kept, donated = step(kept, X, CLASSES, False), step(donated, X, CLASSES, True)
        assert_same_state(donated.state, kept.state)
    np.testing.assert_array_equal(donated.predict(X), kept.predict(X))
    placed = classifier(noisy=noisy, optimizer=optimizer, alpha=0.1)
    for _ in range(4):
        placed.step(X, CLASSES)
    assert_same_state(donated.state, placed.state)


def test_the_memory_is_the_same():
    model = step(classifier(), X, CLASSES, True)
    state = model.update(model.backward(model.loss(model(X), CLASSES)), donate=True)
    before = state.parameters.flat, *state.optimizer.slots.values()
    model = model.replace(state)
    state = model.update(model.backward(model.loss(model(X), CLASSES)), donate=True)
    for array, there in zip((state.parameters.flat, *state.optimizer.slots.values()), before, strict=True):
        assert array is there
        assert not array.flags.writeable


def test_without_donation_every_earlier_value_stays():
    model = classifier()
    output = model(X)
    loss = model.loss(output, CLASSES)
    gradient = model.backward(loss)
    state = model.update(gradient)
    kept = pickle.dumps((output.numpy(), loss.item(), dict(gradient), model.state, state))
    later = model.replace(state)
    for _ in range(3):
        later = step(later, X, CLASSES, False)
    again = pickle.dumps((output.numpy(), loss.item(), dict(gradient), model.state, state))
    assert again == kept
    assert_same(model.backward(loss), gradient)


USES = {
    "call": lambda model: model(X),
    "step": lambda model: model.step(X, CLASSES),
    "predict": lambda model: model.predict(X),
    "parameters": lambda model: model.parameters,
    "state": lambda model: model.state,
    "update again": lambda model: model.update({}),
    "copy": lambda model: model.copy(),
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_model_without_memory_raises(use):
    model = classifier()
    state = model.update(model.backward(model.loss(model(X), CLASSES)), donate=True)
    with pytest.raises(StateError, match=r"memory was given to the state .* continue with model.replace"):
        use(model)
    assert model.replace(state).step(X, CLASSES).loss > 0


def test_a_freed_tape_raises():
    model = classifier()
    loss = model.loss(model(X), CLASSES)
    value = loss.item()
    model.backward(loss, donate=True)
    assert loss.item() == value
    with pytest.raises(GradientError, match=r"what its gradient needs was freed .* again"):
        model.backward(loss)


def test_a_read_only_state_is_copied():
    """A state with read-only arrays, such as a memory map, is not overwritten."""
    model = classifier()
    state = pickle.loads(pickle.dumps(model.state))
    kept = pickle.dumps(state)
    later = model.replace(state)
    later.update(later.backward(later.loss(later(X), CLASSES)), donate=True)
    assert pickle.dumps(state) == kept


@pytest.mark.parametrize("network", BENCHMARK["NETWORKS"])
def test_a_functional_loop_needs_no_more_memory(network):
    make, shape = BENCHMARK["NETWORKS"][network]
    donated, eager, compiled = (
        BENCHMARK["peak"](make(), shape, way) for way in ("donated", "in place", "compiled")
    )
    assert donated <= 1.2 * min(eager, compiled)
