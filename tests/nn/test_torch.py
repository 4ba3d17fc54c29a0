"""PyTorch state dicts, read and written: both modules then compute the same."""

import collections

import numpy as np
import pytest

from sknet import nn
from sknet.exceptions import StateError
from tests.nn.layers.test_contract import ROWS as LAYERS

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")
T = torch.nn
RNG = np.random.default_rng(0)
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


class Pair(nn.Module):
    """An encoder and a decoder, under the names of `torch.nn.Transformer`."""

    def __init__(self, *args, **options):
        self.encoder = nn.TransformerEncoder(2, *args, **options)
        self.decoder = nn.TransformerDecoder(2, *args, **options)

    def forward(self, x, y):
        return self.decoder(y, self.encoder(x), is_causal=True)


class TorchPair(T.Transformer):
    def forward(self, x, y):
        causal = T.Transformer.generate_square_subsequent_mask(y.shape[1], dtype=y.dtype)
        return super().forward(x, y, tgt_mask=causal, tgt_is_causal=True)


class Net(nn.Module):
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm(6), nn.PReLU(6), nn.Linear(6, 4))
        self.blocks = nn.ModuleList(nn.Linear(4, 4, bias=False), nn.LayerNorm(4))
        self.scale = nn.Parameter(np.ones(4))

    def forward(self, x):
        return self.blocks[1](self.blocks[0](self.body(x))) * self.scale


class TorchNet(T.Module):
    def __init__(self):
        super().__init__()
        self.body = T.Sequential(T.Linear(4, 6), T.BatchNorm1d(6), T.PReLU(6), T.Linear(6, 4))
        self.blocks = T.ModuleList([T.Linear(4, 4, bias=False), T.LayerNorm(4)])
        self.scale = T.Parameter(torch.ones(4))

    def forward(self, x):
        return self.blocks[1](self.blocks[0](self.body(x))) * self.scale


class TorchScale(T.Module):
    def __init__(self, n_features):
        super().__init__()
        self.weight = T.Parameter(torch.ones(n_features))

    def forward(self, x):
        return x * self.weight


Row = collections.namedtuple("Row", "mine theirs shapes")
REAL = ((3, 4),)
SEQUENCE = ((3, 5, 4),)
IMAGE = ((2, 4, 6, 6),)
POST = {"norm_first": False, "dropout": 0.0, "activation": "relu"}
PRE = {"norm_first": True, "dropout": 0.0, "activation": "gelu"}


def recurrent(kind, **options):
    return Row(
        lambda: getattr(nn, kind)(4, 3, **options),
        lambda: getattr(T, kind)(4, 3, batch_first=True, **options),
        SEQUENCE,
    )


