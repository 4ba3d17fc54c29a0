"""Embeddings of numbers of categories, of several columns, and of numeric features."""

import math
from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet import ops
from sknet._constraints import is_integer, is_whole, shown
from sknet._fields import ABSENT, POSITIVE, Buffers, Named, Params
from sknet._params import Interval, StrOptions, described_by, resolve
from sknet.core import Tensor, TracedArray, as_tensor
from sknet.device import Device, to_device
from sknet.exceptions import DtypeError, InvalidParameterError, ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import Parameter, Registered, zeros
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._activation import ACTIVATIONS
from sknet.nn.layers._container import ModuleList
from sknet.nn.layers._dropout import Dropout
from sknet.ops import (
    concat,
    cos,
    einsum,
    embedding,
    expand_dims,
    greater_equal,
    less,
    logical_and,
    maximum,
    minimum,
    sin,
    take,
    where,
)

__all__ = [
    "CategoryEmbeddings", "Embedding", "EmbeddingBag", "PeriodicEmbedding", "PiecewiseLinearEncoding",
    "PositionalEncoding",
]  # fmt: skip


LONGEST = 600  # length of vectors of categories, at most, whatever the number of levels
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
        Device of the parameter; None is the CPU.

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
        length, dim = x.shape[-2:]
        periods = Tensor(to_device(float(self.base) ** (np.arange(0, dim, 2) / dim), x.device))
        steps = ops.arange(length, dtype=np.float64, device=x.device)
        if isinstance(x.data, TracedArray):
            steps = x.data.lifted(steps)  # a graph for any length has operations, not their results
        angles = ops.expand_dims(steps, 1) / periods
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
        waves = ops.reshape(waves, (length, 2 * angles.shape[1]))[:, :dim]
        return self.dropout(x + waves.astype(x.dtype))


