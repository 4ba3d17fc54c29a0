"""The state of a model as a document, and the check that a saved one is of the same network."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.device import to_device, to_host
from sknet.engine.state import ModelState
from sknet.exceptions import StateError
from sknet.optim import OptimizerState
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["check_frozen", "frozen_names", "load_model_state", "model_state", "random_state_of"]

KINDS = {"parameters": "parameter", "buffers": "buffer"}

Tree = dict[str, Any]


def model_state(model: "Model") -> Tree:
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


def load_model_state(model: "Model", saved: Mapping[str, Any], path: str) -> None:
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


def check_frozen(model: "Model", before: Sequence[str], path: str) -> None:
    """Raise a StateError unless the frozen parameters are those that were frozen before the saved fit."""
    now = frozen_names(model)
    kinds = {True: "frozen parameter", False: "parameter"}
    for name in model.module.state_dict():
        if (name in before) != (name in now):
            raise other_network(path, f"{name!r} was a {kinds[name in before]} and is a {kinds[name in now]}")


def frozen_names(model: "Model") -> list[str]:
    """Return the names of a model's frozen parameters."""
    return list(model.memory.frozen)


def _on_host(arrays: Mapping[str, Any]) -> Tree:
    return {name: np.array(to_host(array)) for name, array in arrays.items()}


def _frozen(model: "Model") -> Tree:
    return {name: array for name, array in model.memory.untrained.items() if name not in model.buffers}


def _of_networks(model: "Model", saved: Mapping[str, Any]) -> Iterator[str]:
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
