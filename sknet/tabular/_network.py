"""The network of a member: a learned factor per column, hidden layers, and a linear skip connection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet import nn
from sknet.core import Tensor

__all__ = ["TabularNet"]


class TabularNet(nn.Module):
    """A perceptron in the neural tangent parametrization, for rows of encoded tables.

    Its first weights are fitted to data: outputs of each layer have unit deviation at first.

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
            layers += [nn.Linear(width, size, parametrization="ntp", init="data"), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = size
        last = nn.Linear(width, n_outputs, parametrization="ntp", init=nn.init.FromData(bias="zeros"))
        self.body = nn.Sequential(*layers, last)
        self.skip = nn.Linear(n_features, n_outputs, bias=False, parametrization="ntp", init="zeros")

    def forward(self, x: Any) -> Tensor:
        if self.scale is not None and self.training and not self.body[0].awaits_data:
            return self._with_scaled_weights(x, self.scale.weight)
        scaled = x if self.scale is None else self.scale(x)
        output: Tensor = self.body(scaled) + self.skip(scaled)
        return output

    def _with_scaled_weights(self, x: Any, scale: Tensor) -> Tensor:
        """Return the same with the factors multiplied into the weights.

        The gradient of the factors is then a sum over those of the weights, and needs no other product of the
        size of the layer: a step is a sixth shorter.
        """
        first, *others = self.body
        factors = scale[:, np.newaxis] * first.in_features**-0.5
        hidden = x @ (first.weight * factors) + first.bias
        for layer in others:
            hidden = layer(hidden)
        output: Tensor = hidden + x @ (self.skip.weight * factors)
        return output
