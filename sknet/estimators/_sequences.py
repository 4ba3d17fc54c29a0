"""Estimators whose methods take the lengths of sequences beside X."""

from os import PathLike
from typing import Any, Self

from sknet._late import available_if
from sknet._params import described_by
from sknet.callbacks import Callback
from sknet.callbacks._checkpoint import SavedFit
from sknet.estimators._base import BaseNet, goes_in_steps
from sknet.estimators._classifier import BaseClassifier, Decisions
from sknet.estimators._heads import (
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    gives_sets,
    has_decoder,
)
from sknet.estimators._inputs import follows_namespace, joined_lengths, with_lengths
from sknet.estimators._regressor import UncertainRegressor
from sknet.estimators._transformer import BaseTransformer


class SequenceLayers(BaseNet, auto_wrap_output_keys=()):
    """Hidden layers and attributions of padded sequences."""

    @follows_namespace
    @described_by(BaseNet.transform)
    def transform(self, X: Any, layer: int | str = -2, *, lengths: Any = None) -> Any:
        """Return the output of a layer, such as hidden activations, in evaluation mode.

        Layers after it are not computed.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        """
        return super().transform(with_lengths(X, lengths), layer)

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None, **params: Any) -> Any:
        """Fit the network and return the output of `transform` for the same rows.

        Parameters
        ----------
        X, y, lengths
            As for `fit`.
        **params : dict
            Further arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            As for `transform`.
        """
        given = {} if lengths is None else {"lengths": lengths}
        return self.fit(X, y, **given, **params).transform(X, **given)

    @follows_namespace
    @described_by(BaseNet.input_gradient)
    def input_gradient(self, X: Any, target: Any = None, *, lengths: Any = None) -> Any:
        """Return the gradient of an output with respect to the inputs, row by row.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of the shape of X, or dict of those
            Gradients of raw outputs for a classifier (with two classes of the single output, with the
            opposite sign for the first class), of predictions for a regressor, of codes for a transformer. Of
            several inputs, only those of real numbers have one.

        Raises
        ------
        ValueError
            If there is no such output, `target` is None and there are several, or X holds integers.
        """
        return super().input_gradient(with_lengths(X, lengths), target)

    @follows_namespace
    @described_by(BaseNet.integrated_gradients)
    def integrated_gradients(
        self, X: Any, baseline: Any = None, target: Any = None, n_steps: int = 50, *, lengths: Any = None
    ) -> Any:
        """Attribute the difference between an output and its value at a baseline to the inputs.

        These are integrated gradients: the gradient averaged over the straight line from the baseline to the
        row, by Gauss-Legendre quadrature, times the difference between the two. The contributions of a row
        sum to the difference of the outputs, up to a quadrature error that falls with `n_steps`.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`; the baseline has the same lengths.
        baseline : number, array-like of the shape of X or of a row, or dict of those, default=None
            Uninformative inputs, such as a black image or the means of the features; None is 0.

        Returns
        -------
        ndarray of the shape of X, or dict of those
            Contributions. Of several inputs, only those of real numbers have some.

        Notes
        -----
        M. Sundararajan, A. Taly, Q. Yan, "Axiomatic attribution for deep networks", ICML 2017.
        """
        return super().integrated_gradients(with_lengths(X, lengths), baseline, target, n_steps)


