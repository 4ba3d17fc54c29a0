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
from threadpoolctl import threadpool_info, threadpool_limits

from sknet import config_context, no_grad, ops
from sknet.compile.numpy import fill_mask
from tests.compile.executors.native.running import FLUSHES, Instructions, adds_up_as_blas, calling, multiply
from tests.threads import run_in_threads

pytest.importorskip("sknet._native._core", reason="native code was not built")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 32, 14, 14), dtype=np.float32)
W = RNG.standard_normal((64, 32, 3, 3), dtype=np.float32)


def threads_of_blas():
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, "blas"), config_context(native="always"):
        if threads_of_blas() != {2}:
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
    assert threads_of_blas() == {2}


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
from threadpoolctl import threadpool_info, threadpool_limits
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


# -- shares of steps ----------------------------------------------------------------------------


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
        ((), 256, 54, 256, 1),
        ((), 200, 784, 256, 3),
        ((), 515, 333, 770, 3),
        ((), 1027, 129, 514, 1),
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
        instructions = Instructions([calling(np.matmul, x, y, out=out)], shared=0)
        assert (instructions.kinds, instructions.axes) == (["PRODUCT"], [axis])
        assert instructions.shares[0] > 1
        assert instructions.has_shares()
        for _ in range(5):
            with threadpool_limits(n_threads, "blas"):
                assert instructions.run(has_threads=True)
        found.append(out.tobytes())
    assert found[0] == found[1] == found[2]
    expected = x.astype("float64") @ y.astype("float64")
    np.testing.assert_allclose(out, expected, rtol=0, atol=np.finfo(dtype).eps * 8 * inner)


def test_squares_of_matrices_are_the_same_for_any_number_of_threads():
    """BLAS has a function of its own for these, which makes half of the numbers."""
    x, found = operand(300, 129, False, "float32"), set()
    for n_threads in (1, 2, 4):
        out = np.empty((300, 300), np.float32)
        instructions = Instructions([calling(np.matmul, x, x.T, out=out)], shared=0)
        assert instructions.shares == [2]
        with threadpool_limits(n_threads, "blas"):
            assert instructions.run(has_threads=True)
        found.add(out.tobytes())
    assert len(found) == 1
    np.testing.assert_allclose(out, x.astype(float) @ x.T.astype(float), atol=1e-4)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("size", [(125, 128, 128), (128, 119, 128), (113, 128, 130), (60, 97, 330)], ids=str)
def test_products_without_blas_have_its_bits(size, transposed):
    rows, inner, columns = size
    x, y = operand(rows, inner, transposed[0], "float32"), operand(inner, columns, transposed[1], "float32")
    x[3], x[4], x[5:7] = 0, -0.0, 1e-30 * x[5:7]  # products that underflow: 0 has a sign
    y[:, 5:7] *= 1e-30
    out = np.full((rows, columns), np.nan, np.float32)
    instructions = Instructions([calling(np.matmul, x, y, out=out)], shared=0)
    assert instructions.shares == [1]
    assert instructions.run()
    assert out.tobytes() == np.matmul(x, y).tobytes()


@pytest.mark.parametrize(
    "lay",
    [
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: np.broadcast_to(x[0], x.shape),
        lambda x: np.lib.stride_tricks.as_strided(x, x.shape, (4, 4)),
    ],
    ids=["rows reversed", "columns reversed", "steps", "a row", "windows"],
)
def test_products_of_what_blas_does_not_take_are_those_of_numpy(lay):
    """Versions of NumPy multiply such matrices on their own."""
    x, y = operand(125, 128, False, "float32"), operand(128, 130, False, "float32")
    for a, b in [(lay(x), y), (x, lay(y)), (lay(x), lay(y))]:
        out = np.empty((125, 130), np.float32)
        assert Instructions([calling(np.matmul, a, b, out=out)], shared=0).run()
        assert out.tobytes() == np.matmul(a, b).tobytes()


def test_blas_that_adds_up_long_sums_in_blocks_has_other_bits(monkeypatch):
    def in_blocks(a, b):
        return a[:, :320] @ b[:320] + a[:, 320:] @ b[320:]

    monkeypatch.setattr(np, "matmul", in_blocks)
    assert not adds_up_as_blas()


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("size", [(6, 1, 64), (7, 128, 65), (40, 31, 127), (13, 300, 80)], ids=str)
def test_products_without_blas(size, transposed):
    rows, inner, columns = size
    inner = min(inner, 128) if transposed[1] else inner
    x, y = operand(rows, inner, transposed[0], "float32"), operand(inner, columns, transposed[1], "float32")
    room = np.full((rows + 2, columns + 3), np.nan, np.float32)
    multiply(x, y, room[1:-1, 1:-2])
    expected = x.astype(float) @ y.astype(float)
    np.testing.assert_allclose(room[1:-1, 1:-2], expected, rtol=0, atol=1e-7 * 8 * inner)
    assert np.isnan(room).sum() == room.size - rows * columns


