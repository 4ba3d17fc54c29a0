"""What CUDA and CuPy permit while a stream is captured, and what a graph repeats."""

import importlib

import numpy as np
import pytest

from sknet.device import Device, active
from tests.engine.loop.test_device_steps import steps_of
from tests.trees import leaves

pytestmark = pytest.mark.gpu


@pytest.fixture
def cupy():
    return importlib.import_module("cupy")


@pytest.fixture
def stream(cupy):
    return cupy.cuda.Stream(non_blocking=True)


@pytest.fixture
def x(cupy):
    found = cupy.arange(100, dtype="float32")
    found += 1  # so that the kernels are compiled and loaded before capture
    cupy.multiply(found, 2, out=cupy.empty_like(found))
    cupy.cuda.get_current_stream().synchronize()
    return found


def test_a_graph_repeats_kernels_with_the_values_of_the_moment(cupy, stream, x):
    y = cupy.zeros_like(x)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        assert stream.is_capturing()
        cupy.multiply(x, 2, out=y)
        x += 1
        graph = stream.end_capture()
    assert not stream.is_capturing()
    assert not y.any()
    for n in range(3):
        graph.launch(stream)
        stream.synchronize()
        np.testing.assert_array_equal(y.get(), 2 * (np.arange(100) + 1 + n))


def test_a_graph_keeps_the_arguments_of_its_launches(cupy, stream):
    y = cupy.zeros(4, "float32")
    kernel = cupy.RawKernel(
        'extern "C" __global__ void add(float *y, float a) { y[threadIdx.x] += a; }', "add"
    )
    kernel.compile()
    with stream:
        stream.begin_capture()
        for a in (1, 10, 100):
            kernel((1,), (4,), (y, np.float32(a)))
        graph = stream.end_capture()
    graph.launch(stream)
    graph.launch(stream)
    stream.synchronize()
    assert y.tolist() == [222] * 4


def test_copies_and_fills_on_the_device_are_captured(cupy, stream, x):
    y = cupy.empty_like(x)
    with stream:
        stream.begin_capture()
        y.data.copy_from_device_async(x.data, x.nbytes, stream)
        x.data.memset_async(0, x.nbytes, stream)
        graph = stream.end_capture()
    expected = x.get()
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(y.get(), expected)
    assert not x.any()


def test_another_stream_joins_by_events(cupy, stream, x):
    other, y = cupy.cuda.Stream(non_blocking=True), cupy.zeros_like(x)
    cupy.cuda.get_current_stream().synchronize()
    forked, joined = cupy.cuda.Event(), cupy.cuda.Event()
    with stream:
        stream.begin_capture()
        x += 1
        forked.record(stream)
        other.wait_event(forked)
        with other:
            cupy.multiply(x, 2, out=y)
            joined.record(other)
        stream.wait_event(joined)
        x += 1
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(y.get(), 2 * (np.arange(100) + 2))
    np.testing.assert_array_equal(x.get(), np.arange(100) + 3)


def test_work_that_never_joins(cupy, stream, x):
    other, event = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Event()
    stream.begin_capture()
    event.record(stream)
    other.wait_event(event)
    with other:
        x += 1
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnjoined"):
        stream.end_capture()
    assert not other.is_capturing()


REFUSED = {
    "synchronisation": lambda cupy, stream, x: stream.synchronize(),
    "synchronisation of the device": lambda cupy, stream, x: cupy.cuda.Device().synchronize(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_ends_a_capture(cupy, stream, x, name):
    with stream:
        stream.begin_capture()
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
            REFUSED[name](cupy, stream, x)
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()
    assert not stream.is_capturing()
    x += 1
    np.testing.assert_array_equal(x.get(), np.arange(100) + 2)


def test_to_ask_whether_a_stream_is_done_ends_its_capture(cupy, stream):
    with stream:
        stream.begin_capture()
        assert not stream.done
        with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorStreamCaptureInvalidated"):
            stream.end_capture()


def _multiply_matrices(cupy, x):
    cupy.matmul(x.reshape(10, 10), x.reshape(10, 10))


# CuPy itself refuses these, and the capture goes on.
REFUSED_BY_CUPY = {
    "a copy to the host": (RuntimeError, lambda cupy, x: x.get()),
    "a copy from the host": (RuntimeError, lambda cupy, x: x.set(np.zeros(100, "float32"))),
    "a number": (RuntimeError, lambda cupy, x: float(x[0])),
    "a condition": (RuntimeError, lambda cupy, x: bool(x[0])),
    "cuBLAS": (NotImplementedError, _multiply_matrices),
}


@pytest.mark.parametrize("name", REFUSED_BY_CUPY)
def test_what_cupy_refuses_in_a_capture(cupy, stream, x, name):
    error, function = REFUSED_BY_CUPY[name]
    _multiply_matrices(cupy, x)
    with stream:
        stream.begin_capture()
        with pytest.raises(error):
            function(cupy, x)
        x += 1
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()
    np.testing.assert_array_equal(x.get(), np.arange(100) + 2)


def test_the_default_stream_cannot_be_captured(cupy):
    with pytest.raises(RuntimeError):
        cupy.cuda.Stream.null.begin_capture()


def test_an_allocator_that_raises_shows_allocations_in_a_capture(cupy, stream, x):
    def refuse(size):
        raise MemoryError(f"{size} bytes")

    with stream:
        stream.begin_capture()
        with cupy.cuda.using_allocator(refuse), pytest.raises(MemoryError, match="400 bytes"):
            x + 1
        graph = stream.end_capture()
    graph.launch(stream)
    stream.synchronize()


# -- steps ------------------------------------------------------------------------------------


def refuse(nbytes):
    raise AssertionError(f"{nbytes} bytes are allocated while a stream is captured")


@pytest.mark.parametrize("widths", [(6, 10, 3), (5, 40, 9, 40)])
def test_a_step_is_a_graph_that_gives_the_same_bits(widths, cupy, stream):
    steps = steps_of(widths, 32, Device("cuda"))
    with active(Device("cuda")):
        program = steps.program_for(32)
        slots = program.slots
        slots.X[...] = cupy.asarray(np.random.default_rng(0).normal(size=slots.X.shape))
        slots.y[...] = cupy.arange(32) % widths[-1]
        for number in slots.hyper.values():
            number[...] = 0.01
        slots.is_fine[...] = True
        state = [x for x in leaves((slots.flat, slots.slots, slots.counter)) if x is not None]
        before = [x.copy() for x in state]

        def restored():
            for x, value in zip(state, before, strict=True):
                x[...] = value

        for _ in range(3):
            program.run()
        expected = [x.get() for x in state]
        restored()
        cupy.cuda.get_current_stream().synchronize()
        with stream, cupy.cuda.using_allocator(refuse):
            stream.begin_capture()
            program.run()
            graph = stream.end_capture()
        for _ in range(3):
            graph.launch(stream)
        stream.synchronize()
        assert int(slots.counter.get()) == 3
        for x, value, start in zip(state, expected, before, strict=True):
            np.testing.assert_array_equal(x.get(), value)
            assert (value != start.get()).any()
