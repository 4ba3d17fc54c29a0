"""The arrays behind a model: parameters in one flat buffer, optimizer state, buffers; and its interface."""

import math
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.random import RandomState

from sknet._warnings import warn_caller
from sknet.core import Tensor, no_grad, note_write
from sknet.device import (
    Device,
    Stream,
    active,
    available,
    backend,
    device_of,
    is_array,
    namespace,
    on_device,
    to_device,
    to_host,
)
from sknet.engine._inputs import arguments, each_input
from sknet.exceptions import DeviceError, DeviceWarning, StateError
from sknet.nn import Module, Parameter
from sknet.nn._lazy import materialize_for
from sknet.nn._module import copy_with
from sknet.nn._parameter import convert, latest
from sknet.optim import BaseOptimizer, OptimizerState
from sknet.optim.schedules import Progress

MOST = 6  # arrays that are listed


def shapes(arrays: Mapping[str, Any]) -> str:
    """Return the names and shapes of arrays as text, the first few of many."""
    named = [f"{name!r}: {tuple(array.shape)}" for name, array in list(arrays.items())[:MOST]]
    left_out = len(arrays) - len(named)
    return "{" + ", ".join(named + [f"... {left_out} more"] * (left_out > 0)) + "}"


ALIGNMENT = 16  # elements: every parameter starts on a new cache line, also in float32


class Layout:
    """The offset of every parameter in a flat buffer."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.shapes = dict(shapes)
        self.slices: dict[str, slice] = {}
        start = 0
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            self.slices[name] = slice(start, stop)
            start = -(-stop // ALIGNMENT) * ALIGNMENT
        self.size = start

    def views(self, flat: Any) -> dict[str, Any]:
        return {name: _shaped(flat[part], self.shapes[name]) for name, part in self.slices.items()}

    def fill(self, flat: Any, values: Mapping[str, Any]) -> None:
        """Copy arrays by name to their offsets in `flat`."""
        self.check(values)
        for name, part in self.slices.items():
            flat[part] = values[name].reshape(-1)

    def check(self, values: Mapping[str, Any]) -> None:
        """Raise a StateError unless `values` has exactly the parameters, in their shapes."""
        if set(values) != set(self.shapes):
            raise StateError(f"expected arrays for exactly {sorted(self.shapes)}, got {sorted(values)}")
        for name, shape in self.shapes.items():
            if tuple(values[name].shape) != shape:
                raise StateError(f"{name!r} must have shape {shape}, got {tuple(values[name].shape)}")


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    return part if len(shape) == 1 else part.reshape(shape)


class Arrays(Mapping[str, Any]):
    """An array for every parameter, by name, all in one flat buffer."""

    def __init__(self, layout: Layout, flat: Any) -> None:
        self.layout = layout
        self.flat = flat
        self._views = layout.views(flat)

    def __getitem__(self, name: str) -> Any:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shapes(self._views)})"


class Gradient(Arrays):
    """The gradient of a loss: an array for every parameter, by name, all in one flat buffer.

    Parameters
    ----------
    layout : Layout
        Offsets of the arrays.
    flat : array of shape (layout.size,)
        The buffer.
    buffers : mapping of str to array
        New values of the modules' buffers (running means, ...) if this gradient is applied.

    Examples
    --------
    >>> import numpy as np
    >>> gradient = Gradient(Layout({"weight": (2,)}), np.arange(16.0), {})
    >>> gradient["weight"]
    array([0., 1.])
    """

    def __init__(self, layout: Layout, flat: Any, buffers: Mapping[str, Any]) -> None:
        super().__init__(layout, flat)
        self.buffers = dict(buffers)


class ModelState(NamedTuple):
    """All state that a training step changes, as immutable values.

    Attributes
    ----------
    parameters : mapping of str to array
        Read-only arrays.
    optimizer : OptimizerState
        Update count, and flat arrays by slot name.
    buffers : mapping of str to array
        Read-only arrays.
    progress : Progress
        Steps, epochs and samples so far.

    Examples
    --------
    >>> from sknet import Model, nn
    >>> state = Model(nn.Linear(2, 1), loss="squared_error", random_state=0).state
    >>> sorted(state.parameters), state.progress.step
    (['bias', 'weight'], 0)
    """

    parameters: Mapping[str, Any]
    optimizer: OptimizerState
    buffers: Mapping[str, Any]
    progress: Progress

    def __reduce__(self) -> tuple[Any, ...]:
        optimizer = OptimizerState(self.optimizer.count, _on_host(self.optimizer.slots))
        return _rebuilt, (_on_host(self.parameters), optimizer, _on_host(self.buffers), self.progress)

    def __repr__(self) -> str:
        slots = ", ".join(self.optimizer.slots)
        parts = f"parameters={shapes(self.parameters)}, buffers={shapes(self.buffers)}"
        return f"ModelState({parts}, optimizer=<slots {slots}>, {self.progress})"


def _on_host(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_host(array) for name, array in arrays.items()}


def _rebuilt(
    parameters: dict[str, Any], optimizer: OptimizerState, buffers: dict[str, Any], progress: Progress
) -> ModelState:
    """Return an unpickled state, with mappings and arrays made read-only again."""
    for array in (*parameters.values(), *optimizer.slots.values(), *buffers.values()):
        frozen(array)
    return ModelState(MappingProxyType(parameters), optimizer, MappingProxyType(buffers), progress)


def check_state(
    state: ModelState, layout: Layout, slots: Mapping[str, Any], buffers: Mapping[str, Any]
) -> None:
    """Raise a StateError unless a state has the same names and shapes as a model."""
    layout.check(state.parameters)
    if set(state.optimizer.slots) != set(slots):
        raise StateError(
            f"the state was made by an optimizer with the slots {sorted(state.optimizer.slots)}, this one "
            f"keeps {sorted(slots)}: states can be loaded only by models with the same class of optimizer"
        )
    for kind, mine, theirs in (("slot", slots, state.optimizer.slots), ("buffer", buffers, state.buffers)):
        if set(mine) != set(theirs):
            raise StateError(f"expected {kind}s for exactly {sorted(mine)}, got {sorted(theirs)}")
        for name, array in mine.items():
            if tuple(theirs[name].shape) != tuple(array.shape):
                raise StateError(
                    f"{kind} {name!r} must have shape {tuple(array.shape)}, got {tuple(theirs[name].shape)}"
                )


class Weights(NamedTuple):
    """All that a model's predictions depend on."""

    flat: Any
    buffers: Mapping[str, Any]
    slots: Mapping[str, Any]
    layout: Layout | None = None
    frozen: Mapping[str, Any] = {}

    def trained_by(self, names: Iterable[str], thawed: Mapping[str, Any]) -> "Weights":
        """Return weights for another set of trained parameters of the same network."""
        mine = {} if self.layout is None else self.layout.views(self.flat)
        known = {**self.frozen, **mine}
        layout = Layout({name: tuple(known[name].shape) for name in names})
        others = {name: array for name, array in known.items() if name not in layout.shapes}
        return self._replace(layout=layout, frozen={**others, **thawed})


