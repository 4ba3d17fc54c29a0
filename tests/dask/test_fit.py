import dask.array as da
import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model
from sknet.dask import batch_rows
from sknet.estimators.extend import Perceptron
from sknet.optim import SGD, Adam

RTOL = 1e-5
SIZES = [53, 40, 61, 27, 33, 44, 29]


def rows(n_rows=287, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6)).astype(dtype)
    return X, X[:, 0] - X[:, 1] * X[:, 2] + rng.normal(size=n_rows) * 0.1


def collections(X, y, sizes):
    return da.from_array(X, chunks=(tuple(sizes), X.shape[1])), da.from_array(y, chunks=(tuple(sizes),))


def begun(estimator, X):
    """Return a model as a fit begins with, and the seed that it draws then."""
    network = Perceptron(estimator.hidden_layer_sizes, "relu").build(X, 1)
    model = Model(network, estimator.loss, estimator.optimizer, alpha=estimator.alpha, dtype=X.dtype,
                  random_state=estimator.random_state)  # fmt: skip
    return model, int(model.random_state.randint(2**31))


def local_twin(estimator, X, targets, sizes, batch_size):
    """Train a model in this process on the batches of a fit over workers."""
    model, seed = begun(estimator, X)
    losses = []
    for epoch in range(1, estimator.max_iter + 1):
        batches = batch_rows(sizes, batch_size, seed=seed, epoch=epoch, shuffle=estimator.shuffle)
        found = [(model.step(X[rows], targets[rows]).loss, len(rows)) for rows in batches]
        losses.append(np.average([loss for loss, _ in found], weights=[n for _, n in found]))
    return model, losses


CASES = {
    "adam": (MLPClassifier, {"optimizer": Adam(lr=1e-2)}),
    "sgd with penalty": (MLPClassifier, {"optimizer": SGD(lr=0.1), "alpha": 1.0}),
    "regression": (MLPRegressor, {"optimizer": Adam(lr=1e-2), "alpha": 0.1}),
    "in order": (MLPRegressor, {"optimizer": SGD(lr=0.05), "shuffle": False}),
}


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("sizes", [[140, 147], SIZES], ids=["two workers", "four workers"])
@pytest.mark.parametrize("case", CASES)
def test_it_is_the_local_fit_on_the_same_batches(client, case, sizes):
    kind, params = CASES[case]
    estimator = kind((16, 8), batch_size=57, max_iter=4, random_state=3, **params)
    X, y = rows()
    y = y if kind is MLPRegressor else (y > 0).astype(int)
    targets = y.astype("float32").reshape(-1, 1)
    estimator.fit(*collections(X, y, sizes))
    model, losses = local_twin(estimator, X, targets, sizes, 57)
    assert model.progress.step == estimator.model_.progress.step == 24
    for name, array in model.parameters.items():
        scale = np.abs(array).max()
        np.testing.assert_allclose(estimator.model_.parameters[name], array, rtol=RTOL, atol=RTOL * scale)
    np.testing.assert_allclose(estimator.loss_curve_, losses, rtol=RTOL)
