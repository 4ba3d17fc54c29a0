"""The graph: what a captured function computes, as a readable list of equations."""

import ast
import functools
import hashlib
import math
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import Parameter
from itertools import accumulate
from os import PathLike
from types import EllipsisType
from typing import Any, NamedTuple, Self

import numpy as np

from sknet._late import above
from sknet._tree import leaves, map_leaves, paths
from sknet.core import PRIMITIVES, Primitive, Tensor, as_tensor, bind, is_grad_enabled
from sknet.device import Device, MetaArray, Namespace, device_of, is_array, result_dtype, to_device, to_host
from sknet.device._backend import META
from sknet.exceptions import CaptureError, DtypeError, GradientError, GraphError, ShapeError, StateError
from sknet.ops import SparseSlot

_dtype_name = functools.cache(str)  # NumPy builds the name on every call
MOST_SHOWN = 8  # elements of an array that are printed
Operand = Any  # a Variable, a bool, an int or a float


class Variable(MetaArray):
    """Variable of a graph, with a shape and a dtype, which is assigned once.

    Parameters
    ----------
    shape : tuple of int
        Shape of the value.
    dtype : dtype
        Dtype of the value.

    Examples
    --------
    >>> Variable((2, 3), "float32").nbytes
    24
    """

    __slots__ = ("nbytes", "ndim", "size")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype, self.device = tuple(map(int, shape)), np.dtype(dtype), META
        # Plans ask for these again and again.
        self.ndim, self.size = len(self.shape), math.prod(self.shape)  # type: ignore[misc]  # no properties
        self.nbytes = self.size * self.dtype.itemsize  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"{_dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


class Equation:
    """One application of a primitive: ``output = primitive(*operands, **params)``.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    operands : tuple of Variable, bool, int or float
        Operands of the primitive.
    params : dict
        Static parameters of the primitive.
    output : Variable, default=None
        The result; None creates a variable with the shape and dtype from the primitive's shape rule.

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
        self.variables: list[Variable] = []
        for x in operands:
            if type(x) is Variable:
                self.variables.append(x)
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
            params = [(name, key_of(value)) for name, value in self.params.items()] if self.params else ()
            self._form = self.primitive, tuple(params)
        return self._form

    def operands_key(self, numbers: Mapping[Variable, int]) -> Hashable:
        """Return the operands as a key, in which variables are replaced by their `numbers`."""
        if len(self.variables) == len(self.operands):
            return tuple(map(numbers.get, self.operands, self.operands))
        return tuple([numbers.get(x, x) if type(x) is Variable else key_of(x) for x in self.operands])

    def check(self) -> None:
        """Check the output against the primitive's shape rule.

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


# -- how a captured function is called: its inputs, and where its outputs go ------------------


Tree = Any
Arrays = Mapping[str, np.ndarray[Any, Any]]
NO_VALUES: Arrays = {}  # of functions; a read-only view could not be pickled


class OutputIndex(int):
    """The position of an output; it replaces the array in a tree of results."""

    def __new__(cls, position: int) -> Self:
        return super().__new__(cls, position)


class Signature(NamedTuple):
    values: Arrays
    args: Tree
    names: tuple[str, ...]
    result: Tree


class Pure(NamedTuple):
    """A function of what an object holds."""

    values: Arrays
    parameters: Sequence[Parameter]
    call: Callable[..., Any]

    def argument(self, number: int) -> str:
        free = number
        for parameter in self.parameters:
            if parameter.kind is Parameter.VAR_POSITIONAL:
                return f"{parameter.name}_{free}"
            if not free:
                return parameter.name
            free -= 1
        raise CaptureError(f"a function of {len(self.parameters)} arguments is given {number + 1}")


def pure_of(function: Callable[..., Any]) -> Pure | None:
    """Return a function, an object such as a module or a method of it, as one of what the object holds."""
    owner: Any = function if hasattr(function, "as_pure") else getattr(function, "__self__", None)
    return Pure(*owner.as_pure(function)) if hasattr(owner, "as_pure") else None


# -- graphs -----------------------------------------------------------------------------------


