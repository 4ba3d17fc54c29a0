"""Base of transformers: a code, the way back to X, and a score that is the loss."""

from collections.abc import Callable
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet._late import available_if
from sknet._params import arguments_of, described_by
from sknet.callbacks import Callback
from sknet.callbacks._checkpoint import SavedFit
from sknet.device import active, device_of, to_device
from sknet.engine import Batches, Model, Score
from sknet.engine._inputs import first_input
from sknet.engine._layer_outputs import Chosen, model_layer, part_rows
from sknet.engine._optimizer import mean_loss
from sknet.estimators._base import goes_in_steps
from sknet.estimators._checks import without_padding
from sknet.estimators._fit import FitArguments, Recipe
from sknet.estimators._frozen import FrozenTransformer
from sknet.estimators._heads import checked_codes, has_decoder
from sknet.estimators._inputs import as_host, follows_namespace, on_host
from sknet.estimators._layers import HiddenLayers, LayerOutput, numbered
from sknet.estimators._network import reconstructed
from sknet.estimators._options import NamedOptions
from sknet.estimators._targets import DECODER, ArrayTargets, RealTargets, prediction_of

ENCODER = "encoder"


class Coding(HiddenLayers, auto_wrap_output_keys=()):  # type: ignore[call-arg]
    """`HiddenLayers` with a layer of one's own as the default: the code."""

    code: int | str | None = None

    def _layer_of_code(self) -> int | str:
        """Return the layer whose output is the code."""
        if self.code is not None:
            return self.code
        return ENCODER if ENCODER in dict(self.model_.module.named_children()) else -2

    def _meant(self, layer: int | str | None) -> int | str:
        check_is_fitted(self)
        return self._layer_of_code() if layer is None else layer

    @follows_namespace
    @described_by(HiddenLayers.transform)
    def transform(self, X: Any, layer: int | str | None = None) -> Any:
        """Return the code of X, or the output of another layer.

        Parameters
        ----------
        layer : int, str or None, default=None
            The number or the path of a layer, as for `MLPClassifier.transform`; None is the code.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Output of the layer, in the container chosen by `set_output`.
        """
        return super().transform(X, self._meant(layer))

    @described_by(HiddenLayers.get_feature_names_out)
    def get_feature_names_out(self, input_features: Any = None, layer: int | str | None = None) -> Any:
        """Return names for the columns that `transform` returns.

        Parameters
        ----------
        layer : int, str or None, default=None
            As for `transform`.
        """
        return super().get_feature_names_out(input_features, self._meant(layer))

    def layer(self, layer: int | str | None = None) -> LayerOutput:
        """Return a transformer whose output is the code or that of another layer, with a copied network.

        Parameters
        ----------
        layer : int, str or None, default=None
            As for `transform`.

        Returns
        -------
        LayerOutput
            A fitted transformer.
        """
        return super().layer(self._meant(layer))


