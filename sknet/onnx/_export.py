"""Export of modules and estimators as ONNX models."""

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike

from sknet import nn
from sknet._constraints import shown
from sknet._late import optional
from sknet._params import named_errors
from sknet._tree import map_leaves
from sknet._warnings import warn_caller
from sknet.compile import Equation, Graph, capture
from sknet.compile._symbolic import (
    FIXED,
    VARYING,
    Axis,
    Free,
    RowsGraph,
    Shapes,
    SymbolicGraph,
    graph_of_any_rows,
)
from sknet.core import Tensor, no_grad
from sknet.device import is_array, to_host
from sknet.estimators._computation import computation_of, is_estimator
from sknet.exceptions import CaptureError, DtypeError, StateError
from sknet.freezing import FrozenPipeline
from sknet.graphs import GraphModule
from sknet.graphs._export import with_any_lengths
from sknet.onnx import _elementwise, _neural, _shapes  # noqa: F401  they fill the table
from sknet.onnx._tables import Tables
from sknet.onnx._writer import NOT_EXPORTED, TABLE, Node, Value, Writer, operands_of
from sknet.persistence import write_atomically
from sknet.tabular._base import ensemble_computation, is_ensemble

OPSET = 20
IR_VERSION = 10
ML, ML_OPSET = "ai.onnx.ml", 3
OFFSET = "offset"
DTYPES = ("float16", "float32", "float64")
TOLERATED = 0.01  # of a column's deviation, by which an input may be rounded
MOST_NAMED = 5  # columns in a warning
ML_OPERATORS = frozenset({"LabelEncoder"})


@named_errors
def export(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    example: Any = None,
    *,
    dtype: DTypeLike | None = None,
    coverage: float | None = None,
) -> Any:
    """Export a module or a fitted estimator to an ONNX model, and write it to a file.

    Parameters
    ----------
    model : Module, Graph or estimator
        The object to export: a module whose parameters have values, which is exported in evaluation mode; a
        `Graph`, for the shapes of its example; or a fitted estimator, a frozen predictor, or a layer of one.
    path : path-like, default=None
        The file to write; None for no file.
    example : array, tuple of arrays or dict of str to array, each of shape (n_samples, ...), default=None
        Example inputs, which determine dtypes and the lengths of axes. The model takes any number of rows,
        and any length of other axes for which the module does, such as the steps of sequences: these axes
        have names in the model. Several inputs are a tuple in the order of the arguments of `forward`, or a
        dict by name. An estimator needs an example only if axes that the model must fix have other lengths
        than in the fit. A `Graph` or `GraphModule` needs none.
    dtype : {"float16", "float32", "float64"}, default=None
        The floating-point dtype of the model. None is that of a module, and float32 for estimators, even if
        they were fitted in float64: inputs with more than seven digits need ``dtype="float64"``. Predictions
        of standardized targets have the precision of these targets.
    coverage : float in (0, 1), default=None
        Coverage of intervals or sets that the model returns besides predictions, for an estimator with
        `predict_interval` or `predict_set`; None for no intervals or sets.

    Returns
    -------
    onnx.ModelProto
        With opset 20. Inputs of a module have the names of `forward`'s arguments; outputs are "output", or
        "output_0", "output_1", ... An estimator's input is "X", or several have their names. A raw table
        (``encoder="table"``, a `TableEncoder`, `TabularClassifier`, `TabularRegressor`) is one input, "X", if
        all columns are numbers, otherwise one input of shape (n_samples, 1) for each column, by its name:
        numbers, NaN where missing; strings, empty where missing; int64 or bool for integer levels and
        booleans; dates as microseconds since 1970 in int64, the smallest number where missing. An estimator's
        outputs have the names that skl2onnx uses: for a classifier "label", integers or strings, and
        "probabilities", of shape (n_samples, n_classes), or "scores" for a loss without probabilities; for a
        regressor "variable", of shape (n_samples, n_outputs), even for a single output; for a transformer
        "variable". For several columns of labels, probabilities have shape (n_columns, n_samples,
        most_classes), padded with 0 for columns with fewer classes. A network with several heads has an
        output by the name of each, and for classes another, as "kind_probabilities". An estimator that was
        fitted with an offset has one more input, "offset", of shape (n_samples, n_outputs) in which 0 adds
        nothing. With `coverage`, a regressor has outputs "lower" and "upper", of shape (n_samples,
        n_outputs), and a classifier "set", a bool for each row and class.

    Raises
    ------
    ImportError
        If the library onnx is not installed.
    StateError
        If the module is lazy and has not seen an input.
    NotFittedError
        If the estimator is not fitted.
    TypeError, ValueError
        If the example is not a valid input, labels are neither integers nor strings, or the estimator has no
        intervals or sets of this coverage.
    CaptureError
        If the network cannot be captured, uses an operation that ONNX does not have, or has operations that
        depend on the number of rows.

    Warns
    -----
    UserWarning
        If an estimator takes sequences of other lengths than in the fit and the model does not, or if the
        dtype of the model's inputs rounds a column by more than a hundredth of its standard deviation.

    Notes
    -----
    onnxruntime computes some operators only in single precision (convolutions, recurrences, `erf`, ...): a
    model in double precision rounds before them.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import nn, onnx
    >>> model = onnx.export(nn.Linear(3, 2), example=np.zeros((1, 3), "float32"))
    >>> [node.op_type for node in model.graph.node]
    ['MatMul', 'Add', 'Identity']

    >>> from sklearn.datasets import load_iris
    >>> from sknet import MLPClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = MLPClassifier((8,), tol=0.1, random_state=0).fit(X, y)
    >>> [output.name for output in onnx.export(clf).graph.output]
    ['label', 'probabilities']
    """
    if dtype is not None and np.dtype(dtype).name not in DTYPES:
        raise DtypeError(f"the dtype of an exported model must be one of {list(DTYPES)}, got {shown(dtype)}")
    written = _written_model(model, example, dtype, coverage)
    taken = [value.name for value in written.inputs if value.name in written.outputs]
    if taken:
        raise ValueError(
            f"the column {taken[0]!r} has the name of an output ({', '.join(written.outputs)}): rename it "
            "before the fit"
        )
    found = model_of(*written)
    if path is not None:
        write_atomically(Path(path), [found.SerializeToString()])
    return found


