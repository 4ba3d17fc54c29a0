"""ParametricActivation: PyTorch's values and gradients, and initial values."""

import numpy as np
import pytest

from sknet import Tensor, nn, ops
from sknet.exceptions import InvalidParameterError, ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("name", "theirs"), [("selu", "selu"), ("mish", "mish"), (nn.ReLU(), "relu")])
@pytest.mark.parametrize("shape", [(5, 3), (2, 5, 3), (0, 3)])
def test_torch(shape, name, theirs):
    torch = pytest.importorskip("torch")
    layer = nn.ParametricActivation(3, name).to(dtype="float64")
    layer.weight.data = RNG.normal(size=3)
    values, slope = RNG.normal(size=shape), RNG.normal(size=shape)
    x, tx = Tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    share = torch.tensor(layer.weight.numpy(), requires_grad=True)
    expected = share * getattr(torch.nn.functional, theirs)(tx) + (1 - share) * tx
    (expected * torch.tensor(slope)).sum().backward()
    out = layer(x)
    ops.sum(out * slope).backward()
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(layer.weight.grad.numpy(), share.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_it_begins_as_the_activation():
    x = RNG.normal(size=(4, 3)).astype(np.float32)
    np.testing.assert_allclose(nn.ParametricActivation(3, "tanh")(x).numpy(), np.tanh(x), rtol=1e-5)


def test_wrong_arguments():
    with pytest.raises(InvalidParameterError, match="'activation' parameter of ParametricActivation"):
        nn.ParametricActivation(3, "tanhh")
    with pytest.raises(InvalidParameterError, match="'n_features' parameter of ParametricActivation"):
        nn.ParametricActivation(0)
    with pytest.raises(ShapeError, match=r"expected an input of shape \(\.\.\., 3\), got \(2, 1\)"):
        nn.ParametricActivation(3)(np.ones((2, 1)))
