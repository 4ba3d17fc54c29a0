"""Leaves of whose gradient a tape knows a part, or nothing, since they were frozen when it was recorded."""

from collections.abc import Sequence

from sknet.core._backward import newest_first
from sknet.core._tensor import Tensor, resting_node

__all__ = ["missed"]


def missed(output: Tensor, leaves: Sequence[Tensor], frozen: Sequence[Tensor] = ()) -> list[Tensor] | None:
    """Return the leaves that an output may have been computed from without a record of it."""
    if output.node is None:
        return None
    nodes = newest_first(output.node)
    own = {leaf.node for leaf in leaves}
    if output.node not in own and not any(p in own for node in nodes for p in node.parents if p):
        return None
    own.update(node for node in map(resting_node, frozen) if node is not None)
    uses = [node.order for node in nodes if any(p in own for p in node.parents if p)]
    return [
        leaf for leaf in leaves if any(start < use < end for start, end in _absences(leaf) for use in uses)
    ]


def _absences(leaf: Tensor) -> list[tuple[int, int]]:
    """Return from when until when a leaf required no gradient."""
    notes = getattr(leaf.node, "notes", None)
    return [(-1, leaf.node.order), *([] if notes is None else notes.absences)]  # type: ignore[union-attr]
