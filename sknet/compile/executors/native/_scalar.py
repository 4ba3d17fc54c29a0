"""Scalar expressions as source, with explicit types: each computes one element of one value."""

import ast
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._internal import primitive_named
from sknet.compile.executors._expressions import computing_dtype, parsed, used
from sknet.compile.executors.native._math import FUNCTIONS
from sknet.compile.executors.native._value import Map, UnsupportedError, Value
from sknet.core import SCALAR_FUNCTIONS

__all__ = ["ScalarWriter"]


class Indexed(NamedTuple):
    """The expression of an operation that selects an element of a row by comparing ``j`` with an index.

    Attributes
    ----------
    expression : str
        One element, inside the loop over the row.
    position : int
        The position of the operand that is the index.
    """

    expression: str
    position: int


INDEXED = {
    "put_at": Indexed("x if j == y else 0", 1),
    "subtract_at": Indexed("x - y if j == z else x", 2),
}
PLAIN = (0.0, 1.0, -1.0, 0.5, 2.0)  # numbers that are part of the source; others are passed at run time


class ScalarWriter:
    """Writes expressions, and collects the numbers and functions that they need.

    Parameters
    ----------
    dtype : dtype
        The computing dtype.

    Attributes
    ----------
    numbers : list of float
        Numbers that are passed at run time, as ``c0``, ``c1``, ...
    functions : set of str
        Functions of `FUNCTIONS` that are called.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.numbers: list[float] = []
        self.functions: set[str] = set()

    def number(self, value: Any, dtype: Any) -> str:
        """Return the text of a number."""
        if np.dtype(dtype).kind != "f":
            return repr(bool(value)) if np.dtype(dtype).kind == "b" else f"{self.type_of(dtype)}({value!r})"
        if float(value) in PLAIN:
            return f"T({float(value)!r})"
        return self.given(value)

    def given(self, value: float) -> str:
        """Return the name of a number that is passed at run time."""
        self.numbers.append(float(value))
        return f"c{len(self.numbers) - 1}"

    def expression(self, value: Map, names: dict[Value, str]) -> str:
        """Return the expression of one element of `value`.

        Parameters
        ----------
        value : Value
            A map.
        names : dict of Value to str
            The text of an element of each operand.

        Returns
        -------
        str
            Of the value's dtype.
        """
        text, bare = _rule(value)
        others = tuple([x for i, x in enumerate(value.operands) if i != bare])
        dtype = computing_dtype(text, others, value.dtype)
        texts = {
            "xyz"[i]: self._operand(x, names, dtype if i != bare else getattr(x, "dtype", "bool"))
            for i, x in enumerate(value.operands)
            if i in used(text)
        }
        written = ast.unparse(_Typed(texts, self, dtype).visit(deepcopy(parsed(text))))
        # Numba computes integers in 64 bits.
        return f"{self.type_of(value.dtype)}({written})" if value.dtype.kind in "iu" else written

    def type_of(self, dtype: Any) -> str:
        """Return the name of a dtype in the source."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return "T"
        return "bool" if dtype.kind == "b" else f"np.{dtype.name}"

    def _operand(self, x: Any, names: dict[Value, str], dtype: Any) -> str:
        if not isinstance(x, Value):
            return self.number(x, dtype)
        return names[x] if x.dtype == dtype else f"{self.type_of(dtype)}({names[x]})"


def _rule(value: Map) -> tuple[str, int | None]:
    """Return a map's expression, and the position of an operand that keeps its dtype."""
    indexed = INDEXED.get(value.op)
    if indexed is not None:
        return indexed
    primitive = primitive_named(value.op)
    if primitive.expression is None:
        raise UnsupportedError(f"{value.op} has no expression")
    return primitive.expression, primitive.condition


class _Typed(ast.NodeTransformer):
    """Substitutes operands for x, y and z, and gives numbers and functions the computing dtype."""

    def __init__(self, operands: dict[str, str], writer: ScalarWriter, dtype: Any) -> None:
        self._operands, self._writer, self._dtype = operands, writer, dtype

    def visit_Name(self, node: ast.Name) -> ast.expr:
        text = self._operands.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(self._writer.number(node.value, self._dtype), mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.func = ast.parse(self._function(ast.unparse(node.func)), mode="eval").body
        return node

    def _function(self, name: str) -> str:
        own = f"{name}_{self._dtype.name}"  # written for vectorised loops
        if own in FUNCTIONS:
            self._writer.functions.add(own)
            return own
        return SCALAR_FUNCTIONS[name].numba
