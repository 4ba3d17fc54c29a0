"""Methods of estimators that take the lengths of sequences beside X."""

from os import PathLike
from typing import Any, Self

from sklearn.utils.metaestimators import available_if

from sknet.callbacks import Callback
from sknet.estimators._base import BaseNet, goes_in_steps
from sknet.estimators._heads import gives_probabilities
from sknet.estimators._inputs import Sequences
from sknet.estimators._options import Decisions
from sknet.estimators._regressor import UncertainRegressor

__all__ = ["SequenceClassifier", "SequenceFit", "SequenceRegressor"]


def with_lengths(X: Any, lengths: Any) -> Any:
    """Return X together with the lengths of its sequences; None for X alone."""
    return X if lengths is None else Sequences(X, lengths)


class SequenceFit(BaseNet):
    """A fit that takes lengths."""

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
        callbacks: "list[Callback] | None" = None,
        resume_from: "str | PathLike[str] | None" = None,
    ) -> Self:
        """Fit the network.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...), sparse matrix, data frame, or dict of arrays
            Inputs of any rank, as the network's `forward` takes them; nothing is flattened. Several inputs
            by the names of its arguments: a dict of arrays, or a data frame whose columns begin with these
            names, as in ``words__0``. Integers stay integers where the network needs them.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; None weights all alike.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            How many steps of each sequence in X are no padding; given to the network as ``lengths``.
        X_val : like X, default=None
            Inputs to validate on, instead of rows held out of X. A Pipeline transforms them as it does X
            if it is told to: ``Pipeline(..., transform_input=["X_val"])``.
        y_val : array-like of shape (n_val,) or (n_val, n_outputs), default=None
            Their targets.
        sample_weight_val : array-like of shape (n_val,), default=None
            Their sample weights.
        lengths_val : array-like of shape (n_val,), dtype=int, default=None
            Their lengths.
        groups : array-like of shape (n_samples,), default=None
            Groups that the rows of X belong to: those held out are whole groups, or what `validation_split`
            makes of them.
        callbacks : list of Callback, default=None
            Called during this fit, after those of the estimator.
        resume_from : str or PathLike, default=None
            What a `sknet.callbacks.Checkpoint` has written, its folder or a file: the fit goes on from there,
            and ends as if it had not been interrupted. X, y and parameters must be the same, but for
            `max_iter`, `verbose`, `warm_start` and `callbacks`.

        Returns
        -------
        self
            Fitted. If the fit fails, the estimator is as it was before.

        Raises
        ------
        ValueError
            For parameters, inputs, targets or weights that cannot be used, for a network with another number
            of outputs than the targets need, and for a fit that diverges (`NonFiniteError`).
        TypeError
            For `lengths` of a network that takes none, and for real numbers where it needs integers.
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
