"""The choice of a fit's runner, and runners kept for later fits."""

import os
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from sknet._config import native_core
from sknet._parallel import Threads
from sknet.engine._batches import Batches, ComputedRows
from sknet.engine._fingerprint import structure_of
from sknet.engine._inputs import any_sparse
from sknet.engine._model_type import ModelLike
from sknet.engine._runners import Block, CompiledSteps, EagerSteps, Outputs, Steps
from sknet.engine._scheduler import Idle, current_group
from sknet.engine._step import not_compiled
from sknet.exceptions import CaptureError, GraphError
from sknet.optim.schedules import Progress

__all__ = ["KeptSteps", "SharedSteps", "kept_steps", "shared_steps", "steps_for"]


def steps_for(
    model: ModelLike,
    batches: Batches,
    check_finite: bool,
    buffers: tuple[Any, dict[str, Any]] | None = None,
) -> Steps:
    """Return the fastest steps that are possible."""
    if not model.compile or (model.device.kind != "cpu" and any_sparse(batches.X)):
        return EagerSteps(model, batches, check_finite)
    try:
        if model.device.kind != "cpu":
            from sknet.engine._device_runner import DeviceSteps  # the host does without it

            return DeviceSteps(model, batches, check_finite)
        return _compiled_steps(model, batches, check_finite, buffers)
    except (CaptureError, GraphError) as error:
        if model.compile is True:
            raise
        not_compiled(error, stacklevel=4)
        return EagerSteps(model, batches, check_finite)


def _compiled_steps(model: ModelLike, batches: Batches, check_finite: bool, buffers: Any) -> CompiledSteps:
    inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
    if native_core() is not None and all(isinstance(x, (np.ndarray, ComputedRows)) for x in inputs):
        from sknet.engine._runners import NativeSteps  # which NumPy's plan does without

        return NativeSteps(model, batches, check_finite, buffers)
    return CompiledSteps(model, batches, check_finite, buffers)


class KeptSteps:
    """The compiled steps of the last part, bound to the model's memory, without its rows."""

    def __init__(self) -> None:
        self._steps: CompiledSteps | None = None
        self._known: CompiledSteps | None = None  # steps whose code is all sknet's, as long as they hold
        self._form: Hashable = None

    def take(self, batches: Batches, how: Hashable) -> Steps | None:
        """Return the kept steps for these rows, if there are any; the loop looks whether they hold."""
        steps, self._steps = self._steps, None  # if anything fails from here on, none are kept
        before, self._form = self._form, _form_of_part(batches, how)
        if steps is None or before != self._form:
            self._known = None
            return None
        steps.rebind(batches)
        return steps

    def keep(self, model: ModelLike, steps: Steps) -> None:
        """Keep steps for the next part, if they can be; they are for the rows of the last `take`."""
        if not isinstance(steps, CompiledSteps):
            return
        if steps is not self._known:
            structure = structure_of(model.module, model.loss_function, model.optimizer)
            self._known = None if structure is None else steps
        if self._known is not None and self._form is not None:
            steps.release()
            self._steps = steps


def kept_steps(model: ModelLike) -> KeptSteps:
    """Return a model's kept steps; copies and pickles have none."""
    kept: KeptSteps | None = model._kept_steps
    if kept is None:
        kept = model._kept_steps = KeptSteps()
    return kept


def _form_of_part(batches: Batches, how: Hashable) -> Hashable:
    """Return all that steps depend on besides the model; None unless the rows are all of a dense array."""
    X, weight = batches.X, batches.weight
    arrays = (X, batches.y) if weight is None else (X, batches.y, weight)
    if batches.chosen is not None or any(type(x) is not np.ndarray for x in arrays):
        return None
    forms = [(x.shape, x.strides, x.dtype, x.flags.aligned) for x in arrays]
    return batches.size, batches.input_dtype, how, *forms


MOST_PARAMETERS = 1 << 16  # above it, a fit is long and copies are not free
# A fit of no group leaves its steps to the next one, if that saves more time than copies take, and needs
# little memory.
MOST_PARAMETERS_ALONE = 1 << 14
MOST_EPOCHS_ALONE = 100
MOST_BYTES_ALONE = 1 << 22
ALONE = Idle(4)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=ALONE.forget)


