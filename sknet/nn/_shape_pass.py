"""A forward pass without data: every operation's shape rule is run, and nothing is computed or allocated."""

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike

from sknet.core import Primitive, Tensor, TracedArray, no_grad
from sknet.device import Device, backend
from sknet.exceptions import DeviceError
from sknet.nn._module import Module, copy_with
from sknet.nn._scope import Binding, Scope, run

__all__ = ["Shadow", "copy_for_shapes", "shadows", "shape_pass"]

META = Device("meta")
NUMPY = backend("cpu").xp

Seen = Callable[[Primitive, list[Any], "Shadow"], None]


class Shadow(TracedArray):
    """An array without data that can be combined with arrays of any device, and reports each operation."""

    __slots__ = ("_ghost", "memory", "scratch", "seen")

    def __init__(self, shape: tuple[int, ...], dtype: Any, seen: Seen) -> None:
        super().__init__(shape, dtype, META)
        self.seen = seen
        self.memory: object = self  # of a view: the array whose memory it would share
        self.scratch = 0  # elements of the memory that its operation works in
        self._ghost: np.ndarray | None = None

    @property
    def ghost(self) -> np.ndarray:
        """An array with its strides, which view rules read; it has no memory of its own."""
        if self._ghost is None:
            shape = self.shape
            strides = np.cumprod((1, *shape[:0:-1]))[::-1] if shape else ()
            self._ghost = as_strided(np.empty(1, np.int8), shape, tuple(map(int, strides)))
        return self._ghost

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> TracedArray:
        arrays = [x.data if isinstance(x, Tensor) else x for x in inputs]
        shape, dtype = primitive.shape(*arrays, **params)
        result = Shadow(shape, dtype, self.seen)
        if primitive.scratch is not None:
            works_in = primitive.scratch(*arrays, **params)
            result.scratch = sum(math.prod(lengths) for lengths, _ in works_in)
        if primitive.view is not None and isinstance(arrays[0], Shadow):
            ghost = primitive.view(NUMPY, arrays[0].ghost, **params)
            if ghost is not None:
                result.memory, result._ghost = arrays[0].memory, ghost
        self.seen(primitive, arrays, result)
        return result


class _StandIns(dict[Binding, Tensor]):
    """Shadows in place of all parameters and buffers, also of those that the pass itself makes."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen

    def get(self, binding: Binding, own: Any = None) -> Any:
        """Return the stand-in for a parameter or buffer, which is `own`."""
        if binding not in self:
            self[binding] = Tensor(Shadow(own.shape, own.dtype, self._seen))
        return self[binding]


def ignore(primitive: Primitive, operands: list[Any], result: Shadow) -> None:
    """Ignore the operation."""


def shape_pass(
    module: Module, inputs: "tuple[Any, ...] | dict[str, Any]", training: bool = False, seen: Seen = ignore
) -> Any:
    """Run a module without data."""
    scope = Scope(_StandIns(seen), training, (0, 0), Tensor(Shadow((), "int64", seen)))
    try:
        with no_grad():
            return run(module, scope, inputs)
    except DeviceError as error:
        error.add_note("in a pass without data, which determines shapes")
        raise


def copy_for_shapes(module: Module) -> Module:
    """Return a copy of a module for a pass without data."""
    found = {each for part in module.modules() for each in part._parameters.values()}
    return copy_with(module, {each: each.data for each in found if each.home is not None})


def shadows(x: Any, dtype: DTypeLike, seen: Seen = ignore) -> Any:
    """Return inputs without data."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return Tensor(Shadow(tuple(x.shape), x.dtype, seen))
    if isinstance(x, tuple) and all(isinstance(length, Integral) for length in x):
        return Tensor(Shadow(x, dtype, seen))
    if isinstance(x, dict):
        return {key: shadows(part, dtype, seen) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)([shadows(part, dtype, seen) for part in x])
    return x
