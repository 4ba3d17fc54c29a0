"""Run programs in native code: many training steps in one call, or the calls of a forward pass."""

import ctypes
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, Self

import numpy as np

from sknet._late import cached_property
from sknet._native import needed
from sknet._parallel import Sharing
from sknet.compile._calls import Call
from sknet.compile.native._instructions import (
    GIVEN,
    TURN,
    Kind,
    Tape,
    Work,
    address_of,
    chained,
    code,
    copy,
    fused,
    is_plain,
)
from sknet.compile.native._rules import check_finite, copied, gathered, translated
from sknet.exceptions import CaptureError


class UnsupportedError(CaptureError):
    """Steps that native code cannot do; NumPy's plan can."""


_Callback = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


class HostCalls:
    """Python functions that native code calls by number; an exception in one of them ends the run."""

    def __init__(self) -> None:
        self._functions: list[list[Callable[[], object]]] = []
        self._raised: tuple[int, BaseException] | None = None

    @cached_property
    def address(self) -> int:
        """Address of the function to be called."""
        self._callback = _Callback(self._call)
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    @property
    def count(self) -> int:
        return len(self._functions)

    def add(self, function: Callable[[], object]) -> int:
        self._functions.append([function])
        return len(self._functions) - 1

    def extend(self, function: Callable[[], object]) -> None:
        """Add a function to those that the last number calls."""
        self._functions[-1].append(function)

    def _call(self, number: int) -> int:
        try:
            for function in self._functions[number]:
                function()
        except BaseException as error:
            self._raised = number, error
            return 1
        return 0

    def check(self, repeated: int) -> None:
        """Raise what a function has raised, unless NumPy repeats the step and raises it in full."""
        raised, self._raised = self._raised, None
        if raised is not None and (raised[0] >= repeated or not isinstance(raised[1], Exception)):
            raise raised[1]


SOURCE, ROWS, TARGET, UNITS = 2, 5, 6, 14  # fields of a copy
SHARED = 1 << 18  # multiplications of a product, from which on OpenBLAS has several threads


def in_threads(function: Callable[..., int], is_shared: bool) -> Callable[..., int]:
    """Return a function of the extension, whose work threads share if that is asked for."""
    if not is_shared:
        return function

    def shared(*args: Any) -> int:
        with Sharing(needed()):
            return function(*args)

    return shared


def append(tape: Tape, calls: Iterable[Call], otherwise: Callable[[Call], bool] = lambda call: False) -> bool:
    """Append the instructions of calls, fused; tell whether each has some, or is written otherwise."""
    first = len(tape.rows)
    for loop, group in groupby(calls, attrgetter("loop")):
        start = len(tape.rows)
        if not all(translated(tape, call) or otherwise(call) for call in group):
            return False
        tape.rows[start:] = fused(tape.rows[start:], bool(loop))
    tape.rows[first:] = chained(tape.rows[first:])
    return True


