"""The head and tail of every generated module: imports, compiler options, sums, and types."""

__all__ = ["HEAD", "TAIL"]

HEAD = '''"""Training steps: written by sknet, compiled by Numba."""

import math

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype
from numpy import float32, float64, int32, int64, uint32, uint64

T = np.{dtype}
options = dict(nogil=True, error_model="numpy", boundscheck=False)
loops = njit(**options)
# Polynomials, for which a product and a sum may be rounded once.
scalar = njit(fastmath={{"contract"}}, **options)
# Terms of a sum may be added in any order; all else is computed as it is written. For whole functions
# the flag would let x / y be x * (1 / y), and (x + y) - (y + x) be 0 where x is NaN.
REORDERED = ("reassoc", "nsz", "contract")


@intrinsic
def plus(typing, total, x):
    """Add a term to a sum."""

    def generate(context, builder, signature, values):
        term = context.cast(builder, values[1], x, total)
        return builder.fadd(values[0], term, flags=REORDERED)

    return total(total, x), generate


@intrinsic
def plus_product(typing, total, x, y):
    """Add a product to a sum, in the precision of the sum."""

    def generate(context, builder, signature, values):
        factors = [context.cast(builder, value, kind, total) for value, kind in zip(values[1:], (x, y))]
        return builder.fadd(values[0], builder.fmul(*factors, flags=("contract",)), flags=REORDERED)

    return total(total, x, y), generate


'''
TAIL = '''

def compile_for(texts):
    """Compile for arguments of these types."""
    steps.compile(tuple(type_of(text) for text in texts.split(";")))


def type_of(text):
    if ":" not in text:
        return {"int": types.int64, "bool": types.boolean}[text]
    dtype, _, form = text.partition(":")
    return types.Array(from_dtype(np.dtype(dtype)), int(form[0]), form[1])
'''
