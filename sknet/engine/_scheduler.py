"""Scheduling of fits that run together: threads, fibers, and interrupts."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from types import FrameType, TracebackType
from typing import Any, Generic, Self, TypeVar

from sknet._parallel import Pool, blas_threads, jobs_of, new_thread

Result = TypeVar("Result")
MOST_IDLE = 32  # steps, each with memory of its own
WAKE = 0.05  # seconds; a signal that reaches another thread does not wake the one that waits


class Group:
    """Fits that run together."""

    def __init__(self, n_threads: int, outer: "Group | None" = None) -> None:
        self.n_threads, self._outer = n_threads, outer
        self._ends = False
        self.fiber: Any = None
        self.idle: Pool = Pool(MOST_IDLE) if outer is None else outer.idle

    @property
    def is_parallel(self) -> bool:
        """True if this group, or one around it, has several threads."""
        return self.n_threads > 1 or (self._outer is not None and self._outer.is_parallel)

    @property
    def is_cancelled(self) -> bool:
        """True if all fits have to end after the current block of steps."""
        return self._ends or (self._outer is not None and self._outer.is_cancelled)

    def cancel(self) -> None:
        """Let all fits end after the current block of steps."""
        self._ends = True


_current: ContextVar[Group | None] = ContextVar("group", default=None)


def current_group() -> Group | None:
    return _current.get()


def n_threads_for(n_jobs: int | None, n_fits: int) -> int:
    """Return the number of threads for some fits; one inside of work that is parallel already."""
    from joblib.parallel import get_active_backend  # predictors do without

    group = current_group()
    if (group is not None and group.is_parallel) or get_active_backend()[0].nesting_level:
        return 1
    return max(1, min(jobs_of(-1 if n_jobs is None else n_jobs), n_fits))


@contextmanager
def grouped(n_threads: int) -> Iterator[Group]:
    """Return a context in which fits are those of one group, in threads that run copies of it."""
    group = Group(n_threads, current_group())
    with inside(group), blas_threads(max(1, jobs_of(-1) // n_threads) if n_threads > 1 else None):
        yield group


@contextmanager
def inside(group: Group) -> Iterator[None]:
    token = _current.set(group)
    try:
        yield
    finally:
        _current.reset(token)


def note_which(number: int, count: int) -> AbstractContextManager[None]:
    """Return a context whose errors say which of several fits they belong to."""
    return _noting(f"in fit {number} of {count}, counted from 0" if count > 1 else None)


@contextmanager
def _noting(note: str | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if note is not None:
            error.add_note(note)
        raise


def run_in_threads(
    fits: Sequence[Callable[[], Result]], n_jobs: int | None = None, notes: Sequence[str] | None = None
) -> list[Result]:
    """Run fits together, in threads of this process, whatever joblib's backend is."""
    n_threads, count = n_threads_for(n_jobs, len(fits)), len(fits)
    named = [note_which(i, count) if notes is None else _noting(notes[i]) for i in range(count)]
    whole = [_within(each, fit) for each, fit in zip(named, fits, strict=True)]
    with grouped(n_threads) as group:
        return [fit() for fit in whole] if n_threads == 1 else _in_threads(whole, group)


def _within(context: AbstractContextManager[None], fit: Callable[[], Result]) -> Callable[[], Result]:
    def run() -> Result:
        with context:
            return fit()

    return run


def _in_threads(fits: Sequence[Callable[[], Result]], group: Group) -> list[Result]:
    threads = _Threads(fits, group)
    threads.run(group.n_threads)
    return threads.results()


