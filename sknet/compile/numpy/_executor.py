"""The NumPy executor: a plan as calls of functions, each with ``out=``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from sknet.compile._calls import NO_SLOTS, Call, Name, Program, Writer, bound
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._plan import Finish, Plan
from sknet.compile.numpy._emitters import emit, scratch_of
from sknet.compile.passes import Group, fuse
from sknet.device import backend
from sknet.ops import SparseSlot


class NumpyProgram(Program):
    """The calls of a plan; if `exact`, results equal those of the primitives' own forwards to the bit."""

    def __init__(self, plan: Plan, exact: bool = False) -> None:
        self.plan = plan
        self._blocks: list[_Blocks] = []
        writer = Writer(plan, exact)
        for group in plan.groups:
            self._write(writer, group)
        for output, donor in plan.copies:
            writer.call(np.copyto, writer.name(donor), writer.name(output))
        self._writer = writer

    @classmethod
    def of(cls, graph: Graph, donated: Mapping[Variable, Variable], exact: bool) -> Self:
        """Plan a graph whose outputs take over `donated` inputs; `exact` as above."""
        groups = with_biases(graph, fuse(graph))
        return cls(Plan(graph, groups, donated, partial(scratch_of, exact=exact)), exact)

    # -- writing ------------------------------------------------------------------------------

    def _write(self, writer: Writer, group: Group) -> None:
        if group.rows:
            self._write_blocks(writer, group)
            return
        if group.finish is not None:
            first = len(writer.calls)
            emit_biased(writer, group.finish)
            writer.comment(first, group.finish.output)
            return
        for equation in group.equations:
            if self.plan.views.is_view(equation):
                continue
            first = len(writer.calls)
            emit(writer, equation)
            writer.comment(first, equation.output)

    def _write_blocks(self, writer: Writer, group: Group) -> None:
        """Write a loop over blocks of rows, each of which goes through all equations at once."""
        shape = group.equations[0].output.shape
        used = dict.fromkeys(x for e in group.equations for x in (*e.variables, e.output))
        divided = [x for x in used if x.ndim == len(shape) and x.shape[0] == shape[0]]
        names = {x: writer.new_name(f"b_{writer.names[x]}") for x in divided}
        writer.begin_blocks(names)
        for equation in group.equations:
            emit(writer, equation)
        name = writer.new_name(f"blocks{len(self._blocks)}")
        constants = writer.end_blocks(name, f"{group.rows} of {shape[0]} rows each")
        self._blocks.append(_Blocks(name, group, divided, list(constants.values())))

    # -- binding ------------------------------------------------------------------------------

    def bind(
        self,
        memory: np.ndarray,
        slots: Sequence[np.ndarray],
        sparse: Mapping[SparseSlot, SparseSlot] = NO_SLOTS,
    ) -> tuple[list[Call], dict[Variable, np.ndarray]]:
        """Return the calls of the step on this memory, and the array of every variable."""
        arrays = self.plan.arrays(memory, slots)
        values = self._values(memory, arrays, sparse)
        return bound(self._writer.calls, values, self._writer.made), arrays

    def _values(
        self, memory: np.ndarray, arrays: dict[Variable, np.ndarray], sparse: Mapping[SparseSlot, SparseSlot]
    ) -> dict[str, Any]:
        values = self._writer.values(memory, arrays, partial(scratch_of, exact=self._writer.exact), sparse)
        for blocks in self._blocks:
            values[blocks.name] = blocks.divide(arrays, self.plan.in_groups)
        return values


class _Blocks(NamedTuple):
    """A loop over blocks: its name, its equations, and the arrays that it iterates over."""

    name: Name
    group: Group
    divided: list[Variable]
    constants: list[tuple[float, Variable]]

    def divide(
        self, arrays: dict[Variable, np.ndarray], internal: set[Variable]
    ) -> tuple[tuple[np.ndarray, ...], ...]:
        """Return the blocks of all arrays; internal arrays have a single block, which is reused."""
        total, rows = self.group.equations[0].output.shape[0], self.group.rows
        constants = [np.full((rows, *x.shape[1:]), value, x.dtype) for value, x in self.constants]
        for each in constants:
            each.flags.writeable = False
        found = []
        for start in range(0, total, rows):
            length = min(rows, total - start)
            block = [
                arrays[x][:length] if x in internal else arrays[x][start : start + rows] for x in self.divided
            ]
            found.append((*block, *[constant[:length] for constant in constants]))
        return tuple(found)


# -- convolutions with a bias: one call, which adds it while images are in the cache ----------


def with_biases(graph: Graph, groups: list[Group]) -> list[Group]:
    """Join each convolution with the sum of its result and a number for each filter."""
    if "conv" not in {equation.primitive.name for equation in graph.equations}:
        return groups  # as most, whose plans take a part of a short fit
    reads = Counter([*graph.outputs, *[x for equation in graph.equations for x in equation.variables]])
    made = {e.output: e for e in graph.equations if e.primitive.name == "conv" and reads[e.output] == 1}
    joined: dict[Equation, Equation] = {}
    for group in groups:
        last = group.equations[0]
        if len(group.equations) == 1 and last.primitive.name == "add":
            product = made.get(last.operands[0])
            if product is not None and _is_bias(last):
                joined[last] = product
    gone = set(joined.values())
    return [
        _joined(joined[group.equations[0]], group.equations[0]) if group.equations[0] in joined else group
        for group in groups
        if group.equations[0] not in gone
    ]


def _is_bias(equation: Equation) -> bool:
    images, numbers = equation.operands
    return (
        type(numbers) is Variable
        and numbers.dtype == images.dtype
        and numbers.shape == (images.shape[1], 1, 1)
        and images.shape == equation.output.shape
    )


def _joined(product: Equation, last: Equation) -> Group:
    finish = Finish(product, last.output, ("bias",), last.operands[1])
    return Group([product, last], 0, fused=True, finish=finish)


def emit_biased(w: Writer, finish: Finish) -> None:
    """Add the call of a convolution with its bias."""
    equation = finish.product
    name = w.partial(partial(equation.primitive.forward_on(backend("cpu")), **equation.params), "conv")
    scratch = tuple([w.scratch(equation, i) for i in range(len(w.plan.scratch[equation]))])
    out = w.name(finish.output)
    w.call(name, *w.operands(equation), bias=w.name(finish.vector), scratch=scratch, out=out)
