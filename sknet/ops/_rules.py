"""Rules that the records of many primitives share: shapes, and the adjoint of broadcasting."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet._late import SpecialFunction
from sknet.core import PRIMITIVES, Primitive, Tensor, as_operand, as_tensor, bind
from sknet.core import _primitive as p
from sknet.device import Namespace
from sknet.device._backend import broadcast_shapes
from sknet.exceptions import DtypeError, ShapeError

ShapeRule = Callable[..., tuple[tuple[int, ...], np.dtype[Any]]]


def broadcast(name: str, *operands: Any) -> tuple[int, ...]:
    shapes = [tuple(x.shape) for x in operands if hasattr(x, "shape")]
    try:
        return broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"{name}: shapes {' and '.join(map(str, shapes))} do not broadcast together"
        ) from None


def like(ufunc: np.ufunc | SpecialFunction, name: str, *constants: Any) -> ShapeRule:
    """Shape rule of an elementwise operation whose dtype is that of a NumPy (or SciPy) ufunc."""
    known: dict[tuple[Any, ...], Any] = {}  # NumPy takes as long as all else

    def rule(*operands: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
        kinds = tuple(map(_kind, (*operands, *constants)))
        dtype = known.get(kinds)
        if dtype is None:
            try:
                dtype = known[kinds] = ufunc.resolve_dtypes((*kinds, None))[-1]
            except TypeError:
                shown = " and ".join(str(getattr(x, "dtype", x)) for x in operands)
                raise DtypeError(f"{name}: not defined for {shown}: use .astype") from None
        return broadcast(name, *operands), dtype

    return rule


def _kind(x: Any) -> Any:
    """Return the operand of a dtype resolution: a dtype, or the type of a weakly typed scalar."""
    if isinstance(x, bool):
        return np.dtype(bool)
    return type(x) if isinstance(x, (int, float)) else x.dtype


def unbroadcast(g: Tensor, operand: Any) -> Tensor:
    """Sum `g` over the axes along which `operand` was broadcast, and give it the operand's dtype."""
    shape = operand.shape
    if g.shape != shape:
        extra = g.ndim - len(shape)
        axes = tuple(
            i - g.ndim for i in range(g.ndim) if i < extra or (shape[i - extra] == 1 and g.shape[i] != 1)
        )
        g = bind(p.total, (g,), {"axis": axes, "keepdims": False})
        if g.shape != shape:
            g = bind(p.reshape, (g,), {"shape": shape})
    return astype_like(g, operand)


def astype_like(g: Tensor, operand: Any) -> Tensor:
    """Give `g` the operand's dtype: a float32 operand has a float32 gradient."""
    return g if g.dtype == operand.dtype else bind(p.astype, (g,), {"dtype": operand.dtype})


def flat(g: Tensor, operand: Any) -> Tensor:
    """Return the gradient of a piecewise constant function: zeros, also where `g` is infinite."""
    return unbroadcast(bind(PRIMITIVES["zeros_like"], (g,), {}), operand)


class EveryOperand:
    """The vjp of a primitive with any number of operands: ``rule(g, xs, i, **params)`` for operand i."""

    def __init__(self, rule: Callable[..., Tensor]) -> None:
        self._rule = rule

    def __iter__(self) -> Iterator[Any]:
        for i in itertools.count():
            yield lambda g, _, *xs, i=i, **params: self._rule(g, xs, i, **params)


class SharedRule:
    """The vjp of a primitive whose operands share one computation: ``rule(g, out, *inputs, **params)``."""

    def __init__(self, rule: Callable[..., Sequence[Tensor]]) -> None:
        self._rule = rule

    def __iter__(self) -> Iterator[Any]:
        found: list[Tensor] = []

        def share(i: int, *args: Any, **params: Any) -> Tensor:
            if not found:
                found.extend(self._rule(*args, **params))
            return found[i]

        return (partial(share, i) for i in itertools.count())


def unary(primitive: Primitive, x: Any) -> Tensor:
    """Apply a primitive of one operand to a tensor, an array or a number."""
    operand = as_operand(x)
    return bind(primitive, (operand if isinstance(operand, Tensor) else Tensor(x),), {})


def binary(primitive: Primitive, x: Any, y: Any) -> Tensor:
    """Apply a primitive to two operands; a number next to a tensor is weakly typed."""
    x, y = as_operand(x), as_operand(y)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        x = as_tensor(x)
    return bind(primitive, (x, y), {})


def floating(x: Any) -> Tensor:
    """Return x as a floating-point tensor: integers and booleans as float64."""
    tensor = as_tensor(x)
    return tensor if tensor.dtype.kind == "f" else tensor.astype("float64")


def check_floating(name: str, x: Any) -> None:
    """Raise for an operand that is not floating where the result would silently be another dtype."""
    if x.dtype.kind != "f":
        raise DtypeError(f"{name}: expected a floating-point operand, got {x.dtype}: use .astype('float32')")


def zeros_into(xp: Namespace, shape: tuple[int, ...], dtype: Any, out: Any) -> Any:
    if out is None:
        return xp.zeros(shape, dtype=dtype)
    out.fill(0)
    return out
