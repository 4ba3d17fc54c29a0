"""Every op of the table, forward and backward: compiled and eager results agree."""

import numpy as np
import pytest

from sknet import ops
from sknet.compile import compile
from sknet.core import Tensor, gradients
from sknet.exceptions import CaptureError
from tests.contracts.checks import FLOATS, weighted
from tests.contracts.rows import every_case

NOT_CAPTURED = {
    "dropout_mask",
    "sparse_matmul",
    "uniform_draws",
}  # of constants; tests/compile/test_footguns.py says why


def is_captured(row, case):
    return row.op not in NOT_CAPTURED


def function_of(row, case):
    """Return a pure function that computes the op's result and all gradients."""

    def function(*arrays):
        given = iter(arrays)
        inputs = [
            next(given).detach() if isinstance(x, np.ndarray) else x
            for x in case.draw()  # only to tell arrays from numbers
        ]
        leaves = [x for x in inputs if isinstance(x, Tensor) and x.dtype.kind == "f" and row.order]
        for x in leaves:
            x.requires_grad = True
        out = row(*inputs, **case.params)
        return out, gradients(weighted(out), leaves) if out.requires_grad else []

    return function


def arrays_of(case, dtype, seed):
    return [np.array(x) for x in case.draw(dtype, seed) if isinstance(x, np.ndarray)]


def check(row, case, dtype, compare, *, exact):
    function = function_of(row, case)
    compiled = compile(function, tuple(arrays_of(case, dtype, 0)), exact=exact)
    for seed in (1, 2, 1):
        arrays = arrays_of(case, dtype, seed)
        value, found = function(*map(Tensor, arrays))
        compiled.poison()
        with np.errstate(all="ignore"):
            compiled_value, compiled_gradients = compiled(*arrays)
        for expected, result in zip([value, *found], [compiled_value, *compiled_gradients], strict=True):
            assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
            compare(result, expected.numpy())


@every_case(is_captured, dtype=FLOATS)
def test_exact(row, case, dtype):
    check(row, case, dtype, np.testing.assert_array_equal, exact=True)


@every_case(is_captured, dtype=FLOATS)
def test_to_rounding(row, case, dtype):
    tolerance = 1e-5 if dtype == "float32" else 1e-13

    def compare(result, expected):
        np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)

    check(row, case, dtype, compare, exact=False)


@every_case(is_captured)
def test_integers(row, case):
    arrays = arrays_of(case, "int64", 1)

    def function(*arrays):
        given = iter(arrays)
        return row(*[next(given) if isinstance(x, np.ndarray) else x for x in case.draw()], **case.params)

    try:
        expected = function(*map(Tensor, arrays))
    except (TypeError, ValueError) as error:
        refused = error
        with pytest.raises((TypeError, ValueError)) as found:
            compile(function, tuple(arrays), exact=True)(*arrays)
        assert type(found.value) in (type(refused), ValueError, CaptureError)
        return
    result = compile(function, tuple(arrays), exact=True)(*arrays)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(result, expected.numpy())


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(
    ("first", "second"), [("float64", "int64"), ("int64", "float64"), ("float32", "int32")]
)
def test_a_choice_over_an_operand_of_another_dtype(first, second, exact):
    """The result may reuse an operand's memory, whose elements have the same size but another kind."""

    def function(mask, x, y):
        return ops.where(mask, x * 2, y * 3)

    arrays = np.array([True, False, True]), np.array([1, 2, 3], first), np.array([4, 5, 6], second)
    expected = function(*arrays).numpy()
    np.testing.assert_array_equal(compile(function, arrays, exact=exact)(*arrays), expected)
