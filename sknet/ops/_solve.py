"""Systems of equations, inverses and determinants; matrices are the last two axes."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace, result_dtype
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._create import eye
from sknet.ops._elementwise import multiply
from sknet.ops._matmul import matmul
from sknet.ops._rules import broadcast, floating, unbroadcast
from sknet.ops._shape import broadcast_to, expand_dims, matrix_transpose, squeeze

__all__ = ["det", "inv", "matrix_power", "pinv", "slogdet", "solve"]

Shape = tuple[int, ...]
Rule = Callable[..., tuple[Shape, np.dtype[Any]]]


def check_matrices(name: str, x: Any, *, square: bool = True) -> None:
    """Raise for an operand that is not a stack of (square) matrices of a dtype that LAPACK computes in."""
    shape = tuple(x.shape)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        wanted = "(..., n, n)" if square else "(..., m, n)"
        raise ShapeError(f"{name}: expected matrices of shape {wanted}, got {shape}")
    if x.dtype not in (np.float32, np.float64):
        raise DtypeError(f"{name}: expected float32 or float64, got {x.dtype}: use .astype")


def of_square(name: str, shape: Callable[[Any], Shape]) -> Rule:
    """Return the shape rule of an operation on square matrices, given the shape of its result."""

    def rule(x: Any) -> tuple[Shape, np.dtype[Any]]:
        check_matrices(name, x)
        return shape(x), x.dtype

    return rule


# -- systems of equations ---------------------------------------------------------------------


class _Batch:
    """The axes in front of a matrix, in the form that `broadcast` reads."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(x.shape[:-2])


def _solve_shape(x: Any, y: Any) -> tuple[Shape, np.dtype[Any]]:
    check_matrices("solve", x)
    check_matrices("solve", y, square=False)
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"solve: {x.shape[-1]} equations of shape {tuple(x.shape)} do not fit {y.shape[-2]} right-hand "
            f"sides of shape {tuple(y.shape)}"
        )
    return (*broadcast("solve", _Batch(x), _Batch(y)), *y.shape[-2:]), result_dtype(x, y)


def _solve(x: Tensor, y: Tensor) -> Tensor:
    return bind(_solve_record, (x, y), {})


def _solved(g: Tensor, x: Tensor) -> Tensor:
    """Return the gradient that arrives at the right-hand sides."""
    return _solve(matrix_transpose(x), g)


_solve_record = Primitive("solve").define(
    forward=lambda xp, x, y: xp.linalg.solve(x, y),
    shape=_solve_shape,
    vjp=(
        lambda g, out, x, y: unbroadcast(-matmul(_solved(g, x), matrix_transpose(out)), x),
        lambda g, out, x, y: unbroadcast(_solved(g, x), y),
    ),
    saves="both",
    writes_out=False,
)


def solve(x: Any, y: Any) -> Tensor:
    """Return the solutions of systems of linear equations.

    Parameters
    ----------
    x : Tensor or array of shape (..., n, n)
        The equations' coefficients; axes before those broadcast.
    y : Tensor or array of shape (n,) or (..., n, k)
        Their right-hand sides, k for every system.

    Returns
    -------
    Tensor of shape (..., n) or (..., n, k)
        What x has to be multiplied with to give `y`.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, the numbers of equations differ, or a dtype is float16.
    ValueError
        If a matrix is singular (on a GPU its solution is not finite).

    Examples
    --------
    >>> solve([[3.0, 1.0], [1.0, 2.0]], [9.0, 8.0]).numpy()
    array([2., 3.])
    """
    x, y = floating(x), floating(y)
    if y.ndim == 1:
        return squeeze(_solve(x, expand_dims(y, -1)), -1)
    return _solve(x, y)


_inv = Primitive("inv").define(
    forward=lambda xp, x: xp.linalg.inv(x),
    shape=of_square("inv", lambda x: tuple(x.shape)),
    vjp=(lambda g, out, x: -matmul(matrix_transpose(out), matmul(g, matrix_transpose(out))),),
    saves="output",
    writes_out=False,
)


