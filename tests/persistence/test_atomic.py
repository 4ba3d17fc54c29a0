"""Whenever a process is killed, there is a complete file, the old or the new one."""

import os
import random
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

from sknet.persistence import keep_as, read, remove_leftovers, write
from tests.project import ROOT

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


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="kills processes as POSIX does")
def test_a_killed_writer_leaves_whole_files(tmp_path):
    path = tmp_path / "last"
    for _ in killed_writers(path, 20):
        last, before = read(path, "example"), read(tmp_path / "before", "example")
        for found in (last, before):
            assert (found["array"] == found["number"]).all()
        assert last["number"] - before["number"] in (0, 1)
        remove_leftovers(path)
        remove_leftovers(tmp_path / "before")
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
