"""The network of a member: a learned factor per column, hidden layers, and a linear skip connection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet import nn
from sknet.core import Tensor

__all__ = ["TabularNet", "initialize"]

# Rows used to scale initial outputs to unit deviation.
MOST_ROWS = 2_000
# Rows whose weighted mean the initial boundary of a hidden unit passes through.
POINTS = 5


class TabularNet(nn.Module):
    """A perceptron in the neural tangent parametrization, for rows of encoded tables.

    Parameters
    ----------
    n_features, n_outputs : int
        Columns of the input, and of the output.
    hidden_layer_sizes : sequence of int
        Units of each hidden layer, with ReLU.
    dropout : float
        Share of hidden units to drop in training.
    scales : bool
        Whether each column has a learned factor; must be false for sparse inputs.
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int],
        dropout: float,
        scales: bool = True,
    ) -> None:
        self.scale = nn.Scale(n_features) if scales else None
        layers: list[nn.Module] = []
        width = n_features
        for size in hidden_layer_sizes:
            layers += [nn.Linear(width, size, parametrization="ntp"), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = size
        self.body = nn.Sequential(*layers, nn.Linear(width, n_outputs, parametrization="ntp"))
        self.skip = nn.Linear(n_features, n_outputs, bias=False, parametrization="ntp", init="zeros")

    def forward(self, x: Any) -> Tensor:
        scaled = x if self.scale is None else self.scale(x)
        output: Tensor = self.body(scaled) + self.skip(scaled)
        return output


def initialize(network: TabularNet, X: Any, random_state: np.random.RandomState, dtype: Any) -> None:
    """Draw weights, and scale them so that the outputs of each layer have unit deviation on some rows.

    Parameters
    ----------
    network : TabularNet
        The network to initialise.
    X : array or CSR array of shape (n_samples, n_features)
        Training rows.
    random_state : RandomState
        Draws rows and weights.
    dtype : dtype
        Dtype of the weights.
    """
    network.to(dtype=dtype)
    n_rows = X.shape[0]
    rows = slice(None) if n_rows <= MOST_ROWS else random_state.choice(n_rows, MOST_ROWS, replace=False)
    inputs: Any = X[rows]
    layers = [layer for layer in network.body if isinstance(layer, nn.Linear)]
    for layer in layers:
        weight = random_state.normal(size=(layer.in_features, layer.out_features))
        outputs = (inputs @ weight) / np.sqrt(layer.in_features)
        deviations = outputs.std(axis=0)
        deviations[deviations == 0] = 1.0
        layer.weight.data = (weight / deviations).astype(dtype)
        outputs /= deviations
        bias = _boundaries(outputs, random_state) if layer is not layers[-1] else np.zeros(layer.out_features)
        layer.bias.data = bias.astype(dtype)
        inputs = np.maximum(outputs + bias, 0.0)
    network.skip.weight.data = np.zeros(network.skip.weight.shape, dtype)
    if network.scale is not None:
        network.scale.weight.data = np.ones(network.scale.weight.shape, dtype)


def _boundaries(outputs: np.ndarray, random_state: np.random.RandomState) -> np.ndarray:
    """Return biases with which each unit's boundary passes through the convex hull of a few random rows."""
    n_rows, n_units = outputs.shape
    rows = random_state.randint(n_rows, size=(POINTS, n_units))
    shares = random_state.exponential(size=(POINTS, n_units))
    shares /= shares.sum(axis=0)
    bias: np.ndarray = -(shares * outputs[rows, np.arange(n_units)]).sum(axis=0)
    return bias