ROWS = {
    "Linear": Row(lambda: nn.Linear(4, 3), lambda: T.Linear(4, 3), REAL),
    "Linear without bias": Row(lambda: nn.Linear(4, 3, bias=False), lambda: T.Linear(4, 3, bias=False), REAL),
    "Linear ntp": Row(lambda: nn.Linear(4, 3, parametrization="ntp"), lambda: T.Linear(4, 3), REAL),
    "Scale": Row(lambda: nn.Scale(4), lambda: TorchScale(4), REAL),
    "Conv1d": Row(lambda: nn.Conv1d(4, 6, 3, groups=2), lambda: T.Conv1d(4, 6, 3, groups=2), ((2, 4, 7),)),
    "Conv2d": Row(lambda: nn.Conv2d(4, 3, (3, 2)), lambda: T.Conv2d(4, 3, (3, 2)), IMAGE),
    "ConvTranspose1d": Row(
        lambda: nn.ConvTranspose1d(4, 3, 3, 2), lambda: T.ConvTranspose1d(4, 3, 3, 2), ((2, 4, 7),)
    ),
    "ConvTranspose2d": Row(
        lambda: nn.ConvTranspose2d(4, 3, 3, 2), lambda: T.ConvTranspose2d(4, 3, 3, 2), IMAGE
    ),
    "PReLU": Row(nn.PReLU, T.PReLU, REAL),
    "PReLU of channels": Row(lambda: nn.PReLU(4), lambda: T.PReLU(4), REAL),
    "Embedding": Row(lambda: nn.Embedding(7, 4), lambda: T.Embedding(7, 4), (np.array([[1, 6], [0, 1]]),)),
    "EmbeddingBag": Row(
        lambda: nn.EmbeddingBag(7, 4, padding_idx=0),
        lambda: T.EmbeddingBag(7, 4, padding_idx=0),
        (np.array([[1, 2, 0], [0, 0, 5]]),),
    ),
    "BatchNorm": Row(lambda: nn.BatchNorm(4), lambda: T.BatchNorm1d(4), REAL),
    "BatchNorm plain": Row(
        lambda: nn.BatchNorm(4, affine=False), lambda: T.BatchNorm2d(4, affine=False), IMAGE
    ),
    "InstanceNorm": Row(
        lambda: nn.InstanceNorm(4, affine=True, track_running_stats=True),
        lambda: T.InstanceNorm2d(4, affine=True, track_running_stats=True),
        IMAGE,
    ),
    "LayerNorm": Row(lambda: nn.LayerNorm(4), lambda: T.LayerNorm(4), REAL),
    "RMSNorm": Row(lambda: nn.RMSNorm(4, 1e-5), lambda: T.RMSNorm(4, 1e-5), REAL),
    "GroupNorm": Row(lambda: nn.GroupNorm(2, 4), lambda: T.GroupNorm(2, 4), IMAGE),
    "RNN": recurrent("RNN"),
    "LSTM": recurrent("LSTM", num_layers=2, bidirectional=True),
    "GRU": recurrent("GRU", num_layers=2, bidirectional=True),
    "GRU without bias": recurrent("GRU", bias=False),
    "RNNCell": Row(lambda: nn.RNNCell(4, 3), lambda: T.RNNCell(4, 3), REAL),
    "LSTMCell": Row(lambda: nn.LSTMCell(4, 3), lambda: T.LSTMCell(4, 3), REAL),
    "GRUCell": Row(lambda: nn.GRUCell(4, 3), lambda: T.GRUCell(4, 3), REAL),
    "MultiheadAttention": Row(
        lambda: nn.MultiheadAttention(4, 2),
        lambda: T.MultiheadAttention(4, 2, batch_first=True),
        SEQUENCE * 3,
    ),
    "TransformerEncoderLayer": Row(
        lambda: nn.TransformerEncoderLayer(4, 2, 6, **POST),
        lambda: T.TransformerEncoderLayer(4, 2, 6, batch_first=True, **POST),
        SEQUENCE,
    ),
    "TransformerEncoder": Row(
        lambda: nn.TransformerEncoder(2, 4, 2, 6, **PRE),
        lambda: T.TransformerEncoder(
            T.TransformerEncoderLayer(4, 2, 6, batch_first=True, **PRE), 2, T.LayerNorm(4), False
        ),
        SEQUENCE,
    ),
    "TransformerDecoderLayer": Row(
        lambda: nn.TransformerDecoderLayer(4, 2, 6, **PRE),
        lambda: T.TransformerDecoderLayer(4, 2, 6, batch_first=True, **PRE),
        ((3, 5, 4), (3, 2, 4)),
    ),
    "TransformerDecoder": Row(
        lambda: nn.TransformerDecoder(2, 4, 2, 6, **POST),
        lambda: T.TransformerDecoder(T.TransformerDecoderLayer(4, 2, 6, batch_first=True, **POST), 2),
        ((3, 5, 4), (3, 2, 4)),
    ),
    "an encoder and a decoder": Row(
        lambda: Pair(4, 2, 6, **PRE),
        lambda: TorchPair(4, 2, 2, 2, 6, batch_first=True, **PRE),
        ((3, 5, 4), (3, 2, 4)),
    ),
    "a network": Row(Net, TorchNet, REAL),
}
EACH = pytest.mark.parametrize("row", ROWS)


def made(row):
    mine, theirs, shapes = ROWS[row]
    other = theirs().double().eval()
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            tensor.copy_(torch.tensor(RNG.uniform(0.1, 1.0, tuple(tensor.shape))))
    inputs = [s if isinstance(s, np.ndarray) else RNG.normal(size=s) for s in shapes]
    return mine().to(dtype="float64").initialize(0).eval(), other, inputs


def flat(output):
    """Return all arrays of a nested output in one array."""
    if isinstance(output, tuple):
        return np.concatenate([flat(part) for part in output])
    return (output.detach() if isinstance(output, torch.Tensor) else output).numpy().ravel()


def assert_same(mine, theirs, inputs):
    expected = theirs(*map(torch.tensor, inputs))
    found = mine(*inputs)
    expected = expected[0] if isinstance(theirs, T.MultiheadAttention) else expected
    np.testing.assert_allclose(flat(found), flat(expected), rtol=1e-9, atol=1e-11)


