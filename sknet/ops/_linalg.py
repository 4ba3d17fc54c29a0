"""Linear algebra: equations, inverses, determinants and decompositions of matrices (the last two axes)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind
from sknet.core import _primitive as kinds
from sknet.device import Namespace, result_dtype
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._elementwise import equal, logical_and, multiply, where
from sknet.ops._products import diagonal, matmul
from sknet.ops._rules import broadcast, floating, unbroadcast
from sknet.ops._shape import broadcast_to, concat, expand_dims, eye, matrix_transpose, squeeze, tril, triu

# -- equations, inverses and determinants -----------------------------------------------------

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
        The solutions z of ``x @ z = y``.

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
        Matrices of any rank; the gradient holds where the rank does not change.
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


# -- decompositions ---------------------------------------------------------------------------


def _diagonal_of(values: Tensor) -> Tensor:
    """Return the matrices whose diagonals are some vectors."""
    return expand_dims(values, -1) * eye(values.shape[-1], dtype=values.dtype, device=values.device)


def _over(x: Tensor, y: Tensor) -> Tensor:
    """Return x / y, and 0 where both are 0: a gradient that is 0 stays 0 at a pole."""
    return x / where(logical_and(equal(x, 0), equal(y, 0)), 1.0, y)


def _gaps(values: Tensor) -> Tensor:
    """Return by how much every value is above every other, column minus row, with ones on the diagonal."""
    n = values.shape[-1]
    return (
        expand_dims(values, -2) - expand_dims(values, -1) + eye(n, dtype=values.dtype, device=values.device)
    )


# -- Cholesky ---------------------------------------------------------------------------------


def _lower_half(x: Tensor) -> Tensor:
    """Return the lower triangle with half of the diagonal."""
    return tril(x) - _diagonal_of(diagonal(x) * 0.5)


def _cholesky_vjp(g: Tensor, out: Tensor, _: Any) -> Tensor:
    back = matrix_transpose(out)
    inner = solve(back, _lower_half(matmul(back, g)))
    found = matrix_transpose(solve(back, matrix_transpose(inner)))
    return (found + matrix_transpose(found)) * 0.5


_cholesky = Primitive("cholesky").define(
    forward=lambda xp, x: xp.linalg.cholesky(x),
    shape=of_square("cholesky", lambda x: tuple(x.shape)),
    vjp=(_cholesky_vjp,),
    saves="output",
    writes_out=False,
)


def cholesky(x: Any) -> Tensor:
    """Return the lower triangular factor of symmetric positive definite matrices: ``x = out @ out.T``.

    Parameters
    ----------
    x : Tensor or array of shape (..., n, n)
        Only the lower triangle is read; the gradient is that of symmetric matrices.

    Returns
    -------
    Tensor of shape (..., n, n)
        With positive diagonals.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.
    ValueError
        If a matrix is not positive definite (on a GPU its factor is not finite).

    Examples
    --------
    >>> cholesky([[4.0, 2.0], [2.0, 10.0]]).numpy()
    array([[2., 0.],
           [1., 3.]])
    """
    return bind(_cholesky, (floating(x),), {})


# -- eigenvalues ------------------------------------------------------------------------------


def _eigh_forward(xp: Namespace, x: Any) -> Any:
    values, vectors = xp.linalg.eigh(x)
    return xp.concatenate([vectors, values[..., None, :]], -2)


def _eigh_vjp(g: Tensor, out: Tensor, _: Any) -> Tensor:
    values, vectors = out[..., -1, :], out[..., :-1, :]
    back = matrix_transpose(vectors)
    turned = matmul(back, g[..., :-1, :])
    turned = (turned - matrix_transpose(turned)) * 0.5
    inner = _over(turned, _gaps(values)) + _diagonal_of(g[..., -1, :])
    return matmul(vectors, matmul(inner, back))


_eigh = Primitive(
    "eigh"
).define(  # the vectors, and below them the values
    forward=_eigh_forward,
    shape=of_square("eigh", lambda x: (*x.shape[:-2], x.shape[-1] + 1, x.shape[-1])),
    vjp=(_eigh_vjp,),
    saves="output",
    writes_out=False,
)


def eigh(x: Any) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors of symmetric matrices.

    Parameters
    ----------
    x : Tensor or array of shape (..., n, n)
        Only the lower triangle is read; the gradient is that of symmetric matrices.

    Returns
    -------
    values : Tensor of shape (..., n)
        In ascending order.
    vectors : Tensor of shape (..., n, n)
        Unit vectors, as columns; the sign of each is arbitrary.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.

    Notes
    -----
    The vectors of equal eigenvalues are not unique and have no derivative: a gradient that goes through
    them is infinite or NaN there, one through the values alone is right.

    Examples
    --------
    >>> values, vectors = eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> values.numpy(), abs(vectors.numpy()).round(3)
    (array([1., 3.]), array([[0.707, 0.707],
           [0.707, 0.707]]))
    """
    both = bind(_eigh, (floating(x),), {})
    return both[..., -1, :], both[..., :-1, :]


