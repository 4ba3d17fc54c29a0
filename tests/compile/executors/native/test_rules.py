"""Every rule, called as a step calls it: native code leaves the bits that NumPy leaves."""

import operator
from functools import partial

import numpy as np
import pytest
from scipy.linalg import blas
from scipy.sparse import _sparsetools

from sknet.compile.numpy import add_multiple, check_indices, fill_mask
from sknet.device import philox_uniform
from tests.compile.executors.native.running import Instructions, calling, is_translated

pytest.importorskip("sknet._native._core", reason="native code was not built")

DTYPES = ["float32", "float64"]
SIZES = (1, 2, 3, 7, 8, 15, 17, 31, 33, 64, 65, 127, 130, 1000, 10007)
# Their loops are vectorized, and may round the remainder differently.
FUNCTIONS = [
    np.exp, np.expm1, np.exp2, np.log, np.log1p, np.log2, np.log10, np.tanh, np.sinh, np.cosh, np.sin, np.cos,
    np.arctan, np.sqrt, np.square, np.reciprocal, np.negative, np.absolute, np.sign, np.rint,
]  # fmt: skip
PAIRS = [
    np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.power, np.arctan2, np.hypot,
    np.copysign, np.greater, np.less_equal, np.equal, np.logical_and,
]  # fmt: skip


def run(*calls):
    """Execute calls natively; return the kinds of instructions."""
    instructions = Instructions(calls)
    with np.errstate(all="ignore"):
        assert instructions.run()
    return instructions.kinds


def same(function, *args, outs=(-1,), **named):
    """Call a function both ways, on copies with the same layout, and compare what it writes."""
    mine = [_copied(x) for x in args]
    theirs = [_copied(x) for x in args]
    kinds = run(calling(function, *mine, **named))
    with np.errstate(all="ignore"):
        if isinstance(function, np.ufunc):
            function(*theirs[:-1], out=theirs[-1])
        else:
            function(*theirs, **named)
    for place in outs:
        assert mine[place].tobytes() == theirs[place].tobytes(), (function, [np.shape(x) for x in args])
    return kinds


