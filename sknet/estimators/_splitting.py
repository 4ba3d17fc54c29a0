"""Which rows of X a fit is validated on: a fraction, the first split of a splitter, or a pair of indices."""

import copy
from types import ModuleType
from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet._params import InvalidParameterError

__all__ = ["check_validation_split", "given_split", "held_out_fraction"]

Split = tuple["np.ndarray[Any, Any]", "np.ndarray[Any, Any]"]


def check_validation_split(validation_split: Any, caller: str) -> None:
    """Raise an InvalidParameterError unless it is None, a splitter, or a pair."""
    is_pair = isinstance(validation_split, (tuple, list)) and len(validation_split) == 2
    is_splitter = hasattr(validation_split, "split") and not isinstance(
        validation_split, (str, bytes, type, ModuleType)
    )
    if validation_split is None or is_pair or is_splitter:
        return
    hint = ""
    if isinstance(validation_split, float):
        hint = f" A share of the rows is validation_fraction={validation_split!r}."
    elif isinstance(validation_split, type) and hasattr(validation_split, "split"):
        hint = f" Pass an object, {validation_split.__name__}(...)."
    raise InvalidParameterError(
        f"The 'validation_split' parameter of {caller} must be a splitter of scikit-learn, such as "
        "ShuffleSplit(1), or a pair (training, validation) of arrays of row numbers, or None. Got "
        f"{shown(validation_split)} instead.{hint}"
    )


def held_out_fraction(
    n_samples: int,
    fraction: float,
    random_state: Any,
    *,
    stratify: Any = None,
    groups: Any = None,
    labels: Any = None,
) -> Split:
    """Return training and validation rows drawn at random."""
    from sklearn.model_selection import GroupShuffleSplit, train_test_split  # they load half of scikit-learn

    rows = np.arange(n_samples)
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=random_state)
        training, held_out = next(splitter.split(rows, groups=groups))
        return training, held_out
    try:
        training, held_out = train_test_split(
            rows, random_state=random_state, test_size=fraction, stratify=stratify
        )
    except ValueError as error:
        raise ValueError(
            "The validation set is too small. Increase 'validation_fraction' or the size of your dataset: of "
            f"{n_samples} rows the share {fraction:g} cannot be held out. {error}"
        ) from error
    if labels is None or _have_every_class(labels, training, held_out):
        return training, held_out
    return _split_by_class(labels, len(held_out), random_state)


def _have_every_class(labels: Any, *parts: Any) -> bool:
    """Tell whether each part has a row of each class that has at least two."""
    codes, counts = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    found = [np.bincount(codes[part], minlength=len(counts))[counts > 1] for part in parts]
    return all(np.all(each) for each in found)


def _split_by_class(labels: Any, n_held_out: int, random_state: Any) -> Split:
    """Return training and validation rows with each class in both, unless it has a single row."""
    rows = random_state.permutation(len(labels))
    codes, counts = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    least, most = np.minimum(counts - 1, 1), counts - 1
    taken = np.clip(np.round(n_held_out / len(rows) * counts).astype(int), least, most)
    # As many as without regard to classes, since members of an ensemble train together if alike in size.
    n_held_out = int(np.clip(n_held_out, least.sum(), most.sum()))
    while (left := n_held_out - taken.sum()) != 0:
        taken[np.argmax(most - taken if left > 0 else taken - least)] += np.sign(left)
    is_held_out = np.zeros(len(rows), bool)
    for code, n in enumerate(taken):
        is_held_out[np.flatnonzero(codes[rows] == code)[:n]] = True
    return rows[~is_held_out], rows[is_held_out]


def given_split(validation_split: Any, X: Any, y: Any, groups: Any, random_state: Any) -> Split:
    """Return the training and validation rows that a user's split asks for."""
    if hasattr(validation_split, "split"):
        seeded = _seeded(validation_split, random_state)
        pair = next(iter(seeded.split(X, y, groups)), None)
        if pair is None:
            raise ValueError(f"validation_split={shown(validation_split)} gives no split")
        source = f"the first split of validation_split={shown(validation_split)}"
    else:
        pair, source = validation_split, "validation_split"
        if groups is not None:
            raise ValueError(
                "groups decide nothing where validation_split is a pair of arrays: give a splitter that "
                "reads them, such as GroupShuffleSplit(1), or no groups"
            )
    n_samples = len(y)
    training, held_out = (
        _row_numbers(rows, n_samples, f"{what} rows of {source}")
        for rows, what in zip(pair, ("training", "validation"), strict=True)
    )
    both = np.intersect1d(training, held_out)
    if len(both):
        raise ValueError(
            f"{len(both)} row(s) are both training and validation rows of {source}, the first is {both[0]}: "
            "what is trained on validates nothing"
        )
    return training, held_out


def _seeded(splitter: Any, random_state: Any) -> Any:
    """Return the splitter, or a copy that draws from `random_state` if it would draw from NumPy's."""
    if getattr(splitter, "random_state", 0) is not None or not getattr(splitter, "shuffle", True):
        return splitter
    splitter = copy.copy(splitter)
    splitter.random_state = random_state
    return splitter


def _row_numbers(given: Any, n_samples: int, what: str) -> "np.ndarray[Any, Any]":
    rows = np.asarray(given)
    if rows.dtype == bool and rows.shape == (n_samples,):
        rows = np.flatnonzero(rows)
    if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
        raise ValueError(
            f"the {what} must be row numbers, an array of ints of shape (n_rows,) with at least one, "
            f"or a mask of shape ({n_samples},); got dtype {rows.dtype} and shape {rows.shape}"
        )
    wrong = rows[(rows < 0) | (rows >= n_samples)]
    if len(wrong):
        raise ValueError(
            f"the {what} must be from 0 to {n_samples - 1}, for X has {n_samples} rows; got {wrong[0]}"
        )
    return rows.astype(np.intp)
