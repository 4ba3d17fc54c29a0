import sys
import types

import numpy as np
import pytest
from distributed import Client

from sknet.dask import Exchange, ExchangeError, MPIExchange, NCCLExchange, WorkerExchange
from sknet.dask._exchange import _open


def summed(client: Client, arrays, leave=()):
    """Return what workers make of an array each; those that `leave` have closed their exchange before."""
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])[: len(arrays)]

    def begin(addresses, leave, dask_worker):
        rank = addresses.index(dask_worker.address)
        dask_worker.exchange_of_test = WorkerExchange(dask_worker, "test", rank, addresses)
        if rank in leave:
            dask_worker.exchange_of_test.close()

    async def run(addresses, arrays, leave, dask_worker):
        import asyncio

        rank, exchange = addresses.index(dask_worker.address), dask_worker.exchange_of_test
        if rank in leave:
            return None
        found = []
        try:
            for _ in range(2):  # a second sum does not meet the messages of the first
                buffer = arrays[rank].copy()
                await asyncio.to_thread(exchange.all_reduce, buffer)
                found.append(buffer)
        except Exception as error:
            return error
        finally:
            exchange.close()
        return found, exchange.seconds

    client.run(begin, addresses, leave, workers=addresses)
    results = client.run(run, addresses, arrays, leave, workers=addresses)
    return [results[address] for address in addresses]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_workers", "size"), [(1, 5), (2, 1), (2, 1001), (3, 64), (4, 3), (4, 100_003)])
def test_workers_sum_to_the_same_bits(client, n_workers, size, dtype):
    rng = np.random.default_rng(size)
    arrays = [rng.normal(size=size).astype(dtype) for _ in range(n_workers)]
    expected = arrays[0].copy()
    for array in arrays[1:]:
        expected += array  # in the order of the ranks
    for found, seconds in summed(client, arrays):
        for buffer in found:
            np.testing.assert_array_equal(buffer, expected)
        assert (seconds > 0) == (n_workers > 1)


def test_a_worker_that_has_left_is_an_error_for_the_others(client):
    results = summed(client, [np.ones(10)] * 3, leave=[1])
    assert results[1] is None
    for rank in (0, 2):
        assert isinstance(results[rank], ExchangeError)
        assert "has left the fit" in str(results[rank])
    assert not [fit for fit, _ in _open if fit == "test"]


class FakeCommunicator:
    """What `MPIExchange` uses of mpi4py: sums arrays of two ranks, one of which is this."""

    def __init__(self, other):
        self.other = other

    def Get_rank(self):  # noqa: N802  as in mpi4py
        return 1

    def Get_size(self):  # noqa: N802
        return 2

    def Allreduce(self, sendbuf, recvbuf, op):  # noqa: N802
        assert (sendbuf, op) == ("in place", "sum")
        recvbuf += self.other


def test_mpi_sums_in_place(monkeypatch):
    names = types.SimpleNamespace(IN_PLACE="in place", SUM="sum")
    monkeypatch.setitem(sys.modules, "mpi4py", types.SimpleNamespace(MPI=names))
    exchange: Exchange = MPIExchange(FakeCommunicator(np.array([1.0, 2.0])))
    buffer = np.array([10.0, 20.0])
    exchange.all_reduce(buffer)
    assert buffer.tolist() == [11.0, 22.0]
    assert (exchange.rank, exchange.size) == (1, 2)


@pytest.mark.parametrize(("dtype", "number"), [("float32", 7), ("float64", 8)])
def test_nccl_is_given_addresses_and_types(dtype, number):
    """The numbers are those of ncclDataType_t and ncclRedOp_t in nccl.h."""
    calls = []
    communicator = types.SimpleNamespace(
        rank_id=lambda: 0, size=lambda: 4, allReduce=lambda *args: calls.append(args)
    )
    buffer = types.SimpleNamespace(data=types.SimpleNamespace(ptr=1234), size=50, dtype=np.dtype(dtype))
    NCCLExchange(communicator, stream=9).all_reduce(buffer)
    assert calls == [(1234, 1234, 50, number, 0, 9)]
