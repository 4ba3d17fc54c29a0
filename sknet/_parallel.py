"""Parallel work: threads, their cores, the threads of BLAS, and locks and imports in forked processes.

Threads that BLAS wakes for a product of medium size wait for each other more than they multiply. Threads with
whole products of their own do not, and all that lies between two products is shared as well.
"""

import math
import os
import sys
import threading
import time
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:  # few imports: until this module has loaded, a fork does not wait for unfinished ones
    from concurrent.futures import ThreadPoolExecutor

    from sknet._native import Core

# -- forks -----------------------------------------------------------------------------------------------
# A child has no other threads, but the locks that they held. Those of sknet are renewed; a module that was
# half imported stays so, with its lock held, and whatever needs it in the child would wait forever: a fork
# waits until other threads have imported what they import for sknet.

PATIENCE = 30.0  # seconds; what another thread imports may itself wait for the one that forks
IMPORT = "<frozen importlib._bootstrap>", "_find_and_load"


def _is_of(name: object, package: str) -> bool:
    return isinstance(name, str) and (name == package or name.startswith(f"{package}."))


def _is_loading(frame: FrameType | None) -> bool:
    """Tell whether the thread whose innermost call this is imports something for sknet."""
    is_found = False
    while frame is not None:
        name, code = frame.f_globals.get("__name__"), frame.f_code
        if is_found and _is_of(name, "sknet"):
            return True
        if (code.co_filename, code.co_name) == IMPORT:
            is_found = True
            if _is_of(frame.f_locals.get("name"), "sknet"):
                return True
        frame = frame.f_back
    return False


def _wait_for_others() -> None:
    deadline, this = time.monotonic() + PATIENCE, get_ident()
    if _is_loading(sys._getframe()):
        return  # others may wait for what this thread imports
    while time.monotonic() < deadline:
        if not any(_is_loading(frame) for thread, frame in sys._current_frames().items() if thread != this):
            return
        time.sleep(0.001)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_for_others)


class Lock:
    """A lock that a thread may take several times, and that nobody holds in a forked process."""

    def __init__(self) -> None:
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        try:  # noqa: SIM105  # it takes three calls more
            self._lock.release()
        except RuntimeError:  # the thread that held it has forked, and in its child nobody holds it
            pass


_all: WeakSet[Lock] = WeakSet()


# -- caches ----------------------------------------------------------------------------------------------


class Cache:
    """Values by key, of which those used longest ago are dropped; threads may share them."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, Lock()
        self._values: dict[Hashable, Any] = {}  # the first was used longest ago

    def get(self, key: Hashable, default: Any = None) -> Any:
        with self._lock:
            if key not in self._values:
                return default
            value = self._values[key] = self._values.pop(key)
            return value

    def put(self, key: Hashable, value: Any) -> None:
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]

    def values(self) -> list[Any]:
        return list(self._values.values())

    def clear(self) -> None:
        with self._lock:
            self._values.clear()


class Pool:
    """Idle objects by key, each for one user at a time; those used longest ago are dropped."""

    def __init__(self, most: int, most_bytes: float = math.inf) -> None:
        self._most, self._most_bytes, self._lock = most, most_bytes, Lock()
        self._objects: list[tuple[Hashable, Any]] = []  # the first was used longest ago

    def clear(self) -> None:
        self._objects = []

    def take(self, key: Hashable) -> Any:
        """Return an object, which nobody else gets until it is put back; None if there is none."""
        with self._lock:
            for i in reversed(range(len(self._objects))):
                if self._objects[i][0] == key:
                    return self._objects.pop(i)[1]
        return None

    def put(self, key: Hashable, idle: Any) -> None:
        """Let others use an object, unless it is too large."""
        if self._most_bytes < math.inf and idle.nbytes > self._most_bytes:
            return
        with self._lock:
            self._objects.append((key, idle))
            del self._objects[: -self._most]


# -- cores -----------------------------------------------------------------------------------------------
# Linux may wake a thread on the core of the one that woke it although another core is idle: in virtual
# machines, idle cores look taken. Both then take turns for milliseconds, as long as most shared work.


CORES = os.cpu_count() or 1


def jobs_of(n_jobs: int | None) -> int:
    """Return the number of parallel jobs that an `n_jobs` stands for in joblib's present configuration."""
    from joblib import effective_n_jobs  # predictors do without

    if n_jobs == 0:
        raise ValueError(
            "n_jobs must be a number of jobs, a negative number (-1 for all cores, -2 for all but one) or "
            "None, got 0"
        )
    return int(effective_n_jobs(n_jobs))


