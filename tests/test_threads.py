"""Threads: work that they share, limits of BLAS during fits, cores that they run on, locks and forks."""

import ast
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from contextvars import ContextVar
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from threadpoolctl import threadpool_limits

from sknet import Model, _parallel, config_context, nn
from sknet._parallel import (
    BlasThreads,
    Cores,
    Lock,
    blas_threads,
    free_threads,
    in_threads,
    jobs_of,
    libraries,
)
from sknet.callbacks import Callback, Checkpoint
from sknet.engine._scheduler import grouped
from tests.project import module_name, source_files
from tests.threads import run_in_threads

BLAS = [library for library in libraries().lib_controllers if library.user_api == "blas"]


def counts():
    return {library.get_num_threads() for library in BLAS}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"):
        if free_threads() != 2:
            pytest.skip("BLAS has one thread here")
        yield
        assert counts() == {2}


def wait_for_both():
    """Return work that ends only if two threads do it."""
    barrier = threading.Barrier(2, timeout=20)
    return lambda i, room: barrier.wait()


def test_every_call_is_made_once_with_a_room_of_its_own():
    done, busy, lock = [], set(), threading.Lock()

    def work(i, room):
        with lock:
            assert room not in busy
            busy.add(room)
        time.sleep(0.001)
        with lock:
            busy.remove(room)
            done.append(i)

    in_threads(work, 30, ["first", "second", "third"])
    assert sorted(done) == list(range(30))


def test_two_threads_work_at_the_same_time():
    in_threads(wait_for_both(), 2, [0, 1])


@pytest.mark.parametrize(("count", "rooms"), [(0, [0, 1]), (1, [0, 1]), (5, [0])])
def test_no_more_threads_than_calls_or_rooms(count, rooms):
    callers = []
    in_threads(lambda i, room: callers.append(threading.get_ident()), count, rooms)
    assert callers == [threading.get_ident()] * count


def test_blas_has_one_thread_meanwhile():
    found = set()
    in_threads(lambda i, room: found.update(library.get_num_threads() for library in BLAS), 4, [0, 1])
    assert found == {1}
    assert counts() == {2}


def test_a_limit_of_blas_is_one_of_threads():
    with blas_threads(1):
        assert free_threads() == 1
        with blas_threads(2):
            assert free_threads() == 1
    assert free_threads() == 2


def test_a_limit_may_leave_cores_to_threads():
    limit = BlasThreads()
    limit.begin(1, leaves_cores=True)
    try:
        assert counts() == {1}
        in_threads(wait_for_both(), 2, [0, 1])
        with blas_threads(1):
            assert free_threads() == 1
    finally:
        limit.end()


@pytest.mark.parametrize("where", ["here", "there"])
def test_after_an_error_nothing_runs_and_the_next_call_works(where):
    running, own = [], threading.get_ident()
    barrier = threading.Barrier(2, timeout=20)

    def fail(i, room):
        barrier.wait()
        if (threading.get_ident() == own) == (where == "here"):
            raise ValueError(f"in call {i}")
        running.append(i)
        time.sleep(0.05)
        running.remove(i)

    with pytest.raises(ValueError, match="in call"):
        in_threads(fail, 2, [0, 1])
    assert not running
    in_threads(wait_for_both(), 2, [0, 1])
    assert counts() == {2}


def test_work_sees_the_context_of_its_caller():
    variable, found = ContextVar("variable", default="unset"), []
    variable.set("set")
    both = wait_for_both()
    in_threads(lambda i, room: found.append((both(i, room), variable.get())[1]), 2, [0, 1])
    assert found == ["set", "set"]


def test_several_callers_at_once():
    totals = [0] * 6

    def add(k):
        def work(i, room):
            room.append(i)
            totals[k] += room[-1]

        in_threads(work, 200, [[]])

    run_in_threads(add, [(k,) for k in range(6)])
    assert totals == [sum(range(200))] * 6
    assert counts() == {2}


def of_a_fork(_):
    callers = set()
    barrier = threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        callers.add(threading.get_ident())

    in_threads(work, 2, [0, 1])
    return len(callers)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    in_threads(wait_for_both(), 2, [0, 1])
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(of_a_fork, (0,)).get(60) == 2


