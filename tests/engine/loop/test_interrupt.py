"""Ctrl-C between two steps."""

import signal
import threading

import pytest

from sknet.engine._scheduler import InterruptGuard


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def guarded(*steps):
    """Do some steps under a guard, and return how many were done."""
    done = []
    guard = InterruptGuard()

    def run():
        with guard:
            for step in steps:
                step(guard) if step is InterruptGuard.poll else step()
                done.append(step)

    return run, done, guard


def test_it_is_held_until_raised():
    run, done, guard = guarded(press, print, InterruptGuard.poll, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press, print]
    assert not guard.is_urgent


def test_it_is_raised_at_the_end_at_the_latest():
    run, done, _ = guarded(press, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press, print]


def test_a_second_one_is_not_held_back():
    run, done, guard = guarded(press, press, print)
    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [press]
    assert guard.is_urgent


def test_an_answered_one_is_not_the_first_of_two():
    with InterruptGuard() as guard:
        press()
        with pytest.raises(KeyboardInterrupt):
            guard.poll()
        press()
        with pytest.raises(KeyboardInterrupt):
            guard.poll()
        guard.poll()
    assert not guard.is_urgent


def test_another_error_comes_first():
    run, *_ = guarded(press, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run()


def test_the_handler_is_restored():
    with InterruptGuard():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_users_handler_is_not_changed():
    pressed = []
    mine = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with InterruptGuard() as guard:
            press()
            guard.poll()
    finally:
        signal.signal(signal.SIGINT, mine)
    assert pressed == [signal.SIGINT]


def test_other_threads_are_not_affected():
    errors = []

    def work():
        try:
            with InterruptGuard() as guard:
                guard.poll()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not errors
