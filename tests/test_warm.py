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
def steps(start, length):
    return length
"""


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Let `warm` compile small functions, which no other test has loaded in this process."""
    source = f"# {tmp_path}\n{SMALL}"
    names = ", ".join(f"a{i}" for i in range(ARGUMENTS))
    of_rows = source.replace("start, length", names).replace("return length", "return a0")
    monkeypatch.setattr("sknet.compile.executors.native._runner.RUNNER", source)
    monkeypatch.setattr(warm, "runner", Runner)
    monkeypatch.setattr(warm, "row_runner", lambda: Runner(lambda: (of_rows, ARGUMENTS)))
    monkeypatch.setattr(warm, "pass_runner", lambda: Runner(lambda: (f"{source}\n", 2)))


def test_machine_code_is_left_for_later_processes(small, tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba", reason="native code needs Numba: install sknet[fast]")
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "cache"))
    assert warm.main() == 0
    files = sorted((tmp_path / "cache").rglob("*.code"))
    said = capsys.readouterr().out
    assert len(files) == 3
    assert said.startswith("native code is in ")
    assert all(str(file) in said for file in files)
    before = [file.stat().st_mtime_ns for file in files]
    assert warm.main() == 0
    assert [file.stat().st_mtime_ns for file in files] == before  # loaded


@pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")
def test_a_directory_that_others_can_write_to_keeps_nothing(small, tmp_path, monkeypatch, capsys):
    pytest.importorskip("numba", reason="native code needs Numba: install sknet[fast]")
    folder = tmp_path / "shared" / "sknet"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "shared"))
    with pytest.warns(UserWarning, match="others may write to it"):
        assert warm.main() == 1
    assert not list(folder.rglob("*.code"))
    assert "set SKNET_CACHE_DIR to one" in capsys.readouterr().err


def test_it_says_what_is_missing(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('hidden')")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    command = [sys.executable, "-m", "sknet.warm"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Numba is not installed" in done.stderr
    assert 'pip install "sknet[fast]"' in done.stderr
