"""A regressor whose methods also take the lengths of sequences."""

from typing import Any, Self

from sknet._available import available_if
from sknet.estimators._base import goes_in_steps
from sknet.estimators._heads import gives_deviations, gives_intervals, gives_quantiles
from sknet.estimators._lengths import SequenceFit
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._reading import with_lengths
from sknet.estimators._regressor import UncertainRegressor

__all__ = ["SequenceRegressor"]


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

    @available_if(gives_deviations)
    @follows_namespace
    def predict_std(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict standard deviations, if the loss is ``"gaussian_nll"``."""
        return super().predict_std(with_lengths(X, lengths))

    @available_if(gives_quantiles)
    @follows_namespace
    def predict_quantiles(self, X: Any, *, lengths: Any = None) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross."""
        return super().predict_quantiles(with_lengths(X, lengths))

    @available_if(gives_intervals)
    @follows_namespace
    def predict_interval(self, X: Any, coverage: float = 0.8, *, lengths: Any = None) -> Any:
        """Predict intervals in which a share of the targets is expected, half of the rest on each side."""
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
