"""Rows of the operations recorded for in-place changes."""

import numpy as np

from sknet.core import PRIMITIVES, as_tensor, bind
from tests.contracts.table import Case, Row, real

__all__ = ["ROWS"]


def _with(x, value, index):
    out = np.array(x)
    out[index] = value
    return out


def _with_torch(x, value, index):
    out = x.clone()
    out[index] = value
    return out


def _setitem(x, value, index):
    given = value if isinstance(value, float) else as_tensor(value)
    return bind(PRIMITIVES["setitem"], (as_tensor(x), given), {"index": index})


ROWS = [
    Row(
        "setitem",
        _with,
        [
            Case((real(3, 4), real(4)), {"index": 0}),
            Case((real(3, 4), real(2, 1)), {"index": (slice(1, None), slice(None, 2))}),
            Case((real(3, 4), real()), {"index": Ellipsis}),
            Case((real(3, 4), real(2, 4)), {"index": np.array([2, 0])}),
            Case((real(3, 4), real(2)), {"index": (np.array([0, 2]), np.array([3, 1]))}),
            Case((real(3, 4), real(2, 4)), {"index": np.array([True, False, True])}),
            Case((real(5), real()), {"index": -1}),
            Case((real(0, 3), real(3)), {"index": slice(None)}),
        ],
        "setitem",
        call=_setitem,
        torch=_with_torch,
    ),
]
