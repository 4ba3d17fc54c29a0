"""Large tables: batches, and a kind without weight in the first fold, which is not trained in the others."""

import numpy as np
import pytest

from sknet import TabularClassifier
from sknet.tabular import Members, _budget, _training
from sknet.tabular._members import setting_of

SMOOTH = Members(epochs=6, per_fold=1)
# Networks that are as good as untrained.
UNTRAINED = Members(epochs=1, lr=1e-9, dropout=0.0, hidden_layer_sizes=(8,))


def table(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


@pytest.fixture
def is_large(monkeypatch):
    """Let tables be large that have some hundred rows."""
    monkeypatch.setattr(_budget, "MANY_ROWS", 400)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)


@pytest.fixture
def trained(monkeypatch):
    """The sizes of the first layers of all networks whose training has begun."""
    found, begin = [], _training.Training.__init__

    def counted(self, setting, *args, **kwargs):
        found.append(setting.hidden_layer_sizes[0])
        begin(self, setting, *args, **kwargs)

    monkeypatch.setattr(_training.Training, "__init__", counted)
    return found


def fitted(sharp, n_folds=3, n_jobs=1, smooth=SMOOTH):
    clf = TabularClassifier(n_folds=n_folds, smooth=smooth, sharp=sharp, n_jobs=n_jobs, random_state=0)
    return clf.fit(*table())


def large(**params):
    return Members(**{**UNTRAINED.get_params(), "hidden_layer_sizes": (100, 100), **params})


@pytest.mark.usefixtures("is_large")
def test_a_kind_without_weight_is_not_trained_in_other_folds(trained):
    clf = fitted(large())
    assert trained.count(100) == 1
    assert clf.mix_ == {"smooth": 1.0}
    assert [(member.kind, member.fold) for member in clf.members_] == [("smooth", i) for i in range(3)]
    # What is left is what there would be without that kind.
    alone, X = fitted(None), table()[0]
    np.testing.assert_array_equal(clf.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(clf.oof_prediction_, alone.oof_prediction_)
    assert clf.oof_score_ == alone.oof_score_


@pytest.mark.usefixtures("is_large")
def test_the_choice_does_not_depend_on_threads():
    X, (one, two) = table()[0], (fitted(large(), n_jobs=n) for n in (1, 4))
    assert one.mix_ == two.mix_ == {"smooth": 1.0}
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(one.feature_importances_, two.feature_importances_)


def test_a_kind_with_a_weight_is_trained_as_in_small_tables(monkeypatch):
    kinds, X = {"sharp": Members(epochs=6, hidden_layer_sizes=(16,)), "smooth": UNTRAINED}, table()[0]
    small = fitted(**kinds)
    monkeypatch.setattr(_budget, "MANY_ROWS", 400)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)
    clf = fitted(**kinds)
    assert 0 < small.mix_["sharp"] == clf.mix_["sharp"]
    np.testing.assert_array_equal(clf.predict_proba(X), small.predict_proba(X))


@pytest.mark.parametrize(("most", "n_folds"), [(401, 3), (400, 1)])
def test_small_tables_and_a_single_fold_keep_all_kinds(most, n_folds, trained, monkeypatch):
    monkeypatch.setattr(_budget, "MANY_ROWS", most)
    monkeypatch.setattr(_budget, "LEAST_HELD_OUT", 40)
    clf = fitted(large(), n_folds)
    assert trained.count(100) == n_folds
    assert clf.mix_["sharp"] == 0.0


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "factor"),
    [(49_999, 256, 1.0), (50_000, 512, 2**0.5), (199_999, 512, 2**0.5), (200_000, 1024, 1.0)],
)
def test_members_of_large_tables(n_rows, batch_size, factor):
    found = setting_of("smooth", "auto", "binary", (n_rows, 5), "auto")
    assert (found.batch_size, found.lr) == (batch_size, pytest.approx(0.03 * factor))


def test_a_batch_size_that_is_given_leaves_the_rate():
    found = setting_of("smooth", Members(batch_size=300), "binary", (60_000, 5), "auto")
    assert (found.batch_size, found.lr) == (300, 0.03)


@pytest.mark.parametrize(
    ("task", "n_rows", "per_fold"),
    [("binary", 999, 1), ("multilabel", 999, 1), ("multiclass", 999, 2), ("multiclass", 1000, 1)],
)
def test_members_of_small_tables(task, n_rows, per_fold):
    assert setting_of("smooth", "auto", task, (n_rows, 5), "auto").per_fold == per_fold


@pytest.mark.parametrize(
    ("task", "n_rows", "units"),
    [
        *[
            ("binary", 999, 64),
            ("binary", 1000, 128),
            ("regression", 19_999, 128),
            ("regression", 20_000, 256),
        ],
        *[("multiclass", 999, 64), ("multiclass", 1000, 256), ("ordinal", 20_000, 256)],
    ],
)
def test_units_follow_the_rows(task, n_rows, units):
    assert setting_of("sharp", "auto", task, (n_rows, 5), "auto").hidden_layer_sizes == (units, units)
    assert (
        setting_of("smooth", "auto", task, (n_rows, 5), "auto").hidden_layer_sizes == (min(units, 128),) * 2
    )
    assert setting_of("smooth", "auto", task, (n_rows, 5), 3).per_fold == 3
