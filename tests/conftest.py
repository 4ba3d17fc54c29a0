"""Tests marked ``gpu`` run where CuPy finds a CUDA device, and are skipped with the reason elsewhere."""

import gc
import signal
import sys
from functools import cache

import pytest
import sklearn


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
def fake_device():
    """The first of two fake devices, whose arrays NumPy cannot read, as on a GPU."""
    from sknet.device import Device
    from tests.devices import fake

    return Device(fake.FakeBackend.kind)


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
