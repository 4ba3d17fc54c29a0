"""Targets: the user's labels encoded for the loss, and outputs decoded into labels."""

from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target, unique_labels

__all__ = ["ClassTargets", "RealTargets"]


class ClassTargets:
    """The classes of a classification, and their numbers.

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_labels)
        Labels, or a 0/1 indicator of several labels a row.
    classes : array of shape (n_classes,), default=None
        All classes, where y may lack some.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted.
    task : {"binary", "multiclass", "multilabel"}
        The task of the loss.
    n_outputs : int
        Outputs of the network: 1 for two classes (or one).

    Raises
    ------
    ValueError
        For continuous targets, or several classes a row.

    Examples
    --------
    >>> targets = ClassTargets(np.array(["b", "a", "b"]))
    >>> targets.task, targets.encode(np.array(["b", "a"])).ravel()
    ('binary', array([1., 0.]))
    """

    def __init__(self, y: Any, classes: Any = None) -> None:
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind == "multiclass-multioutput":
            raise ValueError(
                "Multioutput target data is not supported: expected one label a row, or a 0/1 indicator "
                f"matrix of labels, got y of shape {np.shape(y)} with several classes a column"
            )
        if kind == "multilabel-indicator":
            self.task, self.classes = "multilabel", np.arange(y.shape[1])
        else:
            self.classes = unique_labels(y if classes is None else classes)
            self.task = "binary" if len(self.classes) <= 2 else "multiclass"
        self.n_outputs = 1 if self.task == "binary" else len(self.classes)

    def encode(self, y: Any) -> Any:
        """Encode labels as the loss expects them.

        Parameters
        ----------
        y : array of shape (n_samples,) or (n_samples, n_labels)
            Labels that all occur in `classes`.

        Returns
        -------
        ndarray
            Binary and multilabel: 0.0 or 1.0, of shape (n_samples, n_outputs). Multiclass: class
            numbers of shape (n_samples,).

        Raises
        ------
        ValueError
            If a label is none of the classes.
        """
        if self.task == "multilabel":
            if np.ndim(y) != 2 or y.shape[1] != self.n_outputs:
                raise ValueError(
                    f"y must be an indicator of {self.n_outputs} labels a row, got shape {np.shape(y)}"
                )
            return np.asarray(y, dtype=np.float64)
        seen = unique_labels(y)
        if len(np.setdiff1d(seen, self.classes)):
            raise ValueError(
                f"`y` has classes not in `self.classes_`. `self.classes_` has {self.classes}. 'y' has {seen}"
                ". Name all classes in the first call: partial_fit(X, y, classes=...)."
            )
        numbers = np.searchsorted(self.classes, y)
        return numbers.astype(np.float64).reshape(-1, 1) if self.task == "binary" else numbers

    def decode(self, output: Any, threshold: float = 0.0) -> Any:
        """Return the labels that raw outputs predict.

        Parameters
        ----------
        output : ndarray of shape (n_samples, n_outputs)
            What the network returned.
        threshold : float, default=0.0
            Of the loss: above it lies the second of two classes, and a label that a row has.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Labels; for several a row, a 0/1 indicator.
        """
        if self.task == "multilabel":
            return (output > threshold).astype(np.int64)
        if self.task == "binary":
            positive = (output[:, 0] > threshold).astype(np.intp)
            return self.classes[np.minimum(positive, len(self.classes) - 1)]
        return self.classes[output.argmax(axis=1)]


class RealTargets:
    """Targets of a regression.

    Parameters
    ----------
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Real numbers.

    Attributes
    ----------
    task : str
        ``"regression"``.
    n_outputs : int
        Columns of the targets.

    Examples
    --------
    >>> RealTargets(np.zeros((5, 2))).n_outputs
    2
    """

    task = "regression"

    def __init__(self, y: Any) -> None:
        self.n_outputs = 1 if y.ndim == 1 else y.shape[1]

    def encode(self, y: Any) -> Any:
        """Return targets of shape (n_samples, n_outputs).

        Raises
        ------
        ValueError
            If y has another number of columns than before.
        """
        y = y.reshape(-1, 1) if y.ndim == 1 else y
        if y.shape[1] != self.n_outputs:
            raise ValueError(f"y must have {self.n_outputs} column(s) as in the fit before, got {y.shape[1]}")
        return y

    def decode(self, prediction: Any) -> Any:
        """Return predictions with one axis for one output."""
        return prediction.ravel() if self.n_outputs == 1 else prediction
