"""Convolutions and their biases are one call on the host."""

import numpy as np
import pytest

from sknet import NetClassifier, Tensor, config_context, nn, ops
from sknet.compile import compile
from sknet.core import gradients

# Shapes of images and kernels, and groups.
CASES = [
    ((5, 3, 9, 8), (4, 3, 3, 3), 1),
    ((33, 8, 14, 14), (16, 8, 3, 3), 1),  # many small images together
    ((4, 6, 7, 7), (6, 1, 3, 3), 6),
    ((3, 6, 7, 9), (6, 1, 5, 2), 6),
    ((2, 4, 30, 30), (6, 2, 3, 3), 2),  # large images one by one
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def data(case, dtype):
    images, kernels, groups = case
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(dtype) for shape in (images, kernels, kernels[:1])]
    arrays[0][0, 0, 0, 0], arrays[2][1] = -0.0, -0.0
    return arrays, {"padding": 1, "groups": groups}


@pytest.mark.parametrize("native", ["never", "always"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@each_case
def test_bits_are_those_of_two_calls(case, dtype, native):
    if native == "always":
        pytest.importorskip("sknet._native._core", reason="native code was not built")
    (x, w, b), where = data(case, dtype)

    def convolved(x, w, b):
        return ops.conv2d(x, w, b, **where)

    with config_context(native=native):
        program = compile(convolved, (x, w, b))
        found = program(x, w, b)
        expected = ops.conv2d(x, w, **where).numpy() + b[:, np.newaxis, np.newaxis]
    assert "bias=" in program.source
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found[found == 0]).any() or np.signbit(expected[expected == 0]).any()


def test_a_result_that_something_else_reads_is_kept():
    (x, w, b), where = data(CASES[0], "float32")
    column = b[:, np.newaxis, np.newaxis]

    def both(x, w, column):
        out = ops.conv2d(x, w, **where)
        return out + column, out

    program = compile(both, (x, w, column))
    total, out = program(x, w, column)
    assert "bias=" not in program.source
    np.testing.assert_array_equal(total, out + column)


@pytest.mark.parametrize("shape", [(4, 9, 8), (1, 1), (5, 4, 9, 8), (1, 4, 1, 1)])
def test_other_sums_are_single_calls(shape):
    (x, w, _), where = data(CASES[0], "float32")
    term = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    program = compile(lambda x, w, term: ops.conv2d(x, w, **where) + term, (x, w, term))
    assert "bias=" not in program.source
    np.testing.assert_array_equal(program(x, w, term), ops.conv2d(x, w, **where).numpy() + term)


@each_case
def test_operands_keep_their_values(case):
    """What dies with the sum may not be overwritten before the convolution has read it."""
    arrays, where = data(case, "float32")

    def function(x, w, b):
        leaves = [v.detach() for v in (x, w, b)]
        for leaf in leaves:
            leaf.requires_grad = True
        out = ops.conv2d(ops.exp(leaves[0] * 0.1), leaves[1] * 2.0, ops.tanh(leaves[2]), **where)
        return [out, *gradients((out * out).sum(), leaves)]

    program = compile(function, tuple(arrays), exact=True)
    program.poison()
    for found, expected in zip(program(*arrays), function(*map(Tensor, arrays)), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.filterwarnings("ignore:.*Maximum iterations")
def test_a_fit_has_the_same_bits_in_native_code():
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2, 8, 8), dtype=np.float32), np.arange(40) % 3

    def results(native):
        layers = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm(4), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4)
        net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(144, 3))
        with config_context(native=native):
            fitted = NetClassifier(net, batch_size=16, max_iter=3, random_state=0).fit(X, y)
        return [fitted.loss_curve_, *[v.numpy() for v in fitted.model_.module.parameters()]]

    for found, expected in zip(results("always"), results("never"), strict=True):
        np.testing.assert_array_equal(found, expected)
