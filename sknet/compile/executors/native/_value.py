"""The values of a step: arrays and numbers with named axes, classified by how each is computed."""

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
GIVEN, UNSCHEDULED = -1, -2  # instead of the index of the stage that computes a value


class UnsupportedError(CaptureError):
    """A graph that the native executor cannot compute; the NumPy executor can."""


class Axis:
    """An axis that several values share; loops run over axes, whatever their lengths.

    Parameters
    ----------
    size : int
        Its length in this graph.
    """

    __slots__ = ("_beside", "_same", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._same: Axis | None = None
        self._beside: set[Axis] = set()

    @property
    def root(self) -> "Axis":
        """The representative of all axes that have been united with this one."""
        return self if self._same is None else self._same.root

    def unite(self, other: "Axis") -> None:
        """Make two axes the same one."""
        a, b = self.root, other.root
        if a is not b:
            b._same = a
            a._beside |= b._beside

    def place_beside(self, other: "Axis") -> None:
        """Record that some value has both axes, so that they must never be united."""
        a, b = self.root, other.root
        if a is not b:
            a._beside.add(b)
            b._beside.add(a)

    def may_unite(self, other: "Axis") -> bool:
        """Tell whether uniting the axes leaves no value with the same axis twice."""
        a, b = self.root, other.root
        return a is b or all(axis.root is not b for axis in a._beside)


@dataclass(eq=False, repr=False)
class Value:
    """One value of a step; its class says how it is computed.

    Parameters
    ----------
    name : str
        Unique; also the name of the variable for an element in the source.
    operands : tuple of Value or number
        Operands that it is computed from.
    own_axes : tuple of Axis
        Its axes, except those of length 1.
    dtype : dtype
        Its dtype.
    shape : tuple of int
        Its shape, including axes of length 1.

    Attributes
    ----------
    stage : int
        Index of the stage that computes it, or `GIVEN` or `UNSCHEDULED`.
    stored : bool
        Whether it has memory.
    """

    name: str
    operands: tuple[Operand, ...]
    own_axes: tuple[Axis, ...]
    dtype: np.dtype[Any]
    shape: Shape
    stage: int = field(default=UNSCHEDULED, init=False)
    stored: bool = field(default=False, init=False)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Its axes, each as the representative of those united with it."""
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
    def is_scheduled(self) -> bool:
        """Whether it is given, or assigned to a stage."""
        return self.stage != UNSCHEDULED

    @property
    def is_local(self) -> bool:
        """Whether it is one number, held in a local variable."""
        return False

    @property
    def is_row_reduction(self) -> bool:
        """Whether it is a reduction that needs only one row of its space."""
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
    """An argument or a constant; `is_number` if it is held in a local variable."""

    is_number: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.stage, self.stored = GIVEN, True

    @property
    def is_local(self) -> bool:
        """Whether it is one number, held in a local variable."""
        return self.is_number and not self.own_axes


@dataclass(eq=False, repr=False, kw_only=True)
class Map(Value):
    """Computed elementwise by the operation `op`, a primitive's name."""

    op: str

    @property
    def is_local(self) -> bool:
        """Whether it is one number, held in a local variable."""
        return not self.own_axes


@dataclass(eq=False, repr=False, kw_only=True)
class Reduction(Value):
    """A sum, inner product, maximum, minimum or chosen element over axes of its first operand.

    Parameters
    ----------
    op : {"sum", "inner", "max", "min", "pick"}
        The operation.
    keeps_nan : bool, default=True
        For a maximum or minimum: whether it is NaN if an element is.
    """

    op: str
    keeps_nan: bool = True

    @property
    def space(self) -> tuple[Axis, ...]:
        """The axes of the loop that computes it."""
        return self.values[0].axes

    @property
    def is_local(self) -> bool:
        """Whether it is one number, held in a local variable."""
        return not self.own_axes

    @property
    def is_row_reduction(self) -> bool:
        """Whether it is a reduction that needs only one row of its space."""
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
        Makes it from the operand's array.
    is_contiguous : bool
        Whether it is C-contiguous.
    is_permuted : bool
        Whether it permutes the operand's axes.
    strides : tuple of int
        In bytes, of its axes of a length other than 1.
    """

    applied: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
    is_contiguous: bool
    is_permuted: bool
    strides: Shape

    @property
    def source(self) -> Value:
        """The value that it is a view of."""
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
        For both factors and the result: shape, the shape that it is broadcast to, and the shape after
        merging the axes of the stack that are contiguous in all three.
    """

    stacks: tuple[tuple[Shape, Shape, Shape], ...]


@dataclass(eq=False, repr=False, kw_only=True)
class Mask(ArrayCall):
    """A dropout mask, or uniform draws if `p` is None; its operand is the step counter."""

    key: tuple[int, int]
    site: int
    p: float | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Columns(ArrayCall):
    """Zeros except for some columns, given by the source of an index and the shape of the values."""

    columns: str
    given: Shape


@dataclass(eq=False, repr=False, kw_only=True)
class Rows(ArrayCall):
    """Indexed rows, taken from an array or added to zeros.

    Parameters
    ----------
    adds : bool
        Whether rows are added.
    around : tuple of three int
        Numbers of elements before, along and after the axis of the longer array.
    from_end : bool
        Whether negative indices count from the end.
    """

    adds: bool
    around: tuple[int, int, int]
    from_end: bool


@dataclass(eq=False, repr=False, kw_only=True)
class Along(Rows):
    """Like `Rows`, with an index for each element instead of each row."""


@dataclass(eq=False, repr=False, kw_only=True)
class Pasted(ArrayCall):
    """An array whose slices are copied from others.

    Parameters
    ----------
    places : tuple of index
        The index that each operand is assigned to; later ones overwrite earlier ones.
    given : tuple of shape
        Shapes of the operands, which are broadcast to their slices.
    fill : float or None
        The value of all other elements; None if there are none.
    """

    places: tuple[Any, ...]
    given: tuple[Shape, ...]
    fill: float | None


@dataclass(eq=False, repr=False, kw_only=True)
class Assembly(Pasted):
    """A flat array whose slices begin at `starts`."""

    starts: tuple[int, ...]


@dataclass(eq=False, repr=False, kw_only=True)
class HostCall(ArrayCall):
    """A value that NumPy computes in a callback from native code.

    Parameters
    ----------
    forward : callable
        ``forward(*arrays)``; it may also take ``scratch`` and ``out``.
    given : tuple of shape or ndarray
        For each argument, the shape of the next operand, or a constant.
    scratch : tuple of (shape, dtype)
        Scratch arrays that it takes.
    writes_out : bool
        Whether it takes ``out``; otherwise its result is copied.
    """

    forward: Callable[..., Any]
    given: tuple[Any, ...]
    scratch: tuple[tuple[Shape, Any], ...]
    writes_out: bool
