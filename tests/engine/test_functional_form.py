"""The step in functional pieces gives the same bits as the step in place, and changes nothing."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.exceptions import StateError
from sknet.optim import SGD, Adam
from sknet.optim.schedules import Cosine, InverseScaling
from tests.engine.helpers import CLASSES, WEIGHT, X, assert_same, assert_same_state, classifier, network

OPTIMIZERS = [
    "adam",
    "adamw",
    "rmsprop",
    SGD(0.1, 0.9, True),
    Adam(Cosine(0.1, n_steps=3)),
    SGD(InverseScaling(0.1)),
]


def functional_step(model, X, y, weight=None):
    loss = model.loss(model(X), y, weight)
    gradient = model.backward(loss)
    return loss.item(), gradient, model.replace(model.update(gradient))


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "with BatchNorm and Dropout"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_same_bits_as_the_step_in_place(optimizer, noisy, dtype):
    params = {"optimizer": optimizer, "noisy": noisy, "dtype": dtype, "alpha": 0.1}
    placed, functional = classifier(**params), classifier(**params)
    for model in (placed, functional):
        model.epoch_ended()  # epochs are counted: one of the schedules depends on them
    for weight in (None, WEIGHT, None):
        result = placed.step(X, CLASSES, weight)
        loss, gradient, functional = functional_step(functional, X, CLASSES, weight)
        assert loss == pytest.approx(result.loss, rel=1e-6 if dtype == "float32" else 1e-14)
        assert_same(gradient, result.gradient)
        assert_same_state(functional.state, placed.state)
    assert_same(placed.buffers, functional.buffers)
    np.testing.assert_array_equal(placed.predict(X), functional.predict(X))


def test_no_piece_changes_the_model():
    model = classifier(noisy=True)
    model.step(X, CLASSES)
    state, drawn = model.state, model.random_state.get_state()[1].copy()
    output = model(X)
    gradient = model.backward(model.loss(output, CLASSES))
    kept = {name: array.copy() for name, array in gradient.items()}
    model.replace(model.update(gradient)).step(X, CLASSES)
    assert_same_state(model.state, state)
    assert_same(gradient, kept)
    np.testing.assert_array_equal(model.random_state.get_state()[1], drawn)


def test_dropout_draws_the_same_until_the_state_is_replaced():
    model = classifier(noisy=True)
    first, second = model(X).numpy(), model(X).numpy()
    np.testing.assert_array_equal(first, second)
    kept = model.state
    later = model.replace(kept._replace(progress=kept.progress._replace(step=1)))
    assert not np.array_equal(later(X).numpy(), first)
    assert not np.array_equal(model(X, training=False).numpy(), first)


def test_results_are_read_only():
    model = classifier(noisy=True)
    state = model.update(model.backward(model.loss(model(X), CLASSES)))
    for part in (state.parameters, state.optimizer.slots, state.buffers, model.replace(state).parameters):
        for array in part.values():
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    with pytest.raises(TypeError, match="does not support item assignment"):
        state.parameters["0.weight"] = 0


def test_models_with_the_same_state_train_independently():
    model = classifier(noisy=True)
    model.step(X, CLASSES)
    state = model.state
    a, b = model.replace(state), model.replace(state)
    a.step(X, CLASSES)
    assert_same_state(b.state, state)
    assert_same_state(model.state, state)
    b.step(X, CLASSES)
    model.step(X, CLASSES)
    assert_same_state(a.state, b.state)
    assert_same_state(a.state, model.state)
    assert not np.shares_memory(a.parameters["0.weight"], b.parameters["0.weight"])
    assert a.random_state.randint(2**31) == b.random_state.randint(2**31)


def test_a_replaced_model_gives_and_restores_its_own_weights():
    model = classifier()
    other = model.replace(model.update(model.backward(model.loss(model(X), CLASSES))))
    weights, state = other.weights(), other.state
    assert not np.array_equal(state.parameters["0.weight"], model.parameters["0.weight"])
    other.step(X, CLASSES)
    other.restore_weights(weights)
    assert_same(other.parameters, state.parameters)


def test_custom_gradients():
    model = classifier(optimizer=SGD(0.5), dtype="float64")
    gradient = model.backward(model.loss(model(X), CLASSES))
    doubled = model.update({name: (2 * array).tolist() for name, array in gradient.items()})
    for name, array in model.parameters.items():
        np.testing.assert_allclose(doubled.parameters[name], array - gradient[name])
    tensors = model.update({name: nn.Parameter(array) for name, array in gradient.items()})
    assert_same_state(tensors, model.update(dict(gradient)))
    assert_same(tensors.buffers, model.buffers)


def test_a_gradient_of_another_model_of_the_same_shapes_can_be_applied():
    a, b = classifier(), classifier(random_state=1)
    gradient = a.backward(a.loss(a(X), CLASSES))
    assert_same_state(b.update(gradient), b.update(dict(gradient)))


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        ({}, r"expected arrays for exactly \['0\.bias', .* got \[\]"),
        ({"bias": np.zeros(3), "weight": np.zeros((4, 3))}, r"expected arrays for exactly"),
    ],
)
def test_gradients_that_do_not_fit(gradient, message):
    with pytest.raises(StateError, match=message):
        classifier().update(gradient)


def test_a_gradient_of_another_shape():
    model = classifier()
    wrong = dict(model.parameters) | {"0.bias": np.zeros(5)}
    with pytest.raises(StateError, match=r"'0\.bias' must have shape \(8,\), got \(5,\)"):
        model.update(wrong)
    other = Model(nn.Linear(4, 3), "log_loss", random_state=0)
    with pytest.raises(StateError, match="expected arrays for exactly"):
        other.update(model.backward(model.loss(model(X), CLASSES)))


def test_buffers_are_carried_through_any_loss():
    model = Model(network(noisy=True), "log_loss", random_state=0)
    gradient = model.backward(2.0 * model.loss(model(X), CLASSES) + 1.0)
    assert set(gradient.buffers) == {"1.running_mean", "1.running_var", "1.num_batches"}
    assert int(model.update(gradient).buffers["1.num_batches"]) == 1
    assert int(model.buffers["1.num_batches"]) == 0
