"""Losses for regression: of errors, of likelihoods of counts and amounts, and of quantiles."""

import math
from numbers import Real
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import shown
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.exceptions import InvalidParameterError
from sknet.losses._base import Loss, Scaling, finite_numbers, of_blocks, reject, times_log


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


class Poisson(Loss):
    r"""Half the Poisson deviance, for counts and rates; the output is the logarithm of the mean.

    Notes
    -----
    With the mean :math:`e^z`, summed over outputs [1]_,

    .. math:: \ell(z, y) = e^z - y z + y \log y - y, \qquad y \ge 0.

    The last two terms do not depend on the output; they make 0 the smallest value.

    References
    ----------
    .. [1] P. McCullagh and J. A. Nelder, "Generalized Linear Models", 2nd edition, 1989, section 2.3.

    Examples
    --------
    >>> from sknet.losses import Poisson
    >>> Poisson().values([[0.0], [0.0]], [1.0, 0.0]).numpy()
    array([0., 1.])
    >>> Poisson().predict([[0.0]]).numpy()
    array([[1.]])
    """

    tasks = ("regression",)
    scaling = Scaling(shifts=False, power=1.0)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        return self.total(ops.exp(z) - y * z + (times_log(y) - y))

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(as_tensor(output))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject(y < 0, y, name, "0 or more for Poisson, which is for counts and rates")


class Gamma(Loss):
    r"""Half the gamma deviance, for positive amounts; the output is the logarithm of the mean.

    Errors count relative to the mean, which suits targets whose standard deviation grows with their mean.

    See Also
    --------
    sklearn.metrics.mean_gamma_deviance : Twice this loss, from means.

    Notes
    -----
    With the mean :math:`e^z` and :math:`r = \log y - z`, summed over outputs [1]_,

    .. math:: \ell(z, y) = e^r - r - 1 = \frac{y}{e^z} - \log \frac{y}{e^z} - 1, \qquad y > 0.

    References
    ----------
    .. [1] P. McCullagh and J. A. Nelder, "Generalized Linear Models", 2nd edition, 1989, section 2.3.

    Examples
    --------
    >>> from sknet.losses import Gamma
    >>> Gamma().values([[0.0], [0.0]], [1.0, 2.0]).numpy()
    array([0.    , 0.3069])
    >>> Gamma().predict([[0.0]]).numpy()
    array([[1.]])
    """

    tasks = ("regression",)
    scaling = Scaling(shifts=False, power=0.0)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = self.pair(output, target)
        ratio = ops.log(y) - z
        return self.total(ops.expm1(ratio) - ratio)

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(as_tensor(output))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject(y <= 0, y, name, "above 0 for Gamma, which is for positive amounts")


class Tweedie(Loss):
    r"""Half the Tweedie deviance; the output is the logarithm of the mean.

    For targets whose variance is the mean to some power: between 1 and 2 for sums of a random
    number of amounts, with exact zeros among them, such as claims or rain.

    Parameters
    ----------
    power : float, default=1.5
        1 is `Poisson`, 2 is `Gamma`; at least 1.

    See Also
    --------
    sklearn.metrics.mean_tweedie_deviance : Twice this loss, from means.

    Notes
    -----
    With the mean :math:`e^z`, summed over outputs [1]_, for a power p other than 1 and 2

    .. math:: \ell(z, y) = \frac{y^{2 - p}}{(1 - p)(2 - p)} - \frac{y e^{(1 - p) z}}{1 - p}
              + \frac{e^{(2 - p) z}}{2 - p}.

    The first term does not depend on the output; it makes 0 the smallest value. Targets are 0 or
    more for a power below 2, and positive otherwise.

    References
    ----------
    .. [1] B. Jorgensen, "Exponential Dispersion Models", Journal of the Royal Statistical Society B
       49(2), 1987.

    Examples
    --------
    >>> from sknet.losses import Tweedie
    >>> Tweedie().values([[0.0], [0.0]], [1.0, 0.0]).numpy()
    array([0., 2.])
    """

    tasks = ("regression",)

    _parameter_constraints = {"power": [Interval(Real, 1, None, closed="left")]}

    def __init__(self, power: float = 1.5) -> None:
        self.power = power

    @property
    def scaling(self) -> Scaling:
        """The dependence of the loss on the unit of the targets: its power is ``2 - power``."""
        return Scaling(shifts=False, power=2.0 - float(self.power))

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        if self.power in (1, 2):
            return (Poisson() if self.power == 1 else Gamma()).values(output, target)
        z, y = self.pair(output, target)
        a, b = 1.0 - float(self.power), 2.0 - float(self.power)
        return self.total(ops.exp(b * z) / b - y * ops.exp(a * z) / a + y**b / (a * b))

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(as_tensor(output))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        if self.power < 2:
            reject(y < 0, y, name, f"0 or more for {self!r}, whose power is below 2")
        else:
            reject(y <= 0, y, name, f"above 0 for {self!r}, whose power is 2 or more")


