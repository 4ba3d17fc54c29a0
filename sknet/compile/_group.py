"""Groups: equations that are executed together, block by block."""

from collections.abc import Sequence
from typing import NamedTuple

from sknet.compile._graph import Equation, Variable

__all__ = ["Finish", "Group", "is_elementwise"]


class Finish(NamedTuple):
    """A matrix product, and what is computed from it in the same launch."""

    product: Equation
    output: Variable
    parts: tuple[str, ...] = ()
    vector: Variable | None = None
    term: Variable | None = None
    factor: float = 0.0


class Group(NamedTuple):
    """Equations that are executed together.

    Attributes
    ----------
    equations : list of Equation
        In order. Those of a group of several are elementwise and have the same output shape, but for
        the reductions of a kernel.
    rows : int
        Rows of the leading axis per block; 0 if the array is not divided.
    fused : bool
        Whether one kernel computes all equations, element by element; values that no other group
        uses are never in memory.
    reductions : sequence of Equation
        Those of the equations that reduce an output of the others, over the same axes, in their kernel.
    epilogue : sequence of Equation
        Those that are then computed for each total.
    parts : sequence of Group
        The groups of which this one consists, if it has totals of several arrays.
    finish : Finish or None
        How a product is finished, if the equations are that and a product.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.passes import fuse
    >>> graph = capture(lambda x: ops.tanh(ops.exp(x) + 1), np.zeros((1024, 1024)))
    >>> group = fuse(graph)[0]
    >>> group.rows, group.in_parts, len(group.internal)
    (8, True, 3)
    """

    equations: list[Equation]
    rows: int
    fused: bool = False
    reductions: Sequence[Equation] = ()
    epilogue: Sequence[Equation] = ()
    parts: Sequence["Group"] = ()
    finish: Finish | None = None

    @property
    def maps(self) -> list[Equation]:
        """The equations that are neither reductions nor computed after them."""
        others = [*self.reductions, *self.epilogue]
        return [equation for equation in self.equations if equation not in others]

    @property
    def in_parts(self) -> bool:
        """True if all equations are computed for one block or element before the next."""
        return self.fused or self.rows > 0

    @property
    def internal(self) -> set[Variable]:
        """Outputs of the group's equations."""
        return {equation.output for equation in self.equations}


def is_elementwise(equation: Equation) -> bool:
    """Tell whether each output element depends only on the operands' elements at the same position."""
    return equation.primitive.expression is not None
