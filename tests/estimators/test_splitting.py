"""Which rows are held out, against scikit-learn's splitters."""

import numpy as np
import pytest
from sklearn.model_selection import (
    GroupKFold,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
    TimeSeriesSplit,
    train_test_split,
)

from sknet import MLPClassifier, NetClassifier, nn
from sknet.callbacks import Callback, EpochScoring

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 3))
Y = RNG.integers(3, size=N)
GROUPS = np.repeat(np.arange(12), 5)

SPLITTERS = [
    KFold(4),
    KFold(4, shuffle=True, random_state=1),
    ShuffleSplit(3, test_size=0.2, random_state=1),
    StratifiedKFold(4),
    StratifiedShuffleSplit(1, random_state=1),
    TimeSeriesSplit(3),
    PredefinedSplit(np.where(np.arange(N) < 10, 0, -1)),
    GroupKFold(3),
    GroupShuffleSplit(1, random_state=1),
    LeaveOneGroupOut(),
]


class BegunError(Exception):
    """A fit has begun with these rows."""


class Ending(Callback):
    def on_fit_begin(self, fit):
        raise BegunError(*(rows.X[:, 0].astype(int) for rows in (fit.training, fit.validation)))


def rows_of(y, groups=None, kind=MLPClassifier, **params):
    """Return the numbers of the rows that a fit trains on, and of those that it holds out."""
    told = {"early_stopping": True, "random_state": 0, "callbacks": [Ending()]} | params
    numbered = np.c_[np.arange(len(y)), np.zeros((len(y), 2))]
    with pytest.raises(BegunError) as begun:
        kind(**told).fit(numbered, y, **({} if groups is None else {"groups": groups}))
    return begun.value.args


def split(given, groups=None, seed=0):
    return rows_of(Y, groups, validation_split=given, random_state=seed)


