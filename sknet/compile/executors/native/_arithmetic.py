"""Calls that compute: functions of elements, reductions, and products."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet.compile.executors._calls import Call
from sknet.compile.executors.native._addresses import level_1, loop_of, place_of
from sknet.compile.executors.native._instructions import Kind, Meaning, Spread, Tape
from sknet.compile.executors.native._layouts import (
    Array,
    copy,
    fill,
    is_apart,
    is_plain,
    loop,
    looped,
    merged,
    padded,
    strides_over,
)

__all__ = ["add_multiple", "check_finite", "dot", "largest", "matmul", "reduce", "ufunc", "vectors"]

SPREADS: dict[Any, Spread] = {
    np.add: Spread.ADD_ROW,
    np.subtract: Spread.SUBTRACT_COLUMN,
    np.multiply: Spread.MULTIPLY_COLUMN,
    np.divide: Spread.DIVIDE_COLUMN,
}
# Ufuncs whose result depends on the operands alone, not on where in memory an element is.
EXACT = frozenset(
    {
        np.absolute, np.add, np.copysign, np.ceil, np.divide, np.equal, np.floor, np.greater,
        np.greater_equal, np.isfinite, np.isinf, np.isnan, np.less, np.less_equal, np.logical_and,
        np.logical_not, np.logical_or, np.maximum, np.minimum, np.multiply, np.negative, np.not_equal,
        np.positive, np.rint, np.sign, np.signbit, np.sqrt, np.square, np.subtract, np.trunc,
    }
)  # fmt: skip


# Ufuncs whose loops round an element by its position among some, a power of 2: those of parts are the same.
EVEN = frozenset({np.exp, np.expm1, np.log, np.log1p, np.tanh})
MEANINGS: dict[Any, Meaning] = {
    np.maximum: Meaning.RELU,
    np.greater: Meaning.IS_POSITIVE,
    np.square: Meaning.SQUARE,
    np.multiply: Meaning.SQUARE,  # if both operands are the same
    np.sqrt: Meaning.ROOT,
    np.add: Meaning.SUM,
    np.divide: Meaning.QUOTIENT,
}


# -- elementwise --------------------------------------------------------------------------------


def ufunc(tape: Tape, call: Call) -> bool:
    function: Any = call.function
    named = dict(call.named)
    given = [*call.args, named.pop("out")] if "out" in named else list(call.args)
    if named or len(given) != function.nin + 1 or function.nout != 1 or len(given) > 4:
        return False
    out = given[-1]
    operands = _as_arrays(given[:-1])
    if type(out) is not np.ndarray or operands is None:
        return False
    arrays = [*operands, out]
    if np.broadcast_shapes(*[x.shape for x in arrays]) != out.shape or not all(
        x.flags.aligned and x.dtype.isnative and min(x.strides, default=0) >= 0 for x in arrays
    ):
        return False
    if not out.size:
        return True
    if not is_apart(out, *operands):
        return False
    if function is np.multiply and _masked(tape, *arrays):
        return True
    inner = loop_of(function, tuple(x.dtype for x in arrays))
    if inner is None:
        return False
    if function in SPREADS and _spread(tape, function, *arrays):
        return True
    lengths, strides = merged(out.shape, [strides_over(x, out.shape) for x in arrays])
    if len(lengths) > 1 and function not in EXACT:
        return False
    return looped(
        tape,
        inner,
        arrays,
        lengths,
        strides,
        _meaning(function, arrays),
        function in EXACT or function in EVEN,
    )


def _meaning(function: Any, arrays: Sequence[Array]) -> Meaning:
    found = MEANINGS.get(function, Meaning.OTHER)
    if found in (Meaning.RELU, Meaning.IS_POSITIVE):
        # Only constants of a plan are read-only.
        return Meaning.OTHER if arrays[1].flags.writeable or arrays[1].any() else found
    if any(x.dtype.char not in "fd" for x in arrays):
        return Meaning.OTHER
    if function is np.multiply and place_of(arrays[0]) != place_of(arrays[1]):
        return Meaning.OTHER
    return found


def _as_arrays(operands: Sequence[Any]) -> list[Array] | None:
    """Return operands as arrays; numbers get the dtype of the arrays."""
    dtypes = {x.dtype for x in operands if type(x) is np.ndarray}
    if len(dtypes) == 1 and all(type(x) in (np.ndarray, int, float) for x in operands):
        [dtype] = dtypes
        return [np.asarray(x, dtype) for x in operands]
    return list(operands) if all(type(x) is np.ndarray for x in operands) else None


def _spread(tape: Tape, function: Any, x: Array, y: Array, out: Array) -> bool:
    """Append an operation of a matrix and a row or column that is broadcast to it."""
    if function in (np.add, np.multiply) and x.shape != out.shape:
        x, y = y, x
    if x.shape != out.shape or out.dtype.char not in "fd" or not is_plain(x, y, out):
        return False
    lengths, [_, of_y] = merged(out.shape, [strides_over(a, out.shape) for a in (x, y)])
    size = out.itemsize
    if len(lengths) != 2 or of_y != ([0, size] if function is np.add else [size, 0]):
        return False
    tape.add(Kind.SPREAD, size, SPREADS[function], *map(tape.address, (x, y, out)), *lengths)
    return True


def _masked(tape: Tape, x: Array, mask: Array, out: Array) -> bool:
    """Append the product of an array, read as integers, and a mask."""
    is_mask = mask.dtype.kind == "b" and x.dtype.kind == "i" and x.dtype == out.dtype and x.itemsize in (4, 8)
    if not is_mask or not x.shape == mask.shape == out.shape or not is_plain(x, mask, out):
        return False
    tape.add(Kind.MASK, x.itemsize, *map(tape.address, (x, mask, out)), x.size)
    return True


# -- reductions ---------------------------------------------------------------------------------


def reduce(tape: Tape, call: Call) -> bool:
    function: Any = getattr(call.function, "__self__", None)
    if function not in (np.add, np.maximum, np.minimum) or call.named or len(call.args) not in (4, 5):
        return False
    x, axis, _, out = call.args[:4]
    axes = sorted(a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,)))
    inner = loop_of(function, (out.dtype, x.dtype, out.dtype)) if type(out) is np.ndarray else None
    if inner is None or not is_plain(x, out) or not x.size or x.dtype.char not in "fd":
        return False
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return False
    before, n, behind = (math.prod(x.shape[part]) for part in _parts(axes))
    size, begin = x.itemsize, 0
    if function is np.add:
        fill(tape, out, 0)
    else:  # begins with the first
        begin = 1
        steps = [n * behind * size, size, behind * size, size]
        copy(tape, size, tape.address(x), steps[:2], tape.address(out), steps[2:], (before, behind))
    first, target = tape.address(x) + begin * behind * size, tape.address(out)
    if n == begin:
        return True
    each = n * behind * size
    if behind == 1:
        loop(tape, inner, [target, first, target], (before, [size, each, size]), [n - begin], [0, size, 0])
    else:
        whole = behind * size
        loop(
            tape, inner, [target, first, target], (n - begin, [0, whole, 0]), [behind], [size] * 3,
            (before, [whole, each, whole]),
        )  # fmt: skip
    return True


def largest(tape: Tape, call: Call) -> bool:
    number, x = call.args
    return reduce(tape, Call(np.maximum.reduce, (x.reshape(-1), 0, None, number)))


def _parts(axes: list[int]) -> tuple[slice, slice, slice]:
    return slice(axes[0]), slice(axes[0], axes[-1] + 1), slice(axes[-1] + 1, None)


# -- products -----------------------------------------------------------------------------------


def dot(tape: Tape, call: Call) -> bool:
    if call.named or len(call.args) != 3:
        return False
    a, b, out = call.args
    if (
        any(type(x) is not np.ndarray for x in (a, b, out))
        or min(a.ndim, b.ndim) < 1
        or max(a.ndim, b.ndim) > 2
    ):
        return False
    if not all(x.flags.c_contiguous or x.flags.f_contiguous for x in (a, b)) or not out.flags.c_contiguous:
        return False  # it would copy
    first, second = a[np.newaxis] if a.ndim == 1 else a, b[:, np.newaxis] if b.ndim == 1 else b
    result = out.reshape(first.shape[0], second.shape[1])
    if first.shape[1] < 2 and result.size > 1:
        return False  # a column times a row: other functions of BLAS
    return _multiplied(tape, first, second, result)


def matmul(tape: Tape, call: Call) -> bool:
    named = dict(call.named)
    given = [*call.args, named.pop("out")] if "out" in named else list(call.args)
    if named or len(given) != 3 or any(type(x) is not np.ndarray or x.ndim < 2 for x in given):
        return False
    return _multiplied(tape, *given)


def _multiplied(tape: Tape, a: Array, b: Array, out: Array) -> bool:
    inner = loop_of(np.matmul, (a.dtype, b.dtype, out.dtype))
    arrays = a, b, out
    if inner is None or out.dtype.char not in "fd" or not all(x.flags.aligned for x in arrays):
        return False
    if np.may_share_memory(a, out) or np.may_share_memory(b, out):
        return False
    if not out.size:
        return True
    batch = out.shape[:-2]
    if np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) != batch:
        return False
    lengths, strides = merged(batch, [_strides_over_batch(x, batch) for x in arrays])
    if len(lengths) > 3:
        return False
    outer = [*[1] * (3 - len(lengths)), *lengths]
    steps = [[*[0] * (3 - len(each)), *each] for each in strides]
    core = [s for x in arrays for s in x.strides[-2:]]
    loop(
        tape, inner, [tape.address(x) for x in arrays], (outer[1], [each[1] for each in steps]),
        [outer[2], a.shape[-2], a.shape[-1], b.shape[-1]], [*[each[2] for each in steps], *core],
        (outer[0], [each[0] for each in steps]),
    )  # fmt: skip
    return True


def _strides_over_batch(x: Array, batch: tuple[int, ...]) -> tuple[int, ...]:
    own = [0 if n == 1 else s for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True)]
    return (*[0] * (len(batch) - len(own)), *own)


def vectors(tape: Tape, call: Call) -> bool:
    found = level_1(call.function)
    if found is None or call.named:
        return False
    name, dtype, address = found
    if name == "scal":
        factor, x = call.args
        vectors, size = [x], x.size
    else:
        x, y, *more = call.args
        size, factor = more if more else (x.size, 1.0)
        vectors = [x, y]
    return _blas(tape, Kind.BLAS, dtype, address, vectors, size, factor)


def _blas(
    tape: Tape, kind: Kind, dtype: Any, address: int, vectors: list[Array], size: int, factor: Any
) -> bool:
    if not is_plain(*vectors) or any(x.dtype != dtype for x in vectors):
        return False
    if isinstance(factor, np.ndarray):
        if factor.dtype != dtype:
            return False
        scale = tape.address(factor)
    else:
        scale = tape.number(factor, dtype)
    one, whole = tape.number(1, np.dtype(np.int64)), np.dtype(np.int64)
    places = [place for x in vectors for place in (tape.address(x), one)]
    fields = [tape.number(size, whole), scale, *padded(places, 4)]
    if kind == Kind.ADD_MULTIPLE:
        tape.add(kind, dtype.itemsize, address, *fields, size)
    else:
        is_known = not isinstance(factor, np.ndarray) and dtype.type(factor) != 0
        tape.add(kind, address, *fields, size, dtype.itemsize, is_known)
    return True


def add_multiple(tape: Tape, call: Call) -> bool:
    axpy, source, target, size, factor = call.args
    found = level_1(axpy)
    if found is None:
        return False
    return _blas(tape, Kind.ADD_MULTIPLE, found[1], found[2], [source, target], size, factor)


def check_finite(tape: Tape, x: Array, *terms: Array) -> None:
    """End a run unless the sum of squares of an array, and the sum of up to two numbers, are finite."""
    squares, zero = np.zeros((1, 1), x.dtype), tape.number(0, x.dtype)
    _multiplied(tape, x.reshape(1, -1), x.reshape(-1, 1), squares)
    numbers = [*map(tape.address, terms), zero, zero]
    tape.add(Kind.FINITE, x.itemsize, *numbers[:2], tape.address(squares))
