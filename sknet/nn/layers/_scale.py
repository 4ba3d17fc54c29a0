"""Scale: one learned factor for every column."""

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from sknet._fields import Params
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._initializer import draw_weight
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._arguments import check_arguments

__all__ = ["Scale"]


class Scale(Module):
    """Multiply every column by a learned factor: ``x * weight``.

    Parameters
    ----------
    n_features : int
        Length of the input's last axis.
    init : Initializer or str, default=None
        Scheme of the factors, an object or its name; None is that of `init.version`, ones.
    device : str or Device, default=None
        Where the parameter lives; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (n_features,)
        The factors.

    Notes
    -----
    In front of a network it learns which columns matter: with a higher rate than the other layers
    (``lr_factors={"0.weight": 6.0}`` of an optimizer) it is a soft selection of features
    (D. Holzmüller, L. Grinsztajn and I. Steinwart, "Better by Default: Strong Pre-Tuned MLPs and
    Boosted Trees on Tabular Data", NeurIPS 2024, section 3).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Scale(3)
    >>> layer.weight.data = np.array([0.0, 1.0, 2.0], np.float32)
    >>> layer(np.ones((1, 3), np.float32))
    Tensor([[0., 1., 2.]], dtype=float32, requires_grad=True)
    """

    weight: Any = Registered()

    _parameter_constraints = {"n_features": [Interval(Integral, 1, None, closed="left")]}
    _stored_fields = {
        "weight": Params("n_features"),
    }

    def __init__(
        self,
        n_features: int,
        *,
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, n_features=n_features)
        self.n_features = int(n_features)
        shape = (self.n_features,)
        draw = partial(draw_weight, scheme(init, self, "scale"), shape=shape, fan_in=1, fan_out=1)
        self.weight = Parameter(shape=shape, draw=draw, device=device)

    def forward(self, x: Any) -> Tensor:
        x = as_tensor(x)
        if x.ndim == 0 or x.shape[-1] != self.n_features:
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., {self.n_features}), got {np.shape(x)}"
            )
        scaled: Tensor = x * self.weight
        return scaled

    def extra_repr(self) -> str:
        """Return the number of columns."""
        return f"{self.n_features}"
