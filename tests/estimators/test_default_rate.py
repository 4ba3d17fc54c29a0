"""The default learning rate: of few epochs it falls from a first one, and continued fits keep to it."""

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV as ScikitLearnHalving

from sknet import MLPClassifier, MLPRegressor
from sknet.callbacks import Checkpoint
from sknet.model_selection import HalvingGridSearchCV
from sknet.optim import Adam
from sknet.optim.schedules import InverseTime, Progress

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
SMALL = {"hidden_layer_sizes": (4,), "batch_size": 10, "tol": 0.0, "random_state": 0}
NOISE, HALVES = np.random.default_rng(0).normal(size=(300, 3)), np.arange(300) % 2


@pytest.mark.parametrize(
    ("n_rows", "epochs", "first", "last"),
    [
        *((15, 10, 0.02, 0.005), (15, 15, 0.0089, 0.005), (15, 20, 0.005, 0.005)),
        *((1_000, 3, 0.02, 0.002), (1_000, 30, 0.0022, 0.002), (1_000, 40, 0.002, 0.002)),
        *((8_000, 20, 0.005, 0.001), (8_000, 43, 0.0011, 0.001), (8_000, 44, 0.001, 0.001)),
    ],
)
def test_the_rate_of_few_epochs_falls_from_a_first_one(n_rows, epochs, first, last):
    X = np.random.default_rng(0).normal(size=(n_rows, 4)).astype("float32")
    regressor = MLPRegressor((1,), max_iter=epochs, tol=10.0, n_iter_no_change=1, random_state=0)
    optimizer = regressor.fit(X, X[:, 0]).model_.optimizer
    rates = [optimizer.learning_rate(Progress(step)) for step in range(2000)]
    expected = [max(last, min(first, round(1 / first) * first / (step + 1))) for step in range(2000)]
    assert rates == pytest.approx(expected, rel=1e-12)
    stopped = regressor.set_params(early_stopping=True).fit(X, X[:, 0])
    assert set(stopped.history_["lr"]) == {last}


def of_rates(estimator, expected):
    """Compare the rates of the update after each epoch."""
    assert estimator.history_["lr"] == pytest.approx(expected)


def test_a_warm_start_goes_on_at_the_rates_of_the_first_fit():
    once = MLPClassifier(max_iter=4, shuffle=False, **SMALL).fit(NOISE, HALVES)
    twice = MLPClassifier(max_iter=2, shuffle=False, warm_start=True, **SMALL)
    twice.fit(NOISE, HALVES).fit(NOISE, HALVES)
    of_rates(once, [0.02, 1 / 61, 1 / 91, 1 / 121])
    of_rates(twice, once.history_["lr"])
    np.testing.assert_array_equal(twice.predict_proba(NOISE), once.predict_proba(NOISE))
    again = pickle.loads(pickle.dumps(twice)).set_params(max_iter=100, n_iter_no_change=1, tol=10.0)
    of_rates(again.fit(NOISE, HALVES), [*once.history_["lr"], 1 / 151, 1 / 181])
    begun = MLPClassifier(max_iter=100, n_iter_no_change=1, warm_start=True, **SMALL | {"tol": 10.0})
    rates = begun.fit(NOISE, HALVES).set_params(max_iter=2).fit(NOISE, HALVES).history_["lr"]
    assert set(rates) == {0.005}


def test_a_rate_of_the_users_is_not_continued_as_the_default():
    own = MLPClassifier(max_iter=2, warm_start=True, optimizer=Adam(InverseTime(0.5, 2, 0.1)), **SMALL)
    own.fit(NOISE, HALVES).set_params(optimizer="adam")
    assert set(own.fit(NOISE, HALVES).history_["lr"][2:]) == {0.005}


def test_parts_have_one_rate_before_and_after_a_fit():
    part = MLPClassifier(max_iter=1, **SMALL).partial_fit(NOISE, HALVES, classes=[0, 1])
    part.set_params(warm_start=True).fit(NOISE, HALVES).partial_fit(NOISE, HALVES)
    of_rates(part, [0.001, 0.005, 0.001])
    fitted = MLPClassifier(max_iter=1, **SMALL).fit(NOISE, HALVES).partial_fit(NOISE, HALVES)
    of_rates(fitted, [0.02, 0.001])


def test_a_resumed_fit_goes_on_at_the_rates_that_it_began_with(tmp_path):
    begun = MLPClassifier(max_iter=2, callbacks=[Checkpoint(tmp_path)], **SMALL).fit(NOISE, HALVES)
    assert begun.history_["lr"] == pytest.approx([0.02, 1 / 61])
    for epochs in (4, 60):  # the second is resumed from what was resumed
        params = {"max_iter": epochs, "callbacks": [Checkpoint(tmp_path)]}
        resumed = MLPClassifier(**SMALL | params).fit(NOISE, HALVES, resume_from=tmp_path)
        whole = MLPClassifier(max_iter=epochs, lr=InverseTime(0.02, 50, 0.005), **SMALL).fit(NOISE, HALVES)
        assert resumed.history_["lr"] == whole.history_["lr"]
        np.testing.assert_array_equal(resumed.predict_proba(NOISE), whole.predict_proba(NOISE))


def test_a_checkpoint_of_a_fit_at_one_rate_is_resumed_at_it(tmp_path):
    params = {"max_iter": 50, "callbacks": [Checkpoint(tmp_path)], "n_iter_no_change": 40, **SMALL}
    whole = MLPClassifier(**params).fit(NOISE, HALVES)
    longer = MLPClassifier(**params | {"max_iter": 52}).fit(NOISE, HALVES, resume_from=tmp_path)
    assert {*whole.history_["lr"], *longer.history_["lr"]} == {0.005}


def test_members_and_candidates_have_the_rates_of_fits_of_their_own():
    ensemble = MLPClassifier(max_iter=3, n_members=2, **SMALL).fit(NOISE, HALVES)
    assert [each["lr"] for each in ensemble.histories_] == [pytest.approx([0.02, 1 / 61, 1 / 91])] * 2
    told = {"cv": 2, "factor": 2, "min_resources": 8, "max_resources": 16, "random_state": 0}
    network, grid = MLPClassifier(max_iter=16, n_iter_no_change=99, **SMALL), {"alpha": [1e-4, 1.0]}
    ours = HalvingGridSearchCV(network, grid, **told).fit(NOISE, HALVES)
    theirs = ScikitLearnHalving(network, grid, resource="max_iter", **told).fit(NOISE, HALVES)
    assert ours.n_resources_ == [8, 16]
    for name in ("mean_test_score", "split0_train_score", "split1_train_score"):
        np.testing.assert_array_equal(ours.cv_results_[name], theirs.cv_results_[name])
    assert ours.best_estimator_.history_["lr"] == theirs.best_estimator_.history_["lr"]
    assert ours.best_estimator_.history_["lr"][0] == 0.0078


def test_few_updates_learn_a_line():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] > 0
    scores = [MLPClassifier((8,), max_iter=10, random_state=seed).fit(X, y).score(X, y) for seed in range(20)]
    assert np.mean(np.array(scores) > 0.8) > 0.9


@pytest.mark.parametrize(
    ("lr", "told"), [(None, "Raise max_iter; "), (1e-3, "Raise max_iter or the learning rate, ")]
)
def test_short_fits_are_not_advised_a_lower_rate_than_their_first(lr, told):
    with pytest.warns(ConvergenceWarning, match=told):
        MLPRegressor((5,), max_iter=5, lr=lr, random_state=0).fit(NOISE, NOISE[:, 0])
