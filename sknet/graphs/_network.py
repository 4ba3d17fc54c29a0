"""Networks as graphs: with inputs by name, lengths beside that of the rows, and the outputs of layers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter, signature
from itertools import combinations
from typing import Any, NamedTuple, cast

from sknet._tree import leaves
from sknet.compile import Graph, Variable, capture
from sknet.compile.extend import OutputIndex, SymbolicGraph
from sknet.core import Tensor, as_tensor
from sknet.exceptions import CaptureError
from sknet.graphs._export import state_of
from sknet.graphs._module import GraphLayers, GraphModule
from sknet.nn import Module, Scope, bindings, run
from sknet.nn.extend import RECORDED, Call, Calls

__all__ = ["Exported", "export_function", "export_network"]

MOST_SIZES = 3  # that a graph depends on beside the number of rows
MOST_TIED = 4  # axes that have one length
Axis = tuple[int, int]  # the number of an input, and that of its axis
Axes = tuple[Axis, ...]
Shapes = Sequence[tuple[int, ...]]


class Exported(NamedTuple):
    """A network as a graph."""

    module: GraphModule
    fixed: dict[tuple[str, int], str]


def export_network(
    module: Module, example: tuple[Any, ...] | dict[str, Any], parts: Mapping[str, GraphModule] = {}
) -> Exported:
    """Export a network for any number of rows, and any other lengths that it takes."""
    network = _Network(module, example)
    symbolic, fixed = _for_sizes(network.captured, list(leaves(example)))
    values, transient = state_of(module)
    whole, outputs = symbolic.result
    n_outputs = len([leaf for leaf in leaves(whole) if type(leaf) is OutputIndex])
    made = GraphModule(symbolic.returning(n_outputs, whole), values, transient, parts=parts)
    positions = {call: symbolic.outputs[i] for call, i in zip(network.seen, outputs, strict=True)}
    shapes = [x.shape for x in symbolic.verified(1)[-1]]
    of_calls = {call: shapes[position] for call, position in positions.items()}
    calls = network.calls
    vars(made)[RECORDED] = GraphLayers(
        type(module).__name__, calls.modules, of_calls, [c for c in calls.layers if c in of_calls], positions
    )
    names = network.names
    return Exported(made, {(names[i], axis): reason for (i, axis), reason in fixed.items()})


def export_function(function: Callable[[Tensor], Tensor], example: Tensor) -> GraphModule:
    """Export a pure function of one array for any number of rows, and any other lengths that it takes."""

    def captured(shapes: Shapes, dtypes: Sequence[Any]) -> Graph:
        return capture(function, Variable(shapes[0], dtypes[0]))

    return GraphModule(_for_sizes(captured, [example])[0], {})


class _Network:
    """A module whose capture also returns the outputs of its layers."""

    calls: Calls

    def __init__(self, module: Module, example: tuple[Any, ...] | dict[str, Any]) -> None:
        self.module, self.is_named = module, isinstance(example, dict)
        self.names = list(example if isinstance(example, dict) else signature(module.forward).parameters)
        self.seen: dict[Call, None] = {}

    def as_pure(self, function: Callable[..., Any]) -> Any:
        """Return what `capture` asks for."""
        values, _, _ = self.module.as_pure(self.module)
        return values, [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self.names], self.compute

    def compute(self, values: Mapping[str, Any], *args: Any) -> Any:
        """Return the network's result, and a list of the outputs of its calls."""
        found: list[Any] = []
        given: Any = dict(zip(self.names, args, strict=True)) if self.is_named else args

        def traced(twin: Module) -> None:
            known = bindings(twin)
            scope = Scope({known[path]: as_tensor(value) for path, value in values.items()}, training=False)
            found.append(run(twin, scope, given))
            if scope.updates:
                raise CaptureError(
                    f"{type(self.module).__name__} sets a buffer in evaluation mode, and a graph changes "
                    "nothing"
                )

        seen: dict[Call, Tensor] = {}
        calls = Calls(self.module, traced, seen)
        if not self.seen:  # of the first capture; one that fails is not the last word on layers
            self.calls, self.seen = calls, dict.fromkeys(seen)
        return found[0], list(seen.values())

    def captured(self, shapes: Shapes, dtypes: Sequence[Any]) -> Graph:
        """Return the graph for inputs of these shapes."""
        inputs = [Variable(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        return capture(cast(Any, self), *inputs).with_values({})


def _for_sizes(
    captured: Callable[[Shapes, Sequence[Any]], Graph], inputs: list[Any]
) -> tuple[SymbolicGraph, dict[Axis, str]]:
    """Return the graph for any lengths that it may have, and why it may not have some."""
    known: list[Axes] = []
    kept = _symbolic(captured, inputs, known)
    fixed: dict[Axis, str] = {}
    for axes in _candidates(inputs):
        if len(known) == MOST_SIZES or any(axis in each for axis in axes for each in known):
            continue
        try:
            kept = _symbolic(captured, inputs, [*known, axes])
        except _OtherOperationsError as error:
            fixed.update({axis: str(error) for axis in axes})
        except Exception:  # the network itself takes no other lengths there
            continue
        else:
            known.append(axes)
    return kept, {axis: why for axis, why in fixed.items() if not any(axis in axes for axes in known)}


class _OtherOperationsError(Exception):
    """A network takes other lengths, and a graph does not."""


def _symbolic(
    captured: Callable[[Shapes, Sequence[Any]], Graph], inputs: list[Any], known: list[Axes]
) -> SymbolicGraph:
    """Return the graph for any number of rows, and any lengths of tied axes."""
    dtypes = [x.dtype for x in inputs]

    def of_sizes(*sizes: int) -> Graph:
        shapes = [[sizes[0], *x.shape[1:]] if x.shape else [] for x in inputs]
        for axes, length in zip(known, sizes[1:], strict=True):
            for i, axis in axes:
                shapes[i][axis] = length
        return captured([tuple(shape) for shape in shapes], dtypes)

    lengths = [inputs[i].shape[axis] for ((i, axis), *_) in known]
    samples = [(n, n + 1, n + 3) for n in lengths]
    if known:
        of_sizes(2, *(n + 1 for n in lengths))  # the network's own errors, before those of the graph
    try:
        return SymbolicGraph.of_sizes(of_sizes, samples)
    except CaptureError as error:
        if not known:
            raise
        raise _OtherOperationsError(str(error)) from None


def _candidates(inputs: list[Any]) -> Iterator[Axes]:
    """Yield axes that may have other lengths: alone, and then with others of the same length."""
    axes = [(i, axis) for i, x in enumerate(inputs) for axis in range(1, len(x.shape))]
    yield from ((axis,) for axis in axes)
    by_length: dict[int, list[Axis]] = {}
    for i, axis in axes:
        by_length.setdefault(inputs[i].shape[axis], []).append((i, axis))
    for tied in by_length.values():
        for count in range(2, min(len(tied), MOST_TIED) + 1):
            yield from combinations(tied, count)
