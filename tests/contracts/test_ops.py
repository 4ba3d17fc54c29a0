"""The contract of all ops; the table has each one's reference."""

import numpy as np
import pytest

from sknet import ops
from sknet.autograd import gradcheck
from sknet.compile import capture
from sknet.core import PRIMITIVES, Primitive, Tensor, gradients
from sknet.device import Device, MetaArray
from tests.contracts.checks import FLOATS, check_record, tensors, value_and_gradients, weighted
from tests.contracts.rows import ROWS, every_case

NO_OPS = {
    *("SparseSlot", "is_sparse"),  # are about operands, in tests/ops/test_matmul.py and engine/test_steps.py
    *("arange", "eye", "full", "linspace", "ones", "zeros"),  # have no operand, in tests/ops/test_create.py
    "linalg",  # a module, whose functions have rows too
    *("nonzero", "unique_values"),  # have shapes that depend on values, in tests/ops/test_sort.py
}


def differentiable(row, case):
    return row.order > 0 and any(getattr(x, "dtype", None) == np.float64 for x in case.draw())


FIXED_DTYPE = {"astype", "dropout_mask", "uniform_draws"}


def test_every_public_op_has_a_row():
    assert set(ops.__all__) - NO_OPS | set(ops.linalg.__all__) <= {row.op for row in ROWS}


def test_every_primitive_has_one_row():
    named = [row.primitive for row in ROWS if row.primitive]
    assert sorted(named) == sorted(PRIMITIVES)


@pytest.mark.parametrize("primitive", PRIMITIVES.values(), ids=str)
def test_every_rule_exists(primitive):
    assert callable(primitive.shape)
    assert callable(primitive.forward) or isinstance(primitive.forward, str)
    assert primitive.saves in ("inputs", "output", "both", "nothing")
    row = next(row for row in ROWS if row.primitive == primitive.name)
    assert (primitive.vjp is not None) == (row.order > 0)


@every_case(dtype=FLOATS)
def test_forward(row, case, dtype):
    operands = case.draw(dtype)
    out = row(*tensors(operands), **case.params)
    expected = np.asarray(row.reference(*operands, **case.params))
    tolerance = row.tolerance if dtype == "float64" else 2e-5
    assert out.shape == expected.shape
    assert type(out.data) is np.ndarray
    np.testing.assert_allclose(out.numpy(), expected, rtol=tolerance, atol=tolerance)
    if expected.dtype.kind == "f" and row.op not in FIXED_DTYPE:
        floats = [x for x in operands if getattr(x, "dtype", None) in FLOATS]
        assert out.dtype == (dtype if floats else expected.dtype)
    else:
        assert out.dtype == expected.dtype


@every_case()
def test_arrays_are_accepted(row, case):
    operands = case.draw()
    np.testing.assert_array_equal(
        row(*operands, **case.params).numpy(), row(*tensors(operands), **case.params).numpy()
    )


@every_case(differentiable)
def test_gradients(row, case):
    operands = case.draw()
    at = [i for i, x in enumerate(operands) if getattr(x, "dtype", None) == np.float64]

    def function(*points):
        inputs = tensors(operands)
        for i, point in zip(at, points, strict=True):
            inputs[i] = point
        return row(*inputs, **case.params) * 1.0

    assert gradcheck(function, [operands[i] for i in at], order=row.order)


# Draws need the key of a step, a sparse matrix belongs to a slot, and a conversion names its dtype.
NOT_CAPTURED = {"dropout", "dropout_mask", "sparse_matmul", "astype"}


def in_single_precision(row, case):
    """Tell whether all arrays of a case are in single precision."""
    given = [getattr(x, "dtype", None) for x in case.draw("float32")]
    return differentiable(row, case) and row.op not in NOT_CAPTURED and np.float64 not in given


@every_case(in_single_precision)
def test_single_precision_is_not_left(row, case):
    operands = case.draw("float32")
    at = [i for i, x in enumerate(operands) if getattr(x, "dtype", None) == np.float32]

    def gradient(*points):
        leaves = [Tensor(point.data, requires_grad=True) for point in points]
        inputs = tensors(operands)
        for i, leaf in zip(at, leaves, strict=True):
            inputs[i] = leaf
        out = weighted(row(*inputs, **case.params))
        return gradients(out, leaves) if out.requires_grad else out

    graph = capture(gradient, *[operands[i] for i in at])
    double = [equation for equation in graph.equations if equation.output.dtype == np.float64]
    assert not double, f"{double[0].primitive}\n{graph}"


