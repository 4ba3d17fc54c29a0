"""Scalar expressions in C, with explicit types: each computes one element of one value."""

import ast
import math
from typing import Any

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._expressions import computing_dtype, parsed, used
from sknet.core import SCALAR_FUNCTIONS

__all__ = [
    "UntranslatableError",
    "arithmetic",
    "cast",
    "formula",
    "literal",
    "needed",
    "translated",
    "type_of",
]

# C types by dtype; plain C has none for half precision, which is left to the backend's own functions.
TYPES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long", "float32": "float", "float64": "double",
}  # fmt: skip

OPERATORS = {
    ast.Div: "/", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "&&", ast.Or: "||", ast.USub: "-", ast.Not: "!",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^",
}  # fmt: skip
WRAPPING = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


class UntranslatableError(Exception):
    """An equation that cannot be written in C; its own forward is called instead."""


def literal(value: Any, dtype: Any) -> str:
    """Return the text of a number in C."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return _whole(int(value), dtype)
    suffix = "f" if dtype.itemsize == 4 else ""
    with np.errstate(over="ignore"):
        number = dtype.type(value)
    if math.isnan(number):
        return f"(0.0{suffix} / 0.0{suffix})"
    if math.isinf(number):
        return f"({'-' if number < 0 else ''}1.0{suffix} / 0.0{suffix})"
    return f"{number!s}{suffix}" if number >= 0 else f"(-{abs(number)!s}{suffix})"


def _whole(value: int, dtype: np.dtype[Any]) -> str:
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:  # C would convert it before comparing
        raise UntranslatableError(f"{value} in {dtype}")
    suffix = "" if abs(value) < 2**31 else "ULL" if dtype.kind == "u" else "LL"
    if value == limits.min < -(2**31):  # C has no negative literals
        return f"({value + 1}{suffix} - 1)"
    return f"{value}{suffix}"


def translated(equation: Equation, names: dict[Variable, str]) -> str:
    """Return one element of an equation's output as an expression in C."""
    primitive = equation.primitive
    expression = primitive.expression
    if expression is None:
        raise UntranslatableError(f"{primitive.name} has no expression")
    dtype = computing_dtype(expression, primitive.values(equation.operands), equation.output.dtype)
    operands = {
        "xyz"[i]: literal(x, dtype) if type(x) is not Variable else
        names[x] if i == primitive.condition else cast(x, names[x], dtype)
        for i, x in enumerate(equation.operands) if i in used(expression)
    }  # fmt: skip
    text = _Translator(operands, dtype).text(parsed(expression), outermost=True)
    narrow = dtype.kind in "iub" and dtype.itemsize < 4  # C promotes these to int
    return f"({type_of(dtype)})({text})" if narrow else text


def formula(expression: str, dtype: Any) -> str:
    """Return a scalar expression of any names in C."""
    tree = parsed(expression)
    names = {node.id: node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return _Translator(names, np.dtype(dtype)).text(tree, outermost=True)


def needed(equation: Equation) -> list[Variable]:
    """Return the variables that an equation's expression names."""
    expression = equation.primitive.expression
    positions = used(expression) if expression is not None else ()
    return [x for i, x in enumerate(equation.operands) if i in positions and type(x) is Variable]


def type_of(dtype: Any) -> str:
    """Return the name of a dtype in C."""
    found = TYPES.get(np.dtype(dtype).name)
    if found is None:
        raise UntranslatableError(f"{dtype} has no type in C")
    return found


def cast(x: Variable, name: str, dtype: Any) -> str:
    """Return the text for an element of `x`, called `name`, in a dtype."""
    return name if x.dtype == dtype else f"({type_of(dtype)}){name}"


def arithmetic(operator: str, x: str, y: str, dtype: np.dtype[Any]) -> str:
    """Return a sum, a difference or a product."""
    if dtype.kind not in "iu" or (dtype.kind == "u" and dtype.itemsize >= 4):
        return f"{x} {operator} {y}"
    kind = "int" if dtype.itemsize < 4 else type_of(dtype)
    return f"({kind})((unsigned {kind}){x} {operator} (unsigned {kind}){y})"


class _Translator:
    """Translates a Python expression tree to C."""

    def __init__(self, operands: dict[str, str], dtype: np.dtype[Any]) -> None:
        self._operands, self._dtype = operands, dtype

    def text(self, node: ast.expr, outermost: bool = False) -> str:
        """Return the text of a node, in parentheses unless it is the outermost."""
        if isinstance(node, ast.Name) and node.id in self._operands:
            return self._operands[node.id]
        if isinstance(node, ast.Constant):
            return literal(node.value, self._dtype)
        if isinstance(node, ast.Call):
            return self._call(ast.unparse(node.func), node.args)
        found = self._operation(node)
        return found if outermost else f"({found})"

    def _operation(self, node: ast.expr) -> str:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            return self._call("pow", [node.left, node.right])
        if isinstance(node, ast.BinOp) and type(node.op) in WRAPPING:
            operator, left, right = WRAPPING[type(node.op)], self.text(node.left), self.text(node.right)
            return arithmetic(operator, left, right, self._dtype)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return f"{self.text(node.left)} {OPERATORS[type(node.op)]} {self.text(node.right)}"
        if isinstance(node, ast.UnaryOp) and type(node.op) is ast.USub and self._dtype.kind == "i":
            return arithmetic("-", "0", self.text(node.operand), self._dtype)
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return f"{OPERATORS[type(node.op)]}{self.text(node.operand)}"
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in OPERATORS:
            return self._comparison(node.left, OPERATORS[type(node.ops[0])], node.comparators[0])
        if isinstance(node, ast.BoolOp):
            return f" {OPERATORS[type(node.op)]} ".join(map(self.text, node.values))
        if isinstance(node, ast.IfExp):
            return self._choice(node)
        raise UntranslatableError(ast.unparse(node))

    def _choice(self, node: ast.IfExp) -> str:
        test = self.text(node.test)
        if test in ("(true)", "(false)"):
            return self.text(node.body if test == "(true)" else node.orelse)
        return f"{test} ? {self.text(node.body)} : {self.text(node.orelse)}"

    def _comparison(self, left: ast.expr, operator: str, right: ast.expr) -> str:
        first, second = self.text(left), self.text(right)
        if self._dtype.kind == "u":  # never negative, of which CUDA's compiler warns
            if (first, operator) == ("0", ">") or (operator, second) == ("<", "0"):
                return "false"
            if (first, operator) == ("0", "<=") or (operator, second) == (">=", "0"):
                return "true"
        return f"{first} {operator} {second}"

    def _call(self, name: str, arguments: list[ast.expr]) -> str:
        texts = [self.text(x) for x in arguments]
        if name == "abs" and self._dtype.kind == "u":
            return texts[0]
        if name == "abs" and self._dtype.kind == "i":
            return f"({texts[0]} < 0 ? {arithmetic('-', '0', texts[0], self._dtype)} : {texts[0]})"
        found = SCALAR_FUNCTIONS[name].in_c(texts, self._dtype)
        if found is None:
            raise UntranslatableError(f"{name} in {self._dtype}")
        return found
