"""Bags of embeddings: several vectors combined into one."""

import math
from typing import Any

import numpy as np

from sknet import ops
from sknet._params import StrOptions
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn.init import Initializer
from sknet.nn.layers._arguments import check_arguments
from sknet.nn.layers._embedding import Embedding

__all__ = ["EmbeddingBag"]


class EmbeddingBag(Embedding):
    """The sum, mean or maximum of several learned vectors, such as those of a bag of words.

    Parameters
    ----------
    num_embeddings : int
        Number of vectors.
    embedding_dim : int
        Their length.
    mode : {"sum", "mean", "max"}, default="mean"
        How the vectors of a bag are combined.
    padding_idx : int, default=None
        Index of the padding, which is left out of every bag.
    init : Initializer or str, default=None
        Scheme of the vectors, as for `Embedding`.
    device : str or Device, default=None
        Where the parameter lives; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (num_embeddings, embedding_dim)
        The vectors.

    Notes
    -----
    Call it as ``bag(x, offsets, weights)``, with integers x of shape (n, length), one bag per row, or of
    shape (total,) with `offsets` of shape (n,), ascending: where each bag begins, the first at 0. `weights`,
    of x's shape, multiply the vectors, for "sum" only. An empty bag is 0.

    Examples
    --------
    >>> from sknet import nn
    >>> bag = nn.EmbeddingBag(10, 3, padding_idx=0).initialize(0)
    >>> bag([[1, 2, 4], [3, 0, 0]]).shape
    (2, 3)
    >>> bool((bag([1, 2, 4, 3], offsets=[0, 3]) == bag([[1, 2, 4], [3, 0, 0]])).all())
    True
    """

    _parameter_constraints = {
        **Embedding._parameter_constraints,
        "mode": [StrOptions({"sum", "mean", "max"})],
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        mode: str = "mean",
        padding_idx: int | None = None,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, mode=mode)
        super().__init__(num_embeddings, embedding_dim, padding_idx, init=init, device=device)
        self.mode = mode

    def forward(self, x: Any, offsets: Any = None, weights: Any = None) -> Tensor:
        x = as_tensor(x)
        if x.ndim != (2 if offsets is None else 1):
            raise ShapeError(
                f"{self!r}: expected integers of shape (n, length), or (total,) and offsets of shape (n,), "
                f"got shape {x.shape}{'' if offsets is None else ' and offsets'}"
            )
        vectors = super().forward(x)
        if weights is not None:
            vectors = vectors * self._weights(x, weights, vectors.dtype)
        if self.padding_idx is None:
            real = ops.ones(x.shape, bool, x.device)
        else:
            real = ops.not_equal(x, self.padding_idx)
        if offsets is None:
            return self._of_rows(vectors, real)
        return self._of_segments(vectors, real, as_tensor(offsets))

    def _weights(self, x: Tensor, weights: Any, dtype: Any) -> Tensor:
        weights = as_tensor(weights)
        if self.mode != "sum":
            raise ValueError(f"{self!r}: weights are for mode='sum'")
        if weights.shape != x.shape:
            raise ShapeError(f"{self!r}: expected weights of shape {x.shape}, got {weights.shape}")
        return ops.reshape(weights, (*x.shape, 1)).astype(dtype)

    def _of_rows(self, vectors: Tensor, real: Tensor) -> Tensor:
        """Return the combined vectors of bags of one length, (n, length, embedding_dim), without padding."""
        if self.mode == "max" and vectors.shape[1]:
            seen = ops.expand_dims(real, -1)
            largest = ops.max(ops.where(seen, vectors, -math.inf), axis=-2)
            return ops.where(ops.any(seen, axis=-2), largest, 0.0)
        total = ops.sum(vectors, axis=-2)
        return self._divided(total, ops.sum(real.astype("int64"), axis=-1))

    def _divided(self, total: Tensor, count: Tensor) -> Tensor:
        if self.mode != "mean":
            return total
        return total / ops.expand_dims(ops.maximum(count, 1).astype(total.dtype), -1)

    def _of_segments(self, vectors: Tensor, real: Tensor, offsets: Tensor) -> Tensor:
        """Return the combined vectors of bags in succession, each beginning at its offset."""
        n, length = offsets.size, vectors.shape[0]
        places = ops.arange(length, device=vectors.device)
        if self.mode == "max":
            ends = ops.concat([offsets[1:], ops.full((1,), length, offsets.dtype, offsets.device)])
            # A captured pass, which has no values to look at, leaves space for one bag of all elements.
            known = isinstance(offsets.data, np.ndarray) and n > 0
            longest = int(np.diff(offsets.data, append=length).max()) if known else length
            inside = ops.expand_dims(offsets, -1) + places[:longest]
            there = ops.less(inside, ops.expand_dims(ends, -1))
            at = ops.where(there, inside, 0)
            return self._of_rows(ops.take(vectors, at), ops.logical_and(there, ops.take(real, at)))
        # The number of an element's bag: how many bags begin at or before it, not counting the first.
        begun = ops.greater_equal(ops.expand_dims(places, -1), offsets[1:])
        bags = ops.sum(begun.astype("int64"), axis=-1)
        empty = ops.zeros((n, vectors.shape[1]), vectors.dtype, vectors.device)
        none = ops.zeros((n,), "int64", vectors.device)
        return self._divided(
            ops.scatter_add(empty, bags, vectors), ops.scatter_add(none, bags, real.astype("int64"))
        )
