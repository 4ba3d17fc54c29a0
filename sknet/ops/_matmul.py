"""Matrix products, dense and with a sparse first operand."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core import _primitive as p
from sknet.device import backend_of, is_array, result_dtype
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._rules import astype_like, broadcast
from sknet.ops._shape import expand_dims, matrix_transpose, reshape, squeeze

__all__ = ["is_sparse", "matmul"]


class _Batch:
    """The axes in front of a matrix, in the form that `broadcast` reads."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(x.shape[:-2])


def _matmul_shape(x: Any, y: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise ShapeError(f"matmul: expected operands with at least 1 axis, got shapes {tuple(x.shape)} and {tuple(y.shape)}")
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(
            f"matmul: shapes {tuple(x.shape)} and {tuple(y.shape)} do not fit: the last axis of the first has "
            f"{x.shape[-1]} elements, the last but one of the second {y.shape[-2]}"
        )
    return (*broadcast("matmul", _Batch(x), _Batch(y)), x.shape[-2], y.shape[-1]), result_dtype(x, y)


def _fold(g: Tensor, operand: Any) -> Tensor:
    """Sum over the batch axes along which a matrix operand was broadcast."""
    if g.ndim > len(operand.shape):
        g = g.sum(tuple(range(-g.ndim, -len(operand.shape))))
    axes = tuple(i - g.ndim for i in range(g.ndim - 2) if operand.shape[i] == 1 and g.shape[i] != 1)
    return astype_like(g.sum(axes, keepdims=True) if axes else g, operand)


def _rows(x: Any) -> Tensor:
    return reshape(x, (-1, x.shape[-1]))


def _left_vjp(g: Tensor, _: Any, x: Any, y: Tensor) -> Tensor:
    return _fold(_matmul(g, matrix_transpose(y)), x)


def _right_vjp(g: Tensor, _: Any, x: Tensor, y: Any) -> Tensor:
    if len(y.shape) == 2 and x.ndim > 2:  # one product over all batches instead of a sum of many
        return astype_like(_matmul(matrix_transpose(_rows(x)), _rows(g)), y)
    return _fold(_matmul(matrix_transpose(x), g), y)


p.matmul.define(
    forward="matmul",
    shape=_matmul_shape,
    vjp=(_left_vjp, _right_vjp),
)


def _matmul(x: Tensor, y: Tensor) -> Tensor:
    return bind(p.matmul, (x, y), {})


def matmul(x: Any, y: Any) -> Tensor:
    """Return the matrix product over the last two axes; axes before those broadcast.

    Parameters
    ----------
    x : Tensor, array or sparse matrix of shape (..., n, k) or (k,)
        A sparse matrix (CSR) is a constant: it has no gradient, and is not made dense.
    y : Tensor or array of shape (..., k, m) or (k,)
        The second factor.

    Returns
    -------
    Tensor of shape (..., n, m)
        Without the axis of a factor that was a vector.

    Raises
    ------
    ShapeError
        If the inner lengths differ.

    Examples
    --------
    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]])
    """
    if is_sparse(x):
        return _sparse_matmul(x, as_tensor(y))
    x, y = as_tensor(x), as_tensor(y)
    if x.ndim >= 2 and y.ndim >= 2:
        return _matmul(x, y)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: expected operands with at least 1 axis, got shapes {x.shape} and {y.shape}")
    left = expand_dims(x, 0) if x.ndim == 1 else x
    right = expand_dims(y, 1) if y.ndim == 1 else y
    product = _matmul(left, right)
    if x.ndim == 1:
        product = squeeze(product, -2)
    return squeeze(product, -1) if y.ndim == 1 else product


# -- sparse -----------------------------------------------------------------------------------


def is_sparse(x: Any) -> bool:
    """Tell whether x is a sparse matrix of a known device."""
    return not isinstance(x, (Tensor, np.ndarray)) and is_array(x) and backend_of(x).is_sparse(x)


def _sparse_shape(y: Any, matrix: Any, transposed: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    rows, columns = matrix.shape[::-1] if transposed else matrix.shape
    if len(y.shape) != 2 or columns != y.shape[0]:
        raise ShapeError(f"matmul: a sparse matrix of shape {(rows, columns)} and an operand of shape {tuple(y.shape)} do not fit")
    if matrix.dtype != y.dtype:
        raise DtypeError(f"matmul: a sparse matrix of {matrix.dtype} does not fit an operand of {y.dtype}: convert one of them")
    return (rows, y.shape[1]), y.dtype


def _sparse_forward(xp: Any, y: Any, *, matrix: Any, transposed: bool) -> Any:
    return (matrix.T if transposed else matrix) @ y


_sparse = Primitive("sparse_matmul").define(
    forward=_sparse_forward,
    shape=_sparse_shape,
    vjp=(lambda g, _, y, matrix, transposed: _sparse_matmul(matrix, g, not transposed),),
    saves="nothing",
    writes_out=False,
)


def _sparse_matmul(matrix: Any, y: Tensor, transposed: bool = False) -> Tensor:
    return bind(_sparse, (y,), {"matrix": matrix, "transposed": transposed})
