"""The complementary error function of single precision by NumPy's vectorized functions.

SciPy computes one element after the other in double precision, which takes half of a transformer's forward
pass. With ``r = 1 / (|x| + 2)`` and ``t = 1 - 4 r``, which is between -1 and 1,

    erfc(|x|) = exp(-x ** 2) * r * p(t)

where p is a polynomial. The exponential of a rounded square would lose digits, so x is split into h, whose
square is exact, and a rest. Native code makes the same operations and calls NumPy's exponential, so it leaves
the same bits.
"""

import numpy as np

from sknet._late import above
from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._writer import Writer
from sknet.compile.executors.numpy._emitters import Needs, by_its_forward, emitter, scratch

__all__ = ["COEFFICIENTS", "fast_erfc"]

LEAST = 2048  # elements from which on 35 calls of NumPy take less time than SciPy's loop
CHUNK = 16384  # elements at a time, so that temporary arrays stay in the cache
ROOMS = 4  # temporary arrays
ZERO = 11.0  # from here on the result is 0 in single precision
CENTER = 2.0
# Of p, highest power first: the Chebyshev interpolation of (|x| + 2) exp(x ** 2) erfc(x), exact to 5e-8.
COEFFICIENTS = np.array(
    [
        -5.81472641e-05, -5.39254263e-04, -7.09947580e-04, 3.05637542e-03, 6.42752642e-03,
        -2.15080651e-02, -3.64345106e-02, 2.79472142e-01, -6.87160999e-01, 1.02158270e00,
    ],
    np.float32,
)  # fmt: skip
TOP = np.full(CHUNK, ZERO, np.float32)  # a minimum of two arrays is vectorized, that with a number is not
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
    np.absolute(x, a)
    np.minimum(a, TOP[: a.size], out=a)
    _negative_power(a, r, t, power)
    np.add(a, CENTER, a)
    np.divide(1, a, r)
    np.multiply(r, -2 * CENTER, t)
    np.add(t, 1, t)
    np.multiply(t, COEFFICIENTS[0], a)
    for coefficient in COEFFICIENTS[1:-1]:
        np.add(a, coefficient, a)
        np.multiply(a, t, a)
    np.add(a, COEFFICIENTS[-1], a)
    np.multiply(a, r, a)
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
