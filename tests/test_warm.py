"""`python -m sknet.warm` compiles ahead of the first fit."""

import os
import subprocess
import sys

import pytest

from sknet import warm
from sknet.compile.executors.native import Runner
from sknet.compile.executors.native._table_rows import ARGUMENTS
from tests.project import ROOT

# A function of the same signature as the real one, which takes ten seconds to compile.
SMALL = """
from numba import njit


@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
def steps(start, length, room, count, counter):
    return count
"""


def of_small_rows():
    """Return what `row_runner` is made from, with a function that earlier tests have not loaded."""
    names = ", ".join(f"a{i}" for i in range(ARGUMENTS))
    return SMALL.replace("start, length, room, count, counter", names).replace("count", "a0"), ARGUMENTS


def test_machine_code_is_left_for_later_processes(tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba", reason="native code needs Numba: install sknet[fast]")
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("sknet.compile.executors.native._runner.RUNNER", SMALL)
    monkeypatch.setattr(warm, "runner", Runner)
    monkeypatch.setattr(warm, "row_runner", lambda: Runner(of_small_rows))
    assert warm.main() == 0
    files = sorted((tmp_path / "cache").rglob("*.code"))
    said = capsys.readouterr().out
    assert len(files) == 2
    assert said.startswith("native code is in ")
    assert all(str(file) in said for file in files)
    before = [file.stat().st_mtime_ns for file in files]
    assert warm.main() == 0
    assert [file.stat().st_mtime_ns for file in files] == before  # loaded


@pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")
def test_a_directory_that_others_can_write_to_keeps_nothing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba", reason="native code needs Numba: install sknet[fast]")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "shared"))
    monkeypatch.setattr("sknet.compile.executors.native._runner.RUNNER", SMALL)
    monkeypatch.setattr(warm, "runner", Runner)
    assert warm.main() == 1
    assert "set SKNET_CACHE_DIR to one" in capsys.readouterr().err


def test_it_says_what_is_missing(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('hidden')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "sknet.warm"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Numba is not installed" in done.stderr
    assert 'pip install "sknet[fast]"' in done.stderr
