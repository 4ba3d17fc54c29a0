"""The source of generated kernels: readable, with short indices, and accepted by CUDA's compiler."""

import math
import re

import numpy as np
import pytest

from sknet import ops
from sknet.compile import Equation, Graph, Plan, Variable, compile
from sknet.compile.cuda._maps import is_map, literal, position, written
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
        (True, "bool", "true"),
        (3, "int32", "3"),
        (2**40, "int64", "1099511627776LL"),
    ],
)
def test_numbers(value, dtype, text):
    assert literal(value, dtype) == text


@pytest.mark.parametrize(
    ("shape", "strides", "within", "text"),
    [
        ((), (), (2, 3), "0"),
        ((2, 3), (3, 1), (2, 3), "i"),
        ((6,), (1,), (6,), "i"),
        ((3,), (1,), (2, 3), "i % 3"),
        ((2, 1), (1, 1), (2, 3), "i / 3"),
        ((1, 3), (7, 1), (2, 3), "i % 3"),
        ((2, 3), (1, 2), (2, 3), "i / 3 + i % 3 * 2"),
        ((2, 3, 4), (12, 4, 1), (2, 3, 4), "i"),
        ((2, 1, 4), (4, 9, 1), (2, 3, 4), "i / 12 * 4 + i % 4"),
        ((2, 3, 1), (3, 1, 1), (2, 3, 4), "i / 4"),
        ((3, 4), (10, 2), (2, 3, 4), "i / 4 % 3 * 10 + i % 4 * 2"),
        ((5,), (-1,), (5,), "i * -1"),
    ],
)
def test_index_expressions(shape, strides, within, text):
    assert position(shape, strides, within) == (text, "-" in text)


@pytest.mark.parametrize("seed", range(20))
def test_index_expressions_agree_with_numpys_broadcasting(seed):
    rng = np.random.default_rng(seed)
    within = tuple(rng.integers(1, 5, rng.integers(1, 5)).tolist())
    shape = tuple(n if rng.random() < 0.7 else 1 for n in within)[rng.integers(0, 2) :]
    memory = np.arange(1000)
    strides = tuple(rng.integers(0, 40, len(shape)).tolist())
    array = np.lib.stride_tricks.as_strided(memory, shape, tuple(8 * s for s in strides))
    text, _ = position(shape, strides, within)
    found = [eval(text.replace("/", "//"), {"i": i}) for i in range(math.prod(within))]
    np.testing.assert_array_equal(found, np.broadcast_to(array, within).ravel())


def kernel_of(shape, dtype):
    x = Variable(shape, dtype)
    equation = Equation(PRIMITIVES["negative"], (x,), {})
    graph = Graph([x], {}, [equation], [equation.output])
    [group] = groups = fuse_maps(graph, Kernels(is_map))
    return written("map0", group, Plan(graph, groups, {}, lambda equation: []))


def test_numbers_of_64_bits_count_what_is_larger_than_32_bits():
    assert "for (unsigned int i = blockIdx.x" in kernel_of(((1 << 31) - 1,), "int8").text
    large = kernel_of(((1 << 31),), "int8")
    assert "for (unsigned long long i = (unsigned long long)blockIdx.x" in large.text
    assert large.blocks == 4096


def test_expressions_without_c_code_are_not_fused():
    x = Variable((3,), "int64")
    assert not is_map(Equation(PRIMITIVES["pow"], (x, x), {}))
    assert not is_map(Equation(PRIMITIVES["exp"], (Variable((3,), "float16"),), {}))
    assert not is_map(Equation(PRIMITIVES["exp"], (Variable((0,), "float32"),), {}))
    assert is_map(Equation(PRIMITIVES["exp"], (Variable((3,), "float32"),), {}))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_expression_but_two_is_known_in_c(dtype):
    unknown = set()
    for primitive in [p for p in PRIMITIVES.values() if p.expression is not None]:
        for arity in (1, 2, 3):
            try:
                equation = Equation(primitive, tuple(Variable((3,), dtype) for _ in range(arity)), {})
            except (DtypeError, TypeError):  # bits of real numbers; another number of operands, or parameters
                continue
            if not is_map(equation):
                unknown.add(primitive.name)
    assert unknown == {"floor_divide", "remainder"}  # called as they are


def test_kernels_of_at_most_so_many_equations():
    x = Variable((3,), "float32")
    equations = [Equation(PRIMITIVES["exp"], (x,), {})]
    for _ in range(9):
        equations.append(Equation(PRIMITIVES["exp"], (equations[-1].output,), {}))
    graph = Graph([x], {}, equations, [equations[-1].output])
    assert [len(group.equations) for group in fuse_maps(graph, Kernels(is_map), most=4)] == [4, 4, 2]


def test_a_map_joins_the_last_group_that_it_can():
    x, y = Variable((3,), "float32"), Variable((4,), "float32")
    exp, total = PRIMITIVES["exp"], PRIMITIVES["sum"]
    first, other = Equation(exp, (x,), {}), Equation(exp, (y,), {})
    second = Equation(exp, (first.output,), {})
    summed = Equation(total, (second.output,), {"axis": (-1,), "keepdims": False})
    third = Equation(PRIMITIVES["add"], (x, summed.output), {})
    graph = Graph([x, y], {}, [first, other, second, summed, third], [third.output, other.output])
    groups = [group.equations for group in fuse_maps(graph, Kernels(is_map))]
    assert groups == [[first, second], [other], [summed], [third]]


# Accepted by CUDA's compiler without warnings: tests/gpu_check compiles the text of all kernels.


def text_of(function, device, *arrays):
    source = compile(function, tuple(to_device(x, device) for x in arrays)).source
    return source.split('"""')[1]


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
