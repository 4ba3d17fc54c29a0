"""Runners of training steps on the host: eager operations, NumPy programs, and native code."""

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from sknet._parallel import Pool, Threads, are_shared
from sknet.compile import Compiled, native
from sknet.device import namespace
from sknet.engine._batches import MOST_KEPT, Batches, ComputedRows, Window
from sknet.engine._fingerprint import Fingerprint
from sknet.engine._inputs import Batch
from sknet.engine._memory import Gradient
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import advance, check_finite_step, follow_schedules, per_output, reported
from sknet.engine._programs import GradientInputs, Programs, eager_step, is_made_of
from sknet.exceptions import NonFiniteError
from sknet.nn._parameter import latest
from sknet.ops._convolution import ROLES, convolution_work
from sknet.ops._recurrent import INPUT_INDEX, recurrence_work
from sknet.optim.schedules import Progress

if TYPE_CHECKING:
    from sknet.compile import Plan
    from sknet.compile.native import NativeRun, Turns


class Outputs:
    """A buffer for raw outputs that are to be scored."""

    def __init__(self, n_samples: int | None) -> None:
        self._n_samples = n_samples
        self._array: Any = None
        self._part = sys.maxsize  # rows
        self.n_rows = 0

    def free(
        self, n_rows: int, shape: tuple[int, ...], dtype: Any, xp: Any = np, wanted_bytes: int = 0
    ) -> Any:
        """Return memory for the next rows."""
        array = self._array
        if (
            array is None
            or len(array) - self.n_rows < n_rows
            or array.shape[1:] != shape
            or array.dtype != dtype
        ):
            wanted = wanted_bytes // max(math.prod(shape) * np.dtype(dtype).itemsize, 1)
            array = self._enlarged(n_rows, shape, dtype, xp, wanted)
        return array[self.n_rows :]

    def _enlarged(self, n_rows: int, shape: tuple[int, ...], dtype: Any, xp: Any, wanted: int) -> Any:
        rows = n_rows
        if self._n_samples is not None:
            self._part = max(1, min(self._n_samples, MOST_KEPT // max(math.prod(shape), 1)))
            rows = max(self._part - 1 + n_rows, wanted)  # a batch may extend beyond a full part
            rows = min(rows, self._n_samples)
        array = xp.empty((max(rows, self.n_rows + n_rows), *shape), dtype=dtype)
        if self.n_rows:
            array[: self.n_rows] = self.waiting
        self._array = array
        return array

    @property
    def memory(self) -> Any:
        """The whole buffer, of which `free` returns a part; None before."""
        return self._array

    @property
    def waiting(self) -> Any:
        """The buffered outputs, of shape (n_rows, ...); None if there never were any."""
        return None if self._array is None else self._array[: self.n_rows]

    def add(self, n_rows: int) -> None:
        """Count rows that were written to what `free` returned."""
        self.n_rows += n_rows

    def parts(self, also_last: bool = False) -> Iterator[Any]:
        """Yield the outputs part by part, each valid until the next step, and remove them."""
        start, least = 0, 1 if also_last else self._part
        while self.n_rows - start >= least:
            stop = min(start + self._part, self.n_rows)
            yield self._array[start:stop]
            start = stop
        left = self.n_rows - start
        if start and left:
            self._array[:left] = self._array[start : self.n_rows]
        self.n_rows = left


# Multiplications of a product for which one thread is enough; OpenBLAS takes one by itself for the tiny ones,
# and finding the libraries takes a process 10 milliseconds.
TINY, SMALL = 1 << 18, 1 << 21
# What else calls BLAS or LAPACK, in products of a size that is not known here.
OTHERS = frozenset(
    {
        *("recurrence_gradient", "recurrence_outputs", "recurrence_tape"),
        *("cholesky", "det", "eigh", "inv", "pinv", "qr", "slogdet", "solve", "svd"),
    }
)
WORK = {
    **{primitive.name: convolution_work for primitive in ROLES},
    **dict.fromkeys(INPUT_INDEX, recurrence_work),
}
_known: "WeakKeyDictionary[Plan, dict[bool, Threads]]" = WeakKeyDictionary()


def threads_for(plan: "Plan", is_native: bool) -> Threads:
    """Return how many threads the products of a program should have: 1, or as many as BLAS takes."""
    found = _known.setdefault(plan, {})
    if is_native not in found:
        found[is_native] = _threads_for(plan, is_native)
    return found[is_native]


def _threads_for(plan: "Plan", is_native: bool) -> Threads:
    shared, products = 0, [0.0]
    for equation in plan.graph.equations:
        name = equation.primitive.name
        if name in WORK and (work := WORK[name](equation)) is not None:
            shared += work.in_threads
            products.append(work.by_blas)
        elif name == "matmul":
            x, y = (operand.shape for operand in equation.operands)
            # A stack of matrices times one matrix is one product.
            rows = x if len(y) == 2 else x[-2:]
            products.append(math.prod(rows) * (y[-1] if len(y) > 1 else 1))
        elif name in OTHERS:
            products.append(math.inf)
    total = sum(products)
    is_shared = shared > total or (is_native and TINY < max(products) < math.inf)
    if is_shared and are_shared():
        return Threads(1, leaves_cores=True)
    return Threads(1 if TINY < max(products) <= SMALL and not shared else None)


NO_LOSSES: np.ndarray[Any, Any] = np.zeros(0)
SECONDS = 0.05  # approximate duration of a block, and thus the delay of Ctrl-C
MOST_BOUND = 256  # up to this many batches per epoch, each has its own program, bound to the data


class Block(NamedTuple):
    losses: Any
    n_rows: int


class Steps(ABC):
    """Trains a model on the rows of a data set, in place."""

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool) -> None:
        self.model, self.batches, self.check_finite = model, batches, check_finite

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def threads_needed(self) -> Threads:
        """Number of threads that are enough for the products."""
        return Threads()

    def look_ahead_by(self, next_order: Callable[[], Any]) -> None:
        """Let steps that a device computes ask for the next order before they wait for it."""

    def rows_of(self, order: Any, part: slice) -> Any:
        """Return the numbers of consecutive rows of an epoch, where targets and weights are."""
        return part if order is None else order[part]

    @abstractmethod
    def is_valid(self) -> bool:
        """Tell whether nothing that these steps depend on has changed."""

    def watch(self) -> None:
        """Let `is_valid` see changes from now on, where steps on copies do so only on demand."""

    @abstractmethod
    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        """Train on one block of batches, at least one."""

    def end(self, is_reusable: bool = True) -> None:
        """End with these steps: leave them to a later fit, if that is possible."""

    goes_ahead = False  # whether `run_epochs` calls `at_end`

    def epochs_at_once(self, most: int, kept: int = 0) -> int:
        """Return how many whole epochs `run_epochs` trains on, at most these; 1 if it cannot."""
        # `kept` is how many bytes are kept of each epoch.
        return 1

    def run_epochs(
        self,
        orders: np.ndarray,
        progress: Sequence[Progress],
        scored: bool,
        at_end: Callable[[], None] | None = None,
    ) -> tuple[Any, Any]:
        """Train on whole epochs, one after the other, without counting the steps."""
        # `at_end` is called when the work of an epoch has been issued, and before that of the next one is.
        raise NotImplementedError

    def _at_once(self, order: Any, first: int, most: int, per_step: float) -> int:
        """Return how many steps a block has if one takes `per_step`; 0 if the first batch has zero weight."""
        return self.batches.in_a_row(order, first, min(most, steps_at_once(per_step)))


def steps_at_once(per_step: float) -> int:
    """Return how many steps a block has if one takes `per_step` seconds."""
    return max(1, int(SECONDS / per_step))


class EagerSteps(Steps):
    """Eager steps: on every device, for every module."""

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool) -> None:
        super().__init__(model, batches, check_finite)
        self._workspace = model.memory.workspace()
        self._hooks = latest.hooks

    def is_valid(self) -> bool:
        return self._hooks is latest.hooks  # once hooks are removed, steps may be compilable

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        chosen, n_rows = self.batches.part(order, first)
        X, y, weight = self.batches.take(chosen)
        result = eager_step(self.model, *self._workspace, X, y, weight, self.check_finite)
        if outputs is not None:
            output = result.output.data
            outputs.free(n_rows, output.shape[1:], output.dtype, namespace(output))[:n_rows] = output
        return Block(np.array([reported(self.model, result)]), n_rows)


