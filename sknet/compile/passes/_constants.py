"""Constant folding: what depends on constants only is computed once, when the graph is made."""

from typing import Any

import numpy as np

from sknet.compile._constant import as_read, is_repeated
from sknet.compile._graph import Equation, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of
from sknet.device import backend, result_dtype
from sknet.ops import SparseSlot

__all__ = ["CONSTANTS"]

LARGEST = 1 << 16  # elements of a computed constant: larger ones cost more memory than they save time

CONSTANTS = Rules()


@CONSTANTS.on("*")
def fold(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Compute an equation whose operands are all constant."""
    constants = rewriter.constants
    for x in equation.variables:
        if x not in constants:
            return None
    if any(isinstance(x, SparseSlot) for x in equation.params.values()):
        return None  # the slot's contents change
    if equation.output.size > LARGEST and equation.primitive.view is None:
        return None
    known = as_read({x: constants[x] for x in equation.variables}, [equation])
    values = [known[x] if type(x) is Variable else x for x in equation.operands]
    forward = equation.primitive.forward_on(backend("cpu"))
    with np.errstate(all="ignore"):
        value = np.asarray(forward(*values, **equation.params))
    if equation.output.size > LARGEST and not (is_repeated(value) or value.flags.c_contiguous):
        return None  # constants are C-contiguous
    return rewriter.constant(value)


@CONSTANTS.on("*")
def number(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Replace a constant array of one repeated number by the number, if shape and dtype stay the same."""
    if equation.primitive.expression is None or len(equation.operands) < 2:
        return None
    if rewriter.constants.keys().isdisjoint(equation.variables):
        return None
    condition = equation.primitive.condition
    operands = list(equation.operands)
    for i, x in enumerate(equation.operands):
        if x in rewriter.constants and i != condition:
            operands[i] = _number_or_self(rewriter, x)
    if all(a is b for a, b in zip(operands, equation.operands, strict=True)):
        return None
    if not _fits(operands, equation):
        return None
    return rewriter.emit(equation.primitive, *operands, **equation.params)


def _number_or_self(rewriter: Rewriter, x: Any) -> Any:
    value = scalar_of(rewriter, x) if type(x) is Variable else None
    return x if value is None else value


def _fits(operands: list[Any], equation: Equation) -> bool:
    arrays = [x for x in operands if type(x) is Variable]
    numbers = equation.primitive.values(tuple(operands))
    if not any(type(x) is Variable for x in numbers):
        return False
    same_shape = np.broadcast_shapes(*[x.shape for x in arrays]) == equation.output.shape
    return same_shape and result_dtype(*numbers) == result_dtype(
        *equation.primitive.values(equation.operands)
    )
