"""Locks in forked processes, and that no other locks guard what a process shares."""

import ast
import os
import signal
import sys
import threading
import time

import pytest

from sknet._parallel import Lock
from tests.project import module_name, source_files

SECONDS = 20.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_finds_free_what_another_thread_holds():
    lock, held, done = Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        held.wait()
        child = os.fork()
        if not child:
            with lock:
                os._exit(0)
        assert exit_status(child) == 0
    finally:
        done.set()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_thread_that_forks_while_it_holds_a_lock_ends_that_in_the_child_too():
    lock, other = Lock(), []
    with lock:
        child = os.fork()
        if not child:
            thread = threading.Thread(target=lambda: lock.__enter__() or other.append(1))
            thread.start()
            thread.join()
    if not child:
        os._exit(other != [1])
    assert exit_status(child) == 0


def exit_status(child):
    """Return the exit status of a process, which is killed if it does not end."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_a_thread_may_take_a_lock_several_times_and_others_wait():
    lock, found = Lock(), []

    def note():
        with lock:
            found.append("other thread")

    with lock, lock:
        thread = threading.Thread(target=note)
        thread.start()
        thread.join(0.05)
        found.append("this thread")
    thread.join()
    assert found == ["this thread", "other thread"]


@pytest.mark.slow
def test_locks_of_a_process_are_of_this_kind():
    """A forked process would wait forever for any other that a thread held."""
    found = []
    for path in source_files("sknet"):
        if module_name(path) == "sknet._parallel":
            continue
        for statement in ast.parse(path.read_text()).body:
            # What a module makes when it is imported; a fit makes its own.
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                text = ast.unparse(statement)
                if any(f"threading.{kind}(" in text for kind in ("Lock", "RLock", "Condition")):
                    found.append(f"{module_name(path)}: {text}")
    assert not found, f"take sknet._parallel.Lock: {found}"
