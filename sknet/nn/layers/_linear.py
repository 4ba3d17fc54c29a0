"""Linear: the layer of a multi-layer perceptron."""

from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState

from sknet._fields import ABSENT, Named, Params
from sknet._params import Interval, StrOptions
from sknet.core import Tensor
from sknet.device import Device, to_host
from sknet.exceptions import ShapeError
from sknet.nn._from_data import FromData, rows_of, write
from sknet.nn._initializer import draw_bias, draw_weight
from sknet.nn._module import Module
from sknet.nn._parameter import Parameter
from sknet.nn._scope import Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import matmul

__all__ = ["Linear"]


class Linear(Module):
    """Affine map of the last axis, ``x @ weight + bias``.

    Parameters
    ----------
    in_features : int
        Length of the input's last axis.
    out_features : int
        Length of the output's last axis.
    bias : bool, default=True
        Whether to add a bias.
    parametrization : {"standard", "ntp"}, default="standard"
        "ntp", the neural tangent parametrization, computes ``x @ weight / sqrt(in_features) + bias``,
        with standard normal weights, so that a good learning rate hardly depends on the widths.
    init : Initializer or str, default=None
        Scheme of weight and bias, an object or its name; None is that of `init.version`. The
        weight is drawn first, then the bias.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    weight : Parameter of shape (in_features, out_features)
        As in scikit-learn's ``coefs_``, and the transpose of PyTorch's.
    bias : Parameter of shape (out_features,), or None
        As in scikit-learn's ``intercepts_``.

    Notes
    -----
    The input is of shape (..., in_features), or a sparse matrix in CSR form.

    For the neural tangent parametrization: A. Jacot, F. Gabriel and C. Hongler, "Neural Tangent Kernel:
    Convergence and Generalization in Neural Networks", NeurIPS 2018, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> layer = nn.Linear(3, 2).initialize(0)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    weight: Any = Registered()
    bias: Any = Registered()
    _from_data: FromData | None = None

    _parameter_constraints = {
        "in_features": [Interval(Integral, 1, None, closed="left")],
        "out_features": [Interval(Integral, 1, None, closed="left")],
        "bias": ["boolean"],
        "parametrization": [StrOptions({"standard", "ntp"})],
    }
    _stored_fields = {
        "weight": Params("in_features", "out_features"),
        "bias": [Params("out_features"), None],
        "_from_data": [Named("FromData"), None, ABSENT],
    }

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        parametrization: str = "standard",
        init: "Initializer | str | None" = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(
            self,
            in_features=in_features,
            out_features=out_features,
            bias=bias,
            parametrization=parametrization,
        )
        self.in_features = int(in_features)
        self.out_features = int(out_features)
        self.parametrization = parametrization
        found = scheme(init, self, "linear" if parametrization == "standard" else "linear ntp")
        shape = (self.in_features, self.out_features)
        fans: Any = {"fan_in": self.in_features, "fan_out": self.out_features}
        draw = partial(draw_weight, found, shape=shape, **fans)
        self.weight = Parameter(shape=shape, draw=draw, device=device)
        self.bias = None
        if bias:
            draw = partial(draw_bias, found, shape=shape[1:], **fans)
            self.bias = Parameter(shape=shape[1:], draw=draw, device=device)
        if isinstance(found, FromData):
            self._from_data = found
            for parameter in self._parameters.values():
                parameter.await_data()

    def forward(self, x: Any) -> Tensor:
        try:
            product = matmul(x, self.weight)
        except ShapeError as error:
            shape = tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
            raise ShapeError(
                f"{self!r}: expected an input of shape (..., {self.in_features}), got {shape}"
            ) from error
        if self.parametrization == "ntp":
            product = product * self.in_features**-0.5
        bias = self.bias
        return product if bias is None else product + bias

    # -- initialization from data: see `nn.init.FromData` -------------------------------------------

    @property
    def awaits_data(self) -> bool:
        """Whether the weights are still to be fitted to the first input."""
        weight: Parameter = self._parameters["weight"]
        return weight.awaits_data

    @property
    def n_rows_seen(self) -> int:
        """The largest number of rows that are used."""
        return 0 if self._from_data is None else self._from_data.n_rows

    def see_data(self, x: Any, random_state: RandomState) -> None:
        """Fit the weights, and a bias that is as it was drawn, to an input.

        Parameters
        ----------
        x : array, CSR matrix or Tensor of shape (..., in_features)
            The input.
        random_state : RandomState
            What to draw from.
        """
        found = FromData() if self._from_data is None else self._from_data
        weight, bias = self._parameters["weight"], self._parameters.get("bias")
        values = np.asarray(to_host(weight.data), np.float64)
        rows = rows_of(x, found.n_rows, random_state)
        if rows.shape[-1] != self.in_features:
            return  # the forward pass raises
        outputs = rows @ values * (1.0 if self.parametrization == "standard" else self.in_features**-0.5)
        values, offsets = found.fitted(random_state, values, outputs)
        write(weight, values)
        if bias is not None and bias.awaits_data:
            write(bias, offsets)

    def extra_repr(self) -> str:
        """Return the lengths, and what differs from the defaults."""
        bias = ", bias=False" if self.bias is None else ""
        form = "" if self.parametrization == "standard" else f", parametrization={self.parametrization!r}"
        return f"{self.in_features}, {self.out_features}{bias}{form}"
