"""GraphModule: a captured function with its parameters, as a module."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from sknet._late import above
from sknet._tree import map_leaves
from sknet.compile import Graph
from sknet.compile.extend import OutputIndex, SymbolicGraph, checked_inputs, flat_arguments, outputs_of
from sknet.core import Tensor, as_tensor
from sknet.device import to_host
from sknet.exceptions import GraphError
from sknet.nn import Module, Parameter
from sknet.nn.extend import Call, Recorded

__all__ = ["GraphLayers", "GraphModule"]

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
        If names, shapes or dtypes of the values are not those of the graph.

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
        found: SymbolicGraph = vars(self)[SYMBOLIC]
        return found

    @property
    def n_rows(self) -> int:
        """The number of rows for which `graph` is displayed."""
        found: int = vars(self)[N_ROWS]
        return found

    def forward(self, *args: Any, **named: Any) -> Any:
        """Compute the captured function.

        Parameters
        ----------
        *args : trees of tensors or arrays, each of shape (n_samples, ...)
            With the structure and dtype kinds of the examples.
        **named : tensor or array
            The last arguments, by name.

        Returns
        -------
        tree of Tensor
            Like the function's result.

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
        """Write it to a file that executes nothing when it is loaded: ``sknet.save(module, path)``.

        Parameters
        ----------
        path : str or PathLike
            The file, which `sknet.load` reads; an existing file is replaced.
        """
        above("save")(self, path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def extra_repr(self) -> str:
        """Return the text between the parentheses of the repr."""
        return f"{len(self.symbolic.lines)} operations, {', '.join(map(str, self.symbolic.arguments))}"


# Not methods: a child may have their names.


def _computed(
    module: GraphModule, symbolic: SymbolicGraph, args: tuple[Any, ...], named: Mapping[str, Any]
) -> Any:
    """Return what a graph computes with the values of a module."""
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

    def output(self, module: Module, call: Call, args: tuple[Any, ...] | dict[str, Any]) -> Any:
        """Return the output of a call; what comes after it is not computed."""
        assert isinstance(module, GraphModule)
        symbolic = module.symbolic.up_to(self.positions[call])
        given, named = ((), args) if isinstance(args, dict) else (args, {})
        return _computed(module, symbolic, given, named)
