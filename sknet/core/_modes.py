"""The modes of a thread: gradients, capture; and running a function a second time as if it were the first."""

import functools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import copy_context
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from sknet.exceptions import GradientError

__all__ = [
    "Context",
    "capturing",
    "enable_grad",
    "first_run",
    "inference_mode",
    "is_capturing",
    "is_grad_enabled",
    "no_grad",
    "repeatable",
    "set_grad_enabled",
]


P = ParamSpec("P")
R = TypeVar("R")


class _Modes(threading.local):
    """The modes of operations in a thread: whether they are recorded, captured, checked."""

    grad = True
    capturing = False
    inference = False  # recording cannot be turned on
    anomaly = False  # every result is checked


modes = _Modes()


def is_grad_enabled() -> bool:
    """Tell whether operations in this thread are being recorded.

    Returns
    -------
    bool
        Whether they are.

    Examples
    --------
    >>> from sknet import no_grad
    >>> from sknet.core import is_grad_enabled
    >>> with no_grad():
    ...     print(is_grad_enabled())
    False
    """
    return modes.grad


def is_capturing() -> bool:
    """Tell whether a function is being captured in this thread: numbers drawn now would become constants.

    Returns
    -------
    bool
        Whether it is.

    Examples
    --------
    >>> import numpy as np
    >>> from sknet.compile import capture
    >>> from sknet.core import is_capturing
    >>> def shown(x):
    ...     print(is_capturing())
    ...     return x + 1
    >>> _ = capture(shown, np.ones(2))
    True
    >>> is_capturing()
    False
    """
    return modes.capturing


@contextmanager
def capturing() -> Iterator[None]:
    """Mark that a function is being captured in this thread, with gradients as by default.

    Yields
    ------
    None
        The block is the capture.

    Examples
    --------
    >>> from sknet.core import capturing, is_capturing
    >>> with capturing():
    ...     print(is_capturing())
    True
    """
    before = modes.grad, modes.capturing, modes.inference
    modes.grad, modes.capturing, modes.inference = True, True, False
    try:
        yield
    finally:
        modes.grad, modes.capturing, modes.inference = before


class Context(ABC):
    """A context, and a decorator that enters a context of its own for every call (threads may overlap)."""

    @abstractmethod
    def _enter(self) -> None:
        """Set what the context sets; it may be entered several times at once."""

    @abstractmethod
    def _leave(self) -> None:
        """Undo the latest `_enter`."""

    def _fresh(self) -> Self:
        """Return a context like this one."""
        return type(self)()

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def inside(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._fresh():
                return function(*args, **kwargs)

        return inside


class _GradMode(Context):
    _enabled: bool

    def __init__(self) -> None:
        self._before: list[tuple[bool, bool]] = []

    def _enter(self) -> None:
        before = modes.grad, modes.inference
        _set_grad(self._enabled)
        self._before.append(before)

    def _leave(self) -> None:
        modes.grad, modes.inference = self._before.pop()


def _set_grad(enabled: bool) -> None:
    if enabled and modes.inference:
        raise GradientError(
            "gradients are computed inside inference_mode, where nothing is recorded: use no_grad there"
        )
    modes.grad = enabled


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


class set_grad_enabled(_GradMode):
    """Record operations or not, from here on; as a context until its end, as a decorator inside the function.

    Parameters
    ----------
    mode : bool
        Whether to record.

    Raises
    ------
    GradientError
        If gradients are enabled inside of `inference_mode`.

    Examples
    --------
    >>> from sknet import Tensor, set_grad_enabled
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> is_training = False
    >>> with set_grad_enabled(is_training):
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._enabled = bool(mode)
        self._replaced: bool | None = modes.grad
        _set_grad(self._enabled)

    def _undo(self) -> None:
        """Undo, once, what the call itself has set: it was meant for a context or a function."""
        if self._replaced is not None:
            modes.grad, self._replaced = self._replaced, None

    def _enter(self) -> None:
        self._undo()
        super()._enter()

    def _fresh(self) -> Self:
        return type(self)(self._enabled)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        self._undo()
        return super().__call__(function)


class inference_mode(_GradMode):
    """Do not record operations, and let nothing inside turn recording on again.

    `enable_grad`, `set_grad_enabled` and the transforms that need the tape, such as `grad`, raise a
    GradientError in it. Otherwise it is `no_grad`, and results can be used anywhere.

    Examples
    --------
    >>> from sknet import Tensor, inference_mode
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> with inference_mode():
    ...     (x * 2).requires_grad
    False
    """

    _enabled = False

    def _enter(self) -> None:
        super()._enter()
        modes.inference = True


# -- second runs ------------------------------------------------------------------------------
#
# Layers above have state of their own that a function can reach, such as the numbers that were drawn so
# far. Each registers a source; `first_run` asks them all, so that its callers need not know them.

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
