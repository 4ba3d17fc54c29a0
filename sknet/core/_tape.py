"""The tape: recorded operations, the modes that switch recording, and repeated runs."""

import functools
import itertools
import linecache
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, ParamSpec, Protocol, Self, TypeVar, cast

import numpy as np

from sknet.core._primitive import Primitive
from sknet.device import Device, MetaArray, backend_of, device_of, is_array
from sknet.device import backend as _backend
from sknet.exceptions import CaptureError, DeviceError, DtypeError, GradientError, NonFiniteError, ShapeError

P = ParamSpec("P")
R = TypeVar("R")


class _Modes(threading.local):
    """The modes of operations in a thread: whether they are recorded, captured, checked."""

    grad = True
    capturing = False
    inference = False  # recording cannot be turned on
    anomaly = False  # every result is checked


modes = _Modes()


def is_grad_enabled() -> bool:
    """Tell whether operations in this thread are being recorded.

    Returns
    -------
    bool
        Whether they are.

    Examples
    --------
    >>> from sknet import no_grad
    >>> from sknet.core import is_grad_enabled
    >>> with no_grad():
    ...     print(is_grad_enabled())
    False
    """
    return modes.grad


def is_capturing() -> bool:
    """Tell whether a function is being captured in this thread: numbers drawn now would become constants.

    Returns
    -------
    bool
        Whether it is.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import capture
    >>> from sknet.core import is_capturing
    >>> def shown(x):
    ...     print(is_capturing())
    ...     return x + 1
    >>> _ = capture(shown, np.ones(2))
    True
    >>> is_capturing()
    False
    """
    return modes.capturing


@contextmanager
def capturing() -> Iterator[None]:
    """Mark that a function is being captured in this thread, with gradients as by default.

    Yields
    ------
    None
        For a ``with`` block.

    Examples
    --------
    >>> from sknet.core import capturing, is_capturing
    >>> with capturing():
    ...     print(is_capturing())
    True
    """
    before = modes.grad, modes.capturing, modes.inference
    modes.grad, modes.capturing, modes.inference = True, True, False
    try:
        yield
    finally:
        modes.grad, modes.capturing, modes.inference = before


class Context(ABC):
    """A context, and a decorator that enters a context of its own for every call (threads may overlap)."""

    @abstractmethod
    def _enter(self) -> None:
        """Set what the context sets; it may be entered several times at once."""

    @abstractmethod
    def _leave(self) -> None:
        """Undo the latest `_enter`."""

    def _fresh(self) -> Self:
        return type(self)()

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._fresh():
                return function(*args, **kwargs)

        return inside


class _GradMode(Context):
    _enabled: bool

    def __init__(self) -> None:
        self._before: list[tuple[bool, bool]] = []

    def _enter(self) -> None:
        before = modes.grad, modes.inference
        _set_grad(self._enabled)
        self._before.append(before)

    def _leave(self) -> None:
        modes.grad, modes.inference = self._before.pop()


def _set_grad(enabled: bool) -> None:
    if enabled and modes.inference:
        raise GradientError(
            "gradients are computed inside inference_mode, where nothing is recorded: use no_grad there"
        )
    modes.grad = enabled


class no_grad(_GradMode):
    """Disable recording: inside this context (or decorated function) results do not require gradients.

    It applies to the thread that enters it.

    Examples
    --------
    >>> from sknet import Tensor, no_grad
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _enabled = False


class enable_grad(_GradMode):
    """Record operations, also inside `no_grad`.

    Examples
    --------
    >>> from sknet import Tensor, enable_grad, no_grad
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    _enabled = True


