"""Plans: no two values that are needed at the same time share memory."""

import itertools

import numpy as np
import pytest

from sknet import ops
from sknet.compile import Equation, Graph, Plan, Variable, compile
from sknet.compile.passes import Group
from sknet.core import PRIMITIVES, Primitive, Tensor, gradients
from sknet.device import Device, backend
from tests.combinations import every
from tests.trees import leaves

UNARY = [ops.exp, ops.tanh, ops.relu, ops.negative, ops.square, lambda x: x * 0.5, lambda x: ops.softmax(x)]
BINARY = [ops.add, ops.subtract, ops.multiply, ops.maximum, lambda x, y: ops.where(ops.greater(x, y), x, y)]
SHAPE = (6, 4)
ALIGNMENT = backend("cpu").alignment


def random_function(seed, steps=25):
    """Return a function that combines three matrices at random, and returns some of the results."""
    rng = np.random.default_rng(seed)
    choices = [(rng.integers(6), *rng.integers(0, 1 << 16, 3)) for _ in range(steps)]

    def function(*arrays):
        values = list(arrays)
        for kind, which, i, j in choices:
            x, y = values[i % len(values)], values[j % len(values)]
            if kind == 0:
                made = UNARY[which % len(UNARY)](x)
            elif kind <= 2:
                made = BINARY[which % len(BINARY)](x, y)
            elif kind == 3:
                made = ops.tanh(x @ ops.matrix_transpose(y) @ x)
            elif kind == 4:
                made = ops.reshape(ops.matrix_transpose(x), SHAPE) * 1.5
            else:
                flat = ops.concat([ops.reshape(x, (-1,))[: 4 * 3], ops.reshape(ops.sin(y), (-1,))[4 * 3 :]])
                made = ops.reshape(flat, SHAPE)
            values.append(ops.tanh(made) if which % 3 == 0 else ops.minimum(ops.maximum(made, -9.0), 9.0))
        return [values[int(k) % len(values)] for k in rng_outputs] + [values[-1].sum()]

    rng_outputs = rng.integers(0, 1 << 16, 4)
    return function


def live_buffers(plan: Plan):
    found = [*plan.buffers.values(), *itertools.chain(*plan.scratch.values())]
    return {id(buffer): buffer for buffer in found if buffer.kind == "arena"}


def assert_disjoint(plan: Plan):
    found = [b for b in live_buffers(plan).values() if b.parent is None and b.nbytes]
    for a, b in itertools.combinations(found, 2):
        together = a.start <= b.stop and b.start <= a.stop
        overlap = a.position < b.position + b.nbytes and b.position < a.position + a.nbytes
        assert not (together and overlap)
    assert all(b.position % ALIGNMENT == 0 and b.position + b.nbytes <= plan.arena_size for b in found)


@pytest.mark.slow
@every(exact=[True, False], seed=range(40))
def test_random_graphs(seed, exact):
    function = random_function(seed)
    rng = np.random.default_rng(seed)
    compiled = compile(function, tuple(np.empty(SHAPE) for _ in range(3)), exact=exact)
    assert_disjoint(compiled.plan)
    for _ in range(3):
        arrays = [rng.standard_normal(SHAPE) for _ in range(3)]
        compiled.poison()
        found = compiled(*arrays)
        for a, b in zip(found, function(*map(Tensor, arrays)), strict=True):
            np.testing.assert_allclose(a, b.numpy(), rtol=0 if exact else 1e-9, atol=0 if exact else 1e-9)


@every(seed=range(40))
def test_random_graphs_with_donated_arguments(seed):
    function = random_function(seed)
    rng = np.random.default_rng(seed)
    args = tuple(np.empty(SHAPE) for _ in range(3))
    compiled = compile(function, args, donate=(0, 2), exact=True)
    assert_disjoint(compiled.plan)
    for _ in range(3):
        arrays = [rng.standard_normal(SHAPE) for _ in range(3)]
        compiled.poison()
        found = compiled(*arrays)
        assert found[0] is compiled.slots[0]
        assert found[1] is compiled.slots[2]
        for a, b in zip(found, function(*map(Tensor, arrays)), strict=True):
            np.testing.assert_array_equal(a, b.numpy())


@pytest.mark.parametrize("seed", range(20))
def test_random_chains_block_by_block(seed, limits):
    """Blocks of a few rows, so that chains of every kind are split."""
    limits.elements_of_a_block(9)
    function = random_function(seed)
    rng = np.random.default_rng(seed)
    args = tuple(np.empty(SHAPE) for _ in range(3))
    for donate in ((), (1,)):
        compiled = compile(function, args, donate=donate, exact=True)
        assert_disjoint(compiled.plan)
        assert any(group.rows for group in compiled.plan.groups)
        for _ in range(2):
            arrays = [rng.standard_normal(SHAPE) for _ in range(3)]
            compiled.poison()
            for a, b in zip(compiled(*arrays), function(*map(Tensor, arrays)), strict=True):
                np.testing.assert_array_equal(a, b.numpy())


