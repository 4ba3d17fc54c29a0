"""A fit: its history, hooks of callbacks, and its state in checkpoints, from which it is resumed."""

import html
import importlib
import math
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from sknet._constraints import shown
from sknet._fields import Fields
from sknet._hints import or_names, suggestion
from sknet._late import cached_property, version_of
from sknet._native import core
from sknet._parallel import libraries
from sknet._warnings import warn_caller
from sknet.callbacks import Callback, FitView
from sknet.callbacks._callback import Rows
from sknet.callbacks._checkpoint import VERSION, Checkpoint, SavedFit, check_state, read_checkpoint
from sknet.device import Stream, to_device, to_host
from sknet.engine._batches import Batches
from sknet.engine._memory import ModelState
from sknet.engine._model_like import ModelLike
from sknet.exceptions import CallbackWarning, LoadError, StateError
from sknet.losses import LOSSES
from sknet.nn import ACTIVATIONS
from sknet.optim import OPTIMIZERS, OptimizerState
from sknet.optim.schedules import Progress
from sknet.persistence import describe, differences, digest

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

    def __missing__(self, name: Any) -> Any:
        columns = ", ".join(map(repr, self))
        near = suggestion(name, self) if isinstance(name, str) else "."
        raise KeyError(f"a history has no column {name!r}{or_names(near, f'Its columns are {columns}.')}")

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
        return None

    def validation(self) -> Rows | None:
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
        return getattr(self.source, which)()

    def end(self) -> None:
        """Let go of what saves the state: in a cycle with it, the rows would stay in memory for long."""
        self.state = _has_ended

    def close_epoch(self, values: Mapping[str, float]) -> None:
        self.history.append(**values)
        self.record = Record(values, self.history)


def _has_ended() -> dict[str, Any]:
    raise StateError("the fit has ended: its state can be saved up to on_fit_end")


def _no_state() -> dict[str, Any]:
    raise ValueError("a fit by L-BFGS has no state to save: use a stochastic optimizer, such as Adam")


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
        self.looks_at_blocks = bool(self._of["on_block_end"])
        sizes = [c.steps_per_block for c in self.callbacks if c.steps_per_block is not None]
        self.steps_per_block = min(sizes, default=sys.maxsize)

    @property
    def epochs_ahead(self) -> int:
        """Number of epochs that may be trained before the hooks are called for the first of them."""
        if self.looks_at_blocks or self._of["on_epoch_begin"] or self.steps_per_block < sys.maxsize:
            return 1
        return min([_epochs_ahead(callback) for callback in self._of["on_epoch_end"]], default=sys.maxsize)

    @property
    def at_epoch_end(self) -> Sequence[Any]:
        """The callbacks that look at the end of each epoch."""
        return self._of["on_epoch_end"]

    @property
    def reads_model(self) -> bool:
        """True if a callback looks at the model of each epoch, also where epochs are trained ahead."""
        return any(map(attrgetter("reads_model"), self._of["on_epoch_end"]))

    def __bool__(self) -> bool:
        return bool(self.callbacks)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> bool:
        """Call `on_fit_begin`; return whether the fit ends there."""
        for callback in self.callbacks[len(self._begun) :]:
            self._begun.append(callback)
            self.call("on_fit_begin", [callback])
        return self.stopped_by is not None

    def begin_again(self) -> None:
        """Go on with callbacks for which the parts of a stream are the epochs of one fit."""
        self.stopped_by = self._fit.stopped_by = None

    def call(self, name: str, callbacks: Sequence[Callback] | None = None) -> bool:
        """Call a hook of all callbacks that define it, or of these; return whether the fit ends there."""
        callbacks = self._of[name] if callbacks is None else callbacks
        if self._errors is None:
            for callback in callbacks:
                self._call(callback, name)
        elif callbacks:
            with np.errstate(**self._errors):
                for callback in callbacks:
                    self._call(callback, name)
        return self.stopped_by is not None

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
                warn_caller(f"{kept}: the result of the fit is kept.", CallbackWarning)
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
    for kind in type(callback).__mro__:
        if "epochs_ahead" in vars(kind):
            return callback.epochs_ahead()
        if "on_epoch_end" in vars(kind):
            break
    return 1


def _name(callback: Callback, name: str) -> str:
    return f"{type(callback).__name__}.{name}"


KINDS = {"parameters": "parameter", "buffers": "buffer"}

Tree = dict[str, Any]


