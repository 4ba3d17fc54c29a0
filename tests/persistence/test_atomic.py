"""Whenever a process is killed, there is a complete file, the old or the new one."""

import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sknet import MLPClassifier, save
from sknet.callbacks import CSVLog
from sknet.onnx import export
from sknet.persistence import keep_as, read, remove_leftovers, write, write_atomically
from tests.project import ROOT

POSIX = pytest.mark.skipif(os.name != "posix", reason="permissions, links and locks of POSIX")


@pytest.fixture(autouse=True)
def flushed(monkeypatch):
    """Let writes reach the disk, as they do for users."""
    monkeypatch.setattr(os, "fsync", os.fsync.flush)


# Imports once, and starts a writer for every line that it reads; says when one has begun, and is dead.
WRITERS = """
import os
import sys
from pathlib import Path
import numpy as np
from sknet.persistence import keep_as, write

def write_for_ever(path):
    for number in range(10**6):
        if path.exists():
            keep_as(path, path.with_name("before"))
        write(path, {"number": number, "array": np.full(200_000, number)}, "example")
        if number == 1:
            print(os.getpid(), flush=True)

for line in sys.stdin:
    child = os.fork()
    if not child:
        write_for_ever(Path(line.strip()))
    os.waitpid(child, 0)
    print("dead", flush=True)
"""


def killed_writers(path, times):
    """Start processes that write the same file forever, and kill each at some moment; yield after each."""
    moments = random.Random(0)
    command = [sys.executable, "-c", WRITERS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, text=True, bufsize=1, **pipes) as process:
        for _ in range(times):
            process.stdin.write(f"{path}\n")
            writer = int(process.stdout.readline())
            time.sleep(moments.uniform(0.0, 0.05))
            os.kill(writer, signal.SIGKILL)
            assert process.stdout.readline() == "dead\n"
            yield


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_a_killed_writer_leaves_whole_files(tmp_path):
    path = tmp_path / "last"
    for _ in killed_writers(path, 20):
        last, before = read(path, "example"), read(tmp_path / "before", "example")
        for found in (last, before):
            assert (found["array"] == found["number"]).all()
        assert last["number"] - before["number"] in (0, 1)
        keep_as(path, tmp_path / "before")
        write(path, last, "example")
        assert {p.name for p in tmp_path.iterdir()} == {"last", "before"}


def test_a_failing_write_keeps_the_old_file(tmp_path, monkeypatch):
    write(tmp_path / "a", {"x": np.arange(3)}, "example")

    def fails(*_):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path / "a", {"x": np.arange(4)}, "example")
    monkeypatch.undo()
    assert read(tmp_path / "a", "example")["x"].tolist() == [0, 1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_was_written_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    happened = []
    monkeypatch.setattr(os, "fsync", lambda handle, sync=os.fsync: (happened.append("sync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b, move=os.replace: (happened.append("rename"), move(a, b)))
    write(tmp_path / "a", {}, "example")
    assert happened == ["sync", "rename", "sync"]  # the file, its name, the folder


def test_where_there_are_no_hard_links_the_file_is_copied(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError(1, "not permitted")

    write(tmp_path / "a", [1], "example")
    monkeypatch.setattr(os, "link", fails)
    keep_as(tmp_path / "a", tmp_path / "b")
    write(tmp_path / "a", [2], "example")
    assert (read(tmp_path / "b", "example"), read(tmp_path / "a", "example")) == ([1], [2])


def test_a_file_that_is_kept_twice_leaves_nothing_else(tmp_path):
    write(tmp_path / "a", [1], "example")
    for _ in range(2):
        keep_as(tmp_path / "a", tmp_path / "b")
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}
    write(tmp_path / "a", [2], "example")
    assert (read(tmp_path / "b", "example"), read(tmp_path / "a", "example")) == ([1], [2])


def test_only_leftovers_of_ended_processes_of_this_machine_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = socket.gethostname()
    names = [
        f".a.{ended.pid}-1@{here}.tmp",
        f".a.{os.getpid()}-1@{here}.tmp",
        f".a.{ended.pid}-1@elsewhere.tmp",
    ]
    names += [f".b.{ended.pid}-1@{here}.tmp", "a", ".a.tmp"]
    for name in names:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path / "a")
    assert {p.name for p in tmp_path.iterdir()} == set(names[1:])


def test_leftovers_of_an_earlier_process_of_the_same_number_are_removed(tmp_path):
    """As in a container, where the first process is always number 1."""
    left = tmp_path / f".a.{os.getpid()}-1@{socket.gethostname()}.tmp"
    left.touch()
    os.utime(left, (0, 0))
    write(tmp_path / "a", [1], "example")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


LOCKED = """
import fcntl, sys
file = open(sys.argv[1], "wb")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@POSIX
def test_what_a_process_still_writes_stays_whatever_its_number_is(tmp_path):
    """Containers of one name share a folder, and cannot see each other's processes."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    live = tmp_path / f".a.{ended.pid}-1@{socket.gethostname()}.tmp"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LOCKED, str(live)], text=True, **pipes) as process:
        assert process.stdout.readline() == "locked\n"
        write(tmp_path / "a", [1], "example")
        assert live.exists()
        process.stdin.close()
    write(tmp_path / "a", [1], "example")
    assert not live.exists()


@POSIX
def test_a_file_being_written_is_locked(tmp_path):
    """Another thread, or a process of another container, does not remove it."""
    seen = []

    def chunks():
        [temporary] = tmp_path.iterdir()
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        other = temporary.with_name(temporary.name.replace(f".{os.getpid()}-", f".{ended.pid}-"))
        temporary.rename(other)
        remove_leftovers(tmp_path / "a")
        seen.append(other.exists())
        other.rename(temporary)
        yield b"text"

    write_atomically(tmp_path / "a", chunks())
    assert seen == [True]


@POSIX
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_permissions_of_a_file_that_is_replaced_stay(tmp_path, mode):
    path, former = tmp_path / "a", os.umask(0o022)
    seen = []

    def chunks():
        seen.extend(stat.S_IMODE(p.stat().st_mode) for p in tmp_path.glob(".a.*"))
        yield b"text"

    try:
        write_atomically(path, [b""])
        assert stat.S_IMODE(path.stat().st_mode) == 0o644  # as of any new file
        path.chmod(mode)
        write_atomically(path, chunks())
    finally:
        os.umask(former)
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (mode, b"text")
    assert seen == [0o600]  # nobody else can read it before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_of_a_file_that_is_replaced_stays(tmp_path):
    path = tmp_path / "a"
    path.touch(mode=0o640)
    os.chown(path, 12345, 23456)
    write_atomically(path, [b"text"])
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o640)


@POSIX
def test_a_file_of_an_owner_who_cannot_be_kept_is_written(tmp_path, monkeypatch):
    def fails(*_):
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "fchown", fails)
    path = tmp_path / "a"
    path.touch(mode=0o600)
    write_atomically(path, [b"text"])
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"text", 0o600)


