"""Predictions of rows in native code: bits, layouts, threads and messages are those of NumPy's plan."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sknet
from sknet import MLPClassifier, MLPRegressor

pytest.importorskip("sknet._native._core", reason="native code was not built")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6))
METHODS = {MLPClassifier: ("predict", "predict_proba", "decision_function"), MLPRegressor: ("predict",)}


def fitted(kind, dtype="float32", **params):
    """Return a fitted estimator."""
    y = RNG.integers(0, 3, len(X)) if kind is MLPClassifier else RNG.normal(size=len(X))
    # Training need not converge.
    return kind((9, 4), tol=0.1, n_iter_no_change=1, dtype=dtype, random_state=0, **params).fit(X, y)


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_they_have_the_bits_of_numpys_plan(kind, dtype, activation):
    estimator = fitted(kind, dtype, activation=activation)
    frozen = pickle.dumps(estimator.freeze())
    whole = pickle.dumps(estimator)
    turned, whole_numbers = np.asfortranarray(X)[5:6], (9 * X[:1]).astype(int)
    several = [X[:4], X[:16].astype("float32"), np.asfortranarray(X)[2:9], X[::2], X[:32], X[:0:-1, ::-1]]
    rows = [X[:1], X[3:4].astype("float32"), turned, whole_numbers, 30 * X[:1], 30 * X[:5], *several]
    found = {}
    for native in ("never", "always"):
        with sknet.config_context(native=native):
            mine = [pickle.loads(each) for each in (frozen, whole)]
            found[native] = [
                getattr(one, method)(row)
                for one in mine
                for method in METHODS[kind]
                for row in rows
                for _ in range(3)
            ]
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
    half = len(found["always"]) // 2
    for one, other in zip(found["always"][:half], found["always"][half:], strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_many_threads_share_a_predictor():
    estimator = fitted(MLPClassifier)
    for predictor in (estimator, estimator.freeze()):
        expected = [predictor.predict_proba(X[i : i + 1]) for i in range(len(X))]
        with ThreadPoolExecutor(16) as pool:
            for _ in range(20):
                found = list(pool.map(lambda i, p=predictor: p.predict_proba(X[i : i + 1]), range(len(X))))
                np.testing.assert_array_equal(found, expected)


def test_results_stay_when_another_row_comes():
    predictor = fitted(MLPClassifier).freeze()
    for _ in range(3):
        first = predictor.predict_proba(X[:1])
        before = first.copy()
        second = predictor.predict_proba(X[1:2])
        np.testing.assert_array_equal(first, before)
        assert not np.shares_memory(first, second)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("columns", [1, 127, 128, 300])
def test_rows_are_standardized_in_double_precision(columns, dtype):
    rng = np.random.default_rng(columns)
    table = rng.normal(50, 3, size=(40, columns)).astype(dtype)
    y = rng.normal(size=40)
    given = {"tol": 0.1, "n_iter_no_change": 1, "dtype": "float64", "random_state": 0, "scale_target": False}
    reg = MLPRegressor((3,), activation="tanh", **given).fit(table, y)
    first, first_bias, last, last_bias = reg.model_.module.state_dict().values()
    for n in (1, 2, 7):
        rows = table[:n].copy()
        rows[:, ::3] += 40  # further away than the largest distance
        z = (rows.astype(float) - table.mean(axis=0, dtype=float)) / table.std(axis=0, dtype=float)
        assert (z > 5).any()
        z = np.clip(z, -5, 5)
        expected = np.tanh(z @ first + first_bias) @ last + last_bias
        for predict in (reg.predict, reg.freeze().predict):
            for _ in range(3):
                np.testing.assert_allclose(predict(rows), expected[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("is_frozen", [True, False])
@pytest.mark.parametrize(("kind", "method"), [(kind, name) for kind in METHODS for name in METHODS[kind]])
def test_the_row_path_is_taken_by_a_few_rows(monkeypatch, kind, method, is_frozen):
    predict = getattr(fitted(kind).freeze() if is_frozen else fitted(kind), method)
    rows = [X[:1], X[:7], X[:16].astype("float32"), 30 * X[:3], X[:2].astype(int)]
    expected = [predict(each) for _ in range(2) for each in rows][len(rows) :]
    for module in ("_frozen", "_base"):  # what all other predictions call
        monkeypatch.setattr(f"sknet.estimators.{module}.warn_of_overflow", None)
    for each, before in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(predict(each), before)


BAD = {
    "NaN": (np.full((1, 6), np.nan), "NaN"),
    "infinite": (np.full((1, 6), np.inf), "infinity"),
    "NaN among some": (np.vstack([np.zeros((3, 6)), np.full((1, 6), np.nan)]), "NaN"),
    "infinity among some": (np.vstack([np.full((1, 6), -np.inf), np.zeros((3, 6))]), "infinity"),
    "other columns": (np.zeros((1, 5)), "5|6 columns"),
    "one axis": (np.zeros(6), "1D|columns"),
    "complex": (np.zeros((1, 6), complex), "[Cc]omplex"),
    "no rows": (np.zeros((0, 6)), "0 sample|at least one row"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_have_the_messages_of_the_first_one(name):
    estimator = fitted(MLPClassifier)
    bad, message = BAD[name]
    for predictor in (estimator, estimator.freeze()):
        with pytest.raises(ValueError, match=message) as before:
            predictor.predict(bad)
        for _ in range(3):
            predictor.predict(X[:1])
            predictor.predict(X[:4])
        with pytest.raises(ValueError, match=message) as after:
            predictor.predict(bad)
        assert str(after.value) == str(before.value)


def test_an_overflow_inside_of_the_network_is_a_warning():
    estimator = fitted(MLPRegressor, scale_inputs=False)  # which would clip the row
    for predictor in (estimator, estimator.freeze()):
        for _ in range(3):
            predictor.predict(X[:1])
        with pytest.warns(RuntimeWarning, match="NaN or infinite although X is finite"):
            predictor.predict(np.full((1, 6), 3e38))


def test_training_goes_on_after_predictions():
    estimator = fitted(MLPClassifier)
    for _ in range(3):
        before = estimator.predict_proba(X[:1])
    estimator.partial_fit(X, RNG.integers(0, 3, len(X)))
    after = estimator.predict_proba(X[:1])
    assert (before != after).any()
    np.testing.assert_array_equal(estimator.freeze().predict_proba(X[:1]), after)


def test_names_of_columns_are_asked_for():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    estimator = MLPRegressor((4,), tol=0.1, n_iter_no_change=1, random_state=0).fit(frame, X[:, 0])
    for _ in range(3):
        estimator.predict(frame[:1])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            estimator.predict(X[:1])