def model_state(model: ModelLike) -> Tree:
    """Return all that training changes in a model, as immutable host arrays."""
    state = model.state
    slots = {name: model.memory.layout.views(to_host(flat)) for name, flat in state.optimizer.slots.items()}
    return {
        "parameters": {name: to_host(array) for name, array in state.parameters.items()},
        "frozen": {name: np.array(to_host(array)) for name, array in _frozen(model).items()},
        "buffers": {name: to_host(array) for name, array in state.buffers.items()},
        "slots": slots,
        "resting": {name: _on_host(kept) for name, kept in model.memory.resting.items()},
        "progress": model.progress._asdict(),
        "key": list(model.memory.key),
        "random_state": random_state_of(model.random_state),
    }


def random_state_of(random_state: np.random.RandomState) -> Tree:
    """Return the state of a generator, as its `set_state` accepts it."""
    return random_state.get_state(legacy=False)


def load_model_state(model: ModelLike, saved: Mapping[str, Any], path: str) -> None:
    """Load a saved state into a model of the same network."""
    for difference in _of_networks(model, saved):
        raise other_network(path, difference)
    for name, parameter in model.module.own_parameters():  # a callback may have frozen or unfrozen some
        if parameter.requires_grad != (name in saved["parameters"]):
            parameter.requires_grad = not parameter.requires_grad
    layout, slots = model.memory.layout, {}
    _, own = model.memory.flat_buffers()
    if set(own) != set(saved["slots"]):
        raise StateError(
            f"{path} is a checkpoint of another optimizer: its state has {sorted(saved['slots'])} for each "
            f"parameter, that of this one {sorted(own)}"
        )
    for name, arrays in saved["slots"].items():
        slots[name] = np.zeros(layout.size, model.dtype)
        layout.fill(slots[name], arrays)
    progress = Progress(**saved["progress"])

    def placed(arrays: Mapping[str, Any]) -> Tree:
        return {name: to_device(array, model.device) for name, array in arrays.items()}

    optimizer = OptimizerState(progress.step, placed(slots))
    model.load(ModelState(placed(saved["parameters"]), optimizer, placed(saved["buffers"]), progress))
    parameters = dict(model.module.own_parameters())
    for name, array in saved["frozen"].items():
        parameters[name].data = array
    model.memory.rest({name: placed(kept) for name, kept in saved["resting"].items()})
    low, high = saved["key"]
    model.memory.stream = Stream((low, high))
    model.random_state.set_state(saved["random_state"])


def other_network(path: str, difference: str) -> StateError:
    return StateError(f"{path} is a checkpoint of another network: {difference}")


def check_frozen(model: ModelLike, before: Sequence[str], path: str) -> None:
    """Raise a StateError unless the frozen parameters are those that were frozen before the saved fit."""
    now = frozen_names(model)
    kinds = {True: "frozen parameter", False: "parameter"}
    for name in model.module.state_dict():
        if (name in before) != (name in now):
            raise other_network(path, f"{name!r} was a {kinds[name in before]} and is a {kinds[name in now]}")


def frozen_names(model: ModelLike) -> list[str]:
    """Return the names of a model's frozen parameters."""
    return list(model.memory.frozen)


def _on_host(arrays: Mapping[str, Any]) -> Tree:
    return {name: np.array(to_host(array)) for name, array in arrays.items()}


def _frozen(model: ModelLike) -> Tree:
    return {name: array for name, array in model.memory.untrained.items() if name not in model.buffers}


def _of_networks(model: ModelLike, saved: Mapping[str, Any]) -> Iterator[str]:
    here = {"parameters": {**model.parameters, **_frozen(model)}, "buffers": model.buffers}
    there = {"parameters": {**saved["parameters"], **saved["frozen"]}, "buffers": saved["buffers"]}
    then = {name: (kind, array) for kind in KINDS for name, array in there[kind].items()}
    now = {name: (kind, array) for kind in KINDS for name, array in here[kind].items()}
    for name in {**now, **then}:
        kind, array = now.get(name) or then[name]
        what = f"{KINDS[kind]} {name!r} of shape {tuple(array.shape)}"
        if name not in then:
            yield f"this one has a {what}, the saved one does not"
        elif name not in now:
            yield f"it has a {what}, this one does not"
        elif then[name][0] != kind:
            yield f"{name!r} was a {KINDS[then[name][0]]} and is a {KINDS[kind]}"
        elif tuple(array.shape) != tuple(then[name][1].shape):
            shape = tuple(then[name][1].shape)
            yield f"{KINDS[kind]} {name!r} had shape {shape}, but has shape {tuple(array.shape)} here"
        elif array.dtype != then[name][1].dtype:
            yield f"{KINDS[kind]} {name!r} was {then[name][1].dtype}, but is {array.dtype} here"