class NativeRun:
    """Runs training steps in native code, in the memory of compiled programs."""

    def __init__(
        self, program: Any, programs: Any, data: tuple[Any, Any, Any], check: bool, most: int, shares: bool
    ) -> None:
        self._slots, self._programs, self.most = program.slots, programs, most
        self.hosted: list[Call] = []
        self._tape, self._of_data, self._host = Tape(SHARED if shares else math.inf), Tape(), HostCalls()
        slots, result = self._slots, program.result
        self.rows = slots.y.shape[0]
        self.losses, self._numbers = self.tables(most)
        pairs = self._pairs(data)
        self._gathers = [self._write_gather(*pair) for pair in pairs]
        # What instructions depend on that read an array.
        self._sources = [(source.strides, source.dtype, address_of(source)) for source, _ in pairs]
        first = self._gathers[self._n_inputs].start
        self._of_inputs, self._of_targets = slice(0, first), slice(first, len(self._tape.rows))
        self._orders: tuple[tuple[np.ndarray, np.ndarray], int, int] | None = None
        self._tape.add(Kind.COUNTER, 0, self._tape.address(slots.counter))
        self._write_calls(program.calls())
        if check:
            self._write_check(result)
        first = len(self._tape.rows)
        for i, x in enumerate((result.data, result.penalty)):
            self._write_copy(x, self.losses[0, i : i + 1].reshape(x.shape), (0, 0, self.losses.strides[0]))
        self._gives_losses = slice(first, len(self._tape.rows))
        room = np.zeros(result.output.shape, result.output.dtype)
        self._outputs = self._write_copy(result.output, room, (0, 0, room.nbytes))
        self._room, self._has_outputs = address_of(room), True
        self._given: int | None = None  # where the latest outputs were written
        self._of_gradient = self._host.count
        self._takes_numbers = self._write_copy(
            self._numbers[0], programs.numbers, (0, self._numbers.strides[0], 0)
        )
        self._write_calls(programs.update.calls())
        for name, value in result.changed.items():
            self._write_copy(value, slots.untrained[name])
        self._program = self._tape.finished()
        self._offsets = self._program[self._outputs, TARGET] - self._room
        has_shares = self._tape.has_shares()
        self._steps = in_threads(needed().steps, has_shares)  # a fit has one thread of BLAS
        self._is_shared = has_shares or bool(self.hosted)  # what wakes threads
        self._turn = np.array([self._turn_of(address_of(self._program), 0, 0)], np.int64)
        self._place = address_of(self._turn)

    # -- instructions -------------------------------------------------------------------------

    def _pairs(self, data: tuple[Any, Any, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return each array of the data, and the slot for a batch of its rows."""
        slots = self._slots
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
        append(self._tape, calls, self._write_host_call)

    def _write_host_call(self, call: Call) -> bool:
        self.hosted.append(call)
        if self._tape.rows[-1][0] == Kind.HOST:
            self._host.extend(call.run)  # in the same callback
        else:
            self._tape.add(Kind.HOST, self._host.address, self._host.add(call.run))
        return True

    def _write_check(self, result: Any) -> None:
        flat = self._programs.gradient
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

    def unbind(self) -> None:
        """Forget the data, until `bind` is called."""
        self._of_data, self._orders = Tape(), None

    def bind(self, data: tuple[Any, Any, Any]) -> None:
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
            address = address_of(of_inputs)
            other = address if of_targets is of_inputs else address_of(of_targets)
            self._orders = orders, address, other
        self._point(program, self._orders[1] + 8 * start, self._orders[2] + 8 * start)
        given = None if outputs is None else address_of(outputs)
        if given != self._given or self._has_outputs != (given is not None):
            self._give_outputs(program, given)
            self._given = given
        turn = self._turn
        turn[0, 2], turn[0, 3] = count, counter
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
        return program, len(self._program), steps, counter, self._is_shared, True

    # -- in turn with other runs --------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the instructions, of which each turn has its own."""
        return self._program.nbytes

    def tables(self, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for losses and penalties of some steps, and for their numbers."""
        flat, numbers = self._programs.gradient, self._programs.numbers
        return np.zeros((n_steps, 2), flat.dtype), np.zeros((n_steps, numbers.size), numbers.dtype)

    def turns(
        self, firsts: np.ndarray, starts: np.ndarray, steps: int, memory: tuple[Any, ...], counter: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return turns of this run among those of a call."""
        orders, numbers, losses, outputs = memory
        program = np.repeat(self._program[np.newaxis], len(firsts), axis=0)
        steps_before, rows_before = firsts[:, np.newaxis], starts[:, np.newaxis]
        self._point(program, *[address_of(x) + 8 * rows_before for x in orders])
        for mine, shared, place, field in (
            (self.losses, losses, self._gives_losses, TARGET),
            (self._numbers, numbers, self._takes_numbers, SOURCE),
        ):
            moved = address_of(shared) - address_of(mine)
            program[:, place, field] += moved + steps_before * shared.strides[0]
        self._give_outputs(
            program, None if outputs is None else address_of(outputs) + rows_before * outputs.strides[0]
        )
        table = np.empty((len(firsts), TURN), np.int64)
        table[:] = self._turn_of(address_of(program), steps, counter)
        table[:, 0] += np.arange(len(firsts)) * program.strides[0]
        table[:, 3] += firsts
        return table, program


# The turns of a run, each some of its steps: the first step and row of each, and how many steps each has.
Turns = tuple[NativeRun, tuple[np.ndarray, np.ndarray, int]]


def run_turns(
    runs: Sequence[Turns],
    orders: tuple[np.ndarray, np.ndarray],
    hyper: np.ndarray,
    counter: int,
    outputs: np.ndarray | None = None,
) -> np.ndarray:
    """Train on some batches, one after the other, in one call."""
    first = runs[0][0]
    losses, numbers = first.tables(len(hyper))
    numbers[...] = hyper
    memory = orders, numbers, losses, outputs
    tables, programs = zip(*[run.turns(*each, memory, counter) for run, each in runs], strict=True)
    table = np.stack(tables, axis=1).reshape(-1, tables[0].shape[1])
    done = first._steps(address_of(table), len(table))
    del programs  # which the table points to
    for run, _ in runs:
        run.check()
    return losses[:done]


LONG = 1 << 16  # bytes that a run reads and writes, about: 10 us and more, for which it releases the GIL


# Means and deviations of columns, by which rows are standardized, and `limit`, the largest result; `scaled`
# returns rows in these units. They are the estimators'.
Units = Any


class NativeStep:
    """The calls of a program in native code, with the bits of NumPy's."""

    def __init__(self, tape: Tape, calls: slice, nbytes: int, table: Any) -> None:
        self._tape, self._program = tape, tape.finished()
        start, n_calls = address_of(self._program), calls.stop - calls.start
        first = start + calls.start * self._program.strides[0]
        self._turns = np.zeros((2, TURN), np.int64)
        self._turns[:, :3] = (first, n_calls, 1), (start, len(self._program), 1)
        self._place, self._place_of_all = address_of(self._turns), address_of(self._turns[1])
        self._table = table
        self._units: Units | None = None
        self._read: tuple[Any, ...] = ()  # what instructions read of the units
        self._codes = {} if table is None else _codes(table.dtype)
        self._holds = nbytes < LONG
        self._steps, self._unchecked = needed().steps, needed().unchecked

    @classmethod
    def of(cls, calls: Iterable[Call], slot: Any, result: Any, nbytes: int) -> Self | None:
        """Translate calls, with checks around them if the program computes numbers from a table."""
        tape = Tape()  # products have BLAS's threads, as NumPy's have, and so their bits
        is_table = type(slot) is np.ndarray and slot.ndim == 2 and is_plain(slot, result)
        is_table = is_table and slot.dtype.char in "fd" and result.dtype.char in "fd" and slot.size > 0
        if is_table:  # the source is that of a run
            copy(tape, slot.itemsize, 0, (0, 0), tape.address(slot), slot.strides, slot.shape)
            check_finite(tape, slot)
        first = len(tape.rows)
        if not append(tape, calls):
            return None
        stop = len(tape.rows)
        if is_table:
            check_finite(tape, result)
        return cls(tape, slice(first, stop), nbytes, slot if is_table else None)

    def run(self) -> bool:
        """Make the calls; tell whether none of them has to be repeated by NumPy, which says what is wrong."""
        return self._steps(self._place, 1) == 1

    def unchecked(self, X: np.ndarray, units: Units | None = None) -> bool:
        """Compute the result for a table in units; tell whether that was done, and all numbers are finite."""
        if units is not self._units:
            self._take(units)
        found = self._codes.get(X.dtype)
        return found is not None and self._unchecked(X, self._place_of_all, found, self._holds) == 1

    def _take(self, units: Units | None) -> None:
        """Standardize tables by these units from now on."""
        self._units, place, table = units, 0, self._table
        if table is not None:
            self._codes = _codes(table.dtype if units is None else np.dtype(np.float64))
            if units is not None:
                parts = [
                    np.broadcast_to(x, table.shape[1:]).astype(np.float64) for x in (units.mean, units.scale)
                ]
                limit = np.array(np.inf if units.limit is None else units.limit)
                fields = np.array([*map(address_of, parts), limit.view(np.int64).item()], np.int64)
                self._read, place = (parts, fields), address_of(fields)
            self._program[0, UNITS] = place


@cache
def _codes(target: np.dtype[Any]) -> dict[np.dtype[Any], int | None]:
    return {each: code(each, target) for each in map(np.dtype, GIVEN)}


def right_rows(n_epochs: int, outputs: Any, targets: Any) -> list[int] | None:
    """Return how many rows of each epoch have their largest output in their class.

    None if the arrays have other layouts, an output is not finite, or a class is none.
    """
    n_rows, n_classes = outputs.shape
    if outputs.dtype.char not in "fd" or targets.dtype != np.int64 or not is_plain(outputs, targets):
        return None
    counts = np.empty(n_epochs, np.int64)
    arrays = map(address_of, (outputs, targets, counts))
    fields = np.array([*arrays, n_epochs, n_rows // n_epochs, n_classes], np.int64)
    failed = needed().passes(address_of(fields), outputs.itemsize, Work.RIGHT)
    found: list[int] = counts.tolist()
    return None if failed else found