class set_grad_enabled(_GradMode):
    """Set whether operations are recorded from now on, inside a context, or in a decorated function.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Raises
    ------
    GradientError
        If gradients are enabled inside of `inference_mode`.

    Examples
    --------
    >>> from sknet import Tensor, set_grad_enabled
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> is_training = False
    >>> with set_grad_enabled(is_training):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._enabled = bool(mode)
        self._replaced: bool | None = modes.grad
        _set_grad(self._enabled)

    def _undo(self) -> None:
        """Undo, once, what the call itself has set: it was meant for a context or a function."""
        if self._replaced is not None:
            modes.grad, self._replaced = self._replaced, None

    def _enter(self) -> None:
        self._undo()
        super()._enter()

    def _fresh(self) -> Self:
        return type(self)(self._enabled)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        self._undo()
        return super().__call__(function)


class inference_mode(_GradMode):
    """Disable recording, such that it cannot be enabled again inside.

    `enable_grad`, `set_grad_enabled` and the transforms that need the tape, such as `grad`, raise a
    GradientError in it. Otherwise it is like `no_grad`: results can be used anywhere.

    Examples
    --------
    >>> from sknet import Tensor, inference_mode
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with inference_mode():
    ...     (x * 2).requires_grad
    False
    """

    _enabled = False

    def _enter(self) -> None:
        super()._enter()
        modes.inference = True


# -- second runs ------------------------------------------------------------------------------
#
# Layers above have state of their own that a function can reach, such as the numbers that were drawn so
# far. Each registers a source; `first_run` asks them all, so that its callers need not know them.

Repetition = Callable[[], AbstractContextManager[Any]]
Source = TypeVar("Source", bound=Callable[[], AbstractContextManager[Repetition]])

SOURCES: list[Callable[[], AbstractContextManager[Repetition]]] = []


def repeatable(source: Source) -> Source:
    """Register a source of state."""
    SOURCES.append(source)
    return source


@contextmanager
def first_run() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Surround the first run of a function, and yield ``again``."""
    with ExitStack() as stack:
        repetitions = [stack.enter_context(source()) for source in SOURCES]
        before = copy_context()

        def again(function: Callable[[], R]) -> R:
            def inside() -> R:
                with ExitStack() as stack:
                    for repetition in repetitions:
                        stack.enter_context(repetition())
                    return function()

            return before.copy().run(inside)

        yield again


# -- arrays without values --------------------------------------------------------------------


class _NoDataError(AttributeError, TypeError):
    """A forward asked for something that only real arrays have; `bind` treats it as NumPy's TypeError."""


class TracedArray(MetaArray):
    """An array of which only shape, dtype and device are known: operations on it are recorded.

    `bind` calls its method `record` for every primitive of which it is an operand. NumPy cannot compute with
    it: a function that takes the array out of its tensor gets an error.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.
    device : Device
        Device of the array.

    Examples
    --------
    >>> from sknet.core import Tensor, TracedArray
    >>> from sknet.device import Device
    >>> class Printed(TracedArray):
    ...     def record(self, primitive, inputs, params):
    ...         print(primitive, params)
    ...         return self
    >>> x = -Tensor(Printed((3,), "float32", Device("cpu")))
    <primitive negative> {}
    """

    __slots__ = ()
    __array_ufunc__ = None  # NumPy's functions refuse at once, and `bind` turns to `record`

    level: int = 0
    """If traced arrays of several levels are operands, one of the highest level records."""

    def __init__(self, shape: tuple[int, ...], dtype: Any, device: Device) -> None:
        super().__init__(shape, dtype)
        self.device = device

    def __reduce__(self) -> Any:
        return type(self), (self.shape, self.dtype, self.device)

    def __getattr__(self, name: str) -> NoReturn:
        raise _NoDataError(f"an array without values has no attribute {name!r}")

    def lifted(self, constant: Any) -> Any:
        """Return a `constant`, captured where it can be, so that operations on it are recorded."""
        return constant

    @abstractmethod
    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> "TracedArray":
        """Record that `primitive` is applied to `inputs`, this array among them; return its result.

        `params` are the primitive's own, such as an axis.
        """


def traced_among(arrays: list[Any]) -> TracedArray | None:
    """Return the innermost traced array of a list of operands; the first, where several are."""
    found = [x for x in arrays if isinstance(x, TracedArray)]
    if len(found) < 2:
        return found[0] if found else None
    return max(found, key=_level)


def _level(array: TracedArray) -> int:
    return array.level


# -- nodes and their record -------------------------------------------------------------------

NUMPY = _backend("cpu")
_SCALARS = (float, int)
_clock = itertools.count()

# Filled in by _tensor.py: a tensor is made of nodes, and nodes of tensors.
TensorType: type[Any] = cast(Any, None)
make_tensor: "Callable[[Any, Node | None], Any]" = cast(Any, None)


def next_time() -> int:
    """Return a time later than all returned before, for a node or a write."""
    return next(_clock)


