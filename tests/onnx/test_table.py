"""Every row of the op table, and every elementwise record over extreme values, against onnxruntime."""

from functools import partial

import numpy as np
import pytest

from sknet.compile import Equation, Graph, Variable, capture
from sknet.core import PRIMITIVES, Tensor, bind, no_grad
from sknet.exceptions import CaptureError
from tests.contracts.rows import every_case
from tests.contracts.table import drawn
from tests.contracts.test_executors import applications
from tests.onnx.runtime import arrays_of, model_of_function, run

# The widest rounding of a row's operators: single precision, in which onnxruntime computes some always.
TOLERANCE = {"float32": 2e-5, "float64": 2e-6}
CRASHING = ("rnn", "lstm", "gru", "recurrence")  # onnxruntime ends the process if there are no rows
TINY = np.finfo("float32").tiny  # what is smaller, runtimes may flush to zero
REFUSED = {
    *("attach_aux", "channel_moments", "channel_norm", "channel_norm_gradient", "coded_matmul"),
    *("conv_weight", "dropout_mask", "layer_norm_gradient", "max_pool_put", "max_pool_take"),
    "paired_matmul",
    *("cholesky", "eigh", "inv", "nextafter", "pinv", "qr", "slogdet", "solve", "sparse_matmul", "svd"),
    *("recurrence_gradient", "uniform_draws"),
}
WITHOUT = {
    *REFUSED,
    "recurrence_tape",  # written as a part of their consumers
    "eigvalsh", "svdvals", "dropout", "lstsq",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(REFUSED - {"attach_aux", "sparse_matmul"}))
def test_a_primitive_without_an_operator_says_why(name):
    x, primitive = Variable((3, 3), "float32"), PRIMITIVES[name]
    equation = Equation(primitive, (x,), {}, Variable((3, 3), "float32"))
    graph = Graph((x,), {}, [equation], [equation.output])
    with pytest.raises(CaptureError, match=rf"{name} .*: (it occurs|ONNX has|codes of rows)"):
        model_of_function(lambda _: graph, 1)


def is_exported(row, case):
    empty = any(0 in getattr(x, "shape", ()) for x in case.operands)
    inverted = case.params.get("n", 0) < 0
    return row.op not in WITHOUT and not inverted and not (empty and row.op in CRASHING)


@pytest.mark.slow
@every_case(is_exported, dtype=["float32", "float64"])
def test_a_row_computes_the_same_in_onnxruntime(row, case, dtype):
    function, arrays = drawn(row, case, dtype)
    with no_grad():
        expected = arrays_of(function(*map(Tensor, arrays)))
        model = model_of_function(lambda _: capture(function, *arrays), len(arrays))
    for found, wanted in zip(run(model, *arrays), expected, strict=True):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def bound(primitive, params, *operands):
    return bind(primitive, operands, params)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_elementwise_records_agree_on_extreme_values(dtype):
    wrong = []
    for primitive, arrays, params, expected in applications(dtype):
        if PRIMITIVES.get(primitive.name) is not primitive or primitive.name in REFUSED:
            continue
        with no_grad():
            graph = capture(partial(bound, primitive, params), *arrays)
            model = model_of_function(lambda _, graph=graph: graph, len(arrays))
        [found] = run(model, *arrays)
        assert found.dtype == expected.dtype
        same = np.isclose(found, expected, rtol=2e-5, atol=TINY, equal_nan=True)
        if not same.all():
            where = np.flatnonzero(~same)[:3]
            values = [tuple(a[i] for a in arrays) for i in where]
            wrong.append((primitive.name, int((~same).sum()), values, found[where], expected[where]))
    assert not wrong, "\n".join(map(str, wrong))