class StepResult(NamedTuple):
    """The result of one training step.

    Attributes
    ----------
    loss : float
        The objective before the update: mean loss of the batch plus penalty.
    gradient : Gradient
        Gradient of the objective, an array for every parameter name.
    update : mapping of str to array
        The change of every parameter.
    output : Tensor of shape (n_samples, n_outputs)
        The module's raw output before the update.
    data_loss, penalty : float
        The two terms of `loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Model, nn
    >>> model = Model(nn.Linear(2, 1), loss="squared_error", random_state=0)
    >>> result = model.step(np.ones((4, 2)), np.zeros((4, 1)))
    >>> result.loss == result.data_loss + result.penalty
    True
    """

    loss: float
    gradient: Gradient
    update: Mapping[str, Any]
    output: Tensor
    data_loss: float
    penalty: float

    def __reduce__(self) -> tuple[Any, ...]:
        return StepResult, (self.loss, self.gradient, dict(self.update), *self[3:])

    def __repr__(self) -> str:
        parts = f"gradient={self.gradient!r}, update={shapes(self.update)}"
        output = f"output=<{tuple(self.output.shape)} {self.output.dtype}>"
        terms = f"data_loss={self.data_loss:.6g}, penalty={self.penalty:.6g}"
        return f"StepResult(loss={self.loss:.6g}, {parts}, {output}, {terms})"


def copied_random_state(random_state: np.random.RandomState) -> np.random.RandomState:
    """Return an independent random state that draws the same numbers."""
    copy = np.random.RandomState()
    copy.set_state(random_state.get_state())
    return copy


