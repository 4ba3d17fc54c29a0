"""Registration of converters with skl2onnx, so that whole pipelines become one model."""

from typing import Any

import numpy as np

from sknet import neural_network
from sknet._constraints import shown
from sknet._late import optional
from sknet.compile._symbolic import VARYING, Length
from sknet.estimators import (
    Autoencoder,
    LayerOutput,
    MLPClassifier,
    MLPRegressor,
    NetClassifier,
    NetRegressor,
    NetTransformer,
)
from sknet.estimators._base import BaseNet
from sknet.estimators._classifier import BaseClassifier
from sknet.onnx._export import ML, ML_OPERATORS, OPSET, Types, Written, required, written_estimator
from sknet.onnx._writer import Node
from sknet.preprocessing import TableEncoder
from sknet.tabular import TabularClassifier, TabularRegressor

CLASSES = (
    *(Autoencoder, LayerOutput, MLPClassifier, MLPRegressor, NetClassifier, NetRegressor, NetTransformer),
    *(neural_network.MLPClassifier, neural_network.MLPRegressor),
    *(TableEncoder, TabularClassifier, TabularRegressor),
)
BASES = (BaseNet, LayerOutput, TableEncoder, TabularClassifier, TabularRegressor)
CLASSIFIER, OTHER = "SknetClassifier", "SknetEstimator"  # their names in skl2onnx
OPTIONS = {
    "zipmap": [True, False, "columns"],
    "output_class_labels": [False, True],
    "nocl": [False, True],
    "raw_scores": [False, True],
}
# Operators whose newer versions only add types, and the version that suffices here.
WIDENED = {"Cast": 13, "ConstantOfShape": 9, "Equal": 13, "Identity": 14, "Reshape": 14, "Shape": 15}


def register(*classes: type) -> None:
    """Register converters for sknet's estimators with skl2onnx.

    Afterwards, ``skl2onnx.to_onnx(pipeline, X[:1])`` converts scalers, encoders and network to one model, for
    any number of rows. The network computes in double precision if its input is double, otherwise in single.

    Parameters
    ----------
    *classes : type
        Additional classes derived from sknet's.

    Raises
    ------
    ImportError
        If skl2onnx is not installed.
    TypeError
        If a class is not derived from an estimator of sknet.

    See Also
    --------
    export : Converts a single estimator, with images, token ids or several inputs.

    Notes
    -----
    Outputs are those of `export`. As for scikit-learn's classifiers, skl2onnx turns probabilities into dicts
    (ZipMap) unless it is told ``options={"zipmap": False}``; "columns" gives an output for each class,
    ``"nocl": True`` indices instead of labels, ``"output_class_labels": True`` the labels as another output,
    and ``"raw_scores": True`` the values of `decision_function` instead of probabilities, with a column for
    each of two classes. Models of pipelines have no offset.

    Examples
    --------
    >>> import numpy as np
    >>> from skl2onnx import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sknet import MLPClassifier, onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> pipeline = make_pipeline(StandardScaler(), MLPClassifier((8,), tol=0.1, random_state=0)).fit(X, y)
    >>> onnx.register()
    >>> model = to_onnx(pipeline, X[:1].astype(np.float32), options={"zipmap": False})
    >>> [output.name for output in model.graph.output]
    ['label', 'probabilities']
    """
    update = _required().update_registered_converter
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BASES)):
            raise TypeError(f"register expects classes derived from estimators of sknet, got {shown(each)}")
    for each in (*CLASSES, *classes):
        if issubclass(each, (BaseClassifier, TabularClassifier)):
            update(each, CLASSIFIER, _infer_shapes, _convert, parser=_parse, options=OPTIONS)
        else:
            update(each, OTHER, _infer_shapes, _convert)