def _written_model(model: Any, example: Any, dtype: Any, coverage: Any) -> "Written":
    if coverage is not None and not hasattr(model, "predict"):
        raise TypeError(f"coverage= is for an estimator with intervals or sets, got {type(model).__name__}")
    if is_estimator(model) or is_ensemble(model):
        return written_estimator(model, example, dtype, coverage=coverage)
    if isinstance(model, Graph):
        model = graph_module_of(model)
    if not isinstance(model, nn.Module):
        advice = ""
        if hasattr(model, "fit") and not type(model).__module__.startswith("sknet."):
            advice = ": call sknet.onnx.register(), and convert it by skl2onnx.to_onnx(pipeline, X[:1])"
        if isinstance(model, FrozenPipeline):
            advice = (
                ": call sknet.onnx.register(), and convert the pipeline that it was made from by "
                "skl2onnx.to_onnx(pipeline, X[:1])"
            )
        raise TypeError(
            "export expects an instance of nn.Module, or an estimator of a network, got "
            f"{type(model).__name__}{advice}"
        )
    if example is None and not isinstance(model, GraphModule):
        raise TypeError(
            "export of a module needs example=, inputs of any number of rows, whose shapes and dtypes count"
        )
    return written_module(model, example, dtype)


def graph_module_of(graph: Graph) -> GraphModule:
    return GraphModule(SymbolicGraph.of(graph), dict(graph.values))


Arrays = dict[str, np.ndarray[Any, Any]]
Bound = dict[str, Tensor]


class Written(NamedTuple):
    writer: Writer
    inputs: list[Value]
    outputs: dict[str, Value]
    name: str
    is_half: bool


