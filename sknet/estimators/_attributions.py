"""Attributions of an output to the inputs: gradients, and integrated gradients."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted

from sknet._constraints import satisfies, shown
from sknet._params import Interval, InvalidParameterError
from sknet.device import is_array, to_host
from sknet.engine import Model
from sknet.engine import extend as engine
from sknet.engine.extend import Head, Pass
from sknet.estimators._inputs import follows_namespace, is_by_name, on_host
from sknet.nn import run

__all__ = ["Attributions", "check_steps", "chosen_classes", "chosen_predictions", "numbered"]


class Attributions:
    """Methods that attribute an estimator's outputs to its inputs."""

    model_: Model
    _predicted: Callable[..., Any]

    @follows_namespace
    def input_gradient(self, X: Any, target: Any = None) -> Any:
        """Return the gradient of an output with respect to the inputs, row by row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        target : label, int or array-like of shape (n_samples,), default=None
            The output: for a classifier a class label, else the number of an output or of a label; an array
            has one for each row. None is the predicted class of each row, or the only output.

        Returns
        -------
        ndarray of the shape of X
            Gradients of raw outputs for a classifier (the binary one has that of its single output, with
            the other sign for the first class), of predictions for a regressor.

        Raises
        ------
        ValueError
            If there is no such output, or `target` is None and there are several.
        """
        check_is_fitted(self)
        chosen = self._chosen(X, target)
        return _of_real_inputs(self, X, self._predicted(X, chosen, by=engine.input_gradients))

    @follows_namespace
    def integrated_gradients(
        self, X: Any, baseline: Any = None, target: Any = None, n_steps: int = 50
    ) -> Any:
        """Return how much each input contributes to the difference of an output from its value at a baseline.

        It is the gradient averaged over the straight line from the baseline to the row, times the
        difference between them, by the Gauss-Legendre rule. The contributions of a row sum to the difference
        of the outputs, up to the error of the rule, which falls with `n_steps`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        baseline : number or array-like of shape (n_features,) or (n_samples, n_features), default=None
            Inputs that say nothing, such as a black image or the means of the features; None is 0.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `input_gradient`.
        n_steps : int, default=50
            Points on each line.

        Returns
        -------
        ndarray of the shape of X
            Contributions.

        Raises
        ------
        ValueError
            As `input_gradient`; and if the baseline does not fit X.

        Notes
        -----
        M. Sundararajan, A. Taly, Q. Yan, "Axiomatic attribution for deep networks", ICML 2017.
        """
        check_steps(self, n_steps)
        check_is_fitted(self)
        chosen = self._chosen(X, target)

        def compute(model: Model, X: Any) -> Any:
            return engine.integrated_gradients(model, X, _baseline_like(baseline, X), chosen, n_steps)

        return _of_real_inputs(self, X, self._predicted(X, by=compute))

    def _chosen(self, X: Any, target: Any) -> "engine.Chosen":
        """Return which output of each row is meant."""
        raise NotImplementedError


def _of_real_inputs(estimator: Any, X: Any, found: Any) -> Any:
    """Return attributions of what the user gave as X: lengths that were given beside it have none."""
    if found is None or (isinstance(found, dict) and not found):
        raise ValueError(
            f"X holds integers, and outputs of {type(estimator).__name__} have no gradient with respect to "
            "those: look at what the layer that reads them returns, by transform(X, layer=...)"
        )
    inputs = estimator._inputs
    if isinstance(found, dict) and not is_by_name(X, inputs.forward):
        return next(iter(found.values()))
    return found


def check_steps(estimator: Any, n_steps: Any) -> None:
    """Raise an error unless a number of steps is one."""
    if not satisfies(n_steps, Interval(Integral, 1, None, closed="left")) or isinstance(n_steps, bool):
        raise InvalidParameterError(
            f"The 'n_steps' parameter of {type(estimator).__name__}.integrated_gradients must be an int in "
            f"the range [1, inf). Got {shown(n_steps)} instead."
        )


