"""Networks exported as graphs, with their parameters, for any number of rows."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeVar, cast

from sknet._late import above
from sknet._tree import leaves, map_leaves
from sknet._warnings import warn_caller
from sknet.compile import Graph, Variable, capture
from sknet.compile._graph import OutputIndex, checked_inputs, flat_arguments, outputs_of
from sknet.compile._symbolic import FIXED, Axis, Free, RowsGraph, Shapes, SymbolicGraph, of_any_lengths
from sknet.core import Tensor, as_tensor
from sknet.device import is_array, to_host
from sknet.exceptions import CaptureError, GraphError
from sknet.nn import Module, Parameter, Scope, bindings, run
from sknet.nn._layer_outputs import RECORDED, Call, Calls, Recorded

SYMBOLIC, N_ROWS = ".symbolic", ".n_rows"  # attributes that no parameter or child can take: they have dots


class GraphModule(Module):
    """A captured function with its parameters: a module that runs a graph instead of a Python `forward`.

    `Module.export` and `sknet.graphs.export` create it, and `sknet.load` reads it from a file. It can be
    trained, copied and exported like any module; its parameters and buffers keep their paths, so that state
    dicts of the original module can be loaded.

    Parameters
    ----------
    symbolic : SymbolicGraph
        The graph.
    values : mapping of str to Parameter or array
        Parameters and buffers by path; only `Parameter` objects are trained.
    transient : iterable of str, default=()
        Paths of non-persistent buffers.
    n_rows : int, default=1
        The number of rows for which `graph` is displayed.
    parts : mapping of str to GraphModule, default=None
        Modules that can be called on their own, by path; their parameters are among the values.

    Raises
    ------
    GraphError
        If names, shapes or dtypes of the values differ from those of the graph.

    Notes
    -----
    The graph was captured in evaluation mode, so `train` and `eval` change nothing. Training uses no dropout,
    and the running statistics of batch norms.

    It computes in the precision of its inputs and parameters, except where the function names a dtype.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn
    >>> exported = nn.Linear(3, 2).initialize(0).export(np.ones((1, 3), "float32"))
    >>> exported
    GraphModule(2 operations, x: float32[n,3])
    >>> exported(np.ones((5, 3), "float32")).shape
    (5, 2)
    >>> [path for path, _ in exported.named_parameters()]
    ['weight', 'bias']
    """

    def __init__(
        self,
        symbolic: SymbolicGraph,
        values: Mapping[str, Any],
        transient: Iterable[str] = (),
        n_rows: int = 1,
        *,
        parts: "Mapping[str, GraphModule] | None" = None,
    ) -> None:
        super().__init__()
        vars(self).update({SYMBOLIC: symbolic, N_ROWS: n_rows})
        expected = [given.name for given in symbolic.inputs[: symbolic.n_values]]
        if sorted(expected) != sorted(values):
            raise GraphError(f"the graph needs values of {expected}, got {list(values)}")
        for path, part in (parts or {}).items():
            self.register_module(path, part)
        for path, value in values.items():
            _register(self, path, value, persistent=path not in transient)
        for given, own in zip(symbolic.inputs, _own(self), strict=False):
            if (own.shape, own.dtype.kind) != (given.shape, given.dtype.kind):
                raise GraphError(f"the graph needs {given}, got an array {own.dtype}{list(own.shape)}")

    @classmethod
    def _is_reserved(cls, name: str) -> bool:
        """Tell whether the captured module cannot have had a parameter or child of this name."""
        return Module._is_reserved(name)

    @property
    def symbolic(self) -> SymbolicGraph:
        """The graph for any number of rows."""
        return vars(self)[SYMBOLIC]

    @property
    def n_rows(self) -> int:
        """The number of rows for which `graph` is displayed."""
        return vars(self)[N_ROWS]

    def forward(self, *args: Any, **named: Any) -> Any:
        """Compute the captured function.

        `args`, and the last of them in `named`, are trees of arrays, each of shape (n_samples, ...), with the
        structure and kinds of dtypes of the examples. The result is like the function's.

        Raises
        ------
        CaptureError
            If the structure of the arguments, or a number or string among them, differs from the examples.
        ShapeError, DtypeError
            If an array does not fit.
        """
        return _computed(self, self.symbolic, args, named)

    @property
    def input_names(self) -> list[str]:
        """The names of the input arrays."""
        return [given.name for given in self.symbolic.arguments]

    @property
    def graph(self) -> Graph:
        """The graph for the example's number of rows, with the current values."""
        own = zip(self.symbolic.inputs, _own(self), strict=False)
        return self.symbolic.at(self.n_rows).with_values({x.name: to_host(value.data) for x, value in own})

    def save(self, path: "str | PathLike[str]") -> None:
        """Write it to a file at `path`, like ``sknet.save(module, path)``; loading executes no code."""
        above("save")(self, path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        return f"{len(self.symbolic.lines)} operations, {', '.join(map(str, self.symbolic.arguments))}"


# Not methods: a child may have their names.


def _computed(
    module: GraphModule, symbolic: SymbolicGraph, args: tuple[Any, ...], named: Mapping[str, Any]
) -> Any:
    if named:
        args = (*args, *_by_name(module.input_names, len(args), named))
    given = [as_tensor(x) for x in flat_arguments(symbolic.args, args)]
    graph = symbolic.at(*symbolic.sizes(given))
    outputs = outputs_of(graph, checked_inputs(graph, [*_own(module), *given]))
    return map_leaves(lambda leaf: outputs[leaf] if type(leaf) is OutputIndex else leaf, symbolic.result)


def _register(module: GraphModule, path: str, value: Any, *, persistent: bool) -> None:
    *parents, name = path.split(".")
    owner: Module = module
    for parent in parents:
        if parent not in owner._children:
            owner.register_module(parent, Module())
        owner = owner._children[parent]
    if owner._parameters.get(name) is value:
        return  # of a part
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    else:
        owner.register_buffer(name, value, persistent)


def _own(module: GraphModule) -> list[Tensor]:
    """Return parameters and buffers in the order of the graph's inputs."""
    known: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return [known[given.name] for given in module.symbolic.inputs[: module.symbolic.n_values]]


def _by_name(expected: list[str], n_given: int, named: Mapping[str, Any]) -> list[Any]:
    """Return the arguments after those given by position."""
    names = expected[n_given:]
    if set(names) != set(named):
        raise TypeError(f"the graph takes {expected}, got {n_given} of them and {list(named)}")
    return [named[name] for name in names]


class GraphLayers(Recorded):
    """The layers of the network that a `GraphModule` was made of: where their outputs are in its graph."""

    def __init__(
        self,
        name: str,
        modules: Mapping[str, tuple[str, str]],
        shapes: Mapping[Call, tuple[int, ...]],
        layers: Sequence[Call],
        positions: Mapping[Call, int],
    ) -> None:
        super().__init__(name, modules, shapes, layers)
        self.positions = dict(positions)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes with lists for dicts by calls, whose keys formats such as skops' refuse."""
        return {**vars(self), "shapes": [*self.shapes.items()], "positions": [*self.positions.items()]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, shapes=dict(state["shapes"]), positions=dict(state["positions"]))

    def output(self, module: Module, call: Call, args: tuple[Any, ...] | dict[str, Any]) -> Any:
        """Return the output of a call; what comes after it is not computed."""
        assert isinstance(module, GraphModule)
        symbolic = module.symbolic.up_to(self.positions[call])
        given, named = ((), args) if isinstance(args, dict) else (args, {})
        return _computed(module, symbolic, given, named)


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
        Whether Python may read the example's values. If so, branches, loops and numbers are silently fixed as
        they are for the example, and so are its shapes. Otherwise reading a value is an error that names the
        line.

    Returns
    -------
    GraphModule
        Holds copies of parameters and buffers, under the same paths.

    Raises
    ------
    CaptureError
        If the function depends on values in a way that a graph would fix, such as a Python branch on a value,
        or if its operations depend on the number of rows.
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


Written = TypeVar("Written")
LIKE_IMAGES = 4  # axes of inputs that are no sequences


class Exported(NamedTuple):
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


def with_any_lengths(
    captured: Callable[[Shapes], Graph],
    shapes: Mapping[str, tuple[int, ...]],
    write: Callable[[RowsGraph, Free], Written],
    fixed: Collection[Axis] = (),
    *,
    warns: bool = True,
) -> Written:
    """Write a function for all lengths of inputs, except for axes that are `fixed`."""
    # Warn, if `warns`, of sequences that have the length of the fit, though the function takes others.
    rows, free, reasons = of_any_lengths(captured, list(shapes.values()), fixed)
    found = None
    if free.axes:
        try:
            found = write(rows, free)
        except CaptureError as error:
            reasons |= {axis: str(error) for axes in free.axes for axis in axes}
            free = FIXED
            rows = free.captured(captured, list(shapes.values()))
    found = write(rows, free) if found is None else found
    for (i, axis), reason in reasons.items():
        name, shape = list(shapes.items())[i]
        if warns and len(shape) < LIKE_IMAGES:
            warn_caller(
                f"what is written takes only the length {shape[axis]} in axis {axis} of the input {name!r}, "
                f"that of the fit, though the network takes others: {reason}",
                UserWarning,
            )
    return found


class _Network:
    """A module whose capture also returns the outputs of its layers."""

    calls: Calls

    def __init__(self, module: Module, example: tuple[Any, ...] | dict[str, Any]) -> None:
        self.module, self.is_named = module, isinstance(example, dict)
        self.names = list(
            example if isinstance(example, dict) else inspect.signature(module.forward).parameters
        )
        self.seen: dict[Call, None] = {}

    def as_pure(self, function: Callable[..., Any]) -> Any:
        """Return what `capture` asks for."""
        values, _, _ = self.module.as_pure(self.module)
        return (
            values,
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in self.names],
            self.compute,
        )

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
        inputs = [Variable(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        return capture(cast(Any, self), *inputs).with_values({})


def _for_sizes(
    captured: Callable[[Shapes, Sequence[Any]], Graph], inputs: list[Any]
) -> tuple[SymbolicGraph, dict[Axis, str]]:
    """Return the graph for all lengths that may vary, and the reasons why others may not."""
    dtypes = [x.dtype for x in inputs]
    rows, free, fixed = of_any_lengths(lambda shapes: captured(shapes, dtypes), [x.shape for x in inputs])
    return SymbolicGraph.of_sizes(rows, [values[0] for values in free.samples]), fixed
