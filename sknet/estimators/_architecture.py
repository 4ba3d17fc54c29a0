"""What a network is built from: the part of an estimator's parameters that a continued fit cannot change."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sknet import nn
from sknet._fields import POSITIVE, SHARE, Each
from sknet.exceptions import DeviceError, ShapeError

__all__ = ["Architecture", "Perceptron"]


class Architecture(ABC):
    """Builds the network of an estimator when the data are known."""

    is_foreign = True

    @property
    def forward(self) -> "Mapping[str, bool] | None":
        """The arguments of the network's `forward`, as far as they are known: whether each is required."""
        return None

    @abstractmethod
    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        """Return the network; weights that have no values yet are drawn by its owner."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the hyperparameters that decide the network, by name."""

    @abstractmethod
    def label(self, network: nn.Module) -> str:
        """Return what a network that was built is called, in a few words."""


@dataclass(frozen=True)
class Perceptron(Architecture):
    """A multi-layer perceptron: linear layers with an activation, and dropout after it, between them."""

    hidden_layer_sizes: tuple[int, ...]
    activation: str | nn.Module
    dropout: float = 0.0
    is_foreign = False
    _stored_fields = {
        "hidden_layer_sizes": Each(tuple, POSITIVE),
        "dropout": SHARE,
    }

    def build(self, inputs: Any, n_outputs: int) -> nn.Sequential:
        """Return the layers for these inputs."""
        activation = self.activation
        # scikit-learn's scheme (Glorot & Bengio, 2010), with a smaller bound for the logistic function.
        like = nn.ACTIVATIONS[activation]() if isinstance(activation, str) else activation
        init = nn.init.GlorotUniform(2.0 if isinstance(like, nn.ACTIVATIONS["logistic"]) else 6.0)
        layers: list[nn.Module] = []
        width = int(inputs.shape[1])
        for size in self.hidden_layer_sizes:
            layers += [nn.Linear(width, size, init=init), like.copy()]
            if self.dropout:
                layers.append(nn.Dropout(self.dropout))
            width = size if isinstance(activation, str) else _width_after(activation, size)
        return nn.Sequential(*layers, nn.Linear(width, n_outputs, init=init))

    def parameters(self) -> dict[str, Any]:
        return vars(self).copy()

    def label(self, network: nn.Module) -> str:
        known = dict(network.named_parameters())
        shapes = [known[f"{path}.weight"].shape for path in self.linear_layers]
        sizes = "-".join(str(size) for size in (shapes[0][0], *(shape[1] for shape in shapes)))
        name = self.activation if isinstance(self.activation, str) else repr(self.activation)
        name = f"{type(self.activation).__name__}(...)" if "\n" in name else name
        return f"{sizes}, {name}"

    @property
    def linear_layers(self) -> list[str]:
        """Paths of the linear layers, from the inputs to the outputs; activations may have some inside."""
        apart = 3 if self.dropout else 2
        return [str(number * apart) for number in range(len(self.hidden_layer_sizes) + 1)]


def _width_after(activation: nn.Module, width: int) -> int:
    """Return how many columns an activation makes of the outputs of a hidden layer."""
    n_rows = 2
    try:
        shape = nn.summary(activation, (n_rows, width)).rows[0].output_shape
    except DeviceError:  # it depends on values, and is assumed to keep the width
        return width
    except ShapeError as error:
        raise ShapeError(
            f"activation {activation!r} does not fit a hidden layer of {width} units: {error}"
        ) from None
    if not (isinstance(shape, tuple) and len(shape) == 2 and shape[0] == n_rows):
        raise ShapeError(
            f"activation {activation!r} must return an array of shape (n_samples, n_units), and returns "
            f"shape {shape} for inputs of shape {(n_rows, width)}"
        )
    return int(shape[1])
