"""Capture: run a function once on arrays without data and record its operations."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np

from sknet._late import issparse
from sknet._tree import leaves, map_leaves, paths
from sknet.compile._graph import (
    Equation,
    Graph,
    Operand,
    OutputIndex,
    Pure,
    Signature,
    Variable,
    axes_of,
    pure_of,
    same_bytes,
    snapshot,
)
from sknet.core import PRIMITIVES, Primitive, Tensor, TracedArray, capturing, user_line
from sknet.core._tape import line_of
from sknet.device import Device, MetaArray, backend, device_of, is_array, to_host
from sknet.exceptions import CaptureError, DeviceError

# Types of immutable parameters.
UNCHANGEABLE = frozenset({bool, int, float, str, slice, type(None), type(Ellipsis)})

backend("meta")  # registers its arrays, traced ones included
HOST = backend("cpu")


class _Traced(TracedArray):
    __slots__ = ("recorder", "variable")

    def __init__(self, recorder: "Recorder", variable: Variable) -> None:
        # What the initializer would convert, a variable has converted already.
        self.shape, self.dtype, self.device = variable.shape, variable.dtype, recorder.device
        self.recorder = recorder
        self.variable = variable

    def lifted(self, constant: Tensor) -> Tensor:
        return self.recorder.lifted(constant)

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> TracedArray:
        return self.recorder.record(primitive, inputs, params)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise self._frozen(
            "the value of a tensor is read (by bool, float, int, item, numpy or a NumPy function)"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # protocols that NumPy and others ask for
            raise AttributeError(name)
        raise self._frozen(f"{name!r} of a tensor's array is read")

    def __setitem__(self, index: Any, value: Any) -> None:
        raise self._frozen("a tensor's array is written to")

    def _frozen(self, what: str) -> CaptureError:
        return CaptureError(
            f"{what}, of shape {self.shape}, {user_line()}. A captured function runs once, without data; a "
            "value read from it would be frozen. Compute with sknet.ops on tensors (ops.where instead of a "
            "branch), pass what is decided outside the function as an argument, or let capture(..., "
            "unroll=True) use the values of the example."
        )


class _Followed(_Traced):
    """A traced array that has the values of the example, so that Python may read them."""

    __slots__ = ("value",)

    def __init__(self, recorder: "Recorder", variable: Variable, value: np.ndarray) -> None:
        super().__init__(recorder, variable)
        self.value = value

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return np.array(self.value, *args, **kwargs)


class Recorder:
    """Collects the equations of one capture."""

    def __init__(self, device: Device, unroll: bool = False) -> None:
        self.device = device
        self.lines = _lines.get()
        self._unroll = unroll
        self.is_open = True
        self.equations: list[Equation] = []
        self.constants: dict[Variable, np.ndarray] = {}
        self._known: dict[int, tuple[Variable, Any]] = {}
        self._bases: dict[int, tuple[Any, np.ndarray, tuple[int, ...] | None]] = {}

    def variable(self, leaf: Any) -> Variable:
        """Return the variable of a leaf of the result: that of a traced tensor, or a new constant."""
        return self._variable(leaf if isinstance(leaf, Tensor) else Tensor(leaf))

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> TracedArray:
        """Add one equation and return the traced array of its output."""
        if primitive.tape_only:
            return inputs[0].data
        reads = self._laid_out if primitive.expression is None and primitive.view is None else self._operand
        operands = tuple(map(reads, inputs))
        params = {name: _frozen(primitive, value) for name, value in params.items()} if params else {}
        equation = Equation(primitive, operands, params)
        if not self.is_open:
            raise CaptureError(
                f"a tensor from inside a captured function is used by {primitive.name} after the capture has "
                f"ended, {user_line()}. A captured function may pass on what it computes only by returning "
                "it: return new values of buffers and counters instead of storing them."
            )
        self._add(equation)
        return self.traced(equation.output, *(_values(equation, inputs) if self._unroll else ()))

    def lifted(self, constant: Tensor) -> Tensor:
        """Return a constant whose operations are recorded; not where Python may read values."""
        return constant if self._unroll else Tensor(self.traced(self._variable(constant)))

    def traced(self, variable: Variable, *value: np.ndarray) -> TracedArray:
        """Return the traced array of a variable, and of its value in the example where that is followed."""
        return _Followed(self, variable, *value) if value else _Traced(self, variable)

    def _operand(self, x: Any) -> Operand:
        if isinstance(x, Tensor):
            data = x.data
            is_own = isinstance(data, _Traced) and data.recorder is self
            return data.variable if is_own else self._variable(x)
        if isinstance(x, (bool, int, float)):
            return x
        raise CaptureError(f"an operand of type {type(x).__name__} cannot be captured, {user_line()}")

    def _laid_out(self, x: Any) -> Operand:
        """Return an operand; a constant that is not C-contiguous is recorded as a view of one that is."""
        if not isinstance(x, Tensor) or x.requires_grad or isinstance(x.data, (_Traced, MetaArray)):
            return self._operand(x)
        array = to_host(x.data)
        if array.flags.c_contiguous:
            return self._constant(x.data)
        _, base, axes = self._bases.setdefault(id(x.data), (x.data, *axes_of(array)))
        found = self._constant(base)
        if axes is not None:
            found = self._view("permute_dims", found, axes=axes)
        return found if found.shape == x.shape else self._view("broadcast_to", found, shape=x.shape)

    def _view(self, name: str, x: Variable, **params: Any) -> Variable:
        return self._add(Equation(PRIMITIVES[name], (x,), params)).output

    def _add(self, equation: Equation) -> Equation:
        self.equations.append(equation)
        if self.lines is not None:
            self.lines.append(line_of())
        return equation

    def _variable(self, x: Tensor) -> Variable:
        data = x.data
        if isinstance(data, _Traced):
            if data.recorder is not self:
                raise CaptureError(
                    f"a tensor from inside another captured function is used, {user_line()}. Return it from "
                    "there, and pass it to this one as an argument."
                )
            return data.variable
        if x.requires_grad:
            raise CaptureError(
                f"a tensor of shape {x.shape} that requires a gradient is used as a constant, {user_line()}: "
                "later changes of it would not be seen. Pass it to the function as an argument."
            )
        return self._constant(data)

    def _constant(self, data: Any) -> Variable:
        if isinstance(data, MetaArray):
            raise CaptureError(
                f"an array without data, of shape {data.shape}, is used as a constant, {user_line()}"
            )
        found = self._known.get(id(data))
        array = to_host(data)
        # The function may write to an array between two uses of it.
        if found is None or not same_bytes(array, self.constants[found[0]]):
            # A copy, so that later writes by the owner do not change the computation.
            variable, value = Variable(data.shape, data.dtype), snapshot(array)
            self.constants[variable] = value
            found = self._known[id(data)] = variable, data  # keeping the array keeps its id unique
        return found[0]


# Where a capture notes the line of each equation, if somebody asks.
_lines: ContextVar[list[Any] | None] = ContextVar("sknet.compile.lines", default=None)


def lines_of(captured: Callable[[], Any]) -> list[Any]:
    """Return the user's line of each equation that is recorded while a function is captured."""
    found: list[Any] = []
    token = _lines.set(found)
    try:
        captured()
    finally:
        _lines.reset(token)
    return found


