"""Kernels of short rows as C source: some lanes of a warp have a row, and know its totals without memory.

A softmax with its loss and gradient is one such kernel: each lane has one element of the row, reductions
exchange the elements among the lanes, and every lane computes what the row has only one of.
"""

import math
import re

from sknet.compile._graph import Equation, Variable
from sknet.compile._plan import Plan
from sknet.compile.executors.device._maps import Kernel, Line, MapWriter, live
from sknet.compile.executors.device._reductions import OF_PRODUCTS, axes_of, is_reduction, total_of, value_of
from sknet.compile.executors.device._schedules import BLOCK, WARP, lanes_for
from sknet.compile.passes import Group

__all__ = ["has_operands", "is_in_rows", "row_kernel", "shapes_of_rows"]

WITHIN_ROWS = ("flat_index", "put_at", "subtract_at", "take_at")  # whose operands have an element per row
INDEX = re.compile(r"\bi\b")


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
    """Return the kernel of a group with reductions within rows."""
    writer = _RowWriter(group, plan)
    lines, used = live([*writer.loads, *writer.lines], [*writer.stores, *writer.stores_of_rows])
    length, width, kind = writer.length, lanes_for(writer.length), writer.index_kind
    n_rows = math.prod(writer.whole[:-1])
    first = "blockIdx.x" if writer.is_narrow else f"({kind})blockIdx.x"
    body = [text for line in lines for text in writer.reductions.get(line.name, [str(line)])]
    index = [f"const {kind} i = o * {length} + lane;"]
    body = [
        f"const {kind} o = ({first} * blockDim.x + threadIdx.x) / {width};",
        f"const unsigned int lane = threadIdx.x % {width};",
        *(index if any(INDEX.search(text) for text in (*body, *writer.stores)) else []),
        f"const bool is_row = o < {n_rows}, is_element = is_row && lane < {length};",
        *body,
        "__syncwarp();",  # an element that all lanes read may be overwritten
        *_guarded("is_element", writer.stores),
        *_guarded("is_row && lane == 0", writer.stores_of_rows),
    ]
    text = "\n".join(f"    {line}" for line in body)
    threads = min(BLOCK, -(-n_rows * width // WARP) * WARP)
    source = f'extern "C" __global__ void {name}({", ".join(writer.parameters(used))})\n{{\n{text}\n}}\n'
    blocks = -(-n_rows * width // threads)
    return Kernel(name, source, frozenset(writer.helpers), writer.taken(used), blocks, threads)


def _guarded(condition: str, stores: list[str]) -> list[str]:
    return [f"if ({condition}) {{", *[f"    {store}" for store in stores], "}"] if stores else []


class _RowWriter(MapWriter):
    """Writes the body of a kernel of rows; ``o`` is the row of a lane, and ``i`` its element."""

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
            self.stores_of_rows.append(f"{self.names[output]}[o] = {name};")

    def _reduce(self, equation: Equation) -> None:
        self.here, self.shape = "i", self.whole
        output, element = equation.output, self.element(equation.variables[0])
        name = self._name(output)
        total = total_of(equation, name)
        self.reductions[name] = [
            f"{total.kind} {name} = is_element ? {value_of(equation, element)} : {total.start};",
            f"for (unsigned int n = {lanes_for(self.length) // 2}; n > 0; n /= 2) {{",
            *[f"    {line}" for line in total.plus_other(f"__shfl_xor_sync(0xffffffffu, {name}, n)")],
            "}",
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
