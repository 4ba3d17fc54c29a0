"""Losses for regression that are likelihoods: of counts, of amounts, and of a mean with its variance."""

from numbers import Real
from typing import Any

from sknet import ops
from sknet._params import Interval
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, Scaling, finite_numbers, of_blocks, reject


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
        return self.total(ops.exp(z) - y * z + (ops.xlogy(y, y) - y))

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(as_tensor(output))

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        reject(y < 0, y, name, "0 or more for Poisson, which is for counts and rates")


class Gamma(Loss):
    r"""Half the gamma deviance, for positive amounts; the output is the logarithm of the mean.

    Errors count relative to the mean, which suits targets whose standard deviation grows with
    their mean.

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
        """The dependence of the loss on the unit of the targets: by the power of their means' variance."""
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
        """Return the standard deviation of each target around its mean.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, 2 * n_targets), dtype=floating
            What the network returned.

        Returns
        -------
        Tensor of shape (n_samples, n_targets)
            Positive.
        """
        z = as_tensor(output)
        return ops.exp(0.5 * z[:, z.shape[-1] // 2 :])

    def predict_interval(self, output: Tensor, coverage: float) -> Tensor:
        """Return the interval around each mean in which a share of the targets is expected.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, 2 * n_targets), dtype=floating
            What the network returned.
        coverage : float
            The share, between 0 and 1.

        Returns
        -------
        Tensor of shape (n_samples, 2, n_targets)
            Lower and upper bounds.
        """
        from statistics import NormalDist  # a tenth of the time of all imports

        half = NormalDist().inv_cdf(0.5 + 0.5 * coverage) * self.predict_std(output)
        mean = self.predict(output)
        return ops.stack([mean - half, mean + half], axis=-2)
