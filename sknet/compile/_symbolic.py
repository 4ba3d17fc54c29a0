"""A graph for any number of rows: shapes and parameters hold lengths that depend on it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._tree import leaves, map_leaves
from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile._internal import primitive_named
from sknet.compile._rows import ROWS, Counted, Filled, Length, Rows, Share, graph_of_any_rows
from sknet.compile._signature import Signature
from sknet.core import Tensor
from sknet.device import is_array
from sknet.exceptions import ShapeError

__all__ = ["Input", "Line", "Position", "SymbolicGraph"]

KEPT = 16  # graphs that are remembered, of as many numbers of rows


class Input(NamedTuple):
    """An input of a graph.

    Attributes
    ----------
    shape : tuple of int or Length
        Lengths of its axes.
    dtype : dtype
        Its dtype.
    name : str
        What it is called in the text and in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile.extend import Input, Length
    >>> print(Input((Length(1, 0), 3), np.dtype("float64"), "X"))
    X: float64[n,3]
    """

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]
    name: str

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{','.join(map(str, self.shape))}]"


class Line(NamedTuple):
    """An equation.

    Attributes
    ----------
    primitive : str
        The name of what is computed.
    operands : tuple
        A `Position` for each variable; numbers, lengths and shares as they are.
    params : dict
        Static parameters, with a `Length` for each number that depends on the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.extend import SymbolicGraph
    >>> symbolic = SymbolicGraph.of_rows(lambda n: capture(lambda x: ops.exp(x) * 2, np.ones((n, 3))))
    >>> [line.primitive for line in symbolic.lines]
    ['exp', 'multiply']
    """

    primitive: str
    operands: tuple[Any, ...]
    params: dict[str, Any]


class Position(int):
    """The position of a variable among inputs, constants and results, in this order.

    Parameters
    ----------
    position : int
        Counted from 0.

    Examples
    --------
    >>> from sknet.compile.extend import Position
    >>> Position(2)
    2
    """

    def __new__(cls, position: int) -> Self:
        """Make it of a number."""
        return super().__new__(cls, position)


class SymbolicGraph:
    """What a captured function computes, for any number of rows.

    Parameters
    ----------
    inputs : sequence of Input
        What it is given: first what the function's object held, and then arguments.
    constants : sequence of ndarray, Filled or Counted
        As `Rows.form` returns them.
    lines : sequence of Line
        In order of execution.
    outputs : sequence of int
        Positions of what it returns.
    args : tuple of trees
        The arguments, with a `Variable` or any other array in place of each array.
    result : tree
        The result, with an `OutputIndex` in place of each array.

    Attributes
    ----------
    n_values : int
        How many of the inputs are no arguments.
    any_rows : bool
        Whether anything depends on the number of rows.

    Examples
    --------
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> symbolic = SymbolicGraph.of_rows(lambda n: capture(ops.mean, np.ones((n, 3))))
    >>> print(symbolic.at(100))
    graph(v0: float64[100,3]):
      v1: float64[] = sum v0 axis=(-2, -1) keepdims=False
      v2: float64[] = divide v1 300
      return v2
    """

    def __init__(
        self,
        inputs: Sequence[Input],
        constants: Sequence[Any],
        lines: Sequence[Line],
        outputs: Sequence[int],
        args: Any,
        result: Any,
    ) -> None:
        self.inputs, self.constants, self.lines = tuple(inputs), tuple(constants), tuple(lines)
        self.outputs, self.args, self.result = tuple(map(int, outputs)), args, result
        self.n_values = len(self.inputs) - sum(map(_is_array, leaves(args)))
        self.any_rows = any(isinstance(n, Length) for given in self.inputs for n in given.shape)
        self._graphs: dict[int, Graph] = {}

    def __reduce__(self) -> Any:
        parts = (self.inputs, self.constants, self.lines, self.outputs, self.args, self.result)
        return SymbolicGraph, parts

    # -- from graphs --------------------------------------------------------------------------

    @classmethod
    def of_rows(cls, captured: Callable[[int], Graph]) -> Self:
        """Capture a function for several numbers of rows.

        Parameters
        ----------
        captured : callable
            Returns the graph for a number of rows.

        Returns
        -------
        SymbolicGraph
            For any number.

        Raises
        ------
        CaptureError
            If its operations are others for another number.
        """
        return cls._of(graph_of_any_rows(captured))

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """Describe one graph, in which nothing depends on the number of rows.

        Parameters
        ----------
        graph : Graph
            With a signature.

        Returns
        -------
        SymbolicGraph
            The same.
        """
        return cls._of(Rows([graph] * len(ROWS)))

    @classmethod
    def _of(cls, rows: Rows) -> Self:
        graph = rows.graph
        signature = graph.called()
        known = graph.names()
        positions: dict[Variable, Position] = {}
        for variable in (*graph.inputs, *graph.constants, *(e.output for e in graph.equations)):
            positions[variable] = Position(len(positions))
        lines = []
        for equation in graph.equations:
            operands = [
                positions[x] if type(x) is Variable else number
                for x, number in zip(equation.operands, rows.numbers(equation), strict=True)
            ]
            lines.append(Line(equation.primitive.name, tuple(operands), rows.params(equation)))
        return cls(
            [Input(rows.shape(x), x.dtype, known[x]) for x in graph.inputs],
            [rows.form(x) for x in graph.constants],
            lines,
            [positions[x] for x in graph.outputs],
            map_leaves(lambda leaf: _without_shape(leaf) if _is_array(leaf) else leaf, signature.args),
            signature.result,
        )

    # -- for a number of rows -----------------------------------------------------------------

    def at(self, n_rows: int) -> Graph:
        """Return the graph for a number of rows; without values of what the function's object held.

        Parameters
        ----------
        n_rows : int
            How many; it does not matter if nothing depends on it.

        Returns
        -------
        Graph
            Verified; the same object if it is asked for again soon.

        Raises
        ------
        ShapeError, DtypeError, ValueError
            If an operation cannot compute with so many rows.
        """
        key = n_rows if self.any_rows else 0
        found = self._graphs.get(key)
        if found is None:
            if len(self._graphs) >= KEPT:
                self._graphs.clear()
            found = self._graphs[key] = self._made(key)
        return found

    def _made(self, n: int) -> Graph:
        inputs, constants, equations, variables = self.verified(n)
        given = iter(inputs[self.n_values :])
        args = map_leaves(lambda leaf: next(given) if _is_array(leaf) else leaf, self.args)
        names = tuple(x.name for x in self.inputs)
        values = {x: _array(constant, n) for x, constant in zip(constants, self.constants, strict=True)}
        outputs = [variables[i] for i in self.outputs]
        return Graph(inputs, values, equations, outputs, Signature({}, args, names, self.result))

    def verified(self, n: int) -> tuple[list[Variable], list[Variable], list[Equation], Sequence[Variable]]:
        """Apply the shape rules for a number of rows; nothing is allocated.

        Parameters
        ----------
        n : int
            How many rows.

        Returns
        -------
        inputs, constants : list of Variable
            With their shapes for n rows.
        equations : list of Equation
            In order of execution.
        variables : sequence of Variable
            All, by position.
        """
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
        """The inputs that are arguments."""
        return self.inputs[self.n_values :]

    def n_rows(self, arrays: Sequence[Any]) -> int:
        """Return how many rows arguments have.

        Parameters
        ----------
        arrays : sequence of array
            One for each argument.

        Returns
        -------
        int
            The length of their first axes; 0 if nothing depends on it.

        Raises
        ------
        ShapeError
            If one has no axis.
        """
        if not self.any_rows:
            return 0
        for array, given in zip(arrays, self.arguments, strict=True):
            if given.shape and isinstance(given.shape[0], Length):
                if not array.shape:
                    raise ShapeError(f"{given.name} must have an axis of rows first, got a number")
                return int(array.shape[0])
        return 0


def resolved(value: Any, n: int) -> Any:
    """Return a value with numbers in place of what depends on the rows."""
    if isinstance(value, Length):
        return value.per_row * n + value.more
    if isinstance(value, Share):
        return 1 / resolved(value.of, n) if resolved(value.of, n) else np.inf
    if type(value) in (tuple, list):
        return type(value)([resolved(part, n) for part in value])
    if isinstance(value, slice):
        return slice(*[resolved(part, n) for part in (value.start, value.stop, value.step)])
    if isinstance(value, dict):
        return {key: resolved(part, n) for key, part in value.items()}
    return value


def _array(constant: Any, n: int) -> np.ndarray[Any, Any]:
    if isinstance(constant, Filled):
        return np.broadcast_to(constant.number, resolved(constant.shape, n))
    if isinstance(constant, Counted):
        return np.arange(*resolved(constant.shape, n), dtype=constant.dtype)
    return constant  # type: ignore[no-any-return]


def _dtype(constant: Any) -> np.dtype[Any]:
    return constant.number.dtype if isinstance(constant, Filled) else constant.dtype  # type: ignore[no-any-return]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) or is_array(leaf)


def _without_shape(leaf: Any) -> Variable:
    return Variable((), leaf.dtype)
