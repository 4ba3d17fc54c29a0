"""Raw outputs in chunks of bounded memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn
from sknet.engine import chunk_rows, predict_rows


@nn.init.version(1)  # outputs near 1, whatever the width
def model(n_features=5, width=7, dtype="float64"):
    net = nn.Sequential(
        nn.Linear(n_features, width), nn.BatchNorm(width), nn.Dropout(0.5), nn.Linear(width, 2)
    )
    return Model(net, random_state=0, dtype=dtype)


def test_chunks_shrink_with_the_widest_layer():
    assert chunk_rows(model(width=64)) == (1 << 20) // 64
    assert chunk_rows(model(n_features=1 << 12)) == (1 << 20) // (1 << 12)
    assert chunk_rows(Model(nn.Sequential(nn.Identity()))) > 1


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("n_samples", [0, 1, 255, 256, 257, 1000])
def test_chunks_give_what_the_whole_gives(kind, n_samples):
    net = model(width=1 << 12)
    X = np.random.default_rng(0).normal(size=(n_samples, 5))
    assert chunk_rows(net) == 256
    chunked = predict_rows(net, kind(X)) if n_samples else net(X, training=False).numpy()
    np.testing.assert_allclose(chunked, net(X, training=False).numpy(), rtol=1e-12, atol=1e-14)
    assert chunked.shape == (n_samples, 2)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_other_dtypes_are_converted_chunk_by_chunk(kind):
    net = model(width=1 << 12, dtype="float32")
    X = np.random.default_rng(0).normal(size=(600, 5))
    output = predict_rows(net, kind(X))
    assert output.dtype == "float32"
    np.testing.assert_allclose(output, predict_rows(net, X.astype("float32")), atol=1e-6)


def test_memory_is_bounded():
    """The hidden layer's outputs of all rows would take 640 MB."""
    net = model(width=1 << 12, dtype="float32")
    X = np.zeros((40_000, 5), dtype="float32")
    tracemalloc.start()
    predict_rows(net, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6
