"""A graph for any number of rows, or other lengths: shapes and parameters hold what depends on them."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._tree import leaves, map_leaves
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._internal import primitive_named
from sknet.compile._rows import (
    ROWS,
    Counted,
    Filled,
    Length,
    Lengths,
    Rows,
    Samples,
    Share,
    Triangles,
    graph_of_any_rows,
)
from sknet.compile._signature import OutputIndex, Signature
from sknet.core import Tensor
from sknet.device import is_array
from sknet.exceptions import ShapeError

__all__ = ["Input", "Line", "Position", "SymbolicGraph"]

VARYING = (Length, Lengths)
KEPT = 16  # graphs that are remembered, of as many numbers of rows


class Input(NamedTuple):
    """An input of a graph."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    name: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


class Line(NamedTuple):
    """An equation."""

    primitive: str
    operands: tuple[Any, ...]
    params: dict[str, Any]


class Position(int):
    """The position of a variable among inputs, constants and results, in this order."""

    def __new__(cls, position: int) -> Self:
        """Make it of a number."""
        return super().__new__(cls, position)


class SymbolicGraph:
    """A captured function as a graph for any number of rows, and maybe other lengths."""

    def __init__(
        self,
        inputs: Sequence[Input],
        constants: Sequence[Any],
        lines: Sequence[Line],
        outputs: Sequence[int],
        args: Any,
        result: Any,
        others: Sequence[int] = (),
    ) -> None:
        self.others = tuple(others)
        self.inputs, self.constants, self.lines = tuple(inputs), tuple(constants), tuple(lines)
        self.outputs, self.args, self.result = tuple(map(int, outputs)), args, result
        self.n_values = len(self.inputs) - sum(map(_is_array, leaves(args)))
        self.any_rows = any(isinstance(n, VARYING) for given in self.inputs for n in given.shape)
        self._graphs: dict[tuple[int, ...], Graph] = {}

    def __reduce__(self) -> Any:
        parts = (self.inputs, self.constants, self.lines, self.outputs, self.args, self.result, self.others)
        return SymbolicGraph, parts

    # -- from graphs --------------------------------------------------------------------------

    @classmethod
    def of_rows(cls, captured: Callable[[int], Graph]) -> Self:
        """Capture a function for several numbers of rows."""
        return cls._of(graph_of_any_rows(captured))

    @classmethod
    def of_sizes(cls, captured: Callable[..., Graph], samples: Sequence[tuple[int, ...]]) -> Self:
        """Capture a function for several numbers of rows, and several values of other sizes."""
        if not samples:
            return cls.of_rows(captured)
        *fewer, values = samples
        graphs = [cls.of_sizes(lambda *sizes, v=v: captured(*sizes, v), fewer) for v in values]
        return graphs[0]._joined(graphs, Samples(len(samples), tuple(values)))

    def _joined(self, graphs: Sequence[Self], by: Samples) -> Self:
        """Return one graph for several of the same function, captured for samples of another size."""
        parts = [
            (x.outputs, x.result, [line.primitive for line in x.lines], len(x.constants)) for x in graphs
        ]
        by.check(all(part == parts[0] for part in parts))
        inputs = [
            Input(by.common(tuple(x.shape for x in each), "an input"), each[0].dtype, each[0].name)
            for each in zip(*(x.inputs for x in graphs), strict=True)
        ]
        constants = [
            by.constant(each, by.common(tuple(x.shape for x in each), "a constant"))
            for each in zip(*(x.constants for x in graphs), strict=True)
        ]
        lines = []
        for each in zip(*(x.lines for x in graphs), strict=True):
            name = each[0].primitive
            by.check(len({len(line.operands) for line in each}) == 1, name)
            operands = [_operand(by, x, name) for x in zip(*(line.operands for line in each), strict=True)]
            params = by.common(tuple(line.params for line in each), name)
            lines.append(Line(name, tuple(operands), params))
        others = (*self.others, by.values[0])
        return type(self)(inputs, constants, lines, self.outputs, self.args, self.result, others)

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Describe one graph, in which nothing depends on the number of rows."""
        return cls._of(Rows([graph] * len(ROWS)))

    @classmethod
    def _of(cls, rows: Rows) -> Self:
        graph = rows.graph
        signature = graph.called()
        known = graph.names()
        positions: dict[Variable, Position] = {}
        for variable in (*graph.inputs, *graph.constants, *(e.output for e in graph.equations)):
            positions[variable] = Position(len(positions))
        lines = []
        for equation in graph.equations:
            operands = [
                positions[x] if type(x) is Variable else number
                for x, number in zip(equation.operands, rows.numbers(equation), strict=True)
            ]
            lines.append(Line(equation.primitive.name, tuple(operands), rows.params(equation)))
        return cls(
            [Input(rows.shape(x), x.dtype, known[x]) for x in graph.inputs],
            [rows.form(x) for x in graph.constants],
            lines,
            [positions[x] for x in graph.outputs],
            map_leaves(lambda leaf: _without_shape(leaf) if _is_array(leaf) else leaf, signature.args),
            signature.result,
        )

    # -- for a number of rows -----------------------------------------------------------------

    def at(self, n_rows: int, *others: int) -> Graph:
        """Return the graph for a number of rows; without values of what the function's object held."""
        key = (n_rows, *(others or self.others)) if self.any_rows else (0,)
        found = self._graphs.get(key)
        if found is None:
            if len(self._graphs) >= KEPT:
                self._graphs.clear()
            found = self._graphs[key] = self._made(*key)
        return found

    def _made(self, *sizes: int) -> Graph:
        inputs, constants, equations, variables = self.verified(*sizes)
        given = iter(inputs[self.n_values :])
        args = map_leaves(lambda leaf: next(given) if _is_array(leaf) else leaf, self.args)
        names = tuple(x.name for x in self.inputs)
        values = {x: _array(constant, sizes) for x, constant in zip(constants, self.constants, strict=True)}
        outputs = [variables[i] for i in self.outputs]
        return Graph(inputs, values, equations, outputs, Signature({}, args, names, self.result))

    def verified(
        self, *sizes: int
    ) -> tuple[list[Variable], list[Variable], list[Equation], Sequence[Variable]]:
        """Apply the shape rules for a number of rows; nothing is allocated."""
        n = sizes if len(sizes) > 1 else (*sizes, *self.others)
        inputs = [Variable(resolved(x.shape, n), x.dtype) for x in self.inputs]
        constants = [Variable(resolved(x.shape, n), _dtype(x)) for x in self.constants]
        variables, equations = [*inputs, *constants], []
        for line in self.lines:
            operands = tuple([variables[x] if type(x) is Position else resolved(x, n) for x in line.operands])
            params = {name: resolved(value, n) for name, value in line.params.items()}
            equations.append(Equation(primitive_named(line.primitive), operands, params))
            variables.append(equations[-1].output)
        return inputs, constants, equations, variables

    @property
    def arguments(self) -> tuple[Input, ...]:
        """The inputs that are arguments."""
        return self.inputs[self.n_values :]

    def sizes(self, arrays: Sequence[Any]) -> tuple[int, ...]:
        """Return how many rows arguments have, and the other sizes that the graph depends on."""
        found: list[int | None] = [None, *(None for _ in self.others)]
        for array, given in zip(arrays, self.arguments, strict=True):
            for axis, n in enumerate(given.shape):
                number = _number_of(n)
                if number is None or found[number] is not None:
                    continue
                if len(array.shape) <= axis:
                    lacking = "an axis of rows first" if not axis else f"{len(given.shape)} axes"
                    got = f"shape {tuple(array.shape)}" if array.shape else "a number"
                    raise ShapeError(f"{given.name} must have {lacking}, got {got}")
                found[number] = int(array.shape[axis])
        return tuple([n or 0 for n in found])

    def up_to(self, position: int) -> Self:
        """Return a graph that ends with one of the values, and takes the same inputs."""
        n_lines = max(0, position + 1 - len(self.inputs) - len(self.constants))
        parts = (self.inputs, self.constants, self.lines[:n_lines], [position], self.args, OutputIndex(0))
        return type(self)(*parts, self.others)

    def returning(self, n_outputs: int, result: Any) -> Self:
        """Return a graph that returns the first of the outputs."""
        parts = (self.inputs, self.constants, self.lines, self.outputs[:n_outputs], self.args, result)
        return type(self)(*parts, self.others)


