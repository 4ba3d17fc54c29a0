"""Activation functions as layers: a table of classes, each one function of `sknet.ops`."""

from numbers import Integral, Real
from typing import Any

from sknet import ops
from sknet._params import Interval, StrOptions
from sknet.core import Tensor
from sknet.nn._module import Module
from sknet.nn.layers._arguments import check_arguments

__all__ = [
    "ACTIVATIONS",
    "ELU",
    "GELU",
    "SELU",
    "Hardswish",
    "Identity",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
]

NUMBER = [Interval(Real, None, None, closed="neither")]
AXIS = [Interval(Integral, None, None, closed="neither")]


class Identity(Module):
    """Hands its input on.

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
    r"""Self-regularised unit, :math:`x \tanh(\log(1 + e^x))` (Misra, 2019).

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


class Softplus(Module):
    r"""Smooth rectifier, :math:`\log(1 + e^x)`.

    Examples
    --------
    >>> from sknet import nn
    >>> nn.Softplus()([-1.0, 2.0])
    Tensor([0.31326169, 2.12692801], dtype=float64)
    """

    forward = staticmethod(ops.softplus)


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
    "elu": ELU,
    "gelu": GELU,
    "hardswish": Hardswish,
    "identity": Identity,
    "leaky_relu": LeakyReLU,
    "log_sigmoid": LogSigmoid,
    "log_softmax": LogSoftmax,
    "logistic": Sigmoid,
    "mish": Mish,
    "relu": ReLU,
    "selu": SELU,
    "sigmoid": Sigmoid,
    "silu": SiLU,
    "softmax": Softmax,
    "softplus": Softplus,
    "tanh": Tanh,
}
"""Activation layers by name: scikit-learn's names, and those of `sknet.ops`."""
