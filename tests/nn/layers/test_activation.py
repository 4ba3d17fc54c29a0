"""Activations against PyTorch's, and the table of their names."""

import numpy as np
import pytest
from sklearn.neural_network._base import ACTIVATIONS as SKLEARN_ACTIVATIONS

from sknet import Tensor, nn, ops

# ours -> PyTorch's module
ROWS = [
    (nn.Identity(), "Identity", {}),
    (nn.ReLU(), "ReLU", {}),
    (nn.LeakyReLU(), "LeakyReLU", {}),
    (nn.LeakyReLU(0.3), "LeakyReLU", {"negative_slope": 0.3}),
    (nn.ELU(), "ELU", {}),
    (nn.ELU(0.5), "ELU", {"alpha": 0.5}),
    (nn.SELU(), "SELU", {}),
    (nn.GELU(), "GELU", {}),
    (nn.GELU("tanh"), "GELU", {"approximate": "tanh"}),
    (nn.SiLU(), "SiLU", {}),
    (nn.Sigmoid(), "Sigmoid", {}),
    (nn.Tanh(), "Tanh", {}),
    (nn.Softplus(), "Softplus", {"threshold": 1000.0}),
    (nn.Mish(), "Mish", {}),
    (nn.Hardswish(), "Hardswish", {}),
    (nn.Softmax(), "Softmax", {"dim": -1}),
    (nn.Softmax(axis=0), "Softmax", {"dim": 0}),
    (nn.LogSoftmax(), "LogSoftmax", {"dim": -1}),
    (nn.LogSoftmax(axis=-2), "LogSoftmax", {"dim": -2}),
    (nn.LogSigmoid(), "LogSigmoid", {}),
]
X = np.concatenate(
    [np.random.default_rng(0).normal(scale=3.0, size=(6, 4)), np.full((1, 4), 700.0), np.full((1, 4), -700.0)]
)


def test_every_activation_has_a_row():
    assert {type(layer) for layer, _, _ in ROWS} == set(nn.ACTIVATIONS.values())


@pytest.mark.parametrize(("layer", "name", "options"), ROWS, ids=lambda value: repr(value)[:30])
def test_torch(layer, name, options):
    torch = pytest.importorskip("torch")
    x, tx = Tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    weights = np.random.default_rng(1).normal(size=X.shape)
    out, tout = layer(x), getattr(torch.nn, name)(**options)(tx)
    np.testing.assert_allclose(out.numpy(), tout.detach().numpy(), rtol=1e-10, atol=1e-12)
    ops.sum(out * weights).backward()
    (tout * torch.as_tensor(weights)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), tx.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_names_of_scikit_learn():
    for name, function in SKLEARN_ACTIVATIONS.items():
        if name not in nn.ACTIVATIONS:  # "exp" is a link, not an activation
            continue
        expected = X[:6].copy()
        function(expected)
        np.testing.assert_allclose(
            nn.ACTIVATIONS[name]()(Tensor(X[:6])).numpy(), expected, rtol=1e-12, atol=1e-15
        )
    assert {"identity", "logistic", "tanh", "relu", "softmax"} <= set(nn.ACTIVATIONS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.LeakyReLU("a"), "The 'negative_slope' parameter of LeakyReLU must be a float"),
        (lambda: nn.ELU(np.nan), "The 'alpha' parameter of ELU must be a float"),
        (lambda: nn.GELU("erf"), "The 'approximate' parameter of GELU must be a str among"),
        (lambda: nn.Softmax(0.5), "The 'axis' parameter of Softmax must be an int"),
        (lambda: nn.LogSoftmax(None), "The 'axis' parameter of LogSoftmax must be an int"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_no_arguments():
    with pytest.raises(TypeError):
        nn.ReLU(0.1)
