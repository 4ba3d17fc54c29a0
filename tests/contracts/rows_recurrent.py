"""Rows of the recurrent networks: outputs and final states of each, flattened to one vector."""

import numpy as np

from sknet import ops
from sknet.core import PRIMITIVES, as_tensor, bind
from tests.contracts.table import Case, Row, indices, real

try:
    import torch
except ImportError:  # the oracle's tests are skipped, the others do not need it
    torch = None

N, STEPS, FEATURES, SIZE = 3, 4, 2, 3


def cases(gates, biases, states, **params):
    """Return cases with equal or different lengths, in both directions, with one step, and without rows."""

    def operands(n=N, steps=STEPS):
        parts = [(n, steps, FEATURES), (FEATURES, gates * SIZE), (SIZE, gates * SIZE), (biases * SIZE,)]
        return tuple(real(*shape) for shape in [*parts, *[(n, SIZE)] * states])

    lengths = indices(N, low=1, below=STEPS + 1)
    return [
        Case(operands(), params),
        Case(operands(), params | {"reverse": True}),
        Case((*operands(), lengths), params),
        Case((*operands(), lengths), params | {"reverse": True}),
        Case(operands(steps=1), params),
        Case(operands(n=0), params),
    ]


def call(cell, states):
    """Return a function of the operands, with the lengths (if any) last."""

    def function(x, weight_ih, weight_hh, bias, *more, **params):
        state = more[:states] if states > 1 else more[0]
        lengths = more[states] if len(more) > states else None
        output, final = getattr(ops, cell)(x, weight_ih, weight_hh, bias, state, lengths=lengths, **params)
        parts = [output, *(final if states > 1 else [final])]
        return ops.concat([ops.reshape(part, (-1,)) for part in parts])

    return function


# -- one row and one step at a time -------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(x, wi, wh, b, h, activation="tanh"):
    a = x @ wi + h @ wh + b
    return [np.tanh(a) if activation == "tanh" else np.maximum(a, 0)]


def lstm_step(x, wi, wh, b, h, c):
    i, f, g, o = np.split(x @ wi + h @ wh + b, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(c), c]


def gru_step(x, wi, wh, b, h):
    (xr, xu, xn), (hr, hu, hn), (br, bu, bn, bm) = np.split(x @ wi, 3), np.split(h @ wh, 3), np.split(b, 4)
    r, u = sigmoid(xr + hr + br), sigmoid(xu + hu + bu)
    return [(1 - u) * np.tanh(xn + bn + r * (hn + bm)) + u * h]


def reference(step, states):
    def function(x, weight_ih, weight_hh, bias, *more, reverse=False, **params):
        n, steps, _ = x.shape
        lengths = more[states] if len(more) > states else np.full(n, steps)
        output = np.zeros((n, steps, weight_hh.shape[0]), x.dtype)
        final = [np.array(state) for state in more[:states]]
        for row in range(n):
            order = range(lengths[row])
            for k in reversed(order) if reverse else order:
                found = step(x[row, k], weight_ih, weight_hh, bias, *[s[row] for s in final], **params)
                for state, value in zip(final, found, strict=True):
                    state[row] = value
                output[row, k] = final[0][row]
        return np.concatenate([part.ravel() for part in (output, *final)])

    return function


# -- PyTorch ------------------------------------------------------------------------------------


def oracle(kind, states):
    """Return PyTorch's function: its layer, with the weights in the tested direction."""

    def function(x, weight_ih, weight_hh, bias, *more, reverse=False, activation=None):
        if not len(x):  # which PyTorch rejects
            return sum(0 * part.sum() for part in (x, weight_ih, weight_hh, bias, *more)).reshape(1)[:0]
        named = {} if activation is None else {"nonlinearity": activation}
        layer = getattr(torch.nn, kind)(
            x.shape[2], len(weight_hh), batch_first=True, bidirectional=True, dtype=x.dtype, **named
        )
        both, last = bias[: weight_hh.shape[1]], bias[weight_hh.shape[1] :]
        second = torch.cat([torch.zeros(len(both) - len(last), dtype=x.dtype), last])
        weights = {}
        for end in ("", "_reverse"):
            values = (weight_ih.T, weight_hh.T, both, second)
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weights |= {f"{name}_l0{end}": value for name, value in zip(names, values, strict=True)}
        given = [torch.stack([state, state]) for state in more[:states]]
        given = tuple(given) if states > 1 else given[0]
        lengths = more[states] if len(more) > states else torch.full((len(x),), x.shape[1])
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, final = torch.func.functional_call(layer, weights, (packed, given))
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, batch_first=True, total_length=x.shape[1])
        at = int(reverse)
        parts = [output.chunk(2, -1)[at], *[s[at] for s in (final if states > 1 else [final])]]
        return torch.cat([part.reshape(-1) for part in parts])

    return function


