"""Recurrent networks: what they are called with, and which record computes them."""

from typing import Any

import numpy as np

from sknet._constraints import shown
from sknet.core import Tensor, as_tensor, is_grad_enabled
from sknet.device import backend, result_dtype
from sknet.exceptions import DtypeError, ShapeError
from sknet.ops._elementwise import astype, less, where
from sknet.ops._join import stack
from sknet.ops._recurrent_cells import CELLS
from sknet.ops._recurrent_outputs import outputs_alone
from sknet.ops._recurrent_tape import with_tape
from sknet.ops._rules import check_floating
from sknet.ops._shape import expand_dims

__all__ = ["gru", "lstm", "rnn"]

Shape = tuple[int, ...]


def _recurrence(
    cell: str, x: Any, weight_ih: Any, weight_hh: Any, bias: Any, state: Any, lengths: Any, reverse: bool
) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs, zero where a row has ended, and the final states."""
    name = "rnn" if cell in ("tanh", "relu") else cell
    x, weight_ih, weight_hh = as_tensor(x), as_tensor(weight_ih), as_tensor(weight_hh)
    _check(name, cell, x, weight_ih, weight_hh)
    rows, steps, _ = x.shape
    size = weight_hh.shape[0]
    real = None
    if lengths is not None:
        lengths = _checked_lengths(name, lengths, x)
        real = expand_dims(less(Tensor(np.arange(steps), device=x.device), expand_dims(lengths, 1)), -1)
        x = where(real, x, 0.0)  # padding may hold anything, NaN included
    dtype = result_dtype(x, weight_ih)
    b = _operand(name, "bias", bias, (CELLS[cell].biases * size,), x, dtype)
    count = CELLS[cell].states
    states = [None] * count if state is None else state
    if len(states) != count:
        raise ShapeError(f"{name}: expected {count} states, hidden and cell state, got {len(states)}")
    first = stack([_operand(name, "state", s, (rows, size), x, dtype) for s in states])
    weights = astype(weight_ih, dtype), astype(weight_hh, dtype)
    operands = (astype(x, dtype), *weights, b, first, steps if lengths is None else lengths)
    kept = is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in operands)
    found = (with_tape if kept else outputs_alone)(*operands, cell, reverse)
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


def _operand(name: str, what: str, x: Any, shape: Shape, like: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return an operand of a shape and of the common dtype; zeros for None."""
    if x is None:
        place = like.device
        return Tensor(backend(place.kind).zeros(shape, dtype, place))
    x = as_tensor(x)
    if x.shape != shape:
        raise ShapeError(f"{name}: expected {what} of shape {shape}, got {x.shape}")
    return x if x.dtype == dtype else astype(x, dtype)


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
        raise ValueError(f"rnn: activation must be 'tanh' or 'relu', got {shown(activation)}")
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
