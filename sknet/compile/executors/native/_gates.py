"""The source of steps of recurrent networks."""

from enum import IntEnum

__all__ = ["CALLED", "FIELDS", "GATES", "Step"]


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
    STEPS, Z_STEP, KEPT, CELLS: number of steps, bytes from one's share to the next one's, and how many
    arrays of gates, and of cell states, there are; then those above are of the first step, and there are two
    hidden states.
    BEFORE, WEIGHTS: the hidden state before the first step, and the recurrent weights. Backwards, Z are
    gradients of the outputs, OUT those of the gates of all steps, and HIDDEN their sum over the steps.
    OUT, OUT_ROW, OUT_STEP: hidden states of all steps, and bytes between rows and steps.
    MATMUL, MATMUL_DATA: addresses of the inner loop of NumPy's matrix product and of its data.
    LEFT, RIGHT, PRODUCT: addresses of factors and product.
    GATES_STEP, CELL_STEP: bytes from gates, and from cell states, to those of the next step.
    SHAPE, STRIDES: the first of four lengths, and of nine strides; both come last.
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
    STEPS = 21
    Z_STEP = 22
    KEPT = 23
    CELLS = 24
    BEFORE = 25
    WEIGHTS = 26
    OUT = 27
    OUT_ROW = 28
    OUT_STEP = 29
    MATMUL = 30
    MATMUL_DATA = 31
    LEFT = 32
    RIGHT = 33
    PRODUCT = 34
    GATES_STEP = 35
    CELL_STEP = 36
    SHAPE = 37
    STRIDES = 41


FIELDS = Step.STRIDES + 9


CALLED = """
@kernel
def bend(call, source, target, n):
    call[{first}], call[{second}], call[{line}] = source, target, n
    given = call.ctypes.data + 8 * {first}
    call_loop(call[{tanh}], (given, given + 16, given + 24, call[{tanh_data}]))


@kernel
def multiply_states(call, left):
    call[{left}], call[{right}], call[{product}] = left, call[{weights}], call[{q}]
    given = call.ctypes.data
    lengths, strides = given + 8 * {shape}, given + 8 * {strides}
    call_loop(call[{matmul}], (given + 8 * {left}, lengths, strides, call[{matmul_data}]))

"""

GATES = """
@kernel
def sum_{dtype}(q, z, b, factor, out, n):
    first, second = carray(pointer(q), n, {dtype}), carray(pointer(z), n, {dtype})
    third, total = carray(pointer(b), n, {dtype}), carray(pointer(out), n, {dtype})
    for j in range(n):
        total[j] = ((first[j] + second[j]) + third[j]) * factor


@kernel
def squash_{dtype}(place, n):
    x, half = carray(pointer(place), n, {dtype}), {dtype}(0.5)
    for j in range(n):
        x[j] = x[j] * half + half


@kernel
def mix_{dtype}(s, old, new, w):
    i, f = carray(pointer(s), w, {dtype}), carray(pointer(s + w * {size}), w, {dtype})
    g, c = carray(pointer(s + 2 * w * {size}), w, {dtype}), carray(pointer(old), w, {dtype})
    out = carray(pointer(new), w, {dtype})
    for j in range(w):
        out[j] = f[j] * c[j] + i[j] * g[j]


@kernel
def scale_{dtype}(place, factors, n):
    x, y = carray(pointer(place), n, {dtype}), carray(pointer(factors), n, {dtype})
    for j in range(n):
        x[j] *= y[j]


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
def add_to_{dtype}(x, more):
    for j in range(len(x)):
        x[j] += more[j]


@kernel
def copy_and_add_{dtype}(x, copy, total):
    for j in range(len(x)):
        copy[j] = x[j]
        total[j] += x[j]


@kernel
def lstm_forward_{dtype}(call):
    rows, n = call[{rows}], call[{width}]
    w, half, one = n * {size}, {dtype}(0.5), {dtype}(1)
    for r in range(rows):
        q, z, b = call[{q}] + 4 * r * w, call[{z}] + r * call[{z_row}], call[{bias}]
        s = call[{gates}] + 4 * r * w
        sum_{dtype}(q, z, b, half, s, 2 * n)
        sum_{dtype}(q + 2 * w, z + 2 * w, b + 2 * w, one, s + 2 * w, n)
        sum_{dtype}(q + 3 * w, z + 3 * w, b + 3 * w, half, s + 3 * w, n)
    bend(call, call[{gates}], call[{gates}], 4 * rows * n)
    for r in range(rows):
        s = call[{gates}] + 4 * r * w
        squash_{dtype}(s, 2 * n)
        squash_{dtype}(s + 3 * w, n)
        mix_{dtype}(s, call[{cell}] + r * w, call[{new_cell}] + r * w, n)
    bend(call, call[{new_cell}], call[{hidden}], rows * n)
    for r in range(rows):
        scale_{dtype}(call[{hidden}] + r * w, call[{gates}] + (4 * r + 3) * w, n)


@kernel
def lstm_steps_{dtype}(call):
    rows, w, before = call[{rows}], call[{width}], call[{before}]
    first, gates, cells, hidden = call[{z}], call[{gates}], call[{cell}], call[{hidden}]
    state = rows * w * {size}
    for i in range(call[{steps}]):
        call[{z}] = first + i * call[{z_step}]
        call[{gates}] = gates + i % call[{kept}] * call[{gates_step}]
        call[{cell}] = cells + i % call[{cells}] * call[{cell_step}]
        call[{new_cell}] = cells + (i + 1) % call[{cells}] * call[{cell_step}]
        call[{hidden}] = hidden + i % 2 * state
        multiply_states(call, before)
        lstm_forward_{dtype}(call)
        before = call[{hidden}]
        h, target = carray(pointer(before), (rows, w), {dtype}), call[{out}] + i * call[{out_step}]
        for r in range(rows):
            out = carray(pointer(target + r * call[{out_row}]), w, {dtype})
            for j in range(w):
                out[j] = h[r, j]


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


@kernel
def lstm_back_steps_{dtype}(call):
    rows, w = call[{rows}], call[{width}]
    gates, cells, steps = call[{gates}], call[{cell}], call[{steps}]
    dh = carray(pointer(call[{d_hidden}]), (rows, w), {dtype})
    d = carray(pointer(call[{d}]), (rows, 4 * w), {dtype})
    total = carray(pointer(call[{hidden}]), (rows, 4 * w), {dtype})
    call[{q}] = call[{d_hidden}]
    for i in range(steps):
        given, target = call[{z}] + i * call[{z_step}], call[{out}] + i * call[{out_step}]
        for r in range(rows):
            add_to_{dtype}(dh[r], carray(pointer(given + r * call[{z_row}]), w, {dtype}))
        call[{gates}] = gates + (steps - 1 - i) * call[{gates_step}]
        call[{cell}] = cells + (steps - 1 - i) * call[{cell_step}]
        call[{new_cell}] = cells + (steps - i) * call[{cell_step}]
        lstm_backward_{dtype}(call)
        multiply_states(call, call[{d}])
        for r in range(rows):
            copy_and_add_{dtype}(
                d[r], carray(pointer(target + r * call[{out_row}]), 4 * w, {dtype}), total[r]
            )

"""
