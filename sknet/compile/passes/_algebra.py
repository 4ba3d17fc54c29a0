"""Rules that keep every bit: constants, neutral elements, shapes, signs, and arrays from parts.

Integer arithmetic is modulo a power of two, so a sign must not move from one width to another, nor
into a number that the dtype cannot hold. The sign of a zero may change only in sums: where NumPy
adds a slice to zeros, a rule takes the slice itself.
"""

import math
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from sknet.compile import _primitives as own
from sknet.compile._graph import Equation, Operand, Variable, as_read, is_repeated
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of
from sknet.device import backend, result_dtype
from sknet.ops import SparseSlot

__all__ = ["ALGEBRA", "ASSEMBLY", "CONSTANTS", "SIGNS"]


ALGEBRA = Rules()
SIGNS = Rules()  # applied last: a sign that has not cancelled is absorbed by a number


def _same_kind(x: Operand, equation: Equation) -> TypeGuard[Variable]:
    output = equation.output
    return type(x) is Variable and x.shape == output.shape and x.dtype == output.dtype


# -- neutral elements -------------------------------------------------------------------------


@ALGEBRA.on("multiply", "divide")
def times_one(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Multiplying or dividing x by 1 gives x."""
    x, y = equation.operands
    if scalar_of(rewriter, y) == 1 and _same_kind(x, equation):
        return x
    if equation.primitive.name == "multiply" and scalar_of(rewriter, x) == 1 and _same_kind(y, equation):
        return y
    return None


@ALGEBRA.on("add", "subtract")
def plus_zero(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Adding or subtracting 0 gives x. Of floats, only -0.0 may be added, since -0.0 + 0.0 is 0.0."""
    x, y = equation.operands
    adds = equation.primitive.name == "add"
    if _is_zero(rewriter, y, equation, -1.0 if adds else 1.0) and _same_kind(x, equation):
        return x
    if adds and _is_zero(rewriter, x, equation, -1.0) and _same_kind(y, equation):
        return y
    return None


def _is_zero(rewriter: Rewriter, x: Operand, equation: Equation, sign: float) -> bool:
    """Tell whether an operand is 0, and has this sign where the sign of a zero matters."""
    value = scalar_of(rewriter, x)
    if value != 0:
        return False
    return equation.output.dtype.kind != "f" or math.copysign(1.0, value) == sign


@ALGEBRA.on("sum")
def over_single(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A sum over axes of length 1 is a reshape."""
    [x] = equation.operands
    if x.dtype == equation.output.dtype and all(x.shape[a] == 1 for a in equation.params["axis"]):
        return _reshaped(rewriter, x, equation.output.shape)
    return None


# -- shapes -----------------------------------------------------------------------------------


def _reshaped(rewriter: Rewriter, x: Variable, shape: tuple[int, ...]) -> Variable:
    return x if x.shape == shape else rewriter.emit("reshape", x, shape=shape)


@ALGEBRA.on("reshape")
def reshape_once(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Consecutive reshapes are merged; a negation moves behind them, where it may cancel another."""
    x: Variable = equation.operands[0]
    shape = equation.output.shape
    if x.shape == shape:
        return x
    before = rewriter.definition(x, "reshape")
    if before is not None:
        return _reshaped(rewriter, before.operands[0], shape)
    sign = rewriter.definition(x, "negative")
    if sign is not None and rewriter.is_used_once(x):
        return rewriter.emit("negative", _reshaped(rewriter, sign.operands[0], shape))
    return None


@ALGEBRA.on("permute_dims")
def permute_once(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Consecutive permutations are merged, and may cancel."""
    x: Variable = equation.operands[0]
    axes = equation.params["axes"]
    if list(axes) == list(range(-len(axes), 0)):
        return x
    before = rewriter.definition(x, "permute_dims")
    if before is None:
        return None
    first = before.params["axes"]
    return rewriter.emit("permute_dims", before.operands[0], axes=tuple(first[a] for a in axes))


@ALGEBRA.on("astype")
def same_dtype(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A conversion to the operand's own dtype is dropped."""
    x: Variable = equation.operands[0]
    return x if x.dtype == equation.output.dtype else None


@ALGEBRA.on("broadcast_to")
def same_shape(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A broadcast to the operand's own shape is dropped."""
    x: Variable = equation.operands[0]
    return x if x.shape == equation.output.shape else None


@ALGEBRA.on("add", "subtract", "multiply", "divide", "where", "maximum", "minimum")
def broadcast_late(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An elementwise operation broadcasts by itself."""
    operands = tuple([_unbroadcast(rewriter, x) for x in equation.operands])
    if operands == equation.operands:
        return None
    changed = Equation(equation.primitive, operands, equation.params)
    if changed.output.shape != equation.output.shape:
        return None
    return rewriter.emit(equation.primitive, *operands)


@ALGEBRA.on("multiply", "divide", "negative")
def broadcast_afterwards(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An array that is broadcast and then only combined with a number is combined before the broadcast."""
    if rewriter.is_read_as_laid_out(equation.output):
        return None
    for x in equation.variables:
        small = rewriter.definition(x, "broadcast_to")
        if len(equation.variables) > 1 or small is None or not rewriter.is_used_once(x):
            return None
        [source] = small.operands
        changed = rewriter.emit(
            equation.primitive, *[source if y is x else y for y in equation.operands], **equation.params
        )
        return rewriter.emit("broadcast_to", changed, shape=equation.output.shape)
    return None


def _unbroadcast(rewriter: Rewriter, x: Operand) -> Operand:
    found = rewriter.definition(x, "broadcast_to")
    if found is not None:
        return _unbroadcast(rewriter, found.operands[0])
    single = rewriter.definition(x, "reshape") if type(x) is Variable and x.size == 1 else None
    return single.operands[0] if single is not None and not single.operands[0].shape else x


@ALGEBRA.on("where")
def where_or_zero(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A `where` with zeros on one side is a mask: it keeps all bits of an element of x, or none."""
    condition, x, y = equation.operands
    if type(condition) is not Variable or condition.dtype.kind != "b":
        return None
    if scalar_of(rewriter, condition) is not None:
        return None
    if _is_zero(rewriter, y, equation, 1.0) and _is_floating(rewriter, x, equation):
        return rewriter.emit(own.masked, x, condition)
    if _is_zero(rewriter, x, equation, 1.0) and _is_floating(rewriter, y, equation):
        return rewriter.emit(own.masked, y, rewriter.emit("logical_not", condition))
    return None


def _is_floating(rewriter: Rewriter, x: Operand, equation: Equation) -> bool:
    return _same_kind(x, equation) and x.dtype.kind == "f" and scalar_of(rewriter, x) is None


# -- signs ------------------------------------------------------------------------------------


@ALGEBRA.on("negative")
def negative_of(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Two negations cancel; otherwise the negation moves to a smaller factor."""
    [x] = equation.operands
    found = _negated(rewriter, x)
    if found is not None:
        return found
    product = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if product is None or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    if type(b) is Variable and b.ndim and b.size * 2 <= x.size > 0 and _takes_sign(b, product):
        return rewriter.emit(product.primitive, a, rewriter.emit("negative", b))
    if type(a) is Variable and a.ndim and a.size * 2 <= x.size > 0 and _takes_sign(a, product):
        return rewriter.emit(product.primitive, rewriter.emit("negative", a), b)
    return None


def _takes_sign(x: Operand, equation: Equation) -> bool:
    """Tell whether an operand can be negated instead of the result: integers must not change their width."""
    if type(x) is not Variable:
        return False
    return x.dtype.kind == "f" or x.dtype == equation.output.dtype


def _negated(rewriter: Rewriter, x: Operand) -> Variable | None:
    """Return -x if that needs no additional equation, else None."""
    found = rewriter.definitions.get(x) if type(x) is Variable else None
    if found is None:
        return None
    name, operands = found.primitive.name, found.operands
    if name == "negative":
        inner: Variable = operands[0]
        return inner
    if not rewriter.is_used_once(x):
        return None
    if name in ("multiply", "divide"):
        for i, factor in enumerate(operands):
            if not _takes_sign(factor, found):
                continue
            changed = _negated(rewriter, factor)
            if changed is not None:
                return rewriter.emit(name, *[changed if i == j else y for j, y in enumerate(operands)])
    return None


@SIGNS.on("negative")
def negative_number(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(c * x) is (-c) * x, and -(c / x) is (-c) / x, for real numbers."""
    [x] = equation.operands
    product = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if product is None or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    # An integer 0 has no sign.
    if type(a) is not Variable:
        return rewriter.emit(product.primitive, -float(a), b) if _is_real(a, b) else None
    if type(b) is Variable or not _is_real(b, a):
        return None
    return rewriter.emit(product.primitive, a, -float(b))


def _is_real(number: Operand, x: Variable) -> bool:
    return x.dtype.kind == "f" or isinstance(number, float)


@ALGEBRA.on("add")
def add_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Adding -y is subtracting y."""
    x, y = equation.operands
    for a, b in ((x, y), (y, x)):
        sign = rewriter.definition(b, "negative")
        if sign is not None and _takes_sign(b, equation):
            return rewriter.emit("subtract", a, sign.operands[0])
    return None


@ALGEBRA.on("subtract")
def subtract_negative(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Subtracting -y is adding y."""
    x, y = equation.operands
    sign = rewriter.definition(y, "negative")
    if sign is None or not _takes_sign(y, equation):
        return None
    return rewriter.emit("add", x, sign.operands[0])


# -- a quotient times a number --------------------------------------------------------------


@ALGEBRA.on("scaled_quotient")
def scaled_in_order(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Restore (scale * x) / y, the order of the uncompiled operations."""
    x, y, scale = equation.operands
    return rewriter.emit("divide", rewriter.emit("multiply", scale, x), y)


# -- one element per row ----------------------------------------------------------------------


def _one_a_row(indices: Variable, axis: int) -> bool:
    return axis == -1 and indices.shape[-1] == 1 and indices.size > 0


@ALGEBRA.on("take_along_axis")
def take_by_position(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """One element per row is taken by its flat position, which is computed once for all uses."""
    x, indices = equation.operands
    if not _one_a_row(indices, equation.params["axis"]):
        return None
    positions = _positions(rewriter, indices, x.shape[-1], equation)
    return _reshaped(rewriter, rewriter.emit(own.take_at, x, positions), equation.output.shape)


@ALGEBRA.on("put_along_axis")
def put_by_position(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The adjoint of `take_by_position`."""
    g, indices = equation.operands
    if not _one_a_row(indices, equation.params["axis"]):
        return None
    positions = _positions(rewriter, indices, equation.params["length"], equation)
    return rewriter.emit(own.put_at, g, positions, shape=equation.output.shape)


def _positions(rewriter: Rewriter, indices: Variable, length: int, equation: Equation) -> Variable:
    flat = _reshaped(rewriter, indices, (math.prod(indices.shape),))
    where = {name: value for name, value in equation.params.items() if name == "from_end"}
    return rewriter.emit(own.flat_index, flat, length=length, **where)


@ALGEBRA.on("sum")
def sum_of_put(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """A row that is zero except for one element sums to that element."""
    [x] = equation.operands
    put = rewriter.definition(x, "put_at")
    if put is None or equation.params["axis"] != (-1,) or x.dtype != equation.output.dtype:
        return None
    return _reshaped(rewriter, put.operands[0], equation.output.shape)


@ALGEBRA.on("subtract")
def subtract_from_put(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """-(g put into zeros) - x is -x, minus g at those positions."""
    x, y = equation.operands
    put = rewriter.definition(x, "put_at")
    if put is None or not (_same_kind(x, equation) and _same_kind(y, equation)):
        return None
    g, positions = put.operands
    return rewriter.emit(
        own.subtract_at, rewriter.emit("negative", y), rewriter.emit("negative", g), positions
    )


# -- constants: what depends on constants only is computed once, when the graph is made -------


LARGEST = 1 << 16  # elements of a computed constant: larger ones cost more memory than they save time

CONSTANTS = Rules()


@CONSTANTS.on("*")
def fold(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Compute an equation whose operands are all constant."""
    constants = rewriter.constants
    for x in equation.variables:
        if x not in constants:
            return None
    if any(isinstance(x, SparseSlot) for x in equation.params.values()):
        return None  # the slot's contents change
    if equation.output.size > LARGEST and equation.primitive.view is None:
        return None
    known = as_read({x: constants[x] for x in equation.variables}, [equation])
    values = [known[x] if type(x) is Variable else x for x in equation.operands]
    forward = equation.primitive.forward_on(backend("cpu"))
    with np.errstate(all="ignore"):
        value = np.asarray(forward(*values, **equation.params))
    if equation.output.size > LARGEST and not (is_repeated(value) or value.flags.c_contiguous):
        return None  # constants are C-contiguous
    return rewriter.constant(value)


@CONSTANTS.on("*")
def number(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Replace a constant array of one repeated number by the number, if shape and dtype stay the same."""
    if equation.primitive.expression is None or len(equation.operands) < 2:
        return None
    if rewriter.constants.keys().isdisjoint(equation.variables):
        return None
    condition = equation.primitive.condition
    operands = list(equation.operands)
    for i, x in enumerate(equation.operands):
        if x in rewriter.constants and i != condition:
            operands[i] = _number_or_self(rewriter, x)
    if all(a is b for a, b in zip(operands, equation.operands, strict=True)):
        return None
    if not _fits(operands, equation):
        return None
    return rewriter.emit(equation.primitive, *operands, **equation.params)


def _number_or_self(rewriter: Rewriter, x: Any) -> Any:
    value = scalar_of(rewriter, x) if type(x) is Variable else None
    return x if value is None else value


def _fits(operands: list[Any], equation: Equation) -> bool:
    arrays = [x for x in operands if type(x) is Variable]
    numbers = equation.primitive.values(tuple(operands))
    if not any(type(x) is Variable for x in numbers):
        return False
    same_shape = np.broadcast_shapes(*[x.shape for x in arrays]) == equation.output.shape
    return same_shape and result_dtype(*numbers) == result_dtype(
        *equation.primitive.values(equation.operands)
    )


# -- arrays from parts, which are written to their place directly, and not added up -----------
# Rows of the first axis are a slice of the flat array, so what has such parts is assembled as a flat array,
# and shapes come last. Parts along other axes are concatenated.


ASSEMBLY = Rules()

Parts = list[tuple[int, Variable]]


@ASSEMBLY.on("scatter_add")
def scatter(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for some rows, such as the gradient of a slice."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or span.axis or not x.size:
        return None
    return _assembled(rewriter, [(span.start * math.prod(shape[1:]), x)], equation.output)


@ASSEMBLY.on("scatter_add")
def scattered_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Zeros except for a part of another axis, such as the gradient of some columns."""
    [x], shape = equation.operands, equation.params["shape"]
    span = _span(equation.params["index"], shape)
    if span is None or not span.axis or not x.size:
        return None
    part = _reshaped(rewriter, x, (*shape[: span.axis], span.stop - span.start, *shape[span.axis + 1 :]))
    return _concatenated(rewriter, [(span.start, part)], span.axis, equation.output)


@ASSEMBLY.on("add")
def disjoint(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays whose rows do not overlap is assembled from the rows of both."""
    first, second = (_definition(rewriter, x) for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    parts = sorted(_parts(first) + _parts(second), key=itemgetter(0))
    if _overlap(parts, [x.size for _, x in parts]):
        return None
    return _assembled(rewriter, parts, equation.output)


@ASSEMBLY.on("add")
def disjoint_inside(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum of two arrays of which each is zero where the other is not, along an axis."""
    first, second = (rewriter.definition(x, "concat") for x in equation.operands)
    if first is None or second is None or not all(_is_like(x, equation.output) for x in equation.operands):
        return None
    axis = first.params["axis"] % len(equation.output.shape)
    if second.params["axis"] % len(equation.output.shape) != axis:
        return None
    parts = sorted(_parts_along(rewriter, first) + _parts_along(rewriter, second), key=itemgetter(0))
    if any(x.dtype != equation.output.dtype for _, x in parts):
        return None
    if _overlap(parts, [x.shape[axis] for _, x in parts]):
        return None
    return _concatenated(rewriter, parts, axis, equation.output)


@ASSEMBLY.on("add")
def nothing_added(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum with zeros that are the gradient of an empty slice."""
    for x, zeros in (equation.operands, equation.operands[::-1]):
        scattered = rewriter.definition(zeros, "scatter_add")
        if scattered is not None and not scattered.operands[0].size and _is_like(x, equation.output):
            return x
    return None


@ASSEMBLY.on("concat")
def joined(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """An array concatenated from rows; zeros among them need not be written."""
    output = equation.output
    if equation.params["axis"] % len(output.shape) or any(x.dtype != output.dtype for x in equation.operands):
        return None
    parts: Parts = []
    start = 0
    for x in equation.operands:
        inner = _definition(rewriter, x)
        if inner is not None and rewriter.is_used_once(x):
            parts += [(start + at, part) for at, part in _parts(inner)]
        elif scalar_of(rewriter, x) != 0 and x.size:
            parts.append((start, x))
        start += x.size
    return _assembled(rewriter, parts, output) if parts else None


class _Span(NamedTuple):
    """Some consecutive elements along an axis, and all along the others."""

    axis: int
    start: int
    stop: int


def _span(index: Any, shape: tuple[int, ...]) -> _Span | None:
    """Return what an index takes, if that is all rows, or consecutive elements, or one, along one axis."""
    given = tuple([part for part in (index if isinstance(index, tuple) else (index,)) if part is not None])
    whole = [i for i, part in enumerate(given) if part is Ellipsis]
    if whole:
        all_of_others = (slice(None),) * (len(shape) - len(given) + 1)
        given = (*given[: whole[0]], *all_of_others, *given[whole[0] + 1 :])
    if not given or not shape:
        return None
    found = _Span(0, 0, shape[0])
    for axis, (part, n) in enumerate(zip(given, shape, strict=False)):
        if isinstance(part, int) and not isinstance(part, bool):
            part = slice(part, part + 1 or None)
        if not isinstance(part, slice):
            return None
        start, stop, step = part.indices(n)
        if (start, stop, step) == (0, n, 1):
            continue
        if step != 1 or stop <= start or (found.start, found.stop) != (0, shape[found.axis]):
            return None
        found = _Span(axis, start, stop)
    return found


def _definition(rewriter: Rewriter, x: Operand) -> Equation | None:
    """Return the equation that assembles an array, or the flat one that has its elements."""
    shaped = rewriter.definition(x, "reshape")
    return rewriter.definition(x if shaped is None else shaped.operands[0], "assemble")


def _is_like(x: Operand, other: Variable) -> TypeGuard[Variable]:
    return type(x) is Variable and x.shape == other.shape and x.dtype == other.dtype


def _parts(equation: Equation) -> Parts:
    return list(zip(equation.params["starts"], equation.operands, strict=True))


def _overlap(parts: Parts, lengths: Sequence[int]) -> bool:
    """Tell whether a part, of those in order, begins before the one before it ends."""
    ends = [start + length for (start, _), length in zip(parts, lengths, strict=True)]
    return any(end > start for end, (start, _) in zip(ends, parts[1:], strict=False))


def _parts_along(rewriter: Rewriter, joined: Equation) -> Parts:
    """Return what is concatenated, without zeros, and where each part begins along the axis."""
    found, start, axis = [], 0, joined.params["axis"]
    for x in joined.operands:
        if scalar_of(rewriter, x) != 0:
            found.append((start, x))
        start += x.shape[axis]
    return found


def _concatenated(rewriter: Rewriter, parts: Parts, axis: int, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts, and zeros elsewhere."""
    whole, end = [], 0
    for start, x in (*parts, (like.shape[axis], None)):
        if start > end:
            shape = (*like.shape[:axis], start - end, *like.shape[axis + 1 :])
            whole.append(rewriter.constant(np.broadcast_to(np.zeros((), like.dtype), shape)))
        if x is not None:
            whole.append(x)
            end = start + x.shape[axis]
    return whole[0] if len(whole) == 1 else rewriter.emit("concat", *whole, axis=axis - len(like.shape))


def _assembled(rewriter: Rewriter, parts: Parts, like: Variable) -> Variable:
    """Return an array of the shape of `like` with these parts."""
    flat = [_reshaped(rewriter, part, (part.size,)) for _, part in parts]
    starts = tuple([start for start, _ in parts])
    if [x.size for x in flat] != [like.size]:
        flat = [rewriter.emit(own.assemble, *flat, starts=starts, size=like.size)]
    return _reshaped(rewriter, flat[0], like.shape)
