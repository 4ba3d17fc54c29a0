"""Clusters: of four workers in threads of this process, and, where that matters, of three processes.

They are closed after each file of tests, since even idle clusters take time from the tests beside them.
"""

import os
from multiprocessing import forkserver

import pytest

from tests.project import ROOT

CHECKOUT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "SKNET_NATIVE": "never"}
PRELOADED = ["distributed", "dask.array", "numpy", "pandas", "sklearn.model_selection", "sknet.dask._cluster"]
WORKERS = {"n_workers": 4, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with LocalCluster(processes=False, **WORKERS) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="session")
def forked():
    """Workers that are processes are forked from one that has imported what each would take seconds for."""
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(PRELOADED)  # Dask has preloads of its own, which it sets once
        with pytest.MonkeyPatch.context() as environment:
            for name, value in CHECKOUT.items():
                environment.setenv(name, value)
            forkserver.ensure_running()
        yield


@pytest.fixture(scope="module")
def processes(forked):
    import dask
    from distributed import LocalCluster

    environment = {**os.environ, **CHECKOUT}
    with (
        dask.config.set({"distributed.nanny.environ": environment}),
        LocalCluster(**WORKERS | {"n_workers": 3}) as cluster,
    ):
        yield cluster


@pytest.fixture
def client_of_processes(processes):
    from distributed import Client

    with Client(processes) as client:
        yield client
