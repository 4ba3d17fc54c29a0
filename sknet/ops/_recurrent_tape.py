"""Recurrent networks with what their gradients need: the pass over a whole sequence is one primitive.

Three records serve all cells. `recurrence_tape` runs the cell over the sequence and keeps what the backward
pass needs in one flat array: outputs, gates and cell states. `recurrence` is the part of the tape that holds
the outputs, as a function of the tape's operands; `recurrence_gradient`, its vjp, goes back over the tape.
The vjp of that one comes from the definition of the cell, step by step.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.device import Namespace
from sknet.ops._elementwise import less, where
from sknet.ops._join import concat, stack
from sknet.ops._matmul import matmul
from sknet.ops._recurrent_cells import CELLS
from sknet.ops._recurrent_steps import order, padding_of, run
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import expand_dims, reshape

__all__ = ["with_tape"]

Shape = tuple[int, ...]


# -- layout of the tape ------------------------------------------------------------------------


def _sections(flat: Any, shapes: Iterable[Shape]) -> list[Any]:
    """Cut a flat array or tensor into views of these shapes, one after the other."""
    views, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        views.append(flat[start:stop].reshape(shape))
        start = stop
    return views


def _tape_shapes(z: Any, w: Any, cell: str) -> list[Shape]:
    """Return the shapes of outputs, gates and cell states; the last cell state is among the outputs."""
    kind, (rows, steps, _), size = CELLS[cell], z.shape, w.shape[0]
    more = kind.states - 1
    return [(rows, steps + more, size), (steps, rows, kind.saved * size), ((steps + 1) * more, rows, size)]


def _length(shapes: Iterable[Shape]) -> int:
    return sum(map(math.prod, shapes))


# -- forward ----------------------------------------------------------------------------------


def _tape_forward(
    xp: Namespace, z: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, out: Any = None,
) -> Any:  # fmt: skip
    check_floating("recurrence_tape", z)
    shapes, (rows, _, columns) = _tape_shapes(z, w, cell), z.shape
    tape = xp.empty(_length(shapes), dtype=z.dtype) if out is None else out
    hidden = xp.empty((2, rows, w.shape[0]), dtype=z.dtype)
    product = xp.empty((rows, columns), dtype=z.dtype)
    memory = *_sections(tape, shapes), hidden, product
    run(xp, cell, z, w, b, state, lengths, reverse, memory)
    return tape


def _tape_shape(
    z: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    check_floating("recurrence_tape", z)
    return (_length(_tape_shapes(z, w, cell)),), z.dtype


_tape = Primitive("recurrence_tape").define(forward=_tape_forward, shape=_tape_shape, vjp=None)


# -- back -------------------------------------------------------------------------------------


def _gradient_forward(
    xp: Namespace, g: Any, z: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any,
    *, cell: str, reverse: bool, out: Any = None,
) -> Any:  # fmt: skip
    kind, (rows, steps, columns), size = CELLS[cell], z.shape, w.shape[0]
    shapes = [x.shape for x in (z, w, b, state)]
    flat = xp.empty(_length(shapes), dtype=z.dtype) if out is None else out
    dz, dw, db, slopes = _sections(flat, shapes)
    outputs, saved, cells = _sections(tape, _tape_shapes(z, w, cell))
    hidden = _hidden_before(xp, outputs[:, :steps], state[0], reverse)
    padding = padding_of(xp, lengths, steps)
    # The gradients of z and of the product with the recurrent weights: for most cells they are the same.
    differ = kind.biases > kind.gates
    d = xp.empty((rows, columns), dtype=z.dtype)
    r = xp.empty_like(d) if differ else d
    dr = xp.empty(dz.shape, dtype=z.dtype) if differ else dz
    total, total_r = xp.zeros_like(d), xp.zeros_like(r)
    product = xp.empty((rows, size), dtype=z.dtype)
    slopes[0] = 0
    if kind.states > 1:
        slopes[1] = g[:, steps]
    for i, k in reversed(list(enumerate(order(steps, reverse)))):
        before, after, slope = [hidden[:, k]], [outputs[:, k]], [slopes[0]]
        if kind.states > 1:
            before.append(cells[i])
            after.append(cells[i + 1])
            slope.append(slopes[1])
        slope[0] += g[:, k]
        passing = None if padding is None else slopes.copy()
        kind.backward(xp, saved[i], before, after, slope, d, r)
        if passing is not None:
            for x in (d, r):
                xp.copyto(x, 0, where=padding[k])
        xp.matmul(r, w.T, out=product)
        if kind.keeps:
            slope[0] += product
        else:
            slope[0][...] = product
        if passing is not None:
            xp.copyto(slopes, passing, where=padding[k])
        dz[:, k] = d
        total += d
        if differ:
            dr[:, k] = r
            total_r += r
    xp.matmul(hidden.reshape(rows * steps, size).T, dr.reshape(rows * steps, columns), out=dw)
    db[:columns] = total.sum(axis=0)
    if differ:
        db[columns:] = total_r[:, 2 * columns - b.shape[0] :].sum(axis=0)
    return flat


def _hidden_before(xp: Namespace, outputs: Any, first: Any, reverse: bool) -> Any:
    """Return the hidden state before every step, from those after."""
    hidden = xp.empty(outputs.shape, dtype=outputs.dtype)
    if reverse:
        hidden[:, :-1], hidden[:, -1] = outputs[:, 1:], first
    else:
        hidden[:, 1:], hidden[:, 0] = outputs[:, :-1], first
    return hidden


def _gradient_shape(
    g: Any, z: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    return (_length(x.shape for x in (z, w, b, state)),), z.dtype


def _gradient_vjp(
    gg: Tensor, _: Any, g: Tensor, z: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, tape: Tensor,
    *, cell: str, reverse: bool,
) -> list[Tensor]:  # fmt: skip
    """Differentiate what `recurrence_gradient` is equal to: the gradient of one step after the other."""
    with enable_grad():
        g, z, w, b, state = points = [_recorded(x) for x in (g, z, w, b, state)]
        outputs = _by_steps(z, w, b, state, lengths, cell, reverse)
        shares = gradients(outputs, points[1:], g, create_graph=True)
        flat = concat([reshape(x, (-1,)) for x in shares])
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
    forward=_gradient_forward, shape=_gradient_shape, vjp=SharedRule(_gradient_vjp)
)


# -- the outputs ------------------------------------------------------------------------------


def _outputs_forward(
    xp: Namespace,
    z: Any,
    w: Any,
    b: Any,
    state: Any,
    lengths: Any,
    tape: Any,
    *,
    cell: str,
    reverse: bool,
) -> Any:
    return _sections(tape, _tape_shapes(z, w, cell)[:1])[0]


def _outputs_shape(
    z: Any, w: Any, b: Any, state: Any, lengths: Any, tape: Any, cell: str, reverse: bool
) -> tuple[Shape, np.dtype[Any]]:
    return _tape_shapes(z, w, cell)[0], z.dtype


def _outputs_vjp(g: Tensor, _: Any, *operands: Any, **params: Any) -> list[Tensor]:
    flat = bind(_gradient, (g, *operands), params)
    return _sections(flat, [x.shape for x in operands[:4]])


_outputs = Primitive("recurrence").define(
    forward=_outputs_forward, shape=_outputs_shape, vjp=SharedRule(_outputs_vjp), writes_out=False
)


def with_tape(
    z: Tensor, w: Tensor, b: Tensor, state: Tensor, lengths: Any, cell: str, reverse: bool
) -> Tensor:
    """Return the outputs and, as a last step, the last cell state if there is one.

    Parameters
    ----------
    z : Tensor of shape (n, steps, columns)
        The product of the inputs with their weights.
    w : Tensor of shape (size, columns)
        From hidden state to hidden state.
    b : Tensor of shape (biases,)
        The bias.
    state : Tensor of shape (states, n, size)
        Before the first step.
    lengths : int or Tensor of shape (n,)
        How many steps of each row are valid.
    cell : str
        One of `CELLS`.
    reverse : bool
        Whether the last step is the first.
    """
    operands, params = (z, w, b, state, lengths), {"cell": cell, "reverse": reverse}
    return bind(_outputs, (*operands, bind(_tape, operands, params)), params)
