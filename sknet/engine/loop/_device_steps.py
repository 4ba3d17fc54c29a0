"""Training steps on a device: one program for the whole step, and one synchronisation for many steps."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.compile import Compiled
from sknet.compile import compile as compiled
from sknet.core import Tensor
from sknet.device import active, backend, device_of, namespace, to_device, to_host
from sknet.engine.loop._batches import Batches, take_rows
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import Block, EagerSteps, Steps
from sknet.engine.state import Fingerprint, each_input
from sknet.engine.step import (
    Batch,
    DeviceInputs,
    DeviceOutputs,
    advance,
    check_repeatable,
    follow_schedules,
    gradient_function,
    hyper_slots,
    per_output,
    update_function,
)

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["DeviceSteps"]

MOST_STEPS = 1024  # per block
SHARE = 16  # outputs that wait to be scored take at most this part of the memory that is free


class DeviceSteps(Steps):
    """Steps that run one after the other on the device, without the host waiting for any of them.

    Everything that changes is in the device's memory at fixed addresses: parameters, slots, buffers,
    the counter of the random stream, the optimizer's scalars and the batch. Each step checks on the
    device whether loss and gradient are finite. If not, it changes nothing, and neither does any later
    step; the host, which synchronises once per block, then repeats the failing step eagerly, to raise
    an error that names the parameter. (A false alarm, such as a sum of squares that overflows, passes
    there.)

    Parameters
    ----------
    model, batches, check_finite
        As for `Steps`. Dense inputs are copied to the device once, if they fit into half of its free
        memory. If a score reads the outputs, a block has as many steps as a sixteenth of the memory
        that is free then holds outputs of, and at least as many as a part that is scored at once.
    """

    def __init__(self, model: "Model", batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._optimizer = model.optimizer.in_steps()
        self._owner = backend(model.device.kind)
        self._programs: dict[int, Compiled] = {}
        self._per_step = 1.0  # seconds; so that the first block has one step
        with active(model.device):
            with self._asking("the rows of the data"):
                self._rows = _Rows(batches)
            with self._asking("parameters and what the optimizer keeps"):
                self._make_state()
            with self._asking("a step"):
                self._output = self.program_for(min(batches.size, batches.n_samples)).returns.output
                self._make_ring()
            self._bytes_of_outputs = self._owner.free_memory(model.device) // SHARE
            self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)

    def _asking(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which an error of memory says what a step needs, and what asked for more."""

        def said() -> str:
            rows = min(self.batches.size, self.batches.n_samples)
            known = [
                f"the plan of a step on {n} rows takes {x.nbytes:,} bytes" for n, x in self._programs.items()
            ]
            return f"in a fit with batches of {rows} rows, for {what}" + "".join(
                f", where {x}" for x in known
            )

        return self._owner.asking(self.model.device, said)

    def hold(self) -> bool:
        model = self.model
        flat, _ = model.memory.flat_buffers()
        return flat is self._state.flat and self._fingerprint.holds()

    # -- memory -------------------------------------------------------------------------------

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros(shape, dtype, self.model.device)

    def _make_state(self) -> None:
        model = self.model
        flat, slots = model.memory.flat_buffers()
        buffers = {name: array.copy() for name, array in model.memory.untrained.items()}
        self._numbers, hyper = hyper_slots(self._optimizer, model.progress, flat)
        self._counter, self._is_fine = self._zeros((), np.int64), self._zeros((), np.bool_)
        self._buffers = buffers
        self._state = DeviceInputs(flat, slots, buffers, self._counter, self._is_fine, hyper)

    def _make_ring(self) -> None:
        """Allocate the inputs and reports of the steps of one block, and the views for each step."""
        self._most = min(MOST_STEPS, self.batches.n_batches)
        self._table = self._zeros((self._most, self._numbers.shape[0]), self.model.dtype)
        self._reports = self._zeros((self._most, 3), self.model.dtype)
        self._lines = [(self._table[i], self._reports[i]) for i in range(self._most)]

    def program_for(self, n_rows: int) -> Compiled:
        """Return the program of a step on this many rows."""
        found = self._programs.get(n_rows)
        if found is None:
            function = _step_function(self.model, self.batches.weight is not None, self.check_finite)
            args = self._state._replace(**self._rows.example(n_rows)._asdict())
            check_repeatable(self.model, function, args)
            found = self._programs[n_rows] = compiled(function, args, donate=range(5), slots=self._state)
        return found

    # -- steps --------------------------------------------------------------------------------

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        model, shape = self.model, self._output.shape
        with active(model.device):
            _, n_rows = self.batches.part(order, first)
            room, most = None, min(most, self._most)
            if outputs is not None:
                xp, dtype = namespace(self._reports), self._output.dtype
                with self._asking("outputs that wait for their score"):
                    room = outputs.free(n_rows, shape[1:], dtype, xp, self._bytes_of_outputs)
                most = min(most, len(room) // n_rows)
            if follow_schedules(model):  # buffers set by schedules are inputs of a single step
                most = 1
            steps = self._at_once(order, first, most, self._per_step)
            started = time.perf_counter()
            with self._asking("a step"):
                reports = self._issue(order, first, n_rows, steps, room)
            steps = len(reports)
            done = steps if reports[:, 2].all() else int(np.argmin(reports[:, 2]))
            if not done:
                return EagerSteps(model, self.batches, self.check_finite).run(order, first, 1, outputs)
            self._per_step = (time.perf_counter() - started) / steps
            advance(model, {name: self._buffers[name].copy() for name in model.buffers}, done)
        losses = per_output(model, 1.0, self._output) * reports[:done, 0] + reports[:done, 1]
        return Block(losses, done * n_rows)

    def _issue(self, order: Any, first: int, n_rows: int, steps: int, room: Any) -> np.ndarray:
        """Issue some steps; return their reports as a host array. If memory runs out, there are fewer."""
        model, program = self.model, self.program_for(n_rows)
        inputs: DeviceInputs = program.slots
        found: DeviceOutputs = program.result
        known = model.memory.untrained
        for name, array in self._buffers.items():
            array[...] = known[name]
        self._counter[...] = model.progress.step
        self._is_fine[...] = True
        numbers = self._optimizer.hyper_table(model.progress, steps).astype(model.dtype)
        self._table[:steps] = to_device(numbers, model.device)
        for i, (line, place) in enumerate(self._lines[:steps]):
            try:
                self._rows.take_into(order, (first + i) * self.batches.size, n_rows, inputs)
                self._numbers[...] = line
                program.run()
            except self._owner.memory_errors:
                if not i:
                    raise
                steps = i  # the error is raised by the next block, when the model knows of these steps
                break
            place[...] = found.report
            if room is not None:
                room[i * n_rows : (i + 1) * n_rows] = found.output
        return np.asarray(to_host(self._reports[:steps]), dtype=np.float64)


class _Rows:
    """The rows of a data set, gathered on the device in the order of an epoch.

    Parameters
    ----------
    batches : Batches
        The rows.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._dtypes = batches.input_dtype
        self._X = each_input(self._resident, batches.X, self._dtypes)
        self._order: Any = None
        self._placed: tuple[Any, Any] | None = None

    def _resident(self, X: Any, dtype: Any) -> Any:
        """Return an input on the device and in its dtype, if it fits into half of the free memory."""
        device, owner = self._batches.device, backend(self._batches.device.kind)
        is_there = device_of(X) == device
        if is_there and X.dtype == dtype:
            return X
        if math.prod(X.shape) * dtype.itemsize > owner.free_memory(device) // 2:
            return X
        try:
            return X.astype(dtype) if is_there else to_device(X.astype(dtype, copy=False), device)
        except owner.memory_errors:  # free memory may be in pieces
            return X

    def example(self, n_rows: int) -> Batch:
        """Return inputs, targets and weights (or None) of the first rows."""
        batches = self._batches
        zeros = backend(batches.device.kind).zeros

        def one(x: Any, dtype: Any) -> Any:
            return zeros((n_rows, *x.shape[1:]), dtype, batches.device)

        X = each_input(one, self._X, self._dtypes)
        return Batch(X, *batches.take_targets(slice(0, n_rows)))

    def take_into(self, order: Any, start: int, n_rows: int, slots: DeviceInputs) -> None:
        """Write rows of an epoch's order, from `start` on, into device arrays."""
        batches, part = self._batches, slice(start, start + n_rows)
        mine, targets = self._places(order)
        gathered = None

        def fill(x: Any, slot: Any, name: Any = None) -> None:
            nonlocal gathered
            if x.dtype == slot.dtype and device_of(x) == batches.device:
                _gather(x, mine, part, slot)
            else:
                if gathered is None:
                    gathered = batches.take(part if order is None else order[part]).X
                slot[...] = gathered if name is None else gathered[name]

        if isinstance(slots.X, dict):
            for name, slot in slots.X.items():
                fill(self._X[name], slot, name)
        else:
            fill(self._X, slots.X)
        _gather(batches.y, targets, part, slots.y)
        if slots.weight is not None:
            _gather(batches.weight, targets, part, slots.weight)

    def _places(self, order: Any) -> tuple[Any, Any]:
        """Return the order of rows of X, and of targets, in this epoch; None for that of the data."""
        if self._placed is None or self._order is not order:
            batches = self._batches
            chosen = batches.chosen
            rows = order if chosen is None else np.asarray(chosen)[slice(None) if order is None else order]
            self._order = order
            here = [None if x is None else to_device(x, batches.device) for x in (rows, order)]
            self._placed = here[0], here[1]
        return self._placed


def _gather(array: Any, order: Any, part: slice, out: Any) -> None:
    if order is None:
        out[...] = take_rows(array, part)
    else:
        array.take(order[part], axis=0, out=out)


def _step_function(model: "Model", weighted: bool, check_finite: bool) -> Callable[..., DeviceOutputs]:
    """Return the pure function from all state and a batch to the new state, the output and a report."""
    optimizer = model.optimizer.in_steps()
    evaluate, update = gradient_function(model, weighted), update_function(optimizer, model.memory.layout)

    def step(
        flat: Tensor,
        slots: Mapping[str, Tensor],
        untrained: Mapping[str, Tensor],
        counter: Tensor,
        is_fine: Tensor,
        hyper: Mapping[str, Tensor],
        X: Tensor,
        y: Tensor,
        weight: Tensor | None,
    ) -> DeviceOutputs:
        found = evaluate(flat, None, untrained, X, y, weight, counter)
        data, penalty, changed = found.data, found.penalty, found.changed
        if check_finite:
            is_fine = ops.where(is_fine, _is_finite(data + penalty + ops.sum_squares(found.gradient)), False)

        def kept(after: Tensor, before: Tensor) -> Tensor:
            return ops.where(is_fine, after, before) if check_finite else after

        new = update(flat, slots, found.gradient, hyper)
        new_slots = {name: kept(value, slots[name]) for name, value in new.slots.items()}
        new_untrained = {
            name: kept(changed[name].detach(), before) if name in changed else before
            for name, before in untrained.items()
        }
        fine = ops.astype(is_fine, data.dtype)
        report = ops.stack([data.detach(), penalty.detach(), fine])
        counter = counter + ops.astype(is_fine, counter.dtype)
        new_flat = kept(new.flat, flat)
        return DeviceOutputs(new_flat, new_slots, new_untrained, counter, is_fine, found.output, report)

    return step


def _is_finite(x: Tensor) -> Tensor:
    return ops.less(ops.abs(x), math.inf)