def _baseline_like(baseline: Any, X: Any) -> Any:
    """Return the baseline with the axes of X, for one row or for all; inputs that it does not name are 0."""
    if isinstance(X, dict):
        real = [name for name, x in X.items() if x.dtype.kind == "f"]
        given = baseline if isinstance(baseline, dict) else dict.fromkeys(real, baseline)
        unknown = [name for name in given if name not in X]
        if unknown:
            raise ValueError(f"baseline has no use for {unknown[0]!r}: the inputs are {list(X)}")
        return {name: _baseline_like(given.get(name), x) for name, x in X.items()}
    shape = tuple(X.shape)
    if baseline is None:
        return np.zeros((1, *shape[1:]), X.dtype)
    if not is_array(baseline):
        baseline = np.asarray(baseline, X.dtype)
    if baseline.ndim == 0:
        return np.full((1, *shape[1:]), to_host(baseline), X.dtype)
    if tuple(baseline.shape) == shape[1:]:
        return baseline.reshape(1, *shape[1:])
    if tuple(baseline.shape) in (shape, (1, *shape[1:])):
        return baseline
    raise ValueError(
        f"baseline must be a number, one row of shape {shape[1:]}, or one for each row of X, of shape "
        f"{shape}; got shape {tuple(baseline.shape)}"
    )


def chosen_classes(estimator: Any, X: Any, target: Any) -> "engine.Chosen":
    """Return the decisions of a classifier that a target means."""
    targets, loss = estimator._targets, estimator._loss
    head = targets.deciding(loss, getattr(estimator, "_temperature", None))
    if targets.task == "multilabel" or isinstance(targets.classes, list):
        return numbered(estimator, X, target, targets.n_outputs, head)
    if target is None:
        target = targets.decode(to_host(estimator._decided(X)), loss.threshold)
    labels, classes = _per_row(X, target), targets.classes
    if not np.isin(labels, classes).all():
        raise ValueError(f"target {target!r} is none of the classes {classes.tolist()}")
    numbers = np.searchsorted(classes, labels)
    if len(classes) > 2:
        return engine.Chosen(numbers, np.ones(len(numbers)), head)
    return engine.Chosen(np.zeros_like(numbers), np.where(numbers == len(classes) - 1, 1.0, -1.0), head)


def chosen_predictions(estimator: Any, X: Any, target: Any) -> "engine.Chosen":
    """Return the predictions of a regressor that a target means."""
    head = estimator._loss.predict
    return numbered(estimator, X, target, estimator._targets.n_outputs, head)


def numbered(
    estimator: Any, X: Any, target: Any, n_outputs: int, head: Head | None, by: Pass = run
) -> "engine.Chosen":
    """Return the outputs that numbers mean."""
    name, range_ = type(estimator).__name__, f"target=0 to target={n_outputs - 1}"
    if target is None and n_outputs > 1:
        raise ValueError(f"this {name} has {n_outputs} outputs: say which one is meant, {range_}")
    numbers = _per_row(X, 0 if target is None else target)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"target of {name} must be the number of an output, an int, got {shown(target)}")
    if ((numbers < -n_outputs) | (numbers >= n_outputs)).any():
        raise ValueError(f"there is no output {target!r}: this {name} has {n_outputs}, {range_}")
    return engine.Chosen(numbers % n_outputs, np.ones(len(numbers)), head, by)


def _per_row(X: Any, target: Any) -> Any:
    """Return a target as an array with an element for each row."""
    first = next(iter(X.values())) if isinstance(X, dict) else X
    target, n_samples = np.asarray(on_host(target)), _num_samples(first)
    if target.ndim and target.shape != (n_samples,):
        raise ValueError(
            f"target must be a single label or number, or one for each of {n_samples} rows, got an array of "
            f"shape {target.shape}"
        )
    return np.broadcast_to(target, (n_samples,))
