"""Threads that share convolutions inside of native code: callers, signals, forks, and the end of Python."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from sknet import config_context, no_grad, ops
from sknet._native import needed
from sknet._parallel import free_threads, libraries
from sknet.compile._calls import Call
from sknet.compile.native import _threads
from sknet.compile.native._fusion import joined
from sknet.compile.native._instructions import Job, Tape, Work
from sknet.compile.native._rules import translated
from sknet.compile.native._threads import share_out
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


def test_helpers_rest_sooner_after_one_was_late():
    crew, found = _threads._Crew(), []
    for is_late in (False, True, *[False] * _threads.QUIET, False):
        crew.note(is_late)
        found.append(int(crew.job[Job.LOOKS]))
    many, few = _threads.MANY, _threads.FEW
    assert found == [many, *[few] * _threads.QUIET, many, many]


def test_no_thread_is_called_for_limits_of_one():
    expected = convolved()
    with threadpool_limits(1, "blas"):
        before = len(helpers())
        np.testing.assert_array_equal(convolved(), expected)
        assert len(helpers()) == before


def test_several_callers_at_once():
    images = [RNG.standard_normal((n, 32, 14, 14), dtype=np.float32) for n in (40, 64, 33, 51)]
    expected, wrong = [convolved(x) for x in images], []

    def call(x, wanted):
        with config_context(native="always"):
            for _ in range(20):
                if not np.array_equal(convolved(x), wanted):
                    wrong.append(x.shape)

    threads = [threading.Thread(target=call, args=given) for given in zip(images, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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
    crew, steps = _threads._crew, needed().passes

    def endlessly(timer):
        timer.start()
        while True:
            convolved()

    for wait in np.linspace(0, 0.002, 25):
        timer = threading.Timer(0.001 + wait, signal.pthread_kill, (own, signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            endlessly(timer)
        timer.join()
        assert steps(crew.job.ctypes.data, 0, Work.LEAD) == 0
        assert not crew.busy.locked()
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
        crew.call(needed().passes, 3)
    assert len(helpers()) == before


def test_ctrl_c_while_a_thread_begins_gives_no_number_twice(monkeypatch):
    start, numbers = threading.Thread.start, []

    def interrupted(self):
        start(self)
        raise KeyboardInterrupt

    def serve(place, number, work):
        numbers.append(number)
        return 0

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    crew = _threads._Crew()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            crew.call(serve, 2)
    crew.call(serve, 2)
    deadline = time.monotonic() + 20
    while len(numbers) < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert sorted(set(numbers)) == [1, 2]


STILL_LOOKING = """
import numpy as np
from threadpoolctl import threadpool_limits
from sknet import config_context, no_grad, ops
from sknet.compile.native import _threads

threadpool_limits(2, "blas")
X, W = np.ones((64, 32, 14, 14), "float32"), np.ones((64, 32, 3, 3), "float32")
with no_grad(), config_context(native="always"):
    for looks in (10000, 1 << 40):
        _threads._crew.job[_threads.Job.LOOKS] = looks
        _threads._crew.note = lambda is_late: None
        ops.conv2d(X, W)
print("done")
"""


def test_a_helper_may_be_in_native_code_when_python_ends():
    ran = subprocess.run([sys.executable, "-c", STILL_LOOKING], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "done\n", "")


def test_shares_are_done_by_one_thread_while_helpers_are_busy():
    done = []
    with _threads._crew.busy:
        share_out(
            lambda place, size, work: done.append((place, size, work)), np.zeros((3, 2, 5), np.int64), 4
        )
    assert [(size, work) for _, size, work in done] == [(4, Work.BY_TILES)] * 3
    assert np.diff([place for place, *_ in done]).tolist() == [80, 80]


# -- long instructions -----------------------------------------------------------------------------------


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
    program, crew = tape.finished(), _threads._Crew()
    crew.job[Job.LOOKS] = 1 << 22
    crew.call(needed().passes, count - 1)
    deadline = time.monotonic() + 20
    while crew.job[Job.AWAKE] < count - 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    turn = np.array([program.ctypes.data, len(program), 1, 0, crew.job.ctypes.data, count])
    try:
        assert needed().steps(turn.ctypes.data, 1) == 1
    finally:
        crew.job[Job.LOOKS] = 0
    for out, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(out, wanted)
    assert crew.job[[Job.LEFT, Job.BUSY]].tolist() == [0, 0]


def test_a_thread_does_instructions_alone_while_others_are_busy():
    tape, results, expected = long_instructions(200_003)
    program, crew = tape.finished(), _threads._Crew()
    crew.job[[Job.AWAKE, Job.BUSY]] = 1
    turn = np.array([program.ctypes.data, len(program), 1, 0, crew.job.ctypes.data, 2])
    assert needed().steps(turn.ctypes.data, 1) == 1
    for out, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(out, wanted)


def test_shares_are_done_by_one_thread_while_a_step_has_the_others():
    expected = convolved()
    _threads._crew.job[Job.BUSY] = 1  # as during a long instruction of another fit
    try:
        np.testing.assert_array_equal(convolved(), expected)
        assert not _threads._crew.busy.locked()
    finally:
        _threads._crew.job[Job.BUSY] = 0
