"""Some hundred randomly changed safe files; the command runs many more."""

import subprocess
import sys

from tests.project import ROOT

KINDS = {"classifier", "model", "module", "frozen", "pipeline", "checkpoint", "exported", "graph"}
# Prints of what kinds files and changes there are, and runs cases.
SCRIPT = """
import sys
from tests.fuzz.command import run
from tests.fuzz.files import CHANGES, mismatch, originals
print(*originals(), sep=",")
print(len({change.__name__ for change in CHANGES}))
sys.exit(run(mismatch, "changed files", cases=200))
"""


def test_changed_files():
    """In a process of its own: an audit hook is never removed, and slows down what comes later."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds, changes, summary = done.stdout.splitlines()
    assert summary.startswith("200 cases, 0 mismatches")
    assert set(kinds.split(",")) >= KINDS
    assert int(changes) > 15
