"""Lengths that depend on the number of rows: found by capturing the same function for several numbers."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np

from sknet._fields import COUNT, Arrays, Dtypes, Each, Together
from sknet.compile._capture import lines_of
from sknet.compile._graph import Equation, Graph, Variable
from sknet.core.extend import shown
from sknet.exceptions import CaptureError

__all__ = ["ROWS", "Counted", "Filled", "Length", "Rows", "Share", "graph_of_any_rows"]

ROWS = (5, 6, 8)  # numbers of rows to capture for; the first graph is exported


class Length(NamedTuple):
    """A length or position ``per_row * n + more`` for n rows.

    Attributes
    ----------
    per_row, more : int
        The two numbers.

    Examples
    --------
    >>> from sknet.compile.extend import Length
    >>> print(Length(1, 0), Length(2, 1), Length(3, -1))
    n 2*n+1 3*n-1
    """

    per_row: int
    more: int

    def __str__(self) -> str:
        text = "n" if self.per_row == 1 else f"{self.per_row}*n"
        return text if not self.more else f"{text}{self.more:+d}"


class Share(NamedTuple):
    """The reciprocal of a length.

    Attributes
    ----------
    of : Length
        That length.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.extend import Share, SymbolicGraph
    >>> symbolic = SymbolicGraph.of_rows(lambda n: capture(lambda x: x * (1 / len(x)), np.ones((n, 3))))
    >>> [str(x.of) for line in symbolic.lines for x in line.operands if isinstance(x, Share)]
    ['n']
    """

    of: Length


class Filled(NamedTuple):
    """A constant that is one number everywhere.

    Attributes
    ----------
    number : ndarray of shape ()
        The number.
    shape : tuple of int or Length
        Lengths of its axes.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile.extend import Filled, Length
    >>> zeros = Filled(np.array(0.0), (Length(1, 0), 3))
    >>> [str(length) for length in zeros.shape]
    ['n', '3']
    """

    number: Annotated[np.ndarray[Any, Any], Arrays("biuf")]
    shape: Annotated[tuple[Any, ...], Each(tuple, [COUNT, Length])]


class Counted(NamedTuple):
    """The constant 0, 1, 2, ...

    Attributes
    ----------
    dtype : dtype
        Its dtype.
    shape : tuple of one Length
        How many numbers it has.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile.extend import Counted, Length
    >>> Counted(np.dtype("int64"), (Length(1, 0),)).shape[0].per_row
    1
    """

    dtype: Annotated[np.dtype[Any], Dtypes("biuf")]
    shape: Annotated[tuple[Any, ...], Together(Length)]


class Rows:
    """The lengths and numbers in a captured graph that depend on the number of rows.

    Parameters
    ----------
    graphs : sequence of Graph
        The same function, captured for each number of `ROWS`.

    Raises
    ------
    CaptureError
        If they do not have the same operations.

    Examples
    --------
    >>> from sknet.compile import capture
    >>> rows = graph_of_any_rows(lambda n: capture(lambda x: -x, np.ones((n, 2))))
    >>> [str(length) for length in rows.shape(rows.graph.outputs[0])]
    ['n', '2']
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._shapes: dict[Variable, tuple[Any, ...]] = {}
        self._numbers: dict[Variable, list[Any]] = {}
        self._params: dict[Variable, dict[str, Any]] = {}
        self._constants: dict[Variable, tuple[np.ndarray[Any, Any], ...]] = {}
        first = graphs[0]
        for variables in zip(*(g.inputs for g in graphs), strict=True):
            self._shapes[variables[0]] = _common(tuple(v.shape for v in variables), "an input")
        self._add_all(graphs)
        _check_same(len({len(g.constants) for g in graphs}) == 1)
        for variables in zip(*(g.constants for g in graphs), strict=True):
            values = tuple(g.constants[v] for g, v in zip(graphs, variables, strict=True))
            self._constants[variables[0]] = values
            self._shapes[variables[0]] = _common(tuple(v.shape for v in values), "a constant")
        self.graph = first

    def _add_all(self, graphs: Sequence[Graph]) -> None:
        number = -1
        for number, equations in enumerate(zip(*(g.equations for g in graphs), strict=False)):
            try:
                self._add(equations)
            except CaptureError as error:
                raise OtherOperationsError(str(error), number) from None
        if len({len(g.equations) for g in graphs}) > 1:
            raise OtherOperationsError(_told("there are more"), number + 1)

    def _add(self, equations: tuple[Equation, ...]) -> None:
        first = equations[0]
        name = first.primitive.name
        _check_same(len({e.primitive.name for e in equations}) == 1)
        _check_same(len({len(e.operands) for e in equations}) == 1)
        self._numbers[first.output] = [
            None if type(operands[0]) is Variable else _number(operands, name)
            for operands in zip(*(e.operands for e in equations), strict=True)
        ]
        self._shapes[first.output] = _common(tuple(e.output.shape for e in equations), name)
        self._params[first.output] = {
            key: _common(tuple(e.params[key] for e in equations), name) for key in first.params
        }

    def shape(self, variable: Variable) -> tuple[int | Length, ...]:
        """Return the lengths of a variable's axes."""
        return self._shapes[variable]

    def params(self, equation: Equation) -> dict[str, Any]:
        """Return the parameters of an equation, with a `Length` for each number that depends on the rows."""
        return self._params[equation.output]

    def numbers(self, equation: Equation) -> list[Any]:
        """Return the operands of an equation that are numbers, and None for variables.

        A number that depends on the rows is a `Length`, or a `Share` if it is the reciprocal of one.
        """
        return self._numbers[equation.output]

    def constant(self, variable: Variable) -> tuple[np.ndarray[Any, Any], ...]:
        """Return the values of a constant, the `variable`, for each number of `ROWS`."""
        return self._constants[variable]

    def form(self, variable: Variable) -> np.ndarray[Any, Any] | Filled | Counted:
        """Return the value of a constant, or what it is for any number of rows.

        Parameters
        ----------
        variable : Variable
            Of the first graph.

        Returns
        -------
        ndarray, Filled or Counted
            An array if it is the same for every number.

        Raises
        ------
        CaptureError
            If it depends on the rows in any other way.
        """
        values, shape = self._constants[variable], self._shapes[variable]
        first = values[0]
        if all(isinstance(n, int) for n in shape):
            if any(v.tobytes() != first.tobytes() for v in values):
                raise CaptureError(
                    "a constant depends on the number of rows, so the function cannot be exported for any"
                )
            repeats = first.size > 1 and not any(first.strides)
            return Filled(np.array(first.flat[0]), shape) if repeats else first
        if first.size and all(v.tobytes() == first.flat[0].tobytes() * v.size for v in values):
            return Filled(np.array(first.flat[0]), shape)
        if all(v.ndim == 1 and (v == np.arange(len(v))).all() for v in values):
            return Counted(first.dtype, shape)
        raise CaptureError(
            "a constant has another length for another number of rows, and is neither one number everywhere "
            "nor 0, 1, 2, ...: the function cannot be exported for any number of rows"
        )


