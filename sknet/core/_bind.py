"""Applying a primitive: compute, and record what a gradient will need."""

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core._modes import modes
from sknet.core._primitive import Primitive
from sknet.device import MetaArray, backend_of, device_of
from sknet.device import backend as _backend
from sknet.exceptions import DeviceError, DtypeError, ShapeError

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["Node", "Shaped", "bind"]

NUMPY = _backend("cpu")
_clock = itertools.count()


class Shaped:
    """Shape and dtype of a value that no vjp rule reads, kept in its place."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)


class Node:
    """One application of a primitive on the tape, or (without a primitive) a leaf.

    A node never refers to the tensor it produced, only to that tensor's array where a rule needs
    it: so the tape holds no reference cycles, and memory is freed the moment it can be.
    """

    __slots__ = ("inputs", "order", "output", "params", "parents", "primitive")

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


def bind(primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> "Tensor":
    """Apply a primitive to tensors (and weakly typed scalars), recording it if a gradient may be asked for.

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
    ShapeError, DtypeError, DeviceError
        If the operands do not fit; the message names the operation and the operands.
    """
    arrays = [x.data if isinstance(x, TensorType) else x for x in inputs]
    try:
        if type(arrays[0]) is np.ndarray:
            out = primitive.kernel(NUMPY)(*arrays, **params)
            if type(out) is not np.ndarray:
                out = np.asarray(out)
        else:
            out = _forward_elsewhere(primitive, arrays, params)
    except (ValueError, TypeError, IndexError) as error:
        raise _explained(primitive, arrays, params, error) from error

    if modes.grad and primitive.vjp is not None:
        parents = tuple([x.node if isinstance(x, TensorType) else None for x in inputs])
        if any(parents):
            return make_tensor(out, _record(primitive, parents, inputs, out, params))
    return make_tensor(out, None)


def _record(
    primitive: Primitive, parents: tuple[Node | None, ...], inputs: tuple[Any, ...], out: Any, params: dict[str, Any]
) -> Node:
    saves = primitive.saves
    if saves == "output" or saves == "nothing":
        inputs = tuple([Shaped(x.data.shape, x.data.dtype) if isinstance(x, TensorType) else x for x in inputs])
    if saves == "inputs" or saves == "nothing":
        out = None
    return Node(primitive, parents, inputs, out, params)


def _forward_elsewhere(primitive: Primitive, arrays: list[Any], params: dict[str, Any]) -> Any:
    """Compute where not all is NumPy: on another device, on the meta device, or with a scalar first."""
    owners = [x for x in arrays if hasattr(x, "dtype")]
    if any(type(x) is MetaArray for x in owners):
        return MetaArray(*primitive.shape(*arrays, **params))
    owner = backend_of(owners[0])
    with owner.activate(owner.device_of(owners[0])):
        out = primitive.kernel(owner)(*arrays, **params)
        return out if isinstance(out, owner.array_type) else owner.xp.asarray(out)


def _explained(primitive: Primitive, arrays: list[Any], params: dict[str, Any], error: Exception) -> Exception:
    """Return the error a user can act on: which operation, which operands."""
    if isinstance(error, (ShapeError, DtypeError, DeviceError)):
        return error
    operands = [x for x in arrays if hasattr(x, "dtype")]
    devices = {str(device_of(x)) for x in operands}
    if len(devices) > 1:
        return DeviceError(
            f"{primitive.name}: operands live on different devices {sorted(devices)}; move them to one with .to(device)"
        )
    try:
        primitive.shape(*[MetaArray(x.shape, x.dtype) if hasattr(x, "dtype") else x for x in arrays], **params)
    except (ShapeError, DtypeError) as found:
        return found
    except Exception:  # noqa: BLE001  the shape rule has nothing better to say than the first error
        pass
    shown = ", ".join(f"{x.dtype}{tuple(x.shape)}" for x in operands)
    kind = DtypeError if isinstance(error, TypeError) else ShapeError
    return kind(f"{primitive.name}: cannot compute with operands {shown}: {error}")


# Filled in by _tensor.py: a tensor is made of nodes, and nodes of tensors.
TensorType: type
make_tensor: Any
