"""Every rewriting rule, one by one, on critical values."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sknet import ops
from sknet.compile import capture, compile
from sknet.compile.passes import RULES, rewrite
from sknet.core import PRIMITIVES, bind, gradients
from tests.combinations import every
from tests.fuzz.extremes import FLOATS, INTEGERS, check, compare, evaluate, operand

REAL = FLOATS
ALL = (*FLOATS, *INTEGERS)
NUMBERS = (*FLOATS, *INTEGERS[:-1])


@dataclass(frozen=True)
class Row:
    """A rule, functions that it rewrites, and the rules that have to come before it.

    `tame` is the fraction of ordinary elements in the operands, `tame_relaxed` when all rules are applied.
    """

    rule: str
    functions: tuple[Callable[..., Any], ...]
    shapes: tuple[tuple[int, ...], ...] = ((4, 6),)
    dtypes: tuple[str, ...] = REAL
    after: tuple[str, ...] = ()
    exact: bool = True
    tame: float = 0.2
    tame_relaxed: float = 0.2


def along(function):
    """Give a function of x and a column of indices a shape to take from."""
    return lambda x: function(x, np.array([[0], [3], [-1], [2]]))


def gradient(function):
    def found(*args):
        for x in args:
            x.requires_grad = True
        return gradients(function(*args), list(args))[0]

    return found


MATRIX_AND_ROW = ((4, 6), (6,))
MATRIX_AND_COLUMN = ((4, 6), (4, 1))
PAIR = ((4, 6), (4, 6))
FLAT = ((24,), (24,))
SOFTMAX = ("log_softmax_in_parts", "softmax_in_parts")
ROWS = [
    # -- constants
    Row("fold", (lambda x: -(x * np.array([0.0, 1, 2, 3, -4, np.inf], x.dtype)),), after=("negative_of",)),
    Row("number", (lambda x: x * np.full((4, 6), 0.1, x.dtype), lambda x: x + np.full((), -0.0, x.dtype))),
    # -- algebra that keeps every bit
    Row("times_one", (lambda x: x * 1, lambda x: 1 * x), dtypes=NUMBERS),
    Row("times_one", (lambda x: x / 1, lambda x: x * True)),
    Row("plus_zero", (lambda x: x - 0, lambda x: x + (-0.0), lambda x: -0.0 + x)),
    Row("plus_zero", (lambda x: x - 0, lambda x: x + 0, lambda x: 0 + x), dtypes=NUMBERS[3:]),
    Row("over_single", (lambda x: x.reshape(4, 6, 1).sum(-1), lambda x: x.reshape(1, 24).sum(0))),
    Row("over_single", (lambda x: x.reshape(4, 6, 1).sum(-1),), dtypes=("int64", "uint64")),
    Row(
        "reshape_once",
        (lambda x: x.reshape(6, 4).reshape(24), lambda x: (-x).reshape(24), lambda x: x.reshape(4, 6)),
        dtypes=NUMBERS,
    ),
    Row("permute_once", (lambda x: x.T.T, lambda x: ops.permute_dims(x.T, (1, 0))), dtypes=ALL),
    Row("same_dtype", (lambda x: bind(PRIMITIVES["astype"], (x,), {"dtype": x.dtype}),), dtypes=ALL),
    Row(
        "broadcast_late",
        (
            lambda x, y: x + ops.broadcast_to(y, (4, 6)),
            lambda x, y: ops.maximum(ops.broadcast_to(y, (4, 6)), x),
        ),
        MATRIX_AND_ROW,
        NUMBERS,
    ),
    Row("broadcast_late", (lambda x, y: x * ops.reshape(y, (1, 1)),), ((4, 6), ()), NUMBERS),
    Row(
        "broadcast_afterwards",
        (lambda x, y: x + ops.broadcast_to(y, (4, 6)) * 3, lambda x, y: x - (-ops.broadcast_to(y, (4, 6)))),
        MATRIX_AND_COLUMN,
        NUMBERS,
    ),
    Row(
        "where_or_zero",
        (
            lambda x: ops.where(x > 0.5, x, 0.0),
            lambda x: ops.where(x > 0.5, 0, x),
            lambda x: ops.where(x < 9, x, 0),
        ),
    ),
    Row(
        "negative_of",
        (lambda x, y: -(x * y), lambda x, y: -((-x) * (x + y)), lambda x, y: ops.negative(-x)),
        MATRIX_AND_COLUMN,
        NUMBERS,
    ),
    Row(
        "negative_of",
        (lambda x, y: -(x / y), lambda x, y: -((-x) / y), lambda x, y: -(y / x)),
        MATRIX_AND_COLUMN,
    ),
    Row(
        "negative_number",
        (
            lambda x: -(2.5 * x),
            lambda x: -(x / 3),
            lambda x: -(1 / x),
            lambda x: -(x * True),
            lambda x: -(0 * x),
        ),
    ),
    Row("add_negative", (lambda x, y: x + (-y), lambda x, y: (-y) + x), PAIR, NUMBERS),
    Row("add_negative", (lambda x: 3 + (-x), lambda x: (-x) + (-x)), dtypes=NUMBERS),
    Row("subtract_negative", (lambda x, y: x - (-y), lambda x, y: 1 - (-y)), PAIR, NUMBERS),
    Row("take_by_position", (along(lambda x, i: ops.take_along_axis(x, i, -1)),), dtypes=ALL),
    Row(
        "put_by_position",
        (lambda x, y: gradient(along(lambda x, i: (ops.take_along_axis(x, i, -1) * y).sum()))(x),),
        MATRIX_AND_COLUMN,
    ),
    Row(
        "sum_of_put",
        (lambda x, y: gradient(along(lambda x, i: (ops.take_along_axis(x, i, -1) * y).sum()))(x).sum(-1),),
        MATRIX_AND_COLUMN,
        after=("put_by_position",),
    ),
    Row(
        "subtract_from_put",
        (lambda x, y: gradient(along(lambda x, i: (ops.take_along_axis(x, i, -1) * y).sum()))(x) - x,),
        MATRIX_AND_COLUMN,
        after=("put_by_position",),
    ),
    # -- flat arrays
    Row("scatter", (gradient(lambda x: (x[3:9] * x[9:15]).sum()),), ((24,),)),
    Row(
        "scatter",
        (gradient(lambda x: (x[1:3] * x[:2, :]).sum()), gradient(lambda x: (x[-1] * x[..., 0, :]).sum())),
    ),
    Row("disjoint", (gradient(lambda x: (x[3:9] * x[9:15]).sum()),), ((24,),), after=("scatter",)),
    Row(
        "disjoint",
        (
            gradient(lambda x: (x[:2] * x[2:]).sum()),
            gradient(lambda x: (x[2:3] * x[1] * x[-1]).sum()),
            gradient(lambda x: math.prod(ops.split(x, (1, 3))).sum()),
        ),
        after=("scatter",),
    ),
    # -- parts along other axes
    Row(
        "scattered_inside",
        (
            gradient(lambda x: (x[:, 1:3] * x[..., 3:5]).sum()),
            gradient(lambda x: (x[..., -1] * x[:, 0]).sum()),
        ),
    ),
    Row("scattered_inside", (gradient(lambda x: (x[:, 1][:, :3] * x[:, :, 2:].sum(2)).sum()),), ((2, 3, 5),)),
    Row(
        "disjoint_inside",
        (
            gradient(lambda x: (x[:, :2] * x[:, 3:5]).sum()),
            gradient(lambda x: math.prod(ops.split(x, 3, axis=1)).sum()),
            gradient(lambda x: (x[:, 4] * x[:, 0] * x[:, 5]).sum()),
        ),
        after=("scattered_inside",),
    ),
    Row("nothing_added", (gradient(lambda x: (x[:0].sum() + x[1:].sum()) * (x * x).sum()),)),
    Row("joined", (lambda x, y: ops.concat([x, y, x]),), FLAT, ALL),
    Row(
        "joined",
        (lambda x, y: ops.concat([x, y.T.T[:3], x[::-1]]), lambda x, y: ops.stack([x, y])),
        PAIR,
        ALL,
    ),
    # -- algebra that changes rounding
    Row("log_softmax_in_parts", (lambda x: ops.log_softmax(x), lambda x: ops.log_softmax(x, 0)), exact=False),
    Row("softmax_in_parts", (lambda x: ops.softmax(x), lambda x: ops.softmax(x, 0)), exact=False),
    Row("exp_of_log_softmax", (lambda x: ops.exp(ops.log_softmax(x)),), after=SOFTMAX, exact=False),
    Row(
        "softmax_times_row", (lambda x, y: ops.softmax(x) * y,), MATRIX_AND_COLUMN, after=SOFTMAX, exact=False
    ),
    Row("softmax_times_row", (lambda x: ops.softmax(x) * 1e3,), after=SOFTMAX, exact=False),
    Row(
        "take_before",
        (
            along(lambda x, i: ops.take_along_axis(x - ops.log(x[:, :1]), i, -1)),
            along(lambda x, i: ops.take_along_axis(ops.log_softmax(x), i, -1)),
        ),
        after=("take_by_position", *SOFTMAX),
        exact=False,
    ),
    Row(
        "numbers_first",
        (
            lambda x: (x * 2.5) * 3.5,
            lambda x: (0.3 * x) * 0.7,
            lambda x: (x / 3.0) * 0.7,
            lambda x: (x * 0.5) / 7.0,
            lambda x: (x * 0.25) * 3.0,
            lambda x: (x * -7) / 0.3,
        ),
        exact=False,
    ),
    Row("reciprocal", (lambda x: x.reshape(()) / 3, lambda x: x.reshape(()) / -0.7), ((1,),), exact=False),
    Row(
        "negative_log_softmax",
        (
            lambda x: -ops.log_softmax(x),
            along(lambda x, i: -ops.reshape(ops.take_along_axis(ops.log_softmax(x), i, -1), (4,))),
        ),
        after=("take_by_position", "take_before", "reshape_once", *SOFTMAX),
        exact=False,
    ),
    Row(
        "add_multiple",
        (lambda x, y: x + 0.3 * y, lambda x, y: x - 1.0 * (0.7 * y), lambda x, y: y[0] * ops.exp(x) + y),
        FLAT,
        exact=False,
    ),
    Row("add_multiple", (lambda x, y: (x @ x) + 0.3 * y,), ((5, 5), (5, 5)), exact=False),
    Row(
        "sum_of_negative",
        (
            lambda x, y: (-x).sum(-1),
            lambda x, y: (-ops.exp(x) * y).sum(0),
            lambda x, y: (y * -(x + 1.0)).sum(),
        ),
        PAIR,
        FLOATS,
        exact=False,
    ),
    Row(
        "sum_of_product",
        (lambda x, y: (x * y).sum(), lambda x, y: (ops.exp(x) * ops.exp(y)).sum()),
        PAIR,
        REAL[:2],
        exact=False,
    ),
    Row(
        "scaled_in_order",
        (ops.scaled_quotient, lambda c, x, y: ops.scaled_quotient(2.5, x, y)),
        ((), (4, 6), (4, 6)),
        ALL,
        tame_relaxed=1.0,
    ),
    Row(  # the operation guarantees no more
        "scaled_afterwards",
        (ops.scaled_quotient, lambda c, x, y: ops.scaled_quotient(2.5, x, y)),
        ((), (4, 6), (4, 6)),
        exact=False,
        tame=1.0,
        tame_relaxed=1.0,
    ),
    Row("simple_power", (lambda x: x**2, lambda x: x**2.0, lambda x: ops.abs(x) ** 0.5), exact=False),
]
CASES = [
    pytest.param(row, function, id=f"{row.rule}-{number}.{i}")
    for number, row in enumerate(ROWS)
    for i, function in enumerate(row.functions)
]
each_case = pytest.mark.parametrize(("row", "function"), CASES)


def dtypes(row, **_):
    return row.dtypes


def listed(function):
    @functools.wraps(function)
    def found(*args):
        return [function(*args)]

    return found


def drawn(row, dtype, seed, relaxed=False):
    rng = np.random.default_rng(seed)
    tame = row.tame_relaxed if relaxed else row.tame
    return [operand(rng, shape, dtype, tame) for shape in row.shapes]


def test_every_rule_has_a_row():
    assert {row.rule for row in ROWS} == RULES.names


@each_case
@every(dtype=dtypes)
def test_each_rule_separately(row, function, dtype):
    """The graph rewritten by the rule, computed one equation at a time."""
    graph = capture(listed(function), *drawn(row, dtype, 0))
    after = rewrite(graph, RULES.only(row.rule, *row.after)).verify()
    assert after.key() != rewrite(graph, RULES.only(*row.after)).key()
    for seed in range(20):
        arrays = drawn(row, dtype, seed)
        eager, found = evaluate(graph, arrays), evaluate(after, arrays)
        assert not compare(found, eager, graph, arrays, exact=row.exact, seed=seed)


@each_case
@every(dtype=dtypes, exact=[True, False])
def test_compiled(row, function, dtype, exact):
    """All rules together, and the program of the graph."""
    graph = capture(listed(function), *drawn(row, dtype, 0))
    for seed in range(5):
        arrays = drawn(row, dtype, seed, relaxed=not exact)
        assert not check(listed(function), graph, arrays, exact=exact, seed=seed)


@pytest.mark.parametrize(("number", "dtype"), [(1e-300, "float32"), (1e-9, "float16"), (0.0, "float64")])
def test_a_multiple_by_a_number_that_is_zero_in_its_dtype_stays_nan(number, dtype):
    x, y = np.ones(3, dtype), np.array([1.0, np.inf, np.nan], dtype)
    with np.errstate(invalid="ignore"):
        found = compile(lambda x, y: x + number * y, (x, y))(x, y)
    assert np.array_equal(found, [1.0, np.nan, np.nan], equal_nan=True)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1)])
def test_a_product_over_one_element_is_nan_for_zero_times_infinity(shape):
    x = np.array([[0.0]]) if shape[0] == 1 else np.array([[0.0], [1.0], [2.0], [np.inf]])
    y = np.full((1, shape[1]), np.inf)
    with np.errstate(invalid="ignore"):
        for exact in (True, False):
            found = compile(lambda x, y: x @ y, (x, y), exact=exact)(x, y)
            assert np.array_equal(found, x @ y, equal_nan=True)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_sum_of_parts_keeps_the_dtype_of_zeros_between_them(axis):
    ones, zeros = np.ones((2, 2), "int8"), np.zeros((2, 2), "float32")

    def function(x, y):
        return ops.concat([x, zeros], axis=axis) + ops.concat([zeros, y], axis=axis)

    found = compile(function, (ones, ones))(ones, ones)
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, 1)
