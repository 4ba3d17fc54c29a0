import asyncio
import importlib
import os
from threading import Event

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_client
from sklearn.model_selection import GridSearchCV as ScikitLearns

from sknet import MLPClassifier, MLPRegressor, Model, nn
from sknet.callbacks import Callback, EarlyStopping
from sknet.dask import Exchange, ExchangeError, WorkerExchange, fit
from sknet.dask._cluster import Cluster, _ranks, assigned
from sknet.dask._collections import Moments, Partition, facts_of, held_out_rows, moments_of, partitions_of
from sknet.dask._exchange import _open
from sknet.engine import fit_many
from sknet.engine._scheduler import current_group
from sknet.model_selection import GridSearchCV
from sknet.optim import SGD, Adam
from tests.dask.test_fit import SIZES, begun, collections, small
from tests.dask.test_fit import rows as rows_of_fits
from tests.dask.test_many import both, estimator
from tests.engine.test_many import LABELS, WEIGHT, Own, network, trace
from tests.engine.test_many import X as ROWS

# -- which worker has which partition -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_partitions_stay_where_they_are_unless_that_is_uneven(seed):
    rng = np.random.default_rng(seed)
    workers = list("abcd")[: rng.integers(1, 5)]
    sizes = rng.integers(1, 100, rng.integers(1, 30)).tolist()
    holders = [rng.choice([*workers, "gone"], rng.integers(0, 3), replace=False).tolist() for _ in sizes]
    found = assigned(sizes, holders, workers)
    assert sorted(n for numbers in found.values() for n in numbers) == list(range(len(sizes)))
    loads = [sum(sizes[n] for n in numbers) for numbers in found.values()]
    assert max(loads) <= sum(sizes) / len(workers) + max(sizes)
    assert found == assigned(sizes, holders, workers)


def test_even_partitions_are_not_moved():
    workers, holders = ["a", "b"], [["a"], ["b"], ["b"], ["a"]]
    assert assigned([5, 5, 5, 5], holders, workers) == {"a": [0, 3], "b": [1, 2]}


# -- workers that die ---------------------------------------------------------------------------------


def rows(n_rows=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 6)).astype("f4")
    return X, (X[:, 0] > X[:, 1] ** 2 - 0.5).astype(int)


def net():
    return MLPClassifier((16,), batch_size=40, max_iter=4, random_state=0, optimizer=Adam(lr=0.01))


