"""Every layer, exported once and run for several numbers of rows, against onnxruntime."""

import numpy as np
import pytest

from sknet import Tensor, nn, onnx
from tests.nn.layers.test_contract import ROWS
from tests.onnx.runtime import arrays_of, run


def made(name):
    make, shape = ROWS[name]
    layer = make().initialize(0)
    layer(np.random.default_rng(0).normal(size=(4, *shape)).astype("float32"))  # sets statistics
    return layer.eval(), shape


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_a_layer_computes_the_same_for_any_number_of_rows(name, dtype):
    layer, shape = made(name)
    layer.to(dtype=dtype)
    model = onnx.export(layer, example=np.zeros((2, *shape), dtype))
    for n_rows in (4, 1, 9):
        X = np.random.default_rng(n_rows).normal(size=(n_rows, *shape)).astype(dtype)
        expected = arrays_of(layer(Tensor(X)))
        for found, wanted in zip(run(model, X), expected, strict=True):
            assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["gelu", "silu", "Linear", "Conv2d", "MaxPool2d", "LayerNorm", "LSTM"])
def test_a_layer_in_half_precision_is_close(name):
    layer, shape = made(name)
    model = onnx.export(layer, example=np.zeros((2, *shape), "float32"), dtype="float16")
    X = np.random.default_rng(1).normal(size=(3, *shape)).astype("float32")
    for found, wanted in zip(run(model, X.astype("float16")), arrays_of(layer(Tensor(X))), strict=True):
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=5e-3)


def test_sequences_with_lengths_take_them_as_a_second_input():
    class Last(nn.Module):
        def __init__(self, cell, reverse):
            super().__init__()
            self.cell = cell(3, 4, bidirectional=reverse, returns="last")

        def forward(self, X, lengths):
            return self.cell(X, lengths=lengths)

    rng = np.random.default_rng(0)
    X, lengths = rng.normal(size=(5, 6, 3)).astype("float32"), np.array([6, 1, 3, 2, 5])
    for cell in (nn.RNN, nn.LSTM, nn.GRU):
        for reverse in (False, True):
            module = Last(cell, reverse).eval()
            [expected] = arrays_of(module(X, lengths))
            model = onnx.export(module, example=(X, lengths))
            assert [given.name for given in model.graph.input] == ["X", "lengths"]
            np.testing.assert_allclose(run(model, X, lengths)[0], expected, rtol=1e-5, atol=1e-6)
