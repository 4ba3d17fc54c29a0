"""Random ONNX operators: a model of one node is computed by sknet as by onnxruntime, or refused by name.

Attributes over their ranges, opsets from the oldest to the newest, types, broadcasting, scalars and empty
arrays; inputs come from the user or from the file. What onnxruntime refuses is skipped. Run many by
``python -m tests.fuzz.operators --cases 20000 --seed 0``.
"""

import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from sknet.exceptions import LoadError
from sknet.onnx import load
from sknet.onnx._reading import NEWEST, OLDEST
from tests.fuzz import operands_elementwise, operands_networks, operands_shapes  # noqa: F401  for DRAWS
from tests.fuzz.command import run_kinds
from tests.fuzz.operands import DRAWS, Draw

TOLERANCES = {"float16": (2e-2, 2e-2), "float32": (2e-4, 2e-5), "float64": (1e-5, 1e-6)}
# Names that an input or attribute has in other versions.
OTHER_NAMES = {"K": "k", "constant_value": "value"}


class Case(NamedTuple):
    """A node with its operands."""

    op: str
    opset: int
    arrays: dict[str, np.ndarray | None]  # by the names of inputs
    attributes: dict[str, Any]
    given: list[str]  # inputs that are not in the file
    n_outputs: int


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    op = sorted(DRAWS)[seed % len(DRAWS)]
    oldest = min(
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == op and not s.domain
    )
    newest = min(NEWEST, onnx.defs.onnx_opset_version())
    opset = int(rng.integers(max(OLDEST, oldest), newest + 1))
    drawn = DRAWS[op](Draw(rng, opset))
    schema = onnx.defs.get_schema(op, opset)
    arrays, attributes = _parameters(schema, drawn.values)
    names = [name for name, array in arrays.items() if array is not None]
    given = [n for n in names if rng.random() < (0.1 if n in drawn.fixed else 0.7)]
    return Case(op, opset, arrays, attributes, given, drawn.n_outputs)


def _parameters(schema: Any, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return inputs and attributes that this version of an operator has."""
    attributes, inputs = {}, {}
    for name, value in values.items():
        other = OTHER_NAMES.get(name, name)
        named = next((n for n in (name, other) if n in schema.attributes), None)
        if named is not None:
            is_array = isinstance(value, np.ndarray)
            attributes[named] = (value.tolist() or None) if is_array else value  # an empty list has no type
    is_variadic = (
        bool(schema.inputs) and schema.inputs[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    )
    if is_variadic:
        inputs = {name: value for name, value in values.items() if name.startswith("variadic_")}
    else:
        formal = [parameter.name for parameter in schema.inputs]
        inputs = {name: values.get(name, values.get(f"#{i}")) for i, name in enumerate(formal)}
    inputs = {n: None if v is None else np.asarray(v) for n, v in inputs.items()}
    while inputs and list(inputs.values())[-1] is None:
        inputs.popitem()
    return inputs, {n: v for n, v in attributes.items() if v is not None}


def model_of(case: Case, outputs: list[np.ndarray] | None = None) -> Any:
    """Return the model; the checker wants to know the outputs."""
    names = [f"y{i}" for i in range(case.n_outputs)]
    node = helper.make_node(
        case.op, ["" if a is None else n for n, a in case.arrays.items()], names, **case.attributes
    )
    infos = [helper.make_empty_tensor_value_info(n) for n in names]
    if outputs is not None:
        infos = [_info(n, y) for n, y in zip(names, outputs, strict=True)]
    graph = helper.make_graph(
        [node],
        "case",
        [_info(n, case.arrays[n]) for n in case.given],
        infos,
        [
            onnx.numpy_helper.from_array(a, n)
            for n, a in case.arrays.items()
            if a is not None and n not in case.given
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", case.opset)], ir_version=10)


def _info(name: str, array: np.ndarray) -> Any:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def reference(case: Case) -> list[np.ndarray] | str:
    """Return what onnxruntime computes, or its error."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model_of(case).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, {n: case.arrays[n] for n in case.given})
    except Exception as error:  # onnxruntime's have no common base
        return " ".join(str(error).split())[:200]


def checked(seed: int) -> list[tuple[str, str]]:
    """Return what is wrong with a case, or how it came out."""
    case = draw(seed)
    wanted = reference(case)
    if isinstance(wanted, str):
        return [("skipped", wanted)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        path.write_bytes(model_of(case, wanted).SerializeToString())
        try:
            network = load(path).eval()
            with np.errstate(all="ignore"):
                found = network(*(case.arrays[n] for n in case.given))
        except LoadError as error:
            return [("refused" if case.op in str(error) else "unnamed", str(error))]
        except Exception as error:  # every other one is a defect
            return [("raised", f"{type(error).__name__}: {error}")]
    found = list(found.values()) if isinstance(found, dict) else [found]
    return [("differs", text) for text in _differences([x.numpy() for x in found], wanted)] or [
        ("agrees", "")
    ]


def _differences(found: list[np.ndarray], wanted: list[np.ndarray]) -> list[str]:
    for mine, theirs in zip(found, wanted, strict=True):
        if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
            return [f"{mine.dtype}{mine.shape} for {theirs.dtype}{theirs.shape}"]
        rtol, atol = TOLERANCES.get(str(mine.dtype), (0, 0))
        if not np.allclose(mine, theirs, rtol=rtol, atol=atol, equal_nan=True):
            return [f"{mine.tolist()} for {theirs.tolist()}"[:600]]
    return []


def shown(seed: int) -> str:
    return f"seed {seed}: {draw(seed)}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(run_kinds(checked, shown, __doc__, {}))
