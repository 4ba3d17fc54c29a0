"""NetClassifier, NetRegressor and NetTransformer: estimators of custom networks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from sknet import nn
from sknet._params import described_by, store_parameters
from sknet._validation import StrOptions
from sknet.callbacks import Callback
from sknet.estimators._architecture import Architecture, architecture_of, named_network
from sknet.estimators._members import MEMBERS
from sknet.estimators._options import (
    CALIBRATE,
    CLASS_WEIGHT,
    CONFORMAL,
    CONSTRAINTS,
    ENCODER,
    PLANNED,
    SAMPLER,
    SCALE_TARGET,
    NamedOptions,
    WithEncoder,
)
from sknet.estimators._sequences import SequenceClassifier, SequenceRegressor, SequenceTransformer
from sknet.losses import Loss
from sknet.optim import BaseOptimizer
from sknet.optim.schedules import Schedule

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

# The module is told better by who makes a network of it.
MODULE: dict[str, Any] = {"module": "no_validation"} | ENCODER


class NetOptions(WithEncoder, NamedOptions):
    """Lets a grid reach into the constructor of a module."""

    _targets_of_any_rank = True
    module: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``module__hidden`` and ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values. A class becomes an ``nn.ModuleFactory`` if an argument of its constructor is set.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of this name, or it belongs to a module that is built already.
        """
        module = params.get("module", self.module)
        inside = [name for name in params if name.startswith("module__")]
        if inside and isinstance(module, nn.Module):
            raise ValueError(
                f"{inside[0]!r} cannot be set: the module is a {type(module).__name__} that is built "
                f"already. Give its class, module=nn.ModuleFactory({type(module).__name__}, ...)"
            )
        if inside and isinstance(module, str):
            params["module"] = named_network(module, type(self).__name__)
        elif inside and callable(module) and not isinstance(module, nn.ModuleFactory):
            params["module"] = nn.ModuleFactory(module)
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        says = getattr(self.module, "allow_nan", False)
        tags.input_tags.allow_nan = tags.input_tags.allow_nan or says is True or self._allows_nan
        if isinstance(self.module, nn.Module):  # its outputs are those of one kind of targets
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_class = tags.classifier_tags.multi_label = False
            tags.target_tags.multi_output = False
        return tags

    def _described(self) -> Architecture:
        return architecture_of(self.module, type(self).__name__)


@described_by(NamedOptions)
class NetClassifier(NetOptions, SequenceClassifier):
    """Classification by any network; module, loss and optimizer are hyperparameters.

    Parameters
    ----------
    max_iter : int or "auto", default="auto"
        Maximum number of epochs. "auto" is 200, except for "conv" and "resnet" with the default `optimizer`
        and `lr`. Their number of epochs is 600 divided by the cube root of the number of rows, between 8 and
        100, and limited to about five minutes of two cores (15 epochs of 60,000 images of 28 x 28, or 8 of
        "resnet"). Over these epochs the learning rate rises to 0.005 and falls to nearly 0, and
        `n_iter_no_change` has no effect.

    Attributes
    ----------
    encoder_ : TableEncoder
        The fitted encoder, with `encoder`.
    classes_ : ndarray of shape (n_classes,), or a list of those
        The sorted labels; for several columns of labels a list of them.
    temperature_ : float or ndarray of shape (n_columns,)
        With `calibrate`: divisor of the outputs, above 1 if they were overconfident.
    histories_ : list of History
        Histories of the members, if there are several; `history_` and attributes derived from it have their
        means.
    n_outputs_, out_activation_ : int, str
        Number of outputs of the network, and the function that turns them into probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import NetClassifier, nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_features, n_outputs, hidden=8):
    ...         self.body = nn.Sequential(nn.Linear(n_features, hidden), nn.LayerNorm(hidden), nn.ReLU())
    ...         self.head = nn.Linear(hidden, n_outputs)
    ...
    ...     def forward(self, x):
    ...         return self.head(self.body(x))
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = NetClassifier(nn.ModuleFactory(Net, hidden=32), batch_size=32, tol=1e-3, random_state=0)
    >>> clf.fit(X, y).score(X, y) > 0.95
    True
    >>> clf.set_params(module__hidden=16).get_params()["module__hidden"]
    16
    """

    _parameter_constraints = CONSTRAINTS | PLANNED | SAMPLER | MODULE | CLASS_WEIGHT | CALIBRATE | MEMBERS

    def __init__(
        self,
        module: Any,
        *,
        encoder: "str | TableEncoder | None" = None,
        loss: "str | Loss | Callable[..., Any]" = "log_loss",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int | str = "auto",
        shuffle: bool = True,
        scale_inputs: bool = True,
        sampler: Any = None,
        class_weight: Any = None,
        calibrate: str | None = None,
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
        n_members: int = 1,
        bootstrap: bool = False,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())


