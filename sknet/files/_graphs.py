"""Graphs in a file: text with the names of primitives, and no code."""

from typing import Any

import numpy as np

from sknet._fields import COUNT, Each, Fields, Items, Together, shown
from sknet.compile import Graph, Variable
from sknet.compile._graph import OutputIndex
from sknet.compile._symbolic import (
    ROWS,
    Counted,
    Filled,
    Input,
    Length,
    Lengths,
    Line,
    Position,
    Share,
    SymbolicGraph,
    Triangles,
)
from sknet.core import PRIMITIVES, Tensor
from sknet.device import is_array
from sknet.graphs import GraphModule
from sknet.graphs._export import GraphLayers
from sknet.nn import Parameter
from sknet.nn._layer_outputs import RECORDED, Call

Tree = Any
VARYING = (Length, Lengths)
OPERANDS = (bool, int, float, *VARYING, Share)
PARAMS = (bool, int, float, str, type(None), type(...), np.dtype, np.generic, *VARYING)
PARTS = Items(str, GraphModule)
CALL = Together(str, COUNT, Each(list, COUNT), COUNT)
LAYERS = Fields.of(
    "GraphLayers",
    {
        "name": str,
        "modules": Items(str, Each(list, str)),
        "calls": Each(list, list),
        "layers": Each(list, COUNT),
    },
)
MOST_ELEMENTS = 1 << 36  # of a variable: no host computes with more

# -- graphs -------------------------------------------------------------------------------------------


def of_graph(x: Graph) -> dict[str, Any]:
    return {"symbolic": _of_symbolic(SymbolicGraph.of(x)), "values": dict(x.values)}


def graph(cls: type, state: dict[str, Any]) -> Graph:
    symbolic, values = _symbolic(state["symbolic"]), state["values"]
    if symbolic.any_rows or any(isinstance(x, Counted) for x in symbolic.constants):
        raise ValueError("a graph for one number of rows has lengths that depend on it")
    own = symbolic.inputs[: symbolic.n_values]
    if not isinstance(values, dict) or list(values) != [x.name for x in own]:
        raise ValueError(f"the graph needs values of {[x.name for x in own]}, not {shown(values)}")
    for x in own:
        array = values[x.name]
        if type(array) is not np.ndarray or (array.shape, array.dtype) != (x.shape, x.dtype):
            raise ValueError(f"the value of {x.name} is no array {x}")
        array.flags.writeable = False
    return symbolic.at(0).with_values(values)


def of_graph_module(x: GraphModule) -> dict[str, Any]:
    """Describe a graph module, its parameters and buffers."""
    values: dict[str, Any] = dict(x.own_parameters())
    lasting = x.state_dict()
    buffers = {path: buffer.numpy() for path, buffer in x.named_buffers()}
    transient = [path for path in buffers if path not in lasting]
    parts = {"values": values | buffers, "transient": transient, "n_rows": x.n_rows}
    layers: GraphLayers | None = vars(x).get(RECORDED)
    if layers is not None:
        parts |= {"layers": _of_layers(layers)}
    own = {path: child for path, child in x.named_children() if isinstance(child, GraphModule)}
    return {"symbolic": _of_symbolic(x.symbolic), **parts, **({"parts": own} if own else {})}


def _of_layers(x: GraphLayers) -> dict[str, Any]:
    calls = [[*call, list(x.shapes[call]), position] for call, position in x.positions.items()]
    places = {call: i for i, call in enumerate(x.positions)}
    return {
        **{"name": x.name, "modules": {path: list(known) for path, known in x.modules.items()}},
        **{"calls": calls, "layers": [places[call] for call in x.layers]},
    }


def graph_module(cls: Any, state: dict[str, Any]) -> Any:
    values, n_rows, transient = state["values"], state["n_rows"], state["transient"]
    for path, value in values.items():
        if not isinstance(value, (Parameter, np.ndarray)):
            raise ValueError(f"{path} is neither a parameter nor an array")
        if isinstance(value, Parameter) and not value.is_drawn:
            raise ValueError(f"parameter {path!r} has no values")
    if type(n_rows) is not int or n_rows < 0 or not isinstance(transient, list):
        raise ValueError(f"{n_rows!r} is no number of rows")
    parts = state.get("parts", {})
    if not PARTS.is_satisfied_by(parts):
        raise ValueError("its parts are no graphs by path")
    made = cls(_symbolic(state["symbolic"]), values, transient, n_rows, parts=parts)
    if "layers" in state:
        vars(made)[RECORDED] = _layers(state["layers"], made.symbolic)
    return made


