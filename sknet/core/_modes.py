"""Whether operations are recorded for differentiation, per thread."""

import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Self

__all__ = ["enable_grad", "is_grad_enabled", "no_grad"]


class _Modes(threading.local):
    grad = True


modes = _Modes()


def is_grad_enabled() -> bool:
    """Tell whether operations in this thread are being recorded."""
    return modes.grad


class _GradMode(ContextDecorator):
    _enabled: bool

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> Self:
        self._before.append(modes.grad)
        modes.grad = self._enabled
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        modes.grad = self._before.pop()


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
