"""Losses for regression."""

import math
from numbers import Real

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor
from sknet.losses._base import Loss, Scaling


class SquaredError(Loss):
    r"""Half the squared error; its minimizer is the mean.

    Notes
    -----
    :math:`\ell(z, y) = \frac{1}{2} (z - y)^2`, summed over outputs. The half is scikit-learn's:
    the gradient is then :math:`z - y`.

    Examples
    --------
    >>> from sknet.losses import SquaredError
    >>> SquaredError().values([[1.0], [3.0]], [1.0, 1.0]).numpy()
    array([0., 2.])
    """

    tasks = ("regression",)
    mean_over_outputs = True
    scaling = Scaling(shifts=True, power=2.0)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        return 0.5 * self.total(ops.square(z - y))


class AbsoluteError(Loss):
    r"""Absolute error; its minimizer is the median, so that single large errors count less.

    Notes
    -----
    :math:`\ell(z, y) = |z - y|`, summed over outputs. Where the two are equal the gradient is 0.

    Examples
    --------
    >>> from sknet.losses import AbsoluteError
    >>> AbsoluteError().values([[1.0], [3.0]], [1.0, 1.0]).numpy()
    array([0., 2.])
    """

    tasks = ("regression",)
    mean_over_outputs = True
    scaling = Scaling(shifts=True, power=1.0)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        return self.total(abs(z - y))


class Huber(Loss):
    r"""Huber's loss: squared for small errors, absolute for large ones.

    Parameters
    ----------
    delta : float, default=1.0
        Absolute error at which the loss changes from quadratic to linear.

    Notes
    -----
    With :math:`r = z - y`, summed over outputs [1]_,

    .. math:: \ell(z, y) = \begin{cases} \frac{1}{2} r^2 & |r| \le \delta \\
              \delta (|r| - \frac{1}{2} \delta) & |r| > \delta. \end{cases}

    With :math:`c` for r clipped to :math:`\pm\delta` both cases are :math:`c (r - c / 2)`.

    References
    ----------
    .. [1] P. J. Huber, "Robust Estimation of a Location Parameter", The Annals of Mathematical
       Statistics 35(1), 1964.

    Examples
    --------
    >>> from sknet.losses import Huber
    >>> Huber(delta=1.0).values([[1.5], [4.0]], [1.0, 1.0]).numpy()
    array([0.125, 2.5  ])
    """

    tasks = ("regression",)
    mean_over_outputs = True
    scaling = Scaling(shifts=True, power=2.0)

    _parameter_constraints = {"delta": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, delta: float = 1.0) -> None:
        self.delta = delta

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        residual = z - y
        clipped = ops.clip(residual, -self.delta, self.delta)
        return self.total(clipped * (residual - 0.5 * clipped))


class LogCosh(Loss):
    r"""Logarithm of the hyperbolic cosine: squared for small errors, absolute for large ones, and smooth.

    Notes
    -----
    With :math:`r = z - y`, summed over outputs,

    .. math:: \ell(z, y) = \log \cosh r = r + \log(1 + e^{-2 r}) - \log 2,

    the second form of which does not overflow. The gradient is :math:`\tanh r`.

    Examples
    --------
    >>> from sknet.losses import LogCosh
    >>> LogCosh().values([[1.0], [100.0]], [0.0, 0.0]).numpy()
    array([ 0.4338, 99.3069])
    """

    tasks = ("regression",)
    mean_over_outputs = True
    scaling = Scaling(shifts=True, power=2.0)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        residual = z - y
        return self.total(residual + ops.softplus(-2.0 * residual) - math.log(2.0))