class EndWorker(Callback):
    """Ends a worker after the third epoch."""

    def on_epoch_end(self, fit):
        if fit.epoch == 3:
            client = get_client()
            client.run(os._exit, 1, workers=sorted(client.nthreads())[-1:], on_error="ignore")


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_a_fit_goes_on_without_workers_that_die(client_of_processes, tmp_path):
    """One dies in the middle of a sum, another between two epochs: the result is that of a fit in peace."""
    X, y = rows()
    parts = da.from_array(X, chunks=(50, 6)), da.from_array(y, chunks=50)
    marker = str(tmp_path / "has died")

    def exchange(worker, fit, rank, addresses):
        class Mortal(WorkerExchange):
            def all_reduce(self, buffer):
                self.sums = getattr(self, "sums", 0) + 1
                if rank == 1 and self.sums == 13 and not os.path.exists(marker):
                    open(marker, "w").close()
                    os._exit(1)
                super().all_reduce(buffer)

        return Mortal(worker, fit, rank, addresses)

    disturbed = fit(net(), *parts, exchange=exchange, callbacks=[EndWorker()])
    assert os.path.exists(marker)
    peaceful = net().fit(*parts)
    for array, expected in zip(disturbed.coefs_, peaceful.coefs_, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(disturbed.loss_curve_, peaceful.loss_curve_, rtol=1e-5)
    assert disturbed.t_ == peaceful.t_ == 4 * 400


def test_a_fit_whose_worker_always_dies_ends(client):
    """Without processes: the exchange says that a worker is lost, each time."""

    def exchange(worker, fit, rank, addresses):
        class Lost(WorkerExchange):
            def all_reduce(self, buffer):
                raise ExchangeError("lost")

        return Lost(worker, fit, rank, addresses)

    X, y = rows(80)
    with pytest.raises(RuntimeError, match="workers were lost 5 times in the same steps of a fit"):
        fit(net(), da.from_array(X, chunks=(40, 6)), da.from_array(y, chunks=40), exchange=exchange)


class OtherOrder(Exchange):
    """Numbers the ranks as MPI may: not in the order of the addresses."""

    def __init__(self, worker, fit, rank, addresses):
        self.inner = WorkerExchange(worker, fit, rank, addresses)
        self.size = len(addresses)
        self.rank = self.size - 1 - rank

    def all_reduce(self, buffer):
        self.inner.all_reduce(buffer)

    def close(self):
        self.inner.close()


class OfMoreRanks(WorkerExchange):
    def __init__(self, worker, fit, rank, addresses):
        super().__init__(worker, fit, rank, addresses)
        self.size += 1


ENDED, CLOSED = Event(), Event()


class Late(WorkerExchange):
    """Of a worker that is still reading when the first one fails."""

    def __init__(self, worker, fit, rank, addresses):
        if rank == 0:
            raise ValueError("no exchange here")
        super().__init__(worker, fit, rank, addresses)
        ENDED.wait(10)

    def close(self):
        super().close()
        CLOSED.set()


def test_a_worker_that_joins_after_the_end_of_a_fit_is_not_in_it(client):
    with pytest.raises(ValueError, match="no exchange here"):
        fit(net(), *array_parts(), exchange=Late)
    ENDED.set()
    assert CLOSED.wait(10)
    assert not _ranks


def array_parts(n_rows=80, size=40):
    X, y = rows(n_rows)
    return da.from_array(X, chunks=(size, 6)), da.from_array(y, chunks=size)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_an_exchange_numbers_ranks_as_it_likes(client):
    expected = net().fit(*array_parts())
    found = fit(net(), *array_parts(), exchange=OtherOrder)
    for array, other in zip(found.coefs_, expected.coefs_, strict=True):
        np.testing.assert_allclose(array, other, rtol=1e-5, atol=1e-6)


def test_an_exchange_has_as_many_ranks_as_the_fit(client):
    with pytest.raises(
        ValueError, match=r"over 3 ranks, and 2 workers have partitions.*as many partitions as"
    ):
        fit(net(), *array_parts(), exchange=OfMoreRanks)


def test_workers_without_sknet_are_told_apart():
    class Bare:
        """A client whose worker cannot import what it is sent."""

        def nthreads(self):
            return {"tcp://worker": 1}

        def run(self, *args, **options):
            raise ModuleNotFoundError("No module named 'sknet'", name="sknet")

    with pytest.raises(RuntimeError, match="the workers cannot import sknet: install the same sknet on all"):
        Cluster(Bare(), [], []).begin(None, None)


# -- from where a fit can be asked for ------------------------------------------------------------------


def fitted(n_rows=80):
    X, y = rows(n_rows)
    estimator = net().fit(da.from_array(X, chunks=(40, 6)), da.from_array(y, chunks=40))
    return estimator.coefs_[0][0]


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_tasks_fit_on_the_cluster_that_runs_them(client):
    """As many tasks as there are threads, each of which waits for tasks of its own."""
    futures = [client.submit(fitted, pure=False) for _ in client.nthreads()]
    expected = fitted()
    for found in client.gather(futures, errors="raise", direct=False):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_client_that_does_not_wait_is_refused(client):
    async def ask():
        async with Client(client.scheduler.address, asynchronous=True, set_as_default=False) as other:
            fit(net(), *array_parts(), client=other)

    with pytest.raises(ValueError, match=r"the client is asynchronous: create it with.*asynchronous=False"):
        asyncio.run(ask())


# -- searches -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("search", [ScikitLearns, GridSearchCV], ids=["scikit-learn", "sknet"])
def test_searches_spread_over_a_cluster(client_of_processes, search):
    def process(estimator, X, y):
        return os.getpid()

    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = (X[:, 0] > X[:, 1]).astype(int)
    clf = MLPClassifier((4,), max_iter=3, random_state=0, optimizer=Adam(lr=0.01))
    options = {"cv": 2, "refit": "accuracy", "scoring": {"accuracy": "accuracy", "process": process}}
    found = search(clf, {"optimizer__lr": [1e-3, 1e-1]}, **options).fit(X, y)
    with joblib.parallel_config("dask"):
        spread = search(clf, {"optimizer__lr": [1e-3, 1e-1]}, n_jobs=-1, **options).fit(X, y)
    here, there = found.cv_results_, spread.cv_results_
    np.testing.assert_array_equal(there["mean_test_accuracy"], here["mean_test_accuracy"])
    assert os.getpid() in here["split0_test_process"]
    workers = set(client_of_processes.run(os.getpid).values())
    assert set(there["split0_test_process"]) | set(there["split1_test_process"]) <= workers


# -- many fits --------------------------------------------------------------------------------


def test_processes_train_models_of_several_structures(client_of_processes):
    kinds = [lambda: network(nn.ReLU()), Own, lambda: network(nn.BatchNorm(8))]
    rows = [np.arange(i, 90, 2) for i in range(6)]
    stopping = [EarlyStopping("loss", patience=2)]

    def make(i):
        return Model(kinds[i % 3](), "log_loss", SGD(0.1 if i % 2 else 1e-12), random_state=i)

    wanted, found, here, there = both(
        make, ROWS, LABELS, WEIGHT, n=6, rows=rows, epochs=6, callbacks=stopping
    )
    assert found == wanted
    assert sorted({model.progress.epoch for model in there}) != [6]
    for models in (here, there):  # what goes on afterwards, here
        for model in models:
            model.step(ROWS[:20], LABELS[:20])
    again = [trace(models, fit_many(models, ROWS, LABELS, epochs=1)) for models in (here, there)]
    assert again[0] == again[1]


class Notes(Callback):
    """Notes at the module, which comes back, in which process and group a fit is, and where its rows are."""

    def on_fit_begin(self, fit):
        inputs = fit.batches.X
        inputs = inputs["x"] if isinstance(inputs, dict) else inputs
        fit.model.module.noted = os.getpid(), id(current_group()), inputs.ctypes.data


class Named(nn.Module):
    def __init__(self):
        self.inner = network(nn.ReLU())

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize("as_dict", [False, True])
def test_fits_in_one_process_share_rows_and_programs(client_of_processes, as_dict):
    models = [Model(Named(), "log_loss", random_state=i) for i in range(12)]
    with joblib.parallel_config("dask"):
        fit_many(models, {"x": ROWS} if as_dict else ROWS, LABELS, callbacks=[Notes()])
    noted = {model.module.noted for model in models}
    processes = {process for process, *_ in noted}
    assert len({(process, group) for process, group, _ in noted}) == len(processes)
    assert len(noted) <= 2 * len(processes) < 12  # Dask may drop rows where it thinks that nobody needs them
    assert processes <= set(client_of_processes.run(os.getpid).values())


class DiesOnce(Callback):
    """Ends the process of the first fit that gets there."""

    def __init__(self, marker):
        self.marker = marker

    def on_epoch_end(self, fit):
        if fit.epoch == 2 and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os._exit(1)


def test_fits_of_a_worker_that_dies_are_made_by_others(client_of_processes, tmp_path):
    def models():
        return [Model(network(nn.ReLU()), "log_loss", random_state=i) for i in range(6)]

    here, there, marker = models(), models(), tmp_path / "has died"
    wanted = trace(here, fit_many(here, ROWS, LABELS, epochs=3))
    with joblib.parallel_config("dask"):
        found = trace(there, fit_many(there, ROWS, LABELS, epochs=3, callbacks=[DiesOnce(str(marker))]))
    assert marker.exists()
    assert found == wanted


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_searches_go_on_without_a_worker_that_dies(client_of_processes, tmp_path):
    grid, marker = {"alpha": [0.0, 0.1, 1.0]}, tmp_path / "has died"
    wanted = GridSearchCV(estimator(MLPClassifier), grid, cv=2).fit(ROWS, LABELS)
    mortal = estimator(MLPClassifier, callbacks=[DiesOnce(str(marker))])
    with joblib.parallel_config("dask"):
        found = GridSearchCV(mortal, grid, cv=2, n_jobs=-1, refit=False).fit(ROWS, LABELS)
    assert marker.exists()
    for name in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(found.cv_results_[name], wanted.cv_results_[name])


# -- memory ------------------------------------------------------------------------------------------


MIB = 1 << 20


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_data_beyond_the_memory_of_each_worker(forked):
    """Each worker may take 220 MiB more than it begins with; the data have 240 MiB."""
    n_features, n_parts, part_rows = 1024, 48, 5 * MIB // 4096

    def block(block_info=None):
        number = block_info[None]["chunk-location"][0]
        values = np.zeros((part_rows, n_features), "f4")
        values[:, :3] = np.random.default_rng(number).normal(size=(part_rows, 3))
        return values

    def limit(bytes_more):
        import resource

        with open("/proc/self/status") as file:
            (used,) = [int(line.split()[1]) * 1024 for line in file if line.startswith("VmData")]
        resource.setrlimit(resource.RLIMIT_DATA, (used + bytes_more, used + bytes_more))

    def whole():
        return len(np.ones((n_parts * part_rows, n_features), "f4"))

    shape = {"chunks": ((part_rows,) * n_parts, n_features), "dtype": "f4", "meta": np.zeros((0, 0), "f4")}
    X = da.map_blocks(block, **shape)
    y = X[:, 0] - X[:, 1]
    options = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}
    with LocalCluster(n_workers=3, **options) as cluster, Client(cluster) as client:
        client.run(importlib.import_module, "sknet.dask._cluster")
        client.run(limit, 220 * MIB)
        with pytest.raises(MemoryError):
            client.submit(whole).result()
        few = {"batch_size": 2048, "max_iter": 1, "early_stopping": False, "random_state": 0}
        net = MLPRegressor((4,), optimizer=Adam(0.01), **few).fit(X, y)
        assert net.t_ == n_parts * part_rows
        assert float(((net.predict(X) - y) ** 2).mean().compute()) < float(y.var().compute())


