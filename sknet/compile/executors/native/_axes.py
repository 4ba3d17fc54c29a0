"""Axes that always occur together are merged, so that most arrays of many axes become matrices."""

from collections.abc import Iterable
from itertools import pairwise

from sknet.compile.executors.native._value import Axis, Value, View

__all__ = ["collapse"]


def collapse(values: Iterable[Value]) -> None:
    """Merge two axes if every value that has one of them has both, contiguous in memory.

    Graphs whose arrays have at most two axes stay as they are.

    Parameters
    ----------
    values : iterable of Value
        All values of a graph; their axes are changed.
    """
    values = list(values)
    if all(len(value.own_axes) <= 2 for value in values):
        return
    followers = _followers(values)
    heads: dict[Axis, list[Axis]] = {}
    inside = set(followers.values())
    for axis in followers:
        if axis not in inside:
            chain = heads[axis] = [axis]
            while chain[-1] in followers:
                chain.append(followers[chain[-1]])
    merged = {axis: Axis(_product(chain)) for axis, chain in heads.items()}
    for value in values:
        value.own_axes = tuple([merged.get(axis, axis) for axis in value.axes if axis not in inside])


def _followers(values: list[Value]) -> dict[Axis, Axis]:
    """Map each axis to the one that always follows it, if there is one."""
    after: dict[Axis, set[Axis | None]] = {}
    before: dict[Axis, set[Axis | None]] = {}
    many: set[tuple[Axis, Axis]] = set()
    for value in values:
        axes = value.axes
        apart = _apart(value)
        for i, axis in enumerate(axes):
            after.setdefault(axis, set()).add(axes[i + 1] if i + 1 < len(axes) and i not in apart else None)
            before.setdefault(axis, set()).add(axes[i - 1] if i and i - 1 not in apart else None)
        if len(axes) > 2:
            many.update(pairwise(axes))
    return {
        axis: follower
        for axis, found in after.items()
        if len(found) == 1
        and (follower := next(iter(found))) is not None
        and follower is not axis
        and before[follower] == {axis}
        and (axis, follower) in many
    }


def _apart(value: Value) -> set[int]:
    """Return the positions of axes that are not contiguous with the next one."""
    if not isinstance(value, View) or value.is_contiguous:
        return set()
    lengths, strides = value.lengths, value.strides
    return {i for i in range(len(lengths) - 1) if strides[i] != strides[i + 1] * lengths[i + 1]}


def _product(chain: list[Axis]) -> int:
    size = 1
    for axis in chain:
        size *= axis.size
    return size
