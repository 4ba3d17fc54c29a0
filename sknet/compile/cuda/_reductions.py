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
from sknet.compile.cuda._maps import (
    BLOCK,
    FROM_HALF,
    Kernel,
    Line,
    MapWriter,
    UntranslatableError,
    arithmetic,
    block,
    cast,
    indented,
    is_half,
    is_narrow,
    literal,
    live,
    loaded,
    position,
    steps_of,
    text_of,
    type_of,
)
from sknet.compile.passes import Group

# -- how threads share totals: by numbers of elements alone, so alike on every device ---------


WARP = 32  # lanes that exchange values without a barrier
BLOCKS = 512  # of a kernel whose totals are divided: several per multiprocessor of any GPU
WORTHWHILE = 16  # elements of a thread for which a second kernel is worth its launch


class Schedule(NamedTuple):
    """Division of a number of totals among threads."""

    kind: str
    width: int
    pieces: int
    length: int


def schedule(n_totals: int, n_elements: int, along: bool) -> Schedule:
    """Return how to compute some totals of as many elements each."""
    if n_elements <= 4 or (n_elements <= WARP and not along and n_totals > 1):
        return Schedule("thread", 1, 1, n_elements)
    if along or n_totals == 1:
        if n_elements <= 4 * WARP or n_totals >= BLOCKS:
            return Schedule("lanes", lanes_for(n_elements), 1, n_elements)
        return Schedule("block", 1, *pieces(n_elements, BLOCK, BLOCKS // n_totals))
    width = lanes_for(n_totals)
    tiles = -(-n_totals // width)
    return Schedule("tile", width, *pieces(n_elements, BLOCK // width, BLOCKS // tiles))


def lanes_for(n: int) -> int:
    """Return the number of lanes for `n` neighbours: a power of two."""
    return min(WARP, 1 << (n - 1).bit_length())


def pieces(n_elements: int, at_once: int, most: int) -> tuple[int, int]:
    """Divide the elements of a total among blocks that take some at once."""
    number = min(n_elements // (at_once * WORTHWHILE), most)
    if number < 4:
        return 1, n_elements
    length = -(-n_elements // number)
    return -(-n_elements // length), length


def pieces_of_all(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Divide the elements of several ranges that have one total, each as `pieces` does."""
    return [pieces(n, BLOCK, max(1, BLOCKS // len(sizes))) for n in sizes]


# -- the text of loops over elements, and of the exchange of partial totals -------------------


class Total(NamedTuple):
    """A total, which a thread holds in a register."""

    name: str
    kind: str
    start: str
    taken: str
    partial: str
    converted: str = ""

    @property
    def declared(self) -> str:
        return f"{self.kind} {self.name} = {self.start};"

    @property
    def other(self) -> str:
        """The name of what is taken into it."""
        return f"b{self.name[1:]}"

    def plus(self, value: str) -> str:
        """Return the statement that takes in a value, the name of which may occur twice."""
        return f"{self.name} = {self.taken.format(a=self.name, b=value)};"

    def plus_other(self, text: str) -> list[str]:
        """Return statements that take in a value with any text."""
        return [f"const {self.kind} {self.other} = {text};", self.plus(self.other)]


class Body(NamedTuple):
    """Statements for element number ``r`` of each total."""

    size: int
    body: Sequence[str]
    values: Sequence[str]
    pieces: int
    length: int


class Section(NamedTuple):
    """Totals of the same elements."""

    totals: Sequence[Total]
    loops: Sequence[Body]
    pieces: int


class Reducer(NamedTuple):
    """Writes a kernel."""

    name: str
    parameters: Sequence[str]
    index_type: str
    sections: Sequence[Section]
    n_totals: int
    schedule: Schedule
    final: Sequence[str] = ()
    counts: str = ""

    def text(self) -> str:
        lines = {"thread": self._thread, "lanes": self._lanes, "block": self._block, "tile": self._tile}
        return text_of(self.name, self.parameters, lines[self.schedule.kind]())

    def size(self) -> tuple[int, int]:
        """Return the numbers of blocks, and of threads of a block."""
        kind, width = self.schedule.kind, self.schedule.width
        if kind == "block":
            return self.n_totals * sum(section.pieces for section in self.sections), BLOCK
        if kind == "tile":
            return self._tiles * self.sections[0].pieces, BLOCK
        needed = self.n_totals * width
        threads = min(BLOCK, -(-needed // WARP) * WARP)
        return -(-needed // threads), threads

    @property
    def totals(self) -> list[Total]:
        return [total for section in self.sections for total in section.totals]

    @property
    def is_divided(self) -> bool:
        """True if no block has all elements."""
        return len(self.sections) > 1 or self.sections[0].pieces > 1

    # -- the four ways ------------------------------------------------------------------------

    def _thread(self) -> list[str]:
        [[totals, [loop], _]] = self.sections
        return [
            f"const {self.index_type} o = {self._first()} + threadIdx.x;",
            f"if (o >= {self.n_totals})",
            "    return;",
            *_declared(totals),
            *self._loop(totals, loop, "0", str(loop.size), 1),
            *self.final,
        ]

    def _lanes(self) -> list[str]:
        [[totals, [loop], _]], width = self.sections, self.schedule.width
        return [
            f"const {self.index_type} o = ({self._first()} + threadIdx.x) / {width};",
            f"const unsigned int lane = threadIdx.x % {width};",
            *_declared(totals),
            *block(f"if (o < {self.n_totals}) {{", self._loop(totals, loop, "lane", str(loop.size), width)),
            *exchanged(totals, width),
            *block(f"if (lane == 0 && o < {self.n_totals}) {{", self.final),
        ]

    def _block(self) -> list[str]:
        number, lines, first = self.sections[0].pieces, [], 0
        if self.n_totals > 1:
            total = f"blockIdx.x / {number}" if number > 1 else "blockIdx.x"
            lines.append(f"const {self.index_type} o = {total};")
        if len(self.sections) == 1:
            lines += self._section(self.sections[0], f"blockIdx.x % {number}", "blockIdx.x")
        else:
            for section in self.sections:
                piece = f"(blockIdx.x - {first})" if first else "blockIdx.x"
                head = f"if (blockIdx.x >= {first} && blockIdx.x < {first + section.pieces}) {{"
                head = head if first else f"if (blockIdx.x < {section.pieces}) {{"
                lines += block(head, self._section(section, piece, piece))
                first += section.pieces
        return [*lines, *self._completed("o" if self.n_totals > 1 else "0", 1, first or number)]

    def _section(self, section: Section, piece: str, place: str) -> list[str]:
        """Return how a block computes its piece of some totals, and stores it in its place."""
        totals, warps = section.totals, BLOCK // WARP
        gathered = [line for x in totals for line in x.plus_other(f"of_warps{x.name[1:]}[n]")]
        loop = block(f"for (unsigned int n = 1; n < {warps}; n++) {{", gathered)
        kept = [f"of_warps{x.name[1:]}[threadIdx.x / {WARP}] = {x.name};" for x in totals]
        return [
            *[f"__shared__ {x.kind} of_warps{x.name[1:]}[{warps}];" for x in totals],
            *_declared(totals),
            *self._ranges(section, piece),
            *exchanged(totals, WARP),
            *block(f"if (threadIdx.x % {WARP} == 0) {{", kept),
            "__syncthreads();",
            *block("if (threadIdx.x == 0) {", [*loop, *self._stored(totals, place)]),
        ]

    def _ranges(self, section: Section, piece: str) -> list[str]:
        """Return the loops of a block: all, or the one to which its piece belongs."""
        totals, loops = section.totals, section.loops
        if section.pieces == 1 or len(loops) == 1:
            return [line for loop in loops for line in self._piece(totals, loop, piece)]
        lines, first = [], 0
        for n, loop in enumerate(loops):
            last = n == len(loops) - 1
            head = "} else {" if last else f"{'} else ' if n else ''}if ({piece} < {first + loop.pieces}) {{"
            lines += [head, *indented(self._piece(totals, loop, f"{piece} - {first}" if first else piece))]
            first += loop.pieces
        return [*lines, "}"]

    def _piece(
        self, totals: Sequence[Total], loop: Body, piece: str, first: str = "threadIdx.x", step: int = BLOCK
    ) -> list[str]:
        if loop.pieces == 1:
            return self._loop(totals, loop, first, str(loop.size), step)
        lines = [f"const {self.index_type} start = ({self.index_type})({piece}) * {loop.length};"]
        stop = f"start + {loop.length}"
        if loop.size % loop.length:
            stop = f"{stop} < {loop.size} ? {stop} : {loop.size}"
        lines.append(f"const {self.index_type} stop = {stop};")
        return block("{", [*lines, *self._loop(totals, loop, f"start + {first}", "stop", step)])

    @property
    def _tiles(self) -> int:
        return -(-self.n_totals // self.schedule.width)

    def _tile(self) -> list[str]:
        [[totals, [loop], pieces]], width = self.sections, self.schedule.width
        tile, piece = f"blockIdx.x % {self._tiles}", f"blockIdx.x / {self._tiles}"
        column = f"threadIdx.x % {width}"
        added = [line for x in totals for line in x.plus_other(f"of_threads{x.name[1:]}[threadIdx.x + n]")]
        kept = [f"of_threads{x.name[1:]}[threadIdx.x] = {x.name};" for x in totals]
        return [
            *[f"__shared__ {x.kind} of_threads{x.name[1:]}[{BLOCK}];" for x in totals],
            f"const {self.index_type} o = {tile} * {width} + {column};" if self._tiles > 1 else
            f"const {self.index_type} o = {column};",
            *_declared(totals),
            *block(
                f"if (o < {self.n_totals}) {{",
                self._piece(totals, loop, piece, f"threadIdx.x / {width}", BLOCK // width),
            ),
            *kept,
            "__syncthreads();",
            *block(
                f"for (unsigned int n = {BLOCK // 2}; n >= {width}; n /= 2) {{",
                [*block("if (threadIdx.x < n) {", [*added, *kept]), "__syncthreads();"],
            ),
            *block(
                f"if (threadIdx.x < {width} && o < {self.n_totals}) {{",
                self._stored(totals, f"o * {pieces} + {piece}"),
            ),
            *self._completed(tile if self._tiles > 1 else "0", width, pieces),
        ]  # fmt: skip

    # -- parts --------------------------------------------------------------------------------

    def _first(self) -> str:
        wide = "" if self.index_type == "unsigned int" else f"({self.index_type})"
        return f"{wide}blockIdx.x * blockDim.x"

    def _loop(self, totals: Sequence[Total], loop: Body, first: str, stop: str, step: int) -> list[str]:
        if not loop.size:
            return []
        taken = [total.plus(value) for total, value in zip(totals, loop.values, strict=True)]
        count = "r++" if step == 1 else f"r += {step}"
        head = f"for ({self.index_type} r = {first}; r < {stop}; {count}) {{"
        return block(head, [*loop.body, *taken])

    def _stored(self, totals: Sequence[Total], place: str) -> list[str]:
        if self.is_divided:
            return [f"{x.partial}[{place}] = {x.name};" for x in totals]
        return [*([f"const {self.index_type} o = 0;"] if self.n_totals == 1 else []), *self.final]

    def _completed(self, group: str, members: int, number: int) -> list[str]:
        """Return what the last of `number` blocks does that share a group of totals."""
        if not self.is_divided:
            return []
        pieces = {x: section.pieces for section in self.sections for x in section.totals}
        width = lanes_for(max(pieces.values()))
        member = f"n + threadIdx.x / {width}" if width < BLOCK else "n"
        o = f"{group} * {members} + {member}" if members > 1 else group
        added = [line for x in pieces for line in self._added(x, pieces[x], width)]
        of_each = [
            f"const {self.index_type} total = {o};",
            f"const bool is_total = {member} < {members} && total < {self.n_totals};",
            *_declared(self.totals),
            *block("if (is_total) {", added),
            *exchanged(self.totals, width),
            *block("if (lane == 0 && is_total) {", [f"const {self.index_type} o = total;", *self.final]),
        ]
        return [
            "__shared__ bool is_last;",
            "__threadfence();  // what this block has stored is seen before it is counted",
            "__syncthreads();",
            "if (threadIdx.x == 0)",
            f"    is_last = atomicAdd(&{self.counts}[{group}], 1u) == {number - 1};",
            "__syncthreads();",
            "if (!is_last)",
            "    return;",
            "__threadfence();",
            "if (threadIdx.x == 0)",
            f"    {self.counts}[{group}] = 0;",
            f"const unsigned int lane = threadIdx.x % {width};",
            *block(f"for (unsigned int n = 0; n < {members}; n += {BLOCK // width}) {{", of_each),
        ]

    def _added(self, x: Total, pieces: int, width: int) -> list[str]:
        """Return the loop in which a lane adds what blocks have stored."""
        place = f"total * {pieces} + r" if self.n_totals > 1 else "r"
        head = f"for (unsigned int r = lane; r < {pieces}; r += {width}) {{"
        return block(head, x.plus_other(f"{x.partial}[{place}]"))


def _declared(totals: Sequence[Total]) -> list[str]:
    return [total.declared for total in totals]


def exchanged(totals: Sequence[Total], width: int) -> list[str]:
    """Return statements after which the first of so many lanes has the total of all."""
    others = [line for x in totals for line in x.plus_other(f"__shfl_xor_sync(0xffffffffu, {x.name}, n)")]
    return block(f"for (unsigned int n = {width // 2}; n > 0; n /= 2) {{", others)


# -- reductions -------------------------------------------------------------------------------


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
    if Reducer(name, (), index, *how).is_divided:
        arrays |= {x.partial: f"{x.kind} *{x.partial}" for section in sections for x in section.totals}
        arrays[counts] = f"unsigned int *{counts}"
    reducer = Reducer(name, [*arrays.values()], index, *how, counts)
    return Kernel(name, reducer.text(), frozenset(helpers), list(arrays), *reducer.size())


class _Part(NamedTuple):
    equations: Sequence[Equation]
    loops: list[Body]
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
            return _Part([equation], [Body(0, [], ["0"], 1, 0)], equation.output.size, EMPTY, {})
        return self._products(equation) if equation.primitive.name in OF_PRODUCTS else self._single(equation)

    def _fused(self) -> _Part:
        """Return the part of maps and reductions."""
        maps, equations = MapWriter(self._group, self._plan), self._group.reductions
        elements = [maps.element(equation.variables[0]) for equation in equations]
        lines, used = live([*maps.loads, *maps.lines], [*maps.stores, *elements])
        body = [*map(str, lines), *maps.stores]
        strides = [math.prod(maps.shape[axis + 1 :]) for axis in range(len(maps.shape))]
        kept, gone = _divided(maps.shape, strides, axes_of(equations[0]))
        if any(INDEX.search(line) for line in body):
            body.insert(0, f"const {self._index} i = {self._offset(kept, gone)};")
        planned = self._schedule(kept, gone)
        values = [value_of(equation, element) for equation, element in zip(equations, elements, strict=True)]
        loop = Body(gone.size, body, values, planned.pieces, planned.length)
        arrays = dict(zip(maps.taken(used), maps.parameters(used), strict=True))
        return _Part(equations, [loop], kept.size, planned, arrays, frozenset(maps.helpers))

    def _single(self, equation: Equation) -> _Part:
        """Return the part of a reduction of an array in memory."""
        [x] = equation.variables
        kept, gone = _divided(x.shape, steps_of(self._plan.views.ghost(x)), axes_of(equation))
        planned = self._schedule(kept, gone)
        body = [f"const {type_of(x.dtype)} x = {self._loaded(x, self._offset(kept, gone))};"]
        loop = Body(gone.size, body, [value_of(equation, "x")], planned.pieces, planned.length)
        return _Part([equation], [loop], kept.size, planned, self._read([x]), self._helpers([x]))

    def _products(self, equation: Equation) -> _Part:
        """Return the part of a product of two vectors, or of the sum of the squares of some arrays."""
        ranges, dtype = _ranges(equation), equation.output.dtype
        factors = [equation.variables] if equation.primitive.name == "matmul" else [[x] for x in ranges]
        divided = pieces_of_all([x.size for x in ranges])
        loops = []
        for (first, *second), (number, length) in zip(factors, divided, strict=True):
            body = [self._factor("x", first, dtype), *[self._factor("y", y, dtype) for y in second]]
            product = arithmetic("*", "x", "y" if second else "x", dtype)
            loops.append(Body(first.size, body, [product], number, length))
        planned = Schedule("block", 1, _blocks(divided), 0)
        return _Part(
            [equation], loops, 1, planned, self._read(equation.variables), self._helpers(equation.variables)
        )

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
        axes = _Axes(x.shape, steps_of(self._plan.views.ghost(x)))
        element = self._loaded(x, axes.offset(self._converted(axes) + "r"))
        return f"const {type_of(dtype)} {name} = {cast(x, element, dtype)};"

    def _read(self, operands: Sequence[Variable]) -> dict[str, str]:
        """Return the names of arrays, each with the parameter that it is for a kernel that reads it."""
        dtype = self._plan.views.dtype
        return {self._names[x]: f"const {type_of(dtype(x))} *{self._names[x]}" for x in operands}

    def _loaded(self, x: Variable, place: str) -> str:
        return loaded(self._plan, self._names, x, place)

    def _helpers(self, operands: Sequence[Variable]) -> frozenset[str]:
        return frozenset([FROM_HALF] if any(is_half(self._plan, x) for x in operands) else [])

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
        self.stores.append(self._store(output, name, "o"))


# -- kernels of short rows: some lanes of a warp have a row, and know its totals without memory --
# A softmax with its loss and gradient is one such kernel: each lane has one element of the row, reductions
# exchange the elements among the lanes, and every lane computes what the row has only one of.


WITHIN_ROWS = ("flat_index", "put_at", "subtract_at", "take_at")  # whose operands have an element per row


def is_in_rows(equation: Equation) -> bool:
    """Tell whether an equation is a reduction over a last axis that has at most an element per lane."""
    if not is_reduction(equation) or equation.primitive.name in OF_PRODUCTS:
        return False
    [x] = equation.variables
    return x.size > 0 and axes_of(equation) == (x.ndim - 1,) and 2 <= x.shape[-1] <= WARP


def shapes_of_rows(reduction: Equation) -> list[tuple[int, ...]]:
    """Return the shapes of maps that its kernel can compute: of its operand, or with an element per row."""
    shape = reduction.variables[0].shape
    return [shape, shape[:-1], (*shape[:-1], 1), (math.prod(shape[:-1]),)]


def has_operands(equation: Equation, made: set[Variable], reduction: Equation) -> bool:
    """Tell whether a lane has what a map needs of the values `made` in the kernel of a reduction."""
    if not is_in_rows(reduction):
        return True
    whole, _, kept, _ = shapes_of_rows(reduction)
    shape = equation.output.shape
    if shape not in shapes_of_rows(reduction):
        return False
    if equation.primitive.name in WITHIN_ROWS:
        return equation.primitive.name != "take_at" or equation.operands[0].shape == whole
    return all(
        x.shape == shape or (shape == whole and x.shape == kept) for x in equation.variables if x in made
    )


def row_kernel(name: str, group: Group, plan: Plan) -> Kernel:
    writer = RowWriter(group, plan)
    width, kind, n_rows = writer.width, writer.index_kind, writer.n_rows
    first = "blockIdx.x" if writer.is_narrow else f"({kind})blockIdx.x"
    body, used = writer.body()
    body = [f"const {kind} o = ({first} * blockDim.x + threadIdx.x) / {width};", *body]
    threads = min(BLOCK, -(-n_rows * width // WARP) * WARP)
    source = text_of(name, writer.parameters(used), body)
    blocks = -(-n_rows * width // threads)
    return Kernel(name, source, frozenset(writer.helpers), writer.taken(used), blocks, threads)


def _guarded(condition: str, stores: list[str]) -> list[str]:
    return block(f"if ({condition}) {{", stores) if stores else []


class RowWriter(MapWriter):
    """Writes the body of a kernel of rows; ``o`` is the row of a lane, and ``i`` its element."""

    @property
    def n_rows(self) -> int:
        return math.prod(self.whole[:-1])

    @property
    def width(self) -> int:
        return lanes_for(self.length)

    def body(self, *more: str) -> tuple[list[str], set[str]]:
        """Return what lanes do once their row is known, and more of it; and the names in all that."""
        stores = self.stores, self.stores_of_rows
        lines, used = live([*self.loads, *self.lines], [*stores[0], *stores[1], *more])
        body = [text for line in lines for text in self.reductions.get(line.name, [str(line)])]
        index = [f"const {self.index_kind} i = o * {self.length} + lane;"]
        return [
            f"const unsigned int lane = threadIdx.x % {self.width};",
            *(index if any(INDEX.search(text) for text in (*body, *stores[0])) else []),
            f"const bool is_row = o < {self.n_rows}, is_element = is_row && lane < {self.length};",
            *body,
            "__syncwarp();",  # an element that all lanes read may be overwritten
            *_guarded("is_element", stores[0]),
            *_guarded("is_row && lane == 0", stores[1]),
            *more,
        ], used

    def _write_all(self, group: Group) -> None:
        self.whole = group.reductions[0].variables[0].shape
        self.length = self.whole[-1]
        self.reductions: dict[str, list[str]] = {}
        self.stores_of_rows: list[str] = []
        for equation in group.equations:
            if any(equation is reduction for reduction in group.reductions):
                self._reduce(equation)
            else:
                self.shape = equation.output.shape
                self.here = "i" if self.shape == self.whole else "o"
                self._write(equation)

    def _stored(self, output: Variable, name: str) -> None:
        if self.here == "i":
            super()._stored(output, name)
        else:
            self.stores_of_rows.append(self._store(output, name, "o"))

    def _reduce(self, equation: Equation) -> None:
        self.here, self.shape = "i", self.whole
        output, element = equation.output, self.element(equation.variables[0])
        name = self._name(output)
        total = total_of(equation, name)
        self.reductions[name] = [
            f"{total.kind} {name} = is_element ? {value_of(equation, element)} : {total.start};",
            *exchanged([total], self.width),
        ]
        self.lines.append(Line(total.kind, name, element))
        self.here = "o"
        self._known(output, f"{total.converted}{name}")

    def _known(self, output: Variable, name: str) -> None:
        super()._known(output, name)
        self._elements[output, "i"] = self._elements[output, "o"] = name

    def known_at(self, x: Variable, index: str) -> str | None:
        name = self.known(x)
        if name is None:
            return None
        converted = "(int)" if x.dtype.itemsize < 4 else ""
        lane = f"(int)({index} - (long long)o * {self.length})"
        return f"__shfl_sync(0xffffffffu, {converted}{name}, {lane}, {lanes_for(self.length)})"

    def element(self, x: Variable, index: str | None = None) -> str:
        index = index or self.here
        is_of_row = index == "i" and self.here == "i" and x.shape == (*self.whole[:-1], 1)
        if not (is_of_row or index.startswith("(i /")):
            return super().element(x, index)
        before, self.here = (self.here, self.shape), "o"
        self.shape = x.shape
        found = super().element(x, "o")
        self.here, self.shape = before
        return found

    def at(self, x: Variable, within: tuple[int, ...], index: str) -> str:
        return f"{'is_element' if self.here == 'i' else 'is_row'} ? {super().at(x, within, index)} : 0"
