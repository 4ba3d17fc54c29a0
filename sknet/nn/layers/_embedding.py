"""Embeddings: a learned vector for every number, and a fixed one for every position."""

from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet._fields import Named, Params
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import Device, to_device
from sknet.exceptions import DtypeError, ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._arguments import check_arguments
from sknet.nn.layers._dropout import Dropout
from sknet.ops import embedding

__all__ = ["Embedding", "PositionalEncoding"]

COUNT = [Interval(Integral, 1, None, closed="left")]


class Embedding(Module):
    """A learned vector for every number below `num_embeddings`: words, categories, users.

    Parameters
    ----------
    num_embeddings : int
        Number of vectors.
    embedding_dim : int
        Their length.
    padding_idx : int, default=None
        Index of the padding: its output is 0, and it gets no gradient. It is compared with the
        input as it is, so -1 means -1 and not the last vector.
    init : Initializer or str, default=None
        Scheme of the vectors, an object or its name; None is that of `init.version`, standard
        normal, since the layers that follow expect inputs of variance 1.
    device : str or Device, default=None
        Where the parameter lives; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (num_embeddings, embedding_dim)
        The vectors.

    Raises
    ------
    ValueError
        If `padding_idx` is not below `num_embeddings`.
    DtypeError
        If the input does not hold integers.

    Notes
    -----
    The input is of any shape and an integer dtype, the output has one axis more, the last.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Embedding(10, 3)([[1, 2], [3, 9]]).shape
    (2, 2, 3)
    """

    weight: Any = Registered()

    _parameter_constraints = {
        "num_embeddings": COUNT,
        "embedding_dim": COUNT,
        "padding_idx": [Integral, None],
    }
    _stored_fields = {
        "weight": Params("num_embeddings", "embedding_dim"),
    }

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self, num_embeddings=num_embeddings, embedding_dim=embedding_dim, padding_idx=padding_idx
        )
        if padding_idx is not None and padding_idx >= num_embeddings:
            raise ValueError(
                f"Embedding: padding_idx={padding_idx} must be below num_embeddings={num_embeddings}"
            )
        self.num_embeddings = int(num_embeddings)
        self.embedding_dim = int(embedding_dim)
        self.padding_idx = padding_idx
        shape = (self.num_embeddings, self.embedding_dim)
        draw = partial(draw_embedding, scheme(init, self, "embedding"), shape, padding_idx)
        self.weight = Parameter(shape=shape, draw=draw, device=device)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.dtype.kind not in "iu":
            raise DtypeError(f"{self!r}: expected integers, got {x.dtype}: use .astype('int64')")
        return embedding(x, self.weight, self.padding_idx)


def draw_embedding(
    found: Initializer, shape: tuple[int, int], padding_idx: int | None, random_state: RandomState
) -> np.ndarray[Any, Any]:
    values = found.draw(random_state, shape, fan_in=shape[0], fan_out=shape[1])
    if padding_idx is not None and padding_idx >= 0:
        values[padding_idx] = 0
    return values


class PositionalEncoding(Module):
    r"""Add to every vector of a sequence a fixed one that encodes its position.

    Parameters
    ----------
    base : float, default=10000.0
        Wave lengths go from 2 pi to 2 pi times this.
    dropout : float, default=0.0
        Dropout probability of the sum.

    Notes
    -----
    For input of shape (..., length, dim),

    .. math:: p_{t, 2i} = \sin(t / b^{2i/d}), \quad p_{t, 2i+1} = \cos(t / b^{2i/d})

    (A. Vaswani et al., NeurIPS 2017, section 3.5).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> nn.PositionalEncoding()(np.zeros((1, 2, 2))).numpy()
    array([[[0.      , 1.      ],
            [0.841471, 0.540302]]])
    """

    _parameter_constraints = {
        "base": [Interval(Real, 1, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="both")],
    }
    _stored_fields = {
        "dropout": Named("Dropout"),
    }

    def __init__(self, base: float = 10000.0, dropout: float = 0.0) -> None:
        check_arguments(self, base=base, dropout=dropout)
        self.base = base
        self.dropout = Dropout(dropout)

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim < 2:
            raise ShapeError(f"{self!r}: expected an input of shape (..., length, dim), got {x.shape}")
        waves = _waves(*x.shape[-2:], float(self.base)).astype(x.dtype)
        return self.dropout(x + Tensor(to_device(waves, x.device)))


@lru_cache(maxsize=16)
def _waves(length: int, dim: int, base: float) -> np.ndarray[Any, Any]:
    angles = np.arange(length)[:, None] / base ** (np.arange(0, dim, 2) / dim)
    waves = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :dim]
    waves.flags.writeable = False
    return waves
