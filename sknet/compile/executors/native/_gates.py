"""The source of steps of recurrent networks."""

from enum import IntEnum

__all__ = ["CALLED", "GATES", "Step"]


class Step(IntEnum):
    """What a step of an LSTM works on: matrices with a row for each sample, contiguous unless noted.

    Z, Z_ROW: the input's share of the gates, and bytes between its rows.
    Q, BIAS: the product with the hidden state, and the bias.
    GATES: of all samples.
    CELL, NEW_CELL, HIDDEN: cell state before and after the step, and hidden state after it.
    D_HIDDEN, D_CELL, D: gradients of these, and of the gates.
    ROOM: of the shape of the states.
    ROWS, WIDTH: number of samples, and columns of a state.
    TANH, TANH_DATA: addresses of the inner loop of NumPy's tanh and of its data.
    FIRST, SECOND, LINE, STEP, OTHER_STEP: what the loop is called with; the last two are an element's size.
    """

    Z = 0
    Z_ROW = 1
    Q = 2
    BIAS = 3
    GATES = 4
    CELL = 5
    NEW_CELL = 6
    HIDDEN = 7
    D_HIDDEN = 8
    D_CELL = 9
    D = 10
    ROOM = 11
    ROWS = 12
    WIDTH = 13
    TANH = 14
    TANH_DATA = 15
    FIRST = 16
    SECOND = 17
    LINE = 18
    STEP = 19
    OTHER_STEP = 20


CALLED = """
@kernel
def bend(call, source, target, n):
    call[{first}], call[{second}], call[{line}] = source, target, n
    given = call.ctypes.data + 8 * {first}
    call_loop(call[{tanh}], (given, given + 16, given + 24, call[{tanh_data}]))

"""

GATES = """
@kernel
def halved_sum_{dtype}(q, z, b, factor, out):
    for j in range(len(out)):
        out[j] = ((q[j] + z[j]) + b[j]) * factor


@kernel
def squashed_{dtype}(x):
    half = {dtype}(0.5)
    for j in range(len(x)):
        x[j] = x[j] * half + half


@kernel
def mixed_{dtype}(i, g, f, c, out):
    for j in range(len(out)):
        out[j] = f[j] * c[j] + i[j] * g[j]


@kernel
def scaled_{dtype}(x, factors):
    for j in range(len(x)):
        x[j] *= factors[j]


@kernel
def add_bent_{dtype}(t, dh, o, dc):
    one = {dtype}(1)
    for j in range(len(dc)):
        dc[j] += (one - t[j] * t[j]) * (dh[j] * o[j])


@kernel
def slope_of_gate_{dtype}(a, b, s, out):
    for j in range(len(out)):
        out[j] = (a[j] * b[j]) * (s[j] - s[j] * s[j])


@kernel
def slope_of_bent_{dtype}(a, b, s, out):
    one = {dtype}(1)
    for j in range(len(out)):
        out[j] = (a[j] * b[j]) * (one - s[j] * s[j])


@kernel
def lstm_forward_{dtype}(call):
    rows, w = call[{rows}], call[{width}]
    b, half, one = carray(pointer(call[{bias}]), 4 * w, {dtype}), {dtype}(0.5), {dtype}(1)
    q = carray(pointer(call[{q}]), (rows, 4 * w), {dtype})
    s = carray(pointer(call[{gates}]), (rows, 4 * w), {dtype})
    old = carray(pointer(call[{cell}]), (rows, w), {dtype})
    new = carray(pointer(call[{new_cell}]), (rows, w), {dtype})
    h = carray(pointer(call[{hidden}]), (rows, w), {dtype})
    for r in range(rows):
        z = carray(pointer(call[{z}] + r * call[{z_row}]), 4 * w, {dtype})
        halved_sum_{dtype}(q[r, : 2 * w], z[: 2 * w], b[: 2 * w], half, s[r, : 2 * w])
        halved_sum_{dtype}(q[r, 2 * w : 3 * w], z[2 * w : 3 * w], b[2 * w : 3 * w], one, s[r, 2 * w : 3 * w])
        halved_sum_{dtype}(q[r, 3 * w :], z[3 * w :], b[3 * w :], half, s[r, 3 * w :])
    bend(call, call[{gates}], call[{gates}], 4 * rows * w)
    for r in range(rows):
        squashed_{dtype}(s[r, : 2 * w])
        squashed_{dtype}(s[r, 3 * w :])
        mixed_{dtype}(s[r, :w], s[r, 2 * w : 3 * w], s[r, w : 2 * w], old[r], new[r])
    bend(call, call[{new_cell}], call[{hidden}], rows * w)
    for r in range(rows):
        scaled_{dtype}(h[r], s[r, 3 * w :])


@kernel
def lstm_backward_{dtype}(call):
    rows, w = call[{rows}], call[{width}]
    s = carray(pointer(call[{gates}]), (rows, 4 * w), {dtype})
    d = carray(pointer(call[{d}]), (rows, 4 * w), {dtype})
    old = carray(pointer(call[{cell}]), (rows, w), {dtype})
    dh = carray(pointer(call[{d_hidden}]), (rows, w), {dtype})
    dc = carray(pointer(call[{d_cell}]), (rows, w), {dtype})
    bent = carray(pointer(call[{room}]), (rows, w), {dtype})
    bend(call, call[{new_cell}], call[{room}], rows * w)
    for r in range(rows):
        i, f, g, o = s[r, :w], s[r, w : 2 * w], s[r, 2 * w : 3 * w], s[r, 3 * w :]
        t, dh_r, dc_r = bent[r], dh[r], dc[r]
        add_bent_{dtype}(t, dh_r, o, dc_r)
        slope_of_gate_{dtype}(dh_r, t, o, d[r, 3 * w :])
        slope_of_gate_{dtype}(dc_r, g, i, d[r, :w])
        slope_of_gate_{dtype}(dc_r, old[r], f, d[r, w : 2 * w])
        slope_of_bent_{dtype}(dc_r, i, g, d[r, 2 * w : 3 * w])
        scaled_{dtype}(dc_r, f)

"""
