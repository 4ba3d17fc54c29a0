"""The fields of a saved fit, and the check that a file has them."""

from numbers import Integral
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, Arrays, Each, Fields, Items, Number, shown
from sknet._random import GENERATORS
from sknet.exceptions import LoadError

__all__ = ["VERSION", "check_state", "checked_fit"]

VERSION = 2  # of the format
ARRAYS = Items(str, np.ndarray)
TWISTER = GENERATORS["MT19937"]


class _Described:
    """A description, as `sknet.persistence.describe` returns it, which holds no arrays."""

    def is_satisfied_by(self, value: Any) -> bool:
        if isinstance(value, dict):
            return all(map(self.is_satisfied_by, value.values()))
        if isinstance(value, list):
            return all(map(self.is_satisfied_by, value))
        return value is None or isinstance(value, (bool, int, float, str))

    def __str__(self) -> str:
        return "a description"


DESCRIBED = _Described()
PROGRESS = Fields.of(
    "progress",
    {
        **dict.fromkeys(("step", "epoch", "samples", "reductions"), COUNT),
        "total_steps": [COUNT, None],
        "counts_epochs": bool,
    },
)
MODEL = Fields.of(
    "model",
    {
        **dict.fromkeys(("parameters", "frozen", "buffers"), ARRAYS),
        **dict.fromkeys(("slots", "resting"), Items(str, ARRAYS)),
        "progress": PROGRESS,
        "key": Each(list, Number(Integral, 0, 2**64 - 1)),
        "random_state": TWISTER,
    },
)
INSIDE = Fields.of(
    "inside",
    {
        "batch": COUNT,
        "loss": float,
        "rows": Each(list, COUNT),
        "outputs": [np.ndarray, None],
        "score": dict[str, Any],
    },
)
LOOP = Fields.of(
    "loop",
    {
        **dict.fromkeys(("n_iter", "epoch", "step", "max_epochs"), COUNT),
        "inside": [INSIDE, None],
        "history": Items(str, Arrays("fiu", "n_epochs")),
        "record": Items(str, float),
        "order": [Arrays("iu", "n_rows"), None, ABSENT],
        "counts": [Each(list, COUNT), ABSENT],
        "planned": [COUNT, None, ABSENT],
        "latest": [DESCRIBED, ABSENT],
    },
)
BEGAN = Fields.of(
    "began",
    {"random_state": TWISTER, "since": [COUNT, None], "start": [MODEL, ABSENT]},
)
CALLBACK = Fields.of("callback", {"class": str, "state": dict[str, Any]})
FIT = Fields.of(
    "fit",
    {
        "version": COUNT,
        "environment": Items(str, DESCRIBED),
        "parameters": Items(str, DESCRIBED),
        "data": Items(str, DESCRIBED),
        "began": [BEGAN, None],
        "frozen": Each(list, str),
        "model": MODEL,
        "loop": LOOP,
        "callbacks": Each(list, CALLBACK),
        "stopped_by": [COUNT, None],
    },
)
PARTS = {"model": MODEL, "loop": LOOP, "began": BEGAN}


def checked_fit(path: Any, state: Any) -> dict[str, Any]:
    """Return the state of a fit from a file, after checking its fields."""
    version = state.get("version") if isinstance(state, dict) else None
    if not COUNT.is_satisfied_by(version) or not isinstance(state.get("environment"), dict):
        raise LoadError(f"{path} holds no state of a fit")
    if version == VERSION:  # whoever resumes it says what is wrong with another one
        for name, fields in PARTS.items():
            if isinstance(state.get(name), dict):
                check_state(path, fields, state[name])
        check_state(path, FIT, state)
        loop, stopped_by = state["loop"], state["stopped_by"]
        inside = loop["inside"]
        if stopped_by is not None and stopped_by >= len(state["callbacks"]):
            raise LoadError(f"{path} is damaged: it was stopped by callback {stopped_by}, which is not there")
        if len(state["model"]["key"]) != 2 or len({*map(len, loop["history"].values())}) > 1:
            raise LoadError(f"{path} is damaged: its key is no pair, or its history no table")
        if inside is not None and (len(inside["rows"]) != 2 or inside["rows"][0] > inside["rows"][1]):
            raise LoadError(f"{path} is damaged: its numbers of rows are {inside['rows']}")
    return dict(state)


def check_state(path: Any, fields: Fields, state: Any) -> None:
    """Raise a LoadError unless a part of a saved fit has the fields that it should have."""
    try:
        if not isinstance(state, dict):
            raise ValueError(f"its {fields.holder} is {shown(state)}")
        fields.check(state)
    except ValueError as error:
        raise LoadError(f"{path} is damaged: {error}") from None
