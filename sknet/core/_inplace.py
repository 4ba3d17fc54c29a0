"""Changes in place: ``x[index] = value``, ``x += y`` and the like.

A tensor that is not on the tape is overwritten in memory, as in NumPy: every tensor and array that
shares the memory sees the change, and a gradient that would need the old values is refused
(`_changes.py`). On the tape the change is recorded: the tensor becomes the result of an operation on
its old value. The old memory is left alone: nodes keep arrays rather than tensors, so what was
computed from the old value keeps its gradient.
"""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import _bind
from sknet.core import _primitive as p
from sknet.core._bind import Node, bind, check_one_device, explained
from sknet.core._changes import note_write
from sknet.core._hooks import move_keeping
from sknet.core._modes import modes, no_grad
from sknet.core._traced import TracedArray
from sknet.core._user_line import user_line
from sknet.device import MetaArray, backend_of
from sknet.exceptions import CaptureError, DtypeError, GradientError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["Changeable", "plain_index"]


def _in_place(operation: Callable[[Any, Any], Any], sign: str) -> Any:
    """Return the method that does an operation in place."""

    def change(self: Any, other: Any) -> Any:
        if _is_recorded(self, other):
            _become(self, sign, lambda: operation(self, other))
        else:
            with no_grad():
                result = operation(self, other)
            _check_fits(self, result, sign)
            _write(self, sign, Ellipsis, result.data)
        return self

    return change


class Changeable:
    """The operators that change a tensor in place."""

    __slots__ = ()
    data: Any
    node: Node | None

    __iadd__ = _in_place(operator.add, "+=")
    __isub__ = _in_place(operator.sub, "-=")
    __imul__ = _in_place(operator.mul, "*=")
    __itruediv__ = _in_place(operator.truediv, "/=")
    __ifloordiv__ = _in_place(operator.floordiv, "//=")
    __imod__ = _in_place(operator.mod, "%=")
    __ipow__ = _in_place(operator.pow, "**=")
    __iand__ = _in_place(operator.and_, "&=")
    __ior__ = _in_place(operator.or_, "|=")
    __ixor__ = _in_place(operator.xor, "^=")

    def _memory_to_write(self) -> Any:
        """Return the array that a change in place writes to."""
        return self.data

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        index = plain_index(index)
        if isinstance(value, np.generic):
            value = value.item()
        given = value if isinstance(value, (_bind.TensorType, float, int)) else _bind.TensorType(value)
        array = given.data if isinstance(given, _bind.TensorType) else given
        if _is_recorded(self, given):
            if self.node is not None and self.node.primitive is p.getitem and _is_view(self.node):
                raise GradientError(
                    "x[i][j] = value: on the tape x[i] is a value of its own, and x would not change: "
                    "write x[i, j] = value for that, or make a new tensor with ops.where"
                )
            params = {"index": index}
            _become(self, "[]=", lambda: bind(p.setitem, (self, given), params))
            return
        check_one_device(p.setitem, [self.data, array])
        is_float = isinstance(array, float) or getattr(array, "dtype", np.dtype(int)).kind == "f"
        if (is_float and self.dtype.kind != "f") or isinstance(self.data, MetaArray):
            p.setitem.shape(self.data, array, index=index)
        _write(self, "[]=", index, array)


def plain_index(index: Any) -> Any:
    """Take the arrays out of the tensors in an index."""
    if isinstance(index, tuple):
        return tuple(plain_index(i) for i in index)
    if isinstance(index, list):
        return np.asarray(index, dtype=None if index else np.intp)
    return index.data if isinstance(index, _bind.TensorType) else index


def _is_view(taken: Node) -> bool:
    """Tell whether what an index took is a view in NumPy, so that a change was meant to reach its base."""
    index = taken.params["index"]  # type: ignore[index]
    parts = index if isinstance(index, tuple) else (index,)
    return not any((hasattr(part, "dtype") and part.ndim) or isinstance(part, bool) for part in parts)


def _is_recorded(x: Any, other: Any) -> bool:
    on_tape = x.node is not None or (isinstance(other, _bind.TensorType) and other.node is not None)
    return on_tape and modes.grad


def _become(x: "Tensor", sign: str, compute: "Callable[[], Tensor]") -> None:
    """Let a tensor become the result of an operation on what it was."""
    node = x.node
    if node is not None and node.primitive is None:
        raise GradientError(
            f"{sign}: a leaf that requires a gradient, of shape {x.shape}, cannot be changed in place on the "
            "tape: make a new tensor (x = x + y), or change it inside no_grad()"
        )
    if modes.capturing and (node is None or not isinstance(x.data, TracedArray)):
        raise _frozen(x, sign)
    if x.dtype.kind != "f":
        raise DtypeError(f"{sign}: a tensor of dtype {x.dtype} cannot have a gradient: use .astype first")
    result = compute()
    _check_fits(x, result, sign)
    if result.dtype != x.dtype:
        result = result.astype(x.dtype)
    x.data, x.node, x._resting = result.data, result.node, None
    if node is not None:
        move_keeping(node, x)


def _write(x: "Tensor", sign: str, index: Any, values: Any) -> None:
    """Write to the memory of a tensor."""
    if modes.capturing:
        raise _frozen(x, sign)
    data = x._memory_to_write()
    if isinstance(data, MetaArray):
        return
    owner = backend_of(data)
    try:
        with owner.activate(owner.device_of(data)):
            data[index] = values
    except (ValueError, TypeError, IndexError) as error:
        raise explained(p.setitem, [data, values], {"index": index}, error) from error
    note_write(data)


def _check_fits(x: "Tensor", result: "Tensor", sign: str) -> None:
    if result.shape != x.shape:
        raise ShapeError(
            f"{sign}: a result of shape {result.shape} does not fit into the tensor of shape {x.shape}: "
            "make a new tensor"
        )
    if not np.can_cast(result.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"{sign}: a result of dtype {result.dtype} does not fit into the tensor of dtype {x.dtype}: "
            "make a new tensor, or use .astype"
        )


def _frozen(x: "Tensor", sign: str) -> CaptureError:
    return CaptureError(
        f"{sign}: a tensor of shape {x.shape} is changed in place, {user_line()}. In a captured function the "
        "change would be made once, at capture: make a new tensor (x = x + y; ops.where for a part)."
    )