def test_every_layer_with_a_state_has_a_row():
    made = [make() for make, _ in LAYERS.values()]
    with_state = {kind for layer in made if layer.state_dict() for kind in type(layer).__mro__}
    containers = {nn.Sequential, nn.Parallel, nn.Residual}  # containers, named by their children
    # PyTorch has no equivalent; their state has their own names.
    alone = {nn.PeriodicEmbedding, nn.PiecewiseLinearEncoding, nn.ParametricActivation}
    alone |= {nn.CategoryEmbeddings, nn.BatchEnsembleLinear, nn.EnsembleLinear}
    alone |= {nn.MonotonicLinear}  # with a test of its own
    tested = {type(module) for mine, *_ in ROWS.values() for module in mine().modules()}
    assert {kind for kind in with_state if kind in vars(nn).values()} - containers - alone - {
        nn.Module
    } <= tested


@EACH
def test_from_torch(row):
    mine, theirs, inputs = made(row)
    assert nn.from_torch(theirs.state_dict(), mine) is mine
    assert_same(mine, theirs, inputs)


@EACH
def test_to_torch(row):
    mine, theirs, inputs = made(row)
    state = nn.to_torch(mine)
    theirs.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
    assert_same(mine, theirs, inputs)
    assert all(not np.shares_memory(value, p.numpy()) for value in state.values() for p in mine.parameters())


@EACH
def test_round_trip(row):
    mine, theirs, _ = made(row)
    nn.from_torch(theirs.state_dict(), mine)
    other = nn.from_torch(nn.to_torch(mine), ROWS[row].mine().to(dtype="float64"))
    for (path, value), twin in zip(mine.state_dict().items(), other.state_dict().values(), strict=True):
        np.testing.assert_array_equal(value, twin, err_msg=path)


def test_states_of_other_dtypes_and_devices_and_parameters():
    mine, theirs = nn.Linear(3, 2), T.Linear(3, 2)
    for state in (theirs.state_dict(), dict(theirs.named_parameters()), theirs.bfloat16().state_dict()):
        nn.from_torch(state, mine)
        np.testing.assert_array_equal(mine.weight.numpy().T, state["weight"].detach().float().numpy())
        assert mine.weight.dtype == np.float32


def changed(state, **changes):
    return {name: value for name, value in {**state, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_ih_l0": None}, r"missing: 'weight_ih_l0'\n  strict=False loads"),
        ({"bias_hh_l0": None}, r"missing: 'bias_hh_l0'"),
        ({"weight_hr_l0": np.ones(1)}, r"unexpected: 'weight_hr_l0'\n"),
        (
            {"bias_hh_l0": None, "bias_hh_0": np.ones(8)},
            r"unexpected: 'bias_hh_0' \(did you mean 'bias_hh_l0'\?\)",
        ),
        ({"weight_ih_l0": np.ones((3, 8))}, r"'weight_ih_l0': expected shape \(8, 3\), got \(3, 8\)"),
        ({"bias_ih_l0": np.ones(3)}, r"'bias_ih_l0': expected shape \(8,\), got \(3,\)"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(changes, message):
    mine = nn.LSTM(3, 2).initialize(0)
    before = mine.state_dict()
    with pytest.raises(StateError, match=f"(?s)does not fit LSTM; nothing was loaded:.*{message}"):
        nn.from_torch(changed(nn.to_torch(nn.LSTM(3, 2)), **changes), mine)
    for name, value in mine.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_what_both_have():
    mine = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).initialize(0)
    head = mine.state_dict()["1.weight"]
    nn.from_torch({"0.weight": np.ones((2, 3)), "2.bias": np.ones(4)}, mine, strict=False)
    np.testing.assert_array_equal(mine[0].weight.numpy(), 1)
    np.testing.assert_array_equal(mine[1].weight.numpy(), head)


def test_shared_parameters_have_all_their_names():
    shared = nn.Linear(2, 2).initialize(0)
    net = nn.Sequential(shared, nn.Tanh(), shared)
    state = nn.to_torch(net)
    assert list(state) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    nn.from_torch(state, net)
    with pytest.raises(StateError, match=r"2\.weight: differs from what it is shared with here"):
        nn.from_torch({**state, "2.weight": np.ones((2, 2))}, net)


def test_lazy_layers_have_no_state_yet():
    with pytest.raises(StateError, match="has no parameters before its in_features is known"):
        nn.from_torch({}, nn.LazyLinear(2))