@described_by(Embedding)
class EmbeddingBag(Embedding):
    """The sum, mean or maximum of several learned vectors, such as those of a bag of words.

    Parameters
    ----------
    mode : {"sum", "mean", "max"}, default="mean"
        Operation that combines the vectors of a bag.
    padding_idx : int, default=None
        Index of the padding, which is left out of every bag.
    init : Initializer or str, default=None
        Scheme of the vectors, as for `Embedding`.

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


class CategoryEmbeddings(Module):
    r"""A learned vector for the level of each of several columns, concatenated.

    Parameters
    ----------
    cardinalities : sequence of int
        Number of levels of each column; levels are numbered from 0.
    embedding_dim : int, sequence of int or None, default=None
        Length of the vectors of all columns, or of each; None derives it from the number of levels.
    init : Initializer or str, default=None
        Scheme of the vectors, as for `Embedding`.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Attributes
    ----------
    embeddings : ModuleList of Embedding
        One for each column. The last vector is that of unseen levels.
    out_features : int
        Length of the output's last axis.

    Raises
    ------
    InvalidParameterError
        If `embedding_dim` does not have a length for each column.
    DtypeError
        If the input does not hold integers.
    ShapeError
        If the last axis of the input does not have this number of columns.

    Notes
    -----
    The input is of shape (..., n_columns) and an integer dtype, the output of shape (..., out_features). A
    negative number, or one that is not below the number of levels, is an unseen level; all unseen levels of a
    column share one vector.

    By default the length for n levels is :math:`\min(600, \mathrm{round}(1.6 \, n^{0.56}))`, fastai's rule
    (J. Howard and S. Gugger, "fastai: A Layered API for Deep Learning", Information 11(2), 2020).

    Examples
    --------
    >>> from sknet import nn
    >>> layer = nn.CategoryEmbeddings([2, 50]).initialize(0)
    >>> layer([[0, 49], [1, -1]]).shape
    (2, 16)
    >>> [embedding.weight.shape for embedding in layer.embeddings]
    [(3, 2), (51, 14)]
    """

    _parameter_constraints = {
        "cardinalities": ["array-like"],
        "embedding_dim": [Interval(Integral, 1, None, closed="left"), "array-like", None],
    }
    _stored_fields = {
        "cardinalities": tuple[int, ...],
        "out_features": POSITIVE,
        "embedding_dim": [ABSENT],
        "embeddings": Named("ModuleList"),
    }

    def _check_stored(self) -> None:
        tables = [each for _, each in self.embeddings.named_children()]
        sizes = [each.num_embeddings for each in tables if isinstance(each, Embedding)]
        if len(sizes) != len(tables) or len(tables) != len(self.cardinalities):
            raise ValueError(
                f"{type(self).__name__} has no table for each of the cardinalities {self.cardinalities}"
            )
        if [*self.cardinalities] != [n - 1 for n in sizes]:
            raise ValueError(
                f"{type(self).__name__} has tables of {sizes} rows for {self.cardinalities} levels"
            )
        if self.out_features != sum(each.embedding_dim for each in tables):
            raise ValueError(f"{type(self).__name__} cannot have {self.out_features} outputs")

    def __init__(
        self,
        cardinalities: Sequence[int],
        embedding_dim: "int | Sequence[int] | None" = None,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, cardinalities=cardinalities, embedding_dim=embedding_dim)
        self.cardinalities = _counts(cardinalities, "cardinalities")
        if embedding_dim is None:
            lengths = tuple(map(_length, self.cardinalities))
        elif is_integer(embedding_dim):
            lengths = (int(embedding_dim),) * len(self.cardinalities)
        else:
            lengths = _counts(embedding_dim, "embedding_dim")
        if len(lengths) != len(self.cardinalities):
            raise InvalidParameterError(
                "The 'embedding_dim' parameter of CategoryEmbeddings must have a length for each of "
                f"{len(self.cardinalities)} columns. Got {list(lengths)}."
            )
        self.out_features = sum(lengths)
        self.embeddings = ModuleList(
            *(
                Embedding(n + 1, length, init=init, device=device)
                for n, length in zip(self.cardinalities, lengths, strict=True)
            )
        )

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.dtype.kind not in "iu":
            raise DtypeError(f"{self._shown}: expected integers, got {x.dtype}: use .astype('int64')")
        if x.ndim == 0 or x.shape[-1] != len(self.cardinalities):
            raise ShapeError(
                f"{self._shown}: expected an input of shape (..., {len(self.cardinalities)}), got {x.shape}"
            )
        parts = []
        for column, (count, table) in enumerate(zip(self.cardinalities, self.embeddings, strict=True)):
            level = x[..., column]
            is_known = logical_and(greater_equal(level, 0), less(level, count))
            parts.append(table(where(is_known, level, count)))
        return concat(parts, axis=-1)

    @property
    def _shown(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        return f"{list(self.cardinalities)}"


class PeriodicEmbedding(Module):
    r"""A vector for every number of a row: sines and cosines of learned frequencies, mapped linearly.

    Parameters
    ----------
    n_features : int
        Number of features in a row.
    embedding_dim : int, default=24
        Length of each vector; None leaves out the linear map, and returns the sines and cosines.
    n_frequencies : int, default=48
        Number of frequencies of every feature.
    sigma : float, default=0.01
        Standard deviation of the initial frequencies: the most important hyperparameter, to be chosen
        between 0.01 and 10 for features of deviation 1.
    activation : str, Module or None, default="relu"
        Activation after the linear map.
    init : Initializer or str, default=None
        Scheme of the linear maps, an object or its name; None is that of `init.version`.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.

    Attributes
    ----------
    frequencies : Parameter of shape (n_features, n_frequencies)
        Frequencies in periods per unit.
    weight : Parameter of shape (n_features, 2 * n_frequencies, embedding_dim), or None
        A linear map for every feature.
    bias : Parameter of shape (n_features, embedding_dim), or None
        A bias for every feature.

    Notes
    -----
    The input is of shape (..., n_features), the output of shape (..., n_features, embedding_dim): in a
    perceptron, `nn.Flatten` follows. For each feature x with frequencies c,

    .. math:: \mathrm{ReLU}(W [\cos(2 \pi c x), \sin(2 \pi c x)] + b),

    which is "PLR" of Y. Gorishniy, I. Rubachev and A. Babenko, "On Embeddings for Numerical Features in
    Tabular Deep Learning", NeurIPS 2022, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.PeriodicEmbedding(3, 4).initialize(0)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 3, 4)
    """

    frequencies: Any = Registered()
    weight: Any = Registered()
    bias: Any = Registered()

    _parameter_constraints = {
        "n_features": COUNT,
        "embedding_dim": [*COUNT, None],
        "n_frequencies": COUNT,
        "sigma": [Interval(Real, 0, None, closed="neither")],
    }
    _stored_fields = {
        "frequencies": Params("n_features", "n_frequencies"),
        "weight": [Named("Parameter"), None],
        "bias": [Params("n_features", "embedding_dim"), None],
        "activation": [Named("Module"), None],
    }

    def _check_stored(self) -> None:
        expected = (self.n_features, 2 * self.n_frequencies, self.embedding_dim)
        if (None if self.weight is None else self.weight.shape) != (
            None if self.embedding_dim is None else expected
        ):
            raise ValueError(f"the weight of {type(self).__name__} is not of shape {expected}")

    def __init__(
        self,
        n_features: int,
        embedding_dim: int | None = 24,
        n_frequencies: int = 48,
        sigma: float = 0.01,
        activation: "str | Module | None" = "relu",
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self,
            n_features=n_features,
            embedding_dim=embedding_dim,
            n_frequencies=n_frequencies,
            sigma=sigma,
        )
        self.n_features, self.n_frequencies = int(n_features), int(n_frequencies)
        self.embedding_dim, self.sigma = embedding_dim, float(sigma)
        shape = (self.n_features, self.n_frequencies)
        self.frequencies = Parameter(
            shape=shape, draw=partial(draw_frequencies, self.sigma, shape), device=device
        )
        self.weight = self.bias = self.activation = None
        if embedding_dim is None:
            return
        fans: Any = {"fan_in": 2 * self.n_frequencies, "fan_out": embedding_dim}
        maps = (self.n_features, 2 * self.n_frequencies, int(embedding_dim))
        draw = partial(scheme(init, self, "linear").draw, shape=maps, **fans)
        self.weight = Parameter(shape=maps, draw=draw, device=device)
        self.bias = Parameter(zeros((self.n_features, int(embedding_dim)), device))
        if activation is not None:
            name = type(self).__name__
            self.activation = resolve(activation, ACTIVATIONS, Module, parameter="activation", caller=name)

    def forward(self, x: Any) -> Any:
        x = checked(self, x, self.n_features)
        angles = expand_dims(x, -1) * (self.frequencies * (2.0 * np.pi))
        waves = concat([cos(angles), sin(angles)], axis=-1)
        if self.weight is None:
            return waves
        out = einsum("...fk,fkd->...fd", waves, self.weight) + self.bias
        return out if self.activation is None else self.activation(out)

    def extra_repr(self) -> str:
        lengths = f"{self.n_features}, {self.embedding_dim}, n_frequencies={self.n_frequencies}"
        return f"{lengths}, sigma={self.sigma}"


def draw_frequencies(sigma: float, shape: tuple[int, ...], random_state: RandomState) -> Any:
    return random_state.normal(0.0, sigma, shape)


class PiecewiseLinearEncoding(Module):
    r"""Position of every number of a row in each of some bins, from 0 to 1.

    Parameters
    ----------
    edges : list of array-like of shape (n_edges,)
        For each feature the edges of its bins, at least two, increasing: quantiles of the training rows, or
        thresholds of a decision tree.
    extrapolation : float or None, default=None
        Limit of encodings below 0 and above 1 in the outer bins; None for no limit, as in the paper.
    device : str or Device, default=None
        Device of the edges; None is the CPU.

    Attributes
    ----------
    left, width : Tensor of shape (n_bins,)
        Buffers: left edge and width of all bins, those of the first feature first.

    Notes
    -----
    The input is of shape (..., n_features), the output of shape (..., n_bins), with the bins of all
    features one after the other. For a bin from a to b,

    .. math:: \min(\max((x - a) / (b - a), 0), 1),

    without the lower limit in the first and the upper limit in the last bin of a feature: Y. Gorishniy, I.
    Rubachev and A. Babenko, "On Embeddings for Numerical Features in Tabular Deep Learning", NeurIPS 2022,
    section 3.2. A linear layer of it is a piecewise linear function of every feature.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.PiecewiseLinearEncoding([[0.0, 1.0, 3.0], [0.0, 10.0]])([[2.0, 5.0], [4.0, -1.0]]).numpy()
    array([[ 1. ,  0.5,  0.5],
           [ 1. ,  1.5, -0.1]])
    """

    _stored_fields = {
        "n_features": POSITIVE,
        "n_bins": POSITIVE,
        "column": Buffers("i", "n_bins"),
        "left": Buffers("f", "n_bins"),
        "width": Buffers("f", "n_bins"),
        "low": Buffers("f", "n_bins"),
        "high": Buffers("f", "n_bins"),
    }

    def _check_stored(self) -> None:
        columns = self.column.numpy()
        if columns.min() < 0 or columns.max() >= self.n_features:
            raise ValueError(f"{type(self).__name__} has bins of other columns than its {self.n_features}")

    def __init__(
        self,
        edges: Sequence[Any],
        extrapolation: float | None = None,
        *,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, extrapolation=extrapolation)
        found = _checked_edges(edges)
        self.n_features, self.n_bins = len(found), sum(len(each) - 1 for each in found)
        self.extrapolation = extrapolation
        beyond = np.inf if extrapolation is None else float(extrapolation)
        low = [np.r_[-beyond, np.zeros(len(each) - 2)] for each in found]
        high = [np.r_[np.ones(len(each) - 2), 1 + beyond] for each in found]
        column = np.repeat(np.arange(len(found)), [len(each) - 1 for each in found])
        values = {
            "column": column,
            "left": np.concatenate([each[:-1] for each in found]),
            "width": np.concatenate([np.diff(each) for each in found]),
            "low": np.concatenate(low),
            "high": np.concatenate(high),
        }
        place = zeros((), device).device if device is None else device
        for name, value in values.items():
            dtype = np.dtype(np.int64 if name == "column" else np.float32)
            self.register_buffer(name, value.astype(dtype), device=place)

    _parameter_constraints = {"extrapolation": [Interval(Real, 0, None, closed="left"), None]}

    def forward(self, x: Any) -> Tensor:
        x = checked(self, x, self.n_features)
        share: Tensor = (take(x, self.column, axis=-1) - self.left) / self.width
        return maximum(minimum(share, self.high), self.low)

    def extra_repr(self) -> str:
        more = "" if self.extrapolation is None else f", extrapolation={self.extrapolation}"
        return f"{self.n_features} features, {self.n_bins} bins{more}"


def checked(layer: Module, x: Any, n_features: int) -> Tensor:
    """Return an input as a tensor, after a look at its last axis."""
    found: Tensor = as_tensor(x)
    if found.ndim == 0 or found.shape[-1] != n_features:
        raise ShapeError(
            f"{type(layer).__name__}({layer.extra_repr()}): expected an input of shape (..., {n_features}), "
            f"got {found.shape}"
        )
    return found


def _checked_edges(edges: Sequence[Any]) -> list[Any]:
    try:
        found = [np.asarray(each, np.float64) for each in edges]
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            "PiecewiseLinearEncoding: edges must be a list with the edges of each feature, numbers; got "
            f"{shown(edges)}: {error}"
        ) from None
    if not found:
        raise ValueError("PiecewiseLinearEncoding: expected edges of at least one feature, got none")
    for number, each in enumerate(found):
        single = each.astype(np.float32)
        if (
            each.ndim != 1
            or len(each) < 2
            or not np.isfinite(single).all()
            or not (np.diff(single) > 0).all()
        ):
            raise ValueError(
                f"PiecewiseLinearEncoding: the edges of feature {number} must be at least two finite, "
                f"increasing numbers, in float32 as well, got {each.tolist()}: leave out those that occur "
                "twice (np.unique), and constant features"
            )
    return found


def _counts(values: Any, name: str) -> tuple[int, ...]:
    found: list[Any] = list(values) if np.ndim(values) else []
    if not found or not all(map(is_whole, found)):
        raise InvalidParameterError(
            f"The {name!r} parameter of CategoryEmbeddings must be a sequence of ints from 1, at least one. "
            f"Got {shown(values)}."
        )
    return tuple(int(x) for x in found)


def _length(n_levels: int) -> int:
    return min(LONGEST, round(1.6 * math.pow(n_levels, 0.56)))
