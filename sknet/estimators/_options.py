"""Parameters that sknet's own estimators share, and what they stand for."""

import copy
from abc import abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from sknet._constraints import Taking, invalid, shown
from sknet._params import resolve
from sknet._validation import Interval, Options, StrOptions
from sknet.callbacks import Callback
from sknet.callbacks._callback import check_callbacks
from sknet.device import PRECISIONS
from sknet.estimators._architecture import Architecture
from sknet.estimators._base import BaseNet
from sknet.estimators._fit import Recipe, is_auto, settings_of
from sknet.estimators._inputs import Encoded, Inputs
from sknet.estimators._network import check_patterns
from sknet.exceptions import InvalidParameterError
from sknet.losses import LOSSES, Loss, check_loss
from sknet.optim import OPTIMIZERS, BaseOptimizer, check_optimizer
from sknet.optim.schedules import Schedule

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

ENCODER: dict[str, Any] = {"encoder": "no_validation"}  # told better by `check_encoder`


def _table_encoder() -> "TableEncoder":
    from sknet.preprocessing import TableEncoder  # most estimators do without

    return TableEncoder()


ENCODERS: dict[str, Any] = {"table": _table_encoder}


def check_encoder(encoder: Any, caller: str) -> "TableEncoder | None":
    if encoder is None:
        return None
    from sknet.preprocessing import TableEncoder

    if hasattr(encoder, "transform") and not isinstance(encoder, (TableEncoder, type)):
        raise InvalidParameterError(
            f"The 'encoder' parameter of {caller} must be 'table', a TableEncoder or None. "
            f"Got {shown(encoder)} "
            f"instead. Put other transformers before {caller} in a Pipeline."
        )
    found = resolve(encoder, ENCODERS, TableEncoder, parameter="encoder", caller=caller)
    return clone(found)


class WithEncoder:
    """Methods and attributes of estimators with a parameter `encoder`."""

    encoder: Any
    _inputs: "Inputs | Encoded | None"

    @property
    def encoder_(self) -> "TableEncoder":
        """The fitted encoder, if the parameter `encoder` is set."""
        if not isinstance(self._inputs, Encoded):
            why = "call fit first" if "model_" not in vars(self) else "it was fitted with encoder=None"
            raise AttributeError(f"this {type(self).__name__} has no encoder_: {why}")
        encoder: Any = self._inputs.encoder  # not frozen yet
        return encoder

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if self.encoder is not None:
            tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.transformer_tags.preserves_dtype = []
        return tags


SCALE_TARGET: dict[str, Any] = {"scale_target": ["boolean", StrOptions({"auto"})]}
CALIBRATE: dict[str, Any] = {"calibrate": [StrOptions({"temperature", "conformal"}), None]}
CONFORMAL: dict[str, Any] = {"calibrate": [StrOptions({"conformal"}), None]}
CLASS_WEIGHT: dict[str, Any] = {"class_weight": [dict, list, StrOptions({"balanced"}), None]}
DRAWS = Taking(2, "y and sample_weight")
SAMPLER: dict[str, Any] = {"sampler": [StrOptions({"balanced", "weight"}), DRAWS, None]}
PLANNED: dict[str, Any] = {"max_iter": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")]}
CONSTRAINTS: dict[str, Any] = {
    "loss": "no_validation",  # the names are better told by the functions that look them up
    "optimizer": "no_validation",
    "lr": "no_validation",
    "alpha": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
    "batch_size": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "scale_inputs": ["boolean"],
    "early_stopping": ["boolean", StrOptions({"auto"})],
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
    "validation_split": "no_validation",  # its check says what to do instead, and that of scoring
    "scoring": "no_validation",
    "monitor": [str, None],
    "refit_on_all": ["boolean"],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), Options(Real, {np.inf})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "warm_start": ["boolean"],
    "verbose": ["verbose", StrOptions({"bar"})],
    "callbacks": "no_validation",
    "frozen": "no_validation",
    "device": [str, None],
    "dtype": "no_validation",
    "random_state": ["random_state", np.random.Generator],
}


