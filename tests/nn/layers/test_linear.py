"""Linear: PyTorch's values and gradients, scikit-learn's shapes, sparse input, messages."""

import numpy as np
import pytest
import scipy.sparse

from sknet import Tensor, nn, ops
from sknet.exceptions import ShapeError


def double(*args, **options):
    return nn.Linear(*args, **options).to(dtype="float64").initialize(0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (3,), (0, 3)])
def test_torch(shape, bias):
    torch = pytest.importorskip("torch")
    layer = double(3, 2, bias=bias)
    theirs = torch.nn.Linear(3, 2, bias=bias, dtype=torch.float64)
    with torch.no_grad():
        theirs.weight.copy_(torch.as_tensor(layer.weight.numpy().T))
        if bias:
            theirs.bias.copy_(torch.as_tensor(layer.bias.numpy()))
    values = np.random.default_rng(0).normal(size=shape)
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    out, tout = layer(x), theirs(tx)
    np.testing.assert_allclose(out.numpy(), tout.detach().numpy(), rtol=1e-10, atol=1e-12)
    ops.sum(out * out).backward()
    (tout * tout).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        layer.weight.grad.numpy(), theirs.weight.grad.numpy().T, rtol=1e-10, atol=1e-12
    )
    if bias:
        np.testing.assert_allclose(layer.bias.grad.numpy(), theirs.bias.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_without_bias():
    layer = double(3, 2, bias=False)
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    np.testing.assert_array_equal(layer(np.eye(3)).numpy(), layer.weight.numpy())


def test_sparse_input():
    layer = double(4, 2)
    dense = np.random.default_rng(0).normal(size=(6, 4)) * np.random.default_rng(1).integers(0, 2, (6, 4))
    out = layer(scipy.sparse.csr_array(dense))
    np.testing.assert_allclose(out.numpy(), layer(dense).numpy(), rtol=1e-12, atol=1e-12)
    ops.sum(out).backward()
    expected = np.outer(dense.sum(axis=0), np.ones(2))
    np.testing.assert_allclose(layer.weight.grad.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_dtype_is_the_weights():
    assert nn.Linear(3, 2)(np.ones((1, 3), np.float32)).dtype == np.float32


@pytest.mark.parametrize("x", [np.ones((5, 4)), Tensor(np.ones((5, 4))), np.ones((5, 4)).tolist()])
def test_wrong_input(x):
    with pytest.raises(
        ShapeError, match=r"Linear\(3, 2\): expected an input of shape \(\.\.\., 3\), got \(5, 4\)"
    ):
        nn.Linear(3, 2)(x)


def test_wrong_sparse_input():
    with pytest.raises(
        ShapeError, match=r"Linear\(3, 2\): expected an input of shape \(\.\.\., 3\), got \(5, 4\)"
    ):
        double(3, 2)(scipy.sparse.csr_array(np.ones((5, 4))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2), "The 'in_features' parameter of Linear must be an int in the range"),
        ((3, 2.0), "The 'out_features' parameter of Linear must be an int in the range"),
        ((3, 2, "yes"), "The 'bias' parameter of Linear must be"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        nn.Linear(*arguments)


def test_wrong_init():
    with pytest.raises(
        ValueError, match=r"The 'init' parameter of Linear must be .* Did you mean 'he_normal'"
    ):
        nn.Linear(3, 2, init="he_norml")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (0, 3)])
def test_ntp_is_the_standard_layer_of_a_smaller_weight(shape, bias):
    torch = pytest.importorskip("torch")
    layer = double(3, 2, bias=bias, parametrization="ntp")
    values, slope = np.random.default_rng(0).normal(size=shape), np.random.default_rng(1).normal(size=2)
    weight = torch.tensor(layer.weight.numpy(), requires_grad=True)
    offset = torch.tensor(layer.bias.numpy(), requires_grad=True) if bias else None
    expected = torch.nn.functional.linear(torch.tensor(values), (weight / np.sqrt(3)).T, offset)
    (expected * torch.tensor(slope)).sum().backward()
    out = layer(values)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-12, atol=1e-14)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), weight.grad.numpy(), rtol=1e-12, atol=1e-14)
    if bias:
        np.testing.assert_allclose(layer.bias.grad.numpy(), offset.grad.numpy(), rtol=1e-12, atol=1e-14)


def test_ntp_begins_standard_normal_whatever_the_width():
    for width in (10, 1000):
        layer = nn.Linear(width, 1000, parametrization="ntp").initialize(0)
        assert layer.weight.numpy().std() == pytest.approx(1.0, rel=0.02)
        assert not layer.bias.numpy().any()
        out = layer(np.random.default_rng(0).normal(size=(20, width)))
        assert out.numpy().std() == pytest.approx(1.0, rel=0.1)


def test_ntp_reads_sparse_rows_and_is_lazy():
    lazy = nn.materialize(nn.LazyLinear(2, parametrization="ntp"), (6, 4)).to(dtype="float64").initialize(0)
    dense = np.random.default_rng(0).normal(size=(6, 4))
    np.testing.assert_allclose(
        lazy(scipy.sparse.csr_array(dense)).numpy(), dense @ lazy.weight.numpy() / 2, rtol=1e-12
    )
    assert repr(lazy) == "Linear(4, 2, parametrization='ntp')"


def test_another_parametrization():
    with pytest.raises(ValueError, match="The 'parametrization' parameter of Linear must be a str among"):
        nn.Linear(3, 2, parametrization="mup")
