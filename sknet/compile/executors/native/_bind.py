"""The arrays of a native function: the memory of every value, viewed in the form that the source reads."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from sknet.compile._layout import Buffer
from sknet.compile.executors.native._host import HostCalls
from sknet.compile.executors.native._value import HostCall, Pasted, Value, View

__all__ = ["Stored", "bound_calls", "formed", "scratch_of"]

Stored = dict[Value, np.ndarray]


def array_of(value: Value, stored: Stored) -> np.ndarray:
    """Return the array of a value, in its shape; arrays of views are made on first use."""
    found = stored.get(value)
    if found is None:
        assert isinstance(value, View)
        found = stored[value] = value.applied(array_of(value.source, stored))
    return found


def formed(value: Value, form: Any, stored: Stored) -> np.ndarray:
    """Return the array of a value in a form.

    Parameters
    ----------
    value : Value
        Any that has memory, or is a view of one.
    form : tuple or str
        A shape; "loop", without axes of length 1; "flat", with one axis. ``("part", n)`` is the slice for the
        n-th operand of a `Pasted`; ``("spread", shape, lengths)`` is the array reshaped, then broadcast to
        these lengths; ``("stack", shape, lengths, merged)`` is that reshaped once more, without a copy. The
        first two have no axes of length 1.
    stored : dict of Value to ndarray
        The arrays of values that have memory.

    Returns
    -------
    ndarray
        A view.
    """
    array = array_of(value, stored)
    if form == "flat":
        return array.reshape(-1)
    kind = form[0] if isinstance(form, tuple) and form else None
    if kind == "part":
        assert isinstance(value, Pasted)
        return _long(array.reshape(value.shape)[value.places[form[1]]])
    if kind == "spread":
        _, shape, lengths = form
        return _long(_broadcast(array.reshape(shape), lengths))
    if kind == "stack":
        _, shape, lengths, merged = form
        return _broadcast(array.reshape(shape), lengths).reshape(merged)
    return array.reshape(form if isinstance(form, tuple) else (value.lengths or (1,)))


def _long(array: np.ndarray) -> np.ndarray:
    return array.reshape([n for n in array.shape if n != 1] or [1])


def _broadcast(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a writeable broadcast view: to Numba, a read-only array has another type."""
    if array.shape == shape:
        return array
    strides = np.broadcast_to(array, shape).strides
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def bound_calls(
    calls: list[list[HostCall]],
    scratch: Mapping[HostCall, list[Buffer]],
    memory: np.ndarray,
    stored: Stored,
) -> HostCalls:
    """Return the calls that are left to NumPy, bound to memory."""
    return HostCalls([[_bound(value, scratch[value], memory, stored) for value in each] for each in calls])


def _bound(
    value: HostCall, scratch: list[Buffer], memory: np.ndarray, stored: Stored
) -> Callable[[], object]:
    operands = iter(value.values)
    arrays = [array_of(next(operands), stored).reshape(x) if isinstance(x, tuple) else x for x in value.given]
    more: dict[str, Any] = {}
    if value.scratch:
        works_in = zip(scratch, value.scratch, strict=True)
        more["scratch"] = tuple([buffer.array(memory, *kind) for buffer, kind in works_in])
    out = array_of(value, stored).reshape(value.shape)
    if value.writes_out:
        return partial(value.forward, *arrays, **more, out=out)
    return partial(_copied, out, partial(value.forward, *arrays, **more))


def _copied(out: np.ndarray, compute: Callable[[], np.ndarray]) -> None:
    out[...] = compute()


def scratch_of(value: HostCall) -> list[Buffer]:
    """Return the scratch buffers of a call, whose lifetime is the call."""
    return [
        Buffer(math.prod(shape) * np.dtype(dtype).itemsize, value.stage, value.stage)
        for shape, dtype in value.scratch
    ]
