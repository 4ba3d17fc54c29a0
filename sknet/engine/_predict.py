"""Predictions for any number of rows, in chunks of bounded memory."""

import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sknet import ops
from sknet._arrays import all_finite
from sknet._warnings import warn_caller
from sknet.core import Tensor, no_grad
from sknet.device import Device, active, backend, device_of, namespace, to_device, to_host
from sknet.engine._fingerprint import structure_of
from sknet.engine._inputs import (
    any_sparse,
    are_arrays,
    computed_dtype,
    each_input,
    fed_inputs,
    n_rows,
    row_shapes,
)
from sknet.engine._model_type import ModelLike
from sknet.engine._predictor import FEW_ROWS, Head, Pass
from sknet.engine._state import Layout
from sknet.engine._step import evaluate
from sknet.exceptions import DeviceError
from sknet.nn import Module, largest_activation, run

__all__ = [
    "apply_head",
    "chunk_rows",
    "chunk_rows_of",
    "in_chunks",
    "predict_chunk",
    "predict_raw",
    "predict_rows",
    "rows_at_once",
    "warn_of_overflow",
]


CHUNK_ELEMENTS = 1 << 20  # size of the largest activation: 4 MiB in float32, which fits into most caches

KEPT = 256  # structures

_alike: dict[Any, int] = {}  # by structure
_measured: WeakKeyDictionary[Layout, dict[Any, int]] = WeakKeyDictionary()


def rows_at_once(module: Module, shape: Any, dtype: Any) -> int:
    """Return the chunk size at which no array of the pass takes more than a few MiB."""
    structure, named = structure_of(module), isinstance(shape, dict)
    key: Any = structure, *(map(str, (shape, dtype)) if named else (shape, str(dtype)))
    if structure is None:
        return _rows_at_once(module, shape, dtype)
    found = _alike.get(key)
    if found is None:
        if len(_alike) >= KEPT:
            _alike.clear()
        found = _alike[key] = _rows_at_once(module, shape, dtype)
    return found


def _rows_at_once(module: Module, shape: Any, dtype: Any) -> int:
    try:
        elements = largest_activation(module, shape, dtype)
    except DeviceError:  # its code depends on values: estimate by the parameters
        widths = [max(parameter.shape, default=1) for parameter in module.parameters()]
        shapes = shape.values() if isinstance(shape, dict) else [shape]
        elements = max([*map(math.prod, shapes), *widths])
    return max(1, CHUNK_ELEMENTS // max(elements, 1))


def chunk_rows(model: ModelLike, shape: Any, dtype: Any = None) -> int:
    """Return the chunk size of a model's predictions; it is measured once for each shape."""
    known = _measured.setdefault(model.memory.layout, {})
    named = isinstance(shape, dict)
    key = (tuple(shape.items()), str(dtype)) if named else shape if dtype is None else (shape, str(dtype))
    found = known.get(key)
    if found is None:
        found = known[key] = rows_at_once(model.module, shape, model.dtype if dtype is None else dtype)
    return found


def chunk_rows_of(model: ModelLike, X: Any) -> int:
    """Return the chunk size of a model's predictions for these inputs, as `chunk_rows` does."""
    if not isinstance(X, dict) and X.dtype.kind == "f":
        return chunk_rows(model, tuple(X.shape[1:]))
    return chunk_rows(model, row_shapes(X), each_input(lambda x: computed_dtype(x, model.dtype), X))


def in_chunks(
    compute: Callable[[Any], Any], X: Any, rows: int, dtype: Any, device: Device, precision: str | None = None
) -> Any:
    """Return the results for all rows, computed chunk by chunk."""
    n_samples, whole = n_rows(X), None
    dtypes = each_input(lambda x: dtype if x.dtype.kind == "f" else x.dtype, X)
    fed = fed_inputs(X, dtypes, n_samples, rows, device)

    def chunk_of(x: Any) -> Any:
        with active(device_of(x)):
            chunk = x if n_samples <= rows else x[part]
            if chunk.dtype != dtype and chunk.dtype.kind == "f":
                chunk = chunk.astype(dtype)
        return to_device(chunk, device)

    for start in range(0, n_samples, rows):
        part = slice(start, min(start + rows, n_samples))
        with active(device, precision):
            chunk = each_input(chunk_of, X) if fed is None else fed.take(part, lambda name: chunk_of(X[name]))
            result = compute(chunk)
            if n_samples <= rows:
                return result
            if whole is None:
                shape = (n_samples, *result.shape[1:])
                whole = backend(device.kind).empty(shape, result.dtype, device)
            whole[part] = result
    return whole


def predict_raw(model: ModelLike, X: Any, by: Pass = run) -> Any:
    """Return the module's raw outputs for a few rows, all at once."""
    X = each_input(lambda x: x if ops.is_sparse(x) else Tensor(x), X)
    with no_grad():
        return (model(X, training=False) if by is run else evaluate(model, X, by)).data


def apply_head(head: Head | None, output: Any) -> Any:
    """Apply a head to an array of raw outputs; None returns them unchanged."""
    if head is None:
        return output
    with no_grad():
        return head(Tensor(output)).data


def predict_rows(
    model: ModelLike, X: Any, name: str = "raw", head: Head | None = None, by: Pass = run
) -> Any:
    """Return the module's raw outputs, or a function of them, for all rows."""
    few = X.shape[0] if type(X) is np.ndarray else n_rows(X) if are_arrays(X) else 0
    if few == 1 or (1 < few <= FEW_ROWS and model._predictors.has_seen(X, name, few)):
        found = model._predictors.compute(model, X, name, head, by)
        if found is not None:
            return found
    rows = chunk_rows_of(model, X)
    if 1 < few <= FEW_ROWS and few <= rows:
        model._predictors.see(name, few)

    def compute(chunk: Any) -> Any:
        comes_again = rows < n_rows(X) and n_rows(chunk) == rows
        return predict_chunk(model, chunk, comes_again, name, head, by)

    return in_chunks(compute, X, rows, model.dtype, model.device, model.precision)


def predict_chunk(
    model: ModelLike, X: Any, comes_again: bool, name: str = "raw", head: Head | None = None, by: Pass = run
) -> Any:
    """Return the module's raw outputs, or a function of them, for some rows at once."""
    found = None
    if comes_again and model.device.kind != "cpu" and not any_sparse(X):
        found = model._predictors.compute_chunk(model, X, name, head, by)
    return apply_head(head, predict_raw(model, X, by)) if found is None else found


def warn_of_overflow(result: Any, X: Any, who: str) -> None:
    """Warn if predictions are NaN or infinite although the inputs are finite."""
    if _is_finite(result) or not all(map(_is_finite, _values_of(X))):
        return
    found = to_host(result)
    wrong = int((~np.isfinite(found.reshape(len(found), -1))).any(axis=1).sum())
    warn_caller(
        f"{wrong} of {len(found)} predictions of {who} are NaN or infinite although X is finite: numbers "
        "overflow inside the network. Scale the inputs as for the fit.",
        RuntimeWarning,
    )


def _values_of(X: Any) -> list[Any]:
    inputs = X.values() if isinstance(X, dict) else [X]
    return [x.data if hasattr(x, "tocsr") else x for x in inputs]


def _is_finite(array: Any) -> bool:
    if type(array) is np.ndarray:
        return all_finite(array)
    with active(device_of(array)):
        return bool(to_host(namespace(array).isfinite(array).all()))
