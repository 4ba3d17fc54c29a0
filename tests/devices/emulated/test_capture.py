"""What the emulated driver refuses while a stream is captured, beyond what CuPy lets through; and counts."""

import importlib

import numpy as np
import pytest

from tests.devices.emulated import counted, faults

cupy = importlib.import_module("cupy")
runtime = importlib.import_module("cupy_backends.cuda.api.runtime")
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


@pytest.fixture
def x():
    found = cupy.arange(6, dtype="float32")
    found += 1
    return found


def captured(function, *, mode=RELAXED, non_blocking=True):
    """Capture what a function issues on a stream, and return the graph."""
    stream = cupy.cuda.Stream(non_blocking=non_blocking)
    runtime.streamBeginCapture(stream.ptr, mode)
    try:
        function(stream)
    except BaseException:
        with pytest.raises(runtime.CUDARuntimeError, match="Invalidated"):
            runtime.streamEndCapture(stream.ptr)
        raise
    graph = runtime.streamEndCapture(stream.ptr)
    return runtime.graphInstantiate(graph), stream


UNSAFE = {
    "cudaMalloc": lambda stream: runtime.malloc(100),
    "cudaFree": lambda stream: runtime.free(cupy.empty(3).data.ptr),
    "cudaHostAlloc": lambda stream: runtime.hostAlloc(100, 0),
    "cudaMemcpy": lambda stream: runtime.memcpy(0, 0, 0, 4),
}


@pytest.mark.parametrize("name", UNSAFE)
@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_unsafe_calls_need_a_relaxed_capture(mode, name):
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
        captured(UNSAFE[name], mode=mode)


def test_a_relaxed_capture_permits_allocations():
    captured(lambda stream: runtime.free(runtime.malloc(100)))


def test_the_default_stream_waits_for_a_blocking_one(x):
    def use_default_stream(stream):
        x.fill(0)

    captured(use_default_stream)
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureImplicit"):
        captured(use_default_stream, non_blocking=False)


def test_copies_of_memory_that_may_move_are_refused(x):
    host = np.zeros(6, "float32")
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnsupported"):
        captured(lambda stream: runtime.memcpyAsync(x.data.ptr, host.ctypes.data, 24, 1, stream.ptr))


def test_a_graph_copies_pinned_memory_at_each_launch(x):
    memory = cupy.cuda.alloc_pinned_memory(24)
    host = np.frombuffer(memory, "float32", 6)
    graph, stream = captured(lambda s: runtime.memcpyAsync(x.data.ptr, host.ctypes.data, 24, 1, s.ptr))
    for value in (1, 2):
        host[...] = value
        runtime.graphLaunch(graph, stream.ptr)
        assert (x.get() == value).all()


def test_work_that_was_not_captured_is_not_waited_for(x):
    event = cupy.cuda.Event()
    event.record()
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureIsolation"):
        captured(lambda stream: stream.wait_event(event))


def test_events_of_a_capture_cannot_be_waited_for_by_the_host():
    event = cupy.cuda.Event()

    def wait(stream):
        event.record(stream)
        event.synchronize()

    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorCapturedEvent"):
        captured(wait)


def test_only_the_first_stream_ends_a_capture():
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    first.begin_capture()
    second.wait_event(first.record())
    assert second.is_capturing()
    with pytest.raises(runtime.CUDARuntimeError, match="cudaErrorStreamCaptureUnmatched"):
        second.end_capture()
    first.wait_event(second.record())
    first.end_capture()


def test_a_capture_counts_nothing_and_a_launch_its_nodes(x):
    def issue(stream):
        with stream:
            x.__iadd__(1)
            x.__iadd__(1)
            x.data.memset_async(0, 4, stream)

    with counted() as counts:
        graph, stream = captured(issue)
    assert not counts.named()
    with counted() as counts:
        runtime.graphLaunch(graph, stream.ptr)
    assert counts.named() == {"graph_launches": 1, "graph_nodes": 3, "kernels": 2, "fills": 1}
    assert x.tolist() == [0, 4, 5, 6, 7, 8]


def test_a_graph_that_writes_to_an_array_which_is_gone_is_a_fault(x):
    def issue(stream):
        with stream:
            cupy.multiply(x + 1, 2, out=x)

    graph, stream = captured(issue)
    assert not faults()
    runtime.graphLaunch(graph, stream.ptr)
    assert faults() == ["something was written to 24 bytes of freed device memory"]


def test_transfers_are_counted_with_their_bytes():
    host = np.ones(6, "float32")
    with counted() as counts:
        x = cupy.asarray(host)
        y = cupy.empty_like(x)
        y.data.copy_from_device(x.data, 24)
        y.get()
        cupy.cuda.get_current_stream().synchronize()
    found = counts.named()
    assert (found["to_device"], found["to_device_bytes"]) == (1, 24)
    assert (found["on_device"], found["on_device_bytes"]) == (1, 24)
    assert (found["to_host"], found["to_host_bytes"]) == (1, 24)
    assert (found["allocations"], found["allocated_bytes"]) == (2, 48)
    assert found["synchronizations"] >= 1


def test_memory_runs_out():
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.cuda.MemoryPool().malloc(1 << 33)