@cache
def current_core() -> Callable[[], int] | None:
    """Return a function that returns the number of the current core; None where threads cannot be placed."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        import ctypes

        found: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (ImportError, OSError, AttributeError):
        return None
    return found


def _cores_and_own() -> tuple[set[int], int]:
    """Return the cores that this thread may use, and its own; no cores where threads cannot be placed."""
    current = current_core()
    try:
        return (set(), -1) if current is None else (os.sched_getaffinity(0), current())
    except OSError:  # the system does not tell
        return set(), -1


class Cores:
    """The cores that this thread may use, divided among it and others: each has some of its own."""

    def __init__(self, others: Sequence[int]) -> None:
        self._others = others
        self._all: set[int] = set()  # empty if nothing is divided
        self._here = -1

    def divide(self) -> None:
        """Give the other threads cores of their own, on which they wake then."""
        if not self._others:
            return
        every, self._here = _cores_and_own()
        free = sorted(every - {self._here})
        if not free or self._here not in every:
            return
        self._all, count = every, min(len(free), len(self._others))
        for i, thread in enumerate(self._others):
            _place(thread, set(free[i % count :: count]))

    def stay(self) -> None:
        """Keep this thread on its core. Threads that begin now would have only this core, too."""
        if self._all:
            _place(0, {self._here})

    def end(self) -> None:
        """Give all threads all cores again, if that has not been done."""
        if self._all:
            for thread in (0, *self._others):
                _place(thread, self._all)
            self._all = set()


def _place(thread: int, cores: set[int]) -> bool:
    """Let a thread run on some cores; tell whether the system allows it."""
    try:
        os.sched_setaffinity(thread, cores)
    except OSError:  # the thread has ended, or the cores have changed
        return False
    return True


# -- threads of BLAS -------------------------------------------------------------------------------------
# After a product, the threads of BLAS spin for a while. If another process or thread needs the core that one
# of them has, a product waits for the scheduler, which takes many times longer than a small product.

# OpenBLAS's names of processors for which it has kernels for small matrices, which run in one thread.
WITH_SMALL_KERNELS = frozenset({"SkylakeX", "Cooperlake", "SapphireRapids"})
SMALL = 10**6  # the most multiplications that they are used for


@cache
def libraries() -> Any:
    """Return threadpoolctl's controller, which looks for libraries once."""
    from threadpoolctl import ThreadpoolController  # scikit-learn depends on it

    return ThreadpoolController()


@cache
def architectures() -> frozenset[Any]:
    """Return the names of the processors that the kernels of BLAS are for."""
    return frozenset(each.get("architecture") for each in libraries().info() if each["user_api"] == "blas")


def small_limit() -> int:
    """Return up to how many multiplications BLAS uses kernels for small matrices; 0 if it has none."""
    return SMALL if architectures() & WITH_SMALL_KERNELS else 0


class Threads(NamedTuple):
    """Numbers of threads that some work needs."""

    blas: int | None = None
    leaves_cores: bool = False


