"""Residuals: members that add means of what networks leave of the targets of similar rows."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import groupby
from numbers import Real
from operator import itemgetter
from typing import Any

import numpy as np

from sknet import nn, ops
from sknet._fields import Named
from sknet.core import Tensor
from sknet.engine import History
from sknet.losses import Loss, SquaredError
from sknet.losses._wrappers import inside
from sknet.optim import LBFGS
from sknet.preprocessing._encoder import narrowed
from sknet.tabular._members import NEIGHBORS, Fold, Job, Task
from sknet.tabular._neighbors import (
    FURTHEST,
    STARTING,
    are_comparable,
    comparing,
    few_at_once,
    start_of,
    weighted,
    with_network,
)
from sknet.tabular._predicting import Mix, deciding
from sknet.tabular._training import Member, Rows, TabularNet, Trained, encoded_rows

# Held-out rows that distances are learned from, and the training rows near to each that it is compared with.
MOST_ROWS, N_NEAR = 1500, 32
# Iterations of L-BFGS; its starts, beside the logarithm of a factor by which nearest rows have a distance of
# 1; and the largest logarithm, whose square is accurate.
STEPS, STARTS, LARGEST = 10, (-0.7, 0.4), 4.0
# Factors of means of residuals in the learning: a least one, so that it goes on where they explain nothing.
LEAST_FACTOR, MOST_FACTOR, TINY = 0.5, 3.0, 1e-9
# Groups of columns that count, since one row is predicted in about as many passes over those it is compared
# with: at most, and the least mean square of the distance of two rows by one of them.
MOST_GROUPS, LEAST_SQUARE = 7, 0.5
N_PARTS = 3  # of held-out rows that are those of one fold
# Factors that held-out rows choose from; the best one must save a share of their loss, and so many deviations
# of what it saves.
FACTORS, LEAST_SAVED, DEVIATIONS = np.arange(1, 9) / 4, 0.01, 1.5


def have_residuals(targets: Any, loss: Loss, table: Any, budget: Any) -> bool:
    """Tell whether residuals of similar rows may be added: to one mean, of not too many rows."""
    is_one = targets.task == "regression" and targets.n_outputs == 1 and isinstance(budget, Real)
    return is_one and type(inside(loss)[0]) is SquaredError and are_comparable(table)


class WeightedMean(nn.Module):
    """The mean of some numbers by weights whose logarithms are given, and of 0 with the weight 1."""

    _stored_fields = {"values": Named("Linear")}

    # Behind the logarithms are numbers, the sum of whose squares is subtracted from each of them.

    def __init__(self, values: np.ndarray) -> None:
        self.values = nn.Linear(len(values), 1, bias=False, init="zeros")
        self.values.weight.data = np.ascontiguousarray(values[:, np.newaxis], np.float32)

    def forward(self, x: Any) -> Tensor:
        n_rows = self.values.in_features
        square = ops.sum(ops.square(x[..., n_rows:]), axis=-1, keepdims=True)
        near = ops.exp(ops.minimum(ops.maximum(x[..., :n_rows] - square, FURTHEST), -FURTHEST))
        return self.values(near) / (ops.sum(near, axis=-1, keepdims=True) + 1.0)


def network_of_means(rows: Rows, squares: np.ndarray) -> TabularNet:
    """Return a network of plain layers: means of targets of similar rows, by squared factors."""
    X, left, bias = weighted(rows)
    # The first layer has products with the rows, and columns whose squares sum to those of the input.
    weight = np.hstack([2.0 * X.T, np.diag(squares**-0.5)])
    first = np.append(bias - np.square(X) @ squares, np.zeros(len(squares), np.float32))
    return comparing(weight, first, squares, WeightedMean(left), 1)


class _Pairs:
    """Held-out rows and training rows near to each; distances have a factor for each group of columns."""

    # Networks fit the means of training rows: residuals of two of them say little of those of new rows.

    between: np.ndarray
    others: np.ndarray
    counts: np.ndarray

    def __init__(self, X: np.ndarray, left: np.ndarray, weight: np.ndarray, folds: Sequence[Fold]) -> None:
        step = -(-sum(len(held_out) for _, held_out in folds) // MOST_ROWS)
        few = [held_out[::step] for _, held_out in folds]
        self.rows, self.fold = np.concatenate(few), np.repeat(np.arange(len(folds)), list(map(len, few)))
        self.left, self.weight = left[self.fold, self.rows], weight[self.rows]
        self._data = X, left, weight, folds

    def near(self, logarithms: np.ndarray, groups: np.ndarray) -> "_Pairs":
        """Return pairs of rows that are near to each other by these logarithms of factors."""
        X, left, weight, folds = self._data
        scaled = X * np.exp(groups @ logarithms).astype(np.float32)
        squares, random_state, near = np.square(scaled).sum(axis=1), np.random.RandomState(0), []
        for fold, (training, _) in enumerate(folds):
            # The nearest row of each of some equal parts, which is found sooner than the nearest of all.
            n_near = min(N_NEAR, len(training))
            parts = random_state.permutation(training)[: len(training) // n_near * n_near].reshape(n_near, -1)
            others, own = np.ascontiguousarray(scaled[parts.ravel()].T), squares[parts]
            for rows in few_at_once(-2.0 * scaled[self.rows[self.fold == fold]]):
                distances = (rows @ others).reshape(-1, *parts.shape) + own
                near.append(parts[np.arange(n_near), distances.argmin(axis=2)])
        n_near = min(each.shape[1] for each in near)
        found, others = copy(self), np.concatenate([each[:, :n_near] for each in near])
        change = np.square(X[others] - X[self.rows, np.newaxis]).reshape(-1, X.shape[1])
        found.between = (change @ groups.astype(np.float32)).reshape(*others.shape, -1)
        found.others, found.counts = left[self.fold[:, np.newaxis], others], weight[others]
        return found

    def of(self, chosen: np.ndarray) -> "_Pairs":
        """Return the pairs of some of the held-out rows."""
        found = copy(self)
        for name in ("between", "others", "counts", "left", "weight"):
            setattr(found, name, getattr(self, name)[chosen])
        return found

    def loss(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the share of squares that means of similar rows do not explain, and its gradient."""
        squares = np.exp(2.0 * np.minimum(logarithms, LARGEST))
        between = self.between.reshape(-1, len(squares))  # whose products are faster
        distances = (between @ squares.astype(np.float32)).reshape(self.others.shape)
        near = self.counts * np.exp(-np.minimum(distances, -FURTHEST))
        total = near.sum(axis=1) + 1.0
        mean = (near * self.others).sum(axis=1) / total
        products, own = (float((self.weight * mean * each).sum()) for each in (self.left, mean))
        factor = min(max(products / max(own, TINY), LEAST_FACTOR), MOST_FACTOR)
        error = factor * mean - self.left
        scale = max(float((self.weight * np.square(self.left)).sum()), TINY)
        slopes = (self.weight * error * (2.0 * factor / scale) / total)[:, np.newaxis]
        of_distances = -slopes * near * (self.others - mean[:, np.newaxis])
        gradient = (of_distances.ravel() @ between) * 2.0 * squares * (logarithms < LARGEST)
        return float((self.weight * np.square(error)).sum()) / scale, gradient.astype(np.float64)


