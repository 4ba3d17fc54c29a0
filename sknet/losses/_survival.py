"""Losses of survival analysis, whose targets are times and whether an event was seen then."""

import math
from typing import Any, ClassVar

import numpy as np

from sknet import ops
from sknet._params import StrOptions
from sknet.core import Tensor, as_tensor
from sknet.exceptions import ShapeError
from sknet.losses._base import Loss, Scaling, finite_numbers, reject, shape_error

MOST_PAIRS = 2**22  # that are compared at a time


class _OfTimes(Loss):
    """Abstract base of losses that read two columns: a time, and 1 for an event or 0 for a censored row."""

    tasks = ("regression",)
    columns_per_target = 2
    sign: ClassVar[int]  # 1 if predictions rise with the times, -1 if they fall

    def score(self, y: Any, prediction: Any, sample_weight: Any = None) -> float:
        """Return the concordance index: the share of comparable pairs of rows in the right order.

        Each row of `y` has a time, and 1 for an event or 0; `prediction` is the result of `predict`. The
        weight of a pair is the product of its two weights in `sample_weight`, and equal predictions count
        half. Two rows are comparable if the shorter time is that of an event, or if only one of two rows with
        the same time has an event. See F. E. Harrell et al., "Evaluating the yield of medical tests", JAMA
        247, 1982.

        Raises
        ------
        ValueError
            If no two rows are comparable, as where none has an event.
        """
        y = np.asarray(y, np.float64)
        later, (time, event) = self.sign * np.asarray(prediction, np.float64).ravel(), y.T
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        right, pairs, rows = 0.0, 0.0, max(1, MOST_PAIRS // max(len(y), 1))
        events = np.flatnonzero(event)
        for first in range(0, len(events), rows):
            mine = events[first : first + rows, np.newaxis]
            is_pair = (time > time[mine]) | ((time == time[mine]) & (event == 0))
            both = np.where(is_pair, weight * weight[mine], 0.0)
            right += float((both * ((later > later[mine]) + 0.5 * (later == later[mine]))).sum())
            pairs += float(both.sum())
        if not pairs:
            raise ValueError(
                f"no two of {len(y)} rows are comparable, so there is no concordance: {len(events)} of them "
                "have an event, and a pair needs one at its shorter time; score rows with more events"
            )
        return right / pairs

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        y = finite_numbers(y, name)
        if y.ndim != 2 or y.shape[1] != 2:
            raise ShapeError(
                f"{type(self).__name__} needs {name} of shape (n_samples, 2), times and whether an event was "
                f"seen then (1) or not yet (0), as of np.c_[time, event]; got shape {tuple(y.shape)}"
            )
        reject(np.stack([y[:, 0] <= 0, np.zeros(len(y), bool)], 1), y, name, "a time above 0")
        reject(np.stack([np.zeros(len(y), bool), (y[:, 1] != 0) & (y[:, 1] != 1)], 1), y, name, "0 or 1")

    def _parts(self, output: Any, target: Any, n_outputs: int) -> tuple[list[Tensor], Tensor, Tensor]:
        """Return the columns of the outputs, times and events."""
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim != 2 or z.shape[1] != n_outputs or y.shape != (z.shape[0], 2):
            raise shape_error(self, z.shape, y.shape, "(n_samples, 2), times and events")
        y = ops.astype(y, z.dtype)
        return [z[:, k] for k in range(n_outputs)], y[:, 0], y[:, 1]


class Cox(_OfTimes):
    r"""Negative log partial likelihood of Cox's proportional hazards.

    Targets have two columns: the time, and 1 for an event at this time or 0 for a censored row (no event
    until then). The network has one output, the logarithm of the relative hazard: the higher, the earlier the
    event.

    See Also
    --------
    AFT : Learns the distribution of times.

    Notes
    -----
    With outputs :math:`z`, times :math:`t` and events :math:`e`, with Breslow's treatment of ties [1]_,

    .. math:: \ell_i = e_i \left( \log \sum_{j : t_j \ge t_i} e^{z_j} - z_i \right).

    The sum is over rows of the same batch [2]_; batches of some hundred rows approximate that over all rows.
    Sample weights multiply :math:`\ell_i` and do not change the sum.

    References
    ----------
    .. [1] N. Breslow, "Discussion on Professor Cox's paper", J. R. Stat. Soc. B 34, 1972.
    .. [2] H. Kvamme, O. Borgan, I. Scheel, "Time-to-event prediction with neural networks and Cox
       regression", JMLR 20, 2019.

    Examples
    --------
    >>> from sknet.losses import Cox
    >>> Cox().values([[0.0], [0.0], [1.0]], [[1.0, 1], [2.0, 0], [3.0, 1]]).numpy()
    array([1.5514, 0.    , 0.    ])
    """

    sign = -1

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        (z,), time, event = self._parts(output, target, 1)
        at_risk = ops.greater_equal(ops.expand_dims(time, 0), ops.expand_dims(time, 1))
        total = ops.logsumexp(ops.where(at_risk, ops.expand_dims(z, 0), -np.inf), axis=1)
        return event * (total - z)


class AFT(_OfTimes):
    r"""Negative log likelihood of the accelerated failure time model, with right-censored rows.

    Targets have two columns: the time, and 1 for an event at this time or 0 for a censored row (no event
    until then). The network has two outputs: the location of the logarithm of the time and the logarithm of
    its scale. `predict` returns the median time, and `predict_interval` bounds.

    Parameters
    ----------
    distribution : {"weibull", "log_logistic", "log_normal"}, default="weibull"
        Distribution of the times.

    See Also
    --------
    Cox : Learns relative hazards.

    Notes
    -----
    With :math:`z = (\log t - \mu) / \sigma`, density :math:`f` and survival function :math:`S` of the
    standard distribution of :math:`z` (of the smallest extreme value, logistic or normal) [1]_,

    .. math:: \ell = -e \left( \log f(z) - \log \sigma - \log t \right) - (1 - e) \log S(z).

    Training begins near :math:`\log t = 0`. Estimators divide times by the root mean square of the training
    times, unless ``scale_target=False``; for a `Model`, scale times to values near 1.

    References
    ----------
    .. [1] J. D. Kalbfleisch, R. L. Prentice, "The Statistical Analysis of Failure Time Data", 2002,
       chapter 3.

    Examples
    --------
    >>> from sknet.losses import AFT
    >>> AFT("log_logistic").values([[0.0, 0.0], [0.0, 0.0]], [[1.0, 1], [1.0, 0]]).numpy()
    array([1.3863, 0.6931])
    >>> AFT("log_logistic").predict([[2.0, 0.0]]).numpy()
    array([[7.3891]])
    """

    sign = 1
    outputs_per_target = 2
    _parameter_constraints = {"distribution": [StrOptions({"weibull", "log_logistic", "log_normal"})]}

    def __init__(self, distribution: str = "weibull") -> None:
        self.distribution = distribution

    @property
    def scaling(self) -> Scaling:
        """Multiplying times by a factor adds its logarithm to the loss of events."""
        return Scaling(shifts=False, power=0.0, adds_log=True)

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        (location, log_scale), time, event = self._parts(output, target, 2)
        log_time = ops.log(time)
        z = (log_time - location) * ops.exp(-log_scale)
        log_hazard, log_survival = self._logarithms(z)
        return event * (log_scale + log_time - log_hazard) - log_survival

    def _logarithms(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logarithms of hazard and survival function of the standard distribution."""
        if self.distribution == "weibull":
            return z, -ops.exp(z)
        if self.distribution == "log_logistic":
            return -ops.softplus(-z), -ops.softplus(z)
        log_density = -0.5 * ops.square(z) - 0.5 * math.log(2 * math.pi)
        far = FAR if z.dtype == np.float64 else FAR_SINGLE
        small, large = ops.minimum(z, far), ops.maximum(z, far)
        near = ops.log(0.5 * ops.erfc(small * math.sqrt(0.5)))
        s = 1.0 / ops.square(large)  # of Mills' ratio, an asymptotic series
        ratio = ops.log1p(s * (s * (s * (105.0 * s - 15.0) + 3.0) - 1.0)) - ops.log(large)
        log_survival = ops.where(ops.greater(z, far), log_density + ratio, near)
        return log_density - log_survival, log_survival

    def _quantile(self, output: Tensor, p: float) -> Tensor:
        """Return the time until which a share of events is expected."""
        z = as_tensor(output)
        if self.distribution == "weibull":
            at = math.log(-math.log1p(-p))
        elif self.distribution == "log_logistic":
            at = math.log(p / (1.0 - p))
        else:
            from statistics import NormalDist  # a tenth of the time of all imports

            at = NormalDist().inv_cdf(p)
        return ops.exp(z[:, :1] + at * ops.exp(z[:, 1:]))

    def predict(self, output: Tensor) -> Tensor:
        return self._quantile(output, 0.5)

    def predict_interval(self, output: Tensor, coverage: float) -> Tensor:
        """Return the central interval of times with probability `coverage`.

        An `output` of shape (n_samples, 2) gives bounds of shape (n_samples, 2, 1).
        """
        tails = 0.5 - 0.5 * coverage, 0.5 + 0.5 * coverage
        return ops.stack([self._quantile(output, p) for p in tails], axis=-2)


# Deviations from which the series is more accurate than the logarithm of erfc, which is 0 further on.
FAR, FAR_SINGLE = 30.0, 10.0
