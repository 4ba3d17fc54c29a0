"""Classifiers, regressors and transformers whose methods take the lengths of sequences beside X."""

from os import PathLike
from typing import Any, Self

from sklearn.utils.metaestimators import available_if

from sknet.callbacks import Callback
from sknet.estimators._base import goes_in_steps
from sknet.estimators._coding import BaseTransformer
from sknet.estimators._decoding import has_decoder
from sknet.estimators._heads import gives_deviations, gives_intervals, gives_probabilities, gives_quantiles
from sknet.estimators._inputs import with_lengths
from sknet.estimators._lengths import SequenceFit, SequenceLayers
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._options import Decisions
from sknet.estimators._regressor import UncertainRegressor

__all__ = ["SequenceClassifier", "SequenceRegressor", "SequenceTransformer"]


class SequenceClassifier(SequenceFit, Decisions):
    """A classifier whose methods take lengths."""

    @available_if(goes_in_steps)  # type: ignore[untyped-decorator]
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
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state.

        Parameters
        ----------
        X, y, sample_weight, lengths, X_val, y_val, sample_weight_val, lengths_val
            As for `fit`.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur; required in the first call.

        Returns
        -------
        self
            Fitted. If the call fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            If `classes` is missing, or y has other labels; and as `fit`.
        """
        return super().partial_fit(  # type: ignore[no-any-return]
            with_lengths(X, lengths),
            y,
            sample_weight,
            classes,
            X_val=with_lengths(X_val, lengths_val),
            y_val=y_val,
            sample_weight_val=sample_weight_val,
        )

    @follows_namespace
    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict labels.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The label of largest output; for several labels a row, a 0/1 indicator.
        """
        return super().predict(with_lengths(X, lengths))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict probabilities.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or list of those
            In the order of `classes_`; for several columns of labels one array each.

        Raises
        ------
        AttributeError
            For a loss without probabilities, such as ``"hinge"``; `decision_function` is there then.
        """
        return super().predict_proba(with_lengths(X, lengths))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_log_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or list of those
            In the order of `classes_`.
        """
        return super().predict_log_proba(with_lengths(X, lengths))

    @follows_namespace
    def decision_function(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the network's raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes one column, positive where the second is more likely.
        """
        return super().decision_function(with_lengths(X, lengths))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return the share of rows whose labels are predicted, all of them where a row has several.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            The accuracy.
        """
        return super().score(with_lengths(X, lengths), y, sample_weight)


class SequenceRegressor(SequenceFit, UncertainRegressor):
    """A regressor whose methods take lengths."""

    @available_if(goes_in_steps)  # type: ignore[untyped-decorator]
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
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state.

        Parameters
        ----------
        X, y, sample_weight, lengths, X_val, y_val, sample_weight_val, lengths_val
            As for `fit`.

        Returns
        -------
        self
            Fitted. If the call fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return super().partial_fit(  # type: ignore[no-any-return]
            with_lengths(X, lengths),
            y,
            sample_weight,
            X_val=with_lengths(X_val, lengths_val),
            y_val=y_val,
            sample_weight_val=sample_weight_val,
        )

    @follows_namespace
    def predict(self, X: Any, return_std: bool = False, *, lengths: Any = None) -> Any:
        """Predict targets.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        return_std : bool, default=False
            Return standard deviations too, with the loss ``"gaussian_nll"``.

        Returns
        -------
        prediction : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            What the loss estimates: means, medians or quantiles; of several quantiles the one nearest to 0.5.
        std : ndarray of the same shape
            Standard deviations, if `return_std`.

        Raises
        ------
        ValueError
            For `return_std` with another loss.
        """
        return super().predict(with_lengths(X, lengths), return_std)

    @available_if(gives_deviations)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_std(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict standard deviations, if the loss is ``"gaussian_nll"``.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations.
        """
        return super().predict_std(with_lengths(X, lengths))

    @available_if(gives_quantiles)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_quantiles(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_outputs)
            In increasing order.
        """
        return super().predict_quantiles(with_lengths(X, lengths))

    @available_if(gives_intervals)  # type: ignore[untyped-decorator]
    @follows_namespace
    def predict_interval(self, X: Any, coverage: float = 0.8, *, lengths: Any = None) -> Any:
        """Predict intervals in which a share of the targets is expected, half of the rest on each side.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        coverage : float, default=0.8
            The share. With ``Quantile`` the two quantiles that bound it must be among its levels, such as
            0.1 and 0.9 for 0.8; with ``"gaussian_nll"`` it may be any.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, n_outputs)
            Lower and upper bounds.

        Raises
        ------
        ValueError
            If `coverage` is not between 0 and 1, or bounded by other quantiles than those of the loss.
        """
        return super().predict_interval(with_lengths(X, lengths), coverage)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return R2, the share of the targets' variance that is explained.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            At most 1, the mean over outputs.
        """
        return float(super().score(with_lengths(X, lengths), y, sample_weight))


class SequenceTransformer(SequenceLayers, BaseTransformer, auto_wrap_output_keys=()):
    """A transformer whose methods take lengths."""

    def fit(
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
        resume_from: "str | PathLike[str] | None" = None,
    ) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs of any rank, and what the network learns to return: numbers, 0/1 labels, or ids for which
            it returns logits.
        y : array-like of shape (n_samples, ...), default=None
            Ignored, unless ``target="y"``; then of any rank too.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; None weights all alike.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding; given to the network as ``lengths``.
            Its outputs for padding are ignored.
        X_val, y_val, sample_weight_val, lengths_val : array-like, default=None
            Rows to validate on, instead of rows held out of X; y_val as y.
        groups : array-like of shape (n_samples,), default=None
            Groups that the rows of X belong to: those held out are whole groups.
        callbacks : list of Callback, default=None
            Called during this fit, after those of the estimator.
        resume_from : str or PathLike, default=None
            What a `sknet.callbacks.Checkpoint` has written, to resume from.

        Returns
        -------
        self
            Fitted. If the fit fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            For parameters or inputs that cannot be used, for a network that returns arrays of another shape
            than it shall, and for a fit that diverges (`NonFiniteError`).
        """
        return super().fit(
            with_lengths(X, lengths),
            y,
            sample_weight,
            X_val=with_lengths(X_val, lengths_val),
            y_val=y_val,
            sample_weight_val=sample_weight_val,
            groups=groups,
            callbacks=callbacks,
            resume_from=resume_from,
        )

    @available_if(goes_in_steps)  # type: ignore[untyped-decorator]
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
        """Train for one epoch on a part of the data, continuing from the current state.

        Parameters
        ----------
        X, y, sample_weight, lengths, X_val, y_val, sample_weight_val, lengths_val
            As for `fit`.

        Returns
        -------
        self
            Fitted. If the call fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            As `fit`.
        """
        return super().partial_fit(  # type: ignore[no-any-return]
            with_lengths(X, lengths),
            y,
            sample_weight,
            X_val=with_lengths(X_val, lengths_val),
            y_val=y_val,
            sample_weight_val=sample_weight_val,
        )

    @follows_namespace
    def transform(self, X: Any, layer: int | str | None = None, *, lengths: Any = None) -> Any:
        """Return the code of X, or the output of another layer.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        layer : int, str or None, default=None
            The number or the path of another layer, as for the `transform` of classifiers.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            What the layer returns. As `set_output` asks for it.

        Raises
        ------
        TypeError, ValueError
            If there is no such layer; the message names those there are.
        """
        return super().transform(X, self._meant(layer), lengths=lengths)

    @available_if(has_decoder)  # type: ignore[untyped-decorator]
    @follows_namespace
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return what the decoder makes of codes.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Codes, as `transform` returns them.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Of the sequences, for a decoder whose `forward` takes ``lengths``.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Reconstructions, in the units of the inputs of the fit; of ids the likeliest, of 0/1 labels with a
            loss of classes their probabilities.

        Raises
        ------
        AttributeError
            If the network has no module that is called "decoder".
        ValueError
            If the codes have another shape.
        """
        return super().inverse_transform(with_lengths(X, lengths))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Return minus the mean loss: the larger, the better.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`; padding counts nothing.
        y : array-like of shape (n_samples, ...), default=None
            Not looked at, unless ``target="y"``.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Of reconstructing X (for the squared error half of the mean square), or of y.
        """
        return float(super().score(with_lengths(X, lengths), y, sample_weight))
