"""Pools on a device: the largest element of every window, or the sum of all, and their gradients.

A thread computes one element of the result. In a gradient it looks at every window that its element is in, so
that no two threads add to the same place, and the order of additions is that of the elements of a window.
"""

import math
from collections.abc import Iterator

from sknet.compile.executors.device._c_scalar import literal
from sknet.compile.executors.device._tasks import Step, Task, rule


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
