"""Plain arrays take a fast path, with the results and errors of scikit-learn's checks."""

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.multiclass import unique_labels

from sknet import MLPClassifier, MLPRegressor

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")

ROWS = np.random.default_rng(0).normal(size=(40, 3))
LABELS = np.arange(40) % 3
KINDS = [np.int64, np.int8, np.uint8, np.uint64, np.bool_, np.float64, np.float32, "U3"]


def fitted(kind, X, y):
    return kind((3,), max_iter=1, random_state=0).fit(X, y)


@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_fits_are_those_of_frames_which_scikit_learn_checks(kind):
    for X in (ROWS, ROWS.astype("f4"), np.asfortranarray(ROWS), ROWS[::2, ::-1], ROWS.astype(int), ROWS > 0):
        for y in (LABELS, LABELS.astype("f4"), LABELS > 0, LABELS.reshape(-1, 1) > 0, np.c_[LABELS, LABELS]):
            y = y[: len(X)]
            named = fitted(kind, pd.DataFrame(ROWS, columns=["of", "another", "fit"]), LABELS)
            if y.ndim == 2 and y.shape[1] == 1:
                with pytest.warns(Warning, match="column-vector"):
                    found = named.fit(X, y)
                y = y.ravel()
            else:
                found = named.fit(X, y)
            expected = fitted(kind, pd.DataFrame(X), y)
            for one, other in zip(found.coefs_, expected.coefs_, strict=True):
                assert one.dtype == other.dtype
                np.testing.assert_array_equal(one, other)
            assert found.loss_curve_ == expected.loss_curve_
            assert found.n_features_in_ == 3
            assert not hasattr(found, "feature_names_in_")


BAD = np.array(ROWS)
BAD[3, 1] = np.nan
LARGE = np.full((40, 3), 1e308)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (BAD, LABELS, "contains NaN"),
        (np.where(np.isnan(BAD), np.inf, BAD), LABELS, "infinity"),
        (ROWS[:39], LABELS, "inconsistent numbers of samples"),
        (ROWS[:, :0], LABELS, "0 feature"),
        (ROWS[:0], LABELS[:0], "0 sample"),
        (ROWS[:, 0], LABELS, "Expected 2D array"),
        (ROWS, np.where(LABELS == 1, np.nan, LABELS), "contains NaN"),
        (ROWS + 1j, LABELS, "Complex data"),
    ],
)
def test_errors_are_those_of_scikit_learn(X, y, message):
    for kind in (MLPClassifier, MLPRegressor):
        with pytest.raises(ValueError, match=message):
            kind(max_iter=1).fit(X, y)


def test_an_overflowing_sum_is_no_infinity():
    with pytest.raises(ValueError, match="feature 0 of X has numbers near the largest float64"):
        MLPClassifier(max_iter=1).fit(LARGE, LABELS)


def test_a_later_call_has_to_have_the_features_of_the_first():
    clf = MLPClassifier((4,), random_state=0)
    clf.partial_fit(ROWS, LABELS, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="X has 2 features"):
        clf.partial_fit(ROWS[:, :2], LABELS)
    named = MLPClassifier((4,), random_state=0)
    named.partial_fit(pd.DataFrame(ROWS, columns=list("abc")), LABELS, classes=[0, 1, 2])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.partial_fit(ROWS, LABELS)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_labels_are_those_of_scikit_learn(kind):
    for n in (2, 3, 7):
        y = (np.arange(40)[::-1] % n * 3).astype(kind)
        expected, found = unique_labels(y), fitted(MLPClassifier, ROWS, y)
        assert found.classes_.dtype == expected.dtype
        np.testing.assert_array_equal(found.classes_, expected)
        assert found.out_activation_ == ("logistic" if len(expected) <= 2 else "softmax")
        numbered = fitted(MLPClassifier, ROWS, np.searchsorted(expected, y))
        np.testing.assert_array_equal(found.predict_proba(ROWS), numbered.predict_proba(ROWS))


@pytest.mark.parametrize("kind", [np.int64, np.float64], ids=str)
def test_invalid_labels_are_found_anywhere(kind):
    for label in (-1, 1, 9):
        y = np.array([0, 2, 4, label], kind)
        with pytest.raises(ValueError, match="has classes not in"):
            MLPClassifier((3,)).partial_fit(ROWS[:4], y, classes=np.array([0, 2, 4], kind))


def test_numeric_strings_as_labels_warn_as_in_scikit_learn():
    with pytest.warns(UserWarning, match="unique classes is greater than 50%"):
        MLPClassifier((3,), max_iter=1).fit(ROWS, np.arange(40))


def test_plain_parameters_are_checked_whatever_was_valid_before():
    MLPClassifier(max_iter=1, alpha=0.0).fit(ROWS, LABELS)
    for name, value in [("max_iter", 1.0), ("max_iter", 0), ("alpha", -1.0), ("tol", "0")]:
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            MLPClassifier(**{"max_iter": 1, name: value}).fit(ROWS, LABELS)
