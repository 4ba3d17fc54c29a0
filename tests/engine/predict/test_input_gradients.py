"""Gradients with respect to inputs: central differences, closed forms, and the axioms of attributions."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn, ops
from sknet.device import to_host
from sknet.engine._layer_outputs import Chosen, input_gradients, integrated_gradients
from sknet.exceptions import ShapeError
from sknet.optim import EMA, Adam

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 5))
IMAGES = RNG.normal(size=(7, 2, 5, 5))
COLUMNS = RNG.integers(2, size=30)
SIGNS = RNG.choice([-1.0, 1.0, 2.0], size=30)


def smooth():
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.BatchNorm(8), nn.Dropout(0.5), nn.Linear(8, 2))


def images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.GELU(), nn.Flatten(), nn.LazyLinear(2))


class Attention(nn.Module):
    def __init__(self):
        self.attention = nn.MultiheadAttention(5, 1)
        self.head = nn.Linear(5, 2)

    def forward(self, x):
        x = x.reshape(x.shape[0], -1, 5)
        return self.head(self.attention(x, x, x).mean(axis=1))


CASES = {
    "smooth": (smooth, X),
    "images": (images, IMAGES),
    "attention": (Attention, RNG.normal(size=(6, 20))),
}
HEADS = {"raw": None, "exp": ops.exp}


def made(name, n_steps=2, **options):
    make, inputs = CASES[name]
    model = Model(make(), dtype="float64", random_state=0, **options).materialize(inputs)
    for _ in range(n_steps):
        model.step(inputs, RNG.normal(size=(len(inputs), 2)))
    return model, inputs


def outputs(model, inputs, chosen):
    raw = to_host(model(inputs, training=False).data)
    meant = raw if chosen.head is None else np.exp(raw)
    rows = np.arange(len(inputs))
    return meant[rows, chosen.columns[rows]] * chosen.signs[rows]


def differences(model, inputs, chosen, eps=1e-6):
    found = np.empty(inputs.shape)
    for place in np.ndindex(inputs.shape[1:]):
        step = np.zeros(inputs.shape[1:])
        step[place] = eps
        both = [outputs(model, inputs + s, chosen) for s in (step, -step)]
        found[(slice(None), *place)] = (both[0] - both[1]) / (2 * eps)
    return found


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_central_differences(name, head):
    model, inputs = made(name)
    chosen = Chosen(COLUMNS, SIGNS, HEADS[head])
    found = input_gradients(model, inputs, chosen)
    np.testing.assert_allclose(found, differences(model, inputs, chosen), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", CASES)
def test_integrated_gradients_sum_to_the_difference_of_the_outputs(name, head):
    model, inputs = made(name)
    chosen = Chosen(COLUMNS, SIGNS, HEADS[head])
    for baseline in (np.zeros((1, *inputs.shape[1:])), RNG.normal(size=inputs.shape)):
        found = integrated_gradients(model, inputs, baseline, chosen, 60)
        assert found.shape == inputs.shape
        start = outputs(model, np.broadcast_to(baseline, inputs.shape), chosen)
        np.testing.assert_allclose(
            found.reshape(len(inputs), -1).sum(axis=1),
            outputs(model, inputs, chosen) - start,
            rtol=1e-7,
            atol=1e-8,
        )


def test_a_linear_network_has_a_closed_form():
    model = Model(nn.Linear(5, 2), dtype="float64", random_state=0)
    weight = model.parameters["weight"][:, COLUMNS].T * SIGNS[:, None]
    chosen, baseline = Chosen(COLUMNS, SIGNS), RNG.normal(size=(1, 5))
    np.testing.assert_allclose(input_gradients(model, X, chosen), weight, rtol=1e-12)
    found = integrated_gradients(model, X, baseline, chosen, 1)  # one step is enough
    np.testing.assert_allclose(found, weight * (X - baseline), rtol=1e-12)


def test_an_input_without_effect_has_no_attribution():
    model, _ = made("smooth")
    weight = model.parameters["0.weight"].copy()
    weight[3] = 0
    model.module[0].weight.data[3] = 0
    chosen = Chosen(COLUMNS, SIGNS)
    assert not input_gradients(model, X, chosen)[:, 3].any()
    assert not integrated_gradients(model, X, np.zeros((1, 5)), chosen, 5)[:, 3].any()


def wide():
    return Model(nn.Sequential(nn.Linear(5, 1 << 18), nn.Tanh(), nn.Linear(1 << 18, 2)), random_state=0)


@pytest.mark.slow
@pytest.mark.parametrize("n_steps", [1, 3, 4, 9])
def test_blocks_make_no_difference(n_steps):
    """Four rows at once: paths are split into several parts, and rows into several blocks."""
    model, chosen = wide(), Chosen(COLUMNS, SIGNS)
    baseline = RNG.normal(size=(30, 5))
    inputs, starts = X[:9].astype("float32"), baseline[:9].astype("float32")
    found = integrated_gradients(model, inputs, starts, chosen, n_steps)
    gradient = input_gradients(model, inputs, chosen)
    for i in range(9):
        one = Chosen(COLUMNS[i : i + 1], SIGNS[i : i + 1])
        alone = integrated_gradients(model, inputs[i : i + 1], starts[i : i + 1], one, n_steps)
        np.testing.assert_allclose(found[i], alone[0], rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(
            gradient[i], input_gradients(model, inputs[i : i + 1], one)[0], rtol=1e-4, atol=1e-4
        )


def test_memory_does_not_grow_with_the_rows():
    model = Model(nn.Sequential(nn.Linear(5, 1 << 12), nn.Tanh(), nn.Linear(1 << 12, 2)), random_state=0)

    def peak(n_rows):
        rows = RNG.normal(size=(n_rows, 5)).astype("float32")
        chosen = Chosen(np.zeros(n_rows, int), np.ones(n_rows))
        tracemalloc.start()
        input_gradients(model, rows, chosen)
        integrated_gradients(model, rows, rows[:1], chosen, 3)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(10)
    assert peak(2000) < 1.2 * peak(600)


def test_averages_are_what_is_differentiated():
    model, inputs = made("smooth", optimizer=EMA(Adam(0.5), decay=0.9))
    chosen = Chosen(COLUMNS, SIGNS)
    found = input_gradients(model, inputs, chosen)
    np.testing.assert_allclose(found, differences(model, inputs, chosen), rtol=1e-5, atol=1e-7)


def test_frozen_parameters_are_passed_through():
    model, inputs = made("smooth")
    chosen = Chosen(COLUMNS, SIGNS)
    before = input_gradients(model, inputs, chosen)
    model.module.requires_grad_(False)
    np.testing.assert_array_equal(input_gradients(model, inputs, chosen), before)


def test_parameters_get_no_gradient():
    model, inputs = made("smooth")
    state = model.state
    input_gradients(model, inputs, Chosen(COLUMNS, SIGNS))
    assert all(parameter.grad is None for parameter in model.module.parameters())
    np.testing.assert_array_equal(model.state.parameters["0.weight"], state.parameters["0.weight"])


def test_sparse_rows_and_other_dtypes():
    model, _ = made("smooth")
    chosen = Chosen(COLUMNS, SIGNS)
    data = scipy.sparse.random_array((30, 5), density=0.4, format="csr", rng=0)
    for given in (data, data.astype("float32")):
        dense = given.toarray().astype("float64")
        found = integrated_gradients(model, given, np.ones((1, 5)), chosen, 4)
        np.testing.assert_array_equal(found, integrated_gradients(model, dense, np.ones((1, 5)), chosen, 4))
        np.testing.assert_array_equal(
            input_gradients(model, given, chosen), input_gradients(model, dense, chosen)
        )


@pytest.mark.parametrize("name", CASES)
def test_on_a_device(name, fake_device):
    here, inputs = made(name, n_steps=0)
    there, _ = made(name, n_steps=0, device="fake:1")
    chosen, baseline = Chosen(COLUMNS, SIGNS), RNG.normal(size=inputs.shape)
    for function in (
        lambda model: input_gradients(model, inputs, chosen),
        lambda model: integrated_gradients(model, inputs, baseline, chosen, 3),
    ):
        found = function(there)
        assert str(found.device if hasattr(found, "device") else found.index) in ("fake:1", "1")
        np.testing.assert_allclose(to_host(found), function(here), rtol=1e-10, atol=1e-12)


def test_outputs_of_another_rank():
    model = Model(nn.Sequential(nn.Conv2d(2, 3, 3)), random_state=0)
    with pytest.raises(ShapeError, match=r"outputs of shape \(n_samples, n_outputs\), got \(7, 3, 3, 3\)"):
        input_gradients(model, IMAGES, Chosen(COLUMNS, SIGNS))
