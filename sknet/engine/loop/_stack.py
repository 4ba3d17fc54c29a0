"""Fits of one structure as one program on a device: each array of a step has a leading axis of members."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from sknet._tree import leaves, map_leaves
from sknet.autograd import vmap
from sknet.compile import Compiled, Variable
from sknet.compile import compile as compiled
from sknet.compile.extend import OutputIndex, differing, outputs_with
from sknet.core import Tensor
from sknet.device import active, backend, to_device, to_host
from sknet.engine.loop._device_ring import Issued, Left
from sknet.engine.loop._device_steps import MOST_STEPS, SHARE
from sknet.engine.loop._member_steps import Done, MemberSteps, Place
from sknet.engine.loop._stack_ring import StackRing
from sknet.engine.loop._stack_rows import StackRows
from sknet.engine.loop._steps import steps_at_once
from sknet.engine.loop._turns import Turn
from sknet.engine.step import DeviceOutputs

__all__ = ["Stack", "StackPlan"]


class StackPlan:
    """The programs of a step of several members, which have no memory yet."""

    def __init__(self, members: Sequence[MemberSteps]) -> None:
        first = members[0]
        self.members, self.device = list(members), first.model.device
        self._owner = backend(self.device.kind)
        with active(self.device, first.model.precision):
            keys = np.array([member.model.memory.key for member in members], np.int64).T
            self.key = tuple(to_device(np.ascontiguousarray(x), self.device) for x in keys)
            self.programs = {n_rows: self._program(n_rows) for n_rows in first.sizes}
        state = max(self._read(program) for program in self.programs.values())
        orders = 2 * 8 * len(members) * first.batches.n_samples
        self.nbytes = state + orders + sum(program.nbytes for program in self.programs.values())

    @staticmethod
    def _read(program: Compiled) -> int:
        return sum(math.prod(x.shape) * x.dtype.itemsize for x in program.graph.inputs)

    def _program(self, n_rows: int) -> Compiled:
        """Return the program of a step of all members, each on so many rows."""
        each, n = [member.captured(n_rows) for member in self.members], len(self.members)
        of, at = each[0], differing(each)
        template, args = of.graph.called().result, of.graph.called().args
        numbers = {i: np.stack([x.numbers[i] for x in each]) for i in at}

        def one(given: Sequence[Tensor], numbers: Mapping[str, Tensor]) -> list[Tensor]:
            return outputs_with(of, given, {int(i): x for i, x in numbers.items()})

        def step(*args: Any) -> DeviceOutputs:
            outputs = vmap(one)(leaves(args[:-1]), args[-1])
            found: DeviceOutputs = map_leaves(
                lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, template
            )
            return found

        stacked = map_leaves(lambda x: Variable((n, *x.shape), x.dtype), args)
        own = {str(i): to_device(values, self.device) for i, values in numbers.items()}
        program = compiled(step, (*stacked[:-1], self.key, own), donate=range(5))
        return program.fresh((*(map_leaves(lambda x: None, x) for x in stacked[:-1]), self.key, own))


class Stack:
    """Members that are trained together."""

    def __init__(self, plan: StackPlan) -> None:
        self.plan, self.device, self.size = plan, plan.device, len(plan.members)
        self._owner = backend(self.device.kind)
        self._places = {id(member): i for i, member in enumerate(plan.members)}
        self._per_step = 1.0  # seconds; so that the first block has one step
        self._issued: dict[tuple[int, bool], tuple[Any, Issued, Callable[[], None]]] = {}
        self._outputs: Any = None
        self._shown: list[dict[str, Any]] = []
        self._copies: dict[str, Any] = {}
        first = plan.members[0]
        with active(self.device), self._asking("their rows, parameters and steps"):
            self._rows = StackRows([member.batches for member in plan.members])
            self._make_state(first)
            self._programs = {n_rows: self._bound(program) for n_rows, program in plan.programs.items()}
            most = min(MOST_STEPS, first.batches.n_batches)
            reported = self._programs[first.sizes[0]].returns.report.dtype
            self._ring = StackRing(self.device, self._numbers, most, first.batches.n_samples, reported)
            self._most = most
        with active(self.device):
            for i, member in enumerate(plan.members):
                member.move(self._place(i))

    def _asking(self, what: str) -> AbstractContextManager[None]:
        """Return a context in which an error of memory says what a stack needs, and what asked for more."""

        def said() -> str:
            rows, nbytes = self.plan.members[0].sizes[0], self.plan.nbytes
            return (
                f"in {self.size} fits at once, with batches of {rows} rows each, for {what}, where the plan "
                f"of a step takes {nbytes:,} bytes"
            )

        return self._owner.asking(self.device, said)

    # -- memory -------------------------------------------------------------------------------

    def _zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._owner.zeros((self.size, *shape), dtype, self.device)

    def _make_state(self, first: MemberSteps) -> None:
        memory, model = first.model.memory, first.model
        self._flat = self._zeros((memory.layout.size,), memory.dtype)
        self._slots = {name: self._zeros((memory.layout.size,), memory.dtype) for name in memory.slots}
        self._untrained = {name: self._zeros(x.shape, x.dtype) for name, x in memory.untrained.items()}
        self._counter, self._is_fine = self._zeros((), np.int64), self._zeros((), np.bool_)
        names = list(first.optimizer.hyper(1, model.progress))
        self._numbers = self._owner.zeros((len(names), self.size), memory.dtype, self.device)
        hyper = {name: self._numbers[i] for i, name in enumerate(names)}
        self._state = self._flat, self._slots, self._untrained, self._counter, self._is_fine, hyper

    def _bound(self, program: Compiled) -> Compiled:
        *_, key, numbers = program.slots
        found = program.fresh((*self._state, None, None, None, key, numbers))
        found.run  # noqa: B018 - which asks for all memory
        return found

    def _place(self, i: int) -> Place:
        slots = {name: slot[i] for name, slot in self._slots.items()}
        return Place(self._flat[i], slots, {name: x[i, ...] for name, x in self._untrained.items()})

    # -- members ------------------------------------------------------------------------------

    @property
    def live(self) -> list[MemberSteps]:
        """The members that have not left."""
        return [member for member in self.plan.members if not member.has_left]

    def __contains__(self, member: MemberSteps) -> bool:
        return id(member) in self._places

    # -- steps --------------------------------------------------------------------------------

    def run(self, waiting: Sequence[Turn]) -> list[Turn]:
        """Make a block of steps for members that wait for batches of as many rows; return their turns."""
        by_rows: dict[int, list[Turn]] = {}
        for turn in waiting:
            asked = turn.asked
            by_rows.setdefault(asked.steps.batches.part(asked.order, asked.first)[1], []).append(turn)
        n_rows, turns = max(by_rows.items(), key=lambda found: len(found[1]))
        with active(self.device), np.errstate(all="ignore"):  # as in a loop of one fit
            scored = [turn for turn in turns if turn.asked.is_scored]
            outputs = self._room(n_rows) if scored else None
            steps = self._steps_at_once(turns, n_rows, outputs)
            table = np.zeros((steps, *self._numbers.shape))
            awake = {self._at(turn): turn for turn in turns if self._has_numbers(turn, table)}
            if awake:
                self._make(awake, n_rows, table, outputs)
        return turns

    def _at(self, turn: Turn) -> int:
        return self._places[id(turn.asked.steps)]

    def _room(self, n_rows: int) -> Any:
        """Return memory for the outputs of some steps of all members."""
        output = self._programs[n_rows].returns.output
        if self._outputs is None or self._outputs.shape[1] < n_rows:
            n_samples = self.plan.members[0].batches.n_samples
            row = self.size * math.prod(output.shape[2:]) * output.dtype.itemsize
            free = self._owner.free_memory(self.device) // SHARE
            rows = min(n_samples, max(n_rows, free // max(row, 1)))
            with self._asking("outputs that wait for their scores"):
                self._outputs = self._zeros((rows, *output.shape[2:]), output.dtype)
        return self._outputs

    def _steps_at_once(self, turns: Sequence[Turn], n_rows: int, outputs: Any) -> int:
        most = min(self._most, steps_at_once(self._per_step))
        if outputs is not None:
            most = min(most, outputs.shape[1] // n_rows)
        asked = [turn.asked for turn in turns]
        found: int = min(x.steps.batches.in_a_row(x.order, x.first, min(x.most, most)) for x in asked)
        return found

    def _has_numbers(self, turn: Turn, table: np.ndarray) -> bool:
        """Write the scalars of a member's updates; a schedule that fails is an error of its fit alone."""
        steps = turn.asked.steps
        try:
            found = steps.optimizer.hyper_table(steps.model.progress, len(table))
        except Exception as error:
            turn.answer(error)
            return False
        table[:, :, self._at(turn)] = found
        return True

    def _make(self, awake: Mapping[int, Turn], n_rows: int, table: np.ndarray, outputs: Any) -> None:
        """Make steps for some members, and answer them."""
        started = time.perf_counter()
        self._send(awake, table)
        with self._asking("a step"):
            reports = self._issue(len(table), n_rows, outputs)
        self._per_step = (time.perf_counter() - started) / len(reports)
        self._show()
        output = Variable(*self._output_of(n_rows))
        for i, turn in awake.items():
            scored = outputs[i] if turn.asked.is_scored else None
            turn.answer(Done(reports[:, i], scored, output, self._shown[i]))

    def _output_of(self, n_rows: int) -> tuple[tuple[int, ...], Any]:
        output = self._programs[n_rows].returns.output
        return output.shape[1:], output.dtype

    def _send(self, awake: Mapping[int, Turn], table: np.ndarray) -> None:
        """Send what is new in a block: orders of rows, counters, scalars, and what models have set."""
        counter, starts = np.zeros((2, self.size), np.int64)
        is_fine = np.zeros(self.size, np.bool_)
        for i, turn in awake.items():
            model, batches = turn.asked.steps.model, turn.asked.steps.batches
            counter[i], starts[i], is_fine[i] = model.progress.step, turn.asked.first * batches.size, True
        self._counter[...] = to_device(counter, self.device)
        self._is_fine[...] = to_device(is_fine, self.device)
        self._rows.start({i: turn.asked.order for i, turn in awake.items()})
        self._ring.start(table, starts)
        self._take_buffers(awake)

    def _issue(self, steps: int, n_rows: int, outputs: Any) -> np.ndarray:
        """Issue some steps; return their reports as a host array. If memory runs out, there are fewer."""
        step, end = self._step_on(n_rows, outputs)
        for i in range(steps):
            try:
                step()
            except self._owner.memory_errors:
                if not i:
                    raise
                steps = i  # the error is raised by the next block, when the models know of these steps
                break
        end()
        return np.asarray(to_host(self._ring.reports[:steps]), dtype=np.float64)

    def _step_on(self, n_rows: int, outputs: Any) -> tuple[Issued, Callable[[], None]]:
        """Return the work of a step whose outputs go to an array, or to none; and what is left of a block."""
        key = n_rows, outputs is None
        memory, issued, end = self._issued.get(key, (None, None, None))
        if issued is None or end is None or memory is not outputs:
            launches, end = self._launches(n_rows, outputs)
            issued = Issued(launches, self.device)
            self._issued[key] = outputs, issued, end
        return issued, end

    def _launches(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        program, rows, ring = self._programs[n_rows], self._rows, self._ring
        found: DeviceOutputs = program.result
        output, report = (_Plain(x, self._owner, self.device) for x in (found.output, found.report))
        left = Left(report.array, output.array, outputs)
        begin = ring.begin(rows.taken(*program.slots[6:9]), left)

        def issue() -> None:
            begin()
            program.run()
            output.follow()
            report.follow()

        return issue, ring.end(left)

    # -- buffers ------------------------------------------------------------------------------

    @property
    def _buffer_names(self) -> list[str]:
        return list(self.plan.members[0].model.buffers)

    def _show(self) -> None:
        """Copy buffers for the models, which may keep them: every block has arrays of its own."""
        names = self._buffer_names
        shown = {name: self._untrained[name].copy() for name in names}
        self._shown = [{name: shown[name][i, ...] for name in names} for i in range(self.size)]
        self._copies = shown

    def _take_buffers(self, awake: Mapping[int, Turn]) -> None:
        """Read the buffers of models: at once what was shown to them, and by itself what they have set."""
        for name, copy in self._copies.items():
            self._untrained[name][...] = copy
        for i, turn in awake.items():
            shown = self._shown[i] if self._shown else {}
            for name, array in turn.asked.steps.model.buffers.items():
                if array is not shown.get(name):
                    self._untrained[name][i] = array


class _Plain:
    """An array in C order, and what brings it up to date, if a program leaves it in another."""

    def __init__(self, found: Any, owner: Any, device: Any) -> None:
        self._found, is_plain = found, owner.is_plain(found)
        self.array = found if is_plain else owner.zeros(found.shape, found.dtype, device)

    def follow(self) -> None:
        if self.array is not self._found:
            self.array[...] = self._found
