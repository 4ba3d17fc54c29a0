"""Numbers made wider: a vector for every number of a row, periodic or piecewise linear."""

from collections.abc import Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet._constraints import shown
from sknet._fields import POSITIVE, Buffers, Named, Params
from sknet._params import Interval, resolve
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter, zeros
from sknet.nn._scope import Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._activation import ACTIVATIONS
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import concat, cos, einsum, expand_dims, maximum, minimum, sin, take

__all__ = ["PeriodicEmbedding", "PiecewiseLinearEncoding"]

COUNT = [Interval(Integral, 1, None, closed="left")]


class PeriodicEmbedding(Module):
    r"""A vector for every number of a row: sines and cosines of learned frequencies, mapped linearly.

    Parameters
    ----------
    n_features : int
        How many numbers a row has.
    embedding_dim : int, default=24
        Length of each vector; None leaves out the linear map, and returns the sines and cosines.
    n_frequencies : int, default=48
        Number of frequencies of every feature.
    sigma : float, default=0.01
        Standard deviation of the initial frequencies: the most important hyperparameter, to be chosen
        between 0.01 and 10 for features of deviation 1.
    activation : str, Module or None, default="relu"
        What follows the linear map.
    init : Initializer or str, default=None
        Scheme of the linear maps, an object or its name; None is that of `init.version`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    frequencies : Parameter of shape (n_features, n_frequencies)
        In periods per unit.
    weight : Parameter of shape (n_features, 2 * n_frequencies, embedding_dim), or None
        A linear map for every feature.
    bias : Parameter of shape (n_features, embedding_dim), or None
        Likewise.

    Notes
    -----
    The input is of shape (..., n_features), the output of shape (..., n_features, embedding_dim): a
    perceptron has `nn.Flatten` next. For each feature x with frequencies c,

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
        """Return the lengths."""
        lengths = f"{self.n_features}, {self.embedding_dim}, n_frequencies={self.n_frequencies}"
        return f"{lengths}, sigma={self.sigma}"


def draw_frequencies(sigma: float, shape: tuple[int, ...], random_state: RandomState) -> Any:
    return random_state.normal(0.0, sigma, shape)


class PiecewiseLinearEncoding(Module):
    r"""For every number of a row how far it has come through each of some bins.

    Parameters
    ----------
    edges : list of array-like of shape (n_edges,)
        For each feature the edges of its bins, at least two, increasing: quantiles of the training rows, or
        thresholds of a decision tree.
    extrapolation : float or None, default=None
        How far the outer bins go on beyond 0 and 1: a limit that outliers cannot pass; None for no limit,
        as in the paper.
    device : str or Device, default=None
        Where the edges live; None is the CPU.

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
        limited: Tensor = maximum(minimum(share, self.high), self.low)
        return limited

    def extra_repr(self) -> str:
        """Return how many features and bins there are."""
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