class GaussianNLL(Loss):
    r"""Negative log likelihood of a normal distribution, whose mean and variance are both learned.

    The network has two outputs for each target: the means first, then the logarithms of the
    variances. `predict` returns the means, and `predict_std` the standard deviations.

    Notes
    -----
    With the mean :math:`\mu` and the logarithm :math:`s` of the variance, summed over targets [1]_,

    .. math:: \ell(\mu, s, y) = \frac{1}{2} \left( s + (y - \mu)^2 e^{-s} \right),

    without the constant :math:`\frac{1}{2} \log 2 \pi`. PyTorch's ``gaussian_nll_loss`` is the same for
    the variance :math:`e^s`; it is given the variance itself, and has to keep it away from 0 by an
    eps, which the logarithm does not need [2]_.

    References
    ----------
    .. [1] D. A. Nix and A. S. Weigend, "Estimating the Mean and Variance of the Target Probability
       Distribution", ICNN 1994.
    .. [2] A. Kendall and Y. Gal, "What Uncertainties Do We Need in Bayesian Deep Learning for
       Computer Vision?", NeurIPS 2017, equation 8.

    Examples
    --------
    >>> from sknet.losses import GaussianNLL
    >>> loss = GaussianNLL()
    >>> loss.values([[1.0, 0.0], [3.0, 0.0]], [1.0, 1.0]).numpy()
    array([0., 2.])
    >>> loss.predict([[3.0, 0.0]]).numpy(), loss.predict_std([[3.0, 0.0]]).numpy()
    (array([[3.]]), array([[1.]]))
    """

    tasks = ("regression",)
    outputs_per_target = 2
    scaling = Scaling(shifts=True, power=0.0, adds_log=True)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        (mean, log_variance), y = of_blocks(self, as_tensor(output), as_tensor(target), 2)
        residual = y - mean
        return 0.5 * self.total(log_variance + ops.square(residual) * ops.exp(-log_variance))

    def predict(self, output: Tensor) -> Tensor:
        z = as_tensor(output)
        return z[:, : z.shape[-1] // 2]

    def predict_std(self, output: Tensor) -> Tensor:
        """Return the standard deviation of each target around its mean, given an `output` of the network.

        The output has shape (n_samples, 2 * n_targets), the result (n_samples, n_targets).
        """
        z = as_tensor(output)
        return ops.exp(0.5 * z[:, z.shape[-1] // 2 :])

    def predict_interval(self, output: Tensor, coverage: float) -> Tensor:
        """Return the interval around each mean that contains a target with probability `coverage`.

        An `output` of shape (n_samples, 2 * n_targets) gives bounds of shape (n_samples, 2, n_targets).
        """
        from statistics import NormalDist  # a tenth of the time of all imports

        half = NormalDist().inv_cdf(0.5 + 0.5 * coverage) * self.predict_std(output)
        mean = self.predict(output)
        return ops.stack([mean - half, mean + half], axis=-2)


class Quantile(Loss):
    r"""Pinball loss; its minimizers are quantiles.

    Parameters
    ----------
    quantile : float or array-like of float, default=0.5
        The quantile to predict, between 0 and 1, or several in increasing order, such as ``[0.1, 0.5, 0.9]``.

    Notes
    -----
    With :math:`r = y - z`, summed over outputs and quantiles [1]_,

    .. math:: \ell(z, y) = \max(q r, (q - 1) r).

    At 0.5 it is half the absolute error. Where output and target are equal the gradient is -q, as
    in scikit-learn.

    With several quantiles the network has an output for each quantile of every target; those of the first
    quantile come first. The output of the quantile nearest to 0.5 is that quantile, and every other quantile
    is its neighbour plus or minus the softplus of its output, so quantiles never cross:

    .. math:: \hat q_{k+1} = \hat q_k + \log(1 + e^{z_{k+1}}), \qquad
              \hat q_{k-1} = \hat q_k - \log(1 + e^{z_{k-1}}).

    `predict` returns the quantile nearest to 0.5, `predict_quantiles` all.

    References
    ----------
    .. [1] R. Koenker and G. Bassett, "Regression Quantiles", Econometrica 46(1), 1978.

    Examples
    --------
    >>> from sknet.losses import Quantile
    >>> Quantile(quantile=0.9).values([[0.0], [2.0]], [1.0, 1.0]).numpy()
    array([0.9, 0.1])
    >>> Quantile([0.1, 0.5, 0.9]).predict_quantiles([[-1.0, 5.0, 0.0]]).numpy()
    array([[[4.6867],
            [5.    ],
            [5.6931]]])
    """

    tasks = ("regression",)
    mean_over_outputs = True
    scaling = Scaling(shifts=True, power=1.0)

    _parameter_constraints = {"quantile": [Interval(Real, 0, 1, closed="neither"), "array-like"]}

    def __init__(self, quantile: Any = 0.5) -> None:
        self.quantile = quantile

    def validate(self) -> None:
        """Check the parameter.

        Raises
        ------
        InvalidParameterError
            If it is not a number between 0 and 1, or several that do not increase.
        """
        super().validate()
        if not isinstance(self.quantile, Real):
            levels = np.asarray(self.quantile)
            fits = levels.ndim == 1 and levels.size and levels.dtype.kind == "f"
            if not (fits and (levels > 0).all() and (levels < 1).all() and (np.diff(levels) > 0).all()):
                raise InvalidParameterError(
                    "The 'quantile' parameter of Quantile must be a number between 0 and 1, or several in "
                    f"increasing order, such as [0.1, 0.5, 0.9]. Got {shown(self.quantile)} instead."
                )

    @property
    def levels(self) -> tuple[float, ...]:
        """The quantiles that are predicted, increasing."""
        if isinstance(self.quantile, Real):
            return (float(self.quantile),)
        return tuple(float(q) for q in self.quantile)

    @property
    def outputs_per_target(self) -> int:
        """Number of outputs of the network for each column of the targets: one for each quantile."""
        return len(self.levels)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        levels = self.levels
        if len(levels) == 1:
            z, y = self.pair(output, target)
            excess = z - y
            return self.total(ops.relu(excess) - levels[0] * excess)
        blocks, y = of_blocks(self, as_tensor(output), as_tensor(target), len(levels))
        terms = []
        for quantile, z in zip(levels, self._quantiles(blocks), strict=True):
            excess = z - y
            terms.append(ops.relu(excess) - quantile * excess)
        return self.total(sum(terms[1:], terms[0]))

    def predict(self, output: Tensor) -> Tensor:
        z = as_tensor(output)
        if len(self.levels) == 1:
            return z
        count, middle = z.shape[-1] // len(self.levels), self._middle
        return z[..., middle * count : (middle + 1) * count]

    def predict_quantiles(self, output: Tensor) -> Tensor:
        """Return every quantile of each target; none is smaller than the one before.

        An `output` of shape (n_samples, n_quantiles * n_targets) gives quantiles of shape (n_samples,
        n_quantiles, n_targets), in the order of `levels`.
        """
        z = as_tensor(output)
        count = z.shape[-1] // len(self.levels)
        blocks = [z[..., k * count : (k + 1) * count] for k in range(len(self.levels))]
        return ops.stack(self._quantiles(blocks), axis=-2)

    def predict_interval(self, output: Tensor, coverage: float) -> Tensor:
        """Return the two quantiles of a central interval with probability `coverage`.

        An `output` of shape (n_samples, n_quantiles * n_targets) gives bounds of shape (n_samples, 2,
        n_targets).

        Raises
        ------
        ValueError
            If these quantiles are not among those of the loss.
        """
        bounds = [0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage]
        places = [self._place(bound) for bound in bounds]
        if None in places:
            raise ValueError(
                f"an interval of coverage {coverage} is between the quantiles {bounds[0]:.6g} and "
                f"{bounds[1]:.6g}, and this network has {list(self.levels)}: fit it with these two among "
                "the levels of Quantile"
            )
        every = self.predict_quantiles(output)
        return ops.stack([every[..., place, :] for place in places], axis=-2)

    def _place(self, level: float) -> int | None:
        return next((k for k, q in enumerate(self.levels) if abs(q - level) < 1e-9), None)

    @property
    def _middle(self) -> int:
        """Index of the quantile nearest to 0.5, the lower of two."""
        return min(range(len(self.levels)), key=lambda k: (round(abs(self.levels[k] - 0.5), 9), k))

    def _quantiles(self, blocks: list[Tensor]) -> list[Tensor]:
        """Return the quantiles, each from its block of outputs."""
        found, middle = list(blocks), self._middle
        for k in range(middle + 1, len(blocks)):
            found[k] = found[k - 1] + ops.softplus(blocks[k])
        for k in range(middle - 1, -1, -1):
            found[k] = found[k + 1] - ops.softplus(blocks[k])
        return found
