"""Pickles and files of frozen predictors need none of the user's classes and functions."""

import copy
import importlib.util
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, nn, ops
from sknet.losses import GaussianNLL, LogLoss, Loss
from tests.estimators.data import quiet
from tests.onnx import runtime
from tests.project import ROOT

WRITES = """
import pickle, sys, warnings
import joblib
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
import sknet
from sknet import MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, NetTransformer, nn, ops
from sknet import TableEncoder, TabularRegressor
from sknet.losses import GaussianNLL, LogLoss, Loss

warnings.simplefilter("ignore")
two = {"max_iter": 2, "random_state": 0}

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

class Recurrent(nn.Module):
    def __init__(self, n_outputs):
        self.lstm = nn.LSTM(3, 4, bidirectional=True, returns="last")
        self.head = nn.Linear(8, n_outputs)
    def forward(self, x, lengths=None):
        return self.head(self.lstm(x, lengths=lengths))

class Attentive(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.place = nn.Embedding(7, 4), nn.Embedding(50, 4)
        self.layer, self.head = nn.TransformerEncoderLayer(4, 2, 8), nn.Linear(4, n_outputs)
    def forward(self, x, lengths):
        steps = ops.arange(x.shape[1])
        is_open = ops.less(steps[None, :], lengths[:, None])
        x = self.layer(self.words(x) + self.place(steps), key_mask=is_open, is_causal=True)
        w = is_open.astype(x.dtype)[:, :, None]
        return self.head((x * w).sum(axis=1) / w.sum(axis=1))

class Several(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.numbers, self.head = nn.Embedding(7, 4), nn.Linear(3, 4), nn.Linear(4, n_outputs)
    def forward(self, ids, x, mask):
        w = mask.astype(x.dtype)[:, :, None]
        return self.head((self.words(ids) * w).mean(axis=1) + bent(self.numbers(x)))

class Images(nn.Module):
    def __init__(self, n_outputs):
        self.conv, self.pool, self.head = nn.Conv2d(1, 3, 3), nn.MaxPool2d(2), nn.Linear(3, n_outputs)
    def forward(self, x):
        return self.head(bent(self.pool(self.conv(x))).mean(axis=(2, 3)))

class Coder(nn.Module):
    def __init__(self, n_features):
        self.encoder = nn.Sequential(nn.Linear(n_features, 4), nn.Lambda(bent), nn.Linear(4, 2))
        self.decoder = nn.Sequential(nn.Linear(2, 4), nn.Lambda(bent), nn.Linear(4, n_features))
    def forward(self, x):
        return self.decoder(self.encoder(x))

class Tagger(nn.Module):
    def __init__(self, n_outputs):
        self.gru, self.head = nn.GRU(3, 4, returns="sequence"), nn.Linear(4, n_outputs)
    def forward(self, x):
        return self.head(bent(self.gru(x)))

class Shifted(GaussianNLL):
    def predict(self, output):
        return super().predict(output) + 1

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = (X[:, 0] > 0).astype(int)
S, lengths = RNG.normal(size=(60, 6, 3)), RNG.integers(1, 7, 60)
ids, mask = RNG.integers(0, 7, (60, 6)), RNG.random((60, 6)) > 0.3
inputs = {"ids": ids, "x": X, "mask": mask}
longer = {"ids": np.tile(ids, 2)[:9], "x": X[:9], "mask": np.tile(mask, 2)[:9]}
S2 = np.tile(S, (1, 2, 1))[:9]
made = {
    "network and loss": (NetClassifier(Net, loss=Doubled(), **two), X, y),
    "scaled regression": (NetRegressor(Net, scale_target=True, **two), X, 1e3 * X),
    "activation": (MLPClassifier((4,), activation=nn.Lambda(bent), **two), X, y),
    "loss": (MLPClassifier((4,), loss=Sure(), **two), X, y),
    "loss of a regression": (MLPRegressor((4,), loss=Cauchy(), **two), X, X[:, 0]),
    "inside of a Sequential": (
        NetClassifier(nn.Sequential(nn.LazyLinear(4), Net(4, 3)), **two),
        X, y + (X[:, 1] > 0),
    ),
    "encoder": (NetRegressor(Net, encoder="table", **two), X, X[:, 0]),
    "ids": (NetClassifier(Words, **two), ids, y, [(ids[:3, :2], {}), (ids[:1].astype(np.uint8), {})]),
    "several inputs": (NetRegressor(Several, scale_target=True, **two), inputs, 1e2 * X, [(longer, {})]),
    "sequences": (NetClassifier(Recurrent, **two), S, y, [(S2, {}), (S[:3, :1], {})]),
    "images": (NetClassifier(Images, **two), RNG.normal(size=(60, 1, 8, 8)), y),
    "code": (NetTransformer(Coder, code="encoder", **two), X, None),
    "arrays": (NetTransformer(Tagger, code="gru", target="y", **two), S, S[:, :, :1], [(S2, {})]),
    "derived loss": (NetRegressor(Net, loss=Shifted(), scale_target=True, **two), X, 1e2 * X[:, 0]),
    "members": (NetClassifier(Words, n_members=2, **two), ids, y, [(ids[:3, :2], {})]),
    "members and loss": (MLPRegressor((4,), loss=Shifted(), n_members=2, **two), X, 1e2 * X[:, 0]),
    "members of classes": (MLPClassifier((4,), loss=Sure(), n_members=2, **two), X, y),
    "ensemble": (TabularRegressor(members=1, budget=0.1, loss=Shifted(), random_state=0), X, X[:, 0]),
}
fits = {name: (each[0].fit(*each[1:3]).freeze(), each[1], [*each[3:]]) for name, each in made.items()}
fits["steps"] = (sknet.freeze(make_pipeline(StandardScaler(), NetClassifier(Net, **two)).fit(X, y)), X, [])
search = sknet.model_selection.GridSearchCV(NetClassifier(Net, **two), {"alpha": [0.1, 1.0]}, cv=2)
fits["search"] = (sknet.freeze(search.fit(X, y)), X, [])
for name, net, given in (("lengths", Recurrent, S), ("attention", Attentive, ids)):
    more = [(np.concatenate([given, given], axis=1)[:9], {"lengths": 2 * lengths[:9]})]
    frozen = NetClassifier(net, **two).fit(given, y, lengths=lengths).freeze()
    fits[name] = (frozen, (given, {"lengths": lengths}), [more])
METHODS = "predict", "predict_proba", "predict_log_proba", "decision_function", "predict_std"
for name, (frozen, X, more) in fits.items():
    first = X if isinstance(X, tuple) else (X, {})
    one = {k: v[:1] for k, v in first[0].items()} if isinstance(first[0], dict) else first[0][:1]
    found = []
    for given, named in [first, (one, {k: v[:1] for k, v in first[1].items()}), *(more[0] if more else [])]:
        asked = [(m, given, named) for m in METHODS if hasattr(frozen, m)]
        if hasattr(frozen, "transform") and name not in ("steps", "search"):
            layers = [{"layer": -1}] if hasattr(frozen, "predict") else [{}, {"layer": -2}]
            asked += [("transform", given, {**named, **layer}) for layer in layers]
        if hasattr(frozen, "inverse_transform"):
            asked.append(("inverse_transform", frozen.transform(given), {}))
        found += [(*each, getattr(frozen, each[0])(each[1], **each[2])) for each in asked]
    with open(f"{sys.argv[1]}/{name}.pickle", "wb") as file:
        pickle.dump((found, pickle.dumps(frozen)), file)
    joblib.dump(frozen, f"{sys.argv[1]}/{name}.joblib")
    sknet.save(frozen, f"{sys.argv[1]}/{name}.safetensors")
"""

