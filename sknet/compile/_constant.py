"""Constants of graphs: C-contiguous copies, of which one number that repeats is kept once."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sknet.compile._graph import Equation, Variable

__all__ = ["as_read", "axes_of", "is_repeated", "read_as_laid_out", "same_bytes", "snapshot"]


def snapshot(array: np.ndarray) -> np.ndarray:
    """Copy an array; one whose elements are all equal becomes a broadcast view of a single element."""
    if array.size > 1:
        first = array[(0,) * array.ndim]
        if not any(array.strides) or array.tobytes() == first.tobytes() * array.size:
            return np.broadcast_to(first, array.shape)
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def is_repeated(constant: np.ndarray) -> bool:
    """Tell whether a constant is one number that is kept once and stands for a C-contiguous array of it."""
    return constant.size > 1 and not any(constant.strides)


def same_bytes(array: np.ndarray, constant: np.ndarray) -> bool:
    """Tell whether an array still has the elements of its snapshot; False for arrays of objects."""
    if array.dtype.hasobject:
        return False
    if is_repeated(constant):
        return bool(array.tobytes() == constant[(0,) * constant.ndim].tobytes() * array.size)
    return bool(array.tobytes() == constant.tobytes())


def axes_of(array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """Return an array without repetitions, its longest strides first, and how to restore its axes."""
    once = array[tuple([slice(None) if stride else slice(1) for stride in array.strides])]
    if once.flags.c_contiguous:
        return once, None
    order = sorted(range(once.ndim), key=lambda i: -abs(once.strides[i]))
    if order == list(range(once.ndim)):
        return once, None
    return once.transpose(order), tuple([order.index(i) - once.ndim for i in range(once.ndim)])


def read_as_laid_out(equations: Iterable["Equation"]) -> set["Variable"]:
    """Return the variables that products, sums and the like read, directly or as views."""
    found: set[Variable] = set()
    for equation in equations:
        primitive = equation.primitive
        is_own = primitive.expression is None and not primitive.lays_out
        is_reading = equation.output in found if primitive.view is not None else is_own
        if is_reading:
            found.update(equation.variables)
    return found


def as_read(
    constants: Mapping["Variable", np.ndarray], equations: Iterable["Equation"]
) -> dict["Variable", Any]:
    """Return constants; repeated numbers that are read as laid out are written out as C-contiguous arrays."""
    read = read_as_laid_out(equations)
    return {
        x: np.array(value, order="C") if x in read and is_repeated(value) else value
        for x, value in constants.items()
    }