MOST = 4  # differences named in a message
ROWS = "choice of rows"
# Parameters that may be given by name, and the classes that the names stand for.
NAMED: Mapping[str, Mapping[str, type]] = {
    "optimizer": OPTIMIZERS,
    "loss": LOSSES,
    "activation": ACTIVATIONS,
}


class SavedLoop(Protocol):
    @property
    def steps_name(self) -> str:
        """Name of the kind of steps."""

    def state(self) -> Tree:
        """Return the loop's position."""

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        """Continue from a position."""

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        """Return how many more steps are planned than when the state was saved; None if unknown."""


def saved_fit(
    callbacks: Sequence[Callback], resume_from: "str | os.PathLike[str] | SavedFit | None" = None
) -> SavedFit | None:
    """Return the saved fit to resume, if any."""
    if isinstance(resume_from, SavedFit):
        return resume_from
    if resume_from is not None:
        if not isinstance(resume_from, (str, os.PathLike)):
            raise TypeError(
                f"resume_from must be the path of a checkpoint, its folder or a file, "
                f"got {shown(resume_from)}; "
                "Checkpoint(path, resume=True) resumes from the folder"
            )
        return read_checkpoint(resume_from)
    found = (callback.saved() for callback in callbacks if isinstance(callback, Checkpoint))
    return next((saved for saved in found if saved is not None), None)


class FitKeeper:
    """Saves the state of a fit between two blocks of steps, and restores it."""

    def __init__(
        self,
        fit: Fit,
        loop: SavedLoop,
        hooks: Hooks,
        validation: Batches | None,
        first: Batches | None = None,
    ) -> None:
        self._fit, self._loop, self._hooks, self._validation = fit, loop, hooks, validation
        self._first = first
        self._frozen = frozen_names(fit.model)  # a callback may change which these are

    def state(self) -> Tree:
        """Return everything that the rest of the fit depends on, as immutable values."""
        fit, callbacks = self._fit, self._hooks.callbacks
        stopped = [number for number, each in enumerate(callbacks) if each is self._hooks.stopped_by]
        return {
            "version": VERSION,
            "environment": self._environment,
            "parameters": self._parameters,
            "data": self._data,
            "began": fit.source.began,
            "frozen": self._frozen,
            "model": model_state(fit.model),
            "loop": self._loop.state(),
            "callbacks": [{"class": _name_of_callback(each), "state": each.state()} for each in callbacks],
            "stopped_by": stopped[0] if stopped else None,
        }

    def load(self, saved: SavedFit) -> None:
        """Restore a saved state, before the fit has begun."""
        path, state = saved
        if state["version"] != VERSION:
            raise StateError(
                f"{path} is a checkpoint of version {state['version']}, written by sknet "
                f"{state['environment']['sknet']}; this one reads version {VERSION}: resume it with that"
            )
        saved_parameters, parameters = _comparable(state["parameters"], self._parameters)
        _check_same(saved_parameters, parameters, path, "parameters")
        _check_same(state["data"], self._data, path, "data")
        check_frozen(self._fit.model, state["frozen"], path)
        load_model_state(self._fit.model, state["model"], path)
        self._plan(self._loop.more_steps(state["loop"]))
        with _damaged(path):
            self._loop.load_state(state["loop"], path)
        known = _load_callbacks(self._hooks.callbacks, state["callbacks"], path)
        stopped_by = None if state["stopped_by"] is None else known[state["stopped_by"]]
        if stopped_by is not None and not stopped_by.pauses:
            self._hooks.stop(stopped_by)

    def _plan(self, more: int | None) -> None:
        """Plan for more steps than when the fit was saved."""
        progress = self._fit.model.progress
        total = None if more is None or progress.total_steps is None else progress.total_steps + more
        self._fit.model.progress = progress._replace(total_steps=total)

    def warn_of_environment(self, saved: SavedFit) -> None:
        """Warn if rounding may differ from where the fit was saved; name the differences."""
        _warn_of_environment(saved.state["environment"], self._environment, saved.path)

    @cached_property
    def _parameters(self) -> Any:
        fit = self._fit
        told = fit.source.parameters()
        if told is not None:
            return describe(told)
        model = fit.model
        hyper = {"loss": model.loss_function, "optimizer": model.optimizer, "alpha": model.alpha}
        return describe({**hyper, "batch_size": None if self._first else fit.batches.size})

    @cached_property
    def _data(self) -> Any:
        first = self._first
        found = _digests(self._fit.batches, "") if first is None else _digests(first, "first batch's ")
        if self._validation is not None:
            known = None if first is not None else self._fit.batches.X
            found |= _digests(self._validation, "validation ", known)
        return found

    @cached_property
    def _environment(self) -> Tree:
        return _environment(self._loop.steps_name)


