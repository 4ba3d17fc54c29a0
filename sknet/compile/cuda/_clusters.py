"""Steps of a cluster of blocks of threads: the graph of one block, which has a share of a batch's rows.

Arrays with a row for each of the batch are divided, in the order of the rows; all others, parameters among
them, every block has and computes by itself, so that they have the same bits in all of them. A sum over the
batch is a part of it in each block, and `block_sums` adds these parts, in the order of the blocks. Sums that
do not depend on each other are one such equation, since all blocks wait for each other before and after it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile import _graph as own
from sknet.compile._calls import registry
from sknet.compile._graph import Equation, Graph, Operand, Variable
from sknet.compile.cuda._maps import OF_BLOCK
from sknet.core import PRIMITIVES
from sknet.exceptions import DtypeError, ShapeError

SIZES = (8, 4, 2)  # of clusters; that of 8 blocks is the largest that every device with clusters has
LEAST_PRODUCTS = 1 << 18  # multiplications of a step; with fewer, blocks would wait longer than they save


class Share(NamedTuple):
    """The step of one block, and its arrays in place of those of the whole batch, where they differ."""

    graph: Graph
    arrays: dict[Variable, Variable]


def blocks_for(graph: Graph, n_rows: int, most: int) -> int:
    """Return how many blocks, up to so many, share the rows of a batch; by shapes alone."""
    is_large = products_of(graph) >= LEAST_PRODUCTS
    return next((each for each in SIZES if is_large and each <= most and n_rows % each == 0), 1)


def products_of(graph: Graph) -> int:
    """Return the number of multiplications in products of matrices."""
    matmuls = [e for e in graph.equations if e.primitive.name == "matmul"]
    return sum(e.output.size * e.variables[0].shape[-1] for e in matmuls)


def share_of(graph: Graph, rows: Sequence[Variable], blocks: int) -> Share | None:
    """Return the step of one of some blocks that share `rows`; None if its batch cannot be divided so."""
    step = _Step(graph, blocks)
    try:
        for x in rows:
            step.divide(x, -x.ndim)
        for equation in graph.equations:
            step.add(equation)
    except (UndividedError, ShapeError, DtypeError, TypeError):
        return None
    return Share(step.graph(), step.arrays)


class UndividedError(Exception):
    """An equation that needs rows of other blocks."""


class _Step:
    """The equations of one block so far."""

    def __init__(self, graph: Graph, blocks: int) -> None:
        self._graph, self._blocks = graph, blocks
        self._constants = dict(graph.constants)
        self.arrays: dict[Variable, Variable] = {}
        self.axes: dict[Variable, int] = {}  # that are divided, counted from the end
        self._equations: list[tuple[int, Equation]] = []  # with the number of sums that must come before
        self._sums: list[tuple[int, Variable, Variable]] = []  # the same, the part, and the whole
        self._levels: dict[Variable, int] = {}

    def graph(self) -> Graph:
        """Return the graph, in which sums come as late as possible, many at once."""
        equations = []
        for level in range(max(level for level, _ in self._equations) + 1):
            equations += self._added([each for n, *each in self._sums if n == level])
            equations += [equation for n, equation in self._equations if n == level]
        of, whole = self.arrays, self._graph
        inputs, outputs = ([of.get(x, x) for x in each] for each in (whole.inputs, whole.outputs))
        return Graph(inputs, self._constants, equations, outputs)

    def _added(self, sums: Sequence[Sequence[Variable]]) -> list[Equation]:
        """Return equations that add parts: all of one dtype at once, whose sums are views of one array."""
        found = []
        for dtype in dict.fromkeys(part.dtype for part, _ in sums):
            pairs = [pair for pair in sums if pair[0].dtype == dtype]
            found.append(Equation(own.block_sums, tuple(part for part, _ in pairs), {}))
            flat, start = found[-1].output, 0
            for part, whole in pairs:
                index = {"index": slice(start, start + part.size, None)}
                found.append(Equation(PRIMITIVES["getitem"], (flat,), index))
                found.append(
                    Equation(PRIMITIVES["reshape"], (found[-1].output,), {"shape": whole.shape}, whole)
                )
                start += part.size
        return found

    def add(self, equation: Equation) -> None:
        name, output = equation.primitive.name, equation.output
        if name in ("uniform_draws", "dropout_mask") and output.shape[:1] == self._rows:
            params = equation.params | {OF_BLOCK: True, "shape": self.divided(output, -output.ndim)}
            self.divide(output, -output.ndim)
            self._write(Equation(equation.primitive, equation.operands, params, self.arrays[output]))
        elif self.axes.keys().isdisjoint(equation.variables):
            self._write(equation)
        elif name in RULES:
            RULES[name](self, equation)
        elif equation.primitive.expression is not None:
            [axis] = {self.axes[x] for x in equation.variables if x in self.axes}
            self.write(equation, [self.aligned(x, axis) for x in equation.operands], axis)
        else:
            raise UndividedError

    @property
    def _rows(self) -> tuple[int, ...]:
        return next(iter(self.axes)).shape[:1]

    # -- for rules ----------------------------------------------------------------------------

    def divided(self, x: Variable, axis: int) -> tuple[int, ...]:
        """Return the shape of a block's share of an array."""
        if x.shape[axis] % self._blocks:
            raise UndividedError
        return tuple(n // self._blocks if i - x.ndim == axis else n for i, n in enumerate(x.shape))

    def divide(self, x: Variable, axis: int) -> None:
        self.arrays[x], self.axes[x] = Variable(self.divided(x, axis), x.dtype), axis

    def aligned(self, x: Operand, axis: int) -> Operand:
        """Return what a block has of an operand that is broadcast to an array divided along an axis."""
        if type(x) is not Variable or x.ndim < -axis or (x not in self.axes and x.shape[axis] == 1):
            return x
        if x not in self.axes and x in self._graph.constants:
            value = self._graph.constants[x]
            if not np.array_equal(value, np.broadcast_to(value.take([0], axis), x.shape), equal_nan=True):
                raise UndividedError
            self.divide(x, axis)
            self._constants[self.arrays[x]] = value.take(range(x.shape[axis] // self._blocks), axis)
        if self.axes.get(x) != axis:
            raise UndividedError
        return self.arrays[x]

    def write(self, equation: Equation, operands: Sequence[Operand], axis: int, **params: Any) -> None:
        """Write an equation whose output is divided along an axis."""
        expected = self.divided(equation.output, axis)
        found = Equation(equation.primitive, tuple(operands), equation.params | params)
        if found.output.shape != expected or found.output.dtype != equation.output.dtype:
            raise UndividedError
        self.arrays[equation.output], self.axes[equation.output] = found.output, axis
        self._write(found)

    def write_sum(self, equation: Equation) -> None:
        """Write an equation that each block computes a part of, which is a sum."""
        operands = tuple(self.arrays[x] for x in equation.operands)
        found = Equation(equation.primitive, operands, equation.params)
        if found.output.shape != equation.output.shape or found.output.dtype != equation.output.dtype:
            raise UndividedError
        self._write(found)
        level = self._levels[equation.output] = self._levels.get(found.output, 0) + 1
        self._sums.append((level, found.output, equation.output))

    def _write(self, equation: Equation) -> None:
        level = max((self._levels.get(x, 0) for x in equation.variables), default=0)
        self._levels[equation.output] = level
        self._equations.append((level, equation))


# -- equations of operands that are divided ---------------------------------------------------

Rule = Callable[[_Step, Equation], None]
RULES: dict[str, Rule] = {}
rule = registry(RULES)  # registers what a block computes of a primitive that is not elementwise


@rule("sum", "max", "min", "prod", "all", "any")
def _reduction(step: _Step, equation: Equation) -> None:
    [x], gone = equation.variables, equation.params["axis"]
    axis = step.axes[x]
    if axis not in gone:
        after = 0 if equation.params["keepdims"] else sum(each > axis for each in gone)
        step.write(equation, [step.arrays[x]], axis + after)
    elif equation.primitive.name == "sum":
        step.write_sum(equation)
    else:
        raise UndividedError


@rule("sum_squares")
def _sum_squares(step: _Step, equation: Equation) -> None:
    if not step.axes.keys() >= set(equation.operands):
        raise UndividedError
    step.write_sum(equation)


@rule("matmul")
def _matmul(step: _Step, equation: Equation) -> None:
    x, y = equation.operands
    along = step.axes.get(x), step.axes.get(y)
    if along == (-1, max(-2, -y.ndim)):
        step.write_sum(equation)
    elif x.ndim == y.ndim == 2 and along in ((-2, None), (None, -1)):
        operands = [step.arrays.get(each, each) for each in (x, y)]
        step.write(equation, operands, -2 if along[1] is None else -1)
    elif y.ndim <= 2 and along[0] is not None and along[1] is None and along[0] < -1:
        step.write(equation, [step.arrays[x], y], along[0] + (y.ndim == 1))
    else:
        raise UndividedError


@rule("permute_dims")
def _permute_dims(step: _Step, equation: Equation) -> None:
    [x], axes = equation.variables, equation.params["axes"]
    step.write(equation, [step.arrays[x]], axes.index(step.axes[x]) - x.ndim)


@rule("reshape")
def _reshape(step: _Step, equation: Equation) -> None:
    """Keep elements in their order, of which a block has a share after each place of the axes before."""
    [x], output = equation.variables, equation.output
    before = math.prod(x.shape[: step.axes[x]])
    for axis in range(-output.ndim, 0):
        if math.prod(output.shape[:axis]) == before and output.shape[axis] > 1:
            step.write(equation, [step.arrays[x]], axis, shape=step.divided(output, axis))
            return
    raise UndividedError


@rule("broadcast_to")
def _broadcast_to(step: _Step, equation: Equation) -> None:
    [x] = equation.variables
    axis = step.axes[x]
    step.write(equation, [step.arrays[x]], axis, shape=step.divided(equation.output, axis))


@rule("getitem")
def _getitem(step: _Step, equation: Equation) -> None:
    [x], index = equation.variables, equation.params["index"]
    parts = dict(enumerate(index if isinstance(index, tuple) else (index,)))
    is_whole = parts.get(x.ndim + step.axes[x], slice(None)) == slice(None)
    if not is_whole or not all(type(part) is slice for part in parts.values()):
        raise UndividedError
    step.write(equation, [step.arrays[x]], step.axes[x])


@rule("flat_index", "take_at", "put_at", "subtract_at")
def _of_rows(step: _Step, equation: Equation) -> None:
    """Let positions be those within the rows of a block: all operands have rows."""
    operands = [step.aligned(x, -x.ndim) for x in equation.operands]
    if not all(x in step.axes for x in equation.operands):
        raise UndividedError
    axis = -equation.output.ndim
    params = {"shape": step.divided(equation.output, axis)} if "shape" in equation.params else {}
    step.write(equation, operands, axis, **params)
