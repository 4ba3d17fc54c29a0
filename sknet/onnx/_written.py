"""Writing exports as nodes: passes through modules, and the outputs of estimators."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sknet import nn
from sknet._tree import map_leaves
from sknet.compile import Graph, capture
from sknet.core import Tensor, no_grad
from sknet.device import is_array, to_host
from sknet.estimators.extend import computation_of
from sknet.exceptions import StateError
from sknet.graphs import GraphModule
from sknet.onnx._graph import exported
from sknet.onnx._tables import Tables
from sknet.onnx._writer import Value, Writer
from sknet.tabular.extend import ensemble_computation, is_ensemble

__all__ = ["Written", "written_estimator", "written_module"]

Arrays = dict[str, np.ndarray[Any, Any]]
Bound = dict[str, Tensor]


class Written(NamedTuple):
    """Nodes, and the values that are inputs and outputs."""

    writer: Writer
    inputs: list[Value]
    outputs: dict[str, Value]
    name: str
    is_half: bool


def written_module(module: nn.Module, example: Any, dtype: Any) -> Written:
    """Write a module; its outputs are named "output", or "output_0", "output_1", ..."""
    any_rows = True
    if isinstance(module, GraphModule):
        given, takes, any_rows = _graph_inputs(module), module.symbolic.args, module.symbolic.any_rows
    else:
        given = _named_inputs(module, example)
        takes = tuple(given.values())

    def compute(bound: Bound, args: list[Tensor]) -> Any:
        free = iter(args)
        tree = map_leaves(lambda leaf: next(free) if is_array(leaf) else leaf, takes)
        return nn.functional_call(module, bound, tree, training=False)[0]

    w, inputs, outputs, is_half = _written(module, given, compute, dtype, ["output"], any_rows=any_rows)
    names = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    return Written(w, inputs, dict(zip(names, outputs, strict=True)), type(module).__name__, is_half)


def written_estimator(
    estimator: Any,
    example: Any,
    dtype: Any,
    *,
    splits: bool | None = None,
    raw_scores: bool = False,
    has_labels: bool = True,
) -> Written:
    """Write a fitted estimator, with the outputs that `sknet.estimators.extend.computation_of` names."""
    if is_ensemble(estimator):
        found = ensemble_computation(estimator, raw_scores=raw_scores)
    else:
        found = computation_of(estimator, example, raw_scores=raw_scores)
    module, places = found.module, nn.bindings(found.module)

    def compute(bound: Bound, args: list[Tensor]) -> Any:
        scope = nn.Scope({places[path]: value for path, value in bound.items()}, training=False)
        given = dict(zip(found.inputs, args, strict=True)) if found.is_named else tuple(args)
        raw = found.by(module, scope, given)
        return tuple(head(raw) for head in found.outputs.values())

    w, inputs, outputs, is_half = _written(
        module, dict(found.inputs), compute, dtype, found.outputs, encoders=found.encoders, splits=splits
    )
    named = dict(zip(found.outputs, outputs, strict=True))
    if found.labels is not None and has_labels:
        named["label"] = _labelled(w, named["label"], plain_labels(found.labels, type(estimator).__name__))
    return Written(w, inputs, named, type(estimator).__name__, is_half)


def plain_labels(labels: Any, name: str) -> np.ndarray[Any, Any]:
    """Return labels as ONNX has them: integers, or strings."""
    values = labels.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if all(isinstance(value, (bool, int, float)) and int(value) == value for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    raise ValueError(
        f"labels of an ONNX model must be integers or strings, but those of this {name} are {values}: "
        "encode y before the fit"
    )


def _labelled(w: Writer, numbers: Value, labels: np.ndarray[Any, Any]) -> Value:
    if labels.dtype != object and (labels == np.arange(len(labels))).all():
        return numbers
    known = w.parameter(w.name("labels"), labels)
    return w.add("Gather", known, numbers, dtype=labels.dtype, shape=numbers.shape, axis=0)


def _written(
    module: nn.Module,
    inputs: Arrays,
    compute: Callable[[Bound, list[Tensor]], Any],
    dtype: Any,
    reserved: Iterable[str],
    *,
    any_rows: bool = True,
    encoders: Sequence[Any] = (),
    splits: bool | None = None,
) -> tuple[Writer, list[Value], list[Value], bool]:
    if nn.is_lazy(module):
        raise StateError(
            f"{type(module).__name__} has parameters whose shapes are not known yet: run it on an input once"
        )
    values = {name: to_host(parameter.data) for name, parameter in module.own_parameters()}
    values |= {name: to_host(buffer.data) for name, buffer in module.named_buffers()}
    kind = _dtype_of(values, inputs) if dtype is None else np.dtype(dtype)
    half = kind == np.float16  # NumPy and SciPy support it less well than single precision
    kind = np.dtype(np.float32) if half else kind
    values, inputs = _converted(values, kind), _converted(inputs, kind)

    def forward(*arrays: Tensor) -> Any:
        bound = dict(zip(values, arrays[: len(values)], strict=True))
        return compute(bound, list(arrays[len(values) :]))

    def captured(n_rows: int) -> Graph:
        shapes = [(n_rows, *x.shape[1:]) if any_rows and x.ndim else x.shape for x in inputs.values()]
        rows = [np.zeros(shape, x.dtype) for shape, x in zip(shapes, inputs.values(), strict=True)]
        with no_grad():
            return capture(forward, *values.values(), *rows)

    table = Tables(encoders, kind, splits) if encoders else None
    names = list(inputs) if table is None else [value.name for value in table.inputs]
    public = {f"{path}_" if path in {*names, *reserved} else path: value for path, value in values.items()}
    w, outputs = exported(captured, public, list(inputs), table)
    given = [w.value(x) for x in w.rows.graph.inputs[len(values) :]] if table is None else table.inputs
    return w, given, outputs, half


def _graph_inputs(module: GraphModule) -> Arrays:
    """Return what a graph takes, for as many rows as its example had."""
    variables = module.graph.inputs[module.symbolic.n_values :]
    return {name: np.zeros(x.shape, x.dtype) for name, x in zip(module.input_names, variables, strict=True)}


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
