"""Running exported models with onnxruntime, which knows nothing of sknet."""

import numpy as np
import onnxruntime

from sknet.compile._symbolic import graph_of_any_rows
from sknet.core import Tensor
from sknet.onnx._export import exported, model_of
from sknet.onnx._reading import NEWEST, OLDEST, READ
from tests.trees import leaves

__all__ = ["NEWEST", "OLDEST", "READ", "arrays_of", "model_of_function", "names_and_arrays", "run"]


def run(model, *arrays):
    """Compute a model's outputs; without the optimisations that compute double precision in single."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def model_of_function(captured, n_inputs):
    """Export a function of arrays alone; `captured` returns its graph for a number of rows."""
    writer, outputs = exported(graph_of_any_rows(captured), {}, [f"x{i}" for i in range(n_inputs)])
    inputs = [writer.value(variable) for variable in writer.rows.graph.inputs]
    return model_of(writer, inputs, {f"y{i}": output for i, output in enumerate(outputs)}, "function")


def arrays_of(result):
    return [np.asarray(leaf.data) for leaf in leaves(result) if isinstance(leaf, Tensor)]


def names_and_arrays(model, *arrays):
    """Compute a model's outputs, by their names."""
    names = [output.name for output in model.graph.output]
    return dict(zip(names, run(model, *arrays), strict=True))
