"""Running a function a second time as if it were the first: what it reads besides its arguments.

Layers above have state of their own that a function can reach, such as the numbers that were drawn so
far. Each registers a source; `first_run` asks them all, so that its callers need not know them.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from typing import Any, TypeVar

__all__ = ["first_run", "repeatable"]

R = TypeVar("R")
Repetition = Callable[[], AbstractContextManager[Any]]
Source = TypeVar("Source", bound=Callable[[], AbstractContextManager[Repetition]])

SOURCES: list[Callable[[], AbstractContextManager[Repetition]]] = []


def repeatable(source: Source) -> Source:
    """Register a source of state."""
    SOURCES.append(source)
    return source


@contextmanager
def first_run() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Surround the first run of a function, and yield ``again``."""
    with ExitStack() as stack:
        repetitions = [stack.enter_context(source()) for source in SOURCES]
        before = copy_context()

        def again(function: Callable[[], R]) -> R:
            def inside() -> R:
                with ExitStack() as stack:
                    for repetition in repetitions:
                        stack.enter_context(repetition())
                    return function()

            return before.copy().run(inside)

        yield again