class BaseTransformer(Coding, NamedOptions):
    _numeric_targets = _targets_of_any_rank = True
    _targets_may_be_missing = False
    _has_importances = False
    target: str = "X"

    def _coder(self) -> Any:
        return self.model_.module if self.__sklearn_is_fitted__() else getattr(self, "module", None)

    def _recipe(self) -> Recipe:
        recipe = super()._recipe()
        measures = recipe.scoring is not None or self._is_full_batch()
        return recipe if measures else recipe._replace(scoring="loss")

    def _new_targets(self, recipe: Recipe, y: Any, classes: Any) -> RealTargets | ArrayTargets:
        may_be_ids = recipe.architecture.is_foreign and y.dtype.kind in "iu"
        if y.ndim <= 2 and "regression" in recipe.loss.tasks and not may_be_ids:
            return RealTargets(y)
        return ArrayTargets(y, recipe.loss, may_be_ids)

    def _score_of(self, batches: Batches, model: Model) -> Callable[[], Score]:
        return self._targets.new_score(batches, model.loss_function)

    def _target(self, X: Any, y: Any) -> Any:
        if not (isinstance(self.target, str) and self.target == "y"):
            return X
        if y is None:
            raise ValueError(
                f"{type(self).__name__}(target='y') requires y to be passed, but the target y is None: pass "
                "y, or set target='X' to reconstruct X"
            )
        return y

    @described_by(NamedOptions.fit)
    def fit(  # type: ignore[override]  # codes have no offset
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        groups: Any = None,
        callbacks: "list[Callback] | None" = None,
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
    ) -> Self:
        """Fit the network, which learns to return X, or with ``target="y"`` the numbers in y.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Ignored, unless ``target="y"``.
        sample_weight, groups : array-like of shape (n_samples,), default=None
            Sample weights, None for equal weights; and groups of rows, which are held out as a whole.
        X_val, y_val, sample_weight_val : array-like, default=None
            Rows to validate on, instead of rows held out of X; `y_val` is like y.

        Raises
        ------
        ValueError
            For parameters or inputs that cannot be used, and for a fit that diverges (`NonFiniteError`).
        """
        given = arguments_of(locals())
        given |= {"y": self._target(X, y), "y_val": y_val if X_val is None else self._target(X_val, y_val)}
        return super().fit(**given)

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
        y_val = y_val if X_val is None else self._target(X_val, y_val)
        return self._fit_part(
            FitArguments(X, self._target(X, y), sample_weight, X_val, y_val, sample_weight_val)
        )

    @available_if(has_decoder)
    @follows_namespace
    def inverse_transform(self, X: Any) -> Any:
        """Reconstruct X from its codes, by the decoder."""
        check_is_fitted(self)
        model, (_, head, result) = self.model_, prediction_of(self, DECODER)
        codes = checked_codes(
            self, X, self._layer_shape(self._layer_of_code()), has_steps=self._inputs is not None
        )
        with np.errstate(all="ignore"):
            found = part_rows(model, codes, DECODER, head)
        with active(model.device, model.precision):
            return to_device(result(found), device_of(first_input(codes)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the negative mean loss; larger is better.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Ignored, unless ``target="y"``.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Negative loss of reconstructing X, or of predicting y; the squared error is halved.
        """
        check_is_fitted(self)
        model, targets = self.model_, self._targets
        output = to_device(self._predicted(as_host(X)), model.device)
        y = targets.encode(self._learned(X, y))
        y = y if targets.units is None else y.astype(model.dtype)
        weight = without_padding(targets, X, y, on_host(sample_weight), model.dtype)
        with active(model.device, model.precision):
            loss, _ = mean_loss(model, output, y, weight)
        return -loss

    def _learned(self, X: Any, y: Any) -> Any:
        """Return what the network has learned to return, as an array on the host."""
        # What is standardized, is so in double precision.
        kind = self.model_.dtype.type if self._targets.units is None else np.float64
        found = self._target(X, y)
        if found is X and self._inputs is not None:
            found = reconstructed(self, self._inputs.read(self, X, [kind]))
        found = on_host(found)
        is_real = self._targets.task == "regression"
        found = found.toarray() if hasattr(found, "toarray") else found
        return np.asarray(found, kind if is_real else None)

    def freeze(self) -> FrozenTransformer:
        """Return a transformer without training state: small, picklable, and fast for single rows.

        Returns
        -------
        FrozenTransformer
            A copy of the parameters as they are now.
        """
        return self._frozen_as(FrozenTransformer, self._meant(None))

    def _chosen(self, X: Any, target: Any) -> Chosen:
        meant = model_layer(self.model_, self._example(), self._layer_of_code())
        n_outputs = meant.shape[0] if len(meant.shape) == 1 else 0
        return numbered(self, X, target, n_outputs, None, meant)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = isinstance(self.target, str) and self.target == "y"
        return tags
