"""Drop-in replacement of scikit-learn's module of this name: port a script by changing one import.

Signatures, defaults and results are those of scikit-learn 1.7 and later; the parameters are translated into
sknet's losses and optimizers. `BernoulliRBM` is scikit-learn's own.
"""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._params import described_by, store_parameters
from sknet._validation import Interval, Options, StrOptions
from sknet.device import namespace
from sknet.estimators._architecture import Perceptron
from sknet.estimators._classifier import BaseClassifier
from sknet.estimators._fit import Recipe, layer_sizes, settings_of
from sknet.estimators._inputs import follows_namespace
from sknet.estimators._mlp import PerceptronLayers
from sknet.estimators._regressor import BaseRegressor
from sknet.losses import LOSSES
from sknet.losses._classification import ClippedLogLoss
from sknet.optim import LBFGS, SGD, Adam, BaseOptimizer
from sknet.optim.schedules import Adaptive, Constant, InverseScaling, Schedule

if TYPE_CHECKING:
    from sklearn.neural_network import BernoulliRBM

__all__ = ["BernoulliRBM", "MLPClassifier", "MLPRegressor"]


def __getattr__(name: str) -> Any:
    if name == "BernoulliRBM":  # imported lazily: it loads half of scikit-learn
        from sklearn.neural_network import BernoulliRBM

        return BernoulliRBM
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__dir__ = __all__.copy


POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="left")

CONSTRAINTS: dict[str, list[Any]] = {
    "hidden_layer_sizes": ["array-like", COUNT],
    "activation": [StrOptions({"identity", "logistic", "tanh", "relu"})],
    "solver": [StrOptions({"lbfgs", "sgd", "adam"})],
    "alpha": [NOT_NEGATIVE],
    "batch_size": [StrOptions({"auto"}), COUNT],
    "learning_rate": [StrOptions({"constant", "invscaling", "adaptive"})],
    "learning_rate_init": [POSITIVE],
    "power_t": [NOT_NEGATIVE],
    "max_iter": [COUNT],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "tol": [NOT_NEGATIVE],
    "verbose": ["verbose"],
    "warm_start": ["boolean"],
    "momentum": [Interval(Real, 0, 1, closed="both")],
    "nesterovs_momentum": ["boolean"],
    "early_stopping": ["boolean"],
    "validation_fraction": [SHARE],
    "beta_1": [SHARE],
    "beta_2": [SHARE],
    "epsilon": [POSITIVE],
    "n_iter_no_change": [COUNT, Options(Real, {np.inf})],
    "max_fun": [COUNT],
}


def _schedule(estimator: Any) -> Schedule:
    rate = estimator.learning_rate_init
    if estimator.learning_rate == "invscaling":
        return InverseScaling(rate, estimator.power_t)
    return Adaptive(rate) if estimator.learning_rate == "adaptive" else Constant(rate)


def _optimizer(estimator: Any) -> BaseOptimizer:
    if estimator.solver == "lbfgs":
        return LBFGS(max_fun=estimator.max_fun)
    if estimator.solver == "sgd":
        return SGD(_schedule(estimator), estimator.momentum, estimator.nesterovs_momentum)
    # The learning-rate modes are for SGD only, as in scikit-learn.
    return Adam(estimator.learning_rate_init, estimator.beta_1, estimator.beta_2, estimator.epsilon)


def _reported(n_iter: int, record: Mapping[str, float]) -> str:
    """Return the lines that scikit-learn prints for an epoch."""
    said = [f"Iteration {n_iter}, loss = {record['loss']:.8f}"]
    if "validation_score" in record:
        said.append(f"Validation score: {record['validation_score']:f}")
    return "\n".join(said)


