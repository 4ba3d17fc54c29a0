"""Frozen predictors: the part of a fitted estimator that prediction needs."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._available import available_if
from sknet._frames import is_frame, read_frame
from sknet.core import Tensor
from sknet.device import Device
from sknet.engine.extend import (
    Head,
    Layer,
    Part,
    Pass,
    arguments,
    computed_dtype,
    detached,
    each_input,
    find_layer,
    flattened,
    warn_of_overflow,
)
from sknet.estimators._decoding import DECODER, checked_codes, has_decoder
from sknet.estimators._encoded import Encoded
from sknet.estimators._heads import (
    check_deviations,
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
    interval_head,
    probability_head,
)
from sknet.estimators._inputs import Inputs, Sequences, with_lengths
from sknet.estimators._passes import Passes
from sknet.estimators._python import python_file
from sknet.estimators._targets import ArrayTargets, ClassEncoder, RealTargets
from sknet.nn import Module, Scope, run
from sknet.persistence import write_atomically

if TYPE_CHECKING:
    from sknet.engine import Model
    from sknet.estimators._layers import LayerOutput

__all__ = ["FrozenClassifier", "FrozenRegressor", "FrozenTransformer"]

HOST = Device("cpu")
KEPT = tuple(map(np.dtype, ("float32", "float64")))  # anything else becomes the dtype of the network
MOST_REPEATED = 4  # numbers of rows that have a program because they come again and again
Targets = ClassEncoder | RealTargets | ArrayTargets


class _Frozen:
    """A network in evaluation mode, and a compiled pass for each kind of prediction.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : ClassEncoder, RealTargets or ArrayTargets
        How outputs are decoded.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        What the network is called.
    names : array of str, default=None
        Of the columns of X, if they have names.
    """

    _kind: str
    _names: "tuple[str, ...] | None" = None  # predictors of earlier versions have none

    def __init__(
        self,
        model: "Model",
        targets: Targets,
        inputs: "int | Inputs | Encoded",
        label: str,
        *,
        names: Any = None,
    ) -> None:
        self._dtype = model.dtype
        self._names = None if names is None else tuple(names)
        self._loss: Any = model.loss_function  # which heads it has, depends on its class
        self._targets = targets
        self._inputs, self._label = inputs.frozen() if isinstance(inputs, Encoded) else inputs, label
        self._own(detached(model))

    def _own(self, module: Module) -> None:
        """Take over a module: its parameters become views of one array, an input of the programs."""
        self._module = module
        self._layout, self._flat = flattened(module, self._dtype)
        self._passes = Passes(module, self._layout, self._flat)
        # Of a single row that needs no conversion; None where inputs are no table.
        self._row_shape = (1, self._inputs) if isinstance(self._inputs, int) else None

    @property
    def n_features_in_(self) -> int:
        """Columns of X; networks with other inputs have no such attribute."""
        if isinstance(self._inputs, Encoded):
            return self._inputs.n_features
        if not isinstance(self._inputs, int):
            raise AttributeError(
                f"the inputs of this {type(self).__name__} are not a table: it has no columns"
            )
        return self._inputs

    @property
    def feature_names_in_(self) -> Any:
        """Names of the columns of X, if the fit has seen some."""
        if self._names is None:
            raise AttributeError("X had no column names in the fit")
        return np.array(self._names, dtype=object)

    @property
    def nbytes(self) -> int:
        """Bytes of parameters and buffers."""
        buffers = [buffer.data.nbytes for _, buffer in self._module.named_buffers()]
        return int(self._flat.nbytes + sum(buffers))

    def _predicted(self, X: Any, name: str, head: Head | None = None, by: Pass = run) -> Any:
        if type(X) is np.ndarray and X.shape == self._row_shape and X.dtype.kind in "fiu" and by is run:
            result = self._passes.of_row(X, name, head)
            if result is not None:
                return result
        with np.errstate(all="ignore"):  # one warning at the end says more than NumPy's on the way
            X = self._checked(X)
            result = self._passes.compute(X, name, head, by)
            warn_of_overflow(result, X, type(self).__name__)
        return result

    def _checked(self, X: Any) -> Any:
        """Return the input as a 2-D array or CSR matrix of finite numbers, or the inputs that it takes."""
        if not isinstance(self._inputs, int):
            return self._inputs.read(None, X, [np.float32, np.float64])
        if isinstance(X, Sequences):
            raise TypeError(f"lengths= are for sequences, and this {type(self).__name__} takes a table")
        if type(X) is not np.ndarray:
            X = self._opened(X)
        if X.ndim != 2 or X.shape[1] != self._inputs or X.dtype.kind not in "biufO":
            raise ValueError(
                f"expected a 2-D array of numbers with {self.n_features_in_} columns, got {X.dtype} of shape "
                f"{X.shape}"
            )
        if X.dtype not in KEPT:
            X = X.astype(self._dtype)
        if not X.shape[0]:
            raise ValueError("expected at least one row, got none")
        values = X if type(X) is np.ndarray else X.data
        if not math.isfinite(np.add.reduce(values, axis=None)) and not np.isfinite(values).all():
            raise ValueError("Input X contains NaN or infinity: impute or drop such rows first")
        return X

    def _opened(self, X: Any) -> Any:
        if hasattr(X, "tocsr"):
            return X.tocsr()
        if not is_frame(X):
            return np.asarray(X)
        X = read_frame(X, self._names, self.n_features_in_)
        return X.array((self._dtype, *(dtype for dtype in KEPT if dtype != self._dtype)))

    # -- hidden activations ---------------------------------------------------------------------

    def transform(self, X: Any, layer: int | str = -2, *, lengths: Any = None) -> Any:
        """Return the output of a layer, as the estimator's method does for X and its `lengths`."""
        found = self._layer(layer)
        return self._predicted(with_lengths(X, lengths), found.name, by=found)

    def layer(self, layer: int | str = -2) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, as the estimator's method does."""
        from sknet.estimators._layers import LayerOutput  # an estimator of scikit-learn

        return LayerOutput(self, layer).fit()

    def _layer(self, layer: int | str) -> Layer:
        inputs = self._inputs
        row = np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example
        given = each_input(lambda x: Tensor(x.astype(computed_dtype(x, self._dtype))), row)

        def compute(by: Pass) -> Any:
            return by(self._module, Scope({}), arguments(given))

        return find_layer(layer, self._module, self._layout, row, self._dtype, compute)

    def _layer_shape(self, layer: int | str) -> tuple[int, ...]:
        return self._layer(layer).shape

    # -- as Python ------------------------------------------------------------------------------

    def to_python(
        self,
        path: str | os.PathLike[str],
        *,
        layer: int | str | None = None,
        coverage: float | None = None,
    ) -> None:
        """Write one Python file with functions that do what the methods do, and that need NumPy alone.

        Parameters
        ----------
        path : path-like
            The file to write: a module with `predict`, `predict_proba`, ..., which holds all parameters.
        layer : int or str, default=None
            The layer whose output the file's `transform` returns; None for that of a transformer's code, and
            for none of other predictors.
        coverage : float, default=None
            Of the intervals that the file's `predict_interval` returns; None for 0.8, or for no such
            function where the loss has learned quantiles of another one.

        Raises
        ------
        CaptureError
            If the network computes something that depends on values, or that NumPy alone cannot.
        ValueError
            If the loss has learned no interval of this coverage.
        TypeError, ValueError
            If there is no such layer.

        Notes
        -----
        The functions of NumPy are called on as many rows, and in the same order, as this predictor calls
        them, so results are the same to the bit, except where SciPy's functions are replaced (`sigmoid`,
        `erf` and `erfc`, thus "gelu", "silu", and the probabilities of two classes), where BLAS adds a
        multiple in one pass, and where large products are split: these differ in the last digits.
        Inputs have the lengths of the fit along all axes but the first.
        """
        text = python_file(self, layer, coverage)
        write_atomically(Path(path), [text.encode()])

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_loss", "_targets", "_inputs", "_label", "_dtype", "_module", "_names")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.pop("_module")
        self.__dict__.update(state)
        self._own(module)  # into an array of its own: joblib may hand out read-only maps of a file

    def __repr__(self) -> str:
        loss = type(getattr(self._loss, "loss", self._loss)).__name__  # the one inside of a wrapping loss
        return f"{type(self).__name__}({self._label}, {loss}, {self._dtype})"


