"""Training steps as graphs on a GPU, which give the bits of plain launches; what cannot be captured."""

import numpy as np
import pytest

from sknet import nn, ops
from sknet.device import Device, backend, to_host
from sknet.exceptions import DeviceError
from tests.compile import native

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("long_blocks")]

CUDA = Device("cuda")
RNG = np.random.default_rng(0)
X, CLASSES, WEIGHT = RNG.standard_normal((100, 6)), RNG.integers(0, 3, 100), RNG.uniform(0.5, 2, 100)


class Between(nn.Module):
    """Reads some columns of two groups, whose gradients have zeros between them."""

    def forward(self, x):
        return ops.tanh(x[:, 2:10]) * x[:, 11:19]


NETWORKS = {
    "dense": lambda: (nn.Linear(6, 10), nn.ReLU(), nn.Linear(10, 3)),
    "dropout": lambda: (nn.Linear(6, 10), nn.Dropout(0.3), nn.Tanh(), nn.Linear(10, 3)),
    "parts of columns": lambda: (nn.Linear(6, 20), nn.GLU(), nn.Linear(10, 3)),
    "parts with zeros between them": lambda: (nn.Linear(6, 20), Between(), nn.Linear(8, 3)),
    "buffers": lambda: (nn.Linear(6, 10), nn.BatchNorm(10), nn.ReLU(), nn.Linear(10, 3)),
}
LAYERS = {
    **NETWORKS,
    "gelu": lambda: (nn.Linear(6, 16), nn.GELU("tanh"), nn.Linear(16, 8), nn.GELU("tanh"), nn.Linear(8, 3)),
    "attention": lambda: (
        nn.Unflatten(1, (3, 2)), nn.Linear(2, 8), nn.TransformerEncoderLayer(8, 2, 4, dropout=0.2),
        nn.Flatten(), nn.LazyLinear(3),
    ),
    "images": lambda: (
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(4, 4, 1, groups=2), nn.AvgPool2d((1, 2), 1), nn.Flatten(), nn.LazyLinear(3),
    ),
    "rnn": lambda: (
        nn.Unflatten(1, (3, 2)), nn.RNN(2, 5, returns="sequence"),
        nn.RNN(5, 4, activation="relu", returns="last"), nn.Linear(4, 3),
    ),
    "lstm": lambda: (
        nn.Unflatten(1, (3, 2)), nn.LSTM(2, 5, num_layers=2, bidirectional=True, dropout=0.2, returns="last"),
        nn.Linear(10, 3),
    ),
    "gru": lambda: (
        nn.Unflatten(1, (3, 2)), nn.GRU(2, 5, bidirectional=True, returns="sequence"), nn.Flatten(),
        nn.LazyLinear(3),
    ),
}  # fmt: skip


def trained(layers, dtype, optimizer="adam", *, weight=None, is_scored=True, chosen=None, shuffle=True):
    """Train for two epochs in batches of 16 rows; return losses, outputs and state, and the steps."""
    n = 100 if chosen is None else len(chosen)
    settings = {"loss": "log_loss", "optimizer": optimizer, "alpha": 1e-3, "dtype": dtype, "device": CUDA}
    model, losses, outputs, steps = native.trained(
        "device", nn.Sequential(*layers()), X, CLASSES, weight, size=16, epochs=2, rows=chosen,
        order=lambda epoch: np.random.default_rng(epoch).permutation(n) if shuffle else None,
        is_scored=is_scored, **settings,
    )  # fmt: skip
    flat, slots = model.memory.flat_buffers()
    kept = [flat, *slots.values(), *model.memory.untrained.values()]
    return [losses, outputs, *[to_host(x) for x in kept]], steps


def test_an_embedding_is_part_of_a_graph():
    """Its gradient is added in the order of indices, if there are not too many places."""
    net = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(24, 3))
    found = []
    for _ in range(2):
        ids = (10 * np.abs(X)).astype("int64") % 50
        model, _, _, steps = native.trained(
            "device", net.copy(), ids, CLASSES, size=16, loss="log_loss", device=CUDA, is_scored=False
        )
        assert not steps.refusals
        found.append([to_host(x) for x in model.parameters.values()])
    assert_same(*found)


def launched(monkeypatch, *args, **options):
    """Train without graphs."""

    def refuse(self, work, device):
        raise DeviceError("the test wants launches")

    with monkeypatch.context() as patch:
        patch.setattr(type(backend("cuda")), "captured", refuse)
        found, steps = trained(*args, **options)
    assert set(steps.refusals) == {"the test wants launches"}
    return found


def assert_same(found, expected):
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.fixture
def long_blocks(limits, monkeypatch):
    """Blocks of as many steps as memory permits, in which each step is launched by itself."""
    limits("seconds of a block of steps", 1e9)
    monkeypatch.setattr(type(backend("cuda")), "shared_memory", lambda self, device: 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("network", LAYERS)
def test_graphs_give_the_bits_of_launches(network, dtype, monkeypatch):
    found, steps = trained(LAYERS[network], dtype)
    assert not steps.refusals
    assert_same(found, launched(monkeypatch, LAYERS[network], dtype))


CASES = {
    "sgd": {"optimizer": "sgd"},
    "weights": {"weight": WEIGHT},
    "no score": {"is_scored": False},
    "chosen rows": {"chosen": np.arange(0, 100, 2)},
    "in the order of the data": {"shuffle": False},
    "in blocks": {"most": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_other_steps(case, monkeypatch, limits):
    options = dict(CASES[case])
    if "most" in options:
        limits("steps of a block on a device", options.pop("most"))
    found, steps = trained(NETWORKS["dense"], "float32", **options)
    assert not steps.refusals
    assert_same(found, launched(monkeypatch, NETWORKS["dense"], "float32", **options))


def test_rows_that_stay_on_the_host(monkeypatch):
    expected, _ = trained(NETWORKS["dense"], "float32")
    monkeypatch.setattr(type(backend("cuda")), "free_memory", lambda self, device: X.nbytes // 2)
    found, steps = trained(NETWORKS["dense"], "float32")
    assert not steps.refusals
    assert_same(found, expected)


# -- what cannot be captured ------------------------------------------------------------------


def test_the_users_stream_is_being_captured():
    cupy = backend("cuda")._cupy
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(DeviceError, match="the current stream is, by its user"):
            backend("cuda").captured(lambda: None, CUDA)
        stream.end_capture()


def test_an_error_within_a_capture_leaves_the_device_as_it_was():
    x = backend("cuda").zeros((4,), "float32", CUDA)

    def work():
        x.fill(1)
        x.get()

    with pytest.raises(DeviceError, match=r"work on device 'cuda:0' cannot be captured: "):
        backend("cuda").captured(work, CUDA)
    assert x.tolist() == [0] * 4
    graph = backend("cuda").captured(lambda: x.fill(2), CUDA)
    assert x.tolist() == [0] * 4
    graph()
    assert x.tolist() == [2] * 4


def test_work_that_asks_for_memory():
    owner = backend("cuda")
    x = owner.zeros((4,), "float32", CUDA)
    x + 1
    with pytest.raises(DeviceError, match=r"cannot be captured: .*it asks for 16 bytes"):
        owner.captured(lambda: x + 1, CUDA)
