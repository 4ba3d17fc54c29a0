"""Multi-head attention."""

from numbers import Integral, Real
from typing import Any

from sknet._fields import ABSENT, Named
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._arguments import check_arguments
from sknet.nn.layers._dropout import Dropout
from sknet.nn.layers._linear import Linear
from sknet.ops import attention_weights, matmul, multiply, permute_dims, reshape, where

__all__ = ["MultiheadAttention"]

COUNT = [Interval(Integral, 1, None, closed="left")]
SHARE = [Interval(Real, 0, 1, closed="both")]


class MultiheadAttention(Module):
    r"""Multi-head attention of a sequence to another one, or to itself.

    Parameters
    ----------
    embed_dim : int
        Size of the input and output vectors.
    num_heads : int
        Number of heads, which divides `embed_dim`.
    dropout : float, default=0.0
        Probability that a weight is dropped in training.
    bias : bool, default=True
        Whether the projections have biases.
    init : Initializer or str, default=None
        Scheme of both projections, an object or its name; None is that of `init.version`,
        `LeCunNormal` with zero biases: the same as X. Glorot's for the four square matrices.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    in_projection : Linear
        Projects the input to queries, keys and values, concatenated.
    out_projection : Linear
        Projects the concatenated outputs of the heads.

    Raises
    ------
    ValueError
        If `num_heads` does not divide `embed_dim`.
    ShapeError
        If the shapes of queries, keys, values or `key_mask` do not fit.

    Notes
    -----
    Call it as ``attention(query, key, value, mask, key_mask, is_causal, need_weights)``. `query` is of
    shape (n, n_queries, embed_dim); `key` (by default the query) and `value` (by default the key)
    are of shape (n, n_keys, embed_dim). `mask`, of shape (n_queries, n_keys) or with axes for samples
    and heads before, is True where a query may attend to a key, or is added to the scores; `key_mask`, of
    shape (n, n_keys), is True for keys that are not padding. PyTorch's layer expects the opposite of
    both. A query that may attend to no key gets the output projection's bias. With `need_weights`
    the weights, of shape (n, num_heads, n_queries, n_keys), are returned too.

    References
    ----------
    A. Vaswani et al., "Attention is all you need", NeurIPS 2017, section 3.2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> attention = nn.MultiheadAttention(8, 2).initialize(0)
    >>> x = np.ones((5, 3, 8), np.float32)
    >>> output, weights = attention(x, is_causal=True, need_weights=True)
    >>> output.shape, weights.shape
    ((5, 3, 8), (5, 2, 3, 3))
    >>> weights[0, 0].numpy()
    array([[1.        , 0.        , 0.        ],
           [0.5       , 0.5       , 0.        ],
           [0.33333334, 0.33333334, 0.33333334]], dtype=float32)
    """

    _parameter_constraints = {
        "embed_dim": COUNT,
        "num_heads": COUNT,
        "dropout": SHARE,
        "bias": ["boolean"],
    }
    _stored_fields = {
        "in_projection": Named("Linear"),
        "out_projection": Named("Linear"),
        "dropout": Named("Dropout"),
        "bias": [ABSENT],
    }

    def _check_stored(self) -> None:
        n = self.embed_dim
        sizes = [(each.in_features, each.out_features) for each in (self.in_projection, self.out_projection)]
        if n % self.num_heads or sizes != [(n, 3 * n), (n, n)]:
            raise ValueError(
                f"{type(self).__name__} of {n} features in {self.num_heads} heads has maps of {sizes}"
            )

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, embed_dim=embed_dim, num_heads=num_heads, dropout=dropout, bias=bias)
        if embed_dim % num_heads:
            raise ValueError(f"MultiheadAttention: num_heads={num_heads} must divide embed_dim={embed_dim}")
        self.embed_dim, self.num_heads = int(embed_dim), int(num_heads)
        found = scheme(init, self, "attention")
        self.in_projection = Linear(self.embed_dim, 3 * self.embed_dim, bias, init=found, device=device)
        self.out_projection = Linear(self.embed_dim, self.embed_dim, bias, init=found, device=device)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        key_mask: Any = None,
        is_causal: bool = False,
        need_weights: bool = False,
    ) -> Any:
        q, k, v = self._projected(query, key, value)
        weights = attention_weights(q, k, self._joined(mask, key_mask, k), is_causal=is_causal)
        heads = permute_dims(matmul(self.dropout(weights), v), (0, 2, 1, 3))
        output = self.out_projection(reshape(heads, (*heads.shape[:2], self.embed_dim)))
        return (output, weights) if need_weights else output

    def _projected(self, query: Any, key: Any, value: Any) -> list[Tensor]:
        """Return queries, keys and values by head; what is the same is projected at once."""
        key = query if key is None else key
        value = key if value is None else value
        if query is key is value:
            return self._heads(self.in_projection(self._checked("query", query)), 3)
        found = self._part(self._checked("query", query), 0, 1)
        if key is value:
            return found + self._part(self._checked("key", key), 1, 3)
        return [
            *found,
            *self._part(self._checked("key", key), 1, 2),
            *self._part(self._checked("value", value), 2, 3),
        ]

    def _checked(self, name: str, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim != 3 or x.shape[-1] != self.embed_dim:
            raise ShapeError(
                f"{self!r}: expected a {name} of shape (n, length, {self.embed_dim}), got {x.shape}"
            )
        return x  # type: ignore[no-any-return]

    def _part(self, x: Tensor, start: int, stop: int) -> list[Tensor]:
        """Return x projected by a part of the packed projection."""
        part = slice(start * self.embed_dim, stop * self.embed_dim)
        product, bias = matmul(x, self.in_projection.weight[:, part]), self.in_projection.bias
        return self._heads(product if bias is None else product + bias[part], stop - start)

    def _heads(self, x: Tensor, count: int) -> list[Tensor]:
        """Divide the last axis among `count` results and the heads: each (n, heads, length, features)."""
        n, length, _ = x.shape
        parts = reshape(x, (n, length, count, self.num_heads, self.embed_dim // self.num_heads))
        turned = permute_dims(parts, (2, 0, 3, 1, 4))
        return [turned[i] for i in range(count)]

    def _joined(self, mask: Any, key_mask: Any, k: Tensor) -> Tensor | None:
        """Return both masks as one that broadcasts to (n, heads, queries, keys)."""
        if mask is not None:
            mask = as_tensor(mask)
            mask = reshape(mask, (mask.shape[0], 1, *mask.shape[1:])) if mask.ndim == 3 else mask
        if key_mask is None:
            return mask  # type: ignore[no-any-return]
        key_mask = as_tensor(key_mask)
        if key_mask.shape != (k.shape[0], k.shape[2]) or key_mask.dtype.kind != "b":
            raise ShapeError(
                f"{self!r}: expected a boolean key_mask of shape {(k.shape[0], k.shape[2])}, got "
                f"{key_mask.dtype} of shape {key_mask.shape}"
            )
        keys = reshape(key_mask, (k.shape[0], 1, 1, k.shape[2]))
        if mask is None:
            return keys
        return multiply(mask, keys) if mask.dtype.kind == "b" else where(keys, mask, -float("inf"))

    def extra_repr(self) -> str:
        """Return the length of the vectors, and how many heads there are."""
        return f"{self.embed_dim}, {self.num_heads}"
