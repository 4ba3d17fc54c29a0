"""Recurrent networks on a device: a product and a kernel for each step, forward and back.

What all steps share is computed at once: products with the inputs, and the gradients of weights and biases.
The kernels of all steps are one, which is launched on other arrays each time.
"""

import math
from collections.abc import Iterator

from sknet.compile._graph import Equation
from sknet.compile.executors._calls import Name
from sknet.compile.executors.device._c_scalar import literal
from sknet.compile.executors.device._maps import Kernel
from sknet.compile.executors.device._recurrent_text import FLAGS, NONE, Network, Repeated, Text
from sknet.compile.executors.device._tasks import Arrays, Fill, Product, Step, Task, rule, takes, works_in

__all__: list[str] = []

RECURRENT = "recurrence_outputs", "recurrence_tape", "recurrence_gradient"


@takes("recurrence", *RECURRENT)
def _has_elements(equation: Equation) -> bool:
    """Tell whether there is something to multiply in every step; lengths may be a number."""
    net = Network(equation)
    return bool(net.w_ih.size and net.w.size)


@works_in(*RECURRENT)
def _works_in(equation: Equation) -> Arrays:
    return list(Network(equation).rooms().values())


@rule("recurrence")
def _outputs(task: Task) -> Iterator[Step]:
    """Copy the outputs, with which a tape begins."""
    tape, out = task.equation.variables[-1], task.output
    w = task.writer
    yield Fill(w.name(out), w.shaped(w.part(w.name(tape), slice(out.size)), *out.shape))


# -- forward ----------------------------------------------------------------------------------


@rule("recurrence_outputs", "recurrence_tape")
def _forward(task: Task) -> Iterator[Step]:
    yield from _Forward(task).steps()


class _Forward(Text):
    """All steps, of which a tape keeps more than the outputs."""

    def __init__(self, task: Task) -> None:
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
        net, gates = self.net, self.net.gates
        places = {
            **self.by_gate("q", "product", net.columns, gates),
            **self.by_gate("z", "inputs", net.steps * net.columns, gates),
            **self.by_gate("b", "bias", 0, net.biases),
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
def _backward(task: Task) -> Iterator[Step]:
    text = _Backward(task)
    yield from text.start()
    yield from text.steps()
    yield from text.gradients()


class _Backward(Text):
    """All steps back, and the gradients of what they share."""

    def __init__(self, task: Task) -> None:
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
        self.slopes = [self.part(slopes, i) for i in range(net.states)]
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
        through = "passed + through" if self.net.formulas.keeps else "through"
        return f"passed if was_over else {through}" if self.net.has_ends else through

    def places(self) -> dict[str, str]:
        """Return the places of what is read."""
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
        stores = {
            self.place("gates", row, gate): self.unless_over(x, zero)
            for gate, x in enumerate(net.formulas.of_inputs)
        }
        if net.formulas.differ:
            stores |= {
                self.place("gates_of_states", row, gate): self.unless_over(x, zero)
                for gate, x in enumerate(net.formulas.of_states)
            }
        if net.passes_on:
            stores["slope[i]"] = self.unless_over("dh_kept", "dh") if net.formulas.keeps else "dh"
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
