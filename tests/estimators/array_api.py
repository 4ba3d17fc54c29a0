"""Run by test_array_api.py, in a process that enables SciPy's array API before importing it."""

import warnings

import array_api_strict as xp
import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier, MLPRegressor, neural_network
from sknet.losses import Ordinal, Quantile

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
TARGETS = {
    "binary": (X[:, 0] > 0).astype(np.int64),
    "multiclass": np.digitize(X[:, 0], [-0.5, 0.5]),
    "multilabel": (X[:, :3] > 0).astype(np.int64),
    "one": X[:, 0] * 2,
    "several": X[:, :2] * 2,
}
DEVICES = [xp.Device("CPU_DEVICE"), xp.Device("device1")]
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")


def new(module, task):
    kind = "MLPRegressor" if task in ("one", "several") else "MLPClassifier"
    return getattr(module, kind)(hidden_layer_sizes=(8,), max_iter=3, random_state=0)


def check_same(found, expected, device):
    """Check that an array is the NumPy array's twin in the namespace, on the device."""
    assert type(found) is type(xp.zeros(1)), type(found)
    assert found.device == device, found.device
    host = np.from_dlpack(xp.asarray(found, device=DEVICES[0]))
    assert host.dtype == expected.dtype, (host.dtype, expected.dtype)
    np.testing.assert_array_equal(host, expected)


def check(estimator, twin, device):
    """Compare all predictions and attributions; `twin` was fitted on NumPy arrays."""
    points, row = xp.asarray(X, device=device), xp.asarray(X[0], device=device)
    target = 1 if twin.predict(X).ndim == 2 else None
    check_same(estimator.input_gradient(points, target=target), twin.input_gradient(X, target), device)
    found = estimator.integrated_gradients(points, row, target, n_steps=3)
    check_same(found, twin.integrated_gradients(X, X[0], target, n_steps=3), device)
    for name in METHODS:
        if hasattr(twin, name):
            check_same(getattr(estimator, name)(points), getattr(twin, name)(X), device)
            check_same(estimator.layer(0).transform(points), twin.layer(0).transform(X), device)
            with pytest.raises(ValueError, match=rf"passed to MLP\w+.{name}\(\) must use the same namespace"):
                getattr(estimator, name)(X)
            with config_context(array_api_dispatch=False):
                assert type(getattr(estimator, name)(X)) is np.ndarray
            assert type(getattr(twin, name)(points)) is type(points)


HEADS = {
    "columns": (MLPClassifier, np.stack([TARGETS["multiclass"], TARGETS["binary"] + 2], axis=1), {}),
    "ordinal": (MLPClassifier, TARGETS["multiclass"], {"loss": Ordinal([1, 0, 2])}),
    "quantiles": (MLPRegressor, TARGETS["several"], {"loss": Quantile([0.1, 0.5, 0.9])}),
    "deviations": (MLPRegressor, TARGETS["one"], {"loss": "gaussian_nll", "scale_target": True}),
}
ASKED = (*METHODS[:4], "predict_std", "predict_quantiles", "predict_interval")


def check_heads(device):
    """Compare lists, pairs and arrays of three axes."""
    for kind, y, params in HEADS.values():
        twin = kind((8,), max_iter=3, random_state=0, **params).fit(X, y)
        with config_context(array_api_dispatch=True):
            given = [xp.asarray(array, device=device) for array in (X, y)]
            estimator = kind((8,), max_iter=3, random_state=0, **params).fit(*given)
            asked = [(name, {}) for name in ASKED if hasattr(twin, name)]
            asked += [("predict", {"return_std": True})] * hasattr(twin, "predict_std")
            for name, more in asked:
                found, expected = getattr(estimator, name)(given[0], **more), getattr(twin, name)(X, **more)
                assert isinstance(expected, (list, tuple)) == isinstance(found, (list, tuple))
                pairs = (
                    zip(found, expected, strict=True)
                    if isinstance(found, (list, tuple))
                    else [(found, expected)]
                )
                for mine, other in pairs:
                    check_same(mine, other, device)
            np.testing.assert_allclose(estimator.score(*given), twin.score(X, y), rtol=1e-6)


def main():
    for device in DEVICES:
        check_heads(device)
    weight = RNG.uniform(0.5, 1.5, 60)
    for device in DEVICES:
        for task, y in TARGETS.items():
            for module in (__import__("sknet"), neural_network):
                twin = new(module, task).fit(X, y, sample_weight=weight)
                given = [xp.asarray(x, device=device) for x in (X, y, weight)]
                with config_context(array_api_dispatch=True):
                    estimator = new(module, task).fit(*given[:2], sample_weight=given[2])
                    check(estimator, twin, device)
                    np.testing.assert_allclose(estimator.score(*given[:2]), twin.score(X, y), rtol=1e-6)
                    found = estimator.score(*given)
                    np.testing.assert_allclose(found, twin.score(X, y, weight), rtol=1e-6)
                    estimator.partial_fit(*given[:2])
                    check(estimator, twin.partial_fit(X, y), device)
                    is_real = task in ("one", "several")
                    points = xp.astype(given[0], xp.float32)
                    targets = xp.astype(given[1], xp.float32) if is_real else given[1]
                    found = new(module, task).fit(points, targets).predict(points)
                    assert not is_real or found.dtype == xp.float32

    labels = np.array(["no", "yes"])[TARGETS["binary"]]  # no namespace has strings
    with config_context(array_api_dispatch=True):
        estimator = MLPClassifier((8,), max_iter=3, random_state=0)
        estimator.partial_fit(xp.asarray(X), TARGETS["binary"], classes=xp.asarray([0, 1]))
        assert estimator.fit(xp.asarray(X), labels).predict(xp.asarray(X)).dtype.kind == "U"
        regressor = MLPRegressor(max_iter=3).fit(xp.asarray(X), xp.asarray(TARGETS["one"]))
        with pytest.raises(ValueError, match="X has 2 features, but MLPRegressor is expecting 5"):
            regressor.predict(xp.asarray(X[:, :2]))
        regressor.fit(X, TARGETS["one"])  # in NumPy again
        assert type(regressor.predict(X)) is np.ndarray


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        main()
    print("done")