@pytest.mark.parametrize("splitter", SPLITTERS, ids=str)
def test_the_first_split_of_a_splitter_is_used(splitter):
    groups = GROUPS if "Group" in type(splitter).__name__ else None
    expected = next(iter(splitter.split(X, Y, groups)))
    for mine, theirs in zip(split(splitter, groups), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def refused(given, **more):
    MLPClassifier((2,), early_stopping=True, validation_split=given).fit(X, Y, **more)


UNSEEDED = [KFold(4, shuffle=True), ShuffleSplit(1), StratifiedShuffleSplit(1), GroupShuffleSplit(1)]


@pytest.mark.parametrize("splitter", UNSEEDED, ids=str)
def test_a_splitter_without_a_seed_draws_from_the_fits(splitter):
    groups = GROUPS if "Group" in type(splitter).__name__ else None
    first, again, other = (split(splitter, groups, seed)[1] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert splitter.random_state is None


PAIRS = [
    (np.arange(40), np.arange(40, 60)),
    (list(range(0, 60, 2)), list(range(1, 60, 2))),
    (np.arange(10, dtype="uint8"), np.array([50, 52], dtype="int16")),
    (np.arange(N) < 40, np.arange(N) >= 40),
    [np.array([0, 0, 1]), np.array([5, 7])],
]


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_a_pair_of_index_arrays(pair):
    for mine, given in zip(split(pair), pair, strict=True):
        given = np.asarray(given)
        np.testing.assert_array_equal(mine, np.flatnonzero(given) if given.dtype == bool else given)


BAD_PAIRS = [
    ((np.arange(40), np.arange(39, 60)), r"1 row\(s\) are both training and validation .* the first is 39"),
    (
        (np.arange(40), np.arange(40, 61)),
        r"the validation rows .*must be from 0 to 59.*got 60",
    ),
    ((np.array([-1]), np.array([3])), r"the training rows of .* from 0 to 59.*got -1"),
    ((np.arange(40), np.array([], dtype=int)), r"the validation rows .*must be row numbers.*shape \(0,\)"),
    ((np.arange(40), np.array([50.0])), r"the validation rows .*got dtype float64"),
    ((np.ones(3, dtype=bool), np.array([50])), r"the training rows .*got dtype bool and shape \(3,\)"),
    ((np.arange(40), np.array([[50]])), r"the validation rows .*shape \(1, 1\)"),
    ((np.arange(40), 50), r"the validation rows .*shape \(\)"),
]


@pytest.mark.parametrize(("pair", "message"), BAD_PAIRS)
def test_invalid_row_numbers_raise(pair, message):
    with pytest.raises(ValueError, match=message):
        refused(pair)


class Nothing:
    def split(self, X, y=None, groups=None):
        return iter(())

    def __repr__(self):
        return "Nothing()"


def test_a_splitter_must_split():
    with pytest.raises(ValueError, match=r"validation_split=Nothing\(\) gives no split"):
        refused(Nothing())
    with pytest.raises(ValueError, match="The 'groups' parameter should not be None"):
        refused(GroupKFold(3))
    with pytest.raises(ValueError, match="groups have no effect if validation_split is a pair"):
        refused(PAIRS[0], groups=GROUPS)


BAD = [
    (0.2, r"must be a splitter .* Got 0\.2 instead.*validation_fraction=0\.2"),
    (ShuffleSplit, r"Pass an object, ShuffleSplit\(\.\.\.\)"),
    (5, "Got 5 instead"),
    ("1,2", "Got '1,2' instead"),
    ((np.arange(3),), "a pair"),
    (np.arange(3), "a pair"),
]


@pytest.mark.parametrize(("given", "message"), BAD, ids=range(len(BAD)))
def test_invalid_splits_raise(given, message):
    with pytest.raises(ValueError, match=message):
        refused(given)


@pytest.mark.parametrize("seed", range(3))
def test_groups_stay_together(seed):
    training, held_out = rows_of(Y, GROUPS, validation_fraction=0.25, random_state=seed)
    assert not set(GROUPS[training]) & set(GROUPS[held_out])
    assert len(set(GROUPS[held_out])) == 3
    np.testing.assert_array_equal(np.sort(np.r_[training, held_out]), np.arange(N))


# -- rare classes ----------------------------------------------------------------------------------------

NAMES = np.array(["fourth", "fifth", "often", "again", "rare"])


def rows_with(counts, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    return rng.normal(size=(len(y), 3)) + y[:, None], NAMES[-len(counts) :][y]


@pytest.mark.parametrize("counts", [(48, 48, 4), (96, 4), (60, 38, 2), (34, 33, 33), (20, 20, 20, 20, 20)])
@pytest.mark.parametrize("seed", range(20))
def test_every_class_of_two_rows_is_held_out_and_trained_on(counts, seed):
    _, y = rows_with(counts)
    training, held_out = rows_of(y, validation_fraction=0.1, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([training, held_out])), np.arange(len(y)))
    assert set(y[training]) == set(y[held_out]) == set(y)
    assert len(held_out) == 10


def test_more_classes_than_rows_to_hold_out_are_held_out_once_each():
    _, y = rows_with((20, 20, 20, 20, 20))
    training, held_out = rows_of(y, validation_fraction=0.03)
    assert (len(training), len(held_out), len(set(y[held_out]))) == (95, 5, 5)


def test_a_class_with_a_single_row_is_trained_on():
    _, y = rows_with((60, 39, 1))
    for seed in range(5):
        training, held_out = rows_of(y, validation_fraction=0.02, random_state=seed)
        assert set(y[training]) == set(y)
        assert set(y[held_out]) == {"often", "again"}
        training, _ = rows_of(y, validation_fraction=0.5, random_state=seed)
        assert set(y[training]) == set(y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_automatic_early_stopping_needs_no_two_rows_of_a_class():
    X, y = rows_with((10_000, 1))
    clf = MLPClassifier((2,), max_iter=1, random_state=0).fit(X, y)
    assert clf.best_epoch_ == 1
    with pytest.raises(ValueError, match="The validation set is too small"):
        clf.set_params(early_stopping=True).fit(X, y)


def test_splits_with_every_class_are_those_of_scikit_learn():
    _, y = rows_with((40, 40, 20))
    for seed in range(5):
        expected = train_test_split(np.arange(100), test_size=0.3, random_state=seed)
        network = nn.Linear(3, 3).initialize(0)  # so that no weights are drawn before
        found = rows_of(y, kind=NetClassifier, module=network, validation_fraction=0.3, random_state=seed)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("scoring", "counts"),
    [("roc_auc_ovr", (48, 48, 4)), ("neg_log_loss", (48, 48, 4)), ("roc_auc", (96, 4))],
)
def test_scorers_that_need_every_class_are_defined_where_one_is_rare(scoring, counts):
    X, y = rows_with(counts)
    for seed in range(3):
        clf = MLPClassifier((3,), early_stopping=True, scoring=scoring, max_iter=2, random_state=seed)
        assert np.isfinite(clf.fit(X, y).history_[f"validation_{scoring}"]).all()
        other = MLPClassifier((3,), early_stopping=True, max_iter=2, random_state=seed)
        other.set_params(callbacks=[EpochScoring(scoring, name="again")]).fit(X, y)
        assert np.isfinite(other.history_["again"]).all()


@pytest.mark.parametrize("of", ["scoring", "callbacks"])
def test_a_scorer_that_is_not_defined_is_an_error_that_names_the_class(of):
    X, y = rows_with((60, 39, 1))
    more = {"scoring": "roc_auc_ovr"} if of == "scoring" else {"callbacks": [EpochScoring("roc_auc_ovr")]}
    clf = MLPClassifier((3,), validation_split=(np.r_[:80, 99], np.arange(80, 99)), max_iter=2, **more)
    with pytest.raises(ValueError, match="The validation rows have no row of classes 'often', 'rare': score"):
        clf.fit(X, y)


@pytest.mark.parametrize("given", ["x", b"x", 3, object()], ids=["text", "bytes", "number", "object"])
def test_what_is_no_splitter_is_refused(given):
    with pytest.raises(ValueError, match="'validation_split' parameter of MLPClassifier must be a splitter"):
        MLPClassifier((4,), early_stopping=True, validation_split=given).fit(np.eye(20), np.arange(20) % 2)
