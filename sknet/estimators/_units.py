"""Standardized targets: learned from the training rows when these are known."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["standardize"]


def standardize(fit: "Fit", rows: Any = None) -> None:
    """Let a first fit with `scale_target` train on standardized targets; one that continues has them.

    Parameters
    ----------
    fit : Fit
        Whose targets, loss and model change.
    rows : ndarray of int, default=None
        Of the training, from which mean and scale are learned; None for all.
    """
    recipe = fit.recipe
    if not recipe.scale_target or fit.continuing:
        return
    scaling, targets = recipe.loss.scaling, fit.estimator._targets
    assert scaling is not None
    y, weight = fit.y, fit.weight
    if rows is not None:
        y, weight = y[rows], None if weight is None else weight[rows]
    targets.standardize(y, weight, shifts=scaling.shifts)
    targets.check_reported(recipe.loss)
    fit.y = targets.encode(fit.y)
    fit.loss = targets.trained(recipe.loss)
    fit.model.adopt(recipe.optimizer, fit.loss, recipe.alpha)
