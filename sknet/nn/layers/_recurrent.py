"""Recurrent cells and layers."""

from abc import ABC
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike

from sknet._constraints import shown
from sknet._fields import ABSENT, POSITIVE, Named
from sknet._frames import sequences_in
from sknet._params import Interval, StrOptions, described_by, named_errors
from sknet.core import Tensor, as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import LAYER_COUNT, Module, check_arguments
from sknet.nn._parameter import DEFAULT_DTYPE, Parameter, Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._dropout import Dropout
from sknet.ops import concat, expand_dims, gru, lstm, rnn, stack

__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell", "pad_sequences"]


LENGTH = [Interval(Integral, 1, None, closed="left")]
Scheme = Initializer | str | None


class _Cell(Module, ABC):
    """Base of the cells: their parameters, and one step as a sequence of one.

    Parameters
    ----------
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    bias : bool, default=True
        Whether to add a bias.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.
    init : Initializer or str, default=None
        Scheme of `weight_ih`, gate by gate; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of `weight_hh`, gate by gate; None is that of `init.version`, `Orthogonal`.
    """

    weight_ih: Any = Registered()
    weight_hh: Any = Registered()
    bias: Any = Registered()

    gates: ClassVar[int]
    biases: ClassVar[int]
    run: ClassVar[Callable[..., Any]]

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "input_size": LENGTH,
        "hidden_size": LENGTH,
        "bias": ["boolean"],
        "activation": [StrOptions({"tanh", "relu"})],
    }
    _stored_fields = {
        "weight_ih": Named("Parameter"),
        "weight_hh": Named("Parameter"),
        "bias": [Named("Parameter"), None],
        "activation": [StrOptions({"tanh", "relu"}), ABSENT],
    }

    def _check_stored(self) -> None:
        columns = self.gates * self.hidden_size
        shapes = [each.shape for each in (self.weight_ih, self.weight_hh)]
        n_biases = self.biases * self.hidden_size
        if shapes != [(self.input_size, columns), (self.hidden_size, columns)] or (
            self.bias is not None and self.bias.shape != (n_biases,)
        ):
            raise ValueError(f"{type(self).__name__} of {self.hidden_size} features has weights of {shapes}")

    def _build(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        init: Scheme,
        recurrent_init: Scheme,
        device: "str | Device | None",
    ) -> None:
        check_arguments(self, input_size=input_size, hidden_size=hidden_size, bias=bias)
        self.input_size, self.hidden_size = int(input_size), int(hidden_size)
        ih = scheme(init, self, "recurrent input")
        hh = scheme(recurrent_init, self, "recurrent state", parameter="recurrent_init")
        self.weight_ih = self._weight(ih, self.input_size, device)
        self.weight_hh = self._weight(hh, self.hidden_size, device)
        self.bias = Parameter(self._first_bias(), device=device) if bias else None

    def _weight(self, found: Initializer, rows: int, device: "str | Device | None") -> Parameter:
        draw = partial(draw_gates, found=found, rows=rows, size=self.hidden_size, gates=self.gates)
        return Parameter(shape=(rows, self.gates * self.hidden_size), draw=draw, device=device)

    def _first_bias(self) -> np.ndarray[Any, Any]:
        return np.zeros(self.biases * self.hidden_size, DEFAULT_DTYPE)

    def scan(self, x: Any, state: Any = None, lengths: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """Run the cell over sequences `x`, like the function of `sknet.ops`."""
        # The `state` before the first step has shape (n, hidden_size), and an LSTM has two of them;
        # `lengths` tells how many steps of each row are real, and `reverse` runs from the last step to the
        # first. What is returned are the hidden states after every step, of shape (n, steps, hidden_size),
        # and the state after all steps.
        weights, more = (self.weight_ih, self.weight_hh, self.bias), {}
        if hasattr(self, "activation"):
            more["activation"] = self.activation
        return self.run(x, *weights, state, lengths=lengths, reverse=reverse, **more)

    def forward(self, x: Any, state: Any = None) -> Any:
        x = as_tensor(x)
        if x.ndim != 2 or x.shape[1] != self.input_size:
            raise ShapeError(f"{self!r}: expected an input of shape (n, {self.input_size}), got {x.shape}")
        return self.scan(expand_dims(x, 1), state)[1]


def draw_gates(
    random_state: RandomState, found: Initializer, rows: int, size: int, gates: int
) -> np.ndarray[Any, Any]:
    """Draw the weights of one gate after the other, each a matrix of its own."""
    parts = [found.draw(random_state, (rows, size), fan_in=rows, fan_out=size) for _ in range(gates)]
    return np.concatenate(parts, axis=1)


@described_by(_Cell)
class RNNCell(_Cell):
    """One step of a plain recurrent network (J. L. Elman, 1990).

    Parameters
    ----------
    activation : {"tanh", "relu"}, default="tanh"
        Activation function.
    init : Initializer or str, default=None
        Scheme of `weight_ih`; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of `weight_hh`; None is that of `init.version`, `Orthogonal`.

    Attributes
    ----------
    weight_ih : Parameter of shape (input_size, hidden_size)
        From the input; the transpose of PyTorch's.
    weight_hh : Parameter of shape (hidden_size, hidden_size)
        From the hidden state.
    bias : Parameter of shape (hidden_size,), or None
        Initially 0; the sum of PyTorch's two.

    See Also
    --------
    RNN : Layers of such cells, over whole sequences.

    Notes
    -----
    Called with an input of shape (n, input_size) and a hidden state of shape (n, hidden_size), or None for
    zeros, it returns the next hidden state.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> cell = nn.RNNCell(3, 4).initialize(0)
    >>> h = cell(np.ones((5, 3), "float32"))
    >>> cell(np.ones((5, 3), "float32"), h).shape
    (5, 4)
    """

    gates = biases = 1
    run = staticmethod(rnn)

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        activation: str = "tanh",
        *,
        init: Scheme = None,
        recurrent_init: Scheme = None,
        device: "str | Device | None" = None,
    ) -> None:
        check_arguments(self, activation=activation)
        self.activation = activation
        self._build(input_size, hidden_size, bias, init, recurrent_init, device)


