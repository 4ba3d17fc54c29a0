"""What a model minimises, and how; and what becomes of the optimizer's state when that changes."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sknet.exceptions import GradientError
from sknet.losses import Loss, check_loss
from sknet.optim import BaseOptimizer, Optimizer, check_optimizer

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Hyper", "averaging", "checked_hyper", "stepping_optimizer"]


class Hyper(NamedTuple):
    """A model's hyperparameters.

    Attributes
    ----------
    optimizer : BaseOptimizer
        How the loss is minimised.
    loss : Loss
        What is minimised.
    alpha : float
        Strength of the L2 penalty.
    """

    optimizer: BaseOptimizer
    loss: Loss
    alpha: float


def checked_hyper(optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float) -> Hyper:
    """Return hyperparameters as a user gave them, once they are known to be some."""
    found = check_optimizer(optimizer, "Model"), check_loss(loss, "Model")
    if not (isinstance(alpha, (int, float, np.number)) and 0 <= alpha < math.inf):
        raise ValueError(
            f"The 'alpha' parameter of Model must be a float in the range [0, inf). Got {alpha!r} instead."
        )
    return Hyper(*found, float(alpha))


def averaging(model: "Model") -> BaseOptimizer | None:
    """Return the optimizer of a model if it predicts with averages, such as `EMA`; its slots are there."""
    optimizer = model.optimizer
    if not optimizer.averaging:
        return None
    _follow(model, optimizer)
    return optimizer


def stepping_optimizer(model: "Model") -> Optimizer:
    """Return the optimizer of a model that has parameters to learn; its slots are there.

    Parameters
    ----------
    model : Model
        Which is to make a step.

    Returns
    -------
    Optimizer
        The model's.

    Raises
    ------
    TypeError
        If it has no single step.
    GradientError
        If all parameters are frozen.
    """
    optimizer = model.optimizer.in_steps()
    _follow(model, optimizer)
    if not model.memory.leaves:
        raise GradientError(
            "this model has no parameter to learn: all are frozen, or there are none; "
            "model.module.requires_grad_(True) thaws all"
        )
    return optimizer


def _follow(model: "Model", optimizer: BaseOptimizer) -> None:
    """Begin the optimizer's state anew if it was changed into one of another kind, in place."""
    if optimizer.slots != model.memory.slot_names:
        model.adopt(optimizer, model.loss_function, model.alpha, anew=True)
