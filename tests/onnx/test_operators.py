"""Operators of all versions, and what is easily computed wrongly: the numbers are onnxruntime's."""

import inspect

import numpy as np
import onnx as library
import pytest
from onnx import helper

from sknet import onnx
from sknet.exceptions import LoadError, ShapeError
from tests.fuzz.operators import DRAWS
from tests.onnx.runtime import NEWEST, OLDEST, READ, run
from tests.onnx.test_load import made, node, normal

CUBES = ("n", 3, 4)
IMAGES = ("n", 2, 7, 6)
# Name: opset, operator, arrays, shape of x.
CASES = {
    "Softmax over all axes behind": (11, node("Softmax"), {}, CUBES),
    "Softmax over a part of them": (11, node("Softmax", axis=-1), {}, CUBES),
    "Softmax of the last axis": (13, node("Softmax"), {}, CUBES),
    "LogSoftmax over all axes behind": (7, node("LogSoftmax", axis=1), {}, CUBES),
    "Flatten before the last axis": (13, node("Flatten", axis=-1), {}, CUBES),
    "Flatten before the first axis": (13, node("Flatten", axis=-3), {}, CUBES),
    "Flatten behind the last axis": (13, node("Flatten", axis=3), {}, CUBES),
    "GatherElements of fewer rows": (
        13, node("GatherElements", "i", axis=1), {"i": np.array([[3, -1]])}, None,
    ),
    "ScatterElements of fewer rows": (
        16, node("ScatterElements", "i", "u", axis=1), {"i": np.array([[3, -4]]), "u": normal(1, 2)}, None,
    ),
    "ScatterElements that adds to fewer rows": (
        16, node("ScatterElements", "i", "u", axis=1, reduction="add"),
        {"i": np.array([[3, 3]]), "u": normal(1, 2)}, None,
    ),
    "AveragePool up with pads": (
        13, node("AveragePool", kernel_shape=[3, 3], strides=[3, 2], pads=[1, 1, 1, 1], ceil_mode=1), {},
        IMAGES,
    ),
    "AveragePool up with pads that count": (
        13, node("AveragePool", kernel_shape=[2, 2], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1,
                 count_include_pad=1), {}, IMAGES,
    ),
    "Resize by odd scales": (
        13, node("Resize", "", "f", mode="linear"), {"f": np.array([1, 1, 0.6, 1.7], "float32")}, IMAGES,
    ),
    "Resize of opset 10": (10, node("Resize", "f"), {"f": np.array([1, 1, 2, 3], "float32")}, IMAGES),
    "Clip of opset 7": (7, node("Clip", min=-0.25, max=0.5), {}, None),
    "CumSum backwards": (14, node("CumSum", "a", reverse=1, exclusive=1), {"a": np.array(1)}, None),
    "BatchNormalization of opset 7": (
        7, node("BatchNormalization", "s", "b", "m", "v", momentum=0.3),
        {"s": normal(2), "b": normal(2), "m": normal(2), "v": normal(2) ** 2}, IMAGES,
    ),
    "Slice to the front": (13, node("Slice", "a", "b", "c", "d"), {
        "a": np.array([-99]), "b": np.array([-99]), "c": np.array([1]), "d": np.array([-1])}, None),
    "Pad of opset 7": (7, node("Pad", pads=[0, 1, 0, 2], value=1.5), {}, None),
    "Dropout of opset 7": (7, node("Dropout", ratio=0.9), {}, None),
}  # fmt: skip


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.onnx"


@pytest.mark.parametrize("name", CASES)
def test_operators_are_those_of_their_version(name, path):
    opset, operator, arrays, shape = CASES[name]
    shape = shape or ("n", 4)
    model = made([operator], arrays, shape, opset=opset)
    library.save(model, path)
    X = np.random.default_rng(0).normal(size=[3 if n == "n" else n for n in shape]).astype("float32")
    [wanted] = run(model, X)
    found = onnx.load(path)(X).numpy()
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def loaded(path, opset, operators, arrays, outputs=("y",), kind=library.TensorProto.FLOAT, shape=("n", 4)):
    library.save(made(operators, arrays, shape, kind, outputs, opset), path)
    return onnx.load(path)


def test_one_hot_rows_of_other_indices_are_off(path):
    operator = node("OneHot", "d", "v")
    arrays = {"d": np.array(3), "v": np.array([-1.0, 5.0], "float32")}
    network = loaded(path, 11, [operator], arrays, kind=library.TensorProto.INT64)
    found = network(np.array([[0, 2, 3, -1], [-3, -4, 99, 1]])).numpy()
    wanted = np.full((2, 4, 3), -1.0)
    for row, column, place in [(0, 0, 0), (0, 1, 2), (0, 3, 2), (1, 0, 0), (1, 3, 1)]:
        wanted[row, column, place] = 5.0
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("opset", [7, 13, 18])
def test_split_into_as_many_parts_as_there_are_outputs(opset, path):
    more = {"num_outputs": 2} if opset == 18 else {}
    operator = helper.make_node("Split", ["x"], ["y", "z"], axis=1, **more)
    network, X = loaded(path, opset, [operator], {}, ("y", "z")), normal(3, 4)
    found = network(X)
    np.testing.assert_array_equal(found["y"].numpy(), X[:, :2])
    np.testing.assert_array_equal(found["z"].numpy(), X[:, 2:])