def check_loss_of_logits(loss: Any, name: str) -> Loss:
    """Return the loss of an estimator, whose network ends without a link; `set_params` does not reach it."""
    found = copy.copy(check_loss(loss, name))
    if found.of_probabilities:
        raise ValueError(
            f"{found!r} expects probabilities, but {name} outputs logits: use 'log_loss', the same from "
            "logits"
        )
    return found


def _optimizer(estimator: Any, name: str) -> BaseOptimizer:
    """Return the optimizer of an estimator, with the learning rate that is its parameter `lr`."""
    found = check_optimizer(estimator.optimizer, name)
    return found if estimator.lr is None else found.with_lr(estimator.lr)


def check_dtype(dtype: Any, caller: str) -> str:
    names = ("auto", *PRECISIONS)
    try:
        name = dtype if isinstance(dtype, str) or dtype is None else np.dtype(dtype).name
    except Exception:  # whatever an object that is no dtype raises
        name = None
    if name not in names:
        invalid(
            f"The 'dtype' parameter of {caller} must be a str among {names} or a dtype of one of these "
            f"names. Got {shown(dtype)} instead."
        )
    return str(name)


def _plan(estimator: Any) -> "Mapping[str, float] | None":
    """Return the training that a network comes with, where number and rate of updates are left to it."""
    is_open = is_auto(estimator.max_iter) and _has_open_rate(estimator)
    return estimator._described().plan if is_open else None


def _has_open_rate(estimator: Any) -> bool:
    """Tell whether nobody has chosen a learning rate."""
    return estimator.lr is None and isinstance(estimator.optimizer, str) and estimator.optimizer == "adam"


def _recipe(estimator: Any) -> Recipe:
    """Translate the parameters that all estimators of sknet's own share."""
    name = type(estimator).__name__
    loss = estimator._checked_loss()
    scaled = vars(estimator).get("scale_target", False)  # asking for what is missing looks for hints
    return Recipe(
        architecture=estimator._described(),
        loss=loss,
        optimizer=_optimizer(estimator, name),
        alpha=estimator.alpha,
        batch_size=estimator.batch_size,
        settings=settings_of(estimator),
        early_stopping=estimator.early_stopping,
        validation_fraction=estimator.validation_fraction,
        validation_split=estimator.validation_split,
        scoring=estimator.scoring,
        monitor=estimator.monitor,
        refit_on_all=estimator.refit_on_all,
        class_weight=getattr(estimator, "class_weight", None),
        sampler=getattr(estimator, "sampler", None),
        scale_inputs=getattr(estimator, "scale_inputs", False),
        scale_target=loss.scaling is not None if is_auto(scaled) else scaled,
        calibrate=getattr(estimator, "calibrate", None),
        dtype=check_dtype(estimator.dtype, name),
        device=estimator.device or "auto",
        random_state=estimator.random_state,
        strict=True,
        tol=estimator.tol,
        n_iter_no_change=estimator.n_iter_no_change,
        verbose=estimator.verbose,
        callbacks=check_callbacks(estimator.callbacks, name),
        frozen=check_patterns(estimator.frozen, name),
        encoder=check_encoder(getattr(estimator, "encoder", None), name),
        monotonic_cst=getattr(estimator, "monotonic_cst", None),
        plan=_plan(estimator),
        has_open_rate=_has_open_rate(estimator),
    )