def _layers(state: Any, symbolic: SymbolicGraph) -> GraphLayers:
    LAYERS.check(state)
    positions, shapes, calls = {}, {}, []
    variables = symbolic.verified(1)[-1]
    for described in state["calls"]:
        if not CALL.is_satisfied_by(tuple(described)):
            raise ValueError(f"{described!r} is no call of a layer")
        path, number, shape, position = described
        call = Call(path, number)
        positions[call], shapes[call] = _position(position, len(variables)), tuple(shape)
        if shapes[call] != variables[position].shape or path not in state["modules"]:
            raise ValueError(f"layer {path!r} has another output than its graph")
        calls.append(call)
    layers = [calls[_position(i, len(calls))] for i in state["layers"]]
    modules = {path: (first, name) for path, (first, name) in state["modules"].items()}
    if any(first not in modules for first, _ in modules.values()):
        raise ValueError("a layer has a first path that none has")
    return GraphLayers(state["name"], modules, shapes, layers, positions)


# -- graphs of any number of rows ---------------------------------------------------------------------


def _of_symbolic(x: SymbolicGraph) -> dict[str, Any]:
    for line in x.lines:
        if line.primitive not in PRIMITIVES:
            raise TypeError(
                f"its operation {line.primitive} is one that a pass has put there: save the graph as it was "
                "captured"
            )
    return {
        "inputs": [[list(given.shape), given.dtype, given.name] for given in x.inputs],
        "constants": list(x.constants),
        "lines": [[n, list(map(_of_operand, operands)), params] for n, operands, params in x.lines],
        "outputs": [int(place) for place in x.outputs],
        "args": _of_tree(x.args),
        "result": _of_tree(x.result),
        **({"others": list(x.others)} if x.others else {}),
    }


def _of_operand(x: Any) -> Any:
    return [int(x)] if type(x) is Position else x


def _symbolic(state: dict[str, Any]) -> SymbolicGraph:
    inputs = [Input(_shape(shape), _dtype(dtype), _text(name)) for shape, dtype, name in state["inputs"]]
    constants = [_constant(x) for x in state["constants"]]
    n_known, lines = len(inputs) + len(constants), []
    for name, operands, params in state["lines"]:
        if name not in PRIMITIVES or PRIMITIVES[name].tape_only:
            raise ValueError(f"{name!r} is no operation of a graph")
        given = tuple([_operand(x, n_known) for x in operands])
        lines.append(Line(name, given, {_text(key): _param(value) for key, value in params.items()}))
        n_known += 1
    outputs = [_position(place, n_known) for place in state["outputs"]]
    types = iter([x.dtype for x in inputs[len(inputs) - _n_arrays(state["args"]) :]])
    args = _tree(state["args"], lambda _: Variable((), next(types)))
    result = _tree(state["result"], lambda place: OutputIndex(_position(place, len(outputs))))
    if not isinstance(args, tuple):
        raise ValueError("its arguments are no tuple")
    others = state.get("others", [])
    if not isinstance(others, list) or not all(type(n) is int and n >= 0 for n in others):
        raise ValueError(f"{others!r} are no lengths of an example")
    found = SymbolicGraph(inputs, constants, lines, outputs, args, result, others)
    if any(isinstance(n, VARYING) for given in inputs[: found.n_values] for n in given.shape):
        raise ValueError("a parameter has a shape that depends on the number of rows")
    for x in found.verified(ROWS[0])[-1]:
        if x.size > MOST_ELEMENTS:
            raise ValueError(f"it has a value {x}, which is larger than any memory")
    return found


def _shape(lengths: Any) -> tuple[Any, ...]:
    return tuple([_length(n) for n in lengths])


