"""Tensor: an array on a device, with the operators of Python, changes in place and NumPy's functions."""

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from sknet._constraints import is_integer, shown
from sknet._params import named_errors
from sknet.core import _primitive as p
from sknet.core import _tape
from sknet.core._backward import Hookable, from_here, move_keeping, newest_first, notes_of
from sknet.core._methods import Count, Methods
from sknet.core._primitive import normalize_axes
from sknet.core._tape import (
    Node,
    TracedArray,
    check_one_device,
    explained,
    leaf_node,
    modes,
    next_time,
    no_grad,
    note_write,
    user_line,
)
from sknet.device import (
    Device,
    MetaArray,
    available,
    backend_of,
    device_of,
    is_array,
    is_floating,
    to_device,
    to_host,
)
from sknet.exceptions import CaptureError, DeviceError, DtypeError, GradientError, ShapeError

bind: "Callable[[p.Primitive, tuple[Any, ...], dict[str, Any]], Tensor]" = _tape.bind


# -- operators of Python ----------------------------------------------------------------------


def as_operand(x: Any) -> Any:
    """Return tensors and scalars as they are; NumPy's scalars become Python's, so that they stay weak.

    Parameters
    ----------
    x : Tensor, number or array-like
        An operand.

    Returns
    -------
    Tensor, int, float or bool
        A tensor, or a number, which takes the dtype of the tensor it is combined with.

    Raises
    ------
    DtypeError
        If there is no tensor of such values.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.core import as_operand
    >>> as_operand(np.float64(2.0)), as_operand([1.0, 2.0])
    (2.0, Tensor([1., 2.], dtype=float64))
    """
    if isinstance(x, np.generic):
        x = x.item()
    return x if isinstance(x, (Tensor, float, int)) else Tensor(x)


def _binary(primitive: p.Primitive, x: Any, y: Any) -> "Tensor":
    if not isinstance(x, Tensor):
        x = as_operand(x)
    elif not isinstance(y, Tensor):
        y = as_operand(y)
    return bind(primitive, (x, y), {})


class Operators:
    """Python's operators; tensors inherit them."""

    __slots__ = ()

    # -- arithmetic and bits ------------------------------------------------------------------

    def __add__(self, other: Any) -> "Tensor":
        return _binary(p.add, self, other)

    def __radd__(self, other: Any) -> "Tensor":
        return _binary(p.add, other, self)

    def __sub__(self, other: Any) -> "Tensor":
        return _binary(p.subtract, self, other)

    def __rsub__(self, other: Any) -> "Tensor":
        return _binary(p.subtract, other, self)

    def __mul__(self, other: Any) -> "Tensor":
        return _binary(p.multiply, self, other)

    def __rmul__(self, other: Any) -> "Tensor":
        return _binary(p.multiply, other, self)

    def __truediv__(self, other: Any) -> "Tensor":
        return _binary(p.divide, self, other)

    def __rtruediv__(self, other: Any) -> "Tensor":
        return _binary(p.divide, other, self)

    def __floordiv__(self, other: Any) -> "Tensor":
        return _binary(p.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> "Tensor":
        return _binary(p.floor_divide, other, self)

    def __mod__(self, other: Any) -> "Tensor":
        return _binary(p.remainder, self, other)

    def __rmod__(self, other: Any) -> "Tensor":
        return _binary(p.remainder, other, self)

    def __pow__(self, other: Any) -> "Tensor":
        return _binary(p.power, self, other)

    def __rpow__(self, other: Any) -> "Tensor":
        return _binary(p.power, other, self)

    def __matmul__(self, other: Any) -> "Tensor":
        return _binary(p.matmul, self, other)

    def __rmatmul__(self, other: Any) -> "Tensor":
        return _binary(p.matmul, other, self)

    def __and__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_and, self, other)

    def __rand__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_and, other, self)

    def __or__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_or, self, other)

    def __ror__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_or, other, self)

    def __xor__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_xor, other, self)

    def __lshift__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_left_shift, self, other)

    def __rlshift__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_left_shift, other, self)

    def __rshift__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_right_shift, self, other)

    def __rrshift__(self, other: Any) -> "Tensor":
        return _binary(p.bitwise_right_shift, other, self)

    def __pos__(self) -> "Tensor":
        return bind(p.positive, (self,), {})

    def __neg__(self) -> "Tensor":
        return bind(p.negative, (self,), {})

    def __abs__(self) -> "Tensor":
        return bind(p.absolute, (self,), {})

    def __invert__(self) -> "Tensor":
        return bind(p.bitwise_invert, (self,), {})

    # -- comparison ---------------------------------------------------------------------------

    def __lt__(self, other: Any) -> "Tensor":
        return _binary(p.less, self, other)

    def __le__(self, other: Any) -> "Tensor":
        return _binary(p.less_equal, self, other)

    def __gt__(self, other: Any) -> "Tensor":
        return _binary(p.greater, self, other)

    def __ge__(self, other: Any) -> "Tensor":
        return _binary(p.greater_equal, self, other)

    def __eq__(self, other: object) -> "Tensor":  # type: ignore[override]
        return _binary(p.equal, self, other)

    def __ne__(self, other: object) -> "Tensor":  # type: ignore[override]
        return _binary(p.not_equal, self, other)

    __hash__ = object.__hash__


