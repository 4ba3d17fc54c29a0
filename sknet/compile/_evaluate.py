"""Computing a graph by its primitives, one after the other, as any function of tensors does."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sknet._tree import leaves, map_leaves, paths
from sknet.compile._constant import as_read
from sknet.compile._key import same_value
from sknet.compile._signature import OutputIndex
from sknet.core import PRIMITIVES, Tensor, as_tensor, bind, is_grad_enabled
from sknet.device import Device, MetaArray, to_device
from sknet.exceptions import CaptureError, DtypeError, GradientError, ShapeError, StateError

if TYPE_CHECKING:
    from sknet.compile._graph import Graph

__all__ = ["checked_inputs", "evaluated", "flat_arguments", "outputs_of"]

Tree = Any
HOST = Device("cpu")


def evaluated(graph: "Graph", args: tuple[Tree, ...], values: Mapping[str, Any]) -> Tree:
    """Compute a graph; `Graph.__call__` says what it takes."""
    signature = graph.called()
    unknown = [name for name in values if name not in signature.values]
    if unknown:
        raise StateError(f"the graph has no {', '.join(map(repr, unknown))}, only {list(signature.values)}")
    given = flat_arguments(signature.args, args)
    device = next((x.device for x in given if isinstance(x, Tensor)), HOST)
    own = [
        to_device(x, device) if type(x) is np.ndarray else x for x in {**signature.values, **values}.values()
    ]
    inputs = checked_inputs(graph, [*own, *given])
    outputs = outputs_of(graph, inputs)
    return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, signature.result)


def flat_arguments(takes: Tree, args: tuple[Tree, ...]) -> list[Any]:
    """Return the arrays among the arguments, once the rest is known to be as in the capture."""
    expected, got = paths(takes), paths(_like(takes, args))
    if expected != got:
        raise CaptureError(
            f"the arguments must be trees like those of the capture, with leaves at {expected}, got {got}"
        )
    found = []
    for name, example, leaf in zip(expected, leaves(takes), leaves(_like(takes, args)), strict=True):
        if isinstance(example, MetaArray):
            found.append(leaf)
        elif not same_value(example, leaf):
            raise CaptureError(
                f"argument {name} was {example!r} when the function was captured, and is {leaf!r} now. "
                "Numbers and text are part of the graph: capture it again."
            )
    return found


def _like(example: Tree, tree: Tree) -> Tree:
    """Return a tree with an array in place of each list that stands for one."""
    if isinstance(example, MetaArray):
        return tree if isinstance(tree, Tensor) else _as_array(tree)
    if isinstance(example, dict) and isinstance(tree, dict):
        return {key: _like(example[key], x) if key in example else x for key, x in tree.items()}
    if isinstance(example, (list, tuple)) and isinstance(tree, (list, tuple)) and len(example) == len(tree):
        return [_like(x, y) for x, y in zip(example, tree, strict=True)]
    return tree


def _as_array(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, (list, tuple, int, float)) else x


def checked_inputs(graph: "Graph", given: Sequence[Any]) -> list[Tensor]:
    """Return inputs as tensors, once they are known to fit."""
    found, names = [], graph.names()
    for variable, x in zip(graph.inputs, given, strict=True):
        tensor = as_tensor(x)
        if tensor.shape != variable.shape:
            raise ShapeError(f"{names[variable]} must have shape {variable.shape}, got {tensor.shape}")
        if tensor.dtype.kind != variable.dtype.kind:
            raise DtypeError(f"{names[variable]} must be {variable.dtype}, got {tensor.dtype}")
        found.append(tensor)
    return found


def outputs_of(graph: "Graph", inputs: Sequence[Tensor]) -> list[Tensor]:
    """Compute the outputs of a graph from its inputs, by its primitives."""
    known: dict[Any, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
    device = inputs[0].device if inputs else None
    for variable, constant in as_read(graph.constants, reversed(graph.equations)).items():
        array = constant if device is None or device.kind in ("cpu", "meta") else to_device(constant, device)
        known[variable] = Tensor(array)
    for equation in graph.equations:
        primitive = equation.primitive
        operands = tuple([known[x] if type(x) not in (bool, int, float) else x for x in equation.operands])
        if PRIMITIVES.get(primitive.name) is not primitive and _is_recorded(operands):
            raise GradientError(
                f"{primitive.name} has no gradient: a pass has put it into the graph. Differentiate the "
                "graph as it was captured"
            )
        known[equation.output] = bind(primitive, operands, equation.params)
    return [known[x] for x in graph.outputs]


def _is_recorded(operands: tuple[Any, ...]) -> bool:
    return is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in operands)