def eigvalsh(x: Any) -> Tensor:
    """Return the eigenvalues of symmetric matrices in ascending order, whose lower triangles alone are read.

    Raises
    ------
    ShapeError, DtypeError
        If x is not square, or float16.

    Examples
    --------
    >>> eigvalsh([[2.0, 1.0], [1.0, 2.0]]).numpy()
    array([1., 3.])
    """
    return eigh(x)[0]


# -- singular values --------------------------------------------------------------------------


def _svd_forward(xp: Namespace, x: Any) -> Any:
    left, values, right = xp.linalg.svd(x, full_matrices=False)
    return xp.concatenate([left, xp.swapaxes(right, -1, -2), values[..., None, :]], -2)


def _svd_parts(packed: Tensor, m: int) -> tuple[Tensor, Tensor, Tensor]:
    return packed[..., :m, :], packed[..., m:-1, :], packed[..., -1, :]


def _svd_vjp(g: Tensor, out: Tensor, x: Any) -> Tensor:
    m, n = x.shape[-2:]
    left, right, values = _svd_parts(out, m)
    g_left, g_right, g_values = _svd_parts(g, m)
    row, column = expand_dims(values, -2), expand_dims(values, -1)
    # Differences of squares as products: close values keep their digits.
    gaps = _gaps(values) * (row + column)

    def turned(part: Tensor, by: Tensor) -> Tensor:
        both = matmul(matrix_transpose(part), by)
        return _over(both - matrix_transpose(both), gaps)

    inner = turned(left, g_left) * row + turned(right, g_right) * column + _diagonal_of(g_values)
    found = matmul(left, matmul(inner, matrix_transpose(right)))
    if m > n:  # what of the gradient is orthogonal to all vectors on the left
        rest = g_left - matmul(left, matmul(matrix_transpose(left), g_left))
        found = found + matmul(_over(rest, row), matrix_transpose(right))
    if n > m:
        rest = g_right - matmul(right, matmul(matrix_transpose(right), g_right))
        found = found + matmul(left, matrix_transpose(_over(rest, row)))
    return found


def _svd_shape(x: Any) -> tuple[Shape, np.dtype[Any]]:
    check_matrices("svd", x, square=False)
    m, n = x.shape[-2:]
    return (*x.shape[:-2], m + n + 1, min(m, n)), x.dtype


_svd = Primitive("svd").define(  # left vectors, below them right ones, and last the values
    forward=_svd_forward, shape=_svd_shape, vjp=(_svd_vjp,), saves="output", writes_out=False
)