class _GatedCell(_Cell):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        init: Scheme = None,
        recurrent_init: Scheme = None,
        device: "str | Device | None" = None,
    ) -> None:
        self._build(input_size, hidden_size, bias, init, recurrent_init, device)


@described_by(_Cell)
class LSTMCell(_GatedCell):
    """One step of a long short-term memory.

    Attributes
    ----------
    weight_ih : Parameter of shape (input_size, 4 * hidden_size)
        From the input to input gate, forget gate, candidate and output gate; the transpose of PyTorch's.
    weight_hh : Parameter of shape (hidden_size, 4 * hidden_size)
        From the hidden state.
    bias : Parameter of shape (4 * hidden_size,), or None
        Initially 1 for the forget gate, and 0 elsewhere; the sum of PyTorch's two.

    See Also
    --------
    LSTM : Layers of such cells, over whole sequences.
    sknet.ops.lstm : The formula.

    Notes
    -----
    Called with an input of shape (n, input_size) and a pair of hidden and cell state, each of shape
    (n, hidden_size), or None for zeros, it returns the next pair. With a bias of 1 the forget gate is open
    at the start of training (F. Gers et al., 2000; R. Jozefowicz et al., ICML 2015, section 3.1).

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> cell = nn.LSTMCell(3, 4).initialize(0)
    >>> h, c = cell(np.ones((5, 3), "float32"))
    >>> h.shape, c.shape
    ((5, 4), (5, 4))
    """

    gates = biases = 4
    run = staticmethod(lstm)

    def _first_bias(self) -> np.ndarray[Any, Any]:
        return np.repeat(np.array([0, 1, 0, 0], DEFAULT_DTYPE), self.hidden_size)


