"""The device executor on a fake device, whose arrays NumPy cannot read and whose kernels are C."""

import itertools
import operator
import re

import numpy as np
import pytest

from sknet import grad, ops
from sknet.compile import compile
from sknet.core import PRIMITIVES, Tensor
from sknet.device import Device, backend, to_device, to_host
from sknet.exceptions import CaptureError, DeviceError, ShapeError
from sknet.losses import LogLoss
from sknet.optim import Adam
from tests.compile.helpers import Batches, hyper_arrays, network, training_step
from tests.compile.test_ops import arrays_of, function_of, is_captured
from tests.compile.test_plan import SHAPE, assert_disjoint, live_buffers, random_function
from tests.contracts.checks import FLOATS
from tests.contracts.rows import ROWS
from tests.contracts.rows import name as name_of
from tests.devices.fake import counted
from tests.trees import leaves, map_leaves


def on(device, tree):
    """Copy the arrays of a tree to a device."""
    return map_leaves(lambda leaf: to_device(leaf, device) if isinstance(leaf, np.ndarray) else leaf, tree)


def off(tree):
    """Copy the arrays of a tree to the host."""
    return map_leaves(lambda leaf: leaf if leaf is None else to_host(leaf), tree)


# -- every op ---------------------------------------------------------------------------------


def check(row, device, compare, dtypes, *, exact):
    """Replay all cases of an op, as one program, on the device and by NumPy's plan on the host.

    Return the device's function.
    """
    cases = [(case, function_of(row, case)) for case in row.cases if is_captured(row, case)]

    def each(*operands):
        given = iter(operands)
        return [function(*next(given)) for _ in dtypes for _, function in cases]

    def drawn(seed):
        return tuple(arrays_of(case, dtype, seed) for dtype in dtypes for case, _ in cases)

    here, there = (compile(each, args, exact=exact) for args in (drawn(0), on(device, drawn(0))))
    for seed in (1, 2):
        here.poison()
        there.poison()
        with np.errstate(all="ignore"):
            results = zip(off(there(*on(device, drawn(seed)))), here(*drawn(seed)), strict=True)
        for (dtype, case), pair in zip(
            itertools.product(dtypes, [case for case, _ in cases]), results, strict=True
        ):
            for found, expected in zip(*map(leaves, pair), strict=True):
                said = f"{dtype}, {name_of(row, case)}"
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype), said
                compare(found, expected, said)
    return there


# Their forwards allocate arrays; everything else writes into the plan's memory.
# What takes no `out=`, and what works in arrays that no plan knows of.
ALLOCATING = {name for name, primitive in PRIMITIVES.items() if not primitive.writes_out} - {"recurrence"} | {
    "argmax", "argmin", "channel_moments", "channel_norm", "channel_norm_gradient", "coded_matmul",
    "layer_norm", "layer_norm_gradient", "logsumexp", "max_pool_take", "put_along_axis", "scatter_add",
    "paired_matmul", "take_along_axis", "topk",
}  # fmt: skip


CAPTURED = pytest.mark.parametrize(
    "row", [row for row in ROWS if is_captured(row, None)], ids=lambda row: row.op
)


@CAPTURED
def test_generated_kernels(row, fake_device):
    def compare(found, expected, said):
        tolerance = 1e-13 if expected.dtype == np.float64 else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=said)

    compiled = check(row, fake_device, compare, FLOATS, exact=False)
    with counted() as counts, np.errstate(all="ignore"):
        compiled.run()
    step = compiled.source.partition("def step")[2]
    called = {name for name in ALLOCATING if re.search(rf"\b{name}(_\d+)?\(", step)}
    assert counts.reads == 0
    assert called or not counts.allocations


@CAPTURED
def test_without_kernels_results_are_bitwise_identical(row, fake_device):
    check(row, fake_device, np.testing.assert_array_equal, ["float32"], exact=True)


