"""Contents of ONNX files: external data, opsets, names of weights, types, and what is not supported."""

import numpy as np
import onnx as library
import pytest
from onnx import TensorProto, helper

from sknet import onnx
from sknet.exceptions import LoadError
from tests.onnx.test_load import node, normal


@pytest.fixture
def path(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models" / "network.onnx"


def of(*nodes, kind=TensorProto.FLOAT, **arrays):
    """Return a model of x, of two axes, whose output is y."""
    graph = helper.make_graph(
        nodes,
        "other",
        [helper.make_tensor_value_info("x", kind, ("n", 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ("a", "b"))],
        [library.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


MATMUL = of(node("MatMul", "w"), w=normal(4, 2))
X = normal(3, 4)


def with_external_data(path, **entries):
    """Write a model whose only weight is in the file "weights.bin", or wherever `entries` say."""
    model = of(node("MatMul", "w"), w=normal(4, 2))
    tensor = model.graph.initializer[0]
    (path.parent / "weights.bin").write_bytes(b"before" + tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ({"location": "weights.bin", "offset": 6} | entries).items():
        if value is not None:
            tensor.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("entries", [{}, {"length": 32}, {"location": "./weights.bin"}])
def test_external_data_are_read_from_the_folder_of_the_model(entries, path, tmp_path, monkeypatch):
    with_external_data(path, **entries)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(b"before" + normal(4, 2).tobytes()[::-1])
    for name in (path, path.relative_to(tmp_path)):
        np.testing.assert_allclose(onnx.load(name)(X).numpy(), X @ normal(4, 2), rtol=1e-6)


def test_models_of_the_library_with_external_data_are_read(path):
    library.save(MATMUL, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    np.testing.assert_allclose(onnx.load(path)(X).numpy(), X @ normal(4, 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../weights.bin"}, "not in the model's folder"),
        ({"location": "inner/../weights.bin"}, "not in the model's folder"),
        ({"location": "/etc/hostname"}, "not in the model's folder"),
        ({"location": "..\\weights.bin"}, "not in the model's folder"),
        ({"location": "link.bin"}, "not in the model's folder"),
        ({"location": "linked/weights.bin"}, "not in the model's folder"),
        ({"location": ""}, "not in the model's folder"),
        ({"location": None}, "not in the model's folder"),
        ({"location": "a\0b"}, "embedded null"),
        ({"location": "."}, "is not a file"),
        ({"location": "other.bin"}, "'w' are missing: .*other.bin' is not a file"),
        ({"offset": 7}, "ends before the data of 'w'"),
        ({"offset": 2**60}, "ends before the data of 'w'"),
        ({"offset": -1}, "external data with .*'-1'"),
        ({"offset": "9" * 5000}, "external data with"),
        ({"length": 31}, "'w' needs 32 bytes, and has 31"),
        ({"length": 2**50}, "'w' needs 32 bytes"),
        ({"length": "many"}, "external data with .*'many'"),
    ],
)
def test_external_data_stay_in_the_folder_and_in_their_file(entries, message, path, tmp_path):
    with_external_data(path, **entries)
    (tmp_path / "weights.bin").write_bytes(bytes(100))
    (path.parent / "inner").mkdir()
    (path.parent / "link.bin").symlink_to(tmp_path / "weights.bin")
    (path.parent / "linked").symlink_to(tmp_path)
    with pytest.raises(LoadError, match=message) as caught:
        onnx.load(path)
    assert str(path) in str(caught.value)


def test_external_data_are_not_read_again_and_again(path):
    model = of(*[node("Identity", f"w{i}") for i in range(3)], **{f"w{i}": normal(4, 2) for i in range(3)})
    (path.parent / "weights.bin").write_bytes(normal(4, 2).tobytes())
    for tensor in model.graph.initializer:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match="arrays up to 'w2' share the bytes of '"):
        onnx.load(path)


def test_external_data_of_a_constant_are_refused(path):
    model = of(helper.make_node("Constant", [], ["w"], value=library.numpy_helper.from_array(normal(4, 2))),
               node("MatMul", "w"))  # fmt: skip
    tensor = model.graph.node[0].attribute[0].t
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match="external data of the attribute 'value'"):
        onnx.load(path)


@pytest.mark.parametrize("opset", [1, 6, 29, 1000])
def test_the_opset_is_the_first_thing_that_is_read(opset, path):
    model = of(node("Unknown", nonsense=1))
    model.opset_import[0].version = opset
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match=f"has opset {opset}, .* reads 7 to"):
        onnx.load(path)


@pytest.mark.parametrize(
    "name",
    ["keys", "forward", "training", "items", "values", "_parameters", "__class__", "a.b", "a/b", "x y", "'"],
)
def test_weights_have_any_names(name, path):
    arrays = {name: normal(4, 2), f"{name}_": normal(2)}
    nodes = [
        helper.make_node("MatMul", ["x", name], ["h"]),
        helper.make_node("Add", ["h", f"{name}_"], ["y"]),
    ]
    path.write_bytes(of(*nodes, **arrays).SerializeToString())
    network = onnx.load(path)
    np.testing.assert_allclose(network(X).numpy(), X @ normal(4, 2) + normal(2), rtol=1e-6)
    assert len(network.state_dict()) == 2
    assert network.train().training


REFUSED = {
    "GRU .* with linear_before_reset=0": helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=3),
    "LSTM .* with the input 'P'": helper.make_node("LSTM", ["x", "w", "r", "", "", "", "", "p"], ["y"]),
    "RNN .* with clip=1.0": helper.make_node("RNN", ["x", "w", "r"], ["y"], clip=1.0),
    "Resize .* with antialias=1": node("Resize", "", "f", mode="linear", antialias=1),
    "Resize .* with mode='cubic'": node("Resize", "", "f", mode="cubic"),
    "Cast .* of type BFLOAT16": node("Cast", to=TensorProto.BFLOAT16),
    "MaxPool .* the output 'Indices'": helper.make_node("MaxPool", ["x"], ["y", "i"], kernel_shape=[2]),
    "ScatterElements .* with reduction='mul'": node("ScatterElements", "i", "u", reduction="mul"),
    "DepthToSpace .* with mode='ABC'": node("DepthToSpace", blocksize=2, mode="ABC"),
    "not support: com.example.Gelu": helper.make_node("Gelu", ["x"], ["y"], domain="com.example"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_not_supported_is_named_when_a_file_is_loaded(message, path):
    operator = REFUSED[message]
    names = [each for each in operator.input if each not in ("", "x")]
    model = of(operator, **{each: normal(1) for each in names})
    if operator.domain:
        model.opset_import.add(domain=operator.domain, version=1)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match=message):
        onnx.load(path)


def test_sparse_arrays_are_named(path):
    values = library.numpy_helper.from_array(normal(1), "values")
    places = library.numpy_helper.from_array(np.array([[0, 1]]), "places")
    sparse = helper.make_sparse_tensor(values, places, [4, 2])
    model = of(helper.make_node("Constant", [], ["w"], sparse_value=sparse), node("MatMul", "w"))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match=r"Constant .* with sparse_value of a graph or a sparse tensor"):
        onnx.load(path)
    model = of(node("MatMul", "values"))
    model.graph.sparse_initializer.append(sparse)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(LoadError, match="has sparse weights"):
        onnx.load(path)


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.COMPLEX64])
def test_types_of_inputs_that_are_not_supported_are_named(kind, path):
    path.write_bytes(of(node("Identity"), kind=kind).SerializeToString())
    with pytest.raises(LoadError, match=f"'x' of type {TensorProto.DataType.Name(kind)}"):
        onnx.load(path)


def test_an_error_in_a_pass_names_the_operator_and_what_it_was_given(path):
    path.write_bytes(of(node("GatherElements", "i"), i=np.array([[9]])).SerializeToString())
    with pytest.raises(LoadError, match=r"GatherElements of float32\[3, 4\], int64\[1, 1\], .*from 9 to 9"):
        onnx.load(path)(X)
