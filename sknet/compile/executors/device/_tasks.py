"""Equations that have kernels of their own: pools, convolutions, recurrences, and sums at computed places.

A rule yields what computes an equation, in order: kernels, products of matrices, and assignments. All
of it works in memory of the plan, so that a step can be captured.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sknet._attributes import cached_property
from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._calls import Name
from sknet.compile.executors._writer import Writer, registry
from sknet.compile.executors.device._c_scalar import type_of
from sknet.compile.executors.device._maps import MOST_BLOCKS, Kernel
from sknet.compile.executors.device._schedules import BLOCK
from sknet.device import Backend
from sknet.ops.extend import Windows

__all__ = [
    "Arrays",
    "Fill",
    "Product",
    "Step",
    "Task",
    "by_rule",
    "has_rule",
    "rule",
    "scratch_of_rule",
    "takes",
    "windows_of",
    "works_in",
]

FLOAT32, FLOAT64 = np.dtype("float32"), np.dtype("float64")
NO_TYPES: Mapping[str, Any] = MappingProxyType({})
NARROW = 1 << 30  # up to this many elements, indices and their steps are of 32 bits


class Product(NamedTuple):
    """A product of matrices, by the names of its arrays."""

    x: Name
    y: Name
    out: Name


class Fill(NamedTuple):
    """The assignment of an array or a number to all elements of an array."""

    out: Name
    value: Name | int


Step = Kernel | Product | Fill
Arrays = list[tuple[tuple[int, ...], Any]]
Rule = Callable[["Task"], Iterator[Step]]
RULES: dict[str, Rule] = {}
SCRATCH: dict[str, Callable[[Equation], Arrays]] = {}
CONDITIONS: dict[str, Callable[[Equation], bool]] = {}
rule = registry(RULES)  # registers what computes a primitive
works_in = registry(SCRATCH)  # registers shape and dtype of the arrays that it needs for that
takes = registry(CONDITIONS)  # registers of which operands; if nothing is, of arrays only


def has_rule(equation: Equation) -> bool:
    """Tell whether an equation is computed by a rule."""
    name = equation.primitive.name
    if name not in RULES or not CONDITIONS.get(name, _has_arrays_only)(equation):
        return False
    given = [x.dtype for x in equation.variables if x.dtype.kind not in "iu"]  # integers are indices
    return {*given, equation.output.dtype} in ({FLOAT32}, {FLOAT64})


def _has_arrays_only(equation: Equation) -> bool:
    return len(equation.variables) == len(equation.operands)


def by_rule(equation: Equation, writer: Writer, owner: Backend, name: Callable[[], str]) -> Iterator[Step]:
    """Yield what computes an equation, in order."""
    if _is_empty(equation):
        yield Fill(writer.name(equation.output), 0)
        return
    yield from RULES[equation.primitive.name](Task(equation, writer, owner, name))


def scratch_of_rule(equation: Equation) -> Arrays:
    """Return shape and dtype of the arrays that an equation needs besides its output."""
    found = SCRATCH.get(equation.primitive.name)
    return [] if found is None or _is_empty(equation) else found(equation)


def _is_empty(equation: Equation) -> bool:
    """Tell whether nothing is added up: the result is 0, if it has elements."""
    return not all(x.size for x in (*equation.variables, equation.output))


def windows_of(equation: Equation) -> Windows:
    """Return where the windows are, of a pool or a convolution."""
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
        self.equation, self.writer = equation, writer
        self.output, self.kind = equation.output, type_of(equation.output.dtype)
        sizes = [x.size for x in (*equation.variables, self.output)]
        sizes += [math.prod(shape) for shape, _ in scratch_of_rule(equation)]
        self.index = "int" if max(sizes) < NARROW else "long long"
        self._name = name

    @cached_property
    def windows(self) -> Windows:
        """Windows of a pool or a convolution."""
        return windows_of(self.equation)

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

    def kernel(
        self,
        size: int,
        arrays: Mapping[str, Name],
        body: list[str],
        types: Mapping[str, Any] = NO_TYPES,
        writes: Collection[str] = ("out",),
    ) -> Kernel:
        """Return a kernel that runs statements for each index ``i``, and writes to some of its arrays."""
        name, kind = self._name(), self.index
        kinds = {key: type_of(types[key]) if key in types else self.kind for key in arrays}
        parameters = ", ".join(f"{'' if key in writes else 'const '}{kinds[key]} *{key}" for key in arrays)
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