def written_module(module: nn.Module, example: Any, dtype: Any) -> Written:
    """Write a module; its outputs are named "output", or "output_0", "output_1", ..."""
    any_rows = True
    if isinstance(module, GraphModule):
        given, takes, any_rows = _graph_inputs(module), module.symbolic.args, module.symbolic.any_rows
    else:
        given = _named_inputs(module, example)
        takes = tuple(given.values())

    def compute(bound: Bound, args: list[Tensor]) -> Any:
        free = iter(args)
        tree = map_leaves(lambda leaf: next(free) if is_array(leaf) else leaf, takes)
        return nn.functional_call(module, bound, tree, training=False)[0]

    w, inputs, outputs, is_half = _written(module, given, compute, dtype, ["output"], any_rows=any_rows)
    names = ["output"] if len(outputs) == 1 else [f"output_{i}" for i in range(len(outputs))]
    return Written(w, inputs, dict(zip(names, outputs, strict=True)), type(module).__name__, is_half)


def written_estimator(
    estimator: Any,
    example: Any,
    dtype: Any,
    *,
    splits: bool | None = None,
    raw_scores: bool = False,
    has_labels: bool = True,
    takes_offset: bool = True,
    coverage: Any = None,
) -> Written:
    """Write a fitted estimator, with the outputs that `computation_of` names."""
    options = {"raw_scores": raw_scores, "takes_offset": takes_offset, "coverage": coverage}
    if is_ensemble(estimator):
        found = ensemble_computation(estimator, **options)
    else:
        found = computation_of(estimator, example, **options)
        if dtype is None and not found.encoders:
            dtype = "float32"  # the dtype that callers of runtimes expect, also of a fit in float64
    module, places = found.module, nn.bindings(found.module)

    def compute(bound: Bound, args: list[Tensor]) -> Any:
        scope = nn.Scope({places[path]: value for path, value in bound.items()}, training=False)
        offset = args[len(found.inputs) :]
        args = args[: len(found.inputs)]
        given = dict(zip(found.inputs, args, strict=True)) if found.is_named else tuple(args)
        raw: Any = found.by(module, scope, given)
        raw = (raw, *offset) if offset else raw
        return tuple(head(raw) for head in found.outputs.values())

    w, inputs, outputs, is_half = _written(
        module,
        dict(found.inputs),
        compute,
        dtype,
        found.outputs,
        encoders=found.encoders,
        splits=splits,
        scaling=found.scaling,
        fixed=found.fixed,
        n_offsets=found.n_offsets,
        warns=example is None,
    )
    named = dict(zip(found.outputs, outputs, strict=True))
    for name, labels in found.labels.items() if has_labels else ():
        named[name] = _labelled(w, named[name], plain_labels(labels, type(estimator).__name__))
    return Written(w, inputs, named, type(estimator).__name__, is_half)