class _ScikitLearnParameters(PerceptronLayers):
    """Estimators with scikit-learn's parameters.

    Parameters
    ----------
    hidden_layer_sizes : array-like of int, default=(100,)
        Units of each hidden layer.
    activation : {"identity", "logistic", "tanh", "relu"}, default="relu"
        Activation of the hidden layers.
    solver : {"lbfgs", "sgd", "adam"}, default="adam"
        Optimizer.
    alpha : float, default=0.0001
        Strength of the L2 penalty, divided by the number of samples.
    batch_size : int or "auto", default="auto"
        Rows per training step; "auto" is ``min(200, n_samples)``.
    learning_rate : {"constant", "invscaling", "adaptive"}, default="constant"
        Learning rate schedule of "sgd".
    learning_rate_init : float, default=0.001
        Initial learning rate.
    power_t : float, default=0.5
        Exponent of "invscaling".
    max_iter : int, default=200
        Maximum number of epochs; of iterations for "lbfgs".
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    random_state : int, RandomState instance or None, default=None
        Determines initial weights, held-out rows and row order.
    tol : float, default=1e-4
        Least improvement of the loss or score that counts.
    verbose : bool or int, default=False
        Print the loss of every epoch.
    warm_start : bool, default=False
        Let `fit` continue the previous fit, with the optimizer's state.
    momentum : float, default=0.9
        Momentum of "sgd".
    nesterovs_momentum : bool, default=True
        Whether "sgd" uses Nesterov's momentum.
    early_stopping : bool, default=False
        Stop when the score of held-out rows does not improve.
    validation_fraction : float, default=0.1
        Share of rows to hold out.
    beta_1, beta_2 : float, default=0.9, 0.999
        Decay rates of the moments of "adam".
    epsilon : float, default=1e-8
        Numerical stability of "adam".
    n_iter_no_change : int, default=10
        Epochs without improvement before stopping.
    max_fun : int, default=15000
        Maximum number of function evaluations of "lbfgs".
    """

    _targets_may_be_missing = False  # as in scikit-learn

    def _recipe(self) -> Recipe:
        return Recipe(
            architecture=Perceptron(layer_sizes(self.hidden_layer_sizes), self.activation),
            loss=ClippedLogLoss() if self.loss == "log_loss" else LOSSES[self.loss](),
            optimizer=_optimizer(self),
            alpha=self.alpha,
            batch_size=self.batch_size,
            # With early stopping a diverging fit still ends with its best weights.
            settings=settings_of(self, check_finite=not self.early_stopping),
            early_stopping=self.early_stopping,
            validation_fraction=self.validation_fraction,
            random_state=self.random_state,
            other_dtype="float64",
            tol=self.tol,
            n_iter_no_change=self.n_iter_no_change,
            verbose=self.verbose,
            report=_reported,
        )

    _holds_out_every_class: bool = False  # as scikit-learn's

    def _is_full_batch(self) -> bool:
        return self.solver == "lbfgs"


@described_by(_ScikitLearnParameters)
class MLPClassifier(_ScikitLearnParameters, BaseClassifier):
    """scikit-learn's `MLPClassifier`: the same parameters, attributes and results.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet.neural_network import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MLPClassifier((32,), solver="lbfgs", max_iter=500, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _several_columns = False  # as in scikit-learn
    _parameter_constraints = CONSTRAINTS
    loss = "log_loss"  # an attribute, not a parameter, as in scikit-learn

    def __init__(
        self,
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool | int = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
    ) -> None:
        store_parameters(self, locals())

    @follows_namespace
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of `predict_proba`, -inf where the probability underflows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        probabilities = self.predict_proba(X)
        return namespace(probabilities).log(probabilities)


@described_by(_ScikitLearnParameters)
class MLPRegressor(_ScikitLearnParameters, BaseRegressor):
    """scikit-learn's `MLPRegressor`: the same parameters, attributes and results.

    Parameters
    ----------
    loss : {"squared_error", "poisson"}, default="squared_error"
        The loss to minimize, both halved; "poisson" has a log link and needs y >= 0.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet.neural_network import MLPRegressor
    >>> X, y = make_regression(200, 5, random_state=0)
    >>> MLPRegressor(solver="lbfgs", tol=0.1, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = {"loss": [StrOptions({"squared_error", "poisson"})]} | CONSTRAINTS

    def __init__(
        self,
        loss: str = "squared_error",
        hidden_layer_sizes: Any = (100,),
        activation: str = "relu",
        *,
        solver: str = "adam",
        alpha: float = 0.0001,
        batch_size: int | str = "auto",
        learning_rate: str = "constant",
        learning_rate_init: float = 0.001,
        power_t: float = 0.5,
        max_iter: int = 200,
        shuffle: bool = True,
        random_state: Any = None,
        tol: float = 1e-4,
        verbose: bool | int = False,
        warm_start: bool = False,
        momentum: float = 0.9,
        nesterovs_momentum: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-8,
        n_iter_no_change: float = 10,
        max_fun: int = 15000,
    ) -> None:
        store_parameters(self, locals())
