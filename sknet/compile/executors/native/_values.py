"""Translation of a graph to values with named axes, from which the native executor generates code."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from sknet.compile._graph import Equation, Graph, Variable
from sknet.compile.executors._expressions import used
from sknet.compile.executors._writer import registry
from sknet.compile.executors.native._axes import collapse
from sknet.compile.executors.native._value import Axis, Given, Map, Operand, Value, View
from sknet.device import backend

__all__ = ["OTHERWISE", "RULES", "Values", "dims_of", "long_axes", "place_beside", "rule"]

New = TypeVar("New", bound=Value)
Rule = Callable[["Values", Equation], Any]

RULES: dict[str, Rule] = {}
OTHERWISE = "what NumPy computes"  # the name of the rule for primitives without one

rule = registry(RULES)  # registers how primitives are translated; a rule that cannot returns None


class Values:
    """The values of a graph.

    Parameters
    ----------
    graph : Graph
        Optimised.
    prefix : str
        Prefix of all names.

    Attributes
    ----------
    inputs, outputs : list of Value (or number, among the outputs)
        Inputs and outputs of the graph.
    constants : dict of Value to ndarray
        Arrays of the graph's constants.
    all : list of Value
        All values, in order of creation.
    outside : list of Value
        Numbers that are 0 if all indices are in bounds.
    of_rows : dict of Variable to (Equation, Value)
        For flat positions of one element per row, the equation that computes them, and the index in the row.

    Raises
    ------
    UnsupportedError
        If the graph has an operation that reads a sparse matrix.
    """

    def __init__(self, graph: Graph, prefix: str) -> None:
        self._prefix, self.graph = prefix, graph
        self._names = 0
        self._known: dict[Variable, Any] = {}
        self._ghosts: dict[Value, np.ndarray] = {}
        self.all: list[Value] = []
        self.of_rows: dict[Variable, tuple[Equation, Value]] = {}
        self.constants: dict[Value, np.ndarray] = {}
        self.outside: list[Value] = []
        self.inputs = [self._input(x) for x in graph.inputs]
        for variable, array in graph.constants.items():
            if array.size and (array == array.flat[0]).all():
                self._known[variable] = array.flat[0].item()
            else:
                self.constants[self._input(variable)] = np.require(array, None, ["C", "W"])
        for equation in graph.equations:
            self._known[equation.output] = self._translated(equation)
        self.outputs = [self._known[x] for x in graph.outputs]
        collapse(self.all)

    @property
    def dtype(self) -> Any:
        """The dtype of the parameters, which is the computing dtype."""
        return self.graph.inputs[0].dtype

    # -- making values ------------------------------------------------------------------------

    def new(
        self,
        kind: type[New],
        operands: Iterable[Operand],
        axes: Iterable[Axis],
        dtype: Any,
        shape: tuple[int, ...],
        **more: Any,
    ) -> New:
        """Return a new value of a kind."""
        self._names += 1
        name = f"{self._prefix}{self._names}"
        value = kind(name, tuple(operands), tuple(axes), np.dtype(dtype), tuple(shape), **more)
        place_beside(value.own_axes)
        self.all.append(value)
        return value

    def _input(self, x: Variable) -> Given:
        axes = [Axis(n) for n in long_axes(x.shape)]
        value = self._known[x] = self.new(Given, (), axes, x.dtype, x.shape)
        return value

    def copy(self, x: Any, like: Value | Variable | None = None) -> Value:
        """Return a new value with the elements of another, or of a number."""
        if isinstance(x, Value):
            x = self.with_own_axes(x)
            return self.new(Map, (x,), x.axes, x.dtype, x.shape, op="copy")
        assert like is not None
        axes = like.axes if isinstance(like, Value) else [Axis(n) for n in long_axes(like.shape)]
        return self.new(Map, (x,), axes, like.dtype, like.shape, op="copy")

    def _translated(self, equation: Equation) -> Any:
        name = equation.primitive.name
        special = RULES.get(name)
        if special is not None:
            found = special(self, equation)
        else:
            expression = equation.primitive.expression
            found = None
            if expression is not None and all(
                _is_known(x.dtype) for x in (*equation.variables, equation.output)
            ):
                found = self.map(equation, name, used(expression))
        return RULES[OTHERWISE](self, equation) if found is None else found

    # -- operands -----------------------------------------------------------------------------

    def operand(self, x: Any) -> Any:
        """Return the value of an operand of an equation, or a number."""
        if not isinstance(x, Variable):
            return x
        found = self._known[x]
        if x in self.of_rows:  # positions that have not been needed as an array so far
            equation, _ = self.of_rows.pop(x)
            found = self._known[x] = RULES[OTHERWISE](self, equation)
        return found

    def value(self, x: Variable) -> Value:
        """Return the value of an operand; a number becomes an array."""
        found = self.operand(x)
        if isinstance(found, Value):
            return found
        value = self.new(Given, (), [Axis(n) for n in long_axes(x.shape)], x.dtype, x.shape)
        self.constants[value] = np.full(x.shape, found, x.dtype)
        self._known[x] = value
        return value

    def array(self, x: Variable) -> Value:
        """Return the value of an operand, stored in memory even if it is one number."""
        found = self.value(x)
        return found if found.axes or found in self.constants else self._kept(found)

    def _kept(self, value: Value) -> Value:
        """Return a copy that is stored in memory."""
        kept = self.copy(value)
        kept.stored = True
        return kept

    def contiguous(self, x: Variable) -> Value:
        """Return the value of an operand as a C-contiguous array."""
        found = self.array(x)
        return self.copy(found) if isinstance(found, View) and not found.is_contiguous else found

    def ghost(self, value: Value, x: Variable) -> np.ndarray:
        """Return an array with the memory layout of a value, in the shape of a variable.

        The layout in the NumPy plan may differ: there, more values are views.
        """
        found = self._ghosts.get(value)
        return (np.empty(value.shape, value.dtype) if found is None else found).reshape(x.shape)

    def map(self, equation: Equation, op: str, read: Collection[int] = (0, 1, 2)) -> Value:
        """Return an elementwise value; operands that are not in `read` are ignored."""
        output = equation.output
        axes = [None if n == 1 else Axis(n) for n in output.shape]
        kept = [a for a in axes if a is not None]
        place_beside(kept)
        operands = [
            self.aligned(self.operand(x), x, axes) if i in read else 0
            for i, x in enumerate(equation.operands)
        ]
        return self.new(Map, operands, kept, output.dtype, output.shape, op=op)

    def aligned(self, value: Any, x: Any, axes: Sequence[Axis | None]) -> Any:
        """Unite the axes of an operand with those of the output, aligned from the last, as broadcasting does.

        Where a value would then have an axis twice, the operand becomes an alias with its own axes.
        """
        if not isinstance(value, Value):
            return value
        pairs = self._meeting(value, x.shape, axes)
        if len(set(value.axes)) < len(value.axes) or not all(a.may_unite(b) for a, b in pairs):
            value = self.alias(value)
            pairs = self._meeting(value, x.shape, axes)
        for a, b in pairs:
            a.unite(b)
        return value

    @staticmethod
    def _meeting(
        value: Value, shape: tuple[int, ...], axes: Sequence[Axis | None]
    ) -> list[tuple[Axis, Axis]]:
        met = zip(reversed(dims_of(value, shape)), reversed(axes), strict=False)
        return [(a, b) for a, b in met if a is not None and b is not None]

    # -- views --------------------------------------------------------------------------------

    def alias(self, value: Value) -> Value:
        """Return a view of the whole array with new axes."""
        axes = [Axis(n) for n in value.lengths]
        return self._view(value, axes, lambda a: a, self.ghost(value, Variable(value.shape, value.dtype)))

    def with_own_axes(self, value: Value) -> Value:
        """Return a value without repeated axes, such as a product of `A.T` and `A` has."""
        return self.alias(value) if len(set(value.axes)) < len(value.axes) else value

    def view(self, equation: Equation, axes: Iterable[Axis]) -> Value | None:
        """Return the view that an equation takes; None if it has to copy."""
        [x], rule, xp = equation.operands, equation.primitive.view, backend("cpu").xp
        source = self.operand(x)
        assert rule is not None

        def applied(array: np.ndarray) -> Any:
            return rule(xp, array.reshape(x.shape), **equation.params)

        after = applied(self.ghost(source, x))
        if after is None:
            return None
        return self._view(source, axes, applied, after, equation.primitive.name == "permute_dims")

    def reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Return a C-contiguous value in another shape."""
        axes = [Axis(n) for n in long_axes(shape)]
        return self._view(value, axes, lambda a: a.reshape(shape), np.empty(shape, value.dtype))

    def _view(
        self,
        source: Value,
        axes: Iterable[Axis],
        applied: Callable[[np.ndarray], np.ndarray],
        ghost: np.ndarray,
        is_permuted: bool = False,
    ) -> Value:
        if source.is_local:  # as are empty views of it
            source = self._kept(source)
        strides = [s for s, n in zip(ghost.strides, ghost.shape, strict=True) if n != 1]
        value = self.new(
            View, (source,), axes, source.dtype, ghost.shape, applied=applied,
            is_contiguous=bool(ghost.flags.c_contiguous), is_permuted=is_permuted, strides=tuple(strides),
        )  # fmt: skip
        self._ghosts[value] = ghost
        return value


def long_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the lengths of a shape except 1: those of a value's axes."""
    return tuple([n for n in shape if n != 1])


def dims_of(value: Value, shape: tuple[int, ...]) -> list[Axis | None]:
    """Return the axis of every dimension of `shape`, None where its length is 1."""
    axes = iter(value.axes)
    return [None if n == 1 else next(axes) for n in shape]


def place_beside(axes: Sequence[Axis]) -> None:
    """Record for each pair of axes that some value has both."""
    for i, axis in enumerate(axes):
        for other in axes[:i]:
            axis.place_beside(other)


def _is_known(dtype: Any) -> bool:
    """Tell whether Numba computes with a dtype: it does not know half precision."""
    return dtype.kind in "biu" or dtype.char in "fd"
