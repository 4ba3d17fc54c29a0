"""Frozen ensembles predict bitwise identically, for one row or many, and can be pickled and saved."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import sknet
from sknet.losses import Quantile
from sknet.tabular import TabularClassifier, TabularRegressor
from tests.freezing.test_python import module_of
from tests.tabular.test_estimators import LABELS, NUMBERS, SIGNAL, SMALL, X

QUICK = {**SMALL, "budget": 0.02}
CASES = {
    **{f"labels: {kind}": (TabularClassifier(**QUICK), LABELS[kind]) for kind in LABELS},
    **{f"numbers: {kind}": (TabularRegressor(**QUICK), NUMBERS[kind]) for kind in NUMBERS},
    "hinge": (TabularClassifier(**QUICK, loss="hinge"), LABELS["binary"]),
    "ordinal": (TabularClassifier(**QUICK, loss="ordinal"), LABELS["multiclass"]),
    "quantiles": (TabularRegressor(**QUICK, loss=Quantile([0.1, 0.5, 0.9])), SIGNAL),
    "deviations": (TabularRegressor(**QUICK, loss="gaussian_nll"), SIGNAL),
    "extrapolating": (TabularRegressor(**QUICK, extrapolate=True), SIGNAL),
    "extrapolating, several": (TabularRegressor(**QUICK, extrapolate=True), NUMBERS["several"]),
    "one kind": (TabularRegressor(**{**QUICK, "smooth": None, "members": 2}), SIGNAL),
}
METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("predict_std", "predict_quantiles", "predict_interval"),
)


def alike(found, expected):
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(alike, found, expected))
    return found.dtype == expected.dtype and np.array_equal(found, expected)


WITH_LOGISTIC = {"predict_proba", "predict_log_proba"}  # SciPy's function, which a file replaces


def assert_alike(found, expected, *, exact):
    if isinstance(expected, list):
        for one, other in zip(found, expected, strict=True):
            assert_alike(one, other, exact=exact)
        return
    assert found.dtype == expected.dtype
    if exact or found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_bits(case, tmp_path):
    model, y = CASES[case]
    model = model.fit(X, y)
    frozen = model.freeze()
    sknet.save(frozen, tmp_path / "frozen")
    copies = [frozen, pickle.loads(pickle.dumps(frozen)), sknet.load(tmp_path / "frozen")]
    frozen.to_python(tmp_path / "written.py")
    written = module_of(tmp_path / "written.py")
    asked = [method for method in METHODS if hasattr(model, method)]
    assert "predict" in asked
    rows = [X, X[:1], X[7:8], X[:2]]
    for other in copies:
        assert [method for method in METHODS if hasattr(other, method)] == asked
        for method in asked:
            for part in rows:
                assert alike(getattr(other, method)(part), getattr(model, method)(part)), method
        assert other.n_features_in_ == 4
        assert other.feature_names_in_.tolist() == list(X)
    assert [method for method in METHODS if hasattr(written, method)] == asked
    for method in asked:
        for part in (X, X[:1], {name: X[name].to_numpy() for name in X}):
            expected = getattr(frozen, method)(X[: len(part["age"])] if isinstance(part, dict) else part)
            exact = method not in WITH_LOGISTIC and len(part) != 1
            assert_alike(getattr(written, method)(part), expected, exact=exact)
    assert len(pickle.dumps(frozen)) < len(pickle.dumps(model))
    assert repr(frozen).startswith(f"Frozen{type(model).__name__}(")


def test_frozen_ensembles_do_not_change():
    reg = TabularRegressor(**QUICK).fit(X, SIGNAL)
    frozen, before = reg.freeze(), reg.predict(X)
    one = frozen.predict(X[:1])
    reg.fit(X, -SIGNAL)
    np.testing.assert_array_equal(frozen.predict(X), before)
    np.testing.assert_array_equal(frozen.predict(X[:1]), one)
    with pytest.raises(ValueError, match="feature names should match"):
        frozen.predict(X[["city", "age", "member", "since"]])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        TabularRegressor().freeze()


def test_sparse_tables_and_arrays():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((80, 6)) < 0.4, rng.normal(size=(80, 6)), 0.0)
    for rows in (dense, sp.csr_array(dense)):
        reg = TabularRegressor(**QUICK).fit(rows, dense[:, 0])
        frozen = reg.freeze()
        for part in (rows, rows[:1]):
            np.testing.assert_array_equal(frozen.predict(part), reg.predict(part))
        assert not hasattr(frozen, "feature_names_in_")


@pytest.mark.parametrize("native", ["auto", "never"])
def test_one_row_in_every_form(native):
    rng = np.random.default_rng(0)
    numbers = np.where(rng.random((90, 3)) < 0.1, np.nan, rng.normal(size=(90, 3)))
    levels = rng.choice(["a", "b", "c", None], (90, 2))
    mixed = np.hstack([numbers.astype(object), levels])
    coded = np.hstack([numbers, np.where(levels[:, :1] == "a", 0.0, 7.0)])
    frame = pd.DataFrame(mixed, columns=list("vwxyz")).astype(dict.fromkeys("vwx", float))
    y = np.where(np.nan_to_num(numbers[:, 0]) > 0, "up", "down")
    with sknet.config_context(native=native):
        for table, options in (
            (mixed, {}),
            (coded, {"categorical_features": [3]}),
            (numbers, {}),
            (frame, {}),
        ):
            clf = TabularClassifier(**QUICK, **options).fit(table, y)
            frozen, is_frame = clf.freeze(), table is frame
            for i in range(12):
                row = table.iloc[i : i + 1] if is_frame else table[i : i + 1]
                record = table.iloc[i].to_dict() if is_frame else row.tolist()
                for method in METHODS[:4]:
                    expected = getattr(clf, method)(row)
                    for given in (row, record):
                        assert alike(getattr(frozen, method)(given), expected), (method, i)


@pytest.mark.filterwarnings("ignore:.* all levels are unseen, since they are:UserWarning")
def test_unknown_and_missing_values_of_one_row():
    levels = np.array([["a", 1.0], ["b", 2.0], [None, 3.0]] * 20, dtype=object)
    clf = TabularClassifier(**QUICK).fit(levels, np.arange(60) % 3 == 0)
    frozen = clf.freeze()
    for row in ([None, 1], [np.nan, None], ["b", np.inf], ["b", -(10**400)], ["c", "2"], [b"a", 2], [3, 1.5]):
        given = np.array([row], dtype=object)
        try:
            expected = clf.predict_proba(np.vstack([given, levels]))[:1]
        except (ValueError, TypeError, OverflowError) as error:
            with pytest.raises(type(error), match=re.escape(str(error)[:40])):
                frozen.predict_proba(given)
            continue
        np.testing.assert_allclose(frozen.predict_proba(given), expected, rtol=1e-5)
    with pytest.raises(TypeError, match="column 0"):
        frozen.predict_proba(np.array([[[1], 2.0], 0], dtype=object)[:1].tolist())


@pytest.mark.parametrize("native", ["auto", "never"])
@pytest.mark.parametrize("kind", ["several levels", "signs", "sums"])
def test_one_row_has_the_bits_of_the_estimator(kind, native):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(300, 5)).round(1)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    frame = pd.DataFrame(rows, columns=list("abcde"))
    params, y = {**SMALL, "budget": 0.3}, np.nan_to_num(rows[:, 0] - rows[:, 1])
    if kind == "several levels":
        frame["f"] = pd.Categorical(rng.choice(list("xyz"), 300))
    if kind == "signs":
        params["monotonic_cst"] = {"a": 1, "b": -1}
    if kind == "sums":
        y = np.sin(3 * y)
    new = frame.assign(a=-frame["a"], c=np.inf)
    with sknet.config_context(native=native):
        reg = TabularRegressor(**params).fit(frame, y)
        frozen = reg.freeze()
        for i in range(0, 300, 20):
            for given in (frame.iloc[[i]], new.iloc[[i]]):
                np.testing.assert_array_equal(frozen.predict(given), reg.predict(given))
        one_by_one = np.concatenate([frozen.predict(frame.iloc[[i]]) for i in range(20)])
        np.testing.assert_allclose(one_by_one, frozen.predict(frame[:20]), 1e-5, 1e-6)
