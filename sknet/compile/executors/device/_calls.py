"""Calls of primitives outside of kernels on a device: their own forward, with ``out=``.

Three kinds of calls allocate: primitives whose forward takes no ``out=`` (`argsort`, `topk`,
`searchsorted`, advanced indexing), those whose forward uses temporary arrays that are not in the plan
(`logsumexp`, `take_along_axis` of more than one element per row), and CuPy functions that allocate internally
(`argmax` and `argmin`, a sort; products that need copies, since one strided call does not compute them; in
exact programs, reductions). In exact programs all that has a rule (`_tasks`) is called so too.
"""

import math
import operator
from collections.abc import Callable
from typing import Any

from sknet._arrays import is_basic, with_ellipsis
from sknet.compile._graph import Equation, Operand, Variable
from sknet.compile.executors._calls import FILL, Name
from sknet.compile.executors._writer import Writer, forward_scratch, registry
from sknet.device import Backend

__all__ = ["call", "scratch_of"]

Caller = Callable[[Writer, Equation, Backend], None]
Scratch = Callable[[Equation], list[tuple[tuple[int, ...], Any]]]
CALLS: dict[str, Caller] = {}
SCRATCH: dict[str, Scratch] = {}


caller = registry(CALLS)  # registers how primitives are called
scratch = registry(SCRATCH)  # registers the scratch arrays that such calls need


def call(w: Writer, equation: Equation, owner: Backend) -> None:
    """Add the calls that compute one equation."""
    CALLS.get(equation.primitive.name, _by_its_forward)(w, equation, owner)


def scratch_of(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    """Return shape and dtype of the arrays that an equation needs besides its output."""
    return SCRATCH.get(equation.primitive.name, forward_scratch)(equation)


def assign(w: Writer, out: Name, x: Any) -> None:
    """Add the assignment of an array or a number to all elements of an array."""
    w.call(operator.setitem, out, ..., x)


def _by_its_forward(w: Writer, equation: Equation, owner: Backend) -> None:
    forward = equation.primitive.forward_on(owner)
    w.forward_call(equation, forward, [_operand(w, x) for x in equation.operands])


def _operand(w: Writer, x: Operand) -> Any:
    return w.name(x) if type(x) is Variable else x


@caller("copy", "broadcast_to", "permute_dims")
def _copy(w: Writer, equation: Equation, owner: Backend) -> None:
    assign(w, w.name(equation.output), w.name(equation.operands[0]))


@caller("reshape")
def _reshape(w: Writer, equation: Equation, owner: Backend) -> None:
    [x] = equation.operands  # not contiguous, so this is a copy rather than a view
    assign(w, w.reshaped(equation.output, x.shape), w.name(x))


@caller("where")
def _where(w: Writer, equation: Equation, owner: Backend) -> None:
    condition, x, y = equation.operands
    out = w.name(equation.output)
    buffers, views = w.plan.buffers, w.plan.views
    if type(y) is not Variable or buffers[views.root(y)] is not buffers[equation.output]:
        assign(w, out, _operand(w, y))
    elif y.dtype != equation.output.dtype:
        w.call(owner.xp.copyto, out, w.name(y), label="copyto")
    w.call(owner.xp.copyto, out, _operand(w, x), where=w.name(condition), label="copyto")


@scratch("sum_squares")
def _one_square(equation: Equation) -> list[tuple[tuple[int, ...], Any]]:
    return [((), equation.output.dtype)] if len(equation.operands) > 1 else []


@caller("sum_squares")
def _sum_squares(w: Writer, equation: Equation, owner: Backend) -> None:
    if not all(w.plan.views.is_contiguous(x) for x in equation.variables):
        _by_its_forward(w, equation, owner)
        return
    out = w.name(equation.output)
    for i, x in enumerate(equation.operands):
        flat = w.reshaped(x, (x.size,))
        target = w.scratch(equation) if i else out
        w.call(owner.xp.matmul, flat, flat, out=target, label="matmul")
        if i:
            w.call(owner.xp.add, out, target, out=out, label="add")


@caller("scatter_add")
def _scatter_add(w: Writer, equation: Equation, owner: Backend) -> None:
    [g], out = equation.operands, w.name(equation.output)
    part = _part(w, out, equation.params["index"])
    if part is None:
        _by_its_forward(w, equation, owner)
        return
    w.call(FILL, out, 0, label="fill")
    assign(w, part, w.name(g))


@caller("setitem")
def _setitem(w: Writer, equation: Equation, owner: Backend) -> None:
    [x, value], out = equation.operands, w.name(equation.output)
    part = _part(w, out, equation.params["index"])
    if part is None:
        _by_its_forward(w, equation, owner)
        return
    assign(w, out, _operand(w, x))
    assign(w, part, _operand(w, value))


def _part(w: Writer, array: Name, index: Any) -> Name | None:
    """Return the name of the view that an index takes of an array; None if it takes a copy."""
    if not is_basic(index):
        return None
    return w.part(array, w.partial(with_ellipsis(index), "index"))


@caller("concat")
def _concat(w: Writer, equation: Equation, owner: Backend) -> None:
    has_zeros, parts = w.parts_of(equation)
    if has_zeros:
        w.call(FILL, w.name(equation.output), 0, label="fill")
    for place, x in parts:
        assign(w, place, w.name(x))


@caller("assemble")
def _assemble(w: Writer, equation: Equation, owner: Backend) -> None:
    out = w.name(equation.output)
    for i, (start, part) in enumerate(zip(equation.params["starts"], equation.operands, strict=True)):
        if not w.plan.is_in_place(equation, i):
            target = w.part(out, slice(start, start + math.prod(part.shape)))
            assign(w, target, w.name(part))