# -- changes in place -------------------------------------------------------------------------
#
# A tensor that is not on the tape is overwritten in memory, as in NumPy: every tensor and array that
# shares the memory sees the change, and a gradient that would need the old values is refused
# (`_tape.py`). On the tape the change is recorded: the tensor becomes the result of an operation on
# its old value. The old memory is left alone: nodes keep arrays rather than tensors, so what was
# computed from the old value keeps its gradient.


def _in_place(operation: Callable[[Any, Any], Any], sign: str) -> Any:
    def change(self: Any, other: Any) -> Any:
        if _is_recorded(self, other):
            _become(self, sign, lambda: operation(self, other))
        else:
            with no_grad():
                result = operation(self, other)
            _check_fits(self, result, sign)
            _write(self, sign, Ellipsis, result.data)
        return self

    return change


class Changeable:
    """The operators that change a tensor in place."""

    __slots__ = ()
    data: Any
    node: Node | None

    __iadd__ = _in_place(operator.add, "+=")
    __isub__ = _in_place(operator.sub, "-=")
    __imul__ = _in_place(operator.mul, "*=")
    __itruediv__ = _in_place(operator.truediv, "/=")
    __ifloordiv__ = _in_place(operator.floordiv, "//=")
    __imod__ = _in_place(operator.mod, "%=")
    __ipow__ = _in_place(operator.pow, "**=")
    __iand__ = _in_place(operator.and_, "&=")
    __ior__ = _in_place(operator.or_, "|=")
    __ixor__ = _in_place(operator.xor, "^=")

    def _memory_to_write(self) -> Any:
        """Return the array that a change in place writes to."""
        return self.data

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        index = plain_index(index)
        if isinstance(value, np.generic):
            value = value.item()
        given = value if isinstance(value, (Tensor, float, int)) else Tensor(value)
        array = given.data if isinstance(given, Tensor) else given
        if _is_recorded(self, given):
            if self.node is not None and self.node.primitive is p.getitem and _is_view(self.node):
                raise GradientError(
                    "x[i][j] = value: on the tape x[i] is a value of its own, and x would not change: "
                    "write x[i, j] = value for that, or make a new tensor with ops.where"
                )
            params = {"index": index}
            _become(self, "[]=", lambda: bind(p.setitem, (self, given), params))
            return
        check_one_device(p.setitem, [self.data, array])
        is_float = isinstance(array, float) or getattr(array, "dtype", np.dtype(int)).kind == "f"
        if (is_float and self.dtype.kind != "f") or isinstance(self.data, MetaArray):
            p.setitem.shape(self.data, array, index=index)
        _write(self, "[]=", index, array)


def plain_index(index: Any) -> Any:
    """Take the arrays out of the tensors in an index, and make arrays of lists."""
    return tuple([_plain_part(part) for part in index]) if isinstance(index, tuple) else _plain_part(index)


