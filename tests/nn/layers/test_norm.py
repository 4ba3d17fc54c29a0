"""Normalization: PyTorch's values, gradients and running statistics, in training and prediction."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import ShapeError

RNG = np.random.default_rng(0)
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def copy_parameters(layer, theirs, torch):
    """Give both the same random parameters, instead of the initial ones and zeros."""
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


NORMS = [
    ("BatchNorm", "BatchNorm2d", (3,), (4, 3, 5, 2)),
    ("InstanceNorm", "InstanceNorm1d", (3,), (4, 3, 5)),
    ("InstanceNorm", "InstanceNorm2d", (3,), (4, 3, 5, 2)),
    ("InstanceNorm", "InstanceNorm3d", (3,), (4, 3, 2, 3, 2)),
    ("GroupNorm", "GroupNorm", (3, 6), (4, 6, 3)),
]


@pytest.mark.parametrize("track", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("kind", "theirs", "args", "shape"), NORMS)
def test_norms_with_and_without(kind, theirs, args, shape, affine, track):
    torch = pytest.importorskip("torch")
    options = {"affine": affine} | ({} if kind == "GroupNorm" else {"track_running_stats": track})
    layer = getattr(nn, kind)(*args, **options).to(dtype="float64")
    other = getattr(torch.nn, theirs)(*args, **options, dtype=torch.float64)
    if affine:
        copy_parameters(layer, other, torch)
    for training in (True, True, False):
        layer.train(training), other.train(training)
        values = RNG.normal(loc=3.0, scale=2.0, size=shape)
        found, expected = layer(values).numpy(), other(torch.tensor(values)).detach().numpy()
        np.testing.assert_allclose(found, expected, **CLOSE)
    mine = {name: b.numpy() for name, b in layer.named_buffers() if name != "num_batches"}
    theirs = {name: b.numpy() for name, b in other.named_buffers() if name != "num_batches_tracked"}
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_allclose(mine[name], theirs[name], **CLOSE)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_with_and_without(affine, bias):
    torch = pytest.importorskip("torch")
    layer = nn.LayerNorm(4, affine=affine, bias=bias).to(dtype="float64")
    other = torch.nn.LayerNorm(4, elementwise_affine=affine, bias=bias, dtype=torch.float64)
    for name, parameter in layer.named_parameters():
        values = RNG.normal(size=4)
        setattr(layer, name, nn.Parameter(values))
        with torch.no_grad():
            getattr(other, name).copy_(torch.tensor(values))
        assert parameter.shape == (4,)
    x = RNG.normal(size=(3, 4))
    np.testing.assert_allclose(layer(x).numpy(), other(torch.tensor(x)).detach().numpy(), **CLOSE)
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in layer.named_parameters()]
    shown = {(True, True): "", (True, False): ", bias=False"}.get((affine, bias), ", affine=False")
    assert repr(layer) == f"LayerNorm(normalized_shape=(4,){shown})"


def test_instance_norm_needs_more_than_one_value():
    with pytest.raises(
        ShapeError, match="training needs at least 2 values per channel, got an input of shape"
    ):
        nn.InstanceNorm(3)(np.ones((4, 3, 1)))
    with pytest.raises(ShapeError, match=r"expected an input of shape \(n, 3, length, \.\.\.\), got"):
        nn.InstanceNorm(3)(np.ones((4, 3)))


def test_statistics_can_be_disabled():
    layer = nn.BatchNorm(3, track_running_stats=False)
    assert not list(layer.buffers())
    one, many = RNG.normal(size=(1, 3)), RNG.normal(size=(5, 3))
    np.testing.assert_allclose(layer.eval()(many).numpy().mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(layer(one).numpy(), 0, atol=1e-12)
