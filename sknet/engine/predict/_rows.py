"""Predictions for any number of rows: in chunks of bounded memory, and compiled for a single one."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from sknet import ops
from sknet.core import Tensor, no_grad
from sknet.device import Device, active, backend, device_of, to_device
from sknet.engine.predict._predictor import Head, Pass
from sknet.engine.state import Layout
from sknet.exceptions import CaptureError, DeviceError
from sknet.nn import Module, largest_activation, run

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["apply_head", "chunk_rows", "in_chunks", "predict_raw", "predict_rows", "rows_at_once"]

CHUNK_ELEMENTS = 1 << 20  # of the largest activation: 4 MiB in float32, still in most caches

_measured: WeakKeyDictionary[Layout, dict[tuple[int, ...], int]] = WeakKeyDictionary()


def rows_at_once(module: Module, shape: tuple[int, ...], dtype: Any) -> int:
    """Return how many rows to compute at once, so that no array of the pass takes more than a few MiB.

    Parameters
    ----------
    module : Module
        Its largest activation, measured by a pass without data, decides.
    shape : tuple of int
        Of one row of the inputs.
    dtype : dtype
        Of the inputs.

    Returns
    -------
    int
        At least 1.
    """
    try:
        elements = largest_activation(module, shape, dtype)
    except DeviceError:  # its code depends on values: estimate by the parameters
        widths = [max(parameter.shape, default=1) for parameter in module.parameters()]
        elements = max([math.prod(shape), *widths])
    return max(1, CHUNK_ELEMENTS // max(elements, 1))


def chunk_rows(model: "Model", shape: tuple[int, ...]) -> int:
    """Return how many rows of an input a model predicts at once; it is measured once for each shape.

    Parameters
    ----------
    model : Model
        Only read from.
    shape : tuple of int
        Of one row of the inputs.

    Returns
    -------
    int
        At least 1.
    """
    known = _measured.setdefault(model.layout, {})
    found = known.get(shape)
    if found is None:
        found = known[shape] = rows_at_once(model.module, shape, model.dtype)
    return found


def in_chunks(compute: Callable[[Any], Any], X: Any, rows: int, dtype: Any, device: Device) -> Any:
    """Return the results for all rows, computed chunk by chunk.

    Parameters
    ----------
    compute : callable
        From some rows, of this dtype and on this device, to a result for each.
    X : array or CSR matrix of shape (n_samples, ...)
        Inputs, of any dtype and on any device: they are converted chunk by chunk.
    rows : int
        Of a chunk.
    dtype, device
        The dtype and device of the computation.

    Returns
    -------
    array of shape (n_samples, ...)
        On `device`; None where there are no rows.
    """
    n_samples, whole = int(X.shape[0]), None
    for start in range(0, n_samples, rows):
        part = slice(start, min(start + rows, n_samples))
        with active(device_of(X)):
            chunk = X if n_samples <= rows else X[part]
            if chunk.dtype != dtype:
                chunk = chunk.astype(dtype)
        with active(device):
            result = compute(to_device(chunk, device))
            if n_samples <= rows:
                return result
            if whole is None:
                shape = (n_samples, *result.shape[1:])
                whole = backend(device.kind).empty(shape, result.dtype, device)
            whole[part] = result
    return whole


def predict_raw(model: "Model", X: Any, by: Pass = run) -> Any:
    """Return the module's raw outputs for a few rows, all at once.

    Parameters
    ----------
    model : Model
        Only read from.
    X : array or CSR matrix of shape (n_rows, n_features)
        Inputs of the model's dtype, on its device.
    by : callable, default=nn.run
        Computes others: ``by(module, scope, args)``.

    Returns
    -------
    array of shape (n_rows, n_outputs)
        On the model's device.
    """
    X = X if ops.is_sparse(X) else Tensor(X)
    with no_grad():
        return (model(X, training=False) if by is run else model.evaluated(X, by)).data


def apply_head(head: Head | None, output: Any) -> Any:
    """Apply a head to an array of raw outputs; None returns them unchanged."""
    if head is None:
        return output
    with no_grad():
        return head(Tensor(output)).data


def predict_rows(model: "Model", X: Any, name: str = "raw", head: Head | None = None, by: Pass = run) -> Any:
    """Return the module's raw outputs, or a function of them, for all rows.

    Parameters
    ----------
    model : Model
        Only read from: several threads may predict with one model.
    X : array or CSR matrix of shape (n_samples, n_features)
        Inputs.
    name : str, default="raw"
        What `head` is called; a model keeps one compiled pass for each name.
    head : callable, default=None
        From raw outputs, a Tensor, to the result, row by row; None for the outputs themselves.
    by : callable, default=nn.run
        Computes the raw outputs: ``by(module, scope, args)``; a part of what `name` means.

    Returns
    -------
    array of shape (n_samples, ...)
        On the model's device.
    """
    if X.shape[0] == 1 and type(X) is np.ndarray:
        predictor = model.predictor(name, head, by)
        try:
            if predictor is not None:
                return predictor(X)
        except CaptureError:
            model.forget_predictor(name)
    rows = chunk_rows(model, tuple(X.shape[1:]))
    return in_chunks(
        lambda chunk: apply_head(head, predict_raw(model, chunk, by)), X, rows, model.dtype, model.device
    )
