"""NumPy's functions called with tensors: elementwise ones compute here, others say what to use."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import _bind
from sknet.core._modes import modes
from sknet.core._traced import TracedArray
from sknet.core._user_line import user_line
from sknet.exceptions import CaptureError, GradientError

__all__ = ["OF_NUMPY", "FromNumPy"]

# Functions of `sknet.ops` by NumPy's of the same name, which ops/_methods.py fills in.
OF_NUMPY: dict[Any, Callable[..., Any]] = {}


class FromNumPy:
    """What NumPy's functions do with tensors; tensors inherit it."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        operation = OF_NUMPY.get(ufunc)
        if operation is not None and method == "__call__" and not options:
            return operation(*inputs)
        name = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
        if options:
            name += f" with {', '.join(f'{option}=' for option in sorted(options))}"
        instead = _instead(operation)
        if "out" in options and ufunc.nin == 2:
            instead = f"`a = a + x` in place of `a += x` for an array a, or {instead}"
        _check_values(name, instead, (inputs, options))
        return getattr(ufunc, method)(*_values(inputs), **_values(options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        operation = OF_NUMPY.get(function)
        if operation is None:  # such as np.shape, or np.allclose, which asks for the values itself
            return np.ndarray.__array_function__(np.empty(0), function, (), args, kwargs)
        _check_values(f"np.{function.__name__}", _instead(operation), (args, kwargs))
        return function(*_values(args), **_values(kwargs))


def _instead(operation: "Callable[..., Any] | None") -> str:
    return "the operations of sknet.ops" if operation is None else f"sknet.ops.{operation.__name__}"


def _check_values(name: str, instead: str, operands: Any) -> None:
    """Raise unless the values of all tensors may be taken out of them."""
    tensors = _tensors(operands)
    if any(isinstance(each.data, TracedArray) for each in tensors):
        raise CaptureError(
            f"{name} reads the values of a tensor, {user_line()}, and a captured function runs once, without "
            f"data: use {instead}"
        )
    if modes.grad and any(each.node is not None for each in tensors):
        raise GradientError(
            f"{name} computes with arrays, and the gradient of a tensor would be lost: use {instead}, or the "
            "values, x.detach().numpy()"
        )


def _tensors(operands: Any) -> list[Any]:
    """Return the tensors among nested operands."""
    if isinstance(operands, _bind.TensorType):
        return [operands]
    if isinstance(operands, dict):
        operands = tuple(operands.values())
    if isinstance(operands, (list, tuple)):
        return [tensor for each in operands for tensor in _tensors(each)]
    return []


def _values(operands: Any) -> Any:
    """Return nested operands with arrays in place of tensors."""
    if isinstance(operands, _bind.TensorType):
        return np.asarray(operands)
    if isinstance(operands, dict):
        return {name: _values(each) for name, each in operands.items()}
    if type(operands) in (list, tuple):
        return type(operands)(_values(each) for each in operands)
    return operands