@POSIX
def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    target, link, chain = tmp_path / "there" / "a", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("there/a")
    chain.symlink_to(link)
    for number in range(2):  # at first, there is no file yet
        write(chain, [number], "example")
        assert link.is_symlink()
        assert chain.is_symlink()
        assert not target.is_symlink()
        assert read(target, "example") == [number]
    assert {p.name for p in (tmp_path / "there").iterdir()} == {"a"}
    missing = tmp_path / "missing"
    missing.symlink_to("nowhere/a")
    with pytest.raises(FileNotFoundError, match=r"nowhere/a cannot be written: there is no folder .*nowhere"):
        write(missing, [1], "example")
    itself = tmp_path / "itself"
    itself.symlink_to(itself)
    with pytest.raises(OSError, match="cannot be written: it is a link to itself"):
        write(itself, [1], "example")
    assert itself.is_symlink()


@POSIX
def test_a_file_is_kept_as_another_one_through_links(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "c").symlink_to("d")
    write(tmp_path / "a", [1], "example")
    keep_as(tmp_path / "a", tmp_path / "c")
    write(tmp_path / "a", [2], "example")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "c").is_symlink()
    assert (read(tmp_path / "c", "example"), read(tmp_path / "b", "example")) == ([1], [2])
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b", "c", "d"}


@POSIX
def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-c", f"print(open({str(tmp_path / 'pipe')!r}).read())"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        write_atomically(tmp_path / "pipe", [b"te", b"xt"])
        assert process.stdout.read() == "text\n"
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path, [b"text"])


@POSIX
def test_all_writers_keep_permissions_and_links(tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.warns(ConvergenceWarning):
        clf = MLPClassifier((2,), max_iter=1, random_state=0).fit(X, X[:, 0] > 0)
    frozen = clf.freeze()
    writers = {
        "saved": lambda path: save(clf, path),
        "onnx": lambda path: export(clf, path),
        "python": frozen.to_python,
        "log": lambda path: clf.set_params(callbacks=[CSVLog(path)]).fit(X, X[:, 0] > 0),
    }
    for name, written in writers.items():
        link, target = tmp_path / name, tmp_path / f"{name}.target"
        target.touch(mode=0o600)
        link.symlink_to(target)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            written(link)
        assert link.is_symlink(), name
        assert target.stat().st_size, name
        assert stat.S_IMODE(target.stat().st_mode) == 0o600, name
