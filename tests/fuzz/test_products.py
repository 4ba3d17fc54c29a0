"""A few hundred random products in all ways; the module runs as many as requested."""

import numpy as np
import pytest

import sknet
from sknet import Tensor, nn, ops
from sknet.compile import capture, compile
from sknet.core import gradients
from sknet.graphs import export
from tests.fuzz.products import LAYOUTS, check_native, made, mismatches
from tests.fuzz.rewriting import made as made_program
from tests.fuzz.rewriting import mismatches as mismatches_of_program

CASES = 200


@pytest.mark.parametrize("first", range(0, CASES, 20))
def test_cases(first):
    for number in range(first, first + 20):
        case = made(number)
        assert not mismatches(case), f"case {number}: {case}"


@pytest.mark.parametrize("first", range(1000, 1080, 20))
def test_native_code(first):
    for number in range(first, first + 20):
        case = made(number)
        if "gradients" not in case.source:
            check_native(case)


def test_a_case_is_its_number():
    first, again, other = made(7), made(7), made(8)
    assert first.source == again.source != other.source
    assert all(x.tobytes() == again.arrays[name].tobytes() for name, x in first.arrays.items())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_gradient_of_a_sum_of_a_product():
    """A broadcast number is a factor of both gradients."""
    case = made_program(70004815)
    assert not mismatches_of_program(case), case.source


# -- gradients and layers ---------------------------------------------------------------------------

REDUCED = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "sum over an axis": lambda x: ops.square(x.sum(0)).sum(),
    "broadcast": lambda x: ops.broadcast_to(x, (3, *x.shape)).sum(),
    "expanded": lambda x: ops.square(ops.expand_dims(x, 0)).sum(),
}
OF_PRODUCTS = {
    "matmul": lambda x, w: x @ w,
    "transposed": lambda x, w: ops.matrix_transpose(ops.matrix_transpose(w) @ ops.matrix_transpose(x)),
    "rows": lambda x, w: x[0] @ w,
    "column": lambda x, w: x @ w[:, 0],
    "stacks": lambda x, w: ops.broadcast_to(x, (2, *x.shape)) @ w,
    "tensordot": lambda x, w: ops.tensordot(x, w, 1),
    "einsum": lambda x, w: ops.einsum("ij,jk->ki", x, w),
    "vecdot": lambda x, w: ops.vecdot(x, w.T[:1]),
    "outer": lambda x, w: ops.outer(x[:, 0], w[0]) @ w.T,
    "attention": lambda x, w: ops.scaled_dot_product_attention(x, w.T, w.T),
    "convolution": lambda x, w: ops.conv1d(ops.expand_dims(x, 0), ops.reshape(w, (-1, x.shape[0], 1))),
    "linear layer": lambda x, w: nn.functional_call(nn.Linear(*w.shape), {"weight": w, "bias": w[0]}, x)[0],
    "its own transpose": lambda x, w: ops.tanh(x) @ ops.matrix_transpose(ops.tanh(x)) @ x @ w,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduced", REDUCED)
@pytest.mark.parametrize("product", OF_PRODUCTS)
def test_gradients_of_products(product, reduced, dtype):
    rng = np.random.default_rng(len(product) + len(reduced))
    for n, k, m in ((4, 7, 12), (12, 4, 1), (33, 17, 8), (1, 33, 4)):
        n = m * k if product == "convolution" else n  # channels
        arrays = [rng.normal(size=shape).astype(dtype) for shape in ((n, k), (k, m))]

        def program(x, w):
            x.requires_grad = w.requires_grad = True
            return gradients(REDUCED[reduced](OF_PRODUCTS[product](x, w)), [x, w])

        expected = [x.numpy() for x in program(*map(Tensor, arrays))]
        for found, wanted in zip(compile(program, tuple(arrays), exact=True)(*arrays), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


# -- graphs of any number of rows -------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["factor", "transposed factor", "rows"])
def test_graphs_of_any_rows_multiply_by_constants_as_calls_do(name, layout, tmp_path):
    rng = np.random.default_rng(0)
    x, constant = rng.normal(size=(13, 8)), LAYOUTS[layout](rng.normal(size=(8, 8)))

    def network(x):
        if name == "rows":
            return ops.sum(ops.broadcast_to(Tensor(constant)[0], x.shape) @ x.T, 0) @ x
        return x @ (constant.T if name == "transposed factor" else constant)

    exported = export(network, x)
    sknet.save([exported, capture(network, x)], tmp_path / "it")
    for graph in (exported, *sknet.load(tmp_path / "it")):
        np.testing.assert_array_equal(graph(x).numpy(), network(Tensor(x)).numpy())
