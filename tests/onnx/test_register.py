"""Pipelines with networks, converted by skl2onnx: onnxruntime's outputs equal their predictions."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

import sknet
from sknet import NetClassifier, NetRegressor, neural_network, nn, onnx
from tests.estimators.data import TABLES
from tests.onnx.runtime import names_and_arrays

NAMES = np.array(["cold", "mild", "hot", "torrid"])
ARRAYS = {"zipmap": False}


@pytest.fixture(autouse=True)
def registered():
    onnx.register()


def quick(kind, **params):
    return kind(**{"hidden_layer_sizes": (7,), "max_iter": 3, "random_state": 0, **params})


def fitted(estimator, X, y=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


def tolerance(dtype):
    return {"rtol": 5e-5, "atol": 5e-5} if dtype == "float32" else {"rtol": 3e-6, "atol": 3e-6}


CLASSIFIERS = {
    "binary": (sknet.MLPClassifier, "binary", {}),
    "multiclass": (sknet.MLPClassifier, "multiclass", {}),
    "multilabel": (sknet.MLPClassifier, "multilabel", {}),
    "ordinal": (sknet.MLPClassifier, "ordinal", {"loss": "ordinal"}),
    "calibrated": (sknet.MLPClassifier, "multiclass", {"calibrate": "temperature", "early_stopping": True}),
    "columns": (sknet.MLPClassifier, "columns", {}),
    "scikit-learn's": (neural_network.MLPClassifier, "multiclass", {}),
    "gelu": (sknet.MLPClassifier, "multiclass", {"activation": "gelu"}),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
@pytest.mark.parametrize("case", CLASSIFIERS)
def test_a_scaler_and_a_classifier_are_one_model(case, scaler, dtype):
    kind, task, params = CLASSIFIERS[case]
    X, y = TABLES[task]
    X = (X * 3 + 5).astype(dtype)
    if task in ("binary", "multiclass"):
        y = NAMES[y]
    pipeline = fitted(make_pipeline(scaler(), quick(kind, **params)), X[:160], y[:160])
    model = to_onnx(pipeline, X[:1], options=ARRAYS)
    for rows in (X[160:], X[:1]):
        found = names_and_arrays(model, rows)
        assert list(found) == ["label", "probabilities"]
        wanted = pipeline.predict_proba(rows)
        if isinstance(wanted, list):
            wanted = np.stack([np.pad(part, ((0, 0), (0, 3 - part.shape[1]))) for part in wanted])
        assert found["probabilities"].dtype == dtype
        np.testing.assert_allclose(found["probabilities"], wanted, **tolerance(dtype))
        assert (found["label"] == pipeline.predict(rows)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "params", [{}, {"scale_target": True}, {"loss": "gaussian_nll"}, {"loss": "quantile"}], ids=str
)
@pytest.mark.parametrize("task", ["regression", "multioutput"])
def test_a_scaler_and_a_regressor_are_one_model(task, params, dtype):
    X, y = TABLES[task]
    X = X.astype(dtype)
    pipeline = fitted(make_pipeline(StandardScaler(), quick(sknet.MLPRegressor, **params)), X, y)
    found = names_and_arrays(to_onnx(pipeline, X[:1]), X)
    wanted = pipeline.predict(X).reshape(len(X), -1)
    np.testing.assert_allclose(found["variable"], wanted, **tolerance(dtype))


def frame(n_rows):
    rng = np.random.default_rng(n_rows)
    return pd.DataFrame({
        "age": rng.normal(40, 10, n_rows).astype("float32"),
        "height": rng.normal(1.7, 0.1, n_rows).astype("float32"),
        "city": rng.choice(["Bonn", "Oslo", "Rome"], n_rows),
    })  # fmt: skip


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 7], ["a", "b", "c"]], ids=str)
def test_columns_of_numbers_and_categories_and_a_classifier(labels):
    X = frame(200)
    y = np.array(labels)[(X["age"] > 40).astype(int) + (len(labels) > 2) * (X["city"] == "Rome")]
    encoder = ColumnTransformer([
        ("numbers", StandardScaler(), ["age", "height"]),
        ("city", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["city"]),
    ])  # fmt: skip
    pipeline = fitted(make_pipeline(encoder, quick(sknet.MLPClassifier, max_iter=20)), X, y)
    model = to_onnx(pipeline, X[:1], options=ARRAYS)
    new = frame(50)
    new.loc[0, "city"] = "Quito"
    columns = [new[[name]].to_numpy() for name in new]
    found = names_and_arrays(model, *columns)
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(new), rtol=2e-4, atol=2e-4)
    assert (found["label"] == pipeline.predict(new)).mean() > 0.97


def test_probabilities_are_dicts_unless_arrays_are_asked_for():
    X, y = TABLES["multiclass"]
    pipeline = fitted(make_pipeline(StandardScaler(), quick(sknet.MLPClassifier)), X, NAMES[y])
    found = names_and_arrays(to_onnx(pipeline, X[:1].astype("float32")), X.astype("float32"))
    assert list(found) == ["output_label", "output_probability"]
    first = found["output_probability"][0]
    assert list(first) == ["cold", "hot", "mild"]
    np.testing.assert_allclose(list(first.values()), pipeline.predict_proba(X)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labels", [NAMES[:3], NAMES[:2], np.arange(2) + 5], ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"zipmap": True},
        {"zipmap": "columns"},
        {"zipmap": False, "nocl": True},
        {"zipmap": False, "output_class_labels": True},
        {"zipmap": False, "raw_scores": True},
        {"zipmap": False, "raw_scores": True, "nocl": True},
        {"zipmap": True, "nocl": True},
    ],
    ids=str,
)
def test_options_are_those_of_other_classifiers(options, labels):
    X, y = TABLES["multiclass"]
    X, y = X.astype("float32"), labels[y % len(labels)]
    clf, peer = fitted(quick(sknet.MLPClassifier), X, y), fitted(LogisticRegression(), X, y)
    model, other = (to_onnx(each, X[:1], options={id(each): options}) for each in (clf, peer))
    signatures = [
        [(x.name, x.type.SerializeToString()) for x in each.graph.output] for each in (model, other)
    ]
    assert signatures[0] == signatures[1]
    found = names_and_arrays(model, X)
    label = found["output_label" if options["zipmap"] else "label"]
    expected = clf.predict(X)
    assert (label == (np.searchsorted(clf.classes_, expected) if options.get("nocl") else expected)).all()
    if options.get("raw_scores"):
        scores = clf.decision_function(X)
        scores = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        np.testing.assert_allclose(found["probabilities"], scores, rtol=1e-4, atol=1e-5)
    elif not options["zipmap"]:
        np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=1e-4, atol=1e-5)
    if options.get("output_class_labels"):
        assert found["class_labels"].tolist() == clf.classes_.tolist()


def test_without_probabilities_there_are_scores():
    X, y = TABLES["binary"]
    pipeline = fitted(make_pipeline(StandardScaler(), quick(sknet.MLPClassifier, loss="hinge")), X, NAMES[y])
    found = names_and_arrays(to_onnx(pipeline, X[:1]), X)
    assert list(found) == ["label", "scores"]
    assert (found["label"] == pipeline.predict(X)).all()
    np.testing.assert_allclose(found["scores"], pipeline.decision_function(X), rtol=1e-6, atol=1e-6)


def test_a_network_in_the_middle_of_a_pipeline():
    X, y = TABLES["multiclass"]
    coder = quick(sknet.Autoencoder, hidden_layer_sizes=(6, 3))
    pipeline = fitted(make_pipeline(StandardScaler(), coder, LogisticRegression()), X, y)
    found = names_and_arrays(to_onnx(pipeline, X[:1], options=ARRAYS), X)
    np.testing.assert_allclose(found["probabilities"], pipeline.predict_proba(X), rtol=1e-4, atol=1e-4)
    layer = fitted(quick(sknet.MLPClassifier), X, y).layer(-2)
    pipeline = fitted(make_pipeline(layer, LogisticRegression()), X, y)
    found = names_and_arrays(to_onnx(pipeline, X[:1], options=ARRAYS), X)
    assert (found["label"] == pipeline.predict(X)).mean() > 0.98


class Rows(nn.Module):
    def __init__(self, n_features, n_outputs):
        self.body = nn.Sequential(
            nn.Linear(n_features, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, n_outputs)
        )

    def forward(self, x):
        return self.body(x)


class Both(nn.Module):
    def __init__(self, n_outputs):
        self.embedding = nn.Embedding(20, 4)
        self.last = nn.Linear(4 + 3, n_outputs)

    def forward(self, numbers, word):
        return self.last(sknet.ops.concat([numbers, self.embedding(word)], axis=1))


class Mine(NetRegressor):
    """A custom estimator."""


def test_custom_networks():
    X, y = TABLES["regression"]
    onnx.register(Mine)
    pipeline = fitted(make_pipeline(StandardScaler(), Mine(Rows, max_iter=3, random_state=0)), X, y)
    found = names_and_arrays(to_onnx(pipeline, X[:1]), X)
    np.testing.assert_allclose(found["variable"][:, 0], pipeline.predict(X), rtol=1e-5, atol=1e-5)


def test_several_inputs_are_named_by_their_types():
    rng = np.random.default_rng(0)
    X = {"numbers": rng.normal(size=(60, 3)).astype("float32"), "word": rng.integers(0, 20, 60)}
    clf = fitted(NetClassifier(Both, max_iter=3, random_state=0), X, rng.integers(0, 3, 60))
    types = [("numbers", FloatTensorType([None, 3])), ("word", Int64TensorType([None]))]
    found = names_and_arrays(to_onnx(clf, initial_types=types, options=ARRAYS), X["numbers"], X["word"])
    np.testing.assert_allclose(found["probabilities"], clf.predict_proba(X), rtol=1e-5, atol=1e-6)
    assert (found["label"] == clf.predict(X)).all()
    with pytest.raises(ValueError, match="holds integers, and is given a FloatTensorType"):
        to_onnx(clf, initial_types=[types[0], ("word", FloatTensorType([None]))])
    with pytest.raises(ValueError, match=r"has the inputs \['numbers', 'word'\], but got \['numbers', 'x'\]"):
        to_onnx(clf, initial_types=[types[0], ("x", Int64TensorType([None]))])


def test_older_opsets_work_if_they_have_the_operators():
    X, y = TABLES["regression"]
    for activation, opset in (("relu", 15), ("tanh", 17)):
        reg = fitted(quick(sknet.MLPRegressor, activation=activation), X, y)
        model = to_onnx(reg, X[:1], target_opset=opset)
        assert {each.version for each in model.opset_import if not each.domain}.pop() <= opset
        found = names_and_arrays(model, X)
        np.testing.assert_allclose(found["variable"][:, 0], reg.predict(X), rtol=1e-6, atol=1e-6)


def test_integers_are_converted_to_floats():
    X, y = TABLES["regression"]
    X = np.round(X * 10).astype(np.int64)
    reg = fitted(quick(sknet.MLPRegressor), X, y)
    found = names_and_arrays(to_onnx(reg, X[:1]), X)
    np.testing.assert_allclose(found["variable"][:, 0], reg.predict(X), rtol=1e-4, atol=1e-4)


def test_mistakes_are_named(monkeypatch):
    X, y = TABLES["regression"]
    frozen = sknet.freeze(fitted(make_pipeline(StandardScaler(), quick(sknet.MLPRegressor)), X, y))
    with pytest.raises(TypeError, match=r"got FrozenPipeline: call .*, and convert the pipeline"):
        onnx.export(frozen)
    with pytest.raises(TypeError, match=r"derived from estimators of sknet, got .*LogisticRegression"):
        onnx.register(LogisticRegression)
    X, y = TABLES["columns"]
    clf = fitted(quick(sknet.MLPClassifier), X, y)
    with pytest.raises(ValueError, match="an array with 3 axes, which cannot be turned into dicts"):
        to_onnx(clf, X[:1])
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r'pip install "scikit-neural\[onnx\]"'):
        onnx.register()
