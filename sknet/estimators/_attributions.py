"""Attributions of an output to the inputs: gradients, and integrated gradients."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples, check_is_fitted

from sknet._constraints import is_whole, shown
from sknet.device import is_array, to_host
from sknet.engine import Model
from sknet.engine._inputs import first_input
from sknet.engine._layer_outputs import Chosen, input_gradients, integrated_gradients
from sknet.engine._network import Head, Pass, predict_raw
from sknet.estimators._inputs import follows_namespace, is_by_name, on_host
from sknet.estimators._scaling import InputScaling
from sknet.estimators._targets import prediction_of
from sknet.exceptions import InvalidParameterError
from sknet.nn import run

MOST_POINTS = 1000  # of Gauss's rule, which takes seconds to find for many more


class Attributions:
    """Methods that attribute an estimator's outputs to its inputs."""

    model_: Model
    _predicted: Callable[..., Any]
    _input_scaling: InputScaling | None
    _targets: Any
    _inputs: Any
    _loss: Any
    _numeric_targets: bool
    _sample: tuple[np.ndarray]  # rows of the host, whatever namespace X is of

    def __dir__(self) -> list[str]:
        # Whoever looks at all attributes, as scikit-learn's panel does, should compute nothing.
        names = (name for name in object.__dir__(self) if name != "feature_importances_")
        return [name for name in names if hasattr(self, name)]

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importances of the columns of X, which sum to 1: mean absolute contributions to outputs.

        They are integrated gradients from the mean of up to 200 evenly spaced rows of the fit, of a stream
        those of its first part, to each of these rows, for the predicted class, or else for all outputs, of
        several heads for raw ones. With an encoder, contributions of all that a column is encoded as are
        summed. There are none for inputs other than rows of real numbers, for more than 16,384 columns, and
        in a slim estimator.
        """
        check_is_fitted(self)
        if "_sample" not in vars(self):
            raise AttributeError(
                f"this {type(self).__name__} has no feature_importances_, which are those of up to 16,384 "
                "columns of real numbers, by rows that slim() leaves out: use "
                "sklearn.inspection.permutation_importance, or integrated_gradients(X)"
            )
        X = self._sample[0].astype(self.model_.dtype)
        base, found = X.mean(axis=0, keepdims=True, dtype=np.float64).astype(X.dtype), np.zeros(())
        for chosen in _every_output(self, X):
            parts = to_host(integrated_gradients(self.model_, X, base, chosen, STEPS))
            found = found + np.abs(_of_columns(self._inputs, parts)).mean(axis=0, dtype=np.float64)
        shares: np.ndarray = found / (found.sum() or 1.0)
        return shares

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
        chosen, scaling = self._chosen(X, target), self._input_scaling

        def compute(model: Model, X: Any) -> Any:
            found = input_gradients(model, X, chosen)
            return found if scaling is None else scaling.of_gradient(found, X)

        return _of_real_inputs(self, X, self._predicted(X, by=compute))

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
            Inputs that say nothing, such as a black image or the means of the features; None is 0. With an
            encoder, these are encoded rows, where 0 is the median of a number.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `input_gradient`.
        n_steps : int, default=50
            Points on each line, 1,000 at most.

        Returns
        -------
        ndarray of the shape of X
            Contributions; with an encoder, those of all that a column of the table is encoded as, summed.

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
            scaling = self._input_scaling
            dtype = None if scaling is None else np.float64
            start = _baseline_like(baseline, X, dtype)
            start = start if scaling is None else scaling.scaled(start, model.dtype)
            return integrated_gradients(model, X, start, chosen, n_steps)

        return _of_columns(self._inputs, _of_real_inputs(self, X, self._predicted(X, by=compute)))

    def _chosen(self, X: Any, target: Any) -> Chosen:
        """Return which output of each row is meant."""
        raise NotImplementedError


STEPS = 8  # points on the lines of importances


def _every_output(estimator: Any, X: np.ndarray) -> Iterator[Chosen]:
    """Yield the outputs of rows that importances are those of: the predicted class, or else one by one."""
    targets, rows = estimator._targets, np.zeros(len(X), np.int64)
    kind = "means" if estimator._numeric_targets else "decisions"
    # Raw outputs of several heads have no units.
    head = None if targets.task == "heads" else prediction_of(estimator, kind)[1]
    n_outputs = targets.n_outputs
    is_of_classes = not (estimator._numeric_targets or isinstance(targets.classes, list))
    if is_of_classes and targets.task == "multiclass":
        outputs = to_host(predict_raw(estimator.model_, X))
        yield Chosen(outputs.argmax(axis=1), np.ones(len(X)), head)
        return
    for i in range(n_outputs):
        yield Chosen(rows + i, np.ones(len(X)), head)


def _of_columns(inputs: Any, found: Any) -> Any:
    """Return contributions of encoded columns, summed for each column of the table."""
    encoder = getattr(inputs, "encoder", None)
    if encoder is None:
        return found
    parts = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    of_columns = np.zeros((len(parts), encoder.n_features_in_), parts.dtype)
    np.add.at(of_columns.T, encoder.owners, parts.T)
    return of_columns


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
    """Raise an error unless a number of steps is one for which Gauss's rule is quickly found."""
    if not is_whole(n_steps, 1, MOST_POINTS):
        raise InvalidParameterError(
            f"The 'n_steps' parameter of {type(estimator).__name__}.integrated_gradients must be an int in "
            f"the range [1, {MOST_POINTS}]. Got {shown(n_steps)} instead."
        )


