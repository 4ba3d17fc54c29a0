"""Leaves that a tape misses in part: those frozen while some operations were recorded."""

import math

import pytest

from sknet import Tensor
from sknet.core._tensor import untracked_leaves

# Actions on w and b, in order: "-w" freezes, "+w" unfreezes, and a letter or two record a product of them.
CASES = [
    ("w b", ""),
    ("wb -w +w", ""),
    ("-w b +w", "w"),
    ("-w b +w wb", "w"),
    ("wb -w b +w", "w"),
    ("wb -w b +w wb", "w"),
    ("wb -w b", ""),
    ("-w +w b", ""),
    ("-w b +w -b", ""),
    ("-w b +w -b w", "w"),  # b, which shows when the first term was recorded, is frozen by now
    ("-b w +b -w b +w wb", "wb"),
    ("-w b +w -w +w", "w"),
]


@pytest.mark.parametrize(("events", "expected"), CASES)
def test_what_a_tape_misses(events, expected):
    leaves = {"w": Tensor([2.0], requires_grad=True), "b": Tensor([3.0], requires_grad=True)}
    total = Tensor([1.0], requires_grad=True) * 1
    for event in events.split():
        if event[0] in "+-":
            leaves[event[1]].requires_grad = event[0] == "+"
        else:
            total = total + math.prod(leaves[name] for name in event)
    trained = [leaf for leaf in leaves.values() if leaf.requires_grad]
    found = untracked_leaves(total, trained, [leaf for leaf in leaves.values() if not leaf.requires_grad])
    assert [name for name, leaf in leaves.items() if any(leaf is each for each in found or ())] == [*expected]
    assert (found is None) == (events == "-w b +w -b")  # nothing that is trained now was recorded
