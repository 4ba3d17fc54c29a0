"""The log loss as scikit-learn's networks report it."""

import math

import numpy as np

from sknet import ops
from sknet.core import Tensor
from sknet.losses._classification import LogLoss


class ClippedLogLoss(LogLoss):
    r"""The log loss with scikit-learn's values and the gradients of `LogLoss`."""

    _parameter_constraints = {"multilabel": ["boolean"]}
    _stored_fields = {  # the parameters of `LogLoss` that are not this one's, and have their defaults
        name: kinds for name, kinds in LogLoss._parameter_constraints.items() if name != "multilabel"
    }

    def __init__(self, multilabel: bool = False) -> None:
        super().__init__(multilabel)

    def _label_terms(self, z: Tensor, y: Tensor) -> Tensor:
        # From probabilities, since 1 - p has their rounding: near 1 that is more than 1e-12.
        p = ops.sigmoid(z)
        eps = float(np.finfo(p.dtype).eps)
        of_truth = ops.clip(p * y + (1.0 - p) * (1.0 - y), min=eps, max=1.0 - eps)
        return _with_slope_of(-ops.log(of_truth), (p - y).detach() * z)

    def _class_values(self, z: Tensor, y: Tensor) -> Tensor:
        values = super()._class_values(z, y)
        eps = float(np.finfo(values.dtype).eps)
        return _with_slope_of(ops.clip(values, min=-math.log1p(-eps), max=-math.log(eps)), values)


def _with_slope_of(values: Tensor, other: Tensor) -> Tensor:
    """Return values whose gradients are those of others."""
    return values.detach() + (other - other.detach())
