"""Kernels of windows on images: pools here, convolutions in `_columns`.

A thread computes one element of the result. In a pool's gradient it looks at every window that its element is
in, so that no two threads add to the same place, and the order of additions is that of the elements of a
window.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._writer import Writer, registry
from sknet.compile.executors.device._c_scalar import literal, type_of
from sknet.compile.executors.device._maps import MOST_BLOCKS, Kernel
from sknet.compile.executors.device._schedules import BLOCK
from sknet.device import Backend
from sknet.ops.extend import Windows

__all__ = [
    "Product", "Step", "Task", "is_windowed", "rule", "scratch_of_windows", "windowed", "works_in",
]  # fmt: skip

NARROW = 1 << 30  # up to this many elements, indices and their steps are of 32 bits


class Product(NamedTuple):
    """A product of matrices, by expressions of its arrays."""

    x: str
    y: str
    out: str


Step = Kernel | Product | str  # text is a line of Python
Rule = Callable[["Task"], Iterator[Step]]
Scratch = Callable[[Equation, Windows], list[tuple[tuple[int, ...], Any]]]
RULES: dict[str, Rule] = {}
SCRATCH: dict[str, Scratch] = {}
rule = registry(RULES)  # registers what computes a primitive
works_in = registry(SCRATCH)  # registers shape and dtype of the arrays that it needs for that


def is_windowed(equation: Equation) -> bool:
    """Tell whether an equation is a pool or a convolution that kernels compute."""
    if equation.primitive.name not in RULES:
        return False
    dtypes = {x.dtype.name for x in (*equation.variables, equation.output)}
    has_numbers = len(equation.variables) < len(equation.operands)
    return not has_numbers and len(dtypes) == 1 and dtypes <= {"float32", "float64"}


def windowed(equation: Equation, writer: Writer, owner: Backend, name: Callable[[], str]) -> Iterator[Step]:
    """Yield what computes an equation, in order.

    Parameters
    ----------
    equation : Equation
        For which `is_windowed` is true.
    writer : Writer
        Names its arrays.
    owner : Backend
        Of the device.
    name : callable
        Returns a new name for a kernel.
    """
    if _is_empty(equation):
        yield f"{writer.made(writer.name(equation.output) + '.fill', 'fill')}(0)"
        return
    yield from RULES[equation.primitive.name](Task(equation, writer, owner, name))


def scratch_of_windows(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of the arrays that an equation needs besides its output."""
    found = SCRATCH.get(equation.primitive.name)
    return [] if found is None or _is_empty(equation) else found(equation, _windows_of(equation))


def _is_empty(equation: Equation) -> bool:
    """Tell whether nothing is added up: the result is 0, if it has elements."""
    return not all(x.size for x in (*equation.variables, equation.output))


def _windows_of(equation: Equation) -> Windows:
    params = equation.params
    where = {key: params[key] for key in ("stride", "padding", "dilation")}
    x, name = equation.variables[0], equation.primitive.name
    kernel = params.get("kernel") or equation.variables[1].shape[2:]
    size = params.get("size") or (equation.output if name == "max_pool_put" else x).shape[2:]
    return Windows(tuple(size), tuple(kernel), **where)


