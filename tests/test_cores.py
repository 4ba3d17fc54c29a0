"""On which cores threads run: each has some of its own meanwhile, and all of them again afterwards."""

import os
import threading

import pytest

from sknet import _parallel
from sknet._parallel import Cores, in_threads
from tests.test_threads import two_threads  # noqa: F401 (a fixture for all tests here)

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads cannot be placed here")


@pytest.fixture
def waiting():
    """Return the number of another thread, which does nothing."""
    known, done, found = threading.Event(), threading.Event(), []

    def wait():
        found.append(threading.get_native_id())
        known.set()
        done.wait(20)

    thread = threading.Thread(target=wait)
    thread.start()
    known.wait(20)
    yield found[0]
    done.set()
    thread.join()


@pytest.fixture
def every():
    found = os.sched_getaffinity(0)
    if len(found) < 2:
        pytest.skip("there is one core here")
    yield found
    assert os.sched_getaffinity(0) == found


def test_cores_are_divided_and_given_back(every, waiting):
    cores = Cores([waiting])
    cores.divide()
    assert os.sched_getaffinity(0) == every  # so that a thread that begins now has all of them
    cores.stay()
    mine, others = os.sched_getaffinity(0), os.sched_getaffinity(waiting)
    assert len(mine) == 1
    assert others == every - mine
    cores.end()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(waiting) == every


def test_several_threads_have_different_cores(monkeypatch):
    placed = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {0, 1, 2, 3, 5})
    monkeypatch.setattr(os, "sched_setaffinity", placed.__setitem__)
    monkeypatch.setattr(_parallel, "current_core", lambda: lambda: 2)
    for count, expected in [
        (1, [{0, 1, 3, 5}]),
        (3, [{0, 5}, {1}, {3}]),
        (5, [{0}, {1}, {3}, {5}, {0}]),
    ]:
        cores = Cores(range(10, 10 + count))
        cores.divide()
        cores.stay()
        assert placed == dict(enumerate(expected, 10)) | {0: {2}}
        cores.end()
        assert set(map(frozenset, placed.values())) == {frozenset({0, 1, 2, 3, 5})}
        placed.clear()


@pytest.mark.parametrize("limit", [1, 2])
def test_nothing_is_divided_among_fewer_cores(every, waiting, limit):
    os.sched_setaffinity(0, sorted(every)[:1])
    try:
        cores = Cores([waiting] * (limit - 1))
        cores.divide()
        cores.stay()
        assert len(os.sched_getaffinity(0)) == 1
        assert os.sched_getaffinity(waiting) == every
        cores.end()
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, every)


def test_a_thread_that_has_ended_is_left_alone(every):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    number = thread.native_id
    thread.join()
    cores = Cores([number])
    cores.divide()
    cores.stay()
    cores.end()


def test_threads_that_share_work_run_on_different_cores(every):
    found, barrier = {}, threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        found[threading.get_native_id()] = os.sched_getaffinity(0)
        barrier.wait()

    in_threads(work, 2, [0, 1])  # now there is another thread
    found.clear()
    in_threads(work, 2, [0, 1])
    first, second = found.values()
    assert not first & second
    assert first | second == every
    assert all(os.sched_getaffinity(thread) == every for thread in found)


def test_an_error_gives_cores_back(every):
    def fail(i, room):
        raise RuntimeError("of a call")

    with pytest.raises(RuntimeError, match="of a call"):
        in_threads(fail, 2, [0, 1])