@pytest.fixture
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="only POSIX has signals for one thread")
@pytest.mark.usefixtures("pythons_own_handler")
def test_ctrl_c_while_another_thread_works_waits_for_its_end():
    own, running, limits = threading.get_ident(), [], []
    barrier = threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        if threading.get_ident() != own:
            running.append(i)
            for _ in range(2):
                time.sleep(0.1)
                signal.pthread_kill(own, signal.SIGINT)
            time.sleep(0.1)
            limits.extend(library.get_num_threads() for library in BLAS)
            running.remove(i)

    with pytest.raises(KeyboardInterrupt):
        in_threads(work, 2, [0, 1])
    assert not running
    assert set(limits) == {1}
    assert counts() == {2}


AT_THE_END = """
import atexit, threading
import numpy
from threadpoolctl import threadpool_limits
from sknet._parallel import free_threads
from sknet._parallel import in_threads

threadpool_limits(2, "blas")
done = []

def work():
    threading.main_thread().join()
    in_threads(lambda i, room: done.append(i), 4, [0, 1])

in_threads(lambda i, room: None, 4, [0, 1])
assert free_threads() == 2
threading.Thread(target=work).start()
atexit.register(lambda: print(sorted(done)))
atexit.register(in_threads, lambda i, room: done.append(10 + i), 2, [0, 1])
"""


def test_work_goes_on_while_python_ends():
    ran = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[0, 1, 2, 3, 10, 11]\n", "")


placed_threads = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="threads cannot be placed here"
)


@pytest.fixture
def waiting():
    """Return the number of another thread, which does nothing."""
    known, done, found = threading.Event(), threading.Event(), []

    def wait():
        found.append(threading.get_native_id())
        known.set()
        done.wait(20)

    thread = threading.Thread(target=wait)
    thread.start()
    known.wait(20)
    yield found[0]
    done.set()
    thread.join()


@pytest.fixture
def every():
    found = os.sched_getaffinity(0)
    if len(found) < 2:
        pytest.skip("there is one core here")
    yield found
    assert os.sched_getaffinity(0) == found


@placed_threads
def test_cores_are_divided_and_given_back(every, waiting):
    cores = Cores([waiting])
    cores.divide()
    assert os.sched_getaffinity(0) == every  # so that a thread that begins now has all of them
    cores.stay()
    mine, others = os.sched_getaffinity(0), os.sched_getaffinity(waiting)
    assert len(mine) == 1
    assert others == every - mine
    cores.end()
    assert os.sched_getaffinity(0) == os.sched_getaffinity(waiting) == every


@placed_threads
def test_several_threads_have_different_cores(monkeypatch):
    placed = {}
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {0, 1, 2, 3, 5})
    monkeypatch.setattr(os, "sched_setaffinity", placed.__setitem__)
    monkeypatch.setattr(_parallel, "current_core", lambda: lambda: 2)
    for count, expected in [
        (1, [{0, 1, 3, 5}]),
        (3, [{0, 5}, {1}, {3}]),
        (5, [{0}, {1}, {3}, {5}, {0}]),
    ]:
        cores = Cores(range(10, 10 + count))
        cores.divide()
        cores.stay()
        assert placed == dict(enumerate(expected, 10)) | {0: {2}}
        cores.end()
        assert set(map(frozenset, placed.values())) == {frozenset({0, 1, 2, 3, 5})}
        placed.clear()


@placed_threads
@pytest.mark.parametrize("limit", [1, 2])
def test_nothing_is_divided_among_fewer_cores(every, waiting, limit):
    os.sched_setaffinity(0, sorted(every)[:1])
    try:
        cores = Cores([waiting] * (limit - 1))
        cores.divide()
        cores.stay()
        assert len(os.sched_getaffinity(0)) == 1
        assert os.sched_getaffinity(waiting) == every
        cores.end()
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, every)


@placed_threads
def test_a_thread_that_has_ended_is_left_alone(every):
    thread = threading.Thread(target=lambda: None)
    thread.start()
    number = thread.native_id
    thread.join()
    cores = Cores([number])
    cores.divide()
    cores.stay()
    cores.end()


