"""Reductions as C source: sums, extrema and the like, over any axes, by one kernel or two.

Every element is taken into a total by one thread, in an order that depends on the shapes alone: there are
no atomic operations, so the bits are the same in every run and on every device. `schedule` tells how
threads share the totals. Where few totals have many elements, a first kernel writes partial totals into
scratch memory of the plan, and a second one puts those together.

Maps of the operand's shape that come before a reduction are computed in its kernel, element by element.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet.compile._graph import Equation, Variable
from sknet.compile._plan import Plan
from sknet.compile.executors.device._c_scalar import UntranslatableError, cast, literal, type_of
from sknet.compile.executors.device._cooperation import Loop, Reducer, Total
from sknet.compile.executors.device._maps import Kernel, Line, MapWriter, is_narrow, live, position
from sknet.compile.executors.device._schedules import Schedule, pieces_of_all, schedule
from sknet.compile.passes import Group

__all__ = [
    "OF_PRODUCTS", "axes_of", "is_fusible", "is_reduction", "reduced", "scratch_of", "total_of", "value_of",
]  # fmt: skip

# How an element b is taken into a total a. The extremum of NaN and a number is NaN, as in NumPy.
TAKEN = {
    "sum": "{a} + {b}", "prod": "{a} * {b}", "any": "{a} || {b}", "all": "{a} && {b}",
    "max": "{b} > {a} ? {b} : {a}", "min": "{b} < {a} ? {b} : {a}",
    "sum_squares": "{a} + {b}", "matmul": "{a} + {b}",
}  # fmt: skip
OF_PRODUCTS = ("matmul", "sum_squares")  # of vectors, and of all elements of some arrays with themselves
INDEX = re.compile(r"\bi\b")
MOST_RANGES = 8  # that a block takes one after the other
MOST = 4  # totals of one kernel: a thread holds one of each in its registers


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


def scratch_of(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of the partial totals, whatever the layout of the operand."""
    if not any(x.size for x in equation.variables):
        n = 0
    elif equation.primitive.name in OF_PRODUCTS:
        n = _blocks(pieces_of_all([x.size for x in _ranges(equation)]))
    else:
        x = equation.variables[0]
        each = x.size // equation.output.size
        n = max(schedule(equation.output.size, each, along).pieces for along in (False, True))
    return [((n * equation.output.size,), _held(equation.output.dtype))] if n > 1 else []


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

    def offset(self, index: str, signed: str) -> str:
        text, is_signed = position(self.lengths, self.strides, self.lengths, index)
        if is_signed:
            text, _ = position(self.lengths, self.strides, self.lengths, f"({signed}){index}")
        return text


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


def reduced(name: str, group: Group, plan: Plan) -> list[Kernel]:
    """Return the kernels of a reduction, or of maps with reductions of what they compute.

    Parameters
    ----------
    name : str
        The name of the first.
    group : Group
        Maps and reductions, or one reduction; and maps of the totals.
    plan : Plan
        The memory of the values.

    Returns
    -------
    list of Kernel
        One, or two that are to be launched one after the other.
    """
    writer = _Writer(name, group, plan)
    if group.maps:
        return writer.fused()
    [equation] = group.reductions
    if not any(x.size for x in equation.variables):
        return writer.empty(equation)
    return writer.products(equation) if equation.primitive.name in OF_PRODUCTS else writer.single(equation)


