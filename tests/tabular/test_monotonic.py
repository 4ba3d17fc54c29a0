"""Monotonic constraints of ensembles for tables: predictions never fall along a column, for any row."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import sknet
from sknet.losses import Quantile
from sknet.tabular import Members, TabularClassifier, TabularRegressor

RNG = np.random.default_rng(0)
CST = {"steps": 1, "size": -1}
QUICK = {"n_folds": 1, "members": 1, "budget": 0.1, "random_state": 0}
OPTIONS = {
    "both kinds": {"extrapolate": True},
    "smooth": {"sharp": None, "smooth": Members(hidden_layer_sizes=[16], dropout=0.5, keep="best")},
    "sharp, without bins": {"smooth": None, "sharp": Members(hidden_layer_sizes=[], piecewise=None)},
}


def table(n_rows=300):
    """Return rows whose target falls where it is to rise, with means of single values, and levels."""
    frame = pd.DataFrame(
        {
            "steps": RNG.integers(0, 30, n_rows).astype(float),
            "size": RNG.normal(size=n_rows),
            "kind": RNG.choice(["a", "b", "c", "d"], n_rows),
        }
    )
    y = np.where(frame["steps"] % 2 == 0, 1.0, -1.0) - frame["steps"] / 10 + np.sin(4 * frame["size"])
    frame.loc[RNG.random(n_rows) < 0.1, "steps"] = np.nan
    return frame, (y + 2 * (frame["kind"] == "a")).to_numpy()


X, Y = table()


def lines(column):
    points = np.concatenate([[-1e6, -60.0], np.linspace(-5, 35, 30), [90.0, 1e6]])
    rows = X.iloc[np.repeat(np.arange(5), len(points))].reset_index(drop=True)
    rows[column] = np.tile(points, 5)
    return rows


def falls(predict):
    """Return by how much predictions fall where they must not, relative to the largest."""
    found = 0.0
    for column, direction in CST.items():
        values = np.asarray(predict(lines(column)), np.float64).reshape(5, -1)
        found = max(found, -float((direction * np.diff(values)).min()) / np.abs(values).max())
    return found


@pytest.mark.parametrize("case", OPTIONS)
def test_predictions_never_fall(case, tmp_path):
    params = QUICK | OPTIONS[case]
    assert falls(TabularRegressor(**params).fit(X, Y).predict) > 1e-3
    fitted = TabularRegressor(monotonic_cst=CST, **params).fit(X, Y)
    sknet.save(fitted, tmp_path / "it")
    for each in (fitted, fitted.freeze(), sknet.load(tmp_path / "it")):
        assert falls(each.predict) < 2e-6
    frozen = fitted.freeze()
    assert falls(lambda rows: [frozen.predict(rows[i : i + 1])[0] for i in range(len(rows))]) < 2e-6


def test_the_second_class_never_becomes_less_probable():
    y = np.where(Y > 0, "yes", "no")
    assert falls(TabularClassifier(**QUICK).fit(X, y).decision_function) > 1e-3
    fitted = TabularClassifier(monotonic_cst=CST, **QUICK).fit(X, y)
    assert falls(fitted.decision_function) < 2e-6
    assert falls(lambda rows: fitted.predict_proba(rows)[:, 1]) < 2e-6


def test_each_of_several_numbers_is_constrained():
    fitted = TabularRegressor(monotonic_cst=CST, **QUICK).fit(X, np.stack([Y, -Y], axis=1))
    for i in range(2):
        assert falls(lambda rows, i=i: fitted.predict(rows)[:, i]) < 2e-6


def test_a_sparse_table_is_constrained():
    numbers = X[["steps", "size"]].fillna(0.0)
    given = {**QUICK, "monotonic_cst": [1, -1]}
    fitted = TabularRegressor(**given).fit(sp.csr_array(numbers.to_numpy()), Y)
    assert falls(lambda rows: fitted.predict(sp.csr_array(rows[["steps", "size"]].fillna(0.0)))) < 2e-6


def test_numpys_plan_trains_the_same_networks(monkeypatch):
    """Without native code, members read encoded rows instead of codes."""
    params = {**QUICK, "budget": 0.05, "monotonic_cst": CST}
    by_codes = TabularRegressor(**params).fit(X, Y)
    monkeypatch.setattr("sknet.tabular._base.reads_codes", lambda table: False)
    dense = TabularRegressor(**params).fit(X, Y)
    np.testing.assert_allclose(dense.predict(X), by_codes.predict(X), rtol=2e-3, atol=2e-3)
    assert falls(dense.predict) < 2e-6


def test_a_constraint_that_is_true_costs_little():
    rows = pd.DataFrame(RNG.normal(size=(1000, 3)), columns=["a", "b", "c"])
    y = np.tanh(2 * rows["a"]) - rows["b"] * np.exp(rows["c"] / 2)
    (X_train, y_train), (X_test, y_test) = (rows[:600], y[:600]), (rows[600:], y[600:])
    params = {**QUICK, "budget": 0.5, "sharp": None}
    free, fitted = (
        TabularRegressor(monotonic_cst=given, **params).fit(X_train, y_train).score(X_test, y_test)
        for given in (None, {"a": 1, "b": -1})
    )
    assert fitted > free - 0.003


def test_columns_without_an_order_are_named():
    with pytest.raises(
        ValueError, match="monotonic_cst constrains column 'kind', which is read as a category"
    ):
        TabularRegressor(monotonic_cst={"kind": 1}, **QUICK).fit(X, Y)


@pytest.mark.parametrize(
    ("kind", "y", "params", "message"),
    [
        (TabularClassifier, np.arange(300) % 3, {}, "the targets are multiclass"),
        (TabularRegressor, Y, {"loss": Quantile([0.1, 0.9])}, "one output for each target"),
        (TabularRegressor, Y, {"monotonic_cst": [1, 0]}, "monotonic_cst has shape"),
        (TabularRegressor, Y, {"monotonic_cst": {"sizes": 1}}, r"1 unexpected feature names: \['sizes'\]"),
        (TabularRegressor, Y, {"monotonic_cst": "up"}, "The 'monotonic_cst' parameter of TabularRegressor"),
    ],
)
def test_what_cannot_be_constrained_is_named(kind, y, params, message):
    with pytest.raises(ValueError, match=message):
        kind(**{**QUICK, "monotonic_cst": CST, **params}).fit(X, y)
