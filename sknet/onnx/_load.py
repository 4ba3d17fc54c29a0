"""Loading an ONNX model as a trainable module, after checks of the contents of its file."""

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sknet import nn
from sknet._fields import Named
from sknet._params import named_errors
from sknet.core import Tensor
from sknet.exceptions import LoadError
from sknet.onnx import _read_elementwise, _read_neural, _read_shapes  # noqa: F401  for READ
from sknet.onnx._export import required
from sknet.onnx._reading import NEWEST, OLDEST, READ, Operator, check_node, computed, row_of
from sknet.onnx._writer import Node

DEFAULT = ("", "ai.onnx")  # names of the standard's default domain
DTYPES = (
    *("BOOL", "DOUBLE", "FLOAT", "FLOAT16", "INT16", "INT32", "INT64", "INT8"),
    *("UINT16", "UINT32", "UINT64", "UINT8"),
)


@named_errors
def load(path: str | os.PathLike[str]) -> "Network":
    """Load the network in an ONNX file as a module, which can be trained further.

    Parameters
    ----------
    path : path-like
        A file of `export`, or of another program that uses the same operators.

    Returns
    -------
    Network
        The module, in training mode. Weights are parameters, in the order of the file.

    Raises
    ------
    ImportError
        If the library onnx is not installed.
    LoadError
        If the file is damaged or not an ONNX model, or has an opset, operator, attribute or type that is not
        supported; the message names it. Operators may also raise it in a forward pass.

    Notes
    -----
    External weight files are read only from the folder of the model. Opsets 7 to 28 are read.

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


def _network(model: Any, reading: "Reading", values: Mapping[str, np.ndarray[Any, Any]]) -> "Network":
    graph = model.graph
    reading.check_values()
    nodes = reading.nodes()
    fixed = _fixed(nodes) | {name for name in values if _is_constant(name, model.producer_name)}
    weights = {k: v for k, v in values.items() if v.dtype.kind == "f" and v.ndim and k not in fixed}
    constants = {k: v for k, v in values.items() if k not in weights}
    inputs = [given.name for given in graph.input if given.name not in values]
    return Network(nodes, inputs, [output.name for output in graph.output], weights, constants)


def _fixed(nodes: Sequence[Node]) -> set[str]:
    return {name for node in nodes for i, name in enumerate(node.inputs) if i in READ[node.op].fixed}


def _is_constant(name: str, producer: str) -> bool:
    return producer == "sknet" and name.startswith("constant_")


class Network(nn.Module):
    """Network that was read from an ONNX file.

    Parameters
    ----------
    nodes : sequence of Node
        Operators, in order.
    inputs, outputs : sequence of str
        Names of inputs and outputs.
    weights : mapping of str to ndarray
        Parameters by their names in the file; a dot becomes an underscore.
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


def not_a_model(path: str, error: Exception) -> LoadError:
    return LoadError(f"{path!r} is not an ONNX model: {' '.join(str(error).split())}")


