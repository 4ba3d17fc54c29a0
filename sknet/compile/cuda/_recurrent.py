"""Recurrent networks on a device: a product and a kernel for each step, forward and back.

What all steps share is computed at once: products with the inputs, and the gradients of weights and biases.
The kernels of all steps are one, which is launched on other arrays each time.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._calls import Name
from sknet.compile._graph import Equation, Variable
from sknet.compile.cuda._maps import Kernel, formula, literal
from sknet.compile.cuda._rules import Arrays, Fill, Product, RuleTask, Step, rule, takes, works_in
from sknet.ops._recurrent_cells import CELLS, tape_shapes

__all__: list[str] = []


# -- cells: the formulas of `sknet.ops`, for one element of a row's states --------------------
# In a step forward ``q0``, ... are elements of the product of hidden state and recurrent weights, one for
# each gate, ``z0``, ... those of the product of input and weights, ``b0``, ... the biases, and ``h_before``
# and ``c_before`` the states, of which ``h`` and ``c`` are computed. A step back has all that is saved of
# this, and the gradients ``dh`` and ``dc_after`` of the states after the step. It computes ``d0``, ... of
# the gates, ``dc_before``, and ``dh_kept``: the part of ``dh`` that goes to the hidden state before the
# step without passing through the weights.


class Formulas(NamedTuple):
    forward: Mapping[str, str]
    backward: Mapping[str, str]
    saved: tuple[str, ...] = ()


def _logistic(x: str) -> str:
    """Return the logistic function by tanh, as `sknet.ops` computes it."""
    return f"tanh(({x}) * 0.5) * 0.5 + 0.5"


FORMULAS = {
    "tanh": Formulas(
        forward={"h": "tanh(q0 + z0 + b0)"},
        backward={"d0": "(1 - h * h) * dh"},
    ),
    "relu": Formulas(
        forward={"a": "q0 + z0 + b0", "h": "0 if a <= 0 else a"},
        backward={"d0": "dh * (1 if h > 0 else 0)"},
    ),
    "lstm": Formulas(
        forward={
            "input": _logistic("q0 + z0 + b0"),
            "forget": _logistic("q1 + z1 + b1"),
            "candidate": "tanh(q2 + z2 + b2)",
            "output": _logistic("q3 + z3 + b3"),
            "c": "forget * c_before + input * candidate",
            "h": "tanh(c) * output",
        },
        backward={
            "bent": "tanh(c)",
            "dc": "dc_after + (1 - bent * bent) * (dh * output)",
            "d0": "dc * candidate * (input - input * input)",
            "d1": "dc * c_before * (forget - forget * forget)",
            "d2": "dc * input * (1 - candidate * candidate)",
            "d3": "dh * bent * (output - output * output)",
            "dc_before": "dc * forget",
        },
        saved=("input", "forget", "candidate", "output"),
    ),
    "gru": Formulas(
        forward={
            "reset": _logistic("q0 + z0 + b0"),
            "update": _logistic("q1 + z1 + b1"),
            "share": "q2 + b3",
            "candidate": "tanh(reset * share + z2 + b2)",
            "h": "(h_before - candidate) * update + candidate",
        },
        backward={
            "dh_kept": "dh * update",
            "d2": "(1 - candidate * candidate) * (dh - dh_kept)",
            "d1": "(1 - update) * ((h_before - candidate) * dh_kept)",
            "d0": "(reset - reset * reset) * d2 * share",
            "d3": "d2 * reset",
        },
        saved=("reset", "update", "candidate", "share"),
    ),
}


# -- sizes, memory, and the text of the kernel of a step --------------------------------------


Shape = tuple[int, ...]
TOGETHER = 64  # rows that a thread adds up
WORD, ARRAY = re.compile(r"[a-z]\w*"), re.compile(r"(\w+)\[")
BOOL = np.dtype(bool)
FLAGS = {"over": "ended[row]", "was_over": "had_ended[row]"}  # whether a row has ended, here and a step later
FLAG_ARRAYS = {"ended": BOOL, "had_ended": BOOL}
NONE = Name()  # of an array that a kernel does without


class NetworkOperands:
    """Operands and sizes of a recurrent network, and what memory it works in."""

    def __init__(self, equation: Equation) -> None:
        name, params = equation.primitive.name, equation.params
        self.is_gradient, self.is_alone = name == "recurrence_gradient", name == "recurrence_outputs"
        operands = equation.operands[1 if self.is_gradient else 0 :]
        self.x, self.w_ih, self.w, self.b, self.state, self.lengths = operands[:6]
        (self.rows, self.steps, self.features), (self.size, self.columns) = self.x.shape, self.w.shape
        self.formulas, self.cell = FORMULAS[params["cell"]], CELLS[params["cell"]]
        self.tape = tape_shapes(params["cell"], self.rows, self.steps, self.size)
        steps = range(self.steps)
        self.order = list(reversed(steps) if params["reverse"] else steps)
        self.has_ends, self.has_cells = type(self.lengths) is Variable, self.cell.states > 1

    @property
    def passes_on(self) -> bool:
        """Tell whether the hidden state also reaches the next one without going through the weights."""
        return self.cell.keeps or self.has_ends

    @property
    def row_of_outputs(self) -> int:
        """Elements of a row of the outputs, in all steps."""
        return math.prod(self.tape[0][1:])

    def flat(self, width: int) -> Shape:
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
        if self.cell.differ:
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
        return self.kernel._replace(arguments=[arrays[x] for x in self.names])


class Text:
    """Names of arrays, and the kernel of a step, of either direction."""

    def __init__(self, task: RuleTask) -> None:
        self.task, self.net, self.name = task, NetworkOperands(task.equation), task.writer.name
        self.rooms = {x: task.writer.scratch(task.equation, i) for i, x in enumerate(self.net.rooms())}

    # -- arrays -------------------------------------------------------------------------------

    def part(self, array: Name, *index: int | slice) -> Name:
        return self.task.writer.part(array, *index)

    def at_step(self, array: Name, k: int) -> Name:
        """Return that of what all rows have in a step."""
        return self.part(array, slice(None), k)

    def shaped(self, array: Name, shape: Shape) -> Name:
        """Return that of an array in another shape."""
        return self.task.writer.shaped(array, *shape)

    def turned(self, matrix: Name) -> Name:
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
        return [self.part(self.name(self.net.state), i) for i in range(self.net.cell.states)]

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


# -- rules ------------------------------------------------------------------------------------


RECURRENT = "recurrence_outputs", "recurrence_tape", "recurrence_gradient"


@takes("recurrence", *RECURRENT)
def _has_elements(equation: Equation) -> bool:
    """Tell whether there is something to multiply in every step; lengths may be a number."""
    net = NetworkOperands(equation)
    return bool(net.w_ih.size and net.w.size)


@works_in(*RECURRENT)
def _works_in(equation: Equation) -> Arrays:
    return list(NetworkOperands(equation).rooms().values())


@rule("recurrence")
def _outputs(task: RuleTask) -> Iterator[Step]:
    """Copy the outputs, with which a tape begins."""
    tape, out = task.equation.variables[-1], task.output
    w = task.writer
    yield Fill(w.name(out), w.shaped(w.part(w.name(tape), slice(out.size)), *out.shape))


# -- forward ----------------------------------------------------------------------------------


@rule("recurrence_outputs", "recurrence_tape")
def _forward(task: RuleTask) -> Iterator[Step]:
    yield from _Forward(task).steps()


class _Forward(Text):
    """All steps, of which a tape keeps more than the outputs."""

    def __init__(self, task: RuleTask) -> None:
        super().__init__(task)
        net = self.net
        self.outputs, *self.kept = self.sections(self.name(task.output), net.tape[: 1 if net.is_alone else 3])
        self.cells = self.rooms.get("cells", NONE) if net.is_alone else self.kept[1]
        self.n_cells = 2 if net.is_alone else net.steps + 1

    def steps(self) -> Iterator[Step]:
        """Yield what computes them, in order."""
        net, rooms, name = self.net, self.rooms, self.name
        x = self.shaped(name(net.x), net.flat(net.features))
        yield Product(x, name(net.w_ih), self.shaped(rooms["gates"], net.flat(net.columns)))
        yield from self.ends()
        if net.has_cells and self.kept:
            yield Fill(self.part(self.cells, 0), self.states()[1])
        kernel = self.kernel()
        for i, k in enumerate(net.order):
            arrays = self.arrays(i, k)
            yield Product(arrays["hidden"], name(net.w), rooms["product"])
            yield kernel.on(arrays)
        if net.has_cells:
            yield Fill(self.at_step(self.outputs, net.steps), arrays["cells_after"])

    def arrays(self, i: int, k: int) -> dict[str, Name]:
        """Return what kernel number i, of step k, is launched on."""
        net, rooms, first = self.net, self.rooms, self.states()
        found = {
            "product": rooms["product"],
            "inputs": self.at_step(rooms["gates"], k),
            "bias": self.name(net.b),
            "ended": self.ended(k),
            "hidden": self.part(rooms["hidden"], (i + 1) % 2) if i else first[0],
            "hidden_after": self.part(rooms["hidden"], i % 2),
            "outputs": self.at_step(self.outputs, k),
        }
        if net.has_cells:
            found["cells"] = self.part(self.cells, i % self.n_cells) if i else first[1]
            found["cells_after"] = self.part(self.cells, (i + 1) % self.n_cells)
        return found | {"saved": self.part(self.kept[0], i)} if self.kept else found

    def kernel(self) -> Repeated:
        """Return that of a step."""
        net, gates = self.net, self.net.cell.gates
        places = {
            **self.by_gate("q", "product", net.columns, gates),
            **self.by_gate("z", "inputs", net.steps * net.columns, gates),
            **self.by_gate("b", "bias", 0, net.cell.biases),
            "h_before": "hidden[i]",
            "c_before": "cells[i]",
            **FLAGS,
        }
        h = self.unless_over("h", "h_before")
        stores = {self.place("outputs", net.row_of_outputs): h, "hidden_after[i]": h}
        if net.has_cells:
            stores["cells_after[i]"] = self.unless_over("c", "c_before")
        if self.kept:
            stores |= {place: x for x, place in self.saved().items()}
        return self.step(places, net.formulas.forward, stores)


# -- back -------------------------------------------------------------------------------------


@rule("recurrence_gradient")
def _backward(task: RuleTask) -> Iterator[Step]:
    text = _Backward(task)
    yield from text.start()
    yield from text.steps()
    yield from text.gradients()


class _Backward(Text):
    """All steps back, and the gradients of what they share."""

    def __init__(self, task: RuleTask) -> None:
        super().__init__(task)
        net = self.net
        self.given, tape = (self.name(task.equation.variables[at]) for at in (0, -1))
        self.tape = self.sections(tape, net.tape)
        found = [net.w_ih, net.w, net.b, net.state]
        if task.equation.params["of_input"]:
            found.insert(0, net.x)
        *self.of_inputs, self.of_w_ih, self.of_w, self.of_b, slopes = self.sections(
            self.name(task.output), [x.shape for x in found]
        )
        self.slopes = [self.part(slopes, i) for i in range(net.cell.states)]
        self.gates = self.rooms["gates"]
        self.gates_of_states = self.rooms.get("gates_of_states", self.gates)

    def start(self) -> Iterator[Step]:
        """Yield what comes before the last step: nothing comes from later ones but for a cell state."""
        net = self.net
        yield self.before()
        yield from self.ends()
        for zeros in [self.rooms["product"], *self.slopes[: int(net.passes_on)]]:
            yield Fill(zeros, 0)
        if net.has_cells:
            yield Fill(self.slopes[1], self.at_step(self.given, net.steps))

    def before(self) -> Kernel:
        """Return the kernel that writes the hidden state before every step."""
        net, task = self.net, self.task
        first, second = (net.order * 2)[:2]
        sizes, at = (net.rows, net.steps, net.size), f"row * {net.row_of_outputs} + (step + {first - second})"
        arrays = {"first": self.states()[0], "outputs": self.tape[0], "out": self.rooms["before"]}
        value = f"first[row * {net.size} + unit]"
        if net.steps > 1:
            value = f"step == {first} ? {value} : outputs[{at} * {net.size} + unit]"
        else:
            del arrays["outputs"]
        body = self.body(sizes, "row step unit", [f"out[i] = {value};"])
        return task.kernel(math.prod(sizes), arrays, body)

    def steps(self) -> Iterator[Step]:
        """Yield the steps, of which each passes gradients on by a product."""
        net, kernel, turned = self.net, self.kernel(), self.turned(self.name(self.net.w))
        for i in reversed(range(net.steps)):
            arrays = self.arrays(i)
            yield kernel.on(arrays)
            is_whole = i == 0 and not net.passes_on  # the gradient of the first state
            target = self.slopes[0] if is_whole else self.rooms["product"]
            yield Product(arrays["gates_of_states"], turned, target)
        if net.passes_on:
            yield self.step(self.places(), {"dh": self.passed}, {"slope[i]": "dh"}).on(self.arrays(-1))

    def arrays(self, i: int) -> dict[str, Name]:
        """Return what kernel number i is launched on; that after the steps is number -1."""
        net, (outputs, saved, cells) = self.net, self.tape
        k, later = net.order[max(i, 0)], net.order[min(i + 1, net.steps - 1)]
        found = {
            "product": self.rooms["product"],
            "given": self.at_step(self.given, k),
            "slope": self.slopes[0],
            "ended": self.ended(k),
            "had_ended": self.ended(later),
            "hidden": self.at_step(self.rooms["before"], k),
            "outputs": self.at_step(outputs, k),
            "saved": self.part(saved, max(i, 0)),
            "gates": self.at_step(self.gates, k),
            "gates_of_states": self.at_step(self.gates_of_states, k),
        }
        if net.has_cells:
            found["slope_of_cells"] = self.slopes[1]
            found["cells"], found["cells_after"] = (self.part(cells, max(i, 0) + after) for after in (0, 1))
        return found

    @property
    def passed(self) -> str:
        """The formula of the gradient that a hidden state has from the step after it."""
        through = "passed + through" if self.net.cell.keeps else "through"
        return f"passed if was_over else {through}" if self.net.has_ends else through

    def places(self) -> dict[str, str]:
        net = self.net
        outputs = net.row_of_outputs
        return {
            "through": "product[i]",
            "passed": "slope[i]",
            "g": self.place("given", outputs),
            "h": self.place("outputs", outputs),
            "h_before": self.place("hidden", net.steps * net.size),
            "c": "cells_after[i]",
            "c_before": "cells[i]",
            "dc_after": "slope_of_cells[i]",
            **self.saved(),
            **FLAGS,
        }

    def kernel(self) -> Repeated:
        """Return that of a step."""
        net, row, zero = self.net, self.net.steps * self.net.columns, literal(0, self.net.w.dtype)
        of_gates = list(range(net.cell.gates))
        products = {"gates": of_gates}
        if net.cell.differ:  # the last gate's part of the states has a gradient, and a bias, of its own
            products["gates_of_states"] = [*of_gates[:-1], net.cell.biases - 1]
        stores = {
            self.place(name, row, gate): self.unless_over(f"d{number}", zero)
            for name, numbers in products.items()
            for gate, number in enumerate(numbers)
        }
        if net.passes_on:
            stores["slope[i]"] = self.unless_over("dh_kept", "dh") if net.cell.keeps else "dh"
        if net.has_cells:
            stores["slope_of_cells[i]"] = self.unless_over("dc_before", "dc_after")
        return self.step(self.places(), {"dh": f"({self.passed}) + g", **net.formulas.backward}, stores)

    def gradients(self) -> Iterator[Step]:
        """Yield the gradients of inputs, weights and bias, each for all steps at once."""
        net, shaped = self.net, self.shaped
        gates, of_states = (shaped(x, net.flat(net.columns)) for x in (self.gates, self.gates_of_states))
        inputs = shaped(self.name(net.x), net.flat(net.features))
        hidden = shaped(self.rooms["before"], net.flat(net.size))
        for each in self.of_inputs:
            flat = shaped(each, net.flat(net.features))
            yield Product(gates, self.turned(self.name(net.w_ih)), flat)
        yield Product(self.turned(inputs), gates, self.of_w_ih)
        yield Product(self.turned(hidden), of_states, self.of_w)
        yield from self.sums(gates, net.columns, self.part(self.of_b, slice(net.columns)))
        more = net.b.size - net.columns  # of biases that belong to the last gate of the other product
        if more:
            last = self.part(of_states, slice(None), slice(net.columns - more, None))
            yield from self.sums(last, more, self.part(self.of_b, slice(net.columns, None)))
