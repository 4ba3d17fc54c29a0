"""Recurrent networks with what their gradients need: the pass over a whole sequence is one primitive.

Three records serve all cells. `recurrence_tape` runs the cell over the sequence and keeps what the backward
pass needs in one flat array: outputs, gates and cell states. `recurrence` is the part of the tape that holds
the outputs, as a function of the tape's operands; `recurrence_gradient`, its vjp, goes back over the tape.
The vjp of that one comes from the definition of the cell, step by step.
"""

import math
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace, backend
from sknet.ops._convolution import Work
from sknet.ops._elementwise import less, where
from sknet.ops._join import concat, stack
from sknet.ops._products import matmul
from sknet.ops._recurrent_cells import CELLS, RECURS
from sknet.ops._recurrent_shares import Arrays, Divided, Shape, rooms_of
from sknet.ops._recurrent_steps import order
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import expand_dims, reshape

__all__ = ["recurrence_work", "with_tape"]

# -- forward ----------------------------------------------------------------------------------


def _of(xp: Namespace, x: Any, w: Any, lengths: Any, cell: str) -> Divided:
    check_floating("recurrence_tape", x)
    return Divided.of(xp, x, w, lengths, cell)


def _host() -> Namespace:
    """Plans for devices have memory of their own for temporary arrays."""
    return backend("cpu").xp


def _length(shapes: list[Shape]) -> int:
    return sum(map(math.prod, shapes))


def _tape_forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    net = _of(xp, x, w, lengths, cell)
    tape = xp.empty(_length(net.tape), dtype=w.dtype) if out is None else out
    scratch = rooms_of(xp, scratch, net.scratch(w.dtype, kept=True))
    net.forward(xp, x, w_ih, w, (b, state, lengths), reverse, _sections(tape, net.tape), scratch)
    return tape


