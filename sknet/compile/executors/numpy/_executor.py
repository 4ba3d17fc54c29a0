"""The NumPy executor: a plan as calls of functions, each with ``out=``."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

from sknet.compile._graph import Graph, Variable
from sknet.compile._plan import Plan
from sknet.compile.executors._calls import Call, Name
from sknet.compile.executors._writer import NO_SLOTS, Writer
from sknet.compile.executors.numpy import _emit_erfc as _emit_erfc  # registers its emitters
from sknet.compile.executors.numpy import _emit_index as _emit_index
from sknet.compile.executors.numpy import _emit_products as _emit_products
from sknet.compile.executors.numpy import _emit_softmax as _emit_softmax
from sknet.compile.executors.numpy._emit_conv import emit_biased, with_biases
from sknet.compile.executors.numpy._emitters import emit, scratch_of
from sknet.compile.executors.numpy._in_parts import in_parts
from sknet.compile.passes import Group, fuse
from sknet.ops import SparseSlot

__all__ = ["NumpyProgram"]


class NumpyProgram:
    """The calls of a plan, which can be bound to memory many times.

    Parameters
    ----------
    plan : Plan
        The operations, and the memory of their results.
    exact : bool, default=False
        Whether results must equal those of the primitives' own forwards to the last bit.

    Attributes
    ----------
    source : str
        The calls as Python source, to be read.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import compile
    >>> print(compile(lambda x, y: 2 * x + y, (np.ones(3), np.ones(3)), exact=True).source)
    # slots: v0: float64[3], v1: float64[3]
    # arena: 64 bytes, of which 64 are needed at one time
    <BLANKLINE>
    def step():
        multiply(c0, v0, v2)                              # float64[3]
        add(v2, v1, v3)                                   # float64[3]
    <BLANKLINE>
    """

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a program is code of this process and cannot be pickled or copied: pickle its graph, and plan "
            "it again"
        )

    def __init__(self, plan: Plan, exact: bool = False) -> None:
        self.plan = plan
        self._blocks: list[_Blocks] = []
        writer = Writer(plan, exact)
        for group in plan.groups:
            self._write(writer, group)
        for output, donor in plan.copies:
            writer.call(np.copyto, writer.name(donor), writer.name(output))
        self._writer = writer

    @property
    def source(self) -> str:
        """The calls as Python source, to be read."""
        return self._writer.source()

    @classmethod
    def of(cls, graph: Graph, donated: Mapping[Variable, Variable], exact: bool) -> Self:
        """Plan a graph whose outputs take over `donated` inputs; `exact` as above."""
        graph = in_parts(graph)
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
            writer.comment(first, str(group.finish.output))
            return
        for equation in group.equations:
            if self.plan.views.is_view(equation):
                continue
            first = len(writer.calls)
            emit(writer, equation)
            writer.comment(first, str(equation.output))

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
        """Return the calls of the step on this memory, and the array of every variable.

        Parameters
        ----------
        memory : ndarray of uint8
            As `Plan.arrays` needs it.
        slots : sequence of ndarray
            One for each input.
        sparse : mapping of SparseSlot to SparseSlot
            Maps the graph's slots for sparse matrices to those to be read instead.

        Returns
        -------
        calls : list of Call
            In order; they read the slots and write the outputs.
        arrays : dict of Variable to ndarray
            Where to find the outputs.
        """
        arrays = self.plan.arrays(memory, slots)
        return list(self._writer.bound(self._values(memory, arrays, sparse))), arrays

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
        found = []
        for start in range(0, total, rows):
            length = min(rows, total - start)
            block = [
                arrays[x][:length] if x in internal else arrays[x][start : start + rows] for x in self.divided
            ]
            found.append((*block, *[constant[:length] for constant in constants]))
        return tuple(found)
