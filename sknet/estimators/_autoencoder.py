"""Autoencoder: a perceptron that returns its inputs through a narrow layer, the code."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

from sknet import nn, ops
from sknet._fields import POSITIVE, SHARE, Each, Named, Params
from sknet._params import described_by, store_parameters
from sknet._validation import Interval
from sknet.callbacks import Callback
from sknet.core import Tensor
from sknet.estimators._architecture import (
    Activation,
    Architecture,
    activation_layer,
    check_activation,
    width_after,
)
from sknet.estimators._fit import layer_sizes
from sknet.estimators._options import CONSTRAINTS, NamedOptions
from sknet.estimators._transformer import BaseTransformer
from sknet.exceptions import ShapeError
from sknet.losses import Loss
from sknet.nn._parameter import draw_bias
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Schedule


class Coder(nn.Module):
    """An encoder and a decoder; in training some inputs are set to zero."""

    _stored_fields = {
        "kept": SHARE,
        "noise": Named("Dropout"),
        "encoder": Named("Module"),
        "decoder": Named("Module"),
    }

    def __init__(self, encoder: nn.Module, decoder: nn.Module, noise: float) -> None:
        self.kept = 1.0 - noise
        self.noise = nn.Dropout(noise)
        self.encoder = encoder
        self.decoder = decoder

    def forward(self, x: Any) -> Any:
        if self.training and self.kept < 1:
            x = self.noise(x) * self.kept  # what is left is not enlarged
        return self.decoder(self.encoder(x))


class Transposed(nn.Module):
    """A linear layer with the transposed weights of another, and biases of its own."""

    _stored_fields = {
        "weight": Params("inputs", "outputs"),
        "bias": Params("inputs"),
    }

    def __init__(self, layer: nn.Linear, init: nn.init.Initializer) -> None:
        self.weight = layer.weight
        n_in, shape = layer.out_features, (layer.in_features,)
        draw = partial(draw_bias, init, fan_in=n_in, fan_out=shape[0], shape=shape)
        self.bias = nn.Parameter(shape=shape, draw=draw)

    def forward(self, x: Any) -> Tensor:
        return x @ self.weight.T + self.bias


@dataclass(frozen=True)
class SymmetricCoder(Architecture):
    """Linear layers with an activation between them, down to the code and the same way back."""

    hidden_layer_sizes: tuple[int, ...]
    activation: Activation
    noise: float
    tied: bool
    is_foreign = False
    _stored_fields = {
        "hidden_layer_sizes": Each(tuple, POSITIVE),
        "noise": SHARE,
    }

    def build(self, inputs: Any, n_outputs: int) -> nn.Module:
        if self.noise and ops.is_sparse(inputs):
            raise ValueError("noise needs dense X, got a sparse matrix: use X.toarray(), or noise=0.0")
        like = activation_layer(self.activation)
        init = nn.init.GlorotUniform(2.0 if isinstance(like, nn.ACTIVATIONS["logistic"]) else 6.0)
        widths = [int(inputs.shape[1]), *self.hidden_layer_sizes]
        if not isinstance(self.activation, str):
            for width in self.hidden_layer_sizes:
                if (found := width_after(like, width)) != width:
                    raise ShapeError(
                        f"activation {like!r} must keep the width of a layer, and makes {found} of {width}"
                    )
        down = [nn.Linear(a, b, init=init) for a, b in pairwise(widths)]
        if self.tied:
            up: list[nn.Module] = [Transposed(layer, init) for layer in reversed(down)]
        else:
            up = [nn.Linear(a, b, init=init) for a, b in pairwise(widths[::-1])]
        return Coder(_between(down, like), _between(up, like), self.noise)

    def parameters(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def label(self, network: nn.Module) -> str:
        is_name = isinstance(self.activation, str)
        name = self.activation if is_name else type(activation_layer(self.activation)).__name__
        return f"{'-'.join(map(str, self.hidden_layer_sizes))}, {name}"


def _between(layers: "list[Any]", activation: nn.Module) -> nn.Sequential:
    found: list[nn.Module] = [layers[0]]
    for layer in layers[1:]:
        found += [activation.copy(), layer]
    return nn.Sequential(*found)


@described_by(NamedOptions)
class Autoencoder(BaseTransformer):
    """Multi-layer perceptron that reconstructs its inputs through a narrow layer, whose output is the code.

    With ``activation="identity"`` and the squared error, the codes span the same space as the first principal
    components of the standardized inputs; other activations find nonlinear coordinates.

    Parameters
    ----------
    hidden_layer_sizes : int or tuple of int, default=(64, 8)
        Units of the encoder's layers; the last is the size of the code. The decoder has the same sizes in
        reverse order.
    activation : str, Module or callable, default="relu"
        Activation of the hidden layers: a name in `sknet.nn.ACTIVATIONS`, a module or a function of tensors.
        Codes and outputs have no activation.
    noise : float in [0, 1), default=0.0
        Share of the inputs that are set to zero at random in training, as in a denoising autoencoder.
    tied : bool, default=False
        Whether the decoder uses the encoder's weights, transposed.
    loss : str, Loss or callable, default="squared_error"
        The loss to minimize: "squared_error", "absolute_error", "huber", "poisson" or an object of
        `sknet.losses`, or a function ``(y_true, output)`` of tensors that returns one value per row.
    alpha : float, default=0.0
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    scale_inputs : bool, default=True
        Standardize X: subtract the mean of each feature over the training rows, and divide by its standard
        deviation; sparse X is only divided. Sample weights are used, and of a stream the first part. The loss
        compares standardized values where it allows that, as the squared error does; `inverse_transform`
        returns values in the units of X.
    scoring : callable, list, dict or None, default=None
        Metrics of each epoch besides the loss: scorers ``(estimator, X, y)``; in a dict by the names of their
        columns in `history_`. None for no metric.
    tol : float, default=1e-4
        Least improvement of the loss (or of the held-out score) that counts; L-BFGS stops when the largest
        component of the gradient is below it.
    frozen : str, list of str, or None, default=None
        Patterns of names of parameters, such as ``"encoder.*"``, or of modules: these are not trained,
        decayed or penalized, and normalization layers among them use their running statistics without
        updating them.
    random_state : int, RandomState, Generator or None, default=None
        Draws initial weights, held-out rows, the order of rows and noise.

    Attributes
    ----------
    n_outputs_, out_activation_ : int, str
        Number of outputs of the network, and the function that turns them into reconstructions.

    Notes
    -----
    G. E. Hinton, R. R. Salakhutdinov, "Reducing the dimensionality of data with neural networks", Science
    313, 2006; with noise: P. Vincent et al., ICML 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sknet import Autoencoder
    >>> X = load_digits().data / 16
    >>> coder = Autoencoder((32, 8), tol=1e-3, random_state=0).fit(X)
    >>> coder.transform(X).shape
    (1797, 8)
    >>> error = ((coder.inverse_transform(coder.transform(X)) - X) ** 2).mean()
    >>> bool(error < 0.6 * X.var(axis=0).mean())
    True
    """

    _parameter_constraints = CONSTRAINTS | {
        "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
        "activation": "no_validation",  # the names are better told by the function that looks them up
        "noise": [Interval(Real, 0, 1, closed="left")],
        "tied": ["boolean"],
    }

    def __init__(
        self,
        hidden_layer_sizes: Any = (64, 8),
        *,
        activation: Activation = "relu",
        noise: float = 0.0,
        tied: bool = False,
        loss: "str | Loss | Callable[..., Any]" = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float = 0.0,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = True,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        validation_split: Any = None,
        scoring: Any = None,
        monitor: str | None = None,
        refit_on_all: bool = False,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        frozen: "str | list[str] | None" = None,
        warm_start: bool = False,
        verbose: bool | int | str = False,
        callbacks: list[Callback] | None = None,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())

    def _described(self) -> Architecture:
        # Only checked: a name is resolved where the network is built, and compared when a fit continues.
        check_activation(self.activation, type(self).__name__)
        sizes = layer_sizes(self.hidden_layer_sizes)
        if not sizes:
            raise ValueError("hidden_layer_sizes must have at least one size, that of the code, got none")
        return SymmetricCoder(sizes, self.activation, self.noise, self.tied)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            not self.noise
        )  # of which a part is set to zero, and most of a sparse X is zero
        return tags
