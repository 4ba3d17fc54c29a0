"""Threads that share convolutions inside of native code: callers, signals, forks, and the end of Python."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import config_context, no_grad, ops
from sknet._native import needed
from sknet._parallel import free_threads, libraries
from sknet.compile._calls import Call
from sknet.compile.native import _threads
from sknet.compile.native._fusion import joined
from sknet.compile.native._instructions import AXIS, SHARES, Kind, Tape
from sknet.compile.native._rules import translated
from sknet.compile.native._threads import Sharing
from sknet.compile.numpy import fill_uniform

pytest.importorskip("sknet._native._core", reason="native code was not built")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 32, 14, 14), dtype=np.float32)
W = RNG.standard_normal((64, 32, 3, 3), dtype=np.float32)


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"), config_context(native="always"):
        if free_threads() != 2:
            pytest.skip("BLAS has one thread here")
        yield


def convolved(x=X):
    with no_grad():
        return ops.conv2d(x, W, padding=1).numpy()


def helpers():
    return [thread for thread in threading.enumerate() if thread.name == "sknet helper"]


def test_one_thread_helps_however_often_it_is_called():
    before, expected = len(helpers()), convolved()
    for pause in (0, 0.002, 0, 0.0001) * 5:
        time.sleep(pause)
        np.testing.assert_array_equal(convolved(), expected)
    assert len(helpers()) <= before + 1  # other tests may have had more threads


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux says where threads may run")
def test_a_helper_avoids_the_core_of_its_caller():
    allowed = os.sched_getaffinity(0)
    convolved()
    own = [os.sched_getaffinity(helper.native_id) for helper in helpers()]
    assert any(each < allowed for each in own) if len(allowed) > 1 else own == [allowed] * len(own)
    assert os.sched_getaffinity(0) == allowed


def test_no_thread_is_called_for_limits_of_one():
    expected = convolved()
    with threadpool_limits(1, "blas"):
        before = len(helpers())
        np.testing.assert_array_equal(convolved(), expected)
        assert len(helpers()) == before


def run_in_threads(function, calls):
    """Call a function in a thread for each of its arguments, and wait for all."""
    threads = [threading.Thread(target=function, args=given) for given in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_several_callers_at_once():
    images = [RNG.standard_normal((n, 32, 14, 14), dtype=np.float32) for n in (40, 64, 33, 51)]
    expected, wrong = [convolved(x) for x in images], []

    def call(x, wanted):
        with config_context(native="always"):
            for _ in range(20):
                if not np.array_equal(convolved(x), wanted):
                    wrong.append(x.shape)

    run_in_threads(call, zip(images, expected, strict=True))
    assert not wrong
    assert {each.get_num_threads() for each in libraries().lib_controllers if each.user_api == "blas"} == {2}


def of_a_fork(_):
    with threadpool_limits(2, "blas"), config_context(native="always"):
        before = len(helpers())
        return before, convolved().tobytes(), len(helpers())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_process_has_helpers_of_its_own():
    expected = convolved().tobytes()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(of_a_fork, (0,)).get(60) == (0, expected, 1)


@pytest.fixture
def pythons_own_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="only POSIX has signals for one thread")
@pytest.mark.usefixtures("pythons_own_handler")
def test_ctrl_c_leaves_nothing_running():
    """Wherever it comes, nothing is written once it is raised, and the next call is whole."""
    expected, own = convolved(), threading.get_ident()

    def endlessly(timer):
        timer.start()
        while True:
            convolved()

    for wait in np.linspace(0, 0.002, 25):
        timer = threading.Timer(0.001 + wait, signal.pthread_kill, (own, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            endlessly(timer)
        timer.join()
    np.testing.assert_array_equal(convolved(), expected)


AT_THE_END = """
import atexit, threading
import numpy as np
from threadpoolctl import threadpool_limits
from sknet import config_context, no_grad, ops

threadpool_limits(2, "blas")
X, W = np.ones((64, 32, 14, 14), "float32"), np.ones((64, 32, 3, 3), "float32")

def convolved():
    with no_grad(), config_context(native="always"):
        return ops.conv2d(X, W).numpy()

def work():
    threading.main_thread().join()
    print((convolved() == 288).all())

if HELPED:
    convolved()
