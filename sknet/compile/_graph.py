"""The graph: what a captured function computes, as a readable list of equations."""

import functools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from sknet._late import above
from sknet.compile._evaluate import evaluated
from sknet.compile._key import key_of
from sknet.compile._signature import NO_VALUES, Signature
from sknet.core import Primitive
from sknet.device import MetaArray
from sknet.exceptions import DtypeError, GraphError, ShapeError
from sknet.ops import SparseSlot

__all__ = ["Equation", "Graph", "Operand", "Variable"]

_dtype_name = functools.cache(str)  # NumPy builds the name on every call
MOST_SHOWN = 8  # elements of an array that are printed
Scalar = bool | int | float
Operand = Any  # a Variable or a Scalar


class Variable(MetaArray):
    """A value of a graph: it has a shape and a dtype, and is assigned once.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.

    Examples
    --------
    >>> Variable((2, 3), "float32").nbytes
    24
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{_dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


class Equation:
    """One application of a primitive: ``output = primitive(*operands, **params)``.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    operands : tuple of Variable, bool, int or float
        What it is applied to.
    params : dict
        Its static parameters.
    output : Variable, default=None
        The result; None makes a variable with the shape and dtype that the primitive's shape rule
        gives.

    Attributes
    ----------
    variables : list of Variable
        The operands that are not numbers.

    Examples
    --------
    >>> from sknet.core import PRIMITIVES
    >>> x = Variable((2, 3), "float32")
    >>> Equation(PRIMITIVES["exp"], (x,), {}).output
    float32[2,3]
    """

    __slots__ = ("_form", "operands", "output", "params", "primitive", "variables", "verified")

    def __init__(
        self,
        primitive: Primitive,
        operands: tuple[Operand, ...],
        params: dict[str, Any],
        output: Variable | None = None,
    ) -> None:
        self.primitive = primitive
        self.operands = operands
        self.params = params
        self._form: Hashable | None = None
        # An output made by the rule is correct, and equations are immutable.
        self.verified = output is None
        self.variables = [x for x in operands if type(x) is Variable]
        self.output = Variable(*primitive.result(operands, params)) if output is None else output

    def __reduce__(self) -> Any:
        return Equation, (self.primitive, self.operands, self.params, self.output)

    def reading(self, operands: tuple[Operand, ...]) -> "Equation":
        """Return this equation with other operands."""
        other = Equation(self.primitive, operands, self.params, self.output)
        other._form = self._form
        return other

    @property
    def form(self) -> Hashable:
        """The primitive and its parameters as a key."""
        if self._form is None:
            params = [(name, key_of(value)) for name, value in self.params.items()]
            self._form = self.primitive, tuple(params)
        return self._form

    def operands_key(self, numbers: Mapping[Variable, int]) -> Hashable:
        """Return the operands as a key, in which variables have these numbers, or are themselves."""
        return tuple([numbers.get(x, x) if type(x) is Variable else key_of(x) for x in self.operands])

    def check(self) -> None:
        """Raise GraphError unless the output is what the primitive's shape rule says.

        Raises
        ------
        GraphError
            If the primitive does not take the operands, or its output has another shape or dtype.
        """
        try:
            shape, dtype = self.primitive.result(self.operands, self.params)
        except (ShapeError, DtypeError, TypeError) as error:
            raise GraphError(f"{self.primitive.name} does not take its operands: {error}") from error
        found = self.output
        if tuple(shape) != found.shape or dtype != found.dtype:
            raise GraphError(
                f"{self.primitive.name} gives {Variable(shape, dtype)}, but its output is declared as {found}"
            )
        self.verified = True


class Graph:
    """Inputs, constants, equations in execution order, and outputs.

    Parameters
    ----------
    inputs : sequence of Variable
        Passed on every call.
    constants : dict of Variable to ndarray
        Fixed arrays.
    equations : sequence of Equation
        Each uses only what precedes it.
    outputs : sequence of Variable
        Returned; a variable may be returned more than once.
    signature : Signature, default=None
        How the function is called that was captured; None for a graph that is not called.

    Examples
    --------
    >>> from sknet.core import PRIMITIVES
    >>> x = Variable((3,), "float32")
    >>> double = Equation(PRIMITIVES["multiply"], (x, 2.0), {})
    >>> graph = Graph([x], {}, [double], [double.output])
    >>> print(graph)
    graph(v0: float32[3]):
      v1: float32[3] = multiply v0 2.0
      return v1

    What was captured can be called, with other values of what a module held:

    >>> from sknet import nn
    >>> from sknet.compile import capture
    >>> graph = capture(nn.Linear(2, 1), np.ones((1, 2), "float32"))
    >>> graph(np.float32([[10, 100]]), values={"weight": [[1.0], [2.0]], "bias": [3.0]}).numpy()
    array([[213.]])
    """

    __slots__ = ("constants", "equations", "inputs", "outputs", "signature")

    def __init__(
        self,
        inputs: Iterable[Variable],
        constants: dict[Variable, np.ndarray],
        equations: Iterable[Equation],
        outputs: Iterable[Variable],
        signature: Signature | None = None,
    ) -> None:
        self.inputs = tuple(inputs)
        self.constants = dict(constants)
        self.equations = list(equations)
        self.outputs = tuple(outputs)
        self.signature = signature

    def __reduce__(self) -> Any:
        return Graph, (self.inputs, self.constants, self.equations, self.outputs, self.signature)

    def replaced(self, **parts: Any) -> "Graph":
        """Return a graph with some parts replaced by others, such as ``equations=``."""
        mine = {name: getattr(self, name) for name in self.__slots__}
        return Graph(**{**mine, **parts})

    def with_values(self, values: Mapping[str, np.ndarray]) -> "Graph":
        """Return this graph with other values of what the captured function's object held.

        Parameters
        ----------
        values : mapping of str to ndarray
            By the names of the first inputs.

        Returns
        -------
        Graph
            With the same inputs and equations.

        Raises
        ------
        GraphError
            If the graph was not captured from a function.
        """
        return self.replaced(signature=self.called()._replace(values=values))

    def called(self) -> Signature:
        """Return the signature; raise a GraphError if there is none.

        Raises
        ------
        GraphError
            If the graph was not captured from a function.
        """
        if self.signature is None:
            raise GraphError("this graph was not captured from a function, so nothing says how it is called")
        return self.signature

    # -- computing ----------------------------------------------------------------------------

    @property
    def values(self) -> Mapping[str, np.ndarray]:
        """Values held by the captured function's object, such as the parameters of a module, by name."""
        return NO_VALUES if self.signature is None else self.signature.values

    def __call__(self, *args: Any, values: Mapping[str, Any] = NO_VALUES) -> Any:
        """Compute what the captured function does, one operation after the other.

        Parameters
        ----------
        *args : trees of tensors or arrays
            With the structure, shapes and kinds of dtypes (floating, integer, ...) of the examples.
        values : mapping of str to tensor or array
            Other values in place of some of `values`.

        Returns
        -------
        tree of Tensor
            Like the function's result. It can be differentiated by arguments and by `values`, captured and
            compiled.

        Raises
        ------
        CaptureError
            If the structure of the arguments, or a number or text among them, differs from the examples.
        ShapeError, DtypeError
            If an array does not fit.
        StateError
            If `values` has a name that the graph does not have.
        GradientError
            If passes have replaced operations by some that have no gradient.
        """
        return evaluated(self, args, values)

    def save(self, path: "str | PathLike[str]") -> None:
        """Write the graph and `values` to a file, which `sknet.load` reads: ``sknet.save(graph, path)``.

        Parameters
        ----------
        path : str or PathLike
            The file; replaced if it is there.
        """
        above("save")(self, path)

    # -- checking -----------------------------------------------------------------------------

    def verify(self) -> "Graph":
        """Check that the graph is well-formed; runs after capture and after the passes.

        Returns
        -------
        Graph
            This graph.

        Raises
        ------
        GraphError
            If a variable is assigned twice or used before it is assigned, or if a shape or dtype
            is not what the primitive's rule says. This is a bug in sknet.
        """
        assigned: set[Variable] = set()
        for variable in (*self.inputs, *self.constants):
            if variable in assigned:
                raise _twice("an input or constant")
            assigned.add(variable)
        for number, equation in enumerate(self.equations):
            if not assigned.issuperset(equation.variables):
                raise GraphError(
                    f"{_place(number, equation)} uses a variable before it is assigned, in\n{self}"
                )
            if not equation.verified:
                equation.check()
            if equation.output in assigned:
                raise _twice(_place(number, equation))
            assigned.add(equation.output)
        if not assigned.issuperset(self.outputs):
            raise GraphError(f"an output is never assigned, in\n{self}")
        return self

    def key(self) -> Hashable:
        """Return a key that is equal for graphs of the same structure, and for no others.

        Returns
        -------
        hashable
            Holds the inputs' shapes and dtypes, primitives, wiring, and constants and parameters by type
            and bits; of a slot for sparse matrices, shape, dtype and which equations read it.

        Examples
        --------
        >>> from sknet.compile import capture
        >>> one, same, other = (capture(lambda x: x[i], np.ones(9)).key() for i in ([1], [1], [2]))
        >>> one == same, one == other
        (True, False)
        """
        numbers: dict[Any, int] = {}
        slots = {slot: i for i, slot in enumerate(self.sparse_slots())}
        heads = []
        for variable in (*self.inputs, *self.constants):
            numbers[variable] = len(numbers)
            heads.append((variable.shape, variable.dtype))
        constants = tuple([key_of(value) for value in self.constants.values()])
        lines = []
        for equation in self.equations:
            form = _form_in(slots, equation) if slots else equation.form
            lines.append((form, equation.operands_key(numbers)))
            numbers[equation.output] = len(numbers)
        outputs = tuple([numbers[x] for x in self.outputs])
        return len(self.inputs), tuple(heads), constants, tuple(lines), outputs

    def sparse_slots(self) -> list[SparseSlot]:
        """Return the slots for sparse matrices that the equations read, in order of first use."""
        found = [x for e in self.equations for x in e.params.values() if isinstance(x, SparseSlot)]
        return list(dict.fromkeys(found))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        names = self.names()
        heads = ", ".join(f"{names[v]}: {v!r}" for v in self.inputs)
        yield f"graph({heads}):"
        for variable, value in self.constants.items():
            yield f"  {names[variable]}: {variable!r} = constant {_shown(value)}"
        for equation in self.equations:
            yield f"  {self._line(equation, names)}"
        yield f"  return {', '.join(names.get(v, 'undefined') for v in self.outputs)}".rstrip()

    @staticmethod
    def _line(equation: Equation, names: dict[Variable, str]) -> str:
        # Unknown variables are shown too, since the text also reports malformed graphs.
        operands = [names.get(x, "undefined") if type(x) is Variable else repr(x) for x in equation.operands]
        params = [f"{key}={_shown(value)}" for key, value in equation.params.items()]
        output = equation.output
        return " ".join([f"{names[output]}: {output!r} =", equation.primitive.name, *operands, *params])

    def names(self) -> dict[Variable, str]:
        """Return the name of every variable: v0, v1, ... in order of assignment; constants are k0, k1, ...

        Inputs of a graph that was captured from a module have the names of its parameters and buffers, and
        of its arguments.
        """
        known = () if self.signature is None else self.signature.names
        names = {v: f"v{i}" for i, v in enumerate(self.inputs)} | dict(zip(self.inputs, known, strict=False))
        names.update({v: f"k{i}" for i, v in enumerate(self.constants)})
        first = len(self.inputs)
        names.update({e.output: f"v{first + i}" for i, e in enumerate(self.equations)})
        return names


def _form_in(slots: Mapping[SparseSlot, int], equation: Equation) -> Hashable:
    """Return primitive and parameters as a key, in which slots for sparse matrices have these numbers."""
    if not any(isinstance(x, SparseSlot) for x in equation.params.values()):
        return equation.form
    params = [
        (name, (slots[x], *x.key) if isinstance(x, SparseSlot) else key_of(x))
        for name, x in equation.params.items()
    ]
    return equation.primitive, tuple(params)


def _place(number: int, equation: Equation) -> str:
    return f"equation {number}, {equation.primitive.name},"


def _twice(where: str) -> GraphError:
    return GraphError(f"{where} assigns a variable that is assigned already")


def _shown(value: Any) -> str:
    """Return a short text for a constant or a parameter."""
    if isinstance(value, np.ndarray):
        if value.size == 1:
            return repr(value.item())
        if value.size <= MOST_SHOWN:
            return f"{value.dtype}{value.tolist()}"
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(_shown, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})"
    return repr(value)
