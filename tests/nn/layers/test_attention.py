"""Attention and transformer layers: initial weights, masks, messages."""

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import ShapeError

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype(np.float32)


def test_initial_weights():
    layer = nn.MultiheadAttention(64, 4).initialize(0)
    assert layer.in_projection.weight.numpy().std() == pytest.approx(1 / 8, rel=0.02)
    assert not layer.in_projection.bias.numpy().any()
    assert layer.init_versions() == {"": nn.init.VERSION}


@pytest.mark.parametrize("norm_first", [True, False])
def test_what_comes_later_is_not_seen(norm_first):
    encoder = nn.TransformerEncoder(2, 8, 2, norm_first=norm_first).initialize(0).eval()
    before = encoder(X, is_causal=True).numpy()
    changed = X.copy()
    changed[:, 3:] = 0
    after = encoder(changed, is_causal=True).numpy()
    np.testing.assert_allclose(after[:, :3], before[:, :3], rtol=1e-5, atol=1e-6)
    assert not np.allclose(after[:, 3:], before[:, 3:])


def test_padding_is_not_seen():
    encoder = nn.TransformerEncoder(1, 8, 2).initialize(0).eval()
    real = np.arange(5) < np.array([[3], [5]])
    short = encoder(X[:1, :3]).numpy()
    np.testing.assert_allclose(encoder(X, key_mask=real).numpy()[:1, :3], short, rtol=1e-5, atol=1e-6)


def test_masks_of_samples_and_of_heads():
    layer = nn.MultiheadAttention(8, 2).initialize(0)
    mask = np.random.default_rng(0).random((2, 2, 5, 5)) < 0.5
    mask[..., 0] = True
    _, weights = layer(X, mask=mask, need_weights=True)
    assert (weights.numpy()[~mask] == 0).all()
    _, weights = layer(X, mask=mask[:, 0], need_weights=True)
    assert (weights.numpy()[:, 1][~mask[:, 0]] == 0).all()


def test_activation_as_a_module():
    layer = nn.TransformerEncoderLayer(8, 2, activation=nn.LeakyReLU(0.2))
    assert "LeakyReLU" in repr(layer)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.MultiheadAttention(8, 3), ValueError, "num_heads=3 must divide embed_dim=8"),
        (lambda: nn.MultiheadAttention(8, 0), ValueError, "'num_heads' parameter of MultiheadAttention must"),
        (
            lambda: nn.MultiheadAttention(8, 2)(X[0]),
            ShapeError,
            r"expected a query of shape \(n, length, 8\), got",
        ),
        (lambda: nn.MultiheadAttention(8, 2)(X, X[..., :4]), ShapeError, "expected a key of shape"),
        (lambda: nn.MultiheadAttention(8, 2)(X, X, X[0]), ShapeError, "expected a value of shape"),
        (
            lambda: nn.MultiheadAttention(8, 2)(X, key_mask=np.ones((2, 5))),
            ShapeError,
            r"expected a boolean key_mask of shape \(2, 5\), got float64 of shape \(2, 5\)",
        ),
        (
            lambda: nn.TransformerEncoder(0, 8, 2),
            ValueError,
            "'num_layers' parameter of TransformerEncoder must",
        ),
        (
            lambda: nn.TransformerEncoderLayer(8, 2, activation="rel"),
            ValueError,
            "The 'activation' parameter of TransformerEncoderLayer must be",
        ),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