def inv(x: Any) -> Tensor:
    """Return the inverse of square matrices.

    To multiply by it once, `solve` is faster and more accurate.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.
    ValueError
        If a matrix is singular (on a GPU its inverse is not finite).

    Examples
    --------
    >>> inv([[2.0, 0.0], [0.0, 4.0]]).numpy()
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return bind(_inv, (floating(x),), {})


def _pinv_vjp(g: Tensor, out: Tensor, x: Tensor, **_: Any) -> Tensor:
    # The derivative at a constant rank: G. Golub & V. Pereyra, SIAM Journal on Numerical Analysis 10, 1973.
    back, g_back = matrix_transpose(out), matrix_transpose(g)
    shares = -matmul(back, matmul(g, back))
    left = matmul(g_back, matmul(out, back))
    right = matmul(matmul(back, out), g_back)
    return shares + (left - matmul(x, matmul(out, left))) + (right - matmul(matmul(right, out), x))


def _pinv_shape(x: Any, rtol: float) -> tuple[Shape, np.dtype[Any]]:
    check_matrices("pinv", x, square=False)
    return (*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype


_pinv = Primitive("pinv").define(
    forward=lambda xp, x, *, rtol: xp.linalg.pinv(x, rtol),
    shape=_pinv_shape,
    params={"rtol": kinds.NUMBER},
    vjp=(_pinv_vjp,),
    saves="both",
    writes_out=False,
)


def pinv(x: Any, rtol: float | None = None) -> Tensor:
    """Return the (Moore-Penrose) pseudoinverse of matrices.

    Parameters
    ----------
    x : Tensor or array of shape (..., m, n)
        Of any rank; the gradient holds where the rank does not change.
    rtol : float or None, default=None
        Singular values at or below this fraction of the largest count as 0; None takes the longer side
        times the dtype's resolution.

    Returns
    -------
    Tensor of shape (..., n, m)
        The pseudoinverse, which is the inverse if there is one.

    Examples
    --------
    >>> pinv([[2.0, 0.0], [0.0, 0.0]]).numpy()
    array([[0.5, 0. ],
           [0. , 0. ]])
    """
    x = floating(x)
    check_matrices("pinv", x, square=False)
    default = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return bind(_pinv, (x,), {"rtol": default if rtol is None else float(rtol)})


def matrix_power(x: Any, n: int) -> Tensor:
    """Return square matrices to the power of n; a negative `n` inverts them, 0 gives the identity.

    Raises
    ------
    ShapeError
        If x is not square.
    ValueError
        If n is negative and a matrix is singular.

    Examples
    --------
    >>> matrix_power([[1.0, 1.0], [0.0, 1.0]], 5).numpy()
    array([[1., 5.],
           [0., 1.]])
    """
    x = floating(x)
    check_matrices("matrix_power", x)
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    return _power(inv(x) if n < 0 else x, abs(n))


def _power(x: Tensor, n: int) -> Tensor:
    if n == 1:
        return x
    half = _power(x, n // 2)
    even = matmul(half, half)
    return matmul(even, x) if n % 2 else even


# -- determinants -----------------------------------------------------------------------------


def _back(x: Tensor) -> Tensor:
    """Return the transposed inverse: the gradient of the logarithm of the determinant."""
    return matrix_transpose(inv(x))


def _spread(g: Tensor) -> Tensor:
    return expand_dims(g, (-2, -1))


_det = Primitive("det").define(
    forward=lambda xp, x: xp.linalg.det(x),
    shape=of_square("det", lambda x: tuple(x.shape[:-2])),
    vjp=(lambda g, out, x: multiply(_spread(g * out), _back(x)),),
    saves="both",
    writes_out=False,
)


def det(x: Any) -> Tensor:
    """Return the determinant of square matrices.

    For large matrices it may overflow; `slogdet` does not.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.
    ValueError
        In the gradient, if a matrix is singular (on a GPU the gradient is not finite).

    Examples
    --------
    >>> det([[2.0, 1.0], [1.0, 3.0]]).numpy()
    array(5.)
    """
    return bind(_det, (floating(x),), {})


def _slogdet_forward(xp: Namespace, x: Any) -> Any:
    return xp.stack(tuple(xp.linalg.slogdet(x)), -1)


_slogdet = Primitive(
    "slogdet"
).define(  # sign and logarithm side by side
    forward=_slogdet_forward,
    shape=of_square("slogdet", lambda x: (*x.shape[:-2], 2)),
    vjp=(lambda g, _, x: multiply(_spread(g[..., 1]), _back(x)),),
    writes_out=False,
)


def slogdet(x: Any) -> tuple[Tensor, Tensor]:
    """Return the sign of the determinant of square matrices, and the logarithm of its absolute value.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.
    ValueError
        In the gradient, if a matrix is singular (on a GPU the gradient is not finite).

    Examples
    --------
    >>> sign, logarithm = slogdet([[0.0, 2.0], [4.0, 0.0]])
    >>> sign.item(), logarithm.item()
    (-1.0, 2.0794415416798357)
    """
    both = bind(_slogdet, (floating(x),), {})
    return both[..., 0].detach(), both[..., 1]
