"""For pytest, with ``-p tests.devices.emulated.plugin``: tests of GPUs run on the emulated driver."""

import pytest

from tests.devices.emulated.counts import faults
from tests.devices.emulated.installation import install

install()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test in which the emulated device found a fault, as it may be one that changes no number."""
    result = yield
    if found := faults():
        pytest.fail("on the emulated device: " + "; ".join(found))
    return result


def pytest_report_header():
    return "CUDA: emulated"