class Shaped:
    """Shape and dtype of a value that no vjp rule reads, kept in its place.

    Parameters
    ----------
    shape : tuple of int
        Shape of the value.
    dtype : dtype
        Dtype of the value.

    Examples
    --------
    >>> from sknet.core import Shaped
    >>> Shaped((2, 3), "float32").ndim
    2
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype

    def __reduce__(self) -> Any:
        return type(self), (self.shape, self.dtype)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


class Node:
    """One application of a primitive on the tape, or (without a primitive) a leaf."""

    __slots__ = ("inputs", "notes", "order", "output", "params", "parents", "primitive")

    notes: Any

    def __init__(
        self,
        primitive: Primitive | None = None,
        parents: tuple["Node | None", ...] = (),
        inputs: tuple[Any, ...] = (),
        output: Any = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.primitive = primitive
        self.parents = parents
        self.inputs = inputs
        self.output = output
        self.params = params
        self.order = next(_clock)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a node of the tape belongs to this process and cannot be pickled or copied")


def leaf_node(tensor: Any) -> Node:
    """Return a node for a leaf; it finds its tensor again (to fill `grad`) while that is alive.

    Parameters
    ----------
    tensor : Tensor
        A tensor that was not computed from others; held weakly.

    Returns
    -------
    Node
        A node without parents.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import leaf_node
    >>> x = Tensor([1.0])
    >>> leaf_node(x).output() is x
    True
    """
    return Node(output=weakref.ref(tensor))


class Taped(Protocol):
    """A tensor as the tape sees it."""

    data: Any
    node: Node | None
    grad: Any

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


def bind(primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Apply a primitive to tensors (and weakly typed scalars), recording it if a gradient may be needed.

    Parameters
    ----------
    primitive : Primitive
        The operation.
    inputs : tuple
        Tensors, Python scalars, or opaque operands that the primitive understands.
    params : dict
        The operation's static parameters.

    Returns
    -------
    Tensor
        The result.

    Raises
    ------
    ShapeError, DtypeError, DeviceError, IndexError, ValueError
        If the operands do not fit; the message names the operation and the operands.

    Examples
    --------
    >>> from sknet import Tensor
    >>> from sknet.core import PRIMITIVES, bind
    >>> bind(PRIMITIVES["add"], (Tensor([1.0, 2.0]), 1), {})
    Tensor([2., 3.], dtype=float64)
    """
    arrays = [x.data if isinstance(x, TensorType) else x for x in inputs]
    first = arrays[0]
    try:
        if (type(first) is np.ndarray and not isinstance(arrays[-1], MetaArray)) or (
            type(first) in _SCALARS and type(arrays[1]) is np.ndarray
        ):
            out = primitive.forward_on(NUMPY)(*arrays, **params)
            if type(out) is not np.ndarray:
                out = np.asarray(out)
            elif not (out.flags.c_contiguous or primitive.view or primitive.tape_only):
                # NumPy's result for transposed operands is transposed; a plan's is C-contiguous, and
                # sums over the two round differently.
                out = np.ascontiguousarray(out)
        else:
            out = _forward_elsewhere(primitive, inputs, arrays, params)
    except (ValueError, TypeError, IndexError, OverflowError, DeviceError) as error:
        # A constant came first, and NumPy has refused a traced array between it and the last operand.
        traced = traced_among(arrays) if type(first) is np.ndarray else None
        if traced is None:
            raise explained(primitive, arrays, params, error) from error
        out = traced.record(primitive, inputs, params)

    if modes.grad and primitive.vjp is not None:
        parents = tuple([x.node if isinstance(x, TensorType) else None for x in inputs])
        if any(parents):
            return make_tensor(out, _record(primitive, parents, inputs, arrays, out, params))
    return make_tensor(out, None)


def _record(
    primitive: Primitive,
    parents: tuple[Node | None, ...],
    inputs: tuple[Any, ...],
    arrays: list[Any],
    out: Any,
    params: dict[str, Any],
) -> Node:
    """Record one application: arrays are kept rather than tensors, which may become other values."""
    saves = primitive.saves
    if saves == "output" or saves == "nothing":
        kept = [Shaped(x.data.shape, x.data.dtype) if isinstance(x, TensorType) else x for x in inputs]
    else:
        kept = arrays
    if saves == "inputs" or saves == "nothing":
        out = None
    return Node(primitive, parents, tuple(kept), out, params)


