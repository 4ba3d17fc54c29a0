"""Training steps in native code, many per call, once it is compiled."""

import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.compile.executors.native import NativeRun, UnsupportedError
from sknet.engine.loop._batches import Batches
from sknet.engine.loop._outputs import Outputs
from sknet.engine.loop._steps import SECONDS, Block, CompiledSteps
from sknet.engine.step import advance, follow_schedules, per_output

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["NativeSteps"]

MOST_STEPS = 1 << 15  # per block
AS_IT_IS = np.zeros(0, np.int64)  # the order of the data


class NativeSteps(CompiledSteps):
    """Steps in native code, and by a NumPy plan until the native code has been compiled.

    Parameters
    ----------
    model, batches, check_finite
        As for `Steps`.
    planned : int
        Number of planned steps, which decides whether compiling in the background is worthwhile.
    waits_for : int, default=None
        Compile before the first step if that is worthwhile for a fit with this many steps; None compiles in
        the background.

    Raises
    ------
    UnsupportedError
        If native code is impossible for these steps, or not worth waiting for.
    """

    def __init__(
        self,
        model: "Model",
        batches: Batches,
        check_finite: bool,
        planned: int,
        waits_for: int | None = None,
    ) -> None:
        super().__init__(model, batches, check_finite)
        self._optimizer = model.optimizer.in_steps()
        self._waits_for = waits_for
        self._left = planned
        self._per_native_step = 1e-3  # seconds
        self._looked = 0.0
        self._runs: dict[int, NativeRun | None] = {}
        self._order: Any = None
        self._orders: tuple[np.ndarray, np.ndarray] | None = None
        self._run_for(min(batches.size, batches.n_samples))

    def rebind(self, batches: Batches, planned: int) -> None:
        super().rebind(batches, planned)
        self._left = planned
        for run in self._runs.values():
            if run is not None:
                run.rebind((batches.X, batches.y, batches.weight))

    def release(self) -> None:
        super().release()
        self._order = self._orders = None
        for run in self._runs.values():
            if run is not None:
                run.release()

    def _run_for(self, n_rows: int) -> NativeRun | None:
        """Return the run for batches of this size; None for a last batch that needs another function."""
        if n_rows not in self._runs:
            full = self._runs.get(self.batches.size)
            try:
                run = self._new_run(n_rows)
            except UnsupportedError:
                if full is None:
                    raise
                self._runs[n_rows] = None
                return None
            self._runs[n_rows] = None if full is not None and run.source != full.source else run
        return self._runs[n_rows]

    def _new_run(self, n_rows: int) -> NativeRun:
        model, batches = self.model, self.batches
        flat, slots = model.memory.flat_buffers()
        run = NativeRun(
            self.program_for(n_rows),
            self._programs.update,
            flat,
            self._programs.gradient,
            [slots[name] for name in self._optimizer.slots],
            model.memory.untrained,
            (batches.X, batches.y, batches.weight),
            min(batches.n_batches, MOST_STEPS),
        )
        if self._waits_for is not None:
            if not run.repays(self._waits_for) and os.environ.get("SKNET_NATIVE") != "always":
                raise UnsupportedError(f"{self._waits_for} steps are too few to be worth compiling")
            run.wait()
        return run

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        _, n_rows = self.batches.part(order, first)
        run = self._run_for(n_rows)
        if run is not None and self._is_ready(run):
            room = self._free(n_rows, outputs)
            most = min(most, run.most) if room is None else min(most, run.most, len(room) // n_rows)
            if follow_schedules(self.model):  # buffers set by schedules are inputs of a single step
                most = 1
            steps = self._at_once(order, first, most, self._per_native_step)
            block = self._native(run, order, first, steps, room)
            # A step that fails in native code is repeated with NumPy, whose error names what is not finite.
            return self._replay(order, first, n_rows, 1, room) if block is None else block
        block = super().run(order, first, most, outputs)
        self._left -= len(block.losses)
        return block

    def _is_ready(self, run: NativeRun) -> bool:
        now = time.perf_counter()
        if run.is_known or now - self._looked > SECONDS:
            self._looked = now
            # Before the first step the remaining time is unknown.
            return run.is_ready(self._left * self._per_step if self._per_step < math.inf else 0.0)
        return False

    def _native(self, run: NativeRun, order: Any, first: int, steps: int, room: Any) -> Block | None:
        model, batches = self.model, self.batches
        for name, array in model.memory.untrained.items():
            run.buffers[name][...] = array
        hyper = self._optimizer.hyper_table(model.progress, steps)
        started = time.perf_counter()
        orders, start = self._orders_of(run, order), first * batches.size
        done = run.run(orders, start, hyper, model.progress.step, self.check_finite, room)
        if not done:
            return None
        self._per_native_step = max((time.perf_counter() - started) / done, 1e-7)
        self._left -= done
        advance(model, {name: run.buffers[name].copy() for name in model.buffers}, done)
        terms = run.losses[:done].astype(np.float64)
        losses = per_output(model, 1.0, self._output) * terms[:, 0] + terms[:, 1]
        return Block(losses, done * run.rows)

    def _orders_of(self, run: NativeRun, order: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the orders of rows of X, and of y and weight, in this epoch."""
        chosen = self.batches.chosen
        if self._orders is None or self._order is not order:
            rows = np.arange(self.batches.n_samples) if order is None else order
            self._order = order
            self._orders = rows if chosen is None else np.asarray(chosen)[rows], rows
        if order is not None:
            return self._orders
        of_inputs, of_targets = run.in_place
        return (
            AS_IT_IS if of_inputs and chosen is None else self._orders[0],
            AS_IT_IS if of_targets else self._orders[1],
        )
