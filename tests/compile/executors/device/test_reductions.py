"""Reductions as kernels: every way to share the work, against NumPy, with the threads in two orders."""

import itertools
import math
import re

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import to_device, to_host
from tests.compile.executors.device.test_executor import off, on
from tests.devices.fake import counted

# Shapes and axes for all ways: a thread, lanes, or a block for a total; tiles; and pieces of these.
SHAPES = {
    "a thread a total": ((70, 3), (-1,)), "a thread a column": ((9, 300), (0,)),
    "some lanes": ((70, 10), (-1,)), "a warp": ((70, 100), (-1,)), "a warp for long rows": ((600, 300), (1,)),
    "a block": ((5, 3000), (1,)), "pieces of rows": ((2, 20_001), (-1,)),
    "a tile": ((100, 33), (0,)), "narrow tiles": ((3000, 7), (0,)), "pieces of tiles": ((5000, 40), (0,)),
    "all": ((30, 50), (0, 1)), "pieces of all": ((150, 301), (0, 1)),
    "the middle": ((3, 50, 20), (1,)), "the outer two": ((30, 40, 5), (0, 1)), "around": ((6, 5, 70), (0, 2)),
    "nothing": ((3, 4), ()), "one element": ((1, 1), (0,)), "a number": ((), ()),
}  # fmt: skip
OPS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all}


def drawn(shape, dtype="float32", seed=0):
    values = np.random.default_rng(seed).normal(size=shape)
    return (np.round(8 * values) if np.dtype(dtype).kind in "iu" else values).astype(dtype)


def replayed(function, *arrays, device):
    """Compile a function; return what it computes twice, with threads in the two orders, and the program."""
    there = on(device, arrays)
    compiled = compile(function, there)
    results = []
    for _ in range(2):
        compiled.poison()
        results.append([np.array(x) for x in off(compiled(*there))])
        compiled.run()  # an odd number of kernels or an even one: the order changes
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    with counted() as counts:
        compiled.run()
    assert (counts.allocations, counts.reads) == (0, 0)
    return results[0], compiled


@pytest.mark.parametrize("how", SHAPES)
@pytest.mark.parametrize("op", ["sum", "max"])
def test_every_way(op, how, fake_device):
    shape, axes = SHAPES[how]
    x = drawn(shape)
    [found, kept], compiled = replayed(
        lambda x: (getattr(ops, op)(x, axes), getattr(ops, op)(x, axes, keepdims=True)), x, device=fake_device
    )
    expected = OPS[op](x.astype(float), axis=axes)
    size = np.abs(x).sum(axis=axes) if op == "sum" else 0
    assert (np.abs(found - expected) <= 1e-6 * size).all()
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(kept.reshape(found.shape), found)
    assert not re.search(rf"\b{op}\w*\(", compiled.source.split("def step")[1])


def schedule_of(source):
    """Return who computes a total, as a kernel is written, and whether blocks divide its elements."""
    marks = {"tile": "of_threads0[", "block": "of_warps0[", "lanes": " lane = "}
    return next((kind for kind, mark in marks.items() if mark in source), "thread"), "is_last" in source


def test_the_shapes_have_every_schedule(fake_device):
    found = set()
    for shape, axes in SHAPES.values():
        source = compile(lambda x, axes=axes: ops.sum(x, axes), on(fake_device, (drawn(shape),))).source
        found |= {schedule_of(source)} if "reduce0" in source else set()
    assert found == {
        ("thread", False),
        ("lanes", False),
        *itertools.product(("block", "tile"), (False, True)),
    }


DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "float32",
    "float64",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), [((6, 40), 1), ((70, 5), 0), ((17_000,), 0), ((4, 3), 1)])
def test_every_reduction_of_every_dtype(shape, axis, dtype, fake_device):
    x = drawn(shape, dtype)
    if dtype[0] == "f":
        x = np.exp(x / 50)
    found, _ = replayed(lambda x: [getattr(ops, op)(x, axis) for op in OPS], x, device=fake_device)
    for (op, function), result in zip(OPS.items(), found, strict=True):
        with np.errstate(over="ignore"):
            expected = function(x, axis=axis)
        assert result.dtype == expected.dtype, op
        tolerance = {"float32": 1e-5, "float64": 1e-13}.get(dtype, 0)
        np.testing.assert_allclose(result, expected, rtol=tolerance * math.sqrt(x.size), err_msg=op)


LIMITS = [np.nan, np.inf, -np.inf, 0.0, -2.0]


