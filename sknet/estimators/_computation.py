"""What a fitted estimator computes, for writing it in another form: a network, its inputs and its outputs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sknet import ops
from sknet.core import Tensor
from sknet.engine.extend import Head, Pass
from sknet.estimators._base import BaseNet
from sknet.estimators._encoded import Encoded
from sknet.estimators._frozen import FrozenClassifier, FrozenRegressor, FrozenTransformer
from sknet.estimators._heads import probability_head
from sknet.estimators._layers import LayerOutput
from sknet.nn import Module, run

__all__ = ["computation_of", "is_estimator"]

Frozen = FrozenClassifier | FrozenRegressor | FrozenTransformer


@dataclass(frozen=True)
class Computation:
    """A pass through a network, and what is made of its raw output.

    Attributes
    ----------
    module : Module
        In evaluation mode, on the host, with the parameters that predictions use.
    by : callable
        Computes the raw output: ``by(module, scope, args)``.
    inputs : dict of str to ndarray
        Examples of the inputs by name; ``"X"`` if there is one that has none.
    is_named : bool
        Whether the network takes its inputs by name.
    outputs : dict of str to callable
        By name: from the raw output to what is returned.
    labels : ndarray or None
        What the integers of the output ``"label"`` count; None if they are the labels.
    """

    module: Module
    by: Pass
    inputs: Mapping[str, Any]
    is_named: bool
    outputs: Mapping[str, Head]
    labels: Any = None


def is_estimator(model: Any) -> bool:
    """Tell whether `computation_of` knows what a model computes.

    Parameters
    ----------
    model : object
        Anything.

    Returns
    -------
    bool
        True for estimators of networks, fitted or not, their layers, and frozen predictors.
    """
    return isinstance(model, (BaseNet, LayerOutput, Frozen))


def computation_of(estimator: Any, example: Any = None) -> Computation:
    """Return what an estimator, a frozen predictor or a layer of one computes.

    Parameters
    ----------
    estimator : estimator
        Fitted, such that `is_estimator` is true.
    example : array-like or dict of those, of shape (n_samples, ...), default=None
        Inputs whose axes have other lengths than those of the fit; None for the lengths of the fit.

    Returns
    -------
    Computation
        Of a classifier the outputs ``"label"``, as integers, and ``"probabilities"``, or ``"scores"`` where
        the loss has no probabilities; of a regressor the predictions, ``"variable"``, of shape
        (n_samples, n_outputs); of a transformer its output, ``"variable"``.

    Raises
    ------
    NotFittedError
        If the estimator is not fitted.
    ValueError
        If the example is no input of the estimator, or it begins with an encoder.
    """
    layer: Any = None
    if isinstance(estimator, LayerOutput):
        estimator, layer = estimator.estimator, estimator.layer
    if not isinstance(estimator, Frozen):
        check_is_fitted(estimator)
        estimator = estimator.freeze()
    inputs = _inputs_of(estimator, example)
    named, is_named = (inputs, True) if isinstance(inputs, dict) else ({"X": inputs}, False)
    if layer is None and isinstance(estimator, FrozenTransformer):
        layer = estimator._code
    by: Pass = run if layer is None else estimator._layer(layer)
    outputs, labels = ({"variable": _as_it_is}, None) if layer is not None else _outputs_of(estimator)
    return Computation(estimator._module, by, named, is_named, outputs, labels)


def _inputs_of(frozen: Frozen, example: Any) -> Any:
    inputs = frozen._inputs
    if isinstance(inputs, Encoded):
        raise ValueError(
            f"this {type(frozen).__name__} begins with a TableEncoder, which reads columns of any kind, and "
            "only arithmetic can be written. Encode tables beforehand, encoder_.transform(X), and write an "
            "estimator that was fitted on what that returns"
        )
    if example is not None:
        return frozen._checked(example)
    return np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example


def _outputs_of(frozen: Frozen) -> tuple[dict[str, Head], Any]:
    if isinstance(frozen, FrozenRegressor):
        return {"variable": frozen._loss.predict}, None
    assert isinstance(frozen, FrozenClassifier)
    loss, targets = frozen._loss, frozen._targets
    decide = targets.deciding(loss) or _as_it_is
    outputs: dict[str, Head] = {"label": lambda output: targets.numbers(decide(output), loss.threshold)}
    if loss.has_probabilities:
        head = probability_head(loss, targets, frozen._temperature)
        outputs["probabilities"] = _joined(lambda output: targets.per_column(head(output)), 0.0)
    else:
        outputs["scores"] = _joined(lambda output: targets.decisions(decide(output)), -np.inf)
    return outputs, targets.labels


def _as_it_is(output: Tensor) -> Tensor:
    return output


def _joined(head: Callable[[Tensor], Any], missing: float) -> Head:
    """Return a head whose list, an array for each column of labels, is one array with as many classes."""

    def join(output: Tensor) -> Tensor:
        found = head(output)
        if not isinstance(found, list):
            return found  # type: ignore[no-any-return]
        most = max(part.shape[1] for part in found)
        wide = [ops.pad(part, ((0, 0), (0, most - part.shape[1])), value=missing) for part in found]
        return ops.stack(wide, axis=0)

    return join
