"""Frozen classifiers, regressors and transformers: what they predict with a frozen network."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._available import available_if
from sknet._fields import ABOVE_ZERO, ABSENT, Each, Named
from sknet.core import no_grad
from sknet.engine.extend import Head, Part
from sknet.estimators._decoding import DECODER, checked_codes, has_decoder
from sknet.estimators._encoded import Encoded
from sknet.estimators._frozen_network import Frozen
from sknet.estimators._heads import (
    check_deviations,
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    interval_head,
    probability_head,
)
from sknet.estimators._inputs import Inputs
from sknet.estimators._reading import forward_of, with_lengths
from sknet.estimators._targets import ArrayTargets, ClassEncoder, RealTargets
from sknet.nn import Module, Scope

if TYPE_CHECKING:
    from sknet.engine import Model
    from sknet.estimators._layers import LayerOutput

__all__ = ["FrozenClassifier", "FrozenRegressor", "FrozenTransformer"]


class FrozenClassifier(Frozen):
    """A classifier that only predicts: small, picklable, and with no state of a training.

    Made by ``MLPClassifier.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : ClassEncoder
        The labels.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        What the network is called.
    temperature : float, tuple of float or None, default=None
        By which probabilities are calibrated.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(optimizer="lbfgs", max_iter=500, random_state=0).fit(X, y)
    >>> frozen = clf.freeze()
    >>> frozen
    FrozenClassifier(4-100-3, relu, LogLoss, float64)
    >>> bool((frozen.predict(X) == clf.predict(X)).all())
    True
    """

    _targets: ClassEncoder
    _kind = "classifier"
    _stored_fields = {
        "_targets": Named("ClassEncoder"),
        "_temperature": [
            ABOVE_ZERO,
            Each((tuple,), [ABOVE_ZERO, Each((tuple, list), ABOVE_ZERO)]),
            None,
            ABSENT,
        ],
    }
    _stored = (*Frozen._stored, "_temperature")

    def __init__(
        self,
        model: "Model",
        targets: ClassEncoder,
        inputs: "int | Inputs | Encoded",
        label: str,
        temperature: Any = None,
        *,
        names: Any = None,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names)
        self._temperature = temperature

    @property
    def classes_(self) -> Any:
        """The labels, sorted."""
        return self._targets.classes

    def decision_function(self, X: Any, *, lengths: Any = None) -> Any:
        """Return raw outputs, as the estimator's method of this name does for X and its `lengths`."""
        return self._targets.decisions(self._decided(X, lengths))

    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return labels, as the estimator's method of this name does for X and its `lengths`."""
        return self._targets.decode(self._decided(X, lengths), self._loss.threshold)

    def _decided(self, X: Any, lengths: Any = None) -> Any:
        found = self._of_row(X, "decisions") if lengths is None else None
        if found is None:
            head = self._targets.deciding(self._loss, self._temperature)
            found = self._predicted(with_lengths(X, lengths), "decisions", head)
        return found

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Return probabilities, as the estimator's method of this name does for X and its `lengths`."""
        return self._probable(X, lengths, "probabilities", "predict")

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Return log probabilities, as the estimator's method of this name does for X and its `lengths`."""
        return self._probable(X, lengths, "log_probabilities", "log_predict")

    def _probable(self, X: Any, lengths: Any, name: str, link: str) -> Any:
        found = self._of_row(X, name) if lengths is None else None
        if found is None:
            head = probability_head(self._loss, self._targets, self._temperature, link)
            found = self._predicted(with_lengths(X, lengths), name, head)
        return self._targets.per_column(found)


