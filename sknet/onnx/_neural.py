"""Rows of products, convolutions, pools, interpolation and recurrences."""

from typing import Any

import numpy as np

from sknet.compile import Equation
from sknet.onnx._elementwise import broadcast_shape, common, expression, sliced
from sknet.onnx._writer import Value, Writer, row


@row("matmul")
def _matmul(w: Writer, equation: Equation, *operands: Value) -> Value:
    x, y = common(w, equation, list(operands))
    return w.cast(w.add("MatMul", x, y, shape=w.rows.shape(equation.output)), equation.output.dtype)


@row("det")
def _det(w: Writer, equation: Equation, x: Value) -> Value:
    return w.add("Det", x, shape=x.shape[:-2])


# -- windows ---------------------------------------------------------------------------------


def _pads(padding: Any) -> list[int]:
    return [before for before, _ in padding] + [after for _, after in padding]


def _fitted(w: Writer, x: Value, padding: Any) -> tuple[Value, Any]:
    """Return an image and its padding, after applying negative padding by slicing."""
    if all(after >= 0 for _, after in padding):
        return x, padding
    for axis, (_, after) in zip((2, 3), padding, strict=True):
        if after < 0:
            x = sliced(w, x, axis, 0, x.known(axis) + after)
    return x, tuple((before, max(after, 0)) for before, after in padding)


@row("conv")
def _conv(
    w: Writer, equation: Equation, x: Value, kernel: Value,
    *, groups: int, stride: Any, padding: Any, dilation: Any,
) -> Value:  # fmt: skip
    x, padding = _fitted(w, x, padding)
    attributes = {"strides": list(stride), "pads": _pads(padding), "dilations": list(dilation)}
    shape = w.rows.shape(equation.output)
    return w.add(
        "Conv", x, kernel, shape=shape, group=groups, kernel_shape=list(kernel.shape[2:]), **attributes
    )


@row("conv_image")
def _conv_image(
    w: Writer, equation: Equation, g: Value, kernel: Value,
    *, size: Any, groups: int, stride: Any, padding: Any, dilation: Any,
) -> Value:  # fmt: skip
    """A transposed convolution; rows and columns that no window reaches are appended."""
    attributes = {"strides": list(stride), "pads": [0, 0, 0, 0], "dilations": list(dilation)}
    full = [(g.known(2 + a) - 1) * stride[a] + dilation[a] * (kernel.known(2 + a) - 1) + 1 for a in range(2)]
    shape = w.rows.shape(equation.output)
    found = w.add(
        "ConvTranspose", g, kernel, shape=(*shape[:2], *full), group=groups,
        kernel_shape=list(kernel.shape[2:]), **attributes,
    )  # fmt: skip
    before = [-padding[a][0] for a in range(2)]
    after = [size[a] + padding[a][0] - full[a] for a in range(2)]
    if before == after == [0, 0]:
        return found
    amounts = w.constant([0, 0, *before, 0, 0, *after], np.int64)
    return w.add("Pad", found, amounts, w.constant(0, g.dtype), shape=shape, mode="constant")


def _ones(w: Writer, x: Value, kernel: Any) -> Value:
    """Return a kernel of ones for every channel of x."""
    return w.constant(np.ones((x.known(1), 1, *kernel)), x.dtype)


@row("sum_pool_spread")
def _spread(w: Writer, equation: Equation, g: Value, *, kernel: Any, **where: Any) -> Value:
    """A transposed convolution of every channel with ones."""
    return _conv_image(w, equation, g, _ones(w, g, kernel), groups=g.known(1), **where)


@row("max_pool")
def _max_pool(
    w: Writer, equation: Equation, x: Value, *, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Value:
    x, padding = _fitted(w, x, padding)
    return w.add(
        "MaxPool", x, shape=w.rows.shape(equation.output), kernel_shape=list(kernel), strides=list(stride),
        pads=_pads(padding), dilations=list(dilation),
    )  # fmt: skip


@row("sum_pool")
def _sum_pool(w: Writer, equation: Equation, x: Value, *, kernel: Any, **where: Any) -> Value:
    """A convolution of every channel with ones."""
    return _conv(w, equation, x, _ones(w, x, kernel), groups=x.known(1), **where)


@row("resample")
def _resample(
    w: Writer, equation: Equation, x: Value, places: Value, weights: Value, *_: Value, axis: int
) -> Value:
    at, shape = axis % x.ndim, w.rows.shape(equation.output)
    total = None
    for number in range(places.known(0)):
        place = w.reshaped(sliced(w, places, 0, number, number + 1), places.shape[1:])
        weight = sliced(w, weights, 0, number, number + 1)
        weight = w.reshaped(weight, (*weights.shape[1:], *(1,) * (x.ndim - at - 1)))
        part = w.add("Mul", w.add("Gather", x, place, shape=shape, axis=at), weight, shape=shape)
        total = part if total is None else w.add("Add", total, part)
    assert total is not None
    return total


@row("layer_norm")
def _layer_norm(w: Writer, equation: Equation, x: Value, weight: Value, bias: Value, *, eps: float) -> Value:
    shape = w.rows.shape(equation.output)
    return w.add("LayerNormalization", x, weight, bias, shape=shape, axis=-1, epsilon=eps)


# -- recurrences -----------------------------------------------------------------------------

GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "tanh": (0,), "relu": (0,)}  # sknet's index of ONNX's gates
OPERATORS = {"lstm": "LSTM", "gru": "GRU", "tanh": "RNN", "relu": "RNN"}


