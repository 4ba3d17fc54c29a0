"""Checks of fitted estimators and predictors that are read from files."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sknet._fields import ABSENT, COUNT, POSITIVE, Arrays, Each, Fields, Named, Texts, Together
from sknet._params import StrOptions, may_be_same
from sknet.callbacks import Callback, EarlyStopping
from sknet.device import PRECISIONS, MetaArray
from sknet.engine import History, Model
from sknet.engine._inputs import Batch, arguments
from sknet.estimators._inputs import ROWS, Encoded, Inputs
from sknet.estimators._scaling import InputScaling
from sknet.exceptions import DeviceError
from sknet.nn import Module, is_lazy
from sknet.nn._lazy import shadows, shape_pass

MOST_ELEMENTS = 1 << 18  # of a value: layers compute constants, such as waves for positions, of its shape


def check_labels_of(estimator: Any) -> None:
    """Raise a ValueError if a classifier's `classes_` are not those of its targets."""
    if "classes_" not in vars(estimator):
        return
    if not _are_same(estimator.classes_, estimator._targets.classes):
        raise ValueError("classes_ are not those of its targets")


def _are_same(mine: Any, known: Any) -> bool:
    """Tell whether classes are the same, or lists of those of columns, or dicts of those of heads."""
    if type(mine) is not type(known) or len(mine) != len(known):
        return False
    if isinstance(known, dict):
        return list(mine) == list(known) and all(_are_same(mine[name], known[name]) for name in known)
    if isinstance(known, list):
        return all(map(_are_same, mine, known))
    return bool(mine.dtype == known.dtype and np.array_equal(mine, known))


def check_network(
    network: Module, inputs: "int | Inputs | Encoded", dtype: Any, targets: Any, n_outputs: int
) -> None:
    """Raise a ValueError if a network does not return what its targets need, by a pass without data."""
    if is_lazy(network):
        raise ValueError(f"the layers of a fitted {type(network).__name__} must have shapes")
    if not all(type(part).__module__.startswith("sknet.") for part in network.modules()):
        return
    example = _example(inputs, np.dtype(dtype))
    try:
        for each in example.values() if isinstance(example, dict) else [example]:
            _check_size(None, [], each)
        given = shadows(arguments(example), dtype, _check_size)
        found = getattr(shape_pass(network, given, seen=_check_size), "shape", None)
    except (DeviceError, _LargeError):  # what it returns depends on values, or is not worth a file's memory
        return
    if found is None or found[:1] != (ROWS,) or hasattr(targets, "meet"):
        return
    width = found[-1] if len(found) > 1 else 1
    if width != n_outputs:
        raise ValueError(f"its network returns {width} outputs, and its targets and loss need {n_outputs}")


class _LargeError(Exception):
    """A value is so large that a pass without data ends."""


def _check_size(primitive: Any, operands: list[Any], result: Any) -> None:
    if math.prod(result.shape) > ROWS * MOST_ELEMENTS:
        raise _LargeError


def _example(inputs: Any, dtype: Any) -> Any:
    if isinstance(inputs, Inputs):
        if not isinstance(inputs.shapes, dict):
            return MetaArray((ROWS, *inputs.shapes), _kind("X", inputs.integers, inputs, dtype))
        kinds = {name: _kind(name, is_whole, inputs, dtype) for name, is_whole in inputs.integers.items()}
        return {name: MetaArray((ROWS, *shape), kinds[name]) for name, shape in inputs.shapes.items()}
    n_features = inputs.encoder.n_features_out_ if isinstance(inputs, Encoded) else inputs
    return MetaArray((ROWS, n_features), dtype)


def _kind(name: str, is_whole: bool, inputs: Inputs, dtype: Any) -> Any:
    return np.dtype(bool) if name in inputs.masks else np.dtype("i8") if is_whole else dtype


LASTING = Fields.of(
    "_lasting",
    {
        "dtype": StrOptions({"auto", *PRECISIONS}),
        "device": str,
        "scale_inputs": [bool, ABSENT],
        "scale_target": [bool, ABSENT],
        "encoder": [Named("TableEncoder"), None, ABSENT],
        "n_members": [POSITIVE, None, ABSENT],
        "monotonic_cst": [None, dict, list, tuple, np.ndarray, ABSENT],
        "*": Any,  # of the architecture, see below
    },
)
ESTIMATOR: Mapping[str, Any] = {
    "n_features_in_": [COUNT, ABSENT],
    "feature_names_in_": [Texts("n_features_in_"), ABSENT],
    "_targets": Named("ClassEncoder", "RealTargets", "ArrayTargets"),
    "_architecture": Named("Architecture"),
    "_lasting": LASTING,
    "_inputs": [Named("Inputs", "Encoded"), None],
    "_input_scaling": [Named("InputScaling"), None, ABSENT],
    "_allows_nan": [bool, ABSENT],
    "_frozen": tuple[str, ...],
    "_batch": [Batch, ABSENT],
    "_sample": [Together(Arrays("f", "n_sampled_rows", "n_sampled_columns")), ABSENT],
    "model_": Model,
    "history_": History,
    "callbacks_": Each(list, Callback),
    "_stopping": [Fields.of("_stopping", EarlyStopping._state_fields), Fields.of("_stopping", {}), None],
    "n_iter_": COUNT,
    "t_": COUNT,
    "n_outputs_": POSITIVE,
    "out_activation_": StrOptions({"identity", "logistic", "softmax", "exp"}),
    "loss_curve_": list[float],
    "loss_": float,
    "best_loss_": [float, None],
    "monitor_": str,
    "stopped_early_": bool,
    "refit_history_": [History, None],
    "_compared": [Named("Compared"), None, ABSENT],
    "best_epoch_": [COUNT, None],
    "validation_scores_": [list[float], None],
    "best_validation_score_": [float, None],
    "n_layers_": [COUNT, ABSENT],
    "_is_slim": [bool, ABSENT],
    "histories_": [list[History], ABSENT],
}


