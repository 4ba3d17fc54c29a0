"""MLPClassifier and MLPRegressor: loss and optimizer are hyperparameters."""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np

from sknet import nn
from sknet._params import Interval, Options, StrOptions, resolve
from sknet.callbacks import Callback
from sknet.callbacks.extend import check_callbacks
from sknet.device import device_of
from sknet.engine import active
from sknet.estimators._architecture import Perceptron
from sknet.estimators._base import BaseNet
from sknet.estimators._classifier import BaseClassifier
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._perceptron import PerceptronLayers
from sknet.estimators._recipe import Recipe, layer_sizes, settings_of
from sknet.estimators._regressor import BaseRegressor
from sknet.losses import LOSSES, Loss, check_loss
from sknet.optim import OPTIMIZERS, BaseOptimizer, check_optimizer

__all__ = ["MLPClassifier", "MLPRegressor"]

CONSTRAINTS: dict[str, Any] = {
    "hidden_layer_sizes": ["array-like", Interval(Integral, 1, None, closed="left")],
    "activation": "no_validation",  # the names are better told by the functions that look them up
    "dropout": [Interval(Real, 0, 1, closed="left")],
    "loss": "no_validation",
    "optimizer": "no_validation",
    "alpha": [Interval(Real, 0, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "early_stopping": ["boolean"],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), Options(Real, {np.inf})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose"],
    "callbacks": "no_validation",
    "device": [str],
    "dtype": [StrOptions({"float32", "float64", "auto"})],
    "random_state": ["random_state"],
}


def _recipe(estimator: Any) -> Recipe:
    """Translate the parameters that classifier and regressor share."""
    name = type(estimator).__name__
    # Only checked: a name is resolved where the network is built, and compared when a fit continues.
    resolve(estimator.activation, nn.ACTIVATIONS, nn.Module, parameter="activation", caller=name)
    loss = check_loss(estimator.loss, name)
    if loss.of_probabilities:
        raise ValueError(
            f"{loss!r} expects probabilities, but {name} outputs logits: use 'log_loss', the same from logits"
        )
    return Recipe(
        architecture=Perceptron(
            layer_sizes(estimator.hidden_layer_sizes), estimator.activation, estimator.dropout
        ),
        loss=loss,
        optimizer=check_optimizer(estimator.optimizer, name),
        alpha=estimator.alpha,
        batch_size=estimator.batch_size,
        settings=settings_of(estimator),
        early_stopping=estimator.early_stopping,
        validation_fraction=estimator.validation_fraction,
        class_weight=getattr(estimator, "class_weight", None),
        dtype=estimator.dtype,
        device=estimator.device,
        random_state=estimator.random_state,
        strict=True,
        tol=estimator.tol,
        n_iter_no_change=estimator.n_iter_no_change,
        verbose=estimator.verbose,
        callbacks=check_callbacks(estimator.callbacks, name),
    )


class NamedOptions(BaseNet):
    """Lets a grid reach into a loss or optimizer that is given by its name."""

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values; a loss or optimizer that is a name becomes an object when one of its own
            parameters is set.

        Returns
        -------
        self
            The estimator.
        """
        for option, registry in (("optimizer", OPTIMIZERS), ("loss", LOSSES)):
            value = params.get(option, getattr(self, option))
            if (
                isinstance(value, str)
                and value in registry
                and any(p.startswith(f"{option}__") for p in params)
            ):
                params[option] = registry[value]()
        super().set_params(**params)
        return self

    def _recipe(self) -> Recipe:
        return _recipe(self)

    def _is_full_batch(self) -> bool:
        value = OPTIMIZERS.get(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return not getattr(value, "goes_in_steps", True)


class MLPClassifier(NamedOptions, PerceptronLayers, BaseClassifier):
    """Multi-layer perceptron for classification; loss and optimizer are hyperparameters.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Units of each hidden layer; an empty tuple makes a linear model.
    activation : str or Module, default="relu"
        Of the hidden layers: "identity", "logistic", "tanh", "relu" or another of
        `sknet.nn.ACTIVATIONS` ("gelu", "silu", ...), or a module such as ``nn.LeakyReLU(0.2)``.
    dropout : float in [0, 1), default=0.0
        Share of hidden units that is dropped in each training step.
    loss : str or Loss, default="log_loss"
        What is minimised; see `sknet.losses`.
    optimizer : str or Optimizer, default="adam"
        How: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`, whose parameters a grid reaches as ``optimizer__lr``. The learning rate lives
        there.
    alpha : float, default=1e-4
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows in a step; "auto" is 200, or all if there are fewer. L-BFGS takes all.
    max_iter : int, default=200
        Epochs at most; for L-BFGS iterations.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. Classes that a dict does not
        name weigh 1; "balanced" gives all classes the same total weight.
    early_stopping : bool, default=False
        Hold out rows, stop when their score does not improve, and restore the best epoch's weights.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        By how much the training loss (or the held-out score) must be better to count; for L-BFGS
        the largest component of the gradient at which to stop.
    warm_start : bool, default=False
        Let `fit` continue the fit before: weights, optimizer state, random state and history.
    verbose : bool or int, default=False
        Print the loss of every epoch.
    callbacks : list of Callback or None, default=None
        What happens during a fit; see `sknet.callbacks`. A grid reaches into them by number, as
        ``callbacks__0__patience``.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", or "auto": where X is.
    dtype : {"auto", "float32", "float64"}, default="auto"
        In which precision to compute; "auto" is float64 for float64 X, and float32 for all else.
        float32 is faster, takes half the memory, and serves as well for most data.
    random_state : int, RandomState instance or None, default=None
        Decides initial weights, held-out rows, order of rows and dropout.

    Attributes
    ----------
    model_ : Model
        The owner of parameters, optimizer state and random state.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coefs_, intercepts_ : list of ndarray
        Weight matrices of shape (n_in, n_out) and bias vectors, one a layer.
    history_ : History
        Training loss and score, learning rate and seconds of every epoch, with early stopping also
        validation loss and score.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss: last, of every epoch, smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Held-out accuracy of every epoch and the best, with early stopping.
    callbacks_ : list of Callback
        Clones of the callbacks, with what they learned in the last fit.
    n_iter_, t_ : int
        Epochs of the last fit, and training samples seen in all.
    n_layers_, n_outputs_, out_activation_ : int, int, str
        Layers with the input's, outputs, and what turns them into probabilities.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Of X; names only if X had string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> from sknet.optim import Adam
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((32,), optimizer=Adam(lr=1e-2), batch_size=32, tol=1e-3, random_state=0)
    >>> clf.fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS | {"class_weight": [dict, list, StrOptions({"balanced"}), None]}

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: "str | nn.Module" = "relu",
        *,
        dropout: float = 0.0,
        loss: str | Loss = "log_loss",
        optimizer: str | BaseOptimizer = "adam",
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: bool | int = False,
        callbacks: list[Callback] | None = None,
        device: str = "auto",
        dtype: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.dropout = dropout
        self.loss = loss
        self.optimizer = optimizer
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    @follows_namespace
    def decision_function(self, X: Any) -> Any:
        """Return the network's raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one column, positive where the second is more likely.
        """
        output = self._predicted(X)
        with active(device_of(output)):
            return output[:, 0] if self._targets.task == "binary" else output


class MLPRegressor(NamedOptions, PerceptronLayers, BaseRegressor):
    """Multi-layer perceptron for regression; loss and optimizer are hyperparameters.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Units of each hidden layer; an empty tuple makes a linear model.
    activation : str or Module, default="relu"
        Of the hidden layers: "identity", "logistic", "tanh", "relu" or another of
        `sknet.nn.ACTIVATIONS` ("gelu", "silu", ...), or a module such as ``nn.LeakyReLU(0.2)``.
    dropout : float in [0, 1), default=0.0
        Share of hidden units that is dropped in each training step.
    loss : str or Loss, default="squared_error"
        What is minimised: "squared_error", "absolute_error", "huber", "quantile", "poisson" or an
        object of `sknet.losses`.
    optimizer : str or Optimizer, default="adam"
        How: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`, whose parameters a grid reaches as ``optimizer__lr``. The learning rate lives
        there.
    alpha : float, default=1e-4
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows in a step; "auto" is 200, or all if there are fewer. L-BFGS takes all.
    max_iter : int, default=200
        Epochs at most; for L-BFGS iterations.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    early_stopping : bool, default=False
        Hold out rows, stop when their score does not improve, and restore the best epoch's weights.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        By how much the training loss (or the held-out score) must be better to count; for L-BFGS
        the largest component of the gradient at which to stop.
    warm_start : bool, default=False
        Let `fit` continue the fit before: weights, optimizer state, random state and history.
    verbose : bool or int, default=False
        Print the loss of every epoch.
    callbacks : list of Callback or None, default=None
        What happens during a fit; see `sknet.callbacks`. A grid reaches into them by number, as
        ``callbacks__0__patience``.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", or "auto": where X is.
    dtype : {"auto", "float32", "float64"}, default="auto"
        In which precision to compute; "auto" is float64 for float64 X, and float32 for all else.
        float32 is faster, takes half the memory, and serves as well for most data.
    random_state : int, RandomState instance or None, default=None
        Decides initial weights, held-out rows, order of rows and dropout.

    Attributes
    ----------
    model_ : Model
        The owner of parameters, optimizer state and random state.
    coefs_, intercepts_ : list of ndarray
        Weight matrices of shape (n_in, n_out) and bias vectors, one a layer.
    history_ : History
        Training loss and score, learning rate and seconds of every epoch, with early stopping also
        validation loss and score.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss: last, of every epoch, smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Held-out R2 of every epoch and the best, with early stopping.
    callbacks_ : list of Callback
        Clones of the callbacks, with what they learned in the last fit.
    n_iter_, t_ : int
        Epochs of the last fit, and training samples seen in all.
    n_layers_, n_outputs_, out_activation_ : int, int, str
        Layers with the input's, outputs, and what turns them into predictions.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Of X; names only if X had string names.

    Notes
    -----
    The loss of several outputs is their sum; as in scikit-learn, it is reported as their mean
    (Poisson's as the sum).

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import MLPRegressor
    >>> X, y = make_regression(200, 5, random_state=0)
    >>> MLPRegressor((32,), optimizer="lbfgs", tol=0.1, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: "str | nn.Module" = "relu",
        *,
        dropout: float = 0.0,
        loss: str | Loss = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int = 200,
        shuffle: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: float = 10,
        tol: float = 1e-4,
        warm_start: bool = False,
        verbose: bool | int = False,
        callbacks: list[Callback] | None = None,
        device: str = "auto",
        dtype: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.dropout = dropout
        self.loss = loss
        self.optimizer = optimizer
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose
        self.callbacks = callbacks
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
