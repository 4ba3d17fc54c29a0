"""For pytest, with ``-p tests.devices.emulated.plugin``: tests of GPUs run on the emulated driver.

None of them may be skipped, as nobody would see that it no longer runs.
"""

import pytest

from tests.devices.emulated.counts import faults
from tests.devices.emulated.installation import install

install()


@pytest.fixture(autouse=True)
def launches_of_each_step(monkeypatch):
    """Let blocks have no shared memory, so that steps are launched each, and let devices predict few rows."""
    from sknet.device._cupy import CupyBackend

    monkeypatch.setattr("sknet.engine._network.MOST_PRODUCTS", 0)
    monkeypatch.setattr(CupyBackend, "shared_memory", lambda self, device: 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test in which the emulated device found a fault, as it may be one that changes no number."""
    result = yield
    if found := faults():
        pytest.fail("on the emulated device: " + "; ".join(found))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Let a test that is skipped fail."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped on the emulated device: {report.longrepr}"
    return report


def pytest_report_header():
    return "CUDA: emulated"
