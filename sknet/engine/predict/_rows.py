"""Predictions for any number of rows: in chunks of bounded memory, and compiled for a single one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet.core import Tensor, no_grad
from sknet.device import active, backend, device_of, to_device
from sknet.engine.predict._predictor import Head
from sknet.exceptions import CaptureError

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["chunk_rows", "output_chunks", "predict_raw", "predict_rows"]

CHUNK_ELEMENTS = 1 << 20  # of the widest layer's output: 4 MiB in float32, still in most caches


def chunk_rows(model: "Model") -> int:
    """Return how many rows to compute at once, so that no layer's output needs more than a few MiB.

    Parameters
    ----------
    model : Model
        Whose widest parameter decides.

    Returns
    -------
    int
        At least 1.
    """
    widest = max((max(p.shape, default=1) for p in model.parameters.values()), default=1)
    return max(1, CHUNK_ELEMENTS // widest)


def output_chunks(model: "Model", X: Any) -> Iterator[tuple[slice, Any]]:
    """Yield the module's raw outputs, chunk after chunk, with the rows that each belongs to.

    Parameters
    ----------
    model : Model
        Only read from: several threads may predict with one model.
    X : array or CSR matrix of shape (n_samples, n_features)
        Inputs, on any device; each chunk is converted to the model's dtype and device.

    Yields
    ------
    rows : slice
        Which rows.
    output : array of shape (n_rows, n_outputs)
        On the model's device.
    """
    n_samples, rows = int(X.shape[0]), chunk_rows(model)
    for start in range(0, n_samples, rows):
        part = slice(start, min(start + rows, n_samples))
        with active(device_of(X)):
            chunk = X if n_samples <= rows else X[part]
            if chunk.dtype != model.dtype:
                chunk = chunk.astype(model.dtype)
        yield part, predict_raw(model, to_device(chunk, model.device))


def predict_raw(model: "Model", X: Any) -> Any:
    """Return the module's raw outputs for a few rows, all at once.

    Parameters
    ----------
    model : Model
        Only read from.
    X : array or CSR matrix of shape (n_rows, n_features)
        Inputs of the model's dtype, on its device.

    Returns
    -------
    array of shape (n_rows, n_outputs)
        On the model's device.
    """
    with no_grad():
        return model(X if ops.is_sparse(X) else Tensor(X), training=False).data


def predict_rows(model: "Model", X: Any, name: str = "raw", head: Head | None = None) -> Any:
    """Return what follows from the module's raw outputs, for all rows.

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

    Returns
    -------
    array of shape (n_samples, ...)
        On the model's device.
    """
    if X.shape[0] == 1 and type(X) is np.ndarray:
        predictor = model.predictor(name, head)
        try:
            if predictor is not None:
                return predictor(X)
        except CaptureError:
            model.forget_predictor(name)
    whole: Any = None
    for rows, output in output_chunks(model, X):
        with active(model.device):
            result = output if head is None else _apply(head, output)
            if result.shape[0] == X.shape[0]:
                return result
            if whole is None:
                shape = (X.shape[0], *result.shape[1:])
                whole = backend(model.device.kind).empty(shape, result.dtype, model.device)
            whole[rows] = result
    return whole


def _apply(head: Head, output: Any) -> Any:
    with no_grad():
        return head(Tensor(output)).data
