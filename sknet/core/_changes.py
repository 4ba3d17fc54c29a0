"""What was changed in place, and when: so that no gradient is computed from changed values.

A node of the tape has a place in time, its `order`. A change notes the time at which it was made:
for the array that owns the memory that was written to, or for the tensor that became another
value, and for as long as that lives. Where nothing was ever changed in place, nothing is looked up.
"""

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sknet.core import _bind
from sknet.core._bind import Node, next_time
from sknet.core._place import Line, line_of, shown
from sknet.device import MetaArray, is_array
from sknet.exceptions import GradientError

__all__ = ["CHANGES", "any_older", "check_unchanged", "note_change", "owner_of"]


class Change(NamedTuple):
    """The latest change of what `reference` refers to."""

    reference: Any
    time: int
    line: Line | None


CHANGES: dict[int, Change] = {}


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory which `array` is a view of."""
    while (base := getattr(array, "base", None)) is not None and is_array(base):
        array = base
    return array


def note_change(changed: Any) -> None:
    """Note that a tensor has become another value, or that the memory of an array was written to."""
    if not isinstance(changed, _bind.TensorType):
        changed = owner_of(changed)
    key = id(changed)
    reference = weakref.ref(changed, lambda _: CHANGES.pop(key, None))
    CHANGES[key] = Change(reference, next_time(), line_of())


def any_older(nodes: Iterable[Node]) -> bool:
    """Tell whether one of some nodes was recorded before the latest change."""
    if not CHANGES:
        return False
    latest = max([change.time for change in list(CHANGES.values())], default=0)
    return any(node.order < latest and node.primitive is not None for node in nodes)


def check_unchanged(node: Node) -> None:
    """Raise if a value that the rules of a node read was changed since the node was recorded."""
    for value in _read(node):
        change = CHANGES.get(id(value))
        if change is not None and change.time > node.order:
            name = node.primitive.name  # type: ignore[union-attr]
            raise GradientError(
                f"{name}: a value of shape {tuple(value.shape)} that its gradient reads was changed in place "
                f"after it was used, {shown(change.line)}. Make a new tensor there (x = x + y in place of "
                "x += y, ops.where in place of x[index] = y), or make the change after backward()."
            )


def _read(node: Node) -> Iterator[Any]:
    """Yield the tensors, and the owners of the arrays, that a node keeps for its rules."""
    outputs = node.output if isinstance(node.output, tuple) else (node.output,)
    for value in (*(node.inputs or ()), *outputs, *(node.params or {}).values()):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, _bind.TensorType):
                yield part
                part = part.data
            if not isinstance(part, MetaArray) and is_array(part):
                yield owner_of(part)
