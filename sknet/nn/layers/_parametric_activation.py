"""An activation that learns how far from linear it is."""

from numbers import Integral
from typing import Any

from sknet._fields import Named, Params
from sknet._params import Interval, resolve
from sknet.core import as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter, ones
from sknet.nn._scope import Registered
from sknet.nn.layers._activation import ACTIVATIONS
from sknet.nn.layers._arguments import check_arguments

__all__ = ["ParametricActivation"]


class ParametricActivation(Module):
    r"""A learned mix of an activation and the identity, for every column.

    Parameters
    ----------
    n_features : int
        Length of the input's last axis.
    activation : str or Module, default="selu"
        A name from `ACTIVATIONS`, or a module that keeps the shape.
    device : str or Device, default=None
        Where the parameter lives; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (n_features,)
        The share of the activation in each column, at first 1.

    Notes
    -----
    .. math:: \alpha \, \sigma(x) + (1 - \alpha) \, x,

    as in RealMLP, which learns the shares at a tenth of the rate of the weights: D. Holzmüller, L.
    Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and Boosted Trees on Tabular
    Data", NeurIPS 2024, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.ParametricActivation(2, "relu")
    >>> layer.weight.data = np.array([1.0, 0.25], np.float32)
    >>> layer(np.array([[-4.0, -4.0]], np.float32))
    Tensor([[ 0., -3.]], dtype=float32, requires_grad=True)
    """

    weight: Any = Registered()

    _parameter_constraints = {"n_features": [Interval(Integral, 1, None, closed="left")]}
    _stored_fields = {
        "weight": Params("n_features"),
        "activation": Named("Module"),
    }

    def __init__(
        self,
        n_features: int,
        activation: "str | Module" = "selu",
        *,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, n_features=n_features)
        self.n_features = int(n_features)
        name = type(self).__name__
        self.activation = resolve(activation, ACTIVATIONS, Module, parameter="activation", caller=name)
        self.weight = Parameter(ones((self.n_features,), device))

    def forward(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ShapeError(
                f"{self._shown}: expected an input of shape (..., {self.n_features}), got {x.shape}"
            )
        return x + self.weight * (self.activation(x) - x)

    @property
    def _shown(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        """Return the number of columns."""
        return f"{self.n_features}"
