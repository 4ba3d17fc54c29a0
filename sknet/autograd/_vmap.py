"""One function applied to many arguments at once."""

import threading
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from sknet import _tree
from sknet._constraints import shown
from sknet._params import checked, named_errors
from sknet.core import (
    Primitive,
    Tensor,
    TracedArray,
    as_tensor,
    capturing,
    is_grad_enabled,
    leaf_node,
    normalize_axis,
    set_grad_enabled,
    user_line,
)
from sknet.device import is_array
from sknet.exceptions import CaptureError, ShapeError
from sknet.ops import broadcast_to, moveaxis
from sknet.ops._batching import batched

Axes = Any  # int or None for everything, or a tree of them

_depth = threading.local()


class _Level:
    """One call of a mapped function: how many arguments there are, and how deep it is in other such calls."""

    def __init__(self, size: int, number: int) -> None:
        self.size = size
        self.number = number
        self.is_open = True


class _Batched(TracedArray):
    """Array with the shape of one argument that represents all of them to a mapped function."""

    __slots__ = ("_level", "tensor")

    def __init__(self, tensor: Tensor, level: _Level) -> None:
        super().__init__(tensor.shape[1:], tensor.dtype, tensor.device)
        self.tensor = tensor
        self._level = level

    @property
    def level(self) -> int:  # type: ignore[override]
        return self._level.number

    def belongs_to(self, level: _Level) -> bool:
        """Tell whether the array represents the arguments of a certain call."""
        return self._level is level

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> "_Batched":
        level = self._level
        if not level.is_open:
            raise CaptureError(
                f"a tensor from inside a mapped function is used by {primitive.name} after the function has "
                f"returned, {user_line()}: a mapped function can only return what it computes, not store it"
            )
        parts = [
            part for value in params.values() for part in (value if isinstance(value, tuple) else (value,))
        ]
        if any(isinstance(part, TracedArray) for part in parts):
            raise CaptureError(
                f"{primitive.name} is given an index that differs between the arguments of a mapped "
                f"function, {user_line()}: use ops.take, ops.take_along_axis, or ops.where in place of a mask"
            )
        mapped = [isinstance(x, Tensor) and _is_at(x.data, level) for x in inputs]
        operands = [_outer(x) if is_mapped else x for x, is_mapped in zip(inputs, mapped, strict=True)]
        return _Batched(batched(primitive, operands, mapped, level.size, params), level)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise CaptureError(
            f"the value of a tensor of shape {self.shape} is asked for inside a mapped function, "
            f"{user_line()}: it has one for each argument. Compute with sknet.ops on tensors "
            "(ops.where instead of a branch)."
        )


def _is_at(array: Any, level: _Level) -> bool:
    return isinstance(array, _Batched) and array.belongs_to(level)


def _outer(x: Tensor) -> Tensor:
    """Return the stack that a tensor represents: on the tape only if the tensor itself is."""
    tensor: Tensor = x.data.tensor
    return tensor if x.node is not None or tensor.node is None else tensor.detach()


@checked
@named_errors
def vmap(function: Callable[..., Any], in_axes: Axes = 0, out_axes: int = 0) -> Callable[..., Any]:
    """Return a vectorized function, which maps `function` over an axis of its arguments in one pass.

    Parameters
    ----------
    function : callable
        Takes tensors, or trees (dicts, lists, tuples) of tensors, as if there were no stack, and returns a
        tensor or a tree of them. It is called once, with tensors that have no values of their own.
    in_axes : int, None, or sequence or tree of them, default=0
        Axis along which the arguments are stacked: one for all, or one for each positional argument; None for
        an argument that is not mapped. An argument that is a tree has one for all its leaves, or a tree of
        them.
    out_axes : int, default=0
        Axis along which the results are stacked.

    Returns
    -------
    callable
        ``(*args, **kwargs) -> results``, the function's results with one axis more. Keyword arguments are not
        mapped. It can be differentiated, mapped again and compiled.

    Raises
    ------
    ShapeError
        If stacks have different lengths, there is no such axis, or nothing to map over.
    CaptureError
        If the function reads values (in a branch, by ``item()``), writes to its arguments, or draws random
        numbers, since it is called only once.

    Notes
    -----
    Every operation is done on the stack as a whole; those that cannot be (recurrent networks, indices that
    differ) are done one by one. ``vmap(grad(f), in_axes=(None, 0, 0))`` computes the gradients of a loss
    ``f(parameters, x, y)`` for each sample.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import grad, ops, vmap
    >>> matrices, vectors = np.ones((3, 2, 2)), np.arange(6.0).reshape(3, 2)
    >>> vmap(ops.matmul)(matrices, vectors).numpy()
    array([[1., 1.],
           [5., 5.],
           [9., 9.]])
    >>> def loss(weight, x, y):
    ...     return (ops.vecdot(weight, x) - y) ** 2
    >>> vmap(grad(loss), in_axes=(None, 0, 0))(np.ones(2), vectors, np.zeros(3)).numpy()
    array([[ 0.,  2.],
           [20., 30.],
           [72., 90.]])
    """
    _entries(in_axes, "")  # fails here, not at a call, for a tree without an end

    def mapped(*args: Any, **kwargs: Any) -> Any:
        axes = _axes_of(in_axes, args)
        given = [
            as_tensor(x) if axis is not None else x for x, axis in zip(_tree.leaves(args), axes, strict=True)
        ]
        level = _Level(_size_of(given, axes), getattr(_depth, "value", 0) + 1)
        recording = is_grad_enabled()
        _depth.value = level.number
        try:
            with capturing(), set_grad_enabled(recording):
                inner = [_inner(x, axis, level, recording) for x, axis in zip(given, axes, strict=True)]
                result = function(*_tree.rebuild(args, iter(inner)), **kwargs)
                return _tree.map_leaves(lambda x: _returned(x, level, out_axes, recording), result)
        finally:
            level.is_open = False
            _depth.value = level.number - 1

    return mapped