def is_elementwise(row, case):
    """Tell whether a kernel computes it of integers: all elementwise records that take them, not powers."""
    name = row.primitive
    if not is_captured(row, case) or not row.integers or name is None or name == "pow":
        return False
    return bool(PRIMITIVES[name].expression)


def test_integers(fake_device):
    found = [(row, case) for row in ROWS for case in row.cases if is_elementwise(row, case)]
    arrays = tuple(arrays_of(case, "int64", 1) for _, case in found)

    def function(*arrays):
        results = []
        for (row, case), each in zip(found, arrays, strict=True):
            given = iter(each)
            operands = [next(given) if isinstance(x, np.ndarray) else x for x in case.draw()]
            results.append(row(*operands, **case.params))
        return results

    here = compile(function, arrays)(*arrays)
    there = off(compile(function, on(fake_device, arrays))(*on(fake_device, arrays)))
    for (row, case), expected, result in zip(found, here, there, strict=True):
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype), name_of(row, case)
        np.testing.assert_allclose(result, expected, rtol=1e-13, err_msg=name_of(row, case))


# -- elements ---------------------------------------------------------------------------------

VALUES = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0])
FUNCTIONS = {
    "relu": ops.relu, "sign": ops.sign, "abs": ops.abs, "exp": ops.exp, "log": ops.log, "sqrt": ops.sqrt,
    "tanh": ops.tanh, "sigmoid": ops.sigmoid, "softplus": ops.softplus, "log_sigmoid": ops.log_sigmoid,
    "square": ops.square, "expm1": ops.expm1, "log1p": ops.log1p, "erf": ops.erf, "negative": ops.negative,
    "gelu": lambda x: ops.gelu(x, "tanh"),
    "infinite": lambda x: ops.where(ops.less(x, np.inf), x, -np.inf),
}  # fmt: skip
PAIRS = {
    "maximum": ops.maximum, "minimum": ops.minimum, "divide": ops.divide, "less": ops.less,
    "not_equal": ops.not_equal, "xlogy": ops.xlogy, "where": lambda x, y: ops.where(x, y, x),
    "subtract": ops.subtract, "pow": ops.pow, "logaddexp": ops.logaddexp, "hypot": ops.hypot,
    "clip": lambda x, y: ops.clip(x, y, 1.0), "masked": lambda x, y: ops.where(ops.less(x, y), x, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", [*FUNCTIONS, *PAIRS])
def test_non_finite_values_agree_with_numpy(name, dtype, fake_device):
    x, y = (a.astype(dtype).reshape(-1) for a in np.meshgrid(VALUES, VALUES))
    args = (x, y) if name in PAIRS else (x,)
    function = PAIRS.get(name) or FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = function(*map(Tensor, args)).numpy()
    compiled = compile(function, on(fake_device, args))
    assert "KERNELS" in compiled.source
    found = off(compiled(*on(fake_device, args)))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    zeros = (expected == 0) & (found == 0)
    if name not in ("sign", "where"):  # sign(-0.0) is 0.0 in NumPy, and -0.0 here
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


def layouts(x, row, column):
    """Combine views of every kind; the last two are of one shape but read otherwise."""
    backwards, turned = x[::-1, ::2], ops.matrix_transpose(x)
    return (
        ops.max(x[:, ::-1], 1),
        ops.min(x[::-1], 1),
        backwards * 2.0 + column[::-1],
        turned + row[:, None] * ops.matrix_transpose(x[::-1]),
        ops.exp(ops.reshape(ops.matrix_transpose(x), (-1,))[3:]) - 1.0,
        x[2] + column + ops.broadcast_to(row[0], (5, 1)),
        ops.permute_dims(ops.reshape(ops.concat([x] * 2, 0), (2, 5, 6)), (1, 2, 0)) * x[..., None],
        ops.tanh(x) * x[1:2],
    )


def test_views_of_every_kind(fake_device):
    rng = np.random.default_rng(0)
    args = rng.standard_normal((5, 6)), rng.standard_normal(6), rng.standard_normal((5, 1))
    compiled = compile(layouts, on(fake_device, args))
    expected = [x.numpy() for x in layouts(*map(Tensor, args))]
    for found, value in zip(off(compiled(*on(fake_device, args))), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-14)


def launches_of_parts(device, *parts):
    """Return how many launches the gradient of a function of some columns takes."""
    x = np.ones((5, 40))
    args, expected = on(device, [x]), np.zeros_like(x)
    program = compile(grad(lambda x: sum((x[:, part] ** 2).sum() for part in parts)), args)
    for part in parts:
        expected[:, part] = 2
    with counted() as counts:
        np.testing.assert_array_equal(off(program(*args)), expected)
    return counts.launches


def test_zeros_between_parts_take_one_launch(fake_device):
    whole = launches_of_parts(fake_device, slice(0, 20), slice(20, 40))
    assert launches_of_parts(fake_device, slice(2, 12), slice(20, 30)) == whole + 1


@pytest.mark.parametrize("number", [0.0, -0.0, 2.5])
@pytest.mark.parametrize("exact", [False, True])
def test_repeated_numbers_are_concatenated(number, exact, fake_device):
    for args in ([np.ones((3, 2))], on(fake_device, [np.ones((3, 2))])):
        program = compile(lambda x: ops.concat([x, ops.full((3, 4), number)], axis=1), args, exact=exact)
        found = off(program(*args))[:, 2:]
        np.testing.assert_array_equal(found, number)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(number))


def test_dtype_promotion_agrees_with_numpy(fake_device):
    args = (
        np.array([-7, 0, 5], "int8"), np.array([100, 200, 250], "uint8"), np.array([True, False, True]),
        np.array([0.5, -1.5, 1e30], "float32"), np.array([2**40, -3, 7]),
    )  # fmt: skip

    def function(a, b, c, d, e):
        return (
            a + a * 20, b + b, a * b, c + c, ops.where(c, a, d), d * 2, d + e, e / 3, ops.abs(a) - e,
            ops.astype(e, "float32") + d, ops.astype(a, "bool"), ops.less(a, 0.5), ops.less(e, d), c * d,
            ops.maximum(e, a), ops.astype(ops.where(c, 2.75, -2.75), "int32") + a,
        )  # fmt: skip

    compiled = compile(function, on(fake_device, args))
    for found, value in zip(off(compiled(*on(fake_device, args))), function(*map(Tensor, args)), strict=True):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value.numpy())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.norm(x, ord=0, axis=0),
        lambda x: ops.where(ops.greater(x, 0), x, ops.argsort(x) + 1),
        lambda x: ops.where(ops.greater(x, 0), ops.argsort(x) + 1, x * 2),
    ],
    ids=["astype", "where of integers", "where of floats"],
)
@pytest.mark.parametrize("exact", [True, False])
def test_values_of_another_dtype_in_the_same_memory(function, exact, fake_device):
    x = np.random.default_rng(0).standard_normal((3, 4))
    expected = compile(function, (x,))(x)
    args = on(fake_device, (x,))
    np.testing.assert_array_equal(off(compile(function, args, exact=exact)(*args)), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: ops.where(ops.greater(x, 0), c, 0.0),
        lambda x, c: ops.sum(ops.where(ops.greater(x, 0), c, 0.0), -1),
        lambda x, c: ops.where(ops.greater(ops.permute_dims(x, (1, 0)), 0), ops.expand_dims(c, -1), 1.0),
        lambda x, c: ops.matmul(x, c) + ops.sum(x, 0)[0],
        lambda x, c: ops.stack([c, x[0]]),
    ],
    ids=["map", "reduction", "view", "product", "copy"],
)
def test_a_constant_that_repeats_one_number(function, fake_device):
    """It is kept once in a graph, and read as an array."""
    x, c = np.random.default_rng(0).standard_normal((40, 70)), np.full(70, 0.25)
    expected = function(Tensor(x), Tensor(c)).numpy()
    constant = Tensor(on(fake_device, c))
    compiled = compile(lambda x: function(x, constant), on(fake_device, (x,)))
    np.testing.assert_allclose(off(compiled(*on(fake_device, (x,)))), expected, rtol=1e-12)


