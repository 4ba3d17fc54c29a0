"""A model's arrays: parameters in one flat buffer, optimizer slots of the same layout, and buffers."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
from numpy.random import RandomState

from sknet.core import Tensor, note_write
from sknet.device import Device, active, backend, is_array, to_device
from sknet.engine.state import _memory_copies as copies
from sknet.engine.state._average import averaged, same_bits
from sknet.engine.state._layout import Layout
from sknet.engine.state._ownership import check_free
from sknet.exceptions import StateError
from sknet.nn import Module, Parameter
from sknet.nn.extend import convert, latest
from sknet.optim import BaseOptimizer

__all__ = ["Memory"]

Slots = dict[str, Any]


class Memory:
    """A module's parameters and buffers, and the optimizer's slots, on one device; the parameters' `Home`."""

    is_spent = False
    shown: object = None
    looked = False
    n_outputs: int | None = None
    take_data: tuple[object, list[Any]] = (None, [])
    scheduled: tuple[object, list[tuple[str, Any]]] = (None, [])

    def __init__(
        self, module: Module, dtype: Any, device: Device, slots: Iterable[str], key: tuple[int, int]
    ) -> None:
        self.module, self.dtype, self.device, self.key = module, dtype, device, key
        self.slots: Slots = {}
        self.leaves: dict[str, Parameter] = {}
        self.frozen: dict[str, Parameter] = {}
        self._resting: dict[str, Slots] = {}  # slots of frozen parameters that were trained before
        self._held: Any = None  # the flat buffer of a state whose arrays are read
        self._average: tuple[Any, Any] | None = None
        names = tuple(slots)
        self._arrange(dict(module.own_parameters()), names)

    # -- the parameters -----------------------------------------------------------------------------

    def _arrange(self, found: Mapping[str, Parameter], slots: Iterable[str]) -> None:
        """Copy parameters into a flat buffer, of which they become views; slots follow their parameters."""
        check_free(found, self)
        mark = latest.structure
        before = self._slots_by_parameter()
        left = [p for p in (*self.leaves.values(), *self.frozen.values()) if p.home is self]
        leaves = {name: p for name, p in found.items() if p.requires_grad}
        layout = Layout({name: tuple(p.shape) for name, p in leaves.items()})
        flat, kept = self._zeros(layout), {slot: self._zeros(layout) for slot in slots}
        if before:
            _carry_over(before, {id(leaves[name]): part for name, part in layout.slices.items()}, kept)
        still = {id(p) for p in found.values()}
        for parameter in left:
            if id(parameter) not in still:
                parameter.settle(None, parameter.data.copy())
        for name, view in layout.views(flat).items():
            view[...] = leaves[name].data
            leaves[name].settle(self, view)
        self.frozen = {name: p for name, p in found.items() if name not in leaves}
        for parameter in self.frozen.values():
            parameter.settle(self, parameter.data.copy())
        self._resting = {name: before[id(p)] for name, p in self.frozen.items() if id(p) in before}
        self.leaves, self.layout, self._flat, self.slots = leaves, layout, flat, kept
        self._buffer_names = [name for name, _ in self.module.named_buffers()]
        self.has_buffers = bool(self._buffer_names)
        self._held = self._average = None
        self.mark = mark

    def _slots_by_parameter(self) -> dict[int, Slots]:
        """Return copies of the slots of each parameter, by the parameter's id."""
        if not self.slots:
            return {}
        found = {id(self.frozen[name]): slots for name, slots in self._resting.items()}
        views = {slot: self.layout.views(buffer) for slot, buffer in self.slots.items()}
        for name, parameter in self.leaves.items():
            found[id(parameter)] = {slot: parts[name].copy() for slot, parts in views.items()}
        return found

    def follow(self, random_state: RandomState) -> bool:
        """Lay out parameters again if some were added, removed, frozen or unfrozen."""
        mark = latest.structure
        found = dict(self.module.own_parameters())
        if self._is_arranged_for(found):
            self.mark = mark
            return False
        check_free(found, self)
        new = [p for p in found.values() if p.home is None]
        for tensor in (*new, *self.module.buffers()):
            convert(tensor, self.dtype, self.device)
        for parameter in new:
            parameter.draw(random_state)
        self._arrange(found, list(self.slots))
        return True

    def _is_arranged_for(self, found: Mapping[str, Parameter]) -> bool:
        if len(found) != len(self.leaves) + len(self.frozen):
            return False
        if self._buffer_names != [name for name, _ in self.module.named_buffers()]:
            return False
        if [name for name, p in found.items() if p.requires_grad] != list(self.leaves):
            return False
        known = self.known
        return all(known.get(name) is p for name, p in found.items())

    def begin_slots(self, names: Iterable[str]) -> None:
        """Reset the optimizer's state."""
        self._average = None
        self._resting = {}
        self.slots = {name: self.zeros() for name in names}

    @property
    def resting(self) -> Mapping[str, Mapping[str, Any]]:
        """The optimizer's state of frozen parameters that were trained before, by parameter and slot."""
        return MappingProxyType(self._resting)

    def rest(self, slots: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the optimizer's state of frozen parameters, used once they are unfrozen."""
        self._resting = {name: dict(kept) for name, kept in slots.items() if name in self.frozen}

    @property
    def slot_names(self) -> tuple[str, ...]:
        """Names of the optimizer's slots."""
        return tuple(self.slots)

    def zeros(self) -> Any:
        """Return a flat buffer of zeros."""
        return self._zeros(self.layout)

    def _zeros(self, layout: Layout) -> Any:
        return backend(self.device.kind).zeros((layout.size,), self.dtype, self.device)

    @property
    def known(self) -> dict[str, Parameter]:
        """Every parameter by name, frozen ones last."""
        return {**self.leaves, **self.frozen}

    @property
    def known_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all parameters, since options of frozen ones apply once they are unfrozen."""
        return {name: parameter.shape for name, parameter in self.known.items()}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every trained parameter by name."""
        return MappingProxyType({name: p.data for name, p in self.leaves.items()})

    @property
    def buffers(self) -> Mapping[str, Any]:
        """Every buffer by name."""
        return MappingProxyType(self._buffer_arrays())

    def _buffer_arrays(self) -> dict[str, Any]:
        return {name: b.data for name, b in self.module.named_buffers()} if self.has_buffers else {}

    @property
    def untrained(self) -> dict[str, Any]:
        """Every buffer and frozen parameter by name: all that a pass reads besides the flat buffer."""
        found = self._buffer_arrays()
        found.update({name: p.data for name, p in self.frozen.items()})
        return found

    def set_buffers(self, values: Mapping[str, Any]) -> None:
        """Replace buffers; also called after every step that was made in place."""
        self._average = None
        for path, value in values.items():
            owner, _, name = path.rpartition(".")
            module = self.module
            for part in filter(None, owner.split(".")):
                module = getattr(module, part)
            module._buffers[name] = Tensor(value)

    @property
    def flat(self) -> Any:
        """The flat buffer; None while the parameters are a state's own arrays."""
        return self._flat

    def flat_to_write(self) -> Any:
        """Return the flat buffer; read-only arrays of a state are copied first."""
        self._average = None  # stale after a write
        if self._flat is None:
            found = self.known
            order = [name for name, _ in self.module.own_parameters()]
            self._arrange({name: found[name] for name in order}, list(self.slots))
        return self._flat

    def flat_buffers(self) -> tuple[Any, Slots]:
        """Return the buffers of parameters and optimizer state, for code that trains in place."""
        return self.flat_to_write(), self.slots

    def move(self, flat: Any, slots: Slots, frozen: Mapping[str, Any]) -> None:
        """Keep parameters and slots in other arrays from now on."""
        flat[...], before = self.flat_to_write(), self.slots
        for name, slot in slots.items():
            slot[...] = before[name]
        for name, parameter in self.frozen.items():
            frozen[name][...] = parameter.data
            parameter.settle(self, frozen[name])
        for name, view in self.layout.views(flat).items():
            self.leaves[name].settle(self, view)
        self._flat, self.slots = flat, slots

    def workspace(self) -> tuple[Any, Any]:
        """Return two flat buffers for gradient and update."""
        return self.zeros(), self.zeros()

    def packed(self) -> Any:
        """Return a copy of all parameters in one flat buffer."""
        if self._flat is not None:
            return self._flat.copy()
        flat = self.zeros()
        self.layout.fill(flat, self.parameters)
        return flat

    def averaged(self, optimizer: BaseOptimizer) -> Any:
        """Return the flat parameters that an averaging `optimizer` predicts with, computed once per step."""
        if self._average is not None:
            average, of = self._average
            # Arrays of the module may have been written to; a state's arrays are read-only.
            if self._flat is None or same_bits(self._flat, of):
                return average
        flat = self.packed()
        average = averaged(optimizer, self.layout, flat, self.slots)
        self._average = average, flat
        return average

    def predicting(self, optimizer: BaseOptimizer | None) -> Mapping[str, Any]:
        """Return the parameters used for predictions, by name: averages, if the optimizer keeps some."""
        found = self.parameters if optimizer is None else self.layout.views(self.averaged(optimizer))
        if not self.frozen:
            return MappingProxyType(dict(found))
        known = {**found, **{name: p.data for name, p in self.frozen.items()}}
        return MappingProxyType({name: known[name] for name, _ in self.module.own_parameters()})

    # -- the interface `Home` ------------------------------------------------------------------------

    def write(self, parameter: Parameter, values: Any) -> None:
        """Write new values of a parameter, of its shape, converted to this memory's dtype and device."""
        array = values.data if isinstance(values, Tensor) else values
        array = array if is_array(array) else np.asarray(array)
        if tuple(array.shape) != parameter.shape:
            raise StateError(
                f"a Model owns parameter {self._name_of(parameter)!r}, of shape {parameter.shape}: values of "
                f"shape {tuple(array.shape)} cannot be written to it. For another shape, assign a new "
                "nn.Parameter or replace the module"
            )
        if array.dtype.kind not in "biuf":
            raise StateError(
                f"a Model owns parameter {self._name_of(parameter)!r}, of dtype {self.dtype}: values of "
                f"dtype {array.dtype} cannot be written to it"
            )
        target = self.writable(parameter)
        with active(self.device):
            target[...] = to_device(array, self.device)
        note_write(target)

    def writable(self, parameter: Parameter) -> Any:
        """Return the array of a parameter, for writing."""
        if self.is_spent:
            self.refuse_spent()
        with active(self.device):
            self.flat_to_write()
        return parameter.data

    def check_move(self, dtype: "np.dtype[Any] | None", device: Device | None) -> None:
        """Raise a StateError unless the memory has this dtype and is on this device; None allows any."""
        changes_dtype = dtype is not None and dtype != self.dtype
        if changes_dtype or (device is not None and device != self.device):
            wanted = " and ".join(str(part) for part in (dtype, device) if part is not None)
            raise StateError(
                f"a Model owns this module and computes in {self.dtype} on {self.device}: it cannot be moved "
                f"to {wanted}. Create another model, Model(module, dtype=..., device=...), or move a copy, "
                "module.copy().to(...)"
            )

    def _name_of(self, parameter: Parameter) -> str:
        return next((name for name, each in self.known.items() if each is parameter), "?")

    def refuse_spent(self) -> NoReturn:
        """Raise a StateError: this memory belongs to a state."""
        raise StateError(
            "this model's memory was given to the state that update(donate=True) returned: continue with "
            "model.replace(state)"
        )

    def note_written(self, by: str) -> None:
        """Notify the tape that parameters were overwritten, and by what."""
        if self._flat is not None:
            note_write(self._flat, by)

    # -- copies -------------------------------------------------------------------------------------

    state = copies.state
    given = copies.given
    copied_slots = copies.copied_slots
    load = copies.load
    weights = copies.weights
    restore_weights = copies.restore_weights
    holding = copies.holding
    __getstate__ = copies.pickled
    __setstate__ = copies.unpickle


def _carry_over(before: Mapping[int, Slots], places: Mapping[int, slice], kept: Slots) -> None:
    """Write what slots held for parameters, given by their ids, to new slots."""
    for number, part in places.items():
        for slot, values in before.get(number, {}).items():
            if slot in kept:
                kept[slot][part] = values.reshape(-1)
