"""Export of modules and estimators as ONNX models."""

import os
from pathlib import Path
from typing import Any

from sknet import nn
from sknet.compile import Graph
from sknet.compile.extend import SymbolicGraph
from sknet.estimators.extend import is_estimator
from sknet.freezing import FrozenPipeline
from sknet.graphs import GraphModule
from sknet.onnx._proto import model_of
from sknet.onnx._written import Written, written_estimator, written_module
from sknet.persistence import write_atomically
from sknet.tabular.extend import is_ensemble

__all__ = ["export"]


def export(
    model: Any, path: str | os.PathLike[str] | None = None, example: Any = None, *, dtype: Any = None
) -> Any:
    """Return a module or a fitted estimator as an ONNX model, and write it to a file.

    Parameters
    ----------
    model : Module, Graph or estimator
        The object to export: a module whose parameters have values, which is exported in evaluation mode; a
        `Graph`, for the shapes of its example; or a fitted estimator, a frozen predictor, or a layer of one.
    path : path-like, default=None
        The file to write; None for no file.
    example : array, tuple of arrays or dict of str to array, each of shape (n_samples, ...), default=None
        Example inputs, which determine dtypes and the lengths of all axes but the first. The model takes any
        number of rows. Several inputs are a tuple in the order of the arguments of `forward`, or a dict by
        name. An estimator knows its inputs; it needs an example only if axes have other lengths than in the
        fit, such as the steps of sequences. A `Graph` or `GraphModule` needs none.
    dtype : {"float16", "float32", "float64"}, default=None
        The floating-point dtype of the model; None for that of the module or estimator. Predictions of
        targets that were standardized have the precision of these targets.

    Returns
    -------
    onnx.ModelProto
        With opset 20. Inputs of a module have the names of `forward`'s arguments; outputs are "output", or
        "output_0", "output_1", ... An estimator's input is "X", or several have their names. A raw table
        (``encoder="table"``, a `TableEncoder`, `TabularClassifier`, `TabularRegressor`) is one input, "X", if
        all columns are numbers, else one of shape (n_samples, 1) for each column, by its name: numbers, NaN
        where missing; texts, empty where missing; int64 or bool for integer levels and truth values; dates
        as microseconds since 1970 in int64, the smallest number where missing. An estimator's outputs
        have the names that skl2onnx uses: for a classifier "label", integers or strings, and
        "probabilities", of shape (n_samples, n_classes), or "scores" for a loss without probabilities; for
        a regressor "variable", of shape (n_samples, n_outputs), even for a single output; for a transformer
        "variable". For several columns of labels, probabilities have shape (n_columns, n_samples,
        most_classes), padded with 0 for columns with fewer classes.

    Raises
    ------
    ImportError
        If the library onnx is not installed.
    StateError
        If the module is lazy and has not seen an input.
    NotFittedError
        If the estimator is not fitted.
    TypeError, ValueError
        If the example is not a valid input, or labels are neither integers nor strings.
    CaptureError
        If the network cannot be captured, uses an operation that ONNX does not have, or does different
        operations for different numbers of rows.

    Notes
    -----
    onnxruntime computes some operators only in single precision (convolutions, recurrences, `erf`, ...): a
    model in double precision rounds before them.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn, onnx
    >>> model = onnx.export(nn.Linear(3, 2), example=np.zeros((1, 3), "float32"))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'Identity']

    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0.1, random_state=0).fit(X, y)
    >>> [output.name for output in onnx.export(clf).graph.output]
    ['label', 'probabilities']
    """
    written = _written(model, example, dtype)
    taken = [value.name for value in written.inputs if value.name in written.outputs]
    if taken:
        raise ValueError(
            f"the column {taken[0]!r} has the name of an output ({', '.join(written.outputs)}): rename it "
            "before the fit"
        )
    found = model_of(*written)
    if path is not None:
        write_atomically(Path(path), [found.SerializeToString()])
    return found


def _written(model: Any, example: Any, dtype: Any) -> Written:
    if is_estimator(model) or is_ensemble(model):
        return written_estimator(model, example, dtype)
    if isinstance(model, Graph):
        model = graph_module_of(model)
    if not isinstance(model, nn.Module):
        advice = ""
        if hasattr(model, "fit") and not type(model).__module__.startswith("sknet."):
            advice = ": call sknet.onnx.register(), and convert it by skl2onnx.to_onnx(pipeline, X[:1])"
        if isinstance(model, FrozenPipeline):
            advice = (
                ": call sknet.onnx.register(), and convert the pipeline that it was made from by "
                "skl2onnx.to_onnx(pipeline, X[:1])"
            )
        raise TypeError(
            "export expects an instance of nn.Module, or an estimator of a network, got "
            f"{type(model).__name__}{advice}"
        )
    if example is None and not isinstance(model, GraphModule):
        raise TypeError(
            "export of a module needs example=, inputs of any number of rows, whose shapes and dtypes count"
        )
    return written_module(model, example, dtype)


def graph_module_of(graph: Graph) -> GraphModule:
    """Return a graph as a module of its values."""
    return GraphModule(SymbolicGraph.of(graph), dict(graph.values))