def _plain_part(part: Any) -> Any:
    if isinstance(part, Tensor):
        return part.data
    is_list = isinstance(part, (list, tuple))
    if not is_list and (
        isinstance(part, (int, np.generic)) or not hasattr(part, "__array__") or is_array(part)
    ):
        return part
    try:
        return np.asarray(part, dtype=np.intp if is_list and not part else None)
    except (CaptureError, GradientError):
        raise
    except Exception:  # of lists of different lengths, or one in itself
        raise IndexError(f"indexing: no array can be made of {shown(part)}") from None


def _is_view(taken: Node) -> bool:
    """Tell whether what an index took is a view in NumPy, so that a change was meant to reach its base."""
    index = taken.params["index"]  # type: ignore[index]
    parts = index if isinstance(index, tuple) else (index,)
    return not any((hasattr(part, "dtype") and part.ndim) or isinstance(part, bool) for part in parts)


def _is_recorded(x: Any, other: Any) -> bool:
    on_tape = x.node is not None or (isinstance(other, Tensor) and other.node is not None)
    return on_tape and modes.grad


def _become(x: "Tensor", sign: str, compute: "Callable[[], Tensor]") -> None:
    """Replace the value of a tensor by the result of an operation on it."""
    node = x.node
    if node is not None and node.primitive is None:
        raise GradientError(
            f"{sign}: a leaf that requires a gradient, of shape {x.shape}, cannot be changed in place on the "
            "tape: make a new tensor (x = x + y), or change it inside no_grad()"
        )
    if modes.capturing and (node is None or not isinstance(x.data, TracedArray)):
        raise _frozen(x, sign)
    if x.dtype.kind != "f":
        raise DtypeError(f"{sign}: a tensor of dtype {x.dtype} cannot have a gradient: use .astype first")
    result = compute()
    _check_fits(x, result, sign)
    if result.dtype != x.dtype:
        result = result.astype(x.dtype)
    x.data, x.node, x._resting = result.data, result.node, None
    if node is not None:
        move_keeping(node, x)


def _write(x: "Tensor", sign: str, index: Any, values: Any) -> None:
    if modes.capturing:
        raise _frozen(x, sign)
    data = x._memory_to_write()
    if isinstance(data, MetaArray):
        return
    owner = backend_of(data)
    try:
        with owner.activate(owner.device_of(data)):
            data[index] = values
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise explained(p.setitem, [data, values], {"index": index}, error) from error
    note_write(data)


def _check_fits(x: "Tensor", result: "Tensor", sign: str) -> None:
    if result.shape != x.shape:
        raise ShapeError(
            f"{sign}: a result of shape {result.shape} does not fit into the tensor of shape {x.shape}: "
            "make a new tensor"
        )
    if not np.can_cast(result.dtype, x.dtype, "same_kind"):
        raise DtypeError(
            f"{sign}: a result of dtype {result.dtype} does not fit into the tensor of dtype {x.dtype}: "
            "make a new tensor, or use .astype"
        )


def _frozen(x: "Tensor", sign: str) -> CaptureError:
    return CaptureError(
        f"{sign}: a tensor of shape {x.shape} is changed in place, {user_line()}. In a captured function the "
        "change would be made once, at capture: make a new tensor (x = x + y; ops.where for a part)."
    )


# -- functions of NumPy -----------------------------------------------------------------------

# Functions of `sknet.ops` by NumPy's of the same name, which ops/_methods.py fills in.
OF_NUMPY: dict[Any, Callable[..., Any]] = {}


