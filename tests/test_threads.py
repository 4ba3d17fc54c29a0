"""Work that threads share: every call is made once, with a room of its own; errors, limits and forks."""

import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import pytest
from threadpoolctl import threadpool_limits

from sknet._parallel import BlasThreads, blas_threads, free_threads, in_threads, libraries

BLAS = [library for library in libraries().lib_controllers if library.user_api == "blas"]


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"):
        if free_threads() != 2:
            pytest.skip("BLAS has one thread here")
        yield


def wait_for_both():
    """Return work that ends only if two threads do it."""
    barrier = threading.Barrier(2, timeout=20)
    return lambda i, room: barrier.wait()


def test_every_call_is_made_once_with_a_room_of_its_own():
    done, busy, lock = [], set(), threading.Lock()

    def work(i, room):
        with lock:
            assert room not in busy
            busy.add(room)
        time.sleep(0.001)
        with lock:
            busy.remove(room)
            done.append(i)

    in_threads(work, 30, ["first", "second", "third"])
    assert sorted(done) == list(range(30))


def test_two_threads_work_at_the_same_time():
    in_threads(wait_for_both(), 2, [0, 1])


@pytest.mark.parametrize(("count", "rooms"), [(0, [0, 1]), (1, [0, 1]), (5, [0])])
def test_no_more_threads_than_calls_or_rooms(count, rooms):
    callers = []
    in_threads(lambda i, room: callers.append(threading.get_ident()), count, rooms)
    assert callers == [threading.get_ident()] * count


def test_blas_has_one_thread_meanwhile():
    found = set()
    in_threads(lambda i, room: found.update(library.get_num_threads() for library in BLAS), 4, [0, 1])
    assert found == {1}
    assert {library.get_num_threads() for library in BLAS} == {2}


def test_a_limit_of_blas_is_one_of_threads():
    with blas_threads(1):
        assert free_threads() == 1
        with blas_threads(2):
            assert free_threads() == 1
    assert free_threads() == 2


def test_a_limit_may_leave_cores_to_threads():
    limit = BlasThreads()
    limit.begin(1, leaves_cores=True)
    try:
        assert {library.get_num_threads() for library in BLAS} == {1}
        in_threads(wait_for_both(), 2, [0, 1])
        with blas_threads(1):
            assert free_threads() == 1
    finally:
        limit.end()


@pytest.mark.parametrize("where", ["here", "there"])
def test_after_an_error_nothing_runs_and_the_next_call_works(where):
    running, own = [], threading.get_ident()
    barrier = threading.Barrier(2, timeout=20)

    def fail(i, room):
        barrier.wait()
        if (threading.get_ident() == own) == (where == "here"):
            raise ValueError(f"in call {i}")
        running.append(i)
        time.sleep(0.05)
        running.remove(i)

    with pytest.raises(ValueError, match="in call"):
        in_threads(fail, 2, [0, 1])
    assert not running
    in_threads(wait_for_both(), 2, [0, 1])
    assert {library.get_num_threads() for library in BLAS} == {2}


def test_work_sees_the_context_of_its_caller():
    variable, found = ContextVar("variable", default="unset"), []
    variable.set("set")
    both = wait_for_both()
    in_threads(lambda i, room: found.append((both(i, room), variable.get())[1]), 2, [0, 1])
    assert found == ["set", "set"]


def test_several_callers_at_once():
    totals = [0] * 6

    def add(k):
        def work(i, room):
            room.append(i)
            totals[k] += room[-1]

        in_threads(work, 200, [[]])

    threads = [threading.Thread(target=add, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [sum(range(200))] * 6
    assert {library.get_num_threads() for library in BLAS} == {2}


def of_a_fork(_):
    callers = set()
    barrier = threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        callers.add(threading.get_ident())

    in_threads(work, 2, [0, 1])
    return len(callers)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    in_threads(wait_for_both(), 2, [0, 1])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(of_a_fork, (0,)).get(60) == 2


@pytest.fixture
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="only POSIX has signals for one thread")
@pytest.mark.usefixtures("pythons_own_handler")
def test_ctrl_c_while_another_thread_works_waits_for_its_end():
    own, running, limits = threading.get_ident(), [], []
    barrier = threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        if threading.get_ident() != own:
            running.append(i)
            for _ in range(2):
                time.sleep(0.1)
                signal.pthread_kill(own, signal.SIGINT)
            time.sleep(0.1)
            limits.extend(library.get_num_threads() for library in BLAS)
            running.remove(i)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, 2, [0, 1])
    assert not running
    assert set(limits) == {1}
    assert {library.get_num_threads() for library in BLAS} == {2}


AT_THE_END = """
import atexit, threading
import numpy
from threadpoolctl import threadpool_limits
from sknet._parallel import free_threads
from sknet._parallel import in_threads

threadpool_limits(2, "blas")
done = []

def work():
    threading.main_thread().join()
    in_threads(lambda i, room: done.append(i), 4, [0, 1])

in_threads(lambda i, room: None, 4, [0, 1])
assert free_threads() == 2
threading.Thread(target=work).start()
atexit.register(lambda: print(sorted(done)))
atexit.register(in_threads, lambda i, room: done.append(10 + i), 2, [0, 1])
"""


def test_work_goes_on_while_python_ends():
    ran = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[0, 1, 2, 3, 10, 11]\n", "")
