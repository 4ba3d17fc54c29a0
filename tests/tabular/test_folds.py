"""Folds are disjoint, stratified, and leave groups together."""

import numpy as np
import pytest
from numpy.random import RandomState
from sklearn.model_selection import KFold, ShuffleSplit

from sknet.tabular import TabularRegressor
from sknet.tabular._members import folds_of


def check(folds, n_rows, disjoint=True):
    for training, held_out in folds:
        assert not set(training) & set(held_out)
        assert len(training) + len(held_out) == n_rows
    held = np.concatenate([held_out for _, held_out in folds])
    assert not disjoint or len(set(held)) == len(held)


@pytest.mark.parametrize(("n_rows", "n_folds"), [(100, 4), (7, 4), (2, 4), (200, 12), (25, 10)])
def test_rows_are_held_out_once(n_rows, n_folds):
    folds = folds_of(None, n_folds, np.zeros(n_rows), None, None, RandomState(0))
    check(folds, n_rows)
    assert len(folds) == min(n_folds, n_rows)
    share = 1 / max(10, n_folds)
    assert all(abs(len(held_out) - share * n_rows) < 1 for _, held_out in folds)


def test_classes_have_their_share():
    y = np.repeat([0, 1, 2], [500, 90, 10])
    for _, held_out in folds_of(None, 4, y, y, None, RandomState(0)):
        assert np.bincount(y[held_out]).tolist() == [50, 9, 1]


def test_groups_stay_together():
    groups = np.random.default_rng(0).integers(0, 25, 300).astype(str)
    folds = folds_of(None, 4, np.zeros(300), None, groups, RandomState(0))
    check(folds, 300)
    for training, held_out in folds:
        assert not set(groups[training]) & set(groups[held_out])


@pytest.mark.parametrize(
    "cv", [KFold(3), ShuffleSplit(3, random_state=0), list(KFold(3).split(np.zeros((30, 1))))]
)
def test_custom_folds(cv):
    folds = folds_of(cv, 4, np.zeros(30), None, None, RandomState(0))
    assert len(folds) == 3
    check(folds, 30, disjoint=not isinstance(cv, ShuffleSplit))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cv": []}, "yields no folds"),
        ({"cv": np.array(1)}, r"cv must be a splitter or yield pairs .* got array\(1\)"),
        ({"cv": [([0, 1], [1, 2])]}, "same rows on both sides"),
        ({"cv": [([0, 1], [40])]}, "pairs of row indices, from 0 to 29"),
        ({"cv": [([0, 1], [-1])]}, "pairs of row indices, from 0 to 29"),
        ({"groups": ["a"] * 30}, "at least 2 groups, got 1"),
        ({"groups": ["a", "b"]}, "one entry per row, 30 in all, got 2"),
    ],
)
def test_invalid_folds(arguments, message):
    groups = arguments.pop("groups", None)
    with pytest.raises(ValueError, match=message):
        TabularRegressor(**arguments).fit(np.arange(30.0).reshape(-1, 1), np.arange(30.0), groups=groups)
