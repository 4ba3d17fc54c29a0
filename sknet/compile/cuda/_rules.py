"""Equations that have kernels of their own: pools, convolutions, and sums at computed indices.

A rule yields what computes an equation, in order: kernels, products of matrices, and assignments. All of it
works in memory of the plan, so that a step can be captured. Recurrent networks have rules as well, in
`_recurrent`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from sknet._late import cached_property
from sknet.compile._calls import Name, Writer, registry
from sknet.compile._graph import Equation, Variable
from sknet.compile.cuda._maps import BLOCK, MOST_BLOCKS, Kernel, block, literal, steps_of, text_of, type_of
from sknet.device import Backend
from sknet.ops._windows import Windows

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
Rule = Callable[["RuleTask"], Iterator[Step]]
RULES: dict[str, Rule] = {}
SCRATCH: dict[str, Callable[[Equation], Arrays]] = {}
CONDITIONS: dict[str, Callable[[Equation], bool]] = {}
rule = registry(RULES)  # registers what computes a primitive
works_in = registry(SCRATCH)  # registers shape and dtype of the arrays that it needs for that
takes = registry(CONDITIONS)  # registers of which operands; if nothing is, of arrays only


def has_rule(equation: Equation) -> bool:
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
    yield from RULES[equation.primitive.name](RuleTask(equation, writer, owner, name))


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


class RuleTask:
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
        return windows_of(self.equation)

    def at(self, x: Variable, c_name: str, *place: str) -> str:
        """Return the element of an operand at a place, of any layout."""
        steps = steps_of(self.writer.plan.views.ghost(x))
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
        parameters = [f"{'' if key in writes else 'const '}{kinds[key]} *{key}" for key in arrays]
        loop = (
            f"for ({kind} i = ({kind})blockIdx.x * blockDim.x + threadIdx.x; i < {size}; "
            f"i += ({kind})gridDim.x * blockDim.x) {{"
        )
        source = text_of(name, parameters, block(loop, body))
        blocks = min(-(-size // BLOCK), MOST_BLOCKS)
        return Kernel(name, source, frozenset(), list(arrays.values()), blocks)

    # -- memory -------------------------------------------------------------------------------

    def room(self, which: int, *shape: int) -> Name:
        """Return the name of some of a scratch array, in a shape."""
        w = self.writer
        return w.shaped(w.part(w.scratch(self.equation, which), slice(math.prod(shape))), *shape)

    def samples(self, x: Variable, start: int, n: int) -> Name:
        """Return the name of some samples of an array."""
        name = self.writer.name(x)
        return name if n == x.shape[0] else self.writer.part(name, slice(start, start + n))

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


# -- pools, and their gradients ---------------------------------------------------------------
# A thread computes one element of the result. In a gradient it looks at every window that its element is in,
# so that no two threads add to one element, and the order of additions is that of the elements of a window.


@rule("max_pool")
def _max_pool(task: RuleTask) -> Iterator[Step]:
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
def _max_pool_put(task: RuleTask) -> Iterator[Step]:
    """Each element gets the gradients of the windows of which it is the first largest element."""
    g, x, top = task.equation.variables
    out, (rows, columns) = task.output, task.windows.kernel
    is_first = [
        "bool is_first = true;",
        f"for (int k = 0; k < a * {columns} + b; k++) {{",
        f"const int d = k / {columns}, e = k % {columns};",
        *task.place_in(("h", "w"), ("d", "e")),
        f"const {task.kind} other = {task.is_inside} ? {task.at(x, 'image', 'n', 'c', 'y', 'x')} : "
        f"{literal(-math.inf, x.dtype)};",
        "if (other == largest) is_first = false;",
        "}",
    ]
    if rows * columns == 1:  # nothing comes before
        is_first = ["const bool is_first = true;"]
    body = [
        *task.of("i", out.shape, "n c y x"),
        f"const {task.kind} value = {task.at(x, 'image', 'n', 'c', 'y', 'x')};",
        f"{task.kind} total = {literal(0, x.dtype)};",
        *task.each_window(
            [
                f"const {task.kind} largest = {task.at(top, 'top', 'n', 'c', 'h', 'w')};",
                "if (value != largest) continue;",
                *is_first,
                f"if (is_first) total += {task.at(g, 'given', 'n', 'c', 'h', 'w')};",
            ]
        ),
        "out[i] = total;",
    ]
    name = task.writer.name
    yield task.kernel(
        out.size, {"given": name(g), "image": name(x), "top": name(top), "out": name(out)}, body
    )


@rule("sum_pool")
def _sum_pool(task: RuleTask) -> Iterator[Step]:
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
def _sum_pool_spread(task: RuleTask) -> Iterator[Step]:
    [g], out = task.equation.variables, task.output
    body = [
        *task.of("i", out.shape, "n c y x"),
        f"{task.kind} total = {literal(0, out.dtype)};",
        *task.each_window([f"total += {task.at(g, 'given', 'n', 'c', 'h', 'w')};"]),
        "out[i] = total;",
    ]
    yield task.kernel(out.size, {"given": task.writer.name(g), "out": task.writer.name(out)}, body)


# -- rows that are added where indices point to, as in the gradient of an embedding -----------


MOST_LOOKS = 1 << 26  # so many indices may be read by all threads, to add in the order of indices


@rule("put")
def _put(task: RuleTask) -> Iterator[Step]:
    """Each element looks for its gradients; if there are too many places, these are added in any order."""
    (g, indices), out = task.equation.variables, task.output
    length, axis = task.equation.params["length"], task.equation.params["axis"]
    behind, count = math.prod(out.shape[out.ndim + axis + 1 :]), indices.size
    sizes = math.prod(out.shape[: out.ndim + axis]), length, behind
    name, kind, index = task.writer.name, task.kind, task.index
    is_ordered = count * out.size <= MOST_LOOKS
    found = [
        *_element(task, indices, "k", "at"),
        f"const {index} row = ({index})((indices[at] % {length} + {length}) % {length});",
        *_element(task, g, f"(p * {count} + k) * {behind} + q", "of"),
    ]
    arrays = {"given": name(g), "indices": name(indices), "out": name(out)}
    types = {"indices": indices.dtype}
    if is_ordered:
        body = [
            *task.of("i", sizes, "p r q"),
            f"{kind} total = 0;",
            f"for ({index} k = 0; k < {count}; k++) {{",
            *found[:-1],
            "if (row != r) continue;",
            found[-1],
            "total += given[of];",
            "}",
            "out[i] = total;",
        ]
        yield task.kernel(out.size, arrays, body, types)
        return
    body = [
        *task.of("i", (sizes[0], count, behind), "p k q"),
        *found,
        f"atomicAdd(out + (p * {length} + row) * {behind} + q, given[of]);",
    ]
    yield Fill(name(out), 0)
    yield task.kernel(g.size, arrays, body, types)


def _element(task: RuleTask, x: Variable, flat: str, name: str) -> list[str]:
    """Return the statement that names the place, in memory, of an element given by its flat index."""
    strides, step, terms = steps_of(task.writer.plan.views.ghost(x)), x.size, []
    if task.writer.plan.views.is_contiguous(x):
        return [f"const {task.index} {name} = {flat};"]
    for size, stride in zip(x.shape, strides, strict=True):
        step //= size
        terms.append(f"({flat}) / {step} % {size} * {stride}")
    return [f"const {task.index} {name} = {' + '.join(terms) or 0};"]


# -- convolutions: windows become columns of a matrix, which is multiplied with the kernels ---


MOST_COLUMNS = 1 << 26  # bytes of the columns of several samples; more samples are computed in parts


class _Forms(NamedTuple):
    """Sizes of a convolution: of images (n_samples, channels, ...) with kernels (filters, ...)."""

    n_samples: int
    channels: int
    filters: int
    groups: int
    kernel: tuple[int, int]
    grid: tuple[int, int]
    part: int

    @classmethod
    def of(cls, equation: Equation, windows: Windows) -> "_Forms":
        first, second = (x.shape for x in equation.variables)
        name, groups = equation.primitive.name, equation.params["groups"]
        weight = equation.output.shape if name == "conv_weight" else second
        channels = weight[1] * groups
        n_bytes = channels * math.prod((*windows.kernel, *windows.grid)) * equation.output.dtype.itemsize
        part = max(1, min(first[0], MOST_COLUMNS // n_bytes))
        return cls(first[0], channels, weight[0], groups, windows.kernel, windows.grid, part)

    @property
    def depth(self) -> int:
        return self.channels // self.groups * math.prod(self.kernel)

    def columns(self, n: int) -> tuple[int, ...]:
        """Return the shape of the columns of some samples, by group."""
        return self.by_group(self.depth, n * math.prod(self.grid))

    def images(self, n: int) -> tuple[int, ...]:
        """Return the shape of images of filters as rows, by group."""
        return self.by_group(self.filters // self.groups, n * math.prod(self.grid))

    @property
    def weight(self) -> tuple[int, ...]:
        return self.by_group(self.filters // self.groups, self.depth)

    def by_group(self, rows: int, columns: int) -> tuple[int, ...]:
        return (rows, columns) if self.groups == 1 else (self.groups, rows, columns)


def _parts(of: "_Forms | _Tiles") -> Iterator[tuple[int, int]]:
    """Yield where the samples begin that are computed at a time, and their number."""
    for start in range(0, of.n_samples, of.part):
        yield start, min(of.part, of.n_samples - start)


@works_in("conv", "conv_image", "conv_weight")
def _works_in(equation: Equation) -> Arrays:
    tiles = _Tiles.of(equation, windows_of(equation))
    if tiles is not None:
        return [((size,), equation.output.dtype) for size in tiles.sizes()]
    forms = _Forms.of(equation, windows_of(equation))
    shapes = forms.columns(forms.part), forms.images(forms.part), forms.weight
    return [((math.prod(shape),), equation.output.dtype) for shape in shapes]


class _Convolution:
    """The maps of a convolution; its scratch arrays are of columns, images and weights."""

    def __init__(self, task: RuleTask) -> None:
        self.task, self.forms = task, _Forms.of(task.equation, task.windows)

    def weight_of(self, x: Variable) -> Iterator[Step]:
        """Yield what copies a weight that is not contiguous to scratch memory."""
        if not self.task.writer.plan.views.is_contiguous(x):
            yield Fill(self.task.room(2, *x.shape), self.task.writer.name(x))

    def as_matrix(self, x: Variable) -> Name:
        if self.task.writer.plan.views.is_contiguous(x):
            return self.task.writer.reshaped(x, self.forms.weight)
        return self.task.room(2, *self.forms.weight)

    def turned(self, matrix: Name) -> Name:
        axes = (1, 0) if self.forms.groups == 1 else (0, 2, 1)
        return self.task.writer.turned(matrix, axes)

    # -- kernels ------------------------------------------------------------------------------

    def gathered(self, x: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that writes the columns of some samples."""
        task, forms = self.task, self.forms
        sizes = forms.channels, *forms.kernel, n, *forms.grid
        body = [
            *task.of("i", sizes, "c a b s h w"),
            *task.place_in(("h", "w"), ("a", "b")),
            f"out[i] = {task.is_inside} ? {task.at(x, 'image', 's', 'c', 'y', 'x')} : 0;",
        ]
        names = {"image": self.task.samples(x, start, n), "out": task.room(0, *forms.columns(n))}
        return task.kernel(math.prod(sizes), names, body)

    def in_rows(self, g: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that writes images of filters as rows, one for each filter."""
        sizes = self.forms.filters, n, *self.forms.grid
        body = [
            *self.task.of("i", sizes, "o s h w"),
            f"out[i] = {self.task.at(g, 'given', 's', 'o', 'h', 'w')};",
        ]
        names = {"given": self.task.samples(g, start, n), "out": self.task.room(1, *self.forms.images(n))}
        return self.task.kernel(math.prod(sizes), names, body)

    def from_rows(self, start: int, n: int) -> Kernel:
        """Return the kernel that does the opposite."""
        out, grid = self.task.output, self.forms.grid
        sizes = n, self.forms.filters, math.prod(grid)
        body = [
            *self.task.of("i", sizes, "s o p"),
            f"out[i] = rows[(o * {n} + s) * {math.prod(grid)} + p];",
        ]
        names = {"rows": self.task.room(1, *self.forms.images(n)), "out": self.task.samples(out, start, n)}
        return self.task.kernel(math.prod(sizes), names, body)

    def added_up(self, start: int, n: int) -> Kernel:
        task, out = self.task, self.task.output
        (rows, columns), (height, width) = self.forms.kernel, self.forms.grid
        place = f"((((c * {rows} + a) * {columns} + b) * {n} + s) * {height} + h) * {width} + w"
        sizes = n, *out.shape[1:]
        body = [
            *task.of("i", sizes, "s c y x"),
            f"{task.kind} total = 0;",
            *task.each_window([f"total += columns[{place}];"]),
            "out[i] = total;",
        ]
        names = {
            "columns": self.task.room(0, *self.forms.columns(n)),
            "out": self.task.samples(out, start, n),
        }
        return task.kernel(math.prod(sizes), names, body)


@rule("conv")
def _conv(task: RuleTask) -> Iterator[Step]:
    (x, w), made = task.equation.variables, _Convolution(task)
    tiles = _Tiles.of(task.equation, task.windows)
    if tiles is not None:
        yield from _TiledConvolution(task, tiles).images(
            x, task.at(w, "w", "i / {c}", "i % {c}", "{a}", "{b}")
        )
        return
    yield from made.weight_of(w)
    for start, n in _parts(made.forms):
        yield made.gathered(x, start, n)
        columns, rows = task.room(0, *made.forms.columns(n)), task.room(1, *made.forms.images(n))
        yield Product(made.as_matrix(w), columns, rows)
        yield made.from_rows(start, n)


@rule("conv_image")
def _conv_image(task: RuleTask) -> Iterator[Step]:
    (g, w), made = task.equation.variables, _Convolution(task)
    tiles = _Tiles.of(task.equation, task.windows)
    if tiles is not None:  # a convolution of gradients with the kernels turned by half a circle
        turned = task.at(w, "w", "i % {c}", "i / {c}", "2 - {a}", "2 - {b}")
        yield from _TiledConvolution(task, tiles).images(g, turned)
        return
    yield from made.weight_of(w)
    for start, n in _parts(made.forms):
        yield made.in_rows(g, start, n)
        columns, rows = task.room(0, *made.forms.columns(n)), task.room(1, *made.forms.images(n))
        yield Product(made.turned(made.as_matrix(w)), rows, columns)
        yield made.added_up(start, n)


@rule("conv_weight")
def _conv_weight(task: RuleTask) -> Iterator[Step]:
    """Gradients of parts of the samples are added one after the other."""
    (x, g), made, writer = task.equation.variables, _Convolution(task), task.writer
    tiles = _Tiles.of(task.equation, task.windows)
    if tiles is not None:
        yield from _TiledConvolution(task, tiles).weights(x, g)
        return
    out = writer.reshaped(task.output, made.forms.weight)
    for start, n in _parts(made.forms):
        yield made.gathered(x, start, n)
        yield made.in_rows(g, start, n)
        columns, rows = task.room(0, *made.forms.columns(n)), task.room(1, *made.forms.images(n))
        target = task.room(2, *made.forms.weight) if start else out
        yield Product(rows, made.turned(columns), target)
        if start:
            yield task.kernel(task.output.size, {"more": target, "out": out}, ["out[i] += more[i];"])


# -- convolutions of 3 x 3 by tiles -----------------------------------------------------------
# Tiles of 4 x 4 elements, which overlap, make 2 x 2 elements of the result, by 16 multiplications in place of
# 36 (Lavin and Gray 2016, F(2 x 2, 3 x 3)): tiles and kernels are mapped, multiplied, and mapped back.

OF_TILE = (1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)
OF_KERNEL = (1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1)
OF_RESULT = (1, 1, 1, 0), (0, 1, -1, -1)
LEAST_CHANNELS = 16  # with fewer, maps take longer than the products that are saved
SHARE = 5, 3  # what tiles read and write is less than columns do if filters are at most so many for channels


class _Tiles(NamedTuple):
    """Sizes of a convolution by tiles: of images with channels to images with filters."""

    n_samples: int
    channels: int
    filters: int
    size: tuple[int, int]
    before: tuple[int, int]
    grid: tuple[int, int]
    part: int

    @classmethod
    def of(cls, equation: Equation, windows: Windows) -> "_Tiles | None":
        """Return how a convolution is computed so; None if it is not."""
        first, second = (x.shape for x in equation.variables)
        name, (before, _), (left, _) = equation.primitive.name, *windows.padding
        weight = equation.output.shape if name == "conv_weight" else second
        is_plain = windows.kernel == (3, 3) and {*windows.stride, *windows.dilation} == {1}
        if not is_plain or equation.params["groups"] > 1 or max(before, left) > 2:
            return None
        filters, channels = weight[:2]
        size, grid, padding = windows.size, windows.grid, (before, left)
        if name == "conv_image":
            channels, filters, size, grid, padding = filters, channels, grid, size, (2 - before, 2 - left)
        if min(channels, filters) < LEAST_CHANNELS or SHARE[0] * channels < SHARE[1] * filters:
            return None
        tiles = math.prod(-(-n // 2) for n in grid)
        n_bytes = 16 * max(channels, filters) * tiles * equation.output.dtype.itemsize
        part = max(1, min(first[0], MOST_COLUMNS // n_bytes))
        return cls(first[0], channels, filters, size, padding, grid, part)

    @property
    def each(self) -> tuple[int, int]:
        rows, columns = self.grid
        return -(-rows // 2), -(-columns // 2)

    def sizes(self) -> tuple[int, int, int]:
        """Return the elements of mapped tiles, of results, and of mapped kernels."""
        tiles = 16 * self.part * math.prod(self.each)
        return self.channels * tiles, self.filters * tiles, 16 * self.channels * self.filters


class _TiledConvolution:
    """Writes the steps of a convolution by tiles."""

    def __init__(self, task: RuleTask, tiles: _Tiles) -> None:
        self.task, self.tiles = task, tiles

    def images(self, x: Variable, weight: str) -> Iterator[Step]:
        """Yield what computes images; `weight` is the text of an element of the kernels."""
        tiles, name = self.tiles, self.task.writer.name
        kernels, out = self.task.equation.variables[1], self.task.output
        loads = [
            f"const {self.task.kind} g{a}{b} = {weight.format(a=a, b=b, c=tiles.channels)};"
            for a in range(3)
            for b in range(3)
        ]
        size = tiles.filters * tiles.channels
        body = [*loads, *self._mapped(OF_KERNEL, "g", "u"), *self._kept("u", 4, size)]
        shape = 16, tiles.filters, tiles.channels
        yield self.task.kernel(size, {"w": name(kernels), "out": self.task.room(2, *shape)}, body)
        for start, n in _parts(tiles):
            count = n * math.prod(tiles.each)
            yield self._tiles_of(x, start, n)
            rows = self.task.room(1, 16, tiles.filters, count)
            yield Product(self.task.room(2, *shape), self.task.room(0, 16, tiles.channels, count), rows)
            yield self._result(out, start, n)

    def weights(self, x: Variable, g: Variable) -> Iterator[Step]:
        """Yield what computes the gradient of kernels, from images and gradients: the maps are transposed."""
        tiles, out = self.tiles, self.task.output
        size, shape = tiles.filters * tiles.channels, (16, tiles.filters, tiles.channels)
        back = tuple(zip(*OF_KERNEL, strict=True))
        for start, n in _parts(tiles):
            count = n * math.prod(tiles.each)
            yield self._tiles_of(x, start, n)
            yield self._gradients(g, start, n)
            turned = self.task.writer.turned(self.task.room(0, 16, tiles.channels, count), (0, 2, 1))
            yield Product(self.task.room(1, 16, tiles.filters, count), turned, self.task.room(2, *shape))
            loads = self._loaded("u", "products", size)
            added = "+=" if start else "="
            stores = [f"out[9 * i + {3 * a + b}] {added} y{a}{b};" for a in range(3) for b in range(3)]
            arrays = {"products": self.task.room(2, *shape), "out": self.task.writer.name(out)}
            yield self.task.kernel(size, arrays, [*loads, *self._mapped(back, "u", "y"), *stores])

    # -- maps ---------------------------------------------------------------------------------

    def _tiles_of(self, x: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that maps the tiles of some samples."""
        task, tiles = self.task, self.tiles
        (rows, columns), (above, left) = tiles.size, tiles.before
        sizes = tiles.channels, n, *tiles.each
        body = [*task.of("i", sizes, "c s h w"), *self._corner(f" - {above}", f" - {left}")]
        for a in range(4):
            for b in range(4):
                inside = f"y + {a} >= 0 && y + {a} < {rows} && x + {b} >= 0 && x + {b} < {columns}"
                element = task.at(x, "image", "s", "c", f"y + {a}", f"x + {b}")
                body.append(f"const {task.kind} d{a}{b} = {inside} ? {element} : 0;")
        size = math.prod(sizes)
        body += [*self._mapped(OF_TILE, "d", "v"), *self._kept("v", 4, size)]
        arrays = {"image": self.task.samples(x, start, n), "out": self.task.room(0, 16, size)}
        return task.kernel(size, arrays, body)

    def _gradients(self, g: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that maps the gradients of results of some samples."""
        task, tiles = self.task, self.tiles
        rows, columns = tiles.grid
        sizes = tiles.filters, n, *tiles.each
        body = [*task.of("i", sizes, "f s h w"), *self._corner()]
        for a in range(2):
            for b in range(2):
                element = task.at(g, "given", "s", "f", f"y + {a}", f"x + {b}")
                inside = f"y + {a} < {rows} && x + {b} < {columns}"
                body.append(f"const {task.kind} g{a}{b} = {inside} ? {element} : 0;")
        size = math.prod(sizes)
        body += [*self._mapped(tuple(zip(*OF_RESULT, strict=True)), "g", "v"), *self._kept("v", 4, size)]
        arrays = {"given": self.task.samples(g, start, n), "out": self.task.room(1, 16, size)}
        return task.kernel(size, arrays, body)

    def _result(self, out: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that maps products to the results of some samples."""
        task, tiles = self.task, self.tiles
        (rows, columns), each = tiles.grid, math.prod(tiles.each)
        sizes = n, tiles.filters, *tiles.each
        body = [
            *task.of("i", sizes, "s f h w"),
            *self._corner(),
            f"const {task.index} at = (f * {n} + s) * {each} + i % {each};",
            *self._loaded("m", "products", tiles.filters * n * each, "at"),
            *self._mapped(OF_RESULT, "m", "r"),
            f"const {task.index} to = ((s * {tiles.filters} + f) * {rows} + y) * {columns} + x;",
        ]
        for a in range(2):
            for b in range(2):
                conditions = [f"y + {a} < {rows}"] * (a and rows % 2) + [f"x + {b} < {columns}"] * (
                    b and columns % 2
                )
                inside = f"if ({' && '.join(conditions)}) " if conditions else ""
                body.append(f"{inside}out[to + {a * columns + b}] = r{a}{b};")
        arrays = {
            "products": self.task.room(1, 16, tiles.filters * n * each),
            "out": self.task.samples(out, start, n),
        }
        return task.kernel(math.prod(sizes), arrays, body)

    # -- text ---------------------------------------------------------------------------------

    def _corner(self, above: str = "", left: str = "") -> list[str]:
        """Return statements that name row and column of the first element of a tile."""
        return [f"const {self.task.index} y = 2 * h{above};", f"const {self.task.index} x = 2 * w{left};"]

    def _mapped(self, matrix: Sequence[Sequence[float]], of: str, to: str) -> Iterator[str]:
        """Yield statements for ``matrix @ of @ matrix.T``, of numbers with names such as d03."""
        n, kind = len(matrix[0]), self.task.kind
        for a, line in enumerate(matrix):
            for b in range(n):
                yield f"const {kind} {to}_{a}{b} = {self._sum(line, [f'{of}{k}{b}' for k in range(n)])};"
        for a in range(len(matrix)):
            for b, line in enumerate(matrix):
                yield f"const {kind} {to}{a}{b} = {self._sum(line, [f'{to}_{a}{k}' for k in range(n)])};"

    def _sum(self, factors: Sequence[float], names: Sequence[str]) -> str:
        dtype, text = self.task.output.dtype, ""
        for factor, name in zip(factors, names, strict=True):
            term = name if abs(factor) == 1 else f"{literal(abs(factor), dtype)} * {name}"
            text += f" {'-' if factor < 0 else '+'} {term}" if factor else ""
        return text.removeprefix(" + ")

    def _kept(self, name: str, side: int, size: int) -> list[str]:
        """Return statements that store mapped numbers, each in a matrix of its own."""
        return [f"out[i + {(side * a + b) * size}] = {name}{a}{b};" for a in range(side) for b in range(side)]

    def _loaded(self, name: str, array: str, size: int, at: str = "i") -> list[str]:
        return [
            f"const {self.task.kind} {name}{a}{b} = {array}[{at} + {(4 * a + b) * size}];"
            for a in range(4)
            for b in range(4)
        ]
