"""Sums of arrays over the workers of a fit."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

Array = np.ndarray[Any, Any]


class ExchangeError(RuntimeError):
    """A worker of a fit does not respond, or has failed.

    Examples
    --------
    >>> from sknet.dask import ExchangeError
    >>> try:
    ...     raise ExchangeError("worker 1 does not answer")
    ... except RuntimeError as error:
    ...     print(error)
    worker 1 does not answer
    """


class Exchange(ABC):
    """Sum of arrays over the workers of a fit, all of which call it with arrays of one shape.

    Attributes
    ----------
    rank, size : int
        The number of this worker, from 0, and the number of workers.

    Examples
    --------
    >>> from sknet.dask import Exchange
    >>> class Alone(Exchange):
    ...     rank, size = 0, 1
    ...     def all_reduce(self, buffer):
    ...         pass
    >>> Alone().size
    1
    """

    rank: int
    size: int

    @abstractmethod
    def all_reduce(self, buffer: Any) -> None:
        """Replace an array by its sum over all workers, with the same bits on each.

        Parameters
        ----------
        buffer : array of shape (n,)
            The array, which is overwritten.

        Raises
        ------
        ExchangeError
            If a worker is lost.
        """

    def close(self) -> None:
        """End the participation; workers that wait for this one get an error."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} is bound to its worker and cannot be pickled or copied: pass its "
            "class, or a function that makes one on each worker"
        )


# -- Dask's own workers ------------------------------------------------------------------------------

PATIENCE = 2.0  # seconds to wait before asking whether the other worker is still there
ANSWER = 15.0  # seconds that it may take to answer
DELIVER, ASK = "sknet_deliver", "sknet_ask"  # what workers understand from each other

_open: dict[tuple[str, int], "WorkerExchange"] = {}  # by fit and rank


class WorkerExchange(Exchange):
    """Sums by direct messages between Dask workers, not by way of scheduler or client.

    Each worker sums one part of the array, in the order of the ranks, and sends the result to all others. So
    each sends and receives twice the size of the array in total, and waits for two messages in succession,
    for any number of workers.

    Parameters
    ----------
    worker : distributed.Worker
        This worker.
    fit : str
        Name of the fit, the same on all workers.
    rank : int
        Number of this worker.
    addresses : sequence of str
        Addresses of all workers.

    Attributes
    ----------
    seconds : float
        Time spent in sums so far.

    Examples
    --------
    >>> from sknet.dask import WorkerExchange, fit
    >>> fit(clf, X, y, exchange=WorkerExchange)  # doctest: +SKIP
    """

    def __init__(self, worker: Any, fit: str, rank: int, addresses: Sequence[str]) -> None:
        self.rank, self.size, self.seconds = rank, len(addresses), 0.0
        self._worker, self._fit, self._addresses = worker, fit, addresses
        self._round = 0
        self._mail: dict[tuple[int, int], asyncio.Future[Any]] = {}
        self._loop = worker.loop.asyncio_loop
        worker.handlers.setdefault(DELIVER, _deliver)
        worker.handlers.setdefault(ASK, _ask)
        _open[fit, rank] = self

    def close(self) -> None:
        if _open.pop((self._fit, self.rank), None) is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        """Let a sum that waits for others raise an error."""
        for letter in self._mail.values():
            if not letter.done():
                letter.set_exception(ExchangeError("the fit was left"))
                letter.exception()  # nobody may be waiting for it

    def all_reduce(self, buffer: Array) -> None:
        if self.size == 1:
            return
        started = time.perf_counter()
        asyncio.run_coroutine_threadsafe(self._all_reduce(buffer), self._loop).result()
        self.seconds += time.perf_counter() - started

    async def _all_reduce(self, buffer: Array) -> None:
        parts = self._parts(buffer)
        mine = parts[self.rank]
        found = await self._swap(parts)
        found[self.rank] = mine.copy()
        mine[...] = found[0]
        for rank in range(1, self.size):
            mine += found[rank]
        for rank, summed in (await self._swap([mine] * self.size)).items():
            parts[rank][...] = summed

    def _parts(self, buffer: Array) -> list[Array]:
        ends = np.arange(self.size + 1) * len(buffer) // self.size
        return [buffer[start:stop] for start, stop in pairwise(ends)]

    async def _swap(self, parts: Sequence[Array]) -> dict[int, Array]:
        """Send to each other worker its part; return what they have sent."""
        self._round += 1
        others = [rank for rank in range(self.size) if rank != self.rank]
        sent = [self._send(rank, parts[rank]) for rank in others]
        received = [self._receive(rank) for rank in others]
        done = await asyncio.gather(*received, *sent)
        return {rank: part for rank, part in zip(others, done, strict=False) if part is not None}

    async def _send(self, rank: int, part: Array) -> None:
        from distributed.protocol import to_serialize

        what = {"fit": self._fit, "to": rank, "sender": self.rank, "number": self._round}
        is_known = await self._asked(rank, DELIVER, part=to_serialize(part), **what)
        if not is_known:
            raise ExchangeError(f"worker {self._addresses[rank]} has left the fit")

    async def _receive(self, rank: int) -> Array:
        letter = self._letter(rank, self._round)
        while True:
            try:
                found: Array = await asyncio.wait_for(asyncio.shield(letter), PATIENCE)
            except TimeoutError:
                await self._check_there(rank)
            else:
                del self._mail[rank, self._round]
                return found

    async def _check_there(self, rank: int) -> None:
        """Raise an ExchangeError if another worker is not in the fit any more."""
        address = self._addresses[rank]
        try:
            is_there = await asyncio.wait_for(self._asked(rank, ASK, fit=self._fit, to=rank), ANSWER)
        except TimeoutError:
            raise ExchangeError(f"worker {address} does not answer in {ANSWER:g} seconds") from None
        if not (is_there and (self._fit, self.rank) in _open):
            raise ExchangeError(f"worker {address} has left the fit")

    async def _asked(self, rank: int, what: str, **message: Any) -> bool:
        try:
            return bool(await getattr(self._worker.rpc(self._addresses[rank]), what)(**message))
        except OSError as error:
            raise ExchangeError(f"worker {self._addresses[rank]} does not answer: {error}") from error

    def _letter(self, sender: int, number: int) -> "asyncio.Future[Any]":
        return self._mail.setdefault((sender, number), self._loop.create_future())

    def _take(self, sender: int, number: int, part: Array) -> None:
        """Take what another worker has sent; called in the worker's event loop."""
        self._letter(sender, number).set_result(part)


async def _deliver(comm: Any, fit: str, to: int, sender: int, number: int, part: Any) -> bool:
    """Take a message of another worker; return whether this one is in the fit."""
    exchange = _open.get((fit, to))
    if exchange is not None:
        # Workers of one process pass the array itself, which the sender goes on writing to.
        is_shared = comm.peer_address.startswith("inproc")
        exchange._take(sender, number, part.copy() if is_shared else part)
    return exchange is not None


async def _ask(comm: Any, fit: str, to: int) -> bool:
    return (fit, to) in _open