class Graph:
    """Inputs, constants, equations in execution order, and outputs.

    Parameters
    ----------
    inputs : sequence of Variable
        Passed on every call.
    constants : dict of Variable to ndarray
        Fixed arrays.
    equations : sequence of Equation
        Each uses only inputs, constants and results of earlier equations.
    outputs : sequence of Variable
        Returned; a variable may be returned more than once.
    signature : Signature, default=None
        Signature of the captured function; None for a graph that cannot be called.

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

    A captured module can be called, with other values of its parameters:

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
        return Graph(**{name: getattr(self, name) for name in self.__slots__} | parts)

    def with_values(self, values: Mapping[str, np.ndarray]) -> "Graph":
        """Return this graph with other `values`, by name, of parameters and buffers.

        Raises
        ------
        GraphError
            If the graph was not captured from a function.
        """
        return self.replaced(signature=self.called()._replace(values=values))

    def called(self) -> Signature:
        """Return the signature of the captured function.

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

        `args` have the structure, shapes and kinds of dtypes (floating, integer, ...) of the examples;
        `values` stand in for some of the graph's own. The result is like the function's, of tensors, which
        can be differentiated by arguments and by `values`, captured and compiled.

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
        """Write graph and `values` to a file at `path`, which `sknet.load` reads."""
        above("save")(self, path)

    # -- checking -----------------------------------------------------------------------------

    def verify(self) -> "Graph":
        """Check that the graph is well-formed, and return it; runs after capture and after the passes.

        Raises
        ------
        GraphError
            If a variable is assigned twice or used before it is assigned, or if a shape or dtype contradicts
            the primitive's rule. This is a bug in sknet.
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

        It holds the inputs' shapes and dtypes, primitives, wiring, and constants and parameters by type and
        bits; of a slot for sparse matrices, shape, dtype and the equations that read it.

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

    @property
    def draws(self) -> bool:
        """True if an equation draws random numbers."""
        return "key" in set().union(*[equation.params for equation in self.equations])

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


# -- computing a graph by its primitives, one after the other, as any function of tensors does --


HOST = Device("cpu")


def evaluated(graph: "Graph", args: tuple[Tree, ...], values: Mapping[str, Any]) -> Tree:
    """Compute a graph; `Graph.__call__` says what it takes."""
    signature = graph.called()
    unknown = [name for name in values if name not in signature.values]
    if unknown:
        raise StateError(f"the graph has no {', '.join(map(repr, unknown))}, only {list(signature.values)}")
    given = flat_arguments(signature.args, args)
    device = next((x.device for x in given if isinstance(x, Tensor)), HOST)
    own = [
        to_device(x, device) if type(x) is np.ndarray else x for x in {**signature.values, **values}.values()
    ]
    inputs = checked_inputs(graph, [*own, *given])
    outputs = outputs_of(graph, inputs)
    return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, signature.result)


def flat_arguments(takes: Tree, args: tuple[Tree, ...]) -> list[Any]:
    """Return the arrays among the arguments, once the rest is known to be as in the capture."""
    again = "Numbers and text are part of the graph: capture it again."
    return [leaf for *_, leaf in arrays_among(_like(takes, args), paths(takes), leaves(takes), again)]


def arrays_among(
    tree: Tree, names: Sequence[str], examples: Sequence[Any], advice: str
) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, example and array of each array of a tree, of which the rest must be like its examples."""
    got = paths(tree)
    if got != names:
        raise CaptureError(
            f"the arguments must be trees like those of the capture, with leaves at {names}, got {got}"
        )
    for name, example, leaf in zip(names, examples, leaves(tree), strict=True):
        if isinstance(example, MetaArray):
            yield name, example, leaf
        elif not same_value(example, leaf):
            was = f"argument {name} was {example!r} when the function was captured"
            raise CaptureError(f"{was}, and is {leaf!r} now. {advice}")


def _like(example: Tree, tree: Tree) -> Tree:
    """Return a tree with an array in place of each list that stands for one."""
    if isinstance(example, MetaArray):
        return tree if isinstance(tree, Tensor) else _as_array(tree)
    if isinstance(example, dict) and isinstance(tree, dict):
        return {key: _like(example[key], x) if key in example else x for key, x in tree.items()}
    if isinstance(example, (list, tuple)) and isinstance(tree, (list, tuple)) and len(example) == len(tree):
        return [_like(x, y) for x, y in zip(example, tree, strict=True)]
    return tree


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, (list, tuple, int, float)) else x


def checked_inputs(graph: "Graph", given: Sequence[Any]) -> list[Tensor]:
    """Return inputs as tensors, once they are known to fit."""
    found, names = [], graph.names()
    for variable, x in zip(graph.inputs, given, strict=True):
        tensor = as_tensor(x)
        if tensor.shape != variable.shape:
            raise ShapeError(f"{names[variable]} must have shape {variable.shape}, got {tensor.shape}")
        if tensor.dtype.kind != variable.dtype.kind:
            raise DtypeError(f"{names[variable]} must be {variable.dtype}, got {tensor.dtype}")
        found.append(tensor)
    return found


