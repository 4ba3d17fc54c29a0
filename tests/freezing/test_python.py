"""Frozen pipelines written as Python compute the same where NumPy is all there is."""

import importlib.util
import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import sknet
from sknet.exceptions import CaptureError
from tests.freezing.pipelines import fitted, frame, random_pipeline

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform")


def module_of(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dense(x):
    return x.toarray() if hasattr(x, "toarray") else x


@pytest.mark.parametrize("seed", range(10))
def test_random_pipelines(seed, tmp_path):
    rng = np.random.default_rng(seed)
    pipeline, table = random_pipeline(rng, by_name=True), frame(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted(pipeline, table, rng)
        frozen = sknet.freeze(pipeline)
        frozen.to_python(tmp_path / "written.py")
        written = module_of(tmp_path / "written.py")
        n_compared = 0
        for method in METHODS:
            assert hasattr(written, method) == (method in written.__all__)
            if method not in written.__all__:  # hidden layers are written if one is asked for
                assert method == "transform" or not hasattr(pipeline, method)
                continue
            for X in (table, table[:1], {name: table[name].to_numpy() for name in table}):
                expected = dense(getattr(pipeline, method)(table[: len(X["age"])]))
                found = getattr(written, method)(X)
                if expected.dtype.kind == "f":
                    rtol = 1e-5 if expected.dtype == "float32" else 1e-12  # of sparse products
                    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
                else:
                    np.testing.assert_array_equal(found, expected)
                n_compared += 1
    assert n_compared


RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(30, 2))
WORDS = RNG.choice(np.array(["ant", "bee", "cat"], dtype=object), (30, 2))
X = np.c_[np.where(RNG.random((30, 2)) < 0.1, np.nan, NUMBERS), WORDS].astype(object)
Y = NUMBERS[:, 0] + (WORDS[:, 0] == "bee")


def columns():
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), MinMaxScaler(clip=True)), [0, 1]),
            ("one", OneHotEncoder(handle_unknown="ignore", sparse_output=False), [2]),
            ("order", OrdinalEncoder(), slice(3, 4)),
        ],
        transformer_weights={"one": 0.5},
    )


SCRIPT = """
import json, sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sknet", "sklearn", "scipy", "pandas"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
folder, X, names = json.loads(sys.stdin.read())
sys.path.insert(0, folder)
found = {}
for name in names:
    module = __import__(name)
    found[name] = [getattr(module, method)(X).tolist() for method in module.__all__]
print(json.dumps(found))
"""
NET = {"hidden_layer_sizes": (4,), "max_iter": 3, "random_state": 0}
MEMBERS = {"n_folds": 2, "budget": 0.05, "random_state": 0}
LABELS = np.where(Y > 1, "high", np.where(Y > 0, "middle", "low"))


def scaled(regressor):
    return TransformedTargetRegressor(regressor, transformer=StandardScaler())


ALONE = {
    "target": scaled(make_pipeline(columns(), sknet.MLPRegressor(**NET))),
    "encoded": sknet.MLPClassifier(encoder="table", **NET),
    "encoded_target": scaled(sknet.MLPRegressor(encoder=sknet.TableEncoder(n_bins=4), **NET)),
    "encoded_scaled": make_pipeline(columns(), MinMaxScaler(), sknet.MLPClassifier(encoder="table", **NET)),
    "encoder": make_pipeline(sknet.TableEncoder(), sknet.MLPClassifier(**NET)),
    "bins": make_pipeline(columns(), KBinsDiscretizer(4, encode="onehot-dense"), sknet.MLPClassifier(**NET)),
    "powers": make_pipeline(columns(), PowerTransformer(), sknet.MLPRegressor(**NET)),
    "quantiles": make_pipeline(columns(), QuantileTransformer(n_quantiles=9), sknet.MLPRegressor(**NET)),
    "ensemble": sknet.tabular.TabularClassifier(**MEMBERS),
    "ensemble_scaled": make_pipeline(columns(), StandardScaler(), sknet.tabular.TabularClassifier(**MEMBERS)),
    "ensemble_target": scaled(sknet.tabular.TabularRegressor(**MEMBERS)),
}


@pytest.mark.slow
def test_they_need_numpy_alone(tmp_path):
    frozen = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in ALONE.items():
            model.fit(X, LABELS if is_classifier(model) else Y)
            frozen[name] = sknet.freeze(model)
            frozen[name].to_python(tmp_path / f"{name}.py")
    rows = [[None if x != x else x for x in row] for row in X.tolist()]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([str(tmp_path), X.tolist(), list(ALONE)]),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name, found in json.loads(done.stdout).items():
        module = module_of(tmp_path / f"{name}.py")
        assert "predict" in module.__all__
        for method, values in zip(module.__all__, found, strict=True):
            np.testing.assert_array_equal(values, getattr(frozen[name], method)(X), err_msg=name)
            np.testing.assert_array_equal(values, getattr(ALONE[name], method)(X), err_msg=name)
    np.testing.assert_array_equal(
        module_of(tmp_path / "encoded.py").predict(rows), frozen["encoded"].predict(rows)
    )


def test_what_it_refuses(tmp_path):
    sknet.freeze(columns().fit(X)).to_python(tmp_path / "written.py")
    written = module_of(tmp_path / "written.py")
    np.testing.assert_array_equal(written.transform(X), columns().fit_transform(X))
    for wrong, message in (
        (X[:, :3], "expected rows of 4 columns"),
        (X[:0], "at least one"),
        ([["a", "b"]], "expected rows of 4 columns"),
        ([[0.0, np.inf, "ant", "bee"]], "X contains infinity"),
        ([[0.0, 1.0, "ant", "dog"]], "Found unknown category 'dog' in column 0"),
    ):
        with pytest.raises(ValueError, match=message):
            written.transform(wrong)
    named = StandardScaler().fit(frame(np.random.default_rng(0))[["age", "size"]])
    sknet.freeze(named).to_python(tmp_path / "named.py")
    with pytest.raises(ValueError, match="X has no column 'size'"):
        module_of(tmp_path / "named.py").transform({"age": [1.0]})


def test_what_cannot_be_written(tmp_path):
    strange = OneHotEncoder(sparse_output=False).fit(np.array([[(1, 2)], [(3,)], [None]], dtype=object)[:2])
    with pytest.raises(CaptureError, match=r"a level \(1, 2\) cannot be written"):
        sknet.freeze(strange).to_python(tmp_path / "written.py")
    assert not (tmp_path / "written.py").exists()
    passed = sknet.freeze(FunctionTransformer(np.tanh).fit(NUMBERS))
    passed.to_python(tmp_path / "written.py")
    np.testing.assert_array_equal(module_of(tmp_path / "written.py").transform(NUMBERS), np.tanh(NUMBERS))
