"""Predictions of many rows: in chunks of bounded memory, and from several threads."""

import pickle
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import accuracy_score

from tests.estimators.data import TABLES, TASKS, estimator_for, quiet


def fitted(task, **params):
    with quiet():
        return estimator_for(task, max_iter=1, **params).fit(*TABLES[task])


METHODS = {
    "binary": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "multiclass": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "multilabel": ("predict", "predict_proba", "predict_log_proba", "decision_function"),
    "regression": ("predict",),
    "multioutput": ("predict",),
}


@pytest.mark.parametrize("task", TASKS)
def test_chunks_give_what_single_rows_give(task):
    """A layer this wide is computed 256 rows at a time."""
    estimator = fitted(task, hidden_layer_sizes=(1 << 12,), dtype="float64")
    X = np.random.default_rng(0).normal(size=(600, 12))
    for method in METHODS[task]:
        whole = getattr(estimator, method)(X)
        rows = np.concatenate(
            [getattr(estimator, method)(X[i : i + 1]) for i in (0, 255, 256, 511, 512, 599)]
        )
        np.testing.assert_allclose(whole[[0, 255, 256, 511, 512, 599]], rows, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(getattr(estimator, method)(scipy.sparse.csr_array(X)), whole, atol=1e-9)


@pytest.mark.parametrize("task", ["multiclass", "regression"])
def test_memory_is_bounded(task):
    """All hidden outputs at once would take 820 MB, and a float32 copy of X 10 MB."""
    estimator = fitted(task, hidden_layer_sizes=(1 << 10,), dtype="float32")
    X = np.zeros((200_000, 12))
    tracemalloc.start()
    estimator.predict(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60e6


@pytest.mark.parametrize("task", TASKS)
def test_threads(task):
    estimator = fitted(task, hidden_layer_sizes=(64, 64), dropout=0.5)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(size, 12)) for size in (1, 7, 100, 3000)] * 4
    for method in METHODS[task]:
        predict = getattr(estimator, method)
        expected = [predict(X) for X in inputs]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(predict, inputs * 4))
        for got, wanted in zip(found, expected * 4, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("task", TASKS)
def test_prediction_changes_neither_input_nor_result(task):
    estimator = fitted(task)
    X, _ = TABLES[task]
    given, before = X.copy(), X.copy()
    for method in METHODS[task]:
        first = getattr(estimator, method)(given)
        kept = first.copy()
        getattr(estimator, method)(given[::-1])
        np.testing.assert_array_equal(first, kept)
        first[...] = 0
        np.testing.assert_array_equal(getattr(estimator, method)(given), kept)
    np.testing.assert_array_equal(given, before)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("task", TASKS)
def test_dtypes_of_results(task, dtype):
    X, y = TABLES[task]
    with quiet():
        estimator = estimator_for(task, max_iter=1).fit(X.astype(dtype), y)
    assert estimator.coefs_[0].dtype == dtype
    for kind in ("float32", "float64"):
        found = (
            estimator.predict_proba(X.astype(kind)) if task in METHODS and len(METHODS[task]) > 1 else None
        )
        found = estimator.predict(X.astype(kind)) if found is None else found
        assert found.dtype == dtype


@pytest.mark.parametrize(
    "as_given",
    [
        np.asfortranarray,
        lambda X: X[::-1][::-1],
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        np.ndarray.tolist,
    ],
)
def test_rows_of_every_layout(as_given):
    X, y = TABLES["multiclass"]
    with quiet():
        plain = estimator_for("multiclass").fit(X, y)
        other = estimator_for("multiclass").fit(as_given(X), y)
    rtol = 1e-9 if other.coefs_[0].dtype == "float64" else 1e-4  # a list has no dtype of its own
    np.testing.assert_allclose(other.predict_proba(as_given(X)), plain.predict_proba(X), rtol=rtol)


def test_probabilities_are_finite_and_exact_for_extreme_logits():
    X, y = TABLES["binary"]
    with quiet():
        estimator = estimator_for("binary", activation="identity").fit(X, y)
    logs, raw = estimator.predict_log_proba(100 * X), estimator.decision_function(100 * X)
    np.testing.assert_allclose(logs[:, 1], -np.logaddexp(0, -raw), rtol=1e-6)
    np.testing.assert_allclose(logs[:, 0], -np.logaddexp(0, raw), rtol=1e-6)
    assert np.isfinite(logs).all()


def assert_single_rows_agree(estimator, X):
    for name in ("predict_proba", "predict_log_proba", "decision_function", "predict"):
        if hasattr(estimator, name):
            predict = getattr(estimator, name)
            rows = np.concatenate([predict(X[i : i + 1]) for i in range(5)])
            np.testing.assert_allclose(rows, predict(X[:5]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", TASKS)
def test_single_rows_follow_the_training(task):
    """A single row goes through a compiled pass, which has to notice every change of the model."""
    X, y = TABLES[task]
    estimator = fitted(task, warm_start=True)
    assert_single_rows_agree(estimator, X)
    estimator.partial_fit(X, y)
    assert_single_rows_agree(estimator, X)
    with quiet():
        estimator.fit(X, y)
        assert_single_rows_agree(estimator, X)
        estimator.set_params(optimizer="lbfgs", max_iter=3).fit(X, y)
    assert_single_rows_agree(estimator, X)
    state = estimator.model_.state
    estimator.model_.load(state._replace(parameters={k: 2 * v for k, v in state.parameters.items()}))
    assert_single_rows_agree(estimator, X)
    assert_single_rows_agree(pickle.loads(pickle.dumps(estimator)), X)


def test_single_rows_follow_another_loss():
    X, y = TABLES["counts"]
    with quiet():
        estimator = estimator_for("regression", warm_start=True).fit(X, y)
        assert_single_rows_agree(estimator, X)
        estimator.set_params(loss="poisson").fit(X, y)
    assert_single_rows_agree(estimator, X)
    assert (estimator.predict(X[:1]) > 0).all()


@pytest.mark.parametrize("task", TASKS)
def test_frozen_estimators_predict_as_they_were_fitted(task):
    X, y = TABLES[task]
    estimator = fitted(task, dropout=0.2, activation="tanh", dtype="float64").set_params(activation="relu")
    frozen = pickle.loads(pickle.dumps(estimator.freeze()))
    for method in METHODS[task]:
        np.testing.assert_allclose(getattr(frozen, method)(X), getattr(estimator, method)(X), rtol=1e-12)
    before = frozen.predict(X)
    estimator.set_params(activation="tanh").partial_fit(X, y)
    np.testing.assert_array_equal(frozen.predict(X), before)


LABELS_OF_KINDS = {
    "integers": np.array,
    "small integers": lambda y: np.array(y, np.int8),
    "list": list,
    "floats": lambda y: np.array(y, float),
    "strings": lambda y: np.array(["no", "yes"])[y],
    "booleans": lambda y: np.array(y, bool),
    "column": lambda y: np.array(y)[:, np.newaxis],
}


@pytest.mark.filterwarnings("ignore:A column-vector y")
@pytest.mark.parametrize("kind", LABELS_OF_KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_accuracies_of_scikit_learn(kind, weighted):
    X, y = TABLES["binary"]
    labels = LABELS_OF_KINDS[kind](np.asarray(y))
    weight = np.linspace(0, 1, len(X)) if weighted else None
    with quiet():
        estimator = estimator_for("binary", max_iter=2).fit(X, labels)
    expected = accuracy_score(labels, estimator.predict(X), sample_weight=weight)
    assert estimator.score(X, labels, weight) == expected
    assert 0 < expected < 1


def test_scores_of_labels_that_do_not_fit():
    X, y = TABLES["binary"]
    estimator = fitted("binary")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        estimator.score(X, y[:-1])
