"""Recurrent layers: outputs, initial weights, states, lengths, training."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.exceptions import ShapeError
from sknet.nn import functional_call
from sknet.optim import Adam

LAYERS = [nn.RNN, nn.LSTM, nn.GRU]
EACH = pytest.mark.parametrize("layer", LAYERS)
X = np.random.default_rng(0).normal(size=(4, 6, 3)).astype("float32")


def hidden(state):
    return state[0] if isinstance(state, tuple) else state


# -- initial weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(("cell", "gates"), [(nn.RNNCell, 1), (nn.LSTMCell, 4), (nn.GRUCell, 3)])
def test_initial_weights(cell, gates):
    made = cell(5, 6).to(dtype="float64").initialize(0)
    for block in np.split(made.weight_hh.numpy(), gates, axis=1):
        np.testing.assert_allclose(block.T @ block, np.eye(6), atol=1e-12)
    bound = np.sqrt(6 / 11)
    assert 0.9 * bound < np.abs(made.weight_ih.numpy()).max() <= bound
    expected = np.zeros(made.bias.shape)
    if cell is nn.LSTMCell:
        expected[6:12] = 1  # the forget gate
    np.testing.assert_array_equal(made.bias.numpy(), expected)


def test_initial_weights_of_choice():
    layer = nn.LSTM(3, 4, init="zeros", recurrent_init=nn.init.Constant(0.5), bias=False).initialize(0)
    assert not layer.l0.weight_ih.numpy().any()
    assert np.all(layer.l0.weight_hh.numpy() == 0.5)
    assert [path for path, _ in layer.named_parameters()] == ["l0.weight_ih", "l0.weight_hh"]


# -- outputs --------------------------------------------------------------------------------------


@EACH
def test_what_is_returned(layer):
    made = layer(3, 5, num_layers=2, bidirectional=True).initialize(0)
    output, state = made(X)
    assert output.shape == (4, 6, 10)
    assert hidden(state).shape == (4, 4, 5)
    for returns in ("sequence", "last"):
        other = layer(3, 5, num_layers=2, bidirectional=True, returns=returns)
        other.load_state_dict(made.state_dict())
        expected = output.numpy()
        if returns == "last":
            expected = np.concatenate([expected[:, -1, :5], expected[:, 0, 5:]], axis=1)
        np.testing.assert_array_equal(other(X).numpy(), expected)


@EACH
def test_lengths(layer):
    made = layer(3, 5, num_layers=2, bidirectional=True).initialize(0)
    lengths = np.array([6, 1, 4, 3])
    output, state = made(X, lengths=lengths)
    for row, length in enumerate(lengths):
        alone, last = made(X[row : row + 1, :length])
        np.testing.assert_allclose(output.numpy()[row, :length], alone.numpy()[0], rtol=1e-4, atol=1e-6)
        assert not output.numpy()[row, length:].any()
        np.testing.assert_allclose(
            hidden(state).numpy()[:, row], hidden(last).numpy()[:, 0], rtol=1e-4, atol=1e-6
        )


@EACH
def test_two_halves_are_a_whole(layer):
    made = layer(3, 5, num_layers=2).initialize(0)
    whole, end = made(X)
    first, state = made(X[:, :2])
    second, last = made(X[:, 2:], state)
    np.testing.assert_allclose(np.concatenate([first.numpy(), second.numpy()], 1), whole.numpy(), rtol=1e-5)
    np.testing.assert_allclose(hidden(last).numpy(), hidden(end).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    ("layer", "cell"), [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)]
)
def test_a_layer_is_its_cell_step_by_step(layer, cell):
    made = layer(3, 5).initialize(0)
    one = cell(3, 5)
    one.load_state_dict({path[3:]: value for path, value in made.state_dict().items()})
    output, _ = made(X)
    state = None
    for k in range(X.shape[1]):
        state = one(X[:, k], state)
        np.testing.assert_allclose(hidden(state).numpy(), output.numpy()[:, k], rtol=1e-5, atol=1e-7)


def test_dropout_is_between_layers():
    one, two = (nn.GRU(3, 5, num_layers=n, dropout=1.0, returns="sequence").initialize(0) for n in (1, 2))
    training = functional_call(one, {}, X, key=(0, 0))[0].numpy()
    np.testing.assert_array_equal(training, functional_call(one, {}, X, training=False)[0].numpy())
    without = two.l1(np.zeros((4, 5), "float32"))  # the second layer sees zeros only
    dropped = functional_call(two, {}, X, key=(0, 0))[0].numpy()
    np.testing.assert_allclose(dropped[:, 0], without.numpy(), rtol=1e-6)
    assert np.abs(functional_call(two, {}, X, training=False)[0].numpy() - dropped).max() > 0.01


def test_repr():
    assert (
        repr(nn.LSTM(3, 5, 2, dropout=0.5)) == "LSTM(input_size=3, hidden_size=5, num_layers=2, dropout=0.5)"
    )
    assert repr(nn.RNN(3, 5, activation="relu")) == "RNN(input_size=3, hidden_size=5, activation='relu')"
    assert repr(nn.GRUCell(3, 5)) == "GRUCell(input_size=3, hidden_size=5)"


# -- training -------------------------------------------------------------------------------------


def first_is_larger(n, steps=5):
    """Return sequences, and whether the first number is larger than the second."""
    X = np.random.default_rng(0).normal(size=(n, steps, 1)).astype("float32")
    return X, (X[:, 0, 0] > X[:, 1, 0]).astype(int)


@EACH
def test_a_model_learns_to_remember(layer):
    X, y = first_is_larger(200)
    net = nn.Sequential(layer(1, 16, returns="last"), nn.Linear(16, 2))
    model = Model(net, loss="log_loss", optimizer=Adam(lr=0.02), random_state=0)
    losses = [model.step(X, y).loss for _ in range(60)]
    assert losses[-1] < 0.25 < 0.6 < losses[0]


class OfAnyLength(nn.Module):
    """Reads sequences whose first number is the length of the rest."""

    def __init__(self, layer):
        self.rnn = layer(1, 8, num_layers=2, dropout=0.1, bidirectional=True, returns="last")
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        return self.head(self.rnn(x[:, 1:], lengths=x[:, 0, 0].astype("int64")))


@pytest.mark.slow
@EACH
def test_compiled_steps_take_any_lengths(layer):
    X, y = first_is_larger(60)
    lengths = np.random.default_rng(1).integers(2, 6, len(X))
    X[np.arange(5) >= lengths[:, None]] = np.nan  # which is not read
    X = np.concatenate([lengths[:, None, None], X], axis=1).astype("float32")
    losses, batches = [], [slice(0, 32), slice(32, None)] * 30
    for mode in (False, True):
        model = Model(OfAnyLength(layer), "log_loss", Adam(lr=0.02), random_state=0, compile=mode)
        losses.append([model.step(X[rows], y[rows]).loss for rows in batches])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
    assert np.mean(losses[0][-4:]) < 0.4


# -- errors ---------------------------------------------------------------------------------------


@EACH
def test_wrong_inputs(layer):
    made = layer(3, 5, num_layers=2).initialize(0)
    with pytest.raises(
        ShapeError, match=r"input_size=3.*expected an input of shape \(n, steps, 3\), got \(4, 3"
    ):
        made(X[:, 0])
    with pytest.raises(ShapeError, match=r"expected an initial state of shape \(2, 4, 5\), got \(1, 4, 5\)"):
        made(X, tuple([np.zeros((1, 4, 5))] * (1 + (layer is nn.LSTM))))
    with pytest.raises(ShapeError, match=r"expected an initial state, or None for zeros, got \(\)"):
        made(X, ())
    with pytest.raises(ValueError, match="lengths must be between 0 and the 6 steps of x, got 7"):
        made(X, lengths=[1, 2, 7, 3])
    with pytest.raises(ValueError, match="The 'returns' parameter of"):
        layer(3, 5, returns="first")
    with pytest.raises(ValueError, match="The 'recurrent_init' parameter of"):
        layer(3, 5, recurrent_init="magic")


def test_wrong_inputs_of_cells():
    with pytest.raises(ShapeError, match=r"GRUCell\(input_size=3.*expected an input of shape \(n, 3\), got"):
        nn.GRUCell(3, 5)(X)
    with pytest.raises(ValueError, match="The 'hidden_size' parameter of LSTMCell must be"):
        nn.LSTMCell(3, 0)
    with pytest.raises(ValueError, match="The 'activation' parameter of RNNCell must be"):
        nn.RNNCell(3, 5, activation="gelu")
