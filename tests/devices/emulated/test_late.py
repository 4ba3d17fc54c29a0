"""Rows sent to a device whose streams run as late as CUDA permits: who does not wait gets wrong numbers."""

import copy
import importlib

import numpy as np
import pytest

from sknet import NetRegressor, nn
from sknet.compile import compile
from sknet.core import Tensor
from sknet.device import Device, Feed, active, backend
from tests.compile.executors.device.test_finishes import deep
from tests.devices.emulated import counted, faults, late, without_page_locks
from tests.engine.loop.streamed import CASES, SIZE, X, assert_same, limited
from tests.engine.loop.test_device_fits import long_blocks, steps_on, trained
from tests.estimators.data import quiet

__all__ = ["long_blocks"]  # a fixture

CUDA = Device("cuda")
LATE = ["copies", "computing", "everything"]
cupy = importlib.import_module("cupy")


# -- what the emulator does -------------------------------------------------------------------


def sent(source, target, stream):
    target.set(source, stream=stream)
    return stream.record(cupy.cuda.Event(disable_timing=True))


def pinned(values):
    memory = np.frombuffer(cupy.cuda.alloc_pinned_memory(values.nbytes), values.dtype, len(values))
    memory[...] = values
    return memory


def test_copies_come_when_somebody_waits_for_them():
    x, y = cupy.zeros(4), cupy.zeros(4)
    source, stream = pinned(np.ones(4)), cupy.cuda.Stream(non_blocking=True)
    with late("copies"):
        event = sent(source, x, stream)
        assert not event.done
        assert not stream.done
        y += x
        cupy.cuda.get_current_stream().wait_event(event)
        y += x
        assert event.done
        np.testing.assert_array_equal(y.get(), np.ones(4))
        event = sent(source, x, stream)
        source[...] = 5  # too early
        event.synchronize()
        np.testing.assert_array_equal(x.get(), np.full(4, 5))


def test_what_is_computed_comes_when_somebody_waits_for_it():
    x, y = cupy.zeros(4), cupy.zeros(4)
    sources, stream = [pinned(np.full(4, n)) for n in (1.0, 2.0)], cupy.cuda.Stream(non_blocking=True)
    with late("computing"):
        sent(sources[0], x, stream)
        y += x
        sent(sources[1], x, stream)  # too early
        y += x
        done = cupy.cuda.get_current_stream().record()
        stream.wait_event(done)
        sent(sources[0], x, stream)
        np.testing.assert_array_equal(y.get(), np.full(4, 4))
        np.testing.assert_array_equal(x.get(), np.ones(4))


def test_a_copy_to_memory_that_is_freed_is_a_fault():
    stream = cupy.cuda.Stream(non_blocking=True)
    with late("copies"):
        sent(pinned(np.ones(4)), cupy.zeros(4), stream)
        stream.synchronize()
    assert faults() == ["something was written to 32 bytes of freed device memory"]


# -- fits -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("case", ["shuffled", "early stopping", "several inputs"])
def test_fits_have_the_same_bits(case, what):
    expected = CASES[case]("cuda")
    with limited("cuda"), late(what):
        assert_same(CASES[case]("cuda"), expected)


@pytest.mark.parametrize("what", LATE)
def test_on_the_second_device(what):
    """Streams and events belong to the device that is current."""
    with limited("cuda"):
        expected = CASES["early stopping"]("cuda:0")
        with late(what):
            assert_same(CASES["early stopping"]("cuda:1"), expected)


ORDER = np.random.default_rng(0).permutation(len(X))


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize(
    ("wait", "what"),
    [("follow", "copies"), ("wait", "everything"), ("mark", "computing")],
    ids=["steps for a copy", "the host for a copy", "a copy for steps"],
)
def test_every_wait_matters(wait, what, monkeypatch):
    expected = trained(steps_on(X, CUDA), ORDER)
    with limited("cuda"), late(what):
        assert_same(trained(steps_on(X, CUDA), ORDER), expected)
    begun = cupy.cuda.get_current_stream().record()
    monkeypatch.setattr(type(backend("cuda").transfers(CUDA)), wait, lambda self, *mark: begun)
    with limited("cuda"), late(what), np.errstate(all="ignore"):
        try:
            found = trained(steps_on(X, CUDA), ORDER)
        except ValueError:  # what was not copied yet is NaN
            return
    assert any((mine != theirs).any() for mine, theirs in zip(found, expected, strict=True))


