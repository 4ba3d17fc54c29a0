"""Small data sets of every task, and helpers of the tests of estimators."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_multilabel_classification, make_regression
from sklearn.exceptions import ConvergenceWarning

import sknet
from sknet import neural_network
from sknet.optim import Adam

N = 230
CLASSIFIERS = (sknet.MLPClassifier, neural_network.MLPClassifier)
REGRESSORS = (sknet.MLPRegressor, neural_network.MLPRegressor)


def _tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    X, binary = make_classification(N, 12, n_informative=6, n_classes=2, random_state=0)
    multiclass = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    X_real, targets = make_regression(N, 12, n_targets=3, noise=0.1, random_state=0)
    targets = targets / targets.std()
    X_many, many = make_multilabel_classification(N, 12, random_state=0)
    X_many = (X_many - X_many.mean(axis=0)) / X_many.std(axis=0)
    return {
        "binary": (X, binary),
        "multiclass": (X, multiclass),
        "multilabel": (X_many, many),
        "regression": (X_real, targets[:, 0]),
        "multioutput": (X_real, targets),
        "ordinal": (X, np.digitize(X[:, 0] + 0.5 * X[:, 1], [-1.0, 0.0, 1.0])),
        "columns": (X, np.stack([multiclass, binary + 3], axis=1)),
        "counts": (X_real, np.exp(targets[:, 0])),
        "many counts": (X_real, np.exp(targets)),
    }


TABLES = _tables()
WEIGHTS = np.random.default_rng(0).uniform(0, 3, N)
CLASSIFICATIONS = ("binary", "multiclass", "multilabel")
OTHER_CLASSIFICATIONS = ("ordinal", "columns")
REGRESSIONS = ("regression", "multioutput")
TASKS = CLASSIFICATIONS + REGRESSIONS
TRAINING = slice(0, 160)
HELD_OUT = slice(160, None)
ROWS = np.arange(N)


def estimator_for(task: str, **params: Any) -> Any:
    """Return a small, quick estimator for a task."""
    classifies = task in CLASSIFICATIONS + OTHER_CLASSIFICATIONS
    kind = sknet.MLPClassifier if classifies else sknet.MLPRegressor
    defaults = {"hidden_layer_sizes": (8,), "max_iter": 3, "batch_size": 64, "random_state": 0}
    defaults |= {"scale_inputs": False, "early_stopping": False} | (
        {} if classifies else {"scale_target": False}
    )
    defaults |= {"loss": "ordinal"} if task == "ordinal" else {}
    defaults |= {"alpha": 1e-4, "optimizer": Adam()}  # which do not follow the rows
    return kind(**defaults | params)


def first_part(task: str, estimator: Any, X: Any, y: Any, weight: Any = None) -> Any:
    """Call partial_fit with the arguments of a first call."""
    more = {"classes": np.unique(y)} if task in ("binary", "multiclass") else {}
    if task == "multilabel":
        more = {"classes": np.arange(y.shape[1])}
    return estimator.partial_fit(X, y, sample_weight=weight, **more)


def parts(task: str) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Return X, y and weights for training, and for validation."""
    X, y = TABLES[task]
    return (X[TRAINING], y[TRAINING], WEIGHTS[TRAINING]), (X[HELD_OUT], y[HELD_OUT], WEIGHTS[HELD_OUT])


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warning of a fit that reaches the limit of epochs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def outputs(estimator: Any, X: Any) -> np.ndarray:
    """Return the estimator's most detailed prediction."""
    return estimator.predict_proba(X) if hasattr(estimator, "predict_proba") else estimator.predict(X)


def same_bits(a: Any, b: Any) -> bool:
    """Tell whether two fitted estimators agree to the last bit, in weights and history."""
    weights = [*a.coefs_, *a.intercepts_], [*b.coefs_, *b.intercepts_]
    curves = [{k: v for k, v in e.history_.items() if k != "time"} for e in (a, b)]
    return all(map(np.array_equal, *weights)) and curves[0] == curves[1]


@contextmanager
def unchanged(estimator: Any, X: Any) -> Iterator[None]:
    """Check that the body does not change a fitted estimator."""
    attributes, params = set(vars(estimator)), estimator.get_params()
    before = None if not hasattr(estimator, "model_") else outputs(estimator, X)
    state = None if before is None else estimator.model_.state
    yield
    assert set(vars(estimator)) == attributes
    assert estimator.get_params() == params
    if before is not None:
        assert np.array_equal(outputs(estimator, X), before)
        same_state(estimator.model_.state, state)


def same_state(a: Any, b: Any) -> None:
    """Assert that two model states are equal to the last bit."""
    assert a.progress == b.progress
    pairs = ((a.parameters, b.parameters), (a.buffers, b.buffers), (a.optimizer.slots, b.optimizer.slots))
    for mine, theirs in pairs:
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
