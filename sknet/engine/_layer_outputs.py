"""Outputs of single layers, gradients with respect to inputs, and modules without their model."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sknet import ops
from sknet._tree import leaves, rebuild
from sknet.core import Tensor, gradients, no_grad
from sknet.device import active, backend, device_of, namespace, to_device, to_host
from sknet.engine._fingerprint import Fingerprint
from sknet.engine._inputs import arguments, computed_dtype, each_input
from sknet.engine._model_like import ModelLike
from sknet.engine._network import Head, Pass, SubPass, apply_head, chunk_rows_of, in_chunks, predict_rows
from sknet.engine._optimizer import as_operands
from sknet.engine._programs import evaluate, on_one_row
from sknet.exceptions import DeviceError, ShapeError
from sknet.nn import Module, Scope, run
from sknet.nn._layer_outputs import RECORDED, Call, Calls, run_to
from sknet.nn._lazy import shadows, shape_pass
from sknet.nn._module import hold_statistics


@dataclass(frozen=True)
class Layer:
    """A forward pass that stops at the output of a layer."""

    call: Call
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the pass, which a model compiles once."""
        return f"layer {self.call.path}:{self.call.number}"

    def __call__(self, module: Module, scope: Scope, args: tuple[Any, ...]) -> Tensor:
        """Run the module in a scope; if the layer returns several arrays, return the first."""
        outputs = [x for x in leaves(run_to(module, self.call, scope, args)) if isinstance(x, Tensor)]
        n_rows = leaves(args)[0].shape[0]
        shape = outputs[0].shape if outputs else None
        if not shape or shape[0] != n_rows:
            raise ShapeError(
                f"layer {self.call.path!r} returned {'no array' if shape is None else f'shape {shape}'} for "
                f"{n_rows} rows: expected an array whose first axis counts the rows"
            )
        return outputs[0]


# The owner is what holds the network, so that nothing else keeps the network alive: a model's memory, or a
# predictor. A layout would not do, since states that were saved share it.
_known: WeakKeyDictionary[Any, tuple[Fingerprint, dict[Any, Calls]]] = WeakKeyDictionary()
MOST_KINDS = 8  # of rows, whose calls are known; sequences have as many as lengths


def find_layer(
    layer: int | str, module: Module, owner: Any, X: Any, dtype: Any, compute: Callable[[Pass], Any]
) -> Layer:
    """Return the layer with an index or a path; layers are found by a pass on shapes alone."""
    calls = _calls(module, owner, X, dtype, compute)
    call = calls.find(layer)
    return Layer(call, calls.shapes.get(call, ())[1:])


def _calls(module: Module, owner: Any, X: Any, dtype: Any, compute: Callable[[Pass], Any]) -> Calls:
    """Return the calls of a network's modules for rows like these, from a pass on shapes if possible."""
    of_graph: Calls | None = vars(module).get(RECORDED)
    if of_graph is not None:
        return of_graph
    fingerprint, by_key = _known.get(owner, (None, {}))
    if fingerprint is None or not fingerprint.holds():
        by_key = {}
    key = str(each_input(lambda x: (x.shape[1:], x.dtype.kind), X))
    calls = by_key.get(key)
    if calls is None:

        def recorded(module: Module, scope: Scope, args: tuple[Any, ...]) -> Calls:
            return Calls(module, lambda twin: run(twin, scope, args))

        try:
            row = each_input(lambda x: shadows((1, *x.shape[1:]), computed_dtype(x, dtype)), X)
            calls = Calls(module, lambda twin: shape_pass(twin, arguments(row)))
        except DeviceError:
            with no_grad(), np.errstate(all="ignore"):
                calls = compute(recorded)
        last = list(by_key.items())[1 - MOST_KINDS :]
        _known[owner] = Fingerprint(module), dict([*last, (key, calls)])
    return calls


def part_rows(model: ModelLike, X: Any, path: str, head: Head | None = None) -> Any:
    """Return the output of one module of a network for all rows of its own inputs."""
    return predict_rows(model, X, f"part {path}", head, SubPass(path))


def drawn_rows(model: ModelLike, X: Any, head: Head | None, keys: Sequence[tuple[int, int]]) -> Any:
    """Return a function of raw outputs for all rows and draws of dropout: (n_rows, n_draws, ...)."""
    module = detached(model).train().to(device=model.device)
    for each in module.modules():
        if each._buffers or getattr(each, "augments", False):  # norms go on with their running statistics
            hold_statistics(each, True)
    at = count()

    def compute(chunk: Any) -> Any:
        inputs, step = arguments(as_operands(model, chunk)), next(at)
        with no_grad():
            draws = [apply_head(head, run(module, Scope({}, True, key, step), inputs).data) for key in keys]
        return namespace(draws[0]).stack(draws, axis=1)

    return in_chunks(compute, X, chunk_rows_of(model, X), model.dtype, model.device, model.precision)


def layer_rows(model: ModelLike, X: Any, layer: int | str) -> Any:
    """Return the output of a layer for all rows, in chunks by compiled programs if possible."""
    meant = model_layer(model, X, layer)
    return predict_rows(model, X, meant.name, by=meant)


def model_layer(model: ModelLike, X: Any, layer: int | str) -> Layer:
    return find_layer(layer, model.module, model.memory, X, model.dtype, on_one_row(model, X))


def output_shapes(model: ModelLike, X: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the outputs of a model's layers for one row, by path."""
    calls = _calls(model.module, model.memory, X, model.dtype, on_one_row(model, X))
    last = sorted(calls.shapes.items(), key=lambda item: item[0].number)
    return {call.path: tuple(shape[1:]) for call, shape in last if shape}


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


def input_gradients(model: ModelLike, X: Any, chosen: Chosen) -> Any:
    """Return the gradient of one output per row with respect to that row of the inputs."""

    def compute(rows: Any) -> list[Any]:
        return _gradients_at(model, X, _rows_of(model, X, rows), chosen, rows)

    return _in_blocks(model, X, compute, _points_at_once(model, X))


def integrated_gradients(model: ModelLike, X: Any, baseline: Any, chosen: Chosen, n_steps: int) -> Any:
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


def _points_at_once(model: ModelLike, X: Any) -> int:
    return chunk_rows_of(model, X)


def _is_real(x: Any) -> bool:
    return bool(x.dtype.kind == "f")


def _in_blocks(model: ModelLike, X: Any, compute: Callable[[Any], list[Any]], size: int) -> Any:
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


def _rows_of(model: ModelLike, X: Any, rows: Any) -> list[Any]:
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


def _gradients_at(model: ModelLike, like: Any, points: list[Any], chosen: Chosen, rows: Any) -> list[Any]:
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


def detached(model: ModelLike) -> Module:
    """Return a copy of a model's module, on the host and in evaluation mode."""
    module = deepcopy(model.module).eval().to(device="cpu")
    module.load_state_dict(model.evaluation_parameters, strict=False)
    return module
