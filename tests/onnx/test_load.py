"""Loaded networks, sknet's and others', compute the same function and can be trained."""

import pickle

import numpy as np
import onnx as library
import pytest
from onnx import TensorProto, helper

from sknet import Model, NetClassifier, Tensor, nn, onnx
from sknet.autograd import gradcheck
from sknet.core import gradients
from sknet.exceptions import LoadError
from sknet.optim import Adam
from tests.nn.layers.test_contract import ROWS
from tests.onnx.runtime import arrays_of, run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.onnx"


@pytest.mark.parametrize("name", ROWS)
def test_a_layer_is_read_back(name, path):
    make, shape = ROWS[name]
    layer, rng = make().initialize(0), np.random.default_rng(0)
    layer(rng.normal(size=(4, *shape)).astype("float32"))
    layer.eval()
    onnx.export(layer, path, np.zeros((2, *shape), "float32"))
    network = onnx.load(path).eval()
    for n_rows in (3, 1):
        X = Tensor(rng.normal(size=(n_rows, *shape)).astype("float32"))
        for found, wanted in zip(arrays_of(network(X)), arrays_of(layer(X)), strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["celu", "selu", "elu", "softplus", "mish", "gelu", "silu", "log_sigmoid"])
def test_gradients_of_a_loaded_layer_are_those_of_the_layer(name, path):
    layer = nn.ACTIVATIONS[name]()
    X = np.array([[-30.0, -1.5, -1e-9, 0.0, 1e-9, 0.7, 40.0]])
    onnx.export(layer, path, X)
    network = onnx.load(path)
    found, wanted = (
        gradients(module(x).sum(), [x])[0].numpy()
        for module, x in ((network, Tensor(X, requires_grad=True)), (layer, Tensor(X, requires_grad=True)))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


def made(nodes, initializers=(), shape=("n", 4), kind=TensorProto.FLOAT, outputs=("y",), opset=18):
    """Return a model that other programs could have written, with input x."""
    graph = helper.make_graph(
        nodes,
        "other",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [library.numpy_helper.from_array(array, name) for name, array in dict(initializers).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    return library.shape_inference.infer_shapes(model)  # the checker wants to know the output's


def normal(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def node(op, *more, **attributes):
    return helper.make_node(op, ["x", *more], ["y"], **attributes)


IMAGES = ("n", 3, 6, 5)
# Operators that others write and `export` does not: operator, arrays, shape of x.
OTHERS = {
    "Gemm": (
        node("Gemm", "w", "b", transB=1, alpha=0.5, beta=2.0), {"w": normal(2, 4), "b": normal(2)}, None,
    ),
    "BatchNormalization": (
        node("BatchNormalization", "s", "b", "m", "v", epsilon=1e-3),
        {"s": normal(3), "b": normal(3), "m": normal(3), "v": normal(3) ** 2},
        IMAGES,
    ),
    "LayerNormalization": (node("LayerNormalization", "s", "b"), {"s": normal(4), "b": normal(4)}, None),
    "InstanceNormalization": (
        node("InstanceNormalization", "s", "b"), {"s": normal(3), "b": normal(3)}, IMAGES,
    ),
    "GlobalAveragePool": (node("GlobalAveragePool"), {}, IMAGES),
    "GlobalMaxPool": (node("GlobalMaxPool"), {}, IMAGES),
    "AveragePool": (
        node("AveragePool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1), {}, IMAGES,
    ),
    "AveragePool with padding": (
        node("AveragePool", kernel_shape=[3, 2], pads=[1, 1, 1, 0], count_include_pad=1), {}, IMAGES,
    ),
    "MaxPool same": (node("MaxPool", kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_UPPER"), {}, IMAGES),
    "Conv same": (node("Conv", "w", "b", auto_pad="SAME_LOWER", strides=[2, 1]),
                  {"w": normal(4, 3, 3, 2), "b": normal(4)}, IMAGES),
    "ConvTranspose": (
        node("ConvTranspose", "w", strides=[2, 2], pads=[1, 0, 0, 1], output_padding=[1, 0]),
        {"w": normal(3, 2, 3, 3)}, IMAGES,
    ),
    "LeakyRelu": (node("LeakyRelu", alpha=0.2), {}, None),
    "Elu": (node("Elu", alpha=0.7), {}, None),
    "Celu": (node("Celu", alpha=0.7), {}, None),
    "Selu": (node("Selu"), {}, None),
    "HardSigmoid": (node("HardSigmoid", alpha=0.3), {}, None),
    "HardSwish": (node("HardSwish"), {}, None),
    "Softplus": (node("Softplus"), {}, None),
    "Softsign": (node("Softsign"), {}, None),
    "Mish": (node("Mish"), {}, None),
    "PRelu": (node("PRelu", "a"), {"a": normal(4)}, None),
    "Clip": (node("Clip", "low", "high"), {"low": np.float32(-0.3), "high": np.float32(0.4)}, None),
    "ReduceMean": (node("ReduceMean", "axes", keepdims=0), {"axes": np.array([1])}, None),
    "ReduceL2": (node("ReduceL2", "axes"), {"axes": np.array([-1])}, None),
    "ReduceLogSumExp": (node("ReduceLogSumExp"), {}, None),
    "Flatten": (node("Flatten", axis=2), {}, IMAGES),
    "DepthToSpace": (node("DepthToSpace", blocksize=2), {}, ("n", 8, 2, 3)),
    "DepthToSpace CRD": (node("DepthToSpace", blocksize=2, mode="CRD"), {}, ("n", 8, 2, 3)),
    "Tile": (node("Tile", "r"), {"r": np.array([1, 3])}, None),
    "Trilu": (node("Trilu", upper=0), {}, ("n", 4, 4)),
    "Slice backwards": (node("Slice", "a", "b", "c", "d"), {
        "a": np.array([3]), "b": np.array([-99]), "c": np.array([1]), "d": np.array([-2])}, None),
    "Mod": (node("Mod", "d", fmod=1), {"d": np.float32(0.7)}, None),
    "Max": (node("Max", "a", "b"), {"a": normal(4), "b": normal(1)}, None),
    "Mean": (node("Mean", "a"), {"a": normal(4)}, None),
    "Gelu": (node("Gelu"), {}, None),
    "Pad reflect": (node("Pad", "p", mode="reflect"), {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1])}, IMAGES),
    "Einsum": (node("Einsum", "w", equation="ni,ij->nj"), {"w": normal(4, 2)}, None),
    "Resize": (node("Resize", "", "f", mode="linear"), {"f": np.array([1, 1, 2, 2], "float32")}, IMAGES),
    "LSTM": (
        helper.make_node("LSTM", ["x", "w", "r", "b"], ["", "y"], hidden_size=3, direction="bidirectional"),
        {"w": normal(2, 12, 4), "r": normal(2, 12, 3), "b": normal(2, 24)}, (5, "n", 4),
    ),
    "GRU": (
        helper.make_node("GRU", ["x", "w", "r", "b"], ["y"], hidden_size=3, linear_before_reset=1),
        {"w": normal(1, 9, 4), "r": normal(1, 9, 3), "b": normal(1, 18)}, (5, "n", 4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_of_another_program_is_the_same_function(name, path):
    operator, arrays, shape = OTHERS[name]
    shape = shape or ("n", 4)
    model = made([operator], arrays, shape, opset=20 if name == "Gelu" else 18)
    library.save(model, path)
    network = onnx.load(path)
    X = np.random.default_rng(0).normal(size=[3 if n == "n" else n for n in shape]).astype("float32")
    np.testing.assert_allclose(network(X).numpy(), run(model, X)[0], rtol=1e-5, atol=1e-6)


def test_a_loaded_network_can_be_trained(path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)).astype("float32"), rng.integers(0, 3, 60)
    network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    twin = Model(network, loss="log_loss", random_state=0)
    onnx.export(twin.module, path, X)
    model = Model(onnx.load(path), loss="log_loss", random_state=0)
    for _ in range(5):
        assert model.step(X, y).loss == pytest.approx(twin.step(X, y).loss, rel=1e-5)


def test_gradients_are_those_of_the_function(path):
    layer = nn.LayerNorm(3)
    layer.to(dtype="float64")
    onnx.export(nn.Sequential(layer, nn.GELU()), path, np.zeros((2, 3)))
    network = onnx.load(path)
    X = Tensor(np.random.default_rng(0).normal(size=(4, 3)), requires_grad=True)
    assert gradcheck(lambda x: network(x), [X])
    shares = gradients(network(X).sum(), list(network.parameters()))
    assert all(np.isfinite(share.numpy()).all() for share in shares)


def test_it_is_a_module_for_an_estimator_and_can_be_pickled(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4)).astype("float32")
    y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
    onnx.export(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)), path, X)
    clf = NetClassifier(onnx.load(path), optimizer=Adam(lr=0.05), max_iter=60, tol=0, n_iter_no_change=60)
    assert clf.fit(X, y).score(X, y) > 0.85
    again = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an ONNX model"),
        (b"nonsense, and more of it", "is not an ONNX model"),
        (made([node("Hardmax")]), "does not support: Hardmax"),
    ],
)
def test_unsupported_operators_are_named(content, message, path):
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    with pytest.raises(LoadError, match=message) as caught:
        onnx.load(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_an_error_of_the_system(path):
    with pytest.raises(FileNotFoundError):
        onnx.load(path)


def test_weights_whose_names_differ_by_a_dot_are_two(path):
    nodes = [helper.make_node("Mul", ["x", "a.b"], ["h"]), helper.make_node("Add", ["h", "a_b"], ["y"])]
    library.save(made(nodes, {"a.b": normal(4), "a_b": normal(1)}), path)
    network, X = onnx.load(path), np.ones((2, 4), "float32")
    np.testing.assert_array_equal(network(X).numpy(), X * normal(4) + normal(1))
    assert len(list(network.parameters())) == 2


def test_hard_swish_of_minus_infinity(path):
    library.save(made([helper.make_node("HardSwish", ["x"], ["y"])]), path)
    X = np.array([[-np.inf, -5.0, 1.0, np.inf]], "float32")
    with np.errstate(invalid="ignore"):
        found = onnx.load(path)(X).numpy()
    np.testing.assert_allclose(found, [[np.nan, 0, 2 / 3, np.inf]], rtol=1e-6)  # onnxruntime's


def test_another_number_of_inputs_is_refused(path):
    onnx.export(nn.Linear(2, 1), path, np.zeros((1, 2), "float32"))
    with pytest.raises(TypeError, match=r"takes 1 inputs, \('x',\), got 2"):
        onnx.load(path)(np.zeros((1, 2)), np.zeros((1, 2)))
