"""Methods of `Memory` that copy its values out and in: states, weights and pickles."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.device import Device, active, available, device_of, namespace, on_device, to_device, to_host
from sknet.engine.state._layout import Arrays
from sknet.engine.state._state import ModelState, Weights, check_state, frozen, thawed
from sknet.engine.state._weights import arranged
from sknet.exceptions import DeviceError, DeviceWarning, StateError
from sknet.nn.extend import copy_with
from sknet.optim import BaseOptimizer, OptimizerState
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.engine.state._memory import Memory

__all__ = [
    "copied_slots",
    "given",
    "holding",
    "load",
    "pickled",
    "restore_weights",
    "state",
    "unpickle",
    "weights",
]

Slots = dict[str, Any]


def state(
    self: "Memory", flat: Any, slots: Mapping[str, Any], buffers: Mapping[str, Any], progress: Progress
) -> ModelState:
    """Return an immutable state of arrays that nothing else writes to."""
    for array in (flat, *slots.values()):
        frozen(array)
    kept = {name: frozen(array.copy()) for name, array in buffers.items()}
    optimizer = OptimizerState(progress.step, dict(slots))
    return ModelState(Arrays(self.layout, flat), optimizer, MappingProxyType(kept), progress)


def given(self: "Memory") -> tuple[Any, Slots]:
    """Return parameters and slots for a state that takes this memory over."""
    if self._flat is not None:
        return self._flat, self.slots
    arrays = [self._held, *self.slots.values()]
    if not all(map(thawed, arrays)):
        return self.packed(), self.copied_slots()
    return self._held, self.slots


def copied_slots(self: "Memory") -> Slots:
    """Return a copy of the optimizer's state."""
    return {name: array.copy() for name, array in self.slots.items()}


def load(self: "Memory", state: ModelState) -> None:
    """Copy a state's values; a StateError is raised before anything changes."""
    check_state(state, self.layout, self.slots, self.buffers)
    self.layout.fill(self.flat_to_write(), state.parameters)
    for name, array in state.optimizer.slots.items():
        self.slots[name][...] = array
    self.set_buffers({name: array.copy() for name, array in state.buffers.items()})
    self.note_written("Model.load")


def weights(self: "Memory", optimizer: BaseOptimizer | None) -> Weights:
    """Return a copy of all that predictions depend on, including the slots of averages."""
    averages = () if optimizer is None else optimizer.averaging
    buffers = {name: array.copy() for name, array in self.buffers.items()}
    slots = {name: self.slots[name].copy() for name in averages}
    frozen = {name: parameter.data for name, parameter in self.frozen.items()}
    return Weights(self.packed(), buffers, slots, self.layout, frozen)


def restore_weights(self: "Memory", weights: Weights) -> None:
    """Restore what `weights` returned, also after parameters were frozen or unfrozen."""
    flat, layout = self.flat_to_write(), weights.layout
    if layout is not None and layout.shapes != self.layout.shapes:
        weights = arranged(self, weights, layout)
    flat[...] = weights.flat
    for name, array in weights.slots.items():
        self.slots[name][...] = array
    self.set_buffers(weights.buffers)
    self.note_written("Model.restore_weights")


def holding(self: "Memory", state: ModelState) -> "Memory":
    """Return a memory with a copy of the module that reads a state's arrays."""
    check_state(state, self.layout, self.slots, self.buffers)
    for name, array in state.parameters.items():
        if array.dtype != self.dtype or device_of(array) != self.device:
            raise StateError(
                f"{name!r} is {array.dtype} on {device_of(array)}, this model computes in {self.dtype} "
                f"on {self.device}: `load` converts, `replace` takes the arrays as they are"
            )
    other = type(self).__new__(type(self))
    own = {"is_spent": False, "_resting": dict(self._resting), "take_data": (None, []), "shown": None}
    other.__dict__.update(self.__dict__, **own)
    other._flat = other._average = None
    held = state.parameters
    whole = isinstance(held, Arrays) and held.layout.shapes == self.layout.shapes
    other._held = held.flat if whole else None  # type: ignore[attr-defined]
    arrays = {parameter: state.parameters[name] for name, parameter in self.leaves.items()}
    # Frozen parameters can be assigned new values, so each model needs its own arrays.
    arrays.update({p: p.data if self.is_spent else p.data.copy() for p in self.frozen.values()})
    other.module = copy_with(self.module, arrays)
    _find(other)
    other.slots = dict(state.optimizer.slots)
    other.set_buffers(state.buffers)
    return other


def _find(memory: "Memory") -> None:
    """Own the module's parameters without moving them."""
    own = dict(memory.module.own_parameters())
    memory.leaves = {name: own[name] for name in memory.leaves}
    memory.frozen = {name: own[name] for name in memory.frozen}
    for parameter in own.values():
        parameter.settle(memory, parameter.data)


@on_device
def pickled(self: "Memory") -> dict[str, Any]:
    """Return what a pickle stores: every array once, on the host, and no slots that are still zero."""
    blank = {parameter: np.empty(0, self.dtype) for parameter in self.leaves.values()}
    skeleton = copy_with(self.module, blank)  # the values are in the flat buffer
    skeleton.to(device="cpu")
    slots = {name: None if _is_blank(array) else to_host(array) for name, array in self.slots.items()}
    resting = {
        name: {slot: to_host(array) for slot, array in kept.items()} for name, kept in self._resting.items()
    }
    state = {**self.__dict__, "module": skeleton, "slots": slots, "_resting": resting}
    state["_flat"] = to_host(self.packed())
    left_out = {"_average", "_held", "mark", "shown", "looked", "n_outputs", "take_data", "scheduled"}
    left_out |= {"leaves", "frozen"}
    return {name: value for name, value in state.items() if name not in left_out}


def unpickle(self: "Memory", state: dict[str, Any]) -> None:
    """Restore what `pickled` returned, on the CPU if the device does not exist here."""
    flat, slots, resting = state["_flat"], state["slots"], state["_resting"]
    self.__dict__.update(state)
    try:
        self.device = available(self.device)
    except DeviceError as error:
        warnings.warn(f"{error}; the model computes on the CPU instead", DeviceWarning, stacklevel=2)
        self.device = Device("cpu")
    self.module.to(device=self.device)
    with active(self.device):
        # Everything is copied: joblib passes large arrays to its workers as read-only memory maps.
        found = dict(self.module.own_parameters())
        for _, tensor in (*found.items(), *self.module.named_buffers()):
            tensor.data = to_device(np.array(to_host(tensor.data)), self.device)
        for name, view in self.layout.views(to_device(flat, self.device)).items():
            found[name].data = view
        self.leaves, self.frozen, self.slots, self._resting = {}, {}, {}, {}
        self._arrange(found, ())
        self.slots = {
            name: self.zeros() if array is None else to_device(np.array(array), self.device)
            for name, array in slots.items()
        }
        self._resting = {
            name: {slot: to_device(np.array(array), self.device) for slot, array in kept.items()}
            for name, kept in resting.items()
        }


def _is_blank(array: Any) -> bool:
    """Tell whether all bits of slots are zero, their initial state, which a pickle can leave out."""
    return not bool(namespace(array).any(array.view(f"u{array.dtype.itemsize}")).item())
