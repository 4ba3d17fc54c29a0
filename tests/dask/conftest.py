"""One cluster of four processes for all tests of fits over workers."""

import os

import pytest

from tests.project import ROOT

CHECKOUT = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "SKNET_NATIVE": "never"}


@pytest.fixture(scope="session")
def cluster():
    import dask
    from distributed import LocalCluster

    environment = {**os.environ, **CHECKOUT}
    with (
        dask.config.set({"distributed.nanny.environ": environment}),
        LocalCluster(n_workers=4, threads_per_worker=1, memory_limit=0, dashboard_address=":0") as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        yield client