def _required() -> Any:
    return optional("skl2onnx", "sknet.onnx.register", "onnx")


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier."""
    from skl2onnx._parse import _parse_sklearn_classifier
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    if hasattr(model, "predict_proba"):
        return _parse_sklearn_classifier(scope, model, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(CLASSIFIER, model)
    operator.inputs = inputs
    label = scope.declare_local_variable("label", Int64TensorType())
    scores = scope.declare_local_variable("scores", guess_tensor_type(inputs[0].type))
    operator.outputs.extend([label, scores])
    return operator.outputs


def _infer_shapes(operator: Any) -> None:
    """Declare types and shapes of the outputs."""
    from skl2onnx.common import data_types

    types = {
        np.dtype(np.float32): data_types.FloatTensorType,
        np.dtype(np.float64): data_types.DoubleTensorType,
        np.dtype(np.int64): data_types.Int64TensorType,
        np.dtype(object): data_types.StringTensorType,
    }
    is_double = any(isinstance(each.type, data_types.DoubleTensorType) for each in operator.inputs)
    model = operator.raw_operator
    options = _options(operator)
    written = written_estimator(
        model,
        None,
        np.dtype(np.float64 if is_double else np.float32),
        splits=len(operator.inputs) > 1,
        raw_scores=options["raw_scores"],
        has_labels=not options["nocl"],
        takes_offset=False,
    )
    n_rows = operator.inputs[0].get_first_dimension()
    for name, variable in zip(written.outputs, operator.outputs, strict=True):
        value = written.outputs[name]
        if name == "probabilities" and value.ndim > 2 and options["zipmap"]:
            raise ValueError(
                f"the probabilities of this {type(model).__name__} are an array with {value.ndim} axes, "
                'which cannot be turned into dicts: to_onnx(..., options={"zipmap": False})'
            )
        lengths = [n_rows if n == Length(1, 0) else n for n in value.shape]
        shape = [None if isinstance(n, VARYING) else n for n in lengths]
        variable.set_type(types[value.dtype](shape))
    operator.sknet_written = written


def _options(operator: Any) -> dict[str, Any]:
    """Return a user's options of a classifier; of others, there are none."""
    defaults: dict[str, Any] = {"zipmap": True, "nocl": False, "raw_scores": False}
    if operator.type != CLASSIFIER:
        return {**defaults, "zipmap": False}
    return dict(operator.scope_inst.get_options(operator.raw_operator, defaults))


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of an estimator to a model."""
    onnx, written = required(), operator.sknet_written
    types = Types(onnx.helper)
    names = _given(scope, operator, container, written, types)
    w = written.writer
    used = {name for node in w.nodes for name in node.inputs} | {x.name for x in written.outputs.values()}
    for name, array in w.constants.items():
        if name in used:
            names[name] = scope.get_unique_variable_name(name)
            tensor = onnx.numpy_helper.from_array(array)
            content = [text.encode() for text in array.ravel()] if array.dtype == object else tensor
            container.add_initializer(names[name], tensor.data_type, list(array.shape), content)
    for node in w.nodes:
        names.update({name: scope.get_unique_variable_name(name) for name in node.outputs})
        _add(scope, container, onnx, types, node, names)
    for value, variable in zip(written.outputs.values(), operator.outputs, strict=True):
        names[variable.full_name] = variable.full_name
        last = Node("Identity", (value.name,), (variable.full_name,), {})
        _add(scope, container, onnx, types, last, names)


def _given(scope: Any, operator: Any, container: Any, written: Written, types: Types) -> dict[str, str]:
    """Return the names of the inputs, in the types that the network computes with."""
    known = {each.raw_name: each for each in operator.inputs}
    if len(written.inputs) == len(operator.inputs) == 1:
        known = {written.inputs[0].name: operator.inputs[0]}
    if known.keys() != {value.name for value in written.inputs}:
        raise ValueError(
            f"this {type(operator.raw_operator).__name__} has the inputs "
            f"{[value.name for value in written.inputs]}, but got {list(known)}: declare them in "
            "initial_types, or combine columns with a ColumnTransformer first"
        )
    names = {"": ""}
    for value in written.inputs:
        variable = known[value.name]
        kind = type(variable.type).__name__
        if value.dtype.kind == "i" and not kind.startswith("Int"):
            raise ValueError(
                f"input {value.name!r} of this {type(operator.raw_operator).__name__} holds integers, and is "
                f"given a {kind}"
            )
        if (value.dtype == np.dtype(object)) != (kind == "StringTensorType"):
            raise ValueError(
                f"input {value.name!r} of this {type(operator.raw_operator).__name__} holds "
                f"{'texts' if value.dtype == np.dtype(object) else 'numbers'}, and is given a {kind}"
            )
        if value.dtype == np.dtype(object):
            names[value.name] = variable.full_name
            continue
        names[value.name] = scope.get_unique_variable_name(value.name)
        cast = {"to": types.number(value.dtype)}
        container.add_node(
            "Cast", [variable.full_name], [names[value.name]], op_version=WIDENED["Cast"], **cast
        )
    return names


def _add(scope: Any, container: Any, onnx: Any, types: Types, node: Node, names: dict[str, str]) -> None:
    domain, opset = (ML, 2) if node.op in ML_OPERATORS else ("", OPSET)
    version = WIDENED.get(node.op) or onnx.defs.get_schema(node.op, opset, domain).since_version
    container.add_node(
        node.op,
        [names[name] for name in node.inputs],
        [names[name] for name in node.outputs],
        op_version=version,
        op_domain=domain,
        name=scope.get_unique_operator_name(node.op),
        **types.attributes(node),
    )