def _copied(x):
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def numbers(rng, *shape, dtype):
    return np.asarray(rng.normal(size=shape) * rng.choice([0.1, 1, 20]), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_one_array_of_any_length(dtype):
    rng = np.random.default_rng(0)
    for function in FUNCTIONS:
        for n in SIZES:
            x = numbers(rng, n, dtype=dtype)
            same(function, x, np.empty_like(x))


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_two_arrays_of_all_shapes_that_broadcast(dtype):
    rng = np.random.default_rng(1)
    for function in PAIRS:
        is_exact = function not in (np.power, np.arctan2, np.hypot)
        for left, right in [((7,), (7,)), ((9, 5), ()), ((9, 5), (9, 5)), ((33, 130), (33, 130))]:
            x, y = numbers(rng, *left, dtype=dtype), numbers(rng, *right, dtype=dtype)
            shape = np.broadcast_shapes(left, right)
            same(function, x, y, np.empty(shape, function(x, y).dtype))
        for left, right in [((9, 5), (5,)), ((9, 1), (9, 5)), ((9, 5), (9, 1)), ((4, 3, 2), (3, 1))]:
            if is_exact:
                x, y = numbers(rng, *left, dtype=dtype), numbers(rng, *right, dtype=dtype)
                shape = np.broadcast_shapes(left, right)
                same(function, x, y, np.empty(shape, function(x, y).dtype))


def test_extreme_numbers_of_rows_and_columns_of_a_matrix():
    values = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, 1e-45, 3e38, -3e38, 1e-30], "float32")
    whole = np.repeat(values[None], 10, axis=0).copy()
    for function, other in (
        (np.add, values), (np.subtract, values[:, None]), (np.multiply, values[:, None]),
        (np.divide, values[:, None]),
    ):  # fmt: skip
        with np.errstate(all="ignore"):
            expected = function(whole, other)
        found = np.empty_like(whole)
        assert run(calling(function, whole, other, found)) == ["SPREAD"]
        np.testing.assert_array_equal(found, expected)
        numeric = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[numeric], np.signbit(expected)[numeric])


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions(dtype):
    rng = np.random.default_rng(2)
    for shape, axis in [
        ((1000,), 0), ((130, 7), 0), ((130, 7), 1), ((7, 1030), 1), ((3, 200), (0, 1)), ((4, 5, 6), 1),
        ((4, 5, 6), (1, 2)), ((4, 5, 6), (0, 1)), ((1, 9), 0), ((9, 1), 1), ((2, 9000), 1),
    ]:  # fmt: skip
        x = numbers(rng, *shape, dtype=dtype)
        for function in (np.add, np.maximum, np.minimum):
            out = np.empty_like(function.reduce(x, axis))
            same(function.reduce, x, axis, None, np.asarray(out), outs=(3,))
            kept = np.empty_like(function.reduce(x, axis, keepdims=True))
            same(function.reduce, x, axis, None, kept, True, outs=(3,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_all_layouts(dtype):
    rng = np.random.default_rng(3)
    for m in (1, 2, 9, 130):
        for k in (2, 5, 100):
            for n in (1, 2, 3, 64):
                a, b = numbers(rng, m, k, dtype=dtype), numbers(rng, k, n, dtype=dtype)
                turned = a.T.copy().T, b.T.copy().T
                for left, right in ((a, b), (turned[0], b), (a, turned[1]), turned):
                    for function in (np.dot, np.matmul):
                        same(function, left, right, np.empty((m, n), dtype))
            x = numbers(rng, k, dtype=dtype)
            same(np.dot, a, x, np.empty(m, dtype))
            same(np.dot, numbers(rng, k, dtype=dtype), a.T.copy(), np.empty(m, dtype))
    same(np.dot, x, x, np.empty((), dtype))
    stacks = numbers(rng, 4, 3, 6, 5, dtype=dtype), numbers(rng, 3, 5, 2, dtype=dtype)
    same(np.matmul, *stacks, np.empty((4, 3, 6, 2), dtype))
    a = numbers(rng, 9, 6, dtype=dtype)
    found = np.empty((6, 6), dtype)
    run(calling(np.dot, a.T, a, found))  # BLAS has a function for a matrix and itself
    np.testing.assert_array_equal(found, np.dot(a.T, a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [0.0, 0.3, -2.0])
def test_vectors_of_blas(factor, dtype):
    rng = np.random.default_rng(4)
    scal, axpy = blas.get_blas_funcs(("scal", "axpy"), dtype=np.dtype(dtype))
    for n in SIZES:
        x, y = numbers(rng, n, dtype=dtype), numbers(rng, n, dtype=dtype)
        same(scal, factor, x)
        same(axpy, x, y, n, factor, outs=(1,))
        same(axpy, x, y, outs=(1,))
        x[0] = np.inf
        same(add_multiple, axpy, x, y, n, np.array(factor, dtype), outs=(2,))


@pytest.mark.parametrize("dtype", ["int8", "bool", "int32", "int64", "float32", "float64"])
def test_copies_and_conversions(dtype):
    rng = np.random.default_rng(5)
    for shape in [(), (7,), (4, 5), (2, 3, 4)]:
        x = rng.integers(0, 2, shape).astype(dtype)
        for out in {dtype, "float32", "float64"}:
            same(np.copyto, np.ones(shape, out), x, "unsafe", outs=(0,))
            turned = np.ones(shape[::-1], out).T
            same(np.copyto, turned, x, "unsafe", outs=(0,))
    wide = np.zeros((6, 4), dtype)
    same(np.copyto, wide, rng.integers(0, 2, 4).astype(dtype), outs=(0,))
    large = rng.integers(-(2**62), 2**62, 1000)
    same(np.copyto, np.zeros(1000, "float32"), large, "unsafe", outs=(0,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masks(dtype):
    rng = np.random.default_rng(6)
    for n in (1, 5, 100):
        x, mask = numbers(rng, n, dtype=dtype), rng.random(n) < 0.5
        x[0] = np.nan
        bits = f"i{x.itemsize}"
        same(np.multiply, x.view(bits), mask, np.empty(n, bits))
        same(np.copyto, numbers(rng, n, dtype=dtype), x, where=mask, outs=(0,))
        same(np.copyto, x, 0, where=mask, outs=(0,))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_rectifier_is_one_instruction_forward_and_one_back(dtype):
    rng = np.random.default_rng(7)
    zeros = np.zeros((6, 50), dtype)
    zeros.flags.writeable = False
    x, row, gradient = (numbers(rng, *shape, dtype=dtype) for shape in [(6, 50), (50,), (6, 50)])
    x[0, :4], row[:4] = [-0.0, np.inf, -np.inf, 0.0], [-0.0, 1, 1, -0.0]
    bits, mask = f"i{x.itemsize}", np.empty((6, 50), bool)
    expected = np.maximum(x + row, 0)
    kept = np.where(expected > 0, gradient, 0)
    kinds = run(
        calling(np.add, x, row, x),
        calling(np.maximum, x, zeros, out=x),
        calling(np.greater, x, zeros[0, 0:1].reshape(()), mask),
        calling(np.multiply, gradient.view(bits), mask, gradient.view(bits)),
    )
    assert kinds == ["ADD_ROW_RELU", "MASK_POSITIVE"]
    assert x.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(mask, expected > 0)
    np.testing.assert_array_equal(gradient, kept)


def test_indices():
    rng = np.random.default_rng(8)
    x, at = rng.normal(size=(9, 4)), rng.integers(0, 9, 6)
    take = np.ndarray.take
    same(take, x, at, 0, np.empty((6, 4)), "clip", outs=(3,))
    same(take, x.reshape(-1), at, None, np.empty(6), "clip", outs=(3,))
    same(take, np.arange(0, 27, 3), np.array([2, -1, 0]), None, np.empty(3, int), outs=(3,))
    same(operator.setitem, x.reshape(-1), np.array([5, 1, 8]), np.ones(3), outs=(0,))
    same(np.ndarray.fill, x, 0, outs=(0,))
    values = rng.normal(size=24)
    given = 9, 6, 4, np.arange(7), at, np.ones(6), values, np.zeros(36)
    same(_sparsetools.csc_matvecs, *given)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "uint8"])
def test_an_index_out_of_bounds_ends_the_run(dtype):
    for indices, length, is_fine in [([0, 2], 3, True), ([0, 3], 3, False), ([-1, 0], 300, False)]:
        given = np.array(indices).astype(dtype)
        is_fine = is_fine or (dtype == "uint8" and length == 300)
        assert Instructions([calling(check_indices, given, length)]).run() == is_fine


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.0, 2.0**-16, 0.1, 0.5, 1 - 2.0**-17, 1.0])
def test_masks_of_dropout(p, dtype):
    limit, scale = np.float32(p), dtype(1 / (1 - p) if p < 1 else 0)
    for shape in [(1,), (7,), (16,), (5, 9), (3, 100)]:
        for key, site, step in [((1, 2), 0, 0), ((2**63 - 1, 2**64 - 1), 3, 2**40), ((0, 0), 1, 7)]:
            found, drawn, flags = np.empty(shape, dtype), np.empty(shape, np.float32), np.empty(shape, bool)
            function = partial(fill_mask, (key, site, shape), limit, scale)
            assert run(calling(function, np.array(step), drawn, flags, found)) == ["DROPOUT"]
            drawn = philox_uniform(key, step, site, shape, np.float32)
            np.testing.assert_array_equal(found, np.where(drawn >= limit, scale, dtype(0)))


NOT_ALIKE = {
    "another dtype": (np.add, np.ones(3), np.ones(3, int), np.ones(3)),
    "an overlap": (np.add, *(lambda x: (x[:-1], x[:-1], x[1:]))(np.ones(9))),
    "a function with strides": (np.exp, np.ones((5, 4))[:, :2], np.ones((5, 2))),
    "negative strides": (np.add, np.ones(4)[::-1], np.ones(4), np.ones(4)),
    "two results": (np.frexp, np.ones(3), np.ones(3), np.ones(3, "int32")),
    "a column times a row": (np.dot, np.ones((4, 1)), np.ones((1, 3)), np.ones((4, 3))),
    "a sum over no axis": (np.add.reduce, np.ones((2, 3)), (), None, np.ones((2, 3))),
    "any function": (np.cumsum, np.ones(3), None, None, np.ones(3)),
}


@pytest.mark.parametrize("call", NOT_ALIKE.values(), ids=NOT_ALIKE)
def test_what_numpy_does_in_another_way_is_called_back(call):
    function, *args = call
    assert not is_translated(calling(function, *args))
