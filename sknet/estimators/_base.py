"""The base of all estimators: fitting, continuing a fit, predicting."""

import math
import pickle
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from copy import deepcopy
from inspect import signature
from os import PathLike
from typing import Any, Self, SupportsIndex, TypeVar, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sknet._constraints import is_whole, shown
from sknet._frames import is_collection
from sknet._hints import ForeignAttributes
from sknet._late import above
from sknet._params import (
    ParameterObject,
    PlainNumbers,
    described_by,
    explained,
    explained_call,
    names_of,
    unknown_parameter,
)
from sknet._random import check_random_state
from sknet._tree import map_leaves
from sknet.callbacks import Callback, EarlyStopping
from sknet.callbacks._checkpoint import SavedFit
from sknet.device import active, device_of, namespace, stream_key, to_device, to_host
from sknet.engine import Batches, CompiledStep, History, Model, Score
from sknet.engine._inputs import first_input
from sknet.engine._layer_outputs import drawn_rows
from sknet.engine._model_copies import slim_model
from sknet.engine._network import network_of, predict_rows, warn_of_overflow
from sknet.estimators._architecture import Architecture
from sknet.estimators._checks import check_X
from sknet.estimators._fit import EARLIER, Compared, FitArguments, Fitted, Recipe, Request, are_several
from sknet.estimators._fitting import SupportsCallbacks, fit_as_task, fit_network, train_again
from sknet.estimators._inputs import Encoded, Inputs, RowsWithOffset, may_be_missing, sample_of
from sknet.estimators._layers import Attributions, HiddenLayers
from sknet.estimators._members import fit_members
from sknet.estimators._offset import apply_offset
from sknet.estimators._scaling import InputScaling
from sknet.estimators._stored import ESTIMATOR, check_estimator
from sknet.estimators._summary import Summarized
from sknet.estimators._targets import prediction_of
from sknet.losses import LOSSES, Loss
from sknet.losses._wrappers import Averaged

F = TypeVar("F")


