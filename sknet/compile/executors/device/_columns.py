"""Convolutions on a device: windows become columns of a matrix, which is multiplied with the kernels."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from sknet.compile._graph import Equation, Variable
from sknet.compile.executors._calls import Name
from sknet.compile.executors.device._maps import Kernel
from sknet.compile.executors.device._tasks import (
    Arrays,
    Fill,
    Product,
    Step,
    Task,
    rule,
    windows_of,
    works_in,
)
from sknet.ops.extend import Windows

__all__ = ["MOST_COLUMNS"]

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
        """Elements of a kernel."""
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

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield where the samples begin that are computed at a time, and their number."""
        for start in range(0, self.n_samples, self.part):
            yield start, min(self.part, self.n_samples - start)


@works_in("conv", "conv_image", "conv_weight")
def _works_in(equation: Equation) -> Arrays:
    forms = _Forms.of(equation, windows_of(equation))
    shapes = forms.columns(forms.part), forms.images(forms.part), forms.weight
    return [((math.prod(shape),), equation.output.dtype) for shape in shapes]


class _Convolution:
    """Base of the three maps of a convolution."""

    def __init__(self, task: Task) -> None:
        self.task, self.forms = task, _Forms.of(task.equation, task.windows)

    def room(self, which: int, shape: tuple[int, ...]) -> Name:
        """Return the name of scratch memory for columns (0), images (1) or weights (2)."""
        w = self.task.writer
        return w.shaped(w.part(w.scratch(self.task.equation, which), slice(math.prod(shape))), *shape)

    def samples(self, x: Variable, start: int, n: int) -> Name:
        name = self.task.writer.name(x)
        return name if n == x.shape[0] else self.task.writer.part(name, slice(start, start + n))

    def weight_of(self, x: Variable) -> Iterator[Step]:
        """Yield what copies a weight that is not contiguous to scratch memory."""
        if not self.task.writer.plan.views.is_contiguous(x):
            yield Fill(self.room(2, x.shape), self.task.writer.name(x))

    def as_matrix(self, x: Variable) -> Name:
        """Return the name of kernels as matrices."""
        if self.task.writer.plan.views.is_contiguous(x):
            return self.task.writer.reshaped(x, self.forms.weight)
        return self.room(2, self.forms.weight)

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
        names = {"image": self.samples(x, start, n), "out": self.room(0, forms.columns(n))}
        return task.kernel(math.prod(sizes), names, body)

    def in_rows(self, g: Variable, start: int, n: int) -> Kernel:
        """Return the kernel that writes images of filters as rows, one for each filter."""
        sizes = self.forms.filters, n, *self.forms.grid
        body = [
            *self.task.of("i", sizes, "o s h w"),
            f"out[i] = {self.task.at(g, 'given', 's', 'o', 'h', 'w')};",
        ]
        names = {"given": self.samples(g, start, n), "out": self.room(1, self.forms.images(n))}
        return self.task.kernel(math.prod(sizes), names, body)

    def from_rows(self, start: int, n: int) -> Kernel:
        """Return the kernel that does the opposite."""
        out, grid = self.task.output, self.forms.grid
        sizes = n, self.forms.filters, math.prod(grid)
        body = [
            *self.task.of("i", sizes, "s o p"),
            f"out[i] = rows[(o * {n} + s) * {math.prod(grid)} + p];",
        ]
        names = {"rows": self.room(1, self.forms.images(n)), "out": self.samples(out, start, n)}
        return self.task.kernel(math.prod(sizes), names, body)

    def added_up(self, start: int, n: int) -> Kernel:
        """Return the kernel that adds the columns up in images."""
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
        names = {"columns": self.room(0, self.forms.columns(n)), "out": self.samples(out, start, n)}
        return task.kernel(math.prod(sizes), names, body)


@rule("conv")
def _conv(task: Task) -> Iterator[Step]:
    (x, w), made = task.equation.variables, _Convolution(task)
    yield from made.weight_of(w)
    for start, n in made.forms.parts():
        yield made.gathered(x, start, n)
        columns, rows = made.room(0, made.forms.columns(n)), made.room(1, made.forms.images(n))
        yield Product(made.as_matrix(w), columns, rows)
        yield made.from_rows(start, n)


@rule("conv_image")
def _conv_image(task: Task) -> Iterator[Step]:
    (g, w), made = task.equation.variables, _Convolution(task)
    yield from made.weight_of(w)
    for start, n in made.forms.parts():
        yield made.in_rows(g, start, n)
        columns, rows = made.room(0, made.forms.columns(n)), made.room(1, made.forms.images(n))
        yield Product(made.turned(made.as_matrix(w)), rows, columns)
        yield made.added_up(start, n)


@rule("conv_weight")
def _conv_weight(task: Task) -> Iterator[Step]:
    """Gradients of parts of the samples are added one after the other."""
    (x, g), made, writer = task.equation.variables, _Convolution(task), task.writer
    out = writer.reshaped(task.output, made.forms.weight)
    for start, n in made.forms.parts():
        yield made.gathered(x, start, n)
        yield made.in_rows(g, start, n)
        columns, rows = made.room(0, made.forms.columns(n)), made.room(1, made.forms.images(n))
        target = made.room(2, made.forms.weight) if start else out
        yield Product(rows, made.turned(columns), target)
        if start:
            yield task.kernel(task.output.size, {"more": target, "out": out}, ["out[i] += more[i];"])
