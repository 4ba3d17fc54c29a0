"""The cells of recurrent layers: parameters, and one step."""

from abc import ABC, abstractmethod
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.random import RandomState

from sknet._fields import ABSENT, Named
from sknet._params import Interval, StrOptions
from sknet.core import as_tensor
from sknet.device import Device
from sknet.exceptions import ShapeError
from sknet.nn._module import Module
from sknet.nn._parameter import DEFAULT_DTYPE, Parameter
from sknet.nn._scope import Registered
from sknet.nn.init import Initializer, scheme
from sknet.nn.layers._arguments import check_arguments
from sknet.ops import expand_dims, gru, lstm, rnn

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

LENGTH = [Interval(Integral, 1, None, closed="left")]
Scheme = Initializer | str | None


class _Cell(Module, ABC):
    """What the cells share: their parameters, and one step as a sequence of one."""

    weight_ih: Any = Registered()
    weight_hh: Any = Registered()
    bias: Any = Registered()

    gates: ClassVar[int]
    biases: ClassVar[int]

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

    @abstractmethod
    def scan(self, x: Any, state: Any = None, lengths: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        """Run the cell over sequences, as the function of `sknet.ops` does.

        Parameters
        ----------
        x : Tensor or array of shape (n, steps, input_size)
            The sequences.
        state : Tensor or array of shape (n, hidden_size), default=None
            What comes before the first step; two of them for an LSTM.
        lengths : Tensor or array of shape (n,), dtype=integer, default=None
            How many steps of each row are real.
        reverse : bool, default=False
            Run from the last step to the first.

        Returns
        -------
        output : Tensor of shape (n, steps, hidden_size)
            The hidden state after every step.
        state : Tensor of shape (n, hidden_size), or a tuple of two
            The state after all steps.
        """

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


class RNNCell(_Cell):
    """One step of a plain recurrent network (J. L. Elman, 1990).

    Parameters
    ----------
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    bias : bool, default=True
        Whether to add a bias.
    activation : {"tanh", "relu"}, default="tanh"
        Activation function.
    init : Initializer or str, default=None
        Scheme of `weight_ih`; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of `weight_hh`; None is that of `init.version`, `Orthogonal`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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
    Called with an input of shape (n, input_size) and a hidden state of shape (n, hidden_size), or none for
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

    def scan(self, x: Any, state: Any = None, lengths: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        return rnn(
            x, self.weight_ih, self.weight_hh, self.bias, state,
            activation=self.activation, lengths=lengths, reverse=reverse,
        )  # fmt: skip


class LSTMCell(_Cell):
    """One step of a long short-term memory.

    Parameters
    ----------
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    bias : bool, default=True
        Whether to add a bias.
    init : Initializer or str, default=None
        Scheme of `weight_ih`, gate by gate; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of `weight_hh`, gate by gate; None is that of `init.version`, `Orthogonal`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

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
    (n, hidden_size), or none for zeros, it returns the next pair. With a bias of 1 the forget gate is open
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

    def _first_bias(self) -> np.ndarray[Any, Any]:
        return np.repeat(np.array([0, 1, 0, 0], DEFAULT_DTYPE), self.hidden_size)

    def scan(self, x: Any, state: Any = None, lengths: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        return lstm(
            x, self.weight_ih, self.weight_hh, self.bias, state, lengths=lengths, reverse=reverse
        )  # fmt: skip


class GRUCell(_Cell):
    """One step of a gated recurrent unit.

    Parameters
    ----------
    input_size : int
        Features of the input.
    hidden_size : int
        Features of the hidden state.
    bias : bool, default=True
        Whether to add a bias.
    init : Initializer or str, default=None
        Scheme of `weight_ih`, gate by gate; None is that of `init.version`, `GlorotUniform`.
    recurrent_init : Initializer or str, default=None
        Scheme of `weight_hh`, gate by gate; None is that of `init.version`, `Orthogonal`.
    device : str or Device, default=None
        Where the parameters live; None is the CPU.

    Attributes
    ----------
    weight_ih : Parameter of shape (input_size, 3 * hidden_size)
        From the input to reset gate, update gate and candidate; the transpose of PyTorch's.
    weight_hh : Parameter of shape (hidden_size, 3 * hidden_size)
        From the hidden state.
    bias : Parameter of shape (4 * hidden_size,), or None
        Initially 0. The last part is added to the candidate's product with the hidden state, which the
        reset gate multiplies: the last part of PyTorch's ``bias_hh``, of which the others are added to
        ``bias_ih``.

    See Also
    --------
    GRU : Layers of such cells, over whole sequences.
    sknet.ops.gru : The formula, in PyTorch's form.

    Notes
    -----
    Called with an input of shape (n, input_size) and a hidden state of shape (n, hidden_size), or none for
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

    def scan(self, x: Any, state: Any = None, lengths: Any = None, reverse: bool = False) -> tuple[Any, Any]:
        return gru(
            x, self.weight_ih, self.weight_hh, self.bias, state, lengths=lengths, reverse=reverse
        )  # fmt: skip
