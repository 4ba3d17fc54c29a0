"""The values of a step: arrays and numbers with named axes, by how each is computed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from sknet.exceptions import CaptureError

__all__ = [
    "ArrayCall", "Assembly", "Axis", "Columns", "Given", "Map", "Mask", "Operand", "Product", "Reduction",
    "UnsupportedError", "Value", "View",
]  # fmt: skip

Shape = tuple[int, ...]
Operand = Union["Value", bool, int, float]
GIVEN, UNSCHEDULED = -1, -2  # in place of the number of the unit that computes a value


class UnsupportedError(CaptureError):
    """A graph that the native executor does not know how to compute; NumPy's executor does."""


class Axis:
    """An axis that several values share: loops run over axes, whatever their lengths.

    Parameters
    ----------
    size : int
        Its length in the graph at hand.
    """

    __slots__ = ("_same", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._same: Axis | None = None

    @property
    def root(self) -> "Axis":
        """The one axis that represents all that are the same."""
        return self if self._same is None else self._same.root

    def unite(self, other: "Axis") -> None:
        """Let two axes be the same one."""
        a, b = self.root, other.root
        if a is not b:
            b._same = a


@dataclass(eq=False, repr=False)
class Value:
    """One value of a step; its class says how it is computed.

    Parameters
    ----------
    name : str
        Unique; element variables of the source have it.
    operands : tuple of Value or number
        What it is computed from.
    own_axes : tuple of Axis
        Its axes; those of length 1 do not count.
    dtype : dtype
        Its dtype.
    shape : tuple of int
        Its shape, with axes of length 1.

    Attributes
    ----------
    home : int
        Number of the unit that computes it, or `GIVEN` or `UNSCHEDULED`.
    stored : bool
        Whether it has memory.
    """

    name: str
    operands: tuple[Operand, ...]
    own_axes: tuple[Axis, ...]
    dtype: np.dtype[Any]
    shape: Shape
    home: int = field(default=UNSCHEDULED, init=False)
    stored: bool = field(default=False, init=False)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Its axes, each by the one that represents all that are the same."""
        return tuple([axis.root for axis in self.own_axes])

    @property
    def space(self) -> tuple[Axis, ...]:
        """The axes of the loop that computes it."""
        return self.axes

    @property
    def values(self) -> list["Value"]:
        """The operands that are not numbers."""
        return [x for x in self.operands if isinstance(x, Value)]

    @property
    def is_placed(self) -> bool:
        """Whether it is given, or some unit computes it."""
        return self.home != UNSCHEDULED

    @property
    def is_local(self) -> bool:
        """Whether it is one number that a local variable holds."""
        return False

    @property
    def is_row_reduction(self) -> bool:
        """Whether it is a reduction that one row of the space suffices for."""
        return False

    @property
    def needs_all_rows(self) -> bool:
        """Whether it is known only after all rows of its space have been visited."""
        return False

    @property
    def lengths(self) -> Shape:
        """Its shape, without axes of length 1."""
        return tuple([axis.size for axis in self.own_axes])

    def __repr__(self) -> str:
        kind = " ".join([type(self).__name__, *([self.op] if isinstance(self, (Map, Reduction)) else [])])
        return f"{self.name}: {kind} {list(self.lengths)}"


@dataclass(eq=False, repr=False)
class Given(Value):
    """An argument or a constant; `is_number` if a local variable holds it."""

    is_number: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.home, self.stored = GIVEN, True

    @property
    def is_local(self) -> bool:
        """Whether it is one number that a local variable holds."""
        return self.is_number and not self.own_axes


@dataclass(eq=False, repr=False, kw_only=True)
class Map(Value):
    """Computed element by element, by the operation `op`: a primitive's name."""

    op: str

    @property
    def is_local(self) -> bool:
        """Whether it is one number that a local variable holds."""
        return not self.own_axes


@dataclass(eq=False, repr=False, kw_only=True)
class Reduction(Value):
    """A sum, inner product, maximum or chosen element over axes of its first operand.

    Parameters
    ----------
    op : {"sum", "inner", "max", "pick"}
        Which.
    keeps_nan : bool, default=True
        Of a maximum: whether it is NaN where an element is.
    """

    op: str
    keeps_nan: bool = True

    @property
    def space(self) -> tuple[Axis, ...]:
        """The axes of the loop that computes it."""
        return self.values[0].axes

    @property
    def is_local(self) -> bool:
        """Whether it is one number that a local variable holds."""
        return not self.own_axes

    @property
    def is_row_reduction(self) -> bool:
        """Whether it is a reduction that one row of the space suffices for."""
        return len(self.space) == 2 and self.axes == self.space[:1]

    @property
    def needs_all_rows(self) -> bool:
        """Whether it is known only after all rows of its space have been visited."""
        return not self.is_row_reduction


@dataclass(eq=False, repr=False, kw_only=True)
class View(Value):
    """A view of its operand's array.

    Parameters
    ----------
    applied : callable
        Makes it of the operand's array.
    is_contiguous : bool
        Whether it is C-contiguous.
    is_permuted : bool
        Whether it has the operand's axes in another order.
    """

    applied: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    is_contiguous: bool
    is_permuted: bool

    @property
    def source(self) -> Value:
        """What it is a view of."""
        return self.values[0]


@dataclass(eq=False, repr=False)
class ArrayCall(Value):
    """Computed by a function over whole arrays."""

    def __post_init__(self) -> None:
        self.stored = True


@dataclass(eq=False, repr=False, kw_only=True)
class Product(ArrayCall):
    """A product of matrices of these shapes."""

    shapes: tuple[Shape, Shape]


@dataclass(eq=False, repr=False, kw_only=True)
class Mask(ArrayCall):
    """The mask of a dropout: its operand is the step, the rest are the parameters of `dropout_mask`."""

    key: tuple[int, int]
    site: int
    p: float


@dataclass(eq=False, repr=False, kw_only=True)
class Columns(ArrayCall):
    """Zeros, but for some columns: an index as source, and the shape of the given values."""

    columns: str
    given: Shape


@dataclass(eq=False, repr=False, kw_only=True)
class Assembly(Value):
    """A flat array whose parts begin at `starts`."""

    starts: tuple[int, ...]
