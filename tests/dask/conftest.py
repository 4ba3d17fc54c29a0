"""Clusters: of four workers in threads of this process, and, where that matters, of three processes.

They are closed after each file of tests, since even idle clusters take time from the tests beside them.
"""

import os

import pytest

from tests.project import ROOT

CHECKOUT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "SKNET_NATIVE": "never"}
WORKERS = {"n_workers": 4, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": ":0"}


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with LocalCluster(processes=False, **WORKERS) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def processes():
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
