"""Activations, with and without parameters."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from sknet import ops
from sknet._fields import ABSENT, Named, Params
from sknet._params import Interval, StrOptions, resolve
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module, check_arguments
from sknet.nn._parameter import DEFAULT_DTYPE, Parameter, Registered, ones

__all__ = [
    "ACTIVATIONS", "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "Identity", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ParametricActivation", "ReLU",
    "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink",
]  # fmt: skip


NUMBER = [Interval(Real, None, None, closed="neither")]
THRESHOLD = [Interval(Real, 0, None, closed="left")]
AXIS = [Interval(Integral, None, None, closed="neither")]


class Identity(Module):
    """Return the input unchanged.

    Examples
    --------
    >>> from sknet import Tensor, nn
    >>> nn.Identity()(Tensor([-1.0, 2.0]))
    Tensor([-1.,  2.], dtype=float64)
    """

    def forward(self, x: Any) -> Any:
        return x


class ReLU(Module):
    r"""Rectifier, :math:`\max(x, 0)`.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.ReLU()([-1.0, 2.0])
    Tensor([0., 2.], dtype=float64)
    """

    forward = staticmethod(ops.relu)


class ReLU6(Module):
    """Rectifier with an upper limit of 6 (Krizhevsky, 2010).

    Examples
    --------
    >>> from sknet import nn
    >>> nn.ReLU6()([-1.0, 2.0])
    Tensor([0., 2.], dtype=float64)
    """

    forward = staticmethod(ops.relu6)


class LeakyReLU(Module):
    """Rectifier with a slope for negative inputs.

    Parameters
    ----------
    negative_slope : float, default=0.01
        Slope left of 0.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.LeakyReLU(0.1)([-1.0, 2.0])
    Tensor([-0.1,  2. ], dtype=float64)
    """

    _parameter_constraints = {"negative_slope": NUMBER}

    def __init__(self, negative_slope: float = 0.01) -> None:
        check_arguments(self, negative_slope=negative_slope)
        self.negative_slope = negative_slope

    def forward(self, x: Any) -> Tensor:
        return ops.leaky_relu(x, self.negative_slope)


class PReLU(Module):
    """Rectifier that learns its slope for negative inputs (He et al., 2015).

    Parameters
    ----------
    num_parameters : int, default=1
        One slope for all, or one for each channel, which is the input's second axis.
    negative_slope : float, default=0.25
        Initial value of the slopes.

    Other Parameters
    ----------------
    device : str or Device, default=None
        Device of the slopes; None is the CPU.

    Attributes
    ----------
    slope : Parameter of shape (num_parameters,)
        The slopes; ``weight`` in PyTorch.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.PReLU()([-1.0, 2.0])
    Tensor([-0.25,  2.  ], dtype=float64, requires_grad=True)
    """

    slope: Any = Registered()

    _parameter_constraints = {
        "num_parameters": [Interval(Integral, 1, None, closed="left")],
        "negative_slope": NUMBER,
    }
    _stored_fields = {
        "slope": Params("num_parameters"),
        "negative_slope": [ABSENT],
    }

    def __init__(
        self, num_parameters: int = 1, negative_slope: float = 0.25, *, device: "str | Device | None" = None
    ) -> None:
        check_arguments(self, num_parameters=num_parameters, negative_slope=negative_slope)
        self.num_parameters = int(num_parameters)
        self.slope = Parameter(np.full(self.num_parameters, negative_slope, DEFAULT_DTYPE), device=device)

    def forward(self, x: Any) -> Tensor:
        x, slope = as_tensor(x), self.slope
        if self.num_parameters > 1:
            if x.ndim < 2 or x.shape[1] != self.num_parameters:
                raise ShapeError(
                    f"{self!r}: expected an input of shape (n, {self.num_parameters}, ...), got {x.shape}"
                )
            slope = ops.reshape(slope, (self.num_parameters, *(1,) * (x.ndim - 2)))
        elif not x.ndim:
            slope = ops.reshape(slope, ())
        return ops.prelu(x, slope)

    def extra_repr(self) -> str:
        return f"{self.num_parameters}" if self.num_parameters > 1 else ""


class ELU(Module):
    r"""Exponential linear unit, :math:`\alpha (e^x - 1)` for negative inputs (Clevert et al., 2016).

    Parameters
    ----------
    alpha : float, default=1.0
        Minus the value that very negative inputs approach.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.ELU()([-1.0, 2.0])
    Tensor([-0.63212056,  2.        ], dtype=float64)
    """

    _parameter_constraints = {"alpha": NUMBER}

    def __init__(self, alpha: float = 1.0) -> None:
        check_arguments(self, alpha=alpha)
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return ops.elu(x, self.alpha)


class CELU(Module):
    r"""ELU with a continuous slope, :math:`\alpha (e^{x / \alpha} - 1)` for negative inputs (Barron, 2017).

    Parameters
    ----------
    alpha : float, default=1.0
        Minus the value that very negative inputs approach; above 0.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.CELU(2.0)([-1.0, 2.0])
    Tensor([-0.78693868,  2.        ], dtype=float64)
    """

    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, alpha: float = 1.0) -> None:
        check_arguments(self, alpha=alpha)
        self.alpha = alpha

    def forward(self, x: Any) -> Tensor:
        return ops.celu(x, self.alpha)


class SELU(Module):
    """Scaled ELU that keeps mean 0 and variance 1 from layer to layer (Klambauer et al., 2017).

    Examples
    --------
    >>> from sknet import nn
    >>> nn.SELU()([-1.0, 2.0])
    Tensor([-1.11133074,  2.10140197], dtype=float64)
    """

    forward = staticmethod(ops.selu)


class GELU(Module):
    r"""Gaussian error linear unit, :math:`x \Phi(x)` (Hendrycks & Gimpel, 2016).

    Parameters
    ----------
    approximate : {"none", "tanh"}, default="none"
        Exact, or the paper's faster formula with a hyperbolic tangent.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.GELU()([-1.0, 2.0])
    Tensor([-0.15865525,  1.95449974], dtype=float64)
    """

    _parameter_constraints = {"approximate": [StrOptions({"none", "tanh"})]}

    def __init__(self, approximate: str = "none") -> None:
        check_arguments(self, approximate=approximate)
        self.approximate = approximate

    def forward(self, x: Any) -> Tensor:
        return ops.gelu(x, self.approximate)


class SiLU(Module):
    r"""Sigmoid-weighted linear unit or swish, :math:`x \sigma(x)` (Elfwing et al., 2018).

    Examples
    --------
    >>> from sknet import nn
    >>> nn.SiLU()([-1.0, 2.0])
    Tensor([-0.26894142,  1.76159416], dtype=float64)
    """

    forward = staticmethod(ops.silu)


class Mish(Module):
    r"""Self-regularized unit, :math:`x \tanh(\log(1 + e^x))` (Misra, 2019).

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Mish()([-1.0, 2.0])
    Tensor([-0.30340146,  1.94395896], dtype=float64)
    """

    forward = staticmethod(ops.mish)


class Hardswish(Module):
    r"""Piecewise swish, :math:`x \min(\max(x + 3, 0), 6) / 6` (Howard et al., 2019).

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Hardswish()([-1.0, 2.0])
    Tensor([-0.33333333,  1.66666667], dtype=float64)
    """

    forward = staticmethod(ops.hardswish)


class Sigmoid(Module):
    r"""Logistic function, :math:`\sigma(x) = 1 / (1 + e^{-x})`.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Sigmoid()([-1.0, 2.0])
    Tensor([0.26894142, 0.88079708], dtype=float64)
    """

    forward = staticmethod(ops.sigmoid)


class GLU(Module):
    r"""Gated linear unit, :math:`a \, \sigma(b)` of the input's halves a and b (Dauphin et al., 2017).

    Parameters
    ----------
    axis : int, default=-1
        The axis that is halved.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.GLU()([1.0, 2.0, 0.0, 0.0])
    Tensor([0.5, 1. ], dtype=float64)
    """

    _parameter_constraints = {"axis": AXIS}

    def __init__(self, axis: int = -1) -> None:
        check_arguments(self, axis=axis)
        self.axis = axis

    def forward(self, x: Any) -> Tensor:
        return ops.glu(x, self.axis)


class Hardsigmoid(Module):
    r"""Piecewise sigmoid, :math:`\min(\max(x + 3, 0), 6) / 6`.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Hardsigmoid()([-1.0, 2.0])
    Tensor([0.33333333, 0.83333333], dtype=float64)
    """

    forward = staticmethod(ops.hardsigmoid)


class LogSigmoid(Module):
    r"""Logarithm of the logistic function, finite where that underflows.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.LogSigmoid()([-1000.0, 2.0])
    Tensor([-1.00000000e+03, -1.26928011e-01], dtype=float64)
    """

    forward = staticmethod(ops.log_sigmoid)


class Tanh(Module):
    """Hyperbolic tangent.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Tanh()([-1.0, 2.0])
    Tensor([-0.76159416,  0.96402758], dtype=float64)
    """

    forward = staticmethod(ops.tanh)


class Tanhshrink(Module):
    r"""Difference :math:`x - \tanh(x)`.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Tanhshrink()([-1.0, 2.0])
    Tensor([-0.23840584,  1.03597242], dtype=float64)
    """

    def forward(self, x: Any) -> Tensor:
        return ops.subtract(x, ops.tanh(x))


class Hardtanh(Module):
    """Piecewise tanh: the input limited to an interval (Collobert, 2004).

    Parameters
    ----------
    min, max : float, default=-1.0, 1.0
        The limits.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Hardtanh()([-0.5, 2.0])
    Tensor([-0.5,  1. ], dtype=float64)
    """

    _parameter_constraints = {"min": NUMBER, "max": NUMBER}

    def __init__(self, min: float = -1.0, max: float = 1.0) -> None:
        check_arguments(self, min=min, max=max)
        self.min, self.max = min, max

    def forward(self, x: Any) -> Tensor:
        return ops.hardtanh(x, self.min, self.max)


class Softsign(Module):
    r"""Quotient :math:`x / (1 + |x|)`, which reaches its limits slower than tanh.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Softsign()([-1.0, 2.0])
    Tensor([-0.5       ,  0.66666667], dtype=float64)
    """

    forward = staticmethod(ops.softsign)


class Softplus(Module):
    r"""Smooth rectifier, :math:`\log(1 + e^{\beta x}) / \beta`.

    Parameters
    ----------
    beta : float, default=1.0
        Sharpness of the bend, above 0.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Softplus()([-1.0, 2.0])
    Tensor([0.31326169, 2.12692801], dtype=float64)
    """

    _parameter_constraints = {"beta": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, beta: float = 1.0) -> None:
        check_arguments(self, beta=beta)
        self.beta = beta

    def forward(self, x: Any) -> Tensor:
        return ops.softplus(x) if self.beta == 1 else ops.softplus(ops.multiply(x, self.beta)) / self.beta


class Softshrink(Module):
    """Input moved towards 0 by a threshold, and 0 up to it (Donoho, 1995).

    Parameters
    ----------
    threshold : float, default=0.5
        Distance by which inputs move, 0 or more.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Softshrink()([-1.0, 0.2])
    Tensor([-0.5,  0. ], dtype=float64)
    """

    _parameter_constraints = {"threshold": THRESHOLD}

    def __init__(self, threshold: float = 0.5) -> None:
        check_arguments(self, threshold=threshold)
        self.threshold = threshold

    def forward(self, x: Any) -> Tensor:
        return ops.subtract(x, ops.clip(x, -self.threshold, self.threshold))


class Hardshrink(Module):
    """Input that is 0 up to a threshold, and unchanged beyond it (Donoho & Johnstone, 1994).

    Parameters
    ----------
    threshold : float, default=0.5
        Largest absolute value that becomes 0; 0 or more.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Hardshrink()([-1.0, 0.2])
    Tensor([-1.,  0.], dtype=float64)
    """

    _parameter_constraints = {"threshold": THRESHOLD}

    def __init__(self, threshold: float = 0.5) -> None:
        check_arguments(self, threshold=threshold)
        self.threshold = threshold

    def forward(self, x: Any) -> Tensor:
        return ops.where(ops.greater(ops.abs(x), self.threshold), x, 0.0)


class Softmax(Module):
    r"""Exponentials that sum to one along an axis, :math:`e^{x_i} / \sum_j e^{x_j}`.

    Parameters
    ----------
    axis : int, default=-1
        The axis.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Softmax()([[0.0, 0.0], [1000.0, 0.0]])
    Tensor([[0.5, 0.5],
            [1. , 0. ]], dtype=float64)
    """

    _parameter_constraints = {"axis": AXIS}

    def __init__(self, axis: int = -1) -> None:
        check_arguments(self, axis=axis)
        self.axis = axis

    def forward(self, x: Any) -> Tensor:
        return ops.softmax(x, self.axis)


class LogSoftmax(Module):
    """Logarithm of `Softmax`, finite where that underflows.

    Parameters
    ----------
    axis : int, default=-1
        The axis.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.LogSoftmax()([1000.0, 0.0])
    Tensor([    0., -1000.], dtype=float64)
    """

    _parameter_constraints = {"axis": AXIS}

    def __init__(self, axis: int = -1) -> None:
        check_arguments(self, axis=axis)
        self.axis = axis

    def forward(self, x: Any) -> Tensor:
        return ops.log_softmax(x, self.axis)


ACTIVATIONS: dict[str, type[Module]] = {
    "celu": CELU,
    "elu": ELU,
    "gelu": GELU,
    "hardshrink": Hardshrink,
    "hardsigmoid": Hardsigmoid,
    "hardswish": Hardswish,
    "hardtanh": Hardtanh,
    "identity": Identity,
    "leaky_relu": LeakyReLU,
    "log_sigmoid": LogSigmoid,
    "log_softmax": LogSoftmax,
    "logistic": Sigmoid,
    "mish": Mish,
    "prelu": PReLU,
    "relu": ReLU,
    "relu6": ReLU6,
    "selu": SELU,
    "sigmoid": Sigmoid,
    "silu": SiLU,
    "softmax": Softmax,
    "softplus": Softplus,
    "softshrink": Softshrink,
    "softsign": Softsign,
    "tanh": Tanh,
    "tanhshrink": Tanhshrink,
}
"""Activation layers by name: scikit-learn's names, and those of `sknet.ops`."""

# Those of the names whose derivative is nowhere negative: `monotonic_cst` takes no others.
NEVER_FALLING = (
    *("celu", "elu", "hardshrink", "hardsigmoid", "hardtanh", "identity", "leaky_relu", "log_sigmoid"),
    *("logistic", "relu", "relu6", "selu", "sigmoid", "softplus", "softshrink", "softsign", "tanh"),
    "tanhshrink",
)


class ParametricActivation(Module):
    r"""A learned mix of an activation and the identity, for every column.

    Parameters
    ----------
    n_features : int
        Length of the input's last axis.
    activation : str or Module, default="selu"
        A name from `ACTIVATIONS`, or a module that keeps the shape.
    device : str or Device, default=None
        Device of the parameter; None is the CPU.

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
        return f"{self.n_features}"