@row("recurrence_tape")
def _tape(w: Writer, equation: Equation, x: Value, *_: Any, **__: Any) -> Value:
    return x  # only `recurrence` reads it, which is written as a whole


@row("recurrence", "recurrence_outputs")
def _recurrence(
    w: Writer, equation: Equation, x: Value, weight_ih: Value, weight: Value, bias: Value, state: Value,
    lengths: Any, *tape: Value, cell: str, reverse: bool,
) -> Value:  # fmt: skip
    rows, steps, _ = x.shape
    size = weight.known(0)
    taken = w.constant(_permutation(cell, size), np.int64)
    weights = [_gates_first(w, y, taken) for y in (weight_ih, weight)]
    both = _biases(w, cell, size, bias, taken)
    x = w.transposed(x, [1, 0, 2])
    has_lengths = isinstance(lengths, Value) and lengths.ndim == 1  # not the number of all steps
    counts = w.cast(lengths, np.int32) if has_lengths else None
    h = _state(w, state, 0, rows, size)
    more = [_state(w, state, 1, rows, size)] if cell == "lstm" else []
    attributes: dict[str, Any] = {"hidden_size": size, "direction": "reverse" if reverse else "forward"}
    if cell == "gru":
        attributes["linear_before_reset"] = 1
    if cell == "relu":
        attributes["activations"] = ["Relu"]
    outputs = [(None, (steps, 1, rows, size)), *[(None, (1, rows, size))] * (1 + len(more))]
    found, last, *cells = w.add_several(
        OPERATORS[cell], (x, *weights, both, counts, h, *more), outputs, **attributes
    )
    output = w.reshaped(w.transposed(found, [2, 0, 1, 3]), (rows, steps, size))
    if has_lengths:
        output = _carried_on(w, output, last, lengths)
    if cells:
        end = w.transposed(cells[0], [1, 0, 2])
        output = w.add("Concat", output, end, shape=w.rows.shape(equation.output), axis=1)
    return output


def _permutation(cell: str, size: int) -> Any:
    """Return the columns in the order of ONNX's gates."""
    return np.concatenate([np.arange(k * size, (k + 1) * size) for k in GATES[cell]])


def _gates_first(w: Writer, weight: Value, taken: Value) -> Value:
    """Return weights as ONNX has them, with a row for each column."""
    across = w.add("Gather", w.transposed(weight, [1, 0]), taken, axis=0)
    return w.reshaped(across, (1, *across.shape))


def _biases(w: Writer, cell: str, size: int, bias: Value, taken: Value) -> Value:
    """Return those of the products with inputs and states."""
    columns = len(GATES[cell]) * size
    if cell == "gru":  # the bias of the new state's product stands apart, at the end
        first, apart = sliced(w, bias, 0, 0, 3 * size), sliced(w, bias, 0, 3 * size, 4 * size)
        zeros = w.constant(np.zeros(2 * size), bias.dtype)
        parts = [w.add("Gather", first, taken, shape=(3 * size,), axis=0), zeros, apart]
    else:
        zeros = w.constant(np.zeros(columns), bias.dtype)
        parts = [w.add("Gather", bias, taken, axis=0), zeros]
    both = w.add("Concat", *parts, shape=(2 * columns,), axis=0)
    return w.reshaped(both, (1, *both.shape))


def _state(w: Writer, state: Value, number: int, rows: Any, size: int) -> Value:
    one = sliced(w, state, 0, number, number + 1)
    return w.reshaped(one, (1, rows, size))


def _carried_on(w: Writer, output: Value, last: Value, lengths: Value) -> Value:
    """Return outputs that stay constant after a row's last step, where ONNX has zeros."""
    rows, steps, size = output.shape
    count = w.reshaped(w.cast(lengths, np.int64), (rows, 1, 1))
    step = w.reshaped(w.counted(steps), (steps, 1))
    is_real = expression(w, "x < y", {"x": step, "y": count}, np.dtype(np.int64))
    end = w.reshaped(last, (rows, 1, size))
    return w.add("Where", is_real, output, end, dtype=output.dtype, shape=broadcast_shape(output, end))
