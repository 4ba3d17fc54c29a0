"""Parts of the suite, and fixtures of all tests.

Tests marked ``gpu`` run where CuPy finds a CUDA device, and are skipped with the reason elsewhere. ``pytest``
alone leaves out the parts in `PARTS`; with a path or ``-m``, what is named runs.
"""

import gc
import inspect
import itertools
import signal
import sys
from fnmatch import fnmatch
from functools import cache

import numpy as np
import pytest
import sklearn
from _pytest.doctest import DoctestModule

from tests.project import ROOT

# Parts that `pytest` alone leaves out, with their files; `oracle` is found by what a test imports, `slow` is
# written at the tests. `.ci/run` runs them all.
PARTS = {
    "emulated": (
        "tests/compile/executors/device/*",
        "tests/contracts/test_device_steps.py",
        "tests/device/*",
        "tests/devices/*",
        "tests/engine/loop/test_device*",
        "tests/engine/loop/test_leases.py",
        "tests/engine/loop/test_member_steps.py",
        "tests/engine/loop/test_stacks*",
        "tests/estimators/test_device.py",
        "tests/model_selection/test_stacked.py",
        "tests/test_gpu_check.py",
    ),
    "fuzz": ("tests/fuzz/*",),
    "dask": ("tests/dask/*",),
    "oracle": ("tests/oracle/*",),
    "slow": (
        "tests/compile/executors/native/test_same_bits.py",
        "tests/compile/test_ops.py",
        "tests/compile/test_rules.py",
        "tests/contracts/test_empty.py",
        "tests/contracts/test_native.py",
        "tests/contracts/test_ops.py",
        "tests/contracts/test_training_step.py",
        "tests/estimators/test_check_*",
        "tests/estimators/test_failed_calls.py",
        "tests/estimators/test_members.py",
        "tests/estimators/test_trajectory.py",
        "tests/files/test_memory.py",
        "tests/files/test_round_trips.py",
        "tests/onnx/test_backend.py",
        "tests/preprocessing/test_one_row.py",
        "tests/tabular/test_estimators.py",
        "tests/test_benchmarks.py",
        "tests/test_docs.py",
        "tests/test_examples.py",
        "tests/test_first_import.py",
        "tests/test_forks.py",
        "tests/test_gallery.py",
        "tests/test_neural_network.py",
        "tests/test_notebooks.py",
        "tests/test_without_compiler.py",
    ),
}

LEFT_OUT = f"not ({' or '.join(PARTS)})"


def pytest_configure(config):
    config.option.loadscopereorder = False  # of xdist: files run in the order below
    # xdist hands the options to its workers, this one included.
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr:
        config.option.markexpr = LEFT_OUT


def needs_torch(item):
    """Return whether a test compares with PyTorch."""
    function = getattr(item, "function", None)
    if function is None:
        return False
    code = getattr(inspect.unwrap(function), "__code__", None)
    constants = () if code is None else code.co_consts
    return "torch" in vars(item.module) or "torch" in item.fixturenames or "torch" in constants


@cache
def parts_of(path):
    """Return the parts of the suite that a file belongs to."""
    return [part for part, patterns in PARTS.items() if any(fnmatch(path, pattern) for pattern in patterns)]


def pytest_ignore_collect(collection_path, config):
    """Import no file of a part that is left out."""
    if config.option.markexpr == LEFT_OUT and parts_of(collection_path.relative_to(ROOT).as_posix()):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for no examples in the docstrings of tests, as there are none."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before those marked are chosen
def pytest_collection_modifyitems(config, items):
    for item in items:
        # Processes that run tests beside each other compare the names they collected.
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} holds an address: name it by ids=")
        for part in parts_of(item.nodeid.partition("::")[0]):
            item.add_marker(part)
        if needs_torch(item):
            item.add_marker("oracle")
    # Files with few, but long tests come first, so that no process is left alone with one at the end.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_"))


@cache
def reason_without_cuda() -> str | None:
    """Return why no CUDA device can be used; None if one can."""
    try:
        import cupy
    except ImportError:
        return "needs CuPy, which is not installed"
    try:
        if cupy.cuda.runtime.getDeviceCount():
            return None
        return "needs a CUDA device, and CuPy finds none"
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"needs a CUDA device, and CuPy reports: {error}"


def pytest_sessionstart():
    # A shell lets what it runs in the background ignore Ctrl-C, which tests send to themselves.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu") and (reason := reason_without_cuda()):
        pytest.skip(reason)


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """Seed what a test draws without a seed: NumPy's global state, and weights from fresh entropy."""
    np.random.seed(0)  # noqa: NPY002
    parameter = sys.modules.get("sknet.nn._parameter")
    if parameter is not None:
        seeds = itertools.count()
        monkeypatch.setattr(parameter, "RandomState", lambda: np.random.RandomState(next(seeds)))


@pytest.fixture(autouse=True)
def settings_stay():
    """Fail a test that leaves scikit-learn's settings changed for those after it."""
    before = sklearn.get_config()
    yield
    assert sklearn.get_config() == before


@pytest.fixture(autouse=True)
def kernels_are_right():
    """Fail a test in which the sanitizers have found something, whoever has caught the error."""
    yield
    launching = sys.modules.get("tests.devices.launching")
    if launching is not None:
        launching.check_reports()


@pytest.fixture(scope="module")
def small_heap():
    """Collect garbage in little time: what earlier tests have left is no longer looked at."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def limits(monkeypatch):
    """What sets limits inside of sknet by name until the test ends."""
    from tests.limits import Limits

    found = Limits(monkeypatch)
    yield found
    found.forget()


@pytest.fixture
def fake_device(monkeypatch):
    """The first of two fake devices, which predict few rows, too; NumPy cannot read their arrays."""
    from sknet.device import Device
    from tests.devices import fake

    monkeypatch.setattr("sknet.engine._network.MOST_PRODUCTS", 0)
    return Device(fake.FakeBackend.kind)


@pytest.fixture
def place(fake_device):
    """A device on which factors are rounded as by hand; the tests of an emulated GPU have another."""
    return fake_device


@pytest.fixture
def sizes(monkeypatch):
    """The sizes of the stacks of networks that are made."""
    from sknet.engine import _many
    from sknet.engine._stack import Stack

    found = []

    class Seen(Stack):
        def __init__(self, plan):
            super().__init__(plan)
            found.append(self.size)

    monkeypatch.setattr(_many, "Stack", Seen)
    return found
