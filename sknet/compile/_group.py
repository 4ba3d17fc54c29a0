"""Groups: equations that are executed together, one after the other for a part of the elements at a time."""

from typing import NamedTuple

from sknet.compile._graph import Equation, Variable

__all__ = ["Group", "is_elementwise"]


class Group(NamedTuple):
    """Equations that are executed together.

    Attributes
    ----------
    equations : list of Equation
        In order. All but a group of one have elementwise primitives and one output shape.
    rows : int
        How many rows of the leading axis are one block; 0 where the whole array is.
    fused : bool
        Whether one kernel goes through all equations, element by element: what no other group
        uses is never in memory.
    """

    equations: list[Equation]
    rows: int
    fused: bool = False

    @property
    def in_parts(self) -> bool:
        """Whether all equations are done for a part of the elements, then for the next part."""
        return self.fused or self.rows > 0

    @property
    def internal(self) -> set[Variable]:
        """Outputs of the group's equations."""
        return {equation.output for equation in self.equations}


def is_elementwise(equation: Equation) -> bool:
    """Tell whether each element of the output depends on the operands' elements at its place only."""
    return equation.primitive.expression is not None