def array(n_rows=10, chunks=(4, 3, 3), columns=4):
    return da.from_array(np.arange(n_rows * columns, dtype="f4").reshape(n_rows, columns), chunks=(chunks, 2))


def frame(n_rows=10, n_partitions=3):
    return dd.from_pandas(pd.DataFrame({"a": np.arange(n_rows), "b": 0.5}), npartitions=n_partitions)


def computed(parts):
    return dask.compute(*parts, scheduler="synchronous")


def test_arrays_have_all_columns_and_targets_are_divided_as_they_are():
    y = da.from_array(np.arange(10), chunks=5)
    parts = computed(partitions_of(array(), y, np.arange(10) / 2))
    assert [part.X.shape for part in parts] == [(4, 4), (3, 4), (3, 4)]
    np.testing.assert_array_equal(np.concatenate([part.X for part in parts]), array().compute())
    np.testing.assert_array_equal(np.concatenate([part.y for part in parts]), np.arange(10))
    np.testing.assert_array_equal(np.concatenate([part.weight for part in parts]), np.arange(10) / 2)


def test_frames_and_series_are_divided_as_they_are():
    table = frame()
    parts = computed(partitions_of(table, table["a"], None))
    assert [list(part.X.columns) for part in parts] == [["a", "b"]] * len(parts)
    assert pd.concat([part.y for part in parts]).tolist() == list(range(10))
    assert {part.weight for part in parts} == {None}


