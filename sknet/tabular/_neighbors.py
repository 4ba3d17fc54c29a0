"""Neighbors: members whose outputs are logarithms of the shares of the classes among similar rows."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from sknet import nn, ops
from sknet._fields import COUNT, Each
from sknet.core import Tensor
from sknet.device import to_host
from sknet.engine import Model
from sknet.engine._network import predict_rows
from sknet.losses import LogLoss, Loss
from sknet.optim import Adam, BaseOptimizer
from sknet.tabular._members import FEW_ROWS, MEDIUM_ROWS, Fold, Task
from sknet.tabular._predicting import badness, deciding
from sknet.tabular._training import Member, Rows, TabularNet, Training, encoded_rows

# Rows that distances are learned from at least, those that others are compared with, and the widest ones.
LEAST_ROWS, MOST_KEYS, WIDEST = FEW_ROWS // 2, 4000, 200
# The share of a row that all classes have in common, so that no logarithm is infinite.
COMMON = 0.01
# Factors of the distances, since rows are closer to the nearest of more rows, and rows that decide on them:
# 512 are too few, since the first and even ones of 1,200 of covertype choose different factors.
FACTORS, DECIDING = (1.0, 1.25, 1.6), 2048
STARTING, AT_ONCE = 512, 32  # rows whose nearest ones tell the scale of distances, and how many at a time
FURTHEST = -64.0  # the logarithm of the least weight of a row beside the nearest
LEAST_SQUARE = 1e-3  # of the distance of the nearest rows; most may have the same encoding


def have_neighbors(task: str, y: np.ndarray, loss: Loss, table: Any) -> bool:
    """Tell whether similar rows may be looked at: of several classes, and not too many rows."""
    return task == "multiclass" and y.ndim == 1 and isinstance(loss, LogLoss) and are_comparable(table)


def are_comparable(table: Any) -> bool:
    """Tell whether the rows of a table may be compared with each other: neither too few nor too many."""
    width = table.numbers.shape[1] + table.codes.shape[1]
    return table.sparse is None and FEW_ROWS <= table.n_rows < MEDIUM_ROWS and width <= WIDEST


def of_all_folds(folds: list[Fold], n_rows: int) -> Fold:
    """Return the rows that every fold trains on, and those that some fold holds out."""
    n_training, is_held_out = np.zeros(n_rows, dtype=np.intp), np.zeros(n_rows, dtype=bool)
    for training, held_out in folds:
        n_training[training] += 1  # once, also if a row is repeated
        is_held_out[held_out] = True
    return np.flatnonzero(n_training == len(folds)), np.flatnonzero(is_held_out)


class LogShares(nn.Module):
    """Logarithms of the shares of classes among some rows, those of a class next to each other."""

    _stored_fields = {"ends": Each(tuple, COUNT)}

    def __init__(self, ends: tuple[int, ...]) -> None:
        self.ends = ends

    def forward(self, x: Any) -> Tensor:
        # Weights, of which none is so small that processors add it slowly.
        near = ops.exp(ops.maximum(x - ops.max(x, axis=-1, keepdims=True), FURTHEST))
        spans = pairwise((0, *self.ends))
        sums = ops.concat([ops.sum(near[..., a:b], axis=-1, keepdims=True) for a, b in spans], axis=-1)
        shares = sums * ((1.0 - COMMON) / ops.sum(sums, axis=-1, keepdims=True))
        return ops.log(shares + COMMON / len(self.ends))


class Distances(nn.Module):
    """Learned factors of columns, in squares of distances to some rows with known classes."""

    def __init__(self, keys: np.ndarray, shares: np.ndarray, bias: np.ndarray, start: float = 0.0) -> None:
        self.scale = nn.Scale(keys.shape[1], init=nn.init.Constant(start))  # logarithms
        for name, value in {"keys": keys.T, "squares": np.square(keys).T, "shares": shares}.items():
            self.register_buffer(name, np.ascontiguousarray(value))
        self.register_buffer("bias", bias)

    def forward(self, x: Any) -> Tensor:
        squares = ops.exp(2.0 * self.scale.weight)
        products = (x * squares) @ (2.0 * self.keys) - squares[np.newaxis] @ self.squares + self.bias
        return ops.log(ops.softmax(products) @ self.shares)


def start_of(keys: np.ndarray, rows: np.ndarray) -> float:
    """Return the logarithm of a factor by which the nearest of some rows have a distance of about 1."""
    of_keys = np.square(keys).sum(axis=1)
    nearest = [
        (np.square(part).sum(axis=1)[:, np.newaxis] - 2.0 * part @ keys.T + of_keys).min(axis=1)
        for part in few_at_once(rows)
    ]
    return -0.5 * float(np.log(max(np.median(np.concatenate(nearest)), LEAST_SQUARE)))


def few_at_once(rows: np.ndarray) -> list[np.ndarray]:
    """Return parts of some rows, whose distances from all others stay in a cache."""
    return np.array_split(rows, -(-len(rows) // AT_ONCE))


def _shares(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the share of each class in each row, which has one of them."""
    found = np.full((len(y), n_classes), COMMON / n_classes, np.float32)
    found[np.arange(len(y)), y] += np.float32(1.0 - COMMON)
    return found


