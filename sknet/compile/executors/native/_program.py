"""The native function: many training steps in one call, generated from the graphs of gradient and update."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sknet.compile._graph import Graph, Variable
from sknet.compile._layout import Buffer, aligned_memory, assign_offsets
from sknet.compile.executors._products import product_source, product_workspace
from sknet.compile.executors.native import _array_rules as _array_rules  # registers its rules
from sknet.compile.executors.native import _view_rules as _view_rules  # registers its rules
from sknet.compile.executors.native._bind import Stored, bound_calls, formed, scratch_of
from sknet.compile.executors.native._calls import CallWriter
from sknet.compile.executors.native._host import HostCalls
from sknet.compile.executors.native._loops import LoopWriter, Names
from sknet.compile.executors.native._math import source_of
from sknet.compile.executors.native._nest import NestWriter
from sknet.compile.executors.native._scalar import ScalarWriter
from sknet.compile.executors.native._schedule import Call, Loop, Nest, Schedule
from sknet.compile.executors.native._text import HEAD, TAIL
from sknet.compile.executors.native._value import (
    ArrayCall,
    Assembly,
    Columns,
    Given,
    HostCall,
    Map,
    Mask,
    Product,
    Reduction,
    Value,
    View,
)
from sknet.compile.executors.native._values import Values

__all__ = ["NativeProgram", "input_names"]

TARGETS = ("y", "weight", "x_order", "y_order")
STEPS = ("start", "count", "check", "counter", "hyper", "losses", "outputs")
FIXED = (*TARGETS, *STEPS, "numbers", "keys", "sizes", "room")


def input_names(count: int) -> list[str]:
    """Return the names that the function uses for the inputs of the network."""
    return ["X"] if count == 1 else [f"X{i}" for i in range(count)]


class NativeProgram:
    """Source of a function for many training steps, and how to make its arguments.

    Parameters
    ----------
    gradient : Graph
        Optimised. Inputs: flat parameters, flat gradient, buffers, inputs of the network, y, weight
        (if weighted), counter. Outputs: gradient, changed buffers, raw output, loss, penalty.
    update : Graph
        Optimised. Inputs: flat parameters, slots, flat gradient, numbers of the step. Outputs:
        parameters and slots.
    n_inputs : int
        Number of inputs of the network.
    weighted : bool
        Whether there are sample weights.
    changed : sequence of int
        Index of each changed buffer among all buffers.
    whole : sequence of str
        Those of the inputs (by `input_names`), "y" and "weight" that are C-contiguous and have the
        dtype of a batch, so that a slice of their rows can serve as one.

    Attributes
    ----------
    is_of_matrices : bool
        Whether no array has more than two axes of a length other than 1, and all functions over whole arrays
        are products, masks and columns of zeros.
    in_place : set of str
        Those of `whole` whose rows are read without a copy if the order of the epoch is empty.
    source : str
        Independent of all sizes.

    Raises
    ------
    UnsupportedError
        If a graph reads sparse matrices.
    """

    def __init__(
        self,
        gradient: Graph,
        update: Graph,
        *,
        n_inputs: int = 1,
        weighted: bool = False,
        changed: Sequence[int] = (),
        whole: Sequence[str] = (),
    ) -> None:
        self._inputs, self._weighted = input_names(n_inputs), weighted
        self.dtype = gradient.inputs[0].dtype
        self._names, self._scalars = Names(), ScalarWriter(self.dtype)
        self._places: dict[Value, tuple[Value, int]] = {}
        self._constants: dict[Value, np.ndarray] = {}
        self._memory: dict[Value, Buffer] = {}
        self._scratch: dict[HostCall, list[Buffer]] = {}
        self._calls = CallWriter(self._names, self._scalars)
        self._commits: list[tuple[Value, Value]] = []
        self._kept: set[Value] = set()
        self.is_of_matrices = True
        lines = [
            *self._gradient_lines(Values(gradient, "g"), changed),
            *self._update_lines(update),
        ]
        self._place_rows()
        self.in_place = {
            source for value, source in self._batch if source in whole and self._can_be_in_place(value)
        }
        scratch = [buffer for buffers in self._scratch.values() for buffer in buffers]
        self.arena_size, _ = assign_offsets([*self._memory.values(), *self._rows.values(), *scratch])
        self.source = self._source(lines)

    # -- the gradient -------------------------------------------------------------------------

    def _gradient_lines(self, values: Values, changed: Sequence[int]) -> list[str]:
        flat, gradient, *rest = values.inputs
        self._buffers = rest[: len(rest) - len(self._inputs) - (3 if self._weighted else 2)]
        *batch, counter = rest[len(self._buffers) :]
        found, *outputs = values.outputs
        *new_buffers, output, loss, penalty = outputs
        names = [*self._inputs, "y", "weight"] if self._weighted else [*self._inputs, "y"]
        self._batch = list(zip(batch, names, strict=True))
        self._given = {flat: "flat", gradient: "gradient"}
        counter.is_number = True
        self._constants.update(values.constants)
        targets = self._gradient_targets(values, found, gradient)
        buffers = self._taken_over(values, new_buffers, [self._buffers[i] for i in changed])
        scalars = [
            x if _is_new(x) and x.is_local else values.copy(x, like)
            for x, like in zip((loss, penalty), values.graph.outputs[-2:], strict=True)
        ]
        if not isinstance(output, (Map, ArrayCall)):
            output = values.copy(output, values.graph.outputs[-3])
        self.rows, self.output_shape = batch[0].shape[0], values.graph.outputs[-3].shape
        self._output = output
        schedule = Schedule([*targets, output, *buffers, *scalars, *values.outside])
        output.stored = True
        lines = [f"{counter.name} = counter + b", *self._written(schedule)]
        lines += self._output_lines(output)
        lines += [f"losses[b, {i}] = {x.name}" for i, x in enumerate(scalars)]
        # The NumPy plan repeats the step, and its error names the index.
        lines += [f"if {x.name} > T(0.0):\n            return b" for x in values.outside]
        lines += self._check_lines(scalars, gradient)
        for new, old in self._commits:
            lines.append(f"{self._names.array(old)}[:] = {self._names.array(new)}")
        return lines

    def _gradient_targets(self, values: Values, found: Any, gradient: Value) -> list[Value]:
        """Let every slice of the gradient be written in place."""
        parts: list[tuple[int, Any, Any]] = [(0, found, gradient.shape)]
        if isinstance(found, Assembly):
            parts = list(zip(found.starts, found.operands, found.given, strict=True))
        targets = []
        for start, part, shape in parts:
            value = _unviewed(part)
            is_own = isinstance(value, (Map, Reduction, ArrayCall)) and value.axes
            # A view that broadcasts or takes a part is copied.
            if not is_own or value in self._places or not _has_all(part):
                value = values.copy(part, Variable(shape, gradient.dtype))
            value.stored = True
            self._places[value] = gradient, start
            targets.append(value)
        return targets

    def _taken_over(self, values: Values, new: Iterable[Any], old: Iterable[Value]) -> list[Value]:
        """Return values that replace others once the step is known to be finite."""
        taken = []
        for value, before in zip(new, old, strict=True):
            if not (_is_new(value) and isinstance(value, Map) and value.axes):
                value = values.copy(value, before)
            value.stored = True
            self._commits.append((value, before))
            taken.append(value)
        return taken

    def _output_lines(self, output: Value) -> list[str]:
        name, rows = self._names.array(output, self.output_shape), self._rows_name()
        return ["if len(outputs):", f"    outputs[b * {rows} : (b + 1) * {rows}] = {name}"]

    def _rows_name(self) -> str:
        return f"{self._names.array(self._batch[0][0], self._batch[0][0].shape)}.shape[0]"

    def _check_lines(self, scalars: list[Value], gradient: Value) -> list[str]:
        name = self._names.array(gradient)
        return [
            "if check:",
            "    squares = T(0.0)",
            f"    for k in range({name}.size):",
            f"        squares = plus_product(squares, {name}[k], {name}[k])",
            f"    if not (abs({scalars[0].name} + {scalars[1].name}) < np.inf and squares < np.inf):",
            "        return b",
        ]

    # -- the update ---------------------------------------------------------------------------

    def _update_lines(self, graph: Graph) -> list[str]:
        values = Values(graph, "u")
        pairs = self._update_targets(values)
        schedule = Schedule([target for target, _ in pairs])
        in_place = not any(_is_read_after(donor, target, schedule) for target, donor in pairs)
        if not in_place:
            values = Values(graph, "u")
            pairs = self._update_targets(values)
            schedule = Schedule([target for target, _ in pairs])
        n_slots = len(pairs) - 1
        flat, *slots = values.inputs[: 1 + n_slots]
        gradient, *hyper = values.inputs[1 + n_slots :]
        self._given.update({flat: "flat", gradient: "gradient"})
        self._given.update({slot: f"slot{i}" for i, slot in enumerate(slots)})
        self._constants.update(values.constants)
        lines, last = [], []
        for i, x in enumerate(hyper):
            x.is_number = True
            lines.append(f"{x.name} = T(hyper[b, {i}])")
        for target, donor in pairs:
            if in_place:
                self._places[target] = donor, 0
                self._names.same[target] = donor
            else:
                self._kept.add(target)
                last.append((donor, target))
        lines += self._written(schedule)
        return lines + [f"{self._names.array(a)}[:] = {self._names.array(b)}" for a, b in last]

    def _update_targets(self, values: Values) -> list[tuple[Value, Value]]:
        """Return the new values of parameters and slots, each with the value that it replaces."""
        pairs: list[tuple[Value, Value]] = []
        for found, donor in zip(values.outputs, values.inputs, strict=False):
            is_own = _is_new(found) and isinstance(found, Map) and all(x is not found for x, _ in pairs)
            target = found if is_own else values.copy(found, donor)
            target.stored = True
            pairs.append((target, donor))
        return pairs

    # -- stages ------------------------------------------------------------------------------

    def _written(self, schedule: Schedule) -> list[str]:
        self._find_stored(schedule)
        self.is_of_matrices &= all(_is_of_matrices(x) for stage in schedule.stages for x in stage.members)
        lines: list[str] = []
        previous: Value | None = None
        for stage in schedule.stages:
            if isinstance(stage, Loop):
                lines += LoopWriter(stage, self._names, self._scalars).lines()
            elif isinstance(stage, Nest):
                lines += NestWriter(stage, self._names, self._scalars).lines()
            elif isinstance(stage, Call):
                [value] = stage.members
                lines += self._calls.lines(value, previous)
            else:
                [value] = stage.members
                assert isinstance(value, Map)
                lines += [f"{x.name} = {self._names.array(x)}[0]" for x in value.values if not x.is_local]
                names = {x: x.name for x in value.values}
                lines.append(f"{value.name} = {self._scalars.expression(value, names)}")
                if value.stored:
                    lines.append(f"{self._names.array(value)}[0] = {value.name}")
            previous = stage.members[-1] if isinstance(stage, Call) else None
        self._place_values(schedule)
        return lines

    @staticmethod
    def _find_stored(schedule: Schedule) -> None:
        """Mark as stored what is needed outside of the loop that computes it."""
        for number, stage in enumerate(schedule.stages):
            for value in stage.members:
                value.stored = value.stored or (value.needs_all_rows and bool(value.axes))
                for x in value.values:
                    root = _unviewed(x)
                    if root.axes and (root.stage != number or x is not root):
                        root.stored = True

    def _place_values(self, schedule: Schedule) -> None:
        last: dict[Value, int] = {}
        for number, stage in enumerate(schedule.stages):
            for value in stage.members:
                for x in (value, *value.values):
                    last[_unviewed(x)] = number
        end = len(schedule.stages)
        kept = {self._output, *[new for new, _ in self._commits], *self._kept}  # read after all stages
        for value, number in last.items():
            if isinstance(value, HostCall):
                self._scratch[value] = scratch_of(value)
            if value.stored and not isinstance(value, Given) and value not in self._places:
                nbytes = int(np.prod(value.shape)) * value.dtype.itemsize
                self._memory[value] = Buffer(nbytes, value.stage, end if value in kept else number)

    def _place_rows(self) -> None:
        self._rows = {
            value: Buffer(value.lengths[-1] * value.dtype.itemsize, 0, 1 << 30) for value in self._names.rows
        }

    # -- source -------------------------------------------------------------------------------

    def _source(self, lines: list[str]) -> str:
        body = [*self._batch_lines(), *lines]
        arrays = list(self._names.arrays.values())
        hosts = ["hosts"] if self._calls.hosted else []
        arguments = [*self._inputs, *FIXED, *arrays, *self._names.rows.values(), *hosts]
        head = [f"{name} = sizes[{i}]" for i, name in enumerate(self._names.sizes.values())]
        head += [f"c{i} = numbers[{i}]" for i in range(len(self._scalars.numbers))]
        text = HEAD.format(dtype=self.dtype.name)
        text += product_source()
        text += "".join(self._calls.helpers.values())
        if self._scalars.functions:
            text += source_of(self._scalars.functions) + "\n\n"
        text += f"@loops\ndef steps({', '.join(arguments)}):\n"
        text += "".join(f"    {line}\n" for line in head)
        text += "    for b in range(count):\n"
        text += "".join(f"        {line}\n" for line in body)
        return text + "    return -1\n" + TAIL

    def _batch_lines(self) -> Iterator[str]:
        rows = self._rows_name()
        yield f"first = start + b * {rows}"
        for value, source in self._batch:
            order = "x_order" if source in self._inputs else "y_order"
            name = self._names.array(value, value.shape)
            if source not in self.in_place:
                yield from self._gather_lines(value, source, order)
                continue
            yield f"if {order}.size == 0:"
            yield f"    {name} = {source}[first : first + {rows}]"
            yield "else:"
            yield from (f"    {line}" for line in self._gather_lines(value, source, order))
            yield from (f"{self._names.array(view)} = {name}.T" for view in self._views_of(value))

    def _gather_lines(self, value: Value, source: str, order: str) -> Iterator[str]:
        name = self._names.array(value, value.shape)
        yield f"for i in range({self._rows_name()}):"
        if len(value.shape) > 1:
            yield f"    row = {order}[first + i]"
            letters = ["j", *[f"i{n}" for n in range(2, len(value.shape))]]
            for n, letter in enumerate(letters, 1):
                yield f"{'    ' * n}for {letter} in range({name}.shape[{n}]):"
            index = ", ".join(letters)
            yield f"{'    ' * (len(letters) + 1)}{name}[i, {index}] = {source}[row, {index}]"
        else:
            yield f"    {name}[i] = {source}[{order}[first + i]]"

    def _can_be_in_place(self, value: Value) -> bool:
        """Tell whether rows of the data can be used as a value, in all forms in which it is read."""
        self._names.array(value, value.shape)
        if any(_unviewed(x) is value for call in self._calls.all_hosted() for x in call.values):
            return False  # callbacks are bound to a fixed array
        forms = [form for other, form in self._names.arrays if other is value]
        return len(forms) == 1 and all(
            isinstance(view, View)
            and view.is_permuted
            and view.source is value
            and view.lengths == value.shape[::-1]
            for view in self._views_of(value)
        )

    def _views_of(self, value: Value) -> list[Value]:
        return [x for x, _ in self._names.arrays if x is not value and _unviewed(x) is value]

    # -- binding ------------------------------------------------------------------------------

    def bind(
        self, inputs: dict[str, Any], buffers: Sequence[np.ndarray]
    ) -> tuple[tuple[np.ndarray, ...], HostCalls | None]:
        """Return the last arguments of the function, on new memory, and its callbacks.

        Parameters
        ----------
        inputs : dict of str to ndarray
            "flat", "gradient" and "slot0", "slot1", ...: written in place.
        buffers : sequence of ndarray
            The module's buffers.

        Returns
        -------
        arguments : tuple of ndarray
            Numbers, keys, sizes, the workspace of products, arrays, scratch rows, and the address of the
            callback, if NumPy has anything to compute.
        host : HostCalls or None
            Must be kept alive while the function may be called.
        """
        memory = aligned_memory(self.arena_size)
        stored: Stored = dict(self._constants)
        stored.update(zip(self._buffers, buffers, strict=True))
        stored.update({value: inputs[name] for value, name in self._given.items() if name in inputs})
        stored.update({value: np.zeros(value.shape, value.dtype) for value, _ in self._batch})
        for value, (donor, start) in self._places.items():
            stored[value] = stored[donor][start : start + int(np.prod(value.shape))].reshape(value.shape)
        for value, buffer in self._memory.items():
            stored[value] = buffer.array(memory, value.shape, value.dtype)
        arrays = [formed(value, form, stored) for value, form in self._names.arrays]
        rows = [buffer.array(memory, value.lengths[-1:], value.dtype) for value, buffer in self._rows.items()]
        numbers = np.array(self._scalars.numbers, self.dtype)
        sizes = np.array([axis.size for axis in self._names.sizes], np.int64)
        keys = np.array(self._calls.keys, np.uint64)
        found = (numbers, keys, sizes, product_workspace(self.dtype), *arrays, *rows)
        if not self._calls.hosted:
            return found, None
        host = bound_calls(self._calls.hosted, self._scratch, memory, stored)
        return (*found, host.address), host


def _is_of_matrices(value: Value) -> bool:
    is_common = not isinstance(value, ArrayCall) or isinstance(value, (Product, Mask, Columns))
    return is_common and sum(n != 1 for n in value.shape) <= 2


def _is_new(x: Any) -> bool:
    """Tell whether a value has not been scheduled yet."""
    return isinstance(x, Value) and not x.is_scheduled


def _unviewed(x: Any) -> Any:
    while isinstance(x, View):
        x = x.source
    return x


def _has_all(x: Any) -> bool:
    """Tell whether a value has all elements of the value that it is a view of, in memory order."""
    while isinstance(x, View):
        if not x.is_contiguous or np.prod(x.shape) != np.prod(x.source.shape):
            return False
        x = x.source
    return True


def _is_read_after(donor: Value, target: Value, schedule: Schedule) -> bool:
    """Tell whether a value is read after its target has overwritten it."""
    members = schedule.stages[target.stage].members
    at = members.index(target) + 1
    if any(
        _unviewed(x) is donor
        for stage in schedule.stages[target.stage + 1 :]
        for v in stage.members
        for x in v.values
    ):
        return True
    loaded = any(donor in value.values for value in members[:at])  # an element is loaded once
    behind = [x for value in members[at:] for x in value.values if _unviewed(x) is donor]
    return any(x is not donor for x in behind) or (bool(behind) and not loaded)
