"""Recurrent ONNX operators."""

from typing import Any, Literal

import numpy as np

from sknet import ops
from sknet.core import as_tensor
from sknet.exceptions import LoadError
from sknet.onnx._neural import GATES
from sknet.onnx._reading import operator

__all__: list[str] = []

Direction = Literal["forward", "reverse", "bidirectional"]
WAYS: dict[str, list[bool]] = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


@operator("LSTM", outputs=3)
def _lstm(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None,
    cell: Any = None, *, activations: Any = None, direction: Direction = "forward",
    hidden_size: int | None = None, input_forget: Literal[0] = 0, layout: Literal[0] = 0,
) -> Any:  # fmt: skip
    _check(activations, [["Sigmoid", "Tanh", "Tanh"]], direction, hidden_size, recurrent)
    if (hidden is None) != (cell is None):
        raise LoadError("one of initial_h and initial_c without the other is not supported")
    weights = (weight, recurrent, bias)
    return _recurrence("lstm", x, weights, lengths, [hidden, cell], direction)


RESETS_FIRST: Any = 0  # the standard's default, which is refused: sknet's GRU resets after the product


@operator("GRU", outputs=2)
def _gru(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None, *,
    activations: Any = None, direction: Direction = "forward", hidden_size: int | None = None,
    layout: Literal[0] = 0, linear_before_reset: Literal[1] = RESETS_FIRST,
) -> Any:  # fmt: skip
    _check(activations, [["Sigmoid", "Tanh"]], direction, hidden_size, recurrent)
    return _recurrence("gru", x, (weight, recurrent, bias), lengths, [hidden], direction)


@operator("RNN", outputs=2)
def _rnn(
    x: Any, weight: Any, recurrent: Any, bias: Any = None, lengths: Any = None, hidden: Any = None, *,
    activations: Any = None, direction: Direction = "forward", hidden_size: int | None = None,
    layout: Literal[0] = 0,
) -> Any:  # fmt: skip
    _check(activations, [["Tanh"], ["Relu"]], direction, hidden_size, recurrent)
    name = "tanh" if activations is None else activations[0].lower()
    return _recurrence("rnn", x, (weight, recurrent, bias), lengths, [hidden], direction, activation=name)


def _check(given: Any, known_ones: Any, direction: str, hidden_size: Any, recurrent: Any) -> None:
    if given is not None and given not in [each * len(WAYS[direction]) for each in known_ones]:
        raise LoadError(f"activations={given} is not supported")
    if hidden_size not in (None, recurrent.shape[-1]):
        raise LoadError(f"hidden_size={hidden_size} for recurrent weights of shape {list(recurrent.shape)}")


def _recurrence(
    cell: str, x: Any, weights: Any, lengths: Any, states: list[Any], direction: str, **options: Any
) -> Any:
    runs = [
        _run(cell, x, number, weights, [None if s is None else as_tensor(s)[number] for s in states],
             lengths=lengths, reverse=reverse, **options)
        for number, reverse in enumerate(WAYS[direction])
    ]  # fmt: skip
    outputs = ops.stack([ops.permute_dims(output, (1, 0, 2)) for output, _ in runs], axis=1)
    finals = [ops.stack([final[i] for _, final in runs], axis=0) for i in range(len(states))]
    return (outputs, *finals)


def _run(cell: str, x: Any, number: int, weights: Any, states: Any, **options: Any) -> Any:
    weight, recurrent, bias = weights
    size = recurrent.shape[-1]
    order = np.argsort(GATES["tanh" if cell == "rnn" else cell])
    columns = np.concatenate([np.arange(k * size, (k + 1) * size) for k in order])
    taken = [
        ops.permute_dims(ops.take(as_tensor(m)[number], columns, 0), (1, 0)) for m in (weight, recurrent)
    ]
    if states[0] is not None:
        options["state"] = states[0] if cell != "lstm" else tuple(states)
    output, final = getattr(ops, cell)(
        ops.permute_dims(as_tensor(x), (1, 0, 2)), *taken, _bias(cell, bias, number, columns, size), **options
    )
    finals = final if cell == "lstm" else (final,)
    if options["lengths"] is not None:  # as in other runtimes, an empty sequence has no state
        is_real = ops.expand_dims(ops.greater(as_tensor(options["lengths"]), 0), -1)
        finals = tuple(ops.where(is_real, state, 0.0) for state in finals)
    return output, finals


def _bias(cell: str, bias: Any, number: int, columns: Any, size: int) -> Any:
    if bias is None:
        return None
    bias = as_tensor(bias)[number]
    half = bias.shape[0] // 2
    first, second = ops.take(bias[:half], columns, 0), ops.take(bias[half:], columns, 0)
    if cell != "gru":
        return first + second
    apart = 2 * size  # the bias of the new state's product is affected by the reset gate
    return ops.concat([first[:apart] + second[:apart], first[apart:], second[apart:]], axis=0)
