"""Methods of estimators that take the lengths of sequences beside X: of all kinds of estimators."""

from os import PathLike
from typing import Any, Self

from sknet.callbacks import Callback
from sknet.callbacks.extend import SavedFit
from sknet.estimators._base import BaseNet
from sknet.estimators._namespace import follows_namespace
from sknet.estimators._reading import with_lengths

__all__ = ["SequenceFit", "SequenceLayers"]


class SequenceLayers(BaseNet, auto_wrap_output_keys=()):
    """Hidden layers and attributions of padded sequences."""

    @follows_namespace
    def transform(self, X: Any, layer: int | str = -2, *, lengths: Any = None) -> Any:
        """Return the output of a layer: hidden activations, in evaluation mode.

        Nothing after the layer is computed.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        layer : int or str, default=-2
            The number of a layer in the order in which the network calls its layers, -1 for the last, or
            the path of a module, such as ``"encoder.0"``. Numbers count the layers of a `Sequential` inside
            another, and all else that the network's own forward pass calls as one layer each; -2 is the last
            hidden layer. A module that is called several times is named with the number of the call,
            ``"act:0"``.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            What the layer returns; of several arrays the first. As `set_output` asks for it.

        Raises
        ------
        TypeError, ValueError
            If there is no such layer; the message names those there are.
        """
        return super().transform(with_lengths(X, lengths), layer)

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None, **params: Any) -> Any:
        """Fit, and return what `transform` returns for the same rows.

        Parameters
        ----------
        X, y, lengths
            As for `fit`.
        **params : dict
            More arguments of `fit`.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            As of `transform`.
        """
        given = {} if lengths is None else {"lengths": lengths}
        return self.fit(X, y, **given, **params).transform(X, **given)

    @follows_namespace
    def input_gradient(self, X: Any, target: Any = None, *, lengths: Any = None) -> Any:
        """Return the gradient of an output with respect to the inputs, row by row.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`.
        target : label, int or array-like of shape (n_samples,), default=None
            The output: for a classifier a class label, else the number of an output or of a label; an array
            has one for each row. None is the predicted class of each row, or the only output.

        Returns
        -------
        ndarray of the shape of X, or dict of those
            Gradients of raw outputs for a classifier (the binary one has that of its single output, with
            the other sign for the first class), of predictions for a regressor, of codes for a transformer.
            Of several inputs those that hold real numbers.

        Raises
        ------
        ValueError
            If there is no such output, `target` is None and there are several, or X holds integers.
        """
        return super().input_gradient(with_lengths(X, lengths), target)

    @follows_namespace
    def integrated_gradients(
        self, X: Any, baseline: Any = None, target: Any = None, n_steps: int = 50, *, lengths: Any = None
    ) -> Any:
        """Return how much each input contributes to the difference of an output from its value at a baseline.

        It is the gradient averaged over the straight line from the baseline to the row, times the
        difference between them, by the Gauss-Legendre rule. The contributions of a row sum to the difference
        of the outputs, up to the error of the rule, which falls with `n_steps`.

        Parameters
        ----------
        X, lengths
            Inputs, as for `fit`; the baseline has the same lengths.
        baseline : number, array-like of the shape of X or of a row, or dict of those, default=None
            Inputs that say nothing, such as a black image or the means of the features; None is 0.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `input_gradient`.
        n_steps : int, default=50
            Points on each line.

        Returns
        -------
        ndarray of the shape of X, or dict of those
            Contributions. Of several inputs those that hold real numbers.

        Raises
        ------
        ValueError
            As `input_gradient`; and if the baseline does not fit X.

        Notes
        -----
        M. Sundararajan, A. Taly, Q. Yan, "Axiomatic attribution for deep networks", ICML 2017.
        """
        return super().integrated_gradients(with_lengths(X, lengths), baseline, target, n_steps)


class SequenceFit(SequenceLayers):
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
        resume_from: "str | PathLike[str] | SavedFit | None" = None,
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
            Number of steps of each sequence in X that are not padding; given to the network as ``lengths``.
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
        resume_from : str, PathLike or SavedFit, default=None
            What a `sknet.callbacks.Checkpoint` has written, its folder or a file, to resume from,
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