# -- the records --------------------------------------------------------------------------------


def record(name, **params):
    return lambda *operands: bind(PRIMITIVES[name], (*map(as_tensor, operands), STEPS), params)


def operands_of_records(cell_gates, biases, states):
    columns = cell_gates * SIZE
    weights = (FEATURES, columns), (SIZE, columns), (biases * SIZE,)
    return tuple(real(*shape) for shape in [(N, STEPS, FEATURES), *weights, (states, N, SIZE)])


def tape_reference(x, w_ih, w, b, state):
    """Return only the outputs: the plain cell keeps no gates."""
    return reference(rnn_step, 1)(x, w_ih, w, b, state[0])[: N * STEPS * SIZE]


def outputs_reference(x, w_ih, w, b, state):
    """Return only the outputs of the plain cell."""
    shape = (*x.shape[:2], len(w))
    return reference(rnn_step, 1)(x, w_ih, w, b, state[0])[: np.prod(shape)].reshape(shape)


def with_tape(x, w_ih, w, b, state):
    """Return the outputs of the plain cell on its own tape."""
    operands = (*map(as_tensor, (x, w_ih, w, b, state)), STEPS)
    params = {"cell": "tanh", "reverse": False}
    tape = bind(PRIMITIVES["recurrence_tape"], operands, params)
    return bind(PRIMITIVES["recurrence"], (*operands, tape), params)


def gradient(g, x, w_ih, w, b, state):
    """Return the record's result for the plain cell, on its own tape."""
    operands = (*map(as_tensor, (x, w_ih, w, b, state)), STEPS)
    params = {"cell": "tanh", "reverse": False}
    tape = bind(PRIMITIVES["recurrence_tape"], operands, params)
    params |= {"of_input": True}
    return bind(PRIMITIVES["recurrence_gradient"], (as_tensor(g), *operands, tape), params)


def gradient_reference(g, x, w_ih, w, b, state):
    """Go back through the plain cell."""
    hidden = tape_reference(x, w_ih, w, b, state).reshape(N, STEPS, SIZE)
    dx, dw_ih, dw, db = (np.zeros_like(y) for y in (x, w_ih, w, b))
    dh = np.zeros_like(state[0])
    for k in reversed(range(STEPS)):
        before = hidden[:, k - 1] if k else state[0]
        dz = (dh + g[:, k]) * (1 - hidden[:, k] ** 2)
        dx[:, k] = dz @ w_ih.T
        dw_ih += x[:, k].T @ dz
        dw += before.T @ dz
        db += dz.sum(0)
        dh = dz @ w.T
    return np.concatenate([part.ravel() for part in (dx, dw_ih, dw, db, dh)])


RNN = [*cases(1, 1, 1), *cases(1, 1, 1, activation="relu")]
ROWS = [
    Row(
        "rnn",
        reference(rnn_step, 1),
        RNN,
        integers=False,
        call=call("rnn", 1),
        torch=lambda *operands, activation="tanh", **params: oracle("RNN", 1)(
            *operands, activation=activation, **params
        ),
    ),
    Row(
        "lstm",
        reference(lstm_step, 2),
        cases(4, 4, 2),
        integers=False,
        call=call("lstm", 2),
        torch=oracle("LSTM", 2),
    ),
    Row(
        "gru",
        reference(gru_step, 1),
        cases(3, 4, 1),
        integers=False,
        call=call("gru", 1),
        torch=oracle("GRU", 1),
    ),
    Row(
        "recurrence",
        outputs_reference,
        [Case(operands_of_records(1, 1, 1))],
        "recurrence",
        integers=False,
        call=with_tape,
        torch="the recurrent networks, compared there",
    ),
    Row(
        "recurrence_outputs",
        outputs_reference,
        [Case(operands_of_records(1, 1, 1))],
        "recurrence_outputs",
        order=0,
        integers=False,
        call=record("recurrence_outputs", cell="tanh", reverse=False),
        torch="what the recurrent networks give without gradients, compared there",
    ),
    Row(
        "recurrence_tape",
        tape_reference,
        [Case(operands_of_records(1, 1, 1))],
        "recurrence_tape",
        order=0,
        integers=False,
        call=record("recurrence_tape", cell="tanh", reverse=False),
        torch="what the recurrent networks keep, compared there",
    ),
    Row(
        "recurrence_gradient",
        gradient_reference,
        [Case((real(N, STEPS, SIZE), *operands_of_records(1, 1, 1)))],
        "recurrence_gradient",
        integers=False,
        call=gradient,
        torch="the gradient of the recurrent networks, compared there",
    ),
]
