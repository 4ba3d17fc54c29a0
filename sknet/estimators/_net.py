"""NetClassifier, NetRegressor and NetTransformer: estimators of custom networks."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from sknet import nn
from sknet._validation import StrOptions
from sknet.callbacks import Callback
from sknet.estimators._architecture import Architecture, architecture_of
from sknet.estimators._members import MEMBERS
from sknet.estimators._options import (
    CALIBRATE,
    CLASS_WEIGHT,
    CONSTRAINTS,
    ENCODER,
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

__all__ = ["NetClassifier", "NetRegressor", "NetTransformer"]


# The module is told better by who makes a network of it.
MODULE: dict[str, Any] = {"module": "no_validation"} | ENCODER


class NetOptions(WithEncoder, NamedOptions):
    """Lets a grid reach into the constructor of a module."""

    module: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``module__hidden`` and ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values; a class becomes an ``nn.ModuleFactory`` when an argument of its constructor is set.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of such a name, or the module is one that is built already.
        """
        module = params.get("module", self.module)
        inside = [name for name in params if name.startswith("module__")]
        if inside and isinstance(module, nn.Module):
            raise ValueError(
                f"{inside[0]!r} cannot be set: the module is a {type(module).__name__} that is built "
                f"already. Give its class, module=nn.ModuleFactory({type(module).__name__}, ...)"
            )
        if inside and callable(module) and not isinstance(module, nn.ModuleFactory):
            params["module"] = nn.ModuleFactory(module)
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.module, nn.Module):  # its outputs are those of one kind of targets
            if tags.classifier_tags is not None:
                tags.classifier_tags.multi_class = tags.classifier_tags.multi_label = False
            tags.target_tags.multi_output = False
        return tags

    def _described(self) -> Architecture:
        return architecture_of(self.module, type(self).__name__)


