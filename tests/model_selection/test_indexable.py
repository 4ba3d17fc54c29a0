"""Searches over networks with several inputs: the same as of one network on the joined table."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import loguniform
from sklearn import model_selection
from sklearn.model_selection import GroupKFold

from sknet import NetClassifier, nn, ops
from sknet.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
    cross_val_predict,
    cross_validate,
    indexable,
)

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RNG = np.random.default_rng(0)
N = 60
TABLE = RNG.normal(size=(N, 5))
X = {"left": TABLE[:, :2], "right": TABLE[:, 2:]}
Y = (TABLE[:, 0] > TABLE[:, 3]).astype(int)
RATES = {"optimizer__lr": [1e-3, 3e-2]}


class Whole(nn.Module):
    def __init__(self, n_outputs):
        self.first, self.last = nn.Linear(5, 8), nn.Linear(8, n_outputs)

    def forward(self, x):
        return self.last(ops.tanh(self.first(x)))


class Joined(Whole):
    def forward(self, left, right):
        return super().forward(ops.concat([left, right], axis=1))


WHOLE, JOINED = (NetClassifier(kind, max_iter=4, random_state=0) for kind in (Whole, Joined))


def found_by(search):
    results = search.cv_results_
    return search.best_params_, {name: results[name] for name in results if name.endswith("_score")}


@pytest.mark.parametrize(
    "search",
    [
        lambda net: GridSearchCV(net, RATES, cv=3),
        lambda net: GridSearchCV(net, RATES, cv=2, n_jobs=2),
        lambda net: RandomizedSearchCV(
            net, {"optimizer__lr": loguniform(1e-3, 1e-1)}, n_iter=2, cv=2, random_state=0
        ),
        lambda net: HalvingGridSearchCV(net, RATES, cv=3, factor=2),
        lambda net: HalvingGridSearchCV(net, RATES, cv=2, factor=2, resource="n_samples", random_state=0),
        lambda net: HyperbandSearchCV(net, {"optimizer__lr": loguniform(1e-3, 1e-1)}, cv=2, random_state=0),
    ],
    ids=["grid", "threads", "random", "halving", "rows", "hyperband"],
)
def test_search_over_named_inputs_finds_what_a_search_over_the_table_finds(search):
    named, table = search(JOINED).fit(X, Y), search(WHOLE).fit(TABLE, Y)
    best, scores = found_by(table)
    assert found_by(named)[0] == best
    for name, expected in scores.items():
        if "time" not in name:
            np.testing.assert_allclose(found_by(named)[1][name], expected)
    np.testing.assert_allclose(named.predict_proba(X), table.predict_proba(TABLE), rtol=1e-4)
    assert named.score(X, Y) == table.score(TABLE, Y)


def test_cross_validation():
    options = {"cv": GroupKFold(3), "groups": np.arange(N) % 6, "return_train_score": True}
    named, table = cross_validate(JOINED, X, Y, **options), cross_validate(WHOLE, TABLE, Y, **options)
    for name in ("test_score", "train_score"):
        np.testing.assert_array_equal(named[name], table[name])
    found = cross_val_predict(JOINED, X, Y, cv=3, method="predict_proba")
    expected = model_selection.cross_val_predict(WHOLE, TABLE, Y, cv=3, method="predict_proba")
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_functions_of_scikit_learn():
    rows = indexable(X)
    expected = model_selection.cross_val_score(WHOLE, TABLE, Y, cv=3)
    np.testing.assert_array_equal(model_selection.cross_val_score(JOINED, rows, Y, cv=3), expected)
    search = model_selection.GridSearchCV(JOINED, RATES, cv=3).fit(rows, Y)
    assert search.best_params_ == model_selection.GridSearchCV(WHOLE, RATES, cv=3).fit(TABLE, Y).best_params_
    curves = [
        model_selection.learning_curve(net, each, Y, cv=3, train_sizes=[0.5, 1.0])[2]
        for net, each in ((JOINED, rows), (WHOLE, TABLE))
    ]
    np.testing.assert_array_equal(*curves)
    train, test = model_selection.train_test_split(rows, random_state=0)
    assert (len(train), len(test)) == (45, 15)
    assert JOINED.fit(train, Y[:45]).predict(test).shape == (15,)


def test_rows():
    frame = pytest.importorskip("pandas").DataFrame({"a": np.arange(N)})
    given = {"table": TABLE, "sparse": scipy.sparse.csr_array(TABLE), "frame": frame, "list": list(range(N))}
    rows = indexable(given)
    assert (len(rows), rows.shape, list(rows)) == (N, (N,), list(given))
    assert rows["table"] is TABLE
    chosen = np.array([3, 0, 59])
    for key in (chosen, chosen.tolist(), np.isin(np.arange(N), chosen), slice(5, 9)):
        picked = np.arange(N)[key]
        part = rows[key]
        np.testing.assert_array_equal(part["table"], TABLE[picked])
        np.testing.assert_array_equal(part["sparse"].toarray(), TABLE[picked])
        np.testing.assert_array_equal(part["frame"]["a"], picked)
        assert part["list"] == picked.tolist()
    assert indexable(rows) is rows
    assert indexable(TABLE) is TABLE
    assert rows.copy() is not rows
    assert len(rows.copy()) == N
    again = pickle.loads(pickle.dumps(indexable(X)))
    np.testing.assert_array_equal(again[:4]["left"], TABLE[:4, :2])


@pytest.mark.parametrize("wrong", [{}, {"left": TABLE, "right": TABLE[:-1]}])
def test_inputs_without_common_rows(wrong):
    with pytest.raises(ValueError, match="one row a sample; numbers of rows"):
        indexable(wrong)
    with pytest.raises(ValueError, match="one row a sample; numbers of rows"):
        cross_validate(JOINED, wrong, Y)