class SequenceFit(SequenceLayers):
    @described_by(BaseNet.fit)
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
        groups: Any = None,
        offset: Any = None,
        offset_val: Any = None,
        callbacks: "list[Callback] | None" = None,
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
    ) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs of any rank, as the network's `forward` takes them; nothing is flattened. Sequences of
            different lengths may be a list, or a column of lists: they are padded. Several inputs are given
            by the names of the arguments of `forward`: as a dict of arrays, or as a data frame whose columns
            begin with these names, like ``words__0``. Integers stay integers where the network needs them.
        y : array-like of shape (n_samples,), (n_samples, n_outputs) or (n_samples, ...)
            Targets, also of pixels or steps for a network that returns arrays of this shape, or logits for
            it. If a row has several targets or labels, some of them may be missing (NaN).
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding; given to the network as ``lengths``.
        X_val, y_val, sample_weight_val, lengths_val : like X, y, sample_weight and lengths, default=None
            Rows to validate on, instead of rows held out of X. A Pipeline transforms `X_val` like X with
            ``Pipeline(..., transform_input=["X_val"])``.

        Raises
        ------
        ValueError
            For parameters, inputs, targets or weights that cannot be used, for a network with another number
            of outputs than the targets need, and for a fit that diverges (`NonFiniteError`).
        TypeError
            For `lengths` of a network that takes none, and for real numbers where it needs integers.
        """
        return super().fit(**joined_lengths(locals()))


class SequenceClassifier(SequenceFit, Decisions):
    """A classifier whose methods take lengths."""

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        classes: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
        return super().partial_fit(**joined_lengths(locals()))

    @follows_namespace
    @described_by(BaseClassifier.predict)
    def predict(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict labels.

        Parameters
        ----------
        X, lengths, offset
            Inputs and an offset, as for `fit`.
        """
        return super().predict(with_lengths(X, lengths), offset=offset)

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_proba(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict probabilities of the classes, in the order of `classes_`."""
        return super().predict_proba(with_lengths(X, lengths), offset=offset)

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_log_proba(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
        return super().predict_log_proba(with_lengths(X, lengths), offset=offset)

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_samples(
        self, X: Any, n_draws: int = 30, *, lengths: Any = None, random_state: Any = None
    ) -> Any:
        """Predict several times with the dropout of training: Monte Carlo dropout."""
        return super().predict_samples(with_lengths(X, lengths), n_draws, random_state=random_state)

    @available_if(gives_sets)
    @follows_namespace
    def predict_set(self, X: Any, coverage: float = 0.9, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict sets of classes that contain the true class with a given probability."""
        return super().predict_set(with_lengths(X, lengths), coverage, offset=offset)

    @follows_namespace
    def decision_function(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Return the network's raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X, lengths, offset
            Inputs and an offset, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column for two classes, positive where the second class is more likely.
        """
        return super().decision_function(with_lengths(X, lengths), offset=offset)

    @described_by(BaseClassifier.score)
    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None, offset: Any = None
    ) -> float:
        """Return the accuracy: the share of rows all of whose labels are predicted correctly.

        Parameters
        ----------
        X, lengths, offset
            Inputs and an offset, as for `fit`.
        """
        return super().score(with_lengths(X, lengths), y, sample_weight, offset=offset)


class SequenceRegressor(SequenceFit, UncertainRegressor):
    """A regressor whose methods take lengths."""

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
        offset: Any = None,
        offset_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
        return super().partial_fit(**joined_lengths(locals()))

    @follows_namespace
    @described_by(UncertainRegressor.predict)
    def predict(self, X: Any, return_std: bool = False, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict targets.

        Parameters
        ----------
        X, lengths, offset
            Inputs and an offset, as for `fit`.
        """
        return super().predict(with_lengths(X, lengths), return_std, offset=offset)

    @follows_namespace
    def predict_samples(
        self, X: Any, n_draws: int = 30, *, lengths: Any = None, random_state: Any = None
    ) -> Any:
        """Predict several times with the dropout of training: Monte Carlo dropout."""
        return super().predict_samples(with_lengths(X, lengths), n_draws, random_state=random_state)

    @available_if(gives_deviations)
    @follows_namespace
    def predict_std(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict standard deviations, of an ensemble or with the loss ``"gaussian_nll"``."""
        return super().predict_std(with_lengths(X, lengths), offset=offset)

    @available_if(gives_quantiles)
    @follows_namespace
    def predict_quantiles(self, X: Any, *, lengths: Any = None, offset: Any = None) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross."""
        return super().predict_quantiles(with_lengths(X, lengths), offset=offset)

    @available_if(gives_intervals)
    @follows_namespace
    def predict_interval(
        self, X: Any, coverage: float = 0.8, *, lengths: Any = None, offset: Any = None
    ) -> Any:
        """Predict central intervals that contain a share `coverage` of the targets."""
        return super().predict_interval(with_lengths(X, lengths), coverage, offset=offset)

    @described_by(UncertainRegressor.score)
    def score(
        self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None, offset: Any = None
    ) -> float:
        """Return the coefficient of determination of the predictions, R2.

        Parameters
        ----------
        X, lengths, offset
            Inputs and an offset, as for `fit`.
        """
        return float(super().score(with_lengths(X, lengths), y, sample_weight, offset=offset))


class SequenceTransformer(SequenceLayers, BaseTransformer, auto_wrap_output_keys=()):
    """A transformer whose methods take lengths."""

    @described_by(BaseTransformer.fit)
    def fit(  # type: ignore[override]  # codes have no offset
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
        groups: Any = None,
        callbacks: "list[Callback] | None" = None,
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
    ) -> Self:
        """Fit the network, which learns to return X, or with ``target="y"`` what y holds.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs of any rank: numbers, 0/1 labels, or ids for which the network returns logits.
        y : array-like of shape (n_samples, ...), default=None
            Ignored, unless ``target="y"``; its rank may be any, too.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding; given to the network as ``lengths``.
            Its outputs for padding are ignored.
        X_val, y_val, sample_weight_val, lengths_val : array-like, default=None
            Rows to validate on, instead of rows held out of X; `y_val` is like y.

        Raises
        ------
        ValueError
            As for other estimators, and for a network that returns arrays of another shape than expected.
        """
        return super().fit(**joined_lengths(locals()))

    @available_if(goes_in_steps)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        lengths_val: Any = None,
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
        return super().partial_fit(**joined_lengths(locals()))

    @follows_namespace
    @described_by(BaseTransformer.transform)
    def transform(self, X: Any, layer: int | str | None = None, *, lengths: Any = None) -> Any:
        """Return the code of X, or the output of another layer.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        """
        return super().transform(X, self._meant(layer), lengths=lengths)

    @available_if(has_decoder)
    @follows_namespace
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Reconstruct X from its codes, by the decoder."""
        return super().inverse_transform(with_lengths(X, lengths))

    @described_by(BaseTransformer.score)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return the negative mean loss; larger is better.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`; padding is not scored.
        y : array-like of shape (n_samples, ...), default=None
            Ignored, unless ``target="y"``.
        """
        return float(super().score(with_lengths(X, lengths), y, sample_weight))