def _tape_shape(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    return (_length(_of(_host(), x, w, lengths, cell).tape),), w.dtype


def _tape_scratch(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, *, cell: str, reverse: bool
) -> Arrays:
    return _of(_host(), x, w, lengths, cell).scratch(w.dtype, kept=True)


_tape = Primitive("recurrence_tape").define(
    forward=_tape_forward, shape=_tape_shape, params=RECURS, vjp=None, scratch=_tape_scratch
)


# -- back -------------------------------------------------------------------------------------


def _gradient_forward(
    xp: Namespace, g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool, of_input: bool, out: Any = None, scratch: Any = None,
) -> Any:  # fmt: skip
    net = _of(xp, x, w, lengths, cell)
    shapes = [y.shape for y in ((x,) if of_input else ()) + (w_ih, w, b, state)]
    flat = xp.empty(_length(shapes), dtype=w.dtype) if out is None else out
    results = [None] * (not of_input) + _sections(flat, shapes)
    scratch = rooms_of(xp, scratch, net.scratch_of_gradient(w.dtype))
    net.backward(xp, g, x, w_ih, w, (b, state, lengths), reverse, _sections(tape, net.tape), results, scratch)
    return flat


def _sections(flat: Any, shapes: list[Shape]) -> list[Any]:
    """Cut a flat array or tensor into views of these shapes, one after the other."""
    views, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        views.append(flat[start:stop].reshape(shape))
        start = stop
    return views


def _gradient_shape(
    g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    cell: str, reverse: bool, of_input: bool,
) -> tuple[Shape, np.dtype[Any]]:  # fmt: skip
    found = ((x,) if of_input else ()) + (w_ih, w, b, state)
    return (_length([y.shape for y in found]),), w.dtype


def _gradient_scratch(
    g: Any, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool, of_input: bool,
) -> Arrays:  # fmt: skip
    return _of(_host(), x, w, lengths, cell).scratch_of_gradient(w.dtype)


def _gradient_vjp(
    gg: Tensor, _: Any, g: Tensor, x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any,
    tape: Tensor, *, cell: str, reverse: bool, of_input: bool,
) -> list[Tensor]:  # fmt: skip
    """Differentiate what `recurrence_gradient` is equal to: the gradient of one step after the other."""
    with enable_grad():
        g, x, w_ih, w, b, state = points = [_recorded(y) for y in (g, x, w_ih, w, b, state)]
        rows, steps, features = x.shape
        z = reshape(matmul(reshape(x, (rows * steps, features)), w_ih), (rows, steps, w.shape[1]))
        outputs = _by_steps(z, w, b, state, lengths, cell, reverse)
        shares = gradients(outputs, points[1 if of_input else 2 :], g, create_graph=True)
        flat = concat([reshape(y, (-1,)) for y in shares])
    return gradients(flat, points, gg, create_graph=is_grad_enabled())


def _recorded(x: Tensor) -> Tensor:
    """Return x as a new point of the tape, with respect to which a gradient can be computed."""
    return Tensor(x.data, requires_grad=True) if x.node is None else reshape(x, x.shape)


def _by_steps(
    z: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return what `recurrence` does, computed by differentiable operations."""
    kind, steps = CELLS[cell], z.shape[1]
    states = tuple([state[i] for i in range(kind.states)])
    outputs: dict[int, Tensor] = {}
    for k in order(steps, reverse):
        after = kind.step(z[:, k], matmul(states[0], w), b, *states)
        if isinstance(lengths, Tensor):
            real = expand_dims(less(k, lengths), -1)
            after = tuple([where(real, new, old) for new, old in zip(after, states, strict=True)])
        outputs[k], *_ = states = after
    return stack([*[outputs[k] for k in range(steps)], *states[1:]], axis=1)


_gradient = Primitive("recurrence_gradient").define(
    forward=_gradient_forward,
    shape=_gradient_shape,
    params={**RECURS, "of_input": kinds.FLAG},
    vjp=SharedRule(_gradient_vjp),
    scratch=_gradient_scratch,
)


# -- the outputs ------------------------------------------------------------------------------


def _outputs_forward(
    xp: Namespace, x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool,
) -> Any:  # fmt: skip
    return _sections(tape, _of(xp, x, w, lengths, cell).tape[:1])[0]


def _outputs_shape(
    x: Any, w_ih: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    return (x.shape[0], x.shape[1] + CELLS[cell].states - 1, w.shape[0]), w.dtype


def _outputs_vjp(g: Tensor, _: Any, *operands: Any, **params: Any) -> list[Any]:
    of_input = operands[0].requires_grad
    flat = bind(_gradient, (g, *operands), params | {"of_input": of_input})
    found = _sections(flat, [y.shape for y in operands[0 if of_input else 1 : 5]])
    return [None] * (not of_input) + found


_outputs = Primitive("recurrence").define(
    forward=_outputs_forward,
    shape=_outputs_shape,
    params=RECURS,
    vjp=SharedRule(_outputs_vjp),
    writes_out=False,
)


PLACES = {"recurrence_outputs": 0, "recurrence_tape": 0, "recurrence_gradient": 1}  # of inputs among operands


def with_tape(
    x: Tensor, w_ih: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one."""
    operands, params = (x, w_ih, w, b, state, lengths), {"cell": cell, "reverse": reverse}
    return bind(_outputs, (*operands, bind(_tape, operands, params)), params)


def recurrence_work(equation: Any) -> Work | None:
    """Return how many multiplications threads share in a recurrent network of a plan for the host."""
    at = PLACES.get(equation.primitive.name)
    if at is None:
        return None
    x, w, lengths = (equation.operands[at + i] for i in (0, 2, 5))
    net = Divided.of(_host(), x, w, lengths, equation.params["cell"])
    if net.shares.n_rooms == 1:
        return None
    count = net.rows * net.steps * (net.features + net.size) * net.columns
    return Work(in_threads=count * (1 + at))