def is_seeded(random_state: np.random.RandomState, seed: int) -> bool:
    """Tell whether a random state draws the numbers that a seed stands for, from the first."""
    (name, *found), (other, *fresh) = random_state.get_state(), np.random.RandomState(seed).get_state()
    return name == other and all(map(np.array_equal, found, fresh))


def frozen(array: Any) -> Any:
    """Make an array read-only, if its device supports that."""
    if isinstance(array, np.ndarray):
        array.flags.writeable = False
    return array


def thawed(array: Any) -> bool:
    """Make an array that was `frozen` writeable again; return whether that was possible."""
    if isinstance(array, np.ndarray):
        try:
            array.flags.writeable = True
        except ValueError:  # it does not own its memory, such as a read-only memory map
            return False
    return array is not None


class Epoch(NamedTuple):
    """The progress since the end of the last epoch."""

    began: int = 0
    rows: int = 0

    def seen(self, n_rows: int) -> "Epoch":
        return Epoch(self.began, self.rows + n_rows)

    def check_length(self, progress: Progress, n_steps: int | None) -> None:
        """Raise a StateError unless `n_steps` steps have been made in this epoch; None allows any number."""
        done = progress.step - self.began
        if n_steps is not None and done != n_steps:
            raise StateError(f"this epoch is not counted: it should have {n_steps} steps, but has {done}")

    def ended(self, progress: Progress, plateau: bool = False) -> Progress:
        """Return the progress after this epoch, which counts if a step was made in it."""
        if progress.step != self.began:
            progress = progress.epoch_ended(self.rows)
        return progress._replace(counts_epochs=True, reductions=progress.reductions + bool(plateau))


def arranged(memory: "Memory", weights: Weights, layout: Layout) -> Weights:
    """Return weights in the layout of the parameters trained now; restore those that are frozen now."""
    known = {**weights.frozen, **layout.views(weights.flat)}
    for name in memory.frozen.keys() & layout.shapes.keys():
        memory.frozen[name].data[...] = known[name]
    flat = memory.zeros()
    memory.layout.fill(flat, {name: known.get(name, p.data) for name, p in memory.leaves.items()})
    slots = {slot: memory.slots[slot].copy() for slot in weights.slots}
    for slot, array in weights.slots.items():
        mine = memory.layout.views(slots[slot])
        for name in mine.keys() - layout.shapes.keys():
            mine[name][...] = 0  # a frozen parameter had no average
        for name, kept in layout.views(array).items():
            target = mine.get(name, memory.resting.get(name, {}).get(slot))
            if target is not None:
                target[...] = kept
    return weights._replace(flat=flat, slots=slots)


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
    state = {**self.__dict__, "module": skeleton, "slots": slots, "_resting": resting, "key": self.key}
    state["_flat"] = to_host(self.packed())
    left_out = {"_average", "_held", "mark", "shown", "looked", "n_outputs", "take_data", "scheduled"}
    left_out |= {"leaves", "frozen", "stream"}
    return {name: value for name, value in state.items() if name not in left_out}


def unpickle(self: "Memory", state: dict[str, Any]) -> None:
    """Restore what `pickled` returned, on the CPU if the device does not exist here."""
    flat, slots, resting = state["_flat"], state["slots"], state["_resting"]
    self.__dict__.update(state)
    self.stream = Stream(self.__dict__.pop("key"))
    try:
        self.device = available(self.device)
    except DeviceError as error:
        warn_caller(f"{error}; the model computes on the CPU instead", DeviceWarning)
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


def averaged(optimizer: BaseOptimizer, layout: Layout, flat: Any, slots: Mapping[str, Any]) -> Any:
    """Return the flat parameters that an averaging optimizer predicts with."""
    named = {
        slot: {name: Tensor(view) for name, view in layout.views(slots[slot]).items()}
        for slot in optimizer.averaging
    }
    with no_grad():
        params = {name: Tensor(view) for name, view in layout.views(flat).items()}
        found = optimizer.averages(params, named)
    device = device_of(flat)
    whole = backend(device.kind).zeros(flat.shape, flat.dtype, device)
    layout.fill(whole, {name: value.data for name, value in found.items()})
    return whole


def same_bits(x: Any, y: Any) -> bool:
    """Tell whether two arrays of one dtype have the same bits."""
    bits = f"u{x.dtype.itemsize}"
    return bool(namespace(x).all(x.view(bits) == y.view(bits)).item())


