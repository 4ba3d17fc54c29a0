"""Python's operators on tensors: each names its primitive."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet.core import _bind
from sknet.core import _primitive as p
from sknet.core._bind import bind

if TYPE_CHECKING:
    from sknet.core._tensor import Tensor

__all__ = ["Operators", "as_operand"]


def as_operand(x: Any) -> Any:
    """Return tensors and scalars as they are; NumPy's scalars become Python's, so that they stay weak.

    Parameters
    ----------
    x : Tensor, number or array-like
        An operand.

    Returns
    -------
    Tensor, int, float or bool
        A tensor, or a number, which takes the dtype of what it is combined with.

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
    return x if isinstance(x, (_bind.TensorType, float, int)) else _bind.TensorType(x)


def _binary(primitive: p.Primitive, x: Any, y: Any) -> "Tensor":
    if not isinstance(x, _bind.TensorType):
        x = as_operand(x)
    elif not isinstance(y, _bind.TensorType):
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