def unknown():
    """Return an array of which it is unknown how many rows its three partitions have."""
    return frame().to_dask_array()


REFUSED = {
    "other parts": (lambda: (unknown(), da.zeros(10, chunks=5)), ValueError, "X has 3, y has 2.*compute_ch"),
    "beside unknown": (lambda: (frame(), np.zeros(10)), ValueError, "y is in memory, and how many rows"),
    "other rows": (lambda: (array(), da.zeros(9, chunks=3)), ValueError, "X has 10 rows, and y has 9"),
    "other rows in memory": (lambda: (array(), np.zeros(9)), ValueError, "X has 10 rows, and y has 9"),
    "a bag": (lambda: (db.from_sequence([1, 2]), array()), TypeError, "X must be a Dask array.*got Bag"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_divided_alike_is_refused(case):
    make, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        partitions_of(*make(), None)


def test_facts_of_arrays_and_frames():
    part = Partition(np.zeros((3, 2), "f4"), np.array(["b", "a", "b"]), None)
    facts = facts_of(part, counts_labels=True)
    assert facts[:5] == (3, 3, (2,), None, "float32")
    assert facts.labels.tolist(), facts.counts.tolist() == (["a", "b"], [1, 2])
    table = pd.DataFrame({"x": [1, 2], "z": [0.5, 1.0]})
    facts = facts_of(Partition(table, np.zeros(2), None), counts_labels=False)
    assert facts == (2, 2, (2,), ("x", "z"), "int64 float64", None, None, "", 2.0, "")


@pytest.mark.parametrize("seed", range(5))
def test_moments_of_parts_are_those_of_all(seed):
    rng = np.random.default_rng(seed)
    y = 1e3 + rng.normal(size=(60, 2))
    weight = rng.uniform(size=60) * (rng.uniform(size=60) > 0.2)
    pieces = np.split(np.arange(60), np.sort(rng.integers(0, 60, 4)))
    found = [moments_of(Partition(None, y[p], weight[p]), i, seed, 0.0)[0] for i, p in enumerate(pieces)]
    joined = found[0]
    for each in found[1:]:
        joined = joined.joined(each)
    mean = np.average(y, axis=0, weights=weight)
    np.testing.assert_allclose(joined.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(joined.squares, weight @ (y - mean) ** 2, rtol=1e-8)
    assert joined.weight == pytest.approx(weight.sum())


def test_nothing_joined_with_nothing_is_nothing():
    nothing = Moments(0.0, np.zeros(1), np.zeros(1))
    assert nothing.joined(nothing) is nothing


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


def test_small_partitions_hold_out_their_share_on_average():
    counts = [len(held_out_rows(3, 0.1, seed=0, partition=number)) for number in range(2000)]
    assert set(counts) == {0, 1}
    assert np.mean(counts) == pytest.approx(0.3, abs=0.04)
    assert len(held_out_rows(50, 0.0, seed=0, partition=0)) == 0


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("kind", [MLPClassifier, MLPRegressor])
def test_scores_of_rows_held_out_of_each_partition(client, kind):
    X, y = rows_of_fits()
    y = y if kind is MLPRegressor else (y > 0).astype(int)
    params = {"early_stopping": True, "n_iter_no_change": 2, "tol": 1.0, "validation_fraction": 0.2}
    net = small(kind, max_iter=20, **params).fit(*collections(X, y, SIZES))
    assert net.stopped_early_
    assert net.n_iter_ < 20
    model = small(kind, alpha=0.0)
    seed = begun(model, X)[1]
    kept = [
        start + held_out_rows(size, 0.2, seed=seed, partition=i)
        for i, (start, size) in enumerate(zip(np.cumsum([0, *SIZES]), SIZES, strict=False))
    ]
    kept = np.concatenate(kept)
    best = net.best_epoch_ - 1  # whose weights were restored
    assert net.history_["validation_score"][best] == pytest.approx(net.score(X[kept], y[kept]), rel=1e-5)