def test_indices_count_from_the_end_and_wrap_around(fake_device):
    """A thread cannot raise: where NumPy raises, CuPy's indexing and the kernels wrap around."""
    x, at = np.arange(12.0).reshape(4, 3), np.array([[0], [-1], [2], [4]])
    compiled = compile(ops.take_along_axis, on(fake_device, (x, at)))
    np.testing.assert_array_equal(off(compiled(*on(fake_device, (x, at)))), [[0.0], [5.0], [8.0], [10.0]])


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize(("p", "dtype"), [(0.3, "float32"), (0.5, "float64"), (1.0, "float32")])
def test_dropout_draws_the_same_bits_everywhere(shape, p, dtype, fake_device):
    def function(step):
        draw = {"key": (2**63 + 5, 17), "site": 3, "dtype": dtype, "device": step.device}
        return ops.dropout_mask(shape, p, step=step, **draw) * 2.0

    compiled = compile(function, on(fake_device, (np.array(0),)))
    for step in (0, 1, 2**31):
        expected = function(Tensor(np.array(step))).numpy()
        np.testing.assert_array_equal(off(compiled(*on(fake_device, (np.array(step),)))), expected)


# -- whole graphs -----------------------------------------------------------------------------


@pytest.mark.parametrize("donate", [(), (1,), (0, 2)])
@pytest.mark.parametrize("seed", range(10))
def test_random_graphs(seed, donate, fake_device):
    function = random_function(seed)
    rng = np.random.default_rng(seed)
    args = on(fake_device, tuple(np.empty(SHAPE) for _ in range(3)))
    try:
        compiled = compile(function, args, donate=donate)
    except CaptureError:
        return  # fewer outputs than donated arrays
    assert_disjoint(compiled.plan)
    assert any(len(group.equations) > 1 for group in compiled.plan.groups)
    for _ in range(2):
        arrays = [rng.standard_normal(SHAPE) for _ in range(3)]
        compiled.poison()
        expected = function(*map(Tensor, arrays))
        for a, b in zip(off(compiled(*on(fake_device, arrays))), expected, strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-9)


