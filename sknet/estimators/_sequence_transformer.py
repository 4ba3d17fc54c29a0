"""A transformer whose methods also take the lengths of sequences."""

from os import PathLike
from typing import Any, Self

from sknet._available import available_if
from sknet.callbacks import Callback
from sknet.callbacks.extend import SavedFit
from sknet.estimators._base import goes_in_steps
from sknet.estimators._coding import BaseTransformer
from sknet.estimators._decoding import has_decoder
from sknet.estimators._lengths import SequenceLayers
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._reading import with_lengths

__all__ = ["SequenceTransformer"]


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
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
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
        resume_from : str, PathLike or SavedFit, default=None
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

    @available_if(has_decoder)
    @follows_namespace
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return what the decoder makes of codes."""
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
