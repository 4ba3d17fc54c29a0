"""Brackets as in the paper, each a halving whose candidates continue."""

import numpy as np
import pytest
from scipy.stats import loguniform
from sklearn.datasets import load_iris
from sklearn.model_selection import ShuffleSplit, cross_val_score

from sknet import MLPClassifier
from sknet.callbacks import Callback
from sknet.exceptions import InvalidParameterError
from sknet.model_selection import (
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    HyperbandSearchCV,
    RandomizedSearchCV,
)

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X, y = load_iris(return_X_y=True)
ONE = ShuffleSplit(1, random_state=0)


class Counts(Callback):
    """Counts the epochs of all fits."""

    epochs = 0

    def on_epoch_end(self, fit):
        Counts.epochs += 1


def drawn(**told):
    """Return how many candidates each bracket begins with."""
    net = MLPClassifier((2,), optimizer="sgd", random_state=0, tol=0, n_iter_no_change=999)
    search = HyperbandSearchCV(net, {"alpha": loguniform(1e-5, 1)}, cv=ONE, refit=False, **told)
    results = search.fit(X[::10], y[::10]).cv_results_
    return {s: int((results["bracket"][results["iter"] == 0] == s).sum()) for s in set(results["bracket"])}


@pytest.mark.slow
def test_brackets_are_those_of_the_papers_table():
    # Table 1 of Li et al. (2018): R = 81, eta = 3.
    assert drawn(max_resources=81, min_resources=1, factor=3) == {4: 81, 3: 34, 2: 15, 1: 8, 0: 5}


@pytest.mark.parametrize(
    ("most", "fewest", "factor", "sizes"),
    [
        (9, 1, 3, {2: 9, 1: 5, 0: 3}),
        (8, 2, 2, {2: 4, 1: 3, 0: 3}),
        (5, 5, 3, {0: 1}),
        (16, 1, 4, {2: 16, 1: 6, 0: 3}),
    ],
)
def test_other_brackets_follow_the_formula(most, fewest, factor, sizes):
    assert drawn(max_resources=most, min_resources=fewest, factor=factor) == sizes


def network(**params):
    return MLPClassifier((4,), max_iter=9, random_state=0, tol=0, n_iter_no_change=99, **params)


def test_candidates_continue_with_the_scores_of_restarts():
    Counts.epochs = 0
    net = network(callbacks=[Counts()])
    rates = {"optimizer__lr": loguniform(1e-3, 1)}
    search = HyperbandSearchCV(net, rates, cv=ONE, refit=False, return_train_score=False, random_state=0)
    results = search.fit(X, y).cv_results_
    assert Counts.epochs == (9 + 3 * 2 + 6) + (5 * 3 + 6) + 3 * 9
    assert results["bracket"].tolist() == [2] * 13 + [1] * 6 + [0] * 3
    assert results["iter"].tolist() == [0] * 9 + [1] * 3 + [2] + [0] * 5 + [1] + [0] * 3
    assert search.n_candidates_ == [9, 3, 1, 5, 1, 3]
    assert search.n_resources_ == [1, 3, 9, 3, 9, 9]
    for params, score in zip(results["params"], results["mean_test_score"], strict=True):
        alone = cross_val_score(network().set_params(**params), X, y, cv=ONE)
        assert score == alone.mean()
    survivors = [results["params"][index]["optimizer__lr"] for index in (9, 10, 11)]
    best = np.argsort(-results["mean_test_score"][:9], kind="stable")[:3]
    assert survivors == [results["params"][index]["optimizer__lr"] for index in best]
    longest = results["n_resources"] == 9
    assert search.best_score_ == results["mean_test_score"][longest].max()
    assert search.best_params_["max_iter"] == 9


def test_bad_parameters_are_refused_by_name():
    rates = {"alpha": [1e-4, 1e-2]}
    with pytest.raises(ValueError, match=r"HyperbandSearchCV trains .* resource='n_samples' is for"):
        HyperbandSearchCV(network(), rates, resource="n_samples").fit(X, y)
    with pytest.raises((InvalidParameterError, ValueError), match="'factor' parameter of HyperbandSearchCV"):
        HyperbandSearchCV(network(), rates, factor=1).fit(X, y)


RATES = {"alpha": loguniform(1e-5, 1.0)}


@pytest.mark.parametrize(("search", "words"), [
    (HyperbandSearchCV(network(), RATES, max_resources=2**31),
     "would draw 1792078897 candidates, at most 1000000 make sense: set a lower max_res"),
    (HyperbandSearchCV(network(), RATES, factor=1 + 1e-9), "factor=1.000000001 of HyperbandSearchCV makes"),
    (HalvingGridSearchCV(network(), {"alpha": [0.1, 1.0]}, factor=1 + 1e-9), "makes 2.2e"),
    (HalvingRandomSearchCV(network(), RATES, max_resources=2**31), "would draw 2147483648 candidates"),
    (HalvingRandomSearchCV(network(), RATES, n_candidates=2**31), "make sense: set fewer n_candidates"),
    (RandomizedSearchCV(network(), RATES, n_iter=2**31), "make sense: set a lower n_iter"),
])  # fmt: skip
def test_more_candidates_than_memory_holds_are_refused(search, words):
    with pytest.raises(InvalidParameterError, match=words):
        search.fit(X, y)


def test_lists_have_no_more_candidates_than_they_name():
    search = RandomizedSearchCV(network(), {"alpha": [0.1, 1.0]}, n_iter=2**31, cv=ONE)
    with pytest.warns(UserWarning, match="The total space of parameters 2 is smaller than n_iter"):
        assert len(search.fit(X, y).cv_results_["params"]) == 2
