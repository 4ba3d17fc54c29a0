"""An estimator's parameters translated into the engine's terms."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from sknet import nn
from sknet.engine import Settings
from sknet.exceptions import DeviceError, ShapeError
from sknet.losses import Loss
from sknet.optim import BaseOptimizer

__all__ = ["Recipe", "layer_sizes", "linear_layers", "perceptron", "settings_of"]


@dataclass(frozen=True)
class Recipe:
    """A network and its training, independent of the names of an estimator's parameters.

    Attributes
    ----------
    hidden_layer_sizes : tuple of int
        Units of each hidden layer.
    activation : str or Module
        Of the hidden layers.
    loss : Loss
        What is minimised.
    optimizer : BaseOptimizer
        By what.
    alpha : float
        Strength of the L2 penalty.
    batch_size : int or str
        Rows in a step.
    settings : Settings
        Of the training loop.
    early_stopping : bool
        Whether to hold rows out, and to stop when their score does not improve.
    validation_fraction : float
        Share of the rows to hold out.
    random_state : int, RandomState or None
        Decides initial weights, held-out rows and order of rows.
    dropout : float
        Share of hidden units to drop in training.
    class_weight : dict, list of dict, str or None
        How much each class counts.
    dtype, other_dtype : str
        The precision of the computation; "auto" is that of X, and `other_dtype` if X has no floats.
    device : str
        The device of the computation; "auto" is that of X.
    strict : bool
        Whether contradictory settings are errors. scikit-learn's networks allow them: a single
        class can be fitted, L-BFGS ignores early stopping, and training continues after a non-finite
        loss if the weights of the best epoch will be restored.
    """

    hidden_layer_sizes: tuple[int, ...]
    activation: str | nn.Module
    loss: Loss
    optimizer: BaseOptimizer
    alpha: float
    batch_size: int | str
    settings: Settings
    early_stopping: bool
    validation_fraction: float
    random_state: Any
    dropout: float = 0.0
    class_weight: Any = None
    dtype: str = "auto"
    other_dtype: str = "float32"
    device: str = "auto"
    strict: bool = False

    def accepted_dtypes(self) -> list[type]:
        """Return the dtypes of X that are kept; all others are converted to the first."""
        first = self.other_dtype if self.dtype == "auto" else self.dtype
        return [np.float32, np.float64] if first == "float32" else [np.float64, np.float32]

    def network_parameters(self) -> dict[str, Any]:
        """Return the parameters that define the network, which a continued fit cannot change."""
        names = ("hidden_layer_sizes", "activation", "dropout", "dtype", "device")
        return {name: getattr(self, name) for name in names}

    def network(self, n_features: int, n_outputs: int) -> nn.Sequential:
        """Return a multi-layer perceptron whose weights have not been drawn yet.

        Parameters
        ----------
        n_features, n_outputs : int
            The numbers of inputs and outputs.

        Returns
        -------
        Sequential
            Linear layers with the activation, and dropout after it, between them.
        """
        return perceptron(n_features, self.hidden_layer_sizes, n_outputs, self.activation, self.dropout)


def perceptron(
    n_features: int,
    hidden_layer_sizes: tuple[int, ...],
    n_outputs: int,
    activation: str | nn.Module,
    dropout: float = 0.0,
) -> nn.Sequential:
    """Return a multi-layer perceptron whose weights have not been drawn yet.

    Parameters
    ----------
    n_features, n_outputs : int
        Inputs and outputs.
    hidden_layer_sizes : tuple of int
        Units of each hidden layer.
    activation : str or Module
        Of the hidden layers; each gets a copy of a module. One that changes the width, such as
        ``nn.GLU()``, decides how many inputs the next layer has.
    dropout : float, default=0.0
        Share of hidden units to drop in training.

    Returns
    -------
    Sequential
        Linear layers with the activation, and dropout after it, between them.

    Raises
    ------
    ShapeError
        If the activation does not fit a hidden layer, or does not return a row for each row.
    """
    # scikit-learn's scheme (Glorot & Bengio, 2010), with a smaller bound for the logistic function.
    like = nn.ACTIVATIONS[activation]() if isinstance(activation, str) else activation
    init = nn.init.GlorotUniform(2.0 if isinstance(like, nn.ACTIVATIONS["logistic"]) else 6.0)
    layers: list[nn.Module] = []
    width = n_features
    for size in hidden_layer_sizes:
        layers += [nn.Linear(width, size, init=init), like.copy()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        width = size if isinstance(activation, str) else _width_after(activation, size)
    return nn.Sequential(*layers, nn.Linear(width, n_outputs, init=init))


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


def linear_layers(network: Mapping[str, Any]) -> list[str]:
    """Return the paths of the linear layers of a `perceptron`; activations may have some inside.

    Parameters
    ----------
    network : mapping
        What it was built from.

    Returns
    -------
    list of str
        From the inputs to the outputs.
    """
    apart = 3 if network["dropout"] else 2
    return [str(number * apart) for number in range(len(network["hidden_layer_sizes"]) + 1)]


def settings_of(estimator: Any, **more: Any) -> Settings:
    """Return the loop's settings from the parameters that all perceptrons share.

    Parameters
    ----------
    estimator : estimator
        The estimator with the parameters.
    **more : dict
        Settings that are not parameters.

    Returns
    -------
    Settings
        For `sknet.engine.train`.
    """
    return Settings(
        max_iter=estimator.max_iter,
        shuffle=estimator.shuffle,
        tol=estimator.tol,
        n_iter_no_change=estimator.n_iter_no_change,
        verbose=estimator.verbose,
        seeded=estimator.random_state is not None,
        **more,
    )


def layer_sizes(hidden_layer_sizes: Any) -> tuple[int, ...]:
    """Return the sizes as a tuple.

    Parameters
    ----------
    hidden_layer_sizes : int or iterable of int
        Units of each hidden layer.

    Returns
    -------
    tuple of int
        The same.

    Raises
    ------
    ValueError
        If a size is not a positive integer.
    """
    sizes = list(hidden_layer_sizes) if isinstance(hidden_layer_sizes, Iterable) else [hidden_layer_sizes]
    if not all(isinstance(size, Integral) and int(size) > 0 for size in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be > 0, got {sizes}: expected positive integers, one a hidden layer."
        )
    return tuple(int(size) for size in sizes)
