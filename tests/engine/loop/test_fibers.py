"""Fits as fibers: one runs at a time, and all wait for what is made for many at once."""

import os
import signal
import threading
import time

import pytest

from sknet.engine import _scheduler
from sknet.engine._scheduler import current_fiber, run_in_fibers, run_in_threads


def together(waiting):
    """Answer all that wait with what all have asked for."""
    asked = [fiber.asked for fiber in waiting]
    for fiber in waiting:
        fiber.answer(asked)
    return waiting


def no_threads_are_left():
    return not [thread for thread in threading.enumerate() if thread.name.startswith("sknet-fit")]


def test_all_wait_for_one_another_as_long_as_they_take_part():
    def fit(i):
        return [current_fiber().wait((i, step)) for step in range(i)]

    found = run_in_fibers([lambda i=i: fit(i) for i in range(4)], [True] * 4, 1, together)
    assert found == [[[(j, step) for j in range(step + 1, 4)] for step in range(i)] for i in range(4)]
    assert current_fiber() is None


def test_one_runs_at_a_time_and_those_that_leave_beside_them():
    running, most, begun = [], {True: 0, False: 0}, threading.Event()

    def fit(i):
        fiber = current_fiber()
        running.append(i)
        most[True] = max(most[True], len([j for j in running if j < 3]))
        most[False] = max(most[False], len([j for j in running if j >= 3]))
        if i >= 3:
            begun.set()
            time.sleep(0.05)
        running.remove(i)
        if fiber is not None:
            fiber.wait(None)
            assert begun.wait(5)
        return fiber is None

    takes = [True] * 3 + [False] * 5
    assert run_in_fibers([lambda i=i: fit(i) for i in range(8)], takes, 2, together) == [not x for x in takes]
    assert most == {True: 1, False: 2}


def test_who_leaves_in_its_turn_goes_on_beside_the_others():
    left = threading.Event()

    def leaves():
        fiber = current_fiber()
        fiber.leave()
        fiber.leave()
        assert current_fiber() is None
        assert left.wait(5)
        return "left"

    def stays():
        found = current_fiber().wait("asked")
        left.set()
        return found

    assert run_in_fibers([leaves, stays], [True, True], 1, together) == ["left", ["asked"]]


@pytest.mark.parametrize("of", ["a fit", "one that has left", "what serves"])
def test_an_error_ends_all(of):
    ended = []

    def fit(i):
        fiber = current_fiber()
        try:
            if i == 1 and of == "one that has left":
                fiber.leave()
            if i == 1 and of != "what serves":
                raise ValueError("as told")
            while True:
                fiber.wait(i)
                time.sleep(0.01)
        finally:
            ended.append(i)

    def fails(waiting):
        raise ValueError("as told")

    serve = fails if of == "what serves" else together
    with pytest.raises(ValueError, match="as told") as error:
        run_in_fibers([lambda i=i: fit(i) for i in range(3)], [True] * 3, 1, serve)
    if of != "what serves":
        assert error.value.__notes__ == ["in fit 1 of 3, counted from 0"]
    assert set(ended) <= {0, 1, 2}
    assert no_threads_are_left()


def test_what_has_been_done_for_a_fit_is_counted_when_another_fails():
    counted = []

    def fit(i):
        current_fiber().wait(i)
        if i == 0:
            raise ValueError("as told")
        counted.append(i)
        current_fiber().wait(i)

    with pytest.raises(ValueError, match="as told"):
        run_in_fibers([lambda i=i: fit(i) for i in range(3)], [True] * 3, 1, together)
    assert counted == [1, 2]


def test_an_error_that_is_an_answer_is_raised_by_the_fit():
    def serve(waiting):
        waiting[0].answer(ValueError("as told"))
        return waiting[:1]

    def fit():
        with pytest.raises(ValueError, match="as told"):
            current_fiber().wait(None)
        return "went on"

    assert run_in_fibers([fit, fit], [True, True], 1, serve) == ["went on", "went on"]


def test_fits_end_by_themselves_after_ctrl_c_while_others_end():
    """One takes its time, and who presses Ctrl-C twice does not wait for it; no thread waits for ever."""
    ended = []

    def fit(i):
        try:
            current_fiber().wait(i)
        finally:
            for _ in range(0 if i else 2):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.2)
            ended.append(i)

    def serve(waiting):
        raise ValueError("as told")

    with pytest.raises(KeyboardInterrupt):
        run_in_fibers([lambda i=i: fit(i) for i in range(4)], [True] * 4, 1, serve)
    for thread in threading.enumerate():
        if thread.name.startswith("sknet-fit"):
            thread.join(10)
    assert no_threads_are_left()
    assert sorted(ended) == [0, 1, 2, 3]


# -- more fits than threads ---------------------------------------------------------------------------


def most_at_a_time(n_fits, takes=lambda i: True):
    """Run fits of two steps each; return how many ran at a time."""
    running, most, lock = set(), [0], threading.Lock()

    def fit(i):
        with lock:
            running.add(i)
            most[0] = max(most[0], len(running))
        fiber = current_fiber()
        if fiber is None:
            time.sleep(0.01)
        else:
            for _ in range(2):
                fiber.wait(i)
        with lock:
            running.remove(i)
        return i

    fits = [lambda i=i: fit(i) for i in range(n_fits)]
    assert run_in_fibers(fits, [takes(i) for i in range(n_fits)], 2, together) == list(range(n_fits))
    assert no_threads_are_left()
    return most[0]


@pytest.mark.parametrize("takes", [lambda i: True, lambda i: i % 3 == 0, lambda i: False])
def test_fits_begin_when_others_have_ended(takes, monkeypatch):
    monkeypatch.setattr(_scheduler, "MOST", 4)
    assert 2 <= most_at_a_time(11, takes) <= 4


def failing_from(number, monkeypatch):
    """Let the system have so many threads, besides those that run now."""
    most, start = threading.active_count() + number, threading.Thread.start

    def may_fail(self):
        if threading.active_count() >= most:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", may_fail)


def test_a_system_without_more_threads_has_as_many_fits_at_a_time(monkeypatch):
    failing_from(3, monkeypatch)
    assert most_at_a_time(9) <= 3


def test_a_system_without_any_thread_says_so(monkeypatch):
    failing_from(0, monkeypatch)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        most_at_a_time(2)


def test_ctrl_c_is_seen_while_others_run_beside(monkeypatch):
    monkeypatch.setattr(_scheduler, "MOST", 1)
    begun, end = threading.Event(), threading.Event()

    def beside():
        begun.set()
        end.wait(10)

    def press():
        begun.wait(10)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        end.set()

    presses = threading.Thread(target=press)
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        run_in_fibers([beside, beside], [False, False], 1, together)
    presses.join()
    assert no_threads_are_left()


@pytest.mark.parametrize("in_fibers", [True, False])
def test_ctrl_c_between_the_start_of_a_thread_and_the_note_of_it(in_fibers, monkeypatch):
    class Interrupted(threading.Thread):
        def start(self):
            super().start()
            if self.name == "sknet-fit-1":
                raise KeyboardInterrupt

    monkeypatch.setattr(_scheduler.threading, "Thread", Interrupted)
    fits, begun = [lambda: begun.append(1)] * 3, []
    with pytest.raises(KeyboardInterrupt):
        run_in_fibers(fits, [True] * 3, 1, together) if in_fibers else run_in_threads(fits, 3)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and not no_threads_are_left():
        time.sleep(0.001)
    assert no_threads_are_left()
    assert not begun
