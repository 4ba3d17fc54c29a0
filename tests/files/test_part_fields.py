"""Parts of estimators in edited files: losses, callbacks, layers, schemas, ONNX networks and progress."""

import copy
import tempfile
import tracemalloc
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, OrdinalEncoder

import sknet
from sknet import nn, onnx, ops
from sknet.callbacks import EarlyStopping
from sknet.compile import capture
from sknet.exceptions import LoadError
from sknet.losses import SquaredError
from sknet.onnx import Network
from sknet.persistence import read_any, write
from sknet.tabular import TabularClassifier
from tests.estimators.data import quiet
from tests.files.test_fields import put

X = np.random.default_rng(0).normal(size=(60, 4))
LABELS = np.array(["a", "b", "c"])[np.arange(60) % 3]
TABLE = np.c_[X.astype(object), LABELS]
SMALL = {"max_iter": 3, "random_state": 0, "tol": 10.0, "n_iter_no_change": 1}


@cache
def class_of_nodes():
    """Return the class of the operations of a network that was read from a file of ONNX."""
    with tempfile.TemporaryDirectory() as folder:
        onnx.export(sknet.MLPRegressor((3,), **SMALL).fit(X, X[:, 0]), Path(folder) / "it")
        return type(onnx.load(Path(folder) / "it").nodes[0])


def node(op, inputs=("x",), outputs=("y",), **attributes):
    return class_of_nodes()(op, inputs, outputs, attributes)


def network():
    nodes = [
        node("Gemm", ("x", "w"), alpha=2.0, transB=1),
        node("Concat", ("y", "y"), ("z",), axis=1),
        node("Cast", ("z",), ("out",), to=np.dtype("f4")),
    ]
    return Network(nodes, ["x"], ["out"], {"w": np.ones((3, 4), "f4")}, {"two": np.ones(1, "f4")})


def fitted(**others):
    return sknet.MLPClassifier((3,), **SMALL, **others).fit(X, LABELS)


def loss_of(estimator, y, **given):
    """Return the loss of a fitted network: one that wraps another."""
    with quiet():
        return estimator.fit(X, y, **given).model_.loss_function


HONEST = {
    "averaged": lambda: loss_of(sknet.MLPRegressor((3,), n_members=2, **SMALL), X[:, :2]),
    "columns": lambda: loss_of(sknet.MLPClassifier((3,), **SMALL), np.c_[X[:, 0] > 0, np.arange(60) % 3]),
    "standardized": lambda: loss_of(sknet.MLPRegressor((3,), **SMALL), X[:, :2]),
    "offset": lambda: loss_of(sknet.MLPRegressor((3,), **SMALL), X[:, :2], offset=X[:, 2:]),
    "stopping": lambda: fitted(callbacks=[EarlyStopping("loss")]),
    "layer": lambda: fitted().layer(-2),
    "frozen layer": lambda: fitted().freeze().layer(-2),
    "frozen coder": lambda: sknet.Autoencoder((3, 2), **SMALL).fit(X).freeze(),
    "frozen classifier": lambda: fitted().freeze(),
    "lazy": lambda: nn.LazyLinear(3),
    "encoder": lambda: sknet.TableEncoder().fit(TABLE, LABELS),
    "texts": lambda: sknet.TableEncoder().fit([[f"some {'ab'[i % 2]}bb words {i}"] for i in range(60)]),
    "ordinal": lambda: sknet.freeze(
        make_pipeline(OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)).fit(TABLE[:, 4:])
    ),
    "thresholds": lambda: sknet.freeze(
        make_pipeline(Binarizer(), sknet.MLPRegressor((3,), **SMALL)).fit(X, X[:, 0])
    ),
    "frozen table": lambda: (
        TabularClassifier(n_folds=2, budget=0.02, random_state=0).fit(TABLE, LABELS).freeze()
    ),
    "graph": lambda: capture(ops.tanh, X),
    "network": network,
    "model": lambda: fitted().model_,
    "progress": lambda: fitted(early_stopping=True),
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    path, found = tmp_path_factory.mktemp("files") / "it", {}

    def of(name):
        if name not in found:
            sknet.save(HONEST[name](), path)
            sknet.load(path)
            found[name] = read_any(path)[1]
        return found[name]

    return of