class FrozenClassifier(_Frozen):
    """A classifier that only predicts: small, picklable, and with no state of a training.

    Made by ``MLPClassifier.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : ClassEncoder
        The labels.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        What the network is called.
    temperature : float, tuple of float or None, default=None
        By which probabilities are calibrated.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier(optimizer="lbfgs", max_iter=500, random_state=0).fit(X, y)
    >>> frozen = clf.freeze()
    >>> frozen
    FrozenClassifier(4-100-3, relu, LogLoss, float64)
    >>> bool((frozen.predict(X) == clf.predict(X)).all())
    True
    """

    _targets: ClassEncoder
    _kind = "classifier"

    def __init__(
        self,
        model: "Model",
        targets: ClassEncoder,
        inputs: "int | Inputs | Encoded",
        label: str,
        temperature: Any = None,
        *,
        names: Any = None,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names)
        self._temperature = temperature

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_temperature": self._temperature}

    @property
    def classes_(self) -> Any:
        """The labels, sorted."""
        return self._targets.classes

    def decision_function(self, X: Any, *, lengths: Any = None) -> Any:
        """Return raw outputs, as the estimator's method of this name does for X and its `lengths`."""
        return self._targets.decisions(self._decided(with_lengths(X, lengths)))

    def predict(self, X: Any, *, lengths: Any = None) -> Any:
        """Return labels, as the estimator's method of this name does for X and its `lengths`."""
        return self._targets.decode(self._decided(with_lengths(X, lengths)), self._loss.threshold)

    def _decided(self, X: Any) -> Any:
        head = self._targets.deciding(self._loss)
        return self._predicted(X, "raw" if head is None else "decisions", head)

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Return probabilities, as the estimator's method of this name does for X and its `lengths`."""
        return self._probable(with_lengths(X, lengths), "probabilities", "predict")

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any, *, lengths: Any = None) -> Any:
        """Return log probabilities, as the estimator's method of this name does for X and its `lengths`."""
        return self._probable(with_lengths(X, lengths), "log_probabilities", "log_predict")

    def _probable(self, X: Any, name: str, link: str) -> Any:
        head = probability_head(self._loss, self._targets, self._temperature, link)
        return self._targets.per_column(self._predicted(X, name, head))


