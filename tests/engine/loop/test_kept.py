"""Steps kept between calls of partial_fit: bitwise identical, and never reused for something else."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from sknet import MLPClassifier, nn
from sknet.engine import _runner_cache
from sknet.optim import SGD, Adam

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(90, 4)), np.arange(90) % 3
PARTS = [slice(0, 30), slice(30, 60), slice(60, 90), slice(0, 10)]


def weights(clf):
    return b"".join(array.tobytes() for array in (*clf.coefs_, *clf.intercepts_))


def in_parts(forgets, change=lambda clf, number: None, parts=PARTS, X=X, **params):
    clf = MLPClassifier((5,), scale_inputs=False, **{"random_state": 0, **params})
    for number, part in enumerate(parts * 2):
        change(clf, number)
        clf.partial_fit(X[part], Y[part], classes=[0, 1, 2])
        if forgets:
            clf.model_.recompile()
    return clf


def another_rate(clf, number):
    clf.set_params(optimizer=Adam(lr=0.001 * (number + 1)))


def another_penalty(clf, number):
    clf.set_params(alpha=0.1 * number)


def another_optimizer(clf, number):
    clf.set_params(optimizer=[SGD(0.1), SGD(0.1, momentum=0.5), Adam(beta1=0.5)][number % 3])


def another_activation(clf, number):
    if number == 3:
        clf.model_.module[1].forward = lambda x: x * 2.0


def frozen(clf, number):
    clf.set_params(frozen="0.*" if number % 3 == 2 else None)


def of_other_kind(clf, number):
    clf.set_params(batch_size=[200, 8, 10][number % 3])


CHANGES = [another_rate, another_penalty, another_optimizer, another_activation, frozen, of_other_kind]


@pytest.mark.filterwarnings("ignore:Got `batch_size`")
@pytest.mark.filterwarnings("ignore:the training step is not compiled")
@pytest.mark.parametrize("change", [lambda clf, number: None, *CHANGES])
def test_kept_steps_are_bitwise_identical_to_new_ones(change):
    for params in ({}, {"shuffle": False, "batch_size": 8, "dropout": 0.5}):
        assert weights(in_parts(False, change, **params)) == weights(in_parts(True, change, **params))


def test_rows_of_another_layout_or_dtype_are_read_as_they_are():
    def mixed(forgets):
        clf = MLPClassifier((5,), random_state=0)
        for number in range(8):
            part = [X[:30], np.asfortranarray(X[:30]), X[:60:2], X[:30].astype("f4")][number % 4]
            clf.partial_fit(part, Y[:30], classes=[0, 1, 2])
            if forgets:
                clf.model_.recompile()
        return weights(clf)

    assert mixed(False) == mixed(True)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_steps_are_captured_once_for_equal_parts(monkeypatch):
    made = []
    original = _runner_cache.steps_for
    monkeypatch.setattr(
        _runner_cache, "steps_for", lambda *args, **options: made.append(1) or original(*args, **options)
    )
    clf = in_parts(False, parts=PARTS[:3])
    assert len(made) == 1
    clf.fit(X, Y)
    assert len(made) == 2


def test_few_rows_are_kept_and_copies_keep_nothing():
    clf = in_parts(False, parts=PARTS[:1])
    size = len(pickle.dumps(clf))
    wide = MLPClassifier((5,), random_state=0)
    many = np.tile(X, (50, 1))
    for _ in range(2):
        wide.partial_fit(many, np.tile(Y, 50), classes=[0, 1, 2])
    rows = 200 * X.shape[1] * X.itemsize  # of whose contributions `feature_importances_` are means
    assert abs(len(pickle.dumps(wide)) - size) < 2000 + rows < X.nbytes * 50
    twin = pickle.loads(pickle.dumps(clf))
    for each in (twin, clf):
        each.partial_fit(X[:30], Y[:30])
    assert weights(twin) == weights(clf)
    assert clone(clf).partial_fit(X, Y, classes=[0, 1, 2]).n_iter_ == 1


def test_a_model_can_be_trained_after_a_failed_part():
    clf, twin = in_parts(False, parts=PARTS[:1]), in_parts(False, parts=PARTS[:1])
    with pytest.raises(ValueError, match="classes not in"):
        clf.partial_fit(X[:30], Y[:30] + 7)
    with pytest.raises(Exception, match="training diverged"):
        clf.partial_fit(X[:30] * 1e200, Y[:30])
    for each in (clf, twin):
        each.partial_fit(X[:30], Y[:30])
    assert weights(clf) == weights(twin)


def test_user_code_is_captured_for_every_part():
    class Own(nn.Module):
        times = 0

        def forward(self, x):
            Own.times += 1
            return x

        def __deepcopy__(self, memo):
            return self

    clf = in_parts(False, parts=PARTS[:1], activation=Own())
    before = Own.times
    clf.partial_fit(X[:30], Y[:30])
    assert Own.times > before