def operands_of(node: Node) -> tuple[Any, list[Any]]:
    """Return the arguments of the rules of a node: its result, if that was kept, and its inputs."""
    out = None if node.output is None else make_tensor(node.output, node)
    if not isinstance(node.primitive, Primitive):
        return out, list(node.inputs)  # a custom function keeps tensors
    return out, [
        make_tensor(x, parent) if type(x) is np.ndarray or _is_dense(x) else x
        for x, parent in zip(node.inputs, node.parents, strict=True)
    ]


def _is_dense(x: Any) -> bool:
    """Tell whether what a node keeps is the array of a tensor, rather than a number, a shape or a matrix."""
    if type(x) in _SCALARS or type(x) is Shaped:
        return False
    return is_array(x) and not backend_of(x).is_sparse(x)


def _forward_elsewhere(
    primitive: Primitive, inputs: tuple[Any, ...], arrays: list[Any], params: dict[str, Any]
) -> Any:
    """Compute where not all operands are NumPy arrays: on another or the meta device, or in a capture."""
    traced = traced_among(arrays)
    if traced is not None:
        return traced.record(primitive, inputs, params)
    owners = [x for x in arrays if hasattr(x, "dtype")]
    if any(isinstance(x, MetaArray) for x in owners):
        check_one_device(primitive, owners)
        return MetaArray(*primitive.shape(*arrays, **params))
    owner = backend_of(owners[0])
    with owner.activate(owner.device_of(owners[0])):
        out = primitive.forward_on(owner)(*arrays, **params)
        return out if isinstance(out, owner.array_type) else owner.xp.asarray(out)


def check_one_device(primitive: Primitive, operands: list[Any]) -> None:
    """Raise if the arrays among some operands live on different devices."""
    devices = sorted({str(device_of(x)) for x in operands if hasattr(x, "dtype")})
    if len(devices) > 1:
        raise DeviceError(
            f"{primitive.name}: operands live on different devices {devices}; "
            "move them to one with .to(device)"
        )


def explained(primitive: Primitive, arrays: list[Any], params: dict[str, Any], error: Exception) -> Exception:
    """Return the error a user can act on: which operation, which operands."""
    if isinstance(error, (CaptureError, NonFiniteError)):
        return error
    operands = [x for x in arrays if hasattr(x, "dtype")]
    metas = [MetaArray(x.shape, x.dtype) if hasattr(x, "dtype") else x for x in arrays]
    try:
        check_one_device(primitive, operands)
        primitive.shape(*metas, **params)
    except (DeviceError, ShapeError, DtypeError, IndexError) as found:
        return found
    if isinstance(error, (DeviceError, ShapeError, DtypeError)):
        return error
    shown = ", ".join(f"{x.dtype}{tuple(x.shape)}" for x in operands)
    message = f"{primitive.name}: cannot compute with operands {shown}: {error}"
    if isinstance(error, TypeError):
        return DtypeError(message)
    return IndexError(message) if isinstance(error, IndexError) else ValueError(message)


# -- the user's code --------------------------------------------------------------------------

PACKAGE = str(Path(__file__).parents[1])

Line = tuple[str, int]


class _Files(dict[str, bool]):
    """Cache that tells by path whether files are the user's, without a call for each of many frames."""

    def __missing__(self, path: str) -> bool:
        found = self[path] = not path.startswith((PACKAGE, "<frozen")) and "site-packages" not in path
        return found


_is_users = _Files()


def line_of() -> Line | None:
    """Return file and line of the innermost frame that is not sknet's or a library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if _is_users[path]:
            return path, frame.f_lineno
        frame = frame.f_back
    return None


def shown(line: Line | None) -> str:
    """Return a line for a message: file, number, and the line's text."""
    if line is None:
        return "in sknet itself"
    text = linecache.getline(*line).strip()
    return f"in {line[0]}, line {line[1]}" + (f": `{text}`" if text else "")


def user_line() -> str:
    """Return the location of the user's code: file, line, and the text of the line.

    Returns
    -------
    str
        The location, for a message.

    Examples
    --------
    >>> from sknet.core import user_line
    >>> user_line().startswith("in ")
    True
    """
    return shown(line_of())


# -- writes to memory -------------------------------------------------------------------------
#
# A node of the tape has a place in time, its `order`. A write to memory notes the time at which it was
# made, for the array that owns the memory and for as long as that lives. As long as nothing was
# overwritten, nothing is looked up. For a value that was overwritten, a node's rules get a stand-in:
# its shape and dtype can still be read, its elements cannot.