def check_estimator(estimator: Any) -> None:
    """Raise a ValueError if fitted attributes contradict each other."""
    if "model_" not in vars(estimator):
        return
    targets, loss = estimator._targets, estimator.model_.loss_function
    n_outputs = targets.n_outputs * loss.outputs_per_target
    if estimator.n_outputs_ != n_outputs:
        raise ValueError(f"n_outputs_ is {estimator.n_outputs_}, and its targets and loss have {n_outputs}")
    _check_names(estimator)
    _check_lasting(estimator)
    _check_numbers(estimator)
    check_labels_of(estimator)
    n_members = len(getattr(loss, "losses", [loss]))
    inputs = estimator.n_features_in_ if estimator._inputs is None else estimator._inputs
    check_scaling(estimator._input_scaling, inputs)
    check_network(estimator.model_.module, inputs, estimator.model_.dtype, targets, n_members * n_outputs)


def check_scaling(scaling: "InputScaling | None", inputs: "int | Inputs | Encoded") -> None:
    """Raise a ValueError if inputs are standardized that the network does not have."""
    if scaling is None:
        return
    if isinstance(inputs, Encoded):
        raise ValueError("a table that an encoder reads is not standardized")
    shapes, integers = ((inputs,), False) if isinstance(inputs, int) else (inputs.shapes, inputs.integers)
    scaling.check_shapes(shapes, integers)


def _check_names(estimator: Any) -> None:
    known, inputs = vars(estimator), estimator._inputs
    encoder = getattr(inputs, "encoder", None)
    if "n_features_in_" not in known and (inputs is None or encoder is not None):
        raise ValueError("an estimator of tables lacks its n_features_in_")
    if encoder is not None and encoder.n_features_in_ != estimator.n_features_in_:
        raise ValueError(
            f"n_features_in_ is {estimator.n_features_in_}, and its encoder reads {encoder.n_features_in_}"
        )


def _check_lasting(estimator: Any) -> None:
    """Raise a ValueError if parameters that a continued fit keeps are not those of the network."""
    lasting, built = estimator._lasting, estimator._architecture.parameters()
    if lasting.keys() - LASTING.checks.keys() != built.keys():
        raise ValueError(f"_lasting must have {sorted(built)}, and has {sorted(lasting)}")
    for name, value in built.items():
        if not may_be_same(lasting[name], value):
            raise ValueError(f"{name!r} of _lasting is not that of its architecture")
    n_members = getattr(estimator._architecture, "n_members", 1)
    n_losses = len(getattr(estimator.model_.loss_function, "losses", "1"))
    if not n_members == n_losses == (lasting.get("n_members") or 1):
        raise ValueError(f"an ensemble of {n_members} members has {n_losses} losses")


def _check_numbers(estimator: Any) -> None:
    """Raise a ValueError if numbers of epochs are not those of the history."""
    is_slim, n_epochs = estimator._is_slim, estimator.history_.n_epochs
    curve, scores, best = estimator.loss_curve_, estimator.validation_scores_, estimator.best_epoch_
    if not np.array_equal(curve, estimator.history_.get("loss", []), equal_nan=True):
        raise ValueError(f"loss_curve_ of {len(curve)} epochs is not the loss of history_")
    if scores and len(scores) != n_epochs:
        raise ValueError(f"validation_scores_ has {len(scores)} epochs, and history_ has {n_epochs}")
    if best is not None and not is_slim and not 1 <= best <= n_epochs:
        raise ValueError(f"best_epoch_ is {best}, and history_ has {n_epochs} epochs")
    if (
        best
        and scores
        and not np.array_equal([estimator.best_validation_score_], [scores[best - 1]], equal_nan=True)
    ):
        raise ValueError(
            f"best_validation_score_ is {estimator.best_validation_score_}, and that of epoch {best} is "
            f"{scores[best - 1]}"
        )
