"""Copies of models: parts with stable names, slim copies, and states to return to."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sknet._random import check_random_state
from sknet._warnings import warn_caller
from sknet.device import Device, Stream, active, available, on_device, to_device, to_host
from sknet.engine._memory import Arrays, Epoch, ModelState, Pending, copied_random_state, copy_of
from sknet.engine._model import Model
from sknet.exceptions import DeviceError, DeviceWarning, StateError
from sknet.losses import Loss
from sknet.nn import Module
from sknet.nn._module import held_of
from sknet.nn._parameter import note_structure
from sknet.optim import OptimizerState
from sknet.optim.schedules import Progress

Parts = dict[str, Any]


def parts_of(model: Model) -> Parts:
    """Return all parts of a model, from which `restored_model` reconstructs it."""
    module = model._store.module
    found: Parts = {
        **{"module": module, "loss": model.loss_function, "optimizer": model.optimizer, "alpha": model.alpha},
        **{"dtype": model.precision, "device": str(model.device), "compile": vars(model)["compile"]},
        **{"random_state": model._stored_random_state},
        **{"has_seen_output": model._has_seen_output, "progress": list(model.progress)},
        **({} if model._input_names is None else {"input_names": model._input_names}),
        "epoch": [model._epoch.began, model._epoch.rows],
    }
    if isinstance(model._store, Pending):
        return found
    memory, slots = model.memory, {}
    for name, flat in memory.slots.items():
        on_host = to_host(flat)
        if on_host.view(f"u{on_host.itemsize}").any():  # by bits: -0.0 is not the initial state
            slots[name] = memory.layout.views(on_host)
    resting = {
        name: {slot: to_host(array) for slot, array in kept.items()} for name, kept in memory.resting.items()
    }
    return {**found, "key": list(memory.key), "slots": slots, "resting": resting}


def restored_model(parts: Mapping[str, Any]) -> Model:
    """Return a model that continues where the one with these parts stopped."""
    random_state = check_random_state(parts["random_state"])
    drawn = random_state.get_state()
    given = {name: parts[name] for name in ("loss", "optimizer", "alpha", "dtype", "compile")}
    model = Model(
        parts["module"], **given, random_state=random_state, device=_available(parts["device"]), copy=False
    )
    model.progress = _progress(parts["progress"])
    if parts["has_seen_output"] is True:
        model._has_seen_output = True
    model._input_names = parts.get("input_names")
    model._epoch = Epoch(*_counts(parts["epoch"]))
    if not isinstance(model._store, Pending):
        low, high = parts["key"]
        model.memory.stream = Stream((int(low), int(high)))
        _fill(model, parts["slots"], parts["resting"])
    random_state.set_state(drawn)
    if type(parts["random_state"]) is int:
        model._seed = parts["random_state"]
    return model


def _progress(numbers: Any) -> Progress:
    found = Progress(*_counts(numbers))
    *counts, total, counts_epochs = found
    if None in counts or bool in {*map(type, [*counts, total])} or not isinstance(counts_epochs, bool):
        raise ValueError(f"{found} is no progress of a training")
    return found


def _counts(numbers: Any) -> list[Any]:
    """Return the numbers of steps, epochs and rows after checking them."""
    if any(not isinstance(number, (int, type(None))) or (number or 0) < 0 for number in numbers):
        raise ValueError(f"{numbers} are not numbers of steps, epochs and rows")
    return list(numbers)


def _fill(model: Model, slots: Mapping[str, Any], resting: Mapping[str, Any]) -> None:
    """Put the optimizer's state into a model."""
    memory = model.memory
    frozen = {name: parameter.shape for name, parameter in memory.frozen.items()}
    for kept in (slots, *resting.values()):
        if not kept.keys() <= memory.slots.keys():
            raise StateError(f"the state {sorted(kept)} does not belong to {model.optimizer!r}")
    for name, kept in resting.items():
        if any((array.shape, array.dtype) != (frozen.get(name), memory.dtype) for array in kept.values()):
            raise StateError(f"the state of {name!r} has another shape than the parameter")
    with active(model.device, model.precision):
        for name, arrays in slots.items():
            memory.layout.check(arrays)
            for parameter, view in memory.layout.views(memory.slots[name]).items():
                view[...] = to_device(arrays[parameter], model.device)
        memory.rest(
            {
                name: {slot: to_device(array, model.device) for slot, array in kept.items()}
                for name, kept in resting.items()
            }
        )


def _available(device: str) -> Device:
    try:
        return available(device)
    except DeviceError as error:
        warn_caller(f"{error}; the model computes on the CPU instead", DeviceWarning)
        return Device("cpu")


def slim_model(model: Model, loss: Loss | None = None) -> Model:
    """Return a model with the same predictions and a fresh optimizer state."""
    if isinstance(model._store, Pending):
        return model.copy()
    module = copy_of(model.module)
    parameters = dict(module.own_parameters())
    for name, array in model.evaluation_parameters.items():
        parameters[name].data = array
    parts = {**parts_of(model), "slots": {}, "resting": {}, "module": module}
    parts["progress"], parts["epoch"] = model.progress._replace(step=0, reductions=0), [0, 0]
    parts["loss"] = parts["loss"] if loss is None else loss
    # A seed is all that a pickle or file holds, instead of 5 kB of state.
    parts["random_state"] = int(copied_random_state(model.random_state).randint(1 << 32, dtype=np.uint32))
    return restored_model(parts)


@on_device
def rollback_of(model: "Model") -> Callable[[], None]:
    """Return a function that restores the present state of a model, after it was trained in place."""
    memory, progress, hyper, precision = model.memory, model.progress, model._hyper, model.precision
    flat, slots = memory.packed(), memory.copied_slots()
    buffers = {name: array.copy() for name, array in memory.buffers.items()} if memory.has_buffers else {}
    hold = held_of(model.module) if memory.has_buffers else None
    leaves, frozen, layout = memory.leaves, memory.frozen, memory.layout

    def restore() -> None:
        for parameters, is_trained in ((leaves, True), (frozen, False)):
            for parameter in parameters.values():
                if parameter.requires_grad != is_trained:
                    parameter.requires_grad = is_trained
        if hold is not None:
            hold()
        model.adopt(*hyper)
        model.precision = precision
        optimizer = OptimizerState(progress.step, slots)
        model.load(ModelState(Arrays(layout, flat), optimizer, buffers, progress))

    return restore


def take_over(model: "Model", trained: "Model") -> None:
    """Let a model become like a copy of it that was trained elsewhere, and that is not used afterwards."""
    if trained is model:
        return
    random_state = model.random_state
    if random_state is not check_random_state(None):
        random_state.set_state(trained.random_state.get_state())
    memory = trained.memory
    memory.module = _become(model._store.module, memory.module, {})
    vars(model).update(vars(trained), random_state=random_state)
    note_structure()
    model.recompile()


def _become(module: Module, other: Module, done: dict[int, Module]) -> Module:
    """Let a module have the state of another, if it is of the same class, or else return the other."""
    if id(other) in done:
        return done[id(other)]
    if type(module) is not type(other):
        return done.setdefault(id(other), other)
    done[id(other)] = module
    for name, child in other._children.items():
        if name in module._children:
            other._children[name] = vars(other)[name] = _become(module._children[name], child, done)
    object.__setattr__(module, "__dict__", vars(other))  # the same dict, should anything refer to the other
    return module
