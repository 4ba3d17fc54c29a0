"""Saved states of fits and models, to resume from."""

import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sknet._fields import Fields
from sknet._late import cached_property, version_of
from sknet._native import core
from sknet._parallel import libraries
from sknet.callbacks import Callback
from sknet.callbacks._checkpoint import VERSION, SavedFit, check_state
from sknet.device import to_device, to_host
from sknet.engine._batches import Batches
from sknet.engine._fit import Fit, Hooks
from sknet.engine._memory import ModelState
from sknet.engine._model_type import ModelLike
from sknet.exceptions import LoadError, StateError
from sknet.losses import LOSSES
from sknet.nn import ACTIVATIONS
from sknet.optim import OPTIMIZERS, OptimizerState
from sknet.optim.schedules import Progress
from sknet.persistence import describe, differences, digest

__all__ = [
    "FitKeeper",
    "check_frozen",
    "digested",
    "frozen_names",
    "load_model_state",
    "model_state",
    "random_state_of",
]


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
    state: Tree = random_state.get_state(legacy=False)
    return state


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
    model.memory.key = low, high
    model.random_state.set_state(saved["random_state"])


def other_network(path: str, difference: str) -> StateError:
    """Return the error for a checkpoint of another network."""
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
    """Yield the differences between a model's network and a saved one."""
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


class Loop(Protocol):
    """A training loop that can save its position."""

    @property
    def steps_name(self) -> str:
        """Name of the kind of steps."""

    def state(self) -> Tree:
        """Return the loop's position."""

    def load_state(self, state: Mapping[str, Any], path: str) -> None:
        """Continue from a position."""

    def more_steps(self, state: Mapping[str, Any]) -> int | None:
        """Return how many more steps are planned than when the state was saved; None if unknown."""


class FitKeeper:
    """Saves the state of a fit between two blocks of steps, and restores it."""

    def __init__(
        self,
        fit: Fit,
        loop: Loop,
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
            "callbacks": [{"class": _name(each), "state": each.state()} for each in callbacks],
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


def _name(callback: Callback) -> str:
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
        found = next((callback for callback in left if _name(callback) == each["class"]), None)
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
        warnings.warn(
            f"{path} was written where rounding may differ: {'; '.join(found)}. The fit continues, "
            "but may not end with the same bits",
            UserWarning,
            stacklevel=4,
        )
