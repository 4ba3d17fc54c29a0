"""Calling the callbacks of a fit, and ending them whatever happens."""

import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Self

import numpy as np

from sknet.callbacks import Callback, FitView
from sknet.engine.loop._fit import Fit
from sknet.exceptions import CallbackWarning

__all__ = ["Hooks", "KeptError"]

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
