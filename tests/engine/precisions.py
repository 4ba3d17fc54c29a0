"""A perceptron of one hidden layer, and the same by hand: every product rounds its factors."""

import numpy as np

from sknet import Model, nn
from sknet.device import to_host
from sknet.optim import SGD
from tests.devices.rounding import BITS, rounded

__all__ = [
    "FITTING",
    "PRECISIONS",
    "SIZE",
    "N",
    "assert_close",
    "by_hand",
    "host",
    "model_on",
    "predicted_by_hand",
    "rows",
]

PRECISIONS = "float32", *BITS
N, SIZE, WIDTHS = 60, 20, (6, 32, 3)
FITTING = {"batch_size": SIZE, "shuffle": False}


def rows():
    """Return inputs and targets."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N, WIDTHS[0])), rng.standard_normal((N, WIDTHS[-1]))
    return X.astype("float32"), y.astype("float32")


def model_on(device, precision, lr=0.05, seed=0):
    """Return a model with squared errors and plain gradient descent."""
    network = nn.Sequential(nn.Linear(*WIDTHS[:2]), nn.ReLU(), nn.Linear(*WIDTHS[1:]))
    settings = {"dtype": precision, "device": device, "random_state": seed}
    return Model(network, "squared_error", SGD(lr, momentum=0.0), **settings)


def assert_close(found, expected, tolerance=2e-6):
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance, err_msg=name)


def host(model):
    """Return copies of a model's parameters on the host."""
    return {name: to_host(array).copy() for name, array in model.parameters.items()}


def to(x, precision):
    """Return what a product in a precision is of."""
    return x if precision == "float32" else rounded(x, BITS[precision])


def by_hand(parameters, precision, epochs, lr=0.05):
    """Return the parameters after some epochs, in batches in order."""

    def product(x, y):
        return to(x, precision) @ to(y, precision)

    names = "0.weight", "0.bias", "2.weight", "2.bias"
    w1, b1, w2, b2 = trained = [parameters[name].copy() for name in names]
    X, y = rows()
    for start in [*range(0, N, SIZE)] * epochs:
        x, target = X[start : start + SIZE], y[start : start + SIZE]
        hidden = np.maximum(product(x, w1) + b1, 0)
        error = (product(hidden, w2) + b2 - target) / np.float32(SIZE)
        back = product(error, w2.T) * (hidden > 0)
        gradients = product(x.T, back), back.sum(0), product(hidden.T, error), error.sum(0)
        for parameter, gradient in zip(trained, gradients, strict=True):
            parameter -= np.float32(lr) * gradient
    return dict(zip(names, trained, strict=True))


def predicted_by_hand(parameters, precision, X):
    """Return outputs for some rows."""
    w1, b1, w2, b2 = parameters.values()
    hidden = np.maximum(to(X, precision) @ to(w1, precision) + b1, 0)
    return to(hidden, precision) @ to(w2, precision) + b2
