"""Algebra that changes rounding: the same numbers to the last digits, in fewer passes over memory."""

from sknet.compile import _internal as own
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.passes._rewrite import Rewriter, Rules

__all__ = ["RELAXED"]

RELAXED = Rules()


# -- softmax, in parts that loss and gradient share -------------------------------------------


@RELAXED.on("log_softmax")
def log_softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Shifted logits minus the logarithm of their exponentials' sum."""
    if not equation.output.size:
        return None
    shifted, _, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("subtract", shifted, rewriter.emit("log", total))


@RELAXED.on("softmax")
def softmax_in_parts(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Exponentials of shifted logits over their sum."""
    if not equation.output.size:
        return None
    _, raised, total = _softmax_parts(rewriter, equation)
    return rewriter.emit("divide", raised, total)


def _softmax_parts(rewriter: Rewriter, equation: Equation) -> tuple[Variable, Variable, Variable]:
    [x], axis = equation.operands, (equation.params["axis"],)
    shifted = rewriter.emit("subtract", x, rewriter.emit("max", x, axis=axis, keepdims=True))
    raised = rewriter.emit("exp", shifted)
    return shifted, raised, rewriter.emit("sum", raised, axis=axis, keepdims=True)


@RELAXED.on("exp")
def exp_of_log(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """exp(x - log(y)) is exp(x) / y, where y is small."""
    [x] = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    logarithm = rewriter.definition(difference.operands[1], "log")
    if logarithm is None or not _is_smaller(logarithm.output, x):
        return None
    return rewriter.emit("divide", rewriter.emit("exp", difference.operands[0]), logarithm.operands[0])


@RELAXED.on("take_at")
def take_before(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Of a difference x - log(y) with one y a row, take from x, and subtract a row's logarithm."""
    x, positions = equation.operands
    difference = rewriter.definition(x, "subtract")
    if difference is None:
        return None
    a, b = difference.operands
    if (
        rewriter.definition(b, "log") is None
        or b.shape != (*x.shape[:-1], 1)
        or type(a) is not Variable
        or a.shape != x.shape
    ):
        return None
    rest = rewriter.emit("reshape", b, shape=positions.shape)
    return rewriter.emit("subtract", rewriter.emit(own.take_at, a, positions), rest)


# -- small factors meet before they meet a large one ------------------------------------------


@RELAXED.on("multiply", "divide")
def small_factors_first(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """(x * a) * b is x * (a * b), where a and b are smaller than x; quotients alike."""
    x, b = equation.operands
    if equation.primitive.name == "multiply" and _is_smaller(x, b):
        x, b = b, x
    if type(x) is not Variable or not _is_smaller(b, x) or not rewriter.is_used_once(x):
        return None
    inner = rewriter.definition(x, "multiply") or rewriter.definition(x, "divide")
    if inner is None:
        return None
    large, a = inner.operands
    if inner.primitive.name == "multiply" and _is_smaller(large, x):
        large, a = a, large
    if type(large) is not Variable or large.shape != x.shape or not _is_smaller(a, x):
        return None
    if type(a) is not Variable and type(b) is not Variable and not _both_float(a, b):
        return None
    return _merged(rewriter, large, a, inner.primitive.name, b, equation.primitive.name)


@RELAXED.on("divide")
def reciprocal(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """One number divided by a constant is a product, which can be made in place."""
    x, y = equation.operands
    if type(x) is not Variable or x.shape or type(y) is Variable or x.dtype != equation.output.dtype:
        return None
    return rewriter.emit("multiply", x, 1.0 / y) if x.dtype.kind == "f" and y else None


def _both_float(a: Operand, b: Operand) -> bool:
    return isinstance(a, float) and isinstance(b, float) and b != 0


def _merged(
    rewriter: Rewriter, x: Variable, a: Operand, inner: str, b: Operand, outer: str
) -> Operand | None:
    if inner == outer == "divide":
        return (
            None if type(a) is not Variable else rewriter.emit("divide", x, rewriter.emit("multiply", a, b))
        )
    numerator, other = (a, b) if inner == "multiply" else (b, a)
    name = "multiply" if inner == outer else "divide"
    if type(numerator) is Variable or type(other) is Variable:
        return rewriter.emit("multiply", x, rewriter.emit(name, numerator, other))
    return rewriter.emit("multiply", x, numerator * other if name == "multiply" else numerator / other)


def _is_smaller(x: Operand, than: Operand) -> bool:
    return type(than) is Variable and (type(x) is not Variable or x.size * 2 <= than.size > 0)


@RELAXED.on("divide", "multiply")
def number_last(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """(c * x) / y is c * (x / y): the number meets what comes next, which may take it for nothing."""
    x, y = equation.operands
    product = rewriter.definition(x, "multiply")
    if product is None or type(y) is not Variable or y.shape != x.shape or not rewriter.is_used_once(x):
        return None
    c, rest = _number_and_rest(product)
    if c is None or rest.shape != x.shape:
        return None
    return rewriter.emit("multiply", c, rewriter.emit(equation.primitive, rest, y))


@RELAXED.on("add", "subtract")
def add_multiple(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """For flat arrays, and onto a product of matrices, x + c * y takes one pass."""
    output = equation.output
    if output.dtype.kind != "f" or not output.size:
        return None
    x, y = equation.operands
    for base, other in ((x, y), (y, x))[: 2 if equation.primitive.name == "add" else 1]:
        product = rewriter.definition(other, "multiply")
        if product is None or not rewriter.is_used_once(other) or not _same(base, output):
            continue
        c, rest = _number_and_rest(product)
        if c is None or not _same(rest, output) or rest is base:
            continue
        if output.ndim != 1 and not (rewriter.definition(base, "matmul") and _is_part(rewriter, rest)):
            continue
        if equation.primitive.name == "subtract":
            c = rewriter.emit("negative", c) if type(c) is Variable else -c
        return rewriter.emit(own.axpy, base, rest, c)
    return None


def _is_part(rewriter: Rewriter, x: Variable) -> bool:
    """Tell whether the elements of `x` are a part of a flat array, or all of an input, in their order."""
    whole = rewriter.definition(x, "reshape")
    flat = whole.operands[0] if whole is not None else x
    part = rewriter.definition(flat, "getitem")
    return flat not in rewriter.definitions or (part is not None and flat.ndim == part.operands[0].ndim == 1)


def _same(x: Operand, output: Variable) -> bool:
    return type(x) is Variable and x.shape == output.shape and x.dtype == output.dtype


def _number_and_rest(product: Equation) -> tuple[Operand | None, Variable]:
    """Return the factor of a product that is one number for all elements, and the other factor."""
    a, b = product.operands
    if type(b) is Variable and (type(a) is not Variable or (not a.shape and a.dtype == b.dtype)):
        return a, b
    if type(a) is Variable and (type(b) is not Variable or (not b.shape and a.dtype == b.dtype)):
        return b, a
    return None, product.output


# -- sums of products -------------------------------------------------------------------------


@RELAXED.on("sum")
def sum_of_product(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """The sum over all of a product is an inner product, which needs no array of products."""
    [x] = equation.operands
    product = rewriter.definition(x, "multiply")
    if product is None or len(equation.params["axis"]) != len(x.shape) or not rewriter.is_used_once(x):
        return None
    a, b = product.operands
    if (
        any(type(y) is not Variable or y.shape != x.shape or y.dtype != x.dtype for y in (a, b))
        or x.dtype.kind != "f"
    ):
        return None
    row = rewriter.emit("reshape", a, shape=(1, x.size))
    column = rewriter.emit("reshape", b, shape=(x.size, 1))
    return rewriter.emit("reshape", rewriter.emit("matmul", row, column), shape=equation.output.shape)


# -- powers -----------------------------------------------------------------------------------


@RELAXED.on("pow")
def simple_power(rewriter: Rewriter, equation: Equation) -> Variable | None:
    """Squares and square roots have functions of their own."""
    x, exponent = equation.operands
    if type(x) is not Variable or x.dtype.kind != "f" or type(exponent) is Variable:
        return None
    name = {2: "square", 0.5: "sqrt"}.get(exponent)
    return None if name is None else rewriter.emit(name, x)