class _Limits:
    """The limits of this process, of which the lowest holds; the last to end restores what was before."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._limits: dict[object, Threads] = {}  # by what has set them
        self._before: list[tuple[Any, int]] = []  # limited libraries, and their numbers without limits

    def begin(self, owner: object, limit: Threads) -> None:
        with self._lock:
            if not self._before:
                self._before = _numbers(of_blas()[0], 1)
            self._limits[owner] = limit
            self._apply()

    def free(self) -> int:
        """Return how many threads there may be with one of BLAS each."""
        with self._lock:
            before = dict(self._before)
            numbers = [before.get(library, _reads(library)()) for library in of_blas()[0]]
            limits = [each.blas for each in self._limits.values() if not each.leaves_cores]
            return min((count for count in (*numbers, *limits) if count is not None), default=1)

    def end(self, owner: object) -> None:
        with self._lock:
            if self._limits.pop(owner, None) is not None or not self._limits:
                self._apply()
            if not self._limits:
                self._before = []

    def _apply(self) -> None:
        limits = [each.blas for each in self._limits.values() if each.blas is not None]
        for library, before in self._before:
            _sets(library)(min([before, *limits]))

    def begin_anew(self) -> None:
        """Forget the limits of a forked process, whose other threads are gone."""
        self._limits = {}


@cache
def of_blas() -> tuple[list[Any], list[Any]]:
    """Return the libraries of BLAS that have one number of threads for all of the process, and the others."""
    found = [each for each in libraries().lib_controllers if each.user_api == "blas"]
    return [each for each in found if _is_shared(each)], [each for each in found if not _is_shared(each)]


def are_shared() -> bool:
    """Tell whether limits hold in all threads: no library has a number of its own for each."""
    return not of_blas()[1]


def free_threads() -> int:
    """Return how many threads may share work in the place of those of BLAS: as many as BLAS would use."""
    return _limits.free() if are_shared() else 1


def _numbers(found: list[Any], limit: int) -> list[tuple[Any, int]]:
    """Return libraries that use more threads than a limit, and how many; it is not known of all libraries."""
    return [
        (library, count) for library in found if (count := _reads(library)()) is not None and count > limit
    ]


def _is_shared(library: Any) -> bool:
    """Tell whether a library has one pool of threads, and one number of them, for all of the process."""
    return library.internal_api == "openblas" and getattr(library, "threading_layer", None) != "openmp"


@cache
def _own(library: Any, verb: str) -> Any:
    """Return OpenBLAS's own function for its number of threads: threadpoolctl's takes ten calls more."""
    # From 3.8 on, threadpoolctl also ignores all threads but the first one that has set a number.
    shared = getattr(library, "dynlib", None) if _is_shared(library) else None
    names = [name for name in getattr(library, "check_symbols", ()) if hasattr(shared, name)]
    return getattr(shared, names[0].replace("_get_", f"_{verb}_")) if names else None


def _reads(library: Any) -> Callable[[], int | None]:
    return _own(library, "get") or library.get_num_threads


def _sets(library: Any) -> Callable[[int], object]:
    return _own(library, "set") or library.set_num_threads


_limits = _Limits()


class BlasThreads:
    """A limit of the number of threads that BLAS uses."""

    def __init__(self) -> None:
        self._others: list[tuple[Any, int]] = []

    def begin(self, limit: int | None, leaves_cores: bool = False) -> None:
        if limit is None:
            return
        _limits.begin(self, Threads(limit, leaves_cores))
        if not (others := of_blas()[1]):
            return
        self._others = _numbers(others, limit)
        for library, _ in self._others:
            library.set_num_threads(limit)

    def end(self) -> None:
        """End the limit, if there is one: as many threads as before are used again."""
        others, self._others = self._others, []
        for library, count in others:
            library.set_num_threads(count)
        _limits.end(self)


@contextmanager
def blas_threads(limit: int | None) -> Iterator[None]:
    """Return a context in which BLAS uses at most so many threads, see `BlasThreads`."""
    held = BlasThreads()
    try:
        held.begin(limit)
        yield
    finally:
        held.end()


# -- threads ---------------------------------------------------------------------------------------------

Workspace = TypeVar("Workspace")


def new_thread(work: Callable[..., object], *args: Any, name: str, daemon: bool = False) -> threading.Thread:
    """Return a thread for a call, which has not begun."""
    return threading.Thread(target=work, args=args, name=name, daemon=daemon)


def new_pool(most: int, name: str, begin: Callable[[], object] | None = None) -> "ThreadPoolExecutor":
    """Return a pool of at most `most` threads; each calls `begin`, if given, when it starts."""
    from concurrent.futures import ThreadPoolExecutor  # small fits do without

    return ThreadPoolExecutor(most, name, begin)


class _Pool:
    """Threads that wait for work; a forked process begins without any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.begin_anew()

    def begin_anew(self) -> None:
        self.numbers: list[int] = []  # the system's, of threads
        self.placing = threading.Lock()  # held by the call that decides where they run
        self._threads: ThreadPoolExecutor | None = None

    def get(self) -> "ThreadPoolExecutor":
        with self._lock:
            if self._threads is None:
                self._threads = new_pool(CORES, "sknet", self._note)
            return self._threads

    def _note(self) -> None:
        self.numbers.append(threading.get_native_id())


_pool = _Pool()


def in_threads(work: Callable[[int, Workspace], None], count: int, workspaces: Sequence[Workspace]) -> None:
    """Call a function with each number below `count`, in as many threads as BLAS would use."""
    n_threads = free_threads()
    with blas_threads(1 if are_shared() else None):
        in_pool(work, count, workspaces[:n_threads])