def _values(equation: Equation, inputs: tuple[Any, ...]) -> tuple[np.ndarray]:
    """Return the result of an equation for the example."""
    arrays = [to_host(x.data) if isinstance(x, Tensor) else x for x in inputs]
    return (np.asarray(equation.primitive.forward_on(HOST)(*arrays, **equation.params)),)


def capture(function: Callable[..., Any], *args: Any, unroll: bool = False) -> Graph:
    """Capture the operations of a function as a graph, by running it once on tensors without data.

    Parameters
    ----------
    function : callable
        A pure function of trees of tensors, written in `sknet.ops`; it may ask for gradients. Or a module, or
        a method of one, such as ``module.forward``: it is captured in evaluation mode, whatever its own
        mode, and its parameters and buffers become the first inputs of the graph, under their paths.
    *args : trees of arrays
        Example arguments: only shapes, dtypes and device of arrays matter. Other leaves (numbers, strings)
        become part of the graph.
    unroll : bool, default=False
        Whether Python code may read the example's values: branches, loops and numbers are then silently fixed
        as they are for the example. Otherwise reading a value is an error.

    Returns
    -------
    Graph
        The verified graph. Its inputs are the parameters and buffers of a module, then the arrays among the
        leaves of `args`.

    Raises
    ------
    CaptureError
        If the function depends on values in a way that the graph would fix; the message names the line.
    StateError
        If a module is lazy and has not seen an input.

    Examples
    --------
    >>> import numpy as np
    >>> print(capture(lambda x, y: (x * y).sum(), np.ones(3), np.ones(3)))
    graph(v0: float64[3], v1: float64[3]):
      v2: float64[3] = multiply v0 v1
      v3: float64[] = sum v2 axis=(-1,) keepdims=False
      return v3

    >>> from sknet import nn
    >>> print(capture(nn.Linear(3, 2).forward, np.ones((5, 3), "float32")))
    graph(weight: float32[3,2], bias: float32[2], x: float32[5,3]):
      v3: float32[5,2] = matmul x weight
      v4: float32[5,2] = add v3 bias
      return v4
    """
    pure = pure_of(function)
    names: tuple[str, ...] = ()
    if pure is None:
        graph, result = trace(function, args, unroll=unroll)
        values: Mapping[str, Any] = {}
    else:
        graph, result = trace(pure.call, (pure.values, *args), unroll=unroll)
        names, values = _names(pure, args), pure.values
    given = iter(graph.inputs[len(values) :])
    takes = map_leaves(lambda leaf: next(given) if is_dense(leaf) else leaf, args)
    return graph.replaced(signature=Signature(values, takes, names, result))