def outputs_of(graph: "Graph", inputs: Sequence[Tensor]) -> list[Tensor]:
    """Compute the outputs of a graph from its inputs, by its primitives."""
    known: dict[Any, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
    device = inputs[0].device if inputs else None
    for variable, constant in as_read(graph.constants, reversed(graph.equations)).items():
        array = constant if device is None or device.kind in ("cpu", "meta") else to_device(constant, device)
        known[variable] = Tensor(array)
    for equation in graph.equations:
        primitive = equation.primitive
        operands = tuple([known[x] if type(x) not in (bool, int, float) else x for x in equation.operands])
        if PRIMITIVES.get(primitive.name) is not primitive and _is_recorded(operands):
            raise GradientError(
                f"{primitive.name} has no gradient: a pass has put it into the graph. Differentiate the "
                "graph as it was captured"
            )
        known[equation.output] = bind(primitive, operands, equation.params)
    return [known[x] for x in graph.outputs]


def _is_recorded(operands: tuple[Any, ...]) -> bool:
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands)


# -- constants: C-contiguous copies, of which one number that repeats is kept once ------------


def snapshot(array: np.ndarray) -> np.ndarray:
    """Copy an array; one whose elements are all equal becomes a broadcast view of a single element."""
    if array.size > 1:
        first = array[(0,) * array.ndim]
        if not any(array.strides) or array.tobytes() == first.tobytes() * array.size:
            return np.broadcast_to(first, array.shape)
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def is_repeated(constant: np.ndarray) -> bool:
    """Tell whether a constant is one number that is kept once and stands for a C-contiguous array of it."""
    return constant.size > 1 and not any(constant.strides)


def same_bytes(array: np.ndarray, constant: np.ndarray) -> bool:
    """Tell whether an array still has the elements of its snapshot; False for arrays of objects."""
    if array.dtype.hasobject:
        return False
    if is_repeated(constant):
        return bool(array.tobytes() == constant[(0,) * constant.ndim].tobytes() * array.size)
    return bool(array.tobytes() == constant.tobytes())


def axes_of(array: np.ndarray) -> tuple[np.ndarray, tuple[int, ...] | None]:
    """Return an array without repetitions, its longest strides first, and how to restore its axes."""
    once = array[tuple([slice(None) if stride else slice(1) for stride in array.strides])]
    if once.flags.c_contiguous:
        return once, None
    order = sorted(range(once.ndim), key=lambda i: -abs(once.strides[i]))
    if order == list(range(once.ndim)):
        return once, None
    return once.transpose(order), tuple([order.index(i) - once.ndim for i in range(once.ndim)])


def read_as_laid_out(equations: Iterable["Equation"]) -> set["Variable"]:
    """Return the variables that products, sums and the like read, directly or as views."""
    found: set[Variable] = set()
    for equation in equations:
        primitive = equation.primitive
        is_own = primitive.expression is None and not primitive.lays_out
        is_reading = equation.output in found if primitive.view is not None else is_own
        if is_reading:
            found.update(equation.variables)
    return found


def as_read(
    constants: Mapping["Variable", np.ndarray], equations: Iterable["Equation"]
) -> dict["Variable", Any]:
    """Return constants; repeated numbers that are read as laid out are written out as C-contiguous arrays."""
    read = read_as_laid_out(equations)
    return {
        x: np.array(value, order="C") if x in read and is_repeated(value) else value
        for x, value in constants.items()
    }


# -- keys: equal for values of the same type and bits, and for no others ----------------------


INLINE = 64  # bytes up to which a key contains an array itself; larger ones are represented by a digest


