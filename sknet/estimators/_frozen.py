"""Frozen predictors: what a fitted estimator predicts with, and nothing else."""

import math
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from sknet import ops
from sknet.device import to_host
from sknet.engine import Layout, Model, Predictor
from sknet.engine.predict import Head
from sknet.estimators._recipe import perceptron
from sknet.estimators._targets import ClassTargets, RealTargets

__all__ = ["FrozenClassifier", "FrozenRegressor", "both_classes", "gives_deviations", "gives_probabilities"]


def both_classes(link: Head, threshold: float) -> Head:
    """Return a link with a column for each of two classes, for a network that has one output for both.

    The link of a binary loss is symmetric: class 0 has class 1's probability at the output on the other
    side of the threshold, which is exact where 1 - p is not.
    """
    return lambda output: ops.concat([link(2.0 * threshold - output), link(output)], axis=1)


class _Frozen:
    """Parameters in one array, and a compiled pass for each kind of prediction.

    Parameters
    ----------
    model : Model
        A fitted perceptron; its parameters are copied.
    targets : ClassTargets or RealTargets
        What outputs mean.
    activation : str
        Of the hidden layers.
    """

    def __init__(self, model: Model, targets: ClassTargets | RealTargets, activation: str) -> None:
        widths = [array.shape[1] for name, array in model.parameters.items() if name.endswith("weight")]
        self._shape = (model.parameters["0.weight"].shape[0], tuple(widths[:-1]), widths[-1], activation)
        self._loss, self._targets = model.loss_function, targets
        self._flat = np.zeros(model.layout.size, model.dtype)
        model.layout.fill(self._flat, {n: to_host(a) for n, a in model.evaluation_parameters.items()})
        self._predictors: dict[str, Predictor] = {}

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return int(self._shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the parameters."""
        return int(self._flat.nbytes)

    def _predicted(self, X: Any, name: str, head: Head | None = None) -> Any:
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != self._shape[0] or X.dtype.kind not in "biuf":
            raise ValueError(
                f"expected a 2-D array of numbers with {self._shape[0]} columns, got {X.dtype} of shape "
                f"{X.shape}"
            )
        if not math.isfinite(np.add.reduce(X, axis=None)) and not np.isfinite(X).all():
            raise ValueError("Input X contains NaN or infinity: impute or drop such rows first")
        predictor = self._predictors.get(name)
        if predictor is None:
            module = perceptron(*self._shape).initialize(0).to(dtype=self._flat.dtype)
            layout = Layout({path: tuple(p.shape) for path, p in module.named_parameters()})
            predictor = self._predictors[name] = Predictor(module, layout, self._flat, head)
        return predictor(X)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._shape, self._loss, self._targets, self._flat

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._shape, self._loss, self._targets, flat = state
        self._flat = flat.copy()  # joblib may hand out a read-only map of a file
        self._predictors = {}

    def __repr__(self) -> str:
        inputs, hidden, outputs, activation = self._shape
        sizes = "-".join(map(str, (inputs, *hidden, outputs)))
        return (
            f"{type(self).__name__}({sizes}, {activation}, {type(self._loss).__name__}, {self._flat.dtype})"
        )


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

    Made by ``MLPClassifier.freeze()``. Rows are computed all at once, by a compiled pass for each
    number of rows that comes up: meant for services that ask for a few rows at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; its parameters are copied.
    targets : ClassTargets
        The labels.
    activation : str
        Of the hidden layers.

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

    Made by ``MLPRegressor.freeze()``. Rows are computed all at once, by a compiled pass for each
    number of rows that comes up: meant for services that ask for a few rows at a time.

    Parameters
    ----------
    model : Model
        A fitted perceptron; its parameters are copied.
    targets : RealTargets
        The number of outputs.
    activation : str
        Of the hidden layers.

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