def weighted(rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return encoded rows, their classes and the logarithms of their weights, of those that have one."""
    X, y = np.asarray(rows.take(slice(None))), rows.y
    if rows.weight is None:
        return X, y, np.zeros(len(y), np.float32)
    chosen = rows.weight > 0
    return X[chosen], y[chosen], np.log(rows.weight[chosen]).astype(np.float32)


def _network(rows: Rows, squares: np.ndarray, n_classes: int) -> TabularNet:
    """Return a network of plain layers that compares rows with these, by squared factors of columns."""
    X, y, bias = weighted(rows)
    order, ends = np.argsort(y, kind="stable"), np.cumsum(np.bincount(y, minlength=n_classes))
    first = bias[order] - np.square(X[order]) @ squares
    return comparing(2.0 * X[order].T, first, squares, LogShares(tuple(ends.tolist())), n_classes)


def comparing(
    weight: np.ndarray, bias: np.ndarray, squares: np.ndarray, last: nn.Module, n_outputs: int
) -> TabularNet:
    """Return a network of plain layers: factors of columns, a product, and the last one."""
    width, size = weight.shape
    found = TabularNet(width, n_outputs, (size,), 0.0, scales=False)
    first, found.scale = found.body[0], nn.Scale(width)
    found.scale.weight.data = squares
    first.weight.data = np.ascontiguousarray(np.float32(width) ** 0.5 * weight)
    first.bias.data = bias
    found.skip.weight.data = np.zeros((width, n_outputs), np.float32)
    found.body = nn.Sequential(first, last)
    return found


class NeighborTraining(Training):
    """The training of distances: some rows are compared with the others."""

    def _made(
        self, random_state: np.random.RandomState, one_hot: Any, directions: Any
    ) -> tuple[nn.Module, Rows]:
        X, y, bias = weighted(self._rows)
        order = random_state.permutation(len(y))
        keys, others = np.split(order, [min(MOST_KEYS, len(y) // 2)])
        start = start_of(X[keys], X[others[:STARTING]])
        weight = None if self._rows.weight is None else np.exp(bias[others])
        shares = _shares(y[keys], self._n_outputs)
        return Distances(X[keys], shares, bias[keys], start), Rows(X[others], y[others], weight)

    def _optimizer(self, network: nn.Module) -> Adam:
        return Adam(self._schedules[0], beta1=0.9, beta2=0.95)

    def _predicting(self) -> Model:
        model = self._model
        squares = np.exp(2.0 * to_host(model.module.scale.weight.data))
        n_rows = self._held_out.n_rows
        few = np.linspace(0, n_rows - 1, min(DECIDING, n_rows)).astype(np.intp)  # rows may be sorted
        rows, y = self._held_out.take(few), self._held_out.y[few]
        weight = deciding(None if self._held_out.weight is None else self._held_out.weight[few])
        found = [with_network(_network(self._rows, f**2 * squares, self._n_outputs), model) for f in FACTORS]

        def loss(each: Model) -> float:
            return badness(to_host(predict_rows(each, rows)), y, weight, model.loss_function)

        return min(found, key=loss)


def with_network(network: TabularNet, like: Model, optimizer: BaseOptimizer | None = None) -> Model:
    """Return a model like another with a network, and perhaps an optimizer, of its own."""
    return Model(
        network,
        loss=like.loss_function,
        optimizer=optimizer or like.optimizer,
        device=like.device,
        random_state=like.random_state,
        copy=False,
    )


def with_all_rows(member: Member, folds: list[Fold], task: Task) -> Member:
    """Return neighbors that compare with the rows of all folds, also held-out ones; others as they are."""
    if not member._is_of_all_folds:
        return member
    own = np.unique(np.concatenate([rows for fold in folds for rows in fold]))
    own = own[own < len(task.target.y)]  # validation rows are behind these
    weight = None if task.weight is None else task.weight[own]
    rows = Rows(encoded_rows(member.encoder, task.table, own), task.y[own], weight)
    module = member.model.module
    network = _network(rows, to_host(module.scale.weight.data), module.skip.out_features)
    return replace(member, model=with_network(network, member.model))
