"""How each primitive is called on NumPy with ``out=``: one short emitter each.

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
    """Write the lines that compute one equation.

    Parameters
    ----------
    w : Writer
        Collects the lines.
    equation : Equation
        The equation to compute.
    """
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
        function = w.function(forward, primitive.name)
        w.line(f"{function}({', '.join(operands)}, {w.name(equation.output)})")
    else:
        w.forward_call(equation, forward, operands)


def _unbroadcast(w: Writer, equation: Equation, operands: list[str]) -> list[str]:
    """Return operands in the shape of the output, or of one number, where they have as many elements.

    NumPy takes twice as long for operands whose shapes differ, as a bias and a single row do.
    """
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
    """Return shape and dtype of the arrays that an equation needs besides its output.

    Parameters
    ----------
    equation : Equation
        Any equation.
    exact : bool
        Whether results must equal those of the primitive's own forward to the last bit.

    Returns
    -------
    list of (tuple of int, dtype)
        Usually empty.
    """
    needed = SCRATCH.get(equation.primitive.name)
    return needed(equation) if needed is not None else forward_scratch(equation)


# -- elementwise ------------------------------------------------------------------------------


@emitter("relu")
def _relu(w: Writer, equation: Equation) -> None:
    [x], out = equation.operands, equation.output
    # NumPy's maximum is vectorized for two arrays, but not for an array and a number.
    shape = x.shape if x.size <= WIDE else ()
    zero = w.block_constant(0, x) if w.is_dividing else w.zeros(shape, x.dtype)
    w.line(f"{w.function(np.maximum, 'maximum')}({w.name(x)}, {zero}, out={w.name(out)})")


@emitter("sigmoid")
def _sigmoid(w: Writer, equation: Equation) -> None:
    """Write 1 / (1 + exp(-x)) with the calls that the forward makes."""
    [x], output = equation.operands, equation.output
    if type(x) is not Variable or x.dtype != output.dtype or output.dtype.char not in REAL:
        by_its_forward(w, equation)
        return
    out, one = w.name(output), w.constant(1, output.dtype)
    w.called["_array_exp"] = np.exp
    silent = w.made(f"{w.function(silently, 'silently')}(over='ignore')", "silent")
    w.line(f"{w.function(np.negative, 'negative')}({w.name(x)}, {out})")
    w.line(f"{silent}({w.function(np.exp, 'exp')}, {out}, {out})", f"_array_exp({out}, {out})")
    w.line(f"{w.function(np.add, 'add')}({out}, {one}, {out})")
    w.line(f"{w.function(np.divide, 'divide')}({one}, {out}, {out})")


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
        w.line(f"{w.function(function, function.__name__)}({operand}, {tail})")
    w.line(f"{w.function(limit, limit.__name__)}({x}, {zero}, out={out})")
    w.line(f"{w.function(join, join.__name__)}({out}, {tail}, {out})")


@emitter("zeros_like", "ones_like")
def _filled(w: Writer, equation: Equation) -> None:
    if w.is_dividing:
        by_its_forward(w, equation)
        return
    w.method(w.name(equation.output), "fill", "0" if equation.primitive.name == "zeros_like" else "1")


@emitter("multiply")
def _multiply(w: Writer, equation: Equation) -> None:
    x, y = equation.operands
    number, array = (x, y) if type(y) is Variable and y.shape == equation.output.shape else (y, x)
    is_number = type(number) is not Variable or (not number.shape and number.dtype == array.dtype)
    if w.exact or not is_number or not _for_level_1(w, array) or not _shares(w, array, equation.output):
        by_its_forward(w, equation)
        return
    flat = w.name(array) if w.is_dividing else w.reshaped(array, (array.size,))
    w.line(f"{level_1(w, 'scal', array)}({w.number(number)}, {flat})")


@emitter("axpy")
def _axpy(w: Writer, equation: Equation) -> None:
    (x, y, _), output = equation.operands, equation.output
    if not _for_level_1(w, y):
        by_its_forward(w, equation)
        return
    unless_in_place(w, x, output)
    if w.is_dividing:
        _write_axpy(w, equation, "", w.name(y), w.name(output), f"{w.name(y)}.size")
        return
    source, target = (w.reshaped(array, (array.size,)) for array in (y, output))
    if y.size <= BLOCK:
        _write_axpy(w, equation, "", source, target, str(y.size))
        return
    # In blocks too small for BLAS to use threads: SciPy's threads would compete with NumPy's.
    blocks = w.made(f"{w.function(_blocks, 'blocks')}({source}, {target})", "b")
    _write_axpy(w, equation, f"for b_x, b_y in {blocks}: ", "b_x", "b_y", "b_x.size")


def _write_axpy(w: Writer, equation: Equation, head: str, source: str, target: str, size: str) -> None:
    _, y, a = equation.operands
    factor = w.number(a)
    call = f"{level_1(w, 'axpy', y)}({source}, {target}, {size}, {factor})"
    if type(a) is not Variable:
        w.line(f"{head}{call}")
        return
    # BLAS returns at once for a factor of 0, although 0 times NaN or infinity is NaN.
    zero = w.function(add_zero_times, "add_zero_times")
    w.called["_array_axpy"] = add_multiple
    w.line(
        f"{head}{call} if {factor} else {zero}({source}, {target})",
        f"{head}_array_axpy({source}, {target}, {size}, {factor})",
    )


def add_zero_times(source: np.ndarray, target: np.ndarray) -> None:
    """Add what is 0, or NaN."""
    target += source * 0


def add_multiple(source: np.ndarray, target: np.ndarray, size: int, factor: np.ndarray) -> None:
    """Add a multiple of an array to another: what one line of a step does."""
    from scipy.linalg import blas

    axpy = blas.get_blas_funcs("axpy", dtype=source.dtype)
    if factor:
        axpy(source, target, size, factor)
    else:
        add_zero_times(source, target)


def _blocks(*arrays: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    starts = range(0, arrays[0].size, BLOCK)
    return [tuple([array[start : start + BLOCK] for array in arrays]) for start in starts]


def _for_level_1(w: Writer, x: Variable) -> bool:
    """Tell whether SciPy's BLAS wrappers can write to an array: they copy arrays that are not contiguous."""
    flat = x.size > 0 and w.plan.views.is_contiguous(x)
    return flat and x.dtype.char in REAL and (x.ndim == 1 or not w.is_dividing)


