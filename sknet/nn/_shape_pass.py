"""Forward passes without data, for shapes and memory."""

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

__all__ = ["Shadow", "copy_for_shapes", "largest_activation", "shadows", "shape_pass"]


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


class _Sizes:
    """The elements that each operation of a pass allocates, in order."""

    def __init__(self) -> None:
        self.found: list[int] = []

    def seen(self, primitive: Primitive, operands: list[Any], result: Shadow) -> None:
        self.found.append(max(int(result.size), result.scratch))


def largest_activation(module: Module, shape: Any, dtype: Any = "float32") -> int:
    """Return how many elements the largest array of a forward pass has for each row of a batch.

    Parameters
    ----------
    module : Module
        Not changed, and its hooks are not called.
    shape : tuple of int, or dict of those
        Of one row of the input, without the batch's axis; for several inputs, by the names of arguments.
    dtype : dtype, or dict of those, default="float32"
        Of the input, or of each.

    Returns
    -------
    int
        Inputs, results of operations and their working memory are counted; arrays whose size does not
        depend on the number of rows are not.

    Raises
    ------
    DeviceError
        If the forward pass reads values, and so cannot run without data.
    ShapeError
        If the input does not fit.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.largest_activation(nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)), (784,))
    784
    >>> nn.largest_activation(nn.Conv2d(1, 64, 3), (1, 224, 224)) == 64 * 222 * 222
    True
    """
    one, two = (_sizes(module, n_rows, shape, dtype) for n_rows in (1, 2))
    if len(one) != len(two):  # the code branches on the number of rows
        return max(-(-size // 2) for size in two)
    return max(b - a for a, b in zip(one, two, strict=True))


def _sizes(module: Module, n_rows: int, shape: Any, dtype: Any) -> list[int]:
    copy, sizes = copy_for_shapes(module), _Sizes()  # a copy, for what its code may set
    for each in copy.modules():
        vars(each).pop("_hooks", None)
    shapes = shape if isinstance(shape, dict) else {"": shape}
    dtypes = dtype if isinstance(dtype, dict) else dict.fromkeys(shapes, dtype)
    given = {
        name: shadows((n_rows, *each), np.dtype(dtypes[name]), sizes.seen) for name, each in shapes.items()
    }
    sizes.found += [math.prod((n_rows, *each)) for each in shapes.values()]
    shape_pass(copy, given if isinstance(shape, dict) else (given[""],), False, sizes.seen)
    return sizes.found
