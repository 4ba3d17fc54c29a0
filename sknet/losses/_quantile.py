"""The pinball loss: of one quantile, or of several that one network predicts and that never cross."""

from numbers import Real
from typing import Any

import numpy as np

from sknet import ops
from sknet._constraints import shown
from sknet._params import Interval, InvalidParameterError
from sknet.core import Tensor, as_tensor
from sknet.losses._base import Loss, Scaling, of_blocks


class Quantile(Loss):
    r"""Pinball loss; its minimizers are quantiles.

    Parameters
    ----------
    quantile : float or array-like of float, default=0.5
        Which quantile to predict, between 0 and 1, or several in increasing order, such as
        ``[0.1, 0.5, 0.9]``.

    Notes
    -----
    With :math:`r = y - z`, summed over outputs and quantiles [1]_,

    .. math:: \ell(z, y) = \max(q r, (q - 1) r).

    At 0.5 it is half the absolute error. Where output and target are equal the gradient is -q, as
    in scikit-learn.

    For several quantiles the network has an output each for every target: those of the first quantile
    come first. The output of the quantile nearest to 0.5 is that quantile, and each other one is the softplus
    of its output away from its neighbour, so that no two cross, whatever the network returns:

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
        """Outputs of the network for each column of the targets: one for each quantile."""
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
        """Return every quantile of each target.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_quantiles * n_targets), dtype=floating
            What the network returned.

        Returns
        -------
        Tensor of shape (n_samples, n_quantiles, n_targets)
            In the order of `levels`; none is smaller than the one before.
        """
        z = as_tensor(output)
        count = z.shape[-1] // len(self.levels)
        blocks = [z[..., k * count : (k + 1) * count] for k in range(len(self.levels))]
        return ops.stack(self._quantiles(blocks), axis=-2)

    def predict_interval(self, output: Tensor, coverage: float) -> Tensor:
        """Return the two quantiles between which a share of targets is expected, half of the rest each side.

        Parameters
        ----------
        output : Tensor or array of shape (n_samples, n_quantiles * n_targets), dtype=floating
            What the network returned.
        coverage : float
            The share, between 0 and 1.

        Returns
        -------
        Tensor of shape (n_samples, 2, n_targets)
            Lower and upper bounds.

        Raises
        ------
        ValueError
            If these two are not among the quantiles.
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
        """The number of the quantile nearest to 0.5, the lower of two."""
        return min(range(len(self.levels)), key=lambda k: (round(abs(self.levels[k] - 0.5), 9), k))

    def _quantiles(self, blocks: list[Tensor]) -> list[Tensor]:
        """Return the quantiles that blocks of outputs, one for each, stand for."""
        found, middle = list(blocks), self._middle
        for k in range(middle + 1, len(blocks)):
            found[k] = found[k - 1] + ops.softplus(blocks[k])
        for k in range(middle - 1, -1, -1):
            found[k] = found[k + 1] - ops.softplus(blocks[k])
        return found
