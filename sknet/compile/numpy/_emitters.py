"""Plans as calls of NumPy with ``out=``: one short emitter for each primitive.

For a primitive without an emitter, its own forward is called: a ufunc with the output as last argument,
any other function with ``out=``.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._frames import is_basic, may_repeat, rows_of, with_ellipsis
from sknet._late import above, sparsetools
from sknet._parallel import SMALL, small_limit
from sknet._warnings import silently
from sknet.compile._calls import (
    NO_SLOTS,
    Call,
    Emitter,
    Name,
    Program,
    Writer,
    bound,
    forward_scratch,
    registry,
)
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._plan import Finish, Plan
from sknet.compile.passes import BLOCK, Group, fuse, in_parts
from sknet.device import backend, philox_uniform
from sknet.ops import SparseSlot

Needs = list[tuple[tuple[int, ...], Any]]  # shape and dtype of scratch arrays
Scratch = Callable[[Equation], Needs]

EMITTERS: dict[str, Emitter] = {}
SCRATCH: dict[str, Scratch] = {}
REAL = "fd"  # dtypes of BLAS: arrays of other floating dtypes would be converted
ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide"})
WIDE = 1 << 16  # up to this many elements, a constant array of zeros is worth its memory


emitter = registry(EMITTERS)  # registers how primitives are called
scratch = registry(SCRATCH)  # registers the scratch arrays that they need


def emit(w: Writer, equation: Equation) -> None:
    special = EMITTERS.get(equation.primitive.name)
    if special is None:
        by_its_forward(w, equation)
    else:
        special(w, equation)


def by_its_forward(w: Writer, equation: Equation) -> None:
    primitive = equation.primitive
    forward = primitive.forward_on(backend("cpu"))
    operands = w.operands(equation)
    if w.exact and primitive.name in ARITHMETIC and not w.is_dividing:
        operands = _unbroadcast(w, equation, operands)
    if isinstance(forward, np.ufunc) and forward not in (np.maximum, np.minimum):  # faster without a keyword
        w.call(forward, *operands, w.name(equation.output), label=primitive.name)
    else:
        w.forward_call(equation, forward, operands)


def _unbroadcast(w: Writer, equation: Equation, operands: list[Name]) -> list[Name]:
    """Return operands in the shape of the output, or of one number, where they have as many elements."""
    output, found = equation.output, []
    for x, name in zip(equation.operands, operands, strict=True):
        if type(x) is Variable and x.shape != output.shape and w.plan.views.is_contiguous(x):
            if x.size == output.size:
                name = w.reshaped(x, output.shape)
            elif x.size == 1:
                name = w.reshaped(x, ())
        found.append(name)
    return found


def scratch_of(equation: Equation, exact: bool) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of the arrays that an equation needs besides its output."""
    needed = SCRATCH.get(equation.primitive.name)
    return needed(equation) if needed is not None else forward_scratch(equation)


# -- elementwise ------------------------------------------------------------------------------


@emitter("relu")
def _relu(w: Writer, equation: Equation) -> None:
    [x], out = equation.operands, equation.output
    # NumPy's maximum is vectorized for two arrays, but not for an array and a number.
    shape = x.shape if x.size <= WIDE else ()
    zero = w.block_constant(0, x) if w.is_dividing else w.zeros(shape, x.dtype)
    w.call(np.maximum, w.name(x), zero, out=w.name(out))


@emitter("sigmoid")
def _sigmoid(w: Writer, equation: Equation) -> None:
    """Write 1 / (1 + exp(-x)) with the calls that the forward makes."""
    [x], output = equation.operands, equation.output
    if type(x) is not Variable or x.dtype != output.dtype or output.dtype.char not in REAL:
        by_its_forward(w, equation)
        return
    out, one = w.name(output), w.constant(1, output.dtype)
    w.call(np.negative, w.name(x), out)
    w.call(w.of(silent_overflow, "silent"), w.function(np.exp, "exp"), out, out)
    w.call(np.add, out, one, out)
    w.call(np.divide, one, out, out)


def silent_overflow() -> Callable[..., Any]:
    """Return a function that calls another without its warnings of overflow."""
    return silently(over="ignore")


