"""Norms of gradients, compared with central differences."""

import numpy as np
import pytest

from sknet import MLPRegressor
from sknet.callbacks import GradientMonitor
from sknet.optim import SGD
from tests.callbacks.helpers import X, Y, classifier, fitted, unconverged

TARGET = X @ np.array([1.0, -2.0, 0.5], "float32")


def test_norms_are_those_of_central_differences():
    raw = {"scale_inputs": False, "scale_target": False}
    net = MLPRegressor((3,), activation="tanh", max_iter=2, dtype="float64", alpha=0.1, random_state=0, **raw)
    with unconverged():
        net.set_params(callbacks=[GradientMonitor()]).fit(X, TARGET)
    monitor = net.callbacks_[0]
    model = net.model_.copy()
    y = TARGET[:, None].astype("float64")

    def loss():
        return model.loss(model(X.astype("float64")), y).item()

    total = 0.0
    for name, array in model.parameters.items():
        squares = 0.0
        for index in np.ndindex(array.shape):
            kept = array[index]
            array[index] = kept + 1e-6
            above = loss()
            array[index] = kept - 1e-6
            squares += ((above - loss()) / 2e-6) ** 2
            array[index] = kept
        assert monitor.norms_[name][-1] == pytest.approx(np.sqrt(squares), rel=1e-6)
        assert monitor.weight_norms_[name][-1] == pytest.approx(np.linalg.norm(array))
        total += squares
    assert net.history_["gradient_norm"][-1] == pytest.approx(np.sqrt(total), rel=1e-6)


def test_every_few_epochs():
    clf = fitted(GradientMonitor(every=2))
    monitor = clf.callbacks_[0]
    assert monitor.epochs_ == [2, 4, 6]
    assert {len(norms) for norms in monitor.norms_.values()} == {3}
    np.testing.assert_array_equal(np.isnan(clf.history_["gradient_norm"]), [True, False] * 3)


def test_a_gradient_that_vanishes_is_seen():
    clf = classifier(GradientMonitor(), activation="logistic", optimizer=SGD(1e-12), alpha=0.0)
    with unconverged():
        clf.set_params(hidden_layer_sizes=(5,) * 4).fit(X, Y)
    norms = [clf.callbacks_[0].norms_[f"{2 * layer}.weight"][-1] for layer in range(4)]
    assert norms == sorted(norms)
    assert norms[0] < norms[-1] / 2


def test_batches_of_zero_weight_are_ignored():
    with unconverged():
        clf = classifier(GradientMonitor(), shuffle=False).fit(X, Y, np.arange(120) >= 48)
    assert np.isfinite(clf.history_["gradient_norm"]).all()
