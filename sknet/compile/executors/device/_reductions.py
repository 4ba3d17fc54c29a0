"""Reductions as C source: sums, extrema and the like, over any axes, by one kernel or two.

Every element is taken into a total by one thread, in an order that depends on the shapes alone: there are
no atomic operations, so the bits are the same in every run and on every device. `schedule` tells how
threads share the totals. Where few totals have many elements, blocks write partial totals into scratch
memory of the plan, and the block that is ready last puts those together.

Maps of the operand's shape that come before a reduction are computed in its kernel, element by element. One
kernel can have several such parts, each with a total of its own.
"""

import itertools
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.compile._plan import Plan
from sknet.compile.executors.device._c_scalar import UntranslatableError, arithmetic, cast, literal, type_of
from sknet.compile.executors.device._cooperation import Loop, Reducer, Section, Total
from sknet.compile.executors.device._maps import Kernel, Line, MapWriter, is_narrow, live, position
from sknet.compile.executors.device._schedules import WARP, Schedule, pieces_of_all, schedule
from sknet.compile.passes import Group

__all__ = [
    "OF_PRODUCTS", "axes_of", "is_fusible", "is_of_blocks", "is_reduction", "reduced", "scratch_of",
    "total_of", "value_of",
]  # fmt: skip

# How an element b is taken into a total a. The extremum of NaN and a number is NaN, as in NumPy.
TAKEN = {
    "sum": "+", "prod": "*", "sum_squares": "+", "matmul": "+", "any": "{a} || {b}", "all": "{a} && {b}",
    "max": "{b} > {a} ? {b} : {a}", "min": "{b} < {a} ? {b} : {a}",
}  # fmt: skip
OF_PRODUCTS = ("matmul", "sum_squares")  # of vectors, and of all elements of some arrays with themselves
INDEX = re.compile(r"\bi\b")
MOST_RANGES = 8  # that a block takes one after the other
MOST = 4  # totals of one kernel: a thread holds one of each in its registers
EMPTY = Schedule("thread", 1, 1, 0)  # of totals of no elements


def is_reduction(equation: Equation) -> bool:
    """Tell whether a kernel can be written for an equation: a reduction, or a product of two vectors."""
    name, operands, output = equation.primitive.name, equation.variables, equation.output
    if name not in TAKEN or not output.size:
        return False
    if name in OF_PRODUCTS and (output.dtype.kind == "b" or len(operands) < len(equation.operands)):
        return False
    if name == "matmul" and any(x.ndim != 1 for x in operands):
        return False
    try:
        for x in (*operands, output):
            type_of(x.dtype)
    except UntranslatableError:
        return False
    return True


def is_fusible(equation: Equation, others: Sequence[Equation]) -> bool:
    """Tell whether an equation is a reduction for the kernel of its operand, which has others already."""
    if not is_reduction(equation) or equation.primitive.name in OF_PRODUCTS:
        return False
    shape, axes = equation.variables[0].shape, axes_of(equation)
    alike = all(other.variables[0].shape == shape and axes_of(other) == axes for other in others)
    return alike and len(others) < MOST


def scratch_of(equation: Equation) -> list[tuple[Any, ...]]:
    """Return shape and dtype of partial totals and of counts, whatever the layout of the operand."""
    count = equation.output.size
    if not any(x.size for x in equation.variables):
        n = 0
    elif equation.primitive.name in OF_PRODUCTS:
        n = _blocks(pieces_of_all([x.size for x in _ranges(equation)]))
    else:
        each = equation.variables[0].size // count
        n = max(schedule(count, each, along).pieces for along in (False, True))
    if n < 2 and count > 1:
        return []
    return [((max(n, 1) * count,), _held(equation.output.dtype)), ((count,), np.dtype(np.uint32), "pinned")]


def _blocks(divided: Sequence[tuple[int, int]]) -> int:
    """Return how many blocks share a total of several ranges."""
    numbers = [number for number, _ in divided]
    return sum(numbers) if max(numbers) > 1 or len(numbers) > MOST_RANGES else 1