def _operand(by: Samples, values: tuple[Any, ...], where: str) -> Any:
    if type(values[0]) is not Position:
        return by.number(values, where)
    by.check(all(type(x) is Position and x == values[0] for x in values), where)
    return values[0]


def _number_of(length: Any) -> int | None:
    """Return the number of the size that a length is; None if it is another."""
    if isinstance(length, Length):
        return 0 if length == (1, 0) else None
    if isinstance(length, Lengths) and len(length.terms) == 1:
        sizes, factor = length.terms[0]
        if len(sizes) == factor == 1:
            return int(sizes[0])
    return None


def resolved(value: Any, n: tuple[int, ...]) -> Any:
    """Return a value with numbers in place of what depends on sizes, the first of which is that of rows."""
    if isinstance(value, Length):
        return value.per_row * n[0] + value.more
    if isinstance(value, Lengths):
        return sum([factor * math.prod([n[i] for i in sizes]) for sizes, factor in value.terms])
    if isinstance(value, Share):
        return 1 / resolved(value.of, n) if resolved(value.of, n) else np.inf
    if type(value) in (tuple, list):
        return type(value)([resolved(part, n) for part in value])
    if isinstance(value, slice):
        return slice(*[resolved(part, n) for part in (value.start, value.stop, value.step)])
    if isinstance(value, dict):
        return {key: resolved(part, n) for key, part in value.items()}
    return value


def _array(constant: Any, n: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if isinstance(constant, Filled):
        return np.broadcast_to(constant.number, resolved(constant.shape, n))
    if isinstance(constant, Counted):
        shape = resolved(constant.shape, n)
        return np.arange(math.prod(shape), dtype=constant.dtype).reshape(shape)
    if isinstance(constant, Triangles):
        return constant.array(resolved(constant.shape, n))
    return constant  # type: ignore[no-any-return]


def _dtype(constant: Any) -> np.dtype[Any]:
    number = constant.number if isinstance(constant, Filled) else constant
    number = constant.lower if isinstance(constant, Triangles) else number
    found: np.dtype[Any] = number.dtype
    return found


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) or is_array(leaf)


def _without_shape(leaf: Any) -> Variable:
    return Variable((), leaf.dtype)