def test_a_chain_needs_no_second_array():
    compiled = compile(lambda x: ops.tanh(ops.exp(x * 2) + 1), (np.ones(1000),), exact=True)
    assert compiled.plan.arena_size == 8000 + -8000 % ALIGNMENT


def test_values_in_one_place_are_one_array():
    given = np.ones((1, 8))
    run = compile(lambda x: ops.softmax(ops.relu(ops.tanh(x) + 1.0) * 2.0), given)
    memory = backend("cpu").memory(run.plan.arena_size + run.plan.pinned_size, Device("cpu"))
    found = run.plan.arrays(memory, [given]).values()
    inside = [x for x in found if x.base is not None and np.shares_memory(x, memory)]
    places = {(x.ctypes.data, x.shape, x.dtype) for x in inside}
    assert len({id(x) for x in inside}) == len(places) < len(inside)


def test_an_operand_that_is_needed_again_is_kept():
    compiled = compile(lambda x: ops.exp(x) * ops.matrix_transpose(ops.exp(x)), (np.eye(3),), exact=True)
    np.testing.assert_array_equal(compiled(np.eye(3)), np.exp(np.eye(3)) ** 2)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: (b, a), lambda a, b: (b, a)),
        (lambda a, b: (a, a), lambda a, b: (a, a)),
        (lambda a, b: (a + b, a), lambda a, b: (a + b, a)),
        (lambda a, b: (a[::-1], b + 1), lambda a, b: (a[::-1], b + 1)),
        (lambda a, b: (a + a[::-1], b), lambda a, b: (a + a[::-1], b)),
        (lambda a, b: (a.sum() + b, a * b.sum()), lambda a, b: (a.sum() + b, a * b.sum())),
        (lambda a, b: (ops.zeros_like(a), b), lambda a, b: (0 * a, b)),
        (lambda a, b: (a + 1, a + 1), lambda a, b: (a + 1, a + 1)),
    ],
    ids=["swap", "twice", "used later", "view", "reads elsewhere", "sums", "constant", "same value"],
)
def test_donated_arguments_that_cannot_be_written_at_once(function, expected):
    a, b = np.arange(4.0), np.arange(4.0) ** 2 - 3
    compiled = compile(function, (a, b), donate=(0, 1))
    for _ in range(2):
        found = compiled(a, b)
        assert found[0] is compiled.slots[0]
        assert found[1] is compiled.slots[1]
        for x, y in zip(found, expected(a, b), strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("gaps", [True, False])
def test_concatenated_values_are_written_in_place(gaps):
    def function(x, y):
        pad = [np.zeros(3)] if gaps else []
        return ops.concat([ops.reshape(x @ y, (-1,)), *pad, ops.reshape(ops.exp(x), (-1,))])

    x, y = np.arange(4.0).reshape(2, 2), np.eye(2)
    compiled = compile(function, (x, y), exact=True)
    [assembled] = [e for e in compiled.graph.equations if e.primitive.name == "assemble"]
    assert all(compiled.plan.is_in_place(assembled, i) for i in range(len(assembled.operands)))
    assert "copyto" not in compiled.source
    for _ in range(2):
        compiled.poison()
        np.testing.assert_array_equal(compiled(x, y), function(Tensor(x), Tensor(y)).numpy())


def test_concatenated_values_do_not_overwrite_values_read_elsewhere():
    def function(x):
        y = ops.exp(x)
        return ops.concat([ops.reshape(y + ops.matrix_transpose(y), (-1,)), x[0]])

    x = np.arange(9.0).reshape(3, 3)
    compiled = compile(function, (x,), exact=True)
    [total] = [e for e in compiled.graph.equations if e.primitive.name == "add"]
    buffers = [compiled.plan.buffers[compiled.plan.views.root(v)] for v in (*total.variables, total.output)]
    assert buffers[0] is buffers[1]
    assert buffers[2] is not buffers[0]
    np.testing.assert_array_equal(compiled(x), function(Tensor(x)).numpy())


def test_values_concatenated_twice_are_written_twice():
    def function(x):
        y = ops.exp(x)
        return ops.concat([ops.reshape(y, (-1,)), ops.reshape(y[:, 0], (-1,))])

    compiled = compile(function, (np.ones((3, 1, 2)),))
    compiled.poison()
    x = np.arange(6.0).reshape(3, 1, 2)
    np.testing.assert_array_equal(compiled(x), np.tile(np.exp(x).ravel(), 2))


def test_the_gradient_of_slices_is_assembled():
    def function(flat, x):
        flat.requires_grad = True
        value = (x @ flat[:6].reshape(2, 3) + flat[8:11]).sum() + flat[8:11].sum()
        return gradients(value, [flat])[0]

    compiled = compile(function, (np.ones(16), np.ones((5, 2))), exact=True)
    compiled.poison()
    expected = function(Tensor(np.ones(16)), Tensor(np.ones((5, 2)))).numpy()
    np.testing.assert_array_equal(compiled(np.ones(16), np.ones((5, 2))), expected)


def test_a_product_is_computed_and_accumulated_in_place():
    def function(flat, x, y):
        w = flat[:9600].reshape(80, 120)  # more elements than are passed to BLAS at once
        product = ops.matrix_transpose(x) @ y + 0.25 * w
        return ops.concat([ops.reshape(product, (-1,)), flat[9600:] + 1.0])

    flat, data = np.arange(9616.0), np.random.default_rng(0).standard_normal((5, 200))
    args = flat, data[:, :80].copy(), data[:, 80:].copy()
    compiled = compile(function, args)
    [assembled] = [e for e in compiled.graph.equations if e.primitive.name == "assemble"]
    assert all(compiled.plan.is_in_place(assembled, i) for i in range(len(assembled.operands)))
    assert "axpy" in compiled.source
    assert "copyto" not in compiled.source
    for _ in range(2):
        compiled.poison()
        np.testing.assert_allclose(compiled(*args), function(*map(Tensor, args)).numpy(), rtol=1e-12)


@pytest.mark.parametrize("read", [False, True])
def test_a_result_is_assembled_in_an_unread_donated_argument(read):
    def function(flat, spare):
        flat.requires_grad = True
        value = (ops.tanh(flat[:6]) * flat[8:14]).sum()
        return gradients(value, [flat])[0] + (spare if read else -0.0)

    flat, junk = np.arange(16.0) / 8, np.full(16, 7.0)
    expected = function(Tensor(flat), Tensor(junk)).numpy()
    slots = (None, np.full(16, 5.0))
    compiled = compile(function, (flat, junk), donate=(1,), exact=True, slots=slots)
    assert compiled.plan.copies == []
    assert len(compiled.plan.blank) == (not read)
    for _ in range(2):
        compiled.poison()
        found = compiled(flat, junk)
        assert found is slots[1]
        np.testing.assert_array_equal(found, expected)


@pytest.fixture
def lifetimes():
    """A function that plans values of some bytes, each computed in one step and read in later ones."""
    made = Primitive("made").define(
        forward=lambda xp, *read, n: xp.full(n, sum(x.sum() for x in read)),
        shape=lambda *read, n: ((n,), np.dtype("float64")),
        vjp=None,
        writes_out=False,
    )

    def planned(values):
        """Plan values, given as their bytes and the numbers of the values that are read for them."""
        equations, x = [], Variable((1,), "float64")
        for nbytes, read in values:
            operands = [equations[i].output for i in read] or [x]
            equations.append(Equation(made, tuple(operands), {"n": nbytes // 8}))
        graph = Graph([x], {}, equations, [equations[-1].output])
        return Plan(graph, [Group([equation], 0) for equation in equations], {}, lambda equation: [])

    yield planned
    del PRIMITIVES["made"]


def test_the_smallest_gap_is_filled(lifetimes):
    """After the fifth step there are gaps of 896 and 512 bytes, and 512, 448 and 448 bytes are needed."""
    before = [(1024, ()), (896, ()), (832, ()), (512, ()), (512, ()), (64, (1, 3))]
    plan = lifetimes([*before, (512, ()), (448, ()), (448, ()), (64, (0, 2, 4, 6, 7, 8))])
    assert_disjoint(plan)
    assert plan.arena_size == plan.peak_live == 1024 + 832 + 512 + 512 + 448 + 448 + 64


def test_arena_of_many_lifetimes(lifetimes):
    rng = np.random.default_rng(0)
    for _ in range(30):
        values = []
        for i in range(50):
            read = rng.integers(max(0, i - 12), i, rng.integers(0, 3)) if i else ()
            values.append((8 * int(rng.integers(1, 600)), sorted({int(each) for each in read})))
        plan = lifetimes(values)
        assert_disjoint(plan)
        assert plan.peak_live <= plan.arena_size <= 1.5 * plan.peak_live


def test_aligned_memory():
    assert all(backend("cpu").memory(n, Device("cpu")).ctypes.data % ALIGNMENT == 0 for n in (1, 100, 12345))


def test_views():
    x = np.arange(6.0).reshape(2, 3)
    compiled = compile(lambda x: (ops.matrix_transpose(x)[1:], x.reshape(-1)[3]), (x,))
    assert all(compiled.plan.views.is_view(e) for e in compiled.plan.equations)
    first, second = compiled(x)
    np.testing.assert_array_equal(first, [[1, 4], [2, 5]])
    assert second.shape == ()
    assert second == 3.0
    assert all(np.shares_memory(x, compiled.slots[0]) for x in leaves([first, second]))