def _name_of_callback(callback: Callback) -> str:
    return f"{type(callback).__module__}.{type(callback).__qualname__}"


@contextmanager
def _damaged(path: str) -> Iterator[None]:
    """Raise a LoadError where what a score or a loop was, is something else; each knows only itself."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, OverflowError) as error:
        raise LoadError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _check_callback(callback: Callback, state: Mapping[str, Any], path: str) -> None:
    declared = getattr(type(callback), "_state_fields", None)
    if declared is not None and state:
        check_state(path, Fields.of(type(callback).__name__, declared), state)


def _load_callbacks(
    callbacks: Sequence[Callback], saved: Sequence[Mapping[str, Any]], path: str
) -> list[Callback | None]:
    """Restore callbacks, each from the saved state of the next one of its class; return their pairing."""
    left, known = list(callbacks), []
    for each in saved:
        found = next((callback for callback in left if _name_of_callback(callback) == each["class"]), None)
        known.append(found)
        if found is not None:
            left = [callback for callback in left if callback is not found]  # not by equality
            _check_callback(found, each["state"], path)
            found.load_state(each["state"])
        elif each["state"]:
            name = each["class"].rpartition(".")[2]
            raise StateError(
                f"{path} has the state of a callback {name}, but this fit has no {name}: pass the "
                "callbacks of the fit that was saved"
            )
    return known


# -- whether it is the same fit --------------------------------------------------------------------


def _comparable(before: Tree, now: Tree) -> tuple[Tree, Tree]:
    """Return described parameters, with names replaced by objects where the other fit has an object."""
    before, now = dict(before), dict(now)
    for parameter, named in NAMED.items():
        for these, others in ((before, now), (now, before)):
            name = these.get(parameter)
            if isinstance(name, str) and name in named and isinstance(others.get(parameter), dict):
                these[parameter] = describe(named[name]())
    return before, now


def _digests(batches: Batches, of: str, known: Any = None) -> Tree:
    arrays = {"y": batches.y, "sample_weight": batches.weight, ROWS: batches.chosen}
    if batches.X is not known:
        arrays = {"X": batches.X, **arrays}
    return {f"{of}{name}": digested(array) for name, array in arrays.items()}


def digested(array: Any) -> Any:
    """Return the digest of an array, or of each of several by name; None has none."""
    if isinstance(array, Mapping):
        return {name: digested(each) for name, each in array.items()}
    return None if array is None else digest(array)


def _check_same(before: Any, now: Any, path: str, what: str) -> None:
    """Raise a StateError that names the differences, if there are any."""
    found = differences(before, now)
    if found:
        left_out = len(found) - MOST
        named = "; ".join(found[:MOST]) + (f"; and {left_out} more" if left_out > 0 else "")
        named += " (give a splitter a random_state)" if any(ROWS in each for each in found) else ""
        raise StateError(
            f"{path} is of a fit with other {what}: {named}. A fit must be resumed with what it began with; "
            "start without the checkpoint for a new fit"
        )


# -- environment -----------------------------------------------------------------------------------


def _environment(steps: str) -> Tree:
    """Return all that rounding depends on: versions of numerical libraries, native code, and the machine."""
    found: Tree = {"steps": steps, "machine": platform.machine()}
    found |= {name: version_of(name) for name in ("sknet", "numpy")}
    found |= {"native": "not built" if core() is None else "built"}
    return found | _blas(libraries().info())


def _blas(found: Sequence[Mapping[str, Any]]) -> Tree:
    """Return the description of NumPy's BLAS, independent of the order in which libraries were loaded."""
    package = str(Path(np.__file__).parent)  # in wheels, BLAS is in numpy.libs or numpy/.dylibs

    def rank(library: Mapping[str, Any]) -> tuple[bool, bool, str]:
        path = str(library.get("filepath"))
        return not path.startswith(package), "site-packages" in path, path

    for library in sorted((each for each in found if each.get("user_api") == "blas"), key=rank):
        told = [library.get(key) for key in ("internal_api", "version", "architecture")]
        return {"BLAS": " ".join(str(x) for x in told if x), "BLAS threads": library.get("num_threads")}
    return {}


def _warn_of_environment(saved: Mapping[str, Any], now: Mapping[str, Any], path: str) -> None:
    """Warn if a saved fit is resumed where rounding may differ."""
    found = differences(dict(saved), dict(now))
    if found:
        warn_caller(
            f"{path} was written where rounding may differ: {'; '.join(found)}. The fit continues, "
            "but may not end with the same bits",
            UserWarning,
        )
