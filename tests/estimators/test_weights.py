"""Sample weights and class weights; sparse rows."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.utils.class_weight import compute_sample_weight

from sknet import neural_network
from tests.estimators.data import (
    CLASSIFICATIONS,
    TABLES,
    TASKS,
    WEIGHTS,
    estimator_for,
    outputs,
    quiet,
    same_bits,
)

REPEATS = np.random.default_rng(1).integers(0, 4, len(WEIGHTS))
FULL = {"batch_size": 1000, "shuffle": False, "dtype": "float64", "max_iter": 10, "alpha": 1.0}


def fit(task, X, y, weight=None, **params):
    size = min(params.pop("batch_size", 64), X.shape[0])
    with quiet():
        return estimator_for(task, batch_size=size, **params).fit(X, y, weight)


def assert_close(a, b, rtol=1e-9):
    for mine, other in zip([*a.coefs_, *a.intercepts_], [*b.coefs_, *b.intercepts_], strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=rtol * np.abs(other).max())
    np.testing.assert_allclose(a.loss_curve_, b.loss_curve_, rtol=rtol)


@pytest.mark.parametrize("optimizer", ["adam", "lbfgs"])
@pytest.mark.parametrize("task", TASKS)
def test_weights_are_repetitions(task, optimizer):
    X, y = TABLES[task]
    weighted = fit(task, X, y, REPEATS, optimizer=optimizer, **FULL)
    repeated = fit(
        task, np.repeat(X, REPEATS, axis=0), np.repeat(y, REPEATS, axis=0), optimizer=optimizer, **FULL
    )
    assert_close(weighted, repeated, rtol=1e-9 if optimizer == "adam" else 1e-5)
    assert weighted.history_.get("score", [0]) == pytest.approx(repeated.history_.get("score", [0]))


@pytest.mark.parametrize("task", TASKS)
def test_rows_of_zero_weight_are_ignored(task):
    X, y = TABLES[task]
    weight = (REPEATS > 0).astype(float)
    kept = weight > 0
    changed = X.copy()
    changed[~kept] = 1e3
    assert_close(fit(task, changed, y, weight, **FULL), fit(task, X[kept], y[kept], **FULL))


@pytest.mark.parametrize("task", TASKS)
def test_only_ratios_count_but_for_the_penalty(task):
    X, y = TABLES[task]
    params = FULL | {"alpha": 0.0}
    assert_close(fit(task, X, y, WEIGHTS, **params), fit(task, X, y, 7 * WEIGHTS, **params))
    assert_close(fit(task, X, y, 3.0, **params), fit(task, X, y, **params))


@pytest.mark.parametrize("class_weight", [{0: 2.0, 2: 0.5}, {1: 0.0}, "balanced"])
@pytest.mark.parametrize("weight", [None, WEIGHTS], ids=["alone", "with sample weights"])
def test_class_weights_are_sample_weights(class_weight, weight):
    X, y = TABLES["multiclass"]
    if class_weight == "balanced":
        by_hand = len(y) / (3 * np.bincount(y))[y]
        np.testing.assert_allclose(by_hand, compute_sample_weight("balanced", y))
    else:
        by_hand = np.array([class_weight.get(c, 1.0) for c in y])
    ours = fit("multiclass", X, y, weight, class_weight=class_weight, dtype="float64")
    expected = fit("multiclass", X, y, by_hand if weight is None else weight * by_hand, dtype="float64")
    assert_close(ours, expected)


def test_class_weights_of_other_labels():
    X, y = TABLES["binary"]
    words = np.array(["no", "yes"])[y]
    assert_close(
        fit("binary", X, words, class_weight={"yes": 3.0}), fit("binary", X, y, class_weight={1: 3.0})
    )
    X, y = TABLES["multilabel"]
    by_hand = np.prod([np.where(y[:, k], 2.0, 1.0) for k in range(5)], axis=0)
    assert_close(
        fit("multilabel", X, y, class_weight=[{0: 1.0, 1: 2.0}] * 5, dtype="float64"),
        fit("multilabel", X, y, by_hand, dtype="float64"),
    )


def test_class_weights_of_parts_that_lack_classes():
    X, y = TABLES["multiclass"]
    few = y != 2
    by_hand = np.where(y == 0, 5.0, 1.0)[few]
    a = estimator_for("multiclass", class_weight={0: 5.0, 2: 9.0})
    b = estimator_for("multiclass")
    a.partial_fit(X[few], y[few], classes=[0, 1, 2])
    b.partial_fit(X[few], y[few], by_hand, classes=[0, 1, 2])
    assert_close(a, b)


@pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])
def test_weights_reach_the_validation_score(task):
    X, y = TABLES[task]
    params = {"early_stopping": True, "max_iter": 5, "dtype": "float64"}
    a, b = fit(task, X, y, WEIGHTS, **params), fit(task, X, y, **params)
    assert a.validation_scores_ != b.validation_scores_
    assert a.history_["validation_loss"] != b.history_["validation_loss"]
    ones = fit(task, X, y, np.ones(len(y)), **params)
    np.testing.assert_allclose(ones.validation_scores_, b.validation_scores_)


# -- sparse ------------------------------------------------------------------------------------------

FEW = 10
KINDS = [scipy.sparse.csr_array, scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array]


@pytest.fixture
def no_dense_copies(monkeypatch):
    """Sparse matrices that raise when converted to dense, but for a few rows that importances are of."""
    monkeypatch.setattr("sknet.estimators._inputs.MOST_ROWS", FEW)

    def refuse(self, *args, **kwargs):
        assert self.shape[0] <= FEW, "a sparse matrix was made dense"
        return scipy.sparse.coo_array(self) @ np.eye(self.shape[1])

    for kind in (*KINDS, scipy.sparse.csc_matrix):
        for name in ("toarray", "todense"):
            monkeypatch.setattr(kind, name, refuse)


@pytest.mark.usefixtures("no_dense_copies")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", TASKS)
def test_sparse_rows_give_the_dense_fit(task, kind):
    X, y = TABLES[task]
    X = np.where(X > 0, X, 0)
    for stop in (True, False):
        params = {"early_stopping": stop, "dtype": "float64", "max_iter": 4}
        dense, sparse = fit(task, X, y, WEIGHTS, **params), fit(task, kind(X), y, WEIGHTS, **params)
        assert_close(sparse, dense)
        for method in ("predict_proba", "predict_log_proba", "decision_function", "predict"):
            if hasattr(dense, method):
                np.testing.assert_allclose(
                    getattr(sparse, method)(kind(X)), getattr(dense, method)(X), atol=1e-9
                )


@pytest.mark.usefixtures("no_dense_copies")
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_parts_and_lbfgs(kind):
    X, y = TABLES["binary"]
    X = np.where(X > 0, X, 0)
    pair = [estimator_for("binary", dtype="float64") for _ in range(2)]
    for estimator, data in zip(pair, (kind(X), X), strict=True):
        for _ in range(2):
            estimator.partial_fit(data, y, classes=[0, 1])
    assert_close(*pair)
    params = {"optimizer": "lbfgs", "max_iter": 5, "dtype": "float64"}
    assert_close(fit("binary", kind(X), y, **params), fit("binary", X, y, **params), rtol=1e-6)


@pytest.mark.usefixtures("no_dense_copies")
def test_sparse_rows_in_single_precision_and_scikit_learns_signature():
    X, y = TABLES["multiclass"]
    X = scipy.sparse.csr_array(np.where(X > 0, X, 0), dtype="float32")
    for kind in (neural_network.MLPClassifier, type(estimator_for("multiclass"))):
        with quiet():
            estimator = kind((5,), max_iter=2, random_state=0).fit(X, y)
        assert estimator.coefs_[1].dtype == "float32"
        assert estimator.predict_proba(X).dtype == "float32"


def test_sparse_indicator_targets():
    X, y = TABLES["multilabel"]
    assert same_bits(fit("multilabel", X, scipy.sparse.csr_array(y)), fit("multilabel", X, y))


@pytest.mark.parametrize("task", CLASSIFICATIONS)
def test_outputs_of_classifications(task):
    X, y = TABLES[task]
    estimator = fit(task, X, y)
    probabilities = outputs(estimator, X)
    np.testing.assert_allclose(np.exp(estimator.predict_log_proba(X)), probabilities, rtol=1e-5)
    raw = estimator.decision_function(X)
    if task == "multilabel":
        assert probabilities.shape == raw.shape == y.shape
        np.testing.assert_array_equal(estimator.predict(X), probabilities > 0.5)
    else:
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(estimator.predict(X), probabilities.argmax(axis=1))
        assert raw.shape == ((len(X),) if task == "binary" else probabilities.shape)
        order = raw > 0 if task == "binary" else raw.argmax(axis=1)
        np.testing.assert_array_equal(estimator.predict(X), order)