def plain_labels(labels: Any, name: str) -> np.ndarray[Any, Any]:
    """Return labels as ONNX has them: integers, or strings."""
    values = labels.tolist()
    if all(isinstance(value, str) for value in values):
        return np.array(values, dtype=object)
    if all(isinstance(value, (bool, int, float)) and int(value) == value for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    raise ValueError(
        f"labels of an ONNX model must be integers or strings, but those of this {name} are {values}: "
        "encode y before the fit"
    )


def _labelled(w: Writer, numbers: Value, labels: np.ndarray[Any, Any]) -> Value:
    if labels.dtype != object and (labels == np.arange(len(labels))).all():
        return numbers
    known = w.parameter(w.name("labels"), labels)
    return w.add("Gather", known, numbers, dtype=labels.dtype, shape=numbers.shape, axis=0)


def _written(
    module: nn.Module,
    inputs: Arrays,
    compute: Callable[[Bound, list[Tensor]], Any],
    dtype: Any,
    reserved: Iterable[str],
    *,
    any_rows: bool = True,
    encoders: Sequence[Any] = (),
    splits: bool | None = None,
    scaling: Any = None,
    fixed: Collection[Axis] = (),
    n_offsets: int = 0,
    warns: bool = False,
) -> tuple[Writer, list[Value], list[Value], bool]:
    if nn.is_lazy(module):
        raise StateError(
            f"{type(module).__name__} has parameters whose shapes are not known yet: run it on an input once"
        )
    values = {name: to_host(parameter.data) for name, parameter in module.own_parameters()}
    values |= {name: to_host(buffer.data) for name, buffer in module.named_buffers()}
    asked = _dtype_of(values, inputs) if dtype is None else np.dtype(dtype)
    is_half = asked == np.float16  # NumPy and SciPy support it less well than single precision
    kind = np.dtype(np.float32) if is_half else asked
    table = Tables(encoders, kind, splits) if encoders else None
    prepares: Any = Standardized(scaling, list(inputs)) if table is None and scaling is not None else table
    if prepares is not None:
        _warn_of_rounding(asked, prepares.numbers())
    names = list(inputs) if table is None else [value.name for value in table.inputs]
    if n_offsets:
        if OFFSET in names:
            raise ValueError(f"the input {OFFSET!r} is named as that for offsets: rename it before the fit")
        fixed = {*fixed, (len(inputs), 1)}
        names, inputs = [*names, OFFSET], {**inputs, OFFSET: np.zeros((1, n_offsets))}
    values, inputs = _converted(values, kind), _converted(inputs, kind)

    def forward(*arrays: Tensor) -> Any:
        bound = dict(zip(values, arrays[: len(values)], strict=True))
        return compute(bound, list(arrays[len(values) :]))

    def captured(shapes: Shapes) -> Graph:
        given = [np.zeros(shape, x.dtype) for shape, x in zip(shapes, inputs.values(), strict=True)]
        with no_grad():
            return capture(forward, *values.values(), *given)

    public = {f"{path}_" if path in {*names, *reserved} else path: value for path, value in values.items()}

    def write(rows: RowsGraph, free: Free) -> tuple[Writer, list[Value], list[Value], bool]:
        prepares = table if scaling is None else Standardized(scaling, names)
        w, outputs = exported(rows, public, list(inputs), prepares, free)
        own = rows.graph.inputs[len(values) :]
        given = [w.value(x) for x in own] if prepares is None else prepares.inputs
        return w, given, outputs, is_half

    shapes = [x.shape for x in inputs.values()]
    if not any_rows or encoders:
        rows = graph_of_any_rows(lambda n: captured(FIXED.shapes(shapes, (n,)) if any_rows else shapes))
        return write(rows, FIXED)
    return with_any_lengths(captured, dict(zip(inputs, shapes, strict=True)), write, fixed, warns=warns)


def _graph_inputs(module: GraphModule) -> Arrays:
    """Return the inputs of a graph, for the number of rows of its example."""
    variables = module.graph.inputs[module.symbolic.n_values :]
    return {name: np.zeros(x.shape, x.dtype) for name, x in zip(module.input_names, variables, strict=True)}


def _named_inputs(module: nn.Module, example: Any) -> Arrays:
    """Return the inputs by the names of the arguments of `forward`, in its order."""
    names = list(inspect.signature(module.forward).parameters)
    if isinstance(example, Mapping):
        unknown = [name for name in example if name not in names]
        if unknown:
            raise ValueError(f"example: {type(module).__name__}.forward takes {names}, got {unknown}")
        given = {name: example[name] for name in names if name in example}
        if list(given) != names[: len(given)]:
            raise ValueError(
                f"example: the inputs must be the first arguments of {type(module).__name__}.forward, which "
                f"takes {names}, got {list(given)}"
            )
    else:
        parts = example if isinstance(example, tuple) else (example,)
        given = dict(zip(names, parts, strict=False))
        if len(given) < len(parts):
            raise ValueError(
                f"example: {type(module).__name__}.forward takes {len(names)} inputs, got {len(parts)}"
            )
    arrays = {name: to_host(x) if is_array(x) else np.asarray(x) for name, x in given.items()}
    for name, array in arrays.items():
        if not array.ndim:
            raise ValueError(f"example: {name} must have an axis of rows first, got a number")
    return arrays


def _dtype_of(values: Arrays, inputs: Arrays) -> np.dtype[Any]:
    arrays = [*values.values(), *inputs.values()]
    return next((a.dtype for a in arrays if a.dtype.kind == "f"), np.dtype(np.float32))


def _converted(arrays: Arrays, dtype: np.dtype[Any]) -> Arrays:
    return {name: a.astype(dtype) if a.dtype.kind == "f" else a for name, a in arrays.items()}


def _warn_of_rounding(dtype: np.dtype[Any], numbers: Iterable[tuple[str, Any, Any]]) -> None:
    """Warn of inputs that a dtype rounds by much of their deviation, given their means and deviations."""
    eps = np.finfo(dtype).eps
    found = [label for label, mean, scale in numbers if eps * abs(mean) > TOLERATED * scale]
    if found:
        more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        warn_caller(
            f"{', '.join(found[:MOST_NAMED])}{more}: an input of {dtype} rounds these columns by more than "
            f"{TOLERATED:.0%} of their deviation, so the predictions of the model differ: export it with "
            "dtype='float64'",
            UserWarning,
        )


class Prepares(Protocol):
    """Nodes of a model before the inputs of a function."""

    inputs: list[Value]

    @property
    def first(self) -> str:
        """Name of the input whose rows are counted."""

    def write(self, w: Writer, value: Value) -> Value:
        """Write what computes a value of this dtype and shape, and return it."""


class Standardized:
    """Inputs less means of features, divided by deviations, in double precision."""

    def __init__(self, scaling: Any, names: Sequence[str]) -> None:
        self._units, self.first = scaling.inputs, names[0]
        self.inputs: list[Value] = []

    def numbers(self) -> Iterator[tuple[str, Any, Any]]:
        for name, units in self._units.items():
            of = "" if len(self._units) == 1 else f" of {name}"
            for i, (mean, scale) in enumerate(zip(units.mean.flat, units.scale.flat, strict=True)):
                yield f"column {i}{of}", mean, scale

    def write(self, w: Writer, value: Value) -> Value:
        """Write the operations that standardize an input; other inputs pass unchanged."""
        self.inputs.append(value)
        units = self._units.get(value.name)
        if units is None:
            return value
        mean, scale = (
            w.parameter(w.name(f"{value.name}_{what}"), array)
            for what, array in (("mean", units.mean), ("scale", units.scale))
        )
        x = w.cast(value, np.dtype(np.float64))
        apart = w.add("Sub", x, mean, dtype=x.dtype, shape=value.shape)
        z = w.add("Div", apart, scale, dtype=x.dtype, shape=value.shape)
        if units.limit is not None:
            limits = (w.constant(np.float64(limit)) for limit in (-units.limit, units.limit))
            z = w.add("Clip", z, *limits, dtype=x.dtype, shape=value.shape)
        return w.cast(z, value.dtype)


def exported(
    rows: RowsGraph,
    parameters: Mapping[str, np.ndarray[Any, Any]],
    inputs: Sequence[str],
    prepares: "Prepares | None" = None,
    free: Free = FIXED,
) -> tuple[Writer, list[Value]]:
    """Write the graph of a function of parameters and inputs for any number of rows and free lengths."""
    graph = rows.graph
    first = inputs[:1] if prepares is None else [prepares.first]
    w = Writer(rows, [*((name, 0) for name in first), *((inputs[i], axis) for (i, axis), *_ in free.axes)])
    variables = iter(graph.inputs)
    for name, array in parameters.items():
        w.bind(next(variables), w.parameter(name, array))
    for name in inputs:
        variable = next(variables)
        value = Value(name, variable.dtype, rows.shape(variable))
        w.bind(variable, value if prepares is None else prepares.write(w, value))
    for equation in graph.equations:
        _write(w, equation)
    return w, [w.value(x) for x in graph.outputs]


def _write(w: Writer, equation: Equation) -> None:
    name = equation.primitive.name
    write = TABLE.get(name)
    if write is None:
        raise CaptureError(f"{name} cannot be exported to ONNX: {NOT_EXPORTED.get(name, 'it has no row')}")
    found = write(w, equation, *operands_of(w, equation), **w.rows.line(equation).params)
    w.bind(equation.output, found)


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
        shape = [str(n) if isinstance(n, VARYING) else n for n in value.shape]
        return self._helper.make_tensor_value_info(name, self.number(value.dtype), shape)
