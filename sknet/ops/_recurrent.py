"""Recurrent networks: the forward or backward pass over a whole sequence is one primitive.

Three records serve all cells. `recurrence_tape` runs the cell over the sequence and keeps what the backward
pass needs in one flat array: outputs, gates and cell states. `recurrence` is the part of the tape that holds
the outputs, as a function of the tape's operands; `recurrence_gradient`, its vjp, goes back over the tape.
The vjp of that one comes from the definition of the cell, step by step.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from sknet.core import Primitive, Tensor, as_tensor, bind, enable_grad, gradients, is_grad_enabled
from sknet.device import Namespace, backend
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._elementwise import astype, less, where
from sknet.ops._join import concat, stack
from sknet.ops._matmul import matmul
from sknet.ops._recurrent_cells import CELLS
from sknet.ops._rules import SharedRule, check_floating
from sknet.ops._shape import expand_dims, reshape

__all__ = ["gru", "lstm", "rnn"]

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


def _tape_shapes(z: Any, w: Any, cell: str, kept: bool = True) -> list[Shape]:
    """Return the shapes of outputs, gates and cell states; the last cell state is among the outputs.

    What the backward pass does not need has room for the current step only.
    """
    kind, (rows, steps, _), size = CELLS[cell], z.shape, w.shape[0]
    more = kind.states - 1
    length = steps if kept else 1
    return [
        (rows, steps + more, size),
        (length, rows, kind.saved * size),
        ((length + 1) * more, rows, size),
    ]


def _length(shapes: Iterable[Shape]) -> int:
    return sum(map(math.prod, shapes))


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _padding(xp: Namespace, lengths: Any, steps: int) -> Any:
    """Return for every step a column that is true where a row has ended; None if no row ends early."""
    if not getattr(lengths, "ndim", 0):
        return None
    return xp.arange(steps).reshape(steps, 1, 1) >= lengths.reshape(1, -1, 1)


# -- forward ----------------------------------------------------------------------------------


def _tape_forward(
    xp: Namespace, z: Any, w: Any, b: Any, state: Any, lengths: Any,
    *, cell: str, reverse: bool, kept: bool, out: Any = None,
) -> Any:  # fmt: skip
    kind, (rows, steps, columns), size = CELLS[cell], z.shape, w.shape[0]
    check_floating("recurrence_tape", z)
    shapes = _tape_shapes(z, w, cell, kept)
    tape = xp.empty(_length(shapes), dtype=z.dtype) if out is None else out
    outputs, saved, cells = _sections(tape, shapes)
    padding = _padding(xp, lengths, steps)
    product = xp.empty((rows, columns), dtype=z.dtype)
    hidden = xp.empty((2, rows, size), dtype=z.dtype)
    before, after = [state[0]], [hidden[0]]
    if kind.states > 1:
        cells[0] = state[1]
    memory = outputs[:, :steps], saved, cells, hidden, product
    if padding is None and kind.whole is not None and kind.whole(xp, z, w, b, state[0], reverse, memory):
        outputs[:, steps:] = cells[steps % len(cells), :, np.newaxis]
        return tape
    for i, k in enumerate(_order(steps, reverse)):
        after = [hidden[i % 2]]
        if kind.states > 1:
            before.append(cells[i % cells.shape[0]])
            after.append(cells[(i + 1) % cells.shape[0]])
        xp.matmul(before[0], w, out=product)
        kind.forward(xp, z[:, k], product, b, saved[i % saved.shape[0]], before, after)
        if padding is not None:
            for new, old in zip(after, before, strict=True):
                xp.copyto(new, old, where=padding[k])
        outputs[:, k] = after[0]
        before = after[:1]
    if kind.states > 1:
        outputs[:, steps] = after[1]
    return tape


def _tape_shape(
    z: Any, w: Any, b: Any, state: Any, lengths: Any, cell: str, reverse: bool, kept: bool
) -> tuple[Shape, np.dtype[Any]]:
    check_floating("recurrence_tape", z)
    return (_length(_tape_shapes(z, w, cell, kept)),), z.dtype


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
    padding = _padding(xp, lengths, steps)
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
    for i, k in reversed(list(enumerate(_order(steps, reverse)))):
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
    for k in _order(steps, reverse):
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


# -- functions --------------------------------------------------------------------------------


def _recurrence(
    cell: str, x: Any, weight_ih: Any, weight_hh: Any, bias: Any, state: Any, lengths: Any, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs, zero where a row has ended, and the final states."""
    name = "rnn" if cell in ("tanh", "relu") else cell
    x, weight_ih, weight_hh = as_tensor(x), as_tensor(weight_ih), as_tensor(weight_hh)
    _check(name, cell, x, weight_ih, weight_hh)
    rows, steps, features = x.shape
    size = weight_hh.shape[0]
    real = None
    if lengths is not None:
        lengths = _checked_lengths(name, lengths, x)
        real = expand_dims(less(Tensor(np.arange(steps), device=x.device), expand_dims(lengths, 1)), -1)
        x = where(real, x, 0.0)  # padding may hold anything, NaN included
    z = matmul(reshape(x, (rows * steps, features)), weight_ih)
    z = reshape(z, (rows, steps, weight_ih.shape[1]))
    b = _operand(name, "bias", bias, (CELLS[cell].biases * size,), z)
    shape = (rows, size)
    count = CELLS[cell].states
    states = [None] * count if state is None else state
    if len(states) != count:
        raise ShapeError(f"{name}: expected {count} states, hidden and cell state, got {len(states)}")
    first = stack([_operand(name, "state", s, shape, z) for s in states])
    operands = (z, astype(weight_hh, z.dtype), b, first, steps if lengths is None else lengths)
    params = {"cell": cell, "reverse": reverse}
    kept = is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in operands)
    tape = bind(_tape, operands, params | {"kept": kept})
    found = bind(_outputs, (*operands, tape), params)
    last = found[:, 0 if reverse else steps - 1]
    output = found if found.shape[1] == steps else found[:, :steps]
    final = [last] if count == 1 else [last, found[:, steps]]
    return output if real is None else where(real, output, 0.0), final


