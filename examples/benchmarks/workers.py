"""Print how the time of a step of a fit over workers splits, and compare the result with that of one process.

A network of two million parameters is trained on batches of 8192 rows by the processes of a Dask cluster on
this machine. Three times of a step are measured on the workers: all of it; how long it waits for workers that
are still computing; and the sum of the gradients by itself, once all are there. What the results differ by is
rounding, for which a second fit in one process is the measure, with the rows of each batch in another order.

    python examples/benchmarks/workers.py [--workers 4] [--epochs 5] [--json FILE]
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy is imported: of each worker, too

import dask.array as da
import numpy as np
from dask.distributed import Client

from sknet import MLPRegressor, Model
from sknet.dask import WorkerExchange, batch_rows, fit
from sknet.estimators._architecture import Perceptron
from sknet.optim import SGD

N_FEATURES, HIDDEN, BATCH = 512, (1024, 1024, 448), 8192  # 2,033,601 parameters
RATE = 2e-3


class Timed(WorkerExchange):
    """Sums by messages between workers, which are counted and timed; sums of a few numbers are not."""

    def __init__(self, worker: Any, fit: str, rank: int, addresses: Sequence[str]) -> None:
        super().__init__(worker, fit, rank, addresses)
        worker.timed = {"total": [], "waiting": [], "sums": []}
        self._times, self._before = worker.timed, time.perf_counter()

    def all_reduce(self, buffer: Any) -> None:
        """Wait for all, sum, and note when."""
        if len(buffer) < 1000:
            super().all_reduce(buffer)
            return
        begun = time.perf_counter()
        super().all_reduce(np.zeros(self.size))  # a meeting: all are here
        met = time.perf_counter()
        super().all_reduce(buffer)
        ended = time.perf_counter()
        for name, seconds in (
            ("total", ended - self._before),
            ("waiting", met - begun),
            ("sums", ended - met),
        ):
            self._times[name].append(seconds)
        self._before = ended


def data(n_rows: int) -> tuple[Any, Any]:
    """Return rows of a regression."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), np.float32)
    return X, np.tanh(X[:, :8].sum(axis=1)).astype(np.float32)


def of_one_process(
    X: Any, y: Any, sizes: Sequence[int], steps: int, order: Callable[[Any], Any] = np.asarray
) -> tuple[Model, float]:
    """Return a model trained here on the same batches, with rows in some order, and the seconds of a step."""
    network = Perceptron(HIDDEN, "relu").build(X, 1)
    model = Model(network, "squared_error", SGD(lr=RATE, momentum=0.9), alpha=1e-4, random_state=0)
    seed = int(model.random_state.randint(2**31))
    started, done = time.perf_counter(), 0
    per_epoch = -(-len(X) // BATCH)
    for epoch in range(1, steps // per_epoch + 1):
        for rows in batch_rows(sizes, BATCH, seed=seed, epoch=epoch):
            rows = order(rows)
            model.step(X[rows], y[rows, None])
            done += 1
    return model, (time.perf_counter() - started) / done


def largest_difference(one: Any, other: Any) -> float:
    """Return the largest difference of parameters, relative to the largest of each array."""
    return max(float(np.abs(one[name] - other[name]).max() / np.abs(other[name]).max()) for name in other)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5, help="each of four steps")
    parser.add_argument("--json", help="write the figures to a file")
    arguments = parser.parse_args()
    per_epoch = 4
    X, y = data(per_epoch * BATCH)
    sizes = [len(part) for part in np.array_split(X, arguments.workers)]
    steps = arguments.epochs * per_epoch
    with Client(n_workers=arguments.workers, threads_per_worker=1, dashboard_address=":0") as client:
        parts = da.from_array(X, chunks=(tuple(sizes), N_FEATURES)), da.from_array(y, chunks=(tuple(sizes),))
        net = MLPRegressor(
            HIDDEN,
            batch_size=BATCH,
            max_iter=arguments.epochs,
            optimizer=SGD(lr=RATE, momentum=0.9),
            scale_inputs=False,
            scale_target=False,
            early_stopping=False,
            random_state=0,
        )
        fit(net, *parts, exchange=Timed)
        timed = client.run(lambda dask_worker: dask_worker.timed)
    model, local = of_one_process(X, y, sizes, steps)
    permuted, _ = of_one_process(X, y, sizes, steps, np.random.default_rng(1).permutation)
    # The first step compiles.
    each = {
        name: float(np.mean([np.median(found[name][1:]) for found in timed.values()]))
        for name in ("total", "waiting", "sums")
    }
    computing = each["total"] - each["waiting"] - each["sums"]
    n_parameters = sum(array.size for array in model.parameters.values())
    difference = largest_difference(net.model_.parameters, model.parameters)
    size = f"{n_parameters:,} parameters, batches of {BATCH} rows"
    print(f"{size}, {arguments.workers} workers; medians of a step:")
    print(f"  gradient and update   {computing * 1e3:7.0f} ms")
    print(f"  waiting for others    {each['waiting'] * 1e3:7.0f} ms")
    share = each["sums"] / each["total"]
    print(f"  exchange of gradients {each['sums'] * 1e3:7.0f} ms, {share:.1%} of the step")
    print(f"  all                   {each['total'] * 1e3:7.0f} ms")
    print(f"one process with one thread: {local * 1e3:.0f} ms")
    rounding = largest_difference(permuted.parameters, model.parameters)
    print(f"parameters after {steps} steps differ by {difference:.1e} of the largest of their array;")
    print(f"of one process, with the rows of each batch in another order, by {rounding:.1e}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            found = {"computing": computing, "one_process": local, "difference": difference}
            json.dump({**each, **found, "rounding": rounding}, file)


if __name__ == "__main__":
    main()
