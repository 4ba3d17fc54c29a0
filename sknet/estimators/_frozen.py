"""Frozen predictors: the part of a fitted estimator that prediction needs."""

import copy
import math
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from sknet import ops
from sknet.core import Tensor, no_grad
from sknet.device import Device
from sknet.engine import Layout, Model, Predictor
from sknet.engine.predict import MOST_ROWS, Head, apply_head, in_chunks, rows_at_once, warn_of_overflow
from sknet.estimators._targets import ClassTargets, RealTargets
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module, Scope, run

__all__ = ["FrozenClassifier", "FrozenRegressor", "both_classes", "gives_deviations", "gives_probabilities"]

HOST = Device("cpu")
Targets = ClassTargets | RealTargets


def both_classes(link: Head, threshold: float) -> Head:
    """Return a link with a column for each of two classes, for a network that has one output for both.

    The link of a binary loss is symmetric: class 0 has class 1's probability at the output on the other
    side of the threshold, which is exact where 1 - p is not.
    """
    return lambda output: ops.concat([link(2.0 * threshold - output), link(output)], axis=1)


class _Frozen:
    """A network in evaluation mode, and a compiled pass for each kind of prediction.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : ClassTargets or RealTargets
        How outputs are decoded.
    n_features : int
        Columns of X.
    label : str
        What the network is called.
    """

    def __init__(
        self, model: Model, targets: ClassTargets | RealTargets, n_features: int, label: str
    ) -> None:
        self._dtype = model.dtype
        self._loss, self._targets = model.loss_function, targets
        self._n_features, self._label = n_features, label
        module = copy.deepcopy(model.module).eval().to(device="cpu")
        module.load_state_dict(model.evaluation_parameters, strict=False)
        self._own(module)

    def _own(self, module: Module) -> None:
        """Take over a module: its parameters become views of one array, an input of the programs."""
        trained = dict(module.named_parameters())
        self._module = module
        self._layout = Layout({path: tuple(parameter.shape) for path, parameter in trained.items()})
        self._flat = np.zeros(self._layout.size, self._dtype)
        self._layout.fill(self._flat, {path: parameter.data for path, parameter in trained.items()})
        for path, view in self._layout.views(self._flat).items():
            trained[path].data = view
        self._predictors: dict[str, Predictor | None] = {}
        self._rows: int | None = None

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return self._n_features

    @property
    def nbytes(self) -> int:
        """Bytes of parameters and buffers."""
        buffers = [buffer.data.nbytes for _, buffer in self._module.named_buffers()]
        return int(self._flat.nbytes + sum(buffers))

    def _predicted(self, X: Any, name: str, head: Head | None = None) -> Any:
        with np.errstate(all="ignore"):  # one warning at the end says more than NumPy's on the way
            X = self._checked(X)
            result = self._computed(X, name, head)
            warn_of_overflow(result, X, type(self).__name__, stacklevel=3)
        return result

    def _computed(self, X: Any, name: str, head: Head | None) -> Any:
        if self._rows is None:
            self._rows = rows_at_once(self._module, X.shape[1:], self._flat.dtype)
        if type(X) is np.ndarray:
            try:
                predictor = self._predictor(name, head)
                if predictor is not None:
                    return predictor(X)
            except (CaptureError, GraphError):
                self._predictors[name] = None  # computed one operation after the other
        return in_chunks(
            lambda chunk: apply_head(head, self._raw(chunk)), X, self._rows, self._flat.dtype, HOST
        )

    def _checked(self, X: Any) -> Any:
        """Return the input as a 2-D array or CSR matrix of finite numbers."""
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self.n_features_in_ or X.dtype.kind not in "biuf":
            raise ValueError(
                f"expected a 2-D array of numbers with {self.n_features_in_} columns, got {X.dtype} of shape "
                f"{X.shape}"
            )
        if not X.shape[0]:
            raise ValueError("expected at least one row, got none")
        values = X if type(X) is np.ndarray else X.data
        if not math.isfinite(np.add.reduce(values, axis=None)) and not np.isfinite(values).all():
            raise ValueError("Input X contains NaN or infinity: impute or drop such rows first")
        return X

    def _predictor(self, name: str, head: Head | None) -> Predictor | None:
        if name not in self._predictors:
            rows = min(MOST_ROWS, self._rows or 1)
            self._predictors[name] = Predictor(self._module, self._layout, self._flat, head, rows)
        return self._predictors[name]

    def _raw(self, X: Any) -> Any:
        with no_grad():
            return run(self._module, Scope({}), (X if ops.is_sparse(X) else Tensor(X),)).data

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_loss", "_targets", "_n_features", "_label", "_dtype", "_module")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        module = state.pop("_module")
        self.__dict__.update(state)
        self._own(module)  # into an array of its own: joblib may hand out read-only maps of a file

    def __repr__(self) -> str:
        loss = type(self._loss).__name__
        return f"{type(self).__name__}({self._label}, {loss}, {self._dtype})"