class _Fits(Generic[Result]):
    """Fits of a group, each in some thread, with their results."""

    def __init__(self, fits: Sequence[Callable[[], Result]], group: Group) -> None:
        from joblib.parallel import get_active_backend
        from sklearn import get_config

        self._fits, self._group, self._lock = fits, group, threading.Lock()
        self._found: dict[int, Result] = {}
        self.error: BaseException | None = None
        # Each thread has its own.
        self._config, self._backend = get_config(), get_active_backend(prefer="threads")[0]

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Return a context with scikit-learn's settings, and joblib's backend inside of parallel work."""
        from joblib import parallel_config
        from sklearn import config_context

        nested, _ = self._backend.get_nested_backend()
        with (
            config_context(**self._config),
            parallel_config(nested) if self._group.is_parallel else nullcontext(),
        ):
            yield

    @property
    def is_done(self) -> bool:
        return len(self._found) == len(self._fits)

    def results(self) -> list[Result]:
        if self.error is not None:
            raise self.error
        if not self.is_done:  # a group around this one was cancelled
            raise KeyboardInterrupt
        return [self._found[i] for i in range(len(self._fits))]

    def _run_fit(self, number: int) -> bool:
        """Run a fit; tell whether it has a result."""
        try:
            found = self._fits[number]()
        except BaseException as error:
            with self._lock:
                # The first is the cause; those after it say that the group is cancelled.
                self.error = error if self.error is None else self.error
            self._group.cancel()
            return False
        with self._lock:
            self._found[number] = found
        return True


class _Threads(_Fits[Result]):
    """Threads that take one fit after the other, until all are done or one has failed."""

    def __init__(self, fits: Sequence[Callable[[], Result]], group: Group) -> None:
        super().__init__(fits, group)
        self._next = iter(range(len(fits)))
        self._go, self._ended = threading.Event(), threading.Event()

    def run(self, count: int) -> None:
        """Run all fits in `count` threads, none of which is left when this returns or raises."""
        threads = [new_thread(copy_context().run, self._work, name=f"sknet-fit-{i}") for i in range(count)]
        try:
            # None begins before all have been started, which Ctrl-C may prevent.
            for thread in threads:
                thread.start()
            self._go.set()
            while not self._ended.wait(WAKE) and any(thread.is_alive() for thread in threads):
                pass
        finally:
            if not self.is_done:
                self._group.cancel()
            self._go.set()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    def _work(self) -> None:
        self._go.wait()
        with self._settings():
            while not self._group.is_cancelled and self._fit_next():
                pass

    def _fit_next(self) -> bool:
        """Run the next fit; return whether there was one."""
        with self._lock:
            number = next(self._next, None)
        has_result = number is not None and self._run_fit(number)
        if self.is_done or self.error is not None:
            self._ended.set()
        return has_result


# What `signal` consists of, without its conversion to enumerations, which takes longer.
try:
    import _signal  # type: ignore[import-not-found]
except ImportError:  # not CPython
    import signal as _signal

SIGINT = int(signal.SIGINT)


class InterruptGuard:
    """A context manager that defers Ctrl-C, so that no update is cut in half."""

    is_urgent = is_pending = False
    _before: Any = None

    def __enter__(self) -> Self:
        self.is_urgent = self.is_pending = False
        handles = threading.get_ident() == threading.main_thread().ident
        if handles and _signal.getsignal(SIGINT) is signal.default_int_handler:
            self._before = _signal.signal(SIGINT, self._hold)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        before, self._before = self._before, None
        if before is not None:
            _signal.signal(SIGINT, before)
        if kind is None:
            self.poll()

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self.is_pending:
            self.is_urgent = True
            raise KeyboardInterrupt
        self.is_pending = True

    def poll(self) -> None:
        """Raise KeyboardInterrupt if Ctrl-C was pressed since the last call, or the group is cancelled."""
        group = _current.get()
        if group is not None and group.is_cancelled:
            raise KeyboardInterrupt
        if self.is_pending:
            self.is_pending = False
            raise KeyboardInterrupt


def raise_if_cancelled() -> None:
    """Raise KeyboardInterrupt if the group of the fit that runs in this thread is cancelled."""
    group = current_group()
    if group is not None and group.is_cancelled:
        raise KeyboardInterrupt


Serve = Callable[[list[Any]], list["Fiber"]]
MOST = 1024  # fits at a time, each of which has a thread


class Fiber:
    """A fit in a thread of its own that runs by itself until it waits for steps made for many fits."""

    def __init__(self, number: int, slots: threading.Semaphore, shared: dict[Any, Any]) -> None:
        self.number, self.shared = number, shared
        self.asked: Any = None
        self.steps: Any = None
        self.at_end: list[Callable[[], None]] = []
        self.has_left = self.has_ended = self.waits = self._is_answered = False
        self._slots, self._is_over = slots, False
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._answer: Any = None

    # -- in the fit's thread --------------------------------------------------------------------

    def wait(self, asked: Any) -> Any:
        """Let the others run, until what is asked for is there; return it, or raise the error that it is."""
        if self._is_over:
            raise KeyboardInterrupt
        self.asked, self.waits = asked, True
        self._back.release()
        self._go.acquire()
        answer, self._answer, self._is_answered = self._answer, None, False
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def leave(self) -> None:
        """Run beside the others from now on, as soon as there is a thread for that."""
        if not self.has_left:
            self.has_left = True
            self._back.release()
            self._slots.acquire()

    def begin(self) -> None:
        """Wait until the fit is resumed for the first time."""
        self._go.acquire()

    def end(self) -> None:
        """Let the others run; there is nothing left to do."""
        try:
            for each in self.at_end:
                each()
        finally:
            self.asked, self.has_ended = None, True
            self.at_end.clear()  # what refers to this must not be kept by it
            (self._slots if self.has_left else self._back).release()

    # -- in the thread that resumes fits --------------------------------------------------------

    def answer(self, found: Any) -> None:
        """Set what the fit has asked for; it goes on when it is resumed."""
        self.waits, self._answer, self._is_answered = False, found, True

    def interrupt(self) -> None:
        """Let the fit end: what it waits for is an interrupt, unless it has been answered already."""
        if not self._is_answered:  # what has been done for it has to be counted
            self.answer(KeyboardInterrupt())
        self.resume()

    def give_up(self) -> None:
        """Let the fit end by itself: nobody resumes it any more."""
        self._is_over = True
        if not self._is_answered:
            self.answer(KeyboardInterrupt())
        self._go.release()

    def resume(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Let the fit run until it asks for something, leaves or ends; call something now and then."""
        self._go.release()
        while not self._back.acquire(timeout=WAKE):  # so that a signal is seen
            if meanwhile is not None:
                meanwhile()


