"""The loss of classes that have an order, such as ratings."""

from typing import Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, as_tensor
from sknet.exceptions import DtypeError
from sknet.losses._base import Loss, shape_error
from sknet.losses._classes import check_classes


class Ordinal(Loss):
    r"""Negative log likelihood of classes that have an order: grades, ratings, stages.

    Parameters
    ----------
    order : array-like of shape (n_classes,), default=None
        All classes from the lowest to the highest, for an estimator, if they are not in sorted order. The
        targets of a `Model` are the numbers of the classes in their order.

    Notes
    -----
    A network has an output for each of the :math:`K - 1` boundaries between neighbouring classes. From
    these follow the log odds of a class beyond each boundary [1]_,

    .. math:: a_k = \log \frac{P(y \ge k)}{P(y < k)}, \qquad a_1 = z_1, \qquad
              a_{k} = a_{k-1} - \log(1 + e^{z_k}).

    They decrease by construction, so that every class has a probability above 0, and all sum to 1:
    :math:`P(y = k) = \sigma(a_k) - \sigma(a_{k+1})`. With the logistic function :math:`\sigma` and
    :math:`\sigma(a) - \sigma(a - \log(1 + e^z)) = \sigma(a) \, \sigma(z) \, \sigma(\log(1 + e^z) - a)`
    no precision is lost where both are nearly 0 or 1. If only :math:`a_1` depended on the input, this
    would be the proportional odds model; here each boundary may.

    References
    ----------
    .. [1] P. McCullagh, "Regression Models for Ordinal Data", Journal of the Royal Statistical Society B
       42(2), 1980.

    Examples
    --------
    >>> from sknet.losses import Ordinal
    >>> loss = Ordinal()
    >>> loss.predict([[0.0, 1.0]]).numpy()
    array([[0.5   , 0.2881, 0.2119]])
    >>> loss.values([[0.0, 1.0], [0.0, 1.0]], [0, 2]).numpy()
    array([0.6931, 1.5514])
    """

    tasks = ("ordinal",)

    _parameter_constraints = {"order": ["array-like", None]}

    def __init__(self, order: Any = None) -> None:
        self.order = order

    def values(self, output: Tensor, target: Tensor) -> Tensor:
        z, y = as_tensor(output), as_tensor(target)
        if z.ndim != 2 or not z.shape[1] or y.shape != z.shape[:1]:
            expected = f"{z.shape[:1]}, and the output (n_samples, n_classes - 1)"
            raise shape_error(self, z.shape, y.shape, expected=expected)
        if np.dtype(y.dtype).kind not in "iu":
            raise DtypeError(
                f"Ordinal got targets of dtype {y.dtype}; they must be integers, the numbers of classes in "
                "their order. Cast them with astype."
            )
        # A number that is not a class crosses no boundary, and would cost nothing. A capture has no values.
        if (
            isinstance(y.data, np.ndarray)
            and y.size
            and not (y.data.min() >= 0 and y.data.max() <= z.shape[1])
        ):
            self.check_target(y.data, n_outputs=z.shape[1])
        columns, odds = _columns(z), self._log_odds(z)
        terms = []
        for k, a in enumerate(odds, start=1):
            below = ops.softplus(a) if k == 1 else ops.softplus(a) + ops.softplus(-columns[k - 1])
            here = ops.where(ops.equal(y, k), ops.softplus(-a), 0.0)
            terms.append(here + ops.where(ops.equal(y, k - 1), below, 0.0))
        return sum(terms[1:], terms[0])

    def predict(self, output: Tensor) -> Tensor:
        return ops.exp(self.log_predict(output))

    def log_predict(self, output: Tensor) -> Tensor:
        """Return the logarithm of each class's probability, accurate also where that is nearly 0.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_classes - 1), dtype=floating
            What the network returned.

        Returns
        -------
        Tensor of shape (n_samples, n_classes)
            Log probabilities, from the lowest to the highest class.
        """
        z = as_tensor(output)
        columns, odds = _columns(z), self._log_odds(z)
        found = [ops.log_sigmoid(-odds[0])]
        for k in range(1, len(odds)):
            found.append(
                ops.log_sigmoid(odds[k - 1]) + ops.log_sigmoid(-odds[k]) + ops.log_sigmoid(columns[k])
            )
        found.append(ops.log_sigmoid(odds[-1]))
        return ops.stack(found, axis=-1)

    @property
    def likelihood(self) -> Loss:
        """The negative log likelihood of what `predict` returns: this loss."""
        return self

    def tempered(self, output: Tensor, temperature: float) -> Tensor:
        """Return outputs whose log odds are those of `output` divided by a temperature.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_classes - 1), dtype=floating
            What the network returned.
        temperature : float
            Above 1 it makes probabilities less confident.

        Returns
        -------
        Tensor of shape (n_samples, n_classes - 1)
            What `predict` turns into probabilities.
        """
        first, *others = _columns(as_tensor(output))
        # The inverse of the softplus, log(exp(x) - 1), in a form that does not overflow.
        steps = [ops.softplus(z) / temperature for z in others]
        return ops.stack(
            [first / temperature, *[step + ops.log(-ops.expm1(-step)) for step in steps]], axis=-1
        )

    def check_target(self, y: Any, *, name: str = "y", n_outputs: int | None = None) -> None:
        check_classes(y, name, None if n_outputs is None else n_outputs + 1)

    @staticmethod
    def _log_odds(z: Tensor) -> list[Tensor]:
        """Return the log odds of a class beyond each boundary, decreasing."""
        first, *others = _columns(z)
        odds = [first]
        for column in others:
            odds.append(odds[-1] - ops.softplus(column))
        return odds


def _columns(z: Tensor) -> list[Tensor]:
    return [z[..., k] for k in range(z.shape[-1])]
