"""Settings of tests and doctests: threads, printing, and unseeded random numbers."""

import gc
import os
import random
import sys

# Before NumPy is imported: parallel test workers would otherwise each start one thread per core.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
# Container images often set it. Test workers, and each process that a test starts, would then compile
# all of sknet and the tests again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

import numpy as np
import pytest

from sknet._native import core


def unflushed(handle: int) -> None:
    """Flush nothing to disk: thousands of files are written, and each would take milliseconds."""


unflushed.flush = os.fsync  # what tests/persistence/test_atomic.py tests
os.fsync = unflushed

NUMPYS_OWN = {
    "precision": 8,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 75,
    "suppress": False,
    "floatmode": "maxprec",
}
# Tests that run as users do, in native code where it was built. Others are of NumPy's plan, which every
# installation has, and turn native code on where they need it; the environment may choose for all.
IN_NATIVE_CODE = (
    *(
        "tests/compile/test_",
        "tests/compile/executors/test_",
        "tests/graphs/test_literals.py",
        "tests/graphs/test_python.py",
    ),
    *("tests/compile/executors/native/", "tests/engine/step/", "tests/freezing/"),
)
GIVEN_NATIVE = os.environ.get("SKNET_NATIVE")
_collections = 0  # full ones, before the last test


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Exclude the tests themselves from garbage collection: they are millions of objects, all in use.

    Tests leave few cycles, and those that count objects collect garbage first, so it is rarely looked for.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
        gc.set_threshold(5_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    """Collect what is left once: pytest and Python do so several times, each in a large part of a second."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Skip tests that turn native code on where it was not built."""
    try:
        return (yield)
    except RuntimeError as error:
        if core() is None and "compiled extension" in str(error):
            pytest.skip("native code was not built")
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Choose native code or NumPy's plan; reset NumPy's print options and random numbers.

    Print options are NumPy's own, whatever an earlier test or the environment has set.

    A test that seeds nothing, and its fixtures, draw the same numbers in each run: from global states, and
    from new ones without a seed, as of parameters that are drawn without one. What a full collection has left
    over is excluded from the next one, which would take longer each time.
    """
    global _collections
    if GIVEN_NATIVE is None:
        is_native = item.nodeid.startswith(IN_NATIVE_CODE)
        os.environ["SKNET_NATIVE"] = "auto" if is_native else "never"
    np.set_printoptions(**NUMPYS_OWN)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - for those who use it
    np.random.bit_generator.randbits = random.Random(0).getrandbits
    collections = gc.get_stats()[2]["collections"]
    if collections != _collections:
        _collections = collections
        gc.freeze()