def _held(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of totals in registers: lanes exchange numbers of at least 32 bits."""
    if dtype.kind in "iub" and dtype.itemsize < 4:
        return np.dtype(np.uint32 if dtype.kind == "u" else np.int32)
    return dtype


def _ranges(equation: Equation) -> list[Variable]:
    """Return the operands whose elements are counted: one of each product; and none that is empty."""
    found = equation.variables[:1] if equation.primitive.name == "matmul" else equation.variables
    return [x for x in found if x.size]


def axes_of(equation: Equation) -> tuple[int, ...]:
    """Return the axes of the operand that are reduced, counted from the front."""
    ndim = equation.variables[0].ndim
    return tuple(sorted(axis % ndim for axis in equation.params["axis"]))


def _start(equation: Equation) -> str:
    """Return the total of no elements."""
    name, dtype = equation.primitive.name, equation.output.dtype
    held = _held(dtype)
    if name not in ("max", "min"):
        return literal(1 if name in ("prod", "all") else 0, held)
    if dtype.kind == "f":
        return literal(-np.inf if name == "max" else np.inf, held)
    limits = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return literal(limits[name == "min"], held)


def total_of(equation: Equation, register: str, partial: str = "") -> Total:
    """Return how a reduction is computed in a register, and stored in an array if it is not complete."""
    name, dtype = equation.primitive.name, equation.output.dtype
    taken, held = TAKEN[name], _held(dtype)
    if "{" not in taken:
        taken = arithmetic(taken, "{a}", "{b}", held)
    if name in ("max", "min") and dtype.kind == "f":
        taken = taken.replace(" ?", " || {b} != {b} ?")
    converted = "" if held == dtype else f"({type_of(dtype)})"
    return Total(register, type_of(held), _start(equation), taken, partial, converted)


def value_of(equation: Equation, element: str) -> str:
    """Return what of an element is taken into a total."""
    return f"{element} != 0" if equation.primitive.name in ("any", "all") else element


# -- elements ---------------------------------------------------------------------------------


class _Axes(NamedTuple):
    """Lengths of the axes that are kept or reduced, and strides of the operand along them."""

    lengths: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.lengths)

    def offset(self, index: str) -> str:
        return position(self.lengths, self.strides, self.lengths, index)[0]

    @property
    def is_signed(self) -> bool:
        """True if offsets can be negative."""
        return position(self.lengths, self.strides, self.lengths)[1]


def _divided(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> tuple[_Axes, _Axes]:
    """Return the axes that are kept, and those that are reduced."""
    pairs = list(zip(shape, strides, strict=True))
    kept = [pair for axis, pair in enumerate(pairs) if axis not in axes]
    gone = [pairs[axis] for axis in axes]
    first, second = (_Axes(tuple(n for n, _ in x), tuple(s for _, s in x)) for x in (kept, gone))
    return first, second


def _is_along(kept: _Axes, gone: _Axes) -> bool:
    """Tell whether neighbours in memory are reduced to the same total."""

    def nearest(axes: _Axes) -> float:
        steps = [abs(s) for n, s in zip(*axes, strict=True) if n > 1 and s]
        return min(steps, default=np.inf)

    return nearest(gone) <= nearest(kept)


def _contiguous(shape: tuple[int, ...]) -> list[int]:
    """Return the strides of a contiguous array."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _strides(plan: Plan, x: Variable) -> tuple[int, ...]:
    return tuple([stride // x.dtype.itemsize for stride in plan.views.ghost(x).strides])


# -- kernels ----------------------------------------------------------------------------------


def is_of_blocks(equation: Equation) -> bool:
    """Tell whether blocks have the total of a reduction: there is one, of more than the elements of a row."""
    if equation.output.size != 1 or not any(x.size for x in equation.variables):
        return False
    return equation.primitive.name in OF_PRODUCTS or equation.variables[0].size > WARP


def reduced(name: str, group: Group, plan: Plan) -> Kernel:
    """Return the kernel of a reduction, or of maps with reductions of what they compute; or of several."""
    index = "unsigned int" if is_narrow(group, plan) else "unsigned long long"
    parts = [_Writer(part, plan, index).part() for part in group.parts or (group,)]
    names, numbers, epilogue = plan.graph.names(), itertools.count(), _Epilogue(group, plan)
    arrays: dict[str, str] = {}
    sections, helpers = [], set(epilogue.helpers)
    for part in parts:
        totals = [total_of(e, f"a{next(numbers)}", f"{names[e.output]}_s0") for e in part.equations]
        sections.append(Section(totals, part.loops, part.planned.pieces))
        arrays |= part.arrays
        helpers |= part.helpers
    planned = parts[0].planned if len(parts) == 1 else Schedule("block", 1, 0, 0)
    how = sections, parts[0].n_totals, planned, epilogue.text
    arrays |= epilogue.arrays
    counts = f"{names[parts[0].equations[0].output]}_s1"
    if Reducer("", index, *how).is_divided:
        arrays |= {x.partial: f"{x.kind} *{x.partial}" for section in sections for x in section.totals}
        arrays[counts] = f"unsigned int *{counts}"
    reducer = Reducer(f"{name}({', '.join(arrays.values())})", index, *how, counts)
    return Kernel(name, reducer.text(), frozenset(helpers), list(arrays), *reducer.size())


class _Part(NamedTuple):
    """Computation of a kernel on some elements."""

    equations: Sequence[Equation]
    loops: list[Loop]
    n_totals: int
    planned: Schedule
    arrays: dict[str, str]
    helpers: frozenset[str] = frozenset()


class _Writer:
    """Writes what a kernel does with the elements of a group."""

    def __init__(self, group: Group, plan: Plan, index: str) -> None:
        self._group, self._plan = group, plan
        self._names = plan.graph.names()
        self._index, self._signed = index, index.removeprefix("unsigned ")

    def part(self) -> _Part:
        """Return what is computed: by maps and reductions, or one reduction."""
        if self._group.maps:
            return self._fused()
        [equation] = self._group.reductions
        if not any(x.size for x in equation.variables):
            return _Part([equation], [Loop(0, [], ["0"], 1, 0)], equation.output.size, EMPTY, {})
        return self._products(equation) if equation.primitive.name in OF_PRODUCTS else self._single(equation)

    def _fused(self) -> _Part:
        """Return the part of maps and reductions."""
        maps, equations = MapWriter(self._group, self._plan), self._group.reductions
        elements = [maps.element(equation.variables[0]) for equation in equations]
        lines, used = live([*maps.loads, *maps.lines], [*maps.stores, *elements])
        body = [*map(str, lines), *maps.stores]
        strides = _contiguous(maps.shape)
        kept, gone = _divided(maps.shape, strides, axes_of(equations[0]))
        if any(INDEX.search(line) for line in body):
            body.insert(0, f"const {self._index} i = {self._offset(kept, gone)};")
        planned = self._schedule(kept, gone)
        values = [value_of(equation, element) for equation, element in zip(equations, elements, strict=True)]
        loop = Loop(gone.size, body, values, planned.pieces, planned.length)
        arrays = dict(zip(maps.taken(used), maps.parameters(used), strict=True))
        return _Part(equations, [loop], kept.size, planned, arrays, frozenset(maps.helpers))

    def _single(self, equation: Equation) -> _Part:
        """Return the part of a reduction of an array in memory."""
        [x] = equation.variables
        kept, gone = _divided(x.shape, _strides(self._plan, x), axes_of(equation))
        planned = self._schedule(kept, gone)
        body = [f"const {type_of(x.dtype)} x = {self._names[x]}[{self._offset(kept, gone)}];"]
        loop = Loop(gone.size, body, [value_of(equation, "x")], planned.pieces, planned.length)
        return _Part([equation], [loop], kept.size, planned, self._read([x]))

    def _products(self, equation: Equation) -> _Part:
        """Return the part of a product of two vectors, or of the sum of the squares of some arrays."""
        ranges, dtype = _ranges(equation), equation.output.dtype
        factors = [equation.variables] if equation.primitive.name == "matmul" else [[x] for x in ranges]
        divided = pieces_of_all([x.size for x in ranges])
        loops = []
        for (first, *second), (number, length) in zip(factors, divided, strict=True):
            body = [self._factor("x", first, dtype), *[self._factor("y", y, dtype) for y in second]]
            product = arithmetic("*", "x", "y" if second else "x", dtype)
            loops.append(Loop(first.size, body, [product], number, length))
        planned = Schedule("block", 1, _blocks(divided), 0)
        return _Part([equation], loops, 1, planned, self._read(equation.variables))

    # -- parts --------------------------------------------------------------------------------

    def _offset(self, kept: "_Axes", gone: "_Axes") -> str:
        """Return the text of an element's offset: number ``r`` of total ``o``."""
        signed = self._converted(kept, gone)
        terms = [kept.offset(f"{signed}o"), gone.offset(f"{signed}r")]
        return " + ".join(term for term in terms if term != "0") or "0"

    def _converted(self, *axes: "_Axes") -> str:
        """Return how indices are converted: all of them if one step is negative, or the sum is unsigned."""
        return f"({self._signed})" if any(each.is_signed for each in axes) else ""

    def _factor(self, name: str, x: Variable, dtype: Any) -> str:
        axes = _Axes(x.shape, _strides(self._plan, x))
        element = f"{self._names[x]}[{axes.offset(self._converted(axes) + 'r')}]"
        return f"const {type_of(dtype)} {name} = {cast(x, element, dtype)};"

    def _read(self, operands: Sequence[Variable]) -> dict[str, str]:
        """Return the names of arrays, each with the parameter that it is for a kernel that reads it."""
        return {self._names[x]: f"const {type_of(x.dtype)} *{self._names[x]}" for x in operands}

    def _schedule(self, kept: "_Axes", gone: "_Axes") -> Schedule:
        return schedule(kept.size, gone.size, _is_along(kept, gone))


class _Epilogue(MapWriter):
    """Writes what is done with complete totals, number ``o``, which are in registers."""

    here = "o"

    def __init__(self, group: Group, plan: Plan) -> None:
        super().__init__(group, plan)
        lines, used = live([*self.loads, *self.lines], self.stores)
        self.text = [*map(str, lines), *self.stores]
        self.arrays = dict(zip(self.taken(used), self.parameters(used), strict=True))

    def _write_all(self, group: Group) -> None:
        for number, equation in enumerate(group.reductions):
            total = total_of(equation, f"a{number}")
            name = self._name(equation.output)
            self.lines.append(Line(type_of(equation.output.dtype), name, f"{total.converted}{total.name}"))
            self._known(equation.output, name)
        for equation in group.epilogue:
            self.shape = equation.output.shape
            self._write(equation)

    def _known(self, output: Variable, name: str) -> None:
        super()._known(output, name)
        self._elements[output, "o"] = name

    def _stored(self, output: Variable, name: str) -> None:
        self.stores.append(f"{self.names[output]}[o] = {name};")
