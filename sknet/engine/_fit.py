"""A fit in progress, as its callbacks see it: its state, its history, and the calls of callbacks."""

import html
import importlib
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from numbers import Real
from types import TracebackType
from typing import Any, Self

import numpy as np

from sknet._constraints import shown
from sknet.callbacks import Callback, FitView
from sknet.callbacks._callback import Rows
from sknet.engine._batches import Batches
from sknet.engine._model_type import ModelLike
from sknet.exceptions import CallbackWarning, StateError

__all__ = ["Fit", "History", "Hooks", "KeptError", "Record", "Source"]


LIBRARIES = ("pandas", "polars")
MOST_SHOWN = 10  # epochs in a repr: the first and the last ones


class History(dict[str, list[float]]):
    """A dict of lists with one number per epoch, ready for ``json`` and ``pandas``.

    Names are ``"loss"`` and ``"score"`` (of training, running over the epoch's batches; with ``scoring=``
    the names of the scorers instead of ``"score"``), the same prefixed with ``"validation_"`` if there are
    held-out rows, ``"lr"`` (learning rate of the epoch's last step) and ``"time"`` (seconds the epoch
    took). All lists have the same length: missing numbers are NaN.

    Parameters
    ----------
    columns : mapping of str to list of float, default=()
        The numbers of earlier epochs.

    Examples
    --------
    >>> history = History()
    >>> history.append(loss=0.5, time=0.1)
    >>> history.append(loss=0.25, time=0.1)
    >>> history["loss"]
    [0.5, 0.25]
    >>> history
    History of 2 epochs
    epoch  loss  time
        1   0.5   0.1
        2  0.25   0.1
    """

    def __init__(self, columns: Mapping[str, list[float]] | Iterable[tuple[str, list[float]]] = ()) -> None:
        super().__init__(columns)

    def append(self, **values: float) -> None:
        """Add one epoch.

        Parameters
        ----------
        **values : float
            One number per name.
        """
        if values.keys() != self.keys():
            epochs = self.n_epochs
            for name in values:
                self.setdefault(name, [math.nan] * epochs)
        for name, column in self.items():
            column.append(float(values.get(name, math.nan)))

    def amend(self, name: str, value: float) -> None:
        """Add a number to the last epoch, or replace it.

        Parameters
        ----------
        name : str
            The name; earlier epochs without it get NaN.
        value : float
            The number.
        """
        self.setdefault(name, [math.nan] * self.n_epochs)[-1] = float(value)

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return max(map(len, self.values()), default=0)

    def copy(self) -> "History":
        """Return an independent copy."""
        return History({name: list(values) for name, values in self.items()})

    def to_frame(self, library: str | None = None) -> Any:
        """Return the history as a data frame, one row per epoch.

        Parameters
        ----------
        library : {"pandas", "polars"} or None, default=None
            The library of the frame; None is pandas if installed, else polars.

        Returns
        -------
        pandas.DataFrame or polars.DataFrame
            In pandas the epochs, counted from 1, are the index; in polars they are the first column. Both
            are called ``"epoch"``.

        Raises
        ------
        ValueError
            If the library is neither.
        ImportError
            If the library is not installed.

        Examples
        --------
        >>> from sknet.engine import History
        >>> history = History()
        >>> history.append(loss=0.5, lr=0.1)
        >>> history.to_frame("pandas")["loss"].to_dict()
        {1: 0.5}
        """
        if library is not None and library not in LIBRARIES:
            raise ValueError(f"library must be 'pandas', 'polars' or None. Got {shown(library)} instead.")
        module = _first_installed(LIBRARIES if library is None else (library,))
        epochs = range(1, self.n_epochs + 1)
        if module.__name__ == "polars":
            return module.DataFrame({"epoch": list(epochs), **self})
        return module.DataFrame(dict(self), index=module.RangeIndex(1, len(epochs) + 1, name="epoch"))

    def _shown(self) -> list[list[str]]:
        """Return the rows of a table, names first; of many epochs, those in the middle are left out."""
        rows = [[str(epoch + 1), *self._numbers(epoch)] for epoch in range(self.n_epochs)]
        if len(rows) > MOST_SHOWN:
            half = MOST_SHOWN // 2
            rows[half:-half] = [["..."] * (len(self) + 1)]
        return [["epoch", *self], *rows]

    def _numbers(self, epoch: int) -> list[str]:
        return [f"{values[epoch]:.4g}" for values in self.values()]

    def _title(self) -> str:
        return f"History of {self.n_epochs} epoch{'' if self.n_epochs == 1 else 's'}"

    def __repr__(self) -> str:
        table = self._shown() if self.n_epochs else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(map(str.rjust, row, widths)) for row in table]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        """Return a table for notebooks."""
        names, *rows = self._shown() if self.n_epochs else [[]]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
        caption = f"<caption>{self._title()}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _first_installed(libraries: tuple[str, ...]) -> Any:
    """Return the first of these libraries that can be imported."""
    for name in libraries:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    names = " or ".join(libraries)
    raise ImportError(f"History.to_frame needs {names}, which is not installed: pip install {libraries[0]}")


