"""Export: modules and estimators as ONNX models."""

import inspect
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sknet import nn
from sknet.compile import Graph, capture
from sknet.core import Tensor, no_grad
from sknet.device import is_array, to_host
from sknet.exceptions import StateError
from sknet.onnx._graph import exported
from sknet.onnx._proto import model_of
from sknet.persistence import write_atomically

__all__ = ["export"]

Arrays = dict[str, np.ndarray[Any, Any]]


def export(
    model: Any, path: str | os.PathLike[str] | None = None, example: Any = None, *, dtype: Any = None
) -> Any:
    """Return a module, in evaluation mode, as an ONNX model, and write it to a file.

    Parameters
    ----------
    model : Module
        What to export; its parameters have values.
    path : path-like, default=None
        The file to write; None writes none.
    example : array, tuple of arrays or dict of str to array, each of shape (n_samples, ...)
        Inputs, of which dtypes count and the lengths of all axes but the first. The model takes any number
        of rows. Of several inputs, a tuple is in the order of the arguments of `forward`, and a dict names
        them.
    dtype : {"float16", "float32", "float64"}, default=None
        In which floating-point numbers the model is to compute; None for those of the module.

    Returns
    -------
    onnx.ModelProto
        Of opset 20. Inputs have the names of `forward`'s arguments; outputs are called "output", or
        "output_0", "output_1", ...

    Raises
    ------
    ImportError
        If the library onnx is not installed.
    StateError
        If the module is lazy and has not seen an input.
    CaptureError
        If the module cannot be captured, computes something that ONNX has no operator for, or does other
        operations for another number of rows.

    Notes
    -----
    onnxruntime computes some operators in single precision only (convolutions, recurrences, `erf`, ...): a
    model of double precision rounds before them.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn, onnx
    >>> model = onnx.export(nn.Linear(3, 2), example=np.zeros((1, 3), "float32"))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'Identity']
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"export expects an instance of nn.Module, got {type(model).__name__}")
    if example is None:
        raise TypeError(
            "export of a module needs example=, inputs of any number of rows, whose shapes and dtypes count"
        )
    found = _module_model(model, example, dtype)
    if path is not None:
        write_atomically(Path(path), [found.SerializeToString()])
    return found


def _module_model(module: nn.Module, example: Any, dtype: Any) -> Any:
    if nn.is_lazy(module):
        raise StateError(
            f"{type(module).__name__} has parameters whose shapes are not known yet: run it on an input once"
        )
    inputs = _named_inputs(module, example)
    values = {name: to_host(parameter.data) for name, parameter in module.own_parameters()}
    values |= {name: to_host(buffer.data) for name, buffer in module.named_buffers()}
    kind = _dtype_of(values, inputs) if dtype is None else np.dtype(dtype)
    half = kind == np.float16  # of which NumPy and SciPy know less than of single precision
    kind = np.dtype(np.float32) if half else kind
    values, inputs = _converted(values, kind), _converted(inputs, kind)

    def forward(*arrays: Tensor) -> Any:
        bound = dict(zip(values, arrays[: len(values)], strict=True))
        return nn.functional_call(module, bound, arrays[len(values) :], training=False)[0]

    def captured(n_rows: int) -> Graph:
        rows = [np.zeros((n_rows, *x.shape[1:]), x.dtype) for x in inputs.values()]
        with no_grad():
            return capture(forward, *values.values(), *rows)

    w, outputs = exported(captured, values, list(inputs))
    given = [w.value(x) for x in w.rows.graph.inputs[len(values) :]]
    names = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    return model_of(w, given, dict(zip(names, outputs, strict=True)), type(module).__name__, half)


def _named_inputs(module: nn.Module, example: Any) -> Arrays:
    """Return the inputs by the names of the arguments of `forward`, in its order."""
    names = list(inspect.signature(module.forward).parameters)
    if isinstance(example, Mapping):
        unknown = [name for name in example if name not in names]
        if unknown:
            raise ValueError(f"example: {type(module).__name__}.forward takes {names}, got {unknown}")
        given = {name: example[name] for name in names if name in example}
        if list(given) != names[: len(given)]:
            raise ValueError(
                f"example: the inputs must be the first arguments of {type(module).__name__}.forward, which "
                f"takes {names}, got {list(given)}"
            )
    else:
        parts = example if isinstance(example, tuple) else (example,)
        given = dict(zip(names, parts, strict=False))
        if len(given) < len(parts):
            raise ValueError(
                f"example: {type(module).__name__}.forward takes {len(names)} inputs, got {len(parts)}"
            )
    arrays = {name: to_host(x) if is_array(x) else np.asarray(x) for name, x in given.items()}
    for name, array in arrays.items():
        if not array.ndim:
            raise ValueError(f"example: {name} must have an axis of rows first, got a number")
    return arrays


def _dtype_of(values: Arrays, inputs: Arrays) -> np.dtype[Any]:
    arrays = [*values.values(), *inputs.values()]
    return next((a.dtype for a in arrays if a.dtype.kind == "f"), np.dtype(np.float32))


def _converted(arrays: Arrays, dtype: np.dtype[Any]) -> Arrays:
    return {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in arrays.items()}