class Reading:
    def __init__(self, onnx: Any, model: Any, path: str) -> None:
        self._onnx, self._graph, self._path = onnx, model.graph, path
        self._opset = self._opset_of(model)
        self._dtypes = {getattr(onnx.TensorProto, name): name for name in DTYPES}
        self._read: Counter[Path] = Counter()  # bytes of each file of weights

    def _refused(self, what: str) -> LoadError:
        return LoadError(f"{self._path!r} has {what}, which sknet does not support")

    def _opset_of(self, model: Any) -> int:
        found = {each.version for each in model.opset_import if each.domain in DEFAULT}
        if not found:
            raise LoadError(f"{self._path!r} is not an ONNX model: it names no opset of the default domain")
        newest = min(NEWEST, int(self._onnx.defs.onnx_opset_version()))
        for opset in found:
            if not OLDEST <= opset <= newest:
                raise LoadError(
                    f"{self._path!r} has opset {opset}, but sknet with onnx {self._onnx.__version__} reads "
                    f"{OLDEST} to {newest}: convert it by onnx.version_converter, or export it again"
                )
        if len(found) > 1:
            raise LoadError(f"{self._path!r} is not an ONNX model: it names the opsets {sorted(found)}")
        return int(found.pop())

    # -- values -----------------------------------------------------------------------------------

    def check_values(self) -> None:
        """Check the kinds and types of inputs and outputs, and that all are defined."""
        graph = self._graph
        if graph.sparse_initializer:
            raise self._refused("sparse weights")
        for value in (*graph.input, *graph.output):
            kind = value.type.WhichOneof("value")
            if kind not in (None, "tensor_type"):
                raise self._refused(f"{value.name!r} of {kind}")
            number = value.type.tensor_type.elem_type
            if number:  # 0 where the file says nothing
                self._dtype(number, repr(value.name))
        defined = {x.name for x in (*graph.input, *graph.initializer)}
        defined |= {name for node in graph.node for name in node.output}
        missing = [x.name for x in graph.output if x.name not in defined]
        if missing or not graph.output:
            raise LoadError(f"{self._path!r} is not an ONNX model: outputs {missing} are not computed")

    def _dtype(self, number: int, what: str) -> np.dtype[Any]:
        if number not in self._dtypes:
            known = {value: name for name, value in self._onnx.TensorProto.DataType.items()}
            raise self._refused(f"{what} of type {known.get(number, number)}")
        return self._onnx.helper.tensor_dtype_to_np_dtype(number)

    # -- nodes ------------------------------------------------------------------------------------

    def nodes(self) -> list[Node]:
        """Return the nodes; errors name all operators that are not supported, or the first attribute."""
        pairs = [(node, self._key(node)) for node in self._graph.node]
        unknown = {_full_name(node) for node, key in pairs if key is None}
        if unknown:
            raise LoadError(
                f"{self._path!r} has operators that sknet does not support: {', '.join(sorted(unknown))}"
            )
        return [self._node(node, key) for node, key in pairs if key is not None]

    def _key(self, node: Any) -> str | None:
        if node.domain not in DEFAULT:
            return None
        try:
            schema = self._onnx.defs.get_schema(node.op_type, self._opset, "")
        except Exception:  # onnx's own, for an unknown name
            return None
        return row_of(node.op_type, schema.since_version)

    def _node(self, node: Any, key: str) -> Node:
        row, schema = READ[key], self._onnx.defs.get_schema(node.op_type, self._opset, "")
        where = f"{node.op_type} ({', '.join(filter(None, node.output))})"
        attributes = {a.name: self._attribute(a, where) for a in node.attribute}
        attributes = {
            name: value
            for name, value in attributes.items()
            if self._is_read(row, schema, name, value, where)
        }
        inputs, outputs = _trimmed(node.input), _trimmed(node.output)
        if "n_outputs" in row.attributes:
            attributes["n_outputs"] = len(outputs)
        self._check_parameters(row, schema, attributes, inputs, where)
        if row.outputs is not None and len(outputs) > row.outputs:
            raise self._refused(f"{where} with the output {_formal(schema.outputs, row.outputs)!r}")
        return Node(key, inputs, outputs, attributes)

    def _is_read(self, row: Operator, schema: Any, name: str, value: Any, where: str) -> bool:
        """Tell whether an attribute is a parameter; one that is not may only have its default."""
        if name in row.attributes and name != "n_outputs":
            return True
        default = schema.attributes[name].default_value if name in schema.attributes else None
        if default is None or not default.name or self._attribute(default, where) != value:
            raise self._refused(f"{where} with {name}={value!r}")
        return False

    def _check_parameters(
        self, row: Operator, schema: Any, attributes: dict[str, Any], inputs: tuple[str, ...], where: str
    ) -> None:
        for name, parameter in row.attributes.items():
            value = attributes.get(name, parameter.default)
            if value is parameter.empty:
                raise LoadError(f"{self._path!r} is not an ONNX model: {where} has no {name}")
            choices = row.choices(name)
            if choices is not None and value not in choices:
                raise self._refused(f"{where} with {name}={value!r} (only {', '.join(map(repr, choices))})")
        formal = list(row.inputs)
        if formal and formal[-1].kind is formal[-1].VAR_POSITIONAL:
            required, at_most = 1, math.inf
        else:
            required = sum(p.default is p.empty for p in formal)
            at_most = len(formal)
        if len(inputs) > at_most:
            raise self._refused(f"{where} with the input {_formal(schema.inputs, int(at_most))!r}")
        if len(inputs) < required or not all(inputs[:required]):
            raise LoadError(f"{self._path!r} is not an ONNX model: {where} has too few inputs")

    def _attribute(self, attribute: Any, where: str) -> Any:
        onnx, what = self._onnx, f"{where} with {attribute.name}"
        if attribute.name == "to":
            return self._dtype(attribute.i, f"{what}=")
        try:
            value = onnx.helper.get_attribute_value(attribute)
            if isinstance(value, onnx.TensorProto):
                return self._array(value, what)
            if isinstance(value, (int, float)):
                return value
            found = [value] if isinstance(value, (bytes, str)) else list(value)
            found = [v.decode() if isinstance(v, bytes) else v for v in found]
        except LoadError:
            raise
        except TypeError:
            raise self._refused(f"{what} of a graph or a sparse tensor") from None
        except Exception as error:  # of references, and of texts that are none
            raise not_a_model(self._path, error) from None
        if not all(isinstance(v, (int, float, str)) for v in found):
            raise self._refused(f"{what} of other tensors or graphs")
        return found[0] if isinstance(value, (bytes, str)) else found

    # -- arrays -----------------------------------------------------------------------------------

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the weights and constants by name; external data are taken out of the model."""
        found = {}
        for tensor in self._graph.initializer:
            found[tensor.name] = self._array(tensor, repr(tensor.name))
            if self._is_external(tensor):
                tensor.ClearField("data_location")
                tensor.ClearField("external_data")
                tensor.dims[:] = [0]
        for attribute in (a for node in self._graph.node for a in node.attribute):
            if any(map(self._is_external, (attribute.t, *attribute.tensors))):
                raise self._refused(f"external data of the attribute {attribute.name!r}")
        return found

    def _is_external(self, tensor: Any) -> bool:
        return bool(tensor.data_location == self._onnx.TensorProto.EXTERNAL)

    def _array(self, tensor: Any, what: str) -> np.ndarray[Any, Any]:
        dtype = self._dtype(tensor.data_type, what)
        if min(tensor.dims, default=0) < 0:
            raise LoadError(f"{self._path!r}: {what} has the shape {list(tensor.dims)}")
        if self._is_external(tensor):
            content = self._external(tensor, math.prod(tensor.dims) * dtype.itemsize, what)
            return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype).reshape(tuple(tensor.dims))
        try:
            found: np.ndarray[Any, Any] = self._onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # of NumPy and of onnx
            raise LoadError(f"{self._path!r}: {what} is damaged: {error}") from None
        if found.dtype != dtype or found.shape != tuple(tensor.dims):
            raise LoadError(f"{self._path!r}: {what} is damaged: it has {found.dtype} of shape {found.shape}")
        return found

    def _external(self, tensor: Any, size: int, what: str) -> bytes:
        """Return an array's bytes from a file in the model's folder."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._beside(entries.get("location", ""), what)
        numbers = {
            key: entries.get(key, default) for key, default in (("offset", "0"), ("length", str(size)))
        }
        if not all(text.isdecimal() and text.isascii() and len(text) < 20 for text in numbers.values()):
            raise LoadError(f"{self._path!r}: {what} has external data with {numbers}")
        offset, length = int(numbers["offset"]), int(numbers["length"])
        if length != size:
            raise LoadError(f"{self._path!r}: {what} needs {size} bytes, and has {length} of external data")
        try:
            with path.open("rb") as file:
                if offset + length > os.fstat(file.fileno()).st_size:
                    raise LoadError(f"{self._path!r}: {str(path)!r} ends before the data of {what}")
                self._read[path] += length
                if self._read[path] > 2 * os.fstat(file.fileno()).st_size:
                    raise LoadError(f"{self._path!r}: arrays up to {what} share the bytes of {str(path)!r}")
                file.seek(offset)
                return file.read(length)
        except OSError as error:
            raise LoadError(f"{self._path!r}: the data of {what} cannot be read: {error}") from None

    def _beside(self, location: str, what: str) -> Path:
        folder = Path(self._path).parent.resolve()
        try:
            path = (folder / location).resolve()
            is_file = path.is_file()
        except (OSError, ValueError) as error:  # a NUL, a loop of links
            raise LoadError(f"{self._path!r}: {what} has data in {location!r}: {error}") from None
        is_plain = location and "\\" not in location and ".." not in Path(location).parts
        if not is_plain or Path(location).is_absolute() or not path.is_relative_to(folder):
            raise LoadError(
                f"{self._path!r}: {what} has data in {location!r}, which is not in the model's folder: copy "
                "it there, and save the model with its name alone"
            )
        if not is_file:
            raise LoadError(f"{self._path!r}: the data of {what} are missing: {str(path)!r} is not a file")
        return path


def _trimmed(names: Iterable[str]) -> tuple[str, ...]:
    found = list(names)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _formal(parameters: Any, index: int) -> str:
    return str(parameters[min(index, len(parameters) - 1)].name) if parameters else str(index)


def _full_name(node: Any) -> str:
    return node.op_type if node.domain in DEFAULT else f"{node.domain}.{node.op_type}"