@described_by(_Cell)
class GRUCell(_GatedCell):
    """One step of a gated recurrent unit.

    Attributes
    ----------
    weight_ih : Parameter of shape (input_size, 3 * hidden_size)
        From the input to reset gate, update gate and candidate; the transpose of PyTorch's.
    weight_hh : Parameter of shape (hidden_size, 3 * hidden_size)
        From the hidden state.
    bias : Parameter of shape (4 * hidden_size,), or None
        Initially 0. The last part is added to the candidate's product with the hidden state, which the reset
        gate multiplies: the last part of PyTorch's ``bias_hh``, of which the others are added to ``bias_ih``.

    See Also
    --------
    GRU : Layers of such cells, over whole sequences.
    sknet.ops.gru : The formula, in PyTorch's form.

    Notes
    -----
    Called with an input of shape (n, input_size) and a hidden state of shape (n, hidden_size), or None for
    zeros, it returns the next hidden state.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> cell = nn.GRUCell(3, 4).initialize(0)
    >>> cell(np.ones((5, 3), "float32")).shape
    (5, 4)
    """

    gates, biases = 3, 4
    run = staticmethod(gru)


class _Recurrent(Module, ABC):
    """Base of the layers: cells in layers and directions, run over sequences.

    Parameters
    ----------
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    num_layers : int, default=1
        Number of layers, each running over the outputs of the one before.
    bias : bool, default=True
        Whether to add a bias.
    dropout : float, default=0.0
        Dropout probability between layers.
    bidirectional : bool, default=False
        Whether to run each layer in both directions, each with its own weights, and join the outputs.
    returns : {"all", "sequence", "last"}, default="all"
        The result of a call: outputs and final state, as in PyTorch; the outputs; or the last hidden state,
        for following layers without an axis of steps.
    device : str or Device, default=None
        Device of the parameters; None is the CPU.
    init : Initializer or str, default=None
        Scheme of the weights from the input, gate by gate; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of the weights from the hidden state, gate by gate; None is that of
        `init.version`, `Orthogonal`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "num_layers": LAYER_COUNT,
        "dropout": [Interval(Real, 0, 1, closed="both")],
        "bidirectional": ["boolean"],
        "returns": [StrOptions({"all", "sequence", "last"})],
    }
    _stored_fields = {
        "_ends": tuple[str, ...],
        "drop": [Named("Dropout"), None],
        "input_size": POSITIVE,
        "hidden_size": POSITIVE,
        "bias": bool,
        "activation": [StrOptions({"tanh", "relu"}), ABSENT],
        "*": Named("_Cell"),
    }

    def _check_stored(self) -> None:
        ends = ("", "_reverse") if self.bidirectional else ("",)
        n_cells = len(self._children) - (self.drop is not None)
        expected = {f"l{i}{end}" for i in range(min(self.num_layers, n_cells)) for end in ends}
        if (
            self._ends != ends
            or n_cells != self.num_layers * len(ends)
            or not expected <= self._children.keys()
        ):
            raise ValueError(f"{type(self).__name__} has not the cells of {self.num_layers} layers")

    def _build(
        self,
        cell: Callable[[int, int], Module],
        input_size: int,
        hidden_size: int,
        num_layers: int,
        dropout: float,
        bidirectional: bool,
        returns: str,
    ) -> None:
        check_arguments(
            self, num_layers=num_layers, dropout=dropout, bidirectional=bidirectional, returns=returns
        )
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.dropout, self.bidirectional, self.returns = dropout, bidirectional, returns
        self._ends = ("", "_reverse") if bidirectional else ("",)
        for i in range(num_layers):
            for end in self._ends:
                features = len(self._ends) * hidden_size if i else input_size
                self.register_module(f"l{i}{end}", cell(features, hidden_size))
        self.drop = Dropout(dropout) if dropout and num_layers > 1 else None

    def forward(self, x: Any, state: Any = None, lengths: Any = None) -> Any:
        x = as_tensor(x)
        if x.ndim != 3 or x.shape[2] != self.input_size:
            raise ShapeError(
                f"{self!r}: expected an input of shape (n, steps, {self.input_size}), got {x.shape}"
            )
        first = self._by_cell(state, x.shape[0])
        last: list[Any] = []
        for i in range(self.num_layers):
            if i and self.drop is not None:
                x = self.drop(x)
            outputs = []
            for end in self._ends:
                cell = getattr(self, f"l{i}{end}")
                output, after = cell.scan(x, first[len(last)], lengths, reverse=bool(end))
                outputs.append(output)
                last.append(after)
            x = outputs[0] if len(outputs) == 1 else concat(outputs, axis=-1)
        return self._returned(x, last)

    def _returned(self, output: Tensor, last: list[Any]) -> Any:
        if self.returns == "sequence":
            return output
        if self.returns == "last":
            hidden = [_parts(state)[0] for state in last[-len(self._ends) :]]
            return hidden[0] if len(hidden) == 1 else concat(hidden, axis=-1)
        states = tuple([stack(parts) for parts in zip(*map(_parts, last), strict=True)])
        return output, states if len(states) > 1 else states[0]

    def _by_cell(self, state: Any, rows: int) -> list[Any]:
        """Cut initial states of shape (cells, n, hidden_size) into those of each cell."""
        count = self.num_layers * len(self._ends)
        if state is None:
            return [None] * count
        parts = [as_tensor(part) for part in _parts(state)]
        if not parts:
            raise ShapeError(f"{self!r}: expected an initial state, or None for zeros, got {state!r}")
        for part in parts:
            if part.shape != (count, rows, self.hidden_size):
                raise ShapeError(
                    f"{self!r}: expected an initial state of shape {(count, rows, self.hidden_size)}, "
                    f"got {part.shape}"
                )
        cells = [tuple([part[i] for part in parts]) for i in range(count)]
        return [cell if len(cell) > 1 else cell[0] for cell in cells]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"


def _parts(state: Any) -> tuple[Any, ...]:
    return tuple(state) if isinstance(state, (tuple, list)) else (state,)


@described_by(_Recurrent)
class RNN(_Recurrent):
    """Layers of a plain recurrent network over sequences.

    Parameters
    ----------
    activation : {"tanh", "relu"}, default="tanh"
        Activation function.
    init : Initializer or str, default=None
        Scheme of the weights from the input; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of the weights from the hidden state; None is that of `init.version`, `Orthogonal`.

    Attributes
    ----------
    l0, l0_reverse, l1, ... : RNNCell
        The cells, with their parameters.

    See Also
    --------
    sknet.ops.rnn : The formula.

    Notes
    -----
    A call takes ``(x, state=None, lengths=None)``:

    - x of shape (n, steps, input_size);
    - the state before the first step, of shape (num_layers * directions, n, hidden_size);
      None is zero;
    - how many steps of each row are real, integers of shape (n,): the rest is ignored, the outputs there
      are zero, and the state is final after a row's last real step, where the reverse direction starts.

    The outputs have shape (n, steps, directions * hidden_size), the final state has the shape of the first.
    ``returns="last"`` gives shape (n, directions * hidden_size): after all steps, in each direction.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> x = np.ones((5, 7, 3), "float32")
    >>> output, h = nn.RNN(3, 4, bidirectional=True).initialize(0)(x)
    >>> output.shape, h.shape
    ((5, 7, 8), (2, 5, 4))
    >>> classifier = nn.Sequential(nn.RNN(3, 4, returns="last"), nn.Linear(4, 2))
    >>> classifier.initialize(0)(x).shape
    (5, 2)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        returns: str = "all",
        activation: str = "tanh",
        *,
        init: Scheme = None,
        recurrent_init: Scheme = None,
        device: "str | Device | None" = None,
    ) -> None:
        cell = partial(
            RNNCell, bias=bias, activation=activation, init=init, recurrent_init=recurrent_init, device=device
        )
        self.bias, self.activation = bias, activation
        self._build(cell, input_size, hidden_size, num_layers, dropout, bidirectional, returns)


