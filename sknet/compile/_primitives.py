"""Primitives that only the compiler uses, as targets of rewriting, and facts about scalar expressions.

These primitives are not registered in `PRIMITIVES` and have no gradient: gradients are taken before capture.
"""

import ast
import math
from functools import cache
from typing import Any

import numpy as np

from sknet.core import PRIMITIVES, Primitive
from sknet.device import Namespace, result_dtype

__all__ = [
    "assemble", "axpy", "computing_dtype", "copy", "flat_index", "masked", "parsed", "put_at", "subtract_at",
    "take_at", "used",
]  # fmt: skip


Shape = tuple[int, ...]


OWN: dict[str, Primitive] = {}


class _Internal(Primitive):
    """A primitive that is listed in `OWN`, not in `PRIMITIVES`."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name = name
        OWN[name] = self


def primitive_named(name: str) -> Primitive:
    """Return the primitive of a name, the compiler's own included."""
    return OWN.get(name) or PRIMITIVES[name]


# -- one element per row ----------------------------------------------------------------------
# take_along_axis and its adjoint along the last axis, for one index per row, by flat positions.


def _flat_index(xp: Namespace, indices: Any, *, length: int, from_end: bool = True, out: Any = None) -> Any:
    if not from_end:
        xp.check_indices(indices, length)
    flat = xp.arange(length).take(
        indices.reshape(-1), None, out
    )  # wraps negative indices, raises for indices out of bounds
    flat += xp.arange(0, indices.size * length, length)
    return flat


def _put_at(xp: Namespace, g: Any, positions: Any, *, shape: Shape, out: Any = None) -> Any:
    out = xp.zeros(shape, dtype=g.dtype) if out is None else out
    out[...] = 0
    out.reshape(-1)[positions] = g.reshape(-1)
    return out


def _subtract_at(xp: Namespace, x: Any, g: Any, positions: Any, *, out: Any = None) -> Any:
    if out is None:
        out = x.copy()
    elif out is not x:
        out[...] = x
    out.reshape(-1)[positions] -= g.reshape(-1)
    return out


flat_index = _Internal("flat_index").define(
    forward=_flat_index,
    shape=lambda indices, length, from_end=True: ((math.prod(indices.shape),), np.dtype(np.intp)),
    vjp=None,
)
# `of_all` says that each element is at one of the positions, except for gaps between assembled parts.
take_at = _Internal("take_at").define(
    forward=lambda xp, x, positions, of_all=False, out=None: x.reshape(-1).take(positions, None, out),
    shape=lambda x, positions, of_all=False: (positions.shape, x.dtype),
    vjp=None,
)
put_at = _Internal("put_at").define(
    forward=_put_at, shape=lambda g, positions, shape: (shape, g.dtype), vjp=None
)
subtract_at = _Internal("subtract_at").define(
    forward=_subtract_at,
    shape=lambda x, g, positions: (x.shape, np.result_type(x.dtype, g.dtype)),
    vjp=None,
    overwrites=(0,),
)


# -- one flat array from parts ----------------------------------------------------------------


def _assemble(xp: Namespace, *parts: Any, starts: Shape, size: int, out: Any = None) -> Any:
    out = xp.zeros((size,), dtype=parts[0].dtype) if out is None else out
    out[...] = 0
    for part, start in zip(parts, starts, strict=True):
        out[start : start + part.size] = part
    return out


# Executors usually write the parts in place, which leaves nothing to copy.
assemble = _Internal("assemble").define(
    forward=_assemble,
    shape=lambda *parts, starts, size: ((size,), np.result_type(*[part.dtype for part in parts])),
    vjp=None,
)


# -- x + a * y --------------------------------------------------------------------------------


def _axpy(xp: Namespace, x: Any, y: Any, a: Any, *, out: Any = None) -> Any:
    return xp.add(x, a * y, out=out)


# BLAS does it in one pass over memory.
axpy = _Internal("axpy").define(
    forward=_axpy, shape=lambda x, y, a: (x.shape, x.dtype), vjp=None, expression="x + z * y", overwrites=(0,)
)


# -- x where a mask holds, and 0 elsewhere ------------------------------------------------------


def _masked(xp: Namespace, x: Any, mask: Any, *, out: Any = None) -> Any:
    return _copy(xp, xp.where(mask, x, 0), out=out)


# Not x * mask, which is NaN where x is infinite and the mask is false.
masked = _Internal("masked").define(
    forward=_masked,
    shape=lambda x, mask: (x.shape, x.dtype),
    vjp=None,
    expression="x if y else 0",
    condition=1,
)


# -- others -----------------------------------------------------------------------------------


def _copy(xp: Namespace, x: Any, *, out: Any = None) -> Any:
    if out is None:
        return x.copy()
    out[...] = x
    return out


copy = _Internal("copy").define(forward=_copy, shape=lambda x: (x.shape, x.dtype), vjp=None, expression="x")


# -- scalar expressions -----------------------------------------------------------------------


Operands = tuple[Any, ...]


@cache
def parsed(expression: str) -> ast.expr:
    """Return the syntax tree of an expression; it is cached, so it must not be changed."""
    return ast.parse(expression, mode="eval").body


@cache
def used(expression: str) -> frozenset[int]:
    """Return the positions of the operands that an expression names."""
    names = {node.id for node in ast.walk(parsed(expression)) if isinstance(node, ast.Name)}
    return frozenset(i for i, name in enumerate("xyz") if name in names)


@cache
def _is_predicate(expression: str) -> bool:
    return isinstance(parsed(expression), (ast.BoolOp, ast.Call, ast.Compare))


def computing_dtype(expression: str, values: Operands, dtype: Any) -> Any:
    """Return the dtype that operands are converted to before an element is computed."""
    return result_dtype(*values) if dtype.kind == "b" and _is_predicate(expression) else dtype
