"""Stacks: fits of one structure whose steps are one program on a device."""

import math
import sys
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from sknet._tree import leaves, map_leaves
from sknet.autograd import vmap
from sknet.compile import Compiled, Variable, capture
from sknet.compile import compile as compiled
from sknet.compile._compile import optimized
from sknet.compile._graph import Graph, OutputIndex
from sknet.compile._symbolic import LiftedGraph, differing, lift_constants, outputs_with
from sknet.compile.cuda._persistent import Phases
from sknet.core import Tensor
from sknet.device import Device, Issued, active, backend, device_of, is_array, namespace, to_device, to_host
from sknet.engine._batches import Batches, ComputedRows
from sknet.engine._device_runner import (
    MOST_STEPS,
    SHARE_OF_OUTPUTS,
    Left,
    Ring,
    Taken,
    step_function,
)
from sknet.engine._fingerprint import Fingerprint, structure_of
from sknet.engine._inputs import any_sparse, each_input
from sknet.engine._model_like import ModelLike
from sknet.engine._optimizer import advance, follow_schedules, per_output
from sknet.engine._persistent import BatchRows, Input, Number, Persistent, State, Step, persistent
from sknet.engine._programs import DeviceOutputs, check_repeatable, is_made_of, made_of
from sknet.engine._runner_cache import steps_for
from sknet.engine._runners import Block, EagerSteps, Outputs, Steps, steps_at_once
from sknet.engine._scheduler import Fiber, current_fiber
from sknet.exceptions import CaptureError, GraphError

# `starts` has the first row of each fit in its order; `next` and `done` are steps, as in the text around.
TAKEN = """\
        for ({index} i = thread; i < {size}; i += threads) {{
            const {index} fit = i / {of_fit};
            const long long row = starts[fit] + next * {n_rows} + i % {of_fit} / {width};
            to{n}[i] = from{n}[of{n}[fit * {n_samples}LL + row] * {width} + i % {width}];
        }}
"""
REPORT = """\
    for ({index} i = thread; i < {n_reports}; i += threads)
        reports[done * {n_reports} + i] = report[i];
"""
OUTPUT = """\
    for ({index} i = thread; i < {size}; i += threads)
        outputs[i / {of_fit} * {room}LL + done * {of_fit} + i % {of_fit}] = output[i];
"""