@pytest.mark.parametrize(
    ("size", "kind", "shares"), [(60, "LOOP", 0), (64, "PRODUCT", 1), (130, "PRODUCT", 2)]
)
def test_small_products_are_not_shared(size, kind, shares):
    x = np.ones((size, size), np.float32)
    instructions = Instructions([calling(np.matmul, x, x, out=np.empty_like(x))], shared=1 << 18)
    assert (instructions.kinds, sum(instructions.shares)) == ([kind], shares)
    assert instructions.has_shares() == (shares > 1)


def long_instructions(n):
    """Return a program of instructions that threads share, its operands, and their results by NumPy."""
    x, g = np.random.default_rng(1).standard_normal((2, n)).astype(np.float32)
    flags, drawn = np.zeros(n, bool), np.zeros(n, np.float32)
    outs = [np.zeros(n, np.float32) for _ in range(4)]
    words = g.view(np.int32), flags, outs[3].view(np.int32)
    of_mask, room = (np.float32(0.3), np.float32(1 / 0.7)), (np.zeros(n, np.float32), np.zeros(n, bool))
    calls = [
        calling(np.exp, x, outs[0]),
        calling(np.greater, x, np.zeros((), np.float32), flags),
        calling(np.copyto, outs[1], flags),
        calling(np.add, x, g, outs[2]),
        calling(np.multiply, outs[2], x, outs[2]),
        calling(np.multiply, *words),
        calling(partial(fill_mask, ((3, 4), 5, (n,)), *of_mask), np.array(6), *room, drawn),
    ]
    instructions = Instructions(calls)
    for call in calls:
        call.run()
    results = [*outs, flags, drawn]
    expected = [out.copy() for out in results]
    for out in results:
        out.fill(0)
    return instructions, results, expected


@pytest.mark.parametrize("flushes", [False, True])
def test_threads_flush_numbers_as_the_one_that_they_help(flushes):
    """Numbers below the least normal one, which an x86 processor computes slowly, are 0 in a fit alone."""
    x = np.full(1 << 17, 1e-30, np.float32)
    out, expected = np.empty_like(x), x * np.float32(1e-9)
    assert expected.all()
    instructions = Instructions([calling(np.multiply, x, np.array(1e-9, np.float32), out)])
    for _ in range(20):
        with threadpool_limits(2, "blas"):
            convolved()
            assert instructions.run(is_awake=True, flushes=flushes)
        np.testing.assert_array_equal(out, 0 if flushes and FLUSHES else expected)


@pytest.mark.parametrize("n", [1 << 15, (1 << 17) + 1, 200_003])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_threads_that_are_awake_share_long_instructions(n, count):
    instructions, results, expected = long_instructions(n)
    for _ in range(5):
        with threadpool_limits(count, "blas"):
            convolved()
            assert instructions.run(is_awake=True)
        for out, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(out, wanted)
            out.fill(0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1111, 67), (3, 20_011), (20_011, 3), (40_001, 1)])
def test_threads_share_rows(shape, dtype):
    """Rows that are gathered, and a bias with ReLU, whose parts begin within a row."""
    rng = np.random.default_rng(0)
    x, rows = rng.standard_normal(shape).astype(dtype), rng.integers(0, shape[0], shape[0])
    bias, out = rng.standard_normal(shape[1]).astype(dtype), np.zeros(shape, dtype)
    positive, zero = np.zeros(shape, dtype), np.zeros((), dtype)
    zero.flags.writeable = False
    calls = [
        calling(np.ndarray.take, x, rows, 0, out, "clip"),
        calling(np.add, out, bias, positive),
        calling(np.maximum, positive, zero, out=positive),
    ]
    instructions = Instructions(calls)
    assert instructions.kinds[0] == "COPY"
    assert instructions.kinds[1:] == ["ADD_ROW_RELU"] or shape[1] == 1
    for count in (1, 2, 2, 4):
        out[...] = positive[...] = np.nan
        with threadpool_limits(count, "blas"):
            convolved()
            assert instructions.run(is_awake=True)
        np.testing.assert_array_equal(out, x[rows])
        np.testing.assert_array_equal(positive, np.maximum(x[rows] + bias, 0))


def test_steps_in_several_threads_at_once():
    """One of them leads the others, and the rest do their work alone."""
    x, y = (RNG.standard_normal((200, 200), dtype=np.float32) for _ in range(2))
    results = [np.empty_like(x) for _ in range(4)]
    wrong = []

    def work(out):
        instructions = Instructions([calling(np.matmul, x, y, out=out)], shared=0)
        for _ in range(20):
            out[...] = np.nan
            instructions.run(times=50, has_threads=True)
            if not np.isfinite(out).all():
                wrong.append(out)

    run_in_threads(work, [(out,) for out in results])
    assert not wrong
    assert len({out.tobytes() for out in results}) == 1


def test_products_without_blas_in_several_threads():
    """Each thread has its own turn, which lives until its product is written."""
    factors = [RNG.standard_normal((120, n), dtype=np.float32) for n in (64, 96, 128, 160)]
    wrong = []

    def call(x):
        expected = x.T @ x
        for _ in range(2000):
            out = np.zeros_like(expected)
            multiply(x.T, x, out)
            if not np.allclose(out, expected, atol=1e-3):
                wrong.append(x.shape)

    run_in_threads(call, [(x,) for x in factors])
    assert not wrong
