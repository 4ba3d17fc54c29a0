"""Compiled functions: loaded from disk if valid, otherwise compiled by a child process."""

import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from sknet.compile.executors.native import _cache, has_numba
from tests.compile.executors.native.helpers import OTHER, POISON, function, loaded, source

pytest.importorskip("numba", reason="the native executor needs Numba: install sknet[fast]")
posix = pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SKNET_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def elsewhere(*marks):
    """Return the results of the same functions in another process, and how many it found on disk."""
    command = [sys.executable, "-c", OTHER]
    sources = json.dumps([source(mark) for mark in marks])
    found = subprocess.run(command, input=sources, capture_output=True, text=True, check=True)
    return [tuple(map(int, line.split())) for line in found.stdout.splitlines()]


def test_machine_code_is_found_on_disk_by_other_processes():
    mine = function("found")
    assert not mine.is_on_disk
    assert mine.wait()(1) == 2
    assert mine.is_on_disk
    assert elsewhere("found", "unknown") == [(42, 1), (42, 0)]


SPOILS = {
    "empty": lambda content: b"",
    "half": lambda content: content[: len(content) // 2],
    "a byte short": lambda content: content[:-1],
    "a flipped bit": lambda content: content[:-100] + bytes([content[-100] ^ 4]) + content[-99:],
    "another file": lambda content: b"\x80\x04]." * 100,
}


def test_damaged_or_unsafe_machine_code_is_compiled_again():
    files = {}
    for name in (*SPOILS, "sound", *(["of others"] if os.name == "posix" else [])):
        mine = function(name)
        mine.wait()
        files[name] = mine.file
    for name, spoiled in SPOILS.items():
        files[name].write_bytes(spoiled(files[name].read_bytes()))
    if "of others" in files:
        files["of others"].chmod(0o666)
    assert elsewhere(*files) == [(42, int(name == "sound")) for name in files]
    assert elsewhere(*files) == [(42, 1)] * len(files)


@posix
def test_machine_code_of_other_users_warns_once():
    mine = function("named")
    mine.wait()
    mine.file.chmod(0o666)
    with pytest.warns(UserWarning, match="others may write to it") as caught:
        assert [mine.is_on_disk, mine.is_on_disk] == [False, False]
    assert len(caught) == 1


@posix
def test_nothing_is_cached_in_a_directory_of_another_user(cache):
    (cache / "sknet").mkdir(parents=True)
    (cache / "sknet").chmod(0o777)
    mine = function("a directory of others")
    with pytest.warns(UserWarning, match=r"sknet is ignored, .*others may write to it"):
        assert mine.file is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = function("a directory of others, again")
        assert again.file is None
    assert loaded(mine)(1) == 2  # compiled in a thread
    assert again.wait()(1) == 2
    assert not list((cache / "sknet").iterdir())


def poisoned(folder):
    """Fill a directory with modules that leave a mark if they are run."""
    mark = folder.parent / "mark"
    folder.mkdir()
    for name in (
        "numba",
        "numpy",
        "llvmlite",
        "scipy",
        "json",
        "pickle",
        "sitecustomize",
        "usercustomize",
        "tempfile",
    ):
        (folder / f"{name}.py").write_text(POISON.format(mark=str(mark)))
    return mark


def test_the_compiling_process_is_isolated(tmp_path, monkeypatch):
    mark = poisoned(tmp_path / "poison")
    monkeypatch.chdir(tmp_path / "poison")
    for name in ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE"):
        monkeypatch.setenv(name, str(tmp_path / "poison"))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "poison" / "numba.py"))
    monkeypatch.setattr(_cache, "compiled", lambda *args: pytest.fail("compiled in this process"))
    mine = function("isolated")
    assert loaded(mine)(1) == 2
    assert mine.is_on_disk
    assert not mark.exists()


def test_who_waits_for_a_child_compiles_nothing(monkeypatch):
    monkeypatch.setattr(_cache, "compiled", lambda *args: pytest.fail("compiled in this process"))
    mine = function("begun")
    mine.begin()
    mine.begin()
    assert mine.wait()(1) == 2
    assert mine.is_on_disk
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **kwargs: pytest.fail("another child"))
    mine.begin()


def test_who_waits_for_a_child_in_vain_compiles(monkeypatch):
    mine = function("begun in vain")
    in_vain, start = [sys.executable, "-c", "raise SystemExit(1)"], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda command, **given: start(in_vain, **given))
    mine.begin()
    assert mine.wait()(1) == 2
    assert mine.is_on_disk


def test_a_file_named_numba_is_not_imported(tmp_path):
    mark = poisoned(tmp_path / "poison")
    for name in (
        "numpy",
        "json",
        "pickle",
        "scipy",
        "tempfile",
        "llvmlite",
        "sitecustomize",
        "usercustomize",
    ):
        (tmp_path / "poison" / f"{name}.py").unlink()
    code = "from sknet.compile.executors.native import has_numba; print(has_numba())"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path / "poison", check=True)
    assert found.stdout.strip() == "False"
    assert not mark.exists()
    assert has_numba()


def test_several_processes_at_once():
    mine = function("at once")
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(elsewhere, ["at once"] * 3))
    assert [answer for [(answer, _)] in found] == [42] * 3
    assert elsewhere("at once") == [(42, 1)]
    assert [path.suffix for path in mine.file.parent.iterdir()] == [".code"]


def test_a_failed_compiling_process_is_not_restarted():
    broken = function('a syntax error""" in the source')
    for _ in range(500):
        assert broken.get(1e6) is None
        if not list(broken.file.parent.iterdir()):
            break
    assert broken.get(1e6) is None


def test_code_that_does_not_pay_is_not_compiled():
    mine = function("short")
    assert mine.get(0.1) is None
    assert not list(mine.file.parent.iterdir())
