"""Attention: means of values, weighted by how well keys match queries."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sknet.core import Tensor, as_tensor
from sknet.device import to_device
from sknet.exceptions import ShapeError
from sknet.ops._activation import softmax
from sknet.ops._elementwise import greater, maximum, where
from sknet.ops._products import matmul
from sknet.ops._reduce import max as largest
from sknet.ops._rules import check_floating
from sknet.ops._shape import matrix_transpose

__all__ = ["attention_weights", "scaled_dot_product_attention"]


def attention_weights(
    q: Any, k: Any, mask: Any = None, *, is_causal: bool = False, scale: float | None = None
) -> Tensor:
    """Return the attention weights, of shape (..., n_queries, n_keys).

    `q`, `k`, `mask`, `is_causal` and `scale` are those of `scaled_dot_product_attention`. Every row
    sums to 1, or is 0 where all keys are masked.

    Examples
    --------
    >>> attention_weights([[1.0], [1.0]], [[1.0], [1.0]], is_causal=True).numpy()
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    q, k = as_tensor(q), as_tensor(k)
    check_floating("attention", q)
    if q.ndim < 2 or k.ndim < 2 or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"attention: expected queries and keys of shapes (..., n, features), got {q.shape} and {k.shape}"
        )
    scores = matmul(q * (_scale(q) if scale is None else scale), matrix_transpose(k))
    # Low enough that exp gives 0, and high enough that a sum of masks does not overflow.
    floor = float(np.finfo(scores.dtype).min) / 4
    if is_causal:
        scores = scores + _causal(scores, floor)
    if mask is None or not scores.size:
        return softmax(scores)
    shift = _additive(as_tensor(mask), scores, floor)
    total = shift + _causal(scores, floor) if is_causal else shift
    is_open = greater(largest(total, -1, keepdims=True), floor / 2).astype(scores.dtype)
    return softmax(scores + shift) * is_open


def _scale(q: Tensor) -> float:
    """Return the default scale; without features all scores are 0, whatever it is."""
    return 1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0


def _causal(scores: Tensor, floor: float) -> Tensor:
    """Return what is added to the scores of keys that come after their query."""
    rows, columns = scores.shape[-2:]
    later = np.arange(columns) > np.arange(rows)[:, None]
    return Tensor(to_device(np.where(later, floor, 0.0).astype(scores.dtype), scores.device))


def _additive(mask: Tensor, scores: Tensor, floor: float) -> Tensor:
    """Return what is added to scores, finite everywhere."""
    if mask.dtype.kind == "b":
        return where(mask, 0.0, floor).astype(scores.dtype)
    check_floating("attention: mask", mask)
    return maximum(mask.astype(scores.dtype), floor)


def scaled_dot_product_attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    r"""Return, for each query, the mean of the values, weighted by how well their keys match it.

    Parameters
    ----------
    q : Tensor or array of shape (..., n_queries, features)
        Queries.
    k : Tensor or array of shape (..., n_keys, features)
        Keys.
    v : Tensor or array of shape (..., n_keys, outputs)
        Values.
    mask : Tensor or array that broadcasts to (..., n_queries, n_keys), default=None
        Boolean: True where a query may attend to a key. Floating: added to the scores, -inf where it may not.
    is_causal : bool, default=False
        Whether query i attends to keys 0 to i only; with a mask, only where both allow it.
    scale : float, default=None
        Factor of the scores; None is ``1 / sqrt(features)``.
    dropout : callable, default=None
        Applied to the weights, such as an `sknet.nn.Dropout`.

    Returns
    -------
    Tensor of shape (..., n_queries, outputs)
        0 for a query that may attend to no key.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, or an operand is not floating.

    Notes
    -----
    .. math:: \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d}} + M\right) V

    (A. Vaswani et al., "Attention is all you need", NeurIPS 2017, section 3.2.1). The softmax is shifted by
    the largest score, and a masked score is a large finite number, so that no row of weights is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> q = k = np.zeros((2, 1))
    >>> scaled_dot_product_attention(q, k, [[1.0], [3.0]]).numpy()
    array([[2.],
           [2.]])
    >>> scaled_dot_product_attention(q, k, [[1.0], [3.0]], is_causal=True).numpy()
    array([[1.],
           [2.]])
    """
    weights = attention_weights(q, k, mask, is_causal=is_causal, scale=scale)
    return matmul(weights if dropout is None else dropout(weights), v)
