"""One element of one value as a line of source: the primitives' expressions, with every type spelled out."""

import ast
from functools import cache
from typing import Any

import numpy as np

from sknet.compile.executors.native._math import FUNCTIONS
from sknet.compile.executors.native._values import UnsupportedError, Value
from sknet.core import PRIMITIVES

__all__ = ["ScalarWriter"]

# Instead of the primitives' own: comparisons that keep NaN, and an index that is compared, not followed.
EXPRESSIONS = {
    "relu": "0 if x <= 0 else x",
    "maximum": "x if x > y or x != x else y",
    "minimum": "x if x < y or x != x else y",
    "sign": "1 if x > 0 else -1 if x < 0 else x * 0",
    "square": "x * x",
    "axpy": "x + z * y",
    "masked": "x if y else 0",
    "copy": "x",
    "astype": "x",
    "put_at": "x if j == y else 0",
    "subtract_at": "x - y if j == z else x",
}
# Functions that Numba takes from NumPy: they keep the precision, and floor and its kin stay real numbers.
OF_NUMPY = {f"a{name}": f"arc{name}" for name in ("cos", "cosh", "sin", "sinh", "tan", "tan2", "tanh")}
for _name in (
    "ceil", "copysign", "cosh", "exp2", "floor", "hypot", "invert", "isfinite", "isinf", "isnan",
    "left_shift", "log2", "log10", "nextafter", "right_shift", "rint", "signbit", "sinh", "tan", "trunc",
):  # fmt: skip
    OF_NUMPY[_name] = _name
PLAIN = (0.0, 1.0, -1.0, 0.5, 2.0)  # numbers that belong to the structure; others are given at run time
INDEX = {"put_at": 1, "subtract_at": 2}  # operands that are indices
CONDITION = {"where": 0, "masked": 1}  # operands that are truth values


class ScalarWriter:
    """Writes expressions, and collects the numbers and functions that they need.

    Parameters
    ----------
    dtype : dtype
        In which is computed.

    Attributes
    ----------
    numbers : list of float
        What is given at run time, as ``c0``, ``c1``, ...
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
            return repr(value)
        if float(value) in PLAIN:
            return f"T({float(value)!r})"
        return self.given(value)

    def given(self, value: float) -> str:
        """Return the name of a number that is given at run time."""
        self.numbers.append(float(value))
        return f"c{len(self.numbers) - 1}"

    def expression(self, value: Value, names: dict[Value, str]) -> str:
        """Return the expression of one element of `value`.

        Parameters
        ----------
        value : Value
            A map.
        names : dict of Value to str
            What stands for an element of each operand.

        Returns
        -------
        str
            Of the value's dtype.
        """
        texts = [self._operand(value, i, x, names) for i, x in enumerate(value.operands)]
        text = EXPRESSIONS.get(value.op) or PRIMITIVES[value.op].expression
        if text is None:
            raise UnsupportedError(f"{value.op} has no expression")
        tree = _Typed(dict(zip("xyz", texts, strict=False)), self).visit(_parsed(text))
        written = ast.unparse(tree)
        if value.op in ("astype", "copy"):
            return f"{self.type_of(value.dtype)}({written})"
        return written

    def type_of(self, dtype: Any) -> str:
        """Return what the source calls a dtype."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return "T"
        return "bool" if dtype.kind == "b" else f"np.{dtype.name}"

    def _operand(self, value: Value, position: int, x: Any, names: dict[Value, str]) -> str:
        dtype = value.dtype
        if dtype.kind == "b":  # the answer to a question about numbers, asked in their dtype
            dtype = max([v.dtype for v in value.values], key=lambda d: (d.kind == "f", d.itemsize))
        if not isinstance(x, Value):
            return self.number(x, dtype)
        name = names[x]
        if value.op in ("astype", "copy") or INDEX.get(value.op) == position or x.dtype == dtype:
            return name
        if CONDITION.get(value.op) == position:
            return name
        return f"{self.type_of(dtype)}({name})"


@cache
def _tree(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _parsed(text: str) -> ast.expr:
    _tree(text)  # raises for what is no expression
    return ast.parse(text, mode="eval").body


class _Typed(ast.NodeTransformer):
    """Puts operands in for x, y and z, and gives numbers and functions the computing dtype."""

    def __init__(self, operands: dict[str, str], writer: ScalarWriter) -> None:
        self._operands, self._writer = operands, writer

    def visit_Name(self, node: ast.Name) -> ast.expr:
        text = self._operands.get(node.id)
        return node if text is None else ast.parse(text, mode="eval").body

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(self._writer.number(node.value, self._writer.dtype), mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = ast.unparse(node.func)
        if name in ("max", "min"):  # only with a number, beside a term that keeps NaN
            a, b = map(ast.unparse, node.args)
            return ast.parse(f"{a} if {a} {'>' if name == 'max' else '<'} {b} else {b}", mode="eval").body
        node.func = ast.parse(self._function(name), mode="eval").body
        return node

    def _function(self, name: str) -> str:
        own = f"{name}_{self._writer.dtype.name}"
        if own in FUNCTIONS:
            self._writer.functions.add(own)
            return own
        if name in OF_NUMPY:
            return f"np.{OF_NUMPY[name]}"
        return name if name == "abs" else f"math.{name}"
