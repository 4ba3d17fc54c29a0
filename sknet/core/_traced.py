"""Arrays that a capture hands to a function in place of real ones."""

from abc import abstractmethod
from typing import Any, NoReturn

from sknet.core._primitive import Primitive
from sknet.device import Device, MetaArray

__all__ = ["TracedArray"]


class _NoDataError(AttributeError, TypeError):
    """A forward asked for something that only real arrays have; `bind` treats it as NumPy's TypeError."""


class TracedArray(MetaArray):
    """An array of which only shape, dtype and device are known: operations on it are recorded.

    `bind` asks it to `record` every primitive of which it is an operand. NumPy cannot compute with
    it: a function that takes the array out of its tensor gets an error that says so.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    dtype : dtype
        Its dtype.
    device : Device
        Where the array will live.

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

    @abstractmethod
    def record(self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, Any]) -> "TracedArray":
        """Note that `primitive` is applied to `inputs`, this array among them; return its result.

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