def _check(name: str, cell: str, x: Tensor, weight_ih: Tensor, weight_hh: Tensor) -> None:
    for operand in (x, weight_ih, weight_hh):
        check_floating(name, operand)
    columns = CELLS[cell].gates * weight_hh.shape[0] if weight_hh.ndim == 2 else -1
    if x.ndim != 3 or x.shape[1] == 0:
        raise ShapeError(
            f"{name}: expected x of shape (n, steps, features), with a step at least, got {x.shape}"
        )
    if weight_hh.shape[-1:] != (columns,) or weight_ih.shape != (x.shape[2], columns):
        times = f"{CELLS[cell].gates} * size" if CELLS[cell].gates > 1 else "size"
        raise ShapeError(
            f"{name}: for x of shape {x.shape}, expected weight_ih of shape ({x.shape[2]}, {times}) and "
            f"weight_hh of shape (size, {times}), got {weight_ih.shape} and {weight_hh.shape}"
        )


def _operand(name: str, what: str, x: Any, shape: Shape, like: Tensor) -> Tensor:
    """Return an operand of a shape and of the common dtype; zeros for None."""
    if x is None:
        place = like.device
        return Tensor(backend(place.kind).zeros(shape, like.dtype, place))
    x = as_tensor(x)
    if x.shape != shape:
        raise ShapeError(f"{name}: expected {what} of shape {shape}, got {x.shape}")
    return x if x.dtype == like.dtype else astype(x, like.dtype)


def _checked_lengths(name: str, given: Any, x: Tensor) -> Tensor:
    lengths: Tensor = given if isinstance(given, Tensor) else Tensor(given, device=x.device)
    if lengths.dtype.kind not in "iu":
        raise DtypeError(f"{name}: lengths must be integers, got {lengths.dtype}")
    if lengths.shape != x.shape[:1]:
        raise ShapeError(
            f"{name}: expected lengths of shape {x.shape[:1]}, one per row of x, got {lengths.shape}"
        )
    if isinstance(given, (list, tuple, np.ndarray)):  # a tensor's values may be traced, or on a device
        wrong = [length for length in given if not 0 <= length <= x.shape[1]]
        if wrong:
            raise ValueError(
                f"{name}: lengths must be between 0 and the {x.shape[1]} steps of x, got {wrong[0]}"
            )
    return lengths


