"""The last layer, its loss and both gradients in one kernel: against the host, with threads in two orders."""

import numpy as np
import pytest

from sknet import ops
from sknet.autograd import value_and_grad
from sknet.core import Tensor
from tests.compile.executors.device.test_reductions import drawn, replayed

ACTIVATIONS = {
    "relu": ops.relu,
    "tanh": ops.tanh,
    "gelu": ops.gelu,
    "two": lambda x: ops.tanh(x) * ops.sigmoid(x),
}


def network(x, above, w, bias, classes, activation=ops.relu):
    """Return the loss of a network whose last layer has the weights `w`."""
    hidden = activation(ops.matmul(x, above))
    logits = ops.matmul(hidden, w)
    rows = ops.log_softmax(logits if bias is None else logits + bias, -1)
    return -ops.mean(ops.take_along_axis(rows, ops.reshape(classes, (-1, 1)), -1))


def check(n, inputs, outputs, dtype, device, activation="relu", bias=True):
    """Compare loss and gradients with those of the host; return the compiled function."""
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    arrays = drawn((n, 5), dtype), drawn((5, inputs), dtype, 1), drawn((inputs, outputs), dtype, 2)
    arrays += (drawn((outputs,), dtype, 3),) if bias else ()

    def loss(x, above, w, *rest):
        *given, classes = rest
        return network(x, above, w, *(given or [None]), classes, ACTIVATIONS[activation])

    function = value_and_grad(loss, tuple(range(1, len(arrays))))
    classes = np.arange(n) * 5 % outputs
    found, compiled = replayed(
        lambda *args: [*function(*args)[1], function(*args)[0]], *arrays, classes, device=device
    )
    value, gradients = function(*map(Tensor, (*arrays, classes)))
    for result, expected in zip(found, [*gradients, value], strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=tolerance, atol=tolerance)
    return compiled


@pytest.mark.parametrize("n", [1, 5, 300])
@pytest.mark.parametrize("outputs", [2, 3, 7, 10, 16])
def test_layers(n, outputs, fake_device):
    compiled = check(n, 40, outputs, "float32", fake_device)
    assert "void head" in compiled.source


@pytest.mark.parametrize("rows", [2, 8])
@pytest.mark.parametrize("outputs", [2, 5, 16])
@pytest.mark.parametrize("n", [1, 33, 300])
def test_several_rows_of_a_warp(n, outputs, rows, fake_device, limits):
    """Also where there are less than a warp has, and more than all warps have at once."""
    limits("warps with one row of a last layer", max(1, n // rows))
    limits("blocks of a last layer", 2)
    assert "void head" in check(n, 34, outputs, "float32", fake_device).source


@pytest.mark.parametrize(("n", "outputs", "rows"), [(5, 7, 1), (32, 10, 2), (64, 2, 4)])
@pytest.mark.parametrize(("inputs", "activation"), [(100, "relu"), (132, "two")])
def test_four_elements_of_a_row_at_once(n, inputs, outputs, rows, activation, fake_device, limits):
    limits("warps with one row of a last layer", n // rows)
    source = check(n, inputs, outputs, "float32", fake_device, activation).source
    assert f"[(first + {rows - 1}) * {inputs // 4} + k]" in source


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_what_follows_and_goes_before(activation, bias, fake_device):
    compiled = check(70, 20, 4, "float64", fake_device, activation, bias)
    assert "void head" in compiled.source


@pytest.mark.parametrize(
    ("n", "inputs", "outputs", "dtype"),
    [
        (50, 40, 17, "float32"),  # many outputs
        (50, 12_300, 2, "float64"),  # more weights than a block of threads has memory for
        (40, 40, 3, "float32"),  # as many rows as inputs
        (50, 4, 3, "float32"),  # few inputs
    ],
)
def test_other_layers_are_products(n, inputs, outputs, dtype, fake_device):
    assert "void head" not in check(n, inputs, outputs, dtype, fake_device).source


def test_not_finite_numbers_reach_the_gradients(fake_device):
    """As in a product: also if the row that has one is not read by others."""
    x, above, w = drawn((50, 5), "float32"), drawn((5, 20), "float32", 1), drawn((20, 3), "float32", 2)
    x[7] = np.nan
    function = value_and_grad(lambda *args: network(*args[:3], None, args[3], ops.tanh), (0, 1))
    found, compiled = replayed(
        lambda *args: function(*args)[1], x, above, w, np.arange(50) % 3, device=fake_device
    )
    assert "void head" in compiled.source
    np.testing.assert_array_equal(np.isnan(found[0]).all(axis=1), np.arange(50) == 7)
    assert np.isnan(found[1]).all()
