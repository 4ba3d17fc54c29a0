"""No test of a GPU passes unseen if it is skipped, has a fault, or nothing can be compiled."""

import os
import subprocess
import sys

import pytest

from tests.project import ROOT

TESTS = """
import cupy
import pytest

pytestmark = pytest.mark.gpu


def test_that_passes():
    assert cupy.zeros(3).tolist() == [0, 0, 0]


def test_that_is_skipped():
    pytest.skip("some reason")


@pytest.mark.xfail
def test_that_is_known_to_fail():
    raise ValueError


def test_with_a_fault():
    kernel = cupy.RawKernel('extern "C" __global__ void after(float *x) { x[3] = 1; }', "after")
    kernel((1,), (1,), (cupy.zeros(3, "float32"),))
"""


@pytest.fixture
def run(tmp_path):
    """Run the tests above in a process of their own."""
    path = tmp_path / "test_some.py"
    path.write_text(TESTS)

    def started(**variables):
        command = [sys.executable, "-m", "pytest", "-p", "tests.devices.emulated.plugin", "-rA", str(path)]
        return subprocess.run(
            [*command, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)],
            cwd=ROOT,
            env=os.environ | variables,
            capture_output=True,
            text=True,
        )

    return started


def test_outcomes(run):
    done = run()
    assert done.returncode == 1
    assert "2 failed, 1 passed, 1 xfailed" in done.stdout
    assert "skipped on the emulated device" in done.stdout
    assert "on the emulated device: something was written out of the bounds of 12 bytes" in done.stdout


def test_without_a_compiler(run, tmp_path):
    done = run(CXX="no-such-compiler", SKNET_KERNEL_CACHE=str(tmp_path))
    assert done.returncode not in (0, 5)  # 5: there were no tests
    assert "compiled by g++, which is not found: install it, or set CXX" in done.stderr