class CompiledSteps(Steps):
    """Compiled steps: one program for each number of rows, and one for the update."""

    # With `copies`, they have parameters of their own, to and from which those of a model are copied for
    # each block: another model of the same structure can use them later.

    pool: Pool | None = None  # of idle steps, to which these belong
    key: Hashable = None

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool, copies: bool = False) -> None:
        super().__init__(model, batches, check_finite)
        flat, slots = model.memory.flat_buffers()
        self._copies = (flat.copy(), {name: slot.copy() for name, slot in slots.items()}) if copies else None
        self._programs = Programs(model, buffers=self._copies)
        self._gradient = Gradient(model.memory.layout, self._programs.gradient, {})
        self._by_rows: dict[tuple[int, int | None], Compiled] = {}
        self._by_start: dict[int, Compiled | None] = {}
        self._per_step = math.inf  # seconds; so that the first block has one step
        self._output = self.program_for(min(batches.size, batches.n_samples)).returns.output
        self._fingerprint: Fingerprint | None = None
        self.watch()

    is_native = False

    @property
    def threads_needed(self) -> Threads:
        program = self.program_for(min(self.batches.size, self.batches.n_samples))
        return threads_for(program.plan, self.is_native)

    @property
    def draws(self) -> bool:
        """True if steps draw random numbers, so that they depend on the model's seed."""
        return any(program.draws for program in self._by_rows.values())

    def is_valid(self) -> bool:
        fingerprint = self._fingerprint
        return is_made_of(self.model, self._programs.made_of) and (fingerprint is None or fingerprint.holds())

    def watch(self) -> None:
        model = self.model
        if self._fingerprint is None:
            self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)

    def bind(self, model: ModelLike, batches: Batches) -> None:
        """Train on other rows of the same form, and another model if parameters are copied."""
        self.batches = batches
        if self._copies is not None:
            self.model = model
            self._programs.bind(model)
            for program in self._by_rows.values():
                self._programs.set_strength(program)

    def unbind(self) -> None:
        """Forget the rows, and the model if parameters are copied, until others are bound."""
        del self.batches
        self._by_start.clear()
        if self._copies is not None:
            del self.model
            self._fingerprint = None
            self._programs.unbind()

    def end(self, is_reusable: bool = True) -> None:
        # A model looks whether its own steps are valid before it uses them again.
        if self._copies is not None:
            is_reusable = is_reusable and not self.draws and self.is_valid()
        if is_reusable and self.pool is not None:
            self.unbind()
            self.pool.put(self.key, self)

    def _copy_parameters(self, there: bool) -> None:
        """Copy parameters and slots of the model to these steps, or back, if they have their own."""
        if self._copies is None:
            return
        memory = self.model.memory
        models, own = (memory.flat_to_write(), memory.slots), self._copies
        (flat, slots), (to_flat, to_slots) = (models, own) if there else (own, models)
        to_flat[...] = flat
        for name, slot in slots.items():
            to_slots[name][...] = slot

    @property
    def nbytes(self) -> int:
        """Bytes of the memory that the programs work in, with what they read."""
        programs = (*self._by_rows.values(), self._programs.update)
        return sum(program.nbytes + program.nbytes_taken for program in programs)

    def program_for(self, n_rows: int, width: int | None = None) -> Compiled:
        """Return the program that computes the gradient for this number of rows, and of steps."""
        found = self._by_rows.get((n_rows, width))
        if found is None:
            batch = self.batches.take_steps(slice(0, n_rows), width)
            found = self._by_rows[n_rows, width] = self._programs.gradient_of(*batch)
        return found

    def _program_over(self, chosen: Any, n_rows: int) -> Compiled | None:
        """Return a program bound to the chosen rows of X; None if they must be gathered."""
        if not isinstance(chosen, slice) or self.batches.n_batches > MOST_BOUND:
            return None
        if chosen.start not in self._by_start:
            rows = self.batches.in_place(chosen)
            over = None if rows is None else self._program_reading(rows, n_rows)
            self._by_start[chosen.start] = over
        return self._by_start[chosen.start]

    def _program_reading(self, rows: Batch, n_rows: int) -> Compiled:
        slots = GradientInputs(None, None, {}, *rows, None)
        return self.program_for(n_rows).over(slots)

    def _given(self, order: Any, number: int) -> Compiled:
        """Return a program whose slots hold a batch."""
        chosen, n_rows = self.batches.part(order, number)
        program = self._program_over(chosen, n_rows)
        if program is None:
            program = self.program_for(n_rows, self.batches.width(chosen))
            self.batches.take_into(chosen, *program.slots.batch)
        return program

    def _free(self, n_rows: int, outputs: Outputs | None) -> Any:
        """Return memory for the outputs of at least one batch; None if no score reads them."""
        if outputs is None:
            return None
        return outputs.free(n_rows, self._output.shape[1:], self._output.dtype)

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        if self._copies is None:
            return self._run(order, first, most, outputs)
        self._copy_parameters(True)
        try:
            return self._run(order, first, most, outputs)
        finally:
            self._copy_parameters(False)

    def _run(self, order: Any, first: int, most: int, outputs: Outputs | None) -> Block:
        _, n_rows = self.batches.part(order, first)
        room = self._free(n_rows, outputs)
        most = most if room is None else min(most, len(room) // n_rows)
        steps = self._at_once(order, first, most, self._per_step)
        started = time.perf_counter()
        block = self._replay(order, first, n_rows, max(steps, 1), room)
        self._per_step = (time.perf_counter() - started) / len(block.losses)
        return block

    def _replay(self, order: Any, first: int, n_rows: int, steps: int, room: Any) -> Block:
        model, programs = self.model, self._programs
        numbers = programs.optimizer.hyper_table(model.progress, steps)
        losses = np.zeros(steps)
        for i in range(steps):
            changed, output, loss, penalty = programs.compute(self._given(order, first + i))
            if self.check_finite:
                try:
                    check_finite_step(loss + penalty, self._gradient, programs.optimizer.squares)
                except NonFiniteError:
                    if not i:
                        raise
                    return Block(losses[:i], i * n_rows)  # the next block raises the error
            programs.apply(numbers[i])
            advance(model, {name: value.copy() for name, value in changed.items()})
            losses[i] = per_output(model, loss, output) + penalty
            if room is not None:
                room[i * n_rows : (i + 1) * n_rows] = output
        return Block(losses, steps * n_rows)


MOST_STEPS = 1 << 15  # per block
LEAST_STEPS = 1 << 8  # for which a run has room, since several epochs may be one block
MOST_TOGETHER = 1 << 16  # outputs of the epochs of one call, which are in the cache when they are scored
MOST_TURNS = 1 << 20  # bytes of their instructions


class NativeSteps(CompiledSteps):
    """Steps by the calls of a NumPy plan in native code and by the plan where data have an unusual layout."""

    is_native = True

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool, copies: bool = False) -> None:
        super().__init__(model, batches, check_finite, copies)
        self._per_native_step = 1e-3  # seconds
        self._runs: dict[tuple[int, int | None], NativeRun | None] = {}
        self._order: Any = None
        self._orders: tuple[np.ndarray, np.ndarray] | None = None
        self._rows: Any = None  # in the order of an epoch, for the window
        computed = isinstance(batches.X, ComputedRows)
        self._window = Window(batches.X, batches.size, batches.n_batches) if computed else None

    def bind(self, model: ModelLike, batches: Batches) -> None:
        super().bind(model, batches)
        for run in self._runs.values():
            if run is not None:
                run.bind((batches.X, batches.y, batches.weight))

    def unbind(self) -> None:
        super().unbind()
        self._order = self._orders = None
        for run in self._runs.values():
            if run is not None:
                run.unbind()

    def _run_for(self, n_rows: int, width: int | None = None) -> "NativeRun | None":
        """Return the run for batches of this size; None if NumPy has to do them."""
        key = n_rows, width
        if key not in self._runs:
            batches, programs = self.batches, self._programs
            program = self.program_for(n_rows, width)
            X = self._window.room if self._window else batches.narrowed(batches.X, width)
            data = X, batches.y, batches.weight
            try:
                most = min(max(batches.n_batches, LEAST_STEPS), MOST_STEPS)
                shares = self.threads_needed.leaves_cores
                run = native.NativeRun(program, programs, data, self.check_finite, most, shares)
            except native.UnsupportedError:
                self._runs[key] = None
            else:
                self._runs[key] = run
        return self._runs[key]

    def _run(self, order: Any, first: int, most: int, outputs: Outputs | None) -> Block:
        chosen, n_rows = self.batches.part(order, first)
        width = self.batches.width(chosen)
        run = self._run_for(n_rows, width)
        if run is None:
            return super()._run(order, first, most, outputs)
        room = self._free(n_rows, outputs)
        most = min(most, run.most) if room is None else min(most, run.most, len(room) // n_rows)
        if follow_schedules(self.model):  # buffers set by schedules are inputs of a single step
            most = 1
        steps = self._at_once(order, first, most, self._per_native_step) if most > 1 else 1
        block = self._native(run, width, order, first, steps, room)
        # A step that fails in native code is repeated with NumPy, whose error names what is not finite.
        return self._replay(order, first, n_rows, 1, room) if block is None else block

    def epochs_at_once(self, most: int, kept: int = 0) -> int:
        batches = self.batches
        # Weights may be zero for whole batches; buffers change with every step, and schedules set them.
        plain = most > 1 and batches.weight is None and self._window is None and not self.model.buffers
        plain = plain and batches.buckets is None
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

    def run_epochs(
        self,
        orders: np.ndarray,
        progress: Sequence[Progress],
        scored: bool,
        at_end: Callable[[], None] | None = None,
    ) -> tuple[Any, Any]:
        batches, table_of = self.batches, self._programs.optimizer.hyper_table
        hyper = np.concatenate([table_of(each, batches.n_batches) for each in progress])
        chosen = batches.chosen
        rows = np.ascontiguousarray(orders.reshape(-1), np.int64)
        places = (rows if chosen is None else np.asarray(chosen, np.int64)[rows]), rows
        shape, dtype = self._output.shape[1:], self._output.dtype
        outputs = np.empty((rows.size, *shape), dtype) if scored else None
        started, before = time.perf_counter(), progress[0].step
        parts = batches.alike
        self._copy_parameters(True)
        try:
            if len(parts) == 1:  # full batches alone go on from epoch to epoch
                run = self._run_of(parts[0][1])
                terms = run.losses[: run.run(places, 0, hyper, before, outputs)]
            else:
                turns = [self._turns(len(orders), *part) for part in parts]
                terms = native.run_turns(turns, places, hyper, before, outputs)
        finally:
            self._copy_parameters(False)
        self._per_native_step = max((time.perf_counter() - started) / max(len(terms), 1), 1e-7)
        losses = self._losses_of(terms)
        return losses, None if outputs is None else outputs.reshape((*orders.shape, *shape))

    def _turns(self, n_epochs: int, first: int, n_rows: int, steps: int) -> "Turns":
        """Return the turns of one part of each epoch."""
        batches, epochs = self.batches, np.arange(n_epochs)
        firsts = epochs * batches.n_batches + first
        starts = epochs * batches.n_samples + first * batches.size
        return self._run_of(n_rows), (firsts, starts, steps)

    def _run_of(self, n_rows: int) -> "NativeRun":
        run = self._runs[n_rows, None]
        assert run is not None
        return run

    def _losses_of(self, terms: np.ndarray) -> Any:
        losses: Any = terms[:, 0].astype(np.float64)
        return per_output(self.model, losses, self._output) + terms[:, 1]

    def _native(
        self, run: "NativeRun", width: int | None, order: Any, first: int, steps: int, room: Any
    ) -> Block | None:
        model, batches = self.model, self.batches
        orders = self._orders_of(order)
        if self._window is not None:
            steps = self._window.compute(self._rows, first, steps)
        buffers, untrained = model.memory.buffers if model.memory.has_buffers else {}, {}
        if buffers:
            untrained = self.program_for(run.rows, width).slots.untrained
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
            of_inputs = of_targets = np.ascontiguousarray(rows, np.int64)
            if chosen is not None:
                of_inputs = np.ascontiguousarray(np.asarray(chosen)[rows], np.int64)
            if self._window is not None:
                self._rows, of_inputs = of_inputs, self._window.places(len(rows))
            self._orders = of_inputs, of_targets
        return self._orders