threading.Thread(target=work).start()
atexit.register(lambda: print((convolved() == 288).all()))
"""


@pytest.mark.parametrize("helped", [False, True])
def test_work_goes_on_while_python_ends(helped):
    source = AT_THE_END.replace("HELPED", str(helped))
    ran = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120)
    assert (ran.stdout, ran.stderr) == ("True\nTrue\n", "")


def test_a_thread_that_cannot_begin_is_none(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    crew, before = _threads._Crew(), len(helpers())
    for _ in range(2):
        crew.ready(needed(), 3)
    assert len(helpers()) == before
    assert convolved().shape == (64, 64, 14, 14)


def test_ctrl_c_while_a_thread_begins_gives_no_number_twice(monkeypatch):
    start, numbers = threading.Thread.start, []

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    core = SimpleNamespace(serve=numbers.append, crew=lambda threads, started: None)
    monkeypatch.setattr(threading.Thread, "start", interrupted)
    crew = _threads._Crew()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            crew.ready(core, 3)
    crew.ready(core, 3)
    deadline = time.monotonic() + 20
    while len(numbers) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(set(numbers)) == [1, 2]


# -- shares of steps ----------------------------------------------------------------------------


def carried_out(tape, n_threads):
    program = tape.finished()
    turn = np.array([program.ctypes.data, len(program), 1, 0, 0])
    with threadpool_limits(n_threads, "blas"), Sharing():
        assert needed().steps(turn.ctypes.data, 1) == 1


def operand(rows, columns, is_transposed, dtype, batch=()):
    shape = (columns, rows) if is_transposed else (rows, columns)
    x = RNG.standard_normal((*batch, *shape)).astype(dtype)
    return x.swapaxes(-1, -2) if is_transposed else x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(
    ("batch", "rows", "inner", "columns", "axis"),
    [
        ((), 67, 784, 43, 1),
        ((), 6400, 33, 10, 1),
        ((), 1, 18000, 131, 3),
        ((), 1100, 17, 1030, 1),
        ((), 40, 900, 257, 3),
        ((7,), 50, 1001, 8, 0),
        ((2, 3), 50, 141, 53, 0),
    ],
)
def test_products_are_the_same_for_any_number_of_threads(
    batch, rows, inner, columns, axis, transposed, dtype
):
    x = operand(rows, inner, transposed[0], dtype, batch)
    y = operand(inner, columns, transposed[1], dtype, batch[-1:])
    found = []
    for n_threads in (1, 2, 4):
        out = np.full((*batch, rows, columns), np.nan, dtype)
        tape = Tape(shared=0)
        assert translated(tape, Call(np.matmul, (x, y), {"out": out}))
        [row] = tape.rows
        assert (row[0], row[AXIS]) == (Kind.PRODUCT, axis)
        assert row[SHARES] > 1
        assert tape.has_shares()
        for _ in range(5):
            carried_out(tape, n_threads)
        found.append(out.tobytes())
    assert found[0] == found[1] == found[2]
    expected = x.astype("float64") @ y.astype("float64")
    np.testing.assert_allclose(out, expected, rtol=0, atol=np.finfo(dtype).eps * 8 * inner)


@pytest.mark.parametrize(
    ("size", "kind", "shares"), [(60, Kind.LOOP, 0), (64, Kind.PRODUCT, 1), (130, Kind.PRODUCT, 2)]
)
def test_small_products_are_not_shared(size, kind, shares):
    x = np.ones((size, size), np.float32)
    tape = Tape(shared=1 << 18)
    assert translated(tape, Call(np.matmul, (x, x), {"out": np.empty_like(x)}))
    assert (tape.rows[0][0], tape.rows[0][SHARES]) == (kind, shares)
    assert tape.has_shares(1) == (kind == Kind.PRODUCT)
    assert tape.has_shares() == (shares > 1)


def long_instructions(n):
    """Return a program of instructions that threads share, its operands, and their results by NumPy."""
    x, g = np.random.default_rng(1).standard_normal((2, n)).astype(np.float32)
    flags, drawn = np.zeros(n, bool), np.zeros(n, np.float32)
    outs = [np.zeros(n, np.float32) for _ in range(4)]
    words = g.view(np.int32), flags, outs[3].view(np.int32)
    calls = [
        Call(np.exp, (x, outs[0])),
        Call(np.greater, (x, np.zeros((), np.float32), flags)),
        Call(np.copyto, (outs[1], flags)),
        Call(np.add, (x, g, outs[2])),
        Call(np.multiply, (outs[2], x, outs[2])),
        Call(np.multiply, words),
        Call(partial(fill_uniform, (3, 4), 5, (n,)), (np.array(6), drawn)),
    ]
    tape = Tape()
    assert all(translated(tape, call) for call in calls)
    tape.rows = joined(tape.rows)
    for call in calls:
        call.run()
    results = [*outs, flags, drawn]
    expected = [out.copy() for out in results]
    for out in results:
        out.fill(0)
    return tape, results, expected


@pytest.mark.parametrize("n", [1 << 15, (1 << 17) + 1, 200_003])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_threads_that_are_awake_share_long_instructions(n, count):
    tape, results, expected = long_instructions(n)
    program = tape.finished()
    turn = np.array([program.ctypes.data, len(program), 1, 0, 1])
    for _ in range(5):
        with threadpool_limits(count, "blas"):
            convolved()
            assert needed().steps(turn.ctypes.data, 1) == 1
        for out, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(out, wanted)
            out.fill(0)


def test_steps_in_several_threads_at_once():
    """One of them leads the others, and the rest do their work alone."""
    x, y = (RNG.standard_normal((200, 200), dtype=np.float32) for _ in range(2))
    tapes, results = [], []
    for _ in range(4):
        tapes.append(Tape(shared=0))
        results.append(np.empty_like(x))
        assert translated(tapes[-1], Call(np.matmul, (x, y), {"out": results[-1]}))
    wrong = []

    def work(tape, out):
        program = np.repeat(tape.finished(), 50, axis=0)
        turn = np.array([program.ctypes.data, len(program), 1, 0, 0])
        for _ in range(20):
            out[...] = np.nan
            needed().steps(turn.ctypes.data, 1)
            if not np.isfinite(out).all():
                wrong.append(out)

    with Sharing():
        run_in_threads(work, zip(tapes, results, strict=True))
    assert not wrong
    assert len({out.tobytes() for out in results}) == 1
