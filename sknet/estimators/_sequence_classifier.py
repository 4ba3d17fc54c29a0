"""A classifier whose methods also take the lengths of sequences."""

from typing import Any, Self

from sknet._available import available_if
from sknet.estimators._base import goes_in_steps
from sknet.estimators._heads import gives_probabilities
from sknet.estimators._lengths import SequenceFit
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._options import Decisions
from sknet.estimators._reading import with_lengths

__all__ = ["SequenceClassifier"]


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
    ) -> Self:
        """Train for one epoch on a part of the data, continuing from the current state."""
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

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict probabilities."""
        return super().predict_proba(with_lengths(X, lengths))

    @available_if(gives_probabilities)
    @follows_namespace
    def predict_log_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
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
