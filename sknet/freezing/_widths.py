"""Widths of steps: how many columns each takes and returns."""

from collections.abc import Callable, Mapping
from typing import Any

from sknet.freezing._columns import Chain, Columns
from sknet.freezing._encoding import OneHot, Ordinal
from sknet.freezing._features import (
    Binarizing,
    Bins,
    BoxCox,
    Normalizing,
    Powers,
    Products,
    Projection,
    Quantiles,
    Selection,
)
from sknet.freezing._imputing import Imputing
from sknet.freezing._scaling import Elementwise, Scaling
from sknet.freezing._tables import Encoding
from sknet.preprocessing.extend import check_plan

__all__ = ["check_pipeline", "check_retargeted", "checked_width"]

Known = dict[tuple[int, int], int]


def checked_width(step: Any, n_features: int, known: Known) -> int:
    """Return how many columns a step returns."""
    key = (id(step), n_features)
    if key not in known:
        known[key] = WIDTHS[type(step)](step, n_features, known)
    return known[key]


def check_pipeline(pipeline: Any) -> None:
    """Raise a ValueError if steps take other numbers of columns than they are given."""
    width = checked_width(pipeline._steps, pipeline._features.count, {})
    last = pipeline._last
    while hasattr(last, "_inverse"):  # of targets: what is inside reads the columns
        last = last._regressor
    takes = getattr(last, "n_features_in_", width)
    if takes != width:
        raise ValueError(f"its steps return {width} columns, but its last step takes {takes}")


def check_retargeted(retargeted: Any) -> None:
    """Raise a ValueError if targets are transformed back from another number of columns than predicted."""
    checked_width(retargeted._inverse, _n_targets(retargeted), {})


def _n_targets(predictor: Any) -> int:
    """Return how many columns a regressor predicts, before its own steps back."""
    while hasattr(predictor, "_regressor") or hasattr(predictor, "_last"):
        inner = vars(predictor).get("_regressor", vars(predictor).get("_last"))
        if not hasattr(inner, "predict"):
            raise ValueError(f"{type(predictor).__name__} predicts nothing to be transformed back")
        predictor = inner
    return int(predictor._targets.n_outputs)


def _check(step: Any, takes: int, given: int) -> None:
    if takes != given:
        raise ValueError(f"a step {type(step).__name__} takes {takes} columns, but is given {given}")


def _check_positions(step: Any, positions: Any, given: int) -> None:
    if len(positions) and not (min(positions) >= 0 and max(positions) < given):
        raise ValueError(
            f"a step {type(step).__name__} takes column {max(positions)}, but is given {given} columns"
        )


def _same(step: Any, n: int, known: Known) -> int:
    return n


def _scaling(step: Scaling, n: int, known: Known) -> int:
    for _, values in step.operations:
        _check(step, len(values), n)
    return n


def _imputing(step: Imputing, n: int, known: Known) -> int:
    if step.kept is None:
        _check(step, len(step.values), n)
    else:
        _check_positions(step, step.kept, n)
    flagged = () if step.flagged is None else step.flagged
    _check_positions(step, flagged, n)
    return len(step.values) + len(flagged)


def _projection(step: Projection, n: int, known: Known) -> int:
    takes, gives = step.memory.shape[0], step.n_columns
    if step.is_turned:
        takes, gives = gives, takes
    _check(step, takes, n)
    return int(gives)


def _selection(step: Selection, n: int, known: Known) -> int:
    _check(step, len(step.mask), n)
    return int(step.mask.sum())


def _products(step: Products, n: int, known: Known) -> int:
    for i, (before, columns) in enumerate(step.degrees):
        _check_positions(step, columns, n)
        if not i:
            _check_positions(step, before, n)
    gives = step.has_bias + n + sum(len(columns) for _, columns in step.degrees) - step.n_left_out
    if gives < 0:
        raise ValueError(f"a step Products leaves out {step.n_left_out} columns, which are too many")
    return gives


def _bins(step: Bins, n: int, known: Known) -> int:
    _check(step, len(step.edges), n)
    return n if step.container is None else sum(len(edges) + 1 for edges in step.edges)


def _powers(step: Powers | BoxCox, n: int, known: Known) -> int:
    _check(step, len(step.lambdas), n)
    return n if step.scaling is None else _scaling(step.scaling, n, known)


def _quantiles(step: Quantiles, n: int, known: Known) -> int:
    _check(step, step.quantiles.shape[1], n)
    return n


def _one_hot(step: OneHot, n: int, known: Known) -> int:
    _check(step, len(step.levels), n)
    return step.width


def _ordinal(step: Ordinal, n: int, known: Known) -> int:
    _check(step, len(step.levels), n)
    return n


def _encoding(step: Encoding, n: int, known: Known) -> int:
    check_plan(step.schema, step.plan, n, step.plan.width)
    if step.names is not None:
        _check(step, len(step.names), n)
    return step.plan.width


def _chain(step: Chain, n: int, known: Known) -> int:
    for each in step.steps:
        n = checked_width(each, n, known)
    return n


def _columns(step: Columns, n: int, known: Known) -> int:
    found = 0
    for branch in step.branches:
        positions = branch.positions
        if isinstance(positions, slice):
            taken = len(range(n)[positions])
        else:
            _check_positions(step, positions, n)
            taken = len(positions)
        found += checked_width(branch.step, taken, known)
    return found


WIDTHS: Mapping[type, Callable[[Any, int, Known], int]] = {
    **dict.fromkeys((Binarizing, Elementwise, Normalizing), _same),
    **dict.fromkeys((Powers, BoxCox), _powers),
    Bins: _bins,
    Chain: _chain,
    Columns: _columns,
    Encoding: _encoding,
    Imputing: _imputing,
    OneHot: _one_hot,
    Ordinal: _ordinal,
    Products: _products,
    Projection: _projection,
    Quantiles: _quantiles,
    Scaling: _scaling,
    Selection: _selection,
}