class _Gated(_Recurrent):
    kind: ClassVar[type[_Cell]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        returns: str = "all",
        *,
        init: Scheme = None,
        recurrent_init: Scheme = None,
        device: "str | Device | None" = None,
    ) -> None:
        cell = partial(self.kind, bias=bias, init=init, recurrent_init=recurrent_init, device=device)
        self.bias = bias
        self._build(cell, input_size, hidden_size, num_layers, dropout, bidirectional, returns)


@described_by(_Recurrent)
class LSTM(_Gated):
    """Layers of long short-term memory over sequences.

    Parameters
    ----------
    hidden_size : int
        Features of the hidden state, and of the cell state.

    Attributes
    ----------
    l0, l0_reverse, l1, ... : LSTMCell
        The cells, with their parameters.

    See Also
    --------
    sknet.ops.lstm : The formula.

    Notes
    -----
    A call takes ``(x, state=None, lengths=None)``:

    - x of shape (n, steps, input_size);
    - the state before the first step, of shape (num_layers * directions, n, hidden_size), in a pair
      of hidden and cell state; None is zero;
    - how many steps of each row are real, integers of shape (n,): the rest is ignored, the outputs there
      are zero, and the state is final after a row's last real step, where the reverse direction starts.

    The outputs have shape (n, steps, directions * hidden_size), the final state has the shape of the first.
    ``returns="last"`` gives shape (n, directions * hidden_size): after all steps, in each direction.
    The bias of the forget gate is initially 1, see `LSTMCell`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> x = np.ones((5, 7, 3), "float32")
    >>> output, (h, c) = nn.LSTM(3, 4, bidirectional=True).initialize(0)(x)
    >>> output.shape, c.shape
    ((5, 7, 8), (2, 5, 4))
    >>> classifier = nn.Sequential(nn.LSTM(3, 4, returns="last"), nn.Linear(4, 2))
    >>> classifier.initialize(0)(x).shape
    (5, 2)
    """

    kind = LSTMCell


