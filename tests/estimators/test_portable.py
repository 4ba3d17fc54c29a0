"""Pickles and files of frozen predictors need none of the user's classes and functions."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, nn, ops
from sknet.losses import LogLoss, Loss
from tests.estimators.data import quiet
from tests.project import ROOT

WRITES = """
import pickle, sys, warnings
import numpy as np
import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, TableEncoder, nn, ops
from sknet.losses import LogLoss, Loss

warnings.simplefilter("ignore")

def bent(x):
    return ops.tanh(x) * x

class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.inner, self.act, self.head = nn.Linear(n_features, 5), nn.Lambda(bent), nn.Linear(5, n_outputs)
        self.norm = nn.BatchNorm(5)
    def forward(self, x):
        return self.head(self.norm(self.act(self.inner(x))))

class Doubled(LogLoss):
    def values(self, output, target):
        return super().values(output, target) * 2

class Cauchy(Loss):
    tasks = ("regression",)
    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total(ops.log1p(ops.square(z - y)))

class Sure(Loss):
    tasks = ("binary",)
    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total(ops.square(ops.sigmoid(z) - y))
    def predict(self, output):
        return ops.sigmoid(output)
    def log_predict(self, output):
        return ops.log(ops.sigmoid(output))

class Words(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, n_outputs)
    def forward(self, x):
        return self.head(self.words(x).mean(axis=1))

X = np.random.default_rng(0).normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int)
made = {
    "network and loss": (NetClassifier(Net, loss=Doubled(), max_iter=2, random_state=0), X, y),
    "scaled regression": (NetRegressor(Net, scale_target=True, max_iter=2, random_state=0), X, 1e3 * X),
    "activation": (MLPClassifier((4,), activation=nn.Lambda(bent), max_iter=2, random_state=0), X, y),
    "loss": (MLPClassifier((4,), loss=Sure(), max_iter=2, random_state=0), X, y),
    "loss of a regression": (MLPRegressor((4,), loss=Cauchy(), max_iter=2, random_state=0), X, X[:, 0]),
    "inside of a Sequential": (
        NetClassifier(nn.Sequential(nn.LazyLinear(4), Net(4, 3)), max_iter=2, random_state=0),
        X, y + (X[:, 1] > 0),
    ),
    "encoder": (NetRegressor(Net, encoder="table", max_iter=2, random_state=0), X, X[:, 0]),
    "ids": (NetClassifier(Words, max_iter=2, random_state=0), (np.abs(X) * 2).astype(int), y),
}
for name, (estimator, X, y) in made.items():
    frozen = estimator.fit(X, y).freeze()
    found = {m: getattr(frozen, m)(X) for m in ("predict", "predict_proba") if hasattr(frozen, m)}
    one = frozen.predict(X[:1])
    with open(f"{sys.argv[1]}/{name}.pickle", "wb") as file:
        pickle.dump((X, found, one, pickle.dumps(frozen)), file)
    sknet.save(frozen, f"{sys.argv[1]}/{name}.safetensors")
"""

READS = """
import pickle, sys
from pathlib import Path
import numpy as np
import sknet

for path in sorted(Path(sys.argv[1]).glob("*.pickle")):
    X, expected, one, dumped = pickle.loads(path.read_bytes())
    loaded = [pickle.loads(dumped)]
    if path.stem != "ids":
        loaded.append(sknet.load(path.with_suffix(".safetensors")))
    for frozen in loaded:
        for method, values in expected.items():
            np.testing.assert_array_equal(getattr(frozen, method)(X), values, err_msg=path.stem)
        np.testing.assert_array_equal(frozen.predict(X[:1]), one)
        again = pickle.loads(pickle.dumps(frozen))
        np.testing.assert_array_equal(again.predict(X), expected["predict"])
        frozen.to_python(sys.argv[1] + "/it.py")
    print(path.stem)
"""


def run(text: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_without_the_classes_predicts_the_same(tmp_path):
    run(WRITES, tmp_path)
    assert len(run(READS, tmp_path).splitlines()) == 8


class Net(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.inner, self.head = nn.Linear(n_features, 40), nn.Linear(40, n_outputs)

    def forward(self, x):
        return self.head(ops.tanh(self.inner(x)))


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 30))
Y = (X[:, 0] > 0).astype(int)


def frozen():
    with quiet():
        return NetClassifier(Net, max_iter=2, random_state=0).fit(X, Y).freeze()


def test_where_the_classes_are_layers_can_be_read_as_before():
    one = frozen()
    for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        np.testing.assert_array_equal(other.transform(X, "inner"), one.transform(X, "inner"))
        np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))
        assert type(other._module) is Net


def test_a_pickle_holds_the_parameters_once():
    one = frozen()
    assert len(pickle.dumps(one)) < one.nbytes + 12_000


def test_networks_of_sknets_layers_are_no_graphs(tmp_path):
    with quiet():
        one = MLPRegressor((4,), max_iter=2, random_state=0).fit(X, X[:, 0]).freeze()
    sknet.save(one, tmp_path / "it")
    for other in (pickle.loads(pickle.dumps(one)), sknet.load(tmp_path / "it")):
        np.testing.assert_array_equal(other.transform(X, -2), one.transform(X, -2))


class Branching(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.head = nn.Linear(n_features, n_outputs)

    def forward(self, x):
        return self.head(x) if float(x.sum()) > 0 else self.head(-x)


@pytest.mark.filterwarnings("ignore:the training step is not compiled")
def test_what_no_graph_holds_needs_its_class():
    with quiet():
        one = NetRegressor(Branching, max_iter=1, random_state=0).fit(X, X[:, 0]).freeze()
    other = pickle.loads(pickle.dumps(one))
    assert type(other._module) is Branching
    np.testing.assert_array_equal(other.predict(X), one.predict(X))


class Doubled(LogLoss):
    def values(self, output, target):
        return super().values(output, target) * 2


class Absolute(Loss):
    tasks = ("regression",)

    def values(self, output, target):
        z, y = self.pair(output, target)
        return self.total(ops.abs(z - y))


@pytest.mark.parametrize("loss", [Doubled, Absolute])
def test_losses_of_users_are_kept_where_their_classes_are(loss):
    kind, y = (MLPClassifier, Y) if loss is Doubled else (MLPRegressor, X[:, 0])
    with quiet():
        one = kind((4,), loss=loss(), max_iter=2, random_state=0).fit(X, y).freeze()
    assert type(pickle.loads(pickle.dumps(one))._loss) is loss


def test_the_loss_of_a_frozen_predictor_has_no_values(tmp_path):
    with quiet():
        one = MLPRegressor((4,), loss=Absolute(), max_iter=2, random_state=0).fit(X, X[:, 0]).freeze()
    sknet.save(one, tmp_path / "it")
    loss = sknet.load(tmp_path / "it")._loss
    with pytest.raises(TypeError, match="only predicts: the values of Absolute need its class"):
        loss.values([[1.0]], [1.0])
    with pytest.raises(AttributeError, match="the loss 'Absolute' has no 'predict_std'"):
        loss.predict_std([[1.0]])