def _baseline_like(baseline: Any, X: Any, dtype: Any = None) -> Any:
    """Return the baseline with the axes of X, for one row or for all; inputs that it does not name are 0."""
    if isinstance(X, dict):
        real = [name for name, x in X.items() if x.dtype.kind == "f"]
        given = baseline if isinstance(baseline, dict) else dict.fromkeys(real, baseline)
        unknown = [name for name in given if name not in X]
        if unknown:
            raise ValueError(f"baseline has no use for {unknown[0]!r}: the inputs are {list(X)}")
        return {
            name: _baseline_like(given.get(name), x, dtype if name in real else None) for name, x in X.items()
        }
    shape, dtype = tuple(X.shape), X.dtype if dtype is None else dtype
    if baseline is None:
        return np.zeros((1, *shape[1:]), dtype)
    if not is_array(baseline):
        baseline = np.asarray(baseline, dtype)
    if baseline.ndim == 0:
        return np.full((1, *shape[1:]), to_host(baseline), dtype)
    if tuple(baseline.shape) == shape[1:]:
        return baseline.reshape(1, *shape[1:])
    if tuple(baseline.shape) in (shape, (1, *shape[1:])):
        return baseline
    raise ValueError(
        f"baseline must be a number, one row of shape {shape[1:]}, or one for each row of X, of shape "
        f"{shape}; got shape {tuple(baseline.shape)}"
    )


def chosen_classes(estimator: Any, X: Any, target: Any) -> Chosen:
    """Return the decisions of a classifier that a target means."""
    targets, head = estimator._targets, prediction_of(estimator, "decisions")[1]
    if targets.task == "multilabel" or isinstance(targets.classes, list):
        return numbered(estimator, X, target, targets.n_outputs, head)
    if target is None:
        target = on_host(estimator.predict(X))
    labels, classes = _per_row(X, target), targets.classes
    if not _are_among(labels, classes):
        raise ValueError(f"target {shown(target)} is none of the classes {classes.tolist()}")
    numbers = np.searchsorted(classes, labels)
    if len(classes) > 2:
        return Chosen(numbers, np.ones(len(numbers)), head)
    return Chosen(np.zeros_like(numbers), np.where(numbers == len(classes) - 1, 1.0, -1.0), head)


def _are_among(labels: Any, classes: Any) -> bool:
    try:
        return labels.dtype.kind != "V" and bool(np.isin(labels, classes).all())
    except TypeError:  # of labels that cannot be compared, such as NA
        return False


def chosen_predictions(estimator: Any, X: Any, target: Any) -> Chosen:
    """Return the predictions of a regressor that a target means."""
    head = prediction_of(estimator, "means")[1]
    return numbered(estimator, X, target, estimator._targets.n_outputs, head)


def numbered(
    estimator: Any, X: Any, target: Any, n_outputs: int, head: Head | None, by: Pass = run
) -> Chosen:
    """Return the outputs that numbers mean."""
    name, range_ = type(estimator).__name__, f"target=0 to target={n_outputs - 1}"
    if target is None and n_outputs > 1:
        raise ValueError(f"this {name} has {n_outputs} outputs: say which one is meant, {range_}")
    numbers = _per_row(X, 0 if target is None else target)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"target of {name} must be the number of an output, an int, got {shown(target)}")
    if ((numbers < -n_outputs) | (numbers >= n_outputs)).any():
        raise ValueError(f"there is no output {target!r}: this {name} has {n_outputs}, {range_}")
    return Chosen(numbers % n_outputs, np.ones(len(numbers)), head, by)


def _per_row(X: Any, target: Any) -> Any:
    """Return a target as an array with an element for each row."""
    n_samples = _num_samples(first_input(X))
    words = f"target must be a single label or number, or one for each of {n_samples} rows, got "
    try:
        found = np.asarray(on_host(target))
    except ValueError:  # of lists of different lengths, or one in itself
        raise ValueError(f"{words}{shown(target)}") from None
    if found.ndim and found.shape != (n_samples,):
        raise ValueError(f"{words}an array of shape {found.shape}")
    return np.broadcast_to(found, (n_samples,))
