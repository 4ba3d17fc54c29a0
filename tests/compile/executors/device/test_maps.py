"""The source of generated kernels: readable, with short indices, and accepted by CUDA's compiler."""

import math
import re

import numpy as np
import pytest

from sknet import ops
from sknet.compile import Equation, Graph, Variable, compile
from sknet.compile.cuda import CupyProgram
from sknet.compile.passes import Kernels, fuse_maps
from sknet.core import PRIMITIVES, Tensor
from sknet.device import to_device, to_host
from sknet.exceptions import DtypeError
from tests.project import ROOT


def test_the_example_in_the_documentation(fake_device):
    def function(x, weight, bias):
        return ops.tanh(ops.matmul(x, weight) + bias)

    shapes = ((200, 20), (20, 100), (100,))
    args = tuple(to_device(np.zeros(shape, np.float32), fake_device) for shape in shapes)
    source = compile(function, args).source
    assert source.replace("fake:0", "cuda:0") in (ROOT / "docs" / "gpu.md").read_text()


def text_of(function, device, *arrays):
    source = compile(function, tuple(to_device(x, device) for x in arrays)).source
    return source.split('"""')[1]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (0.1, "float64", "0.1"),
        (-1e-8, "float32", "(-1e-08f)"),
        (2, "float32", "2.0f"),
        (math.inf, "float64", "(1.0 / 0.0)"),
        (-math.inf, "float32", "(-1.0f / 0.0f)"),
        (math.nan, "float32", "(0.0f / 0.0f)"),
        (1e300, "float32", "(1.0f / 0.0f)"),
        (3, "int32", "3"),
        (2**40, "int64", "1099511627776LL"),
    ],
)
def test_numbers(value, dtype, text, fake_device):
    assert f" ? x0 : {text};" in text_of(lambda x: ops.maximum(x, value), fake_device, np.ones(3, dtype))


def test_booleans(fake_device):
    assert "(x0 == true)" in text_of(lambda x: ops.equal(x, True), fake_device, np.ones(3, bool))


@pytest.mark.parametrize(
    ("shape", "view", "within", "text"),
    [
        ((), (), (2, 3), "0"),
        ((2, 3), (), (2, 3), "i"),
        ((6,), (), (6,), "i"),
        ((3,), (), (2, 3), "i % 3"),
        ((2, 1), (), (2, 3), "i / 3"),
        ((1, 7), np.s_[:, :3], (2, 3), "i % 3"),
        ((2, 3), "transposed", (3, 2), "i / 2 + i % 2 * 3"),
        ((2, 3, 4), (), (2, 3, 4), "i"),
        ((2, 9, 4), np.s_[:, :1], (2, 3, 4), "i / 12 * 36 + i % 4"),
        ((2, 3, 1), (), (2, 3, 4), "i / 4"),
        ((3, 10), np.s_[:, :8:2], (2, 3, 4), "i / 4 % 3 * 10 + i % 4 * 2"),
        ((5,), np.s_[::-1], (5,), "(int)i * -1"),
    ],
)
def test_index_expressions(shape, view, within, text, fake_device):
    def function(x, y):
        return (ops.matrix_transpose(x) if view == "transposed" else x[view]) - y

    found = text_of(function, fake_device, np.ones(shape), np.ones(within))
    assert f"x = v[{text}];" in re.sub(r"\b([vx])\d+", r"\1", found)


@pytest.mark.parametrize("seed", range(4))
def test_elements_that_kernels_read_are_those_of_numpys_broadcasting(seed, fake_device):
    """Operands are views with gaps, in any order of axes, along which they may be one element."""
    rng = np.random.default_rng(seed)
    arrays, views = [], []
    for _ in range(5):
        within = rng.integers(1, 5, rng.integers(1, 5))
        shape = np.where(rng.random(len(within)) < 0.7, within, 1)[rng.integers(0, 2) :]
        order, steps = rng.permutation(len(shape)), rng.choice([1, 1, 2, -1, -3], len(shape))
        padded = [int(n * abs(step)) for n, step in zip(shape, steps, strict=True)]
        arrays += [rng.normal(size=[padded[axis] for axis in order]), rng.normal(size=within)]
        views.append(
            (tuple(np.argsort(order).tolist()), tuple(slice(None, None, int(step)) for step in steps))
        )

    def function(*xs):
        pairs = zip(xs[::2], xs[1::2], views, strict=True)
        return [ops.permute_dims(x, axes)[view] * 1.5 + y for x, y, (axes, view) in pairs]

    given = tuple(to_device(x, fake_device) for x in arrays)
    for found, expected in zip(compile(function, given)(*given), function(*map(Tensor, arrays)), strict=True):
        np.testing.assert_array_equal(to_host(found), expected.numpy())


def source_of(name, *operands, device):
    """Return the source of a program of one equation, which is bound to no memory."""
    equation = Equation(PRIMITIVES[name], operands, {})
    graph = Graph(list(operands), {}, [equation], [equation.output])
    return CupyProgram.of(graph, {}, False, device).source