class Change:
    """The latest write to the memory of an array: when, by what, and in which line of the user's code."""

    __slots__ = ("by", "line", "reference", "time")

    def __init__(self, reference: Any) -> None:
        self.reference = reference
        self.time = 0
        self.by: str | None = None
        self.line: Line | None = None


CHANGES: dict[int, Change] = {}


def owner_of(array: Any) -> Any:
    """Return the array that owns the memory which `array` is a view of."""
    base = getattr(array, "base", None)
    while base is not None:
        if is_array(base):
            array = base
        base = getattr(base, "base", None)  # NumPy puts an object of its own below a strided view
    return array


def note_write(array: Any, by: str | None = None) -> None:
    """Tell the tape that the memory of an array was overwritten, outside of any operation.

    Code that writes to memory from which a tensor may have been computed must call this after writing:
    a later ``backward`` that reads a value which was recorded before the write then raises a
    `GradientError` instead of mixing old results with new values. Takes about a microsecond.

    Parameters
    ----------
    array : array
        The overwritten array, on any device. All arrays that share its memory count as overwritten: one call
        for a buffer is enough for all its views.
    by : str, default=None
        The writer, for the message, such as ``"Model.step"``.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import Tensor
    >>> flat = np.ones(4)
    >>> weight = Tensor(flat[:2], requires_grad=True)
    >>> loss = (weight * weight).sum()
    >>> flat *= 0.9
    >>> note_write(flat, "the update")
    >>> loss.backward()
    Traceback (most recent call last):
        ...
    sknet.exceptions.GradientError: multiply: a value of shape (2,) that its gradient reads ...
    """
    if isinstance(array, MetaArray):
        return
    owner = owner_of(array)
    key = id(owner)
    change = CHANGES.get(key)
    if change is None or change.reference() is not owner:
        change = Change(weakref.ref(owner, lambda _: CHANGES.pop(key, None)))
    change.by, change.line, change.time = by, line_of(), next_time()
    CHANGES[key] = change


def any_older(order: list[Node]) -> bool:
    """Tell whether one of some nodes, which come newest first, was recorded before the latest write."""
    if not CHANGES:
        return False
    oldest = next((node.order for node in reversed(order) if node.primitive is not None), None)
    return oldest is not None and any(change.time > oldest for change in list(CHANGES.values()))


def unchanged_operands_of(node: Node) -> tuple[Any, list[Any]]:
    """Return the same as `operands_of`, with stand-ins for what was overwritten since."""
    out, inputs = operands_of(node)
    if not isinstance(node.primitive, Primitive):  # a custom function, which may read values in any way
        outputs = node.output if isinstance(node.output, tuple) else ()
        for value in (*outputs, *[getattr(x, "data", None) for x in inputs]):
            _check(node, value)
        return out, inputs
    for value in (node.params or {}).values():
        for part in value if isinstance(value, tuple) else (value,):
            _check(node, part)
    for x in (out, *inputs):
        data = getattr(x, "data", None)
        change = _change_of(node, data)
        if change is not None:
            x.data = _Overwritten(node, data, change)
    return out, inputs


def _change_of(node: Node, value: Any) -> Change | None:
    """Return the write to the memory of a value that came after its node, if there was one."""
    if isinstance(value, MetaArray) or not is_array(value):
        return None
    change = CHANGES.get(id(owner_of(value)))
    return change if change is not None and change.time > node.order else None


def _check(node: Node, value: Any) -> None:
    change = _change_of(node, value)
    if change is not None:
        _refuse(node, value.shape, change)


def _refuse(node: Node, shape: tuple[int, ...], change: Change) -> NoReturn:
    primitive: Any = node.primitive
    by = f"by {change.by}, " if change.by else ""
    raise GradientError(
        f"{primitive.name}: a value of shape {tuple(shape)} that its gradient reads was changed in place "
        f"after it was used, {by}{shown(change.line)}. Make a new tensor there (x = x + y in place of "
        "x += y, ops.where in place of x[index] = y), or make the change after backward()."
    )


class _Overwritten(TracedArray):
    """Replaces an overwritten array: a rule may read its shape and dtype; computing with it raises."""

    __slots__ = ("_change", "_node")

    def __init__(self, node: Node, array: Any, change: Change) -> None:
        super().__init__(array.shape, array.dtype, device_of(array))
        self._node, self._change = node, change

    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> NoReturn:
        _refuse(self._node, self.shape, self._change)

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self._node, self.shape, self._change)
