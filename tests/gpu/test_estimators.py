"""Whole fits on a GPU: trajectories and predictions agree with the CPU's."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from sknet import NetClassifier, nn
from sknet.device import Device, to_device, to_host
from tests.estimators.data import TABLES, TASKS, WEIGHTS, estimator_for, quiet
from tests.estimators.test_device import FITS, assert_agree, methods

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")
RTOL = 1e-6


@pytest.mark.parametrize("params", FITS.values(), ids=FITS)
@pytest.mark.parametrize("task", TASKS)
def test_device_by_name(task, params):
    X, y = TABLES[task]
    common = {"dtype": "float64"} | params
    with quiet():
        there = estimator_for(task, device="cuda", **common).fit(X, y, WEIGHTS)
        here = estimator_for(task, **common).fit(X, y, WEIGHTS)
    assert there.model_.device == CUDA
    rtol = 1e-3 if params.get("optimizer") == "lbfgs" else RTOL
    assert_agree(there, here, rtol)
    for name in methods(here):
        found = getattr(there, name)(X)
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(here, name)(X), rtol=rtol, atol=100 * rtol)


@pytest.mark.parametrize("task", TASKS)
def test_device_follows_the_data(task):
    X, y = TABLES[task]
    with quiet():
        there = estimator_for(task, dtype="float64").fit(to_device(X, CUDA), y)
        here = estimator_for(task, dtype="float64").fit(X, y)
    assert_agree(there, here, RTOL)
    found = there.predict(to_device(X, CUDA))
    np.testing.assert_allclose(to_host(found), here.predict(X), rtol=RTOL, atol=RTOL)


def test_gelu_is_computed_by_products():
    """In float32 by cuBLASLt, whose formula may be rounded otherwise than ours."""
    X, y = TABLES["multiclass"]
    common = {"activation": nn.GELU("tanh"), "hidden_layer_sizes": (16, 8), "dtype": "float32"}
    with quiet():
        there = estimator_for("multiclass", device="cuda", **common).fit(X, y)
        here = estimator_for("multiclass", **common).fit(X, y)
    assert_agree(there, here, 1e-3)
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=1e-3)


RECURRENT = {
    "rnn": lambda: nn.RNN(4, 6, num_layers=2, returns="last"),
    "relu": lambda: nn.RNN(4, 6, activation="relu", returns="last"),
    "lstm": lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True, returns="last"),
    "gru": lambda: nn.GRU(4, 3, bidirectional=True, returns="last"),
}


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_networks(name):
    X = np.random.default_rng(0).standard_normal((100, 5, 4))
    y = (X[:, 0] @ [1.0, -1.0, 0.5, 0.0] > X[:, 4, 0]).astype(int)
    common = {"dtype": "float64", "batch_size": 16, "max_iter": 5, "random_state": 0}
    with quiet():
        there, here = (
            NetClassifier(nn.Sequential(RECURRENT[name](), nn.Linear(6, 2)), device=device, **common).fit(
                X, y
            )
            for device in ("cuda", "cpu")
        )
    np.testing.assert_allclose(there.loss_curve_, here.loss_curve_, rtol=RTOL)
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), rtol=RTOL, atol=RTOL)


def test_sparse_inputs():
    X, y = TABLES["multiclass"]
    with quiet():
        there = estimator_for("multiclass", dtype="float64", device="cuda").fit(scipy.sparse.csr_array(X), y)
        here = estimator_for("multiclass", dtype="float64").fit(X, y)
    assert_agree(there, here, RTOL)


def test_a_pickle_needs_no_gpu_and_continues_training():
    X, y = TABLES["binary"]
    with quiet():
        there = estimator_for("binary", dtype="float64", device="cuda").fit(X, y)
    text = pickle.dumps(there)
    assert b"cupy" not in text
    again = pickle.loads(text)
    np.testing.assert_allclose(again.predict_proba(X), there.predict_proba(X), rtol=RTOL)
    again.partial_fit(X, y)


def test_the_host_computes_with_data_of_a_gpu():
    X, y = TABLES["binary"]
    with quiet():
        there = estimator_for("binary", device="cpu").fit(to_device(X, CUDA), to_device(y, CUDA))
        here = estimator_for("binary", device="cpu").fit(X, y)
    assert there.model_.device == Device("cpu")
    np.testing.assert_array_equal(there.coefs_[0], here.coefs_[0])
    np.testing.assert_array_equal(to_host(there.predict(to_device(X, CUDA))), here.predict(X))