MEASURED = {"loss": False, "score": True}  # whether higher is better
NONE_YET: np.ndarray[Any, Any] = np.zeros(0)  # of an array of losses


class Source:
    """Estimator and data of a fit, as callbacks see them; in this base class, nothing."""

    monitor: str | None = None
    measured: Mapping[str, bool | None] = MEASURED

    @property
    def began(self) -> dict[str, Any] | None:
        """State of the random numbers before held-out rows were drawn; None if none are."""
        return None

    def estimator(self, epoch: int) -> Any:
        """Return the estimator as if the fit had ended after that epoch; None if there is none."""
        return None

    def parameters(self) -> dict[str, Any] | None:
        """Return the parameters that must agree to resume a saved fit; None for what the loop knows."""
        return None

    def training(self) -> Rows | None:
        """Return the training rows as the user gave them, or None."""
        return None

    def validation(self) -> Rows | None:
        """Return the validation rows as the user gave them, or None."""
        return None


class Record(dict[str, float]):
    """The numbers of an epoch: the last row of a history, to which a callback may add."""

    def __init__(self, values: Mapping[str, float], history: History) -> None:
        super().__init__(values)
        self._history = history

    def __setitem__(self, name: str, value: float) -> None:
        if name in self:
            raise ValueError(f"this epoch already has a number {name!r}, {self[name]}: choose another name")
        if not isinstance(value, Real | np.generic | np.ndarray) or np.ndim(value):
            raise TypeError(f"record[{name!r}] must be a number, got {shown(value)}")
        self._history.amend(name, float(value))
        super().__setitem__(name, float(value))


class Fit:
    """The state of a loop, as its callbacks see it; see `sknet.callbacks.FitView`."""

    def __init__(
        self,
        model: ModelLike,
        batches: Batches | None,
        history: History,
        max_epochs: int,
        is_validated: bool = False,
        source: Source | None = None,
        measured: Mapping[str, bool | None] | None = None,
    ) -> None:
        source = source or Source()
        self.model, self.history, self.max_epochs = model, history, max_epochs
        self.batches: Any = batches
        self.epoch = self.step = 0
        self.losses = NONE_YET
        measured = source.measured if measured is None else measured
        self.directions = dict(measured)
        if is_validated:
            self.directions |= {f"validation_{name}": higher for name, higher in measured.items()}
        self.record = Record({}, history)
        self.monitor = source.monitor or ("validation_score" if is_validated else "loss")
        self.exception: BaseException | None = None
        self.failed = False
        self.stopped_by: Callback | None = None
        self.state: Callable[[], dict[str, Any]] = _no_state
        self.source = source

    def estimator(self) -> Any:
        """Return the estimator as if the fit had ended here."""
        return self.source.estimator(self.epoch)

    def rows(self, which: str) -> Rows | None:
        """Return the training or validation rows, as given."""
        found: Rows | None = getattr(self.source, which)()
        return found

    def end(self) -> None:
        """Let go of what saves the state: in a cycle with it, the rows would stay in memory for long."""
        self.state = _has_ended

    def close_epoch(self, values: Mapping[str, float]) -> None:
        """Record the numbers of a finished epoch."""
        self.history.append(**values)
        self.record = Record(values, self.history)


def _has_ended() -> dict[str, Any]:
    raise StateError("the fit has ended: its state can be saved up to on_fit_end")


def _no_state() -> dict[str, Any]:
    raise ValueError("a fit by L-BFGS has no state to save: use a stochastic optimizer, such as Adam")


UNCHANGED = nullcontext()
# The hooks that not all callbacks are called for, as those that do nothing define them.
IN_EPOCHS = {name: getattr(Callback, name) for name in ("on_epoch_begin", "on_block_end", "on_epoch_end")}


class KeptError(Exception):
    """A callback has raised, and the fit ends with what it has learned."""

    def __init__(self, message: str, error: Exception) -> None:
        super().__init__(message)
        self.error = error


