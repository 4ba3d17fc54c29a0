"""Whether operations are recorded for differentiation, per thread."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

__all__ = ["capturing", "enable_grad", "is_capturing", "is_grad_enabled", "no_grad"]

P = ParamSpec("P")
R = TypeVar("R")


class _Modes(threading.local):
    grad = True
    capturing = False


modes = _Modes()


def is_grad_enabled() -> bool:
    """Tell whether operations in this thread are being recorded."""
    return modes.grad


def is_capturing() -> bool:
    """Tell whether a function is being captured in this thread: what it draws now, it would draw for good."""
    return modes.capturing


@contextmanager
def capturing() -> Iterator[None]:
    """Mark that a function is being captured in this thread, with gradients as by default."""
    before = modes.grad, modes.capturing
    modes.grad, modes.capturing = True, True
    try:
        yield
    finally:
        modes.grad, modes.capturing = before


class _GradMode:
    """A context, and a decorator that enters a context of its own for every call (threads may overlap)."""

    _enabled: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(modes.grad)
        modes.grad = self._enabled
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        modes.grad = self._before.pop()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with type(self)():
                return function(*args, **kwargs)

        return inside


class no_grad(_GradMode):
    """Do not record operations: inside this context (or decorated function) results need no gradient.

    Holds for the thread that enters it.

    Examples
    --------
    >>> from sknet import Tensor, no_grad
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad():
    ...     (x * 2).requires_grad
    False
    """

    _enabled = False


class enable_grad(_GradMode):
    """Record operations, also inside `no_grad`.

    Examples
    --------
    >>> from sknet import Tensor, enable_grad, no_grad
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    _enabled = True