class _Identity:
    """The key of an object that equals only itself; keeping the object keeps its id unique."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def key_of(value: Any) -> Hashable:
    found = _KEYS.get(type(value))
    return found(value) if found is not None else _other(value)


def same_value(a: Any, b: Any) -> bool:
    """Tell whether two values have equal keys, or, if keys go by identity, equal types and values."""
    if key_of(a) == key_of(b):
        return True
    return type(a) is type(b) and isinstance(key_of(a), _Identity) and bool(a == b)


def _tagged(value: Any) -> Hashable:
    return type(value), value


def _float(value: float) -> Hashable:
    return float, struct.pack("d", value)


def _sequence(value: Any) -> Hashable:
    if set(map(type, value)) <= _INT:  # shapes and axes, which most parameters are
        return type(value), tuple(value)
    return type(value), tuple([key_of(x) for x in value])


def _mapping(value: Mapping[Any, Any]) -> Hashable:
    return type(value), tuple([(key_of(name), key_of(x)) for name, x in value.items()])


def _slice(value: slice) -> Hashable:
    return slice, key_of(value.start), key_of(value.stop), key_of(value.step)


def _array(value: np.ndarray) -> Hashable:
    if value.dtype.hasobject:
        return np.ndarray, value.dtype, value.shape, tuple([key_of(x) for x in value.flat])
    if value.size > 1 and not any(value.strides):  # one element, repeated
        return np.ndarray, value.dtype, value.shape, value[(0,) * value.ndim].tobytes(), "repeated"
    return np.ndarray, value.dtype, value.shape, _digest(value)


def _digest(value: np.ndarray) -> bytes:
    if value.nbytes <= INLINE:
        return value.tobytes()
    rows = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return hashlib.blake2b(rows.data, digest_size=32).digest()


def _scalar(value: np.generic) -> Hashable:
    return type(value), value.dtype, key_of(value.item()) if value.dtype.hasobject else value.tobytes()


_BY_BASE: tuple[tuple[type, Callable[[Any], Hashable]], ...] = (
    (np.dtype, lambda value: (np.dtype, value)),
    (np.ndarray, _array),
    (np.generic, _scalar),
    (int, int.__int__),  # subclasses, such as a tensor's size
    (float, lambda value: _float(float(value))),
    (str, str.__str__),
    (tuple, _sequence),
    (list, _sequence),
    (dict, _mapping),
)
_INT: set[type] = {int}
_KEYS: dict[type, Callable[[Any], Hashable]] = {
    **dict.fromkeys((bool, int, str, bytes, type(None), EllipsisType), _tagged),
    float: _float,
    complex: lambda value: (complex, struct.pack("dd", value.real, value.imag)),
    slice: _slice,
    tuple: _sequence,
    list: _sequence,
    dict: _mapping,
    np.ndarray: _array,
}


def _other(value: Any) -> Hashable:
    for base, key in _BY_BASE:
        if isinstance(value, base):
            return type(value), key(value)
    if is_array(value) and not isinstance(value, MetaArray):
        return type(value), device_of(value), _array(to_host(value))
    return _Identity(value)


Shape = tuple[int, ...]


OWN: dict[str, Primitive] = {}


class _Internal(Primitive):
    """A primitive that is listed in `OWN`, not in `PRIMITIVES`."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name = name
        OWN[name] = self


def primitive_named(name: str) -> Primitive:
    """Return the primitive of a name, the compiler's own included."""
    return OWN.get(name) or PRIMITIVES[name]


# -- one element per row ----------------------------------------------------------------------
# take_along_axis and its adjoint along the last axis, for one index per row, by flat positions.


def _flat_index(xp: Namespace, indices: Any, *, length: int, from_end: bool = True, out: Any = None) -> Any:
    if not from_end:
        xp.check_indices(indices, length)
    flat = xp.arange(length).take(
        indices.reshape(-1), None, out
    )  # wraps negative indices, raises for indices out of bounds
    flat += xp.arange(0, indices.size * length, length)
    return flat


def _put_at(xp: Namespace, g: Any, positions: Any, *, shape: Shape, out: Any = None) -> Any:
    out = xp.zeros(shape, dtype=g.dtype) if out is None else out
    out[...] = 0
    out.reshape(-1)[positions] = g.reshape(-1)
    return out


def _subtract_at(xp: Namespace, x: Any, g: Any, positions: Any, *, out: Any = None) -> Any:
    if out is None:
        out = x.copy()
    elif out is not x:
        out[...] = x
    out.reshape(-1)[positions] -= g.reshape(-1)
    return out


flat_index = _Internal("flat_index").define(
    forward=_flat_index,
    shape=lambda indices, length, from_end=True: ((math.prod(indices.shape),), np.dtype(np.intp)),
    vjp=None,
)
# `of_all` says that each element is at one of the positions, except for gaps between assembled parts.
take_at = _Internal("take_at").define(
    forward=lambda xp, x, positions, of_all=False, out=None: x.reshape(-1).take(positions, None, out),
    shape=lambda x, positions, of_all=False: (positions.shape, x.dtype),
    vjp=None,
)
put_at = _Internal("put_at").define(
    forward=_put_at, shape=lambda g, positions, shape: (shape, g.dtype), vjp=None
)
subtract_at = _Internal("subtract_at").define(
    forward=_subtract_at,
    shape=lambda x, g, positions: (x.shape, np.result_type(x.dtype, g.dtype)),
    vjp=None,
    overwrites=(0,),
)


# -- one flat array from parts ----------------------------------------------------------------


