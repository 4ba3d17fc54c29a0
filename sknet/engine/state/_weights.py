"""Weights saved before some parameters of the model were frozen or unfrozen."""

from typing import TYPE_CHECKING

from sknet.engine.state._layout import Layout
from sknet.engine.state._state import Weights

if TYPE_CHECKING:
    from sknet.engine.state._memory import Memory

__all__ = ["arranged"]


def arranged(memory: "Memory", weights: Weights, layout: Layout) -> Weights:
    """Return weights in the layout of the parameters trained now; restore those that are frozen now."""
    known = {**weights.frozen, **layout.views(weights.flat)}
    for name in memory.frozen.keys() & layout.shapes.keys():
        memory.frozen[name].data[...] = known[name]
    flat = memory.zeros()
    memory.layout.fill(flat, {name: known.get(name, p.data) for name, p in memory.leaves.items()})
    slots = {slot: memory.slots[slot].copy() for slot in weights.slots}
    for slot, array in weights.slots.items():
        mine = memory.layout.views(slots[slot])
        for name in mine.keys() - layout.shapes.keys():
            mine[name][...] = 0  # a frozen parameter had no average
        for name, kept in layout.views(array).items():
            target = mine.get(name, memory.resting.get(name, {}).get(slot))
            if target is not None:
                target[...] = kept
    return weights._replace(flat=flat, slots=slots)
