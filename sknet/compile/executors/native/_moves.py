"""Calls that move elements: copies, conversions, masks and indexing."""

import math
from typing import Any

import numpy as np

from sknet.compile.executors._calls import Call
from sknet.compile.executors.native._instructions import Kind, Tape
from sknet.compile.executors.native._layouts import (
    Array,
    code,
    copy,
    fill,
    is_apart,
    is_plain,
    merged,
    offset,
    strides_over,
)

__all__ = ["add_rows", "check_indices", "copied", "copyto", "gathered", "put", "take", "uniform"]

MOST_LOOPS = 64  # most instructions for one call


def copyto(tape: Tape, call: Call) -> bool:
    out, source, *_ = call.args
    named = dict(call.named)
    mask = named.pop("where", None)
    if named or type(out) is not np.ndarray:
        return False
    if type(source) in (int, float, bool):
        source = np.array(source, out.dtype)
        if mask is None and fill(tape, out, source.item()):
            return True
    if type(source) is not np.ndarray:
        return False
    if mask is not None:
        return _replace(tape, source, mask, out)
    if source.ndim > out.ndim or np.broadcast_shapes(source.shape, out.shape) != out.shape:
        return False
    return is_apart(out, source) and copied(tape, source, out)


def copied(tape: Tape, source: Array, out: Array, by: tuple[int, int, int] = (0, 0, 0)) -> bool:
    """Append copies of an array into another; `by` are steps in bytes between the training steps of a run."""
    kind = code(source.dtype, out.dtype)
    readable = all(x.flags.aligned and x.dtype.isnative for x in (source, out))
    if kind is None or not readable or (kind < 0 and any(by)):
        return False
    lengths, (a, b) = merged(out.shape, [strides_over(x, out.shape) for x in (source, out)])
    if not out.size:
        return True
    if math.prod(lengths[:-2]) > MOST_LOOPS:
        return False
    inner = (*[1] * (2 - len(lengths)), *lengths)[-2:]
    for place in np.ndindex(*lengths[:-2]):
        from_, to = (tape.address(x) + offset(place, steps) for x, steps in ((source, a), (out, b)))
        two = [(*[0] * (2 - len(steps)), *steps)[-2:] for steps in (a, b)]
        copy(tape, kind, from_, two[0], to, two[1], (inner[0], inner[1]), 0, by)
    return True


def gathered(tape: Tape, source: Array, slot: Array) -> bool:
    """Append copies of rows of an array into a batch; their addresses are filled in before a run."""
    kind = code(source.dtype, slot.dtype)
    if kind is None or not (source.flags.aligned and source.dtype.isnative) or not slot.size:
        return False
    shape = slot.shape[1:]
    lengths, (a, b) = merged(shape, [source.strides[1:], slot.strides[1:]])
    if math.prod(lengths[:-1]) > MOST_LOOPS:
        return False
    for place in np.ndindex(*lengths[:-1]):
        from_, to = (tape.address(x) + offset(place, steps) for x, steps in ((source, a), (slot, b)))
        copy(
            tape, kind, from_, (source.strides[0], a[-1]), to, (slot.strides[0], b[-1]),
            (slot.shape[0], lengths[-1]), 0, (8 * slot.shape[0], 0, 0),
        )  # fmt: skip
    return True


def _replace(tape: Tape, source: Array, mask: Any, out: Array) -> bool:
    if type(mask) is not np.ndarray or mask.shape != out.shape or mask.dtype.kind != "b" or not out.size:
        return False
    if source.dtype != out.dtype or source.shape not in (out.shape, ()) or not is_plain(source, mask, out):
        return False
    if out.itemsize not in (4, 8) or not is_apart(out, source):
        return False
    stride = out.itemsize if source.shape else 0
    places = tape.address(source), stride, tape.address(mask), tape.address(out)
    tape.add(Kind.REPLACE, out.itemsize, *places, out.size)
    return True


# -- indices ------------------------------------------------------------------------------------


def _is_index(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype == np.int64 and is_plain(x)


def take(tape: Tape, call: Call) -> bool:
    if call.named or len(call.args) not in (4, 5):
        return False
    x, rows, axis, out, *mode = call.args
    if not _is_index(rows) or not is_plain(x, out) or x.dtype != out.dtype or np.may_share_memory(x, out):
        return False
    if not mode:
        if x.ndim != 1 or axis is not None or x.dtype != np.int64:
            return False
        tape.add(Kind.TABLE, 0, tape.address(x), x.size, *map(tape.address, (rows, out)), rows.size)
        return True
    kind, length = code(x.dtype, x.dtype), math.prod(x.shape[1:]) if axis == 0 else 1
    if mode != ["clip"] or kind is None or axis not in (0, None):
        return False
    size = x.itemsize
    strides = [length * size, size]
    copy(
        tape, kind, tape.address(x), strides, tape.address(out), strides, (rows.size, length),
        tape.address(rows),
    )  # fmt: skip
    return True


def put(tape: Tape, call: Call) -> bool:
    out, places, values = call.args
    if not _is_index(places) or not is_plain(out, values) or out.ndim != 1 or out.dtype != values.dtype:
        return False
    if values.size != places.size or out.itemsize not in (4, 8):
        return False
    tape.add(Kind.PUT, out.itemsize, *map(tape.address, (out, places, values)), places.size)
    return True


def check_indices(tape: Tape, call: Call) -> bool:
    indices, length, *_ = call.args
    if not is_plain(indices) or indices.dtype.kind not in "iu":
        return False
    # Read as unsigned integers, negative numbers exceed all that a signed integer can be.
    bound = min(length, int(np.iinfo(indices.dtype).max) + 1) if indices.dtype.kind == "i" else length
    tape.add(Kind.BOUNDS, indices.itemsize, tape.address(indices), indices.size, bound)
    return True


def add_rows(tape: Tape, call: Call) -> bool:
    _, count, length, starts, rows, ones, values, out = call.args
    fits = _is_index(rows) and is_plain(values, out) and values.dtype == out.dtype
    if not fits or out.dtype.char not in "fd" or not np.array_equal(starts, np.arange(count + 1)):
        return False
    if not (ones == 1).all():
        return False
    tape.add(
        Kind.ADD_ROWS, out.itemsize, tape.address(out), length, *map(tape.address, (rows, values)), count
    )
    return True


# -- random numbers -----------------------------------------------------------------------------


def uniform(tape: Tape, call: Call) -> bool:
    key, site, shape = call.function.args
    step, out = call.args
    if not is_plain(out) or out.dtype != np.float32 or out.shape != shape or step.dtype != np.int64:
        return False
    halves = np.array(key, np.uint64).view(np.int64).tolist()
    tape.add(Kind.UNIFORM, 0, tape.address(out), out.size, *halves, site, tape.address(step))
    return True
