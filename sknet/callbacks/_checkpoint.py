"""Saved states of fits: checkpoints in files, states in memory, and the check of their fields."""

import math
import os
import re
import time
import warnings
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from sknet import persistence
from sknet._constraints import shown
from sknet._fields import ABOVE_ZERO, ABSENT, COUNT, Arrays, Each, Fields, Items, Number
from sknet._fields import shown as shown_field
from sknet._params import Interval, StrOptions
from sknet._random import GENERATORS
from sknet.callbacks._callback import Callback, FitView
from sknet.exceptions import CallbackWarning, InvalidParameterError, LoadError

KIND = "checkpoint"
LAST, PREVIOUS, BEST = "last.safetensors", "previous.safetensors", "best.safetensors"
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
EVERY = re.compile(r"(\d+(?:\.\d+)?) ?(epochs?|steps?|s|min|h)")


class SavedFit(NamedTuple):
    path: str
    state: dict[str, Any]

    def __deepcopy__(self, memo: dict[int, Any]) -> "SavedFit":
        return self


class Checkpoint(Callback):
    """Write the state of the fit to a folder, so that it can be resumed after the process has died.

    A resumed fit ends with the same bits as if it had not been interrupted: weights, optimizer state,
    history (except times), random state, early stopping and its best weights. This requires the same
    versions of NumPy and BLAS, the same kind of machine and the same number of threads, which a
    checkpoint records; a warning names any differences.

    Parameters
    ----------
    path : str or PathLike
        A folder for this fit only; created if missing. ``last.safetensors`` is the newest state,
        ``previous.safetensors`` the one before, ``best.safetensors`` that of the best epoch so far, by the
        monitored metric (`FitView.monitor`).
    every : int or str, default=1
        Interval between saves: a number of epochs, or ``"500 steps"``, ``"30 s"``, ``"10 min"``, ``"2 h"``.
        With steps and times, states are also saved within an epoch, between two blocks of steps. The end of a
        fit is always saved.
    resume : bool or "fall_back", default=False
        Whether to resume from the folder; if it is empty, a new fit starts. If the last file is damaged,
        "fall_back" takes the previous one, with a warning; otherwise that is an error.

    Notes
    -----
    Files are written under another name, flushed to disk and renamed, so they are never incomplete; each
    has a checksum. They contain no code. Data and parameters must be those that the fit began with, except
    for `max_iter`, `verbose`, `warm_start` and `callbacks`; an error names any other change. With a larger
    `max_iter`, a fit that had reached the limit continues. One that a callback had ended does not, unless
    that callback only takes a break (`Callback.pauses`). A failed write is a warning, and the fit continues.
    Writing takes as long as the disk needs to confirm it, some milliseconds for a small network: if epochs
    are shorter, save only every few epochs. L-BFGS, whose state is inside SciPy, cannot be saved.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.callbacks import Checkpoint
    >>> X, y = load_iris(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> clf = MLPClassifier(tol=0.1, random_state=0, callbacks=[Checkpoint(folder.name, resume=True)])
    >>> clf.fit(X, y).n_iter_
    12
    >>> same = clf.fit(X, y)  # if the first fit had been killed, this one would resume it
    >>> same.n_iter_
    12
    >>> folder.cleanup()
    """

    order = 1
    needs = "state"
    of_one_fit = "saves the fit of one network: sknet.save the ensemble after the fit, or set n_members=1"
    may_warn = False
    _parameter_constraints = {
        "path": ["path"],
        "every": [Interval(Integral, 1, None, closed="left"), str],
        "resume": ["boolean", StrOptions({"fall_back"})],
    }
    _stored_fields = {
        "_unit": Literal["epochs", "steps", "seconds"],
        "_amount": float,
        "_best": None,
        "_place": [tuple[int, int, bool], None],
        "_is_paused": bool,
        "_step": COUNT,
        "_time": float,
    }

    def __init__(
        self, path: "str | os.PathLike[str]", *, every: int | str = 1, resume: bool | str = False
    ) -> None:
        self.path = path
        self.every = every
        self.resume = resume

    def validate(self) -> None:
        super().validate()
        _parsed(self.every)

    def on_fit_begin(self, fit: FitView) -> None:
        if not fit.model.optimizer.goes_in_steps:
            raise ValueError(
                "a fit by L-BFGS cannot be saved, because its state is inside SciPy. Use a stochastic "
                "optimizer, such as Adam(), or remove the Checkpoint"
            )
        self._unit, self._amount = _parsed(self.every)
        folder = Path(self.path)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (LAST, PREVIOUS, BEST):
            persistence.remove_leftovers(folder / name)
        self._best: Any = None  # the state of the best epoch, until it is written
        self._place = _place(fit) if fit.epoch and self.resume else None
        self._is_paused = False
        self._step, self._time = fit.step, time.monotonic()

    def on_block_end(self, fit: FitView) -> None:
        # A break within an epoch truncates its numbers, so the state before is the one to resume from.
        self._is_paused = fit.stopped_by is not None and fit.stopped_by.pauses
        if self._is_paused or (self._unit != "epochs" and self._is_due(fit)):
            self._write(fit, fit.state())

    def on_epoch_end(self, fit: FitView) -> None:
        if self._is_paused:
            return
        is_best, is_due = _is_best(fit), self._is_due(fit)
        if is_best or is_due:
            state = fit.state()
            self._best = state if is_best else self._best
            if is_due:
                self._write(fit, state)

    def on_fit_end(self, fit: FitView) -> None:
        ended = fit.exception is None or isinstance(fit.exception, KeyboardInterrupt)
        is_new = self._best is not None or self._place != _place(fit)
        if ended and is_new and not (fit.failed or self._is_paused):
            self._write(fit, fit.state())

    def saved(self) -> SavedFit | None:
        """Return the fit to resume from the folder; None if there is none, or `resume` is False.

        Raises
        ------
        LoadError
            If the file is damaged; with "fall_back", if the previous one is damaged, too.
        """
        folder = Path(self.path)
        last, previous = folder / LAST, folder / PREVIOUS
        if not self.resume or not last.exists():
            return None
        try:
            return read_checkpoint(last)
        except LoadError as error:
            if self.resume != "fall_back" or not previous.exists():
                raise
            found = read_checkpoint(previous)
            warnings.warn(f"{error}. The fit continues from that", CallbackWarning, stacklevel=2)
            persistence.keep_as(previous, last)  # the next write would replace it by the damaged one
            return found

    def _is_due(self, fit: FitView) -> bool:
        if self._unit == "epochs":
            return fit.epoch % self._amount == 0
        if self._unit == "steps":
            return fit.step // self._amount > self._step // self._amount
        return time.monotonic() - self._time >= self._amount

    def _write(self, fit: FitView, state: dict[str, Any]) -> None:
        """Write the best state first: if the process dies in between, a resumed fit reaches it again."""
        folder = Path(self.path)
        last, best = folder / LAST, folder / BEST
        try:
            if self._best is not None:
                persistence.write(best, self._best, KIND)
            if last.exists():
                persistence.keep_as(last, folder / PREVIOUS)
            if self._best is state:
                persistence.keep_as(best, last)
            else:
                persistence.write(last, state, KIND)
        except OSError as error:
            warnings.warn(
                f"no checkpoint of epoch {fit.epoch} was written to {folder}: {error}. The fit continues, "
                "and the previous checkpoint is kept",
                CallbackWarning,
                stacklevel=2,
            )
            return
        self._best = None
        self._place = _place(fit)
        self._step, self._time = fit.step, time.monotonic()


