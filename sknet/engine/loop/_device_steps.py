"""Training steps on a device: one program for the whole step, and one synchronisation for many steps."""

import math
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.compile import Compiled
from sknet.compile import compile as compiled
from sknet.core import Tensor
from sknet.device import active, backend, namespace, to_host
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._device_ring import Issued, Left, Ring
from sknet.engine.loop._device_rows import DeviceRows
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import Block, EagerSteps, Steps
from sknet.engine.state import Fingerprint
from sknet.engine.step import (
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

__all__ = ["MOST_STEPS", "SHARE", "DeviceSteps", "are_same", "made_of", "step_function"]

MOST_STEPS = 1024  # per block
SHARE = 16  # outputs that wait to be scored take at most this part of the memory that is free


class DeviceSteps(Steps):
    """Steps that run one after the other on the device, without the host waiting for any of them."""

    def __init__(self, model: "Model", batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._optimizer = model.optimizer.in_steps()
        self._owner = backend(model.device.kind)
        self._programs: dict[int, Compiled] = {}
        self._issued: dict[tuple[int, bool], tuple[Any, Issued, Callable[[], None]]] = {}
        self._per_step = 1.0  # seconds; so that the first block has one step
        self._next_order: Callable[[], Any] | None = None
        self._nbytes_of_chunks = 0
        with active(model.device, model.precision):
            with self._asking("the rows of the data"):
                self._rows = DeviceRows(batches)
            self._nbytes_of_chunks = self._rows.nbytes_of_chunks
            with self._asking("parameters and what the optimizer keeps"):
                self._make_state()
            with self._asking("a step"):
                returns = self.program_for(min(batches.size, batches.n_samples)).returns
                self._output = returns.output
                self._most = min(MOST_STEPS, batches.n_batches)
                self._ring = Ring(model.device, self._numbers, self._most, returns.report.dtype)
            self._bytes_of_outputs = self._owner.free_memory(model.device) // SHARE
            self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
            self._made_of = made_of(model)

    def _asking(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which an error of memory says what a step needs, and what asked for more."""

        def said() -> str:
            rows = min(self.batches.size, self.batches.n_samples)
            known = [
                f"the plan of a step on {n} rows takes {x.nbytes:,} bytes" for n, x in self._programs.items()
            ]
            if self._nbytes_of_chunks:
                known.append(f"rows that are copied chunk by chunk take {self._nbytes_of_chunks:,} bytes")
            return f"in a fit with batches of {rows} rows, for {what}" + "".join(
                f", where {x}" for x in known
            )

        return self._owner.asking(self.model.device, said)

    def hold(self) -> bool:
        return are_same(made_of(self.model), self._made_of) and self._fingerprint.holds()

    def look_ahead_by(self, next_order: Callable[[], Any]) -> None:
        self._next_order = next_order

    def rows_of(self, order: Any, part: slice) -> Any:
        is_there = order is not None and self._rows.order is order
        return self._rows.order_of_targets[part] if is_there else super().rows_of(order, part)

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

    def program_for(self, n_rows: int) -> Compiled:
        """Return the program of a step on this many rows."""
        found = self._programs.get(n_rows)
        if found is None:
            function = step_function(self.model, self.batches.weight is not None, self.check_finite)
            args = self._state._replace(**self._rows.example(n_rows)._asdict())
            check_repeatable(self.model, function, args)
            found = self._programs[n_rows] = compiled(function, args, donate=range(5), slots=self._state)
        return found

    # -- steps --------------------------------------------------------------------------------

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        model, shape = self.model, self._output.shape
        with active(model.device, model.precision):
            _, n_rows = self.batches.part(order, first)
            most = min(most, self._most)
            if outputs is not None:
                xp, dtype = namespace(self._ring.reports), self._output.dtype
                with self._asking("outputs that wait for their score"):
                    room = outputs.free(n_rows, shape[1:], dtype, xp, self._bytes_of_outputs)
                most = min(most, len(room) // n_rows)
            if follow_schedules(model):  # buffers set by schedules are inputs of a single step
                most = 1
            steps = self._at_once(order, first, most, self._per_step)
            started = time.perf_counter()
            with self._asking("a step"):
                reports = self._issue(order, first, n_rows, steps, outputs)
            steps = len(reports)
            done = steps if reports[:, 2].all() else int(np.argmin(reports[:, 2]))
            if not done:
                return EagerSteps(model, self.batches, self.check_finite).run(order, first, 1, outputs)
            self._per_step = (time.perf_counter() - started) / steps
            advance(model, {name: self._buffers[name].copy() for name in model.buffers}, done)
        losses = per_output(model, 1.0, self._output) * reports[:done, 0] + reports[:done, 1]
        return Block(losses, done * n_rows)

    def _issue(self, order: Any, first: int, n_rows: int, steps: int, outputs: Outputs | None) -> np.ndarray:
        """Issue some steps; return their reports as a host array. Where one cannot be issued, they end."""
        model, slots, start = self.model, self.program_for(n_rows).slots, first * self.batches.size
        known = model.memory.untrained
        for name, array in self._buffers.items():
            array[...] = known[name]
        self._counter[...] = model.progress.step
        self._is_fine[...] = True
        self._rows.start(order, start)
        numbers = self._optimizer.hyper_table(model.progress, steps)
        self._ring.start(numbers, start, 0 if outputs is None else outputs.n_rows)
        place = None if outputs is None else outputs.memory
        for i in range(steps):
            try:
                self._rows.send(order, start + i * n_rows, n_rows, slots)
                step, end = self._step_on(n_rows, place)
                step()
            except Exception:  # no memory is left, or rows cannot be read
                if not i:
                    raise
                steps = i  # the error is raised by the next block, when the model knows of these steps
                break
        end()
        with suppress(Exception):  # it is tried again by the block that needs these rows
            self._rows.look_ahead(None if self._next_order is None else self._next_order())
        return np.asarray(to_host(self._ring.reports[:steps]), dtype=np.float64)

    def _step_on(self, n_rows: int, outputs: Any) -> tuple[Issued, Callable[[], None]]:
        """Return the work of a step whose outputs go to an array, or to none; and what is left of a block."""
        key = n_rows, outputs is None
        memory, issued, end = self._issued.get(key, (None, None, None))
        if issued is None or end is None or memory is not outputs:
            launches, end = self._launches(n_rows, outputs)
            issued = Issued(launches, self.model.device)
            self._issued[key] = outputs, issued, end
        return issued, end

    def _launches(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        program, ring = self.program_for(n_rows), self._ring
        found: DeviceOutputs = program.result
        is_plain = self._owner.is_plain(found.output)
        output = found.output if is_plain else self._zeros(found.output.shape, found.output.dtype)
        left = Left(found.report, output, outputs)
        begin = ring.begin(n_rows, self._rows.taken(program.slots), left)

        def issue() -> None:
            begin()
            program.run()
            if not is_plain:
                output[...] = found.output

        return issue, ring.end(n_rows, left)

    @property
    def refusals(self) -> list[str]:
        """Reasons for which steps are launched one by one rather than as graphs."""
        return [issued.refusal for _, issued, _ in self._issued.values() if issued.refusal is not None]


def made_of(model: "Model") -> tuple[Any, ...]:
    """Return the objects that a step on a device is made of, besides the network."""
    flat, slots = model.memory.flat_buffers()
    numbers = model.alpha, model._rounded, model.memory.key
    return flat, *slots.values(), model.loss_function, model.optimizer, *numbers


def are_same(now: tuple[Any, ...], before: tuple[Any, ...]) -> bool:
    """Tell whether these are the objects that a step was made of."""
    return len(now) == len(before) and all(map(is_, now, before))


def step_function(
    model: "Model", weighted: bool, check_finite: bool, is_masked: bool = False
) -> Callable[..., DeviceOutputs]:
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
        key: Any = None,
    ) -> DeviceOutputs:
        found = evaluate(flat, None, untrained, X, y, weight, counter, key=key)
        data, penalty, changed = found.data, found.penalty, found.changed
        if check_finite:
            # The parameters, too: NaN in them need not reach the loss (a ReLU in a product makes 0 of it).
            squares = ops.sum_squares(found.gradient, flat)
            is_fine = ops.where(is_fine, _is_finite(data + penalty + squares), False)

        def kept(after: Tensor, before: Tensor) -> Tensor:
            return ops.where(is_fine, after, before) if check_finite or is_masked else after

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
