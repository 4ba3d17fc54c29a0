"""What was overwritten, and when, so that no gradient is computed from overwritten values.

A node of the tape has a place in time, its `order`. A write to memory notes the time at which it was
made, for the array that owns the memory and for as long as that lives. As long as nothing was
overwritten, nothing is looked up. For a value that was overwritten, a node's rules get a stand-in:
its shape and dtype can still be read, its elements cannot.
"""

import weakref
from typing import Any, NoReturn

from sknet.core._bind import Node, next_time, operands_of
from sknet.core._primitive import Primitive
from sknet.core._traced import TracedArray
from sknet.core._user_line import Line, line_of, shown
from sknet.device import MetaArray, device_of, is_array
from sknet.exceptions import GradientError

__all__ = ["CHANGES", "any_older", "note_write", "owner_of", "unchanged_operands_of"]


class Change:
    """The latest write to the memory of an array: when, by what, and in which line of the user's code."""

    __slots__ = ("by", "line", "reference", "time")

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self.time = 0
        self.by: str | None = None
        self.line: Line | None = None


CHANGES: dict[int, Change] = {}


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory which `array` is a view of."""
    base = getattr(array, "base", None)
    while base is not None:
        if is_array(base):
            array = base
        base = getattr(base, "base", None)  # NumPy puts an object of its own below a strided view
    return array


def note_write(array: Any, by: str | None = None) -> None:
    """Tell the tape that the memory of an array was overwritten, outside of any operation.

    Code that writes to memory from which a tensor may have been computed must call this after writing:
    a later ``backward`` that reads a value which was recorded before the write then raises a
    `GradientError` instead of mixing old results with new values. Takes about a microsecond.

    Parameters
    ----------
    array : array
        What was written to, on any device. All arrays that share its memory count as overwritten: for
        a buffer with many views, one call for the buffer is enough.
    by : str, default=None
        What wrote, for the message, such as ``"Model.step"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Tensor
    >>> flat = np.ones(4)
    >>> weight = Tensor(flat[:2], requires_grad=True)
    >>> loss = (weight * weight).sum()
    >>> flat *= 0.9
    >>> note_write(flat, "the update")
    >>> loss.backward()
    Traceback (most recent call last):
        ...
    sknet.exceptions.GradientError: multiply: a value of shape (2,) that its gradient reads ...
    """
    if isinstance(array, MetaArray):
        return
    owner = owner_of(array)
    key = id(owner)
    change = CHANGES.get(key)
    if change is None or change.reference() is not owner:
        change = Change(weakref.ref(owner, lambda _: CHANGES.pop(key, None)))
    change.by, change.line, change.time = by, line_of(), next_time()
    CHANGES[key] = change


def any_older(order: list[Node]) -> bool:
    """Tell whether one of some nodes, which come newest first, was recorded before the latest write."""
    if not CHANGES:
        return False
    oldest = next((node.order for node in reversed(order) if node.primitive is not None), None)
    return oldest is not None and any(change.time > oldest for change in list(CHANGES.values()))


def unchanged_operands_of(node: Node) -> tuple[Any, list[Any]]:
    """Return the same as `operands_of`, with stand-ins for what was overwritten since."""
    out, inputs = operands_of(node)
    if not isinstance(node.primitive, Primitive):  # a custom function, which may read values in any way
        outputs = node.output if isinstance(node.output, tuple) else ()
        for value in (*outputs, *[getattr(x, "data", None) for x in inputs]):
            _check(node, value)
        return out, inputs
    for value in (node.params or {}).values():
        for part in value if isinstance(value, tuple) else (value,):
            _check(node, part)
    for x in (out, *inputs):
        data = getattr(x, "data", None)
        change = _change_of(node, data)
        if change is not None:
            x.data = _Overwritten(node, data, change)
    return out, inputs


def _change_of(node: Node, value: Any) -> Change | None:
    """Return the write to the memory of a value that came after its node, if there was one."""
    if isinstance(value, MetaArray) or not is_array(value):
        return None
    change = CHANGES.get(id(owner_of(value)))
    return change if change is not None and change.time > node.order else None


def _check(node: Node, value: Any) -> None:
    change = _change_of(node, value)
    if change is not None:
        _refuse(node, value.shape, change)


def _refuse(node: Node, shape: tuple[int, ...], change: Change) -> NoReturn:
    primitive: Any = node.primitive
    by = f"by {change.by}, " if change.by else ""
    raise GradientError(
        f"{primitive.name}: a value of shape {tuple(shape)} that its gradient reads was changed in place "
        f"after it was used, {by}{shown(change.line)}. Make a new tensor there (x = x + y in place of "
        "x += y, ops.where in place of x[index] = y), or make the change after backward()."
    )


class _Overwritten(TracedArray):
    """Replaces an overwritten array: a rule may read its shape and dtype; computing with it raises."""

    __slots__ = ("_change", "_node")

    def __init__(self, node: Node, array: Any, change: Change) -> None:
        super().__init__(array.shape, array.dtype, device_of(array))
        self._node, self._change = node, change

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> NoReturn:
        _refuse(self._node, self.shape, self._change)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self._node, self.shape, self._change)