@placed_threads
def test_threads_that_share_work_run_on_different_cores(every):
    found, barrier = {}, threading.Barrier(2, timeout=20)

    def work(i, room):
        barrier.wait()
        found[threading.get_native_id()] = os.sched_getaffinity(0)
        barrier.wait()

    in_threads(work, 2, [0, 1])  # now there is another thread
    found.clear()
    in_threads(work, 2, [0, 1])
    first, second = found.values()
    assert not first & second
    assert first | second == every
    assert all(os.sched_getaffinity(thread) == every for thread in found)


@placed_threads
def test_an_error_gives_cores_back(every):
    def fail(i, room):
        raise RuntimeError("of a call")

    with pytest.raises(RuntimeError, match="of a call"):
        in_threads(fail, 2, [0, 1])


RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=(300, 8)).astype("f4"), np.arange(300) % 3


class Counts(Callback):
    def on_epoch_end(self, fit):
        self.found_ = counts()


def model_of(*layers, **options):
    return Model(nn.Sequential(*layers), "log_loss", **{"random_state": 0, **options})


def small(**options):
    return model_of(nn.Linear(8, 200), nn.ReLU(), nn.Linear(200, 3), **options)


@pytest.mark.parametrize("compile", ["auto", True])
def test_small_products_have_one_thread(compile):
    callback = Counts()
    small(compile=compile).fit(X, LABELS, epochs=2, callbacks=[callback])
    assert callback.found_ == {1}


def test_a_stack_of_matrices_times_one_is_one_product():
    callback = Counts()
    layers = nn.Unflatten(-1, (8, 1)), nn.Linear(1, 100), nn.Linear(100, 2), nn.Flatten(), nn.Linear(16, 3)
    model_of(*layers).fit(X, LABELS, epochs=1, batch_size=200, callbacks=[callback])
    assert callback.found_ == {1}


@pytest.mark.parametrize(
    ("layers", "batch_size"),
    [
        ((nn.Linear(8, 2000), nn.Linear(2000, 3)), 300),
        ((nn.Linear(8, 5), nn.Linear(5, 3)), 300),  # tiny
        ((nn.Unflatten(-1, (1, 2, 4)), nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(16, 3)), 30),
    ],
)
def test_others_have_all(layers, batch_size):
    callback = Counts()
    model_of(*layers).fit(X, LABELS, epochs=1, batch_size=batch_size, callbacks=[callback])
    assert callback.found_ == {2}


class Free(Callback):
    """Notes how many threads may share work, and how many BLAS has."""

    def __init__(self):
        self.found_ = set()

    def on_epoch_end(self, fit):
        self.found_.add((free_threads(), *counts()))


