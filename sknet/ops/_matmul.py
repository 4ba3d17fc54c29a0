"""Matrix products."""

import math
from typing import Any

import numpy as np

from sknet.core import Tensor, as_tensor, bind
from sknet.core.extend import primitives as p
from sknet.device import result_dtype
from sknet.exceptions import ShapeError
from sknet.ops._rules import astype_like, broadcast
from sknet.ops._shape import expand_dims, matrix_transpose, reshape
from sknet.ops._sparse import is_sparse, sparse_matmul

__all__ = ["matmul"]


class _Batch:
    """The axes in front of a matrix, in the form that `broadcast` reads."""

    def __init__(self, x: Any) -> None:
        self.shape = tuple(x.shape[:-2])


def _matmul_shape(x: Any, y: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    left, right = tuple(getattr(x, "shape", ())), tuple(getattr(y, "shape", ()))
    if not left or not right:
        raise ShapeError(f"matmul: expected operands with at least 1 axis, got shapes {left} and {right}")
    last = right[-2] if len(right) > 1 else right[0]
    if left[-1] != last:
        raise ShapeError(
            f"matmul: shapes {left} and {right} do not fit: the last axis of the first has {left[-1]} "
            f"elements, the {'last but one' if len(right) > 1 else 'only axis'} of the second {last}"
        )
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    return (*broadcast("matmul", _Batch(x), _Batch(y)), *rows, *columns), result_dtype(x, y)


def _lifted(g: Tensor, x: Any, y: Any) -> Tensor:
    """Give the gradient of a product the axes that it would have if its vectors were matrices."""
    if y.ndim == 1:
        g = expand_dims(g, -1)
    return expand_dims(g, -2) if x.ndim == 1 else g


def _fold(g: Tensor, operand: Any) -> Tensor:
    """Sum over the batch axes along which an operand was broadcast, and give it the operand's shape."""
    matrix = (1,) * (2 - operand.ndim) + operand.shape
    if g.ndim > len(matrix):
        g = g.sum(tuple(range(-g.ndim, -len(matrix))))
    axes = tuple(i - g.ndim for i in range(g.ndim - 2) if matrix[i] == 1 and g.shape[i] != 1)
    g = g.sum(axes, keepdims=True) if axes else g
    return astype_like(g if operand.ndim > 1 else reshape(g, operand.shape), operand)


def _rows(x: Tensor) -> Tensor:
    return reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _left_vjp(g: Tensor, _: Any, x: Tensor, y: Tensor) -> Tensor:
    right = expand_dims(y, -1) if y.ndim == 1 else y
    return _fold(_matmul(_lifted(g, x, y), matrix_transpose(right)), x)


def _right_vjp(g: Tensor, _: Any, x: Tensor, y: Tensor) -> Tensor:
    g, left = _lifted(g, x, y), expand_dims(x, 0) if x.ndim == 1 else x
    if y.ndim <= 2 < left.ndim:  # one product over all batches instead of a sum of many
        g, left = _rows(g), _rows(left)
    return _fold(_matmul(matrix_transpose(left), g), y)


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
        The second factor; with a sparse first one, of one or two axes and of the same dtype.

    Returns
    -------
    Tensor of shape (..., n, m)
        Without the axis of a factor that was a vector.

    Raises
    ------
    ShapeError
        If the inner lengths differ.
    DtypeError, DeviceError
        If a sparse first factor and the second have different dtypes or live on different devices.

    Examples
    --------
    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy()
    array([[11.]])
    """
    if is_sparse(x):
        return sparse_matmul(x, as_tensor(y))
    return _matmul(as_tensor(x), as_tensor(y))