@scratch("softplus", "log_sigmoid")
def _tail_of(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    output = equation.output  # a larger one may be computed in blocks
    return [(output.shape, output.dtype)] if output.size <= BLOCK else []


@emitter("softplus", "log_sigmoid")
def _soft(w: Writer, equation: Equation) -> None:
    """Write max(x, 0) + log1p(exp(-|x|)), or min(x, 0) minus that, with the calls that the forwards make."""
    if not _tail_of(equation):
        by_its_forward(w, equation)
        return
    out, tail = w.name(equation.output), w.scratch(equation)
    limit, join = (np.maximum, np.add) if equation.primitive.name == "softplus" else (np.minimum, np.subtract)
    x, zero = w.name(equation.operands[0]), w.constant(0, equation.output.dtype)
    for function, operand in ((np.absolute, x), (np.negative, tail), (np.exp, tail), (np.log1p, tail)):
        w.call(function, operand, tail)
    w.call(limit, x, zero, out=out)
    w.call(join, out, tail, out)


@emitter("zeros_like", "ones_like")
def _filled(w: Writer, equation: Equation) -> None:
    if w.is_dividing:
        by_its_forward(w, equation)
        return
    w.call(np.ndarray.fill, w.name(equation.output), 0 if equation.primitive.name == "zeros_like" else 1)


@emitter("multiply")
def _multiply(w: Writer, equation: Equation) -> None:
    x, y = equation.operands
    number, array = (x, y) if type(y) is Variable and y.shape == equation.output.shape else (y, x)
    is_number = type(number) is not Variable or (not number.shape and number.dtype == array.dtype)
    if w.exact or not is_number or not _for_level_1(w, array) or not _shares(w, array, equation.output):
        by_its_forward(w, equation)
        return
    w.call(level_1("scal", array), w.number(number), _flat(w, array), label="scal")


@emitter("axpy")
def _axpy(w: Writer, equation: Equation) -> None:
    (x, y, _), output = equation.operands, equation.output
    if not _for_level_1(w, y):
        by_its_forward(w, equation)
        return
    unless_in_place(w, x, output)
    source, target = _flat(w, y), _flat(w, output)
    write = partial(_write_axpy, w, equation)
    if w.is_dividing or y.size <= BLOCK:
        write(source, target)
    else:
        # In blocks too small for BLAS to use threads: SciPy's threads would compete with NumPy's.
        w.on_parts({"b_x": source, "b_y": target}, BLOCK, write)


def _write_axpy(w: Writer, equation: Equation, source: Name, target: Name) -> None:
    _, y, a = equation.operands
    axpy, size = level_1("axpy", y), w.of(len, "n", source) if w.is_dividing else y.size
    if type(a) is not Variable:
        w.call(axpy, source, target, size, w.number(a), label="axpy")
    else:
        w.call(add_multiple, w.function(axpy, "axpy"), source, target, size, w.name(a))


def add_multiple(
    axpy: Callable[..., Any], source: np.ndarray, target: np.ndarray, size: int, factor: np.ndarray
) -> None:
    """Add a multiple of a vector to another by a function of BLAS."""
    if factor:
        axpy(source, target, size, factor)
    else:
        target += source * 0


def _for_level_1(w: Writer, x: Variable) -> bool:
    """Tell whether SciPy's BLAS wrappers can write to an array: they copy arrays that are not contiguous."""
    return x.size > 0 and w.plan.views.is_contiguous(x) and x.dtype.char in REAL


def _flat(w: Writer, x: Variable) -> Name:
    """Return the name of a contiguous array, or of its block, as a vector."""
    return w.name(x) if x.ndim == 1 else w.shaped(w.name(x), -1)


def level_1(name: str, like: Variable) -> Callable[..., Any]:
    """Return a function of BLAS for vectors of the dtype of `like`."""
    from scipy.linalg import blas  # predictors seldom need it

    return blas.get_blas_funcs(name, dtype=like.dtype)


def _shares(w: Writer, x: Variable, output: Variable) -> bool:
    """Tell whether operand and output share memory, so that nothing is left to copy."""
    return x.dtype == output.dtype and w.plan.buffers[w.plan.views.root(x)] is w.plan.buffers[output]


def unless_in_place(w: Writer, x: Variable, output: Variable) -> None:
    if not _shares(w, x, output):
        w.call(np.copyto, w.name(output), w.name(x))


@emitter("astype")
def _astype(w: Writer, equation: Equation) -> None:
    w.call(np.copyto, w.name(equation.output), w.name(equation.operands[0]), "unsafe")


@emitter("copy", "broadcast_to", "permute_dims", "reshape", "concat", "assemble")
def _copies(w: Writer, equation: Equation) -> None:
    for target, source in w.copies(equation):
        if source is None:
            w.call(np.ndarray.fill, target, 0)
        else:
            w.call(np.copyto, target, source)


@emitter("where")
def _where(w: Writer, equation: Equation) -> None:
    condition, x, y = w.operands(equation)
    output, other = equation.output, equation.operands[2]
    out = w.name(output)
    if type(other) is not Variable or not _shares(w, other, output):
        w.call(np.copyto, out, y)
    w.call(np.copyto, out, x, where=condition)


@emitter("masked")
def _masked(w: Writer, equation: Equation) -> None:
    x, mask = equation.operands
    # A product of its bits with 0 or 1: many times faster than `where`, and exact for NaN and infinities.
    source, out = (w.viewed(w.name(v), f"i{x.dtype.itemsize}") for v in (x, equation.output))
    w.call(np.multiply, source, w.name(mask), out)


@scratch("dropout_mask")
def _draws(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    shape = equation.output.shape
    return [(shape, np.dtype(np.float32)), (shape, np.dtype(bool))]


@emitter("dropout_mask")
def _dropout_mask(w: Writer, equation: Equation) -> None:
    step, out = w.operands(equation)[1], w.name(equation.output)
    draws, keep = w.scratch(equation), w.scratch(equation, 1)
    key, site, shape, p = (equation.params[name] for name in ("key", "site", "shape", "p"))
    scale = np.array(1.0 / (1.0 - p) if p < 1 else 0.0, equation.output.dtype)[()]
    mask = w.partial(partial(fill_mask, (key, site, shape), np.float32(p), scale), "mask")
    w.call(mask, step, draws, keep, out)


def fill_mask(of: Any, limit: Any, scale: Any, step: Any, draws: Any, keep: Any, out: np.ndarray) -> None:
    """Fill an array with `scale` where draws of a stream are at least `limit`, elsewhere with zeros."""
    key, site, shape = of
    philox_uniform(key, step, site, shape, np.float32, draws)
    np.greater_equal(draws, limit, keep)
    np.copyto(out, keep)
    np.multiply(out, scale, out)


# -- softmax and its kin, bit for bit like their forwards -------------------------------------


def _kept(equation: Equation) -> tuple[int, ...]:
    """Return the shape with length 1 along the reduced axes."""
    shape = list(equation.operands[0].shape)
    for axis in _axes(equation):
        shape[axis] = 1
    return tuple(shape)


def _axes(equation: Equation) -> tuple[int, ...]:
    """Return the axes that are reduced, counted from the front."""
    given, ndim = equation.params["axis"], equation.operands[0].ndim
    return tuple([a % ndim for a in (given if isinstance(given, tuple) else (given,))])


def _reduce(w: Writer, function: Any, name: str, x: Name, equation: Equation, out: Name) -> None:
    axes = _axes(equation)
    at = axes[0] if len(axes) == 1 else axes
    w.call(function, x, at, None, out, True, label=name)


def _shift(w: Writer, equation: Equation, top: Name, out: Name) -> None:
    """Write x minus its maximum."""
    x = w.name(equation.operands[0])
    number = _number(w, equation, top)
    if _is_one(w, equation):  # a reduction takes four times as long as finding the position
        w.call(write_largest, number, x)
    else:
        _reduce(w, np.maximum.reduce, "max", x, equation, top)
    w.call(np.subtract, x, number, out)


def write_largest(number: np.ndarray, x: np.ndarray) -> None:
    """Write the largest element of an array."""
    number[()] = x.item(x.argmax())


def _is_one(w: Writer, equation: Equation) -> bool:
    """Tell whether this is a prediction for a single row, whose reductions have one element."""
    return w.exact and not w.is_dividing and math.prod(_kept(equation)) == 1


def _number(w: Writer, equation: Equation, row: Name) -> Name:
    """Return an array as one of shape () if it has one element: NumPy broadcasts that in half the time."""
    return w.shaped(row) if _is_one(w, equation) else row


@scratch("softmax", "log_softmax", "logsumexp")
def _row_powers_and_mask(equation: Equation) -> Needs:
    x, row = equation.operands[0], _kept(equation)
    needed = [(row, x.dtype), (x.shape, x.dtype), (row, np.dtype(bool))]
    return needed[: ("softmax", "log_softmax", "logsumexp").index(equation.primitive.name) + 1]


@emitter("softmax", "log_softmax")
def _softmax(w: Writer, equation: Equation) -> None:
    if not equation.operands[0].size:
        by_its_forward(w, equation)
        return
    is_log, out, row = equation.primitive.name == "log_softmax", w.name(equation.output), w.scratch(equation)
    powers = w.scratch(equation, 1) if is_log else out
    _shift(w, equation, row, out)
    w.call(np.exp, out, powers)
    _reduce(w, np.add.reduce, "sum", powers, equation, row)
    if is_log:
        w.call(np.log, row, row)
    w.call(np.subtract if is_log else np.divide, out, _number(w, equation, row), out)


@emitter("logsumexp")
def _logsumexp(w: Writer, equation: Equation) -> None:
    if not equation.operands[0].size or not _axes(equation):
        by_its_forward(w, equation)
        return
    x, top = w.name(equation.operands[0]), w.scratch(equation)
    powers, infinite = w.scratch(equation, 1), w.scratch(equation, 2)
    out = w.reshaped(equation.output, _kept(equation))
    _reduce(w, np.maximum.reduce, "max", x, equation, top)
    w.call(np.isfinite, top, infinite)
    w.call(np.logical_not, infinite, infinite)
    w.call(np.copyto, top, 0, where=infinite)
    w.call(np.subtract, x, top, powers)
    w.call(np.exp, powers, powers)
    _reduce(w, np.add.reduce, "sum", powers, equation, out)
    w.call(np.log, out, out)
    w.call(np.add, out, top, out)


# -- the complementary error function in single precision, by NumPy's vectorized functions ----
# SciPy computes one element after the other in double precision, which takes half of a transformer's forward
# pass. With ``r = 1 / (|x| + 2)`` and ``t = 1 - 4 r``, which is between -1 and 1,
#     erfc(|x|) = exp(-x ** 2) * r * p(t)
# where p is a polynomial. The exponential of a rounded square would lose digits, so x is split into h, whose
# square is exact, and a rest. Native code makes the same operations and calls NumPy's exponential, so it
# leaves the same bits.


LEAST = 2048  # elements from which on 35 calls of NumPy take less time than SciPy's loop
CHUNK = 16384  # elements at a time, so that temporary arrays stay in the cache
ROOMS = 4  # temporary arrays
CENTER = 2.0
# Of p, highest power first: the Chebyshev interpolation of (|x| + 2) exp(x ** 2) erfc(x), exact to 5e-8.
COEFFICIENTS = np.array(
    [
        -5.81472641e-05, -5.39254263e-04, -7.09947580e-04, 3.05637542e-03, 6.42752642e-03,
        -2.15080651e-02, -3.64345106e-02, 2.79472142e-01, -6.87160999e-01, 1.02158270e00,
    ],
    np.float32,
)  # fmt: skip
TOP = np.full(CHUNK, 11.0, np.float32)  # from where on it is 0; a minimum of arrays is vectorized
LEADING = np.int32(-1 << 12)  # the mask of sign, exponent and 12 digits
SIGN, TWO = np.int32(31), np.float32(2).view(np.int32)


def _is_fast(equation: Equation) -> bool:
    [x], output = equation.operands, equation.output
    return type(x) is Variable and x.dtype == output.dtype == np.float32 and output.size >= LEAST


@scratch("erfc")
def _rooms(equation: Equation) -> Needs:
    shape = ROOMS, min(equation.output.size, CHUNK)
    return [(shape, np.dtype(np.float32))] if _is_fast(equation) else []


@emitter("erfc")
def _erfc(w: Writer, equation: Equation) -> None:
    if w.exact or not _is_fast(equation) or not w.plan.views.is_contiguous(equation.operands[0]):
        by_its_forward(w, equation)
        return
    [x], scratch = equation.operands, w.scratch(equation)
    w.call(fast_erfc, w.name(x), scratch, w.name(equation.output), label="erfc")


def fast_erfc(x: np.ndarray, rooms: np.ndarray, out: np.ndarray) -> None:
    """Compute the complementary error function."""
    x, out = x.reshape(-1), out.reshape(-1)
    native = above("native_passes")()
    if native is not None and native.erfc(x, rooms, out):
        return
    for start in range(0, x.size, rooms.shape[1]):
        part = slice(start, start + rooms.shape[1])
        _erfc_of_chunk(x[part], rooms[:, : len(x[part])], out[part])


def _erfc_of_chunk(x: np.ndarray, rooms: np.ndarray, out: np.ndarray) -> None:
    a, power, r, t = rooms
    np.minimum(np.absolute(x, a), TOP[: a.size], out=a)
    _negative_power(a, r, t, power)
    np.add(a, CENTER, a)
    np.divide(1, a, r)
    np.multiply(r, -2 * CENTER, t)
    np.add(t, 1, t)
    np.multiply(t, COEFFICIENTS[0], a)
    for coefficient in COEFFICIENTS[1:-1]:
        np.add(a, coefficient, a)
        np.multiply(a, t, a)
    np.multiply(np.add(a, COEFFICIENTS[-1], a), r, a)
    np.multiply(a, power, a)
    # Below zero it is 2 less that: 2 or 0 is made of the sign's bit.
    side = r.view(np.int32)
    np.right_shift(x.view(np.int32), SIGN, side)
    np.bitwise_and(side, TWO, side)
    np.subtract(r, a, a)
    np.absolute(a, out)


def _negative_power(a: np.ndarray, total: np.ndarray, rest: np.ndarray, out: np.ndarray) -> None:
    """Write exp(-a ** 2) as exp(-h ** 2) * exp((h - a) * (h + a)); `total` and `rest` are temporary."""
    np.bitwise_and(a.view(np.int32), LEADING, out.view(np.int32))
    np.subtract(out, a, rest)
    np.add(out, a, total)
    np.multiply(rest, total, rest)
    np.exp(rest, rest)
    np.multiply(out, out, out)
    np.negative(out, out)
    np.exp(out, out)
    np.multiply(out, rest, out)


def parts_of(rows: int, per_row: int, limit: int) -> int:
    """Return into how many parts a product is split, so that each fits a kernel for small matrices."""
    if limit < rows * per_row <= 2 * limit:
        for parts in range(2, 5):
            if rows % parts == 0:
                return parts
    return 1


def parts_here(rows: int, per_row: int) -> int:
    """Return `parts_of` for this machine; BLAS is inspected only if needed, as that takes milliseconds."""
    return parts_of(rows, per_row, small_limit()) if SMALL < rows * per_row <= 2 * SMALL else 1


NARROW = 64  # up to this many columns, a maximum over them is faster on the transposed array
ALONE = 9216  # elements of a matrix up to which OpenBLAS multiplies it with a vector in one thread


@emitter("matmul")
def _matmul(w: Writer, equation: Equation) -> None:
    (x, y), output = equation.operands, equation.output
    same = x.dtype == y.dtype and output.size > 0
    # A stack of matrices times one matrix is one product.
    is_stack = x.ndim > y.ndim == 2 and not w.exact and x.dtype.char in REAL and w.plan.views.is_contiguous(x)
    # np.dot calls BLAS with less overhead, but does not take stacks of matrices.
    flat = same and (x.ndim == y.ndim == 2 or is_stack)
    if not flat:
        w.call(np.matmul, w.name(x), w.name(y), w.name(output))
        return
    (inner, columns), rows = y.shape, output.size // y.shape[1]
    source, target = w.reshaped(x, (rows, inner)), w.reshaped(output, (rows, columns))
    if inner == 1 and not w.exact and x.dtype.char in REAL:  # a column times a row
        w.call(np.multiply, source, w.name(y), target)
        return
    # For an inner length of 1 np.dot returns 0 where np.matmul returns 0 * inf, which is NaN.
    fits = inner > 1 and (is_stack or _for_blas(w, x)) and _for_blas(w, y)
    parts = 1 if w.exact or not fits else parts_here(rows, inner * columns)
    if parts > 1:
        source = w.shaped(w.name(x), parts, rows // parts, inner)
        target = w.shaped(w.name(output), parts, rows // parts, columns)
    use_dot = fits and parts == 1
    w.call(np.dot if use_dot else np.matmul, source, w.name(y), target)


def _for_blas(w: Writer, x: Variable) -> bool:
    flags = w.plan.views.ghost(x).flags
    return flags.c_contiguous or flags.f_contiguous


def _reduction(w: Writer, equation: Equation, function: Any, name: str) -> None:
    [x], axis = equation.operands, equation.params["axis"]
    axes = tuple(sorted(a % x.ndim for a in axis))
    at = axes[0] if len(axes) == 1 else axes
    keep = [True] if equation.params["keepdims"] else []
    w.call(function, w.name(x), at, None, w.name(equation.output), *keep, label=name)


def _ends(equation: Equation) -> tuple[int, int, int] | None:
    """Return how many elements are along the summed axes before, the kept axes and the summed axes behind."""
    [x], axis = equation.operands, equation.params["axis"]
    kept = [i for i in range(x.ndim) if i - x.ndim not in axis and i not in axis]
    if not kept or kept != list(range(kept[0], kept[-1] + 1)) or not x.size:
        return None
    parts = slice(kept[0]), slice(kept[0], kept[-1] + 1), slice(kept[-1] + 1, None)
    before, between, behind = (math.prod(x.shape[part]) for part in parts)
    return (before, between, behind) if 1 < behind <= ALONE else None


@scratch("sum")
def _sums_behind(equation: Equation) -> Needs:
    before, kept, _ = _ends(equation) or (1, 1, 1)
    return [((before, kept), equation.output.dtype)] if before > 1 else []


@emitter("sum")
def _sum(w: Writer, equation: Equation) -> None:
    [x], axis, ends = equation.operands, equation.params["axis"], _ends(equation)
    if w.exact or x.dtype.char not in REAL or not w.plan.views.is_contiguous(x):
        _reduction(w, equation, np.add.reduce, "sum")
    elif ends is not None:
        _sum_behind(w, equation, *ends)
    elif 1 <= x.ndim <= 2 and len(axis) == 1 and axis[0] == -x.ndim:
        # As a product with ones: BLAS sums faster than np.add.reduce.
        ones = w.constant(np.ones(x.shape[0], x.dtype))
        target = w.reshaped(equation.output, x.shape[1:])
        w.call(np.dot, ones, w.name(x), target)
    else:
        _reduction(w, equation, np.add.reduce, "sum")


def _sum_behind(w: Writer, equation: Equation, before: int, kept: int, behind: int) -> None:
    """Write the sum over the last axes as products of some rows with ones, then that over the first."""
    [x], rows = equation.operands, before * kept
    sums = w.scratch(equation) if before > 1 else w.name(equation.output)
    ones = np.ones(behind, x.dtype)
    parts = next(n for n in range(-(-rows * behind // ALONE), rows + 1) if rows % n == 0)
    if parts > 1:
        shape = parts, rows // parts
        source, target = w.shaped(w.name(x), *shape, behind), w.shaped(sums, *shape, 1)
        w.call(np.matmul, source, w.constant(ones[:, np.newaxis]), target)
    else:
        source, target = w.reshaped(x, (rows, behind)), w.shaped(sums, -1)
        w.call(np.dot, source, w.constant(ones), target)
    if before > 1:
        w.call(np.add.reduce, sums, 0, None, w.reshaped(equation.output, (kept,)), label="sum")


@scratch("max")
def _turned(equation: Equation) -> Needs:
    x = equation.operands[0]
    return [(x.shape[::-1], x.dtype)] if _is_narrow(equation) else []


@emitter("max", "min")
def _extremum(w: Writer, equation: Equation) -> None:
    name = equation.primitive.name
    function = np.maximum.reduce if name == "max" else np.minimum.reduce
    if name == "min" or not _is_narrow(equation):
        _reduction(w, equation, function, name)
        return
    [x] = equation.operands
    turned = w.scratch(equation)
    w.call(np.copyto, turned, w.turned(w.name(x), (1, 0)))
    w.call(function, turned, 0, None, w.reshaped(equation.output, x.shape[:1]), label=name)


def _is_narrow(equation: Equation) -> bool:
    x: Variable = equation.operands[0]
    return x.ndim == 2 and equation.params["axis"] == (-1,) and 1 < x.shape[1] <= NARROW


@scratch("sum_squares")
def _one_square(equation: Equation) -> Needs:
    return [((), equation.output.dtype)] if len(equation.operands) > 1 else []


@emitter("sum_squares")
def _sum_squares(w: Writer, equation: Equation) -> None:
    out = w.name(equation.output)
    for i, x in enumerate(equation.operands):
        if not w.plan.views.is_contiguous(x):
            by_its_forward(w, equation)
            return
        flat = w.reshaped(x, (x.size,))
        target = w.scratch(equation) if i else out
        w.call(np.dot, flat, flat, target)
        # For one number, a BLAS call takes half the time of a ufunc call.
        if i and not w.exact and x.dtype.char in REAL:
            w.call(level_1("axpy", x), w.shaped(target, 1), w.shaped(out, 1), label="axpy")
        elif i:
            w.call(np.add, out, target, out)


# -- one element per row ----------------------------------------------------------------------


def _count_from_start(
    w: Writer, equation: Equation, indices: Variable, length: int, out: Name, behind: int = 1
) -> None:
    """Write the offsets that indices point to, in steps of `behind`; an index out of bounds raises."""
    if equation.params.get("from_end", True):  # by a table, in which negative indices count from the end
        table = w.constant(np.arange(length) * behind)
        w.call(np.ndarray.take, table, w.name(indices), None, out)
        return
    if indices.size:
        _check(w, indices, length)
    w.call(np.copyto, out, w.name(indices))
    if behind != 1:
        w.call(np.multiply, out, behind, out)


def _check(w: Writer, indices: Variable, length: int) -> None:
    """Add the check of `check_indices`, on a view that is made once."""
    name, bound = w.name(indices), length
    unsigned = name
    if indices.dtype.kind == "i":  # seen as unsigned integers, negative numbers exceed all valid indices
        unsigned = w.viewed(name, indices.dtype.str.replace("i", "u"))
        bound = min(length, np.iinfo(indices.dtype).max + 1)
    w.call(check_indices, name, length, unsigned, bound)


def check_indices(indices: np.ndarray, length: int, unsigned: np.ndarray, bound: int) -> None:
    """Raise an IndexError unless indices, which are also given as unsigned integers, are below a bound."""
    if unsigned.item(unsigned.argmax()) >= bound:
        backend("cpu").xp.check_indices(indices, length)


@emitter("flat_index")
def _flat_index(w: Writer, equation: Equation) -> None:
    [indices], out = equation.operands, w.name(equation.output)
    length = equation.params["length"]
    starts = w.constant(np.arange(0, indices.size * length, length))
    _count_from_start(w, equation, indices, length, out)
    w.call(np.add, out, starts, out)


@emitter("take_at")
def _take_at(w: Writer, equation: Equation) -> None:
    x, positions = equation.operands
    if not w.plan.views.is_contiguous(x):
        by_its_forward(w, equation)
        return
    # mode="clip" skips the check and the buffer; the positions are valid.
    _take_elements(w, w.name(x), w.name(positions), w.name(equation.output))


def _take_elements(w: Writer, x: Name, positions: Name, out: Name) -> None:
    w.call(np.ndarray.take, w.shaped(x, -1), positions, None, out, "clip")


@scratch("subtract_at")
def _chosen(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    return [(equation.operands[2].shape, equation.output.dtype)]


@emitter("subtract_at")
def _subtract_at(w: Writer, equation: Equation) -> None:
    x, g, positions = equation.operands
    out, part, at = w.name(equation.output), w.scratch(equation), w.name(positions)
    unless_in_place(w, x, equation.output)
    flat = w.shaped(out, -1)
    _take_elements(w, out, at, part)
    like_g = w.shaped(part, *g.shape)
    w.call(np.subtract, like_g, w.name(g), like_g)
    w.call(operator.setitem, flat, at, part)


@emitter("put_at")
def _put_at(w: Writer, equation: Equation) -> None:
    g, positions = equation.operands
    out = w.name(equation.output)
    _fill(w, equation.output)
    w.call(operator.setitem, w.shaped(out, -1), w.shaped(w.name(positions), *g.shape), w.name(g))


# -- by positions -----------------------------------------------------------------------------


def _take(w: Writer, x: Variable, rows: Name, length: int, output: Variable) -> None:
    """Take rows of a matrix by their numbers, which are in bounds."""
    shapes = [(y.size // length, length) if length != 1 else (y.size,) for y in (x, output)]
    matrix, out = w.reshaped(x, shapes[0]), w.reshaped(output, shapes[1])
    # mode="clip" skips the check and the buffer.
    w.call(np.ndarray.take, matrix, rows, 0, out, "clip")


def _fill(w: Writer, output: Variable) -> None:
    w.call(np.ndarray.fill, w.name(output), 0)


def _add(w: Writer, g: Variable, rows: Name, count: int, length: int, output: Variable) -> None:
    """Add the rows of g to rows of a matrix of zeros, by their numbers, which are in bounds."""
    n_rows = output.size // length
    starts, ones = w.constant(np.arange(count + 1)), w.constant(np.ones(count, g.dtype))
    values, out = w.reshaped(g, (g.size,)), w.reshaped(output, (output.size,))
    w.call(sparsetools().csc_matvecs, n_rows, count, length, starts, rows, ones, values, out)


def _is_simple(w: Writer, *xs: Variable) -> bool:
    return all(x.size > 0 and w.plan.views.is_contiguous(x) for x in xs)


# -- whole rows -------------------------------------------------------------------------------


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return the numbers of elements before, along and after a (negative) axis."""
    at = len(shape) + axis
    return math.prod(shape[:at]), shape[at], math.prod(shape[at + 1 :])


def _rows(w: Writer, equation: Equation, indices: Variable, before: int, length: int) -> Name:
    """Write the row numbers that indices point to, in each matrix of a stack."""
    _count_from_start(w, equation, indices, length, w.scratch(equation))
    if before == 1:
        return w.shaped(w.scratch(equation), -1)
    starts = w.constant(np.arange(0, before * length, length).reshape(before, 1))
    each, every = w.shaped(w.scratch(equation), -1), w.scratch(equation, 1)
    w.call(np.add, starts, each, every)
    return w.shaped(every, -1)


def _of_rows(indices: Variable, before: int) -> Needs:
    whole = np.dtype(np.intp)
    return [(indices.shape, whole), *([((before, indices.size), whole)] if before != 1 else [])]


@scratch("take")
def _take_needs(equation: Equation) -> Needs:
    x, indices = equation.operands
    return _of_rows(indices, _around(x.shape, equation.params["axis"])[0])


@emitter("take")
def _take_rows(w: Writer, equation: Equation) -> None:
    x, indices = equation.operands
    if not _is_simple(w, x) or not equation.output.size:
        by_its_forward(w, equation)
        return
    before, length, behind = _around(x.shape, equation.params["axis"])
    _take(w, x, _rows(w, equation, indices, before, length), behind, equation.output)


@scratch("put")
def _put_needs(equation: Equation) -> Needs:
    return _of_rows(equation.operands[1], _around(equation.output.shape, equation.params["axis"])[0])


@emitter("put")
def _put_rows(w: Writer, equation: Equation) -> None:
    g, indices = equation.operands
    if not _is_simple(w, g) or g.dtype.char not in REAL:
        by_its_forward(w, equation)
        return
    before, length, behind = _around(equation.output.shape, equation.params["axis"])
    _fill(w, equation.output)
    rows = _rows(w, equation, indices, before, length)
    _add(w, g, rows, before * indices.size, behind, equation.output)


# -- along an axis ----------------------------------------------------------------------------


@scratch("take_along_axis", "put_along_axis")
def _along_needs(equation: Equation) -> Needs:
    return [(equation.operands[1].shape, np.dtype(np.intp))]


def _along(w: Writer, equation: Equation, shape: tuple[int, ...]) -> Name:
    """Write the flat positions of the elements in an array of a shape."""
    indices, (before, length, behind) = equation.operands[1], _around(shape, equation.params["axis"])
    _count_from_start(w, equation, indices, length, w.scratch(equation), behind)
    starts = np.arange(before).reshape(-1, 1, 1) * (length * behind) + np.arange(behind)
    positions = w.shaped(w.scratch(equation), before, indices.size // (before * behind), behind)
    w.call(np.add, positions, w.constant(starts), positions)
    return w.shaped(w.scratch(equation), -1)


@emitter("take_along_axis")
def _take_along(w: Writer, equation: Equation) -> None:
    x, indices = equation.operands
    if not _is_simple(w, x) or not indices.size:
        by_its_forward(w, equation)
        return
    _take(w, x, _along(w, equation, x.shape), 1, equation.output)


@emitter("put_along_axis")
def _put_along(w: Writer, equation: Equation) -> None:
    g, output = equation.operands[0], equation.output
    distinct = g.shape[equation.params["axis"]] == 1
    if not _is_simple(w, g) or not (distinct or g.dtype.char in REAL):
        by_its_forward(w, equation)
        return
    _fill(w, output)
    positions = _along(w, equation, output.shape)
    if distinct:
        flat, values = w.reshaped(output, (output.size,)), w.reshaped(g, (g.size,))
        w.call(operator.setitem, flat, positions, values)
    else:
        _add(w, g, positions, g.size, 1, output)


# -- with [] ----------------------------------------------------------------------------------


@emitter("getitem")
def _getitem(w: Writer, equation: Equation) -> None:
    [x], index = equation.operands, equation.params["index"]
    if is_basic(index) or not _is_simple(w, x) or not equation.output.size:
        by_its_forward(w, equation)
        return
    rows, length = rows_of(np, index, x.shape)
    _take(w, x, w.constant(rows), length, equation.output)


@emitter("scatter_add")
def _scatter_add(w: Writer, equation: Equation) -> None:
    [g], index, output = equation.operands, equation.params["index"], equation.output
    if not _is_simple(w, g) or not (is_basic(index) or (may_repeat(index) and g.dtype.char in REAL)):
        by_its_forward(w, equation)
        return
    _fill(w, output)
    if is_basic(index):
        part = w.part(w.name(output), w.partial(with_ellipsis(index), "at"))
        w.call(np.copyto, part, w.name(g))
        return
    rows, length = rows_of(np, index, output.shape)
    _add(w, g, w.constant(rows), rows.size, length, output)


# -- programs: the calls of a plan ------------------------------------------------------------


class NumpyProgram(Program):
    """The calls of a plan; if `exact`, results equal those of the primitives' own forwards to the bit."""

    def __init__(self, plan: Plan, exact: bool = False) -> None:
        self.plan = plan
        self._blocks: list[_Blocks] = []
        writer = Writer(plan, exact)
        for group in plan.groups:
            self._write(writer, group)
        for output, donor in plan.copies:
            writer.call(np.copyto, writer.name(donor), writer.name(output))
        self._writer = writer

    @classmethod
    def of(cls, graph: Graph, donated: Mapping[Variable, Variable], exact: bool) -> Self:
        """Plan a graph whose outputs take over `donated` inputs; `exact` as above."""
        graph = in_parts(graph)
        groups = with_biases(graph, fuse(graph))
        return cls(Plan(graph, groups, donated, partial(scratch_of, exact=exact)), exact)

    # -- writing ------------------------------------------------------------------------------

    def _write(self, writer: Writer, group: Group) -> None:
        if group.rows:
            self._write_blocks(writer, group)
            return
        if group.finish is not None:
            first = len(writer.calls)
            emit_biased(writer, group.finish)
            writer.comment(first, group.finish.output)
            return
        for equation in group.equations:
            if self.plan.views.is_view(equation):
                continue
            first = len(writer.calls)
            emit(writer, equation)
            writer.comment(first, equation.output)

    def _write_blocks(self, writer: Writer, group: Group) -> None:
        """Write a loop over blocks of rows, each of which goes through all equations at once."""
        shape = group.equations[0].output.shape
        used = dict.fromkeys(x for e in group.equations for x in (*e.variables, e.output))
        divided = [x for x in used if x.ndim == len(shape) and x.shape[0] == shape[0]]
        names = {x: writer.new_name(f"b_{writer.names[x]}") for x in divided}
        writer.begin_blocks(names)
        for equation in group.equations:
            emit(writer, equation)
        name = writer.new_name(f"blocks{len(self._blocks)}")
        constants = writer.end_blocks(name, f"{group.rows} of {shape[0]} rows each")
        self._blocks.append(_Blocks(name, group, divided, list(constants.values())))

    # -- binding ------------------------------------------------------------------------------

    def bind(
        self,
        memory: np.ndarray,
        slots: Sequence[np.ndarray],
        sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS,
    ) -> tuple[list[Call], dict[Variable, np.ndarray]]:
        """Return the calls of the step on this memory, and the array of every variable."""
        arrays = self.plan.arrays(memory, slots)
        values = self._values(memory, arrays, sparse)
        return bound(self._writer.calls, values, self._writer.made), arrays

    def _values(
        self, memory: np.ndarray, arrays: dict[Variable, np.ndarray], sparse: Mapping[SparseSlot, SparseSlot]
    ) -> dict[str, Any]:
        values = self._writer.values(memory, arrays, partial(scratch_of, exact=self._writer.exact), sparse)
        for blocks in self._blocks:
            values[blocks.name] = blocks.divide(arrays, self.plan.in_groups)
        return values


class _Blocks(NamedTuple):
    """A loop over blocks: its name, its equations, and the arrays that it iterates over."""

    name: Name
    group: Group
    divided: list[Variable]
    constants: list[tuple[float, Variable]]

    def divide(
        self, arrays: dict[Variable, np.ndarray], internal: set[Variable]
    ) -> tuple[tuple[np.ndarray, ...], ...]:
        """Return the blocks of all arrays; internal arrays have a single block, which is reused."""
        total, rows = self.group.equations[0].output.shape[0], self.group.rows
        constants = [np.full((rows, *x.shape[1:]), value, x.dtype) for value, x in self.constants]
        for each in constants:
            each.flags.writeable = False
        found = []
        for start in range(0, total, rows):
            length = min(rows, total - start)
            block = [
                arrays[x][:length] if x in internal else arrays[x][start : start + rows] for x in self.divided
            ]
            found.append((*block, *[constant[:length] for constant in constants]))
        return tuple(found)


# -- convolutions with a bias: one call, which adds it while images are in the cache ----------


def with_biases(graph: Graph, groups: list[Group]) -> list[Group]:
    """Join each convolution with the sum of its result and a number for each filter."""
    if "conv" not in {equation.primitive.name for equation in graph.equations}:
        return groups  # as most, whose plans take a part of a short fit
    reads = Counter([*graph.outputs, *[x for equation in graph.equations for x in equation.variables]])
    made = {e.output: e for e in graph.equations if e.primitive.name == "conv" and reads[e.output] == 1}
    joined: dict[Equation, Equation] = {}
    for group in groups:
        last = group.equations[0]
        if len(group.equations) == 1 and last.primitive.name == "add":
            product = made.get(last.operands[0])
            if product is not None and _is_bias(last):
                joined[last] = product
    gone = set(joined.values())
    return [
        _joined(joined[group.equations[0]], group.equations[0]) if group.equations[0] in joined else group
        for group in groups
        if group.equations[0] not in gone
    ]


def _is_bias(equation: Equation) -> bool:
    images, numbers = equation.operands
    return (
        type(numbers) is Variable
        and numbers.dtype == images.dtype
        and numbers.shape == (images.shape[1], 1, 1)
        and images.shape == equation.output.shape
    )


def _joined(product: Equation, last: Equation) -> Group:
    finish = Finish(product, last.output, ("bias",), last.operands[1])
    return Group([product, last], 0, fused=True, finish=finish)


def emit_biased(w: Writer, finish: Finish) -> None:
    """Add the call of a convolution with its bias."""
    equation = finish.product
    name = w.partial(partial(equation.primitive.forward_on(backend("cpu")), **equation.params), "conv")
    scratch = tuple([w.scratch(equation, i) for i in range(len(w.plan.scratch[equation]))])
    out = w.name(finish.output)
    w.call(name, *w.operands(equation), bias=w.name(finish.vector), scratch=scratch, out=out)
