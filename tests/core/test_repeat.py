"""State that a function reads besides its arguments, restored for a second run."""

from contextlib import contextmanager
from contextvars import ContextVar

import pytest

from sknet.core import _tape
from sknet.core._tape import first_run, repeatable

current = ContextVar("current", default=0)


@pytest.fixture
def counter(monkeypatch):
    """A state that a function changes, and its source."""
    monkeypatch.setattr(_tape, "SOURCES", [])
    state = [0]

    @repeatable
    @contextmanager
    def source():
        start = state[0]

        @contextmanager
        def again():
            now, state[0] = state[0], start
            yield
            state[0] = now

        yield again

    return state


def test_sources_and_context_variables(counter):
    def function():
        counter[0] += 1
        return counter[0], current.get()

    function()
    token = current.set(5)
    with first_run() as again:
        assert function() == (2, 5)
    current.reset(token)
    function()
    assert again(function) == again(function) == (2, 5)
    assert counter == [3]
    assert current.get() == 0


def test_sources_are_reset_after_an_error(counter):
    with pytest.raises(KeyError), first_run():
        raise KeyError
    with first_run() as again:
        pass
    assert again(lambda: 7) == 7