@described_by(NamedOptions)
class NetRegressor(NetOptions, SequenceRegressor):
    """Regression by any network; module, loss and optimizer are hyperparameters.

    Parameters
    ----------
    loss : str, Loss or callable, default="squared_error"
        The loss to minimize: "squared_error", "absolute_error", "huber", "quantile", "poisson" or an object
        of `sknet.losses`, or a function ``(y_true, output)`` of tensors that returns one value per row.
    max_iter : int or "auto", default="auto"
        Maximum number of epochs. "auto" is 200, except for "conv" and "resnet" with the default `optimizer`
        and `lr`. Their number of epochs is 600 divided by the cube root of the number of rows, between 8 and
        100, and limited to about five minutes of two cores (15 epochs of 60,000 images of 28 x 28, or 8 of
        "resnet"). Over these epochs the learning rate rises to 0.005 and falls to nearly 0, and
        `n_iter_no_change` has no effect.
    scoring : str, callable, list, dict or None, default=None
        Metrics of each epoch besides the loss: names of scikit-learn's scorers, or scorers ``(estimator, X,
        y)``; in a dict by the names of their columns in `history_`. None is R2; "loss" is no metric but the
        loss.
    monitor : str or None, default=None
        The metric that decides when to stop: "loss", or the name of a scorer. None is the only scorer in
        `scoring`; if none is given there, R2 for the squared error, and the loss for all other losses.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        predictions are averaged. An ensemble is frozen, saved and exported like one network.

    Attributes
    ----------
    encoder_ : TableEncoder
        The fitted encoder, with `encoder`.
    histories_ : list of History
        Histories of the members, if there are several; `history_` and attributes derived from it have their
        means.
    n_outputs_, out_activation_ : int, str
        Number of outputs of the network, and the function that turns them into predictions.

    Notes
    -----
    The loss of several outputs is their sum; as in scikit-learn, it is reported as their mean
    (Poisson's as the sum).

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import NetRegressor, nn
    >>> X, y = make_regression(200, 5, random_state=0)
    >>> network = nn.Sequential(nn.LazyLinear(32), nn.ReLU(), nn.LazyLinear(1))
    >>> NetRegressor(network, optimizer="lbfgs", tol=1e-2, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS | PLANNED | SAMPLER | SCALE_TARGET | CONFORMAL | MODULE | MEMBERS

    def __init__(
        self,
        module: Any,
        *,
        encoder: "str | TableEncoder | None" = None,
        loss: "str | Loss | Callable[..., Any]" = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float = 1e-4,
        batch_size: int | str = "auto",
        max_iter: int | str = "auto",
        shuffle: bool = True,
        scale_inputs: bool = True,
        sampler: Any = None,
        scale_target: bool | str = "auto",
        calibrate: str | None = None,
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
        n_members: int = 1,
        bootstrap: bool = False,
        device: str | None = "auto",
        dtype: Any = "auto",
        random_state: Any = None,
    ) -> None:
        store_parameters(self, locals())


@described_by(NamedOptions)
class NetTransformer(NetOptions, SequenceTransformer):
    """Transformer by any network; module, loss and optimizer are hyperparameters.

    It learns to reconstruct X of any rank: tables, sequences, images, or ids, for which the network returns
    logits and the loss is ``"log_loss"``. The code is the output of the submodule ``encoder``; a submodule
    ``decoder`` computes `inverse_transform`.

    Parameters
    ----------
    code : int, str or None, default=None
        The layer whose output `transform` returns, by number or path; None is the submodule ``encoder``, or
        if there is none the last hidden layer, -2.
    target : {"X", "y"}, default="X"
        The target of the network: X itself, whatever y is, or the numbers in y.
    loss : str, Loss or callable, default="squared_error"
        The loss to minimize: "squared_error", "absolute_error", "huber", "poisson" or an object of
        `sknet.losses`, or a function ``(y_true, output)`` of tensors that returns one value per row.
    scale_inputs : bool, default=True
        Standardize X: subtract the mean of each feature over the training rows, and divide by its standard
        deviation; sparse X is only divided. A feature is a column of a table, a channel of images, or a
        feature of the steps of sequences. In `fit`, columns of tables are clipped at 5 standard deviations.
        Sample weights are used, and of a stream the first part. Integer inputs of the network are not
        changed, nor is X for a module that is already trained. The loss compares standardized values where it
        allows that, as the squared error does; `inverse_transform` returns values in the units of X.
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
    encoder_ : TableEncoder
        The fitted encoder, with `encoder`.
    n_outputs_, out_activation_ : int, str
        Number of outputs of the network, and the function that turns them into reconstructions.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import NetTransformer, nn
    >>> class Net(nn.Module):
    ...     def __init__(self, n_features, n_outputs, n_code=2):
    ...         self.encoder = nn.Sequential(nn.Linear(n_features, 16), nn.Tanh(), nn.Linear(16, n_code))
    ...         self.decoder = nn.Sequential(nn.Linear(n_code, 16), nn.Tanh(), nn.Linear(16, n_outputs))
    ...
    ...     def forward(self, x):
    ...         return self.decoder(self.encoder(x))
    >>> X, _ = load_iris(return_X_y=True)
    >>> coder = NetTransformer(nn.ModuleFactory(Net, n_code=2), tol=0.1, random_state=0).fit(X)
    >>> coder.transform(X).shape, coder.inverse_transform(coder.transform(X)).shape
    ((150, 2), (150, 4))
    """

    _parameter_constraints = (
        CONSTRAINTS | MODULE | {"code": [int, str, None], "target": [StrOptions({"X", "y"})]}
    )

    def __init__(
        self,
        module: Any,
        *,
        encoder: "str | TableEncoder | None" = None,
        code: int | str | None = None,
        target: str = "X",
        loss: "str | Loss | Callable[..., Any]" = "squared_error",
        optimizer: str | BaseOptimizer = "adam",
        lr: "float | Schedule | None" = None,
        alpha: float = 1e-4,
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
