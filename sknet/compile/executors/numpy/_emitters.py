"""Calls of primitives on NumPy with ``out=``: one short emitter each.

For a primitive without an emitter, its own forward is called: a ufunc with the output as last argument,
any other function with ``out=``.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sknet._warnings import silently
from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._calls import Name
from sknet.compile.executors._writer import Emitter, Writer, forward_scratch, registry
from sknet.compile.passes import BLOCK
from sknet.device import backend, philox_uniform

__all__ = [
    "REAL",
    "Needs",
    "add_multiple",
    "by_its_forward",
    "emit",
    "emitter",
    "fill_uniform",
    "level_1",
    "scratch",
    "scratch_of",
    "unless_in_place",
]

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
    """Add the calls that compute one equation."""
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

    function: Callable[..., Any] = blas.get_blas_funcs(name, dtype=like.dtype)
    return function


def _shares(w: Writer, x: Variable, output: Variable) -> bool:
    """Tell whether operand and output share memory, so that nothing is left to copy."""
    return x.dtype == output.dtype and w.plan.buffers[w.plan.views.root(x)] is w.plan.buffers[output]


def unless_in_place(w: Writer, x: Variable, output: Variable) -> None:
    if not _shares(w, x, output):
        w.call(np.copyto, w.name(output), w.name(x))


@emitter("astype")
def _astype(w: Writer, equation: Equation) -> None:
    w.call(np.copyto, w.name(equation.output), w.name(equation.operands[0]), "unsafe")


@emitter("copy", "broadcast_to", "permute_dims")
def _copy(w: Writer, equation: Equation) -> None:
    w.call(np.copyto, w.name(equation.output), w.name(equation.operands[0]))


@emitter("reshape")
def _reshape(w: Writer, equation: Equation) -> None:
    [x] = equation.operands  # not contiguous, so this is a copy rather than a view
    out = w.reshaped(equation.output, x.shape)
    w.call(np.copyto, out, w.name(x))


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
    uniform = w.partial(partial(fill_uniform, key, site, shape), "uniform")
    limit = w.constant(p, np.float32)
    scale = w.constant(1.0 / (1.0 - p) if p < 1 else 0.0, equation.output.dtype)
    w.call(uniform, step, draws)
    w.call(np.greater_equal, draws, limit, keep)
    w.call(np.copyto, out, keep)
    w.call(np.multiply, out, scale, out)


def fill_uniform(key: tuple[int, int], site: int, shape: tuple[int, ...], step: Any, out: np.ndarray) -> None:
    """Fill a float32 array with the draws of a step."""
    philox_uniform(key, step, site, shape, np.float32, out)


# -- arrays from parts ------------------------------------------------------------------------


@emitter("concat")
def _concat(w: Writer, equation: Equation) -> None:
    has_zeros, parts = w.parts_of(equation)
    if has_zeros:  # all at once: a few columns in between take longer
        w.call(np.ndarray.fill, w.name(equation.output), 0)
    for place, x in parts:
        w.call(np.copyto, place, w.name(x))


@emitter("assemble")
def _assemble(w: Writer, equation: Equation) -> None:
    out = w.name(equation.output)
    for i, (start, part) in enumerate(zip(equation.params["starts"], equation.operands, strict=True)):
        if not w.plan.is_in_place(equation, i):
            target = w.part(out, slice(start, start + math.prod(part.shape)))
            w.call(np.copyto, target, w.name(part))
