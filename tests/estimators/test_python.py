"""Predictors written as Python predict the same without sknet and scikit-learn."""

import importlib.util
import json
import keyword
import pickle
import subprocess
import sys
import tokenize

import numpy as np
import pytest

import sknet
from sknet import NetClassifier, NetRegressor, NetTransformer, losses, nn, ops
from sknet.exceptions import CaptureError
from sknet.losses import LOSSES
from tests.estimators.data import TABLES, estimator_for, quiet
from tests.estimators.nets import Both, Gate, Images, Tokens

METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("predict_std", "predict_quantiles", "predict_interval", "transform", "inverse_transform"),
)
SIZES = (1, 3, 40)
NAMES = np.array(["cold", "mild", "hot", "torrid"])
# The logistic function and `erfc` are SciPy's: results differ in the last digits.
ROUNDED = {f"activation {name}" for name in ("gelu", "logistic", "sigmoid", "silu")}
WITH_LOGISTIC = {"objects", "bools", "multilabel", "ordinal"}


class Attending(nn.Module):
    def __init__(self, n_outputs):
        self.embedding = nn.Embedding(20, 8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.norm = nn.LayerNorm(8)
        self.last = nn.Linear(8, n_outputs)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.last(self.norm(x + self.attention(x, x, x)))


RNG = np.random.default_rng(0)
IMAGES, TOKENS = RNG.normal(size=(50, 1, 8, 8)), RNG.integers(0, 20, (50, 7))
CLASSES = NAMES[RNG.integers(0, 3, 50)]


def net(kind, module, X, y=None, **params):
    with quiet():
        return kind(module, max_iter=1, random_state=0, **params).fit(X, y), X


def table(task, y=None, **params):
    X, known = TABLES[task]
    with quiet():
        found = estimator_for(task, **{"max_iter": 1, **params}).fit(X, known if y is None else y)
    return found, X


def of_loss(name, **params):
    loss = LOSSES[name]
    task = next(task for task in TASKS if _fits(loss, task))
    y = TABLES[task][1]
    if task == "multioutput":
        y = np.abs(y) + 0.1
        shares, times = y / y.sum(axis=1, keepdims=True), np.c_[y[:, 0], y[:, 1] > y[:, 2]]
        y = shares if loss.columns_per_target == 1 else times
    return table(task, y, loss=name, **params)


def _fits(loss, task):
    return task.replace("multioutput", "regression") in loss.tasks and not (
        loss().of_probabilities and task != "multioutput"
    )


HELD = {"early_stopping": True, "calibrate": "temperature", "max_iter": 2}
OWN = {name: (lambda cls=cls: table("multiclass", activation=cls(), dtype="float32"))
       for name, cls in nn.ACTIVATIONS.items()}  # fmt: skip
TASKS = ("multioutput", "multiclass", "binary", "ordinal", "multilabel")
LOSSES_HERE = [name for name, loss in LOSSES.items() if any(_fits(loss, task) for task in TASKS)]
CASES = {
    **{f"activation {name}": make for name, make in OWN.items()},
    **{f"loss {name}": (lambda name=name: of_loss(name)) for name in LOSSES_HERE},
    "module of one's own": lambda: table("multiclass", activation=Gate()),
    "norms": lambda: table(
        "regression", activation=nn.Sequential(nn.BatchNorm(8), nn.LayerNorm(8), nn.PReLU())
    ),
    "strings": lambda: table("multiclass", NAMES[TABLES["multiclass"][1]], **HELD),
    "objects": lambda: table("binary", NAMES[TABLES["binary"][1]].astype(object), **HELD),
    "bools": lambda: table("binary", TABLES["binary"][1] > 0),
    "multilabel": lambda: table("multilabel"),
    "columns": lambda: table("columns", **HELD),
    "ordinal": lambda: table("ordinal", loss=losses.Ordinal([2, 0, 1, 3]), **HELD),
    "quantiles": lambda: table("multioutput", loss=losses.Quantile([0.1, 0.5, 0.9])),
    "quantiles of another interval": lambda: table("regression", loss=losses.Quantile([0.3, 0.7])),
    "deviations": lambda: table("regression", loss="gaussian_nll", scale_target=True),
    "wide, in parts": lambda: table("regression", hidden_layer_sizes=(70_000,)),
    "averaged": lambda: table("regression", optimizer=sknet.optim.EMA(sknet.optim.Adam(), 0.9)),
    "images": lambda: net(NetClassifier, Images, IMAGES, CLASSES),
    "tokens": lambda: net(NetClassifier, Tokens, TOKENS, CLASSES),
    "LSTM": lambda: net(
        NetRegressor, nn.ModuleFactory(Tokens, cell=nn.LSTM), TOKENS, RNG.normal(size=50)
    ),
    "lengths": lambda: net(
        NetClassifier, Tokens, {"tokens": TOKENS, "lengths": RNG.integers(1, 8, 50)}, CLASSES
    ),
    "several inputs": lambda: net(
        NetRegressor, Both, {"numbers": RNG.normal(size=(50, 3)), "word": TOKENS[:, 0]}, RNG.normal(size=50)
    ),
    "positions": lambda: net(NetClassifier, Attending, TOKENS, NAMES[TOKENS % 3]),
    "code": lambda: net(sknet.Autoencoder, (6, 3), TABLES["binary"][0]),
    "coder of one's own": lambda: net(NetTransformer, coder(), IMAGES[:, 0, 0]),
}  # fmt: skip


def coder():
    found = nn.Sequential()
    found.encoder, found.decoder = nn.Linear(8, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 8))
    return found


