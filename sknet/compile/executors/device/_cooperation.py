"""The text of kernels whose threads share totals: loops over elements, and how parts come together."""

from collections.abc import Sequence
from typing import NamedTuple

from sknet.compile.executors.device._schedules import BLOCK, WARP, Schedule

__all__ = ["Loop", "Reducer", "Total"]


class Total(NamedTuple):
    """A total, which a thread holds in a register.

    Attributes
    ----------
    name, kind, start : str
        Its name, its type, and the total of no elements.
    taken : str
        How an element ``{b}``, or another total, is taken into the total ``{a}``.
    partial : str
        The name of the array where it is stored if it is not complete.
    converted : str
        The conversion to its type in memory.
    """

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


class Loop(NamedTuple):
    """What is done for element number ``r`` of each total.

    Attributes
    ----------
    size : int
        Elements of a total.
    body : list of str
        Statements.
    values : list of str
        What is then taken into each total.
    pieces, length : int
        How many blocks divide the elements, and the elements of one.
    """

    size: int
    body: Sequence[str]
    values: Sequence[str]
    pieces: int
    length: int


class Reducer(NamedTuple):
    """Writes a kernel.

    Attributes
    ----------
    head : str
        Its name, and its parameters in parentheses.
    index_type : str
        The type of indices.
    totals : list of Total
        What it computes.
    n_totals : int
        How many there are of each.
    loops : list of Loop
        Over the elements; several only if a block has a total.
    schedule : Schedule
        How threads share them.
    final : list of str
        What is done with each complete total, number ``o``.
    """

    head: str
    index_type: str
    totals: Sequence[Total]
    n_totals: int
    loops: Sequence[Loop]
    schedule: Schedule
    final: Sequence[str] = ()

    def text(self) -> str:
        """Return the C source."""
        lines = {"thread": self._thread, "lanes": self._lanes, "block": self._block, "tile": self._tile}
        body = "\n".join(f"    {line}" for line in lines[self.schedule.kind]())
        return f'extern "C" __global__ void {self.head}\n{{\n{body}\n}}\n'

    def size(self) -> tuple[int, int]:
        """Return the numbers of blocks, and of threads of a block."""
        kind, width = self.schedule.kind, self.schedule.width
        if kind == "block":
            return self.n_totals * self.schedule.pieces, BLOCK
        if kind == "tile":
            return self._tiles * self.schedule.pieces, BLOCK
        needed = self.n_totals * width
        threads = min(BLOCK, -(-needed // WARP) * WARP)
        return -(-needed // threads), threads

    # -- the four ways ------------------------------------------------------------------------

    def _thread(self) -> list[str]:
        [loop] = self.loops
        return [
            f"const {self.index_type} o = {self._first()} + threadIdx.x;",
            f"if (o >= {self.n_totals})",
            "    return;",
            *self._declared(),
            *self._loop(loop, "0", str(loop.size), 1),
            *self._stored("o"),
        ]

    def _lanes(self) -> list[str]:
        [loop], width = self.loops, self.schedule.width
        return [
            f"const {self.index_type} o = ({self._first()} + threadIdx.x) / {width};",
            f"const unsigned int lane = threadIdx.x % {width};",
            *self._declared(),
            f"if (o < {self.n_totals}) {{",
            *_indented(self._loop(loop, "lane", str(loop.size), width)),
            "}",
            *self._exchanged(width),
            f"if (lane == 0 && o < {self.n_totals}) {{",
            *_indented(self._stored("o")),
            "}",
        ]

    def _block(self) -> list[str]:
        number = self.schedule.pieces
        warps = BLOCK // WARP
        gathered = [f"for (unsigned int n = 1; n < {warps}; n++) {{"]
        for total in self.totals:
            gathered += _indented(total.plus_other(f"of_warps{total.name[1:]}[n]"))
        return [
            *[f"__shared__ {x.kind} of_warps{x.name[1:]}[{warps}];" for x in self.totals],
            *(
                [f"const {self.index_type} o = blockIdx.x / {number};"]
                if self.n_totals > 1 and number > 1
                else []
            ),
            *([f"const {self.index_type} o = blockIdx.x;"] if self.n_totals > 1 and number == 1 else []),
            *self._declared(),
            *self._ranges(number),
            *self._exchanged(WARP),
            f"if (threadIdx.x % {WARP} == 0) {{",
            *[f"    of_warps{x.name[1:]}[threadIdx.x / {WARP}] = {x.name};" for x in self.totals],
            "}",
            "__syncthreads();",
            "if (threadIdx.x == 0) {",
            *_indented([*gathered, "}", *self._stored_by_block(number > 1)]),
            "}",
        ]

    def _ranges(self, number: int) -> list[str]:
        """Return the loops of a block: all, or the one to which its piece belongs."""
        if number == 1 or len(self.loops) == 1:
            return [line for loop in self.loops for line in self._piece(loop, f"blockIdx.x % {number}")]
        lines, first = [], 0
        for n, loop in enumerate(self.loops):
            last = n == len(self.loops) - 1
            head = (
                "} else {" if last else f"{'} else ' if n else ''}if (blockIdx.x < {first + loop.pieces}) {{"
            )
            piece = f"blockIdx.x - {first}" if first else "blockIdx.x"
            lines += [head, *_indented(self._piece(loop, piece))]
            first += loop.pieces
        return [*lines, "}"]

    def _piece(self, loop: Loop, piece: str, first: str = "threadIdx.x", step: int = BLOCK) -> list[str]:
        """Return the loop over one piece of the elements."""
        if loop.pieces == 1:
            return self._loop(loop, first, str(loop.size), step)
        lines = [f"const {self.index_type} start = ({self.index_type})({piece}) * {loop.length};"]
        stop = f"start + {loop.length}"
        if loop.size % loop.length:
            stop = f"{stop} < {loop.size} ? {stop} : {loop.size}"
        lines.append(f"const {self.index_type} stop = {stop};")
        return ["{", *_indented([*lines, *self._loop(loop, f"start + {first}", "stop", step)]), "}"]

    @property
    def _tiles(self) -> int:
        return -(-self.n_totals // self.schedule.width)

    def _tile(self) -> list[str]:
        [loop], width = self.loops, self.schedule.width
        tile, piece = f"blockIdx.x % {self._tiles}", f"blockIdx.x / {self._tiles}"
        column = f"threadIdx.x % {width}"
        partial = self.schedule.pieces > 1
        added = [
            line for x in self.totals for line in x.plus_other(f"of_threads{x.name[1:]}[threadIdx.x + n]")
        ]
        kept = [f"of_threads{x.name[1:]}[threadIdx.x] = {x.name};" for x in self.totals]
        return [
            *[f"__shared__ {x.kind} of_threads{x.name[1:]}[{BLOCK}];" for x in self.totals],
            f"const {self.index_type} o = {tile} * {width} + {column};" if self._tiles > 1 else
            f"const {self.index_type} o = {column};",
            *self._declared(),
            f"if (o < {self.n_totals}) {{",
            *_indented(self._piece(loop, piece, f"threadIdx.x / {width}", BLOCK // width)),
            "}",
            *kept,
            "__syncthreads();",
            f"for (unsigned int n = {BLOCK // 2}; n >= {width}; n /= 2) {{",
            "    if (threadIdx.x < n) {",
            *_indented([*added, *kept], 2),
            "    }",
            "    __syncthreads();",
            "}",
            f"if (threadIdx.x < {width} && o < {self.n_totals}) {{",
            *_indented(self._stored(f"o * {self.schedule.pieces} + {piece}" if partial else "o", partial)),
            "}",
        ]  # fmt: skip

    # -- parts --------------------------------------------------------------------------------

    def _first(self) -> str:
        """Return the number of the first thread of a block."""
        wide = "" if self.index_type == "unsigned int" else f"({self.index_type})"
        return f"{wide}blockIdx.x * blockDim.x"

    def _declared(self) -> list[str]:
        return [total.declared for total in self.totals]

    def _loop(self, loop: Loop, first: str, stop: str, step: int) -> list[str]:
        if not loop.size:
            return []
        taken = [total.plus(value) for total, value in zip(self.totals, loop.values, strict=True)]
        count = "r++" if step == 1 else f"r += {step}"
        head = f"for ({self.index_type} r = {first}; r < {stop}; {count}) {{"
        return [head, *_indented([*loop.body, *taken]), "}"]

    def _exchanged(self, width: int) -> list[str]:
        """Return statements after which the first of so many lanes has the total of all."""
        lines = [f"for (unsigned int n = {width // 2}; n > 0; n /= 2) {{"]
        for total in self.totals:
            lines += _indented(total.plus_other(f"__shfl_xor_sync(0xffffffffu, {total.name}, n)"))
        return [*lines, "}"]

    def _stored(self, at: str, partial: bool = False) -> list[str]:
        if partial:
            return [f"{x.partial}[{at}] = {x.name};" for x in self.totals]
        return list(self.final)

    def _stored_by_block(self, partial: bool) -> list[str]:
        if partial or self.n_totals > 1:
            return self._stored("blockIdx.x", partial)
        return [f"const {self.index_type} o = 0;", *self.final]


def _indented(lines: Sequence[str], by: int = 1) -> list[str]:
    return [f"{'    ' * by}{line}" for line in lines]