class HoldsLists(PlainNumbers, BaseEstimator):
    """Mixin of estimators with parameters that are lists of objects, each reached by its number."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return list(names_of(cast(Hashable, cls)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of nested objects, as ``optimizer__lr`` or
            ``callbacks__0__patience``.

        Returns
        -------
        dict
            Values by name.
        """
        found: dict[str, Any] = super().get_params(deep)
        if deep:
            for name in self._get_param_names():
                for number, item in _objects_in(found[name]):
                    found[f"{name}__{number}"] = item
                    found.update({f"{name}__{number}__{k}": v for k, v in item.get_params().items()})
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr`` or ``callbacks__0__patience``.

        Parameters
        ----------
        **params : dict
            New values, by the names that `get_params` returns.

        Returns
        -------
        self
            The estimator.

        Raises
        ------
        ValueError
            If there is no parameter of this name; the message suggests the right one.
        """
        inside: dict[str, dict[str, Any]] = {}
        for name in list(params):
            own, _, rest = name.partition("__")
            if rest and isinstance(params.get(own, getattr(self, own, None)), (list, tuple)):
                inside.setdefault(own, {})[rest] = params.pop(name)
        nested: list[tuple[Any, dict[str, Any]]] = []
        for own, values in inside.items():
            params[own], within = _with(self, own, params.get(own, getattr(self, own)), values)
            nested += within
        super().set_params(**params)
        for item, values in nested:
            item.set_params(**values)
        return self


def _objects_in(held: Any) -> list[tuple[int, Any]]:
    """Return the objects with parameters that a list or tuple holds, with their numbers."""
    if not isinstance(held, (list, tuple)):
        return []
    return [(i, x) for i, x in enumerate(held) if hasattr(x, "get_params") and not isinstance(x, type)]


def _with(
    estimator: Any, name: str, held: Any, params: Mapping[str, Any]
) -> tuple[Any, list[tuple[Any, dict[str, Any]]]]:
    """Return a list with objects replaced, and objects in it with the values of their parameters."""
    new = list(held)
    inner: dict[int, dict[str, Any]] = {}
    for key, value in params.items():
        number, _, rest = key.partition("__")
        if not (number.isdecimal() and int(number) < len(new)):
            numbers = f"from {name}__0 to {name}__{len(new) - 1}" if new else "none, as it is empty"
            raise ValueError(
                f"Invalid parameter '{name}__{key}' for estimator {type(estimator).__name__}: the objects in "
                f"{name!r} are reached by number, {numbers}."
            )
        if rest:
            inner.setdefault(int(number), {})[rest] = value
        else:
            new[int(number)] = value
    is_replaced = any("__" not in key for key in params)
    found = new if is_replaced and isinstance(held, list) else type(held)(new) if is_replaced else held
    nested = [(new[number], values) for number, values in inner.items()]
    for item, values in nested:
        if not hasattr(item, "set_params") or isinstance(item, type):
            raise ValueError(f"{item!r} in {name!r} has no parameters of its own: {sorted(values)}")
        if isinstance(item, ParameterObject):
            item._resolved(values)
    return found, nested


# What such pickles have in common. They can be opened with this text alone, so it never changes.
WORDS = (
    b"sknet.estimators._mlp MLPRegressor MLPClassifier hidden_layer_sizes activation relu encoder "
    b"dropout loss squared_error log_loss optimizer adam alpha batch_size auto max_iter shuffle "
    b"class_weight calibrate early_stopping validation_fraction validation_split scoring monitor "
    b"refit_on_all n_iter_no_change tol frozen warm_start verbose callbacks device dtype random_state "
    b"n_features_in_ _targets sknet.estimators._targets RealTargets "
    b"sknet.estimators._targets ClassTargets classes numpy._core.multiarray _reconstruct numpy "
    b"ndarray task multiclass regression n_outputs _architecture sknet.estimators._architecture "
    b"Perceptron _lasting scale_target _inputs _frozen _batch sknet.engine.step._signature Batch "
    b"sknet.device._meta MetaArray classes_ model_ sknet.engine._model Model _hyper "
    b"sknet.engine.state._hyper Hyper sknet.optim._adam Adam lr beta1 beta2 eps sknet.losses._regression "
    b"SquaredError sknet.losses._classification LogLoss multilabel label_smoothing pos_weight "
    b"ignore_index compile progress sknet.optim.schedules._base Progress _epoch "
    b"sknet.engine.state._epoch Epoch _stepper sknet.engine.step._stepper Stepper _predictors "
    b"sknet.engine.predict._predictors Predictors _kept_steps _store sknet.engine.state._memory Memory "
    b"module sknet.nn.layers._container Sequential _parameters _buffers _transient _children "
    b"sknet.nn.layers._linear Linear weight sknet.nn._parameter Parameter undrawn data "
    b"numpy._core.numeric _frombuffer requires_grad bias in_features out_features parametrization "
    b"standard sknet.nn.layers._activation ReLU sknet.device._device Device cpu key slots mu nu _resting "
    b"layout sknet.engine.state._layout Layout shapes 0.weight 0.bias 2.weight 2.bias slices builtins "
    b"slice size _flat _buffer_names has_buffers _seed history_ sknet.engine.loop._history History "
    b"callbacks_ _stopping n_iter_ t_ n_outputs_ out_activation_ identity logistic softmax loss_curve_ "
    b"loss_ best_loss_ monitor_ stopped_early_ refit_history_ _compared best_epoch_ validation_scores_ "
    b"best_validation_score_ n_layers_ _is_slim"
)


def packed(estimator: Any) -> tuple[Any, ...] | None:
    """Return what `__reduce_ex__` returns for a slim estimator, or None."""
    buffers: list[Any] = []
    try:
        state = pickle.dumps(estimator.__getstate__(), protocol=5, buffer_callback=buffers.append)
    except (AttributeError, TypeError, pickle.PicklingError):
        return None
    if b"__main__" in state:
        return None
    code = zlib.compressobj(9, zdict=WORDS)
    text = code.compress(state) + code.flush()
    return unpacked, (type(estimator), text, [bytearray(each.raw()) for each in buffers])


def unpacked(cls: Any, text: bytes, buffers: list[bytearray]) -> Any:
    """Return the estimator."""
    state = pickle.loads(zlib.decompressobj(zdict=WORDS).decompress(text), buffers=buffers)
    estimator = cls.__new__(cls)
    estimator.__setstate__(state)
    return estimator


def goes_in_steps(estimator: "BaseNet") -> bool:
    """Tell whether `partial_fit` is available; raise an AttributeError that says why not."""
    if are_several(estimator):
        raise AttributeError(
            f"partial_fit continues a fit, and each fit of an ensemble begins anew: set n_members=1, not "
            f"{estimator.n_members}"
        )
    if estimator._is_full_batch():
        raise AttributeError(
            "partial_fit is only available for stochastic optimizers. lbfgs is not stochastic."
        )
    return True


class BaseNet(ForeignAttributes, SupportsCallbacks, HiddenLayers, Attributions, Summarized, HoldsLists, ABC):
    """Abstract base of all estimators, independent of the names of their parameters."""

    _stored_fields = ESTIMATOR

    def _check_stored(self) -> None:
        check_estimator(self)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = explained(cls.__init__)  # type: ignore[method-assign]
        if "fit" in vars(cls):
            cls.fit = explained_call(cls.fit)  # type: ignore[method-assign]

    @described_by(HoldsLists.set_params)
    def set_params(self, **params: Any) -> Self:
        """Set parameters, also nested ones such as ``optimizer__lr``.

        Parameters
        ----------
        **params : dict
            New values.
        """
        names = self._get_param_names()
        for name in params:
            if name.partition("__")[0] not in names:
                raise unknown_parameter(self, name.partition("__")[0])
        return super().set_params(**params)

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

    def _numbered(self, request: Request, y: Any, reset: bool) -> Any:
        """Return targets as numbers where a fit reads others, which a first one learns."""
        return y

    def _given(self, y: Any) -> Any:
        """Return checked targets as users give them, for what they have written."""
        return y

    def _check_continued(self, y: Any) -> None:
        """Check the targets of a warm start against those of the previous fit."""

    def _weighted(self, recipe: Recipe, y: Any, weight: Any, incremental: bool, like: Any = None) -> Any:
        """Return the sample weights multiplied by the class weights; rows `like` these may decide them."""
        return weight

    def _counted(self, given: FitArguments) -> FitArguments:
        """Return the arguments of a fit without rows that count nothing."""
        return given

    def _take_targets(self) -> None:
        """Set the fitted attributes that say what the targets are."""

    # -- fitting --------------------------------------------------------------------------------

    @explained_call
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        groups: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        callbacks: "list[Callback] | None" = None,
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
    ) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs. A fit on a CuPy array computes on its GPU if `device` is "auto".
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets. If a row has several targets or labels, some of them may be missing (NaN).
        sample_weight : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Weights of samples, or of targets; None for equal weights.
        X_val, y_val, sample_weight_val : like X, y and sample_weight, default=None
            Rows to validate on, instead of rows held out of X. A Pipeline transforms `X_val` like X with
            ``Pipeline(..., transform_input=["X_val"])``.
        groups : array-like of shape (n_samples,), default=None
            Groups that the rows of X belong to: whole groups are held out, or `validation_split` is called
            with them.
        offset, offset_val : array-like of shape (n_rows,) or (n_rows, n_outputs), default=None
            Numbers that are added to the network's outputs, before the inverse link of its loss, for X and
            for `X_val`: the logarithm of an exposure, for instance, or log odds. `predict` takes the offset
            of its rows.
        callbacks : list of Callback, default=None
            Called during this fit, after those of the estimator.
        resume_from : str, PathLike or SavedFit, default=None
            Folder or file of a `sknet.callbacks.Checkpoint`, or the state of a ``KeepState``, to resume from;
            the fit ends as if it had not been interrupted. X, y and all parameters except `max_iter`,
            `verbose`, `warm_start` and `callbacks` must be the same.

        Returns
        -------
        self
            The fitted estimator. A fit that fails leaves it unchanged.

        Raises
        ------
        ValueError
            For parameters, inputs, targets or weights that cannot be used, and for a fit that diverges
            (`NonFiniteError`); for a checkpoint that is damaged (`LoadError`), or that belongs to a fit with
            other parameters, data or another network (`StateError`).
        """

        def fit(beside: list[Callback]) -> None:
            if are_several(self):
                fit_members(self, given, callbacks, resume_from)
            else:
                fit_network(self, given, callbacks=callbacks, resume_from=resume_from, beside=beside)

        validation = X_val, y_val, sample_weight_val
        given = self._counted(FitArguments(X, y, sample_weight, *validation, groups, offset, offset_val))
        if is_collection(X):
            return self._fit_collections(given, callbacks=callbacks, resume_from=resume_from)
        fit_as_task(self, given.rows, fit)
        return self

    def _fit_collections(self, given: FitArguments, *, incremental: bool = False, **options: Any) -> Self:
        """Fit on Dask collections, by the workers that have their partitions."""

        def fit(beside: list[Callback]) -> None:
            above("fit_collections")(self, given, incremental=incremental, beside=beside, **options)

        fit_as_task(self, given.rows, fit, is_part=incremental)
        return self

    def _fit_part(self, given: FitArguments, classes: Any = None) -> Self:
        """Train for one epoch, continuing the previous fit if there is one."""
        given = self._counted(given)
        if is_collection(given.X):
            return self._fit_collections(given, incremental=True, classes=classes)

        if train_again(self, given):
            return self

        def fit(beside: list[Callback]) -> None:
            fit_network(self, given, incremental=True, classes=classes, beside=beside)

        fit_as_task(self, given.rows, fit, is_part=True)
        return self

    # Searches and cross-validation give groups to their splitter, unless `set_fit_request(groups=True)`.
    __metadata_request__fit = {"groups": False}
    _numeric_targets: bool
    _targets_of_any_rank = False
    _targets_may_be_missing = True
    _holds_out_every_class: bool = False
    _targets: Any
    _architecture: Architecture
    _inputs: Inputs | Encoded | None = None
    _has_importances = True
    _input_scaling: InputScaling | None = None
    _allows_nan = False
    _stopping: "dict[str, Any] | None"
    _compared: "Compared | None"
    _frozen: tuple[str, ...] = ()
    best_loss_: float | None

    def _take(self, fitted: Fitted) -> None:
        """Set all fitted attributes, after everything has succeeded."""
        training, model = fitted.training, fitted.model
        request, history, compared = training.request, training.history, training.compared
        attributes: dict[str, Any] = self.__dict__
        self._take_targets()
        for name in ("histories_", "_is_slim"):  # of an ensemble, and of a slim copy
            attributes.pop(name, None)
        # Of a stream, the rows of the first part serve.
        if not (request.incremental and request.continuing and "_sample" in attributes):
            attributes.pop("_sample", None)
            sample = sample_of(training.training.X) if self._has_importances else None
            if sample is not None and not np.isnan(sample).any():  # no path leads to a missing number
                attributes["_sample"] = (sample,)
        best, scores = training.best_epoch, training.validation_scores
        activation = OUT_ACTIVATIONS.get((self._targets.task, type(request.recipe.loss).__name__), "identity")
        attributes.update(
            model_=model,
            history_=history,
            callbacks_=request.callbacks,
            n_outputs_=self._targets.n_outputs * training.loss.outputs_per_target,
            out_activation_=activation,
            monitor_=training.network.monitor,
            stopped_early_=fitted.stopped_early,
            refit_history_=fitted.refit_history,
            # The weights of a second training are not those that were compared.
            _compared=compared if fitted.refit_history is None else None,
            best_epoch_=best,
            validation_scores_=scores,
            best_validation_score_=scores[best - 1] if scores and best else None,
        )
        self._take_part(training.stopping, fitted.n_iter)
        if compared is not None:
            self.best_loss_ = None

    def _take_part(self, stopping: EarlyStopping, n_iter: int) -> None:
        """Set the fitted attributes that another part of a stream changes."""
        attributes: dict[str, Any] = self.__dict__
        curve = attributes["history_"].get("loss", [])
        attributes.update(
            _stopping=stopping.state(),
            n_iter_=n_iter,
            loss_curve_=curve,
            t_=attributes["model_"].progress.samples,
            loss_=curve[-1] if curve else math.nan,
            best_loss_=stopping.best_,
        )

    def slim(self) -> Self:
        """Return a smaller copy without training state, which makes the same predictions.

        Its pickle takes 2 to 3 kB besides the parameters of a small network. It has no history, and a fit
        that continues it begins with a new state of the optimizer and with full patience.

        Returns
        -------
        estimator
            The fitted copy; this estimator is unchanged.

        Raises
        ------
        NotFittedError
            If this estimator is not fitted.

        Examples
        --------
        >>> import pickle
        >>> from sklearn.datasets import load_digits
        >>> from sknet import MLPClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = MLPClassifier((200,), tol=0.1, random_state=0).fit(X, y)
        >>> len(pickle.dumps(clf)) > 2 * len(pickle.dumps(clf.slim()))
        True
        >>> bool((clf.slim().predict_proba(X) == clf.predict_proba(X)).all())
        True
        """
        check_is_fitted(self)
        other = type(self).__new__(type(self))
        blank: dict[str, Any] = {
            "history_": History(),
            "callbacks_": [],
            "loss_curve_": [],
            "refit_history_": None,
        }
        other.__dict__.update(vars(self), model_=slim_model(self.model_), **blank)
        other.__dict__.pop("_sample", None)
        other.validation_scores_ = None if self.validation_scores_ is None else []
        other._stopping = other._compared = None
        if "histories_" in vars(self):
            other.histories_ = []
        other._is_slim = True
        return other

    _is_slim = False

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        # Pickles of earlier versions lack later parameters, which were as if they had these values.
        for name in set(self._get_param_names()) - state.keys():
            default = signature(type(self).__init__).parameters[name].default
            setattr(self, name, EARLIER.get(name, default))

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        found = packed(self) if self._is_slim else None
        return super().__reduce_ex__(protocol) if found is None else found

    def __copy__(self) -> Self:
        other = type(self).__new__(type(self))
        other.__setstate__(self.__getstate__())
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = memo[id(self)] = type(self).__new__(type(self))
        state: Any = self.__getstate__()
        other.__setstate__(deepcopy(state, memo))
        return other

    # -- fitted -----------------------------------------------------------------------------------

    @property
    def compiled_step_(self) -> CompiledStep:
        """The training step of the last fit as a program, with its ``source`` and ``gradient.graph``.

        The step is captured at the first access. L-BFGS has none.
        """
        if "_batch" not in self.__dict__:
            why = "it was fitted over the full batch" if self.__sklearn_is_fitted__() else "call fit first"
            why = "it is an ensemble" if "histories_" in self.__dict__ else why
            raise AttributeError(f"this {type(self).__name__} has no compiled step: {why}")
        return CompiledStep(self.model_, *self._batch)

    def _predicted(self, X: Any, *args: Any, by: Callable[..., Any] = predict_rows) -> Any:
        """Return what ``by(model, X, *args)`` computes, such as a link of the outputs, on the device of X."""
        if "model_" not in self.__dict__:
            check_is_fitted(self)
        model, scaling = self.model_, self._input_scaling
        if by is predict_rows and type(X) is np.ndarray and self._is_known_table(X):
            units = None if scaling is None else scaling.of_table
            found = network_of(model).unchecked(X, *(args or ("raw",)), units=units)
            if found is not None:
                return found
        if type(X) is RowsWithOffset:
            head = args[1] if args else None
            return apply_offset(
                model.loss_function, self._predicted(X.X), X.offset, head, type(self).__name__
            )
        mine = model.dtype.type
        with np.errstate(all="ignore"):  # one warning at the end says more than NumPy's on the way
            first = mine if scaling is None else np.float64
            dtypes = [first, np.float32 if first is np.float64 else np.float64]
            inputs = self._inputs
            X = check_X(self, X, dtypes) if inputs is None else inputs.read(self, X, dtypes)
            read = X if scaling is None else scaling.scaled(X, mine, is_lazy=by is predict_rows)
            result = by(model, read, *args)
            if result is None:  # gradients with respect to integers
                return None
            if isinstance(result, dict):  # gradients with respect to several inputs; integers have none
                place = device_of(first_input(X))
                return {name: to_device(x, place) for name, x in result.items() if x is not None}
            warn_of_overflow(result, X, type(self).__name__)
        return (
            result
            if type(X) is np.ndarray and type(result) is np.ndarray
            else to_device(result, device_of(first_input(X)))
        )

    def _answered(self, X: Any, kind: str, coverage: Any = None) -> Any:
        """Return a kind of prediction, see `prediction_of`, on the device of X; texts on the host."""
        if "model_" not in self.__dict__:
            check_is_fitted(self)
        name, head, result = prediction_of(self, kind, coverage)
        output = self._predicted(X, name, head)
        if type(output) is np.ndarray:
            return result(output)
        place = device_of(output)
        if kind != "labels" and self._targets.task != "heads":
            with active(place):
                return result(output)
        found = result(to_host(output))
        return map_leaves(lambda x: to_device(x, place) if x.dtype.kind in "biuf" else x, found)

    def _is_known_table(self, X: np.ndarray) -> bool:
        """Tell whether X is a table with as many columns as in the first fit, which had no names."""
        fitted = self.__dict__
        is_table = self._inputs is None and "feature_names_in_" not in fitted
        return is_table and X.ndim == 2 and X.shape[1] == fitted.get("n_features_in_")

    def _drawn(self, X: Any, kind: str, n_draws: Any, random_state: Any) -> Any:
        """Return a kind of predictions of shape (n_draws, n_samples, ...), with dropout as in training."""
        if not is_whole(n_draws, 1, 2**31 - 1):
            raise ValueError(f"n_draws must be a positive integer, got {shown(n_draws)}")
        n_draws, source = int(n_draws), check_random_state(random_state)
        keys = [stream_key(np.random.RandomState(source.randint(2**31))) for _ in range(n_draws)]
        _, head, result = prediction_of(self, kind)
        found = result(self._predicted(X, head, keys, by=drawn_rows))
        with active(device_of(found)):
            if n_draws > 1 and bool((found[:, :1] == found).all()):
                raise ValueError(
                    f"all {n_draws} draws of this {type(self).__name__} are the same: its network has no "
                    "dropout. Fit one with dropout, or let the members of an ensemble differ, n_members=5 "
                    "and predict(X, return_std=True)"
                )
            return namespace(found).moveaxis(found, 1, 0)

    def _frozen_as(self, kind: Callable[..., F], *own: Any) -> F:
        """Return a frozen predictor of a class, with what it has of its own."""
        return kind(
            self.model_,
            self._targets,
            self._inputs or self.n_features_in_,
            self._architecture.label(self.model_.module),
            *own,
            names=getattr(self, "feature_names_in_", None),
            scaling=self._input_scaling,
            allows_nan=may_be_missing(self),
        )

    @property
    def _loss(self) -> Loss | None:
        """The loss of the fit, or else the parameter; None if that is missing or invalid."""
        if "model_" in self.__dict__:
            return self.model_.loss_function
        loss = getattr(self, "loss", None)
        loss = LOSSES[loss]() if isinstance(loss, str) and loss in LOSSES else loss
        if not isinstance(loss, Loss):
            return None
        return Averaged([loss]) if are_several(self) else loss

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


OF_LOGITS = ("LogLoss", "ClippedLogLoss", "Focal")
OUT_ACTIVATIONS = {
    **{(task, loss): "logistic" for task in ("binary", "multilabel") for loss in OF_LOGITS},
    **{("multiclass", loss): "softmax" for loss in OF_LOGITS},
    **{("regression", loss): "exp" for loss in ("Poisson", "Gamma", "Tweedie")},
    ("regression", "KLDivergence"): "softmax",
}
