"""What perceptrons have and other networks have not: an array of weights and one of biases for each layer."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from sknet.device import to_host
from sknet.estimators._architecture import Perceptron
from sknet.estimators._base import BaseNet
from sknet.estimators._fitting import Fit
from sknet.estimators._joined import Members
from sknet.estimators._layer_arrays import LayerArrays, read_only, write_arrays

__all__ = ["PerceptronLayers"]


class PerceptronLayers(BaseNet):
    """Shows the linear layers of an estimator whose network is a `Perceptron`."""

    _architecture: Perceptron

    def _take(self, fit: Fit) -> None:
        super()._take(fit)
        self.n_layers_ = len(self._architecture.linear_layers) + 1

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        """Return the shape of a layer's output; for the last hidden one that of the weights behind it."""
        if isinstance(self.model_.module, Members):
            return super()._layer_shape(layer)
        hidden, last = self._architecture.linear_layers[:-1], self._architecture.linear_layers[-1]
        if layer == -2 and hidden:
            return (int(self.model_.evaluation_parameters[f"{last}.weight"].shape[0]),)
        return super()._layer_shape(layer)

    def _output_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all layers, which follow from those of the weights."""
        if isinstance(self.model_.module, Members):
            return super()._output_shapes()
        parameters, shapes = self.model_.evaluation_parameters, {}
        linear = self._architecture.linear_layers
        for path, after in pairwise(linear):
            shapes[path] = (int(parameters[f"{path}.weight"].shape[1]),)
            width = (int(parameters[f"{after}.weight"].shape[0]),)
            shapes |= {str(place): width for place in range(int(path) + 1, int(after))}
        return {**shapes, linear[-1]: (int(parameters[f"{linear[-1]}.weight"].shape[1]),)}

    @property
    def coefs_(self) -> list[Any]:
        """Weight matrices of shape (n_in, n_out), one a layer; the list or an item of it can be set."""
        return self._of_linear_layers("weight", "coefs_")

    @coefs_.setter
    def coefs_(self, values: Iterable[Any]) -> None:
        self._of_linear_layers("weight", "coefs_")[:] = values

    @property
    def intercepts_(self) -> list[Any]:
        """Bias vectors of shape (n_out,), one a layer; the list or an item of it can be set."""
        return self._of_linear_layers("bias", "intercepts_")

    @intercepts_.setter
    def intercepts_(self, values: Iterable[Any]) -> None:
        self._of_linear_layers("bias", "intercepts_")[:] = values

    def _of_linear_layers(self, parameter: str, name: str) -> LayerArrays:
        if "model_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        if isinstance(self.model_.module, Members):
            n_members = len(self.model_.module)
            raise AttributeError(
                f"the {n_members} members of this {type(self).__name__} have {name} of their own: see "
                "model_.module[0], model_.module[1], ..."
            )
        model, arrays = self.model_, self.model_.evaluation_parameters
        paths = [f"{path}.{parameter}" for path in self._architecture.linear_layers]
        found = [to_host(arrays[path]) for path in paths]
        if model.optimizer.averaging:  # what is written into averages would be lost
            found = [read_only(array) for array in found]
        return LayerArrays(found, lambda values: write_arrays(model, paths, values, name), name)