def gives_probabilities(classifier: Any) -> bool:
    """Tell whether probabilities can be predicted; raise an AttributeError that says why not."""
    loss = classifier._loss
    if loss is not None and not loss.has_probabilities:
        raise AttributeError(
            f"{type(classifier).__name__} has no probabilities with {loss!r}, which trains distances to a "
            "boundary: use decision_function, or train with 'log_loss'"
        )
    return True


def gives_deviations(regressor: Any) -> bool:
    """Tell whether standard deviations can be predicted; raise an AttributeError that says why not."""
    if not hasattr(regressor._loss, "predict_std"):
        raise AttributeError(
            f"{type(regressor).__name__} has standard deviations with a loss that learns them alone: "
            "use loss='gaussian_nll'"
        )
    return True


class FrozenClassifier(_Frozen):
    """A classifier that only predicts: small, picklable, and with no state of a training.

    Made by ``MLPClassifier.freeze()``. A few compiled passes, for parts of 1 to 16 and of
    32, 64, ... rows, compute any number of rows: meant for services that ask for a few at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; what it predicts with is copied.
    targets : ClassTargets
        The labels.
    n_features : int
        Columns of X.
    label : str
        What the network is called.

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

    _targets: ClassTargets

    @property
    def classes_(self) -> Any:
        """The labels, sorted."""
        return self._targets.classes

    def decision_function(self, X: Any) -> Any:
        """Return raw outputs, as the estimator's method of this name does for X of shape (n, n_features)."""
        output = self._predicted(X, "raw")
        return output[:, 0] if self._targets.task == "binary" else output

    def predict(self, X: Any) -> Any:
        """Return labels, as the estimator's method of this name does for X of shape (n, n_features)."""
        return self._targets.decode(self._predicted(X, "raw"), self._loss.threshold)

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, as the estimator's method of this name does for X of its shape."""
        return self._predicted(X, "probabilities", self._of_every_class(self._loss.predict))

    @available_if(gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return log probabilities, as the estimator's method of this name does for X of its shape."""
        return self._predicted(X, "log_probabilities", self._of_every_class(self._loss.log_predict))

    def _of_every_class(self, link: Head) -> Head:
        return both_classes(link, self._loss.threshold) if self._targets.task == "binary" else link


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
    n_features : int
        Columns of X.
    label : str
        What the network is called.

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

    def predict(self, X: Any) -> Any:
        """Return predictions, as the estimator's method of this name does for X of shape (n, n_features)."""
        return self._targets.decode(self._predicted(X, "means", self._loss.predict))

    @available_if(gives_deviations)  # type: ignore[untyped-decorator]
    def predict_std(self, X: Any) -> Any:
        """Return standard deviations, as the estimator's method of this name does for X of its shape."""
        return self._targets.decode(self._predicted(X, "deviations", self._loss.predict_std))
