"""Constants of graphs are C-contiguous copies, and what restores their layout is an equation."""

import numpy as np
import pytest

from sknet import Tensor, ops
from sknet.compile import Plan, capture
from sknet.compile.passes import fuse, optimize
from sknet.core import PRIMITIVES, Primitive, bind
from tests.fuzz.products import LAYOUTS

RNG = np.random.default_rng(0)
SHAPES = [(5,), (3, 4), (4, 4), (2, 3, 4)]


@pytest.fixture
def read():
    """Arrays that an operation has read, which depends on how they are laid out."""
    found = []

    def forward(xp, constant, x):
        found.append(constant)
        return xp.add(x, constant.sum())

    Primitive("reader").define(
        forward=forward, shape=lambda constant, x: (x.shape, x.dtype), vjp=None, writes_out=False
    )
    yield found
    del PRIMITIVES["reader"]


def is_repeated(constant):
    return constant.size > 1 and not any(constant.strides)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_constants_are_copies_that_are_read_with_the_strides_of_the_array(layout, shape, read):
    k = LAYOUTS[layout](RNG.normal(size=shape))
    values, strides = k.copy(), k.strides
    graph = capture(lambda x: bind(PRIMITIVES["reader"], (Tensor(k), x), {}), np.ones(2))
    [constant] = graph.constants.values()
    assert is_repeated(constant) or constant.flags.c_contiguous
    assert not constant.flags.writeable
    assert not np.may_share_memory(constant, k)
    if k.flags.writeable:
        k += 1
    read.clear()
    graph(np.ones(2))
    [found] = read
    np.testing.assert_array_equal(found, values)
    assert found.strides == strides


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_number_is_kept_once(layout):
    k = LAYOUTS[layout](RNG.normal(size=(3, 4)))
    [constant] = capture(lambda x: x * k, np.ones((3, 4))).constants.values()
    assert is_repeated(constant) == ("uniform" in layout or "number" in layout)


def views_of(layout):
    k = LAYOUTS[layout](RNG.normal(size=(3, 4)))
    return [equation.primitive.name for equation in capture(lambda x: k @ x, np.ones((4, 2))).equations][:-1]


def test_only_constants_of_another_layout_have_views():
    assert {layout: views_of(layout) for layout in LAYOUTS} == {
        "C": [],
        "Fortran": ["permute_dims"],
        "uniform": [],
        "uniform, Fortran": ["permute_dims"],
        "broadcast number": ["broadcast_to"],
        "broadcast row": ["broadcast_to"],
        "broadcast column": ["broadcast_to"],
        "broadcast row, turned": ["broadcast_to"],
    }


def test_elementwise_operations_read_any_layout():
    k = np.broadcast_to(np.arange(4.0), (3, 4))
    graph = capture(lambda x: (x * k, x + k.T.copy().T), np.ones((3, 4)))
    assert [equation.primitive.name for equation in graph.equations] == ["multiply", "add"]


@pytest.mark.parametrize("k", [np.asfortranarray(RNG.normal(size=(4, 4))), np.ones((4, 4))], ids=["any", "1"])
def test_a_constant_that_is_written_to_between_two_products(k):
    kept = k.copy()

    def function(x):
        first = Tensor(k) @ x
        k[0] += 1.0
        second = Tensor(k) @ x
        k[...] = kept
        return first, second

    x = RNG.normal(size=(4, 2))
    graph = capture(function, x)
    for found, expected in zip(graph(x), (kept @ x, (kept + np.eye(4)[:1].T) @ x), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_repeated_numbers_are_written_out_for_what_reads_them():
    ones, twos = np.ones((4, 4)), np.full((4, 4), 2.0)

    graph = capture(lambda x: (ones @ x) * twos, np.ones((4, 4)))
    assert all(is_repeated(value) for value in graph.constants.values())
    plan = Plan(graph, fuse(graph), {}, lambda equation: [])
    assert [value.strides for value in plan.constants.values()] == [(32, 8), (0, 0)]


# -- passes -------------------------------------------------------------------------------------------

LEFT_OUT = {
    "multiplied by 1": lambda x: x * 1,
    "zero added": lambda x: x + -0.0,
    "converted": lambda x: x.astype("float64"),
    "negated twice": lambda x: ops.negative(-x),
    "reshaped and back": lambda x: ops.reshape(ops.reshape(x, (-1,)), x.shape),
    "summed over one": lambda x: ops.reshape(x, (*x.shape, 1)).sum(-1),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_exact_passes_leave_out_what_changes_no_stride_that_matters(name):
    change, x, y = LEFT_OUT[name], np.ones((3, 4)), np.ones((3, 2))

    def count(function, exact=True):
        return len(optimize(capture(function, x, y), exact=exact).equations)

    assert count(lambda x, y: change(x).T @ y) == 2
    assert count(lambda x, y: ops.exp(change(x.T))) == count(lambda x, y: ops.exp(x.T))
    assert count(lambda x, y: change(x.T) @ y) > 2
    assert count(lambda x, y: change(x.T) @ y, exact=False) == 2


def test_equal_factors_stay_two():
    def names(function):
        graph = optimize(capture(function, np.ones((3, 4))), exact=True)
        return [equation.primitive.name for equation in graph.equations]

    assert names(lambda x: ops.exp(x) @ ops.exp(x).T) == ["exp", "exp", "permute_dims", "matmul"]
    assert names(lambda x: (ops.exp(x) * ops.exp(x)) @ x.T) == ["exp", "multiply", "permute_dims", "matmul"]
