"""One worker's part of a fit: its partitions, a copy of the model, and the steps that all make together."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sknet import nn
from sknet.dask._collections import Order, order_of
from sknet.dask._exchange import Exchange
from sknet.device import Stream
from sknet.engine import Batches, Model, ModelState, Score
from sknet.engine._inputs import Batch, each_input
from sknet.engine._network import chunk_rows_of, predict_raw
from sknet.engine._optimizer import mean_loss
from sknet.engine._remote import SplitStep
from sknet.estimators._fit import DataSet
from sknet.exceptions import NonFiniteError
from sknet.nn._module import held_buffers
from sknet.optim.schedules import Progress

PADDING = 16  # into how many steps the range of sizes is divided that have programs of their own
ROW_WISE = frozenset(
    {nn.Sequential, nn.Linear, nn.MonotonicLinear, nn.Saturation, nn.Dropout, nn.AlphaDropout}
    | {*nn.ACTIVATIONS.values()} - {nn.Softmax, nn.LogSoftmax}
)  # layers that compute a row of the output from that row of the input; others may take statistics of all
TAIL = 3  # weight, loss and rows, behind a gradient


@dataclass(frozen=True)
class FitPlan:
    """Plan of a fit that all workers know."""

    estimator: Any
    recipe: Any
    seed: int
    batch_size: int
    n_batches: int
    n_rows: int
    fraction: float
    sync_every: int
    dtypes: Any
    standing: Batches | None
    places: Sequence[int]


class Block(NamedTuple):
    losses: Any
    rows: Any
    learned: Any
    score: "dict[str, Any] | None"
    state: ModelState | None


class Scored(NamedTuple):
    """Sums over the rows that a worker has held out."""

    loss: float
    weight: float
    score: "dict[str, Any] | None"


class RankRows(NamedTuple):
    number: int
    training: DataSet
    held_out: DataSet


def new_score(estimator: Any, standing: Batches | None, model: Model) -> Score | None:
    """Return an empty score of an estimator, for rows whose targets vary like the given examples."""
    if standing is None:
        return None
    return estimator._score_of(standing, model)()


def merged(states: Sequence["dict[str, Any]"]) -> dict[str, Any]:
    """Return the state of a score over the rows of several workers."""
    return {
        name: all(state[name] for state in states)
        if isinstance(value, bool)
        else sum(state[name] for state in states)
        for name, value in states[0].items()
    }


class Rank:
    """One worker's part of a fit."""

    def __init__(self, plan: FitPlan, rows: Sequence[RankRows], model: Model, exchange: Exchange) -> None:
        self.plan, self.rows, self.exchange = plan, rows, exchange
        self._batches = [each.training.batches(model, plan.batch_size) for each in rows]
        self._n_rows = sum(each.training.n_samples for each in rows)
        self._share = self._n_rows / plan.n_rows
        self._orders: tuple[int, list[Order]] = (0, [])
        self.take(model)

    def take(self, model: Model) -> None:
        """Go on with a model, which is this worker's own from now on."""
        key = model.memory.key
        # Each worker draws masks of its own; the first draws those of a fit in one process.
        model.memory.stream = Stream((key[0], key[1] ^ (self.exchange.rank << 32)))
        self.model, self._alpha = model, model.alpha
        model.adopt(model.optimizer, model.loss_function, 0.0)  # the penalty is added once, after the sum
        self._step = SplitStep(model)
        modules = list(model.module.modules())
        self._is_row_wise = all(type(each) in ROW_WISE and each._hooks is None for each in modules)
        layout = model.memory.layout
        self._penalized = [layout.slices[name] for name, shape in layout.shapes.items() if len(shape) > 1]
        self._sum = np.zeros(layout.size + TAIL, model.dtype)

    # -- training ------------------------------------------------------------------------------------

    def run(self, epoch: int, first: int, count: int, progress: Progress) -> Block:
        """Train on consecutive batches, together with the other workers."""
        self.model.progress = progress
        score = self._new_score()
        together = self._averaged_gradients if self.plan.sync_every == 1 else self._averaged_weights
        with np.errstate(all="ignore"):  # an error says more than NumPy's warnings before it
            losses, rows, learned = together(epoch, range(first, first + count), score)
            self._average_buffers()
        self.model.memory.note_written("a fit")
        state = self.model.state if self.exchange.rank == 0 else None
        return Block(losses, rows, learned, None if score is None else score.state(), state)

    def _averaged_gradients(self, epoch: int, numbers: range, score: Score | None) -> tuple[Any, Any, Any]:
        losses: list[float] = []
        rows, learned = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), bool)
        gradient = self._sum[:-TAIL]
        for i, number in enumerate(numbers):
            self._own_share(epoch, number, score)
            self.exchange.all_reduce(self._sum)
            weight, loss, count = (float(x) for x in self._sum[-TAIL:])
            rows[i] = round(count * self.plan.batch_size)
            learned[i] = weight > 0
            if not weight:  # there is nothing to learn
                continue
            np.divide(gradient, weight, out=self._step.gradient)
            loss = loss / weight + self._add_penalty(weight * self.plan.batch_size)
            try:
                self._step.check(loss)
            except NonFiniteError:
                if not losses:
                    raise
                return np.array(losses), rows[:i], learned[:i]  # the next block raises the error
            self._step.update()
            losses.append(loss)
        return np.array(losses), rows, learned

    def _own_share(self, epoch: int, number: int, score: Score | None) -> None:
        """Write this worker's share of a batch to `_sum`: gradient, weight, loss and rows, by batch size."""
        loss, weight, count = self._computed(epoch, number, score)
        size = self.plan.batch_size
        share = weight / size
        if weight:
            np.multiply(self._step.gradient, share, out=self._sum[:-TAIL])
        else:
            self._sum[:] = 0.0
        self._sum[-TAIL:] = share, loss * share, count / size

    def _averaged_weights(self, epoch: int, numbers: range, score: Score | None) -> tuple[Any, Any, Any]:
        every, last = self.plan.sync_every, self.plan.n_batches - 1
        sums = np.zeros((TAIL, len(numbers)))
        for i, number in enumerate(numbers):
            loss, weight, count = self._computed(epoch, number, score)
            if weight:
                # The penalty is divided by the weight of a whole batch, of which this is a share.
                loss += self._add_penalty(weight / self._share)
                self._step.check(loss)
                self._step.update()
            else:
                self.model.progress = self.model.progress.stepped()
            sums[:, i] = weight, loss * weight, count
            if (number + 1) % every == 0 or number == last:
                memory = self.model.memory
                flat, slots = memory.flat_buffers()
                for array, mean in zip(found := [flat, *slots.values()], self._means(found), strict=True):
                    array[...] = mean
        self.exchange.all_reduce(sums.reshape(-1))
        weights, totals, rows = sums
        learned = weights > 0
        return totals[learned] / weights[learned], rows.round().astype(np.int64), learned

    def _computed(self, epoch: int, number: int, score: Score | None) -> tuple[float, float, int]:
        """Compute the gradient of this worker's share of a batch; return loss, weight and rows."""
        chosen = [order.of_batch(number) for order in self._orders_of(epoch)]
        count = sum(map(len, chosen))
        if not count:
            return 0.0, 0.0, 0
        batch = self._step.room(self._like(self._padded(count)))
        self._fill(batch, chosen, count)
        weight = float(batch.weight.sum(dtype=np.float64))
        if not weight:
            return 0.0, 0.0, count
        share = self._step.compute(batch)
        if score is not None:
            score.add(share.output[:count], batch.y[:count], batch.weight[:count])
        return share.loss, weight, count

    def _orders_of(self, epoch: int) -> list[Order]:
        if self._orders[0] != epoch:
            plan = self.plan
            shuffle = plan.recipe.settings.shuffle
            how = {"seed": plan.seed, "epoch": epoch, "shuffle": shuffle}
            orders = [
                order_of(each.training.n_samples, plan.n_batches, partition=each.number, **how)
                for each in self.rows
            ]
            self._orders = epoch, orders
        return self._orders[1]

    def _padded(self, count: int) -> int:
        """Return the number of rows, padded by rows of no weight, of the program for `count` rows."""
        if not self._is_row_wise:
            return count
        apart = max(1, round(self._share * self.plan.batch_size) // PADDING)
        return -(-count // apart) * apart

    def _like(self, n_rows: int) -> Batch:
        batches = self._batches[0]

        def one(array: Any, dtype: Any) -> Any:
            return np.broadcast_to(np.zeros((), dtype), (n_rows, *array.shape[1:]))

        weight = np.broadcast_to(np.zeros((), self.model.dtype), (n_rows,))
        return Batch(each_input(one, batches.X, batches.input_dtype), one(batches.y, batches.y.dtype), weight)

    def _fill(self, batch: Batch, chosen: Sequence[Any], count: int) -> None:
        start = 0
        for batches, rows in zip(self._batches, chosen, strict=True):
            part = slice(start, start + len(rows))
            if not len(rows):
                continue
            weight = batch.weight[part]
            if batches.weight is None:
                weight[...] = 1.0
            X = each_input(lambda x, part=part: x[part], batch.X)
            batches.take_into(rows, X, batch.y[part], None if batches.weight is None else weight)
            start = part.stop
        if count < len(batch.y):  # by a row that there is, of which the loss is finite
            for array in (*(batch.X.values() if isinstance(batch.X, dict) else [batch.X]), batch.y):
                array[count:] = array[:1]
            batch.weight[count:] = 0.0

    def _add_penalty(self, weight: float) -> float:
        """Add the gradient of the L2 penalty of a batch of this weight; return its reported value."""
        if not self._alpha:
            return 0.0
        flat, gradient, room = self.model.memory.flat, self._step.gradient, self._sum
        strength, squares = self._alpha / weight, 0.0
        for part in self._penalized:
            np.multiply(flat[part], strength, out=room[part])
            gradient[part] += room[part]
            squares += float(flat[part].dot(flat[part]))
        return 0.5 * strength * squares * self.model.loss_function.unit

    # -- what workers have in common --------------------------------------------------------------------

    def _means(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the means of arrays over the workers, each of which counts by its rows."""
        joined = np.concatenate([array.reshape(-1) for array in arrays])
        joined *= self._share
        self.exchange.all_reduce(joined)
        ends = np.cumsum([array.size for array in arrays])[:-1]
        parts = np.split(joined, ends)
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def _average_buffers(self) -> None:
        """Replace statistics, such as running means, by their averages: each worker has seen its own rows."""
        held = held_buffers(self.model.module)
        found = {
            name: array
            for name, array in self.model.buffers.items()
            if array.dtype.kind == "f" and name not in held
        }
        if found:
            means = self._means(list(found.values()))
            self.model.memory.set_buffers(dict(zip(found, means, strict=True)))

    # -- scores ------------------------------------------------------------------------------------------

    def _new_score(self) -> Score | None:
        return new_score(self.plan.estimator, self.plan.standing, self.model)

    def evaluate(self) -> Scored:
        """Return loss and score of the rows that this worker has held out."""
        total = loss = 0.0
        score = self._new_score()
        for each in self.rows:
            if each.held_out.n_samples:
                size = chunk_rows_of(self.model, each.held_out.X)
                batches: Batches = each.held_out.batches(self.model, size)
                for chosen, _ in batches.parts(None):
                    X, y, weight = batches.take(chosen)
                    output = predict_raw(self.model, X)
                    if weight is None or weight.any():
                        mean, counted = mean_loss(self.model, output, y, weight)
                        loss, total = loss + mean * counted, total + counted
                    if score is not None:
                        score.add(output, y, weight, chosen)
        return Scored(loss, total, None if score is None else score.state())