def test_values_inside_a_kernel_have_no_memory(fake_device):
    x = np.ones((100, 30), np.float32)

    def function(x):
        return ops.tanh(ops.exp(x) * 2.0 + 1.0).sum(0)

    there = compile(function, on(fake_device, (x,)))
    assert there.source.count("__global__") == 1
    values = [size for size in (b.nbytes for b in live_buffers(there.plan).values()) if size]
    assert values == [30 * 4]  # the result, and not what it is the sum of
    assert all(b.position % 256 == 0 for b in live_buffers(there.plan).values())


def test_a_kernel_overwrites_operands_at_their_last_use(fake_device):
    x = np.ones((64, 32), np.float32)

    def function(x, y):
        return ops.exp(x @ y) + 1.0, (x @ y + 2.0).sum()

    compiled = compile(lambda x, y: ops.exp(x @ y) * 3.0, on(fake_device, (x, np.ones((32, 32), "f4"))))
    assert compiled.plan.arena_size == x.nbytes  # one array: the product, and then the result


def test_a_training_step(fake_device):
    """50 steps with the arena overwritten between them; nothing is allocated."""
    optimizer, results = Adam(1e-2), []
    module = network(20, 50, 3)
    for device in (None, fake_device):
        data = Batches(module, optimizer, (32, 20), 3, np.float64)
        step = training_step(module, LogLoss(), optimizer, data.layout)

        def placed(tree, device=device):
            return tree if device is None else on(device, tree)

        hyper = hyper_arrays(optimizer, 1, data.dtype)
        compiled = compile(step, placed((data.flat, data.slots, *data.batch(), hyper)), donate=(0, 1))
        compiled.slots[0][...] = placed(data.flat)
        losses = []
        for count in range(1, 51):
            batch, hyper = data.batch(), hyper_arrays(optimizer, count, data.dtype)
            compiled.poison()
            state = compiled.slots[:2]
            flat, slots, loss = compiled(*state, *placed(batch), placed(hyper))
            losses.append(loss.item())
        results.append((losses, *(off(x) for x in leaves((flat, slots)))))
    with counted() as counts:
        compiled.run()
    assert (counts.allocations, counts.reads) == (0, 0)
    for here, there in zip(*results, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-9, atol=1e-12)


