"""Fits that take turns: one runs at a time, until all wait for steps that are made for many at once."""

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Generic, TypeVar

from sknet.engine.loop._group import WAKE, Group, current_group, grouped, inside, n_threads_for, note_which
from sknet.engine.loop._interrupt import InterruptGuard

__all__ = ["Turn", "current_turn", "run_in_turns"]

Result = TypeVar("Result")
Serve = Callable[[list[Any]], list["Turn"]]
MOST = 1024  # fits at a time, each of which has a thread


class Turn:
    """The turns of one fit, in a thread of its own."""

    def __init__(self, number: int, slots: threading.Semaphore, board: dict[Any, Any]) -> None:
        self.number, self.board = number, board
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
        """Wait for the first turn."""
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

    # -- in the thread that gives turns ---------------------------------------------------------

    def answer(self, found: Any) -> None:
        """Tell the fit what it has asked for; it goes on in its next turn."""
        self.waits, self._answer, self._is_answered = False, found, True

    def interrupt(self) -> None:
        """Let the fit end: what it waits for is an interrupt, unless it has been answered already."""
        if not self._is_answered:  # what has been done for it has to be counted
            self.answer(KeyboardInterrupt())
        self.take()

    def give_up(self) -> None:
        """Let the fit end by itself: nobody gives turns any more."""
        self._is_over = True
        if not self._is_answered:
            self.answer(KeyboardInterrupt())
        self._go.release()

    def take(self, meanwhile: Callable[[], None] | None = None) -> None:
        """Let the fit run until it asks for something, leaves or ends; call something now and then."""
        self._go.release()
        while not self._back.acquire(timeout=WAKE):  # so that a signal is seen
            if meanwhile is not None:
                meanwhile()


def current_turn() -> Turn | None:
    """Return the turns of the fit that runs in this thread; None if it takes none, or not any more."""
    group = current_group()
    turn: Turn | None = None if group is None else group.turn
    return None if turn is None or turn.has_left else turn


def run_in_turns(
    fits: Sequence[Callable[[], Result]], takes_turns: Sequence[bool], n_jobs: int | None, serve: Serve
) -> list[Result]:
    """Run fits together, some of them in turns; the next ones begin when the first `MOST` begin to end."""
    with grouped(n_threads_for(n_jobs, len(fits))) as group:
        threads = _Turns(fits, takes_turns, group, serve)
        try:
            threads.run()
        except KeyboardInterrupt:
            if not isinstance(threads.error, Exception):  # which has ended the others
                raise
    if threads.error is not None:
        raise threads.error
    if len(threads.found) < len(fits):  # a group around this one was cancelled
        raise KeyboardInterrupt
    return [threads.found[i] for i in range(len(fits))]


class _Turns(Generic[Result]):
    """The threads of such fits."""

    def __init__(
        self, fits: Sequence[Callable[[], Result]], takes_turns: Sequence[bool], group: Group, serve: Serve
    ) -> None:
        from sklearn import get_config

        self._fits, self._takes_turns, self._group, self._serve = fits, takes_turns, group, serve
        self._config = get_config()  # each thread has its own
        self._lock = threading.Lock()
        self.found: dict[int, Result] = {}
        self.error: BaseException | None = None
        slots = threading.Semaphore(group.n_threads)
        board: dict[Any, Any] = {}
        self._turns = [Turn(i, slots, board) for i in range(len(fits))]
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
                    for turn in ready:
                        guard.poll()
                        turn.take(look)
                        if not self._goes_on():
                            break
                for thread in self._threads:
                    while thread.is_alive() and self._goes_on():
                        guard.poll()
                        thread.join(WAKE)
            finally:
                self._end_all()

    def _ready(self) -> Sequence[Turn] | None:
        """Return the turns of fits that can go on; None if no fit takes turns any more."""
        begun = self._begun()
        if begun:
            return begun
        waiting = [turn for turn in self._turns if turn.waits]
        if waiting:
            return self._serve(waiting)
        if len(self._threads) == len(self._turns):
            return None
        time.sleep(WAKE)  # all threads have fits that take no turns any more
        return []

    def _goes_on(self) -> bool:
        return self.error is None and not self._group.is_cancelled

    def _begun(self) -> list[Turn]:
        """Begin more fits, if there may be more threads; return their turns."""
        started = len(self._threads)
        running = sum(not turn.has_ended for turn in self._turns[:started])
        for turn in self._turns[started : started + self._most - running]:
            work = copy_context().run
            thread = threading.Thread(target=work, args=(self._work, turn), name=f"sknet-fit-{turn.number}")
            try:
                thread.start()
            except RuntimeError:  # the system has no more threads: those that are there go on without it
                if not running:
                    raise
                self._most = running
                break
            self._threads.append(thread)
            running += 1
        return self._turns[started : len(self._threads)]

    def _end_all(self) -> None:
        """Let fits end that have not: what they do next raises KeyboardInterrupt."""
        try:
            if len(self.found) < len(self._fits):
                self._group.cancel()
            for turn, _ in zip(self._turns, self._threads, strict=False):
                while not (turn.has_ended or turn.has_left):
                    turn.interrupt()
            for thread in self._threads:
                thread.join()
        except BaseException:  # Ctrl-C again, while a callback takes its time: its thread may not wait for us
            self._group.cancel()
            for turn in self._turns:
                turn.give_up()
            raise

    def _work(self, turn: Turn) -> None:
        from sklearn import config_context

        turn.begin()
        group = Group(1, self._group)
        group.turn = turn
        try:
            with config_context(**self._config), inside(group):
                self._fit(turn)
        finally:
            turn.end()

    def _fit(self, turn: Turn) -> None:
        number = turn.number
        if not self._takes_turns[number]:
            turn.leave()
        if self._group.is_cancelled:
            return
        try:
            with note_which(number, len(self._fits)):
                found = self._fits[number]()
        except BaseException as error:
            with self._lock:
                # The first is the cause; those after it say that the group is cancelled.
                self.error = error if self.error is None else self.error
            self._group.cancel()
            return
        with self._lock:
            self.found[number] = found
