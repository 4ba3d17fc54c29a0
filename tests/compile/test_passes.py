"""Passes: the result of each on a small graph."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import capture, compile
from sknet.compile.passes import fuse, optimize
from sknet.core import gradients

X = np.arange(1.0, 7.0).reshape(2, 3)


def names(function, *args, exact=True):
    """Return the primitives that remain of a function."""
    graph = optimize(capture(function, *args), exact=exact)
    return [equation.primitive.name for equation in graph.equations]


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: (ops.exp(x), x + 1)[1], ["add"]),
        (lambda x: ops.exp(x) + ops.exp(x), ["exp", "add"]),
        (lambda x: x.sum((0,)) + x.sum((-2,)), ["sum", "add"]),
        (lambda x: x + ops.exp(np.ones(3)), ["add"]),
        (lambda x: x * 1, []),
        (lambda x: 1.0 * (x / 1) + (-0.0) - 0, []),
        (lambda x: x * np.ones((2, 3)), []),
        (lambda x: x * np.ones((4, 2, 3)), ["multiply"]),
        (lambda x: ops.negative(ops.negative(x)), []),
        (lambda x: x - (-x), ["add"]),
        (lambda x: x + (-ops.exp(x)), ["exp", "subtract"]),
        (lambda x: -(x * 2.0), ["multiply"]),
        (lambda x: -(2.0 / x), ["divide"]),
        (lambda x: x.reshape(3, 2).reshape(6).reshape(2, 3), []),
        (lambda x: x.T.T, []),
        (lambda x: ops.permute_dims(x.reshape(1, 2, 3), (1, 2, 0)).permute_dims(2, 0, 1), ["reshape"]),
        (lambda x: x.astype("float64"), []),
        (lambda x: x.reshape(2, 3, 1).sum(-1), []),
        (lambda x: ops.broadcast_to(x.sum(), (2, 3)) * x, ["sum", "multiply"]),
        (lambda x: ops.concat([x.reshape(-1)]), ["reshape"]),
        (lambda x: ops.concat([ops.concat([x[0], x[1]]), x[0]]), ["getitem", "getitem", "assemble"]),
    ],
)
def test_exact_rules(function, left):
    assert names(function, X) == left


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: x * 2.0 * 3.0, ["multiply"]),
        (lambda x: x * 0.5 / 4.0, ["multiply"]),
        (lambda x: x**2, ["square"]),
        (lambda x: ops.exp(x) ** 0.5, ["exp", "sqrt"]),
        (lambda x: -ops.log_softmax(x), ["max", "subtract", "exp", "sum", "log", "subtract"]),
        (lambda x: (x * x).sum(), ["reshape", "reshape", "matmul", "reshape"]),
        (lambda x: ops.exp(ops.log_softmax(x)), ["max", "subtract", "exp", "sum", "divide"]),
        (lambda x: ops.softmax(x), ["max", "subtract", "exp", "sum", "divide"]),
        (lambda x: x[0] * 0.5 + ops.exp(x[0]), ["getitem", "exp", "axpy"]),
        (lambda x: ops.exp(x[0]) - x[0] * 0.5, ["getitem", "exp", "axpy"]),
        (
            lambda x: ops.softmax(x) * x.sum(-1, keepdims=True),
            ["max", "subtract", "exp", "sum", "sum", "divide", "multiply"],
        ),
        (lambda x: ops.exp(x).sum() / 4, ["exp", "sum", "multiply"]),
        (lambda x: x @ ops.exp(x.T) @ x + x * 0.3, ["permute_dims", "exp", "matmul", "matmul", "axpy"]),
    ],
)
def test_rules_that_change_rounding(function, left):
    found = names(function, X, exact=False)
    assert [name for name in found if name in left] == left
    assert len(found) == len(left)
    assert names(function, X, exact=True) != left


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: ops.exp(x - ops.log(x[:, :1])), ["getitem", "log", "subtract", "exp"]),
        (lambda x: x * 2.0 / 4.0, ["multiply", "divide"]),
        (lambda x: x * 0.5 * 1e6, ["multiply", "multiply"]),
        (lambda x: x * 1e-200 * 1e-200, ["multiply", "multiply"]),
        (lambda x: x * 1e200 * 1e200, ["multiply", "multiply"]),
        (lambda x: x * x[0] * x[:, :1], ["getitem", "multiply", "getitem", "multiply"]),
        (lambda x: x * 0.5 / ops.exp(x), ["multiply", "exp", "divide"]),
        (lambda x: x[0, 0] / 1e-320, ["getitem", "divide"]),
        (lambda x: x[0] + 2.0 * x[1], ["getitem", "getitem", "multiply", "add"]),
        (lambda x: x[0] + x[1].sum() * np.ones(3), ["getitem", "getitem", "sum", "multiply", "add"]),
        (lambda x: (v := -(x[0] * 1e-3)) - v, ["getitem", "multiply", "subtract"]),
        (lambda x: x[0] + 0.0 * x[1], ["getitem", "getitem", "multiply", "add"]),
        (lambda x: x**0.5, ["pow"]),
        (lambda x: x + 0.0, ["add"]),
        (lambda x: -(x - ops.exp(x)), ["exp", "subtract", "negative"]),
        (lambda x: ops.where(x > 0, x, -0.0), ["greater", "where"]),
    ],
)
def test_rules_do_not_change_the_range(function, left):
    assert names(function, X, exact=False) == left


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: -(2 * x), ["multiply", "negative"]),
        (lambda x: -(x / 3), ["divide", "negative"]),
        (lambda x: -((-x) / 3), ["negative", "divide", "negative"]),
        (lambda x: x.astype("int64") - (-x), ["astype", "negative", "subtract"]),
        (lambda x: 0.5 + (-x), ["negative", "add"]),
        (lambda x: x - (-x), ["add"]),
    ],
)
def test_integers_keep_their_width(function, left):
    assert names(function, np.arange(6, dtype=np.uint8), exact=False) == left


@pytest.mark.parametrize("exact", [True, False])
def test_zeros_on_one_side_make_a_mask(exact):
    assert names(lambda x: ops.where(x > 0, x, 0.0), X, exact=exact) == ["greater", "masked"]
    assert names(lambda x: ops.where(x > 0, 0.0, x), X, exact=exact) == ["greater", "logical_not", "masked"]
    assert names(lambda x: ops.where(x > 0, x, 1.0), X, exact=exact) == ["greater", "where"]
    assert names(lambda x: ops.where(x, x, 0.0), X, exact=exact) == ["where"]


def test_a_mask_in_blocks_is_bitwise_identical():
    x = np.random.default_rng(0).standard_normal((4096, 128))
    x[::7] = np.inf
    run = compile(lambda x: ops.where(x > 0.5, ops.exp(x), 0.0) * 2.0, (x,), exact=True)
    np.testing.assert_array_equal(run(x), np.where(x > 0.5, np.exp(x), 0.0) * 2.0)


def test_loss_and_gradient_share_the_softmax():
    def function(z, y):
        z.requires_grad = True
        chosen = ops.take_along_axis(ops.log_softmax(z), ops.expand_dims(y, -1), -1)
        loss = -chosen.mean()
        return loss, gradients(loss, [z])[0]

    left = names(function, np.ones((5, 3)), np.zeros(5, int), exact=False)
    assert left.count("exp") == left.count("max") == left.count("log") == 1
    assert "put_at" not in left
    assert "negative" not in left


def test_verified_after_the_capture_and_after_the_passes(monkeypatch):
    from sknet.compile import Graph

    calls = []
    monkeypatch.setattr(Graph, "verify", lambda graph: calls.append(graph) or graph)
    optimize(capture(lambda x: x * 1 + 0, X))
    assert len(calls) == 2


def groups(function, *args, **options):
    graph = optimize(capture(function, *args), exact=True)
    return [([e.primitive.name for e in group.equations], group.rows) for group in fuse(graph, **options)]


def test_a_large_chain_is_one_group():
    def function(x, y):
        return ops.exp(x * 2) + y, x.sum()

    large = np.ones((100, 8))
    assert groups(function, large, np.ones(8), block=80, cache=1) == [
        (["sum"], 0),
        (["multiply", "exp", "add"], 10),
    ]
    assert groups(function, large, np.ones(8), block=80) == [(["sum"], 0), (["multiply", "exp", "add"], 0)]
    assert all(len(chain) == 1 for chain, _ in groups(function, large, np.ones(8)))


def test_groups_end_where_something_else_needs_them():
    def function(x):
        y = ops.exp(x) + 1
        return ops.tanh(y) * y.sum(0)

    found = groups(function, np.ones((100, 8)), block=80, cache=1)
    assert found == [(["exp", "add", "tanh"], 10), (["sum"], 0), (["multiply"], 0)]


def test_indivisible_groups_are_kept():
    found = groups(lambda x, y: ops.exp(x.T + y), np.ones((8, 100)), np.ones((100, 8)), block=80, cache=1)
    assert found == [(["permute_dims"], 0), (["add", "exp"], 10)]
    assert groups(lambda x: ops.exp(x) + 1, np.ones(()), block=0, cache=0) == [(["exp"], 0), (["add"], 0)]


@pytest.mark.parametrize("comes_first", [False, True])
def test_a_multiple_is_added_apart_from_a_chain_that_shares_nothing_with_it(comes_first):
    """As an L2 term of a weight that has the shape of activations; an update reads one gradient twice."""

    def apart(x, weight):
        results = [lambda: ops.tanh(ops.exp(x)), lambda: x.T @ x + 0.1 * weight]
        return [make() for make in (results[::-1] if comes_first else results)]

    def together(gradient, weight, total):
        total = total * 0.9 + gradient * 0.1
        return total, weight - 0.5 * total

    def grouped(function, *args):
        graph = optimize(capture(function, *args))
        return [[e.primitive.name for e in group.equations] for group in fuse(graph, block=80, cache=1)]

    alone = grouped(apart, np.ones((50, 50)), np.ones((50, 50)))
    assert [names for names in alone if "permute_dims" not in names] in (
        [["matmul"], ["axpy"], ["exp", "tanh"]],
        [["exp", "tanh"], ["matmul"], ["axpy"]],
    )
    assert grouped(together, *[np.ones(800)] * 3) == [["multiply", "axpy", "axpy"]]