def test_a_split_that_is_not_even_is_refused_before_opset_18(path):
    operators = [helper.make_node("Split", ["x"], ["y", "z", "u"], axis=1)]
    path.write_bytes(unchecked(operators, 13))
    with pytest.raises(LoadError, match="4 elements of axis 1 cannot be split into 3 equal parts"):
        onnx.load(path)(normal(3, 4))


def unchecked(operators, opset, **arrays):
    """Return a model that breaks the standard's rules."""
    graph = helper.make_graph(
        operators,
        "other",
        [helper.make_tensor_value_info("x", library.TensorProto.FLOAT, ("n", 4))],
        [helper.make_tensor_value_info("y", library.TensorProto.FLOAT, ("a", "b"))],
        [library.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()


ONES = np.ones((1, 1), "float32")
WRONG = {
    "from 4 to 4": ([node("ScatterElements", "i", "u", axis=1)], {"i": np.array([[4]]), "u": ONES}),
    "from -5 to 0": ([node("GatherElements", "i", axis=1)], {"i": np.array([[0, -5]])}),
    "are not within": ([node("GatherElements", "i", axis=1)], {"i": np.zeros((9, 1), int)}),
    "updates of shape": ([node("ScatterElements", "i", "u")], {"i": np.array([[0, 0]]), "u": ONES}),
    "from 7 to 7": ([node("Gather", "i", axis=1)], {"i": np.array([7])}),
    "axis=5 is out of bounds": ([node("Flatten", axis=5)], {}),
    "repeat one": ([node("Unsqueeze", "a")], {"a": np.array([0, -4])}),
    "2 paddings for 2 axes": ([node("Pad", "p")], {"p": np.array([1, 1])}),
    "expected two matrices": ([node("Gemm", "w")], {"w": normal(4)}),
    "does not fit into": ([node("Gemm", "w", "b")], {"w": normal(4, 2), "b": normal(3, 1, 2)}),
    "runtimes differ": ([node("Squeeze", "a")], {"a": np.zeros(0, int)}),
    "expected signals or images": ([node("MaxPool", kernel_shape=[2])], {}),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_operands_that_do_not_fit_are_refused_by_the_operators_name(message, path):
    operators, arrays = WRONG[message]
    path.write_bytes(unchecked(operators, 18, **arrays))
    with pytest.raises(LoadError, match=f"^{operators[-1].op_type} of float32.*{message}"):
        onnx.load(path)(normal(3, 4))


def test_nearest_elements_that_depend_on_rounding_are_refused(path):
    operator = node(
        "Resize", "", "f", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    network = loaded(path, 18, [operator], {"f": np.array([1, 1, 0.6], "float32")}, shape=("n", 1, "m"))
    np.testing.assert_array_equal(network(normal(1, 1, 5)).numpy(), normal(1, 1, 5)[:, :, [0, 1, 3]])
    with pytest.raises(LoadError, match="7 elements cannot be resized to 4 by the nearest ones"):
        network(normal(1, 1, 7))  # the last is at 3 / 0.6


def test_arrays_that_do_not_fit_are_errors_of_shape(path):
    network = loaded(path, 18, [node("MatMul", "w")], {"w": normal(4, 2)})
    with pytest.raises(
        ShapeError, match=r"^MatMul of float32\[3, 5\], float32\[4, 2\], which gives y: matmul"
    ):
        network(normal(3, 5))


def schemas(key):
    """Return the versions of an operator that a row computes, as far as sknet reads their opsets."""
    name, row = key.partition("-")[0], READ[key]
    versions = {library.defs.get_schema(name, opset).since_version: opset
                for opset in range(OLDEST, min(NEWEST, library.defs.onnx_opset_version()) + 1)
                if library.defs.has(name) and is_defined(name, opset)}  # fmt: skip
    return [library.defs.get_schema(name, o) for v, o in versions.items() if row.since <= v <= row.until]


def is_defined(name, opset):
    try:
        return not library.defs.get_schema(name, opset).deprecated
    except library.defs.SchemaError:
        return False


@pytest.mark.parametrize("key", READ)
def test_defaults_are_those_of_the_standard(key):
    found = schemas(key)
    assert found, f"no version of {key} is read"
    for schema in found:
        for name, parameter in READ[key].attributes.items():
            if name not in schema.attributes:
                continue
            default = schema.attributes[name].default_value
            if not default.name:
                assert parameter.default in (None, 0, inspect.Parameter.empty) or name == "value", name
                continue
            value = library.helper.get_attribute_value(default)
            value = value.decode() if isinstance(value, bytes) else value
            if isinstance(value, list):
                continue  # of activations
            assert parameter.default == pytest.approx(value), name


@pytest.mark.parametrize("key", READ)
def test_inputs_are_those_of_the_standard(key):
    for schema in schemas(key):
        formal = list(READ[key].inputs)
        if any(p.kind is p.VAR_POSITIONAL for p in formal):
            continue
        assert sum(p.default is p.empty for p in formal) <= schema.max_input


def test_random_nodes_are_of_all_operators():
    assert {key.partition("-")[0] for key in READ} == DRAWS.keys()
