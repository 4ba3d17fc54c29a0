"""The workers of a fit, as the process that asks for it sees them."""

import asyncio
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import distributed
import numpy as np

from sknet._parallel import Lock, new_pool, new_thread
from sknet.dask._collections import Partition, held_out_rows, naming_partition
from sknet.dask._exchange import Exchange, ExchangeError, WorkerExchange
from sknet.dask._rank import FitPlan, Rank, RankRows
from sknet.engine import Model
from sknet.estimators._fit import FitArguments
from sknet.estimators._fitting import read_part

MOST_LOST = 5  # times in a row that a fit goes on without having trained since
PATIENCE = 60.0  # seconds to wait for a worker
ASIDE = 0.1  # seconds between two looks for workers
WATCH = 0.5  # seconds between two looks whether all are still there, during their steps

MakeExchange = Callable[[Any, str, int, Sequence[str]], Exchange]
T = TypeVar("T")


class _LostError(Exception):
    """A worker has died."""


class _Failure(NamedTuple):
    """An error of a worker, as a value: Dask would write it to the worker's log."""

    error: Exception


@contextmanager
def outside_of_tasks() -> Iterator[None]:
    """Let other tasks run on this worker while this task waits for them."""
    with distributed.worker_client() if _is_in_task() else nullcontext():
        yield


def _is_in_task() -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


def waiting_client(client: "distributed.Client | None" = None) -> "distributed.Client":
    try:
        client = distributed.get_client() if client is None else client
    except ValueError:
        raise ValueError(
            "a fit of Dask collections needs workers, and no client is set: create one before, "
            "client = dask.distributed.Client(), which starts a cluster on this machine; or fit what is in "
            "memory, fit(X.compute(), y.compute())"
        ) from None
    if getattr(client, "asynchronous", False):
        raise ValueError(
            "a fit of Dask collections waits for its workers, and the client is asynchronous: create it with "
            "Client(asynchronous=False)"
        )
    return client


def assigned(
    sizes: Sequence[int], holders: Sequence[Sequence[str]], workers: Sequence[str]
) -> dict[str, list[int]]:
    """Return which worker trains on which partitions."""
    found: dict[str, list[int]] = {worker: [] for worker in workers}
    loads = dict.fromkeys(workers, 0)
    share = sum(sizes) / len(workers)
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        size = sizes[number]
        near = [worker for worker in holders[number] if worker in loads]
        free = [worker for worker in near if loads[worker] + size / 2 <= share]
        chosen = min(free or workers, key=loads.__getitem__)
        loads[chosen] += size
        found[chosen].append(number)
    return {worker: sorted(numbers) for worker, numbers in found.items() if numbers}


class Cluster:
    """The workers of one fit."""

    def __init__(
        self,
        client: "distributed.Client",
        parts: Sequence["distributed.Future"],
        sizes: Sequence[int],
        make_exchange: MakeExchange = WorkerExchange,
    ) -> None:
        self.client, self.parts, self.sizes = client, parts, sizes
        self._make_exchange = make_exchange
        self._name = ""
        self._addresses: list[str] = []
        self._plan: FitPlan | None = None

    # -- beginning -----------------------------------------------------------------------------------

    def begin(self, plan: FitPlan, model: Model) -> None:
        """Let workers take their partitions, and a copy of the model."""
        self._plan = plan
        for _ in range(MOST_LOST):
            try:
                return self._begin(plan, model)
            except _LostError:
                continue
        raise RuntimeError(f"{MOST_LOST} times workers were lost before the fit could go on: see their logs")

    def _begin(self, plan: FitPlan, model: Model) -> None:
        self.end()
        workers = self._living()
        self._wait_for(self.parts, workers)
        held = self.client.who_has(self.parts)
        by_worker = assigned(self.sizes, [held.get(part.key, ()) for part in self.parts], workers)
        self._name, self._addresses = f"sknet-{uuid.uuid4().hex}", list(by_worker)
        addresses = self._addresses
        (shared,) = self.client.scatter([(plan, model.copy())], workers=addresses, broadcast=True, hash=False)
        tasks = [
            self.client.submit(
                _join,
                self._name,
                rank,
                addresses,
                self._make_exchange,
                shared,
                numbers,
                [self.parts[number] for number in numbers],
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            for rank, (address, numbers) in enumerate(by_worker.items())
        ]
        self._wait_for(tasks, addresses)

    def _living(self) -> list[str]:
        """Return the addresses of the workers, once the scheduler knows which have died."""
        ends = time.monotonic() + PATIENCE
        while True:
            with suppress(_LostError):
                answering = set(self._asked(_answer, self._known(), on_error="ignore"))
                if answering and answering == self._known():
                    return sorted(answering)
            if time.monotonic() > ends:
                raise RuntimeError(
                    f"no workers after {PATIENCE:g} seconds: the fit needs at least one, see the logs of the "
                    "cluster"
                )
            time.sleep(ASIDE)

    def _known(self) -> set[str]:
        return set(self.client.nthreads())

    def _wait_for(self, futures: Sequence["distributed.Future"], workers: Sequence[str]) -> None:
        """Wait until futures are done; raise their error, or a _LostError if a worker dies meanwhile."""
        left = set(futures)
        while left:
            done = {future for future in left if future.status not in ("pending", "lost")}
            for future in done:
                if future.status == "error":
                    raise future.exception()
                if future.status == "cancelled":
                    raise RuntimeError(
                        f"the partition {future.key!r} was lost with its worker, and Dask does not know how "
                        "to compute it again: let it read or make the data, instead of scattering them"
                    )
            left -= done
            if left and not self._known() >= set(workers):
                raise _LostError
            if left:
                time.sleep(ASIDE / 10)

    def _asked(
        self, function: Callable[..., Any], workers: Iterable[str], *args: Any, **options: Any
    ) -> Mapping[str, Any]:
        """Call a function on workers and return what each returns; raise _LostError if one dies."""
        told, answers = sorted(workers), Future[Mapping[str, Any]]()
        call = partial(self.client.run, function, *args, workers=told, **options)
        new_thread(_answer_with, answers, call, name="sknet-asks", daemon=True).start()
        while not wait([answers], WATCH).done:
            if not self._known() >= set(told):
                raise _LostError
        try:
            return answers.result()
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"the workers cannot import {error.name}: install the same sknet on all of them, for example "
                "with distributed.PipInstall"
            ) from error

    # -- in common -------------------------------------------------------------------------------------

    def all_do(self, what: str, model: Model, *args: Any) -> list[Any]:
        """Let all workers call a method of their `Rank`, at the same time."""
        for _ in range(MOST_LOST):
            try:
                return self._all_do(what, args)
            except _LostError:
                assert self._plan is not None
                self.begin(self._plan, model)
        raise RuntimeError(f"workers were lost {MOST_LOST} times in the same steps of a fit: see their logs")

    def _all_do(self, what: str, args: Sequence[Any]) -> list[Any]:
        try:
            found = self._asked(_do, self._addresses, self._name, what, args, on_error="return")
        except _LostError:
            self.end()  # or the others would wait for it
            raise
        results = [found[address] for address in self._addresses]
        errors = [result.error for result in results if isinstance(result, _Failure)]
        lost = [result for result in results if isinstance(result, Exception)]
        for error in errors:
            if not isinstance(error, ExchangeError):
                raise error
        for error in lost:
            if not isinstance(error, OSError):
                raise error
        if errors or lost:
            raise _LostError
        return results

    def end(self) -> None:
        """Let the workers forget the fit."""
        if self._name:
            with suppress(_LostError):
                self._asked(_leave, self._known(), self._name, on_error="ignore")
        self._name = ""


