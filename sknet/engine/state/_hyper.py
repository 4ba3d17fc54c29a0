"""A model's hyperparameters, and the optimizer's state when they change."""

import math
from collections.abc import Hashable
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from sknet._constraints import PLAIN, shown
from sknet.engine.state._structure import has_slots, structure_of
from sknet.exceptions import GradientError
from sknet.losses import Loss, check_loss
from sknet.optim import BaseOptimizer, Optimizer, check_optimizer

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Hyper", "averaging", "checked_hyper", "minimises_alike", "stepping_optimizer"]


class Hyper(NamedTuple):
    """A model's hyperparameters."""

    optimizer: BaseOptimizer
    loss: Loss
    alpha: float


def checked_hyper(optimizer: "str | BaseOptimizer", loss: "str | Loss", alpha: float) -> Hyper:
    """Return the hyperparameters that a user has given, after checking them."""
    found = check_optimizer(optimizer, "Model"), check_loss(loss, "Model")
    if not (isinstance(alpha, (int, float, np.number)) and 0 <= alpha < math.inf):
        raise ValueError(
            f"The 'alpha' parameter of Model must be a float in the range [0, inf). "
            f"Got {shown(alpha)} instead."
        )
    return Hyper(*found, float(alpha))


def minimises_alike(model: "Model", optimizer: BaseOptimizer, loss: Loss, alpha: float) -> bool:
    """Tell whether a model has these hyperparameters: then it has nothing to adopt."""
    mine = model._hyper
    if (
        alpha == mine.alpha
        and _are_plainly_alike(optimizer, mine.optimizer)
        and _are_plainly_alike(loss, mine.loss)
    ):
        return True
    known = structure_of(None, optimizer, loss, float(alpha))
    return known is not None and known == structure_of(None, *mine) and bool(optimizer == mine.optimizer)


def _are_plainly_alike(one: object, other: object) -> bool:
    """Tell whether two objects of sknet's own have the same plain attributes: then they do the same."""
    kind = cast(Hashable, type(one))
    if type(one) is not type(other) or not _is_ours(kind):
        return False
    mine, theirs = vars(one), vars(other)
    return (
        mine.keys() == theirs.keys()
        and PLAIN.issuperset(map(type, mine.values()))
        and all(map(is_, mine.values(), map(theirs.__getitem__, mine)))
    )


@cache
def _is_ours(kind: Any) -> bool:
    """Tell whether a class is sknet's own, and its objects have no attributes outside of their `__dict__`."""
    return kind.__module__.startswith("sknet.") and not has_slots(kind)


def averaging(model: "Model") -> BaseOptimizer | None:
    """Return the optimizer of a model, with its slots allocated, if it predicts with averages, like `EMA`."""
    optimizer = model.optimizer
    if not optimizer.averaging:
        return None
    _follow(model, optimizer)
    return optimizer


def stepping_optimizer(model: "Model") -> Optimizer:
    """Return the optimizer of a model that has trainable parameters, with its slots allocated."""
    optimizer = model.optimizer.in_steps()
    _follow(model, optimizer)
    if not model.memory.leaves:
        raise GradientError(
            "this model has no trainable parameters: all are frozen, or there are none; "
            "model.module.requires_grad_(True) unfreezes all"
        )
    return optimizer


def _follow(model: "Model", optimizer: BaseOptimizer) -> None:
    """Reset the optimizer's state if attributes have changed so that it needs other slots."""
    if optimizer.slots != model.memory.slot_names:
        model.adopt(optimizer, model.loss_function, model.alpha, anew=True)
