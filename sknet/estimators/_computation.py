"""Computation of a fitted estimator, to be written in another form: network, inputs and outputs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet import ops
from sknet._constraints import shown
from sknet.compile._symbolic import Axis
from sknet.core import Tensor
from sknet.engine._network import Head, Pass
from sknet.estimators._base import BaseNet
from sknet.estimators._frozen import (
    FrozenClassifier,
    FrozenMultiHeadNet,
    FrozenRegressor,
    FrozenTransformer,
)
from sknet.estimators._inputs import Encoded, fixed_axes
from sknet.estimators._layers import LayerOutput
from sknet.estimators._offset import head_of_both
from sknet.estimators._scaling import InputScaling
from sknet.estimators._targets import conformal_quantile, prediction_of
from sknet.losses._wrappers import has_offset
from sknet.nn import Identity, Module, run
from sknet.preprocessing import TableEncoder
from sknet.preprocessing._plan import FittedEncoder

Frozen = FrozenClassifier | FrozenMultiHeadNet | FrozenRegressor | FrozenTransformer


@dataclass(frozen=True)
class Computation:
    """A pass through a network, and what is made of its raw output."""

    module: Module
    by: Pass
    inputs: Mapping[str, Any]
    is_named: bool
    outputs: Mapping[str, Head]
    labels: Mapping[str, Any] = field(default_factory=dict)  # that outputs have numbers of, by their names
    encoders: Sequence[Any] = ()
    scaling: InputScaling | None = None
    fixed: Collection[Axis] = ()
    n_offsets: int = 0  # columns of an offset; if there are some, heads take pairs of outputs and offsets


def is_estimator(model: Any) -> bool:
    """Tell whether `computation_of` knows what a model computes."""
    return isinstance(model, (BaseNet, LayerOutput, Frozen, TableEncoder))


def computation_of(
    estimator: Any,
    example: Any = None,
    *,
    raw_scores: bool = False,
    takes_offset: bool = True,
    coverage: Any = None,
) -> Computation:
    """Return the computation of an estimator, a frozen predictor, one of its layers, or a table encoder."""
    layer: Any = None
    if isinstance(estimator, LayerOutput):
        estimator, layer = estimator.estimator, estimator.layer
    if isinstance(estimator, TableEncoder):
        check_is_fitted(estimator)
        encoder = FittedEncoder(estimator)
        example = np.zeros((1, encoder.n_features_out_), encoder.dtype)
        return Computation(
            Identity(), run, {"X": example}, False, {"variable": _as_it_is}, encoders=[encoder]
        )
    if not isinstance(estimator, Frozen):
        check_is_fitted(estimator)
        estimator = estimator.freeze()
    inputs = _inputs_of(estimator, example)
    named, is_named = (inputs, True) if isinstance(inputs, dict) else ({"X": inputs}, False)
    if layer is None and isinstance(estimator, FrozenTransformer):
        layer = estimator._code
    by: Pass = run if layer is None else estimator._layer(layer)
    n_offsets = n_offsets_of(estimator) if layer is None and takes_offset else 0
    outputs: dict[str, Head] = {"variable": _as_it_is}
    labels: dict[str, Any] = {}
    if layer is None:
        outputs, labels = outputs_of(estimator, raw_scores, takes_offset=n_offsets > 0)
        if coverage is not None:
            outputs |= bounds_of(estimator, coverage, takes_offset=n_offsets > 0)
    encoders = [estimator._inputs.encoder] if isinstance(estimator._inputs, Encoded) else []
    return Computation(
        estimator._module, by, named, is_named, outputs, labels, encoders, estimator._scaling,
        fixed_axes(estimator, named), n_offsets,
    )  # fmt: skip


def _inputs_of(frozen: Frozen, example: Any) -> Any:
    inputs = frozen._inputs
    if example is not None and not isinstance(inputs, Encoded):
        return frozen._checked(example)
    return np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example


def n_offsets_of(frozen: Any) -> int:
    """Return how many columns the offset of a predictor has, 0 for one that was fitted without."""
    return frozen._targets.n_outputs if has_offset(frozen._loss) else 0


def outputs_of(
    frozen: Any, raw_scores: bool = False, *, takes_offset: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outputs of a predictor, and the labels of those that are numbers of labels."""
    loss, targets = frozen._loss, frozen._targets
    given: Any = (lambda head: head_of_both(loss, head)) if takes_offset else (lambda head: head)
    if frozen._kind == "regressor":
        return {"variable": given(loss.predict)}, {}
    if frozen._kind == "multihead":
        return _outputs_of_heads(frozen)

    def made(kind: str) -> Head:
        _, head, result = prediction_of(frozen, kind, numbered=True)
        decide = given(head or _as_it_is)
        return lambda output: result(decide(output))

    outputs = {"label": made("labels")}
    if loss.has_probabilities and not raw_scores:
        outputs["probabilities"] = _joined(made("probabilities"), 0.0)
    else:
        scores = made("decisions")
        both = (lambda output: _of_both(scores(output))) if raw_scores else scores
        outputs["scores"] = _joined(both, -np.inf)
    return outputs, {} if targets.labels is None else {"label": targets.labels}


