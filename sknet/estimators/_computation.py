"""What a fitted estimator computes, for writing it in another form: a network, its inputs and its outputs."""

from collections.abc import Callable, Mapping, Sequence
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
from sknet.nn import Identity, Module, run
from sknet.preprocessing import TableEncoder
from sknet.preprocessing.extend import FittedEncoder

__all__ = ["Computation", "computation_of", "is_estimator", "outputs_of"]

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
    encoders : sequence of FittedEncoder
        If the input is the concatenation of what these encoders make of a table.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPRegressor
    >>> from sknet.estimators.extend import computation_of
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> reg = MLPRegressor((2,), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0])
    >>> computation = computation_of(reg)
    >>> list(computation.inputs), list(computation.outputs)
    (['X'], ['variable'])
    """

    module: Module
    by: Pass
    inputs: Mapping[str, Any]
    is_named: bool
    outputs: Mapping[str, Head]
    labels: Any = None
    encoders: Sequence[Any] = ()


def is_estimator(model: Any) -> bool:
    """Tell whether `computation_of` knows what a model computes.

    Parameters
    ----------
    model : object
        Anything.

    Returns
    -------
    bool
        True for estimators of networks, fitted or not, their layers, frozen predictors, and table encoders.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sknet import MLPRegressor
    >>> from sknet.estimators.extend import is_estimator
    >>> is_estimator(MLPRegressor()), is_estimator(Ridge())
    (True, False)
    """
    return isinstance(model, (BaseNet, LayerOutput, Frozen, TableEncoder))


def computation_of(estimator: Any, example: Any = None, *, raw_scores: bool = False) -> Computation:
    """Return what an estimator, a frozen predictor, a layer of one, or a table encoder computes.

    Parameters
    ----------
    estimator : estimator
        Fitted, such that `is_estimator` is true.
    example : array-like or dict of those, of shape (n_samples, ...), default=None
        Inputs whose axes have other lengths than those of the fit; None for the lengths of the fit.
    raw_scores : bool, default=False
        Whether a classifier has scores where it has probabilities otherwise.

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
        If the example is no input of the estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPClassifier
    >>> from sknet.estimators.extend import computation_of
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> clf = MLPClassifier((2,), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0] > 3)
    >>> list(computation_of(clf).outputs)
    ['label', 'probabilities']
    """
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
    outputs, labels = outputs_of(estimator, raw_scores) if layer is None else ({"variable": _as_it_is}, None)
    encoders = [estimator._inputs.encoder] if isinstance(estimator._inputs, Encoded) else []
    return Computation(estimator._module, by, named, is_named, outputs, labels, encoders)


def _inputs_of(frozen: Frozen, example: Any) -> Any:
    inputs = frozen._inputs
    if example is not None and not isinstance(inputs, Encoded):
        return frozen._checked(example)
    return np.zeros((1, inputs)) if isinstance(inputs, int) else inputs.example


def outputs_of(frozen: Any, raw_scores: bool = False) -> tuple[dict[str, Head], Any]:
    """Return the outputs of a predictor.

    Parameters
    ----------
    frozen : predictor
        A frozen classifier or regressor, with its loss and its targets.
    raw_scores : bool, default=False
        As for `computation_of`; of two classes, each has a score.

    Returns
    -------
    outputs : dict of str to callable
        By name: from raw outputs to what is returned.
    labels : ndarray or None
        As of `Computation`.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet import MLPClassifier
    >>> from sknet.estimators.extend import outputs_of
    >>> X = np.arange(8.0).reshape(-1, 1)
    >>> clf = MLPClassifier((2,), tol=1e9, n_iter_no_change=1, random_state=0).fit(X, X[:, 0] > 3)
    >>> outputs, labels = outputs_of(clf.freeze())
    >>> list(outputs), labels
    (['label', 'probabilities'], array([False,  True]))
    """
    loss, targets = frozen._loss, frozen._targets
    if frozen._kind == "regressor":
        return {"variable": loss.predict}, None
    temperature = getattr(frozen, "_temperature", None)
    decide = targets.deciding(loss, temperature) or _as_it_is
    outputs: dict[str, Head] = {"label": lambda output: targets.numbers(decide(output), loss.threshold)}
    if raw_scores:
        outputs["scores"] = _joined(lambda output: _of_both(targets.decisions(decide(output))), -np.inf)
    elif loss.has_probabilities:
        head = probability_head(loss, targets, temperature)
        outputs["probabilities"] = _joined(lambda output: targets.per_column(head(output)), 0.0)
    else:
        outputs["scores"] = _joined(lambda output: targets.decisions(decide(output)), -np.inf)
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
            return found  # type: ignore[no-any-return]
        most = max(part.shape[1] for part in found)
        wide = [ops.pad(part, ((0, 0), (0, most - part.shape[1])), value=missing) for part in found]
        return ops.stack(wide, axis=0)

    return join
