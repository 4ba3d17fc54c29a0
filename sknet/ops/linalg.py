"""Linear algebra: equations, inverses, determinants and decompositions, with gradients of any order.

Matrices are the last two axes; axes before those are a stack of them. Integers are converted to float64.
"""

import typing as _typing

from sknet._hints import module_getattr as _module_getattr
from sknet.ops._linalg import (
    cholesky,
    det,
    eigh,
    eigvalsh,
    inv,
    matrix_power,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
)

__all__ = [
    "cholesky", "det", "eigh", "eigvalsh", "inv", "matrix_power", "pinv", "qr", "slogdet", "solve", "svd",
    "svdvals",
]  # fmt: skip

if not _typing.TYPE_CHECKING:
    __getattr__ = _module_getattr("sknet.ops.linalg", __all__)

__dir__ = __all__.copy
