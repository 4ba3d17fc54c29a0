"""Transformer encoders: attention and a feed-forward network in turns, each added to its own input."""

from numbers import Integral, Real
from typing import Any

from sknet._params import Interval, resolve
from sknet.device import Device
from sknet.nn._module import Module
from sknet.nn.init import Initializer
from sknet.nn.layers._activation import ACTIVATIONS
from sknet.nn.layers._arguments import check_arguments
from sknet.nn.layers._attention import COUNT, SHARE, MultiheadAttention
from sknet.nn.layers._container import Sequential
from sknet.nn.layers._dropout import Dropout
from sknet.nn.layers._linear import Linear
from sknet.nn.layers._norm import LayerNorm

__all__ = ["TransformerEncoder", "TransformerEncoderLayer"]

OPTIONS = {
    "embed_dim": COUNT,
    "num_heads": COUNT,
    "feedforward_dim": [*COUNT, None],
    "dropout": SHARE,
    "norm_first": ["boolean"],
    "eps": [Interval(Real, 0, None, closed="left")],
}


class TransformerEncoderLayer(Module):
    """Self-attention and a feed-forward network, each with a norm and added to its input.

    Parameters
    ----------
    embed_dim : int
        Length of the vectors.
    num_heads : int
        Heads of the attention.
    feedforward_dim : int, default=None
        Width of the feed-forward network; None is four times `embed_dim`.
    dropout : float, default=0.1
        Probability of a zero in the weights of the attention, inside the feed-forward network, and
        in what both add.
    activation : str or Module, default="gelu"
        Of the feed-forward network.
    norm_first : bool, default=True
        Whether norms stand before attention and feed-forward network, where the sum of all layers
        passes by them and training is stable without a warm-up (R. Xiong et al., "On layer
        normalization in the transformer architecture", ICML 2020); or behind the sums, as in the
        first paper and PyTorch's default.
    eps : float, default=1e-5
        That of the norms.
    init : Initializer or str, default=None
        Scheme of all projections; None is that of `init.version` for attention and for `Linear`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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

    _parameter_constraints = OPTIONS

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
        self.attention = MultiheadAttention(embed_dim, num_heads, dropout, init=init, device=device)
        self.feedforward = Sequential(
            Linear(embed_dim, width, init=init, device=device),
            resolve(activation, ACTIVATIONS, Module, parameter="activation", caller=name),
            Dropout(dropout),
            Linear(width, embed_dim, init=init, device=device),
        )
        self.norm1 = LayerNorm(embed_dim, eps, device=device)
        self.norm2 = LayerNorm(embed_dim, eps, device=device)
        self.dropout = Dropout(dropout)

    def forward(self, x: Any, mask: Any = None, key_mask: Any = None, is_causal: bool = False) -> Any:
        options = {"mask": mask, "key_mask": key_mask, "is_causal": is_causal}
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm1(x), **options))
            return x + self.dropout(self.feedforward(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x, **options)))
        return self.norm2(x + self.dropout(self.feedforward(x)))


class TransformerEncoder(Module):
    """A stack of `TransformerEncoderLayer`, each drawn for itself.

    Parameters
    ----------
    num_layers : int
        How many.
    embed_dim : int
        Length of the vectors.
    num_heads : int
        Heads of the attention.
    feedforward_dim : int, default=None
        Width of the feed-forward networks; None is four times `embed_dim`.
    dropout : float, default=0.1
        As for a layer.
    activation : str or Module, default="gelu"
        As for a layer.
    norm_first : bool, default=True
        As for a layer; the whole then ends with a norm.
    eps : float, default=1e-5
        That of the norms.
    init : Initializer or str, default=None
        As for a layer.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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

    _parameter_constraints = {**OPTIONS, "num_layers": [Interval(Integral, 1, None, closed="left")]}

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
            *[TransformerEncoderLayer(*arguments, init=init, device=device) for _ in range(num_layers)]
        )
        self.norm = LayerNorm(embed_dim, eps, device=device) if norm_first else None

    def forward(self, x: Any, mask: Any = None, key_mask: Any = None, is_causal: bool = False) -> Any:
        for layer in self.layers:
            x = layer(x, mask, key_mask, is_causal)
        return x if self.norm is None else self.norm(x)
