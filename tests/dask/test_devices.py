"""Devices: fits over workers compute on the host, predictions and whole fits wherever the model is."""

import os

import dask.array as da
import joblib
import numpy as np
import pytest

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.device import to_device, to_host
from sknet.engine import fit_many
from sknet.optim import Adam
from tests.engine.loop.workers import Alone, fitted

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
X = np.random.default_rng(0).normal(size=(120, 3)).astype("f4")
LABELS = (X[:, 0] > X[:, 1]).astype(int)


def net(kind=MLPClassifier, **params):
    return kind(
        (4,), **{"max_iter": 2, "batch_size": 40, "random_state": 0, "optimizer": Adam(0.01), **params}
    )


def divided(array, place=None):
    found = da.from_array(array, chunks=(40, *array.shape[1:]))
    if place is None:
        return found
    return found.map_blocks(
        to_device, place, dtype=array.dtype, meta=np.zeros((0,) * array.ndim, array.dtype)
    )


def test_a_fit_over_workers_refuses_a_device(client, fake_device):
    with pytest.raises(ValueError, match="does not support device='fake' in a fit of Dask collections: set"):
        net(device="fake").fit(divided(X), divided(LABELS))


@pytest.mark.parametrize("name", ["X", "y", "sample_weight"])
def test_partitions_on_a_device_are_named(client, fake_device, name):
    given = {"X": X, "y": X[:, 0], "sample_weight": np.ones(120)}
    parts = {each: divided(array, fake_device if each == name else None) for each, array in given.items()}
    estimator = net(MLPRegressor)
    message = rf"partition 0: {name} is on fake:0, .* on the CPU: .*{name}.map_blocks\(sknet.device.to_host\)"
    with pytest.raises(ValueError, match=message):
        estimator.fit(**parts)
    assert not hasattr(estimator, "model_")
    parts[name] = parts[name].map_blocks(to_host, meta=parts[name]._meta)
    assert estimator.fit(**parts).n_iter_ == 2


@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_a_model_on_a_device_predicts_partitions_of_the_host(client, fake_device, method):
    clf = net(device="fake").fit(X, LABELS)
    found = getattr(clf, method)(divided(X)).compute()
    np.testing.assert_array_equal(found, getattr(clf, method)(X))


def test_many_fits_on_a_device_run_on_the_cluster(client, fake_device):
    """Here they are one program, whose products and sums round differently."""

    def assert_close(found, expected):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    here, there = (
        [Model(nn.Linear(3, 2), "log_loss", device="fake", random_state=i) for i in range(3)]
        for _ in range(2)
    )
    ensemble = net(device="fake", n_members=2)
    wanted = ensemble.fit(X, LABELS).predict_proba(X)
    histories = fit_many(here, X, LABELS, epochs=2)
    with joblib.parallel_config("dask"):
        found = fit_many(there, X, LABELS, epochs=2)
        assert_close(ensemble.fit(X, LABELS).predict_proba(X), wanted)
    assert_close([each["loss"] for each in found], [each["loss"] for each in histories])
    for one, other in zip(here, there, strict=True):
        assert one.device == other.device == fake_device
        assert_close(to_host(one.weights().flat), to_host(other.weights().flat))


def fitted_alone(folder):
    os.environ["XDG_RUNTIME_DIR"] = folder
    return fitted([Alone(folder)])


def test_one_worker_at_a_time_trains_on_a_device(client_of_processes, tmp_path):
    futures = client_of_processes.map(fitted_alone, [str(tmp_path)] * 6, pure=False)
    assert client_of_processes.gather(futures) == [fitted()] * 6
    assert len(list(tmp_path.glob("*.pid"))) > 1
    assert [path.name for path in (tmp_path / "sknet").iterdir()] == ["fake-0.lease"]
