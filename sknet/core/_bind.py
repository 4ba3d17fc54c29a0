"""Applying a primitive: compute, and record what a gradient will need."""

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from sknet.core._modes import modes
from sknet.core._primitive import Primitive
from sknet.core._traced import traced_among
from sknet.device import MetaArray, backend_of, device_of, is_array
from sknet.device import backend as _backend
from sknet.exceptions import CaptureError, DeviceError, DtypeError, NonFiniteError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["Node", "Shaped", "bind", "check_one_device", "explained", "next_time", "operands_of"]

NUMPY = _backend("cpu")
_SCALARS = (float, int)
_clock = itertools.count()

# Filled in by _tensor.py: a tensor is made of nodes, and nodes of tensors.
TensorType: "type[Tensor]" = cast(Any, None)
make_tensor: "Callable[[Any, Node | None], Tensor]" = cast(Any, None)


def next_time() -> int:
    """Return a time later than all returned before, for a node or a write."""
    return next(_clock)


class Shaped:
    """Shape and dtype of a value that no vjp rule reads, kept in its place.

    Parameters
    ----------
    shape : tuple of int
        Of the value.
    dtype : dtype
        Of the value.

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


def bind(primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> "Tensor":
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


def operands_of(node: Node) -> "tuple[Tensor | None, list[Any]]":
    """Return what the rules of a node are called with: its result, if that was kept, and its inputs."""
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
