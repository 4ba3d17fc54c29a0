"""Training steps in native code, many per call."""

import math
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.compile import native
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._computed import ComputedRows, Window
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import SECONDS, Block, CompiledSteps
from sknet.engine.step import advance, follow_schedules, per_output
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.compile.native import NativeRun, Turns
    from sknet.engine._model import Model

__all__ = ["NativeSteps"]

MOST_STEPS = 1 << 15  # per block
LEAST_STEPS = 1 << 8  # for which a run has room, since several epochs may be one block
MOST_TOGETHER = 1 << 16  # outputs of the epochs of one call, which are in the cache when they are scored
MOST_TURNS = 1 << 20  # bytes of their instructions


class NativeSteps(CompiledSteps):
    """Steps by the calls of a NumPy plan in native code and by the plan where data have an unusual layout."""

    def __init__(
        self,
        model: "Model",
        batches: Batches,
        check_finite: bool,
        buffers: Any = None,
    ) -> None:
        super().__init__(model, batches, check_finite, buffers)
        self._per_native_step = 1e-3  # seconds
        self._runs: dict[int, NativeRun | None] = {}
        self._order: Any = None
        self._orders: tuple[np.ndarray, np.ndarray] | None = None
        self._rows: Any = None  # in the order of an epoch, for the window
        computed = isinstance(batches.X, ComputedRows)
        self._window = Window(batches.X, batches.size, batches.n_batches) if computed else None

    def rebind(self, batches: Batches) -> None:
        super().rebind(batches)
        for run in self._runs.values():
            if run is not None:
                run.rebind((batches.X, batches.y, batches.weight))

    def release(self) -> None:
        super().release()
        self._order = self._orders = None
        for run in self._runs.values():
            if run is not None:
                run.release()

    def _run_for(self, n_rows: int) -> "NativeRun | None":
        """Return the run for batches of this size; None if NumPy has to do them."""
        if n_rows not in self._runs:
            batches, programs = self.batches, self._programs
            parts = native.Parts(
                self.program_for(n_rows), programs.update, programs.gradient, programs.numbers
            )
            data = self._window.room if self._window else batches.X, batches.y, batches.weight
            try:
                most = min(max(batches.n_batches, LEAST_STEPS), MOST_STEPS)
                run = native.NativeRun(parts, data, self.check_finite, most)
            except native.UnsupportedError:
                self._runs[n_rows] = None
            else:
                self._runs[n_rows] = run
        return self._runs[n_rows]

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        _, n_rows = self.batches.part(order, first)
        run = self._run_for(n_rows)
        if run is None:
            return super().run(order, first, most, outputs)
        room = self._free(n_rows, outputs)
        most = min(most, run.most) if room is None else min(most, run.most, len(room) // n_rows)
        if follow_schedules(self.model):  # buffers set by schedules are inputs of a single step
            most = 1
        steps = self._at_once(order, first, most, self._per_native_step)
        block = self._native(run, order, first, steps, room)
        # A step that fails in native code is repeated with NumPy, whose error names what is not finite.
        return self._replay(order, first, n_rows, 1, room) if block is None else block

    def epochs_at_once(self, most: int) -> int:
        batches = self.batches
        # Weights may be zero for whole batches; buffers change with every step, and schedules set them.
        plain = most > 1 and batches.weight is None and self._window is None and not self.model.buffers
        if not plain:
            return 1
        parts = batches.alike
        runs = [run for _, n_rows, _ in parts if (run := self._run_for(n_rows)) is not None]
        if len(runs) < len(parts):
            return 1
        outputs = batches.n_samples * max(1, math.prod(self._output.shape[1:]))
        seconds = batches.n_batches * self._per_native_step
        found: int = min(most, int(SECONDS / seconds), MOST_TOGETHER // outputs)
        if len(runs) == 1:
            return max(1, min(found, runs[0].most // batches.n_batches))
        return max(1, min(found, MOST_TURNS // sum(run.nbytes for run in runs)))

    def run_epochs(self, orders: np.ndarray, progress: Sequence[Progress], scored: bool) -> tuple[Any, Any]:
        batches, table_of = self.batches, self._programs.optimizer.hyper_table
        hyper = np.concatenate([table_of(each, batches.n_batches) for each in progress])
        chosen = batches.chosen
        rows = np.ascontiguousarray(orders.reshape(-1), np.int64)
        places = (rows if chosen is None else np.asarray(chosen, np.int64)[rows]), rows
        shape, dtype = self._output.shape[1:], self._output.dtype
        outputs = np.empty((rows.size, *shape), dtype) if scored else None
        started, before = time.perf_counter(), progress[0].step
        parts = batches.alike
        if len(parts) == 1:  # full batches alone go on from epoch to epoch
            run = self._run_of(parts[0][1])
            terms = run.losses[: run.run(places, 0, hyper, before, outputs)]
        else:
            turns = [self._turns(len(orders), *part) for part in parts]
            terms = native.run_turns(turns, places, hyper, before, outputs)
        self._per_native_step = max((time.perf_counter() - started) / max(len(terms), 1), 1e-7)
        losses = self._losses_of(terms)
        return losses, None if outputs is None else outputs.reshape((*orders.shape, *shape))

    def _turns(self, n_epochs: int, first: int, n_rows: int, steps: int) -> "Turns":
        """Return the turns of one part of each epoch."""
        batches, epochs = self.batches, np.arange(n_epochs)
        firsts = epochs * batches.n_batches + first
        starts = epochs * batches.n_samples + first * batches.size
        return native.Turns(self._run_of(n_rows), firsts, starts, steps)

    def _run_of(self, n_rows: int) -> "NativeRun":
        run = self._runs[n_rows]
        assert run is not None
        return run

    def _losses_of(self, terms: np.ndarray) -> Any:
        """Return the losses of steps whose losses and penalties are given."""
        losses: Any = terms[:, 0].astype(np.float64)
        return per_output(self.model, losses, self._output) + terms[:, 1]

    def _native(self, run: "NativeRun", order: Any, first: int, steps: int, room: Any) -> Block | None:
        model, batches = self.model, self.batches
        orders = self._orders_of(order)
        if self._window is not None:
            steps = self._window.compute(self._rows, first, steps)
        untrained, buffers = self.program_for(run.rows).slots.untrained, model.buffers
        for name, array in buffers.items():
            untrained[name][...] = array
        hyper = self._programs.optimizer.hyper_table(model.progress, steps)
        started = time.perf_counter()
        done = run.run(orders, first * batches.size, hyper, model.progress.step, room)
        if not done:
            return None
        self._per_native_step = max((time.perf_counter() - started) / done, 1e-7)
        advance(model, {name: untrained[name].copy() for name in buffers}, done)
        return Block(self._losses_of(run.losses[:done]), done * run.rows)

    def _orders_of(self, order: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the orders of rows of X, and of y and weight, in this epoch."""
        chosen = self.batches.chosen
        if self._orders is None or self._order is not order:
            rows = np.arange(self.batches.n_samples) if order is None else order
            self._order = order
            places = rows if chosen is None else np.asarray(chosen)[rows]
            of_inputs, of_targets = (np.ascontiguousarray(x, np.int64) for x in (places, rows))
            if self._window is not None:
                self._rows, of_inputs = of_inputs, self._window.places(len(rows))
            self._orders = of_inputs, of_targets
        return self._orders