def _place(fit: FitView) -> tuple[int, int, bool]:
    return fit.step, fit.history.n_epochs, fit.stopped_by is not None


def _parsed(every: int | str) -> tuple[str, float]:
    """Return the unit, ``"epochs"``, ``"steps"`` or ``"seconds"``, and the number of units."""
    if not isinstance(every, str):
        return "epochs", every
    found = EVERY.fullmatch(every.strip())
    amount = float(found[1]) if found else 0.0
    unit = found[2] if found else ""
    is_counted = unit.startswith(("epoch", "step"))
    if not amount or (is_counted and not amount.is_integer()):
        raise InvalidParameterError(
            "The 'every' parameter of Checkpoint must be a number of epochs, or a text such as '500 steps', "
            f"'30 s', '10 min' or '2 h'. Got {shown(every)} instead."
        )
    return (f"{unit.rstrip('s')}s", amount) if is_counted else ("seconds", amount * SECONDS[unit])


def _is_best(fit: FitView) -> bool:
    """Tell whether the epoch that has just ended is the best of this fit so far."""
    column = fit.history.get(fit.monitor, [])[-fit.epoch :]
    higher_is_better = fit.directions.get(fit.monitor)
    if fit.monitor not in fit.record or higher_is_better is None:
        return False
    *before, now = column if higher_is_better else [-value for value in column]
    return not math.isnan(now) and all(now > value for value in before if not math.isnan(value))