class NetClassifier(NetOptions, SequenceClassifier):
    """Classification by any network; module, loss and optimizer are hyperparameters.

    Parameters
    ----------
    module : ModuleFactory, type of Module, callable or Module
        The network. A factory, ``nn.ModuleFactory(MyNet, hidden=64)``, or a bare class builds it when the
        data are known: arguments of its constructor are reached as ``module__hidden``, and of those called
        ``n_features``, ``n_outputs`` and ``input_shape`` it is given the ones that it takes and you have
        not set. A module that is there already is copied at each fit, with the weights it has.
    encoder : "table", TableEncoder or None, default=None
        What reads tables as they are, data frames with categories, dates and missing values among them:
        "table" is a `TableEncoder`, whose parameters a grid reaches as ``encoder__n_bins``. It is fitted with
        the network, on the rows that are trained on. None is for X that holds numbers only.
    loss : str, Loss or callable, default="log_loss"
        What is minimized; see `sknet.losses`. A function ``(y_true, output)`` returns one value per row: it
        is given class numbers and the network's raw outputs, of which the log loss makes probabilities.
    optimizer : str or Optimizer, default="adam"
        How: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`, whose parameters a grid reaches as ``optimizer__beta1``.
    lr : float, Schedule or None, default=None
        Learning rate that replaces the optimizer's own, wherever that is set in it; None leaves it.
    alpha : float, default=1e-4
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows in a step; "auto" is 200, or all if there are fewer. L-BFGS takes all.
    max_iter : int, default=200
        Epochs at most; for L-BFGS iterations.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    scale_inputs : bool, default=False
        Standardize X: less the mean of each feature in the training rows, divided by its deviation; sparse X
        is divided only. A feature is a column, of images a channel, and of sequences what each step has.
        Weights count, and in streams the first part decides. Integers that the network reads as such and
        tables that `encoder` reads stay as they are, and a module that has been trained already gets X as it
        is.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. Classes that a dict does not
        name weigh 1; "balanced" gives all classes the same total weight.
    calibrate : {"temperature"} or None, default=None
        Divide the outputs by the temperature for which the log loss of the held-out rows is smallest, before
        they become probabilities; `predict` stays as it is. Needs rows to validate on.
    early_stopping : bool or "auto", default=False
        Stop when what is monitored does not improve on the validation rows, and restore the best epoch's
        weights. These rows are `validation_fraction` of X, or those of `validation_split`, or the X_val of
        `fit`. "auto" does so where rows to validate on are given, and for more than 10,000 rows.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out; of groups, if `fit` gets them.
    validation_split : splitter of scikit-learn, pair of arrays or None, default=None
        Which rows to hold out: the first split of ``ShuffleSplit(1)``, ``GroupKFold(5)``,
        ``TimeSeriesSplit()``, ..., or a pair (training, validation) of row numbers.
    scoring : str, callable, list, dict or None, default=None
        What is measured in each epoch besides the loss: names of scikit-learn's scorers, or scorers
        ``(estimator, X, y)``; in a dict by the names of their columns in `history_`. None is accuracy;
        "loss" nothing more.
    monitor : str or None, default=None
        What decides when to stop: "loss", or the name of a scorer. None is the only scorer, or without
        any the loss.
    refit_on_all : bool, default=False
        After early stopping, train anew on all rows, those of the validation too, from the same initial
        weights and for as many updates as were best.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        By how much the training loss (or the held-out score) must be better to count; for L-BFGS
        the largest component of the gradient at which to stop.
    frozen : str, list of str, or None, default=None
        Patterns of names of parameters, such as ``"0.*"``, or of modules: these are not trained, decayed or
        penalized, and norms among them use and keep the running statistics they have. What no pattern
        names any more is trained again in the next fit that continues.
    warm_start : bool, default=False
        Let `fit` continue the fit before: weights, optimizer state, random state and history.
    verbose : bool, int or "bar", default=False
        Print the loss of every epoch; "bar" shows a progress bar instead (`sknet.callbacks.ProgressBar`).
    callbacks : list of Callback or None, default=None
        What happens during a fit; see `sknet.callbacks`. A grid reaches into them by number, as
        ``callbacks__0__patience``.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        probabilities are averaged. An ensemble is frozen, saved and exported like one network.
    bootstrap : bool, default=False
        With several members, whether each has rows of its own, as many as there are, drawn with replacement:
        their numbers multiply the sample weights. Rows that are held out keep their weights.
    device : str or None, default="auto"
        "cpu", "cuda", "cuda:1", or "auto" (or None): where X is.
    dtype : {"auto", "float32", "float64", "tf32", "bfloat16"} or dtype, default="auto"
        In which precision to compute, also as ``np.float32``; "auto" is float64 for float64 X, and float32
        for all else. float32 is faster, takes half the memory, and serves as well for most data. "tf32" and
        "bfloat16" are float32 but for matrix products on a GPU, whose factors have 10 or 7 bits after the
        point.
    random_state : int, RandomState, Generator or None, default=None
        Decides initial weights, held-out rows, order of rows and dropout.

    Attributes
    ----------
    model_ : Model
        The owner of parameters, optimizer state and random state.
    input_mean_, input_scale_ : ndarray, or dict of ndarray
        With `scale_inputs`: means and deviations of the features of X; dicts for several inputs by name.
    encoder_ : TableEncoder
        With `encoder`: fitted.
    classes_ : ndarray of shape (n_classes,), or a list of those
        The labels, sorted; for several columns of labels those of each.
    temperature_ : float or ndarray of shape (n_columns,)
        With `calibrate`: above 1 where the outputs were too sure.
    history_ : History
        Loss and scores of every epoch, learning rate and seconds; with validation rows also their loss and
        scores, as "validation_loss", ...
    histories_ : list of History
        With several members: of each. `history_`, and what follows from it, has their means.
    refit_history_ : History or None
        Of the second training, with `refit_on_all`.
    monitor_ : str
        The column of `history_` that decided when to stop.
    best_epoch_ : int or None
        The epoch of `history_`, from 1, whose weights were restored; None without early stopping.
    stopped_early_ : bool
        Whether the validation rows ended the training.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss: last, of every epoch, smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Score of the validation rows in every epoch, and in the best; None without.
    callbacks_ : list of Callback
        Clones of the callbacks, with what they learned in the last fit.
    n_iter_, t_ : int
        Epochs of the last fit, and training samples seen in all.
    n_outputs_, out_activation_ : int, str
        Outputs of the network, and what turns them into probabilities.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Of X; names only if X had string names.

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

    _parameter_constraints = CONSTRAINTS | MODULE | CLASS_WEIGHT | CALIBRATE | MEMBERS

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
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = False,
        class_weight: Any = None,
        calibrate: str | None = None,
        early_stopping: bool | str = False,
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
        self.module = module
        self.encoder = encoder
        self.loss = loss
        self.optimizer, self.lr = optimizer, lr
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle, self.scale_inputs = shuffle, scale_inputs
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.early_stopping = early_stopping
        self.validation_fraction, self.validation_split = validation_fraction, validation_split
        self.scoring, self.monitor = scoring, monitor
        self.refit_on_all = refit_on_all
        self.n_iter_no_change, self.tol = n_iter_no_change, tol
        self.frozen = frozen
        self.warm_start = warm_start
        self.verbose, self.callbacks = verbose, callbacks
        self.n_members, self.bootstrap = n_members, bootstrap
        self.device, self.dtype = device, dtype
        self.random_state = random_state


class NetRegressor(NetOptions, SequenceRegressor):
    """Regression by any network; module, loss and optimizer are hyperparameters.

    Parameters
    ----------
    module : ModuleFactory, type of Module, callable or Module
        The network. A factory, ``nn.ModuleFactory(MyNet, hidden=64)``, or a bare class builds it when the
        data are known: arguments of its constructor are reached as ``module__hidden``, and of those called
        ``n_features``, ``n_outputs`` and ``input_shape`` it is given the ones that it takes and you have
        not set. A module that is there already is copied at each fit, with the weights it has.
    encoder : "table", TableEncoder or None, default=None
        What reads tables as they are, data frames with categories, dates and missing values among them:
        "table" is a `TableEncoder`, whose parameters a grid reaches as ``encoder__n_bins``. It is fitted with
        the network, on the rows that are trained on. None is for X that holds numbers only.
    loss : str, Loss or callable, default="squared_error"
        What is minimized: "squared_error", "absolute_error", "huber", "quantile", "poisson" or an
        object of `sknet.losses`, or a function
        ``(y_true, output)`` of tensors that returns one value per row.
    optimizer : str or Optimizer, default="adam"
        How: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`, whose parameters a grid reaches as ``optimizer__beta1``.
    lr : float, Schedule or None, default=None
        Learning rate that replaces the optimizer's own, wherever that is set in it; None leaves it.
    alpha : float, default=1e-4
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows in a step; "auto" is 200, or all if there are fewer. L-BFGS takes all.
    max_iter : int, default=200
        Epochs at most; for L-BFGS iterations.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    scale_inputs : bool, default=False
        Standardize X: less the mean of each feature in the training rows, divided by its deviation; sparse X
        is divided only. A feature is a column, of images a channel, and of sequences what each step has.
        Weights count, and in streams the first part decides. Integers that the network reads as such and
        tables that `encoder` reads stay as they are, and a module that has been trained already gets X as it
        is.
    scale_target : bool or "auto", default=False
        Train on targets that are standardized (divided by their means with the losses of positive targets).
        Predictions, and losses that are reported, are in the targets' own units; predictions have the
        precision of y, too, or that of the network if it is higher. "auto" does so
        where the loss allows it.
    early_stopping : bool or "auto", default=False
        Stop when what is monitored does not improve on the validation rows, and restore the best epoch's
        weights. These rows are `validation_fraction` of X, or those of `validation_split`, or the X_val of
        `fit`. "auto" does so where rows to validate on are given, and for more than 10,000 rows.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out; of groups, if `fit` gets them.
    validation_split : splitter of scikit-learn, pair of arrays or None, default=None
        Which rows to hold out: the first split of ``ShuffleSplit(1)``, ``GroupKFold(5)``,
        ``TimeSeriesSplit()``, ..., or a pair (training, validation) of row numbers.
    scoring : str, callable, list, dict or None, default=None
        What is measured in each epoch besides the loss: names of scikit-learn's scorers, or scorers
        ``(estimator, X, y)``; in a dict by the names of their columns in `history_`. None is R2;
        "loss" nothing more.
    monitor : str or None, default=None
        What decides when to stop: "loss", or the name of a scorer. None is the only scorer, or without
        any R2 for the squared error, and the loss for all others.
    refit_on_all : bool, default=False
        After early stopping, train anew on all rows, those of the validation too, from the same initial
        weights and for as many updates as were best.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        By how much the training loss (or the held-out score) must be better to count; for L-BFGS
        the largest component of the gradient at which to stop.
    frozen : str, list of str, or None, default=None
        Patterns of names of parameters, such as ``"0.*"``, or of modules: these are not trained, decayed or
        penalized, and norms among them use and keep the running statistics they have. What no pattern
        names any more is trained again in the next fit that continues.
    warm_start : bool, default=False
        Let `fit` continue the fit before: weights, optimizer state, random state and history.
    verbose : bool, int or "bar", default=False
        Print the loss of every epoch; "bar" shows a progress bar instead (`sknet.callbacks.ProgressBar`).
    callbacks : list of Callback or None, default=None
        What happens during a fit; see `sknet.callbacks`. A grid reaches into them by number, as
        ``callbacks__0__patience``.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        predictions are averaged. An ensemble is frozen, saved and exported like one network.
    bootstrap : bool, default=False
        With several members, whether each has rows of its own, as many as there are, drawn with replacement:
        their numbers multiply the sample weights. Rows that are held out keep their weights.
    device : str or None, default="auto"
        "cpu", "cuda", "cuda:1", or "auto" (or None): where X is.
    dtype : {"auto", "float32", "float64", "tf32", "bfloat16"} or dtype, default="auto"
        In which precision to compute, also as ``np.float32``; "auto" is float64 for float64 X, and float32
        for all else. float32 is faster, takes half the memory, and serves as well for most data. "tf32" and
        "bfloat16" are float32 but for matrix products on a GPU, whose factors have 10 or 7 bits after the
        point.
    random_state : int, RandomState, Generator or None, default=None
        Decides initial weights, held-out rows, order of rows and dropout.

    Attributes
    ----------
    model_ : Model
        The owner of parameters, optimizer state and random state.
    input_mean_, input_scale_ : ndarray, or dict of ndarray
        With `scale_inputs`: means and deviations of the features of X; dicts for several inputs by name.
    encoder_ : TableEncoder
        With `encoder`: fitted.
    history_ : History
        Loss and scores of every epoch, learning rate and seconds; with validation rows also their loss and
        scores, as "validation_loss", ...
    histories_ : list of History
        With several members: of each. `history_`, and what follows from it, has their means.
    refit_history_ : History or None
        Of the second training, with `refit_on_all`.
    monitor_ : str
        The column of `history_` that decided when to stop.
    best_epoch_ : int or None
        The epoch of `history_`, from 1, whose weights were restored; None without early stopping.
    stopped_early_ : bool
        Whether the validation rows ended the training.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss: last, of every epoch, smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Score of the validation rows in every epoch, and in the best; None without.
    callbacks_ : list of Callback
        Clones of the callbacks, with what they learned in the last fit.
    n_iter_, t_ : int
        Epochs of the last fit, and training samples seen in all.
    n_outputs_, out_activation_ : int, str
        Outputs of the network, and what turns them into predictions.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Of X; names only if X had string names.

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
    >>> NetRegressor(network, optimizer="lbfgs", tol=0.1, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    _parameter_constraints = CONSTRAINTS | SCALE_TARGET | MODULE | MEMBERS

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
        max_iter: int = 200,
        shuffle: bool = True,
        scale_inputs: bool = False,
        scale_target: bool | str = False,
        early_stopping: bool | str = False,
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
        self.module = module
        self.encoder = encoder
        self.loss = loss
        self.optimizer, self.lr = optimizer, lr
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle, self.scale_inputs = shuffle, scale_inputs
        self.scale_target = scale_target
        self.early_stopping = early_stopping
        self.validation_fraction, self.validation_split = validation_fraction, validation_split
        self.scoring, self.monitor = scoring, monitor
        self.refit_on_all = refit_on_all
        self.n_iter_no_change, self.tol = n_iter_no_change, tol
        self.frozen = frozen
        self.warm_start = warm_start
        self.verbose, self.callbacks = verbose, callbacks
        self.n_members, self.bootstrap = n_members, bootstrap
        self.device, self.dtype = device, dtype
        self.random_state = random_state


class NetTransformer(NetOptions, SequenceTransformer):
    """A transformer that is any network; module, loss and optimizer are hyperparameters.

    It learns to return X, whatever its rank: tables, sequences, images, or ids, for which the network returns
    logits and ``loss="log_loss"`` is given. Its code is the output of the module's part that is called
    ``encoder``, and a part that is called ``decoder`` is the way back.

    Parameters
    ----------
    module : ModuleFactory, type of Module, callable or Module
        The network. A factory, ``nn.ModuleFactory(MyNet, hidden=64)``, or a bare class builds it when the
        data are known: arguments of its constructor are reached as ``module__hidden``, and of those called
        ``n_features``, ``n_outputs`` and ``input_shape`` it is given the ones that it takes and you have
        not set. A module that is there already is copied at each fit, with the weights it has.
    encoder : "table", TableEncoder or None, default=None
        What reads tables as they are, data frames with categories, dates and missing values among them:
        "table" is a `TableEncoder`, whose parameters a grid reaches as ``encoder__n_bins``. It is fitted with
        the network, on the rows that are trained on. None is for X that holds numbers only.
    code : int, str or None, default=None
        The layer whose output `transform` returns, by number or path; None is the part that is called
        ``encoder``, or without one the last hidden layer, -2.
    target : {"X", "y"}, default="X"
        What the network learns to return: X itself, whatever y is, or the numbers in y.
    loss : str, Loss or callable, default="squared_error"
        What is minimized: "squared_error", "absolute_error", "huber", "poisson" or an object of
        `sknet.losses`, or a function
        ``(y_true, output)`` of tensors that returns one value per row.
    optimizer : str or Optimizer, default="adam"
        How: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`, whose parameters a grid reaches as ``optimizer__beta1``.
    lr : float, Schedule or None, default=None
        Learning rate that replaces the optimizer's own, wherever that is set in it; None leaves it.
    alpha : float, default=1e-4
        Strength of the L2 penalty, divided by the number of samples as in scikit-learn.
    batch_size : int or "auto", default="auto"
        Rows in a step; "auto" is 200, or all if there are fewer. L-BFGS takes all.
    max_iter : int, default=200
        Epochs at most; for L-BFGS iterations.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    scale_inputs : bool, default=False
        Standardize X: less the mean of each feature in the training rows, divided by its deviation; sparse X
        is divided only. A feature is a column, of images a channel, and of sequences what each step has.
        Weights count, and in streams the first part decides. Integers that the network reads as such stay as
        they are, and a module that has been trained already gets X as it is. What is reconstructed is
        compared in these units where the loss allows it, as the squared error does; `inverse_transform`
        returns the units of X.
    early_stopping : bool or "auto", default=False
        Stop when what is monitored does not improve on the validation rows, and restore the best epoch's
        weights. These rows are `validation_fraction` of X, or those of `validation_split`, or the X_val of
        `fit`. "auto" does so where rows to validate on are given, and for more than 10,000 rows.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out; of groups, if `fit` gets them.
    validation_split : splitter of scikit-learn, pair of arrays or None, default=None
        Which rows to hold out: the first split of ``ShuffleSplit(1)``, ``GroupKFold(5)``,
        ``TimeSeriesSplit()``, ..., or a pair (training, validation) of row numbers.
    scoring : callable, list, dict or None, default=None
        What is measured in each epoch besides the loss: scorers ``(estimator, X, y)``; in a dict by the
        names of their columns in `history_`. None is nothing.
    monitor : str or None, default=None
        What decides when to stop: "loss", or the name of a scorer. None is the only scorer, or without
        any the loss.
    refit_on_all : bool, default=False
        After early stopping, train anew on all rows, those of the validation too, from the same initial
        weights and for as many updates as were best.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        By how much the loss (or the held-out score) must be better to count; for L-BFGS the largest
        component of the gradient at which to stop.
    frozen : str, list of str, or None, default=None
        Patterns of names of parameters, such as ``"encoder.*"``, or of modules: these are not trained,
        decayed or penalized, and norms among them use and keep the running statistics they have.
    warm_start : bool, default=False
        Let `fit` continue the fit before: weights, optimizer state, random state and history.
    verbose : bool, int or "bar", default=False
        Print the loss of every epoch; "bar" shows a progress bar instead (`sknet.callbacks.ProgressBar`).
    callbacks : list of Callback or None, default=None
        What happens during a fit; see `sknet.callbacks`. A grid reaches into them by number, as
        ``callbacks__0__patience``.
    device : str or None, default="auto"
        "cpu", "cuda", "cuda:1", or "auto" (or None): where X is.
    dtype : {"auto", "float32", "float64", "tf32", "bfloat16"} or dtype, default="auto"
        In which precision to compute, also as ``np.float32``; "auto" is float64 for float64 X, and float32
        for all else. float32 is faster, takes half the memory, and serves as well for most data. "tf32" and
        "bfloat16" are float32 but for matrix products on a GPU, whose factors have 10 or 7 bits after the
        point.
    random_state : int, RandomState, Generator or None, default=None
        Decides initial weights, held-out rows, order of rows and noise.

    Attributes
    ----------
    model_ : Model
        The owner of parameters, optimizer state and random state.
    input_mean_, input_scale_ : ndarray, or dict of ndarray
        With `scale_inputs`: means and deviations of the features of X; dicts for several inputs by name.
    encoder_ : TableEncoder
        With `encoder`: fitted.
    history_ : History
        Loss and scores of every epoch, learning rate and seconds; with validation rows also their loss and
        scores, as "validation_loss", ...
    refit_history_ : History or None
        Of the second training, with `refit_on_all`.
    monitor_ : str
        The column of `history_` that decided when to stop.
    best_epoch_ : int or None
        The epoch of `history_`, from 1, whose weights were restored; None without early stopping.
    stopped_early_ : bool
        Whether the validation rows ended the training.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss: last, of every epoch, smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Score of the validation rows in every epoch, and in the best; None without.
    callbacks_ : list of Callback
        Clones of the callbacks, with what they learned in the last fit.
    n_iter_, t_ : int
        Epochs of the last fit, and training samples seen in all.
    n_outputs_, out_activation_ : int, str
        Outputs of the network, and what turns them into reconstructions.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Of X; names only if X had string names.

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
        scale_inputs: bool = False,
        early_stopping: bool | str = False,
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
        self.module = module
        self.encoder = encoder
        self.code = code
        self.target = target
        self.loss = loss
        self.optimizer, self.lr = optimizer, lr
        self.alpha = alpha
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle, self.scale_inputs = shuffle, scale_inputs
        self.early_stopping = early_stopping
        self.validation_fraction, self.validation_split = validation_fraction, validation_split
        self.scoring, self.monitor = scoring, monitor
        self.refit_on_all = refit_on_all
        self.n_iter_no_change, self.tol = n_iter_no_change, tol
        self.frozen = frozen
        self.warm_start = warm_start
        self.verbose, self.callbacks = verbose, callbacks
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
