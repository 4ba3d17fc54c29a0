"""Training convolutional networks: compiled and eager results agree."""

import warnings

import numpy as np
import pytest

from sknet import Model, nn
from sknet.optim import Adam

RNG = np.random.default_rng(0)
Y = np.arange(48) % 3
X = RNG.normal(size=(48, 2, 8, 8)).astype(np.float32)
X[np.arange(48), 0, 2 * Y] += 5.0  # a bright row marks the class


def convolutional():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.1),
        nn.Conv2d(6, 8, 3, stride=2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def transformer():
    return nn.Sequential(
        nn.Flatten(),
        nn.Lambda(lambda x: x.reshape((x.shape[0], 16, 8))),
        nn.PositionalEncoding(),
        nn.TransformerEncoder(1, 8, 2, 16),
        nn.Flatten(),
        nn.Linear(128, 3),
    )


def fitted(network, epochs, dtype="float32", compiled=True):
    model = Model(network(), "log_loss", Adam(lr=1e-2), random_state=0, dtype=dtype)
    if not compiled:
        order = np.arange(len(X))
        for _ in range(epochs):
            order = order[model.random_state.permutation(len(X))]
            for start in range(0, len(X), 20):  # the last batch is shorter
                rows = order[start : start + 20]
                model.step(X[rows], Y[rows])
        return model
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it raises if it cannot compile
        model.fit(X, Y, epochs=epochs, batch_size=20)
    return model


@pytest.mark.parametrize("network", [convolutional, transformer])
def test_training_is_compiled_and_learns(network):
    model = fitted(network, 30)
    assert np.mean(model.predict(X).argmax(axis=1) == Y) > 0.9


@pytest.mark.parametrize("network", [convolutional, transformer])
def test_compiled_and_eager_agree(network):
    fast, slow = (fitted(network, 3, "float64", compiled) for compiled in (True, False))
    for name, value in fast.parameters.items():
        np.testing.assert_allclose(value, slow.parameters[name], rtol=1e-7, atol=1e-9, err_msg=name)