def rnn(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    activation: str = "tanh",
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Run a plain recurrent cell over sequences.

    Parameters
    ----------
    x : Tensor or array of shape (n, steps, features)
        The sequences.
    weight_ih : Tensor or array of shape (features, size)
        From input to hidden state.
    weight_hh : Tensor or array of shape (size, size)
        From hidden state to hidden state.
    bias : Tensor or array of shape (size,), default=None
        None is zero.
    state : Tensor or array of shape (n, size), default=None
        The hidden state before the first step; None is zero.
    activation : {"tanh", "relu"}, default="tanh"
        The function f below.
    lengths : Tensor or array of shape (n,), dtype=integer, default=None
        How many steps of each row are valid; those after them are ignored.
    reverse : bool, default=False
        Run from the last (real) step to the first.

    Returns
    -------
    output : Tensor of shape (n, steps, size)
        The hidden state after every step, zero after a row's last.
    state : Tensor of shape (n, size)
        The hidden state after a row's last step, or its first if it is run in reverse.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If there is no such activation, or a length is not between 0 and steps.

    Notes
    -----
    .. math:: h_t = f(x_t W_{ih} + h_{t-1} W_{hh} + b)

    (J. L. Elman, "Finding structure in time", 1990).

    Examples
    --------
    >>> output, state = rnn([[[1.0], [0.0], [0.0]]], [[1.0]], [[2.0]], activation="relu")
    >>> output.numpy()
    array([[[1.],
            [2.],
            [4.]]])
    >>> state.numpy()
    array([[4.]])
    """
    if activation not in ("tanh", "relu"):
        raise ValueError(f"rnn: activation must be 'tanh' or 'relu', got {activation!r}")
    states = None if state is None else [state]
    output, [h] = _recurrence(activation, x, weight_ih, weight_hh, bias, states, lengths, reverse)
    return output, h


def lstm(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    r"""Run a long short-term memory over sequences.

    Parameters
    ----------
    x : Tensor or array of shape (n, steps, features)
        The sequences.
    weight_ih : Tensor or array of shape (features, 4 * size)
        From input to gates: input, forget, candidate and output gate, side by side.
    weight_hh : Tensor or array of shape (size, 4 * size)
        From hidden state to gates.
    bias : Tensor or array of shape (4 * size,), default=None
        None is zero.
    state : pair of Tensor or array of shape (n, size), default=None
        Hidden state and cell state before the first step; None is zero.
    lengths : Tensor or array of shape (n,), dtype=integer, default=None
        How many steps of each row are valid; those after them are ignored.
    reverse : bool, default=False
        Run from the last (real) step to the first.

    Returns
    -------
    output : Tensor of shape (n, steps, size)
        The hidden state after every step, zero after a row's last.
    state : tuple of two Tensor of shape (n, size)
        Hidden state and cell state after a row's last step, or its first if it is run in reverse.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If a length is not between 0 and steps.

    Notes
    -----
    With :math:`a_t = x_t W_{ih} + h_{t-1} W_{hh} + b`, cut into the four gates' parts,

    .. math::
        c_t &= \sigma(a_t^f) c_{t-1} + \sigma(a_t^i) \tanh(a_t^g) \\
        h_t &= \sigma(a_t^o) \tanh(c_t)

    (S. Hochreiter, J. Schmidhuber, 1997; the forget gate from F. Gers et al., 2000). Order and form of
    the gates are PyTorch's; one bias replaces its two, which are always added.

    Examples
    --------
    >>> import numpy as np
    >>> weights = np.ones((1, 8)), np.zeros((2, 8))
    >>> output, (h, c) = lstm(np.zeros((5, 3, 1)), *weights)
    >>> output.shape, h.shape, c.shape
    ((5, 3, 2), (5, 2), (5, 2))
    """
    output, [h, c] = _recurrence("lstm", x, weight_ih, weight_hh, bias, state, lengths, reverse)
    return output, (h, c)


def gru(
    x: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias: Any = None,
    state: Any = None,
    *,
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    r"""Run a gated recurrent unit over sequences.

    Parameters
    ----------
    x : Tensor or array of shape (n, steps, features)
        The sequences.
    weight_ih : Tensor or array of shape (features, 3 * size)
        From input to gates: reset gate, update gate and candidate, side by side.
    weight_hh : Tensor or array of shape (size, 3 * size)
        From hidden state to gates.
    bias : Tensor or array of shape (4 * size,), default=None
        Those of the three gates, and one that the reset gate multiplies too. None is zero.
    state : Tensor or array of shape (n, size), default=None
        The hidden state before the first step; None is zero.
    lengths : Tensor or array of shape (n,), dtype=integer, default=None
        How many steps of each row are valid; those after them are ignored.
    reverse : bool, default=False
        Run from the last (real) step to the first.

    Returns
    -------
    output : Tensor of shape (n, steps, size)
        The hidden state after every step, zero after a row's last.
    state : Tensor of shape (n, size)
        The hidden state after a row's last step, or its first if it is run in reverse.

    Raises
    ------
    ShapeError, DtypeError
        If shapes do not fit, operands are not floating, or lengths are not integers.
    ValueError
        If a length is not between 0 and steps.

    Notes
    -----
    .. math::
        r_t &= \sigma(x_t W_{ir} + h_{t-1} W_{hr} + b_r) \\
        u_t &= \sigma(x_t W_{iu} + h_{t-1} W_{hu} + b_u) \\
        n_t &= \tanh(x_t W_{in} + b_n + r_t (h_{t-1} W_{hn} + b_m)) \\
        h_t &= (1 - u_t) n_t + u_t h_{t-1}

    (K. Cho et al., 2014). The reset gate is applied after the product, as in PyTorch and cuDNN, which is what
    lets all products of a step be one; in the paper it is applied before. PyTorch's two biases of the first
    two gates are always added, so there is one here.

    Examples
    --------
    >>> import numpy as np
    >>> output, h = gru(np.zeros((5, 3, 1)), np.ones((1, 6)), np.zeros((2, 6)))
    >>> output.shape, h.shape
    ((5, 3, 2), (5, 2))
    """
    states = None if state is None else [state]
    output, [h] = _recurrence("gru", x, weight_ih, weight_hh, bias, states, lengths, reverse)
    return output, h