# -- devices ----------------------------------------------------------------------------------


def add(x, y):
    return x + y


def test_each_device_has_its_own_programs(fake_device):
    other = Device("fake", 1)
    x = np.ones(3)
    first, second = (compile(add, on(place, (x, x))) for place in (fake_device, other))
    assert first.device == fake_device
    assert second.device == other
    assert first.plan is not second.plan
    np.testing.assert_array_equal(off(second(*on(other, (x, x)))), 2 * x)
    assert first.fresh().device == fake_device
    assert first.fresh().plan is first.plan


def test_arrays_of_two_devices(fake_device):
    x = np.ones(3)
    with pytest.raises(DeviceError, match=r"must be on one device, got arrays on \['cpu', 'fake:0'\]"):
        compile(add, (x, to_device(x, fake_device)))
    compiled = compile(add, on(fake_device, (x, x)))
    with pytest.raises(
        DeviceError, match="argument 1 must be on device 'fake:0', as captured, got an array on 'cpu'"
    ):
        compiled(to_device(x, fake_device), x)


def test_slots_on_a_device(fake_device):
    x = np.ones((3, 4))
    compiled = compile(add, on(fake_device, (x, x)))
    mine = to_device(x, fake_device)
    assert compiled.fresh((mine, None)).slots[0] is mine
    with pytest.raises(ShapeError, match="slot 0 must be an array that is C-contiguous"):
        compiled.fresh((to_device(np.ones((4, 3)), fake_device).T, None))
    with pytest.raises(DeviceError, match="argument 0 must be on device 'fake:0'"):
        compiled.fresh((x, None))


def test_a_device_without_kernels(monkeypatch):
    with pytest.raises(DeviceError, match="device 'cpu' cannot compile kernels"):
        backend("cpu").kernels("", [], Device("cpu"))
    with pytest.raises(DeviceError, match="device 'cpu' does not report how much memory is free"):
        backend("cpu").free_memory(Device("cpu"))


INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def at_limits(dtype):
    """Return a function that computes with, and compares to, the largest and smallest numbers of a dtype."""
    info = np.iinfo(dtype)
    numbers = [-1, 0, 300, info.max, info.min, 2**31, 2**63]

    def function(x):
        found = [x + x, -(2 * x), x - (-x), -(x * x), ops.where(x > 1, 0, x), ops.abs(x), ops.sign(x)]
        return [*found, *[compared(x, n) for compared in COMPARISONS for n in numbers]]

    return function


COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_at_their_limits(dtype, fake_device):
    """Numbers that a dtype cannot hold are compared, not converted; arithmetic wraps around."""
    info, function = np.iinfo(dtype), at_limits(dtype)
    x = np.array([0, 1, 2, info.max // 2, info.max - 1, info.max, info.min, info.min + 1], dtype)
    compiled = compile(function, (to_device(x, fake_device),))
    for found, expected in zip(off(compiled(to_device(x, fake_device))), function(Tensor(x)), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected.numpy())
