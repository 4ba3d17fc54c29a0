"""The values of a step: arrays and numbers with named axes, by how each is computed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Union

import numpy as np

from sknet.exceptions import CaptureError

__all__ = [
    "Along", "ArrayCall", "Assembly", "Axis", "Columns", "Given", "HostCall", "Map", "Mask", "Operand",
    "Pasted", "Product", "Products", "Reduction", "Rows", "UnsupportedError", "Value", "View",
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

    __slots__ = ("_beside", "_same", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._same: Axis | None = None
        self._beside: set[Axis] = set()

    @property
    def root(self) -> "Axis":
        """The one axis that represents all that are the same."""
        return self if self._same is None else self._same.root

    def unite(self, other: "Axis") -> None:
        """Let two axes be the same one."""
        a, b = self.root, other.root
        if a is not b:
            b._same = a
            a._beside |= b._beside

    def place_beside(self, other: "Axis") -> None:
        """Remember that some value has both axes, so that they must never be the same one."""
        a, b = self.root, other.root
        if a is not b:
            a._beside.add(b)
            b._beside.add(a)

    def may_unite(self, other: "Axis") -> bool:
        """Tell whether no value would have an axis twice if these were the same one."""
        a, b = self.root, other.root
        return a is b or all(axis.root is not b for axis in a._beside)


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
    """A sum, inner product, maximum, minimum or chosen element over axes of its first operand.

    Parameters
    ----------
    op : {"sum", "inner", "max", "min", "pick"}
        Which.
    keeps_nan : bool, default=True
        Of a maximum or minimum: whether it is NaN where an element is.
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

    @property
    def is_extreme(self) -> bool:
        """Whether it is one of the elements: a maximum or a minimum."""
        return self.op in ("max", "min")


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
    strides : tuple of int
        In bytes, of its axes that are longer than 1.
    """

    applied: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    is_contiguous: bool
    is_permuted: bool
    strides: Shape

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

    @property
    def result(self) -> Shape:
        """The shape of the result as a matrix."""
        return self.shapes[0][0], self.shapes[1][1]


@dataclass(eq=False, repr=False, kw_only=True)
class Products(ArrayCall):
    """Products of the matrices of two stacks.

    Parameters
    ----------
    stacks : tuple of three forms
        How the arrays of both factors and of the result are seen: shape, the shape that it is broadcast to,
        and the shape in which axes of the stack that lie behind each other in all three are one.
    """

    stacks: tuple[tuple[Shape, Shape, Shape], ...]


@dataclass(eq=False, repr=False, kw_only=True)
class Mask(ArrayCall):
    """The mask of a dropout, or without `p` uniform draws; its operand is the step."""

    key: tuple[int, int]
    site: int
    p: float | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Columns(ArrayCall):
    """Zeros, but for some columns: an index as source, and the shape of the given values."""

    columns: str
    given: Shape


@dataclass(eq=False, repr=False, kw_only=True)
class Rows(ArrayCall):
    """Rows that an index names are taken from an array, or added to zeros.

    Parameters
    ----------
    adds : bool
        Whether they are added.
    around : tuple of three int
        Elements before, along and behind the axis of the longer array.
    from_end : bool
        Whether negative indices count from the end.
    """

    adds: bool
    around: tuple[int, int, int]
    from_end: bool


@dataclass(eq=False, repr=False, kw_only=True)
class Along(Rows):
    """Like `Rows`, with an index for each element behind the axis."""


@dataclass(eq=False, repr=False, kw_only=True)
class Pasted(ArrayCall):
    """An array whose parts are copied from others.

    Parameters
    ----------
    places : tuple of index
        Where each operand goes, in the array of this value's shape; later ones cover earlier ones.
    given : tuple of shape
        Those of the operands, which are broadcast to their places.
    fill : float or None
        What is elsewhere; None where the parts leave nothing.
    """

    places: tuple[Any, ...]
    given: tuple[Shape, ...]
    fill: float | None


@dataclass(eq=False, repr=False, kw_only=True)
class Assembly(Pasted):
    """A flat array whose parts begin at `starts`."""

    starts: tuple[int, ...]


@dataclass(eq=False, repr=False, kw_only=True)
class HostCall(ArrayCall):
    """What NumPy computes, called from native code.

    Parameters
    ----------
    forward : callable
        ``forward(*arrays)``; it may take ``scratch`` and ``out`` besides.
    given : tuple of shape or ndarray
        For each argument the shape of an operand, in order, or a constant.
    scratch : tuple of (shape, dtype)
        Arrays that it works in.
    writes_out : bool
        Whether it takes ``out``; else its result is copied.
    """

    forward: Callable[..., Any]
    given: tuple[Any, ...]
    scratch: tuple[tuple[Shape, Any], ...]
    writes_out: bool
