"""A file of machine code is ignored unless it is complete and belongs to the user."""

import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from sknet.compile.executors.native import _machine_code
from sknet.compile.executors.native._machine_code import MAGIC, CodeFile, unsafe

PAYLOAD = np.random.default_rng(0).bytes(2000)
posix = pytest.mark.skipif(os.name != "posix", reason="rights of files are POSIX's")


@pytest.fixture
def file(tmp_path):
    code = CodeFile(str(tmp_path / "entry.code"), "what it is of")
    assert code.read() is None
    assert code.write(PAYLOAD)
    assert code.read() == PAYLOAD
    return code


def changed(file, content):
    with open(file.cache_path, "wb") as out:
        out.write(content)
    return file.read()


def content_of(file):
    with open(file.cache_path, "rb") as out:
        return out.read()


def test_an_empty_payload_is_valid(file):
    assert file.write(b"")
    assert file.read() == b""


def test_it_is_for_one_key(file):
    assert CodeFile(file.cache_path, "something else").read() is None


def test_a_truncated_file_is_not_read(file):
    content = content_of(file)
    head = len(MAGIC) + 32
    lengths = {*range(head + 20), *range(head, len(content), 97), *range(len(content) - 20, len(content))}
    for length in lengths:
        assert changed(file, content[:length]) is None
    assert changed(file, content + b"\0") is None
    assert changed(file, content) == PAYLOAD


def test_a_flipped_bit_is_detected(file):
    content = bytearray(content_of(file))
    for position in range(len(content)):
        bit = 1 << (position % 8)
        content[position] ^= bit
        assert changed(file, content) is None
        content[position] ^= bit


def test_other_content_is_not_read(file):
    for content in (b"", MAGIC, b"\x80\x04.", bytes(5000), np.random.default_rng(1).bytes(5000)):
        assert changed(file, content) is None


@posix
def test_files_of_other_users_are_not_read(file, monkeypatch):
    for mode in (0o620, 0o602, 0o666):
        os.chmod(file.cache_path, mode)
        assert file.read() is None
    os.chmod(file.cache_path, 0o644)
    assert file.read() == PAYLOAD
    if os.geteuid() == 0:
        os.chown(file.cache_path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert file.read() is None


@posix
def test_only_a_file_is_read(file, tmp_path):
    os.rename(file.cache_path, tmp_path / "real.code")
    os.symlink(tmp_path / "real.code", file.cache_path)
    assert file.read() is None
    os.unlink(file.cache_path)
    os.mkfifo(file.cache_path)  # without a writer: opening it must not block
    assert file.read() is None
    os.unlink(file.cache_path)
    os.mkdir(file.cache_path)
    assert file.read() is None
    assert not file.write(PAYLOAD)
    assert sorted(os.listdir(tmp_path)) == ["entry.code", "real.code"]


@posix
def test_a_new_file_is_for_the_user_alone(file):
    before = os.umask(0)
    try:
        assert file.write(PAYLOAD)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(file.cache_path).st_mode) == 0o600


def test_without_a_directory_nothing_is_written(tmp_path):
    file = CodeFile(str(tmp_path / "missing" / "entry.code"), "")
    assert not file.write(PAYLOAD)
    assert file.read() is None
    assert not list(tmp_path.iterdir())


WRITER = """
import runpy, sys
file = runpy.run_path(sys.argv[2])["CodeFile"](sys.argv[1], "what it is of")
payload = bytes(range(256)) * 40000
while True:
    assert file.write(payload)
    print("written", flush=True)
"""


@posix
def test_a_killed_writer_leaves_a_complete_file(file, tmp_path):
    for delay in np.linspace(0.0, 0.05, 12):
        command = [sys.executable, "-c", WRITER, file.cache_path, _machine_code.__file__]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"written\n"
            time.sleep(delay)  # to be killed in the middle of a later write, wherever that is
            process.send_signal(signal.SIGKILL)
        assert file.read() == bytes(range(256)) * 40000


def test_files_of_killed_writers_are_removed_later(file, tmp_path):
    old, new, other = (tmp_path / name for name in ("entry.code1.part", "entry.code2.part", "old.txt"))
    for path in (old, new, other):
        path.write_bytes(b"half")
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    os.utime(other, (hours_ago, hours_ago))
    assert file.write(PAYLOAD)
    assert sorted(os.listdir(tmp_path)) == ["entry.code", "entry.code2.part", "old.txt"]


@posix
def test_reasons(tmp_path, monkeypatch):
    def reason(mode):
        tmp_path.chmod(mode)
        return unsafe(os.lstat(tmp_path), stat.S_ISDIR)

    assert reason(0o700) is None
    assert reason(0o755) is None
    assert reason(0o770) == "others may write to it (mode 770)"
    assert reason(0o1777) == "others may write to it (mode 1777)"
    assert unsafe(os.lstat(tmp_path), stat.S_ISREG) == ("it is a link or a special file")
    tmp_path.chmod(0o700)
    owner = os.lstat(tmp_path).st_uid
    if owner != 0:  # files of the administrator are trusted
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        assert unsafe(os.lstat(tmp_path), stat.S_ISDIR) == f"it belongs to another user (uid {owner})"