class Task:
    """One equation: names and layouts of its arrays, and text that finds elements of them."""

    def __init__(self, equation: Equation, writer: Writer, owner: Backend, name: Callable[[], str]) -> None:
        self.xp = owner.xp
        self.equation, self.writer, self.windows = equation, writer, _windows_of(equation)
        self.output, self.kind = equation.output, type_of(equation.output.dtype)
        sizes = [x.size for x in (*equation.variables, self.output)]
        sizes += [shape[0] for shape, _ in scratch_of_windows(equation)]
        self.index = "int" if max(sizes) < NARROW else "long long"
        self._name = name

    def at(self, x: Variable, c_name: str, *place: str) -> str:
        """Return the element of an operand at a place, of any layout."""
        strides = self.writer.plan.views.ghost(x).strides
        steps = [stride // x.dtype.itemsize for stride in strides]
        terms = [f"({i}) * {step}" for i, step in zip(place, steps, strict=True) if step]
        return f"{c_name}[{' + '.join(terms) or 0}]"

    def of(self, i: str, sizes: tuple[int, ...], names: str) -> list[str]:
        """Return statements that name the coordinates of flat index `i` in an array of these sizes."""
        found, step = [], 1
        for size, name in zip(reversed(sizes), reversed(names.split()), strict=True):
            found.append(f"const {self.index} {name} = {i} / {step} % {size};" if size > 1 else
                         f"const {self.index} {name} = 0;")  # fmt: skip
            step *= size
        return found[::-1]

    def kernel(self, size: int, arrays: dict[str, str], body: list[str], out: str = "out") -> Kernel:
        """Return a kernel that runs statements for each index ``i``; `arrays` are expressions by C name."""
        name, kind = self._name(), self.index
        parameters = ", ".join(f"{'' if key == out else 'const '}{self.kind} *{key}" for key in arrays)
        text = "\n".join(f"        {line}" for line in body)
        loop = (
            f"for ({kind} i = ({kind})blockIdx.x * blockDim.x + threadIdx.x; i < {size}; "
            f"i += ({kind})gridDim.x * blockDim.x) {{"
        )
        source = f'extern "C" __global__ void {name}({parameters})\n{{\n    {loop}\n{text}\n    }}\n}}\n'
        blocks = min(-(-size // BLOCK), MOST_BLOCKS)
        return Kernel(name, source, frozenset(), list(arrays.values()), blocks)

    # -- windows ------------------------------------------------------------------------------

    def place_in(self, window: tuple[str, str], element: tuple[str, str]) -> list[str]:
        """Return statements that name row ``y`` and column ``x`` of an element of a window."""
        found = []
        for axis, name in enumerate("yx"):
            stride, dilation = self.windows.stride[axis], self.windows.dilation[axis]
            before = self.windows.padding[axis][0]
            found.append(
                f"const {self.index} {name} = {window[axis]} * {stride} + {element[axis]} * {dilation}"
                f" - {before};"
            )
        return found

    @property
    def is_inside(self) -> str:
        """The condition that row ``y`` and column ``x`` are in the image."""
        rows, columns = self.windows.size
        return f"y >= 0 && y < {rows} && x >= 0 && x < {columns}"

    def each_element(self, body: list[str]) -> list[str]:
        """Return loops over the elements of a window, of row ``a`` and column ``b``."""
        rows, columns = self.windows.kernel
        loops = [f"for (int a = 0; a < {rows}; a++) {{", f"for (int b = 0; b < {columns}; b++) {{"]
        return [*loops, *body, "}", "}"]

    def each_window(self, body: list[str]) -> list[str]:
        """Return loops over the windows, at ``h`` and ``w``, in which row ``y`` and column ``x`` are."""
        found = []
        for axis, (name, window, element) in enumerate(zip("yx", "hw", "ab", strict=True)):
            stride, dilation = self.windows.stride[axis], self.windows.dilation[axis]
            before, grid = self.windows.padding[axis][0], self.windows.grid[axis]
            found += [
                f"const {self.index} from_{window} = {name} + {before} - {element} * {dilation};",
                f"const {self.index} {window} = from_{window} / {stride};",
                f"if (from_{window} < 0 || {window} >= {grid}"
                + (f" || from_{window} % {stride} != 0" if stride > 1 else "")
                + ") continue;",
            ]
        return self.each_element([*found, *body])


# -- pools ------------------------------------------------------------------------------------


@rule("max_pool")
def _max_pool(task: Task) -> Iterator[Step]:
    [x], out = task.equation.variables, task.output
    element = task.at(x, "image", "n", "c", "y", "x")
    body = [
        *task.of("i", out.shape, "n c h w"),
        f"{task.kind} found = {literal(-math.inf, x.dtype)};",
        *task.each_element(
            [
                *task.place_in(("h", "w"), ("a", "b")),
                f"if ({task.is_inside}) {{",
                f"const {task.kind} value = {element};",
                "if (value > found || value != value) found = value;",
                "}",
            ]
        ),
        "out[i] = found;",
    ]
    names = {"image": task.writer.name(x), "out": task.writer.name(out)}
    yield task.kernel(out.size, names, body)


@rule("max_pool_put")
def _max_pool_put(task: Task) -> Iterator[Step]:
    """Each element gets the gradients of the windows of which it is the first largest element."""
    g, x, top = task.equation.variables
    out, (rows, columns) = task.output, task.windows.kernel
    before = [
        *task.place_in(("h", "w"), ("d", "e")),
        f"const {task.kind} other = {task.is_inside} ? {task.at(x, 'image', 'n', 'c', 'y', 'x')} : "
        f"{literal(-math.inf, x.dtype)};",
        "if (other == largest) is_first = false;",
    ]
    body = [
        *task.of("i", out.shape, "n c y x"),
        f"const {task.kind} value = {task.at(x, 'image', 'n', 'c', 'y', 'x')};",
        f"{task.kind} total = {literal(0, x.dtype)};",
        *task.each_window(
            [
                f"const {task.kind} largest = {task.at(top, 'top', 'n', 'c', 'h', 'w')};",
                "if (value != largest) continue;",
                "bool is_first = true;",
                f"for (int k = 0; k < a * {columns} + b; k++) {{",
                f"const int d = k / {columns}, e = k % {columns};",
                *before,
                "}",
                f"if (is_first) total += {task.at(g, 'given', 'n', 'c', 'h', 'w')};",
            ]
        ),
        "out[i] = total;",
    ]
    if rows * columns == 1:  # nothing comes before
        start = body.index("bool is_first = true;")
        body[start : body.index("}", start) + 1] = ["const bool is_first = true;"]
    name = task.writer.name
    yield task.kernel(
        out.size, {"given": name(g), "image": name(x), "top": name(top), "out": name(out)}, body
    )


@rule("sum_pool")
def _sum_pool(task: Task) -> Iterator[Step]:
    """Sums of the columns of a window are added, as `sknet.ops` does."""
    [x], out, zero = task.equation.variables, task.output, literal(0, task.output.dtype)
    rows, columns = task.windows.kernel
    body = [
        *task.of("i", out.shape, "n c h w"),
        f"{task.kind} total = {zero};",
        f"for (int b = 0; b < {columns}; b++) {{",
        f"{task.kind} column = {zero};",
        f"for (int a = 0; a < {rows}; a++) {{",
        *task.place_in(("h", "w"), ("a", "b")),
        f"if ({task.is_inside}) column += {task.at(x, 'image', 'n', 'c', 'y', 'x')};",
        "}",
        "total += column;",
        "}",
        "out[i] = total;",
    ]
    yield task.kernel(out.size, {"image": task.writer.name(x), "out": task.writer.name(out)}, body)


@rule("sum_pool_spread")
def _sum_pool_spread(task: Task) -> Iterator[Step]:
    [g], out = task.equation.variables, task.output
    body = [
        *task.of("i", out.shape, "n c y x"),
        f"{task.kind} total = {literal(0, out.dtype)};",
        *task.each_window([f"total += {task.at(g, 'given', 'n', 'c', 'h', 'w')};"]),
        "out[i] = total;",
    ]
    yield task.kernel(out.size, {"given": task.writer.name(g), "out": task.writer.name(out)}, body)
