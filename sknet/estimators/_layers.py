"""Hidden activations: what estimators have as transformers, and the output of one layer as a transformer."""

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_container_adapter
from sklearn.utils.validation import _check_feature_names, _check_feature_names_in, check_is_fitted

from sknet._fields import Named, shown
from sknet._params import PlainNumbers, named_errors
from sknet.device import arrays_in, device_of, is_array, to_device, to_host
from sknet.engine import Model
from sknet.engine._layer_outputs import layer_rows, model_layer
from sknet.estimators._inputs import Encoded, Inputs, Sequences, follows_namespace, with_lengths


def feature_names(owner: Any, shape: tuple[int, ...], layer: Any) -> Any:
    """Return names for the columns of a layer's output."""
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
        """Return the output of a layer: hidden activations, in evaluation mode.

        Nothing after the layer is computed.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Inputs.
        layer : int or str, default=-2
            The number of a layer in the order in which the network calls its layers, -1 for the last, or
            the path of a module, such as ``"encoder.0"``. Numbers count the layers of a `Sequential` inside
            another, and all else that the network's own forward pass calls as one layer each; -2 is the last
            hidden layer, which a network of a single layer lacks. A module that is called several times is
            named with the number of the call, ``"act:0"``.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            What the layer returns; of several arrays the first. As `set_output` asks for it.

        Raises
        ------
        TypeError, ValueError
            If there is no such layer; the message names those there are.
        """
        output = self._predicted(X, layer, by=layer_rows)
        return in_container(self, X, output, lambda: self.get_feature_names_out(layer=layer))

    def get_feature_names_out(self, input_features: Any = None, layer: int | str = -2) -> Any:
        """Return names for the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Only compared with the names and the number of features of the fit.
        layer : int or str, default=-2
            As for `transform`.

        Returns
        -------
        ndarray of str of shape (n_features_out,)
            The class in small letters, with numbers.

        Raises
        ------
        ValueError
            If `input_features` do not fit, or the output of the layer is not two-dimensional.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        return feature_names(self, self._layer_shape(layer), layer)

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        """Return the shape of a layer's output for one row."""
        return model_layer(self.model_, self._example(), layer).shape

    def _example(self) -> Any:
        """Return a row like those of the fit."""
        inputs = self._inputs
        return np.zeros((1, self.n_features_in_)) if inputs is None else inputs.example

    def layer(self, layer: int | str = -2) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, for a pipeline.

        It has a copy of the network as it is now, and does not change when this estimator is fitted again.

        Parameters
        ----------
        layer : int or str, default=-2
            As for `transform`.

        Returns
        -------
        LayerOutput
            Fitted already.
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
    """The output of a layer of a fitted network, as a transformer of its own.

    Made by ``estimator.layer(-2)``. Fitting it changes nothing, and cloning it keeps the network: it is
    for what is trained on top of a network that stays as it is.

    Parameters
    ----------
    estimator : object
        What computes the layer: a frozen predictor or a fitted estimator.
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
                f"{shown(self.estimator)} and {shown(self.layer)}"
            )

    def __init__(self, estimator: Any, layer: int | str = -2) -> None:
        self.estimator = estimator
        self.layer = layer

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return int(self.estimator.n_features_in_)

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that there is such a layer; the network stays as it is.

        Parameters
        ----------
        X, y : object, default=None
            Not looked at.

        Returns
        -------
        self
            As it was.

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
            What the layer returns; of several arrays the first.
        """
        _check_feature_names(self, X, reset=False)
        if type(X) is np.ndarray or not is_array(X):
            return self.estimator.transform(with_lengths(X, lengths), layer=self.layer)
        given = with_lengths(to_host(X), lengths)
        return to_device(self.estimator.transform(given, layer=self.layer), device_of(X))

    def fit_transform(self, X: Any, y: Any = None, *, lengths: Any = None) -> Any:
        """Return what `transform` returns; the network stays as it is.

        Parameters
        ----------
        X, lengths
            As for `transform`.
        y : object, default=None
            Not looked at.

        Returns
        -------
        ndarray of shape (n_samples, ...)
            As of `transform`.
        """
        return self.fit().transform(X, **({} if lengths is None else {"lengths": lengths}))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return names for the columns that `transform` returns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Only compared with the names and the number of features of the network's fit.

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