def copy_of(module: Module) -> Module:
    """Return a copy of a module that shares only the arrays of its parameters."""
    known: dict[int, Any] = {}
    for each in module.modules():
        for parameter in each._parameters.values():
            if parameter.is_drawn and parameter.home is None:
                known[id(parameter.data)] = parameter.data  # the model's memory copies them
    try:
        return deepcopy(module, known)
    except TypeError as error:
        raise TypeError(
            f"a Model copies its module, but this {type(module).__name__} cannot be copied "
            f"({error}): pass copy=False to hand over the module itself"
        ) from error


def check_free(parameters: Mapping[str, Parameter], home: Any = None) -> None:
    """Raise a StateError if an owner other than `home` has one of the parameters."""
    for name, parameter in parameters.items():
        if parameter.home not in (None, home):
            raise StateError(
                f"parameter {name!r} belongs to another Model, which may still train it: give this one a "
                "copy of the module, module.copy(), or leave out copy=False"
            )


class Memory:
    """A module's parameters and buffers, and the optimizer's slots, on one device; the parameters' `Home`."""

    is_spent = False
    shown: object = None
    looked = False
    n_outputs: int | None = None
    take_data: tuple[object, list[Any]] = (None, [])
    scheduled: tuple[object, list[tuple[str, Any]]] = (None, [])

    def __init__(
        self, module: Module, dtype: Any, device: Device, slots: Iterable[str], stream: Stream
    ) -> None:
        self.module, self.dtype, self.device, self.stream = module, dtype, device, stream
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
        layout = Layout({name: tuple(p.data.shape) for name, p in leaves.items()})
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

    def refresh(self, random_state: RandomState) -> bool:
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
        return tuple(self.slots)

    def zeros(self) -> Any:
        return self._zeros(self.layout)

    def _zeros(self, layout: Layout) -> Any:
        return backend(self.device.kind).zeros((layout.size,), self.dtype, self.device)

    @property
    def key(self) -> tuple[int, int]:
        """Key of the random numbers that are drawn within steps."""
        return self.stream.key

    @property
    def known(self) -> dict[str, Parameter]:
        """Every parameter by name, frozen ones last."""
        return {**self.leaves, **self.frozen}

    @property
    def known_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all parameters, since options of frozen ones apply once they are unfrozen."""
        return {**self.layout.shapes, **{name: parameter.shape for name, parameter in self.frozen.items()}}

    @property
    def parameters(self) -> Mapping[str, Any]:
        return MappingProxyType({name: p.data for name, p in self.leaves.items()})

    @property
    def buffers(self) -> Mapping[str, Any]:
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

    state = state
    given = given
    copied_slots = copied_slots
    load = load
    weights = weights
    restore_weights = restore_weights
    holding = holding
    __getstate__ = pickled
    __setstate__ = unpickle


def _carry_over(before: Mapping[int, Slots], places: Mapping[int, slice], kept: Slots) -> None:
    """Write what slots held for parameters, given by their ids, to new slots."""
    for number, part in places.items():
        for slot, values in before.get(number, {}).items():
            if slot in kept:
                kept[slot][part] = values.reshape(-1)


class Pending:
    """Replaces the memory until the shapes of a lazy module are known."""

    is_spent = False

    def __init__(self, module: Module, device: Device) -> None:
        self.module, self.device = module, device

    @property
    def mark(self) -> object:
        """The latest structure: nothing depends on the module yet."""
        return latest.structure

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols of copy and pickle
            raise AttributeError(name)
        raise StateError(
            "this model's module is lazy and has no parameters before its first batch: call "
            "model.materialize(X), or start with a step"
        )


def begin(
    module: Module, dtype: Any, device: Device, slots: Iterable[str], random_state: RandomState
) -> Memory:
    """Return the memory of a module with known shapes, after drawing weights that have no values yet."""
    module.initialize(random_state)
    stream = Stream(random_state)
    with active(device):
        return Memory(module, dtype, device, slots, stream)


def give_shapes(module: Module, X: Any, dtype: Any) -> None:
    """Determine the shapes of a lazy module from a batch, or from its shape."""

    def example(x: Any) -> Any:
        return x if isinstance(x, tuple) or hasattr(x, "dtype") else np.asarray(x)

    materialize_for(module, arguments(each_input(example, X)), dtype)