def _least(pairs: _Pairs, start: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the least loss of pairs that is found from a start, and the logarithms of factors."""
    found = LBFGS().minimize(pairs.loss, start, max_iter=STEPS)
    return found.value, np.minimum(found.x, LARGEST)


def learned(pairs: _Pairs, start: float, groups: np.ndarray, parts: np.ndarray) -> list[np.ndarray] | None:
    """Return the logarithms of factors of groups of columns by which similar rows explain most, if they do.

    The first ones are learned from all pairs, the others from all but those of a part of the held-out rows.
    """
    starts = [np.full(groups.shape[1], start + each) for each in STARTS]
    first, second = pairs.near(starts[0], groups), None
    found: list[np.ndarray] = []
    for part in range(-1, parts.max() + 1):
        chosen = parts[pairs.rows] != part
        own = first.of(chosen)
        _, begun = min((_least(own, each) for each in starts), key=itemgetter(0))
        second = second or pairs.near(begun, groups)  # rows that the first factors make near, for all
        loss, logarithms = _least(second.of(chosen), begun)
        if not found and loss > 1.0 - 2.0 * LEAST_SAVED:
            return None
        found.append(logarithms)
    return found


def groups_of(encoder: Any) -> np.ndarray:
    """Return the group of each column as a row of zeros and a one: that of a category or of a number."""
    spans = dict(encoder.plan.one_hot)
    sizes: list[int] = []
    while (at := sum(sizes)) < encoder.plan.width:
        sizes.append(spans.get(at, at + 1) - at)
    return np.repeat(np.eye(len(sizes)), sizes, axis=0)


@dataclass(frozen=True)
class Residuals:
    """Members that add means of residuals of similar rows."""

    member: Member  # which compares with all rows
    of_folds: list[Member]  # which compare with those that a fold trains on
    outputs: np.ndarray  # of those, for the rows that their folds hold out
    factor: float


class Left:
    """Encoded rows, and what the networks of each fold leave of their targets."""

    def __init__(
        self, task: Task, encoder: Any, jobs: Sequence[Job], trained: Sequence[list[Trained]], mix: Mix
    ) -> None:
        weight = np.ones(len(task.y)) if task.weight is None else np.maximum(task.weight.ravel(), 0.0)
        # A row counts as much as the zero beside it, whatever the unit of the weights is.
        self.weight = (weight / weight[weight > 0].mean(dtype=np.float64)).astype(np.float32)
        self.X = np.asarray(encoded_rows(encoder, task.table)[:])
        self.encoder, self.like = encoder, trained[0][0].member.model
        self.folds: list[Fold] = []
        self.of_folds = np.full((len({job.fold for job in jobs}), len(task.y)), np.nan, np.float32)
        ordered = sorted(zip(jobs, trained, strict=True), key=lambda pair: pair[0].fold)
        for left, (_, pairs) in zip(self.of_folds, groupby(ordered, lambda pair: pair[0].fold), strict=True):
            self.folds.append(self._of_fold(task, list(pairs), mix, left))

    def _of_fold(self, task: Task, pairs: list[Any], mix: Mix, left: np.ndarray) -> Fold:
        """Write what the networks of a fold leave; return the fold, each row once."""
        training, held_out = pairs[0][0].rows
        for rows, name in ((training, "of_trained"), (held_out, "outputs")):
            outputs = {
                job.kind: np.mean([getattr(each, name) for each in found], axis=0) for job, found in pairs
            }
            left[rows] = (task.y[rows] - mix.of(outputs))[:, 0]
        return np.unique(training), np.unique(held_out)

    @property
    def is_finite(self) -> bool:
        """True unless a network predicts nothing for some rows."""
        pairs = zip(self.of_folds, self.folds, strict=True)
        return all(np.isfinite(own[np.concatenate(fold)]).all() for own, fold in pairs)

    def of_columns(self, is_kept: np.ndarray) -> "Left":
        """Return the same of some columns."""
        found = copy(self)
        found.encoder, found.X = narrowed(self.encoder, is_kept), np.ascontiguousarray(self.X[:, is_kept])
        return found

    def member(self, fold: int, rows: np.ndarray, left: np.ndarray, factors: np.ndarray) -> Member:
        """Return a member that compares with some rows, by logarithms of factors of columns."""
        squares = np.exp(2.0 * factors).astype(np.float32)
        known = Rows(self.X[rows], left[rows], self.weight[rows])
        model = with_network(network_of_means(known, squares), self.like, LBFGS())
        return Member(NEIGHBORS, fold, self.encoder, model, History())

    def whole(self, factors: np.ndarray) -> Member:
        """Return a member that compares with all rows that a fold trains on, by the means of what is left."""
        left, counts = np.zeros((2, len(self.X)))
        for (training, _), own in zip(self.folds, self.of_folds, strict=True):
            left[training] += own[training]
            counts[training] += 1
        return self.member(0, np.flatnonzero(counts), left / np.maximum(counts, 1), factors)


def _parts_of(folds: Sequence[Fold], n_rows: int) -> np.ndarray:
    """Return in which part each held-out row is, by the first fold that holds it out; -1 for others."""
    parts = np.full(n_rows, -1)
    for fold, (_, held_out) in reversed([*enumerate(folds)]):
        parts[held_out] = fold
    rows = np.flatnonzero(parts >= 0)
    if not parts.max():  # all of them, since there is one fold, or one again and again
        parts[rows] = np.random.RandomState(0).permutation(len(rows)) % N_PARTS
    return parts


def found_residuals(left: Left, rows: np.ndarray, mixed: np.ndarray, task: Task) -> Residuals | None:
    """Return members that add residuals to the `mixed` outputs for held-out `rows`, if these gain by them."""
    if not left.is_finite:
        return None
    groups, start = groups_of(left.encoder), start_of(left.X[STARTING:], left.X[:STARTING])
    pairs, parts = _Pairs(left.X, left.of_folds, left.weight, left.folds), _parts_of(left.folds, len(left.X))
    found = learned(pairs, start, groups, parts)
    if found is None:
        return None
    is_kept = _telling(left.X, groups, found[0])
    whole, *of_parts = [(groups @ each)[is_kept] for each in found]
    left = left.of_columns(is_kept)
    outputs, of_folds = _held_out(left, parts, of_parts)
    weight = deciding(None if task.weight is None else task.weight[rows])
    alike = None if task.groups is None else task.groups[rows]
    factor = factor_of(mixed, outputs[rows], task.y[rows], weight, alike)
    return Residuals(left.whole(whole), of_folds, outputs[rows], factor) if factor else None


def _telling(X: np.ndarray, groups: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return a mask of the columns of those groups by which rows are furthest from each other."""
    squares = 2.0 * (X.var(axis=0) @ groups) * np.exp(2.0 * factors)
    is_far = (squares >= LEAST_SQUARE) | (squares == squares.max())
    is_far[np.argsort(-squares, kind="stable")[MOST_GROUPS:]] = False
    return groups @ is_far > 0


def _held_out(
    left: Left, parts: np.ndarray, factors: Sequence[np.ndarray]
) -> tuple[np.ndarray, list[Member]]:
    """Return what members of the folds add to held-out rows, NaN for others, and these members."""
    outputs, counts = np.zeros((2, len(left.X), 1))
    found = []
    for fold, (training, held_out) in enumerate(left.folds):
        for part in np.unique(parts[held_out]):
            rows = held_out[parts[held_out] == part]
            member = left.member(fold, training, left.of_folds[fold], factors[part])
            outputs[rows] += member.outputs(left.X[rows])
            counts[rows] += 1
        found.append(member)
    with np.errstate(invalid="ignore"):
        return outputs / counts, found


def factor_of(
    outputs: np.ndarray,
    added: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray | None,
    groups: np.ndarray | None = None,
) -> float:
    """Return the factor of residuals of similar rows by which held-out rows lose least, or 0."""
    factors = np.sqrt(1.0 if weight is None else np.maximum(weight.reshape(-1, 1), 0.0))
    left, added = factors * (y - outputs), factors * added
    best = min(FACTORS, key=lambda factor: float(np.square(left - factor * added).sum()))
    saved = np.square(left) - np.square(left - best * added)
    if groups is not None:  # whose rows are alike
        saved = np.bincount(groups, saved.ravel())
    # Squares about 0 and not about the mean, which few rows do not tell.
    least = max(LEAST_SAVED * np.square(left).sum(), DEVIATIONS * math.sqrt(np.square(saved).sum()))
    return float(best) if saved.sum() > least else 0.0