READS = """
import pickle, sys
import joblib
from pathlib import Path
import numpy as np
import sknet

for path in sorted(Path(sys.argv[1]).glob("*.pickle")):
    asked, dumped = pickle.loads(path.read_bytes())
    loaded = [pickle.loads(dumped), sknet.load(path.with_suffix(".safetensors"))]
    loaded += [joblib.load(path.with_suffix(".joblib")), pickle.loads(pickle.dumps(loaded[0]))]
    for frozen in loaded:
        for method, X, named, values in asked:
            found = getattr(frozen, method)(X, **named)
            np.testing.assert_array_equal(found, values, err_msg=f"{path.stem} {method}", strict=True)
    print(path.stem)
"""


def run(text: str, folder) -> str:
    done = subprocess.run(
        [sys.executable, "-c", text, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_process_without_the_classes_predicts_the_same(tmp_path):
    run(WRITES, tmp_path)
    assert len(run(READS, tmp_path).splitlines()) == 22


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
    with pytest.warns(UserWarning, match="its network Branching are defined, since it cannot become a graph"):
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


class Rounded(nn.Module):
    def __init__(self, n_outputs):
        self.words, self.head = nn.Embedding(7, 4), nn.Linear(4, n_outputs)

    def forward(self, x):
        places = ops.sqrt(ops.arange(x.shape[1]).astype("float32"))
        return self.head((self.words(x) * places[:, None]).mean(axis=1))


def test_lengths_that_a_graph_cannot_have_are_said(tmp_path):
    ids = RNG.integers(0, 7, (60, 5))
    with quiet():
        one = NetRegressor(Rounded, max_iter=1, random_state=0).fit(ids, X[:, 0]).freeze()
    with pytest.warns(UserWarning, match="where Rounded is not defined.*only sequences of the length.*'x'"):
        sknet.save(one, tmp_path / "it")
    loaded = sknet.load(tmp_path / "it")
    np.testing.assert_array_equal(loaded.predict(ids), one.predict(ids))
    assert one.predict(ids[:, :3]).shape == (60,)
    with pytest.raises(ValueError, match=r"'x' must have the length 5 along axis 1.*got shape \(60, 3\)"):
        loaded.predict(ids[:, :3])


class Certain(GaussianNLL):
    def predict_interval(self, output, coverage):
        return super().predict_interval(output, coverage / 2)


def test_links_with_other_arguments_need_their_class():
    with quiet():
        one = MLPRegressor((4,), loss=Certain(), scale_target=False, max_iter=1, random_state=0)
        one = one.fit(X, X[:, 0]).freeze()
    with pytest.warns(UserWarning, match="where Certain is not defined.*a predict_interval of its own"):
        other = pickle.loads(pickle.dumps(one))
    assert type(other._loss) is Certain


# -- exports of user's classes ----------------------------------------------------------------------------


class Gated(nn.Module):
    """A network of the user's."""

    def __init__(self, n_features, n_outputs):
        self.inner, self.gate = nn.Linear(n_features, 6), nn.Linear(n_features, 6)
        self.head = nn.Linear(6, n_outputs)

    def forward(self, x):
        return self.head(ops.tanh(self.inner(x)) * ops.sigmoid(self.gate(x)))


class Sharper(LogLoss):
    """A loss of the user's, with probabilities of its own."""

    def values(self, output, target):
        return super().values(2.0 * output, target)

    def predict(self, output):
        return super().predict(2.0 * output)


EXPORTED = {
    "network": lambda: NetClassifier(Gated, max_iter=20, random_state=0),
    "network of a regression": lambda: NetRegressor(Gated, scale_target=True, max_iter=20, random_state=0),
    "loss": lambda: MLPClassifier((4,), loss=Sharper(), max_iter=20, random_state=0),
    "network and loss": lambda: NetClassifier(Gated, loss=Sharper(), max_iter=20, random_state=0),
}


@pytest.mark.parametrize("kind", EXPORTED)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_python_onnx_and_sparse_inputs_of_users_classes(kind, n_classes, tmp_path):
    rng = np.random.default_rng(0)
    X = np.maximum(rng.normal(size=(40, 5)), 0).astype(np.float32)
    estimator = EXPORTED[kind]()
    labels = np.digitize(X[:, 0], [0.3, 0.8][: n_classes - 1])
    with quiet():
        estimator.fit(X, labels if hasattr(estimator, "predict_proba") else 100 * X[:, 0] - X[:, 1])
    frozen = estimator.freeze()
    name = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    expected = getattr(estimator, name)(X)

    frozen.to_python(tmp_path / "it.py")
    source = (tmp_path / "it.py").read_text()
    assert not any(word in source for word in ("import sknet", "Gated(", "Sharper("))
    spec = importlib.util.spec_from_file_location("it", tmp_path / "it.py")
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    np.testing.assert_array_equal(getattr(written, name)(X), expected)

    for each in (estimator, frozen):
        found = np.reshape(runtime.run(sknet.onnx.export(each), X)[-1], expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        sparse = getattr(each, name)(scipy.sparse.csr_array(X))
        np.testing.assert_allclose(sparse, expected, rtol=1e-5, atol=1e-6)
