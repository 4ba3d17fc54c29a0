"""The network of a member: a learned factor per column, hidden layers, and a linear skip connection."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sknet import nn, ops
from sknet._fields import ABSENT, Named
from sknet.core import Tensor, no_grad

__all__ = ["LevelVectors", "TabularNet"]


class LevelVectors(nn.Module):
    """Learned vectors of levels, instead of one-hot columns."""

    def __init__(self, n_features: int, spans: Sequence[tuple[int, int]]) -> None:
        lengths = [round(1.6 * (stop - start) ** 0.56) for start, stop in spans]
        draw = nn.init.Normal(1.0)
        pairs = zip(spans, lengths, strict=True)
        self.tables = nn.ModuleList(*[nn.Linear(b - a, n, bias=False, init=draw) for (a, b), n in pairs])
        self.spans, self.n_features = tuple(spans), n_features
        self.has_vector = np.zeros(n_features, bool)
        for start, stop in spans:
            self.has_vector[start:stop] = True
        is_vector: list[bool] = []
        at = 0
        for (start, stop), length in zip(spans, lengths, strict=True):
            is_vector += [False] * (start - at) + [True] * length
            at = stop
        self.is_vector = np.array(is_vector + [False] * (n_features - at))

    @property
    def width(self) -> int:
        """Columns of the output, in which a vector stands where the columns of its category stood."""
        return len(self.is_vector)

    def forward(self, x: Any) -> Tensor:
        parts, at = [], 0
        for table, (start, stop) in zip(self.tables, self.spans, strict=True):
            parts += [x[..., at:start], table(x[..., start:stop])]
            at = stop
        return ops.concat([*parts, x[..., at:]], axis=-1)

    def weights(self, weight: Any) -> Tensor:
        """Return the weights of the input, of shape (n_features, n), that `weight` of the output makes."""
        parts, at, place = [], 0, 0
        for table, (start, stop) in zip(self.tables, self.spans, strict=True):
            first = place + start - at
            last = first + table.out_features
            parts += [weight[place:first], table.weight @ weight[first:last]]
            at, place = stop, last
        return ops.concat([*parts, weight[place:]])


class TabularNet(nn.Module):
    """A perceptron in the neural tangent parametrization, for rows of encoded tables."""

    _stored_fields = {
        "vectors": [Named("Module"), None, ABSENT],
        "scale": [Named("Scale"), None],
        "body": Named("Sequential"),
        "skip": Named("Linear"),
    }

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int],
        dropout: float,
        scales: bool = True,
        spans: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.vectors = LevelVectors(n_features, spans) if spans else None
        width = n_inputs = n_features if self.vectors is None else self.vectors.width
        self.scale = nn.Scale(width) if scales else None
        layers: list[nn.Module] = []
        for size in hidden_layer_sizes:
            layers += [nn.Linear(width, size, parametrization="ntp", init="data"), nn.ReLU()]
            if dropout:
                layers.append(nn.Dropout(dropout))
            width = size
        last = nn.Linear(width, n_outputs, parametrization="ntp", init=nn.init.FromData(bias="zeros"))
        self.body = nn.Sequential(*layers, last)
        self.skip = nn.Linear(n_inputs, n_outputs, bias=False, parametrization="ntp", init="zeros")

    @property
    def _vectors(self) -> LevelVectors | None:
        return vars(self).get("vectors")  # none in those of earlier versions

    def forward(self, x: Any) -> Tensor:
        if self.scale is not None and self.training and not self.body[0].awaits_data:
            return self._with_scaled_weights(x, self.scale.weight)
        h = x if self._vectors is None else self._vectors(x)
        scaled = h if self.scale is None else self.scale(h)
        output: Tensor = self.body(scaled) + self.skip(scaled)
        return output

    def _with_scaled_weights(self, x: Any, scale: Tensor) -> Tensor:
        """Return the same with the factors, and vectors of levels, multiplied into the weights."""
        first, *others = self.body
        factors = scale[:, np.newaxis] * first.in_features**-0.5
        weight, of_skip = first.weight * factors, self.skip.weight * factors
        if self._vectors is not None:
            weight, of_skip = self._vectors.weights(weight), self._vectors.weights(of_skip)
        hidden = x @ weight + first.bias
        for layer in others:
            hidden = layer(hidden)
        output: Tensor = hidden + x @ of_skip
        return output

    def without_vectors(self) -> "TabularNet":
        """Return a network that predicts the same from one-hot columns."""
        if self._vectors is None:
            return self
        plain = self.copy().to(device="cpu")
        vectors, of_columns = plain._vectors, plain.scale
        assert vectors is not None
        assert of_columns is not None
        scale = of_columns.weight.numpy()
        plain.vectors, plain.scale = None, nn.Scale(vectors.n_features)
        factors = np.ones(vectors.n_features, scale.dtype)
        factors[~vectors.has_vector] = scale[~vectors.is_vector]
        plain.scale.weight.data = factors
        scale = np.where(vectors.is_vector, scale, 1.0).astype(scale.dtype)
        first, *others = plain.body
        plain.body = nn.Sequential(_widened(first, vectors, scale), *others)
        plain.skip = _widened(plain.skip, vectors, scale)
        return plain


def _widened(layer: nn.Linear, vectors: LevelVectors, scale: np.ndarray) -> nn.Linear:
    """Return a layer that has the outputs for one-hot columns which this one has for scaled vectors."""
    found = nn.Linear(
        vectors.n_features, layer.out_features, bias=layer.bias is not None, parametrization="ntp"
    )
    factors = scale[:, np.newaxis] * (found.in_features / layer.in_features) ** 0.5
    with no_grad():
        found.weight.data = vectors.weights(layer.weight * factors.astype(scale.dtype)).numpy()
    if layer.bias is not None:
        found.bias.data = layer.bias.data
    return found
