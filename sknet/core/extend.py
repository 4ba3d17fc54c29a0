"""Building blocks of operations, transforms and layers; users of tensors do not need them.

``primitives`` holds the records that Python's operators need, by name, and ``param_kinds`` the types of
parameters. The rest is the tape from inside: its
nodes, the walk over them, the modes of a thread, and what else a transform has to know.
"""

from sknet.core import _param_kinds as param_kinds
from sknet.core import _primitive as primitives
from sknet.core._backward import (
    exchange_push,
    newest_first,
    notes_of,
    ones_like,
    pull_back,
    push,
    zeros_like,
)
from sknet.core._modes import Context, first_run, modes, repeatable
from sknet.core._tape import Node, line_of, next_time, shown
from sknet.core._tensor import OF_NUMPY, make_tensor, untracked_leaves

__all__ = [
    "OF_NUMPY",
    "Context",
    "Node",
    "exchange_push",
    "first_run",
    "line_of",
    "make_tensor",
    "modes",
    "newest_first",
    "next_time",
    "notes_of",
    "ones_like",
    "param_kinds",
    "primitives",
    "pull_back",
    "push",
    "repeatable",
    "shown",
    "untracked_leaves",
    "zeros_like",
]
