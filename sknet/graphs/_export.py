"""Export: from a module, or any function of tensors, to a graph module."""

from collections.abc import Callable
from typing import Any

from sknet._tree import leaves, map_leaves
from sknet.compile import Graph, Variable, capture
from sknet.compile.extend import SymbolicGraph
from sknet.core import Tensor
from sknet.device import is_array
from sknet.graphs._module import GraphModule
from sknet.nn import Module

__all__ = ["export", "state_of"]


def export(
    function: Callable[..., Any], *example: Any, any_rows: bool = True, unroll: bool = False
) -> GraphModule:
    """Export a module or a function as a graph with its parameters, which does not need the original class.

    Parameters
    ----------
    function : Module or callable
        A module or a method of one, or a pure function of trees of tensors. Modules are always captured in
        evaluation mode: dropout does nothing, and batch norms use their running statistics.
    *example : trees of arrays, each of shape (n_samples, ...)
        Example arguments; they determine dtypes, and the lengths of all axes but the first. Numbers and
        strings become part of the graph.
    any_rows : bool, default=True
        Whether the first axis of each array may have any length; False fixes the example's shapes.
    unroll : bool, default=False
        Whether Python may read the example's values. If so, branches, loops and numbers are silently frozen
        as they are for the example, whose shapes are fixed too. Otherwise reading a value is an error that
        names the line.

    Returns
    -------
    GraphModule
        Holds copies of parameters and buffers, under the same paths.

    Raises
    ------
    CaptureError
        If the function does something that a graph would freeze, such as a Python branch on a value, or if
        its operations depend on the number of rows.
    StateError
        If the module is lazy and has not seen an input.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> from sknet.graphs import export
    >>> network = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5), nn.Tanh()).initialize(0)
    >>> exported = export(network, np.ones((1, 3), "float32"))
    >>> exported(np.ones((100, 3), "float32")).shape
    (100, 2)
    """
    if any_rows and not unroll:
        symbolic = SymbolicGraph.of_rows(lambda n: _captured(function, _with_rows(example, n)))
    else:
        symbolic = SymbolicGraph.of(_captured(function, example, unroll=unroll))
    owner = function if isinstance(function, Module) else getattr(function, "__self__", None)
    values, transient = state_of(owner) if isinstance(owner, Module) else ({}, [])
    n_rows = next((leaf.shape[0] for leaf in leaves(example) if is_dense(leaf) and leaf.shape), 0)
    return GraphModule(symbolic, values, transient, n_rows)


def is_dense(leaf: Any) -> bool:
    """Tell whether a leaf is an array."""
    return isinstance(leaf, Tensor) or is_array(leaf)


def _captured(function: Callable[..., Any], args: tuple[Any, ...], *, unroll: bool = False) -> Graph:
    """Return a graph without values; they are copied only once, for the module."""
    return capture(function, *args, unroll=unroll).with_values({})


def _with_rows(example: tuple[Any, ...], n_rows: int) -> Any:
    """Return the arguments without data, with another number of rows."""

    def changed(leaf: Any) -> Any:
        if not is_dense(leaf):
            return leaf
        return Variable((n_rows, *leaf.shape[1:]) if leaf.shape else (), leaf.dtype)

    return map_leaves(changed, example)


def state_of(module: Module) -> tuple[dict[str, Any], list[str]]:
    """Return copies of parameters and buffers, and the paths of non-persistent buffers."""
    values: dict[str, Any] = {path: parameter.copy() for path, parameter in module.own_parameters()}
    buffers = dict(module.named_buffers())
    lasting = module.state_dict()
    return values | {path: buffer.detach() for path, buffer in buffers.items()}, [
        path for path in buffers if path not in lasting
    ]
