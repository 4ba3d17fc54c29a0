"""Attention, and the layers of transformers."""

from numbers import Integral, Real
from typing import Any, ClassVar

from sknet._fields import ABSENT, Named
from sknet._params import Interval, described_by, resolve
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import LAYER_COUNT, Module, check_arguments
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._activation import ACTIVATIONS
from sknet.nn.layers._container import Sequential
from sknet.nn.layers._dropout import Dropout
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import LayerNorm
from sknet.ops import attention_weights, matmul, multiply, permute_dims, reshape, where

__all__ = [
    "MultiheadAttention", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip


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
        Device of the parameters; None is the CPU.

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
    Call it as ``attention(query, key, value, mask, key_mask, is_causal, need_weights)``. `query` is of shape
    (n, n_queries, embed_dim); `key` (by default the query) and `value` (by default the key) are of shape (n,
    n_keys, embed_dim). `mask`, of shape (n_queries, n_keys) or with axes for samples and heads before, is
    True where a query may attend to a key, or is added to the scores; `key_mask`, of shape (n, n_keys), is
    True for keys that are not padding. Boolean masks of PyTorch's layer have the opposite meaning. A query
    that may attend to no key gets the output projection's bias. With `need_weights` the weights, of shape (n,
    num_heads, n_queries, n_keys), are returned too.

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
        return x

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
            return mask
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
        return f"{self.embed_dim}, {self.num_heads}"


OPTIONS = {
    "embed_dim": COUNT,
    "num_heads": COUNT,
    "feedforward_dim": [*COUNT, None],
    "dropout": SHARE,
    "norm_first": ["boolean"],
    "eps": [Interval(Real, 0, None, closed="left")],
}