class Hooks:
    """The callbacks of one fit, in the order of their calls."""

    def __init__(self, callbacks: Sequence[Callback], fit: Fit) -> None:
        self.callbacks = sorted(callbacks, key=lambda callback: callback.order)
        self._fit, self._view = fit, FitView(fit)
        self._begun: list[Callback] = []
        # The loop suppresses NumPy's warnings, callbacks must not; switching takes microseconds.
        self._errors = np.geterr() if any(c.may_warn for c in self.callbacks) else None
        # Only hooks that a callback defines are called.
        self._of = {
            name: [c for c in self.callbacks if getattr(type(c), name) is not nothing]
            for name, nothing in IN_EPOCHS.items()
        }
        self.stopped_by: Callback | None = None
        self._stopped_in = ""
        sizes = [c.steps_per_block for c in self.callbacks if c.steps_per_block is not None]
        self.steps_per_block = min(sizes, default=sys.maxsize)

    @property
    def looks_at_blocks(self) -> bool:
        """True if a callback has `on_block_end`."""
        return bool(self._of["on_block_end"])

    @property
    def epochs_ahead(self) -> int:
        """Number of epochs that may be trained before the hooks are called for the first of them."""
        if self.looks_at_blocks or self._of["on_epoch_begin"] or self.steps_per_block < sys.maxsize:
            return 1
        return min([_epochs_ahead(callback) for callback in self._of["on_epoch_end"]], default=sys.maxsize)

    def __bool__(self) -> bool:
        return bool(self.callbacks)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> bool:
        """Call `on_fit_begin`; return whether the fit ends there."""
        with self._errors_as_outside():
            for callback in self.callbacks:
                self._begun.append(callback)
                self._call(callback, "on_fit_begin")
        return self.stopped_by is not None

    def call(self, name: str) -> bool:
        """Call a hook of all callbacks; return whether the fit ends there."""
        callbacks = self._of[name]
        if callbacks:
            with self._errors_as_outside():
                for callback in callbacks:
                    self._call(callback, name)
        return self.stopped_by is not None

    def _errors_as_outside(self) -> AbstractContextManager[Any]:
        return UNCHANGED if self._errors is None else np.errstate(**self._errors)

    def stop(self, callback: Callback, hook: str = "") -> None:
        """Record which callback ends the fit; of several in one hook, an end outranks a break."""
        first = self.stopped_by
        if first is None or (first.pauses and not callback.pauses and hook == self._stopped_in):
            self.stopped_by = self._fit.stopped_by = callback
            self._stopped_in = hook

    def _call(self, callback: Callback, name: str) -> None:
        try:
            said = getattr(callback, name)(self._view)
            if said is not None and self._stops(callback, name, said):
                self.stop(callback, name)
        except Exception as error:
            if callback.keeps_result and name != "on_fit_begin":  # at that point there is no result to keep
                raise KeptError(f"{_name(callback, name)} raised {error!r}", error) from error
            raise

    @staticmethod
    def _stops(callback: Callback, name: str, said: Any) -> bool:
        """Tell whether a hook's return value ends the fit; any but None and "stop" is an error."""
        if name != "on_fit_end" and isinstance(said, str) and said == "stop":
            return True
        options = "None" if name == "on_fit_end" else "None, or 'stop' to end the fit"
        raise TypeError(f"{_name(callback, name)} returned {said!r}, but must return {options}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun and error is not None:
            self._fit.exception, self._fit.failed = error, True
        failures: list[BaseException] = []
        for callback in reversed(self._begun):
            try:
                self._call(callback, "on_fit_end")
            except KeptError as kept:
                warnings.warn(f"{kept}: the result of the fit is kept.", CallbackWarning, stacklevel=3)
            except BaseException as failure:
                failures.append(failure)
        if failures:
            raised = failures.pop(0) if error is None else error
            for other in failures:
                raised.add_note(f"Also, a callback raised at the end of the fit: {other!r}")
            if error is None:
                raise raised


def _epochs_ahead(callback: Callback) -> int:
    """Return what a callback allows; a subclass that looks at epochs itself has to allow it anew."""
    defined = {"epochs_ahead", "on_epoch_end"}
    latest = next(kind for kind in type(callback).__mro__ if defined & {*vars(kind)})
    return callback.epochs_ahead() if "epochs_ahead" in vars(latest) else 1


def _name(callback: Callback, name: str) -> str:
    return f"{type(callback).__name__}.{name}"
