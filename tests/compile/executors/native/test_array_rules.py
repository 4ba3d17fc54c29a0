"""Every primitive has native code, or is listed as computed by NumPy in a callback."""

import numpy as np
import pytest

from sknet.compile import capture
from sknet.compile._internal import OWN
from sknet.compile.executors.native import _program as _program  # with which the rules are complete
from sknet.compile.executors.native._value import HostCall
from sknet.compile.executors.native._values import RULES, Values
from sknet.compile.passes import optimize
from sknet.core import PRIMITIVES
from tests.contracts.rows import ROWS

LAPACK = "a function of LAPACK, which takes longer than the call"
SORTED = "NumPy's sort, which takes longer than the call"
COLUMNS = "columns and products, as in NumPy's plan"
ONE_RECURRENCE = "its loop over the time steps is one call, with products and functions of whole arrays"
WITHOUT_GRADIENT = "occurs only where nothing is differentiated: else it is made of others"
SELDOM = "seldom in a training step"

BY_NUMPY = {
    **dict.fromkeys(
        ("cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd"), LAPACK
    ),
    **dict.fromkeys(("argsort", "searchsorted", "sort", "topk"), SORTED),
    **dict.fromkeys(("conv", "conv_image", "conv_weight"), COLUMNS),
    **dict.fromkeys(
        ("max_pool", "max_pool_put", "max_pool_take", "resample", "sum_pool", "sum_pool_spread"),
        "few calls over large arrays for each element of a window",
    ),
    **dict.fromkeys(
        ("carry", "recurrence", "recurrence_gradient", "recurrence_tape"), ONE_RECURRENCE
    ),
    **dict.fromkeys(("log_softmax", "logsumexp", "softmax"), WITHOUT_GRADIENT),
    **dict.fromkeys(
        ("all", "any", "argmax", "argmin", "cumulative_prod", "cumulative_sum", "prod", "scaled_quotient"),
        SELDOM,
    ),
}  # fmt: skip
REFUSED = {"sparse_matmul": "reads a sparse matrix, which is no array; steps over sparse rows are NumPy's"}


def test_what_has_no_native_code_is_listed():
    known = {name for name, p in (PRIMITIVES | OWN).items() if name in RULES or p.expression is not None}
    assert set(PRIMITIVES | OWN) - known == BY_NUMPY.keys() | REFUSED.keys()


def values_of(row, case):
    """Return the values of an op that is applied to arrays, which are the inputs of a graph."""
    operands = case.draw(np.float64)
    spots = [i for i, x in enumerate(operands) if isinstance(x, np.ndarray)]

    def function(first, *given):
        full = list(operands)
        for i, x in zip(spots, given, strict=True):
            full[i] = x
        return row(*full, **case.params)

    arrays = [operands[i] for i in spots]
    return Values(optimize(capture(function, np.zeros(1), *arrays)), "v")


@pytest.mark.parametrize("row", [row for row in ROWS if row.op != "sparse_matmul"], ids=lambda row: row.op)
def test_every_op_is_translated(row):
    for case in row.cases:
        values_of(row, case)


# Arrays of real numbers with elements, and indices of the batch: no part of these is NumPy's to compute.
NATIVE = (
    "take", "put", "concat", "stack", "pad", "sum", "max", "min", "layer_norm", "group_norm", "mean",
    "permute_dims", "reshape", "expand_dims", "setitem", "einsum", "tensordot", "outer",
)  # fmt: skip


@pytest.mark.parametrize("op", NATIVE)
def test_common_ops_are_native_for_any_number_of_axes(op):
    rows = [row for row in ROWS if row.op == op]
    found = [values_of(row, case) for row in rows for case in row.cases[:3] if case.draw()[0].size]
    assert found
    for values in found:
        assert not [x for x in values.all if isinstance(x, HostCall)], op
