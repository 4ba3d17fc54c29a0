"""Monte-Carlo dropout: draws against the mean and variance of a linear network written out."""

import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, nn

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.5]


def test_draws_have_the_variance_of_dropped_inputs():
    options = {"scale_inputs": False, "scale_target": False, "dtype": "float64", "random_state": 0}
    net = nn.Sequential(nn.Dropout(0.25), nn.Linear(3, 1))
    reg = NetRegressor(net, max_iter=20, lr=0.1, **options).fit(X, Y)
    found = reg.predict_samples(X, 4000, random_state=0)
    assert found.shape == (4000, 40)
    weight = reg.model_.module[1].weight.numpy().ravel()
    variance = (X**2) @ (weight**2) * 0.25 / 0.75  # of an input divided by .75 with probability .75, else 0
    np.testing.assert_allclose(found.mean(axis=0), reg.predict(X), atol=5 * np.sqrt(variance.max() / 4000))
    np.testing.assert_allclose(found.var(axis=0), variance, rtol=0.2)


def test_draws_of_probabilities_and_seeds():
    clf = MLPClassifier((8,), dropout=0.5, max_iter=5, random_state=0).fit(X, Y > 0)
    first, again, other = (clf.predict_samples(X, 3, random_state=seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert first.shape == (3, 40, 2)
    np.testing.assert_allclose(first.sum(axis=2), 1, rtol=1e-5)
    several = MLPRegressor((8,), dropout=0.5, n_members=2, max_iter=5, random_state=0).fit(X, np.c_[Y, Y])
    before = several.predict(X)
    assert several.predict_samples(X, 3).shape == (3, 40, 2)
    assert np.array_equal(several.predict(X), before)


def test_norms_keep_their_statistics():
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Dropout(0.5), nn.Linear(4, 2))
    clf = NetClassifier(net, max_iter=3, random_state=0).fit(X, Y > 0)
    alone = clf.predict_samples(X[:1], 5, random_state=0)
    np.testing.assert_allclose(alone[:, 0], clf.predict_samples(X[:2], 5, random_state=0)[:, 0], rtol=1e-4)


def test_networks_without_dropout():
    reg = MLPRegressor((4,), max_iter=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="all 3 draws of this MLPRegressor are the same"):
        reg.predict_samples(X, 3)
    with pytest.raises(ValueError, match="n_draws must be a positive integer, got 0"):
        reg.predict_samples(X, 0)