def in_pool(work: Callable[[int, Workspace], None], count: int, workspaces: Sequence[Workspace]) -> None:
    """Call a function with each number below `count`, in a thread for each workspace."""
    todo = deque(range(count))
    others = [_Helper(work, todo, workspace) for workspace in workspaces[1:count]]
    with _cores_of(len(others)) as cores:
        try:
            cores.divide()
            for each in others:
                each.begin()
            cores.stay()
            _take(work, todo, workspaces[0])
        finally:
            todo.clear()
            try:
                cores.end()
            finally:
                _wait_for(others)
    for each in others:
        if each.error is not None:
            raise each.error


@contextmanager
def _cores_of(n_others: int) -> Iterator[Cores]:
    """Return a context whose value places threads, those of the first call if there are several at a time."""
    placing = _pool.placing
    if not n_others or not placing.acquire(blocking=False):
        yield Cores([])
        return
    cores = Cores(_pool.numbers[:])
    try:
        yield cores
    finally:
        cores.end()  # if Ctrl-C has cut the first off
        placing.release()


def _take(work: Callable[[int, Workspace], None], todo: deque[int], workspace: Workspace) -> None:
    while True:
        try:
            i = todo.popleft()
        except IndexError:
            return
        work(i, workspace)


class _Helper(Generic[Workspace]):
    """Another thread's part of some work; there is nothing to do any more if it begins late."""

    def __init__(
        self, work: Callable[[int, Workspace], None], todo: deque[int], workspace: Workspace
    ) -> None:
        self.busy = Lock()
        self.error: BaseException | None = None
        self._given = work, todo, workspace

    def begin(self) -> None:
        # RuntimeError: no thread can begin any more, as Python ends, or the system allows no more of them.
        with suppress(RuntimeError):
            _pool.get().submit(copy_context().run, self._run)

    def _run(self) -> None:
        with self.busy:
            try:
                _take(*self._given)
            except BaseException as error:
                self.error = error


def _wait_for(helpers: Sequence[_Helper[Any]]) -> None:
    """Return when none is at work, also on Ctrl-C, which is raised then."""
    raised = None
    for each in helpers:
        while True:
            try:
                with each.busy:
                    break
            except BaseException as error:  # a signal's; a lock raises none
                raised = error
    if raised is not None:
        raise raised


# -- shares in native code -------------------------------------------------------------------------------
# Threads that take shares of a work inside of native code look for more for a moment before they rest. They
# go from one work to the next without Python if it begins soon, see `sknet/_native/jobs.inc.c`.

MOST_HELPERS = 63  # threads besides the leader, see `crew` in sknet/_native/native.h


class Crew:
    """The threads that take shares for as long as their process lives; a forked one begins without any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._core: Core | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        self._threads: list[threading.Thread] = []
        self._cores: dict[int, set[int]] = {}  # by the system's number of a thread that has been placed
        if self._core is not None:
            self._core.crew(0, 0)

    def ready(self, core: "Core", count: int) -> None:
        """Let so many threads share work, with their leader, on cores other than its."""
        with self._lock:
            self._core = core
            while len(self._threads) < min(count - 1, MOST_HELPERS):
                # Its number is never another's, even if Ctrl-C comes while it starts.
                number = len(self._threads) + 1
                thread = new_thread(core.serve, number, name="sknet helper", daemon=True)
                self._threads.append(thread)
                try:
                    thread.start()
                except RuntimeError:  # Python ends, or the system allows no more threads
                    self._threads.remove(thread)
                    break
            core.crew(count, len(self._threads))
            if count > 1:
                every, here = _cores_and_own()
                self._place(self._threads[: count - 1], every - {here})

    def _place(self, threads: Sequence[threading.Thread], cores: set[int]) -> None:
        for number in [thread.native_id for thread in threads] if cores else ():
            if number is not None and cores != self._cores.get(number) and _place(number, cores):
                self._cores[number] = cores


_crew = Crew()


class Sharing:
    """A context in which native code shares work among as many threads as BLAS would use, which has one."""

    def __init__(self, core: "Core") -> None:
        self._core, self._held = core, BlasThreads()

    def __enter__(self) -> None:
        count = free_threads()
        try:
            self._held.begin(1, leaves_cores=True)
            _crew.ready(self._core, count)
        except BaseException:  # Ctrl-C
            self._held.end()
            raise

    def __exit__(self, *_: object) -> None:
        self._held.end()


def _begin_anew() -> None:
    """Renew locks, limits and pools in a forked process, which has none of the other threads."""
    for lock in _all:
        lock._renew()
    _limits.begin_anew()
    _pool.begin_anew()
    _crew.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
