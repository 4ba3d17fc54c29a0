"""Embeddings of numbers: PyTorch's values and gradients, an independent computation of bins, messages."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import InvalidParameterError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("activation", ["relu", None, nn.Tanh()], ids=["relu", "none", "tanh"])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (3,), (0, 3)])
def test_periodic_embeddings_are_those_of_the_paper(shape, activation):
    torch = pytest.importorskip("torch")
    layer = nn.PeriodicEmbedding(3, 4, 6, 0.7, activation).to(dtype="float64").initialize(0)
    layer.bias.data = RNG.normal(size=(3, 4))
    values, slope = RNG.normal(size=shape), RNG.normal(size=(*shape, 4))
    x = Tensor(values, requires_grad=True)
    tx = torch.tensor(values, requires_grad=True)
    c, weight, bias = (
        torch.tensor(p.numpy(), requires_grad=True) for p in (layer.frequencies, layer.weight, layer.bias)
    )
    angles = 2 * np.pi * c * tx[..., None]
    waves = torch.cat([torch.cos(angles), torch.sin(angles)], -1)
    expected = (waves[..., None, :] @ weight)[..., 0, :] + bias
    expected = {"relu": torch.relu, None: lambda x: x}.get(
        activation if isinstance(activation, (str, type(None))) else "", torch.tanh
    )(expected)
    (expected * torch.tensor(slope)).sum().backward()
    out = layer(x)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    for mine, theirs in ((x, tx), (layer.frequencies, c), (layer.weight, weight), (layer.bias, bias)):
        np.testing.assert_allclose(mine.grad.numpy(), theirs.grad.numpy(), rtol=1e-9, atol=1e-11)


def test_without_a_map_waves_are_returned():
    layer = nn.PeriodicEmbedding(2, None, 3, 0.5).to(dtype="float64").initialize(0)
    assert [name for name, _ in layer.named_parameters()] == ["frequencies"]
    x = RNG.normal(size=(4, 2))
    angles = 2 * np.pi * layer.frequencies.numpy() * x[..., None]
    np.testing.assert_allclose(layer(x).numpy(), np.concatenate([np.cos(angles), np.sin(angles)], -1))


@pytest.mark.parametrize("sigma", [0.01, 3.0])
def test_the_first_frequencies_have_the_given_deviation(sigma):
    layer = nn.PeriodicEmbedding(100, 2, 200, sigma).initialize(0)
    assert layer.frequencies.numpy().std() == pytest.approx(sigma, rel=0.02)


def encoded(x, edges, extrapolation):
    """One bin after the other."""
    columns = []
    for feature, each in enumerate(edges):
        n_bins = len(each) - 1
        for i in range(n_bins):
            share = (x[..., feature] - each[i]) / (each[i + 1] - each[i])
            low = 0 if i else -extrapolation
            high = 1 if i < n_bins - 1 else 1 + extrapolation
            columns.append(np.clip(share, low, high))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("extrapolation", [None, 0.0, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_piecewise_linear_encoding_bin_by_bin(seed, extrapolation):
    rng = np.random.default_rng(seed)
    edges = [np.sort(rng.normal(size=n)).astype(np.float32) for n in rng.integers(2, 7, size=4)]
    layer = nn.PiecewiseLinearEncoding(edges, extrapolation).to(dtype="float64")
    x = rng.normal(scale=2.0, size=(3, 20, 4))
    found = layer(x).numpy()
    wide = [each.astype(np.float64) for each in edges]
    beyond = np.inf if extrapolation is None else extrapolation
    np.testing.assert_allclose(found, encoded(x, wide, beyond), rtol=1e-6, atol=1e-6)
    if extrapolation is None:  # the steps through all bins lead from the first edge to x
        start = 0
        for feature, each in enumerate(wide):
            part = found[..., start : start + len(each) - 1]
            np.testing.assert_allclose(each[0] + part @ np.diff(each), x[..., feature], rtol=1e-5, atol=1e-5)
            start += len(each) - 1


def test_edges_are_state_and_are_not_trained():
    layer = nn.PiecewiseLinearEncoding([[0.0, 1.0, 3.0]])
    assert list(layer.parameters()) == []
    other = nn.PiecewiseLinearEncoding([[5.0, 6.0, 7.0]])
    other.load_state_dict(layer.state_dict())
    np.testing.assert_array_equal(other([[2.0]]).numpy(), layer([[2.0]]).numpy())


def test_a_perceptron_of_encoded_numbers_is_trained_natively_or_not_alike():
    from sknet import Model

    x = RNG.normal(size=(200, 3)).astype(np.float32)
    y = np.sin(3 * x[:, :1])
    edges = [np.quantile(column, np.linspace(0, 1, 6)) for column in x.T]
    found = []
    for compile in (True, False):
        encoding = nn.PiecewiseLinearEncoding(edges)
        periodic = nn.Sequential(nn.PeriodicEmbedding(3, 4, 5, 0.3), nn.Flatten())
        net = nn.Sequential(nn.Parallel(encoding, periodic), nn.LazyLinear(8), nn.ReLU(), nn.LazyLinear(1))
        model = Model(net, random_state=0, compile=compile)
        model.fit(x, y, epochs=5)
        found.append(model.predict(x))
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "edges",
    [
        [[1.0]],
        [[0.0, 0.0]],
        [[1.0, 0.0]],
        [[0.0, np.nan]],
        [[0.0, np.inf]],
        [[[0.0, 1.0]]],
        [[1.0, 1.0 + 1e-9]],
    ],
)
def test_wrong_edges(edges):
    with pytest.raises(ValueError, match="edges of feature 1 must be at least two finite, increasing"):
        nn.PiecewiseLinearEncoding([[0.0, 1.0], edges])


def test_no_edges():
    with pytest.raises(ValueError, match="edges of at least one feature, got none"):
        nn.PiecewiseLinearEncoding([])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.PeriodicEmbedding(0), "'n_features' parameter of PeriodicEmbedding"),
        (lambda: nn.PeriodicEmbedding(2, 0), "'embedding_dim' parameter of PeriodicEmbedding"),
        (lambda: nn.PeriodicEmbedding(2, n_frequencies=0), "'n_frequencies' parameter"),
        (lambda: nn.PeriodicEmbedding(2, sigma=0.0), "'sigma' parameter"),
        (lambda: nn.PeriodicEmbedding(2, activation="rel"), "'activation' parameter.*Did you mean 'relu'"),
        (lambda: nn.PiecewiseLinearEncoding([[0, 1]], -1.0), "'extrapolation' parameter"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(InvalidParameterError, match=message):
        make()


@pytest.mark.parametrize("layer", [nn.PeriodicEmbedding(3), nn.PiecewiseLinearEncoding([[0, 1]] * 3)])
@pytest.mark.parametrize("shape", [(5, 2), (), (3, 1)])
def test_wrong_input(layer, shape):
    with pytest.raises(ShapeError, match=r"expected an input of shape \(\.\.\., 3\), got \("):
        layer(np.ones(shape))
