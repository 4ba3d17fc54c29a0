"""Predictions of ensembles: the mix of kinds, raw outputs, and heads such as probabilities."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from sknet import nn
from sknet._config import native_core
from sknet._fields import ABOVE_ZERO, NOT_NEGATIVE, Items
from sknet._late import available_if
from sknet.core import Tensor, no_grad
from sknet.engine._layer_outputs import detached
from sknet.engine._network import Head, Network
from sknet.estimators._heads import (
    best_temperature,
    gives_deviations,
    gives_intervals,
    gives_probabilities,
    gives_quantiles,
)
from sknet.estimators._inputs import RowsWithOffset, with_offset
from sknet.estimators._offset import apply_offset, split_outputs
from sknet.estimators._targets import (
    ClassTargets,
    ColumnTargets,
    OrderedTargets,
    Prediction,
    RealTargets,
    prediction_of,
)
from sknet.losses import Loss
from sknet.losses._base import mean_loss_of
from sknet.ops._codes import paired_matmul, pairs_of
from sknet.preprocessing._native import NativeRow
from sknet.preprocessing._plan import OneRow
from sknet.preprocessing._schema import Table
from sknet.tabular._training import Member, encoded_rows, reads_codes


class Predicts(ABC):
    """Abstract base of what predicts from raw outputs."""

    _loss_function: Loss

    @abstractmethod
    def _mixed(self, X: Any) -> np.ndarray:
        """Return the mixed raw outputs, of shape (n_samples, n_outputs)."""

    def _outputs(self, X: Any) -> Any:
        """Return the mixed raw outputs, with the offset that X may have."""
        return with_offset(self._mixed(X.X), X.offset) if type(X) is RowsWithOffset else self._mixed(X)

    def _headed(self, outputs: Any, head: Head | None) -> np.ndarray:
        """Return what a head, such as a link of the loss, makes of outputs."""
        if type(outputs) is RowsWithOffset:
            name = type(self).__name__
            return apply_offset(self._loss_function, outputs.X, outputs.offset, head, name)
        if head is None:
            return outputs
        with no_grad():
            return head(Tensor(outputs)).numpy()

    def _made(self, outputs: Any, kind: str, coverage: Any = None) -> Any:
        """Return the kind of prediction, see `prediction_of`, that outputs mean."""
        _, head, result = prediction_of(self, kind, coverage)
        return result(self._headed(outputs, head))

    def _answered(self, X: Any, kind: str, offset: Any = None, coverage: Any = None) -> Any:
        return self._made(self._outputs(with_offset(X, offset)), kind, coverage)


class Classifies(Predicts):
    """Labels and probabilities."""

    _targets: "ClassTargets | ColumnTargets | OrderedTargets"
    _temperature = None  # members have theirs in the mix

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict labels.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Numbers added to the outputs of an ensemble that was fitted with an offset; None adds 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            The most probable label, for each column of y; a 0/1 indicator matrix if rows have several labels.
        """
        return self._answered(X, "labels", offset)

    def decision_function(self, X: Any, *, offset: Any = None) -> Any:
        """Return the mixed raw outputs: logits, or whatever the loss expects.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Numbers added to the outputs; None adds 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes), or a list of those
            One column for two classes, positive where the second class is more likely.
        """
        return self._answered(X, "decisions", offset)

    @available_if(gives_probabilities)
    def predict_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict probabilities in the order of `classes_`, calibrated by a temperature for each kind."""
        return self._answered(X, "probabilities", offset)

    @available_if(gives_probabilities)
    def predict_log_proba(self, X: Any, *, offset: Any = None) -> Any:
        """Predict logarithms of probabilities, finite also where the probability underflows."""
        return self._answered(X, "log_probabilities", offset)


class Regresses(Predicts):
    _targets: RealTargets
    _bounds: tuple[Any, Any]

    def _bounded(self, means: np.ndarray) -> np.ndarray:
        # Of several outputs scikit-learn's checks ask for double precision.
        dtype = np.float64 if self._targets.n_outputs > 1 else means.dtype
        lowest, highest = self._bounds
        clipped = np.minimum(np.maximum(means, lowest), highest)
        return clipped.astype(dtype, copy=False)

    def predict(self, X: Any, *, offset: Any = None) -> Any:
        """Predict targets.

        Parameters
        ----------
        X : frame, array-like or sparse matrix of shape (n_samples, n_features)
            With the columns of the fit.
        offset : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Numbers added to the outputs of an ensemble that was fitted with an offset; None adds 0.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            The estimate that belongs to the loss: means, medians or quantiles, within the range of the
            targets of the fit, unless ``extrapolate`` is true or the fit had an offset.
        """
        return self._bounded(self._answered(X, "means", offset))

    @available_if(gives_deviations)
    def predict_std(self, X: Any, *, offset: Any = None) -> Any:
        """Predict standard deviations, with the loss ``"gaussian_nll"``."""
        return self._answered(X, "deviations", offset)

    @available_if(gives_quantiles)
    def predict_quantiles(self, X: Any, *, offset: Any = None) -> Any:
        """Predict every quantile of the loss ``Quantile([0.1, 0.5, 0.9])``; they never cross."""
        return self._answered(X, "quantiles", offset)

    @available_if(gives_intervals)
    def predict_interval(self, X: Any, coverage: float = 0.8, *, offset: Any = None) -> Any:
        """Predict central intervals that contain a share `coverage` of the targets."""
        return self._answered(X, "interval", offset, coverage)


STEPS = 10


@dataclass(frozen=True)
class Mix:
    weights: dict[str, float]
    temperatures: dict[str, float]
    _stored_fields = {
        "weights": Items(str, NOT_NEGATIVE),
        "temperatures": Items(str, ABOVE_ZERO),
    }

    def factor(self, kind: str) -> float:
        return self.weights[kind] / self.temperatures[kind]

    def without(self, kinds: Collection[str]) -> "Mix":
        """Return the mix without kinds whose weights are 0."""
        parts = (self.weights, self.temperatures)
        return Mix(*({name: value for name, value in part.items() if name not in kinds} for part in parts))

    def plus(self, kind: str, factor: float) -> "Mix":
        """Return the mix with a kind whose outputs are added to those of the others."""
        return Mix({**self.weights, kind: factor}, {**self.temperatures, kind: 1.0})

    def of(self, outputs: Mapping[str, np.ndarray]) -> np.ndarray:
        parts = [self.factor(kind) * outputs[kind] for kind, weight in self.weights.items() if weight]
        return np.sum(parts, axis=0)


def mixed(
    outputs: Mapping[str, np.ndarray], y: np.ndarray, weight: np.ndarray | None, loss: Loss, by_error: bool
) -> Mix:
    """Return the best mix for held-out rows."""
    kinds = list(outputs)
    temperatures = {kind: _temperature(loss, output, y, weight) for kind, output in outputs.items()}
    if len(kinds) == 1:
        return Mix({kinds[0]: 1.0}, temperatures)
    steps = product(range(STEPS + 1), repeat=len(kinds) - 1)
    parts = [[1.0 - sum(each) / STEPS, *(i / STEPS for i in each)] for each in steps if sum(each) <= STEPS]
    mixes = [Mix(dict(zip(kinds, part, strict=True)), temperatures) for part in parts]

    def key(mix: Mix) -> tuple[float, float]:
        output = mix.of(outputs)
        shifted, labels = split_outputs(loss, output, y)
        error = float(np.average(shifted.argmax(axis=1) != labels, weights=weight)) if by_error else 0.0
        return error, badness(output, y, weight, loss)

    return min(mixes, key=key)


def _temperature(loss: Any, output: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> float:
    if not (loss.has_probabilities and hasattr(loss, "tempered") and hasattr(loss, "likelihood")):
        return 1.0
    if "ordinal" in loss.tasks:  # a temperature divides log odds, which are not its outputs
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if all rows are right, it is 1
        return best_temperature(loss, output.astype(np.float64), y, weight)


def deciding(weight: np.ndarray | None) -> np.ndarray | None:
    """Return weights of held-out rows, or None where they cancel or are zero: such rows count alike."""
    return None if weight is None or not weight.sum() > 0 else weight


def badness(output: np.ndarray, y: np.ndarray, weight: np.ndarray | None, loss: Loss) -> float:
    with no_grad(), np.errstate(under="ignore"):  # what is certain has no loss
        return mean_loss_of(loss, Tensor(output.astype(np.float64)), Tensor(y), weight)


# Rows that all members predict together, so that no more of their outputs are in memory.
MOST_ROWS = 8192

Counted = tuple[Member, float]
"""A member, and by what its outputs are multiplied."""


def counted(members: Sequence[Member], mix: Mix) -> list[Counted]:
    """Return the members that a mix counts, those of one kind alike."""
    counts = {kind: sum(member.kind == kind for member in members) for kind in mix.weights}
    factors = {kind: mix.factor(kind) / count for kind, count in counts.items()}
    return [(member, factors[member.kind]) for member in members if factors[member.kind]]


def blended(members: Sequence[Counted], table: Table) -> np.ndarray:
    """Return outputs of shape (n_samples, n_outputs) for a table that has been read."""
    if table.n_rows > MOST_ROWS:
        blocks = [slice(start, start + MOST_ROWS) for start in range(0, table.n_rows, MOST_ROWS)]
        return np.concatenate([blended(members, table.take(block)) for block in blocks])
    total: Any = 0.0
    encoder, inputs = None, np.empty(0)
    by_codes = table.n_rows == 1 and reads_codes(table) and read_codes(members)
    for member, factor in members:
        if member.encoder is not encoder:
            encoder = member.encoder
            inputs = encoded_rows(encoder, table, blocks=encoder.plan.blocks if by_codes else ())
        total = total + np.float32(factor) * (member.of_codes(inputs) if by_codes else member.outputs(inputs))
    return total


def read_codes(members: Sequence[Counted]) -> bool:
    """Tell whether all members predict a row by codes, which takes time for one bin of each column."""
    return all(member.reads_codes for member, _ in members)


class Blend(nn.Module):
    """All members as one network, which reads a row encoded for each encoder."""

    def __init__(self, members: Sequence[Counted], spans: Sequence[tuple[int, int]]) -> None:
        self.networks = nn.ModuleList(*[detached(member.model) for member, _ in members])
        self.factors = [float(np.float32(factor)) for _, factor in members]
        self.spans = list(spans)

    def forward(self, x: Any) -> Tensor:
        total: Any = None
        for network, factor, (start, stop) in zip(self.networks, self.factors, self.spans, strict=True):
            part = network(x[:, start:stop]) * factor
            total = part if total is None else total + part
        return total


class BlendOfCodes(nn.Module):
    """All members as one network, which reads the codes of a row for each encoder."""

    # The first weights of all members of an encoder are one array.

    def __init__(self, members: Sequence[Counted]) -> None:
        encoders = list({id(member.encoder): member.encoder for member, _ in members}.values())
        self.blocks = [encoder.plan.blocks for encoder in encoders]
        networks = [detached(member.model) for member, _ in members]
        owners = [encoders.index(member.encoder) for member, _ in members]
        weights: list[list[np.ndarray]] = [[] for _ in encoders]
        self.places, self.factors = [], [float(np.float32(factor)) for _, factor in members]
        for network, owner in zip(networks, owners, strict=True):
            with no_grad():
                first, skip = (weight.numpy() for weight in network.first_weights())
            at = sum(each.shape[1] for each in weights[owner])
            self.places.append((owner, at, at + first.shape[1], at + first.shape[1] + skip.shape[1]))
            weights[owner] += [first, skip]
        pairs = [pairs_of(np.hstack(each), blocks) for each, blocks in zip(weights, self.blocks, strict=True)]
        self.pairs = nn.ParameterList(*[nn.Parameter(each) for each in pairs])
        self.networks = nn.ModuleList(*networks)

    def forward(self, codes: Any) -> Tensor:
        products, start = [], 0
        for pairs, blocks in zip(self.pairs, self.blocks, strict=True):
            stop = start + 2 * len(blocks)
            products.append(paired_matmul(codes[:, start:stop], pairs, blocks))
            start = stop
        total: Any = None
        for network, factor, place in zip(self.networks, self.factors, self.places, strict=True):
            owner, first, skip, stop = place
            product = products[owner]
            part = network.rest(product[:, first:skip], product[:, skip:stop]) * factor
            total = part if total is None else total + part
        found: Tensor = total
        return found


def spans_of(members: Sequence[Counted]) -> tuple[list[Any], list[tuple[int, int]]]:
    """Return the encoders of members, and which columns of their outputs together each member reads."""
    encoders = list({id(member.encoder): member.encoder for member, _ in members}.values())
    ends = np.cumsum([encoder.plan.width for encoder in encoders]).tolist()
    span_of = {
        id(encoder): (end - encoder.plan.width, end) for encoder, end in zip(encoders, ends, strict=True)
    }
    return encoders, [span_of[id(member.encoder)] for member, _ in members]


class OfOneRow:
    """Predictions for one row of a dense table: one pass over all encoders, one program for all members."""

    def __init__(self, members: Sequence[Counted]) -> None:
        encoders, spans = spans_of(members)
        self._plans = [encoder.plan for encoder in encoders]
        is_native = native_core() is not None
        self._by_numpy = None if is_native else OneRow(self._plans)
        self._by_codes = is_native and read_codes(members)
        self._idle: list[NativeRow] = []  # a thread takes one
        module = BlendOfCodes(members) if self._by_codes else Blend(members, spans)
        self._network = Network.fixed(module.eval(), np.float32)
        self.predictions: dict[str, Prediction] = {}

    def __call__(self, table: Table, name: str = "raw", head: Head | None = None) -> np.ndarray:
        """Return what a head, which the name determines, makes of the outputs for the row of a `table`."""
        if self._by_numpy is not None:
            return self._computed(self._by_numpy(table, np.float32), name, head)
        try:
            encoder = self._idle.pop()
        except IndexError:
            encoder = NativeRow(self._plans, table, self._by_codes)
        found = self._computed(encoder.encode(table), name, head)
        self._idle.append(encoder)
        return found

    def _computed(self, row: np.ndarray, name: str, head: Head | None) -> np.ndarray:
        found = self._network.unchecked(row, name, head)
        result: np.ndarray = self._network.compute(row, name, head) if found is None else found
        return result