class SharedSteps(Steps):
    """Compiled steps on memory of their own, into which a model's is copied for a block of steps."""

    def __init__(self, form: Hashable, model: ModelLike, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        flat, slots = model.memory.flat_buffers()
        self.form = form
        self._flat, self._slots = flat.copy(), {name: slot.copy() for name, slot in slots.items()}
        self._steps = steps_for(model, batches, check_finite, (self._flat, self._slots))

    @property
    def name(self) -> str:
        return self._steps.name

    @property
    def threads_needed(self) -> Threads:
        return self._steps.threads_needed

    def lend(self, model: ModelLike, batches: Batches) -> None:
        """Go on with another model of the same structure."""
        assert isinstance(self._steps, CompiledSteps)
        self.model, self.batches = model, batches
        self._steps.lend(model, batches)

    def give_back(self) -> None:
        """Let other fits use these steps, unless this one has changed what they are made of."""
        steps = self._steps
        if not isinstance(steps, CompiledSteps) or steps.draws or not steps.hold():
            return
        if current_group() is None and steps.nbytes > MOST_BYTES_ALONE:
            return
        steps.let_go()
        del self.batches, self.model
        _idle_steps().give_back(self.form, self)

    def hold(self) -> bool:
        return self._steps.hold()

    def epochs_at_once(self, most: int) -> int:
        return self._steps.epochs_at_once(most)

    def run_epochs(self, orders: np.ndarray, progress: Sequence[Progress], scored: bool) -> tuple[Any, Any]:
        with self._lent():
            return self._steps.run_epochs(orders, progress, scored)

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        if not isinstance(self._steps, CompiledSteps):
            return self._steps.run(order, first, most, outputs)
        with self._lent():
            return self._steps.run(order, first, most, outputs)

    @contextmanager
    def _lent(self) -> Iterator[None]:
        """Copy parameters and slots of the model to these steps, and back."""
        flat, slots = self.model.memory.flat_buffers()
        _copy(flat, slots, self._flat, self._slots)
        try:
            yield
        finally:
            _copy(self._flat, self._slots, flat, slots)


def _copy(flat: Any, slots: Mapping[str, Any], to_flat: Any, to_slots: Mapping[str, Any]) -> None:
    to_flat[...] = flat
    for name, slot in slots.items():
        to_slots[name][...] = slot


def shared_steps(
    model: ModelLike, batches: Batches, check_finite: bool, planned: int, how: Hashable
) -> SharedSteps | None:
    """Return steps that fits of a group share, or that one fit leaves to the next; None if it has its own."""
    size = model.memory.layout.size
    if current_group() is None and (
        size > MOST_PARAMETERS_ALONE or planned > MOST_EPOCHS_ALONE * batches.n_batches
    ):
        return None
    known = None if size > MOST_PARAMETERS else _form_of(model, batches)
    if known is None:
        return None
    form = known, how
    found: SharedSteps | None = _idle_steps().take(form)
    if found is None:
        return SharedSteps(form, model, batches, check_finite)
    found.lend(model, batches)
    return found


def _idle_steps() -> Idle:
    """Return what this fit takes steps from, and leaves them to: its group's, or that of fits of no group."""
    group = current_group()
    return ALONE if group is None else group.idle


def _form_of(model: ModelLike, batches: Batches) -> Hashable | None:
    """Return everything that steps depend on, except values; None if they cannot be shared."""
    if not model.compile or model.device.kind != "cpu":
        return None
    memory = model.memory
    if set(memory.untrained) - set(model.buffers):
        return None
    inputs = batches.X if isinstance(batches.X, dict) else {None: batches.X}
    arrays = [*inputs.values(), batches.y, *([] if batches.weight is None else [batches.weight])]
    if any(type(array) is not np.ndarray for array in arrays):
        return None
    optimizer = model.optimizer.in_steps()
    known = structure_of(model.module, model.loss_function, bool(model.alpha), optimizer)
    if known is None:
        return None
    return (
        known,
        tuple(memory.layout.shapes.items()),
        tuple(optimizer.hyper(1, model.progress)),
        memory.slot_names,
        model.dtype,
        (batches.size, batches.n_batches, str(batches.input_dtype), tuple(inputs)),
        tuple([_layout_of(array) for array in arrays]),
    )


def _layout_of(array: np.ndarray) -> Hashable:
    return array.shape[1:], array.strides, array.dtype, array.flags.aligned, array.flags.writeable
