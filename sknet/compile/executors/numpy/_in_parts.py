"""Primitives for which NumPy has no function, written as the operations of their expressions.

Blocks and native code run these as they run all others, and what two expressions share is computed once: a
gradient of GELU takes the sigmoid that the forward pass has computed.
"""

import ast
from typing import Any

from sknet.compile._graph import Equation, Graph, Operand, Variable
from sknet.compile.executors._expressions import parsed
from sknet.compile.executors.numpy._emitters import REAL
from sknet.core import PRIMITIVES

__all__ = ["in_parts"]

WITH_PARTS = ("gelu_tanh", "gelu_tanh_gradient")
OPERATORS = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


def in_parts(graph: Graph) -> Graph:
    """Return a graph without such primitives, that computes the same bits."""
    if not any(map(_has_parts, graph.equations)):
        return graph
    parts = _Parts()
    for equation in graph.equations:
        if _has_parts(equation):
            parts.write(equation)
        else:
            parts.equations.append(equation)
    return graph.replaced(equations=parts.equations).verify()


def _has_parts(equation: Equation) -> bool:
    dtypes = {x.dtype for x in (*equation.variables, equation.output)}
    return equation.primitive.name in WITH_PARTS and len(dtypes) == 1 and dtypes.pop().char in REAL


class _Parts:
    """Equations, of which those of expressions are written once however often they occur."""

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._known: dict[Any, Variable] = {}

    def write(self, equation: Equation) -> None:
        """Write the operations of an expression; the last has the output of the equation."""
        operands = dict(zip("xyz", equation.operands, strict=False))
        name, values = self._operation(parsed(str(equation.primitive.expression)), operands)
        self.equations.append(Equation(PRIMITIVES[name], values, {}, equation.output))

    def _operation(self, node: ast.expr, operands: dict[str, Operand]) -> tuple[str, tuple[Operand, ...]]:
        """Return the name of the last operation of an expression, and its operands."""
        if (inner := _under_a_sigmoid(node)) is not None:
            name, of = "sigmoid", [inner]  # whose exponential may be infinite without a warning
        elif isinstance(node, ast.BinOp):
            name, of = OPERATORS[type(node.op)], [node.left, node.right]
        else:
            raise NotImplementedError(f"{ast.unparse(node)} in the expression of a primitive with parts")
        return name, tuple(self._value(each, operands) for each in of)

    def _value(self, node: ast.expr, operands: dict[str, Operand]) -> Operand:
        if isinstance(node, ast.Name):
            return operands[node.id]
        if isinstance(node, ast.Constant):
            return node.value
        key = self._operation(node, operands)
        if key not in self._known:
            name, values = key
            self.equations.append(Equation(PRIMITIVES[name], values, {}))
            self._known[key] = self.equations[-1].output
        return self._known[key]


def _under_a_sigmoid(node: ast.expr) -> ast.expr | None:
    """Return what an expression is the sigmoid of; None if it is another."""
    match node:
        case ast.BinOp(
            ast.Constant(1),
            ast.Div(),
            ast.BinOp(
                ast.Constant(1), ast.Add(), ast.Call(ast.Name("exp"), [ast.UnaryOp(ast.USub(), inner)])
            ),
        ):
            return inner
    return None
