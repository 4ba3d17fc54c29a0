"""Recurrent networks for which no gradient is needed: sequences in, outputs out, and nothing is kept."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.device import Namespace, backend
from sknet.ops._recurrent_cells import CELLS, RECURS
from sknet.ops._recurrent_shares import Arrays, Divided, Shape, rooms_of
from sknet.ops._rules import check_floating

__all__ = ["outputs_alone"]


def _forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    check_floating("recurrence_outputs", x)
    net = Divided.of(xp, x, w, lengths, cell)
    scratch = rooms_of(xp, scratch, net.scratch(w.dtype))
    if out is None:
        out = xp.empty(_shape(x, w_ih, w, b, state, lengths, cell, reverse)[0], dtype=w.dtype)
    net.forward(xp, x, w_ih, w, (b, state, lengths), reverse, [out], scratch)
    return out


def _shape(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    check_floating("recurrence_outputs", x)
    return (x.shape[0], x.shape[1] + CELLS[cell].states - 1, w.shape[0]), w.dtype


def _scratch(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, *, cell: str, reverse: bool
) -> Arrays:
    """Plans for devices have memory of their own for it."""
    return Divided.of(backend("cpu").xp, x, w, lengths, cell).scratch(w.dtype)


_outputs = Primitive("recurrence_outputs").define(
    forward=_forward, shape=_shape, params=RECURS, vjp=None, scratch=_scratch
)


def outputs_alone(
    x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one."""
    return bind(_outputs, (x, w_ih, w, b, state, lengths), {"cell": cell, "reverse": reverse})
