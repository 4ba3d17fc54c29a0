"""Views into a fitted network: hidden activations, one layer as a transformer, and attributions to inputs."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_container_adapter
from sklearn.utils.validation import (
    _check_feature_names,
    _check_feature_names_in,
    _num_samples,
    check_is_fitted,
)

from sknet import _fields
from sknet._constraints import is_whole, shown
from sknet._fields import Named
from sknet._params import PlainNumbers, named_errors
from sknet.device import arrays_in, device_of, is_array, to_device, to_host
from sknet.engine import Model
from sknet.engine._inputs import first_input
from sknet.engine._layer_outputs import Chosen, input_gradients, integrated_gradients, layer_rows, model_layer
from sknet.engine._network import Head, Pass, predict_raw
from sknet.estimators._inputs import (
    Encoded,
    Inputs,
    Sequences,
    follows_namespace,
    is_by_name,
    on_host,
    with_lengths,
)
from sknet.estimators._scaling import InputScaling
from sknet.estimators._targets import prediction_of
from sknet.exceptions import InvalidParameterError
from sknet.nn import run


def feature_names(owner: Any, shape: tuple[int, ...], layer: Any) -> Any:
    if len(shape) != 1:
        raise ValueError(
            "feature names are for outputs of shape (n_samples, n_features), and the output of layer "
            f"{layer!r} has shape {shape} for each row: take a layer whose output is flat, "
            "or leave the output an array"
        )
    prefix = type(owner).__name__.lower()
    return np.asarray([f"{prefix}{i}" for i in range(shape[0])], dtype=object)


def in_container(estimator: Any, X: Any, output: Any, names: Callable[[], Any]) -> Any:
    """Return what `transform` has computed as `set_output` asks for it."""
    X = X.X if isinstance(X, Sequences) else X
    adapter = _get_container_adapter("transform", estimator)
    return output if adapter is None else adapter.create_container(output, X, columns=names())


class HiddenLayers(TransformerMixin, auto_wrap_output_keys=()):  # type: ignore[call-arg]
    """Outputs of hidden layers, which make an estimator a transformer."""

    model_: Model
    n_features_in_: int
    _inputs: Inputs | Encoded | None

    @named_errors
    @follows_namespace
    def transform(self, X: Any, layer: int | str = -2) -> Any:
        """Return the output of a layer, such as hidden activations, in evaluation mode.

        Layers after it are not computed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        layer : int or str, default=-2
            The number of a layer in the order in which the network calls its layers, -1 for the last, or the
            path of a module, such as ``"encoder.0"``. The layers of nested `Sequential` modules are counted
            one by one, and any other module that the network's forward pass calls counts as one; -2 is the
            last hidden layer, which a network of a single layer lacks. The calls of a module that is called
            several times are ``"act:0"``, ``"act:1"``, ...

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Output of the layer, the first array if there are several, in the container chosen by
            `set_output`.

        Raises
        ------
        TypeError, ValueError
            If there is no such layer; the message lists the layers.
        """
        output = self._predicted(X, layer, by=layer_rows)
        return in_container(self, X, output, lambda: self.get_feature_names_out(layer=layer))

    def get_feature_names_out(self, input_features: Any = None, layer: int | str = -2) -> Any:
        """Return names for the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Checked against the names and the number of features in the fit.
        layer : int or str, default=-2
            As for `transform`.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            The name of the class in lower case, followed by numbers.

        Raises
        ------
        ValueError
            If `input_features` do not fit, or the output of the layer is not two-dimensional.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        return feature_names(self, self._layer_shape(layer), layer)

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        return model_layer(self.model_, self._example(), layer).shape

    def _example(self) -> Any:
        """Return a row like those of the fit."""
        inputs = self._inputs
        return np.zeros((1, self.n_features_in_)) if inputs is None else inputs.example

    def layer(self, layer: int | str = -2) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, for a pipeline.

        It holds a copy of the network, so fitting this estimator again does not change it.

        Parameters
        ----------
        layer : int or str, default=-2
            As for `transform`.

        Returns
        -------
        LayerOutput
            A fitted transformer.
        """
        found = LayerOutput(self.freeze(), layer)
        if "feature_names_in_" in vars(self):
            found.feature_names_in_ = self.feature_names_in_
        return found.fit()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        dtype = arrays_in(getattr(self, "dtype", "auto"))
        tags.transformer_tags.preserves_dtype = ["float64", "float32"] if dtype == "auto" else [dtype]
        return tags


class LayerOutput(PlainNumbers, TransformerMixin, BaseEstimator):
    """Transformer that returns the output of a layer of a fitted network.

    Made by ``estimator.layer(-2)``. Fitting it changes nothing, and cloning it keeps the network: another
    model is trained on the features of a network that stays fixed.

    Parameters
    ----------
    estimator : object
        The network: a frozen predictor or a fitted estimator.
    layer : int or str, default=-2
        The number or the path of a layer, as for the `transform` of estimators.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sknet import MLPClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = MLPClassifier((32,), tol=0.01, random_state=0).fit(X[:800], y[:800] % 2)
    >>> model = make_pipeline(clf.layer(-2), KNeighborsClassifier()).fit(X[:800], y[:800])
    >>> model[0].transform(X).shape
    (1797, 32)
    >>> model.score(X[800:], y[800:]) > 0.8
    True
    """

    def _check_stored(self) -> None:
        is_ours = Named("BaseNet", "Frozen").is_satisfied_by(self.estimator)
        if not is_ours or isinstance(self.layer, bool) or not isinstance(self.layer, (int, str)):
            raise ValueError(
                f"it must have a network of sknet and the number or path of a layer, got "
                f"{_fields.shown(self.estimator)} and {_fields.shown(self.layer)}"
            )

    def __init__(self, estimator: Any, layer: int | str = -2) -> None:
        self.estimator = estimator
        self.layer = layer

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X."""
        return int(self.estimator.n_features_in_)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that the layer exists; the network is not changed.

        Parameters
        ----------
        X, y : object, default=None
            Ignored.

        Returns
        -------
        self
            The unchanged transformer.

        Raises
        ------
        TypeError, ValueError
            If there is no such layer.
        """
        self.estimator._layer_shape(self.layer)
        return self

    @follows_namespace
    def transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return the output of the layer.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        lengths : array-like of shape (n_samples,), dtype=int, default=None
            Number of steps of each sequence in X that are not padding, for a network that takes them.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            Output of the layer, the first array if there are several.
        """
        _check_feature_names(self, X, reset=False)
        if type(X) is np.ndarray or not is_array(X):
            return self.estimator.transform(with_lengths(X, lengths), layer=self.layer)
        given = with_lengths(to_host(X), lengths)
        return to_device(self.estimator.transform(given, layer=self.layer), device_of(X))

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None) -> Any:
        """Return the output of `transform`; the network is not changed.

        Parameters
        ----------
        X, lengths
            As for `transform`.
        y : object, default=None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            As for `transform`.
        """
        return self.fit().transform(X, **({} if lengths is None else {"lengths": lengths}))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return names for the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Checked against the names and the number of features in the network's fit.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            ``"layeroutput0"``, ...
        """
        _check_feature_names_in(self, input_features, generate_names=False)
        return feature_names(self, self.estimator._layer_shape(self.layer), self.layer)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        """Return a transformer of the same network, whose parameters can be set on their own."""
        return copy.copy(self)

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        if "_sklearn_output_config" in new.__dict__:
            new._sklearn_output_config = dict(new._sklearn_output_config)
        return new

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = False
        tags.array_api_support = True
        tags.transformer_tags.preserves_dtype = []
        return tags


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
        """Importances of the columns of X: mean absolute contributions to the outputs, scaled to sum 1.

        Contributions are integrated gradients of the predicted class, or of all outputs, for up to 200 evenly
        spaced rows of the fit (of a stream, of its first part), with their mean as baseline. With an encoder,
        the contributions of all encoded features of a column are summed. Not available for inputs other than
        rows of real numbers, for more than 16,384 columns, or after `slim`.
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
        return found / (found.sum() or 1.0)

    @follows_namespace
    def input_gradient(self, X: Any, target: Any = None) -> Any:
        """Return the gradient of an output with respect to the inputs, row by row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        target : label, int or array-like of shape (n_samples,), default=None
            The output: a class label for a classifier, otherwise the index of an output or of a label; an
            array has one for each row. None is the predicted class of each row, or the only output.

        Returns
        -------
        ndarray of the shape of X
            Gradients of raw outputs for a classifier (with two classes of the single output, with the
            opposite sign for the first class), of predictions for a regressor.

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
        """Attribute the difference between an output and its value at a baseline to the inputs.

        These are integrated gradients: the gradient averaged over the straight line from the baseline to the
        row, by Gauss-Legendre quadrature, times the difference between the two. The contributions of a row
        sum to the difference of the outputs, up to a quadrature error that falls with `n_steps`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        baseline : number or array-like of shape (n_features,) or (n_samples, n_features), default=None
            Uninformative inputs, such as a black image or the means of the features; None is 0. With an
            encoder, these are encoded rows, where 0 is the median of a number.
        target : label, int or array-like of shape (n_samples,), default=None
            As for `input_gradient`.
        n_steps : int, default=50
            Quadrature points on each line, at most 1,000.

        Returns
        -------
        ndarray of the shape of X
            Contributions; with an encoder, those of all encoded features of a column of the table, summed.

        Raises
        ------
        ValueError
            As for `input_gradient`, and if the shape of the baseline does not fit X.

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
    """Yield the outputs that importances explain: the predicted class of each row, or all one by one."""
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
    """Return attributions of X alone, without those of the lengths beside it."""
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
    """Return the outputs of a classifier that a target selects."""
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
