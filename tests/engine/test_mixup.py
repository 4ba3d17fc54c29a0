"""Mixup: losses of mixed rows follow shares of their targets, the same for a seed and however steps run."""

import numpy as np
import pytest
import scipy.stats

from sknet import Model, NetClassifier, NetRegressor, nn
from sknet.callbacks import Checkpoint
from sknet.exceptions import StateError
from sknet.optim import SGD
from tests.estimators.data import quiet

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3))
WEIGHT = RNG.uniform(0.5, 2, 7)
IMAGES = RNG.normal(size=(60, 6, 6)).astype(np.float32)
LABELS = np.arange(60) % 3


def drawn(layer, n, key=(0, 0), steps=1):
    """Return the shares that a layer draws, from rows of 1 and 0."""
    x = np.repeat([[1.0], [0.0]], n // 2, axis=0)
    return np.array(
        [nn.functional_call(layer, {}, x, key=key, step=step)[0].numpy()[0, 0] for step in range(steps)]
    )


@pytest.mark.parametrize("alpha", [0.2, 1.0, 3.0])
def test_shares_are_of_the_beta_distribution(alpha):
    found = drawn(nn.Mixup(alpha), 2, steps=500)
    assert scipy.stats.kstest(found, scipy.stats.beta(alpha, alpha).cdf).pvalue > 1e-3
    np.testing.assert_array_equal(found[:5], drawn(nn.Mixup(alpha), 8, steps=5))  # of any batch


def soft_max_loss(z, y):
    shifted = z - z.max(1, keepdims=True)
    return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y]


def half_squares(z, y):
    return ((z - y) ** 2).sum(1) / 2


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    ("loss", "y", "values"),
    [
        ("log_loss", np.arange(7) % 3, soft_max_loss),
        ("squared_error", RNG.normal(size=(7, 3)), half_squares),
    ],
)
def test_losses_are_mixed_as_rows_are(loss, y, values, weight, compiled):
    model = Model(
        nn.Sequential(nn.Mixup(1.0), nn.Linear(3, 3)), loss, SGD(0.1), random_state=0, dtype="float64"
    )
    model.compile = compiled
    for step in range(2):
        W, b = (np.array(model.parameters[f"1.{name}"]) for name in ("weight", "bias"))
        share = drawn(model.module[0], 2, model.memory.key, step + 1)[step]
        z = (share * X + (1 - share) * X[::-1]) @ W + b
        weights = np.ones(7) if weight is None else weight
        one, other = (np.average(values(z[::way], y), weights=weights) for way in (1, -1))
        found = model.step(X, y, weight).data_loss
        np.testing.assert_allclose(found, share * one + (1 - share) * other, rtol=1e-12)


@pytest.mark.parametrize("task", ["classifier", "regressor"])
def test_gradients_are_those_of_differences(task):
    loss, y = ("log_loss", np.arange(7) % 3) if task == "classifier" else ("squared_error", X)
    model = Model(
        nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Mixup()),
        loss,
        random_state=0,
        alpha=0.1,
        dtype="float64",
    )
    found = model.backward(model.loss(model(X), y, WEIGHT)).flat.copy()
    flat = model.weights().flat.copy()
    for i in range(flat.size):
        values = []
        for change in (1e-6, -1e-6):
            moved = flat.copy()
            moved[i] += change
            model.restore_weights(model.weights()._replace(flat=moved))
            values.append(model.loss(model(X), y, WEIGHT).item())
        np.testing.assert_allclose(found[i], (values[0] - values[1]) / 2e-6, atol=1e-8)


NETWORK = nn.ModuleFactory(nn.ConvNet, channels=2, augment=("shift", "mixup"))


@pytest.mark.parametrize("n_members", [1, 2])
def test_fits_have_the_same_bits_for_a_seed(n_members, tmp_path):
    def fit(seed, epochs=4, **given):
        net = NetClassifier(
            NETWORK, max_iter=epochs, batch_size=25, n_members=n_members, tol=0, random_state=seed
        )
        with quiet():
            return net.fit(IMAGES, LABELS, **given).predict_proba(IMAGES)

    first = fit(0)
    np.testing.assert_array_equal(first, fit(0))
    assert (first != fit(1)).any()
    if n_members == 1:
        fit(0, 2, callbacks=[Checkpoint(tmp_path)])
        np.testing.assert_array_equal(first, fit(0, resume_from=tmp_path))


def test_mixed_rows_are_learned_and_predicted_alone():
    y = IMAGES.mean((1, 2))
    network = nn.ModuleFactory(nn.ConvNet, channels=4, dropout=0.0, augment=nn.Mixup(1.0))
    with quiet():
        net = NetRegressor(network, max_iter=60, batch_size=20, lr=0.01, random_state=0).fit(IMAGES, y)
    assert net.score(IMAGES, y) > 0.5
    np.testing.assert_allclose(net.predict(IMAGES)[:3], net.predict(IMAGES[:3]), rtol=1e-5)


def test_drawn_predictions_are_of_rows_by_themselves():
    network = nn.ModuleFactory(nn.ConvNet, channels=2, augment="mixup")
    with quiet():
        net = NetClassifier(network, max_iter=1, random_state=0).fit(IMAGES, LABELS)
    found = net.predict_samples(IMAGES, 3, random_state=0)
    other = IMAGES.copy()
    other[0] += 1
    np.testing.assert_array_equal(net.predict_samples(other, 3, random_state=0)[:, 1:], found[:, 1:])


def test_rows_are_mixed_once():
    model = Model(nn.Sequential(nn.Mixup(), nn.Linear(3, 1), nn.Mixup()), "squared_error", random_state=0)
    with pytest.raises(StateError, match="have been mixed by another Mixup"):
        model.step(X, X[:, :1])


@pytest.mark.parametrize("alpha", [0, -1.0, "a"])
def test_wrong_arguments(alpha):
    with pytest.raises(ValueError, match="must be"):
        nn.Mixup(alpha)
