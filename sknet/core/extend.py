"""What operations, transforms and layers are built on; users of tensors do not need it.

``primitives`` holds the records that Python's operators need, by name, and ``param_kinds`` the types of
parameters. The rest is the tape from inside: its
nodes, the walk over them, the modes of a thread, and what else a transform has to know.
"""

from sknet.core import _param_kinds as param_kinds
from sknet.core import _primitive as primitives
from sknet.core._backward import (
    exchange_push,
    newest_first,
    ones_like,
    pull_back,
    push,
    zeros_like,
)
from sknet.core._bind import Node, next_time
from sknet.core._hooks import notes_of
from sknet.core._missed import missed
from sknet.core._modes import Context, modes
from sknet.core._numpy import OF_NUMPY
from sknet.core._repeat import first_run, repeatable
from sknet.core._tensor import make_tensor
from sknet.core._user_line import line_of, shown

__all__ = [
    "OF_NUMPY",
    "Context",
    "Node",
    "exchange_push",
    "first_run",
    "line_of",
    "make_tensor",
    "missed",
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
    "zeros_like",
]