@described_by(_Recurrent)
class GRU(_Gated):
    """Layers of gated recurrent units over sequences.

    Attributes
    ----------
    l0, l0_reverse, l1, ... : GRUCell
        The cells, with their parameters.

    See Also
    --------
    sknet.ops.gru : The formula.

    Notes
    -----
    A call takes ``(x, state=None, lengths=None)``:

    - x of shape (n, steps, input_size);
    - the state before the first step, of shape (num_layers * directions, n, hidden_size);
      None is zero;
    - how many steps of each row are real, integers of shape (n,): the rest is ignored, the outputs there
      are zero, and the state is final after a row's last real step, where the reverse direction starts.

    The outputs have shape (n, steps, directions * hidden_size), the final state has the shape of the first.
    ``returns="last"`` gives shape (n, directions * hidden_size): after all steps, in each direction.
    The reset gate is applied after the product, as in PyTorch, see `GRUCell`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> x = np.ones((5, 7, 3), "float32")
    >>> output, h = nn.GRU(3, 4, bidirectional=True).initialize(0)(x)
    >>> output.shape, h.shape
    ((5, 7, 8), (2, 5, 4))
    >>> classifier = nn.Sequential(nn.GRU(3, 4, returns="last"), nn.Linear(4, 2))
    >>> classifier.initialize(0)(x).shape
    (5, 2)
    """

    kind = GRUCell