def graph_of_any_rows(captured: Callable[[int], Graph]) -> Rows:
    """Capture a function for several numbers of rows.

    Parameters
    ----------
    captured : callable
        Returns the graph for a number of rows.

    Returns
    -------
    Rows
        The graph, with its dependence on the number of rows.

    Raises
    ------
    CaptureError
        If the operations depend on the number of rows; names the first of them by line.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import ops
    >>> from sknet.compile import capture
    >>> from sknet.compile.extend import graph_of_any_rows
    >>> rows = graph_of_any_rows(lambda n: capture(lambda x: ops.sum(x, axis=1), np.zeros((n, 3))))
    >>> [str(length) for length in rows.shape(rows.graph.outputs[0])]
    ['n']
    """
    try:
        return Rows([captured(n) for n in ROWS])
    except OtherOperationsError as error:
        lines = lines_of(lambda: captured(ROWS[-1]))
        where = f" The first is {shown(lines[error.number])}." if error.number < len(lines) else ""
        raise CaptureError(f"{error}{where}") from None


class OtherOperationsError(CaptureError):
    """A function does other operations for another number of rows; `number` counts those before."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.number)


def _check_same(condition: bool, where: str = "it") -> None:
    if not condition:
        raise CaptureError(_told(f"{where} differs"))


def _told(what: str) -> str:
    return (
        f"the operations of this function depend on the number of rows ({what}), so it cannot be exported "
        "for any number: let them depend on the other axes only."
    )


def _common(values: tuple[Any, ...], where: str) -> Any:
    """Return the common value, with a `Length` in place of numbers that depend on the rows."""
    first = values[0]
    if isinstance(first, (tuple, list)):
        _check_same(len({len(v) for v in values}) == 1, where)
        return type(first)([_common(parts, where) for parts in zip(*values, strict=True)])
    if isinstance(first, slice):
        bounds = [(v.start, v.stop, v.step) for v in values]
        return slice(*[_common(parts, where) for parts in zip(*bounds, strict=True)])
    if isinstance(first, dict):
        return {key: _common(tuple(v[key] for v in values), where) for key in first}
    if isinstance(first, np.ndarray):
        _check_same(all(v.shape == first.shape and (v == first).all() for v in values), where)
        return first
    if isinstance(first, int) and type(first) is not bool:
        return int(first) if all(v == first for v in values) else _length(values, where)
    _check_same(all(_are_same(v, first) for v in values), where)
    return first


def _are_same(x: Any, y: Any) -> bool:
    return bool(x == y or (x != x and y != y))


def _length(values: tuple[int, ...], where: str) -> Length:
    (a, b, c), (m, n, k) = values, ROWS
    per_row, rest = divmod(b - a, n - m)
    found = _interned(per_row, a - per_row * m)
    _check_same(rest == 0 and c == found.per_row * k + found.more, where)
    return found


_interned = cache(Length)  # one object for equal lengths, which a file then holds once


def _number(values: tuple[Any, ...], where: str) -> Any:
    """Return a number that all are, or what it is of the rows: a mean divides by how many there are."""
    if all(_are_same(v, values[0]) for v in values):
        return values[0]
    _check_same(all(v != 0 for v in values), where)
    wholes = tuple(round(v) for v in values)
    if wholes == values:
        return _length(wholes, where)
    parts = tuple(round(1 / v) for v in values)
    _check_same(all(1 / part == v for part, v in zip(parts, values, strict=True) if part), where)
    return Share(_length(parts, where))
