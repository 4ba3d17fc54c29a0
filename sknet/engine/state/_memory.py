"""Where a model keeps its numbers: parameters in one flat buffer, optimizer slots like it, and buffers."""

import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from sknet.core import Tensor
from sknet.device import Device, active, available, backend, device_of, on_device, to_device, to_host
from sknet.engine.state._average import evaluated
from sknet.engine.state._layout import Arrays, Layout
from sknet.engine.state._state import ModelState, check_state, frozen, thawed
from sknet.exceptions import DeviceError, DeviceWarning, StateError
from sknet.nn import Module
from sknet.optim import Optimizer, OptimizerState
from sknet.optim.schedules import Progress

__all__ = ["Memory", "Pending"]


class Pending:
    """What stands in a memory's place until the shapes of a lazy module are known.

    Parameters
    ----------
    module : Module
        A lazy one.
    device : Device
        Where the model will compute.
    """

    def __init__(self, module: Module, device: Device) -> None:
        self.module, self.device = module, device

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of copy and pickle
            raise AttributeError(name)
        raise StateError(
            "this model's module is lazy, and has no parameters before its first batch: call "
            "model.materialize(X), or begin with a step"
        )


class Memory:
    """A module's parameters and buffers, and the optimizer's slots, on one device.

    Parameters
    ----------
    module : Module
        Its parameters become views of the flat buffer.
    dtype : dtype
        Of the parameters.
    device : Device
        Of everything.
    slots : iterable of str
        Names of the optimizer's slots; they begin as zeros.

    Attributes
    ----------
    layout : Layout
        Where each parameter stands in the flat buffer.
    slots : dict of str to array of shape (layout.size,)
        The optimizer's state.
    leaves : dict of str to Parameter
        The module's trained parameters.

    Notes
    -----
    What `holding` returns reads a state's own, read-only arrays; it copies them before it is
    first written to. Pickles carry every number once, as the host's arrays.
    """

    def __init__(self, module: Module, dtype: Any, device: Device, slots: Iterable[str]) -> None:
        self.module, self.dtype, self.device = module, dtype, device
        self.slots: dict[str, Any] = {}
        self._evaluated: Any = None
        self._held: Any = None  # the flat buffer of a state whose arrays are read
        self._take_over({name: p.data for name, p in module.named_parameters() if p.requires_grad})
        self.begin_slots(slots)

    def _take_over(self, values: Mapping[str, Any]) -> None:
        """Copy the parameters into a flat buffer, and make the module's parameters views of it."""
        self.leaves = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        self.layout = Layout({name: tuple(array.shape) for name, array in values.items()})
        self._flat: Any = self.zeros()
        self.layout.fill(self._flat, values)
        for name, view in self.layout.views(self._flat).items():
            self.leaves[name].data = view
        self.has_buffers = any(True for _ in self.module.named_buffers())

    def begin_slots(self, names: Iterable[str]) -> None:
        """Make the optimizer's state anew."""
        self._evaluated = None
        self.slots = {name: self.zeros() for name in names}

    def zeros(self) -> Any:
        """Return a flat buffer of zeros."""
        return backend(self.device.kind).zeros((self.layout.size,), self.dtype, self.device)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Every trained parameter by name."""
        return MappingProxyType({name: p.data for name, p in self.leaves.items()})

    @property
    def buffers(self) -> Mapping[str, Any]:
        """Every buffer by name."""
        return MappingProxyType({name: b.data for name, b in self.module.named_buffers()})

    def set_buffers(self, values: Mapping[str, Any]) -> None:
        """Put arrays in the place of buffers; also told of every step that was made in place."""
        self._evaluated = None
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

    def writable(self) -> Any:
        """Return the flat buffer; read-only arrays of a state are copied first."""
        self._evaluated = None  # what predicts is computed anew after whatever is written now
        if self._flat is None:
            self._take_over(self.parameters)
            self.slots = {name: array.copy() for name, array in self.slots.items()}
        return self._flat

    def packed(self) -> Any:
        """Return a copy of all parameters in one flat buffer."""
        if self._flat is not None:
            return self._flat.copy()
        flat = self.zeros()
        self.layout.fill(flat, self.parameters)
        return flat

    def evaluated(self, optimizer: Optimizer) -> Any:
        """Return the flat parameters that an averaging `optimizer` predicts with, computed once a step."""
        if self._evaluated is None:
            flat = self.packed() if self._flat is None else self._flat
            self._evaluated = evaluated(optimizer, self.layout, flat, self.slots)
        return self._evaluated

    # -- states -----------------------------------------------------------------------------------

    def state(
        self, flat: Any, slots: Mapping[str, Any], buffers: Mapping[str, Any], progress: Progress
    ) -> ModelState:
        """Return an immutable state of arrays that nobody else writes to."""
        for array in (flat, *slots.values()):
            frozen(array)
        kept = {name: frozen(array.copy()) for name, array in buffers.items()}
        optimizer = OptimizerState(progress.step, dict(slots))
        return ModelState(Arrays(self.layout, flat), optimizer, MappingProxyType(kept), progress)

    def given(self) -> tuple[Any, dict[str, Any]]:
        """Return parameters and slots to be written to by whoever takes this memory over."""
        if self._flat is not None:
            return self._flat, self.slots
        arrays = [self._held, *self.slots.values()]
        if not all(map(thawed, arrays)):
            return self.packed(), self.copied_slots()
        return self._held, self.slots

    def copied_slots(self) -> dict[str, Any]:
        """Return the optimizer's state in arrays of its own."""
        return {name: array.copy() for name, array in self.slots.items()}

    def load(self, state: ModelState) -> None:
        """Copy a state's values; a StateError is raised before anything is changed."""
        check_state(state, self.layout, self.slots, self.buffers)
        self.layout.fill(self.writable(), state.parameters)
        for name, array in state.optimizer.slots.items():
            self.slots[name][...] = array
        self.set_buffers({name: array.copy() for name, array in state.buffers.items()})

    def holding(self, state: ModelState) -> "Memory":
        """Return a memory of a module like this one's, that reads a state's own arrays."""
        check_state(state, self.layout, self.slots, self.buffers)
        for name, array in state.parameters.items():
            if array.dtype != self.dtype or device_of(array) != self.device:
                raise StateError(
                    f"{name!r} is {array.dtype} on {device_of(array)}, this model computes in {self.dtype} "
                    f"on {self.device}: `load` converts, `replace` takes the arrays as they are"
                )
        other = Memory.__new__(Memory)
        other.__dict__.update(self.__dict__)
        other._flat = other._evaluated = None
        held = state.parameters
        whole = isinstance(held, Arrays) and held.layout.shapes == self.layout.shapes
        other._held = held.flat if whole else None  # type: ignore[attr-defined]
        other.module = self.module.copy()
        other.leaves = {name: p for name, p in other.module.named_parameters() if p.requires_grad}
        for name, array in state.parameters.items():
            other.leaves[name].data = array
        other.slots = dict(state.optimizer.slots)
        other.set_buffers(state.buffers)
        return other

    # -- pickling ---------------------------------------------------------------------------------

    @on_device
    def __getstate__(self) -> dict[str, Any]:
        skeleton = self.module.copy()
        for name, parameter in skeleton.named_parameters():
            if name in self.leaves:
                parameter.data = np.empty(0, self.dtype)  # its values are in the flat buffer
        skeleton.to(device="cpu")
        slots = {name: to_host(array) for name, array in self.slots.items()}
        state = {**self.__dict__, "module": skeleton, "slots": slots, "_flat": to_host(self.packed())}
        state["_evaluated"] = state["_held"] = None
        del state["leaves"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        try:
            self.device = available(self.device)
        except DeviceError as error:
            warnings.warn(f"{error}; the model computes on the CPU instead", DeviceWarning, stacklevel=2)
            self.device = Device("cpu")
        self.module.to(device=self.device)
        with active(self.device):
            # Everything is copied: joblib hands large arrays to its workers as read-only maps of a file.
            self._take_over(self.layout.views(to_device(state["_flat"], self.device)))
            self.slots = {name: to_device(np.array(array), self.device) for name, array in self.slots.items()}
