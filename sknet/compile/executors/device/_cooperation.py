"""The text of kernels whose threads share totals: loops over elements, and how parts come together."""

from collections.abc import Sequence
from typing import NamedTuple

from sknet.compile.executors.device._schedules import BLOCK, WARP, Schedule, lanes_for

__all__ = ["Loop", "Reducer", "Section", "Total"]


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


class Loop(NamedTuple):
    """Statements for element number ``r`` of each total."""

    size: int
    body: Sequence[str]
    values: Sequence[str]
    pieces: int
    length: int


class Section(NamedTuple):
    """Totals of the same elements."""

    totals: Sequence[Total]
    loops: Sequence[Loop]
    pieces: int


class Reducer(NamedTuple):
    """Writes a kernel."""

    head: str
    index_type: str
    sections: Sequence[Section]
    n_totals: int
    schedule: Schedule
    final: Sequence[str] = ()
    counts: str = ""

    def text(self) -> str:
        """Return the C source."""
        lines = {"thread": self._thread, "lanes": self._lanes, "block": self._block, "tile": self._tile}
        body = "\n".join(f"    {line}" for line in lines[self.schedule.kind]())
        return f'extern "C" __global__ void {self.head}\n{{\n{body}\n}}\n'

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
        """Totals of all sections."""
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
            f"if (o < {self.n_totals}) {{",
            *_indented(self._loop(totals, loop, "lane", str(loop.size), width)),
            "}",
            *_exchanged(totals, width),
            f"if (lane == 0 && o < {self.n_totals}) {{",
            *_indented(self.final),
            "}",
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
                lines += [head if first else f"if (blockIdx.x < {section.pieces}) {{"]
                lines += [*_indented(self._section(section, piece, piece)), "}"]
                first += section.pieces
        return [*lines, *self._completed("o" if self.n_totals > 1 else "0", 1, first or number)]

    def _section(self, section: Section, piece: str, place: str) -> list[str]:
        """Return how a block computes its piece of some totals, and stores it in its place."""
        totals, warps = section.totals, BLOCK // WARP
        gathered = [f"for (unsigned int n = 1; n < {warps}; n++) {{"]
        for total in totals:
            gathered += _indented(total.plus_other(f"of_warps{total.name[1:]}[n]"))
        return [
            *[f"__shared__ {x.kind} of_warps{x.name[1:]}[{warps}];" for x in totals],
            *_declared(totals),
            *self._ranges(section, piece),
            *_exchanged(totals, WARP),
            f"if (threadIdx.x % {WARP} == 0) {{",
            *[f"    of_warps{x.name[1:]}[threadIdx.x / {WARP}] = {x.name};" for x in totals],
            "}",
            "__syncthreads();",
            "if (threadIdx.x == 0) {",
            *_indented([*gathered, "}", *self._stored(totals, place)]),
            "}",
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
            lines += [head, *_indented(self._piece(totals, loop, f"{piece} - {first}" if first else piece))]
            first += loop.pieces
        return [*lines, "}"]

    def _piece(
        self, totals: Sequence[Total], loop: Loop, piece: str, first: str = "threadIdx.x", step: int = BLOCK
    ) -> list[str]:
        """Return the loop over one piece of the elements."""
        if loop.pieces == 1:
            return self._loop(totals, loop, first, str(loop.size), step)
        lines = [f"const {self.index_type} start = ({self.index_type})({piece}) * {loop.length};"]
        stop = f"start + {loop.length}"
        if loop.size % loop.length:
            stop = f"{stop} < {loop.size} ? {stop} : {loop.size}"
        lines.append(f"const {self.index_type} stop = {stop};")
        return ["{", *_indented([*lines, *self._loop(totals, loop, f"start + {first}", "stop", step)]), "}"]

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
            f"if (o < {self.n_totals}) {{",
            *_indented(self._piece(totals, loop, piece, f"threadIdx.x / {width}", BLOCK // width)),
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
            *_indented(self._stored(totals, f"o * {pieces} + {piece}")),
            "}",
            *self._completed(tile if self._tiles > 1 else "0", width, pieces),
        ]  # fmt: skip

    # -- parts --------------------------------------------------------------------------------

    def _first(self) -> str:
        """Return the number of the first thread of a block."""
        wide = "" if self.index_type == "unsigned int" else f"({self.index_type})"
        return f"{wide}blockIdx.x * blockDim.x"

    def _loop(self, totals: Sequence[Total], loop: Loop, first: str, stop: str, step: int) -> list[str]:
        if not loop.size:
            return []
        taken = [total.plus(value) for total, value in zip(totals, loop.values, strict=True)]
        count = "r++" if step == 1 else f"r += {step}"
        head = f"for ({self.index_type} r = {first}; r < {stop}; {count}) {{"
        return [head, *_indented([*loop.body, *taken]), "}"]

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
            f"for (unsigned int n = 0; n < {members}; n += {BLOCK // width}) {{",
            f"    const {self.index_type} total = {o};",
            f"    const bool is_total = {member} < {members} && total < {self.n_totals};",
            *_indented([*_declared(self.totals), "if (is_total) {", *_indented(added), "}"]),
            *_indented(_exchanged(self.totals, width)),
            "    if (lane == 0 && is_total) {",
            f"        const {self.index_type} o = total;",
            *_indented(self.final, 2),
            "    }",
            "}",
        ]

    def _added(self, x: Total, pieces: int, width: int) -> list[str]:
        """Return the loop in which a lane adds what blocks have stored."""
        place = f"total * {pieces} + r" if self.n_totals > 1 else "r"
        head = f"for (unsigned int r = lane; r < {pieces}; r += {width}) {{"
        return [head, *_indented(x.plus_other(f"{x.partial}[{place}]")), "}"]


def _declared(totals: Sequence[Total]) -> list[str]:
    return [total.declared for total in totals]


def _exchanged(totals: Sequence[Total], width: int) -> list[str]:
    """Return statements after which the first of so many lanes has the total of all."""
    lines = [f"for (unsigned int n = {width // 2}; n > 0; n /= 2) {{"]
    for total in totals:
        lines += _indented(total.plus_other(f"__shfl_xor_sync(0xffffffffu, {total.name}, n)"))
    return [*lines, "}"]


def _indented(lines: Sequence[str], by: int = 1) -> list[str]:
    return [f"{'    ' * by}{line}" for line in lines]
