"""Networks that PyTorch has exported are read, compute the same, and are trained further."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sknet import Model, NetClassifier, onnx

torch = pytest.importorskip("torch", reason="needs PyTorch, a second opinion that sknet does not depend on")
pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about its exporter


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            *(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()),
            *(
                torch.nn.MaxPool2d(2),
                torch.nn.AdaptiveAvgPool2d(2),
                torch.nn.Flatten(),
                torch.nn.Linear(16, 3),
            ),
        )

    def forward(self, x):
        return torch.nn.functional.log_softmax(self.body(x), dim=1)


class Words(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.last = torch.nn.Embedding(20, 6), torch.nn.Linear(10, 3)
        self.rnn = torch.nn.LSTM(6, 5, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.last(self.rnn(self.embedding(x))[0][:, -1])


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.last = torch.nn.GRU(4, 5, 2, batch_first=True), torch.nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.rnn(x)[0].mean(1))


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.layer(x).mean(1))


def perceptron():
    return torch.nn.Sequential(
        *(
            torch.nn.Linear(6, 8),
            torch.nn.GELU(),
            torch.nn.LayerNorm(8),
            torch.nn.SiLU(),
            torch.nn.Dropout(0.1),
        ),
        *(torch.nn.Linear(8, 3), torch.nn.Softplus(), torch.nn.Hardswish(), torch.nn.ELU(), torch.nn.Mish()),
    )


NETWORKS = {
    "perceptron": (perceptron, lambda: torch.randn(6, 6)),
    "convolutions": (Convolutions, lambda: torch.randn(6, 1, 8, 8)),
    "words": (Words, lambda: torch.randint(0, 20, (6, 7))),
    "gated": (Gated, lambda: torch.randn(6, 7, 4)),
    "attention": (Attention, lambda: torch.randn(6, 7, 8)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_pytorch(name, tmp_path):
    torch.manual_seed(0)
    network, x = (make() for make in NETWORKS[name])
    network.eval()
    path = tmp_path / "network.onnx"
    axes = {"x": {0: "n"}}
    torch.onnx.export(
        network, (x,), path, dynamo=False, input_names=["x"], dynamic_axes=axes, opset_version=17
    )
    found = onnx.load(path)
    for rows in (x, torch.cat([x, x[:2]])):
        np.testing.assert_allclose(found(rows.numpy()).numpy(), network(rows).detach(), rtol=1e-5, atol=1e-6)
    model, target = Model(found, loss="squared_error", random_state=0), np.full((6, 3), 2.0, "float32")
    first = model.step(x.numpy(), target).loss
    for _ in range(30):
        last = model.step(x.numpy(), target).loss
    assert last < first
    clf = NetClassifier(found, max_iter=3, random_state=0, optimizer="sgd", loss="log_loss")
    with pytest.warns(ConvergenceWarning):
        clf.fit(x.numpy(), [0, 1, 2] * 2)
    assert clf.predict_proba(x.numpy()).shape == (6, 3)
