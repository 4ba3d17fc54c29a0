"""The cells of recurrent networks: one step forward and one step back, on arrays of any namespace.

A step reads and writes arrays that are allocated once: over a hundred steps, and as many back, allocating
would take longer than computing. Every array of a step is a matrix with a row for each sample.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sknet.core import Tensor
from sknet.core.extend import param_kinds as kinds
from sknet.device import Namespace
from sknet.ops._activation import relu
from sknet.ops._elementwise import sigmoid, tanh

__all__ = ["CELLS", "RECURS", "Cell", "tape_shapes"]


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


def _parts(x: Any, count: int) -> list[Any]:
    """Cut the last axis into equal parts."""
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
    return [
        (rows, steps + more, size),
        (steps, rows, kind.saved * size),
        ((steps + 1) * more, rows, size),
    ]


RECURS = {"cell": kinds.one_of(*CELLS), "reverse": kinds.FLAG}