def rows_of(X, n):
    return {name: x[:n] for name, x in X.items()} if isinstance(X, dict) else X[:n]


def arrays_of(result):
    return result if isinstance(result, list) else [result]


# Runs where importing anything but NumPy and the standard library is an error.
CHECK = """
import importlib.util, json, pickle, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sknet", "sklearn", "scipy", "joblib"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
import numpy as np

wrong = []
for name, path, cases in pickle.load(open(sys.argv[1], "rb")):
    spec = importlib.util.spec_from_file_location("predictor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    methods = {method for method, *_ in cases}
    if methods != set(module.__all__):
        wrong.append((name, "functions", sorted(methods), module.__all__))
    for method, given, wanted, tolerance in cases:
        found = getattr(module, method)(given)
        found = found if isinstance(found, list) else [found]
        for ours, theirs in zip(found, wanted, strict=True):
            if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
                wrong.append((name, method, str(ours.dtype), ours.shape, str(theirs.dtype), theirs.shape))
            elif tolerance and ours.dtype.kind == "f":
                if not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance, equal_nan=True):
                    wrong.append((name, method, len(ours), float(np.nanmax(np.abs(ours - theirs)))))
            elif not np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"):
                wrong.append((name, method, len(ours), "bits"))
loaded = [name for name in sys.modules if name.partition(".")[0] in ("sknet", "sklearn", "scipy")]
print(json.dumps([wrong, loaded]))
"""


def tolerance_of(name, method, frozen):
    """Return 0 if results are bitwise identical."""
    by_link = name in WITH_LOGISTIC and method in ("predict_proba", "predict_log_proba")
    eps = np.finfo("float32" if "float32" in repr(frozen) else "float64").eps
    return 64 * eps if by_link or name in ROUNDED else 0.0