EDITS = {
    "no losses": ("averaged", "Averaged", ["params", "losses"], []),
    "losses that are numbers": ("averaged", "Averaged", ["params", "losses"], np.ones(2)),
    "classes that are texts": ("columns", "Columns", ["params", "n_classes"], {"tuple": ["a"]}),
    "classes that are floats": ("columns", "Columns", ["params", "n_classes"], np.ones(2)),
    "no classes": ("columns", "Columns", ["params", "n_classes"], []),
    "a scale of text": ("standardized", "Standardized", ["params", "scale"], {"tuple": ["a", 1.0]}),
    "an offset of columns below 0": ("offset", "WithOffset", ["params", "n_columns"], -1),
    "an offset with a scale of 0": ("offset", "WithOffset", ["params", "scale"], {"tuple": [0.0, 1.0]}),
    "a scale of 0": ("standardized", "Standardized", ["params", "scale"], {"tuple": [0.0, 1.0]}),
    "one scale": ("standardized", "Standardized", ["params", "scale"], {"tuple": [1.0]}),
    "no scale": ("standardized", "Standardized", ["params", "scale"], []),
    "a mean that is NaN": ("standardized", "Standardized", ["params", "mean"], np.full(2, np.nan)),
    "a number without a name": ("stopping", "EarlyStopping", ["state", "_name"], ...),
    "no layer of a frozen transformer": ("frozen coder", "FrozenTransformer", ["_code"], ...),
    "no temperature of a frozen classifier": ("frozen classifier", "FrozenClassifier", ["_temperature"], ...),
    "a layer of nothing": ("layer", "LayerOutput", ["params", "estimator"], None),
    "a layer of a class": ("layer", "LayerOutput", ["params", "estimator"], {"class": "sknet.nn.Linear"}),
    "a layer by a list": ("frozen layer", "LayerOutput", ["params", "layer"], [1]),
    "no version of draws": ("lazy", "LazyLinear", ["settings", "_init_version"], ...),
    "texts without words": ("texts", "Feature", ["words"], None),
    "texts read as dates": ("texts", "Feature", ["form"], "ymd"),
    "too few terms": ("texts", "Words", ["terms"], {"tuple": ["some", "words"]}),
    "other terms": ("texts", "Words", ["form"], "letters"),
    "levels twice": ("encoder", "Feature", ["levels"], {"tuple": ["a", "a", "b"]}),
    "edges in another order": ("encoder", "NumberColumn", ["edges", "tree"], np.array([2.0, 1.0, 0.0])),
    "a negative code": ("ordinal", "Levels", ["codes"], {"tuple": [0.0, 1.0, -1.0]}),
    "a code out of range": ("ordinal", "Levels", ["codes"], {"tuple": [0.0, 1.0, 9.0]}),
    "a fractional code": ("ordinal", "Levels", ["codes"], {"tuple": [0.0, 1.0, 0.5]}),
    "a code too few": ("ordinal", "Levels", ["codes"], {"tuple": [0.0, 1.0]}),
    "levels of a code twice": ("ordinal", "Levels", ["levels"], {"tuple": ["a", "a", "b"]}),
    "a threshold beyond all floats": ("thresholds", "Binarizing", ["threshold"], 10**400),
    "names of an encoder that are lists": (
        "frozen table", "FittedEncoder", ["feature_names_in_"], {"cells": [[5], ["a", "b", "c", "d", [[]]]]},
    ),
    "values of a graph in an array": ("graph", "Graph", ["values"], np.ones(0)),
    "a constant of objects": ("network", "Network", ["settings", "constants", "two"], {"cells": [[1], [1]]}),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_edited_parts_are_refused(name, documents, tmp_path):
    which, cls, path, value = EDITS[name]
    document, found = copy.deepcopy(documents(which)), 0
    for of, state in document["objects"]:
        if of.endswith(f".{cls}"):
            try:
                put(path, value)(state["dict"] if isinstance(state, dict) else state)
                found += 1
            except KeyError:  # of other columns
                continue
    assert found
    write(tmp_path / "it", document, "object")
    with pytest.raises(LoadError, match=r"as objects\[\d+\], an invalid sknet\."):
        sknet.load(tmp_path / "it")


PROGRESS = [[None, 0, 0, 0, None, True], [1, 0, 0, 0, 7, 3], [True, 0, 0, 0, 7, True], [1, 0, 0, 0, -7, True]]


@pytest.mark.parametrize("progress", PROGRESS, ids=str)
def test_progress_of_a_model(progress, documents, tmp_path):
    document = copy.deepcopy(documents("model"))
    put(["progress"], progress)(document["objects"][-1][1]["dict"])
    write(tmp_path / "it", document, "object")
    with pytest.raises(LoadError, match=r"an invalid sknet\.(engine\.)?Model: ValueError"):
        sknet.load(tmp_path / "it")


NODES = {
    "an unknown operator": partial(node, "planted()"),
    "an unknown attribute": partial(node, "Relu", planted=1),
    "an attribute that is a text": partial(node, "Concat", ("x", "x"), axis="planted()"),
    "an attribute that is missing": partial(node, "Concat", ("x", "x")),
    "an attribute that is an object": partial(node, "LeakyRelu", alpha=SquaredError()),
    "an attribute that is none of a list": partial(node, "Gemm", ("x", "w"), transB=7),
    "a dtype of objects": partial(node, "Cast", to=np.dtype("O")),
    "a nested list": partial(node, "Squeeze", axes=[[1]]),
    "too few inputs": partial(node, "Gemm"),
    "too many inputs": partial(node, "LeakyRelu", ("x", "x")),
    "too many outputs": partial(node, "Relu", outputs=("y", "z")),
    "no outputs": partial(node, "Relu", outputs=()),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_of_onnx_networks(name, tmp_path):
    net = Network([node("Relu")], ["x"], ["x"], {"w": np.ones((4, 3))}, {})
    sknet.save(net, tmp_path / "it")
    sknet.load(tmp_path / "it")
    net.nodes = (NODES[name](),)
    try:
        sknet.save(net, tmp_path / "it")
    except TypeError:  # nothing can be stored that is not a value
        return
    with pytest.raises(LoadError, match=r"an invalid sknet\.onnx\.(Network|Node): ValueError"):
        sknet.load(tmp_path / "it")


def change_settings(path, layer, field, old, new):
    """Change a setting of the layers of a class in a file."""
    kind, document = read_any(path)
    document = copy.deepcopy(document)
    parts = [
        state["dict"]["settings"]["dict"] for of, state in document["objects"] if of.endswith(f".{layer}")
    ]
    changed = [settings for settings in parts if settings[field] == old]
    for settings in changed:
        settings[field] = new
    assert changed
    write(path, document, kind)


def assert_loads_in_memory_of_the_file(path):
    tracemalloc.start()
    try:
        sknet.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * path.stat().st_size + (16 << 20)


@pytest.mark.parametrize("n_positions", [2**18, 2**26, 2**60])
def test_a_pass_without_data_takes_no_memory(n_positions, tmp_path):
    """Layers that compute constants of the shape of their input, after one that enlarges it."""
    images = np.random.default_rng(0).normal(size=(20, 2, 4, 4))
    layers = [nn.Upsample(scale_factor=2), nn.PositionalEncoding(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    net = nn.Sequential(*layers, nn.Linear(2, 1))
    sknet.save(sknet.NetRegressor(net, **SMALL).fit(images, images[:, 0, 0, 0]), tmp_path / "it", "predict")
    given = {"tuple": [n_positions // 4, 2]}
    change_settings(tmp_path / "it", "Upsample", "scale_factor", 2, given)
    assert_loads_in_memory_of_the_file(tmp_path / "it")


LENGTHS = {
    "means": (lambda n: nn.AdaptiveAvgPool2d((n, 3)), "output_size", lambda n: {"tuple": [n, 3]}),
    "maxima": (lambda n: nn.AdaptiveMaxPool2d((n, 3)), "output_size", lambda n: {"tuple": [n, 3]}),
    "columns": (lambda n: nn.AdaptiveAvgPool2d((3, n)), "output_size", lambda n: {"tuple": [3, n]}),
    "nearest": (lambda n: nn.Upsample(size=(n, 3)), "size", lambda n: {"tuple": [n, 3]}),
    "bilinear": (lambda n: nn.Upsample(size=(n, 3), mode="bilinear"), "size", lambda n: {"tuple": [n, 3]}),
    "bicubic": (lambda n: nn.Upsample(size=(n, 3), mode="bicubic"), "size", lambda n: {"tuple": [n, 3]}),
    "replicate": (lambda n: nn.Pad2d(n, mode="replicate"), "padding", lambda n: n),
    "circular": (lambda n: nn.Pad2d(n, mode="circular"), "padding", lambda n: n),
    "reflect": (lambda n: nn.Pad2d(n, mode="reflect"), "padding", lambda n: n),
}


@pytest.mark.parametrize("length", [4001, 10**6 + 1, 2**31 - 1])
@pytest.mark.parametrize("name", LENGTHS)
def test_tables_of_the_length_that_a_file_says_take_no_memory(name, length, tmp_path):
    """Layers that make tables on the host for each element of their result."""
    made, field, stored = LENGTHS[name]
    images = np.random.default_rng(0).normal(size=(20, 2, 4, 4))
    net = nn.Sequential(made(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 1))
    sknet.save(sknet.NetRegressor(net, **SMALL).fit(images, images[:, 0, 0, 0]), tmp_path / "it", "predict")
    change_settings(tmp_path / "it", type(made(2)).__name__, field, stored(2), stored(length))
    assert_loads_in_memory_of_the_file(tmp_path / "it")
