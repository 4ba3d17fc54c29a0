"""Importances of the columns of a table: permutation of held-out rows, and attributions."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from sknet._late import scipy_sparse
from sknet.engine import Model
from sknet.engine._layer_outputs import Chosen, integrated_gradients
from sknet.engine._scheduler import run_in_threads
from sknet.losses import Loss
from sknet.preprocessing._schema import Schema, Table
from sknet.tabular._members import Job, Task
from sknet.tabular._predicting import Blend, Counted, Mix, badness, blended, counted, spans_of
from sknet.tabular._training import Member

__all__ = ["attributions", "permutation_importances"]

# The share of the training's passes that predictions of permuted rows may make; they have no gradients.
SHARE, PASSES_OF_A_STEP = 0.04, 3
# Rows of a fold that are permuted: at least, at most, and at least of tables with very many columns.
FEWEST_ROWS, MOST_ROWS, FEWEST_PREDICTIONS = 8, 1000, 20_000
# Elements of the permuted rows that are in memory together.
MOST_ELEMENTS = 2**22


def permutation_importances(
    task: Task, jobs: Sequence[Job], members: Sequence[Member], mix: Mix, n_jobs: int | None
) -> np.ndarray:
    """Return how much the loss of held-out rows rises without each column, as shares of the sum.

    In some held-out rows of each fold, the values of a column are replaced by those of other ones of them.
    """
    jobs_of = {job.fold: [each for each in jobs if each.fold == job.fold] for job in jobs}
    work = [
        partial(_rises_in, task, own, counted([each for each in members if each.fold == fold], mix))
        for fold, own in jobs_of.items()
    ]
    found = run_in_threads(work, n_jobs, [f"in the importances of fold {fold}" for fold in jobs_of])
    totals = np.maximum(np.sum(found, axis=0), 0.0)
    shares: np.ndarray = totals / (totals.sum() or 1.0)
    return shares


def _rises_in(task: Task, jobs: Sequence[Job], members: Sequence[Counted]) -> np.ndarray:
    """Return the rises of the loss of held-out rows of a fold, summed over these."""
    held_out, random_state = jobs[0].rows[1], np.random.RandomState(jobs[0].seeds[0])
    n_rows = min(_affordable(task, jobs), len(held_out))
    rows = random_state.choice(held_out, n_rows, replace=False)
    donors = random_state.choice(held_out, n_rows, replace=False)
    weight = None if task.weight is None else task.weight[rows]
    if weight is not None and not weight.sum() > 0:
        return np.zeros(len(task.schema.features))
    return n_rows * _rises(task, members, rows, donors, weight)


def _affordable(task: Task, jobs: Sequence[Job]) -> int:
    """Return how many rows of a fold may be predicted for each column, in a small part of the time."""
    n_columns = len(task.schema.features)
    passes = min(task.settings[job.kind].epochs * len(job.rows[0]) for job in jobs)
    affordable = int(SHARE * PASSES_OF_A_STEP * passes / n_columns)
    fewest = min(FEWEST_ROWS, FEWEST_PREDICTIONS // n_columns)
    return max(1, fewest, min(affordable, MOST_ROWS))


def _rises(
    task: Task, members: Sequence[Counted], rows: np.ndarray, donors: np.ndarray, weight: Any
) -> np.ndarray:
    """Return the rise of the mean loss of rows for each column whose values come from other rows."""
    table, others = task.table.take(rows), task.table.take(donors)
    y, loss = task.y[rows], task.loss
    least = badness(blended(members, table), y, weight, loss)
    stored = 0 if table.sparse is None else table.sparse.nnz // len(rows)
    width = max(table.numbers.shape[1] + table.codes.shape[1] + stored, 1)
    at_once = max(1, MOST_ELEMENTS // (len(rows) * width))
    rises = np.zeros(len(task.schema.features))
    for start in range(0, len(rises), at_once):
        chosen = range(start, min(start + at_once, len(rises)))
        outputs = blended(members, _replaced(task.schema, table, others, chosen))
        for i, output in zip(chosen, np.split(outputs, len(chosen)), strict=True):
            rises[i] = badness(output, y, weight, loss) - least
    return rises


def _replaced(schema: Schema, table: Table, others: Table, columns: range) -> Table:
    """Return the rows of a table once for each column, which has the values of other rows there."""
    n_rows, count = table.n_rows, len(columns)
    numbers, codes = np.tile(table.numbers, (count, 1)), np.tile(table.codes, (count, 1))
    owners = schema.owners_of_numbers
    coded = [i for i, feature in enumerate(schema.features) if feature.kind == "category"]
    for place, column in enumerate(columns):
        block = slice(place * n_rows, (place + 1) * n_rows)
        if table.sparse is None:
            own = np.flatnonzero(owners == column)
            numbers[block, own] = others.numbers[:, own]
        if column in coded:
            codes[block, coded.index(column)] = others.codes[:, coded.index(column)]
    if table.sparse is None:
        return Table(numbers, codes)
    return Table(numbers, codes, _sparse_replaced(table.sparse, others.sparse, owners, columns))


def _sparse_replaced(sparse: Any, others: Any, owners: np.ndarray, columns: range) -> Any:
    """Return the rows of a sparse matrix once for each column, with the elements of other rows there."""
    n_rows, count = sparse.shape[0], len(columns)
    kept, new = sparse.tocoo(), others.tocoo()
    of_block = np.repeat(np.arange(count), kept.nnz)
    col = np.tile(kept.col, count)
    stays = owners[col] != of_block + columns.start
    row = np.tile(kept.row, count) + of_block * n_rows
    place = owners[new.col] - columns.start
    is_in = (place >= 0) & (place < count)
    rows = np.concatenate([row[stays], new.row[is_in] + place[is_in] * n_rows])
    cols = np.concatenate([col[stays], new.col[is_in]])
    data = np.concatenate([np.tile(kept.data, count)[stays], new.data[is_in]])
    return scipy_sparse().csr_array((data, (rows, cols)), shape=(n_rows * count, sparse.shape[1]))


def attributions(
    members: Sequence[Counted],
    schema: Schema,
    tables: "tuple[Table, Table | None]",
    loss: Loss,
    chosen: Chosen,
    n_steps: int,
) -> np.ndarray:
    """Return integrated gradients of the mixed outputs for each column, of shape (n_rows, n_columns).

    The second table is the baseline, of one row or of as many; None is 0 for all encodings.
    """
    encoders, spans = spans_of(members)
    X, baseline = (None if table is None else _encoded(encoders, table) for table in tables)
    assert X is not None
    begin = np.zeros((1, X.shape[1]), X.dtype) if baseline is None else baseline
    model = Model(Blend(members, spans).eval(), loss=loss, copy=False)
    found = integrated_gradients(model, X, begin, chosen, n_steps)
    owners = np.concatenate([encoder.plan.owners(schema) for encoder in encoders])
    of_columns = np.zeros((len(X), len(schema.features)), found.dtype)
    np.add.at(of_columns.T, owners, found.T)
    return of_columns


def _encoded(encoders: Sequence[Any], table: Table) -> np.ndarray:
    parts = [encoder.encode(table) for encoder in encoders]
    return np.concatenate([x if isinstance(x, np.ndarray) else x.toarray() for x in parts], axis=1)
