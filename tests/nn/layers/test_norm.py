"""Normalisation: PyTorch's values, gradients and running statistics, in training and prediction."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import ShapeError

RNG = np.random.default_rng(0)
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def copy_parameters(layer, theirs, torch):
    """Give both the same parameters, other than the ones and zeros they start with."""
    for name in ("weight", "bias"):
        values = RNG.normal(size=getattr(layer, name).shape)
        setattr(layer, name, nn.Parameter(values))
        with torch.no_grad():
            getattr(theirs, name).copy_(torch.as_tensor(values))


def compare(layer, theirs, values, torch):
    """Compare values and gradients for one batch."""
    weights = RNG.normal(size=values.shape)
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    out, tout = layer(x), theirs(tx)
    np.testing.assert_allclose(out.numpy(), tout.detach().numpy(), **CLOSE)
    for parameter in (layer.weight, layer.bias, theirs.weight, theirs.bias):
        parameter.grad = None
    ops.sum(out * weights).backward()
    (tout * torch.as_tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), **CLOSE)
    for name in ("weight", "bias"):
        np.testing.assert_allclose(
            getattr(layer, name).grad.numpy(), getattr(theirs, name).grad.numpy(), **CLOSE
        )


@pytest.mark.parametrize("momentum", [0.1, 0.7, None])
@pytest.mark.parametrize(("shape", "kind"), [((7, 3), "1d"), ((7, 3, 4), "1d"), ((4, 3, 5, 2), "2d")])
def test_batch_norm_torch(shape, kind, momentum):
    torch = pytest.importorskip("torch")
    layer = nn.BatchNorm(3, eps=1e-3, momentum=momentum).to(dtype="float64")
    theirs = getattr(torch.nn, f"BatchNorm{kind}")(3, eps=1e-3, momentum=momentum, dtype=torch.float64)
    copy_parameters(layer, theirs, torch)
    for _ in range(4):
        compare(layer, theirs, RNG.normal(loc=3.0, scale=2.0, size=shape), torch)
        np.testing.assert_allclose(layer.running_mean.numpy(), theirs.running_mean.numpy(), **CLOSE)
        np.testing.assert_allclose(layer.running_var.numpy(), theirs.running_var.numpy(), **CLOSE)
        assert layer.num_batches.item() == theirs.num_batches_tracked.item()
    layer.eval(), theirs.eval()
    before = layer.state_dict()
    compare(layer, theirs, RNG.normal(loc=3.0, scale=2.0, size=shape), torch)
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_batch_norm_normalises():
    out = nn.BatchNorm(3, eps=0.0)(RNG.normal(5.0, 3.0, size=(50, 3))).numpy()
    np.testing.assert_allclose(out.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(out.var(axis=0), 1.0, rtol=1e-12)


def test_batch_norm_predicts_single_samples_and_none():
    layer = nn.BatchNorm(3).eval()
    assert layer(np.ones((1, 3))).shape == (1, 3)
    assert layer(np.ones((0, 3))).shape == (0, 3)


def test_batch_norm_keeps_the_dtype():
    layer = nn.BatchNorm(3)
    assert layer(RNG.normal(size=(4, 3)).astype(np.float32)).dtype == np.float32
    layer(RNG.normal(size=(4, 3)))
    assert layer.running_mean.dtype == layer.running_var.dtype == np.float32
    assert layer.num_batches.dtype == np.int64


@pytest.mark.parametrize("shape", [(1, 3), (0, 3), (1, 3, 1)])
def test_batch_norm_needs_a_batch(shape):
    layer = nn.BatchNorm(3)
    with pytest.raises(
        ShapeError, match=r"at least 2 values per feature, got an input of shape .* larger batches"
    ):
        layer(np.ones(shape))
    assert layer.num_batches.item() == 0


@pytest.mark.parametrize("shape", [(5, 4), (3,), ()])
def test_batch_norm_wrong_input(shape):
    with pytest.raises(
        ShapeError, match=r"BatchNorm\(num_features=3\): expected an input of shape \(n, 3, \.\.\.\), got"
    ):
        nn.BatchNorm(3)(np.ones(shape))


@pytest.mark.parametrize(
    ("shape", "axes"), [((5, 4), 4), ((5, 3, 4), 4), ((5, 3, 4), (3, 4)), ((4,), 4), ((0, 4), 4)]
)
def test_layer_norm_torch(shape, axes):
    torch = pytest.importorskip("torch")
    layer = nn.LayerNorm(axes, eps=1e-3).to(dtype="float64")
    theirs = torch.nn.LayerNorm(axes, eps=1e-3, dtype=torch.float64)
    copy_parameters(layer, theirs, torch)
    compare(layer, theirs, RNG.normal(loc=3.0, scale=2.0, size=shape), torch)


@pytest.mark.parametrize("shape", [(5, 3), (4, 3), (4,)])
def test_layer_norm_wrong_input(shape):
    with pytest.raises(ShapeError, match=r"expected an input of shape \(\.\.\., 3, 4\), got"):
        nn.LayerNorm((3, 4))(np.ones(shape))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.BatchNorm(0), "The 'num_features' parameter of BatchNorm must be an int in the range"),
        (lambda: nn.BatchNorm(2, eps=-1.0), "The 'eps' parameter of BatchNorm must be a float in the range"),
        (
            lambda: nn.BatchNorm(2, momentum=2.0),
            "The 'momentum' parameter of BatchNorm must be a float in the range",
        ),
        (lambda: nn.LayerNorm(()), "The 'normalized_shape' parameter of LayerNorm must be an int"),
        (lambda: nn.LayerNorm((3, 0)), "The 'normalized_shape' parameter of LayerNorm must be an int"),
        (lambda: nn.LayerNorm(3, eps="a"), "The 'eps' parameter of LayerNorm must be a float"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
