"""Gradients of outputs with respect to inputs, and their averages along straight lines."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet import ops
from sknet._tree import leaves, rebuild
from sknet.core import Tensor, gradients
from sknet.device import active, backend, device_of, namespace, to_device, to_host
from sknet.engine.predict._predictor import Head, Pass
from sknet.engine.predict._rows import chunk_rows_of
from sknet.engine.step import evaluate
from sknet.exceptions import ShapeError
from sknet.nn import Module, Scope, run

if TYPE_CHECKING:
    from sknet.engine._model import Model

__all__ = ["Chosen", "input_gradients", "integrated_gradients"]


@dataclass(frozen=True)
class Chosen:
    """The output of each row that is differentiated."""

    columns: Any
    signs: Any
    head: Head | None = None
    by: Pass = run

    def weights(self, rows: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return weights (of `shape` and `dtype`) of the outputs of `rows`; their sum is differentiated."""
        if len(shape) != 2:
            raise ShapeError(
                f"gradients with respect to inputs need outputs of shape (n_samples, n_outputs), got {shape}"
            )
        found = np.zeros(shape, dtype)
        found[np.arange(len(rows)), self.columns[rows]] = self.signs[rows]
        return found


def input_gradients(model: "Model", X: Any, chosen: Chosen) -> Any:
    """Return the gradient of one output per row with respect to that row of the inputs."""

    def compute(rows: Any) -> list[Any]:
        return _gradients_at(model, X, _rows_of(model, X, rows), chosen, rows)

    return _in_blocks(model, X, compute, _points_at_once(model, X))


def integrated_gradients(model: "Model", X: Any, baseline: Any, chosen: Chosen, n_steps: int) -> Any:
    """Return the gradient averaged along the line from the baseline to each row, times the difference."""
    n_points = _points_at_once(model, X)
    n_rows = max(1, n_points // n_steps)
    n_at_once = max(1, n_points // n_rows)
    positions, weights = np.polynomial.legendre.leggauss(n_steps)  # on the line from -1 to 1, of length 2
    parts = [slice(start, start + n_at_once) for start in range(0, n_steps, n_at_once)]
    rule = [((positions[part] + 1) / 2, weights[part] / 2) for part in parts]

    def compute(rows: Any) -> list[Any]:
        ends, begins = _rows_of(model, X, rows), _rows_of(model, baseline, rows)
        lines = [x - b if _is_real(x) else x for x, b in zip(ends, begins, strict=True)]
        sums = [line * 0 for line in lines]
        for at, weight in rule:
            points = [_points(b, line, at) for b, line in zip(begins, lines, strict=True)]
            found = _gradients_at(model, X, points, chosen, np.tile(rows, len(at)))
            for i, gradient in enumerate(found):
                if gradient is not None:
                    each = gradient.reshape(len(at), *lines[i].shape)
                    sums[i] = sums[i] + (each * _column(weight, each)).sum(axis=0)
        return [line * total if _is_real(line) else None for line, total in zip(lines, sums, strict=True)]

    return _in_blocks(model, X, compute, n_rows)


def _points(begin: Any, line: Any, at: Any) -> Any:
    """Return points on lines, all rows for the first position, then all for the second, ..."""
    if not _is_real(line):
        return namespace(line).concatenate([line] * len(at))
    lines = line.reshape(1, *line.shape)
    found = begin.reshape(1, *begin.shape) + lines * _column(at, lines)
    return found.reshape(-1, *line.shape[1:])


def _column(values: Any, like: Any) -> Any:
    """Return numbers along the first axis of an array, on its device."""
    column = values.astype(like.dtype).reshape(-1, *(1,) * (like.ndim - 1))
    return to_device(column, device_of(like))


def _points_at_once(model: "Model", X: Any) -> int:
    return chunk_rows_of(model, X)


def _is_real(x: Any) -> bool:
    return bool(x.dtype.kind == "f")


def _in_blocks(model: "Model", X: Any, compute: Callable[[Any], list[Any]], size: int) -> Any:
    """Return the results of `compute` for blocks of row indices, joined for each leaf of X."""
    parts, n_samples = leaves(X), leaves(X)[0].shape[0]
    whole: list[Any] = [None] * len(parts)
    for start in range(0, n_samples, size):
        rows = np.arange(start, min(start + size, n_samples))
        with active(model.device, model.precision):
            for i, found in enumerate(compute(rows)):
                if found is None:
                    continue
                if whole[i] is None:
                    new = backend(model.device.kind).empty
                    whole[i] = new(tuple(parts[i].shape), found.dtype, model.device)
                whole[i][start : start + len(rows)] = found
    return rebuild(X, iter(whole))


def _rows_of(model: "Model", X: Any, rows: Any) -> list[Any]:
    """Return some rows of each input: dense, on the model's device, real numbers in its dtype."""
    found = []
    for x in leaves(X):
        with active(device_of(x)):
            part = x[rows[0] : rows[-1] + 1] if x.shape[0] > 1 else x
            part = to_host(part).toarray() if ops.is_sparse(part) else part
            if _is_real(part) and part.dtype != model.dtype:
                part = part.astype(model.dtype)
        found.append(to_device(part, model.device))
    return found


def _gradients_at(model: "Model", like: Any, points: list[Any], chosen: Chosen, rows: Any) -> list[Any]:
    """Return the gradients at some points for each leaf of the inputs; None for integers."""
    inputs = [Tensor(x, requires_grad=_is_real(x)) for x in points]
    output = evaluate(model, rebuild(like, iter(inputs)), partial(_without_parameters, chosen.by))
    output = output if chosen.head is None else chosen.head(output)
    weights = to_device(chosen.weights(rows, output.shape, output.dtype), model.device)
    real = [x for x in inputs if x.requires_grad]
    found = iter(gradients(output, real, Tensor(weights)) if output.requires_grad else [x * 0 for x in real])
    return [next(found).data if x.requires_grad else None for x in inputs]


def _without_parameters(by: Pass, module: Module, scope: Scope, args: tuple[Any, ...]) -> Any:
    """Run a pass with constant parameters, so that the tape saves nothing for their gradients."""
    constants: dict[Any, Tensor] = {
        id(parameter): Tensor(parameter.data) for _, parameter in module.own_parameters()
    }
    return by(module, Scope({**constants, **scope.values}, scope.training), args)
