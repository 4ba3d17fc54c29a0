"""Loading an ONNX model as a trainable module."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sknet import nn
from sknet._fields import Named
from sknet.core import Tensor
from sknet.onnx import _read_elementwise, _read_neural, _read_recurrent, _read_shapes  # noqa: F401  for READ
from sknet.onnx._files import Reading, not_a_model
from sknet.onnx._proto import required
from sknet.onnx._reading import READ, check_node, computed
from sknet.onnx._writer import Node

__all__ = ["Network", "load"]


def load(path: str | os.PathLike[str]) -> "Network":
    """Return the network in an ONNX file as a module, which can be trained further.

    Parameters
    ----------
    path : path-like
        A file by `export`, or by another program that uses the same operators.

    Returns
    -------
    Network
        In training mode. Weights are parameters, in the order of the file.

    Raises
    ------
    ImportError
        If the library onnx is not installed.
    LoadError
        If the file is damaged or no ONNX model, or has an opset, operator, attribute or type that is not
        supported; the message names it. Operators whose inputs are only known in a pass raise it there.

    Notes
    -----
    Weights in files of their own are read from the model's folder, which they must not leave. Opsets 7 to 28
    are read.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from sknet import nn, onnx
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "network.onnx")
    ...     model = onnx.export(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), path, np.zeros((1, 3), "float32"))
    ...     network = onnx.load(path)
    >>> network.forward(np.ones((5, 3), "float32")).shape
    (5, 2)
    >>> [name for name, _ in network.named_parameters()]
    ['weights.0_weight', 'weights.0_bias']
    """
    onnx, name = required(), os.fspath(path)
    content = Path(path).read_bytes()
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # the parser's and the checker's have no common base
        raise not_a_model(name, error) from None
    del content
    reading = Reading(onnx, model, name)
    values = reading.arrays()
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise not_a_model(name, error) from None
    return _network(model, reading, values)


def _network(model: Any, reading: Reading, values: Mapping[str, np.ndarray[Any, Any]]) -> "Network":
    graph = model.graph
    reading.check_values()
    nodes = reading.nodes()
    fixed = _fixed(nodes) | {name for name in values if _is_constant(name, model.producer_name)}
    weights = {k: v for k, v in values.items() if v.dtype.kind == "f" and v.ndim and k not in fixed}
    constants = {k: v for k, v in values.items() if k not in weights}
    inputs = [given.name for given in graph.input if given.name not in values]
    return Network(nodes, inputs, [output.name for output in graph.output], weights, constants)


def _fixed(nodes: Sequence[Node]) -> set[str]:
    """Return the names of arrays that are not weights."""
    return {name for node in nodes for i, name in enumerate(node.inputs) if i in READ[node.op].fixed}


def _is_constant(name: str, producer: str) -> bool:
    return producer == "sknet" and name.startswith("constant_")


class Network(nn.Module):
    """A network that was read from an ONNX file.

    Parameters
    ----------
    nodes : sequence of Node
        Its operators, in order.
    inputs, outputs : sequence of str
        Names of inputs and outputs.
    weights : mapping of str to ndarray
        Its parameters by their names in the file; a dot becomes an underscore.
    constants : mapping of str to ndarray
        Arrays that are not trained.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.onnx import Network
    >>> from sknet.onnx._writer import Node
    >>> nodes = [Node("MatMul", ("x", "w"), ("y",), {})]
    >>> Network(nodes, ["x"], ["y"], {"w": np.array([[2.0], [3.0]])}, {})([[1.0, 10.0]]).numpy()
    array([[32.]])
    """

    _stored_fields = {
        "nodes": tuple[Node, ...],
        "inputs": tuple[str, ...],
        "outputs": tuple[str, ...],
        "names": dict[str, str],
        "constants": dict[str, np.ndarray],
        "weights": Named("ParameterDict"),
    }

    def _check_stored(self) -> None:
        known = {"", *self.constants, *self.inputs, *self.names}
        for node in self.nodes:
            check_node(node)
            missing = [name for name in node.inputs if name not in known]
            if missing:
                raise ValueError(f"a node {node.op} of a network needs {missing}")
            known |= {*node.outputs}
        wrong = [name for name, array in self.constants.items() if array.dtype.kind not in "biufcSU"]
        if wrong:
            raise ValueError(f"constant {wrong[0]!r} of a network has dtype {self.constants[wrong[0]].dtype}")
        if not known.issuperset(self.outputs) or {*self.names.values()} != {*self.weights.keys()}:
            raise ValueError(
                f"a network has not the outputs {self.outputs}, or other weights than {self.names}"
            )

    def __init__(
        self,
        nodes: Sequence[Node],
        inputs: Sequence[str],
        outputs: Sequence[str],
        weights: Mapping[str, np.ndarray[Any, Any]],
        constants: Mapping[str, np.ndarray[Any, Any]],
    ) -> None:
        super().__init__()
        self.nodes, self.inputs, self.outputs = tuple(nodes), tuple(inputs), tuple(outputs)
        self.names = _parameter_names(weights)
        self.weights = nn.ParameterDict(
            {self.names[name]: nn.Parameter(np.array(array)) for name, array in weights.items()}
        )
        self.constants = dict(constants)

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs: a tensor, or a dict of them by name if there are several."""
        if len(inputs) != len(self.inputs):
            raise TypeError(f"this network takes {len(self.inputs)} inputs, {self.inputs}, got {len(inputs)}")
        values: dict[str, Any] = {"": None, **self.constants}
        values |= dict(zip(self.inputs, map(_as_tensor, inputs), strict=True))
        values |= {name: self.weights[known] for name, known in self.names.items()}
        for node in self.nodes:
            results = computed(node, [values[name] for name in node.inputs])
            values |= dict(zip(node.outputs, results, strict=False))
        found = {name: _as_tensor(values[name]) for name in self.outputs}
        return found[self.outputs[0]] if len(found) == 1 else found

    def extra_repr(self) -> str:
        """Return the text between the parentheses of the repr."""
        return f"{len(self.nodes)} operators, inputs {', '.join(self.inputs)}"


def _parameter_names(names: Iterable[str]) -> dict[str, str]:
    """Return a valid, unique parameter name for each name in the file."""
    found: dict[str, str] = {}
    taken = set(dir(nn.ParameterDict()))  # `training`, `forward`, `keys`, ...
    for name in names:
        known = name.replace(".", "_").replace("/", "_")
        while known in taken:
            known += "_"
        taken.add(known)
        found[name] = known
    return found


def _as_tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(np.asarray(x))
