"""Parameters that sknet's own estimators share, and what they stand for."""

from abc import abstractmethod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone

from sknet._constraints import invalid, shown
from sknet._params import InvalidParameterError, resolve
from sknet._validation import Interval, Options, StrOptions
from sknet.callbacks.extend import check_callbacks
from sknet.device import PRECISIONS, active, device_of
from sknet.estimators._architecture import Architecture
from sknet.estimators._base import BaseNet
from sknet.estimators._classifier import BaseClassifier
from sknet.estimators._fit import Recipe, is_auto, settings_of
from sknet.estimators._inputs import Encoded, Inputs, follows_namespace
from sknet.estimators._network import check_patterns
from sknet.losses import LOSSES, Loss, check_loss
from sknet.optim import OPTIMIZERS, BaseOptimizer, check_optimizer

if TYPE_CHECKING:
    from sknet.preprocessing import TableEncoder

__all__ = [
    "CALIBRATE",
    "CLASS_WEIGHT",
    "CONSTRAINTS",
    "ENCODER",
    "SCALE_TARGET",
    "Decisions",
    "NamedOptions",
    "WithEncoder",
    "check_loss_of_logits",
]


ENCODER: dict[str, Any] = {"encoder": "no_validation"}  # told better by `check_encoder`


def _table_encoder() -> "TableEncoder":
    from sknet.preprocessing import TableEncoder  # most estimators do without

    return TableEncoder()


ENCODERS: dict[str, Any] = {"table": _table_encoder}


def check_encoder(encoder: Any, caller: str) -> "TableEncoder | None":
    """Return the encoder that a parameter `encoder` asks for."""
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
    return clone(found)  # type: ignore[no-any-return]


class WithEncoder:
    """Methods and attributes of estimators with a parameter `encoder`."""

    encoder: Any
    _inputs: "Inputs | Encoded | None"

    @property
    def encoder_(self) -> "TableEncoder":
        """The fitted encoder; there is none without `encoder`."""
        if not isinstance(self._inputs, Encoded):
            why = "call fit first" if "model_" not in vars(self) else "it was fitted with encoder=None"
            raise AttributeError(f"this {type(self).__name__} has no encoder_: {why}")
        encoder: Any = self._inputs.encoder  # not frozen yet
        return encoder  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        if self.encoder is not None:
            tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.transformer_tags.preserves_dtype = []
        return tags


SCALE_TARGET: dict[str, Any] = {"scale_target": ["boolean", StrOptions({"auto"})]}
CALIBRATE: dict[str, Any] = {"calibrate": [StrOptions({"temperature"}), None]}
CLASS_WEIGHT: dict[str, Any] = {"class_weight": [dict, list, StrOptions({"balanced"}), None]}
CONSTRAINTS: dict[str, Any] = {
    "loss": "no_validation",  # the names are better told by the functions that look them up
    "optimizer": "no_validation",
    "lr": "no_validation",
    "alpha": [Interval(Real, 0, None, closed="left")],
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
    """Return the loss of an estimator whose network ends without a link."""
    found = check_loss(loss, name)
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
    """Return the name of a precision, which may be given as a dtype."""
    names = ("auto", *PRECISIONS)
    try:
        name = dtype if isinstance(dtype, str) or dtype is None else np.dtype(dtype).name
    except TypeError:
        name = None
    if name not in names:
        invalid(
            f"The 'dtype' parameter of {caller} must be a str among {names} or a dtype of one of these "
            f"names. Got {shown(dtype)} instead."
        )
    return str(name)


def _recipe(estimator: Any) -> Recipe:
    """Translate the parameters that all estimators of sknet's own share."""
    name = type(estimator).__name__
    loss = check_loss_of_logits(estimator.loss, name)
    scaled = getattr(estimator, "scale_target", False)
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
    )


class NamedOptions(BaseNet):
    """Lets a grid reach into a loss, an optimizer or an encoder that is given by its name."""

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
        """Means of the features of X that were subtracted, 0 for sparse X; a dict for several inputs."""
        return self._input_units("input_mean_", "mean")

    @property
    def input_scale_(self) -> Any:
        """Deviations that the features of X were divided by; a dict for several inputs."""
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

    def _is_full_batch(self) -> bool:
        value = OPTIMIZERS.get(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return not getattr(value, "goes_in_steps", True)


class Decisions(BaseClassifier):
    """A classifier that shows its raw outputs."""

    @follows_namespace
    def decision_function(self, X: Any) -> Any:
        """Return the network's raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes), or a list of those
            For two classes one column, positive where the second is more likely; for several columns of
            labels an array for each, and for ordered classes log probabilities.
        """
        output = self._decided(X)
        with active(device_of(output)):
            return self._targets.decisions(output)
