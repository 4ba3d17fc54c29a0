"""Numbers, compared with the formulas applied one value at a time."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sknet.preprocessing import TableEncoder


def column(values, **parameters):
    X = np.asarray(values, dtype=np.float64).reshape(-1, 1)
    return TableEncoder(dtype="float64", **parameters).fit(X), X


def by_hand(x, known):
    first, median, third = np.percentile(known, [25, 50, 75])
    scale = third - first or (max(known) - min(known)) / 2
    z = ((median if np.isnan(x) else x) - median) / scale
    return z / (1 + (z / 3) ** 2) ** 0.5


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=50),
        np.exp(3 * np.random.default_rng(1).normal(size=80)),
        [0.0] * 30 + [1.0, 7.0],  # an interquartile range of 0
        [1.0, 2.0],
    ],
)
def test_numbers_are_scaled_and_smoothly_clipped(values):
    encoder, X = column(values, piecewise=None)
    expected = [by_hand(x, values) for x in X[:, 0]]
    np.testing.assert_allclose(encoder.transform(X)[:, 0], expected, rtol=1e-12, atol=1e-15)
    assert encoder.get_feature_names_out().tolist() == ["x0"]


def test_missing_values_become_the_median_and_a_flag():
    encoder, X = column([1.0, np.nan, 2.0, 4.0, np.nan], piecewise=None)
    assert encoder.get_feature_names_out().tolist() == ["x0", "x0_missing"]
    expected = [[by_hand(x, [1.0, 2.0, 4.0]), float(np.isnan(x))] for x in X[:, 0]]
    np.testing.assert_allclose(encoder.transform(X), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("far", [np.inf, 1e308, 1e30])
def test_infinite_numbers_are_clipped(far):
    encoder, _ = column([1.0, 2.0, 3.0, 4.0, far, -far])
    found = encoder.transform([[far], [-far], [4.0]])
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:2, 0], [3, -3], rtol=1e-9)
    assert found[0, 0] > found[2, 0]


def piecewise(x, edges):
    """The definition, one bin at a time."""
    found = []
    for i, (low, high) in enumerate(pairwise(edges)):
        t = (x - low) / (high - low)
        smallest, largest = -1.0 if i == 0 else 0.0, 2.0 if i == len(edges) - 2 else 1.0
        found.append(min(max(t, smallest), largest) - 0.5)
    return found


QUERY = [-9.0, -1.0, -0.3, 0.0, 0.2, 0.9, 2.5, 40.0]


def test_quantile_bins():
    values = np.random.default_rng(2).normal(size=200)
    encoder, _ = column(values, piecewise="quantile", n_bins=4)
    edges = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
    found = encoder.transform(np.reshape(QUERY, (-1, 1)))
    np.testing.assert_allclose(found[:, 1:], [piecewise(x, edges) for x in QUERY], rtol=1e-9, atol=1e-12)
    assert encoder.get_feature_names_out()[1:].tolist() == [f"x0_quantile{i}" for i in range(4)]


@pytest.mark.parametrize("unit", [1e140, 1e-140, 1e-200, 1e-300])
def test_units_do_not_change_bins(unit):
    values = np.random.default_rng(2).uniform(size=(200, 1))
    fitted = [TableEncoder(piecewise="quantile").fit_transform(values * each) for each in (1.0, unit)]
    np.testing.assert_allclose(*fitted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_bins_of_a_tree(task):
    rng = np.random.default_rng(3)
    x = rng.normal(size=600)
    y = np.sin(3 * x) + 0.1 * rng.normal(size=600)
    y = (y > 0).astype(int) if task == "classification" else y
    encoder = TableEncoder(piecewise="tree", n_bins=6, dtype="float64").fit(x.reshape(-1, 1), y)
    kind = DecisionTreeClassifier if task == "classification" else DecisionTreeRegressor
    tree = kind(max_leaf_nodes=6, min_samples_leaf=8, random_state=0).fit(x.reshape(-1, 1), y).tree_
    edges = [x.min(), *np.sort(tree.threshold[tree.feature >= 0]), x.max()]
    found = encoder.transform(np.reshape(QUERY, (-1, 1)))
    # The tree computes in single precision.
    np.testing.assert_allclose(found[:, 1:], [piecewise(x, edges) for x in QUERY], rtol=1e-4, atol=1e-5)


def test_both_kinds_of_bins_have_separate_outputs():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(300, 2)), rng.normal(size=300)
    parts = [TableEncoder(piecewise=kind).fit(X, y) for kind in ("tree", "quantile", "both")]
    tree, quantile, both = (set(part.get_feature_names_out()) for part in parts)
    assert both == tree | quantile
    assert tree & quantile == {"x0", "x1"}


@pytest.mark.parametrize("values", [[2.0] * 9, [np.nan] * 9, [1.0] * 5 + [np.nan] * 4])
def test_a_constant_column_has_no_output(values):
    X = np.stack([np.asarray(values), np.arange(9.0)], axis=1)
    names = TableEncoder(piecewise=None).fit(X).get_feature_names_out().tolist()
    is_partly_known = 0 < np.isnan(values).sum() < 9
    assert names == (["x1", "x0_missing"] if is_partly_known else ["x1"])


def test_two_values_have_no_bins():
    X = np.array([[0.0, 1.0], [1.0, 2.0], [1.0, 3.0]] * 9)
    names = TableEncoder(piecewise="quantile").fit(X).get_feature_names_out()
    assert not [name for name in names if name.startswith("x0_")]
    assert [name for name in names if name.startswith("x1_")]


def test_medians_of_many_rows_are_those_of_a_sample():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 1))
    X[1234] = np.nan
    few = TableEncoder(piecewise=None, subsample=1000, random_state=0).fit(X)
    every = TableEncoder(piecewise=None, subsample=None).fit(X)
    # A flag depends on all rows.
    assert few.get_feature_names_out().tolist() == every.get_feature_names_out().tolist()
    assert 0 < np.abs(few.transform(X) - every.transform(X)).max() < 0.2
