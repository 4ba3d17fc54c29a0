"""Embeddings: vectors by index, padding, positions, messages."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.compile import compile
from sknet.core import gradients
from sknet.exceptions import DtypeError, ShapeError
from sknet.optim import SGD


def test_rows_and_their_gradients():
    layer = nn.Embedding(5, 3).initialize(0)
    indices = np.array([[1, 4], [1, 0]])
    np.testing.assert_array_equal(layer(indices).numpy(), layer.weight.numpy()[indices])
    [found] = gradients(layer(indices).sum(), [layer.weight])
    assert found.numpy()[:, 0].tolist() == [1, 2, 0, 0, 1]


def test_padding_is_zero_and_stays_so():
    layer = nn.Embedding(5, 3, padding_idx=1).initialize(0)
    assert not layer.weight.numpy()[1].any()
    assert layer.weight.numpy()[[0, 2, 3, 4]].all()
    [found] = gradients((layer(np.array([1, 2])) ** 2).sum(), [layer.weight])
    assert not found.numpy()[1].any()
    assert found.numpy()[2].all()


def test_padding_index_may_be_out_of_range():
    """With data padded by -1, no vector is reserved for padding, and none learns from it."""
    layer = nn.Embedding(3, 2, padding_idx=-1).initialize(0)
    assert layer.weight.numpy().all()
    out = layer(np.array([[2, -1]]))
    np.testing.assert_array_equal(out.numpy(), [[layer.weight.numpy()[2], [0.0, 0.0]]])
    [found] = gradients(out.sum(), [layer.weight])
    assert found.numpy().tolist() == [[0, 0], [0, 0], [1, 1]]


@pytest.mark.parametrize("compiled", [False, True])
def test_negative_numbers_in_training_and_prediction(compiled):
    """Every step reports them, eager or compiled."""
    network = nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(12, 3))
    model = Model(network, loss="log_loss", optimizer=SGD(lr=0.1), random_state=0, compile=compiled)
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 6, (10, 3)), rng.integers(0, 3, 10)
    for _ in range(4):
        model.step(X, y)
        before = model.module.state_dict()
        bad = X.copy()
        bad[3, 1] = -1
        with pytest.raises(IndexError, match="index -1 is out of bounds for 6 elements"):
            model.step(bad, y)
        with pytest.raises(IndexError, match="index -1 is out of bounds for 6 elements"):
            model.predict(bad)
        with pytest.raises(ValueError, match="y must be a class, an integer from 0"):
            model.step(X, np.where(np.arange(10) == 2, -1, y))
        for name, value in model.module.state_dict().items():
            np.testing.assert_array_equal(value, before[name])


def test_indices_are_no_part_of_a_compiled_function():
    layer = nn.Embedding(5, 3).initialize(0)
    weight = layer.weight.numpy()

    def function(weight, x):
        return nn.functional_call(layer, {"weight": weight}, x)[0]

    compiled = compile(function, (weight, np.array([1, 2])))
    np.testing.assert_array_equal(compiled(weight, np.array([4, 0])), weight[[4, 0]])


def test_sequences_may_have_no_steps():
    assert nn.PositionalEncoding()(np.zeros((2, 0, 7))).shape == (2, 0, 7)


def test_positions_are_waves():
    encoding = nn.PositionalEncoding()(np.zeros((1, 50, 7))).numpy()[0]
    position, i = 31, 2
    assert encoding[position, 2 * i] == pytest.approx(np.sin(position / 10000 ** (2 * i / 7)))
    assert encoding[position, 2 * i + 1] == pytest.approx(np.cos(position / 10000 ** (2 * i / 7)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: nn.Embedding(0, 3),
            ValueError,
            "The 'num_embeddings' parameter of Embedding must be an int",
        ),
        (lambda: nn.Embedding(5, 3, 5), ValueError, "padding_idx=5 must be below num_embeddings=5"),
        (lambda: nn.Embedding(5, 3)([0.5]), DtypeError, "expected integers, got float64: use .astype"),
        (lambda: nn.Embedding(5, 3)([5]), IndexError, "out of bounds"),
        (
            lambda: nn.PositionalEncoding(1.0),
            ValueError,
            "The 'base' parameter of PositionalEncoding must be",
        ),
        (
            lambda: nn.PositionalEncoding()(np.ones(3)),
            ShapeError,
            r"an input of shape \(\.\.\., length, dim\)",
        ),
        (
            lambda: nn.Dropout2d()(np.ones((2, 3))),
            ShapeError,
            r"\(n, channels, height, width\), got \(2, 3\)",
        ),
        (lambda: nn.AlphaDropout(1.0), ValueError, "The 'p' parameter of AlphaDropout must be a float in"),
        (lambda: nn.GroupNorm(2, 3), ValueError, "num_groups=2 must divide num_channels=3"),
        (
            lambda: nn.GroupNorm(1, 3)(np.ones((2, 2))),
            ShapeError,
            r"expected .* \(n, 3, \.\.\.\), got \(2, 2\)",
        ),
        (lambda: nn.RMSNorm(3)(np.ones((2, 2))), ShapeError, r"RMSNorm\(.*\): expected an input of shape"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