class FromNumPy:
    """Support of NumPy's functions for tensors; tensors inherit it."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        operation = OF_NUMPY.get(ufunc)
        if operation is not None and method == "__call__" and not options:
            return operation(*inputs)
        name = f"np.{ufunc.__name__}" if method == "__call__" else f"np.{ufunc.__name__}.{method}"
        if options:
            name += f" with {', '.join(f'{option}=' for option in sorted(options))}"
        instead = _instead(operation)
        if "out" in options and ufunc.nin == 2:
            instead = f"`a = a + x` in place of `a += x` for an array a, or {instead}"
        _check_values(name, instead, (inputs, options))
        return getattr(ufunc, method)(*_values(inputs), **_values(options))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        operation = OF_NUMPY.get(function)
        if operation is None:  # such as np.shape, or np.allclose, which asks for the values itself
            return np.ndarray.__array_function__(np.empty(0), function, (), args, kwargs)
        _check_values(f"np.{function.__name__}", _instead(operation), (args, kwargs))
        return function(*_values(args), **_values(kwargs))


def _instead(operation: "Callable[..., Any] | None") -> str:
    return "the operations of sknet.ops" if operation is None else f"sknet.ops.{operation.__name__}"


def _check_values(name: str, instead: str, operands: Any) -> None:
    """Raise unless the values of all tensors may be taken out of them."""
    tensors = _tensors(operands)
    if any(isinstance(each.data, TracedArray) for each in tensors):
        raise CaptureError(
            f"{name} reads the values of a tensor, {user_line()}, and a captured function runs once, without "
            f"data: use {instead}"
        )
    if modes.grad and any(each.node is not None for each in tensors):
        raise GradientError(
            f"{name} computes with arrays, and the gradient of a tensor would be lost: use {instead}, or the "
            "values, x.detach().numpy()"
        )


def _tensors(operands: Any) -> list[Any]:
    """Return the tensors among nested operands."""
    if isinstance(operands, Tensor):
        return [operands]
    if isinstance(operands, dict):
        operands = tuple(operands.values())
    if isinstance(operands, (list, tuple)):
        return [tensor for each in operands for tensor in _tensors(each)]
    return []


def _values(operands: Any) -> Any:
    """Return nested operands with arrays in place of tensors."""
    if isinstance(operands, Tensor):
        return np.asarray(operands)
    if isinstance(operands, dict):
        return {name: _values(each) for name, each in operands.items()}
    if type(operands) in (list, tuple):
        return type(operands)(_values(each) for each in operands)
    return operands


# -- tensor -----------------------------------------------------------------------------------


class Tensor(Operators, Changeable, Hookable, FromNumPy, Methods):
    """Array on a device with automatic differentiation: it records how it was computed.

    Parameters
    ----------
    data : array-like or array of any device
        Values. Arrays are not copied; lists become NumPy arrays.
    requires_grad : bool, default=False
        Whether to record operations on this tensor, so that `backward` computes its `grad`.
    dtype : dtype, default=None
        Dtype to convert to; None keeps that of the data.
    device : str or Device, default=None
        Device to move the data to; None leaves it on its device.

    Attributes
    ----------
    data : array
        The values, an array of the device's own kind.
    grad : Tensor or None
        Sum of the gradients of all `backward` calls since it was None, for leaves and tensors with
        `retain_grad`. An assigned value must have the tensor's shape, dtype and device.

    Raises
    ------
    DtypeError
        For object, string or complex data, or a gradient of a tensor that is not floating.
    TypeError
        For a sparse matrix.

    Notes
    -----
    ``x[index] = value`` and ``x += y`` change a tensor in place. A tensor that is not on the tape, or any
    inside `no_grad`, is overwritten in memory, as in NumPy; a gradient that needs the old values then raises
    an error. On the tape the change is recorded: the tensor gets the new value, and tensors that share the
    old memory are not changed. A leaf that requires a gradient can be changed only inside `no_grad`, and no
    tensor while a function is captured. Code that writes to `data` itself has to call
    `sknet.core.note_write`.

    Examples
    --------
    >>> from sknet import Tensor
    >>> x = Tensor([1.0, 2.0, 4.0], requires_grad=True)
    >>> x.log().mean().backward()
    >>> x.grad.numpy()
    array([0.33333333, 0.16666667, 0.08333333])
    """

    __slots__ = ("__weakref__", "_grad", "_resting", "data", "node")
    __array_priority__ = 1000  # SciPy's matrices hand a product over

    data: Any
    _grad: "Tensor | None"
    node: Node | None
    # The node of a leaf whose requires_grad was set to False, and when that was: empty in all others
    _resting: tuple[Node, int] | None

    def __init__(
        self,
        data: Any,
        requires_grad: bool = False,
        dtype: DTypeLike | None = None,
        device: "str | Device | None" = None,
    ) -> None:
        self.data = _as_array(data, dtype, device)
        self._grad = None
        self.node = None
        if requires_grad:
            self.requires_grad = True

    # -- what it is ---------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of every axis."""
        return self.data.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.data.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return Count(self.data.size)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.data.dtype

    @property
    def device(self) -> Device:
        """The device that holds the data."""
        return device_of(self.data)

    @property
    def requires_grad(self) -> bool:
        """True if operations on this tensor are recorded."""
        return self.node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value == self.requires_grad:
            return  # a leaf keeps its node: it may be on the tape already
        if not self.is_leaf:
            raise GradientError(
                f"requires_grad can be set on leaves only, and this tensor is the result of "
                f"{self.node.primitive.name!r}: use .detach() for a leaf with the same values"  # type: ignore[union-attr]
            )
        if value and not is_floating(self.dtype):
            raise DtypeError(
                f"only floating-point tensors have gradients, this one is {self.dtype}: use .astype"
            )
        if value:
            self.node = _leaf_again(self)
        else:
            self._resting, self.node = (self.node, next_time()), None  # type: ignore[assignment]

    @property
    def grad(self) -> "Tensor | None":
        """The sum of the gradients of all `backward` calls since it was None."""
        return self._grad

    @grad.setter
    def grad(self, value: "Tensor | None") -> None:
        if value is not None:
            self._check_grad(value)
        self._grad = value

    def _check_grad(self, value: Any) -> None:
        """Raise if a value cannot be added to the gradients of this tensor."""
        if not isinstance(value, Tensor):
            raise TypeError(f"grad must be a Tensor or None, got {type(value).__name__}: use Tensor(...)")
        if value.shape != self.shape:
            raise ShapeError(f"grad must have the tensor's shape {self.shape}, got {value.shape}")
        if value.dtype != self.dtype:
            raise DtypeError(
                f"grad must have the tensor's dtype {self.dtype}, got {value.dtype}: "
                f"use .astype('{self.dtype}')"
            )
        if value.device != self.device:
            raise DeviceError(
                f"grad must be on the tensor's device '{self.device}', got '{value.device}': use .to"
            )

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was not computed from others that require a gradient."""
        return self.node is None or self.node.primitive is None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        start = f"{type(self).__name__}("
        values = (
            f"shape={self.shape}"
            if isinstance(self.data, MetaArray)
            else np.array2string(to_host(self.data), separator=", ", prefix=start, suffix=",")
        )
        device = "" if self.device.kind == "cpu" else f", device='{self.device}'"
        gradient = ", requires_grad=True" if self.requires_grad else ""
        return f"{start}{values}, dtype={self.dtype}{device}{gradient})"

    def __iter__(self) -> Iterator["Tensor"]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous: "
                "take one element, or reduce it first"
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    # -- leaving the tape or the device -------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the values as a NumPy array on the host; on the CPU it shares memory."""
        return to_host(self.data)

    def item(self) -> Any:
        """Return the one element as a Python scalar.

        Raises
        ------
        ValueError
            If there is not exactly one element.
        """
        if self.size != 1:
            raise ValueError(
                f"item() needs a tensor with one element, got shape {self.shape}: for each element use the "
                "functions of sknet.ops or NumPy, not those of math"
            )
        return to_host(self.data).item()

    def detach(self) -> "Tensor":
        """Return a tensor of the same data that is not on the tape."""
        return make_tensor(self.data, None)

    def to(self, device: "str | Device") -> "Tensor":
        """Return this tensor's values on another device, as a leaf that is not on the tape.

        Raises
        ------
        DeviceError
            If there is no such device here.
        """
        return make_tensor(to_device(self.data, available(device)), None)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.device.kind != "cpu":
            raise TypeError(f"a tensor on device '{self.device}' is not converted implicitly: use .numpy()")
        if self.node is not None and modes.grad:
            raise GradientError(
                f"a tensor of shape {self.shape} that requires a gradient is converted to an array, and the "
                "gradient would be lost: use sknet.ops (ops.matmul takes a sparse matrix), or .numpy()"
            )
        return np.array(self.data, dtype=dtype, copy=copy)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        if not self.is_leaf:
            raise GradientError("only leaves can be copied deeply: use .detach() first")
        copy = type(self).__new__(type(self))
        copy.data, copy._grad, copy.node = deepcopy(self.data, memo), None, None
        copy.requires_grad = self.requires_grad
        return copy

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise GradientError("only leaves can be pickled: use .detach() first")
        return Tensor, (to_host(self.data), self.requires_grad)

    def backward(
        self,
        gradient: "Tensor | None" = None,
        create_graph: bool = False,
        *,
        retain_graph: bool = True,
        inputs: "Tensor | Sequence[Tensor] | None" = None,
    ) -> None:
        """Add the gradient of this tensor to the `grad` of every leaf it was computed from.

        The `gradient` with respect to this tensor may be omitted for a scalar. `create_graph` records the
        computation of the gradients, so that they can be differentiated. ``retain_graph=False`` frees the
        memory of the tape for all tensors that this one was computed from. `inputs`, leaves or not, get a
        `grad` instead of all leaves.

        Raises
        ------
        GradientError
            If it does not depend on a tensor that requires a gradient, if it is not a scalar and `gradient`
            is missing, if `inputs` is empty or one of them requires no gradient, or if `create_graph` needs
            the tape that ``retain_graph=False`` would free.
        """
        from_here(self, gradient, create_graph, retain_graph, inputs)

    # -- indexing -----------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> "Tensor":
        if isinstance(index, Tensor) and index.dtype.kind in "iu" and self.ndim:
            return bind(p.take, (self, index), {"axis": -self.ndim})  # may be computed where it is captured
        return bind(p.getitem, (self,), {"index": plain_index(index)})

    # -- common methods -----------------------------------------------------------------------

    def sum(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Tensor":
        """Sum over `axis` (all axes for None).

        If `keepdims` is true, reduced axes are kept with length 1.
        """
        return bind(p.total, (self,), {"axis": normalize_axes(axis, self.ndim, "sum"), "keepdims": keepdims})

    def mean(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Tensor":
        """Mean over `axis` (all axes for None).

        If `keepdims` is true, reduced axes are kept with length 1.
        """
        axes = normalize_axes(axis, self.ndim, "mean")
        count = math.prod([self.shape[a] for a in axes])
        total = bind(p.total, (self,), {"axis": axes, "keepdims": keepdims})
        return (
            total / count if count else total * math.nan
        )  # the mean of no elements is NaN, without a warning

    def max(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Tensor":
        """Largest element over `axis` (all axes for None).

        If `keepdims` is true, reduced axes are kept with length 1.
        """
        return bind(
            p.maximum_of, (self,), {"axis": normalize_axes(axis, self.ndim, "max"), "keepdims": keepdims}
        )

    def min(self, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> "Tensor":
        """Smallest element over `axis` (all axes for None).

        If `keepdims` is true, reduced axes are kept with length 1.
        """
        return bind(
            p.minimum_of, (self,), {"axis": normalize_axes(axis, self.ndim, "min"), "keepdims": keepdims}
        )

    def exp(self) -> "Tensor":
        """Exponential, elementwise."""
        return bind(p.exp, (self,), {})

    def log(self) -> "Tensor":
        """Natural logarithm, elementwise."""
        return bind(p.log, (self,), {})

    def sqrt(self) -> "Tensor":
        """Square root, elementwise."""
        return bind(p.sqrt, (self,), {})

    def reshape(self, *shape: Any) -> "Tensor":
        """Same elements in another shape, given as a tuple or as integers; one length may be -1.

        Raises
        ------
        ShapeError
            If a length is not an integer, or the number of elements differs.
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if not all(is_integer(length) for length in wanted):
            raise ShapeError(f"reshape: lengths must be integers, got {shown(tuple(wanted))}")
        return bind(p.reshape, (self,), {"shape": tuple(wanted)})

    def permute_dims(self, *axes: Any) -> "Tensor":
        """Exchange axes: `axes` is their new order, as a tuple or as integers."""
        wanted = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return bind(
            p.permute_dims, (self,), {"axes": normalize_axes(tuple(wanted), self.ndim, "permute_dims")}
        )

    @property
    def T(self) -> "Tensor":
        """Axes in reverse order."""
        return bind(p.permute_dims, (self,), {"axes": tuple(range(-1, -self.ndim - 1, -1))})

    @named_errors
    def astype(self, dtype: DTypeLike) -> "Tensor":
        """Elements converted to `dtype`."""
        wanted = _real(np.dtype(dtype))
        # Rounded to integers, the result is piecewise constant: no gradient flows.
        source = self if wanted.kind == "f" else self.detach()
        return bind(p.astype, (source,), {"dtype": wanted})


def make_tensor(data: Any, node: Node | None) -> Tensor:
    """Return a tensor of `data`, an array, that is the result of `node`; nothing is checked."""
    tensor = Tensor.__new__(Tensor)
    tensor.data = data
    tensor._grad = None
    tensor.node = node
    return tensor


# The slot's descriptor: reading an empty slot by it does not search for similar names.
_resting_of = vars(Tensor)["_resting"].__get__


def resting_node(tensor: Tensor) -> Node | None:
    """Return the node that a frozen leaf had when it last required a gradient; None without one."""
    try:
        found: tuple[Node, int] | None = _resting_of(tensor)
    except AttributeError:
        return None
    return None if found is None else found[0]


def _leaf_again(tensor: Tensor) -> Node:
    """Return the node of a thawed leaf: its former one, which a tape may refer to, or a new one."""
    node = resting_node(tensor)
    if node is None:
        return leaf_node(tensor)
    notes = notes_of(node)
    notes.absences = (*notes.absences, (_resting_of(tensor)[1], next_time()))
    return node


def as_tensor(x: Any) -> Tensor:
    """Return tensors as they are and everything else as a tensor that needs no gradient.

    Parameters
    ----------
    x : Tensor, array or array-like
        The values.

    Returns
    -------
    Tensor
        The same values, without a copy if possible.

    Raises
    ------
    DtypeError
        If there is no tensor of such values.

    Examples
    --------
    >>> as_tensor([1, 2]).shape
    (2,)
    """
    return x if isinstance(x, Tensor) else Tensor(x)


def _as_array(data: Any, dtype: DTypeLike | None, device: "str | Device | None") -> Any:
    if isinstance(data, Tensor):
        data = data.data
    if type(data) is np.ndarray:
        pass
    elif not is_array(data) or isinstance(data, np.ndarray):
        data = _converted(data)
    elif backend_of(data).is_sparse(data):
        raise TypeError(
            f"a tensor is dense, got a sparse matrix of shape {data.shape}: "
            "pass it to sknet.ops.matmul as it is"
        )
    _real(data.dtype)
    if dtype is not None and data.dtype != np.dtype(dtype):
        data = data.astype(_real(np.dtype(dtype)))
    return data if device is None else to_device(data, available(device))


def _converted(data: Any) -> Any:
    try:
        return np.asarray(data)
    except (GradientError, TypeError, ValueError) as error:
        if isinstance(data, (tuple, list)) and any(isinstance(x, Tensor) for x in data):
            raise DtypeError(
                f"expected one array, got a {type(data).__name__} of {len(data)} with tensors in it: take "
                "one of them, or join them with ops.stack. A layer that returns several says how to get one, "
                'such as nn.LSTM(..., returns="last")'
            ) from error
        if isinstance(error, ValueError):
            raise DtypeError(f"a tensor needs a rectangular array of numbers: {error}") from error
        raise


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "biuf":
        raise DtypeError(f"a tensor holds booleans, integers or real numbers, got dtype {dtype}")
    return dtype


_tape.TensorType = Tensor
_tape.make_tensor = make_tensor


# -- leaves without a record ------------------------------------------------------------------


def untracked_leaves(
    output: Tensor, leaves: Sequence[Tensor], frozen: Sequence[Tensor] = ()
) -> list[Tensor] | None:
    """Return the leaves that an output may have been computed from without a record of it."""
    if output.node is None:
        return None
    nodes = newest_first(output.node)
    own = {leaf.node for leaf in leaves}
    if output.node not in own and not any(p in own for node in nodes for p in node.parents if p):
        return None
    own.update(node for node in map(resting_node, frozen) if node is not None)
    uses = [node.order for node in nodes if any(p in own for p in node.parents if p)]
    return [
        leaf for leaf in leaves if any(start < use < end for start, end in _absences(leaf) for use in uses)
    ]


def _absences(leaf: Tensor) -> list[tuple[int, int]]:
    """Return from when until when a leaf required no gradient."""
    notes = getattr(leaf.node, "notes", None)
    return [(-1, leaf.node.order), *([] if notes is None else notes.absences)]  # type: ignore[union-attr]