@every_case(dtype=["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_meta_agrees_with_the_result(row, case, dtype):
    """If one device raises, the other does too."""
    if row.op == "sparse_matmul" and dtype in ("float16", "bool"):
        return  # SciPy's sparse products know no such dtype
    operands = case.draw(dtype)
    metas = [Tensor(MetaArray(x.shape, x.dtype)) if isinstance(x, np.ndarray) else x for x in operands]
    try:
        with np.errstate(all="ignore"):
            real = row(*tensors(operands), **case.params)
    except TypeError as error:
        with pytest.raises(type(error)):
            row(*metas, **case.params)
    except ValueError:
        assert (row.op, case.operands[1]) == ("pow", -1)  # the values decide, and a meta array has none
    else:
        meta = row(*metas, **case.params)
        assert (meta.shape, meta.dtype) == (real.shape, real.dtype)
        assert meta.device == Device("meta")


@every_case(dtype=FLOATS)
def test_records_are_consistent(row, case, dtype, monkeypatch):
    """For all primitives, forward and backward: `out=`, shape rule and expression agree with the forward."""
    calls = []
    kernel = Primitive.forward_on

    def spy(self, owner):
        run = kernel(self, owner)

        def spied(*arrays, **params):
            result = run(*arrays, **params)
            calls.append((self, arrays, params, result))
            return result

        return spied

    with monkeypatch.context() as patch:
        patch.setattr(Primitive, "forward_on", spy)
        value_and_gradients(row, case.draw(dtype), case.params)
    if row.primitive:
        assert (
            row.primitive in {primitive.name for primitive, *_ in calls}
            or "shape" in case.params
            or "dtype" in case.params
        )
    for call in calls:
        check_record(*call)


@every_case()
def test_strided_operands(row, case):
    operands = case.draw()
    strided = [_strided(x) if isinstance(x, np.ndarray) else x for x in operands]
    expected = value_and_gradients(row, operands, case.params)
    found = value_and_gradients(row, strided, case.params)
    for a, b in zip([found[0], *found[1]], [expected[0], *expected[1]], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)


def _strided(x):
    """Return the same values in every other element of an array in Fortran order."""
    if x.ndim == 0:
        return x
    wide = np.zeros(tuple(2 * n for n in x.shape), x.dtype, order="F")
    view = wide[(slice(None, None, 2),) * x.ndim]
    view[...] = x
    return view


@every_case()
def test_operands_are_not_changed(row, case):
    """No op writes into its operands."""
    operands = case.draw()
    before = [np.array(x) for x in operands]
    value_and_gradients(row, operands, case.params)
    for x, y in zip(operands, before, strict=True):
        np.testing.assert_array_equal(x, y)


@every_case()
def test_integers(row, case):
    operands = case.draw("int64")
    if not row.integers:
        with pytest.raises(TypeError, match="expected a floating-point operand, got int64"):
            row(*tensors(operands), **case.params)
        return
    try:
        expected = np.asarray(row.reference(*operands, **case.params))
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)):
            row(*tensors(operands), **case.params)
        return
    out = row(*tensors(operands), **case.params)
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12)
    assert not out.requires_grad


@every_case(index=[0, 1])
def test_another_device(row, case, index, fake_device):
    """Bitwise identical where NumPy cannot read: nothing above the device layer depends on the device."""
    operands = case.draw("float32")
    device = Device(fake_device.kind, index)
    expected = value_and_gradients(row, operands, case.params)
    found = value_and_gradients(row, operands, case.params, device)
    for a, b in zip([found[0], *found[1]], [expected[0], *expected[1]], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@every_case(differentiable)
def test_second_order_stays_on_the_device(row, case, fake_device):
    inputs = tensors(case.draw(), requires_grad=True, device=fake_device)
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    out = row(*inputs, **case.params) * leaves[0].sum()  # so that there is a gradient, also of an integer
    first = gradients(weighted(out), leaves, create_graph=True)
    total = sum((weighted(g * g) for g in first), Tensor(0.0, device=fake_device))
    if total.requires_grad:  # nothing is left of a cast to integers
        assert all(g.device == fake_device for g in gradients(total, leaves))
