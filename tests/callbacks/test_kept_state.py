"""A kept state goes on to the same end as a longer fit, in this process or in another."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sknet import MLPClassifier
from sknet.callbacks import TimeLimit
from sknet.callbacks._checkpoint import KeepState
from sknet.exceptions import StateError

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer", "ignore:lbfgs failed")
X, y = load_iris(return_X_y=True)


def network(**params):
    told = {"max_iter": 4, "batch_size": 32, "dropout": 0.2, "early_stopping": True, "random_state": 0}
    return MLPClassifier((8,), **told | params)


def assert_same_fit(ours, theirs):
    for a, b in zip(ours.coefs_, theirs.coefs_, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_equal({**ours.history_, "time": 0}, {**theirs.history_, "time": 0})
    assert ours.best_epoch_ == theirs.best_epoch_
    states = [each.model_.random_state.get_state(legacy=False) for each in (ours, theirs)]
    np.testing.assert_equal(*states)


def test_it_goes_on_with_the_bits_of_a_longer_fit_as_often_as_wanted():
    saved = network(callbacks=[KeepState()]).fit(X, y).callbacks_[0].saved_
    saved = pickle.loads(pickle.dumps(saved))
    whole = network(max_iter=9).fit(X, y)
    for _ in range(2):  # what goes on does not change the state
        assert_same_fit(network(max_iter=9).fit(X, y, resume_from=saved), whole)


def test_a_break_keeps_the_state_before_it():
    clf = network(callbacks=[KeepState(), TimeLimit(0.0)]).fit(X, y)
    assert_same_fit(network().fit(X, y, resume_from=clf.callbacks_[0].saved_), network().fit(X, y))


def test_lbfgs_has_none_and_other_data_are_refused():
    assert (
        network(optimizer="lbfgs", early_stopping=False, dropout=0.0, callbacks=[KeepState()])
        .fit(X, y)
        .callbacks_[0]
        .saved_
        is None
    )
    saved = network(callbacks=[KeepState()]).fit(X, y).callbacks_[0].saved_
    with pytest.raises(StateError, match="the kept state is of a fit with other data: X has other values"):
        network().fit(X + 1, y, resume_from=saved)
    with pytest.raises(TypeError, match="resume_from must be the path"):
        network().fit(X, y, resume_from=3)