@pytest.mark.slow
def test_a_fresh_python_with_numpy_alone_predicts_the_same(tmp_path):
    jobs = []
    for number, (name, make) in enumerate(CASES.items()):
        estimator, X = make()
        frozen = estimator.freeze()
        path, cases = tmp_path / f"predictor_{number}.py", []
        frozen.to_python(path)
        for method in METHODS:
            is_code = hasattr(frozen, "inverse_transform")
            if not hasattr(frozen, method) or (method == "transform" and not is_code):
                continue
            if name == "quantiles of another interval" and method == "predict_interval":
                continue
            for n in SIZES:
                given = rows_of(X, n)
                given = frozen.transform(given) if method == "inverse_transform" else given
                wanted = [np.asarray(a) for a in arrays_of(getattr(frozen, method)(given))]
                cases.append((method, given, wanted, tolerance_of(name, method, frozen)))
        jobs.append((name, str(path), cases))
    (tmp_path / "jobs").write_bytes(pickle.dumps(jobs))
    (tmp_path / "check.py").write_text(CHECK)
    command = [sys.executable, str(tmp_path / "check.py"), str(tmp_path / "jobs")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    wrong, loaded = json.loads(done.stdout)
    assert not wrong
    assert not loaded


def imported(frozen, path, **params):
    frozen.to_python(path, **params)
    spec = importlib.util.spec_from_file_location("predictor", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_may_be_many_labels_or_targets(tmp_path):
    X, y = RNG.normal(size=(200, 3)), np.arange(200) % 20
    several = RNG.normal(size=(200, 20))
    for estimator, target in (
        (sknet.MLPClassifier((4,), max_iter=1), y),
        (sknet.MLPClassifier((4,), max_iter=1), np.char.add("level ", y.astype(str))),
        (sknet.TabularClassifier(budget=0.01, sharp=None), y),
        (sknet.TabularRegressor(budget=0.01, sharp=None), several),
    ):
        with quiet():
            frozen = estimator.set_params(random_state=0).fit(X, target).freeze()
        found = imported(frozen, tmp_path / "predictor.py").predict(X)
        np.testing.assert_array_equal(found, frozen.predict(X))


def test_a_layer_and_a_coverage_may_be_chosen(tmp_path):
    clf, X = table("multiclass", hidden_layer_sizes=(6, 4))
    module = imported(clf.freeze(), tmp_path / "a.py", layer=1)
    np.testing.assert_array_equal(module.transform(X), clf.freeze().transform(X, 1))
    for loss, coverage in (("gaussian_nll", 0.95), (losses.Quantile([0.25, 0.5, 0.75]), 0.5)):
        frozen = table("multioutput", loss=loss)[0].freeze()
        module = imported(frozen, tmp_path / "b.py", coverage=coverage)
        wanted = frozen.predict_interval(X, coverage)
        np.testing.assert_array_equal(module.predict_interval(X, coverage), wanted)
        np.testing.assert_array_equal(module.predict_interval(X), wanted)
        with pytest.raises(ValueError, match=f"this file has intervals of {coverage}, got 0.7"):
            module.predict_interval(X, 0.7)
    with pytest.raises(ValueError, match="quantile"):
        frozen.to_python(tmp_path / "c.py", coverage=0.8)
    with pytest.raises(ValueError, match="no layer"):
        frozen.to_python(tmp_path / "c.py", layer="nowhere")
    assert not (tmp_path / "c.py").exists()


class Named(nn.Module):
    """Has a parameter of every name."""

    names = ("weight",)

    def __init__(self, n_outputs):
        for name in self.names:
            setattr(self, name, nn.Parameter(RNG.normal(size=(3, n_outputs))))

    def outputs(self, inputs):
        x = sum(inputs)
        return ops.log_softmax(ops.max(x, axis=1, keepdims=True) * sum(x @ w for w in self.parameters()))


def reading(names):
    """Return a network with inputs of these names."""
    namespace, inputs = {}, ", ".join(names)
    exec(f"def forward(self, {inputs}): return self.outputs([{inputs}])", namespace)
    return type("Reading", (Named,), {"forward": namespace["forward"]})


def names_in(path):
    """Return all names in a Python file."""
    with open(path, "rb") as file:
        found = {token.string for token in tokenize.tokenize(file.readline) if token.type == tokenize.NAME}
    return {name for name in found if not keyword.iskeyword(name)}


def test_users_may_give_any_names(tmp_path):
    """Those of parameters and inputs hide nothing that the file, or Python, calls so."""
    numbers = RNG.normal(size=(50, 3))
    known = "X"
    for kind in ("plain", "parameters", "inputs"):
        network = reading(["X"] if kind != "inputs" else sorted(known))
        if kind == "parameters":
            network.names = [*sorted(known), "lambda", "2nd", "size\nof steps"]
        X = dict.fromkeys(known, numbers / len(known)) if kind == "inputs" else numbers
        clf, _ = net(NetClassifier, network, X, CLASSES)
        module = imported(clf.freeze(), tmp_path / "a.py")
        np.testing.assert_allclose(module.predict_proba(X), clf.predict_proba(X), rtol=1e-6)
        np.testing.assert_array_equal(module.predict(X), clf.predict(X))
        if kind == "plain":
            known = names_in(tmp_path / "a.py") | {"len", "min", "v2", "k0"}
            known -= {*dir(nn.Module), "self", "weight"}


def test_signatures_are_those_of_the_predictor(tmp_path):
    reg, X = table("regression", loss="gaussian_nll")
    module = imported(reg.freeze(), tmp_path / "a.py")
    mean, deviation = module.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, reg.freeze().predict(X))
    np.testing.assert_array_equal(deviation, reg.freeze().predict_std(X))
    clf, X = CASES["lengths"]()
    module = imported(clf.freeze(), tmp_path / "b.py")
    wanted = clf.freeze().predict_proba(X)
    np.testing.assert_array_equal(module.predict_proba(X["tokens"], lengths=X["lengths"]), wanted)
    np.testing.assert_array_equal(module.predict_proba(X), wanted)
    for given, got in ((X["tokens"], "one array"), ({"tokens": X["tokens"]}, r"\['tokens'\]")):
        with pytest.raises(ValueError, match=rf"\['tokens', 'lengths'\], got {got}: lengths is missing"):
            module.predict_proba(given)


def test_inputs_may_be_lists_of_any_dtype_and_layout(tmp_path):
    clf, X = table("multiclass", dtype="float32")
    module, frozen = imported(clf.freeze(), tmp_path / "a.py"), clf.freeze()
    wanted = frozen.predict_proba(X)
    for given in (X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        np.testing.assert_array_equal(module.predict_proba(given), wanted)
    assert module.classes_.tolist() == [0, 1, 2]


def test_wrong_inputs_are_named(tmp_path):
    clf, X = table("multiclass")
    module = imported(clf.freeze(), tmp_path / "a.py")
    for given, message in (
        (X[:, :3], r"X: expected numbers of shape \(n_samples, 12\), got float64 of shape \(230, 3\)"),
        (X[0], r"X: expected numbers of shape \(n_samples, 12\)"),
        (X.astype(str), "X: expected numbers"),
        (X[:0], "X: expected at least one row, got none"),
        (np.where(X > 1, np.nan, X), "X contains NaN or infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            module.predict(given)
    regressor, X = CASES["several inputs"]()
    module = imported(regressor.freeze(), tmp_path / "b.py")
    with pytest.raises(ValueError, match="word must hold integers, got float64"):
        module.predict({**X, "word": X["word"] * 1.0})
    with pytest.raises(ValueError, match=r"as many rows in each of \['numbers', 'word'\]"):
        module.predict({**X, "word": X["word"][:3]})


class Reading(nn.Module):
    """An activation that cannot be captured, because it reads a value."""

    def forward(self, x):
        return ops.relu(x) if float(ops.sum(x).item()) > -1e9 else x


def test_unsupported_predictors_are_named(tmp_path):
    with pytest.warns(UserWarning, match="not compiled"):
        reading, _ = table("binary", activation=Reading())
    with pytest.raises(CaptureError, match=r"Compute with sknet\.ops"):
        reading.freeze().to_python(tmp_path / "a.py")
    clf, _ = table("binary", np.array(["2026-01-01", "2026-01-02"], "datetime64[D]")[TABLES["binary"][1]])
    with pytest.raises(CaptureError, match=r"datetime64\[D\] cannot be written"):
        clf.freeze().to_python(tmp_path / "a.py")
    levels = np.array([(1, 2), (3,)], dtype=object)[np.arange(230) % 2].reshape(-1, 1)
    encoded = estimator_for("binary", encoder="table", max_iter=1)
    with quiet(), pytest.raises(CaptureError, match=r"column 0: a level \(1, 2\) cannot be written"):
        encoded.fit(levels, TABLES["binary"][1]).freeze().to_python(tmp_path / "a.py")
    assert not list(tmp_path.iterdir())
