"""Standardized targets: learned from the training rows when these are known."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._warnings import warn_caller

if TYPE_CHECKING:
    from sknet.estimators._fitting import Fit

__all__ = ["standardize"]

MOST_DEVIATIONS = 10.0  # of later targets, in units of the first ones: beyond, fits take many times as long
MOST_USUAL = 100.0  # of half of the later targets: beyond, usual numbers of passes learn nothing
LEAST_DEVIATION = 1 / 30  # of later targets: below, errors that matter to them are small ones of the fit
FEW = 10  # rows, whose deviation tells little


def standardize(fit: "Fit", rows: Any = None) -> None:
    """Let a first fit with `scale_target` train on standardized targets; one that continues has them."""
    recipe, targets = fit.recipe, fit.estimator._targets
    if fit.continuing:
        _check_units(fit, targets, recipe.loss.scaling)
    if not recipe.scale_target or fit.continuing:
        return
    scaling = recipe.loss.scaling
    assert scaling is not None
    if fit.incremental:
        _check_first_part(fit.y, scaling.shifts)
    y, weight = fit.y, fit.weight
    if rows is not None:
        y, weight = y[rows], None if weight is None else weight[rows]
    targets.standardize(y, weight, shifts=scaling.shifts)
    targets.check_reported(recipe.loss)
    fit.y = targets.encode(fit.y)
    fit.loss = targets.trained(recipe.loss)
    fit.model.adopt(recipe.optimizer, fit.loss, recipe.alpha)


def _check_first_part(y: Any, shifts: bool) -> None:
    """Raise a ValueError if the first part of a stream does not tell the unit of the others."""
    y = np.asarray(y, np.float64)
    column = (y if y.ndim == 2 else y.reshape(-1, 1)).T
    alike = [np.ptp(each) == 0 if shifts else not each.any() for each in column]
    if any(alike):
        k = alike.index(True)
        where = "y" if len(column) == 1 else f"column {k} of y"
        raise ValueError(
            f"scale_target=True standardizes by the first part of a stream, and {where} is {column[k][0]:g} "
            f"in all its {len(y)} rows: give a first part whose targets vary as later ones do, or scale y "
            "and set scale_target=False"
        )


def _check_units(fit: "Fit", targets: Any, scaling: Any) -> None:
    """Refuse targets very far from those that the first fit standardized by; warn of other units."""
    if getattr(targets, "scale", None) is None:
        return
    y = np.asarray(fit.y, np.float64).reshape(len(fit.y), -1)
    with np.errstate(over="ignore"):
        sizes = np.sqrt(np.mean(np.square(y), axis=0))
        spread = np.std(y, axis=0) if scaling.shifts else sizes
    usual = np.median(np.abs(y), axis=0).max()  # whatever single ones are
    if usual > MOST_USUAL:
        raise ValueError(
            f"half of the targets are more than {usual:.3g} times as far from the mean as the deviation of "
            "those that the first fit was standardized by (scale_target=True): in these units nothing is "
            "learned. Begin anew with rows whose targets are like these, or scale y by constants and set "
            "scale_target=False"
        )
    found, varies = sizes.max(), spread[np.ptp(y, axis=0) > 0]  # parts of a stream may be constant
    if found > MOST_DEVIATIONS:
        told = f"are {found:.3g} times as large as"
    elif len(y) >= FEW and varies.size and varies.min() < LEAST_DEVIATION:
        told = f"vary {1 / varies.min():.3g} times less than"
    else:
        return
    warn_caller(
        f"targets {told} those that the first fit was standardized by (scale_target=True), and such fits "
        "learn slowly: begin anew with rows whose targets are like these, or scale y by constants and set "
        "scale_target=False",
        UserWarning,
    )
