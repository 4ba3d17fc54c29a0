"""Many training steps in one call, without Python in between: the calls of NumPy's plan as instructions."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from sknet._native import needed
from sknet.compile.executors._calls import Call
from sknet.compile.executors.native._addresses import place_of
from sknet.compile.executors.native._arithmetic import check_finite
from sknet.compile.executors.native._host import HostCalls
from sknet.compile.executors.native._instructions import TURN, Kind, Tape
from sknet.compile.executors.native._moves import copied, gathered
from sknet.compile.executors.native._rules import translated
from sknet.compile.executors.native._together import joined
from sknet.compile.executors.native._unsupported import UnsupportedError

__all__ = ["Memory", "NativeRun", "Parts"]

SOURCE, ROWS, TARGET = 2, 5, 6  # fields of a copy


class Parts(NamedTuple):
    """The parts of a step."""

    gradient: Any
    update: Any
    flat_gradient: np.ndarray
    numbers: np.ndarray


class Memory(NamedTuple):
    """Arrays that the steps of a call read and write, besides the memory of their programs."""

    orders: tuple[np.ndarray, np.ndarray]
    numbers: np.ndarray
    losses: np.ndarray
    outputs: np.ndarray | None


class NativeRun:
    """Runs training steps in native code, in the memory of compiled programs."""

    def __init__(self, parts: Parts, data: tuple[Any, Any, Any], check: bool, most: int) -> None:
        self._parts, self.most = parts, most
        self.hosted: list[Call] = []
        self._tape, self._of_data, self._host = Tape(), Tape(), HostCalls()
        slots, result = parts.gradient.slots, parts.gradient.result
        self.rows = slots.y.shape[0]
        self.losses, self._numbers = self.tables(most)
        pairs = self._pairs(data)
        self._gathers = [self._write_gather(*pair) for pair in pairs]
        # What instructions depend on that read an array.
        self._sources = [(source.strides, source.dtype, place_of(source)) for source, _ in pairs]
        first = self._gathers[self._n_inputs].start
        self._of_inputs, self._of_targets = slice(0, first), slice(first, len(self._tape.rows))
        self._orders: tuple[tuple[np.ndarray, np.ndarray], int, int] | None = None
        self._tape.add(Kind.COUNTER, 0, self._tape.address(slots.counter))
        self._write_calls(parts.gradient.calls())
        if check:
            self._write_check(result)
        first = len(self._tape.rows)
        for i, x in enumerate((result.data, result.penalty)):
            self._write_copy(x, self.losses[0, i : i + 1].reshape(x.shape), (0, 0, self.losses.strides[0]))
        self._gives_losses = slice(first, len(self._tape.rows))
        room = np.zeros(result.output.shape, result.output.dtype)
        self._outputs = self._write_copy(result.output, room, (0, 0, room.nbytes))
        self._room, self._has_outputs = place_of(room), True
        self._of_gradient = self._host.count
        self._takes_numbers = self._write_copy(
            self._numbers[0], parts.numbers, (0, self._numbers.strides[0], 0)
        )
        self._write_calls(parts.update.calls())
        for name, value in result.changed.items():
            self._write_copy(value, slots.untrained[name])
        self._program = self._tape.finished()
        self._offsets = self._program[self._outputs, TARGET] - self._room
        self._turn = np.array([self._turn_of(place_of(self._program), 0, 0)], np.int64)
        self._place = place_of(self._turn)
        self._steps = needed().steps

    # -- instructions -------------------------------------------------------------------------

    def _pairs(self, data: tuple[Any, Any, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each array of the data, and the slot for a batch of its rows."""
        slots = self._parts.gradient.slots
        X, y, weight = data
        inputs = (
            [(X[name], slot) for name, slot in slots.X.items()] if isinstance(X, dict) else [(X, slots.X)]
        )
        self._n_inputs = len(inputs)
        targets = [(y, slots.y), *([] if weight is None else [(weight, slots.weight)])]
        return [(np.asarray(source), slot) for source, slot in (*inputs, *targets)]

    def _write_gather(self, source: np.ndarray, slot: np.ndarray) -> slice:
        first, known = len(self._tape.rows), len(self._of_data.rows)
        if not gathered(self._of_data, source, slot):
            raise UnsupportedError(f"rows of {source.dtype} whose layout differs from that of a batch")
        self._tape.rows += self._of_data.rows[known:]
        return slice(first, len(self._tape.rows))

    def _write_calls(self, calls: Iterable[Call]) -> None:
        first = len(self._tape.rows)
        for call in calls:
            if translated(self._tape, call):
                continue
            self.hosted.append(call)
            if self._tape.rows[-1][0] == Kind.HOST:
                self._host.extend(call.run)  # in the same callback
            else:
                self._tape.add(Kind.HOST, self._host.address, self._host.add(call.run))
        self._tape.rows[first:] = joined(self._tape.rows[first:])

    def _write_check(self, result: Any) -> None:
        flat = self._parts.flat_gradient
        if not result.data.dtype == result.penalty.dtype == flat.dtype or flat.dtype.char not in "fd":
            raise UnsupportedError("a loss whose dtype differs from that of the parameters")
        check_finite(self._tape, flat, result.data, result.penalty)

    def _write_copy(
        self, source: np.ndarray, target: np.ndarray, by: tuple[int, int, int] = (0, 0, 0)
    ) -> slice:
        first = len(self._tape.rows)
        if not copied(self._tape, source, target, by):
            raise UnsupportedError(f"results of {source.dtype} that are converted to {target.dtype}")
        return slice(first, len(self._tape.rows))

    # -- running ------------------------------------------------------------------------------

    def release(self) -> None:
        """Release the data, until `rebind` is called."""
        self._of_data, self._orders = Tape(), None

    def rebind(self, data: tuple[Any, Any, Any]) -> None:
        """Read other rows of the same shapes, dtypes and layouts from now on."""
        for i, (source, slot) in enumerate(self._pairs(data)):
            places, (strides, dtype, before) = self._gathers[i], self._sources[i]
            address = self._of_data.address(source)
            if source.strides == strides and source.dtype == dtype:
                for row in range(places.start, places.stop):  # most often one
                    self._program[row, SOURCE] += address - before
            else:
                first = len(self._of_data.rows)
                gathered(self._of_data, source, slot)
                self._program[places] = self._of_data.finished()[first:]
            self._sources[i] = source.strides, source.dtype, address

    def run(
        self,
        orders: tuple[np.ndarray, np.ndarray],
        start: int,
        hyper: np.ndarray,
        counter: int,
        outputs: np.ndarray | None = None,
    ) -> int:
        """Train on some batches, one after the other."""
        program, count = self._program, len(hyper)
        self._numbers[:count] = hyper
        if self._orders is None or self._orders[0] is not orders:
            of_inputs, of_targets = orders
            address = place_of(of_inputs)
            other = address if of_targets is of_inputs else place_of(of_targets)
            self._orders = orders, address, other
        self._point(program, self._orders[1] + 8 * start, self._orders[2] + 8 * start)
        self._give_outputs(program, None if outputs is None else place_of(outputs))
        self._turn[0, 2:] = count, counter
        done = self._steps(self._place, 1)
        self.check()
        return done

    def check(self) -> None:
        """Raise what a call of NumPy has raised, unless NumPy repeats the step."""
        self._host.check(self._of_gradient)

    def _point(self, program: np.ndarray, of_inputs: Any, of_targets: Any) -> None:
        """Let instructions read the rows whose numbers are at these addresses."""
        program[..., self._of_inputs, ROWS] = of_inputs
        program[..., self._of_targets, ROWS] = of_targets

    def _give_outputs(self, program: np.ndarray, address: Any) -> None:
        """Let instructions write outputs to an address; None to skip them."""
        if address is not None:
            program[..., self._outputs, TARGET] = self._offsets + address
        if self._has_outputs != (address is not None):
            self._has_outputs = address is not None
            kind = Kind.COPY if self._has_outputs else Kind.NOTHING
            program[..., self._outputs, 0] = self._program[self._outputs, 0] = kind

    def _turn_of(self, program: int, steps: int, counter: int) -> tuple[int, ...]:
        return program, len(self._program), steps, counter

    # -- in turn with other runs --------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the instructions, of which each turn has its own."""
        return self._program.nbytes

    def tables(self, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for losses and penalties of some steps, and for their numbers."""
        flat, numbers = self._parts.flat_gradient, self._parts.numbers
        return np.zeros((n_steps, 2), flat.dtype), np.zeros((n_steps, numbers.size), numbers.dtype)

    def turns(
        self, firsts: np.ndarray, starts: np.ndarray, steps: int, memory: Memory, counter: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return turns of this run among those of a call."""
        program = np.repeat(self._program[np.newaxis], len(firsts), axis=0)
        steps_before, rows_before = firsts[:, np.newaxis], starts[:, np.newaxis]
        self._point(program, *[place_of(x) + 8 * rows_before for x in memory.orders])
        for mine, shared, place, field in (
            (self.losses, memory.losses, self._gives_losses, TARGET),
            (self._numbers, memory.numbers, self._takes_numbers, SOURCE),
        ):
            moved = place_of(shared) - place_of(mine)
            program[:, place, field] += moved + steps_before * shared.strides[0]
        outputs = memory.outputs
        self._give_outputs(
            program, None if outputs is None else place_of(outputs) + rows_before * outputs.strides[0]
        )
        table = np.empty((len(firsts), TURN), np.int64)
        table[:] = self._turn_of(place_of(program), steps, counter)
        table[:, 0] += np.arange(len(firsts)) * program.strides[0]
        table[:, 3] += firsts
        return table, program
