"""Activations against PyTorch's, and the table of their names."""

import numpy as np
import pytest
from sklearn.neural_network._base import ACTIVATIONS as SKLEARN_ACTIVATIONS

from sknet import Tensor, nn, ops
from sknet.exceptions import ShapeError


def _hardsigmoid(torch):
    """PyTorch's own rounds 1 / 6 to float32."""
    return lambda x: torch.nn.functional.relu6(x + 3) / 6


# Ours, PyTorch's module (or what returns a function of tensors, given `torch`), and its arguments.
ROWS = [
    (nn.Identity(), "Identity", {}),
    (nn.ReLU(), "ReLU", {}),
    (nn.LeakyReLU(), "LeakyReLU", {}),
    (nn.LeakyReLU(0.3), "LeakyReLU", {"negative_slope": 0.3}),
    (nn.ELU(), "ELU", {}),
    (nn.ELU(0.5), "ELU", {"alpha": 0.5}),
    (nn.ReLU6(), "ReLU6", {}),
    (nn.PReLU(), "PReLU", {}),
    (nn.PReLU(4), "PReLU", {"num_parameters": 4}),
    (nn.CELU(), "CELU", {}),
    (nn.SELU(), "SELU", {}),
    (nn.GELU(), "GELU", {}),
    (nn.GELU("tanh"), "GELU", {"approximate": "tanh"}),
    (nn.SiLU(), "SiLU", {}),
    (nn.Sigmoid(), "Sigmoid", {}),
    (nn.Tanh(), "Tanh", {}),
    (nn.Softplus(), "Softplus", {"threshold": 1000.0}),
    (nn.Mish(), "Mish", {}),
    (nn.Hardswish(), "Hardswish", {}),
    (nn.Softplus(2.5), "Softplus", {"beta": 2.5, "threshold": 1000.0}),
    (nn.Tanhshrink(), "Tanhshrink", {}),
    (nn.Softshrink(), "Softshrink", {}),
    (nn.Softshrink(1.5), "Softshrink", {"lambd": 1.5}),
    (nn.Hardshrink(), "Hardshrink", {}),
    (nn.Hardshrink(1.5), "Hardshrink", {"lambd": 1.5}),
    (nn.Hardsigmoid(), _hardsigmoid, {}),
    (nn.Hardtanh(), "Hardtanh", {}),
    (nn.Hardtanh(-2.0, 0.5), "Hardtanh", {"min_val": -2.0, "max_val": 0.5}),
    (nn.Softsign(), "Softsign", {}),
    (nn.GLU(), "GLU", {}),
    (nn.GLU(0), "GLU", {"dim": 0}),
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
    assert {type(layer) for layer, _, _ in ROWS} == {*nn.ACTIVATIONS.values(), nn.GLU}


def label(value):
    return getattr(value, "__name__", repr(value)[:30])


@pytest.mark.parametrize(("layer", "name", "options"), ROWS, ids=label)
def test_torch(layer, name, options):
    torch = pytest.importorskip("torch")
    x, tx = Tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    theirs = name(torch) if callable(name) else getattr(torch.nn, name)(**options).double()
    out, tout = layer(x), theirs(tx)
    weights = np.random.default_rng(1).normal(size=out.shape)
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
        (lambda: nn.PReLU(0), "The 'num_parameters' parameter of PReLU must be an int"),
        (lambda: nn.PReLU(1, None), "The 'negative_slope' parameter of PReLU must be a float"),
        (lambda: nn.CELU(0.0), "The 'alpha' parameter of CELU must be a float in the range"),
        (lambda: nn.Hardtanh(max="a"), "The 'max' parameter of Hardtanh must be a float"),
        (lambda: nn.GLU(None), "The 'axis' parameter of GLU must be an int"),
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


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 4, 3)])
def test_channels_of_prelu(shape):
    with pytest.raises(ShapeError, match=r"PReLU\(3\): expected an input of shape \(n, 3, ...\), got"):
        nn.PReLU(3)(np.ones(shape))


@pytest.mark.parametrize("value", [2.0, -2.0])
def test_prelu_of_a_number(value):
    out = nn.PReLU()(Tensor(value))
    assert out.shape == ()
    assert out.item() == (value if value > 0 else 0.25 * value)


def test_halves_of_glu():
    with pytest.raises(ShapeError, match=r"glu: expected an even length of axis -1, got shape \(2, 3\)"):
        nn.GLU()(np.ones((2, 3)))