def _axes_of(in_axes: Axes, args: tuple[Any, ...]) -> list[int | None]:
    """Return an axis (or None) for every leaf of the arguments."""
    each = in_axes if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
    if len(each) != len(args):
        raise ShapeError(f"vmap: in_axes has {len(each)} entries for {len(args)} positional arguments")
    found: list[int | None] = []
    for i, (axes, arg) in enumerate(zip(each, args, strict=True)):
        paths = _tree.paths(arg)
        if not isinstance(axes, (dict, tuple, list)):
            found += [entry for _, entry in _entries(axes, "")] * len(paths)
            continue
        by_path = dict(_entries(axes, ""))
        if list(by_path) != paths:
            raise ShapeError(
                f"vmap: in_axes of argument {i} must be a number, None, or a tree like it: expected entries "
                f"at {paths}, got {list(by_path)}"
            )
        found += by_path.values()
    return found


def _entries(axes: Axes, prefix: str) -> "list[tuple[str, int | None]]":
    """Return the entries of a tree of axes by their paths; None is an entry."""
    if isinstance(axes, dict):
        children = list(axes.items())
    elif isinstance(axes, (tuple, list)):
        children = list(enumerate(axes))
    else:
        try:
            return [(prefix, None if axes is None else index(axes))]
        except TypeError:
            raise TypeError(
                f"vmap: in_axes must be an integer, None, or a tree of these, got {shown(axes)}"
            ) from None
    return [
        entry
        for key, child in children
        for entry in _entries(child, f"{prefix}.{key}" if prefix else str(key))
    ]


def _size_of(given: Sequence[Any], axes: Sequence[int | None]) -> int:
    sizes: dict[int, int] = {}
    for i, (x, axis) in enumerate(zip(given, axes, strict=True)):
        if axis is not None:
            sizes[i] = x.shape[normalize_axis(axis, x.ndim, "vmap")]
    if not sizes:
        raise ShapeError("vmap: there is nothing to map over: in_axes is None for every argument")
    if len(set(sizes.values())) > 1:
        raise ShapeError(f"vmap: the stacks have different lengths (by the number of the array): {sizes}")
    return next(iter(sizes.values()))


def _inner(x: Any, axis: int | None, level: _Level, recording: bool) -> Any:
    """Return an argument as the mapped function gets it."""
    if axis is None:
        return x
    stacked = moveaxis(x, axis, 0) if axis % x.ndim else x
    if not recording:
        stacked = stacked.detach()
    inner = Tensor(_Batched(stacked, level))
    if stacked.requires_grad:
        inner.node = leaf_node(inner)
    return inner


def _returned(x: Any, level: _Level, out_axes: int, recording: bool) -> Tensor:
    """Return the results of all arguments."""
    if not isinstance(x, Tensor) and not is_array(x):
        raise ShapeError(f"vmap: the function must return tensors, got {type(x).__name__}")
    x = as_tensor(x)
    stacked = _outer(x) if _is_at(x.data, level) else broadcast_to(x, (level.size, *x.shape))
    if not recording:
        stacked = stacked.detach()
    at = normalize_axis(out_axes, stacked.ndim, "vmap")
    return moveaxis(stacked, 0, at) if at + stacked.ndim else stacked