class _Writer:
    """Writes the kernels of one group."""

    def __init__(self, name: str, group: Group, plan: Plan) -> None:
        self._name, self._group, self._plan = name, group, plan
        self._names = plan.graph.names()
        self._index = "unsigned int" if is_narrow(group, plan) else "unsigned long long"
        self._signed = self._index.removeprefix("unsigned ")

    def fused(self) -> list[Kernel]:
        """Return the kernels of maps and reductions."""
        maps, equations = MapWriter(self._group, self._plan), self._group.reductions
        elements = [maps.element(equation.variables[0]) for equation in equations]
        lines, used = live([*maps.loads, *maps.lines], [*maps.stores, *elements])
        body = [*map(str, lines), *maps.stores]
        strides = _contiguous(maps.shape)
        kept, gone = _divided(maps.shape, strides, axes_of(equations[0]))
        if any(INDEX.search(line) for line in body):
            body.insert(0, f"const {self._index} i = {self._offset(kept, gone)};")
        planned = schedule(kept.size, gone.size, _is_along(kept, gone))
        values = [value_of(equation, element) for equation, element in zip(equations, elements, strict=True)]
        loop = Loop(gone.size, body, values, planned.pieces, planned.length)
        arrays = dict(zip(maps.taken(used), maps.parameters(used), strict=True))
        return self._kernels(equations, [loop], kept.size, planned, arrays, frozenset(maps.helpers))

    def empty(self, equation: Equation) -> list[Kernel]:
        """Return the kernel of totals of no elements."""
        loop, planned = Loop(0, [], ["0"], 1, 0), Schedule("thread", 1, 1, 0)
        return self._kernels([equation], [loop], equation.output.size, planned, {})

    def single(self, equation: Equation) -> list[Kernel]:
        """Return the kernels of a reduction of an array in memory."""
        [x] = equation.variables
        kept, gone = _divided(x.shape, _strides(self._plan, x), axes_of(equation))
        planned = schedule(kept.size, gone.size, _is_along(kept, gone))
        body = [f"const {type_of(x.dtype)} x = {self._names[x]}[{self._offset(kept, gone)}];"]
        loop = Loop(gone.size, body, [value_of(equation, "x")], planned.pieces, planned.length)
        return self._kernels([equation], [loop], kept.size, planned, self._read([x]))

    def products(self, equation: Equation) -> list[Kernel]:
        """Return the kernels of a product of two vectors, or of the sum of the squares of some arrays."""
        ranges, dtype = _ranges(equation), equation.output.dtype
        factors = [equation.variables] if equation.primitive.name == "matmul" else [[x] for x in ranges]
        divided = pieces_of_all([x.size for x in ranges])
        loops = []
        for (first, *second), (number, length) in zip(factors, divided, strict=True):
            body = [self._factor("x", first, dtype), *[self._factor("y", y, dtype) for y in second]]
            loops.append(Loop(first.size, body, ["x * y" if second else "x * x"], number, length))
        planned = Schedule("block", 1, _blocks(divided), 0)
        return self._kernels([equation], loops, 1, planned, self._read(equation.variables))

    # -- parts --------------------------------------------------------------------------------

    def _offset(self, kept: "_Axes", gone: "_Axes") -> str:
        """Return the text of an element's offset: number ``r`` of total ``o``."""
        terms = [kept.offset("o", self._signed), gone.offset("r", self._signed)]
        return " + ".join(term for term in terms if term != "0") or "0"

    def _factor(self, name: str, x: Variable, dtype: Any) -> str:
        axes = _Axes(x.shape, _strides(self._plan, x))
        element = f"{self._names[x]}[{axes.offset('r', self._signed)}]"
        return f"const {type_of(dtype)} {name} = {cast(x, element, dtype)};"

    def _read(self, operands: Sequence[Variable]) -> dict[str, str]:
        """Return the names of arrays, each with the parameter that it is for a kernel that reads it."""
        return {self._names[x]: f"const {type_of(x.dtype)} *{self._names[x]}" for x in operands}

    def _kernels(
        self,
        equations: Sequence[Equation],
        loops: list[Loop],
        count: int,
        planned: Schedule,
        arrays: dict[str, str],
        helpers: frozenset[str] = frozenset(),
    ) -> list[Kernel]:
        """Return the kernel that computes some totals; or one for parts, and one that puts them together."""
        totals = [total_of(e, f"a{n}", f"{self._names[e.output]}_s0") for n, e in enumerate(equations)]
        parts = {x.partial: f"{x.kind} *{x.partial}" for x in totals}
        epilogue = _Epilogue(self._group, self._plan)
        if planned.pieces == 1:
            taken, helpers = arrays | epilogue.arrays, helpers | epilogue.helpers
            return [self._kernel(self._name, taken, (totals, count, loops, planned, epilogue.text), helpers)]
        first = self._kernel(self._name, arrays | parts, (totals, count, loops, planned), helpers)
        together = schedule(count, planned.pieces, along=True)
        at = f"o * {planned.pieces} + r" if count > 1 else "r"
        body = [f"const {x.kind} {x.other} = {x.partial}[{at}];" for x in totals]
        loop = Loop(planned.pieces, body, [x.other for x in totals], together.pieces, together.length)
        taken = {name: f"const {text}" for name, text in parts.items()} | epilogue.arrays
        how = (totals, count, [loop], together, epilogue.text)
        return [first, self._kernel(f"{self._name}_end", taken, how, frozenset(epilogue.helpers))]

    def _kernel(
        self, name: str, arrays: dict[str, str], how: tuple[Any, ...], helpers: frozenset[str]
    ) -> Kernel:
        reducer = Reducer(f"{name}({', '.join(arrays.values())})", self._index, *how)
        return Kernel(name, reducer.text(), helpers, list(arrays), *reducer.size())


class _Epilogue(MapWriter):
    """Writes what is done with complete totals, number ``o``, which are in registers.

    Attributes
    ----------
    text : list of str
        Its statements.
    arrays : dict of str to str
        The names of the arrays that it uses, each with its parameter.
    """

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
