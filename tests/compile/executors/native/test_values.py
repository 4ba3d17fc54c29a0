"""Values of the native executor have the axes of what they represent, whatever their lengths."""

import math

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import capture
from sknet.compile.executors.native._value import Map, View
from sknet.compile.executors.native._values import Values
from sknet.compile.passes import optimize

LENGTHS = (0, 1, 1, 2, 3)


def shape_of(rng, least=0, most=3):
    return tuple(int(rng.choice(LENGTHS)) for _ in range(rng.integers(least, most + 1)))


def reshaped(rng, x):
    lengths = [n for n in x.shape if n != 1 or rng.random() < 0.5]
    while rng.random() < 0.5:
        lengths.insert(int(rng.integers(len(lengths) + 1)), 1)
    return ops.reshape(x, (-1,) if x.size and rng.random() < 0.2 else tuple(lengths))


def permuted(rng, x):
    return ops.permute_dims(x, tuple(int(i) for i in rng.permutation(x.ndim)))


def broadcast(rng, x):
    inner = [int(rng.choice(LENGTHS)) if n == 1 else n for n in x.shape]
    return ops.broadcast_to(x, (*shape_of(rng, most=1), *inner))


def part(rng, x):
    choices = [slice(None), slice(1, None), slice(None, 1), slice(None, None, -1), 0]
    index = [choices[rng.integers(4 if n == 0 else 5)] for n in x.shape]
    return x[tuple(index[: rng.integers(1, len(index) + 1)])] if index else x


def summed(rng, x):
    axes = tuple(i for i in range(x.ndim) if rng.random() < 0.5)
    return ops.sum(x, axis=axes, keepdims=bool(rng.random() < 0.5))


def largest(rng, x):
    axes = tuple(i for i, n in enumerate(x.shape) if n and rng.random() < 0.5)
    return ops.max(x, axis=axes, keepdims=bool(rng.random() < 0.5))


def added(rng, x):
    return x + np.ones([1 if rng.random() < 0.5 else n for n in x.shape]) * rng.random()


def product(rng, x):
    if x.ndim != 2:
        return ops.tanh(x)
    return x @ x.T if rng.random() < 0.5 else ops.matmul(x, rng.random((x.shape[1], rng.choice(LENGTHS))))


def picked(rng, x):
    if x.ndim < 2 or not x.size:
        return ops.exp(x)
    return ops.take_along_axis(x, np.zeros((*x.shape[:-1], 1), int), -1, from_end=False)


KINDS = (reshaped, permuted, broadcast, part, summed, largest, added, product, picked)


@pytest.mark.parametrize("seed", range(300))
def test_axes(seed):
    rng = np.random.default_rng(seed)
    x = rng.random(shape_of(rng, least=1))
    draws = [(KINDS[rng.integers(len(KINDS))], int(rng.integers(1 << 30))) for _ in range(4)]

    def function(x):
        results = []
        for kind, number in draws:
            x = kind(np.random.default_rng(number), x)
            results.append(x)
        return results

    graph = optimize(capture(function, x))
    for value, variable in zip(Values(graph, "v").outputs, graph.outputs, strict=True):
        lengths = getattr(value, "lengths", None)
        assert lengths is None or is_made_of(lengths, [n for n in variable.shape if n != 1]), str(graph)
        assert lengths is None or tuple(axis.size for axis in value.axes) == lengths, str(graph)


def is_made_of(lengths, axes):
    """Tell whether axes that follow each other can be joined so that they have these lengths."""
    if not lengths:
        return not axes
    firsts = (axes[:n] for n in range(1, len(axes) + 1))
    return any(
        math.prod(first) == lengths[0] and is_made_of(lengths[1:], axes[len(first) :]) for first in firsts
    )


def elements(value, arrays):
    """Return the array of a view or copy, by what was viewed; of what is given, its own."""
    if isinstance(value, View):
        return value.applied(elements(value.source, arrays))
    return elements(value.operands[0], arrays) if isinstance(value, Map) else arrays[value]


@pytest.mark.parametrize("seed", range(200))
def test_views_show_the_same_elements(seed):
    """Also where both axes are the same one, since something was added to its transpose."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 4))
    x = rng.random((n, n))
    draws = [(KINDS[rng.integers(4)], int(rng.integers(1 << 30))) for _ in range(3)]

    def function(x):
        results = [x + x.T, x]
        for kind, number in draws:
            if kind is broadcast:
                continue
            results.append(kind(np.random.default_rng(number), results[-1]))
        return results

    graph = optimize(capture(function, x))
    values = Values(graph, "v")
    _, *found = values.outputs
    _, *expected = function(Tensor(x))
    for value, tensor in zip(found, expected, strict=True):
        lengths = [k for k in tensor.shape if k != 1]
        mine = elements(value, {values.inputs[0]: x}).reshape(lengths)
        np.testing.assert_array_equal(mine, tensor.numpy().reshape(lengths), err_msg=str(graph))
