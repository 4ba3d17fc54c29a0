"""What all multi-layer perceptrons share: fitting, continuing a fit, predicting."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from sknet._params import explained, unknown_parameter, validate_parameters
from sknet.device import device_of, to_device, to_host
from sknet.engine import (
    Batches,
    CompiledStep,
    History,
    Model,
    Plateau,
    Score,
    Validation,
    chunk_rows,
    minimize,
    predict_rows,
    train,
)
from sknet.engine.predict import Head, warn_of_overflow
from sknet.estimators._input import check_weights, check_X, check_X_y
from sknet.estimators._layer_arrays import LayerArrays, write_arrays
from sknet.estimators._recipe import Recipe, linear_layers
from sknet.estimators._undo import all_or_nothing
from sknet.exceptions import NonFiniteError
from sknet.losses import LOSSES, Loss

__all__ = ["BaseMLP", "goes_in_steps"]

DEFAULT_BATCH = 200
NOT_FINITE = (
    "Solver produced non-finite parameter weights. The input data may contain large values and need to be "
    "preprocessed."
)


def goes_in_steps(estimator: "BaseMLP") -> bool:
    """Tell whether `partial_fit` is available; raise an AttributeError that says why not."""
    if estimator._is_full_batch():
        raise AttributeError(
            "partial_fit is only available for stochastic optimizers. lbfgs is not stochastic."
        )
    return True


class BaseMLP(BaseEstimator, ABC):
    """Abstract base of the perceptrons, independent of the names of their parameters."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of such a name; the message says what it is called here.
        """
        names = self._get_param_names()
        for name in params:
            if name.partition("__")[0] not in names:
                raise unknown_parameter(self, name.partition("__")[0])
        return super().set_params(**params)  # type: ignore[no-any-return]

    # -- what a subclass says -------------------------------------------------------------------

    @abstractmethod
    def _recipe(self) -> Recipe:
        """Return the parameters in the engine's terms."""

    @abstractmethod
    def _is_full_batch(self) -> bool:
        """Tell whether the optimizer is L-BFGS."""

    @abstractmethod
    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> Any:
        """Return the encoder for the targets of a first fit."""

    @abstractmethod
    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        """Return a function that creates an empty score for these rows."""

    def _check_continued(self, y: Any) -> None:
        """Check the targets of a warm start against those of the previous fit."""

    def _weighted(self, recipe: Recipe, y: Any, weight: Any, incremental: bool) -> Any:
        """Return the sample weights multiplied by the class weights."""
        return weight

    # -- fitting --------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs; a CuPy array is computed with on its GPU if `device` is "auto".
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; None weights all alike.

        Returns
        -------
        self
            Fitted. If the fit fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            For parameters, inputs, targets or weights that cannot be used, and for a fit that
            diverges (`NonFiniteError`).
        """
        with all_or_nothing(self, in_place=False):
            validate_parameters(self)
            return self._fit(X, y, sample_weight, incremental=False)

    def _fit_part(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Train for one epoch, continuing the previous fit if there is one."""
        with all_or_nothing(self, in_place=True):
            validate_parameters(self)
            return self._fit(X, y, sample_weight, incremental=True, classes=classes)

    def _fit(self, X: Any, y: Any, sample_weight: Any, incremental: bool, classes: Any = None) -> Self:
        recipe = self._recipe()
        if incremental and recipe.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True")
        continuing = hasattr(self, "model_") and (incremental or self.warm_start)
        X, y = check_X_y(
            self, X, y, recipe.accepted_dtypes(), reset=not continuing, numeric=self._numeric_targets
        )
        weight = check_weights(sample_weight, X, X.dtype if recipe.dtype == "auto" else recipe.dtype)
        if not continuing:
            self._targets = self._new_targets(recipe, y, classes)
        elif not incremental:
            self._check_continued(y)
        targets = self._targets
        encoded = targets.encode(y)
        loss = recipe.loss.for_task(targets.task)
        loss.check_target(encoded, n_outputs=targets.n_outputs)
        weight = self._weighted(recipe, y, weight, incremental)
        if continuing:
            self._check_network(recipe)
            # partial_fit trains the model in place, and is undone if it fails; fit trains a copy, so that
            # a failure has no effect.
            model = self.model_ if incremental else self.model_.copy()
            model.adopt(recipe.optimizer, loss, recipe.alpha)
        else:
            self._network_parameters = recipe.network_parameters()
            model = self._new_model(recipe, loss, X)
        if self._is_full_batch():
            self._fit_full_batch(recipe, model, X, encoded, weight)
        else:
            self._fit_in_steps(recipe, model, X, encoded, weight, incremental, continuing)
        return self

    _numeric_targets: bool
    best_loss_: float | None

    def _new_model(self, recipe: Recipe, loss: Loss, X: Any) -> Model:
        return Model(
            recipe.network(int(X.shape[1]), self._targets.n_outputs * loss.outputs_per_target),
            loss=loss,
            optimizer=recipe.optimizer,
            alpha=recipe.alpha,
            dtype=X.dtype if recipe.dtype == "auto" else recipe.dtype,
            device=device_of(X) if recipe.device == "auto" else recipe.device,
            random_state=recipe.random_state,
        )

    def _check_network(self, recipe: Recipe) -> None:
        """Raise a ValueError if a continued fit asks for another network than the fitted one."""
        for name, value in recipe.network_parameters().items():
            before = self._network_parameters[name]
            if value != before:
                raise ValueError(
                    f"{name} was {before!r} when this network was fitted and is {value!r} now: a fit that "
                    "continues cannot change it. Set warm_start=False and call fit for a new network."
                )

    def _fit_in_steps(
        self, recipe: Recipe, model: Model, X: Any, y: Any, weight: Any, incremental: bool, continuing: bool
    ) -> None:
        settings = recipe.settings if not incremental else replace(recipe.settings, max_iter=1)
        rows, validation = None, None
        if recipe.early_stopping:
            rows, held_out = self._split(model, recipe.validation_fraction, y, weight)
            chunk = chunk_rows(model, tuple(X.shape[1:]))
            kept = Batches(X, y, weight, chunk, model.dtype, model.device, held_out)
            validation = Validation(kept, self._score_of(kept, model))
        n_samples = int(X.shape[0]) if rows is None else len(rows)
        batches = Batches(
            X,
            y,
            weight,
            _batch_size(recipe.batch_size, n_samples, 6 if incremental else 5),
            model.dtype,
            model.device,
            rows,
        )
        history = self.history_.copy() if continuing else History()
        plateau = Plateau(settings.n_iter_no_change, settings.tol, higher_is_better=validation is not None)
        if continuing:
            plateau.resume(self._plateau)
        try:
            outcome = train(
                model, batches, history, plateau, settings, self._score_of(batches, model), validation
            )
        except NonFiniteError as error:
            raise (
                error if recipe.strict else NonFiniteError(f"{NOT_FINITE} ({error})", error.parameter)
            ) from None
        if outcome.best_weights is not None:
            model.restore_weights(outcome.best_weights)
        _check_finite_parameters(model)
        self._batch = batches.like()
        self._take(model, history, plateau, outcome.n_iter, validation is not None)
        if not (incremental or outcome.converged or outcome.interrupted):
            warnings.warn(
                f"Stochastic Optimizer: Maximum iterations ({settings.max_iter}) reached and the "
                "optimization hasn't converged yet.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _split(self, model: Model, fraction: float, y: Any, weight: Any) -> tuple[Any, Any]:
        """Return the training and validation rows, drawn as scikit-learn's networks draw them."""
        from sklearn.model_selection import train_test_split  # it loads half of scikit-learn

        # Shares of classes are kept for two classes only, as there: the same seed gives the same split.
        stratify = y.astype(bool) if self._targets.task == "binary" else None
        training, held_out = train_test_split(
            np.arange(len(y)), random_state=model.random_state, test_size=fraction, stratify=stratify
        )
        if len(held_out) < 2:
            raise ValueError(
                "The validation set is too small. Increase 'validation_fraction' or the size of your dataset."
            )
        for rows, what in ((training, "the training rows"), (held_out, "the validation set")):
            if weight is not None and not weight[rows].any():
                raise ValueError(
                    f"all sample weights of {what} are zero: give more rows a positive weight, or set "
                    "early_stopping=False"
                )
        return training, held_out

    def _fit_full_batch(self, recipe: Recipe, model: Model, X: Any, y: Any, weight: Any) -> None:
        for name in ("early_stopping", "dropout"):
            if recipe.strict and getattr(recipe, name):
                raise ValueError(
                    f"{name}={getattr(recipe, name)} needs an optimizer that goes step by step, got LBFGS: "
                    "use Adam()"
                )
        batches = Batches(X, y, weight, int(X.shape[0]), model.dtype, model.device)
        settings = recipe.settings
        history = History()
        n_iter, loss = minimize(model, batches, settings.max_iter, settings.tol, settings.verbose, history)
        plateau = Plateau(settings.n_iter_no_change, settings.tol, higher_is_better=False)
        self._take(model, history, plateau, n_iter, validated=False)
        self.loss_ = self.best_loss_ = loss

    def _take(self, model: Model, history: History, plateau: Plateau, n_iter: int, validated: bool) -> None:
        """Set all fitted attributes, after everything has succeeded."""
        self.model_, self.history_, self._plateau = model, history, plateau
        self.n_iter_ = n_iter
        self.t_ = model.progress.samples
        self.n_outputs_ = self._targets.n_outputs * model.loss_function.outputs_per_target
        self.n_layers_ = len(linear_layers(self._network_parameters)) + 1
        self.out_activation_ = OUT_ACTIVATIONS.get(
            (self._targets.task, type(model.loss_function).__name__), "identity"
        )
        self.loss_curve_ = history.get("loss", [])
        self.loss_ = self.loss_curve_[-1] if self.loss_curve_ else math.nan
        self.best_loss_ = None if validated else plateau.best
        self.validation_scores_ = history.get("validation_score", []) if validated else None
        self.best_validation_score_ = plateau.best if validated else None

    # -- fitted -----------------------------------------------------------------------------------

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

    @property
    def compiled_step_(self) -> CompiledStep:
        """The training step of the last fit as a program: print its `source`, or see its `gradient.graph`.

        It is captured when one of these is asked for. L-BFGS has none.
        """
        if "_batch" not in self.__dict__:
            why = "it was fitted over the full batch" if self.__sklearn_is_fitted__() else "call fit first"
            raise AttributeError(f"this {type(self).__name__} has no compiled step: {why}")
        return CompiledStep(self.model_, *self._batch)

    def _of_linear_layers(self, parameter: str, name: str) -> LayerArrays:
        if "model_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet: call fit first")
        model, arrays = self.model_, self.model_.evaluation_parameters
        paths = [f"{path}.{parameter}" for path in linear_layers(self._network_parameters)]
        found = [to_host(arrays[path]) for path in paths]
        return LayerArrays(found, lambda values: write_arrays(model, paths, values, name))

    def _predicted(self, X: Any, name: str = "raw", head: Head | None = None) -> Any:
        """Return a head's result for the network's outputs, on the device of X."""
        if "model_" not in self.__dict__:
            check_is_fitted(self)
        model = self.model_
        mine = model.dtype.type
        with np.errstate(all="ignore"):  # one warning at the end says more than NumPy's on the way
            X = check_X(self, X, [mine, np.float32 if mine is np.float64 else np.float64])
            result = predict_rows(model, X, name, head)
            warn_of_overflow(result, X, type(self).__name__, stacklevel=4)
        return (
            result
            if type(X) is np.ndarray and type(result) is np.ndarray
            else to_device(result, device_of(X))
        )

    def _link(self, name: str) -> Head | None:
        """Return a method of the fitted loss, applied to raw outputs; None before the fit."""
        return getattr(self.model_.loss_function, name) if self.__sklearn_is_fitted__() else None

    @property
    def _loss(self) -> Loss | None:
        """The loss of the fit, or else the parameter; None if that is missing or invalid."""
        if self.__sklearn_is_fitted__():
            return self.model_.loss_function
        loss = getattr(self, "loss", None)
        loss = LOSSES[loss]() if isinstance(loss, str) and loss in LOSSES else loss
        return loss if isinstance(loss, Loss) else None

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


OUT_ACTIVATIONS = {
    **{(task, loss): "logistic" for task in ("binary", "multilabel") for loss in ("LogLoss", "Focal")},
    **{("multiclass", loss): "softmax" for loss in ("LogLoss", "Focal")},
    **{("regression", loss): "exp" for loss in ("Poisson", "Gamma", "Tweedie")},
    ("regression", "KLDivergence"): "softmax",
}


def _batch_size(batch_size: int | str, n_samples: int, stacklevel: int) -> int:
    if isinstance(batch_size, str):
        return min(DEFAULT_BATCH, n_samples)
    if batch_size > n_samples:
        warnings.warn(
            f"Got `batch_size` less than 1 or larger than sample size: {batch_size} rows of {n_samples}. "
            "It is going to be clipped.",
            UserWarning,
            stacklevel=stacklevel,
        )
    return int(np.clip(batch_size, 1, n_samples))


def _check_finite_parameters(model: Model) -> None:
    for name, array in model.evaluation_parameters.items():
        if not np.isfinite(to_host(array)).all():
            raise NonFiniteError(f"{NOT_FINITE} (first in parameter {name!r}, after the last update)", name)
