"""Every op with an empty axis: value, gradient and compiled program.

The cases are those of the op table, each with all axes of one length emptied, in all operands at once. The
expected result is PyTorch's if there is one, else the row's reference; where a result is undefined (the
maximum of nothing, an empty kernel), the op raises its own error.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from sknet.compile import compile
from sknet.core import Tensor, gradients
from sknet.exceptions import CaptureError, ShapeError
from tests.contracts.checks import tensors, value_and_gradients, weighted
from tests.contracts.rows import ROWS
from tests.contracts.table import Case, Row, Spec

# Records whose parameters contain lengths, so that emptied operands do not fit.
INTERNAL = {
    "conv_weight", "max_pool_put", "max_pool_take", "recurrence", "recurrence_gradient", "recurrence_tape",
    "scatter_add", "sum_pool", "sum_pool_spread",
}  # fmt: skip
# PyTorch gives an image without channels as many filters as channels.
OWN_REFERENCE = {"conv1d", "conv2d"}
# Ops that raise although PyTorch or a reference computes something.
REFUSALS = (
    "a kernel needs at least one element",
    "expected bias of shape",
    "expected weight_ih of shape",
    "has no element to interpolate from",
    "needs an input of 0 channels",
    "there is no element along axis",
    "with a step at least",
)


def emptied(row: Row) -> Iterator[Case]:
    """Yield the cases of a row with the axes of one length emptied."""
    for case in row.cases:
        lengths = sorted({n for x in case.operands if isinstance(x, Spec) for n in x.shape if n > 1})
        for length in lengths:
            yield Case(tuple(without(x, length) for x in case.operands), case.params)


def without(x, length):
    return replace(x, shape=tuple(0 if n == length else n for n in x.shape)) if isinstance(x, Spec) else x


def expected(row: Row, operands: list, params: dict) -> np.ndarray | None:
    """Return the result; None if there is nothing to compare with."""
    if callable(row.torch) and row.op not in OWN_REFERENCE:
        import torch

        given = [torch.tensor(x) for x in operands]
        try:
            return row.torch(*given, **params).numpy()
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError, ZeroDivisionError):
            return None
    try:
        return np.asarray(row.reference(*operands, **params))
    except (ValueError, IndexError, ZeroDivisionError):
        return None


def check_compiled(row: Row, operands: list, params: dict, value: np.ndarray, found: list) -> None:
    """Compare the program of a case with the eager run: its value, or value and gradients."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]

    def run(*points):
        given = iter(points)
        inputs = [next(given) if isinstance(x, np.ndarray) else x for x in operands]
        leaves = [x for x in inputs if isinstance(x, Tensor) and x.dtype.kind == "f"]
        for leaf in leaves if found else ():
            leaf.requires_grad = True
        out = row(*inputs, **params)
        return out, gradients(weighted(out), leaves) if found else []

    try:
        out, slopes = compile(run, tuple(arrays))(*arrays)
    except CaptureError:
        return
    for a, b in zip([out, *slopes], [value, *found], strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-9, atol=1e-12)


def attempt(row: Row, operands: list, params: dict, wanted: np.ndarray | None) -> tuple | None:
    """Return value and gradients; None if an error is correct."""
    try:
        return value_and_gradients(row, operands, params)
    except (ShapeError, IndexError, ValueError) as error:
        said = str(error)
        is_own = isinstance(error, IndexError) or "cannot compute with operands" not in said
    if is_own and (wanted is None or any(refusal in said for refusal in REFUSALS)):
        return None
    raise AssertionError(f"{said}; expected {wanted}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.primitive not in INTERNAL], ids=lambda row: row.op
)
def test_empty(row):
    for case in emptied(row):
        try:
            operands = case.draw()
        except ValueError:  # an index into nothing
            continue
        wanted = expected(row, operands, case.params)
        computed = attempt(row, operands, case.params, wanted)
        if computed is None:
            continue
        value, found = computed
        if wanted is not None:
            assert value.shape == wanted.shape, case
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12, err_msg=str(case))
        leaves = [x for x in operands if getattr(x, "dtype", None) == np.float64]
        assert [g.shape for g in found] == [x.shape for x in leaves[: len(found)]], case
        check_second_order(row, operands, case.params)
        check_compiled(row, operands, case.params, value, found)


def check_second_order(row: Row, operands: list, params: dict) -> None:
    if row.order < 2:
        return
    inputs = tensors(operands, requires_grad=True)
    leaves = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    out = row(*inputs, **params)
    if out.requires_grad:
        total = sum(((g * g).sum() for g in gradients(weighted(out), leaves, create_graph=True)), Tensor(0.0))
        if total.requires_grad:
            for g, x in zip(gradients(total, leaves), leaves, strict=True):
                assert g.shape == x.shape
