"""Raw outputs in chunks of bounded memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from sknet import Model, nn
from sknet.engine._network import chunk_rows, predict_rows


@nn.init.version(1)  # outputs near 1, whatever the width
def model(n_features=5, width=7, dtype="float64"):
    net = nn.Sequential(
        nn.Linear(n_features, width), nn.BatchNorm(width), nn.Dropout(0.5), nn.Linear(width, 2)
    )
    return Model(net, random_state=0, dtype=dtype)


def images():
    net = nn.Sequential(nn.Conv2d(1, 64, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Model(net, random_state=0)


def test_chunks_shrink_with_the_largest_activation():
    assert chunk_rows(model(width=64), (5,)) == (1 << 20) // 64
    assert chunk_rows(model(n_features=1 << 12), (1 << 12,)) == (1 << 20) // (1 << 12)
    assert chunk_rows(Model(nn.Sequential(nn.Identity())), (3,)) == (1 << 20) // 3
    # Parameters say nothing about it: they are 640, and a row of outputs 3 million numbers.
    assert chunk_rows(images(), (1, 224, 224)) == 1
    assert 50 < chunk_rows(images(), (1, 12, 12)) <= (1 << 20) // (64 * 10 * 10)


def test_networks_of_one_structure_have_chunks_of_one_size():
    sizes = [(8, 5), (300, 5), (8, 700), (300, 700)]
    shapes = [((features,), None) for _, features in sizes] + [
        ((features,), "float64") for _, features in sizes
    ]
    found = []
    for _ in range(2):  # others of the same structure, the second time
        models = [model(features, width) for width, features in sizes] * 2
        found.append([chunk_rows(each, *shape) for each, shape in zip(models, shapes, strict=True)])
    assert found[0] == found[1] == [(1 << 20) // max(size) for size in sizes] * 2


class Reading(nn.Module):
    """It reads a value, so that no shape pass is possible."""

    def __init__(self):
        self.layer = nn.Linear(5, 300)

    def forward(self, x):
        return self.layer(x) if x.sum().item() < 1e9 else x


def test_what_cannot_run_without_data_is_estimated_by_its_parameters():
    assert chunk_rows(Model(Reading(), random_state=0), (5,)) == (1 << 20) // 300


def test_measuring_runs_no_hooks_and_leaves_no_traces():
    net, seen = model(), []
    net.module.register_forward_hook(lambda module, args, output: seen.append(output))
    predict_rows(net, np.zeros((4, 5)))
    assert [output.shape for output in seen] == [(4, 2)]
    assert seen[0].numpy().shape == (4, 2)


def test_memory_is_bounded_for_images():
    """All rows at once would take 205 MB for the outputs of the convolution alone."""
    net = images()
    X = np.random.default_rng(0).normal(size=(16, 1, 226, 226)).astype("float32")
    tracemalloc.start()
    found = predict_rows(net, X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 80e6
    np.testing.assert_allclose(found[3:5], net(X[3:5], training=False).numpy(), rtol=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("n_samples", [0, 1, 255, 256, 257, 1000])
def test_chunks_give_what_the_whole_gives(kind, n_samples):
    net = model(width=1 << 12)
    X = np.random.default_rng(0).normal(size=(n_samples, 5))
    assert chunk_rows(net, (5,)) == 256
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
