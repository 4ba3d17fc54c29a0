"""Data and settings that all members of an ensemble share, and those of one kind in one fold."""

from dataclasses import dataclass

import numpy as np

from sknet._fields import Arrays, Together
from sknet._validation import StrOptions
from sknet.losses import Loss
from sknet.preprocessing.extend import Schema, Table, Target
from sknet.tabular._folds import Fold
from sknet.tabular._members import KINDS, Setting

__all__ = ["Job", "Task"]


@dataclass(frozen=True)
class Job:
    """The members of one kind in one fold."""

    kind: str
    fold: int
    rows: Fold
    seeds: tuple[int, ...]
    _stored_fields = {
        "kind": StrOptions({*KINDS}),
        "rows": Together(Arrays("iu", "n_rows"), Arrays("iu", "n_rows")),
    }


@dataclass
class Task:
    """The data and settings that all members of a fit share."""

    schema: Schema
    table: Table
    target: Target
    y: np.ndarray
    weight: np.ndarray | None
    loss: Loss
    n_outputs: int
    settings: dict[str, Setting]
    _stored_fields = {
        "y": np.ndarray,
        "weight": [np.ndarray, None],
    }
