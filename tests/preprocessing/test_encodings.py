"""Encodings of numbers and values, and of one row: choices against plain loops and a tree of scikit-learn."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from sknet._config import native_core
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._encoder import fit_encoder
from sknet.preprocessing._encodings import edges_of, target_of, values_repeat, values_tell_more
from sknet.preprocessing._native import NativeRow
from sknet.preprocessing._plan import OneRow
from sknet.preprocessing._schema import Schema
from tests.fuzz.tables import drawn, harmed
from tests.preprocessing.test_value_means import coded, rounded


def targets_of(task, x, rng):
    z = x + 0.5 * rng.normal(size=len(x))
    return {
        "binary": (z > 0).astype(int),
        "multiclass": np.digitize(z, [-1.0, 0.0, 1.0]),
        "outputs": np.stack([np.digitize(z, [-1.0, 0.5]), z > 0.2], axis=1).astype(int),
        "numbers": np.maximum(z, 0.0),
        "columns": np.stack([z, z**2], axis=1),
    }[task]


@pytest.mark.parametrize("n_leaves", [3, 24])
@pytest.mark.parametrize("digits", [1, 9])
@pytest.mark.parametrize("task", ["binary", "multiclass", "outputs", "numbers", "columns"])
def test_edges_are_those_of_scikit_learns_tree(task, digits, n_leaves):
    rng = np.random.default_rng(5)
    x = np.round(rng.normal(size=2000), digits)
    y = targets_of(task, x, rng)
    kind = DecisionTreeRegressor if task in ("numbers", "columns") else DecisionTreeClassifier
    target = target_of(y, "regression" if kind is DecisionTreeRegressor else "classification")
    share = ((x - x.min()) / np.ptp(x)).reshape(-1, 1)
    tree = kind(max_leaf_nodes=n_leaves, min_samples_leaf=10, random_state=0).fit(share, y).tree_
    inner = x.min() + np.sort(tree.threshold[tree.feature >= 0]) * np.ptp(x)
    found = edges_of(x, np.sort(x), target, "tree", n_leaves)["tree"]
    np.testing.assert_allclose(found, [x.min(), *inner, x.max()], rtol=1e-12, atol=1e-12)


def test_targets_that_are_equal_in_a_bin_are_not_split():
    x = np.arange(400.0)
    y = np.where(x < 200, 0.1, np.sin(x))
    found = edges_of(x, np.sort(x), target_of(y, "regression"), "tree", 50)["tree"]
    assert (found[1:] > 190).all()


N_FOLDS, MIN_COUNT, SMOOTHING = 5, 5, 20.0


def slowly(values, target, edges, folds):
    """Return what `values_tell_more` does, row by row."""
    known = [i for i in range(len(values)) if not np.isnan(values[i])]
    often = [v for v in set(values[known]) if (values == v).sum() >= MIN_COUNT]
    if len(set(values[known])) < 3 or not often:
        return False
    bins = np.searchsorted(edges[1:-1], values, side="right")
    gains = np.zeros(N_FOLDS)
    for fold in range(N_FOLDS):
        others = [i for i in known if folds[i] != fold]
        overall = target.numbers[known].mean(axis=0)

        def of_bin(b, rows=others, overall=overall):
            same = [target.numbers[i] for i in rows if bins[i] == b]
            return np.mean(same, axis=0) if same else overall

        for i in known:
            if folds[i] == fold and values[i] in often:
                mean = of_bin(bins[i])
                residuals = [target.numbers[j] - mean for j in others if values[j] == values[i]]
                effect = np.sum(residuals, axis=0) / (len(residuals) + SMOOTHING)
                residual = target.numbers[i] - mean
                gains[fold] += (residual**2 - (residual - effect) ** 2).sum()
    return bool((gains > 0).all())


@pytest.mark.parametrize("seed", range(40))
def test_the_choice_is_that_of_a_plain_loop(seed):
    random_state = np.random.RandomState(seed)
    x, y = (coded, rounded)[seed % 2](random_state, 120)
    if seed % 3 == 0:
        target = target_of(y * 1.5 + random_state.normal(size=len(y)), "regression")
    else:
        y = y + (seed % 3 == 1) * (random_state.uniform(size=len(y)) < 0.3)
        target = target_of(y, "classification")
    known = ~np.isnan(x)
    edges = edges_of(x[known], np.sort(x[known]), target.take(known), ("tree", "quantile")[seed % 4 // 2], 4)
    folds = random_state.permutation(len(x)) % N_FOLDS
    found = values_tell_more(x, target, edges, MIN_COUNT, folds, SMOOTHING)
    assert found == slowly(x, target, next(iter(edges.values())), folds)


def rows(X):
    """Return known, missing and unseen amounts, and minus zero."""
    return X.iloc[:8].assign(amount=[0.0, -0.0, np.nan, 101.0, 101.5, 102.0, np.inf, 1e300])


@pytest.mark.parametrize("n_rows", [1, 4, 60, 1000])
@pytest.mark.parametrize("min_count", [1, 3, 5])
def test_repeated_values_of_all_columns_at_once(n_rows, min_count):
    rng = np.random.default_rng(0)
    X = rng.integers(0, [1, 2, 30, 1000, 10**6], (n_rows, 5)).astype(float)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:, 0] = np.nan
    counts = [np.unique(x[~np.isnan(x)], return_counts=True)[1] for x in X.T]
    expected = [bool((each >= min_count).any()) for each in counts]
    assert values_repeat(X, min_count).tolist() == expected


def test_columns_of_many_rows_are_looked_at_one_by_one():
    assert values_repeat(np.zeros((1001, 2)), 5).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_encoders_at_once(dtype):
    compared = 0
    for seed in range(40):
        rows, _ = drawn(seed)
        kinds = [
            TableEncoder(n_bins=4),
            TableEncoder(piecewise=None, min_count=1),
            TableEncoder(max_levels=2),
        ]
        owner = TableEncoder()
        schema, table = Schema.learn(owner, rows, "from_dtype")
        try:
            fitted = [
                fit_encoder(kind, owner, schema, table, None, np.random.RandomState(0))[0] for kind in kinds
            ]
        except ValueError:
            continue
        together = OneRow([encoder.plan for encoder in fitted])
        for frame in (rows, harmed(rows, seed)):
            read = fitted[0].read(frame)
            expected = np.concatenate([encoder.plan.dense(read, dtype) for encoder in fitted], axis=1)
            for i in range(3):
                found = together(read.take([i]), dtype)
                assert found.dtype == dtype
                np.testing.assert_array_equal(found, expected[i : i + 1])
                compared += 1
                if dtype == "float32" and native_core() is not None:
                    encoder = NativeRow([encoder.plan for encoder in fitted], read.take([i]))
                    np.testing.assert_array_equal(encoder.encode(read.take([i])), expected[i : i + 1])
    assert compared > 150