def current_fiber() -> Fiber | None:
    """Return the fiber of the fit that runs in this thread; None if there is none, or it has left."""
    group = current_group()
    fiber: Fiber | None = None if group is None else group.fiber
    return None if fiber is None or fiber.has_left else fiber


def run_in_fibers(
    fits: Sequence[Callable[[], Result]], is_cooperative: Sequence[bool], n_jobs: int | None, serve: Serve
) -> list[Result]:
    """Run fits together, some of them as fibers; the next ones begin when the first `MOST` begin to end."""
    with grouped(n_threads_for(n_jobs, len(fits))) as group:
        threads = _Fibers(fits, is_cooperative, group, serve)
        try:
            threads.run()
        except KeyboardInterrupt:
            if not isinstance(threads.error, Exception):  # which has ended the others
                raise
    return threads.results()


class _Fibers(_Fits[Result]):
    """The fibers of fits, and the thread that resumes them."""

    def __init__(
        self, fits: Sequence[Callable[[], Result]], is_cooperative: Sequence[bool], group: Group, serve: Serve
    ) -> None:
        super().__init__([_within(note_which(i, len(fits)), fit) for i, fit in enumerate(fits)], group)
        self._is_cooperative, self._serve = is_cooperative, serve
        slots = threading.Semaphore(group.n_threads)
        shared: dict[Any, Any] = {}
        self._fibers = [Fiber(i, slots, shared) for i in range(len(fits))]
        self._threads: list[threading.Thread] = []
        self._most = MOST

    def run(self) -> None:
        """Run all fits; no thread is left when this returns or raises, unless Ctrl-C is pressed meanwhile."""
        with InterruptGuard() as guard:

            def look() -> None:
                if guard.is_pending:  # the fit may wait for a device
                    self._group.cancel()

            try:
                while self._goes_on() and (ready := self._ready()) is not None:
                    guard.poll()
                    for fiber in ready:
                        guard.poll()
                        fiber.resume(look)
                        if not self._goes_on():
                            break
                for thread in self._threads:
                    while thread.is_alive() and self._goes_on():
                        guard.poll()
                        thread.join(WAKE)
            finally:
                self._end_all()

    def _ready(self) -> Sequence[Fiber] | None:
        """Return the fibers that can go on; None if all have left or ended."""
        begun = self._begun()
        if begun:
            return begun
        waiting = [fiber for fiber in self._fibers if fiber.waits]
        if waiting:
            return self._serve(waiting)
        if len(self._threads) == len(self._fibers):
            return None
        time.sleep(WAKE)  # all threads have fits that have left
        return []

    def _goes_on(self) -> bool:
        return self.error is None and not self._group.is_cancelled

    def _begun(self) -> list[Fiber]:
        """Begin more fits, if there may be more threads; return their fibers."""
        started = len(self._threads)
        running = sum(not fiber.has_ended for fiber in self._fibers[:started])
        for fiber in self._fibers[started : started + self._most - running]:
            thread = new_thread(copy_context().run, self._work, fiber, name=f"sknet-fit-{fiber.number}")
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: those that are there go on without it
                if not running:
                    raise
                self._most = running
                break
            self._threads.append(thread)
            running += 1
        return self._fibers[started : len(self._threads)]

    def _end_all(self) -> None:
        """Let fits end that have not: what they do next raises KeyboardInterrupt."""
        try:
            if not self.is_done:
                self._group.cancel()
            for fiber, _ in zip(self._fibers, self._threads, strict=False):
                while not (fiber.has_ended or fiber.has_left):
                    fiber.interrupt()
            for fiber in self._fibers[len(self._threads) :]:
                fiber.give_up()  # Ctrl-C may have come between the start of its thread and the note of it
            for thread in self._threads:
                thread.join()
        except BaseException:  # Ctrl-C again, while a callback takes its time: its thread may not wait for us
            self._group.cancel()
            for fiber in self._fibers:
                fiber.give_up()
            raise

    def _work(self, fiber: Fiber) -> None:
        fiber.begin()
        group = Group(1, self._group)
        group.fiber = fiber
        try:
            with self._settings(), inside(group):
                if not self._is_cooperative[fiber.number]:
                    fiber.leave()
                if not self._group.is_cancelled:
                    self._run_fit(fiber.number)
        finally:
            fiber.end()