def bounds_of(frozen: Any, coverage: Any, *, takes_offset: bool = False) -> dict[str, Head]:
    """Return outputs for bounds that contain a share of the targets, or for sets of classes that do."""
    loss = frozen._loss

    def made(kind: str) -> Any:
        _, head, _ = prediction_of(frozen, kind, coverage)
        return head_of_both(loss, head) if takes_offset else head

    if hasattr(frozen, "predict_interval"):
        interval = made("interval")
        return {name: partial(_column, interval, i) for i, name in enumerate(("lower", "upper"))}
    if hasattr(frozen, "predict_set"):
        return {"set": partial(_set_of, made("probabilities"), frozen._targets, coverage)}
    raise ValueError(
        f"coverage={shown(coverage)} is for predictors with intervals or sets, and this "
        f"{type(frozen).__name__} has none: fit with calibrate='conformal'"
    )


def _column(head: Head, i: int, output: Any) -> Tensor:
    return head(output)[:, i]


def _set_of(head: Head, targets: Any, coverage: Any, output: Any) -> Tensor:
    """Return which classes are in the set of each row, as `conformal_sets` does."""
    probable = head(output)
    bound = conformal_quantile(targets.conformity, coverage)
    likeliest = ops.expand_dims(ops.argmax(probable, axis=1), 1)
    is_likeliest = ops.equal(likeliest, np.arange(probable.shape[1]))
    return ops.logical_or(ops.less_equal(1.0 - probable, np.asarray(bound, probable.dtype)), is_likeliest)


def _outputs_of_heads(frozen: Any) -> tuple[dict[str, Head], dict[str, Any]]:
    """Return an output for each head, of those with classes also probabilities."""
    loss, targets = frozen._loss, frozen._targets

    def head(name: str, kind: str) -> Head:
        _, link, result = prediction_of(frozen, kind, numbered=True)
        return _joined(lambda output: result(link(output))[name], 0.0)

    outputs = {name: head(name, "labels") for name in targets.heads}
    for name in targets.classes:
        if targets.has_probabilities(loss, name):
            if f"{name}_probabilities" in outputs:
                raise ValueError(
                    f"{name}_probabilities is the name of a head, and of an output: rename the head"
                )
            outputs[f"{name}_probabilities"] = head(name, "probabilities")
    return outputs, targets.labels


def _as_it_is(output: Tensor) -> Tensor:
    return output


def _of_both(scores: Any) -> Any:
    """Return scores of both classes for a score of the second."""
    is_single = isinstance(scores, Tensor) and scores.ndim == 1
    return ops.stack([-scores, scores], axis=1) if is_single else scores


def _joined(head: Callable[[Tensor], Any], missing: float) -> Head:
    """Return a head whose list, an array for each column of labels, is one array with as many classes."""

    def join(output: Tensor) -> Tensor:
        found = head(output)
        if not isinstance(found, list):
            return found
        most = max(part.shape[1] for part in found)
        wide = [ops.pad(part, ((0, 0), (0, most - part.shape[1])), value=missing) for part in found]
        return ops.stack(wide, axis=0)

    return join
