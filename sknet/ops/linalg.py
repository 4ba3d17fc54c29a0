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

_NAMES = {
    **dict.fromkeys(("norm", "vector_norm"), "use ops.norm(x, ord, axis)"),
    **dict.fromkeys(("trace", "diagonal", "outer", "matmul", "vecdot", "tensordot"), "it is in sknet.ops"),
    **dict.fromkeys(("eig", "eigvals"), "use eigh or eigvalsh, for symmetric matrices"),
    "lstsq": "use pinv(x) @ y, or qr and solve",
    **dict.fromkeys(("matrix_rank", "cond"), "use svdvals(x)"),
    **dict.fromkeys(("inverse", "pinverse"), "use inv or pinv"),
    "solve_triangular": "use solve",
    "multi_dot": "use x @ y @ z",
}

if not _typing.TYPE_CHECKING:
    __getattr__ = _module_getattr("sknet.ops.linalg", __all__, _NAMES)


def __dir__() -> list[str]:
    return __all__
