"""Importances of the columns of a table: permutation of held-out rows, and attributions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet import nn
from sknet.core import no_grad
from sknet.device import active, to_host
from sknet.engine import Model
from sknet.engine._layer_outputs import Chosen, integrated_gradients
from sknet.engine._network import in_chunks, network_of
from sknet.engine._scheduler import run_in_threads
from sknet.losses import Loss
from sknet.preprocessing._schema import Schema, Table
from sknet.tabular._members import Job, Task
from sknet.tabular._predicting import Blend, Counted, Mix, badness, counted, spans_of
from sknet.tabular._training import Member, encoded_rows

# The share of the training's passes that predictions of permuted rows may make; they have no gradients.
SHARE, PASSES_OF_A_STEP = 0.04, 3
# Rows of a fold that are permuted: at least, at most, and at least of tables with very many columns.
FEWEST_ROWS, MOST_ROWS, FEWEST_PREDICTIONS, SLOWER = 8, 1000, 20_000, 8
# Permuted rows whose encodings are in memory together: at least so many, or of so many elements.
ROWS_ENCODED, MOST_ENCODED = 128, 2**19
# Elements of the products of permuted rows that are in memory together, and rows that are predicted together.
MOST_ELEMENTS, ROWS_AT_ONCE = 2**19, 1024


def permutation_importances(
    task: Task, jobs: Sequence[Job], members: Sequence[Member], mix: Mix, n_jobs: int | None
) -> np.ndarray:
    """Return how much the loss of held-out rows rises without each column, as shares of the sum."""
    # In some held-out rows of each fold, the values of a column are replaced by those of other ones of them.
    of_folds = [job for job in jobs if not job._is_of_all_folds]
    jobs_of = {job.fold: [each for each in of_folds if each.fold == job.fold] for job in of_folds}
    work = [
        partial(_rises_in, task, own, counted(_of_fold(members, fold), mix)) for fold, own in jobs_of.items()
    ]
    found = run_in_threads(work, n_jobs, [f"in the importances of fold {fold}" for fold in jobs_of])
    totals = np.maximum(np.sum(found, axis=0), 0.0)
    return totals / (totals.sum() or 1.0)


def _of_fold(members: Sequence[Member], fold: int) -> list[Member]:
    """Return the members of a fold, and those of all folds of which there is no other for it."""
    own = [member for member in members if member.fold == fold]
    kinds = {member.kind for member in own}
    return own + [each for each in members if each._is_of_all_folds and each.kind not in kinds]


def _rises_in(task: Task, jobs: Sequence[Job], members: Sequence[Counted]) -> np.ndarray:
    """Return the rises of the loss of held-out rows of a fold, summed over these."""
    held_out, random_state = jobs[0].rows[1], np.random.RandomState(jobs[0].seeds[0])
    is_slow = any(member._is_of_all_folds for member, _ in members)  # which are compared with all rows
    n_rows = min(_affordable(task, jobs, SLOWER if is_slow else 1), len(held_out))
    rows = random_state.choice(held_out, n_rows, replace=False)
    donors = random_state.choice(held_out, n_rows, replace=False)
    rises, total = np.zeros(len(task.schema.features)), 0.0
    firsts = [_First(*each) for each in members]
    size = max(ROWS_ENCODED, MOST_ENCODED // max(first.encoder.plan.width for first in firsts))
    for start in range(0, n_rows, size):
        part = slice(start, start + size)
        weight = None if task.weight is None else task.weight[rows[part]]
        share = float(len(rows[part]) if weight is None else weight.sum())
        if share > 0:
            rises += share * rises_of(task, firsts, rows[part], donors[part], weight)
            total += share
    return rises * (n_rows / total) if total else rises


def _affordable(task: Task, jobs: Sequence[Job], slower: int) -> int:
    """Return how many rows of a fold may be predicted for each column, in a small part of the time."""
    n_columns = len(task.schema.features)
    passes = min(task.settings[job.kind].epochs * len(job.rows[0]) for job in jobs)
    affordable = int(SHARE * PASSES_OF_A_STEP * passes / n_columns)
    fewest = min(FEWEST_ROWS, FEWEST_PREDICTIONS // n_columns)
    return max(1, fewest, min(affordable, MOST_ROWS) // slower)


def rises_of(
    task: Task, firsts: "Sequence[_First]", rows: np.ndarray, donors: np.ndarray, weight: Any
) -> np.ndarray:
    """Return the rise of the mean loss of rows for each column whose values come from other rows."""
    y, loss = task.y[rows], task.loss
    encoders = {id(first.encoder): first.encoder for first in firsts}
    encoded = {key: _Replaced(encoder, task, rows, donors) for key, encoder in encoders.items()}
    for first in firsts:
        first.see(encoded[id(first.encoder)])
    rises = np.zeros(len(task.schema.features))
    changed = np.flatnonzero(np.any([np.diff(each.starts) for each in encoded.values()], axis=0))
    columns = np.append(changed, len(rises))  # and none
    total: Any = sum(first.outputs(columns) for first in firsts)
    *outputs, same = total
    least = badness(same, y, weight, loss)
    rises[changed] = [badness(output, y, weight, loss) - least for output in outputs]
    return rises


class _Replaced:
    """Encoded rows of a table, and how much each element changes with the values of other rows."""

    def __init__(self, encoder: Any, task: Task, rows: np.ndarray, others: np.ndarray) -> None:
        schema = task.schema
        self.rows, changed = (encoded_rows(encoder, task.table, each)[:] for each in (rows, others))
        change = changed - self.rows
        is_dense = isinstance(change, np.ndarray)
        places = np.flatnonzero(change.any(axis=0) if is_dense else np.diff(change.tocsc().indptr))
        first, second = encoder.plan.owners(schema)[places].T
        # Sums of two columns change with each of them.
        is_sum = first != second
        places, owners = np.append(places, places[is_sum]), np.append(first, second[is_sum])
        order = np.argsort(owners, kind="stable")
        self.places, owners = places[order], owners[order]
        change = change[:, self.places]
        self.change = change if is_dense else change.toarray()
        # A column has those from its start to that of the next; one more has none.
        self.starts: np.ndarray = owners.searchsorted(np.arange(len(schema.features) + 2))


class _First:
    """The products of a member's first weights and rows, in which the values of one column are replaced."""

    base: np.ndarray
    _rows: _Replaced
    _replacing: np.ndarray

    def __init__(self, member: Member, factor: float) -> None:
        self.encoder, self._network, self._factor = (
            member.encoder,
            network_of(member.model),
            np.float32(factor),
        )
        with no_grad(), active(self._network.device):
            self._weights = [to_host(weight.data) for weight in member.model.module.first_weights()]

    def see(self, rows: _Replaced) -> None:
        self._rows = rows
        self.base = np.hstack([rows.rows @ weight for weight in self._weights])
        self._replacing = np.hstack([weight[rows.places] for weight in self._weights])

    def outputs(self, columns: np.ndarray) -> np.ndarray:
        """Return outputs times the factor, of shape (n_columns, n_rows, n_outputs), for columns replaced."""
        at_once = max(1, MOST_ELEMENTS // self.base.size)
        parts = [columns[start : start + at_once] for start in range(0, len(columns), at_once)]
        return np.concatenate([self._outputs(part) for part in parts])

    def _outputs(self, columns: np.ndarray) -> np.ndarray:
        products = np.repeat(self.base[np.newaxis], len(columns), axis=0)
        for product, column in zip(products, columns, strict=True):
            own = slice(*self._rows.starts[column : column + 2])
            product += self._rows.change[:, own] @ self._replacing[own]
        network, stacked = self._network, products.reshape(-1, self.base.shape[1])
        chunk = partial(network.chunk, comes_again=False, by=_after_first)
        outputs = to_host(in_chunks(chunk, stacked, ROWS_AT_ONCE, network.dtype, network.device))
        return self._factor * outputs.reshape(*products.shape[:2], -1)


def _after_first(network: Any, scope: nn.Scope, args: Any) -> Any:
    """Run a network on the products of its first weights and rows."""
    [products] = args
    size = network.body[0].out_features
    return nn.run(network.rest, scope, (products[:, :size], products[:, size:]))


def attributions(
    members: Sequence[Counted],
    schema: Schema,
    tables: "tuple[Table, Table | None]",
    loss: Loss,
    chosen: Chosen,
    n_steps: int,
) -> np.ndarray:
    """Return integrated gradients of the mixed outputs for each column, of shape (n_rows, n_columns)."""
    # The second table is the baseline, of one row or of as many; None is 0 for all encodings.
    encoders, spans = spans_of(members)
    X, baseline = (None if table is None else _encoded(encoders, table) for table in tables)
    assert X is not None
    begin = np.zeros((1, X.shape[1]), X.dtype) if baseline is None else baseline
    model = Model(Blend(members, spans).eval(), loss=loss, copy=False)
    found = integrated_gradients(model, X, begin, chosen, n_steps)
    owners = np.concatenate([encoder.plan.owners(schema) for encoder in encoders])
    of_columns = np.zeros((len(X), len(schema.features)), found.dtype)
    for of_inputs in owners.T:  # those of a sum are halved
        np.add.at(of_columns.T, of_inputs, found.T / 2)
    return of_columns


def _encoded(encoders: Sequence[Any], table: Table) -> np.ndarray:
    parts = [encoder.encode(table) for encoder in encoders]
    return np.concatenate([x if isinstance(x, np.ndarray) else x.toarray() for x in parts], axis=1)