class FrozenTransformer(Frozen):
    """A transformer that only transforms: small, picklable, and with no state of a training.

    Made by ``Autoencoder.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted network; what it computes with is copied.
    targets : RealTargets or ArrayTargets
        What it has learned.
    inputs : int, Inputs or Encoded
        Columns of X, or what else the network takes.
    label : str
        What the network is called.
    code : int or str
        The layer whose output `transform` returns.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import Autoencoder
    >>> X, _ = load_iris(return_X_y=True)
    >>> coder = Autoencoder((8, 2), tol=0.1, random_state=0).fit(X)
    >>> coder.freeze().transform(X[:3]).shape
    (3, 2)
    """

    _targets: RealTargets | ArrayTargets
    _kind = "transformer"
    _stored_fields = {
        "_code": [int, str, ABSENT],
    }
    _stored = (*Frozen._stored, "_code")

    def __init__(
        self,
        model: "Model",
        targets: RealTargets | ArrayTargets,
        inputs: "int | Inputs | Encoded",
        label: str,
        code: Any,
        *,
        names: Any = None,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names)
        self._code = code

    def transform(self, X: Any, layer: int | str | None = None, *, lengths: Any = None) -> Any:
        """Return the code or the output of a layer, as the estimator's method does for X and `lengths`."""
        return super().transform(X, self._code if layer is None else layer, lengths=lengths)

    @available_if(has_decoder)
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return what the decoder makes of codes, as the estimator's method does for X and `lengths`."""
        shape, has_steps = self._layer_shape(self._code), not isinstance(self._inputs, int)
        codes = checked_codes(self, with_lengths(X, lengths), shape, has_steps=has_steps)
        with np.errstate(all="ignore"):
            head = self._targets.head(self._loss)
            found = self._passes.compute(codes, DECODER, head, Part(DECODER), DECODER)
        return self._targets.restore(found)

    def _network(self) -> Module:
        return self._module

    def _parts(self) -> dict[str, tuple[Module, Any]]:
        decoder = dict(self._module.named_children()).get(DECODER)
        if decoder is None:
            return {}
        example = self._example()
        with no_grad():
            codes = self._layer(self._code)(self._module, Scope({}), example)
        takes_lengths = (
            isinstance(example, dict) and "lengths" in (forward_of(decoder) or {}).keys() & example
        )
        if not takes_lengths:
            return {DECODER: (decoder, (codes,))}
        name = next(iter(forward_of(decoder) or {}))
        return {DECODER: (decoder, {name: codes, "lengths": example["lengths"]})}

    def layer(self, layer: int | str | None = None) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, the code by default."""
        return super().layer(self._code if layer is None else layer)


class FrozenRegressor(Frozen):
    """A regressor that only predicts: small, picklable, and with no state of a training.

    Made by ``MLPRegressor.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : RealTargets
        The number of outputs.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        What the network is called.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import MLPRegressor
    >>> X, y = make_regression(100, 5, random_state=0)
    >>> reg = MLPRegressor((8,), optimizer="lbfgs", max_iter=1000, random_state=0).fit(X, y)
    >>> bool((reg.freeze().predict(X[:1]) == reg.predict(X[:1])).all())
    True
    """

    _targets: RealTargets
    _kind = "regressor"
    _stored_fields = {
        "_targets": Named("RealTargets", "ArrayTargets"),
    }

    def predict(self, X: Any, return_std: bool = False, *, lengths: Any = None) -> Any:
        """Return predictions for X and its `lengths`, with deviations too if `return_std`."""
        found = self._of_row(X, "means") if lengths is None else None
        if found is None:
            found = self._predicted(with_lengths(X, lengths), "means", self._loss.predict)
        found = self._targets.decode(found)
        if not return_std:
            return found
        check_deviations(self._loss)
        return found, self.predict_std(X, lengths=lengths)

    @available_if(gives_deviations)
    def predict_std(self, X: Any, *, lengths: Any = None) -> Any:
        """Return standard deviations, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "deviations", self._loss.predict_std)

    @available_if(gives_quantiles)
    def predict_quantiles(self, X: Any, *, lengths: Any = None) -> Any:
        """Return every quantile, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "quantiles", self._loss.predict_quantiles)

    @available_if(gives_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.8, *, lengths: Any = None) -> Any:
        """Return bounds of targets, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "interval", interval_head(self._loss, coverage))

    def _of_targets(self, X: Any, lengths: Any, name: str, head: Head) -> Any:
        return self._targets.decode(self._predicted(with_lengths(X, lengths), name, head))