class NamedOptions(BaseNet):
    """Nested parameters of a loss, an optimizer or an encoder that is given by its name.

    Parameters
    ----------
    hidden_layer_sizes : int or array-like of int, default=(100,)
        Units of each hidden layer; an empty tuple makes a linear model.
    activation : str, Module or callable, default="relu"
        Activation of the hidden layers: "identity", "logistic", "tanh", "relu" or another of
        `sknet.nn.ACTIVATIONS` ("gelu", "silu", ...), a module such as ``nn.LeakyReLU(0.2)``, or a function of
        tensors such as ``ops.gelu`` or ``np.tanh``.
    encoder : "table", TableEncoder or None, default=None
        Encoder of raw tables, such as data frames with categories, dates and missing values: "table" is a
        `TableEncoder`, whose parameters are set as ``encoder__n_bins``. It is fitted together with the
        network, on the training rows. None is for X that holds only numbers.
    dropout : float in [0, 1), default=0.0
        Share of hidden units to drop in each training step.
    monotonic_cst : array-like of shape (n_features,), dict of str to int, or None, default=None
        For each column of X, or by its name, 1 if predictions must not fall where it rises, -1 if they must
        not rise, and 0 (or no entry) for no constraint: of a classifier, which must have two classes, the
        probability of the second. It holds for every input, up to rounding; columns of categories, dates
        and texts have no order, nor do missing values. The network then has `nn.MonotonicLinear` layers and
        an activation that never falls.
    loss : str, Loss or callable, default="log_loss"
        The loss to minimize; see `sknet.losses`. A function ``(y_true, output)`` returns one value per row;
        it is called with class numbers and the network's raw outputs, which the log loss turns into
        probabilities.
    optimizer : str or Optimizer, default="adam"
        The optimizer: "adam", "sgd", "lbfgs" or another name in `sknet.optim.OPTIMIZERS`, or an object of
        `sknet.optim`. Its parameters are set as ``optimizer__beta1``.
    lr : float, Schedule or None, default=None
        Learning rate, which replaces that of the optimizer; None keeps the optimizer's. With None and
        ``optimizer="adam"``, `fit` of `MLPClassifier` and `MLPRegressor` on n < 2,000 rows uses the rate
        ``min(2 / n, 0.005)`` instead of 0.001. Without early stopping, the rate falls to this value by
        `schedules.InverseTime`, from a first rate of 0.02 for up to 10 epochs, and ``2 / max_iter**2`` for
        more. A fit that continues another, by `warm_start` or from a checkpoint, keeps the first rate of that
        fit.
    alpha : float or "auto"
        Strength of the L2 penalty, divided by the number of samples in a batch as in scikit-learn. The
        default is 1e-4, and "auto" in `MLPClassifier` and `MLPRegressor`: ``5 * batch_size / n_samples`` for
        regression and ``3 * batch_size / n_samples`` for classification, so that the sum of the losses of all
        rows has the penalty ``5 / 2`` (or ``3 / 2``) times the sum of squared weights. It is reduced in
        proportion below a total weight of 200 (rows, without `sample_weight`) and from 1,000 rows on, and to
        1/16, 1/4 or 9/16 for one, two or three columns of X. With early stopping, and in `partial_fit`, it is
        1e-4.
    batch_size : int or "auto", default="auto"
        Rows per training step; "auto" is 200, or all rows if there are fewer. From 5,000 rows on, "auto" in
        `MLPClassifier` and `MLPRegressor` is ``n_samples / 150``, between 64 and 200. L-BFGS uses all rows.
    max_iter : int, default=200
        Maximum number of epochs, or of iterations of L-BFGS. A fit that reaches it warns, unless the last
        tenth of the epochs (at least ten) made less than 5 % of the total decrease of the loss.
    shuffle : bool, default=True
        Draw a new order of the rows in each epoch.
    scale_inputs : bool, default=True
        Standardize X: subtract the mean of each feature over the training rows, and divide by its standard
        deviation; sparse X is only divided. A feature is a column of a table, a channel of images, or a
        feature of the steps of sequences. In `fit`, columns of tables are clipped at 5 standard deviations.
        Sample weights are used, and of a stream the first part. Integer inputs of the network and tables that
        `encoder` reads are not changed, nor is X for a module that is already trained.
    sampler : "balanced", "weight", callable or None, default=None
        Draw the rows of an epoch with replacement, as many as there are: "balanced" draws all classes equally
        often; "weight" draws rows in proportion to their weights, which then do not multiply the loss; a
        function ``(y, sample_weight)`` returns the relative frequency of each row. None takes each row once.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into the sample weights. Classes that are not in the dict have the
        weight 1; "balanced" gives all classes the same total weight.
    calibrate : {"temperature", "conformal"} or None, default=None
        Calibration by the validation rows, which it requires. "temperature" divides the outputs by the
        temperature that minimizes their log loss, before an offset is added; without one, this changes
        probabilities but not `predict`. "conformal" sizes the sets of `predict_set` (classifiers) or the
        intervals of `predict_interval` (regressors) by these rows.
    early_stopping : bool or "auto", default="auto"
        Stop when the monitored metric does not improve on the validation rows, and restore the weights of the
        best epoch. Validation rows are a share `validation_fraction` of X, or those of `validation_split`, or
        the X_val of `fit`. "auto" is True if validation rows are given, and for more than 10,000 rows unless
        ``max_iter="auto"`` sets the number of epochs.
    validation_fraction : float in (0, 1), default=0.1
        Share of rows to hold out, or of groups if `fit` is called with groups.
    validation_split : splitter of scikit-learn, pair of arrays or None, default=None
        Rows to hold out: a splitter, such as ``ShuffleSplit(1)``, ``GroupKFold(5)`` or ``TimeSeriesSplit()``,
        whose first split is used, or a pair (training, validation) of arrays of row indices.
    scoring : str, callable, list, dict or None, default=None
        Metrics of each epoch besides the loss: names of scikit-learn's scorers, or scorers ``(estimator, X,
        y)``; in a dict by the names of their columns in `history_`. None is accuracy; "loss" is no metric but
        the loss.
    monitor : str or None, default=None
        The metric that decides when to stop: "loss", or the name of a scorer. None is the only scorer in
        `scoring`, or the loss if none is given there.
    refit_on_all : bool, default=False
        After early stopping, train again on all rows, including the validation rows, from the same initial
        weights and for the number of updates of the best epoch.
    n_iter_no_change : int or inf, default=10
        Epochs without improvement before stopping.
    tol : float, default=1e-4
        Least improvement of the training loss (or of the held-out score) that counts; L-BFGS stops when the
        largest component of the gradient is below it.
    frozen : str, list of str, or None, default=None
        Patterns of names of parameters, such as ``"0.*"``, or of modules: these are not trained, decayed or
        penalized, and normalization layers among them use their running statistics without updating them. If
        a pattern is removed, the next `fit` with `warm_start` trains its parameters again.
    warm_start : bool, default=False
        Let `fit` continue the previous fit: its weights, optimizer state, random state and history.
    verbose : bool, int or "bar", default=False
        Print the loss of every epoch; "bar" shows a progress bar instead (`sknet.callbacks.ProgressBar`).
    callbacks : list of Callback or None, default=None
        Objects that are called during a fit; see `sknet.callbacks`. Their parameters are set by index, as
        ``callbacks__0__patience``.
    n_members : int, default=1
        Networks of an ensemble, which are fitted together from seeds drawn by `random_state`, and whose
        probabilities are averaged. An ensemble is frozen, saved and exported like one network.
    bootstrap : bool, default=False
        Whether each of several members is trained on a bootstrap sample, as large as the training rows: the
        count of each row multiplies its sample weight. Held-out rows keep their weights.
    device : str or None, default="auto"
        Device to compute on: "cpu", "cuda", "cuda:1"; "auto" (or None) is the device of X.
    dtype : {"auto", "float32", "float64", "tf32", "bfloat16", "tf32x3"} or dtype, default="auto"
        Precision to compute in, also as ``np.float32``; "auto" is float64 for float64 X, and float32 for any
        other. float32 is faster, takes half the memory, and is as good for most data. "tf32" and "bfloat16"
        are float32 except for matrix products on a GPU, whose factors have mantissas of 10 or 7 bits; with
        "tf32x3" a large product is three products in tf32, with nearly the accuracy of float32. With
        "bfloat16", large networks on a GPU also store activations and their gradients in 16 bits.
    random_state : int, RandomState, Generator or None, default=None
        Draws initial weights, held-out rows, the order of rows and dropout.
    scale_target : bool or "auto", default="auto"
        Train on standardized targets (with losses of positive targets: on targets divided by their means).
        Predictions and reported losses are in the targets' own units; predictions have the precision of y, or
        that of the network if it is higher. "auto" standardizes if the loss allows it.
    module : ModuleFactory, type of Module, callable or Module
        The network. A factory, ``nn.ModuleFactory(MyNet, hidden=64)``, or a class builds it in `fit`:
        arguments of its constructor are set as ``module__hidden``, and ``n_features``, ``n_outputs`` and
        ``input_shape``, if it takes them, are derived from the data unless they are set. A module is copied
        at each fit, with its weights.

    Attributes
    ----------
    model_ : Model
        The network with its parameters, optimizer state and random state.
    input_mean_, input_scale_ : ndarray, or dict of ndarray
        With `scale_inputs`: means and standard deviations of the features of X; dicts for several named
        inputs.
    history_ : History
        Loss, scores, learning rate and seconds of every epoch; with validation rows also their loss and
        scores, as "validation_loss", ...
    refit_history_ : History or None
        History of the second training, with `refit_on_all`.
    monitor_ : str
        The column of `history_` that decided when to stop.
    best_epoch_ : int or None
        The epoch of `history_`, from 1, whose weights were restored; None without early stopping.
    stopped_early_ : bool
        Whether the validation rows ended the training.
    loss_, loss_curve_, best_loss_ : float, list of float, float or None
        Training loss of the last epoch, of every epoch, and the smallest (None with early stopping).
    validation_scores_, best_validation_score_ : list of float, float, or None
        Score of the validation rows in every epoch, and in the best; None without validation rows.
    callbacks_ : list of Callback
        Clones of the callbacks, with their fitted attributes of the last fit.
    n_iter_, t_ : int
        Number of epochs of the last fit, and of training samples seen in all.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number and names of the features; names only if X had string names.
    """

    optimizer: str | BaseOptimizer
    lr: "float | Schedule | None"
    alpha: float
    batch_size: int | str
    max_iter: int
    shuffle: bool
    scale_inputs: bool
    early_stopping: bool | str
    validation_fraction: float
    monitor: str | None
    refit_on_all: bool
    n_iter_no_change: float
    tol: float
    frozen: "str | list[str] | None"
    warm_start: bool
    verbose: bool | int | str
    callbacks: "list[Callback] | None"
    device: str | None

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values; a loss, optimizer or encoder that is a name becomes an object when one of its own
            parameters is set.

        Returns
        -------
        self
            The estimator.
        """
        for option, registry in (("optimizer", OPTIMIZERS), ("loss", LOSSES), ("encoder", ENCODERS)):
            value = params.get(option, getattr(self, option, None))
            if (
                isinstance(value, str)
                and value in registry
                and any(p.startswith(f"{option}__") for p in params)
            ):
                params[option] = registry[value]()
        super().set_params(**params)
        return self

    @property
    def input_mean_(self) -> Any:
        """Means of the features that are subtracted from X, 0 for sparse X; a dict for several inputs."""
        return self._input_units("input_mean_", "mean")

    @property
    def input_scale_(self) -> Any:
        """Standard deviations that the features of X are divided by; a dict for several inputs."""
        return self._input_units("input_scale_", "scale")

    def _input_units(self, name: str, field: str) -> Any:
        if self._input_scaling is None:
            why = "its inputs are not standardized" if "model_" in vars(self) else "call fit first"
            raise AttributeError(f"this {type(self).__name__} has no {name}: {why}")
        return self._input_scaling.each(field)

    @abstractmethod
    def _described(self) -> Architecture:
        """Return what the network is built from."""

    def _recipe(self) -> Recipe:
        return _recipe(self)

    def _checked_loss(self) -> Loss:
        return check_loss_of_logits(self.loss, type(self).__name__)

    def _is_full_batch(self) -> bool:
        value = OPTIMIZERS.get(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return not getattr(value, "goes_in_steps", True)
