"""A graph for any number of rows, or other lengths: shapes and parameters hold what depends on them."""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from sknet._fields import COUNT, Arrays, Dtypes, Each, Together
from sknet._tree import leaves, map_leaves
from sknet.compile import _graph as own
from sknet.compile._capture import lines_of
from sknet.compile._graph import (
    Equation,
    Graph,
    OutputIndex,
    Signature,
    Variable,
    outputs_of,
    primitive_named,
)
from sknet.compile.passes import ASSEMBLY, rewrite
from sknet.core import Primitive, Tensor, as_tensor, bind
from sknet.core._tape import shown
from sknet.device import is_array, to_device
from sknet.exceptions import CaptureError, ShapeError
from sknet.ops import arange, broadcast_to, reshape
from sknet.ops._batching import batching

ROWS = (5, 6, 8)  # numbers of rows to capture for; the first graph is exported


class Length(NamedTuple):
    """A length or position ``per_row * n + more`` for n rows."""

    per_row: int
    more: int

    def __str__(self) -> str:
        text = "n" if self.per_row == 1 else f"{self.per_row}*n"
        return text if not self.more else f"{text}{self.more:+d}"


Terms = dict[tuple[int, ...], int]


class Lengths(NamedTuple):
    """A length that depends on several sizes, such as rows and steps: a sum of products."""

    terms: Annotated[tuple[Any, ...], Each(tuple, Together(Each(tuple, COUNT), int))]

    def __str__(self) -> str:
        parts = []
        for sizes, factor in self.terms:
            names = [f"s{i}" if i else "n" for i in sizes]
            parts.append("*".join([*([] if factor == 1 and names else [str(factor)]), *names]))
        return "+".join(parts)


class Share(NamedTuple):
    of: Length | Lengths


class Filled(NamedTuple):
    """A constant that is one number everywhere."""

    number: Annotated[np.ndarray[Any, Any], Arrays("biuf")]
    shape: Annotated[tuple[Any, ...], Each(tuple, [COUNT, Length, Lengths])]


class Counted(NamedTuple):
    dtype: Annotated[np.dtype[Any], Dtypes("biuf")]
    shape: Annotated[tuple[Any, ...], Each(tuple, [COUNT, Length, Lengths])]


