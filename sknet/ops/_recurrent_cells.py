"""Cells of recurrent networks, and the loop over the steps of a sequence, forward and back.

A step reads and writes arrays that are allocated once: over a hundred steps, and as many back, allocating
would take longer than computing. Every array of a step is a matrix with a row for each sample.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sknet.core import Tensor
from sknet.core import _primitive as kinds
from sknet.device import Namespace
from sknet.ops._activation import relu
from sknet.ops._elementwise import sigmoid, tanh


class Cell(NamedTuple):
    """A recurrent cell; lengths are in units of its hidden size h."""

    gates: int
    biases: int
    saved: int
    states: int
    keeps: bool
    forward: Callable[..., None]
    backward: Callable[..., None]
    whole: Callable[..., bool] | None
    whole_back: Callable[..., bool] | None
    step: Callable[..., tuple[Tensor, ...]]

    @property
    def differ(self) -> bool:
        """Tell whether the gradients of the two products differ; for most cells they are the same."""
        return self.biases > self.gates


def _parts(x: Any, count: int) -> list[Any]:
    width = x.shape[-1] // count
    return [x[..., i * width : (i + 1) * width] for i in range(count)]


def _squash(xp: Namespace, x: Any) -> None:
    """Apply the logistic function in place, by tanh, which namespaces compute fastest."""
    x *= 0.5
    xp.tanh(x, out=x)
    x *= 0.5
    x += 0.5


# -- the plain cell ---------------------------------------------------------------------------


def _tanh_forward(xp: Namespace, z: Any, q: Any, b: Any, saved: Any, before: Any, after: Any) -> None:
    h = xp.add(q, z, out=after[0])
    h += b
    xp.tanh(h, out=h)


def _tanh_backward(xp: Namespace, saved: Any, before: Any, after: Any, slopes: Any, d: Any, r: Any) -> None:
    xp.multiply(after[0], after[0], out=d)
    xp.subtract(1, d, out=d)
    d *= slopes[0]


def _tanh_step(z: Tensor, q: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (tanh(z + q + b),)


def _relu_forward(xp: Namespace, z: Any, q: Any, b: Any, saved: Any, before: Any, after: Any) -> None:
    h = xp.add(q, z, out=after[0])
    h += b
    xp.maximum(h, 0, out=h)


def _relu_backward(xp: Namespace, saved: Any, before: Any, after: Any, slopes: Any, d: Any, r: Any) -> None:
    xp.multiply(slopes[0], after[0] > 0, out=d)


def _relu_step(z: Tensor, q: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    return (relu(z + q + b),)


# -- LSTM -------------------------------------------------------------------------------------


def _lstm_forward(xp: Namespace, z: Any, q: Any, b: Any, saved: Any, before: Any, after: Any) -> None:
    h, c = after
    native = xp.native_passes()
    if native is not None and native.lstm_forward(z, q, b, saved, before[1], h, c):
        return
    i, f, g, o = _parts(saved, 4)
    xp.add(q, z, out=saved)
    saved += b
    squashed = saved[:, : 2 * h.shape[-1]], o
    for x in squashed:
        x *= 0.5
    xp.tanh(saved, out=saved)  # for all gates: the logistic function of x is (1 + tanh(x / 2)) / 2
    for x in squashed:
        x *= 0.5
        x += 0.5
    xp.multiply(i, g, out=h)
    xp.multiply(f, before[1], out=c)
    c += h
    xp.tanh(c, out=h)
    h *= o


def _lstm_whole(
    xp: Namespace, z: Any, w: Any, b: Any, first: Any, reverse: bool, memory: tuple[Any, ...]
) -> bool:
    native = xp.native_passes()
    return native is not None and native.lstm_steps(z, w, b, first, reverse, memory)


def _lstm_whole_back(
    xp: Namespace, g: Any, w: Any, reverse: bool, slopes: Any, kept: Any, results: tuple[Any, ...]
) -> bool:
    native = xp.native_passes()
    return native is not None and native.lstm_back_steps(g, w, reverse, slopes, kept, results)


def _lstm_backward(xp: Namespace, saved: Any, before: Any, after: Any, slopes: Any, d: Any, r: Any) -> None:
    i, f, g, o = _parts(saved, 4)
    di, df, dg, do = _parts(d, 4)
    dh, dc = slopes
    native = xp.native_passes()
    if native is not None and native.lstm_backward(saved, before[1], after[1], dh, dc, d):
        return
    bent = xp.tanh(after[1])
    xp.multiply(dh, o, out=do)
    xp.multiply(bent, bent, out=di)
    xp.subtract(1, di, out=di)
    di *= do
    dc += di  # what reaches the cell state through the hidden one
    xp.multiply(dh, bent, out=do)
    xp.multiply(dc, g, out=di)
    xp.multiply(dc, before[1], out=df)
    xp.multiply(dc, i, out=dg)
    dc *= f
    slope = xp.multiply(saved, saved)
    xp.subtract(saved, slope, out=slope)  # s (1 - s); for g it is replaced
    curved = _parts(slope, 4)[2]
    xp.multiply(g, g, out=curved)
    xp.subtract(1, curved, out=curved)
    d *= slope


def _lstm_step(z: Tensor, q: Tensor, b: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
    i, f, g, o = _parts(z + q + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


# -- GRU --------------------------------------------------------------------------------------


def _gru_forward(xp: Namespace, z: Any, q: Any, b: Any, saved: Any, before: Any, after: Any) -> None:
    r, u, new, m = _parts(saved, 4)
    bias, width, [h] = _parts(b, 4), 2 * r.shape[-1], after
    both = saved[:, :width]
    xp.add(q[:, :width], z[:, :width], out=both)
    both += b[:width]
    _squash(xp, both)
    xp.add(q[:, width:], bias[3], out=m)
    xp.multiply(r, m, out=new)
    new += z[:, width:]
    new += bias[2]
    xp.tanh(new, out=new)
    xp.subtract(before[0], new, out=h)
    h *= u
    h += new


def _gru_backward(xp: Namespace, saved: Any, before: Any, after: Any, slopes: Any, d: Any, r: Any) -> None:
    reset, u, new, m = _parts(saved, 4)
    [dh], (dr, du, dn) = slopes, _parts(d, 3)
    width = 2 * u.shape[-1]
    xp.multiply(dh, u, out=du)
    xp.subtract(dh, du, out=dr)
    xp.multiply(new, new, out=dn)
    xp.subtract(1, dn, out=dn)
    dn *= dr
    xp.subtract(before[0], new, out=dr)
    dr *= du
    dh *= u
    xp.subtract(1, u, out=du)
    du *= dr
    xp.multiply(reset, reset, out=dr)
    xp.subtract(reset, dr, out=dr)
    dr *= dn
    dr *= m
    r[:, :width] = d[:, :width]
    xp.multiply(dn, reset, out=r[:, width:])


def _gru_step(z: Tensor, q: Tensor, b: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    (zr, zu, zn), (qr, qu, qn), (br, bu, bn, bm) = _parts(z, 3), _parts(q, 3), _parts(b, 4)
    r, u = sigmoid(zr + qr + br), sigmoid(zu + qu + bu)
    new = tanh(zn + bn + r * (qn + bm))
    return (new + u * (h - new),)


CELLS = {
    "tanh": Cell(1, 1, 0, 1, False, _tanh_forward, _tanh_backward, None, None, _tanh_step),
    "relu": Cell(1, 1, 0, 1, False, _relu_forward, _relu_backward, None, None, _relu_step),
    "lstm": Cell(4, 4, 4, 2, False, _lstm_forward, _lstm_backward, _lstm_whole, _lstm_whole_back, _lstm_step),
    "gru": Cell(3, 4, 4, 1, True, _gru_forward, _gru_backward, None, None, _gru_step),
}


def tape_shapes(cell: str, rows: int, steps: int, size: int) -> list[tuple[int, ...]]:
    """Return the shapes of what a tape holds, one array after the other."""
    kind = CELLS[cell]
    more = kind.states - 1
    return [(rows, steps + more, size), (steps, rows, kind.saved * size), ((steps + 1) * more, rows, size)]


RECURS = {"cell": kinds.one_of(*CELLS), "reverse": kinds.FLAG}


class Weights(NamedTuple):
    """Weights that states are multiplied with."""

    matrix: Any
    part: int

    def multiply(self, xp: Namespace, x: Any, out: Any) -> None:
        """Write the product of contiguous rows with the weights."""
        n = len(x)
        if n <= self.part and self.matrix.ndim == 2:
            xp.matmul(x, self.matrix, out=out)
            return
        w = self.matrix if self.matrix.ndim == 3 else self.matrix[np.newaxis]
        whole = n - n % self.part
        for rows, length in ((slice(whole), self.part), (slice(whole, n), n - whole)):
            given = x[rows]
            if len(given):
                target = out[rows].reshape(-1, length, len(w), w.shape[2]).transpose(0, 2, 1, 3)
                xp.matmul(given.reshape(-1, 1, length, x.shape[1]), w, out=target)


def order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _padding(xp: Namespace, lengths: Any, steps: int) -> Any:
    """Return for every step a column that is true where a row has ended; None if no row ends early."""
    if not getattr(lengths, "ndim", 0):
        return None
    return xp.arange(steps).reshape(steps, 1, 1) >= lengths.reshape(1, -1, 1)


def run(
    xp: Namespace, cell: str, z: Any, w: Any, b: Any, state: Any, lengths: Any, reverse: bool,
    memory: tuple[Any, ...],
) -> None:  # fmt: skip
    """Run a cell over sequences."""
    kind, steps = CELLS[cell], z.shape[1]
    outputs, saved, cells, hidden, product = memory
    padding = _padding(xp, lengths, steps)
    before, after = [state[0]], [hidden[0]]
    if kind.states > 1:
        cells[0] = state[1]
    at_once = outputs[:, :steps], saved, cells, hidden, product
    whole = kind.whole if padding is None and len(z) <= w.part else None
    if whole is not None and whole(xp, z, w.matrix, b, state[0], reverse, at_once):
        outputs[:, steps:] = cells[steps % len(cells), :, np.newaxis]
        return
    for i, k in enumerate(order(steps, reverse)):
        after = [hidden[i % 2]]
        if kind.states > 1:
            before.append(cells[i % cells.shape[0]])
            after.append(cells[(i + 1) % cells.shape[0]])
        w.multiply(xp, before[0], product)
        kind.forward(xp, z[:, k], product, b, saved[i % saved.shape[0]], before, after)
        if padding is not None:
            for new, old in zip(after, before, strict=True):
                xp.copyto(new, old, where=padding[k])
        outputs[:, k] = after[0]
        before = after[:1]
    if kind.states > 1:
        outputs[:, steps] = after[1]


def back(
    xp: Namespace, cell: str, g: Any, w: Any, lengths: Any, reverse: bool, slopes: Any,
    kept: tuple[Any, ...], memory: tuple[Any, ...],
) -> tuple[Any, Any]:  # fmt: skip
    """Go back from the last step to the first."""
    kind, steps = CELLS[cell], memory[0].shape[1]
    outputs, saved, cells = kept
    dz, dr, hidden, d, r, total, total_r, product, room = memory
    differ = dr is not dz
    padding = _padding(xp, lengths, steps)
    total[...], slopes[0] = 0, 0
    if differ:
        total_r[...] = 0
    else:
        r, total_r = d, total
    if kind.states > 1:
        slopes[1] = g[:, steps]
    whole = kind.whole_back if padding is None and len(dz) <= w.part else None
    given = g[:, :steps], w.matrix, reverse, slopes, (saved, cells), (dz, total, d, room)
    if whole is None or not whole(xp, *given):
        of_step = d, r, product, [slopes[i] for i in range(kind.states)]
        for i, k in reversed(list(enumerate(order(steps, reverse)))):
            states = [[hidden[:, k]], [outputs[:, k]]]
            if kind.states > 1:
                states[0].append(cells[i])
                states[1].append(cells[i + 1])
            of_step[-1][0] += g[:, k]
            ended = None if padding is None else padding[k]
            _step_back(xp, cell, w, saved[i], states, slopes, ended, of_step)
            dz[:, k] = d
            total += d
            if differ:
                dr[:, k] = r
                total_r += r
    return total, total_r


def _step_back(
    xp: Namespace, cell: str, w: Any, saved: Any, states: Any, slopes: Any, ended: Any, memory: Any
) -> None:
    """Go back by a step; `ended` tells of which rows it is none."""
    kind, (d, r, product, slope) = CELLS[cell], memory
    passing = None if ended is None else slopes.copy()
    kind.backward(xp, saved, *states, slope, d, r)
    if ended is not None:
        for x in (d, r):
            xp.copyto(x, 0, where=ended)
    w.multiply(xp, r, product)
    if kind.keeps:
        slope[0] += product
    else:
        slope[0][...] = product
    if ended is not None:
        xp.copyto(slopes, passing, where=ended)