@pytest.mark.parametrize("what", LATE)
def test_predictions_and_scores_of_held_out_rows(what, limits):
    width = 43  # no other test has such networks: the size of their chunks is remembered
    limits("elements of a chunk of predictions", 16 * width)
    network = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 1))
    estimator = NetRegressor(network, device="cuda", max_iter=1, early_stopping=True, random_state=0)
    with quiet():
        estimator.fit(X, X[:, 0])

    def found():
        outputs = [estimator.predict(X) for _ in range(2)]
        with quiet():
            numbers = copy.deepcopy(estimator).fit(X, X[:, 0]).history_
        return outputs, [numbers["validation_loss"], numbers["validation_score"]]

    expected, numbers = found()
    assert np.isfinite(expected).all()
    with late(what):
        outputs, others = found()
    np.testing.assert_array_equal(outputs, expected)
    np.testing.assert_array_equal(others, numbers)


def test_a_feed_ends_with_its_copies():
    """Its memory, on both sides, is not free before."""

    def write(start, stop, arrays):
        arrays[0][...] = np.arange(start, stop)

    with late("copies"), active(CUDA):
        feed = Feed(CUDA, [((), np.dtype("f8"))], 20, 5, write)
        feed.place_of(0)
        feed.look_ahead()
        del feed
    assert not faults()


def test_memory_that_work_still_reads():
    """A pool hands memory out again as soon as it is freed, for work that comes later on the same stream."""

    def write(start, stop, arrays):
        arrays[0][...] = 7

    pool = cupy.cuda.MemoryPool()
    with late("computing"), active(CUDA), cupy.cuda.using_allocator(pool.malloc):
        x = cupy.full(128, 2.0)
        place, doubled = x.data.ptr, x * 2
        del x
        feed = Feed(CUDA, [((), np.dtype("f8"))], 128, 64, write)
        feed.place_of(0)
        assert feed.arrays[0].data.ptr == place
        np.testing.assert_array_equal(doubled.get(), np.full(128, 4.0))
        np.testing.assert_array_equal(feed.arrays[0][:64].get(), np.full(64, 7.0))


@pytest.mark.usefixtures("long_blocks")
def test_what_is_sent_and_launched():
    counts = {}
    for free in (4600, 1 << 20):
        with limited("cuda", free=free):
            steps = steps_on(X, CUDA)
            for _ in range(2):
                steps.run(ORDER, 0)
            for n in (5, 20):
                with counted() as counts[free, n]:
                    assert len(steps.run(ORDER, 0, n).losses) == n
        assert counts[free, 20].graph_launches == 20
    few, many, resident, less = (counts[key] for key in [(4600, 5), (4600, 20), (1 << 20, 20), (1 << 20, 5)])
    assert many.graph_nodes == resident.graph_nodes
    assert many.launches == resident.launches
    assert many.allocations == few.allocations
    assert many.to_host == resident.to_host == 1
    assert many.to_device - few.to_device == 7  # chunks of two batches
    nbytes = many.to_device_bytes - few.to_device_bytes
    assert nbytes - (resident.to_device_bytes - less.to_device_bytes) == 7 * 2 * SIZE * 6 * 4


@pytest.mark.filterwarnings("ignore:Using synchronous transfer as pinned memory")
def test_memory_that_cannot_be_locked():
    expected = trained(steps_on(X, CUDA), ORDER)
    for what in LATE:
        cupy.get_default_pinned_memory_pool().free_all_blocks()
        with without_page_locks(), limited("cuda"), late(what):
            assert_same(trained(steps_on(X, CUDA), ORDER), expected)


@pytest.mark.parametrize("waits", ["join", "run"])
def test_products_beside_others(waits, monkeypatch):
    """What reads them waits for them, and they for what they read."""
    rng = np.random.default_rng(0)
    args = [rng.normal(size=(50, 16)), *rng.normal(size=(3, 16, 16)) / 4]
    expected = [x.numpy() for x in deep(*map(Tensor, args))]
    compiled, branch = compile(deep, tuple(map(cupy.asarray, args))), type(backend("cuda").branch())

    def found():
        compiled.poison()
        return [x.get() for x in compiled(*map(cupy.asarray, args))]

    with active(CUDA), late("everything"):
        for x, y in zip(found(), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)

        def run_early(self, number, work):
            with cupy.cuda.Stream(non_blocking=True) as own:
                work()
            own.synchronize()

        if waits == "run":
            monkeypatch.setattr(branch, "run", run_early)
        monkeypatch.setattr(branch, "join", lambda self, number: None)
        wrong = found()
    assert any(not np.allclose(x, y) for x, y in zip(wrong, expected, strict=True))
