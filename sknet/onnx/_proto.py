"""Files of ONNX: nodes and constants as the protocol buffers of the library onnx."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sknet._installed import optional
from sknet.compile.extend import Length
from sknet.onnx._writer import Node, Value, Writer

__all__ = ["ML", "ML_OPERATORS", "ML_OPSET", "OPSET", "Types", "model_of", "required"]

OPSET = 20
IR_VERSION = 10
ML, ML_OPSET = "ai.onnx.ml", 3
ML_OPERATORS = frozenset({"LabelEncoder"})


def required() -> Any:
    """Return the library onnx; if it is missing, raise an ImportError that names the extra."""
    return optional("onnx", "sknet.onnx", "onnx")


def model_of(
    w: Writer, inputs: Sequence[Value], outputs: Mapping[str, Value], name: str, half: bool = False
) -> Any:
    """Return a checked ``onnx.ModelProto``."""
    onnx = required()
    types = Types(onnx.helper, half)
    nodes = [types.node(node) for node in w.nodes]
    nodes += [onnx.helper.make_node("Identity", [x.name], [public]) for public, x in outputs.items()]
    used = {name for node in nodes for name in node.input}
    graph = onnx.helper.make_graph(
        nodes,
        name,
        [types.info(x.name, x) for x in inputs],
        [types.info(public, x) for public, x in outputs.items()],
        [onnx.numpy_helper.from_array(types.array(a), n) for n, a in w.constants.items() if n in used],
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    if any(node.op in ML_OPERATORS for node in w.nodes):
        opsets.append(onnx.helper.make_opsetid(ML, ML_OPSET))
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="sknet")
    onnx.checker.check_model(model)
    return model


class Types:
    """Translates dtypes."""

    def __init__(self, helper: Any, half: bool = False) -> None:
        self._helper = helper
        self._single = np.dtype(np.float16 if half else np.float32)

    def dtype(self, dtype: Any) -> np.dtype[Any]:
        return self._single if dtype == np.dtype(np.float32) else np.dtype(dtype)

    def array(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with np.errstate(over="ignore"):
            return array.astype(self.dtype(array.dtype), copy=False)

    def number(self, dtype: Any) -> int:
        return int(self._helper.np_dtype_to_tensor_dtype(self.dtype(dtype)))

    def attributes(self, node: Node) -> dict[str, Any]:
        return {k: self.number(v) if isinstance(v, np.dtype) else v for k, v in node.attributes.items()}

    def node(self, node: Node) -> Any:
        domain = ML if node.op in ML_OPERATORS else ""
        return self._helper.make_node(
            node.op, list(node.inputs), list(node.outputs), domain=domain, **self.attributes(node)
        )

    def info(self, name: str, value: Value) -> Any:
        shape = [str(n) if isinstance(n, Length) else n for n in value.shape]
        return self._helper.make_tensor_value_info(name, self.number(value.dtype), shape)