def level_1(w: Writer, name: str, like: Variable) -> str:
    """Return the name of a function of BLAS for vectors of the dtype of `like`."""
    from scipy.linalg import blas  # predictors seldom need it

    return w.function(blas.get_blas_funcs(name, dtype=like.dtype), name)


def _shares(w: Writer, x: Variable, output: Variable) -> bool:
    """Tell whether operand and output share memory, so that nothing is left to copy."""
    return x.dtype == output.dtype and w.plan.buffers[w.plan.views.root(x)] is w.plan.buffers[output]


def unless_in_place(w: Writer, x: Variable, output: Variable) -> None:
    if not _shares(w, x, output):
        w.line(f"{w.function(np.copyto, 'copyto')}({w.name(output)}, {w.name(x)})")


@emitter("astype")
def _astype(w: Writer, equation: Equation) -> None:
    [x], copyto = equation.operands, w.function(np.copyto, "copyto")
    w.line(f"{copyto}({w.name(equation.output)}, {w.name(x)}, 'unsafe')")


@emitter("copy", "broadcast_to", "permute_dims")
def _copy(w: Writer, equation: Equation) -> None:
    w.line(f"{w.function(np.copyto, 'copyto')}({w.name(equation.output)}, {w.name(equation.operands[0])})")


@emitter("reshape")
def _reshape(w: Writer, equation: Equation) -> None:
    [x] = equation.operands  # not contiguous, so this is a copy rather than a view
    out = w.reshaped(equation.output, x.shape)
    w.line(f"{w.function(np.copyto, 'copyto')}({out}, {w.name(x)})")


@emitter("where")
def _where(w: Writer, equation: Equation) -> None:
    condition, x, y = w.operands(equation)
    output, copyto = equation.output, w.function(np.copyto, "copyto")
    out, other = w.name(output), equation.operands[2]
    if type(other) is not Variable or not _shares(w, other, output):
        w.line(f"{copyto}({out}, {y})")
    w.line(f"{copyto}({out}, {x}, where={condition})")


@emitter("masked")
def _masked(w: Writer, equation: Equation) -> None:
    x, mask = equation.operands
    # A product of its bits with 0 or 1: many times faster than `where`, and exact for NaN and infinities.
    bits = w.function(np.dtype(f"i{x.dtype.itemsize}"), f"i{x.dtype.itemsize}")
    views = [f"{w.name(v)}.view({bits})" for v in (x, equation.output)]
    source, out = views if w.is_dividing else [w.made(view, "bits") for view in views]
    w.line(f"{w.function(np.multiply, 'multiply')}({source}, {w.name(mask)}, {out})")


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
    w.line(f"{uniform}({step}, {draws})")
    w.line(f"{w.function(np.greater_equal, 'greater_equal')}({draws}, {limit}, {keep})")
    w.line(f"{w.function(np.copyto, 'copyto')}({out}, {keep})")
    w.line(f"{w.function(np.multiply, 'multiply')}({out}, {scale}, {out})")


def fill_uniform(key: tuple[int, int], site: int, shape: tuple[int, ...], step: Any, out: np.ndarray) -> None:
    """Fill a float32 array with the draws of a step."""
    philox_uniform(key, step, site, shape, np.float32, out)


# -- arrays from parts ------------------------------------------------------------------------


@emitter("concat")
def _concat(w: Writer, equation: Equation) -> None:
    has_zeros, parts = w.parts_of(equation)
    if has_zeros:  # all at once: a few columns in between take longer
        w.method(w.name(equation.output), "fill", "0")
    for place, x in parts:
        w.line(f"{w.function(np.copyto, 'copyto')}({place}, {w.name(x)})")


@emitter("assemble")
def _assemble(w: Writer, equation: Equation) -> None:
    out = w.name(equation.output)
    for i, (start, part) in enumerate(zip(equation.params["starts"], equation.operands, strict=True)):
        if not w.plan.is_in_place(equation, i):
            target = w.made(f"{out}[{start}:{start + math.prod(part.shape)}]", "p")
            w.line(f"{w.function(np.copyto, 'copyto')}({target}, {w.name(part)})")
