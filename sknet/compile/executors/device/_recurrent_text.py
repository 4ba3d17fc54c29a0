"""Common parts of kernels of recurrent networks: sizes, memory, and the text of the kernel of a step."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._calls import Name
from sknet.compile.executors.device._c_scalar import formula
from sknet.compile.executors.device._maps import Kernel
from sknet.compile.executors.device._recurrent_cells import FORMULAS
from sknet.compile.executors.device._tasks import Task
from sknet.ops.extend import tape_shapes

__all__ = ["FLAGS", "NONE", "Network", "Repeated", "Text"]

Shape = tuple[int, ...]
TOGETHER = 64  # rows that a thread adds up
WORD, ARRAY = re.compile(r"[a-z]\w*"), re.compile(r"(\w+)\[")
BOOL = np.dtype(bool)
FLAGS = {"over": "ended[row]", "was_over": "had_ended[row]"}  # whether a row has ended, here and a step later
FLAG_ARRAYS = {"ended": BOOL, "had_ended": BOOL}
NONE = Name()  # of an array that a kernel does without


class Network:
    """Operands and sizes of a recurrent network, and what memory it works in."""

    def __init__(self, equation: Equation) -> None:
        name, params = equation.primitive.name, equation.params
        self.is_gradient, self.is_alone = name == "recurrence_gradient", name == "recurrence_outputs"
        operands = equation.operands[1 if self.is_gradient else 0 :]
        self.x, self.w_ih, self.w, self.b, self.state, self.lengths = operands[:6]
        (self.rows, self.steps, self.features), (self.size, self.columns) = self.x.shape, self.w.shape
        self.formulas, self.states = FORMULAS[params["cell"]], self.state.shape[0]
        self.tape = tape_shapes(params["cell"], self.rows, self.steps, self.size)
        steps = range(self.steps)
        self.order = list(reversed(steps) if params["reverse"] else steps)
        self.has_ends, self.has_cells = type(self.lengths) is Variable, self.states > 1

    @property
    def passes_on(self) -> bool:
        """Tell whether the hidden state also reaches the next one without going through the weights."""
        return self.formulas.keeps or self.has_ends

    @property
    def gates(self) -> int:
        """Number of gates, whose weights lie side by side."""
        return int(self.columns // self.size)

    @property
    def biases(self) -> int:
        """Number of biases: of gates, and of products with hidden states with another gradient."""
        return int(self.b.size // self.size)

    @property
    def row_of_outputs(self) -> int:
        """Elements of a row of the outputs, in all steps."""
        return math.prod(self.tape[0][1:])

    def flat(self, width: int) -> Shape:
        """Return the shape of what all rows have in all steps, as a matrix."""
        return self.rows * self.steps, width

    def rooms(self) -> Mapping[str, tuple[Shape, Any]]:
        """Return shapes and dtypes of temporary arrays by their names."""
        shapes = dict(self._rooms_back() if self.is_gradient else self._rooms_forward())
        ended = {"ended": ((self.steps, self.rows), BOOL)} if self.has_ends else {}
        return {name: (shape, self.w.dtype) for name, shape in shapes.items()} | ended

    def _rooms_forward(self) -> Iterator[tuple[str, Shape]]:
        yield "gates", (self.rows, self.steps, self.columns)
        yield "product", (self.rows, self.columns)
        yield "hidden", (2, self.rows, self.size)
        if self.is_alone and self.has_cells:
            yield "cells", (2, self.rows, self.size)

    def _rooms_back(self) -> Iterator[tuple[str, Shape]]:
        yield "gates", (self.rows, self.steps, self.columns)
        if self.formulas.differ:
            yield "gates_of_states", (self.rows, self.steps, self.columns)
        yield "product", (self.rows, self.size)
        yield "before", (self.rows, self.steps, self.size)
        yield "sums", (max(sum(self.rows_of_sums[1:-1]), 1) * self.columns,)

    @property
    def rows_of_sums(self) -> list[int]:
        """Numbers of rows that are left, time after time, if some are added to one, until it is one."""
        found = [self.rows * self.steps, -(-self.rows * self.steps // TOGETHER)]
        while found[-1] > 1:
            found.append(-(-found[-1] // TOGETHER))
        return found


class Repeated(NamedTuple):
    """A kernel that is launched many times, and the names of its arrays."""

    kernel: Kernel
    names: list[str]

    def on(self, arrays: Mapping[str, Name]) -> Kernel:
        """Return the kernel on arrays, by their names in C."""
        return self.kernel._replace(arguments=[arrays[x] for x in self.names])


class Text:
    """Names of arrays, and the kernel of a step, of either direction."""

    def __init__(self, task: Task) -> None:
        self.task, self.net, self.name = task, Network(task.equation), task.writer.name
        self.rooms = {x: task.writer.scratch(task.equation, i) for i, x in enumerate(self.net.rooms())}

    # -- arrays -------------------------------------------------------------------------------

    def part(self, array: Name, *index: int | slice) -> Name:
        """Return the name of a part of an array."""
        return self.task.writer.part(array, *index)

    def at_step(self, array: Name, k: int) -> Name:
        """Return that of what all rows have in a step."""
        return self.part(array, slice(None), k)

    def shaped(self, array: Name, shape: Shape) -> Name:
        """Return that of an array in another shape."""
        return self.task.writer.shaped(array, *shape)

    def turned(self, matrix: Name) -> Name:
        """Return that of a transposed matrix."""
        return self.task.writer.turned(matrix, (1, 0))

    def sections(self, flat: Name, shapes: Iterable[Shape]) -> list[Name]:
        """Return those of arrays that lie one after the other in a flat one."""
        shapes = list(shapes)
        bounds = pairwise(accumulate(map(math.prod, shapes), initial=0))
        return [
            self.shaped(self.part(flat, slice(start, stop)), shape)
            for shape, (start, stop) in zip(shapes, bounds, strict=True)
        ]

    def ended(self, k: int) -> Name:
        """Return that of which rows have ended at a step; nothing if none does."""
        return self.part(self.rooms["ended"], k) if self.net.has_ends else NONE

    def states(self) -> list[Name]:
        """Return those of the first states."""
        return [self.part(self.name(self.net.state), i) for i in range(self.net.states)]

    # -- kernels ------------------------------------------------------------------------------

    def body(self, sizes: Shape, names: str, lines: list[str]) -> list[str]:
        """Return statements after those that name the coordinates in them of flat index `i`."""
        used = set(WORD.findall(" ".join(lines)))
        coordinates = zip(names.split(), self.task.of("i", sizes, names), strict=True)
        return [*[line for name, line in coordinates if name in used], *lines]

    def ends(self) -> Iterator[Kernel]:
        """Yield what notes which rows have ended at every step, if any does."""
        net, task = self.net, self.task
        if net.has_ends:
            sizes = net.steps, net.rows
            body = self.body(sizes, "step row", ["ended[i] = step >= (long long)lengths[row];"])
            arrays = {"lengths": self.name(net.lengths), "ended": self.rooms["ended"]}
            types = {"lengths": net.lengths.dtype, "ended": BOOL}
            yield task.kernel(math.prod(sizes), arrays, body, types, ("ended",))

    def step(
        self, places: Mapping[str, str], formulas: Mapping[str, str], stores: Mapping[str, str]
    ) -> Repeated:
        """Return a kernel of which a thread computes an element of the states of a row."""
        net, task = self.net, self.task
        used = set(WORD.findall(" ".join([*formulas.values(), *stores.values()])))
        kinds = {x: "bool" if x in FLAGS else task.kind for x in places}
        read = [f"const {kinds[x]} {x} = {place};" for x, place in places.items() if x in used]
        made = [f"const {task.kind} {x} = {formula(text, net.w.dtype)};" for x, text in formulas.items()]
        written = [f"{place} = {value};" for place, value in stores.items()]
        body = self.body((net.rows, net.size), "row unit", [*read, *made, *written])
        names = list(dict.fromkeys(ARRAY.findall(" ".join([*read, *written]))))
        writes = {x for place in stores for x in ARRAY.findall(place)}
        kernel = task.kernel(net.rows * net.size, dict.fromkeys(names, NONE), body, FLAG_ARRAYS, writes)
        return Repeated(kernel, names)

    def place(self, array: str, row: int, gate: int = 0) -> str:
        """Return the place of an element in an array whose rows have so many elements; 0 if it is one."""
        terms = [f"row * {row}"] * (row > 0) + [str(gate * self.net.size)] * (gate > 0) + ["unit"]
        return f"{array}[{' + '.join(terms)}]"

    def by_gate(self, letter: str, array: str, row: int, count: int) -> dict[str, str]:
        """Return the places of elements of gates that lie side by side."""
        return {f"{letter}{gate}": self.place(array, row, gate) for gate in range(count)}

    def saved(self) -> dict[str, str]:
        """Return the places of what a step forward keeps."""
        names = self.net.formulas.saved
        return {x: self.place("saved", len(names) * self.net.size, i) for i, x in enumerate(names)}

    def unless_over(self, x: str, otherwise: str) -> str:
        """Return an element, or another one for rows that have ended."""
        return f"over ? {otherwise} : {x}" if self.net.has_ends else x

    def sums(self, x: Name, width: int, out: Name) -> Iterator[Kernel]:
        """Yield what adds the rows of a matrix to those of the gates up, some at a time."""
        task, stride, left = self.task, self.net.columns, self.net.rows_of_sums
        bounds = list(pairwise(accumulate([width * n for n in left[1:-1]], initial=0)))
        targets = [*[self.part(self.rooms["sums"], slice(start, stop)) for start, stop in bounds], out]
        for (n, sums), target in zip(pairwise(left), targets, strict=True):
            lines = [
                f"{task.kind} total = 0;",
                f"for ({task.index} row = part * {TOGETHER}; row < part * {TOGETHER} + {TOGETHER} && "
                f"row < {n}; row++) total += given[row * {stride} + column];",
                "out[i] = total;",
            ]
            body = self.body((sums, width), "part column", lines)
            yield task.kernel(sums * width, {"given": x, "out": target}, body)
            x, stride = target, width
