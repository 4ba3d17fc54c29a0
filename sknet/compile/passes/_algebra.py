"""Algebra that keeps every bit: fewer equations, and fewer passes over memory.

Integer arithmetic is modulo a power of two, so a sign must not move from one width to another, nor
into a number that the dtype cannot hold. The sign of a zero may change only in sums: where NumPy
adds a slice to zeros, a rule takes the slice itself.
"""

import math
from typing import TypeGuard

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules, scalar_of

__all__ = ["ALGEBRA", "SIGNS"]

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