def test_numbers_of_64_bits_count_what_is_larger_than_32_bits(fake_device):
    small = source_of("negative", Variable(((1 << 31) - 1,), "int8"), device=fake_device)
    assert "for (unsigned int i = blockIdx.x" in small
    large = source_of("negative", Variable(((1 << 31),), "int8"), device=fake_device)
    assert "for (unsigned long long i = (unsigned long long)blockIdx.x" in large
    assert "map0((4096,), (256,), " in large


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "is_kernel"),
    [
        ("pow", (3,), "int64", False),
        ("exp", (3,), "float16", False),
        ("exp", (0,), "float32", False),
        ("exp", (3,), "float32", True),
    ],
)
def test_expressions_without_c_code_are_no_kernels(name, shape, dtype, is_kernel, fake_device):
    x = Variable(shape, dtype)
    source = source_of(name, *[x] * (2 if name == "pow" else 1), device=fake_device)
    assert ("__global__" in source) is is_kernel


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_expression_but_two_is_known_in_c(dtype, fake_device):
    unknown = set()
    for primitive in [p for p in PRIMITIVES.values() if p.expression is not None]:
        for arity in (1, 2, 3):
            operands = tuple(Variable((3,), dtype) for _ in range(arity))
            try:
                Equation(primitive, operands, {})
            except (DtypeError, TypeError):  # bits of real numbers; another number of operands, or parameters
                continue
            if "__global__" not in source_of(primitive.name, *operands, device=fake_device):
                unknown.add(primitive.name)
    assert unknown == {"floor_divide", "remainder"}  # called as they are


ELEMENTWISE = Kernels(lambda equation: equation.primitive.expression is not None)


def test_kernels_of_at_most_so_many_equations():
    x = Variable((3,), "float32")
    equations = [Equation(PRIMITIVES["exp"], (x,), {})]
    for _ in range(9):
        equations.append(Equation(PRIMITIVES["exp"], (equations[-1].output,), {}))
    graph = Graph([x], {}, equations, [equations[-1].output])
    assert [len(group.equations) for group in fuse_maps(graph, ELEMENTWISE, most=4)] == [4, 4, 2]


def test_a_map_joins_the_last_group_that_it_can():
    x, y = Variable((3,), "float32"), Variable((4,), "float32")
    exp, total = PRIMITIVES["exp"], PRIMITIVES["sum"]
    first, other = Equation(exp, (x,), {}), Equation(exp, (y,), {})
    second = Equation(exp, (first.output,), {})
    summed = Equation(total, (second.output,), {"axis": (-1,), "keepdims": False})
    third = Equation(PRIMITIVES["add"], (x, summed.output), {})
    graph = Graph([x, y], {}, [first, other, second, summed, third], [third.output, other.output])
    groups = [group.equations for group in fuse_maps(graph, ELEMENTWISE)]
    assert groups == [[first, second], [other], [summed], [third]]


# Accepted by CUDA's compiler without warnings: tests/gpu_check compiles the text of all kernels.


def test_operands_whose_shape_alone_matters_are_not_read(fake_device):
    x, y = np.ones((4, 3)), np.ones((4, 3))
    text = text_of(lambda x, y, z: ops.ones_like(x * y) + z, fake_device, x, y, np.ones(3))
    assert "const double *v0" not in text
    assert "const double *v1" not in text
    assert "const double *v2" in text


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_unsigned_numbers_are_not_compared_with_zero_to_tell_their_sign(dtype, fake_device):
    def function(x):
        return ops.abs(x), ops.sign(x), ops.less(x, 0), ops.greater_equal(x, 0), ops.greater(0, x), x <= 0

    x = np.array([0, 1, 200], dtype)
    text = text_of(function, fake_device, x)
    assert not re.search(r"x0 (<|>=) 0\b|\b0 (>|<=) x0", text)
    assert "x0 <= 0" in text
    there = to_device(x, fake_device)
    for found, expected in zip(compile(function, (there,))(there), function(Tensor(x)), strict=True):
        np.testing.assert_array_equal(to_host(found), expected.numpy())


def test_offsets_that_count_backwards_are_signed(fake_device):
    text = text_of(lambda x: ops.exp(x[::-1, ::2] * 2.0), fake_device, np.ones((5, 6)))
    assert re.findall(r"v\d+\[(.*-.*?)\]", text) == ["(int)i / 3 * -6 + (int)i % 3 * 2"]


# -- wide loads ---------------------------------------------------------------------------------


def updated(w, g, scale, mask):
    """Compute what reads arrays of every kind: in place, broadcast, of bytes."""
    step = ops.where(mask, g * scale, 0.0)
    return w - ops.tanh(step), ops.exp(g) * 2.0, ops.less(w, step), ops.sum(g)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(6, 20), (7, 11)])
def test_wide_loads_have_the_same_bits(shape, dtype, fake_device, limits):
    limits("elements from which loads are wide", 1)
    rng = np.random.default_rng(0)
    w, g, scale = (rng.normal(size=n).astype(dtype) for n in (shape, shape, shape[1:]))
    given = w, g, scale, rng.random(shape) < 0.5

    def run(slots):
        compiled = compile(updated, tuple(to_device(x, fake_device) for x in given), donate=(0,), slots=slots)
        found = compiled(*[to_device(x, fake_device) for x in given])
        return compiled, [to_host(x) for x in found]

    compiled, found = run(None)
    vector = {"float32": "float4", "float64": "double2"}[dtype]
    assert vector in compiled.source
    memory = to_device(np.zeros(w.size + 1, dtype), fake_device)
    _, expected = run((memory[1:].reshape(shape), None, None, None))  # which begins anywhere
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_allclose(found[0], w - np.tanh(np.where(given[3], g * scale, 0)), rtol=1e-5)


def test_slices_that_begin_anywhere_are_read_one_by_one(fake_device, limits):
    limits("elements from which loads are wide", 1)
    x = np.random.default_rng(0).normal(size=(97,)).astype("float32")
    args = (to_device(x, fake_device),)
    assert "float4" in compile(lambda x: ops.exp(x[4:]), args).source
    compiled = compile(lambda x: ops.exp(x[1:-4]), args)
    assert "(const float4 *)" not in compiled.source
    np.testing.assert_allclose(to_host(compiled(*args)), np.exp(x[1:-4]), rtol=1e-6)