def _names(pure: Pure, args: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of all inputs: those of arguments differ from those of values."""
    found = list(pure.values)
    for path, leaf in zip(paths(args), leaves(args), strict=True):
        if is_dense(leaf):
            number, _, rest = path.partition(".")
            name = ".".join([pure.argument(int(number)), *([rest] if rest else [])])
            while name in found:
                name += "_"
            found.append(name)
    return tuple(found)


def trace(function: Callable[..., Any], args: tuple[Any, ...], *, unroll: bool = False) -> tuple[Graph, Any]:
    """Capture a function; return the graph and a tree like its result that holds output positions."""
    inputs: list[Variable] = []
    recorder = Recorder(device_among(args), unroll)

    def traced(leaf: Any) -> Any:
        if not is_dense(leaf):
            return leaf
        inputs.append(Variable(leaf.shape, leaf.dtype))
        return Tensor(recorder.traced(inputs[-1], *([_example(leaf)] if unroll else [])))

    with capturing():
        try:
            result = function(*map_leaves(traced, args))
        finally:
            recorder.is_open = False
    outputs: list[Variable] = []

    def collected(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) and not is_array(leaf):
            return leaf
        outputs.append(recorder.variable(leaf.detach() if isinstance(leaf, Tensor) else leaf))
        return OutputIndex(len(outputs) - 1)

    template = map_leaves(collected, result)
    return Graph(inputs, recorder.constants, recorder.equations, outputs).verify(), template


def _example(leaf: Any) -> np.ndarray:
    if isinstance(leaf, MetaArray):
        raise CaptureError(
            f"unroll=True reads the example's values, and an array of shape {leaf.shape} has none"
        )
    return np.array(to_host(leaf.data if isinstance(leaf, Tensor) else leaf))


def is_dense(leaf: Any) -> bool:
    """Tell whether a leaf is an array, which capture traces."""
    if isinstance(leaf, (np.ndarray, Tensor, Variable)):
        return True
    if issparse(leaf):
        raise CaptureError("a sparse matrix cannot be an argument of a captured function: pass a dense array")
    return is_array(leaf)


def device_among(args: tuple[Any, ...]) -> Device:
    """Return the device of all arrays among the arguments; the host if there are none."""
    arrays = [leaf.data if isinstance(leaf, Tensor) else leaf for leaf in leaves(args) if is_dense(leaf)]
    real = [device for device in dict.fromkeys(map(device_of, arrays)) if device.kind != "meta"]
    if len(real) > 1:
        raise DeviceError(
            f"the arguments of a captured function must be on one device, got arrays on "
            f"{sorted(map(str, real))}: move them with to_device"
        )
    return real[0] if real else Device("cpu")


def _frozen(primitive: Primitive, value: Any) -> Any:
    """Return a parameter that no code outside can change: arrays at any depth are copied."""
    kind = type(value)
    if kind in UNCHANGEABLE:
        return value
    if kind is tuple and UNCHANGEABLE.issuperset(map(type, value)):
        return value
    if kind is tuple or kind is list:
        return kind([_frozen(primitive, part) for part in value])
    if kind is dict:
        return {name: _frozen(primitive, part) for name, part in value.items()}
    if isinstance(value, _Followed):
        return _frozen(primitive, value.value)
    if isinstance(value, TracedArray):
        raise CaptureError(
            f"{primitive.name} is given a computed index, {user_line()}; it would be frozen. "
            "Use ops.take or ops.take_along_axis, which take indices as a tensor, or ops.where in place "
            "of a mask."
        )
    if issparse(value):
        raise CaptureError(
            f"{primitive.name} is given a sparse matrix, {user_line()}, whose values would be frozen: "
            "pass a dense array, or run the function without compiling it."
        )
    if isinstance(value, np.ndarray):
        value = np.array(value, order="C")
        value.flags.writeable = False
        return value
    return value.copy() if is_array(value) else value