def _answer_with(answers: "Future[T]", call: Callable[[], T]) -> None:
    try:
        answers.set_result(call())
    except BaseException as error:
        answers.set_exception(error)


# -- on the workers ------------------------------------------------------------------------------------

_ranks: dict[tuple[str, str], tuple[Rank, ThreadPoolExecutor]] = {}  # by fit and worker
_left: deque[tuple[str, str]] = deque(maxlen=1000)  # that may have had tasks under way
_registering = Lock()


def _answer() -> bool:
    return True


def run_here(
    plan: FitPlan, model: Model, numbers: Sequence[int], parts: Sequence[Partition], exchange: Exchange
) -> Rank:
    """Return one worker's part of a fit."""
    return Rank(
        plan, [_rows(plan, model, *each) for each in zip(numbers, parts, strict=True)], model, exchange
    )


def _rows(plan: FitPlan, model: Model, number: int, part: Partition) -> RankRows:
    with naming_partition(plan.places[number]):
        whole = read_part(plan.estimator, plan.recipe, FitArguments(*part), model.dtype, plan.dtypes)
    n_rows = whole.n_samples
    held_out = held_out_rows(n_rows, plan.fraction, seed=plan.seed, partition=number)
    training = np.setdiff1d(np.arange(n_rows), held_out)
    return RankRows(number, whole._replace(rows=training), whole._replace(rows=held_out))


def _join(
    fit: str,
    rank: int,
    addresses: Sequence[str],
    make_exchange: MakeExchange,
    shared: tuple[FitPlan, Model],
    numbers: Sequence[int],
    parts: Sequence[Partition],
) -> None:
    """Join a fit, as a task of Dask that has the partitions."""
    worker = distributed.get_worker()
    plan, model = shared
    exchange = make_exchange(worker, fit, rank, addresses)
    try:
        if exchange.size != len(addresses):
            raise ValueError(
                f"the exchange is over {exchange.size} ranks, and {len(addresses)} workers have partitions "
                "of this fit: divide X into at least as many partitions as there are ranks, and let all "
                "ranks be workers of the cluster"
            )
        found = run_here(plan, model.copy(), numbers, parts, exchange)
    except BaseException:
        exchange.close()
        raise
    key = fit, worker.address
    with _registering:
        if key not in _left:
            # Steps wait for other workers: a thread of their own, or two fits could wait for each other.
            _ranks[key] = found, new_pool(1, "sknet-fit")
            return
    exchange.close()  # the fit ended while this worker was reading its rows


async def _do(fit: str, what: str, args: Sequence[Any], dask_worker: Any) -> Any:
    """Call a method of the worker's rank; return its error as a value."""
    try:
        rank, thread = _ranks[fit, dask_worker.address]
    except KeyError:
        return _Failure(ExchangeError(f"worker {dask_worker.address} is not in the fit"))
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, getattr(rank, what), *args)
    except Exception as error:
        rank.exchange.close()  # so that no other worker waits for this one
        return _Failure(error)


async def _leave(fit: str, dask_worker: Any) -> None:
    key = fit, dask_worker.address
    with _registering:
        _left.append(key)
        found = _ranks.pop(key, None)
    if found is not None:
        found[0].exchange.close()
        found[1].shutdown(wait=False)
