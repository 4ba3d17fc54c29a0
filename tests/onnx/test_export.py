"""`export`: arguments, files, and errors."""

import sys

import numpy as np
import onnx as library
import pytest

from sknet import Tensor, nn, onnx, ops
from sknet.exceptions import CaptureError, StateError
from tests.onnx.runtime import run


def test_the_file_is_what_is_returned(tmp_path):
    path = tmp_path / "network.onnx"
    X = np.ones((2, 3), "float32")
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model = onnx.export(module, path, X)
    assert library.load(path) == model
    assert {opset.version for opset in model.opset_import} == {20}
    assert {tensor.name for tensor in model.graph.initializer} == {"0.weight", "0.bias", "2.weight", "2.bias"}
    [given], [output] = model.graph.input, model.graph.output
    assert (given.name, output.name) == ("x", "output")
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == ["n", 3]
    assert [d.dim_param or d.dim_value for d in output.type.tensor_type.shape.dim] == ["n", 2]
    np.testing.assert_allclose(run(model, X)[0], module(X).numpy(), rtol=1e-6)


def test_a_module_is_exported_in_evaluation_mode_and_left_as_it_is():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm(3), nn.Dropout(0.5))
    X = np.random.default_rng(0).normal(size=(6, 3)).astype("float32")
    before = {name: value.copy() for name, value in module.state_dict().items()}
    model = onnx.export(module, example=X)
    assert module.training
    assert all((value == before[name]).all() for name, value in module.state_dict().items())
    np.testing.assert_allclose(run(model, X)[0], module.eval()(X).numpy(), rtol=1e-5, atol=1e-6)


def test_inputs_by_name_and_several_outputs():
    class Two(nn.Module):
        def forward(self, image, tokens):
            return {"sum": ops.sum(image, axis=(1, 2)), "first": tokens[:, 0]}

    image, tokens = np.ones((2, 3, 3), "float32"), np.array([[4, 5], [6, 7]])
    model = onnx.export(Two(), example={"tokens": tokens, "image": image})
    assert [given.name for given in model.graph.input] == ["image", "tokens"]
    total, first = run(model, image, tokens)
    assert total.tolist() == [9.0, 9.0]
    assert (first.dtype, first.tolist()) == (np.dtype("int64"), [4, 6])


def test_constants_that_count_the_rows():
    class Numbered(nn.Module):
        def forward(self, x):
            count = x.shape[0]
            start = ops.zeros((count, 1), x.dtype)
            return ops.concat([start, x * count, x / count, x.mean(axis=0) + start], axis=1)

    module = Numbered()
    model = onnx.export(module, example=np.ones((3, 2), "float32"))
    for n_rows in (1, 4, 11):
        X = np.random.default_rng(0).normal(size=(n_rows, 2)).astype("float32")
        np.testing.assert_allclose(run(model, X)[0], module(Tensor(X)).numpy(), rtol=1e-5, atol=1e-6)


class RowDependent(nn.Module):
    def forward(self, x):
        return ops.exp(x) if x.shape[0] > 5 else x + 1


class ConstantRows(nn.Module):
    def forward(self, x):
        return x + Tensor(np.sqrt(np.arange(x.shape[0], dtype="float32")).reshape(-1, 1))


class Inverse(nn.Module):
    def forward(self, x):
        return ops.linalg.inv(x)


@pytest.mark.parametrize(
    ("module", "example", "error", "message"),
    [
        (nn.LazyLinear(3), np.ones((2, 3)), StateError, "run it on an input once"),
        (nn.Linear(3, 2), None, TypeError, "needs example="),
        (nn.Linear, np.ones((2, 3)), TypeError, "or an estimator of a network, got type"),
        (nn.Linear(3, 2), np.float32(1), ValueError, "an axis of rows first"),
        (nn.Linear(3, 2), (np.ones((2, 3)),) * 2, ValueError, "takes 1 inputs, got 2"),
        (nn.Linear(3, 2), {"z": np.ones((2, 3))}, ValueError, "forward takes"),
        (RowDependent(), np.ones((2, 3)), CaptureError, "depend on the number of rows"),
        (ConstantRows(), np.ones((2, 3)), CaptureError, "another length for another number of rows"),
        (Inverse(), np.ones((2, 3, 3)), CaptureError, "inv cannot be exported to ONNX: ONNX has no such"),
    ],
)
def test_export_errors_give_the_reason(module, example, error, message):
    with pytest.raises(error, match=message):
        onnx.export(module, example=example)


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "scikit-neural\[onnx\]"'):
        onnx.export(nn.Linear(2, 1), example=np.ones((1, 2)))