def read_checkpoint(path: "str | os.PathLike[str]") -> SavedFit:
    file = Path(path)
    file = file / LAST if file.is_dir() else file
    if not file.is_file():
        raise FileNotFoundError(f"there is no checkpoint {file}: Checkpoint({str(file.parent)!r}) writes one")
    try:
        return SavedFit(str(file), checked_fit(file, persistence.read(file, KIND)))
    except LoadError as error:
        previous = file.with_name(PREVIOUS)
        if file.name == LAST and previous.exists():
            raise LoadError(f"{error}; the one before it is {previous}") from None
        raise


IN_MEMORY = "the kept state"  # instead of a path


class KeepState(Callback):
    """Keep the state that a fit has ended with, for ``fit(..., resume_from=...)``."""

    order = 1
    needs = "state"
    may_warn = False
    saved_: SavedFit | None = None

    def on_fit_begin(self, fit: FitView) -> None:
        self.saved_ = None

    def on_block_end(self, fit: FitView) -> None:
        # A break within an epoch truncates its numbers, so the state before is the one to resume from.
        if fit.stopped_by is not None and fit.stopped_by.pauses:
            self.saved_ = SavedFit(IN_MEMORY, fit.state())

    def on_fit_end(self, fit: FitView) -> None:
        if fit.exception is None and self.saved_ is None and fit.model.optimizer.goes_in_steps:
            self.saved_ = SavedFit(IN_MEMORY, fit.state())


VERSION = 2  # of the format
ARRAYS = Items(str, np.ndarray)
TWISTER = GENERATORS["MT19937"]


class _Described:
    """A description, as `sknet.persistence.describe` returns it, which holds no arrays."""

    DEEPEST = 200  # levels

    def is_satisfied_by(self, value: Any) -> bool:
        level = [value]
        for _ in range(self.DEEPEST):
            if not all(x is None or isinstance(x, (dict, list, bool, int, float, str)) for x in level):
                return False
            level = [
                item
                for x in level
                if isinstance(x, (dict, list))
                for item in (x.values() if isinstance(x, dict) else x)
            ]
        return not level

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
UNITS = Items(
    str,
    Fields.of(
        "units",
        {
            "mean": np.ndarray,
            "scale": np.ndarray,
            "limit": [ABOVE_ZERO, None],
            "constant": [np.ndarray, None],
        },
    ),
)
BEGAN = Fields.of(
    "began",
    {
        "random_state": TWISTER,
        "since": [COUNT, None],
        "start": [MODEL, ABSENT],
        "first_rate": [ABOVE_ZERO, ABSENT],
        "inputs": [UNITS, ABSENT],
        "targets": [UNITS, ABSENT],
        "offset": [UNITS, ABSENT],
    },
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
            raise ValueError(f"its {fields.holder} is {shown_field(state)}")
        fields.check(state)
    except ValueError as error:
        raise LoadError(f"{path} is damaged: {error}") from None