def svd(x: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the singular value decomposition of matrices, in its reduced form.

    Parameters
    ----------
    x : Tensor or array of shape (..., m, n)
        Any matrices.

    Returns
    -------
    left : Tensor of shape (..., m, k)
        Singular vectors, as columns; k is the shorter side.
    values : Tensor of shape (..., k)
        In descending order.
    right : Tensor of shape (..., k, n)
        Singular vectors, as rows: ``x = (left * values) @ right``.

    Raises
    ------
    ShapeError, DtypeError
        If x is not a stack of matrices, or float16.

    Notes
    -----
    The vectors of equal singular values are not unique and have no derivative, nor have those of 0 in a
    matrix that is not square: a gradient that goes through them is infinite or NaN there, one through the
    values alone is right.

    Examples
    --------
    >>> left, values, right = svd([[0.0, 2.0], [-3.0, 0.0]])
    >>> values.numpy()
    array([3., 2.])
    """
    x = floating(x)
    check_matrices("svd", x, square=False)
    left, right, values = _svd_parts(bind(_svd, (x,), {}), x.shape[-2])
    return left, values, matrix_transpose(right)


def svdvals(x: Any) -> Tensor:
    """Return the singular values of matrices in descending order.

    Raises
    ------
    ShapeError, DtypeError
        If x is not a stack of matrices, or float16.

    Examples
    --------
    >>> svdvals([[0.0, 2.0], [-3.0, 0.0]]).numpy()
    array([3., 2.])
    """
    return svd(x)[1]


# -- orthogonal and triangular ----------------------------------------------------------------


def _qr_forward(xp: Namespace, x: Any) -> Any:
    q, r = xp.linalg.qr(x)
    return xp.concatenate([q, xp.swapaxes(r, -1, -2)], -2)


def _qr_parts(packed: Tensor, m: int) -> tuple[Tensor, Tensor]:
    return packed[..., :m, :], matrix_transpose(packed[..., m:, :])


def _qr_vjp(g: Tensor, out: Tensor, x: Any) -> Tensor:
    """Return the gradient for matrices with at least as many rows as columns."""
    m = x.shape[-2]
    q, r = _qr_parts(out, m)
    g_q, g_r = _qr_parts(g, m)
    inner = triu(matmul(g_r, matrix_transpose(r)) - matmul(matrix_transpose(q), g_q))
    symmetric = inner + matrix_transpose(inner) - _diagonal_of(diagonal(inner))
    return matrix_transpose(solve(r, matrix_transpose(g_q + matmul(q, symmetric))))


def _qr_shape(x: Any) -> tuple[Shape, np.dtype[Any]]:
    check_matrices("qr", x, square=False)
    m, n = x.shape[-2:]
    return (*x.shape[:-2], m + n, n), x.dtype


_qr = Primitive("qr").define(  # q, and below it the transpose of r
    forward=_qr_forward, shape=_qr_shape, vjp=(_qr_vjp,), saves="output", writes_out=False
)


def qr(x: Any) -> tuple[Tensor, Tensor]:
    """Return the QR decomposition: a matrix with orthonormal columns and a triangular one, ``x = q @ r``.

    Parameters
    ----------
    x : Tensor or array of shape (..., m, n)
        Any matrices; for the gradient their first min(m, n) columns have to be independent.

    Returns
    -------
    q : Tensor of shape (..., m, k)
        With k = min(m, n).
    r : Tensor of shape (..., k, n)
        Zero below the diagonal, whose signs are arbitrary.

    Raises
    ------
    ShapeError, DtypeError
        If x is not a stack of matrices, or float16.
    ValueError
        In the gradient, if columns depend on one another (on a GPU the gradient is not finite).

    Examples
    --------
    >>> q, r = qr([[3.0, 1.0], [4.0, 2.0]])
    >>> abs(r.numpy()).round(6)
    array([[5. , 2.2],
           [0. , 0.4]])
    """
    x = floating(x)
    check_matrices("qr", x, square=False)
    m, n = x.shape[-2:]
    if m >= n:
        return _qr_parts(bind(_qr, (x,), {}), m)
    # The columns beyond the square part are rotated as the square part is.
    q, r = _qr_parts(bind(_qr, (x[..., :m],), {}), m)
    return q, concat([r, matmul(matrix_transpose(q), x[..., m:])], -1)
