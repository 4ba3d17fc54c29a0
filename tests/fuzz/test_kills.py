"""A few fits that are killed and resumed; the command runs many more."""

import signal
import subprocess
import sys

import pytest

from tests.project import ROOT


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_killed_and_resumed():
    """In a separate process, which forks, since the one that runs the tests has threads."""
    command = [sys.executable, "-m", "tests.fuzz.kills", "--cases", "4", "--seed", "48"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "4 cases, 0 mismatches" in done.stdout, done.stdout + done.stderr
    assert "fits were killed" in done.stdout
    assert not done.stdout.endswith("\n0 fits were killed, 0 times\n")
