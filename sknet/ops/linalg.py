"""Linear algebra: equations, inverses, determinants and decompositions, with gradients of any order.

Matrices are the last two axes; axes before those are a stack of them. Integers are computed with as float64.
"""

from sknet.ops._decompose import cholesky, eigh, eigvalsh, qr, svd, svdvals
from sknet.ops._solve import det, inv, matrix_power, pinv, slogdet, solve

__all__ = [
    "cholesky",
    "det",
    "eigh",
    "eigvalsh",
    "inv",
    "matrix_power",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
]