class _Layer(Module):
    """Base of the layers of encoders and decoders: self-attention, a feed-forward network, and norms."""

    _parameter_constraints = OPTIONS

    norms: ClassVar[int]
    _stored_fields = {
        "embed_dim": [ABSENT],
        "num_heads": [ABSENT],
        "feedforward_dim": [ABSENT],
        "eps": [ABSENT],
        "attention": Named("MultiheadAttention"),
        "cross_attention": [Named("MultiheadAttention"), ABSENT],
        "feedforward": Named("Sequential"),
        "norm1": Named("LayerNorm"),
        "norm2": Named("LayerNorm"),
        "norm3": [Named("LayerNorm"), ABSENT],
        "dropout": Named("Dropout"),
    }

    def _check_stored(self) -> None:
        norms = [f"norm{i + 1}" for i in range(self.norms)]
        crossed = ["cross_attention"] if self.norms == 3 else []
        if sorted(self._children) != sorted([*norms, *crossed, "attention", "feedforward", "dropout"]):
            raise ValueError(f"{type(self).__name__} has the parts {list(self._children)}")

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        feedforward_dim: int | None = None,
        dropout: float = 0.1,
        activation: "str | Module" = "gelu",
        norm_first: bool = True,
        eps: float = 1e-5,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        name = type(self).__name__
        check_arguments(
            self,
            embed_dim=embed_dim,
            num_heads=num_heads,
            feedforward_dim=feedforward_dim,
            dropout=dropout,
            norm_first=norm_first,
            eps=eps,
        )
        width = 4 * embed_dim if feedforward_dim is None else feedforward_dim
        self.norm_first = norm_first
        self._make_attention(embed_dim, num_heads, dropout, init=init, device=device)
        self.feedforward = Sequential(
            Linear(embed_dim, width, init=init, device=device),
            resolve(activation, ACTIVATIONS, Module, parameter="activation", caller=name),
            Dropout(dropout),
            Linear(width, embed_dim, init=init, device=device),
        )
        for i in range(self.norms):
            self.register_module(f"norm{i + 1}", LayerNorm(embed_dim, eps, device=device))
        self.dropout = Dropout(dropout)

    def _make_attention(self, *arguments: Any, **options: Any) -> None:
        self.attention = MultiheadAttention(*arguments, **options)


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a norm and added to its input.

    Parameters
    ----------
    embed_dim : int
        Size of the vectors.
    num_heads : int
        Number of attention heads.
    feedforward_dim : int, default=None
        Width of the feed-forward network; None is four times `embed_dim`.
    dropout : float, default=0.1
        Dropout probability of attention weights, inside the feed-forward network, and of the outputs of both.
    activation : str or Module, default="gelu"
        Activation of the feed-forward network.
    norm_first : bool, default=True
        Whether norms come before attention and feed-forward network, which trains stably without a
        warm-up (R. Xiong et al., "On layer normalization in the transformer architecture", ICML
        2020); or after the sums, as in the original paper and by default in PyTorch.
    eps : float, default=1e-5
        Added to the variance in the norms.
    init : Initializer or str, default=None
        Scheme of all projections; None is that of `init.version` for attention and for `Linear`.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Notes
    -----
    Call it as ``layer(x, mask, key_mask, is_causal)``, with masks as for `MultiheadAttention` (A. Vaswani
    et al., NeurIPS 2017, section 3.1).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.TransformerEncoderLayer(8, 2)
    >>> layer(np.ones((5, 3, 8), np.float32)).shape
    (5, 3, 8)
    """

    norms = 2

    def forward(self, x: Any, mask: Any = None, key_mask: Any = None, is_causal: bool = False) -> Any:
        options = {"mask": mask, "key_mask": key_mask, "is_causal": is_causal}
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), **options))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, **options)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


@described_by(TransformerEncoderLayer)
class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory and a feed-forward network, with norms, each added to its input.

    Parameters
    ----------
    num_heads : int
        Number of heads of both attentions.
    dropout : float, default=0.1
        Dropout probability of attention weights, in the feed-forward network, and of the outputs of all
        three.
    norm_first : bool, default=True
        Whether norms come before attention and feed-forward network or after the sums, as for
        `TransformerEncoderLayer`.

    Notes
    -----
    Call it as ``layer(x, memory, mask, key_mask, is_causal, memory_mask, memory_key_mask)``: `x` is of shape
    (n, length, embed_dim), `memory`, such as the output of an encoder, of shape (n, n_keys, embed_dim).
    Masks are those of `MultiheadAttention`, the last two for the attention to the memory (A. Vaswani et
    al., NeurIPS 2017, section 3.1).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.TransformerDecoderLayer(8, 2)
    >>> x, memory = np.ones((5, 3, 8), np.float32), np.ones((5, 7, 8), np.float32)
    >>> layer(x, memory, is_causal=True).shape
    (5, 3, 8)
    """

    norms = 3

    def _make_attention(self, *arguments: Any, **options: Any) -> None:
        super()._make_attention(*arguments, **options)
        self.cross_attention = MultiheadAttention(*arguments, **options)

    def forward(
        self,
        x: Any,
        memory: Any,
        mask: Any = None,
        key_mask: Any = None,
        is_causal: bool = False,
        memory_mask: Any = None,
        memory_key_mask: Any = None,
    ) -> Any:
        own = {"mask": mask, "key_mask": key_mask, "is_causal": is_causal}
        other = {"mask": memory_mask, "key_mask": memory_key_mask}
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), **own))
            x = x + self.dropout(self.cross_attention(self.norm2(x), memory, **other))
            return x + self.dropout(self.feedforward(self.norm3(x)))
        x = self.norm1(x + self.dropout(self.attention(x, **own)))
        x = self.norm2(x + self.dropout(self.cross_attention(x, memory, **other)))
        return self.norm3(x + self.dropout(self.feedforward(x)))


