"""Ctrl-C between two steps."""

import signal
import threading

import pytest

from sknet.engine import InterruptGuard


@pytest.fixture(autouse=True)
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_is_held_until_asked_for():
    done = []
    with pytest.raises(KeyboardInterrupt), InterruptGuard() as guard:
        press()
        done.append("the step goes on")
        guard.poll()
        done.append("never")
    assert done == ["the step goes on"]
    assert not guard.is_urgent


def test_it_is_raised_at_the_end_at_the_latest():
    done = []
    with pytest.raises(KeyboardInterrupt), InterruptGuard():
        press()
        done.append("the step goes on")
    assert done == ["the step goes on"]


def test_a_second_one_is_not_held_back():
    with pytest.raises(KeyboardInterrupt), InterruptGuard() as guard:
        press()
        press()
        pytest.fail("the second one is raised at once")
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
    with pytest.raises(ZeroDivisionError), InterruptGuard():
        press()
        raise ZeroDivisionError


def test_the_handler_is_put_back():
    with InterruptGuard():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_users_is_left_alone():
    pressed = []
    mine = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        with InterruptGuard() as guard:
            press()
            guard.poll()
    finally:
        signal.signal(signal.SIGINT, mine)
    assert pressed == [signal.SIGINT]


def test_other_threads_are_not_told():
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
