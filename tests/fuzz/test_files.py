"""Some hundred randomly changed safe files; the command runs many more."""

import subprocess
import sys

from tests.fuzz.files import CHANGES, originals
from tests.project import ROOT


def test_changed_files():
    """In a process of its own: an audit hook is never removed, and slows down what comes later."""
    command = [sys.executable, "-m", "tests.fuzz.files", "--cases", "300"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("300 cases, 0 mismatches")


def test_there_are_files_of_every_kind_and_changes_that_matter():
    assert {"classifier", "model", "module", "frozen", "pipeline", "checkpoint"} <= set(originals())
    assert {"exported", "graph"} <= set(originals())
    assert len({change.__name__ for change in CHANGES}) > 15