class FrozenTransformer(_Frozen):
    """A transformer that only transforms: small, picklable, and with no state of a training.

    Made by ``Autoencoder.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted network; what it computes with is copied.
    targets : RealTargets or ArrayTargets
        What it has learned.
    inputs : int, Inputs or Encoded
        Columns of X, or what else the network takes.
    label : str
        What the network is called.
    code : int or str
        The layer whose output `transform` returns.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sknet import Autoencoder
    >>> X, _ = load_iris(return_X_y=True)
    >>> coder = Autoencoder((8, 2), tol=0.1, random_state=0).fit(X)
    >>> coder.freeze().transform(X[:3]).shape
    (3, 2)
    """

    _targets: RealTargets | ArrayTargets
    _kind = "transformer"

    def __init__(
        self,
        model: "Model",
        targets: RealTargets | ArrayTargets,
        inputs: "int | Inputs | Encoded",
        label: str,
        code: Any,
        *,
        names: Any = None,
    ) -> None:
        super().__init__(model, targets, inputs, label, names=names)
        self._code = code

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_code": self._code}

    def transform(self, X: Any, layer: int | str | None = None, *, lengths: Any = None) -> Any:
        """Return the code or the output of a layer, as the estimator's method does for X and `lengths`."""
        return super().transform(X, self._code if layer is None else layer, lengths=lengths)

    @available_if(has_decoder)
    def inverse_transform(self, X: Any, *, lengths: Any = None) -> Any:
        """Return what the decoder makes of codes, as the estimator's method does for X and `lengths`."""
        shape, has_steps = self._layer_shape(self._code), not isinstance(self._inputs, int)
        codes = checked_codes(self, with_lengths(X, lengths), shape, has_steps=has_steps)
        with np.errstate(all="ignore"):
            head = self._targets.head(self._loss)
            found = self._passes.compute(codes, DECODER, head, Part(DECODER), DECODER)
        return self._targets.restore(found)

    def _network(self) -> Module:
        return self._module

    def layer(self, layer: int | str | None = None) -> "LayerOutput":
        """Return a transformer whose output is that of a layer, the code by default."""
        return super().layer(self._code if layer is None else layer)


class FrozenRegressor(_Frozen):
    """A regressor that only predicts: small, picklable, and with no state of a training.

    Made by ``MLPRegressor.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : RealTargets
        The number of outputs.
    inputs : int, Inputs or Encoded
        Columns of X, or a description of the inputs if they are not a table.
    label : str
        What the network is called.
    names : array of str, default=None
        Of the columns of X, if they have names.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from sknet import MLPRegressor
    >>> X, y = make_regression(100, 5, random_state=0)
    >>> reg = MLPRegressor((8,), optimizer="lbfgs", max_iter=1000, random_state=0).fit(X, y)
    >>> bool((reg.freeze().predict(X[:1]) == reg.predict(X[:1])).all())
    True
    """

    _targets: RealTargets
    _kind = "regressor"

    def predict(self, X: Any, return_std: bool = False, *, lengths: Any = None) -> Any:
        """Return predictions for X and its `lengths`, with deviations too if `return_std`."""
        X = with_lengths(X, lengths)
        found = self._targets.decode(self._predicted(X, "means", self._loss.predict))
        if not return_std:
            return found
        check_deviations(self._loss)
        return found, self.predict_std(X)

    @available_if(gives_deviations)
    def predict_std(self, X: Any, *, lengths: Any = None) -> Any:
        """Return standard deviations, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "deviations", self._loss.predict_std)

    @available_if(gives_quantiles)
    def predict_quantiles(self, X: Any, *, lengths: Any = None) -> Any:
        """Return every quantile, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "quantiles", self._loss.predict_quantiles)

    @available_if(gives_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.8, *, lengths: Any = None) -> Any:
        """Return bounds of targets, as the estimator's method of this name does for X and its `lengths`."""
        return self._of_targets(X, lengths, "interval", interval_head(self._loss, coverage))

    def _of_targets(self, X: Any, lengths: Any, name: str, head: Head) -> Any:
        return self._targets.decode(self._predicted(with_lengths(X, lengths), name, head))