def _assemble(xp: Namespace, *parts: Any, starts: Shape, size: int, out: Any = None) -> Any:
    out = xp.zeros((size,), dtype=parts[0].dtype) if out is None else out
    out[...] = 0
    for part, start in zip(parts, starts, strict=True):
        out[start : start + part.size] = part
    return out


# Executors usually write the parts in place, which leaves nothing to copy.
assemble = _Internal("assemble").define(
    forward=_assemble,
    shape=lambda *parts, starts, size: ((size,), np.result_type(*[part.dtype for part in parts])),
    vjp=None,
)


# -- sums over blocks of threads --------------------------------------------------------------
# Each block of a cluster has parts of some sums, which are added in the order of the blocks.


def _block_sums(xp: Namespace, *parts: Any) -> Any:
    starts = [0, *accumulate(part.size for part in parts)]
    return _assemble(xp, *[x.reshape(-1) for x in parts], starts=tuple(starts[:-1]), size=starts[-1])


block_sums = _Internal("block_sums").define(
    forward=_block_sums,
    shape=lambda *parts: ((sum(math.prod(part.shape) for part in parts),), parts[0].dtype),
    vjp=None,
)


# -- x + a * y --------------------------------------------------------------------------------


def _axpy(xp: Namespace, x: Any, y: Any, a: Any, *, out: Any = None) -> Any:
    return xp.add(x, a * y, out=out)


# BLAS does it in one pass over memory.
axpy = _Internal("axpy").define(
    forward=_axpy, shape=lambda x, y, a: (x.shape, x.dtype), vjp=None, expression="x + z * y", overwrites=(0,)
)


# -- x where a mask holds, and 0 elsewhere ------------------------------------------------------


def _masked(xp: Namespace, x: Any, mask: Any, *, out: Any = None) -> Any:
    return _copy(xp, xp.where(mask, x, 0), out=out)


# Not x * mask, which is NaN where x is infinite and the mask is false.
masked = _Internal("masked").define(
    forward=_masked,
    shape=lambda x, mask: (x.shape, x.dtype),
    vjp=None,
    expression="x if y else 0",
    condition=1,
)


# -- the leading bits of float32 numbers --------------------------------------------------------


def _leading(xp: Namespace, x: Any, *, out: Any = None) -> Any:
    scaled, most = x * 8193, xp.where(x < 0, -(2.0**112), 2.0**112)
    found = xp.where(abs(x) < 2.0**112, scaled - (scaled - x), most).astype(x.dtype)
    return _copy(xp, found, out=out)


# Rounded to 11 bits, as TF32 has them (Dekker); of numbers from 2**112 on, which would overflow, that.
leading = _Internal("leading").define(
    forward=_leading,
    shape=lambda x: (x.shape, x.dtype),
    vjp=None,
    expression=f"x * 8193 - (x * 8193 - x) if abs(x) < {2.0**112} else -{2.0**112} if x < 0 else {2.0**112}",
)


# -- numbers of bfloat16, as float32 ----------------------------------------------------------


def _widened(xp: Namespace, x: Any, *, out: Any = None) -> Any:
    return _copy(xp, (x.astype("uint32") << 16).view("float32"), out=out)


# By their bits, in 16-bit integers. Where products in bfloat16 read an input so, nothing computes it.
widened = _Internal("widened").define(
    forward=_widened, shape=lambda x: (x.shape, np.dtype(np.float32)), vjp=None
)


# -- others -----------------------------------------------------------------------------------


def _copy(xp: Namespace, x: Any, *, out: Any = None) -> Any:
    if out is None:
        return x.copy()
    out[...] = x
    return out


copy = _Internal("copy").define(forward=_copy, shape=lambda x: (x.shape, x.dtype), vjp=None, expression="x")


# -- scalar expressions -----------------------------------------------------------------------


Operands = tuple[Any, ...]


@cache
def parsed(expression: str) -> ast.expr:
    """Return the syntax tree of an expression; it is cached, so it must not be changed."""
    return ast.parse(expression, mode="eval").body


@cache
def used(expression: str) -> frozenset[int]:
    """Return the positions of the operands that an expression names."""
    names = {node.id for node in ast.walk(parsed(expression)) if isinstance(node, ast.Name)}
    return frozenset(i for i, name in enumerate("xyz") if name in names)


@cache
def _is_predicate(expression: str) -> bool:
    return isinstance(parsed(expression), (ast.BoolOp, ast.Call, ast.Compare))


def computing_dtype(expression: str, values: Operands, dtype: Any) -> Any:
    """Return the dtype that operands are converted to before an element is computed."""
    return result_dtype(*values) if dtype.kind == "b" and _is_predicate(expression) else dtype
