import numpy as np
import pytest
from distributed import Client

from sknet.dask import ExchangeError, WorkerExchange
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