@pytest.mark.parametrize(("width", "expected"), [(2000, (2, 1)), (5, (2, 2))])
def test_native_steps_share_products_in_threads_of_their_own(width, expected):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    callback = Free()
    with config_context(native="always"):
        layers = nn.Linear(8, width), nn.Linear(width, 3)
        model_of(*layers).fit(X, LABELS, epochs=1, batch_size=300, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize(("width", "expected"), [(3, (2, 1)), (4000, (2, 2))])
def test_convolutions_have_threads_of_their_own(width, expected, kernel):
    """Unless most of the work is in other products, whose threads spin afterwards."""
    images = RNG.normal(size=(64, 32 * 14 * 14)).astype("f4")
    convolution = nn.Conv2d(32, 32, kernel, padding=kernel // 2)
    layers = nn.Unflatten(-1, (32, 14, 14)), convolution, nn.Flatten(), nn.Linear(32 * 14 * 14, width)
    callback = Free()
    model_of(*layers, nn.Linear(width, 3)).fit(images, LABELS[:64], epochs=1, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


@pytest.mark.slow
@pytest.mark.parametrize(("layer", "expected"), [(nn.LSTM, (2, 1)), (nn.GRU, (2, 2))])
def test_recurrent_networks_have_threads_of_their_own_if_native_code_makes_all_steps(layer, expected):
    pytest.importorskip("sknet._native._core", reason="native code was not built")
    sequences = RNG.normal(size=(64, 40, 32)).astype("f4")
    callback = Free()
    layers = layer(32, 128, returns="last"), nn.Linear(128, 3)
    model_of(*layers).fit(sequences, LABELS[:64], epochs=1, callbacks=[callback])
    assert callback.found_ == {expected}
    assert counts() == {2}


def test_eager_steps_have_all():
    callback = Counts()
    small(compile=False).fit(X, LABELS, epochs=1, callbacks=[callback])
    assert callback.found_ == {2}


class Fails(Callback):
    def on_epoch_end(self, fit):
        raise RuntimeError("in a callback")


def test_an_error_ends_the_limit():
    with pytest.raises(RuntimeError, match="in a callback"):
        small().fit(X, LABELS, callbacks=[Fails()])
    assert counts() == {2}


def test_what_is_set_before_is_the_most():
    callback = Counts()
    with threadpool_limits(1, "blas"):
        with blas_threads(2):
            assert counts() == {1}
        small().fit(X, LABELS, epochs=1, callbacks=[callback])
        assert callback.found_ == counts() == {1}


@pytest.mark.parametrize("outer_ends_first", [True, False])
@pytest.mark.parametrize("inner", [lambda: blas_threads(1), lambda: grouped(2)])
def test_the_last_of_overlapping_limits_restores(inner, outer_ends_first):
    begun, may_end = threading.Event(), threading.Event()

    def other():
        with inner():
            begun.set()
            may_end.wait(10)

    thread = threading.Thread(target=other)
    with ExitStack() as outer:
        outer.enter_context(blas_threads(1))
        thread.start()
        begun.wait(10)
        if outer_ends_first:
            outer.close()
            assert counts() == {1}
        may_end.set()
        thread.join()
        assert counts() == ({2} if outer_ends_first else {1})


def fit_of_a_fork(_):
    callback = Counts()
    small().fit(X, LABELS, epochs=1, callbacks=[callback])
    return callback.found_, counts()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.parametrize("limit", [1, None])
def test_a_fit_in_a_forked_process_undoes_the_limits_of_its_parent(limit):
    with blas_threads(limit), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(fit_of_a_fork, (0,)).get(60) == ({1}, {2})


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_keeps_the_limits_of_its_user():
    small().fit(X, LABELS, epochs=1)
    with threadpool_limits(1, "blas"), multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(counts).get(60) == {1}


def test_the_limit_is_the_same_when_a_fit_goes_on(tmp_path):
    """A checkpoint records the number of threads, and resuming warns of another one."""
    whole, half = small(), small()
    whole.fit(X, LABELS, epochs=4)
    path = tmp_path / "fit.ckpt"
    half.fit(X, LABELS, epochs=2, callbacks=[Checkpoint(path)])
    again = small()
    again.fit(X, LABELS, epochs=4, callbacks=[Checkpoint(path)], resume_from=path)
    assert again.weights().flat.tobytes() == whole.weights().flat.tobytes()


class Library:
    """A library, as threadpoolctl describes it."""

    user_api, internal_api, threading_layer = "blas", "openblas", "pthreads"

    def __init__(self, count=2):
        self.count = count

    def get_num_threads(self):
        return self.count

    def set_num_threads(self, count):
        self.count = count


class OfOpenMP(Library):
    """A library that has a number of threads for each thread that calls it."""

    threading_layer = "openmp"

    def __init__(self):
        self.of_thread = threading.local()

    def get_num_threads(self):
        return getattr(self.of_thread, "count", 2)

    def set_num_threads(self, count):
        self.of_thread.count = count


class Interrupted(Library):
    """A library that Ctrl-C is pressed in when it is called for a certain time."""

    def __init__(self, when):
        super().__init__()
        self.left = when

    def set_num_threads(self, count):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        super().set_num_threads(count)


@pytest.fixture
def only(monkeypatch):
    """Let there be one library."""

    def let(library):
        found = SimpleNamespace(lib_controllers=[library])
        monkeypatch.setattr(_parallel, "libraries", lambda: found)
        _parallel.of_blas.cache_clear()
        return library

    yield let
    _parallel.of_blas.cache_clear()


def test_numbers_of_openmp_are_those_of_a_thread(only):
    library, found = only(OfOpenMP()), []

    def other():
        with blas_threads(1):
            found.append(library.get_num_threads())
        found.append(library.get_num_threads())

    with blas_threads(1):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert library.get_num_threads() == 1
    assert found == [1, 2]
    assert library.get_num_threads() == 2


def test_where_limits_do_not_hold_in_all_threads_convolutions_are_left_to_blas(only):
    """It would have a single thread otherwise, and there would be no others either."""
    library, found = only(OfOpenMP()), []
    in_threads(lambda i, room: found.append((i, room, library.get_num_threads())), 3, ["first", "second"])
    assert found == [(i, "first", 2) for i in range(3)]

    class Counted(Callback):
        def on_epoch_end(self, fit):
            found.append(library.get_num_threads())

    images = RNG.normal(size=(64, 32 * 14 * 14)).astype("f4")
    layers = nn.Unflatten(-1, (32, 14, 14)), nn.Conv2d(32, 32, 5, padding=2), nn.Flatten()
    model_of(*layers, nn.Linear(32 * 14 * 14, 3)).fit(images, LABELS[:64], epochs=1, callbacks=[Counted()])
    assert found[3:] == [2]


@pytest.mark.parametrize("when", [1, 2])
def test_what_ctrl_c_cuts_off_is_done_after_the_next_fit(only, when):
    library = only(Interrupted(when))
    with pytest.raises(KeyboardInterrupt), blas_threads(1):
        pass
    small().fit(X, LABELS, epochs=1)
    assert library.count == 2


def test_a_library_whose_number_is_unknown_is_left_alone(only):
    library = only(Library(None))
    small().fit(X, LABELS, epochs=1)
    assert library.count is None


SECONDS = 20.0


def exit_status(child):
    """Return the exit status of a process, which is killed if it does not end."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def test_jobs_are_those_of_the_present_configuration():
    for n_jobs in (1, 3, 2):
        with parallel_config("threading", n_jobs=n_jobs):
            assert jobs_of(None) == n_jobs
        with parallel_config("sequential"):
            assert jobs_of(2) == 1
        assert jobs_of(2) == 2


class TestLocks:
    """Locks in forked processes, and that no other locks guard what a process shares."""

    @pytest.fixture(autouse=True)
    def two_threads(self):
        """Need no BLAS."""

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
    @pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
    def test_a_forked_process_finds_free_what_another_thread_holds(self):
        lock, held, done = Lock(), threading.Event(), threading.Event()

        def hold():
            with lock:
                held.set()
                done.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            held.wait()
            child = os.fork()
            if not child:
                with lock:
                    os._exit(0)
            assert exit_status(child) == 0
        finally:
            done.set()
            thread.join()

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
    def test_a_thread_that_forks_while_it_holds_a_lock_ends_that_in_the_child_too(self):
        lock, other = Lock(), []
        with lock:
            child = os.fork()
            if not child:
                thread = threading.Thread(target=lambda: lock.__enter__() or other.append(1))
                thread.start()
                thread.join()
        if not child:
            os._exit(other != [1])
        assert exit_status(child) == 0

    def test_a_thread_may_take_a_lock_several_times_and_others_wait(self):
        lock, found = Lock(), []

        def note():
            with lock:
                found.append("other thread")

        with lock, lock:
            thread = threading.Thread(target=note)
            thread.start()
            thread.join(0.05)
            found.append("this thread")
        thread.join()
        assert found == ["this thread", "other thread"]

    @pytest.mark.slow
    def test_locks_of_a_process_are_of_this_kind(self):
        """A forked process would wait forever for any other that a thread held."""
        found = []
        for path in source_files("sknet"):
            if module_name(path) == "sknet._parallel":
                continue
            for statement in ast.parse(path.read_text()).body:
                # What a module makes when it is imported; a fit makes its own.
                if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                    text = ast.unparse(statement)
                    if any(f"threading.{kind}(" in text for kind in ("Lock", "RLock", "Condition")):
                        found.append(f"{module_name(path)}: {text}")
        assert not found, f"take sknet._parallel.Lock: {found}"

    def test_threads_start_in_one_module_which_alone_counts_cores_and_limits_blas(self):
        """So that all of them have one way to begin, end and fork."""
        calls = "threading.Thread(", "Thread(", "ThreadPoolExecutor(", "os.cpu_count(", "os.sched_"
        found = []
        for path in source_files("sknet"):
            for node in ast.walk(ast.parse(path.read_text())):
                text = f"{ast.unparse(node.func)}(" if isinstance(node, ast.Call) else ""
                is_import = isinstance(node, (ast.Import, ast.ImportFrom))
                if text.startswith(calls) or (is_import and "threadpoolctl" in ast.unparse(node)):
                    found.append(module_name(path))
        assert set(found) == {"sknet._parallel"}