class StackRing(Ring):
    """The inputs and reports of the steps of one block, of several fits."""

    report, output = REPORT, OUTPUT

    def __init__(self, device: Device, numbers: Any, most: int, n_samples: int, reported: Any) -> None:
        super().__init__(device, numbers, most, reported, (numbers.shape[1], 3), n_positions=2)
        self.n_fits, self._n_samples = numbers.shape[1], n_samples
        self._starts = self._zeros((self.n_fits,), np.int64)

    def start_fits(self, table: np.ndarray, starts: np.ndarray) -> None:
        """Begin a block at these rows of the fits' orders."""
        self.send(table)
        self._at[...] = to_device(np.array([0, len(table)], np.int64), self._device)
        self._starts[...] = to_device(starts, self._device)

    def _places(self) -> dict[str, Any]:
        return {"starts": self._starts}

    def _taken(self, n: int, each: Taken, index: str) -> str:
        n_rows, size = each.slot.shape[1], each.slot.size * each.slot.dtype.itemsize // self._unit(each)
        counts = {"size": size, "of_fit": size // self.n_fits, "width": size // (self.n_fits * n_rows)}
        return TAKEN.format(n=n, index=index, n_rows=n_rows, n_samples=self._n_samples, **counts)


SHARE_OF_INPUTS = 2  # inputs take at most this part of the free memory


class StackRows:
    """The rows of several fits."""

    def __init__(self, each: Sequence[Batches]) -> None:
        first = each[0]
        self._each, self._device = list(each), first.device
        self._X, first_of_X = _tables([batches.X for batches in each], first.input_dtype, first.device)
        self._y, first_of_y = _table([batches.y for batches in each], first.y.dtype, first.device)
        self._weight: Any = None
        if first.weight is not None:
            weights = [batches.weight for batches in each]
            self._weight, of_weight = _table(weights, first.weight.dtype, first.device)
            if of_weight != first_of_y:  # one order for both
                self._y, first_of_y = _joined([batches.y for batches in each], first.y.dtype, first.device)
                self._weight, _ = _joined(weights, first.weight.dtype, first.device)
        self._first_of_X, self._first_of_y = first_of_X, first_of_y
        shape = len(each), first.n_samples
        is_one = first_of_X == first_of_y and all(batches.chosen is None for batches in each)
        zeros = backend(first.device.kind).zeros
        self.order_of_targets = zeros(shape, np.int64, first.device)
        self.order_of_X = self.order_of_targets if is_one else zeros(shape, np.int64, first.device)
        self._on_host = [np.zeros(shape, np.int64) for _ in range(1 if is_one else 2)]
        self._orders: list[Any] = [()] * len(each)  # of no epoch

    def start(self, orders: "dict[int, Any]") -> None:
        """Put the orders of some fits' epochs on the device, if they are new; None is that of the data."""
        new = [i for i, order in orders.items() if self._orders[i] is not order]
        for i in new:
            batches, order = self._each[i], orders[i]
            rows = np.arange(batches.n_samples) if order is None else np.asarray(order)
            self._on_host[0][i] = self._first_of_y[i] + rows
            if len(self._on_host) > 1:
                chosen = rows if batches.chosen is None else np.asarray(batches.chosen)[rows]
                self._on_host[1][i] = self._first_of_X[i] + chosen
            self._orders[i] = order
        parts = [slice(i, i + 1) for i in new] if 2 * len(new) < len(self._orders) else [slice(None)]
        places = self.order_of_targets, self.order_of_X
        for place, values in zip(places, self._on_host, strict=False):
            for part in parts if new else ():
                place[part] = to_device(values[part], self._device)

    def taken(self, X: Any, y: Any, weight: Any) -> list[Taken]:
        """Return the rows that a step takes into slots of shape (n_fits, n_rows, ...)."""
        inputs, slots = (x if isinstance(x, dict) else {None: x} for x in (self._X, X))
        found = [Taken(self.order_of_X, inputs[name], slot) for name, slot in slots.items()]
        found.append(Taken(self.order_of_targets, self._y, y))
        if weight is not None:
            found.append(Taken(self.order_of_targets, self._weight, weight))
        return found


def fit_in_memory(each: Sequence[Batches]) -> bool:
    """Tell whether the inputs of several fits take at most half of the memory that is free."""
    first = each[0]

    def nbytes(*arrays: Any) -> int:
        missing = {id(x): x for x in arrays[1:] if x.dtype != arrays[0] or device_of(x) != first.device}
        return sum(math.prod(x.shape) * arrays[0].itemsize for x in missing.values())

    found = each_input(nbytes, first.input_dtype, *[batches.X for batches in each])
    total = sum(found.values()) if isinstance(found, dict) else found
    return bool(total <= backend(first.device.kind).free_memory(first.device) // SHARE_OF_INPUTS)


def _tables(given: Sequence[Any], dtypes: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of several fits, of one input or of each, and where those of each fit begin."""
    if not isinstance(given[0], dict):
        return _table(given, dtypes, device)
    columns = {name: [x[name] for x in given] for name in given[0]}
    found = {name: _table(column, dtypes[name], device) for name, column in columns.items()}
    starts = [first for _, first in found.values()]
    if any(first != starts[0] for first in starts):
        found = {name: _joined(column, dtypes[name], device) for name, column in columns.items()}
    return {name: table for name, (table, _) in found.items()}, next(iter(found.values()))[1]


def _table(given: Sequence[Any], dtype: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of all arrays, each array once, and where those of each begin."""
    starts: dict[int, int] = {}
    distinct: list[Any] = []
    end = 0
    for x in given:
        if id(x) not in starts:
            starts[id(x)] = end
            distinct.append(x)
            end += x.shape[0]
    return _laid(distinct, dtype, device), [starts[id(x)] for x in given]


def _joined(given: Sequence[Any], dtype: Any, device: Device) -> tuple[Any, list[int]]:
    """Return the rows of all arrays, one after another, and where those of each begin."""
    ends = np.cumsum([x.shape[0] for x in given]).tolist()
    return _laid(given, dtype, device), [0, *ends[:-1]]


def _laid(arrays: Sequence[Any], dtype: Any, device: Device) -> Any:
    if len(arrays) == 1:
        return _on_device(arrays[0], dtype, device)
    shape = sum(x.shape[0] for x in arrays), *arrays[0].shape[1:]
    table, end = backend(device.kind).zeros(shape, dtype, device), 0
    for x in arrays:
        table[end : end + x.shape[0]] = _on_device(x, dtype, device)
        end += x.shape[0]
    return table


def _on_device(x: Any, dtype: Any, device: Device) -> Any:
    x = x if x.dtype == dtype else x.astype(dtype)
    x = x if device_of(x) == device else to_device(x, device)
    return x if backend(device.kind).is_plain(x) else x.copy()


class Asked(NamedTuple):
    """A block of steps that a fit waits for."""

    steps: "MemberSteps"
    order: Any
    first: int
    most: int
    is_scored: bool


class Done(NamedTuple):
    """The block that a fit has been given; None in its place tells the fit to train alone."""

    reports: np.ndarray
    outputs: Any
    output: Variable
    buffers: dict[str, Any]


class MemberMemory(NamedTuple):
    flat: Any
    slots: dict[str, Any]
    untrained: dict[str, Any]


class MemberSteps(Steps):
    """Steps on a device that are made for many models at once, each with its own rows, rates and seed."""

    def __init__(self, model: ModelLike, batches: Batches, check_finite: bool, fiber: Fiber) -> None:
        super().__init__(model, batches, check_finite)
        self.optimizer = model.optimizer.in_steps()
        self._fiber = fiber
        self._alone: Steps | None = None
        self._captured: dict[int, LiftedGraph] = {}
        self._structure = structure_of(model.module, model.loss_function, model.alpha, self.optimizer)
        self._made_of = made_of(model)
        self._fingerprint = Fingerprint(model.module, model.loss_function, model.optimizer)
        self._is_placed = False
        forms = fiber.shared.setdefault("forms", {})
        self.form: int = forms.setdefault(self._form(), len(forms))
        fiber.at_end.append(self.end)
        fiber.steps = self

    @property
    def name(self) -> str:
        return type(self).__name__ if self._alone is None else self._alone.name

    def is_valid(self) -> bool:
        if self._alone is not None:
            return self._alone.is_valid()
        return is_made_of(self.model, self._made_of) and self._fingerprint.holds()

    # -- what steps can be made together --------------------------------------------------------

    def _form(self) -> Hashable:
        model, batches = self.model, self.batches
        sizes = self.sizes
        inputs = batches.X if isinstance(batches.X, dict) else {None: batches.X}
        dtypes = batches.input_dtype
        kinds = dtypes.values() if isinstance(dtypes, dict) else [dtypes]
        return (
            *(self.captured(n_rows).key for n_rows in sizes),
            tuple(model.memory.layout.shapes.items()),
            (model.precision, model.device, self.check_finite, batches.n_samples, batches.size),
            tuple(zip(inputs, map(str, kinds), strict=True)),
            (model.memory.slot_names, tuple(model.memory.untrained), tuple(model.buffers)),
            tuple(self.optimizer.hyper(1, model.progress)),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(n_rows for _, n_rows, _ in self.batches.alike)

    def captured(self, n_rows: int) -> LiftedGraph:
        """Return the step of this model alone on so many rows, as a graph with its numbers."""
        if n_rows not in self._captured:
            known = self._fiber.shared.setdefault("captured", {})
            key = None if self._structure is None else (*self._what_a_graph_depends_on, n_rows)
            if key is None or key not in known:
                found = self._capture(n_rows)
                if key is None:
                    self._captured[n_rows] = found
                    return found
                known[key] = found
            self._captured[n_rows] = known[key]
        return self._captured[n_rows]

    @property
    def _what_a_graph_depends_on(self) -> tuple[Hashable, ...]:
        model, batches = self.model, self.batches
        arrays = [batches.y, *([] if batches.weight is None else [batches.weight])]
        inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
        return (
            self._structure,
            tuple(model.memory.layout.shapes.items()),
            (model.dtype, model.device, self.check_finite, str(batches.input_dtype)),
            tuple((x.shape[1:], str(x.dtype)) for x in (*inputs, *arrays)),
            len(arrays),
        )

    def _capture(self, n_rows: int) -> LiftedGraph:
        model, batches = self.model, self.batches
        function = step_function(model, batches.weight is not None, self.check_finite, is_masked=True)

        def one(x: Any, dtype: Any) -> Variable:
            return Variable((n_rows, *x.shape[1:]), dtype)

        with active(model.device, model.precision):
            flat, slots = model.memory.flat_buffers()
            hyper = {name: Variable((), flat.dtype) for name in self.optimizer.hyper(1, model.progress)}
            X = each_input(one, batches.X, batches.input_dtype)
            y, weight = (None if x is None else one(x, x.dtype) for x in (batches.y, batches.weight))
            counter, is_fine = Variable((), np.int64), Variable((), np.bool_)
            args = (flat, slots, model.memory.untrained, counter, is_fine, hyper, X, y, weight)
            key = Variable((), np.int64), Variable((), np.int64)
            check_repeatable(model, function, (*args, key))
            return lift_constants(capture(function, *args, key))

    # -- the place in a stack -------------------------------------------------------------------

    def move(self, place: MemberMemory) -> None:
        """Let the model keep its arrays where the stack reads and writes them."""
        model = self.model
        with active(model.device, model.precision):
            for name, array in model.buffers.items():
                place.untrained[name][...] = array
            model.memory.move(place.flat, place.slots, place.untrained)
        self._made_of, self._is_placed = made_of(model), True

    def end(self, is_reusable: bool = True) -> None:
        """Leave the stack: the model keeps its arrays by itself."""
        memory, self.has_left = self.model.memory, True
        if self._fiber.steps is self:
            self._fiber.steps = None
        is_placed, self._is_placed = self._is_placed, False
        if not is_placed or memory.is_spent or memory.flat is not self._made_of[0]:
            return
        owner, frozen = backend(memory.device.kind), {name: p.data for name, p in memory.frozen.items()}
        try:
            with active(memory.device):
                own = {name: owner.zeros(x.shape, x.dtype, memory.device) for name, x in frozen.items()}
                buffers = {name: array.copy() for name, array in memory.buffers.items()}
                memory.move(memory.zeros(), {name: memory.zeros() for name in memory.slots}, own)
                memory.set_buffers(buffers)
            self.model._network = None  # gives back the memory of programs that read these parameters
        except owner.memory_errors:
            pass  # the memory of the stack is kept instead

    has_left = False  # or has ended

    # -- steps ----------------------------------------------------------------------------------

    def run(self, order: Any, first: int, most: int = sys.maxsize, outputs: Outputs | None = None) -> Block:
        if self._alone is None:
            found = self._fiber.wait(Asked(self, order, first, most, outputs is not None))
            if found is not None:
                return self._taken(found, order, first, outputs)
            self._go_alone()
        assert self._alone is not None
        return self._alone.run(order, first, most, outputs)

    def _taken(self, found: Done, order: Any, first: int, outputs: Outputs | None) -> Block:
        model, reports = self.model, found.reports
        _, n_rows = self.batches.part(order, first)
        done = len(reports) if reports[:, 2].all() else int(np.argmin(reports[:, 2]))
        if not done:  # raises an error that says what is wrong, unless it was a false alarm
            return EagerSteps(model, self.batches, self.check_finite).run(order, first, 1, outputs)
        if outputs is not None:
            given, n = found.outputs, done * n_rows
            room = outputs.free(n, given.shape[1:], given.dtype, namespace(given))
            room[:n] = given[:n]
        advance(model, found.buffers, done)
        losses = per_output(model, 1.0, found.output) * reports[:done, 0] + reports[:done, 1]
        return Block(losses, done * n_rows)

    def _go_alone(self) -> None:
        self.end()
        self._fiber.leave()
        self._alone = steps_for(self.model, self.batches, self.check_finite)


def member_steps(model: ModelLike, batches: Batches, check_finite: bool) -> MemberSteps | None:
    """Return steps that are made together with those of other fits; None if this fit trains alone."""
    fiber = current_fiber()
    if fiber is None or fiber.steps is not None:  # a callback of the waiting fit trains this model
        return None
    # Who has changed what its steps are made of goes on alone.
    if not fiber.at_end and _may_be_member(model, batches):
        try:
            return MemberSteps(model, batches, check_finite, fiber)
        except (CaptureError, GraphError):
            pass  # told by the steps of this fit alone
    fiber.leave()
    return None


def _may_be_member(model: ModelLike, batches: Batches) -> bool:
    if model.device.kind == "cpu" or not model.compile or any_sparse(batches.X) or follow_schedules(model):
        return False
    inputs = batches.X.values() if isinstance(batches.X, dict) else [batches.X]
    return all(is_array(x) and not isinstance(x, ComputedRows) for x in inputs)


class One(NamedTuple):
    """The step of one member, as phases of a kernel, and what else members have by themselves."""

    step: Step
    phases: Phases
    own: list[Any]


class StackPlan:
    """The programs of a step of several members, which have no memory yet."""

    def __init__(self, members: Sequence[MemberSteps]) -> None:
        first = members[0]
        self.members, self.device = list(members), first.model.device
        self._owner = backend(self.device.kind)
        with active(self.device, first.model.precision):
            keys = np.array([member.model.memory.key for member in members], np.int64).T
            self.key = tuple(to_device(np.ascontiguousarray(x), self.device) for x in keys)
            found = {n_rows: self._one(n_rows) for n_rows in first.sizes}
            self.ones = {n_rows: one for n_rows, one in found.items() if one is not None}
            is_each = len(self.ones) == len(found)
            self.programs = {} if is_each else {n_rows: self._program(n_rows) for n_rows in first.sizes}
        graphs = [program.graph for program in self.programs.values()]
        state = (
            max(map(self._read, graphs))
            if graphs
            else len(members) * self._read(self.ones[first.sizes[0]].step.graph)
        )
        orders = 2 * 8 * len(members) * first.batches.n_samples
        self.nbytes = state + orders + sum(program.nbytes for program in self.programs.values())

    @staticmethod
    def _read(graph: Graph) -> int:
        return sum(math.prod(x.shape) * x.dtype.itemsize for x in graph.inputs)

    def _numbers(self, n_rows: int) -> tuple[LiftedGraph, dict[int, np.ndarray]]:
        """Return the graph of a member's step, and the numbers in it that members have by themselves."""
        each = [member.captured(n_rows) for member in self.members]
        return each[0], {i: np.stack([x.numbers[i] for x in each]) for i in differing(each)}

    def _one(self, n_rows: int) -> "One | None":
        """Return the step of one member as phases of a kernel that makes those of all; None if unsuited."""
        of, numbers = self._numbers(n_rows)
        template, args = of.graph.called().result, of.graph.called().args

        def step(*args: Any) -> DeviceOutputs:
            outputs = outputs_with(of, leaves(args[:-1]), {int(i): x for i, x in args[-1].items()})
            return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, template)

        own = {str(i): Variable(values.shape[1:], values.dtype) for i, values in numbers.items()}
        graph, donated, returns = optimized(step, (*args, own), range(5))
        first, count = len(leaves(args[:6])), len(leaves(args[6:9]))
        batch = graph.inputs[first : first + count]
        one = Step(graph, donated, returns.output, returns.report, batch)
        found = persistent(one, n_rows, self.device, len(self.members))
        arrays = [to_device(values, self.device) for values in numbers.values()]
        return None if found is None else One(one, found, [*self.key, *arrays])

    def rows_of(self, n_rows: int) -> tuple[Any, Any, Any]:
        """Return shape and dtype of the inputs, targets and weights of one member's step."""
        X, y, weight = self.members[0].captured(n_rows).graph.called().args[6:9]
        return X, y, weight

    def returns(self, n_rows: int) -> DeviceOutputs:
        """Return shape and dtype of what the step of one member returns."""
        called = self.members[0].captured(n_rows).graph.called()
        outputs = self.members[0].captured(n_rows).graph.outputs
        return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, called.result)

    def _program(self, n_rows: int) -> Compiled:
        """Return the program of a step of all members, each on so many rows."""
        n, (of, numbers) = len(self.members), self._numbers(n_rows)
        template, args = of.graph.called().result, of.graph.called().args

        def one(given: Sequence[Tensor], numbers: Mapping[str, Tensor]) -> list[Tensor]:
            return outputs_with(of, given, {int(i): x for i, x in numbers.items()})

        def step(*args: Any) -> DeviceOutputs:
            outputs = vmap(one)(leaves(args[:-1]), args[-1])
            return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, template)

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
        self._issued: dict[tuple[int, bool], tuple[Any, Callable[[], None], Issued]] = {}
        self._whole: dict[tuple[int, bool], tuple[Any, Persistent]] = {}
        self._outputs: Any = None
        self._shown: list[dict[str, Any]] = []
        self._copies: dict[str, Any] = {}
        first = plan.members[0]
        with active(self.device), self._asking("their rows, parameters and steps"):
            self._rows = StackRows([member.batches for member in plan.members])
            self._make_state(first)
            self._programs = {n_rows: self._bound(program) for n_rows, program in plan.programs.items()}
            most = min(MOST_STEPS, first.batches.n_batches)
            reported = plan.returns(first.sizes[0]).report.dtype
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

    def _place(self, i: int) -> MemberMemory:
        slots = {name: slot[i] for name, slot in self._slots.items()}
        return MemberMemory(self._flat[i], slots, {name: x[i, ...] for name, x in self._untrained.items()})

    # -- members ------------------------------------------------------------------------------

    @property
    def live(self) -> list[MemberSteps]:
        """The members that have not left."""
        return [member for member in self.plan.members if not member.has_left]

    def __contains__(self, member: MemberSteps) -> bool:
        return id(member) in self._places

    # -- steps --------------------------------------------------------------------------------

    def run(self, waiting: Sequence[Fiber]) -> list[Fiber]:
        """Make a block of steps for members that wait for batches of as many rows; return their fibers."""
        by_rows: dict[int, list[Fiber]] = {}
        for fiber in waiting:
            asked = fiber.asked
            by_rows.setdefault(asked.steps.batches.part(asked.order, asked.first)[1], []).append(fiber)
        n_rows, fibers = max(by_rows.items(), key=lambda found: len(found[1]))
        with active(self.device), np.errstate(all="ignore"):  # as in a loop of one fit
            scored = [fiber for fiber in fibers if fiber.asked.is_scored]
            outputs = self._room(n_rows) if scored else None
            steps = self._steps_at_once(fibers, n_rows, outputs)
            table = np.zeros((steps, *self._numbers.shape))
            awake = {self._at(fiber): fiber for fiber in fibers if self._has_numbers(fiber, table)}
            if awake:
                self._make(awake, n_rows, table, outputs)
        return fibers

    def _at(self, fiber: Fiber) -> int:
        return self._places[id(fiber.asked.steps)]

    def _room(self, n_rows: int) -> Any:
        """Return memory for the outputs of some steps of all members."""
        output = self.plan.returns(n_rows).output
        if self._outputs is None or self._outputs.shape[1] < n_rows:
            n_samples = self.plan.members[0].batches.n_samples
            row = self.size * math.prod(output.shape[1:]) * output.dtype.itemsize
            free = self._owner.free_memory(self.device) // SHARE_OF_OUTPUTS
            rows = min(n_samples, max(n_rows, free // max(row, 1)))
            with self._asking("outputs that wait for their scores"):
                self._outputs = self._zeros((rows, *output.shape[1:]), output.dtype)
        return self._outputs

    def _steps_at_once(self, fibers: Sequence[Fiber], n_rows: int, outputs: Any) -> int:
        most = min(self._most, steps_at_once(self._per_step))
        if outputs is not None:
            most = min(most, outputs.shape[1] // n_rows)
        asked = [fiber.asked for fiber in fibers]
        return min(x.steps.batches.in_a_row(x.order, x.first, min(x.most, most)) for x in asked)

    def _has_numbers(self, fiber: Fiber, table: np.ndarray) -> bool:
        """Write the scalars of a member's updates; a schedule that fails is an error of its fit alone."""
        steps = fiber.asked.steps
        try:
            found = steps.optimizer.hyper_table(steps.model.progress, len(table))
        except Exception as error:
            fiber.answer(error)
            return False
        table[:, :, self._at(fiber)] = found
        return True

    def _make(self, awake: Mapping[int, Fiber], n_rows: int, table: np.ndarray, outputs: Any) -> None:
        """Make steps for some members, and answer them."""
        started = time.perf_counter()
        self._send(awake, table)
        with self._asking("a step"):
            reports = self._issue(len(table), n_rows, outputs)
        self._per_step = (time.perf_counter() - started) / len(reports)
        self._show()
        output = self.plan.returns(n_rows).output
        for i, fiber in awake.items():
            scored = outputs[i] if fiber.asked.is_scored else None
            fiber.answer(Done(reports[:, i], scored, output, self._shown[i]))

    def _send(self, awake: Mapping[int, Fiber], table: np.ndarray) -> None:
        """Send what is new in a block: orders of rows, counters, scalars, and what models have set."""
        counter, starts = np.zeros((2, self.size), np.int64)
        is_fine = np.zeros(self.size, np.bool_)
        for i, fiber in awake.items():
            model, batches = fiber.asked.steps.model, fiber.asked.steps.batches
            counter[i], starts[i], is_fine[i] = model.progress.step, fiber.asked.first * batches.size, True
        self._counter[...] = to_device(counter, self.device)
        self._is_fine[...] = to_device(is_fine, self.device)
        self._rows.start({i: fiber.asked.order for i, fiber in awake.items()})
        self._starts = starts
        if self._programs:
            self._ring.start_fits(table, starts)
        else:
            self._ring.send(table)
        self._take_buffers(awake)

    def _issue(self, steps: int, n_rows: int, outputs: Any) -> np.ndarray:
        """Issue some steps; return their reports as a host array. If memory runs out, there are fewer."""
        if self._programs:
            steps = self._issue_each(steps, n_rows, outputs)
        else:
            self._whole_block(n_rows, outputs)(steps, self._starts.tolist(), 0)
        return np.asarray(to_host(self._ring.reports[:steps]), dtype=np.float64)

    def _issue_each(self, steps: int, n_rows: int, outputs: Any) -> int:
        begin, step = self._step_on(n_rows, outputs)
        begin()
        for i in range(steps):
            try:
                step()
            except self._owner.memory_errors:
                if not i:
                    raise
                return i  # the error is raised by the next block, when the models know of these steps
        return steps

    def _whole_block(self, n_rows: int, outputs: Any) -> Persistent:
        """Return what makes all steps of a block in one launch."""
        key = n_rows, outputs is None
        memory, whole = self._whole.get(key, (None, None))
        if whole is None or memory is not outputs:
            one, state = self.plan.ones[n_rows], self._state
            inputs: list[Input] = [*map(State, leaves(state[:5])), *map(Number, range(len(state[5])))]
            inputs += [BatchRows(x.order, x.source) for x in self._rows.taken(*self.plan.rows_of(n_rows))]
            inputs += map(State, one.own)
            whole = Persistent(
                one.step, one.phases, inputs, self.size, n_rows, self._ring, outputs, self.device
            )
            self._whole[key] = outputs, whole
        return whole

    def _step_on(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Issued]:
        """Return functions that begin a block and make its steps, with outputs in an array or none."""
        key = n_rows, outputs is None
        memory, begin, issued = self._issued.get(key, (None, None, None))
        if issued is None or begin is None or memory is not outputs:
            begin, launches = self._launches(n_rows, outputs)
            issued = Issued(launches, self.device)
            self._issued[key] = outputs, begin, issued
        return begin, issued

    def _launches(self, n_rows: int, outputs: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        program, rows, ring = self._programs[n_rows], self._rows, self._ring
        found: DeviceOutputs = program.result
        output, report = (_Plain(x, self._owner, self.device) for x in (found.output, found.report))
        left, taken = Left(report.array, output.array, outputs), rows.taken(*program.slots[6:9])
        is_plain = output.is_plain and report.is_plain
        begin, run, end = ring.turn(program, n_rows, taken, left, is_plain=is_plain)

        def issue() -> None:
            run()
            output.refresh()
            report.refresh()
            end()

        return begin, issue

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

    def _take_buffers(self, awake: Mapping[int, Fiber]) -> None:
        """Read the buffers of models: at once what was shown to them, and by itself what they have set."""
        for name, copy in self._copies.items():
            self._untrained[name][...] = copy
        for i, fiber in awake.items():
            shown = self._shown[i] if self._shown else {}
            for name, array in fiber.asked.steps.model.buffers.items():
                if array is not shown.get(name):
                    self._untrained[name][i] = array


class _Plain:
    """An array in C order, and what brings it up to date, if a program leaves it in another."""

    def __init__(self, found: Any, owner: Any, device: Any) -> None:
        self._found, self.is_plain = found, owner.is_plain(found)
        self.array = found if self.is_plain else owner.zeros(found.shape, found.dtype, device)

    def refresh(self) -> None:
        if not self.is_plain:
            self.array[...] = self._found
