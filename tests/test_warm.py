"""`python -m sknet.warm` compiles ahead of the first fit."""

import os
import subprocess
import sys

import pytest

from tests.project import ROOT


def warmed(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sknet.warm"]
    return subprocess.run(command, env=os.environ | environment, cwd=ROOT, capture_output=True, text=True)


def test_machine_code_is_left_for_later_processes(tmp_path):
    pytest.importorskip("numba", reason="native code needs Numba: install sknet[fast]")
    done = warmed(SKNET_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    [file] = (tmp_path / "cache").rglob("*.code")
    assert f"native code is in {file}: " in done.stdout
    before = file.stat().st_mtime_ns
    assert warmed(SKNET_CACHE_DIR=str(tmp_path / "cache")).returncode == 0
    assert file.stat().st_mtime_ns == before  # loaded


def test_it_says_what_is_missing(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('hidden')")
    done = warmed(PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert done.returncode == 1
    assert "Numba is not installed" in done.stderr
    assert 'pip install "sknet[fast]"' in done.stderr
