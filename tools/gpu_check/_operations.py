"""The tests that need a GPU: each primitive, compiled and eager."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path
from typing import Any

from tools.gpu_check._found import Found, Skipped
from tools.gpu_check._machine import Machine

__all__ = ["operations", "read_results"]

ROOT = Path(__file__).parents[2]
FOLDER = "tests/gpu"
SECONDS = 240.0  # for all files
RESERVED = 20.0  # for each file that has not run
GRACE = 20.0  # for pytest to write its results when it is interrupted
LONGEST = "test_compiled.py"  # runs last
MOST_FAILURES = 50  # that are written down; all are counted
MOST_WORKERS = 8  # each of which has a context on the device


def operations(
    machine: Machine, root: Path = ROOT, folder: str = FOLDER, pattern: str = "test_*.py"
) -> Found:
    """Run the tests of a folder, file by file."""
    files = sorted((root / folder).glob(pattern), key=lambda file: (file.name == LONGEST, file.name))
    if not files:
        raise Skipped(f"{root} has no tests in {folder}")
    if importlib.util.find_spec("pytest") is None:
        raise Skipped("pytest is not installed")
    found, end = Found(), time.monotonic() + SECONDS
    for i, file in enumerate(files, 1):
        reserved = min(RESERVED, SECONDS / len(files)) * (len(files) - i)
        found.attempt(file.name, partial(_run, file, root, end - reserved, found))
    return found


def _run(file: Path, root: Path, end: float, found: Found) -> dict[str, int]:
    """Run a file of tests in a process of its own; add its failures, return its counts."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"not run: the files before it took {SECONDS:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", str(file)]
        command += _side_by_side()
        said, is_whole = _output([*command, f"--junitxml={written}"], root, left)
        if not written.exists():
            raise RuntimeError(f"pytest wrote no results: {said[-2000:]}")
        counts, failures = read_results(written.read_text())
    alone = f"python {' '.join(command[1:])}"
    if not is_whole:
        error = f"stopped after {left:.0f} s, before the last test; without a limit: {alone}"
        failures.append({"name": file.name, "error": error})
    elif counts["passed"] == counts["failed"] == 0:
        raise RuntimeError(f"no test of {counts['skipped']} ran; why: {alone} -rs")
    found.failures += failures[-max(1, MOST_FAILURES - len(found.failures)) :]
    return counts


def _side_by_side() -> list[str]:
    """Return the options that share tests among processes: most of their time is the compiler's."""
    workers = min((os.cpu_count() or 1) // 2, MOST_WORKERS)
    if workers < 2 or importlib.util.find_spec("xdist") is None:
        return []
    return ["-n", str(workers), "--dist", "load"]


def _output(command: list[str], folder: Path, seconds: float) -> tuple[str, bool]:
    """Return what a process prints, and whether it ended by itself: pytest writes results if interrupted."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            return process.communicate(timeout=seconds)[0], True
        except subprocess.TimeoutExpired:
            if os.name == "posix":
                process.send_signal(signal.SIGINT)
            else:
                process.terminate()
        try:
            return process.communicate(timeout=GRACE)[0], False
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0], False


def read_results(text: str) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Read the counts and the failures of pytest's XML."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures: list[dict[str, Any]] = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        if case.get("name") is None:  # was interrupted
            continue
        faults = [each for tag in ("failure", "error") for each in case.findall(tag)]
        kind = "failed" if faults else "skipped" if case.find("skipped") is not None else "passed"
        counts[kind] += 1
        if faults:
            failures.append(
                {
                    "name": f"{case.get('classname')}::{case.get('name')}",
                    "error": " ".join((faults[0].get("message") or "").split())[:300],
                    "line to look at": _last_line(faults[0].text or ""),
                }
            )
    return counts, failures


def _last_line(text: str) -> str:
    """Return the innermost ``file:line`` of sknet in a traceback of pytest; of any file, if there is none."""
    lines = [line for line in text.splitlines() if line.count(":") >= 2 and ".py:" in line]
    own = [line for line in lines if line.startswith(("sknet/", str(ROOT / "sknet")))]
    return (own or lines or [""])[-1]