@named_errors
def pad_sequences(
    sequences: Sequence[Any], *, maxlen: int | None = None, dtype: DTypeLike | None = None, value: float = 0
) -> tuple[Any, Any]:
    """Return sequences of different lengths as one array, padded at the end, and their lengths.

    Parameters
    ----------
    sequences : sequence of array-like of shape (n_steps,) or (n_steps, n_features), or column of lists
        One sequence per row, also as a column of pandas, polars or Arrow; shapes differ in the first axis
        only.
    maxlen : int or None, default=None
        Number of steps of the result; longer sequences are truncated at the end. None is the length of the
        longest sequence, at least 1.
    dtype : dtype or None, default=None
        Dtype of the result; None is the common dtype of the sequences.
    value : float, default=0
        Padding.

    Returns
    -------
    padded : ndarray of shape (n_sequences, maxlen) or (n_sequences, maxlen, n_features)
        The sequences, each followed by padding.
    lengths : ndarray of shape (n_sequences,), dtype=int64
        Steps of each sequence in `padded`.

    Raises
    ------
    ShapeError
        If a sequence has no axis of steps, or its other axes differ from those of the first one.
    ValueError
        If there are no sequences, `maxlen` is not positive, or the dtype does not hold `value` or a sequence.

    See Also
    --------
    sknet.NetClassifier.fit : Takes sequences as they are, or both, as ``fit(padded, y, lengths=lengths)``.

    Examples
    --------
    >>> from sknet.nn import pad_sequences
    >>> padded, lengths = pad_sequences([[5, 3, 8], [2], [7, 1]])
    >>> padded
    array([[5, 3, 8],
           [2, 0, 0],
           [7, 1, 0]])
    >>> lengths
    array([3, 1, 2])
    """
    rows = sequences_in(sequences)  # of a column of lists
    sequences = sequences if rows is None else rows
    arrays = [_as_array(each, i) for i, each in enumerate(sequences)]
    if not arrays:
        raise ValueError("pad_sequences needs at least one sequence, got none")
    if maxlen is not None and maxlen < 1:
        raise ValueError(f"maxlen must be at least 1, got {shown(maxlen)}")
    filled = [array for array in arrays if array.size] or arrays  # an empty list is a float64 array
    shape = filled[0].shape[1:]
    for i, array in enumerate(arrays):
        if array.dtype.kind not in "biuf" or not array.ndim or (array.size and array.shape[1:] != shape):
            got = f"{array.dtype} of shape {array.shape}" if array.ndim else shown(sequences[i])
            raise ShapeError(
                f"sequences[{i}] must be numbers of shape {('n_steps', *shape)}, got {got}"
                f"{'' if array.ndim else ': one without steps is [], and a missing one is left out'}"
            )
    found = np.dtype(np.result_type(*filled) if dtype is None else dtype)
    steps = max(1, *map(len, arrays)) if maxlen is None else maxlen
    padded = np.full((len(arrays), steps, *shape), _held(value, found, f"value={shown(value)}"))
    lengths = np.array([min(len(array), steps) for array in arrays], np.int64)
    for i, (array, length) in enumerate(zip(arrays, lengths, strict=True)):
        if length:
            padded[i, :length] = _held(array[:length], found, f"sequences[{i}]")
    return padded, lengths


def _as_array(sequence: Any, i: int) -> Any:
    """Return a sequence as an array; steps that are arrays themselves, as Arrow has them, as its rows."""
    try:
        array = np.asarray(sequence)
        return np.asarray(array.tolist()) if array.dtype == object and array.ndim == 1 else array
    except ValueError as error:
        raise ShapeError(
            f"sequences[{i}] has steps of different lengths, and needs as many numbers in each"
        ) from error


def _held(values: Any, dtype: np.dtype[Any], name: str) -> Any:
    """Return numbers in another dtype, if an integer one holds them."""
    with np.errstate(invalid="ignore"):
        found = np.asarray(values).astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(found, values):
        raise ValueError(f"{dtype} does not hold {name}: pass dtype=float")
    return found
