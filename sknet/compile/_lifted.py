"""Graphs that differ in numbers alone: one of them stands for all, and takes these numbers as inputs."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile import _primitives as own
from sknet.compile._graph import Equation, Graph, Variable, outputs_of
from sknet.compile.passes import ASSEMBLY, rewrite
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.device import to_device
from sknet.ops import arange, broadcast_to, reshape
from sknet.ops._batching import batching

__all__ = ["LiftedGraph", "differing", "lift_constants", "outputs_with"]


MOST = 1 << 10  # elements of a constant that may be an input; larger ones are the same for all


class LiftedGraph(NamedTuple):
    """A graph, and the numbers in it that may be inputs instead."""

    graph: Graph
    key: Hashable
    places: tuple[tuple[int, int], ...]
    numbers: tuple[np.ndarray, ...]


def lift_constants(graph: Graph) -> LiftedGraph:
    """Return a graph with its numbers: floating-point constants, and operands of elementwise operations."""
    places: list[tuple[int, int]] = []
    numbers: list[np.ndarray] = []
    equations, constants = [], dict(graph.constants)
    for i, (variable, value) in enumerate(graph.constants.items()):
        if value.dtype.kind == "f" and value.size <= MOST:
            places.append((-1, i))
            numbers.append(value)
            constants[variable] = np.zeros_like(value)
    for i, equation in enumerate(graph.equations):
        dtype = _dtype_of_numbers(equation)
        operands = list(equation.operands)
        for j, x in enumerate(operands):
            if dtype is not None and type(x) in (int, float):
                places.append((i, j))
                numbers.append(np.asarray(x, dtype))
                operands[j] = 0.0
        equations.append(Equation(equation.primitive, tuple(operands), equation.params, equation.output))
    key = graph.replaced(equations=equations, constants=constants).key()
    return LiftedGraph(graph, key, tuple(places), tuple(numbers))


def _dtype_of_numbers(equation: Equation) -> Any:
    """Return the dtype that numbers among the operands are computed in; None unless that is clear."""
    if equation.primitive.expression is None:
        return None
    kinds = {x.dtype for x in equation.variables if x.dtype.kind != "b"} or {equation.output.dtype}
    [dtype] = kinds if len(kinds) == 1 else [None]
    return dtype if dtype is not None and dtype.kind == "f" else None


def differing(graphs: Sequence[LiftedGraph]) -> tuple[int, ...]:
    """Return which numbers are not the same in all graphs, to the bit."""
    columns = zip(*{id(each): each.numbers for each in graphs}.values(), strict=True)
    return tuple(i for i, column in enumerate(columns) if len({x.tobytes() for x in column}) > 1)


def outputs_with(of: LiftedGraph, inputs: Sequence[Tensor], numbers: Mapping[int, Tensor]) -> list[Tensor]:
    """Compute the outputs of a graph, with other numbers in place of some of its own."""
    graph, added = of.graph, {i: Variable(of.numbers[i].shape, of.numbers[i].dtype) for i in numbers}
    constants, equations, names = dict(graph.constants), list(graph.equations), list(graph.constants)
    instead: dict[Variable, Variable] = {}
    for i, variable in added.items():
        at, place = of.places[i]
        if at < 0:
            instead[names[place]] = variable
            del constants[names[place]]
        else:
            equations[at] = _with_operand(equations[at], place, variable)
    if instead:
        equations = [_over(equation, instead) for equation in equations]
    outputs = [instead.get(x, x) for x in graph.outputs]
    inputs_of = (*graph.inputs, *added.values())
    graph = graph.replaced(inputs=inputs_of, constants=constants, equations=equations, outputs=outputs)
    # What a flat array is assembled from has to be seen before it has an axis of members in front.
    return outputs_of(rewrite(graph, ASSEMBLY, exact=True), [*inputs, *numbers.values()])


def _with_operand(equation: Equation, place: int, operand: Variable) -> Equation:
    operands = tuple([operand if i == place else x for i, x in enumerate(equation.operands)])
    return Equation(equation.primitive, operands, equation.params, equation.output)


def _over(equation: Equation, instead: Mapping[Variable, Variable]) -> Equation:
    operands = tuple([instead.get(x, x) if type(x) is Variable else x for x in equation.operands])
    return Equation(equation.primitive, operands, equation.params, equation.output)


@batching("assemble")
def _assembled(
    primitive: Primitive, operands: Sequence[Any], mapped: Sequence[bool], size: int, params: dict[str, Any]
) -> Tensor:
    """Assemble the slices of all, one slice after another, and read those of each from there."""
    whole, starts = params["size"], params["starts"]
    first, step = np.empty((2, whole), np.int64)  # of what each has at a position, and from one to the next
    ends = {start: start + x.shape[-1] for start, x in zip(starts, operands, strict=True)}
    start = 0
    while start < whole:  # slices, and gaps between them
        end = ends.get(start) or min((other for other in starts if other > start), default=whole)
        first[start:end], step[start:end] = size * start + np.arange(end - start), end - start
        start = end
    each = [
        reshape(x if is_mapped else broadcast_to(x, (size, *x.shape)), (-1,))
        for x, is_mapped in zip(operands, mapped, strict=True)
    ]
    moved = {"starts": tuple([size * at for at in starts]), "size": size * whole}
    joined = bind(own.assemble, tuple(each), moved)
    at, by = (as_tensor(to_device(x, joined.device)) for x in (first, step))
    places = at + reshape(arange(size, dtype=np.int64, device=joined.device), (size, 1)) * by
    return bind(own.take_at, (joined, places), {"of_all": True})
