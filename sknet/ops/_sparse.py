"""Products with a sparse matrix, which is a constant: it has no gradient, and is never made dense."""

from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, TracedArray, bind, is_capturing
from sknet.core.extend import param_kinds as kinds
from sknet.device import Device, Namespace, backend_of, device_of, is_array
from sknet.exceptions import CaptureError, DeviceError, DtypeError, ShapeError

__all__ = ["SparseSlot", "is_sparse"]


class SparseSlot:
    """A placeholder in a captured function for sparse matrices of one shape.

    A captured function would freeze the values of a matrix. It keeps a slot, and reads the slot's
    current `matrix` when it runs.

    Parameters
    ----------
    shape : tuple of two int
        Of every matrix.
    dtype : dtype
        Of every matrix.

    Attributes
    ----------
    matrix : CSR matrix or None
        The current matrix; set it before each run.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from sknet import ops
    >>> from sknet.compile import compile
    >>> slot = ops.SparseSlot((2, 2), "float64")
    >>> function = compile(lambda weight: ops.matmul(slot, weight), (np.ones(2),))
    >>> slot.matrix = scipy.sparse.csr_array([[0.0, 2.0], [0.0, 0.0]])
    >>> function(np.ones(2))
    array([2., 0.])
    """

    def __init__(self, shape: tuple[int, int], dtype: Any) -> None:
        self.shape, self.dtype, self.device = shape, np.dtype(dtype), Device("cpu")
        self.matrix: Any = None

    @property
    def ndim(self) -> int:
        """Number of axes: two."""
        return len(self.shape)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise CaptureError(
            f"a sparse batch of shape {tuple(self.shape)} is known only when the captured function runs, "
            "and only sknet.ops.matmul can read it, as in nn.Linear: for anything else make it dense first"
        )

    __array__ = __getitem__ = _refused

    def toarray(self) -> Any:
        """Raise a CaptureError: the matrix of a slot is known only when the captured function runs."""
        return self._refused()

    @property
    def key(self) -> tuple[Any, ...]:
        """Shape and dtype: slots that agree in them can stand in for each other in a program."""
        return type(self), tuple(self.shape), self.dtype

    def __repr__(self) -> str:
        return f"SparseSlot({tuple(self.shape)}, {self.dtype})"


def is_sparse(x: Any) -> bool:
    """Tell whether x is a sparse matrix of a known device, or a slot for one."""
    if isinstance(x, (Tensor, np.ndarray)):
        return False
    return isinstance(x, SparseSlot) or (is_array(x) and backend_of(x).is_sparse(x))


def _sparse_shape(y: Any, matrix: Any, transposed: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    rows, columns = matrix.shape[::-1] if transposed else matrix.shape
    if len(y.shape) not in (1, 2) or columns != y.shape[0]:
        raise ShapeError(
            f"matmul: a sparse matrix of shape {(rows, columns)} does not fit an operand of shape "
            f"{tuple(y.shape)}: expected ({columns},) or ({columns}, m)"
        )
    if matrix.dtype != y.dtype:
        raise DtypeError(
            f"matmul: a sparse matrix of {matrix.dtype} does not fit an operand of {y.dtype}: "
            "convert one of them with .astype"
        )
    return (rows, *y.shape[1:]), y.dtype


def _sparse_forward(xp: Namespace, y: Any, *, matrix: Any, transposed: bool) -> Any:
    _sparse_shape(y, matrix, transposed)  # the product of two dtypes would silently be of the wider one
    held = matrix.matrix if isinstance(matrix, SparseSlot) else matrix
    if held is None:
        raise ValueError(f"{matrix!r} is empty: set its `matrix` before the product is computed")
    return (held.T if transposed else held) @ y


MATRIX = kinds.ParamKind("a sparse matrix", lambda x, _: isinstance(x, SparseSlot) or is_sparse(x))

_sparse = Primitive("sparse_matmul").define(
    forward=_sparse_forward,
    shape=_sparse_shape,
    params={"matrix": MATRIX, "transposed": kinds.FLAG},
    vjp=(lambda g, _, y, matrix, transposed: sparse_matmul(matrix, g, not transposed),),
    saves="nothing",
    writes_out=False,
)


def sparse_matmul(matrix: Any, y: Tensor, transposed: bool = False) -> Tensor:
    """Return the product of a sparse matrix (or its transpose) and a tensor."""
    if isinstance(matrix, SparseSlot) and is_capturing() and not isinstance(y.data, TracedArray):
        raise CaptureError(
            "the product of a SparseSlot and a constant would be frozen: the matrix of a slot is known only "
            "when the captured function runs. Pass the other operand as an argument of the function."
        )
    place = matrix.device if isinstance(matrix, SparseSlot) else device_of(matrix)
    if y.device.kind != "meta" and y.device != place:
        raise DeviceError(
            f"matmul: a sparse matrix on device '{place}' does not fit an operand on '{y.device}': "
            "move one of them"
        )
    return bind(_sparse, (y,), {"matrix": matrix, "transposed": transposed})