class _Stack(Module):
    """Base of encoders and decoders: layers one after the other, and a norm at the end."""

    _parameter_constraints = {**OPTIONS, "num_layers": LAYER_COUNT}

    layer: ClassVar[type[_Layer]]
    _stored_fields = {
        "num_layers": [ABSENT],
        "embed_dim": [ABSENT],
        "num_heads": [ABSENT],
        "feedforward_dim": [ABSENT],
        "eps": [ABSENT],
        "dropout": [ABSENT],
        "norm_first": [ABSENT],
        "layers": Named("Sequential"),
        "norm": [Named("LayerNorm"), None],
    }

    def __init__(
        self,
        num_layers: int,
        embed_dim: int,
        num_heads: int,
        feedforward_dim: int | None = None,
        dropout: float = 0.1,
        activation: "str | Module" = "gelu",
        norm_first: bool = True,
        eps: float = 1e-5,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, num_layers=num_layers)
        arguments = (embed_dim, num_heads, feedforward_dim, dropout, activation, norm_first, eps)
        self.layers = Sequential(
            *[self.layer(*arguments, init=init, device=device) for _ in range(num_layers)]
        )
        self.norm = LayerNorm(embed_dim, eps, device=device) if norm_first else None


@described_by(TransformerEncoderLayer)
class TransformerEncoder(_Stack):
    """A stack of `TransformerEncoderLayer`, each with weights of its own.

    Parameters
    ----------
    num_layers : int
        Number of layers.
    feedforward_dim : int, default=None
        Width of the feed-forward networks; None is four times `embed_dim`.
    dropout : float, default=0.1
        As for a layer.
    activation : str or Module, default="gelu"
        As for a layer.
    norm_first : bool, default=True
        As for a layer; if true, the stack ends with a norm.
    init : Initializer or str, default=None
        As for a layer.

    Notes
    -----
    Call it as ``encoder(x, mask, key_mask, is_causal)``, with masks as for `MultiheadAttention`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> encoder = nn.TransformerEncoder(2, 8, 2)
    >>> encoder(np.ones((5, 3, 8), np.float32), is_causal=True).shape
    (5, 3, 8)
    """

    layer = TransformerEncoderLayer

    def forward(self, x: Any, mask: Any = None, key_mask: Any = None, is_causal: bool = False) -> Any:
        for layer in self.layers:
            x = layer(x, mask, key_mask, is_causal)
        return x if self.norm is None else self.norm(x)


@described_by(TransformerEncoder)
class TransformerDecoder(_Stack):
    """A stack of `TransformerDecoderLayer`, each with weights of its own.

    Parameters
    ----------
    num_heads : int
        Number of heads of both attentions.

    Notes
    -----
    Call it as ``decoder(x, memory, mask, key_mask, is_causal, memory_mask, memory_key_mask)``, as a layer.

    Examples
    --------
    An encoder reads one sequence; the decoder reads what comes before each position of another, and the
    encoder's output, to say what comes next.

    >>> import numpy as np
    >>> from sknet import nn
    >>> class Translator(nn.Module):
    ...     def __init__(self, n_words, n_others, width=8):
    ...         self.words, self.others = nn.Embedding(n_words, width), nn.Embedding(n_others, width)
    ...         self.positions = nn.PositionalEncoding()
    ...         self.encoder = nn.TransformerEncoder(2, width, 2)
    ...         self.decoder = nn.TransformerDecoder(2, width, 2)
    ...         self.head = nn.Linear(width, n_others)
    ...
    ...     def forward(self, x, y, key_mask=None):
    ...         memory = self.encoder(self.positions(self.words(x)), key_mask=key_mask)
    ...         after = self.positions(self.others(y))
    ...         return self.head(self.decoder(after, memory, is_causal=True, memory_key_mask=key_mask))
    >>> translator = Translator(20, 30).initialize(0)
    >>> translator(np.ones((5, 7), int), np.ones((5, 4), int)).shape
    (5, 4, 30)
    """

    layer = TransformerDecoderLayer

    def forward(
        self,
        x: Any,
        memory: Any,
        mask: Any = None,
        key_mask: Any = None,
        is_causal: bool = False,
        memory_mask: Any = None,
        memory_key_mask: Any = None,
    ) -> Any:
        for layer in self.layers:
            x = layer(x, memory, mask, key_mask, is_causal, memory_mask, memory_key_mask)
        return x if self.norm is None else self.norm(x)
