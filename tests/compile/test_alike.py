"""Graphs that differ in numbers alone."""

import numpy as np
import pytest

from sknet import Tensor, ops, vmap
from sknet.compile import capture, compile
from sknet.compile._symbolic import differing, lift_constants, outputs_with
from sknet.compile.passes import ASSEMBLY, rewrite

X = np.random.default_rng(0).normal(size=(4, 6))


def graphs(function, *numbers, x=X):
    return [lift_constants(capture(lambda x, number=number: function(x, number), x)) for number in numbers]


@pytest.mark.parametrize(
    ("function", "numbers"),
    [
        (lambda x, number: x * number + 1.0, (0.5, -0.0, 1e-8)),
        (lambda x, number: ops.where(ops.greater(x, number), x * 2.0, number), (0.1, 0.2)),
        (lambda x, number: ops.sum(x) / number + number**2, (3, 4)),
        (lambda x, number: x * Tensor(np.array([number, 1.0, number, 1, 1, 1])), (0.5, 0.25)),
    ],
    ids=["float", "condition", "int", "array"],
)
def test_one_graph_computes_what_each_does(function, numbers):
    found = graphs(function, *numbers)
    assert len({each.key for each in found}) == 1
    at = differing(found)
    assert at
    for each, number in zip(found, numbers, strict=True):
        given = {i: Tensor(each.numbers[i]) for i in at}
        [output] = outputs_with(found[0], [Tensor(X)], given)
        np.testing.assert_array_equal(output.numpy(), function(Tensor(X), number).numpy())


def test_numbers_are_told_apart_by_their_bits():
    assert differing(graphs(lambda x, number: x * number, 0.0, -0.0)) == (0,)
    assert differing(graphs(lambda x, number: x * number, np.nan, np.nan)) == ()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, number: ops.sum(x, number),
        lambda x, number: ops.exp(x) if number else ops.tanh(x),
        lambda x, number: ops.floor_divide(ops.astype(x, "int64"), number + 1),
        lambda x, number: x[:, number:],
    ],
    ids=["axis", "operation", "integers", "shape"],
)
def test_other_differences_are_differences(function):
    one, other = graphs(function, 0, 1)
    assert one.key != other.key


def test_in_single_precision_numbers_are_those_of_the_graph():
    [each] = graphs(lambda x, number: x * number, 0.1, x=X.astype("f4"))
    assert each.numbers == (np.float32(0.1),)
    assert each.numbers[0].dtype == "float32"


def test_a_flat_array_of_each_is_assembled_slice_by_slice():
    """With gaps between the slices, and slices that all have in common."""

    def function(x, common):
        a, b = ops.zeros((6,)), ops.zeros((4,))
        grown = ops.concat([a, x[:2] * 2, b, ops.reshape(x[2:], (-1,)), common])
        return grown * 3.0

    common, x = np.arange(3.0), X
    of = lift_constants(capture(function, x[0], common))
    assert any(e.primitive.name == "assemble" for e in rewrite(of.graph, ASSEMBLY).equations)

    def each(x, common):
        return outputs_with(of, [x, common], {})

    expected = np.stack([function(Tensor(row), Tensor(common)).numpy() for row in x])
    [found] = vmap(each, (0, None))(Tensor(x), Tensor(common))
    np.testing.assert_array_equal(found.numpy(), expected)
    [found] = compile(lambda x: vmap(lambda row: each(row, Tensor(common)))(x), (x,))(x)
    np.testing.assert_array_equal(found, expected)