@pytest.mark.parametrize("shape", [(3, 2), (3, 50), (2, 20_000)])
@pytest.mark.parametrize("value", LIMITS)
def test_what_is_not_finite(value, shape, fake_device):
    """NaN in any place is the extremum; infinities of two signs add up to NaN."""
    x = np.full(shape, -np.inf, np.float32)
    x[0, -1] = x[1, 0] = value
    x[2:, 1] = 1.0
    with np.errstate(all="ignore"):
        found, _ = replayed(lambda x: [getattr(ops, op)(x, 1) for op in OPS], x, device=fake_device)
        for (op, function), result in zip(OPS.items(), found, strict=True):
            np.testing.assert_array_equal(result, function(x, axis=1), err_msg=op)


VIEWS = {
    "transposed": lambda x: ops.matrix_transpose(x), "backwards": lambda x: x[::-1, ::-1],
    "rows backwards": lambda x: x[::-1], "columns backwards": lambda x: x[:, ::-2],
    "every other": lambda x: x[::2, 1::3], "broadcast": lambda x: ops.broadcast_to(x[:, :1], x.shape),
    "row": lambda x: ops.broadcast_to(x[0], (40, x.shape[1])),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(6, 9), (40, 300), (300, 40)])
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("view", VIEWS)
def test_views(view, axis, shape, fake_device):
    x = drawn(shape, "float64")
    [found, peak], _ = replayed(
        lambda x: (ops.sum(VIEWS[view](x), axis), ops.min(VIEWS[view](x), axis)), x, device=fake_device
    )
    array = VIEWS[view](Tensor(x)).numpy()
    np.testing.assert_allclose(found, array.sum(axis), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(peak, array.min(axis))


def test_neighbours_in_memory_are_read_by_neighbouring_lanes(fake_device):
    x = drawn((200, 300), "float64")
    _, compiled = replayed(lambda x: ops.sum(ops.matrix_transpose(x), 0), x, device=fake_device)
    assert "o * 300 + r" in compiled.source
    _, compiled = replayed(lambda x: ops.sum(ops.matrix_transpose(x), 1), x, device=fake_device)
    assert "o + r * 300" in compiled.source


@pytest.mark.parametrize("sizes", [(5,), (300, 40), (9000, 3, 70_000), (2,) * 12])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_sums_of_squares(sizes, dtype, fake_device):
    arrays = [drawn((n,), dtype, seed=i) for i, n in enumerate(sizes)]
    [found], _ = replayed(lambda *xs: [ops.sum_squares(*xs)], *arrays, device=fake_device)
    expected = sum(np.square(x.astype(float)).sum() for x in arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "float32" else 1e-13)


def test_sums_of_squares_of_views_and_of_two_dtypes(fake_device):
    x, y = drawn((30, 50)), drawn((4, 5), "float64")
    [found], _ = replayed(
        lambda x, y: [ops.sum_squares(ops.matrix_transpose(x)[::-1, 3:], y)], x, y, device=fake_device
    )
    expected = np.square(x[3:].astype(float)).sum() + np.square(y).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize("n", [1, 300, 70_000])
def test_products_of_vectors(n, fake_device):
    x, y = drawn((n,), "float64"), drawn((2 * n,), "float64", 1)
    [found, mixed], _ = replayed(
        lambda x, y: (ops.matmul(x, y[::-2]), ops.matmul(ops.astype(x, "float32"), y[:n])), x, y,
        device=fake_device,
    )  # fmt: skip
    np.testing.assert_allclose(found, x @ y[::-2], rtol=1e-12, atol=1e-11)
    np.testing.assert_allclose(mixed, x.astype("f4") @ y[:n], rtol=1e-12, atol=1e-11)


def test_of_nothing(fake_device):
    def function(x, y):
        products = ops.sum_squares(x), ops.sum_squares(x, y), ops.matmul(x[:, 0], x[:, 1])
        return ops.sum(x, 0), ops.prod(x, 0), ops.all(x), *products

    arrays = np.zeros((0, 3), "float32"), np.ones((4, 2), "float32")
    found, _ = replayed(function, *arrays, device=fake_device)
    for result, expected in zip(found, function(*map(Tensor, arrays)), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected.numpy())


# -- with what comes before -------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("shape", [(3, 4), (60, 40), (3000, 20), (20, 3000)])
def test_maps_and_reductions_in_one_kernel(shape, axis, fake_device):
    x, y = drawn(shape, "float64"), drawn(shape[1:], "float64", 1)

    def function(x, y):
        shifted = x - y
        raised = ops.exp(shifted)
        peak = ops.max(raised, axis, keepdims=True)
        return (
            ops.sum(raised, axis),
            ops.max(shifted, axis),
            raised / peak,
            ops.sum(raised / peak, 1 - (axis == 1)),
        )

    found, compiled = replayed(function, x, y, device=fake_device)
    for result, expected in zip(found, function(Tensor(x), Tensor(y)), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12)
    first = compiled.plan.groups[0]
    assert [e.primitive.name for e in first.reductions].count("max") == 2
    assert len(first.reductions) == 3


def test_what_is_only_reduced_has_no_memory(fake_device):
    x = drawn((1000, 30))
    _, compiled = replayed(lambda x: [ops.sum(ops.exp(x) * 2.0)], x, device=fake_device)
    assert compiled.plan.arena_size < 8192


def test_reductions_over_other_axes_have_kernels_of_their_own(fake_device):
    x = drawn((50, 30))
    (rows, columns, most), compiled = replayed(
        lambda x: (ops.sum(ops.exp(x), 1), ops.sum(ops.exp(x), 0), ops.max(ops.exp(x), 1)), x,
        device=fake_device,
    )  # fmt: skip
    np.testing.assert_allclose(rows, np.exp(x).sum(1), rtol=1e-5)
    np.testing.assert_allclose(columns, np.exp(x).sum(0), rtol=1e-5)
    np.testing.assert_allclose(most, np.exp(x).max(1), rtol=1e-6)
    assert [len(group.reductions) for group in compiled.plan.groups] == [2, 1]


@pytest.mark.parametrize("shape", [(40,), (3, 40), (300, 40)])
def test_totals_do_not_overwrite_what_other_threads_read(shape, fake_device):
    """The row that is added has the shape of the totals and is needed no more; it is donated, too."""
    x, row = drawn(shape, "float64"), drawn((40,), "float64", 1)
    there = on(fake_device, (x, row))
    axes = tuple(range(len(shape) - 1))

    def function(x, row):
        return ops.sum(ops.tanh(x + ops.exp(row) * 1.0), axes)

    compiled = compile(function, there, donate=(1,))
    for _ in range(2):
        compiled.poison()
        found = to_host(compiled(*there))
        np.testing.assert_allclose(found, np.tanh(x + np.exp(row)).sum(axes), rtol=1e-12, atol=1e-12)
        there = on(fake_device, (x, row))


# -- with what comes after --------------------------------------------------------------------


@pytest.mark.parametrize("how", SHAPES)
def test_maps_of_totals_are_computed_with_them(how, fake_device):
    shape, axes = SHAPES[how]
    x = drawn(shape, "float64")
    before = np.asarray(drawn(np.sum(x, axis=axes).shape, "float64", 1))

    def function(x, before, n):
        total = ops.sum(ops.exp(x), axes)
        new = before + (total / 7 - before) * 0.1
        return ops.where(ops.less(new, np.inf), new, before), n + ops.astype(ops.less(total, 0.0), "int64")

    there = on(fake_device, (x, before, np.zeros(before.shape, "int64")))
    compiled = compile(function, there, donate=(1, 2))
    assert how == "one element" or len(compiled.plan.groups) == 1
    new = before * 0.9 + np.sum(np.exp(x), axis=axes) * (0.1 / 7)
    for _ in range(2):
        compiled.poison()
        found, n = off(compiled(*on(fake_device, (x, before, np.zeros(before.shape, "int64")))))
        np.testing.assert_allclose(found, new, rtol=1e-12)
        assert not n.any()


def test_maps_of_totals_that_are_not_fused(fake_device):
    """They use what comes later, other shapes, or the operand, which the kernel overwrites."""
    x, row = drawn((40, 30), "float64"), drawn((30,), "float64", 1)

    def function(x, row):
        total = ops.sum(ops.tanh(x), 0)
        later = ops.exp(row) @ ops.matrix_transpose(x)
        column = ops.sum(ops.exp(x[:, :1]) * 2.0, 1, keepdims=True)
        return total * ops.sum(later), total + x, column + x[:, :1], ops.tanh(total)[:, None]

    found, _ = replayed(function, x, row, device=fake_device)
    for result, expected in zip(found, function(Tensor(x), Tensor(row)), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-11, atol=1e-11)


def test_totals_that_only_maps_use_have_no_memory(fake_device):
    x = drawn((20_000,), "float64")
    [found], compiled = replayed(lambda x: [ops.sqrt(ops.sum_squares(x)) * 2.0], x, device=fake_device)
    np.testing.assert_allclose(found, 2 * np.linalg.norm(x), rtol=1e-12)
    [group] = compiled.plan.groups
    assert len(group.epilogue) == 2
    assert group.reductions[0].output not in compiled.plan.buffers


def test_totals_of_several_arrays_have_one_kernel(fake_device):
    x, y, z = drawn((20_001,), "float64"), drawn((70, 40), "float64", 1), drawn((40,), "float64", 2)

    def function(x, y, z):
        one, other = ops.sum(ops.exp(x)) / 100.0, ops.sum_squares(y, z)
        return one * 2.0 + other, ops.max(ops.tanh(y)), ops.sum(ops.tanh(y)), ops.sqrt(other), ops.all(z)

    found, compiled = replayed(function, x, y, z, device=fake_device)
    for result, expected in zip(found, function(*map(Tensor, (x, y, z))), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12)
    [group] = compiled.plan.groups
    assert [len(part.reductions) for part in group.parts] == [1, 1, 2, 1]


def test_totals_of_rows_have_kernels_of_their_own(fake_device):
    """All lanes go on with such a total, in the maps of its kernel."""
    x, y = drawn((8,), "float64"), drawn((50,), "float64", 1)

    def function(x, y):
        total = ops.sum(ops.exp(x))
        return total + ops.sum_squares(x, y), ops.exp(x) / total

    found, _ = replayed(function, x, y, device=fake_device)
    for result, expected in zip(found, function(Tensor(x), Tensor(y)), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12)


def test_totals_that_others_need_have_kernels_of_their_own(fake_device):
    x, y = drawn((3000,), "float64"), drawn((50,), "float64", 1)

    def function(x, y):
        mean = ops.sum(x) / 3000.0
        spread = ops.sum(ops.square(x - mean)) / 3000.0
        scale = ops.sqrt(spread)
        return ops.sum((x - mean) / scale), scale + ops.sum_squares(y), ops.sum_squares(y / scale)

    found, compiled = replayed(function, x, y, device=fake_device)
    for result, expected in zip(found, function(Tensor(x), Tensor(y)), strict=True):
        np.testing.assert_allclose(result, expected.numpy(), rtol=1e-12, atol=1e-10)
    assert [len(group.parts) for group in compiled.plan.groups if group.reductions] == [0, 0, 3]


def test_exact_programs_call_the_functions_of_the_library(fake_device):
    x = drawn((40, 30))
    compiled = compile(lambda x: ops.sum(ops.exp(x), 0), on(fake_device, (x,)), exact=True)
    assert "__global__" not in compiled.source
    np.testing.assert_array_equal(off(compiled(to_device(x, fake_device))), np.exp(x).sum(0))


# -- schedules --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_all_elements_are_added_once(seed, fake_device):
    """Sums of integers are exact."""
    rng = np.random.default_rng(seed)
    arrays = []
    for _ in range(4):
        long, short = (int(2 ** rng.uniform(0, most)) for most in (17, 8))
        arrays.append(rng.integers(-100, 100, (long, short) if rng.random() < 0.5 else (short, long)))
    found, _ = replayed(
        lambda *xs: [ops.sum(x, axis) for x in xs for axis in (0, 1, None)], *arrays, device=fake_device
    )
    for result, expected in zip(found, [x.sum(axis) for x in arrays for axis in (0, 1, None)], strict=True):
        np.testing.assert_array_equal(result, expected)


def blocks_of(function, *shapes, device):
    """Return the number of blocks that a function's only kernel has."""
    program = compile(function, on(device, [np.zeros(shape, np.float32) for shape in shapes]))
    [blocks] = re.findall(r"reduce\d+\(\((\d+),\)", program.source)
    return int(blocks)


@pytest.mark.parametrize(
    ("shape", "axis"), [((4096, 512), 0), ((1, 10**6), 1), ((4096, 7), 0), ((8192, 1024), 0)]
)
def test_large_reductions_use_many_blocks(shape, axis, fake_device):
    blocks = blocks_of(lambda x: ops.sum(x, axis), shape, device=fake_device)
    least = min(256, math.prod(shape) // (256 * 24))  # a thread of 256 adds so many at least
    assert max(least, 2) <= blocks <= 512


def test_totals_of_several_arrays_divide_the_blocks(fake_device):
    sizes = [(27648,), (262144,), (3584,)]
    assert blocks_of(lambda *xs: ops.sum_squares(*xs), *sizes, device=fake_device) == 6 + 64 + 1