class Triangles(NamedTuple):
    """A constant matrix of one number up to a diagonal, and another one after it: a causal mask."""

    lower: Annotated[np.ndarray[Any, Any], Arrays("biuf")]
    upper: Annotated[np.ndarray[Any, Any], Arrays("biuf")]
    diagonal: int
    shape: Annotated[tuple[Any, ...], Each(tuple, [COUNT, Length, Lengths])]

    @classmethod
    def of(cls, values: tuple[np.ndarray[Any, Any], ...], shape: tuple[Any, ...]) -> "Triangles | None":
        """Return what matrices of several sizes have in common; None if they are no such matrices."""
        first = values[0]
        if first.ndim != 2 or not first.size:
            return None
        lower, upper = np.array(first[-1, 0]), np.array(first[0, -1])
        found = cls(lower, upper, int((first[0] == lower).sum()) - 1, shape)
        return found if all(found.array(v.shape).tobytes() == v.tobytes() for v in values) else None

    def array(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Return the matrix of a shape."""
        rows, columns = shape
        return np.where(np.tri(rows, columns, self.diagonal, dtype=bool), self.lower, self.upper)


class Samples(NamedTuple):
    """Values of a size for which the same function is captured; finds what depends on that size."""

    size: int
    values: tuple[int, ...]

    def common(self, values: tuple[Any, ...], where: str) -> Any:
        """Return the common value, with a length in place of numbers that depend on the size."""
        first = values[0]
        if any(isinstance(v, (Length, Lengths)) for v in values):
            return first if all(v == first for v in values) else self._length(values, where)
        if isinstance(first, (tuple, list)):
            self.check(len({len(v) for v in values}) == 1, where)
            return type(first)([self.common(parts, where) for parts in zip(*values, strict=True)])
        if isinstance(first, slice):
            bounds = [(v.start, v.stop, v.step) for v in values]
            return slice(*[self.common(parts, where) for parts in zip(*bounds, strict=True)])
        if isinstance(first, dict):
            return {key: self.common(tuple(v[key] for v in values), where) for key in first}
        if isinstance(first, np.ndarray):
            self.check(all(v.shape == first.shape and (v == first).all() for v in values), where)
            return first
        if isinstance(first, int) and type(first) is not bool:
            return int(first) if all(v == first for v in values) else self._length(values, where)
        self.check(all(_are_same(v, first) for v in values), where)
        return first

    def number(self, values: tuple[Any, ...], where: str) -> Any:
        """Return a number that all are, or what it is of the size: a mean divides by how many there are."""
        if all(_are_same(v, values[0]) for v in values):
            return values[0]
        if any(isinstance(v, Share) for v in values):
            self.check(all(isinstance(v, Share) for v in values), where)
            return Share(self._length(tuple(v.of for v in values), where))
        if any(isinstance(v, (Length, Lengths)) for v in values):
            return self._length(values, where)
        self.check(all(v != 0 for v in values), where)
        wholes = tuple(round(v) for v in values)
        if wholes == values:
            return self._length(wholes, where)
        parts = tuple(round(1 / v) for v in values)
        self.check(all(1 / part == v for part, v in zip(parts, values, strict=True) if part), where)
        return Share(self._length(parts, where))

    def constant(self, values: tuple[Any, ...], shape: tuple[Any, ...]) -> Any:
        """Return the form of a constant for any value of the size."""
        first = values[0]
        self.check(len({type(v) for v in values}) == 1, "a constant")
        if isinstance(first, Filled):
            self.check(all(v.number.tobytes() == first.number.tobytes() for v in values), "a constant")
            return Filled(first.number, shape)
        if isinstance(first, Counted):
            return Counted(first.dtype, shape)
        if isinstance(first, Triangles):
            self.check(all(_same_triangles(v, first) for v in values), "a constant")
            return Triangles(*first[:3], shape)
        if all(isinstance(n, int) for n in shape):
            if any(v.tobytes() != first.tobytes() for v in values):
                raise CaptureError(
                    f"a constant depends on {self}, so the function cannot be exported for any"
                )
            repeats = first.size > 1 and not any(first.strides)
            return Filled(np.array(first.flat[0]), shape) if repeats else first
        if first.size and all(v.tobytes() == first.flat[0].tobytes() * v.size for v in values):
            return Filled(np.array(first.flat[0]), shape)
        is_flat = self.size or first.ndim == 1
        if is_flat and all((v.ravel() == np.arange(v.size)).all() for v in values):
            return Counted(first.dtype, shape)
        triangles = Triangles.of(values, shape) if self.size else None
        if triangles is not None:
            return triangles
        raise CaptureError(
            f"a constant has another length for another {str(self).removeprefix('the ')}, and is neither "
            f"one number everywhere nor 0, 1, 2, ...: the function cannot be exported for any {self}"
        )

    def check(self, condition: bool, where: str = "it") -> None:
        """Raise a CaptureError unless a condition holds."""
        if not condition:
            raise CaptureError(self.told(f"{where} differs"))

    def told(self, what: str) -> str:
        """Return a message that operations depend on the size."""
        return (
            f"the operations of this function depend on {self} ({what}), so it cannot be exported "
            "for any number: let them depend on the other axes only."
        )

    def __str__(self) -> str:
        return "the length of an axis" if self.size else "the number of rows"

    def _length(self, values: tuple[Any, ...], where: str) -> Length | Lengths:
        a, b, c = self.values
        terms, found = [terms_of(v) for v in values], Terms()
        for sizes in {sizes: None for each in terms for sizes in each}:
            first, second, third = (each.get(sizes, 0) for each in terms)
            slope, rest = divmod(second - first, b - a)
            self.check(rest == 0 and third == first + slope * (c - a), where)
            found[sizes] = found.get(sizes, 0) + first - slope * a
            found[*sizes, self.size] = slope
        if found.keys() <= {(), (0,)}:
            return _interned(found.get((0,), 0), found.get((), 0))
        return _interned_lengths(tuple(sorted((sizes, n) for sizes, n in found.items() if n)))


def plus(length: Any, more: int) -> Any:
    if isinstance(length, Length):
        return _interned(length.per_row, length.more + more)
    if isinstance(length, Lengths):
        terms = {**terms_of(length), (): terms_of(length).get((), 0) + more}
        return _interned_lengths(tuple(sorted((sizes, n) for sizes, n in terms.items() if n)))
    return length + more


def terms_of(length: Any) -> Terms:
    """Return the factor of each product of sizes in a length."""
    if isinstance(length, Lengths):
        return dict(length.terms)
    return {(0,): length.per_row, (): length.more} if isinstance(length, Length) else {(): length}


def _same_triangles(x: Triangles, y: Triangles) -> bool:
    return (
        x.diagonal == y.diagonal
        and x.lower.tobytes() + x.upper.tobytes() == y.lower.tobytes() + y.upper.tobytes()
    )


def _are_same(x: Any, y: Any) -> bool:
    return bool(x == y or (x != x and y != y))


# One object for equal lengths, which a file then holds once.
_interned, _interned_lengths = cache(Length), cache(Lengths)


class Input(NamedTuple):
    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    name: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


class Line(NamedTuple):
    primitive: str
    operands: tuple[Any, ...]
    params: dict[str, Any]


class Position(int):
    """The position of a variable among inputs, constants and results, in this order."""

    def __new__(cls, position: int) -> Self:
        return super().__new__(cls, position)


class RowsGraph:
    """A captured graph with lengths and numbers that depend on the number of rows and other sizes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        variables = [*graph.inputs, *graph.constants, *(e.output for e in graph.equations)]
        self.positions = {x: Position(i) for i, x in enumerate(variables)}
        self.shapes: list[Any] = [x.shape for x in variables]
        self.constants: list[Any] = list(graph.constants.values())
        self.lines = [Line(e.primitive.name, tuple(map(self._operand, e.operands)), e.params)
                      for e in graph.equations]  # fmt: skip
        self.outputs = [self.positions[x] for x in graph.outputs]

    def _operand(self, x: Any) -> Any:
        return self.positions[x] if type(x) is Variable else x

    @classmethod
    def of_sizes(cls, captured: Callable[..., Graph], samples: Sequence[tuple[int, ...]]) -> Self:
        """Capture a function for several values of each size, the first of which is the number of rows."""
        if not samples:
            return cls(captured())
        *fewer, values = samples
        graphs = [cls.of_sizes(lambda *sizes, v=v: captured(*sizes, v), fewer) for v in values]
        try:
            graphs[0]._join(graphs, Samples(len(fewer), tuple(values)))
        except OtherOperationsError as error:
            lines = lines_of(lambda: captured(*(each[0] for each in fewer), values[-1]))
            where = f" The first is {shown(lines[error.number])}." if error.number < len(lines) else ""
            raise CaptureError(f"{error}{where}") from None
        return graphs[0]

    def _join(self, graphs: Sequence[Self], by: Samples) -> None:
        """Hold for any value of a size what graphs of the same function hold for a few."""
        by.check(len({(len(x.graph.inputs), len(x.constants)) for x in graphs}) == 1)
        lines = []
        for number, each in enumerate(zip(*(x.lines for x in graphs), strict=False)):
            try:
                lines.append(_line(by, each))
            except CaptureError as error:
                raise OtherOperationsError(str(error), number) from None
        if len({len(x.lines) for x in graphs}) > 1:
            raise OtherOperationsError(by.told("there are more"), len(lines))
        by.check(all(x.outputs == self.outputs for x in graphs))
        first, last = len(self.graph.inputs), len(self.graph.inputs) + len(self.constants)
        names = ["an input"] * first + ["a constant"] * (last - first) + [x.primitive for x in lines]
        shapes = zip(*(x.shapes for x in graphs), strict=True)
        self.shapes = [by.common(each, name) for each, name in zip(shapes, names, strict=True)]
        constants = zip(*(x.constants for x in graphs), strict=True)
        self.constants = [
            by.constant(each, shape) for each, shape in zip(constants, self.shapes[first:last], strict=True)
        ]
        self.lines = lines

    def shape(self, variable: Variable) -> tuple[Any, ...]:
        return self.shapes[self.positions[variable]]

    def line(self, equation: Equation) -> Line:
        """Return an equation, with a `Length` or `Lengths` for each number that depends on sizes."""
        return self.lines[self.positions[equation.output] - len(self.graph.inputs) - len(self.constants)]

    def constant(self, variable: Variable) -> Any:
        """Return the value of a constant, or its form for any sizes."""
        return self.constants[self.positions[variable] - len(self.graph.inputs)]


def _line(by: Samples, each: tuple[Line, ...]) -> Line:
    name = each[0].primitive
    by.check(len({line.primitive for line in each}) == 1)
    by.check(len({len(line.operands) for line in each}) == 1)
    operands = [_operand(by, x, name) for x in zip(*(line.operands for line in each), strict=True)]
    return Line(name, tuple(operands), by.common(tuple(line.params for line in each), name))


def _operand(by: Samples, values: tuple[Any, ...], where: str) -> Any:
    if type(values[0]) is not Position:
        return by.number(values, where)
    by.check(all(type(x) is Position and x == values[0] for x in values), where)
    return values[0]


def graph_of_any_rows(captured: Callable[[int], Graph]) -> RowsGraph:
    """Capture a function for several numbers of rows."""
    return RowsGraph.of_sizes(captured, [ROWS])


MOST_SIZES = 3  # that a graph depends on beside the number of rows
MOST_TIED = 4  # axes that have one length
Axis = tuple[int, int]  # the number of an input, and that of its axis
Axes = tuple[Axis, ...]
Shapes = Sequence[tuple[int, ...]]


class Free(NamedTuple):
    """Axes of inputs, tied ones together, that may have another length; for which lengths to capture."""

    axes: tuple[Axes, ...] = ()
    samples: tuple[tuple[int, ...], ...] = ()

    def shapes(self, shapes: Shapes, sizes: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Return shapes of inputs with sizes, those of the rows first, in place of the lengths of axes."""
        found = [[sizes[0], *shape[1:]] if shape else [] for shape in shapes]
        for axes, length in zip(self.axes, sizes[1:], strict=True):
            for i, axis in axes:
                found[i][axis] = length
        return [tuple(shape) for shape in found]

    def captured(self, captured: Callable[[Shapes], Graph], shapes: Shapes) -> RowsGraph:
        return RowsGraph.of_sizes(lambda *sizes: captured(self.shapes(shapes, sizes)), [ROWS, *self.samples])

    def tied(self, axes: Axes, shapes: Shapes, step: int) -> "Free":
        """Return what is free if other axes are, too."""
        n = shapes[axes[0][0]][axes[0][1]]
        return Free((*self.axes, axes), (*self.samples, (n, n + step, n + 3 * step)))


FIXED = Free()


def free_lengths(shape: Sequence[Any]) -> Free:
    """Return what is free in a row of this shape: axes whose length depends on a size."""
    found: dict[Any, list[Axis]] = {}
    for axis, length in enumerate(shape, 1):
        if isinstance(length, VARYING):
            found.setdefault(length, []).append((0, axis))
    return Free(tuple(map(tuple, found.values())), (ROWS,) * len(found))


def of_any_lengths(
    captured: Callable[[Shapes], Graph], shapes: Shapes, kept: Collection[Axis] = ()
) -> tuple[RowsGraph, Free, dict[Axis, str]]:
    """Capture a function for any lengths that it takes of axes of inputs, but for axes that are `kept`."""
    # Return the graph, the free axes, and why others are fixed which the function takes of other lengths.
    free = FIXED
    rows, fixed = free.captured(captured, shapes), dict[Axis, str]()
    for axes in _candidates(shapes):
        taken = {*kept, *(axis for each in free.axes for axis in each)}
        if len(free.axes) == MOST_SIZES or not taken.isdisjoint(axes):
            continue
        wider = _taken(captured, shapes, free, axes)
        if wider is None:
            continue
        try:
            rows = wider.captured(captured, shapes)
        except CaptureError as error:
            fixed.update({axis: str(error) for axis in axes})
        except Exception:  # the function's own, for one of the lengths
            continue
        else:
            free = wider
    known = {axis for axes in free.axes for axis in axes}
    return rows, free, {axis: why for axis, why in fixed.items() if axis not in known}


def _taken(captured: Callable[[Shapes], Graph], shapes: Shapes, free: Free, axes: Axes) -> Free | None:
    """Return what is free with more axes; None if the function takes them neither longer nor shorter."""
    for step in (1, -1):
        wider = free.tied(axes, shapes, step)
        if wider.samples[-1][-1] < 1:
            return None
        try:
            captured(wider.shapes(shapes, (2, *(values[1] for values in wider.samples))))
        except Exception:  # the function's own
            continue
        return wider
    return None


def _candidates(shapes: Shapes) -> Iterator[Axes]:
    """Yield axes that may have other lengths: alone, and then with others of the same length."""
    axes = [(i, axis) for i, shape in enumerate(shapes) for axis in range(1, len(shape))]
    yield from ((axis,) for axis in axes)
    by_length: dict[int, list[Axis]] = {}
    for i, axis in axes:
        by_length.setdefault(shapes[i][axis], []).append((i, axis))
    for tied in by_length.values():
        for count in range(2, min(len(tied), MOST_TIED) + 1):
            yield from combinations(tied, count)


class OtherOperationsError(CaptureError):
    """A function does other operations for another size; `number` counts those before."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.number)


VARYING = (Length, Lengths)
FAR = 1 << 20  # a length that tables of positions do not have
KEPT = 16  # graphs that are remembered, of as many numbers of rows


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

    def __getstate__(self) -> dict[str, Any]:
        """Return the constructor's arguments, and what is no plain number there, as for formats of text."""
        names = ("inputs", "constants", "lines", "outputs", "args", "result", "others")
        positions = [[type(x) is Position for x in line.operands] for line in self.lines]
        indices = [type(x) is OutputIndex for x in leaves(self.result)]
        return {name: getattr(self, name) for name in names} | {"positions": positions, "indices": indices}

    def __setstate__(self, state: dict[str, Any]) -> None:
        positions, indices = iter(state.pop("positions")), iter(state.pop("indices"))
        for i, line in enumerate(lines := [*state["lines"]]):
            pairs = zip(line.operands, next(positions), strict=True)
            lines[i] = line._replace(operands=tuple([Position(x) if is_one else x for x, is_one in pairs]))
        result = map_leaves(lambda x: OutputIndex(x) if next(indices) else x, state["result"])
        SymbolicGraph.__init__(self, **state | {"lines": lines, "result": result})

    # -- from graphs --------------------------------------------------------------------------

    @classmethod
    def of_rows(cls, captured: Callable[[int], Graph]) -> Self:
        return cls.of_sizes(graph_of_any_rows(captured))

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Describe one graph, in which nothing depends on the number of rows."""
        return cls.of_rows(lambda _: graph)

    @classmethod
    def of_sizes(cls, rows: RowsGraph, others: Sequence[int] = ()) -> Self:
        """Describe a graph for any number of rows, and any values of other sizes, with those of a sample."""
        graph = rows.graph
        signature, known = graph.called(), graph.names()
        return cls(
            [Input(rows.shape(x), x.dtype, known[x]) for x in graph.inputs],
            rows.constants,
            rows.lines,
            rows.outputs,
            map_leaves(lambda leaf: Variable((), leaf.dtype) if _is_array(leaf) else leaf, signature.args),
            signature.result,
            others,
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

    def limits(self, number: int) -> tuple[int, int | None]:
        """Return the shortest and the longest length that a size may have; None is any."""
        known = self.others[number - 1]
        low = 1 if self._holds(number, 1) else _last(lambda n: self._holds(number, n), known, 1)
        high = None if self._holds(number, FAR) else _last(lambda n: self._holds(number, n), known, FAR)
        return low, high

    def _holds(self, number: int, length: int) -> bool:
        """Tell whether shapes fit if a size has some length, and counted positions are in their tables."""
        others = [*self.others[: number - 1], length, *self.others[number:]]
        try:
            *_, equations, variables = self.verified(ROWS[0], *others)
        except (ValueError, IndexError):
            return False
        first = len(self.inputs)
        for line, equation in zip(self.lines, equations, strict=True):
            if line.primitive == "take" and type(line.operands[1]) is Position:
                place = line.operands[1] - first
                is_counted = 0 <= place < len(self.constants) and isinstance(self.constants[place], Counted)
                table, indices = equation.variables
                if is_counted and indices.size > table.shape[line.params["axis"]]:
                    return False
        return min((n for x in variables for n in x.shape), default=0) >= 0

    def up_to(self, position: int) -> Self:
        """Return a graph that ends with one of the values, and takes the same inputs."""
        n_lines = max(0, position + 1 - len(self.inputs) - len(self.constants))
        parts = (self.inputs, self.constants, self.lines[:n_lines], [position], self.args, OutputIndex(0))
        return type(self)(*parts, self.others)

    def returning(self, n_outputs: int, result: Any) -> Self:
        parts = (self.inputs, self.constants, self.lines, self.outputs[:n_outputs], self.args, result)
        return type(self)(*parts, self.others)


def _last(holds: Callable[[int], bool], known: int, beyond: int) -> int:
    """Return the last number for which something holds, from a known one to one for which it does not."""
    while abs(beyond - known) > 1:
        middle = (known + beyond) // 2
        known, beyond = (middle, beyond) if holds(middle) else (known, middle)
    return known


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
    return constant


def _dtype(constant: Any) -> np.dtype[Any]:
    number = constant.number if isinstance(constant, Filled) else constant
    number = constant.lower if isinstance(constant, Triangles) else number
    return number.dtype


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) or is_array(leaf)


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
        equations.append(equation.reading(tuple(operands)))
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
            operands = equations[at].operands
            equations[at] = equations[at].reading((*operands[:place], variable, *operands[place + 1 :]))
    if instead:
        equations = [e.reading(tuple([instead.get(x, x) for x in e.operands])) for e in equations]
    outputs = [instead.get(x, x) for x in graph.outputs]
    inputs_of = (*graph.inputs, *added.values())
    graph = graph.replaced(inputs=inputs_of, constants=constants, equations=equations, outputs=outputs)
    # What a flat array is assembled from has to be seen before it has an axis of members in front.
    return outputs_of(rewrite(graph, ASSEMBLY, exact=True), [*inputs, *numbers.values()])


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