def _length(n: Any) -> Any:
    if isinstance(n, Lengths):
        return n  # its class has checked its terms
    parts = n if isinstance(n, Length) else (n,)
    if not all(type(part) is int for part in parts) or (type(n) is int and n < 0):
        raise ValueError(f"{n!r} is no length")
    return n


def _dtype(dtype: Any) -> Any:
    if not isinstance(dtype, np.dtype) or dtype.kind not in "biuf":
        raise ValueError(f"{dtype!r} is no dtype of a tensor")
    return dtype


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise ValueError(f"{x!r} is no name")
    return x


def _constant(x: Any) -> Any:
    """Return a constant whose memory is what the file holds; what it stands for is allocated when it runs."""
    if isinstance(x, Filled):
        if type(x.number) is not np.ndarray or x.number.ndim:
            raise ValueError("a constant that is one number everywhere has several")
        _dtype(x.number.dtype)
        return Filled(x.number, _shape(x.shape))
    if isinstance(x, Counted):
        return Counted(_dtype(x.dtype), _shape(x.shape))
    if isinstance(x, Triangles):
        if x.lower.ndim or x.upper.ndim or x.lower.dtype != x.upper.dtype or len(x.shape) != 2:
            raise ValueError("a constant of two numbers has others")
        return x
    if type(x) is not np.ndarray:
        raise ValueError("a constant is no array")
    _dtype(x.dtype)
    return x


def _operand(x: Any, n_known: int) -> Any:
    if isinstance(x, list):
        (place,) = x
        return Position(_position(place, n_known))
    if not isinstance(x, OPERANDS):
        raise ValueError(f"{x!r} is no operand")
    if isinstance(x, Share):
        _length(x.of)
        return x
    return _length(x) if isinstance(x, VARYING) else x


def _param(x: Any) -> Any:
    """Return a parameter of an operation that is made of numbers, names and arrays only."""
    if type(x) in (tuple, list):
        return type(x)([_param(part) for part in x])
    if type(x) is slice:
        return slice(*[_param(part) for part in (x.start, x.stop, x.step)])
    if type(x) is dict:
        return {_key(key): _param(part) for key, part in x.items()}
    if type(x) is np.ndarray:
        _dtype(x.dtype)
        return x
    if not isinstance(x, PARAMS):
        raise ValueError(f"{type(x).__name__} is no kind of parameter")
    return _length(x) if isinstance(x, VARYING) else x


def _position(place: Any, n_known: int) -> int:
    if type(place) is not int or not 0 <= place < n_known:
        raise ValueError(f"there is no value {place!r} before it")
    return place


# -- trees of arguments and results -------------------------------------------------------------------


def _of_tree(tree: Tree) -> list[Any]:
    """Return a tree as nested lists, each of which begins with its kind."""
    if type(tree) is OutputIndex:
        return ["array", int(tree)]
    if isinstance(tree, (Tensor, Variable)) or is_array(tree):
        return ["array", 0]
    if isinstance(tree, dict):
        return ["dict", [[key, _of_tree(item)] for key, item in tree.items()]]
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return ["record", type(tree), [_of_tree(item) for item in tree]]
    if isinstance(tree, (list, tuple)):
        return ["list" if isinstance(tree, list) else "tuple", [_of_tree(item) for item in tree]]
    return ["other", tree]


def _tree(described: Any, array: Any) -> Tree:
    kind, *content = described
    if kind == "array":
        return array(*content)
    if kind == "other":
        (leaf,) = content
        if isinstance(leaf, (dict, list, tuple)):
            raise ValueError("a leaf of its arguments or results is a tree")
        return leaf
    if kind == "dict":
        return {_key(key): _tree(item, array) for key, item in content[0]}
    if kind == "record":
        cls, items = content
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ValueError(f"{cls!r} is no kind of results")
        return cls._make([_tree(item, array) for item in items])
    if kind in ("list", "tuple"):
        return {"list": list, "tuple": tuple}[kind]([_tree(item, array) for item in content[0]])
    raise ValueError(f"{str(kind)[:80]} is no kind of tree")


def _key(key: Any) -> Any:
    if not isinstance(key, (str, int)):
        raise ValueError(f"{key!r} is no key")
    return key


def _n_arrays(described: Any) -> int:
    found: list[Any] = []
    _tree(described, found.append)
    return len(found)
