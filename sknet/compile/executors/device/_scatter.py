"""Adding rows to those that computed indices point to, as in the gradient of an embedding."""

import math
from collections.abc import Iterator

from sknet.compile._graph import Variable
from sknet.compile.executors.device._tasks import Fill, Step, Task, rule

__all__ = ["MOST_LOOKS"]

MOST_LOOKS = 1 << 26  # so many indices may be read by all threads, to add in the order of indices


@rule("put")
def _put(task: Task) -> Iterator[Step]:
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


def _element(task: Task, x: Variable, flat: str, name: str) -> list[str]:
    """Return the statement that names the place, in memory, of an element given by its flat index."""
    strides = [stride // x.dtype.itemsize for stride in task.writer.plan.views.ghost(x).strides]
    step, terms = x.size, []
    if task.writer.plan.views.is_contiguous(x):
        return [f"const {task.index} {name} = {flat};"]
    for size, stride in zip(x.shape, strides, strict=True):
        step //= size
        terms.append(f"({flat}) / {step} % {size} * {stride}")
    return [f"const {task.index} {name} = {' + '.join(terms) or 0};"]
