"""Rows that do not fit on a device, sent there chunk by chunk; the fake one copies as late as it may."""

import numpy as np
import pytest

from sknet import Model, nn
from sknet.device import Feed, active, to_host
from sknet.engine import Batches, _runners
from sknet.engine._batches import ComputedRows
from sknet.engine._device_runner import DeviceSteps
from sknet.exceptions import DeviceMemoryError, NonFiniteError
from tests.devices import fake
from tests.engine.loop import streamed
from tests.engine.loop.streamed import BUFFERS, CASES, CLASSES, SIZE, X, assert_same, learned, limited
from tests.estimators.data import quiet

pytestmark = pytest.mark.usefixtures("fake_device")


@pytest.fixture
def long_blocks(monkeypatch):
    """Blocks of as many steps as memory permits."""
    monkeypatch.setattr(_runners, "SECONDS", 1e9)


def fitted(estimator):
    with quiet():
        return estimator.fit(X, CLASSES)


PAIRS = [*((case, "chunks") for case in CASES), ("shuffled", "rows"), ("several inputs", "two rows")]


@pytest.mark.parametrize(("case", "buffers"), PAIRS)
def test_fits_have_the_same_bits(case, buffers):
    with fake.counted() as counts:
        expected = CASES[case]("fake")
    assert not counts.sent
    with fake.counted() as counts, limited("fake", BUFFERS[buffers]):
        found = CASES[case]("fake")
    assert counts.sent
    assert_same(found, expected)


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("case", ["shuffled", "early stopping", "in the order of the data"])
def test_long_blocks(case):
    expected = CASES[case]("fake")
    with limited("fake"):
        assert_same(CASES[case]("fake"), expected)


def test_fits_in_turn():
    """What stays on the host in one fit does not in the next one, with one generator of random numbers."""

    def fits(are_limited):
        rng, found = np.random.RandomState(0), []
        for is_limited in are_limited:
            with limited("fake", free=streamed.FREE if is_limited else 1 << 20):
                found += streamed.fitted("fake", random_state=rng)
        return [*found, rng.random_sample(3)]

    assert_same(fits([True, False, True]), fits([False, False, False]))


def test_a_file_that_is_mapped(tmp_path):
    rows = np.memmap(tmp_path / "rows", "float32", "w+", shape=X.shape)
    rows[...] = X
    expected = streamed.fitted("fake", np.array(rows))
    with limited("fake"), fake.counted() as counts:
        assert_same(streamed.fitted("fake", rows), expected)
    assert counts.sent


def steps_on(rows, device, chosen=None, y=CLASSES):
    model = Model(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), "log_loss", random_state=0,
                  device=device)  # fmt: skip
    batches = Batches(rows, y, None, SIZE, model.dtype, model.device, chosen)
    with active(device):
        model.materialize(np.zeros((2, 6), "float32"))
    return DeviceSteps(model, batches, True)


def trained(steps, order, first=0):
    """Train on the batches from `first` on."""
    losses = []
    while first < steps.batches.n_batches:
        losses.append(steps.run(order, first).losses)
        first += len(losses[-1])
    return [np.concatenate(losses), *map(to_host, steps.model.parameters.values())]


class Doubled(ComputedRows):
    """Rows that are computed when they are read."""

    def write(self, rows, out):
        np.multiply(X[rows], 2, out=out, casting="unsafe")


@pytest.mark.parametrize("order", [None, np.random.default_rng(1).permutation(51)], ids=["in order", "mixed"])
def test_rows_that_are_computed(order, fake_device):
    chosen = np.arange(102)[::-2]
    expected = trained(steps_on((2 * X).astype("f4"), fake_device, chosen), order)
    assert_same(trained(steps_on(Doubled(X.shape, np.dtype("f4")), fake_device, chosen), order), expected)


class Counting(ComputedRows):
    """Rows of ever larger numbers."""

    times = 0

    def write(self, rows, out):
        self.times += 1
        out[...] = self.times


def test_rows_are_computed_anew_in_every_epoch(fake_device):
    rows = Counting(X.shape, np.dtype("f4"))
    steps = steps_on(rows, fake_device)
    for n in (1, 2):
        with limited("fake"):
            trained(steps, None)
        assert rows.times == n  # all rows are one chunk


# -- what it costs ----------------------------------------------------------------------------


@pytest.mark.usefixtures("long_blocks")
def test_launches_and_bytes(fake_device):
    counts = {}
    for free in (streamed.FREE, 1 << 20):
        with limited("fake", free=free), np.errstate(all="ignore"):
            steps = steps_on(X, fake_device)
            steps.run(None, 0)
            for n in (5, 20):
                with fake.counted() as counts[free, n]:
                    assert len(steps.run(None, 0, n).losses) == n
    few, many = counts[streamed.FREE, 5], counts[streamed.FREE, 20]
    resident = counts[1 << 20, 20].launches - counts[1 << 20, 5].launches
    assert many.launches - few.launches == resident
    assert many.allocations == few.allocations
    assert many.reads == few.reads == 1
    assert [few.sent, many.sent] == [4, 11]  # chunks of two batches, and the one that comes next
    assert many.sent_bytes == 11 * 2 * SIZE * 6 * 4


# -- what goes wrong --------------------------------------------------------------------------


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize("batch", [0, 1, 7, 25])
def test_a_row_that_is_not_finite(batch, fake_device):
    wrong = X.copy()
    wrong[batch * SIZE] = np.nan
    expected = steps_on(X, fake_device)
    for first in range(batch):
        expected.run(None, first, 1)
    with limited("fake"):
        steps = steps_on(wrong, fake_device)
        with np.errstate(all="ignore"):
            done = len(steps.run(None, 0).losses) if batch else 0
            while done < batch:
                done += len(steps.run(None, done).losses)
            assert done == batch
            with pytest.raises(NonFiniteError):
                steps.run(None, done)
        # The rows of that batch are passed by, and those after it are what they are.
        if batch < 25:
            assert_same(trained(steps, None, batch + 1), trained(expected, None, batch + 1))


class Failing(ComputedRows):
    """Rows that cannot be read from number 20 on, at first."""

    is_broken = True

    def write(self, rows, out):
        if self.is_broken and rows.max() >= 20:
            raise OSError("the disk is gone")
        out[...] = X[rows]


@pytest.mark.usefixtures("long_blocks")
def test_rows_that_cannot_be_read(fake_device):
    rows = Failing(X.shape, np.dtype("f4"))
    with limited("fake"):
        steps = steps_on(rows, fake_device)
        assert len(steps.run(None, 0).losses) == 4  # the chunk of the fifth batch cannot be read
        for _ in range(2):
            with pytest.raises(OSError, match="the disk is gone"):
                steps.run(None, 4)
        assert steps.model.progress.step == 4
        rows.is_broken = False
        found = trained(steps, None, 4)[1:]
    assert_same(found, trained(steps_on(X.astype("f4"), fake_device), None)[1:])


@pytest.mark.usefixtures("long_blocks")
def test_ctrl_c_while_rows_are_read(fake_device):
    class Interrupted(Failing):
        def write(self, rows, out):
            if self.is_broken and rows.max() >= 20:
                raise KeyboardInterrupt
            out[...] = X[rows]

    rows = Interrupted(X.shape, np.dtype("f4"))
    with limited("fake"):
        steps = steps_on(rows, fake_device)
        with pytest.raises(KeyboardInterrupt):
            steps.run(None, 0)
        rows.is_broken = False
        assert len(trained(steps, None)[0]) == steps.batches.n_batches


def test_no_memory_for_the_chunks(fake_device):
    messages = []
    with limited("fake"):
        for count in range(30):
            try:
                with fake.allocating(count):
                    steps_on(X, fake_device)
            except DeviceMemoryError as error:
                messages.append(str(error))
    said = (
        "in a fit with batches of 4 rows, for the rows of the data, an array of shape (16, 6) takes 384 bytes"
    )
    assert any(said in message for message in messages)


def test_a_message_says_what_chunks_take(fake_device):
    with limited("fake"):
        steps = steps_on(X, fake_device)
        with fake.allocating(0), pytest.raises(DeviceMemoryError, match="chunk by chunk take 384 bytes"):
            steps.run(None, 0)


# -- the feed itself --------------------------------------------------------------------------


def test_a_buffer_is_not_written_while_it_is_copied(fake_device):
    """Buffers of one row: the third is that of the first, which the device may not have read."""

    def write(start, stop, arrays):
        arrays[0][...] = np.arange(start, stop)

    with limited("fake", 1), active(fake_device):
        feed = Feed(fake_device, [((), np.dtype("f8"))], 20, 5, write)
        for first in range(0, 20, 5):
            place = feed.place_of(first)
            found = to_host(feed.arrays[0])[place : place + 5]
            np.testing.assert_array_equal(found, np.arange(first, first + 5))
            feed.look_ahead()


@pytest.mark.parametrize("rows", [[0, 3, 1, 4, 2, 0], [4, 3, 2, 1, 0], [0, 2, 4, 0, 2, 4], [1, 1, 4, 4]])
@pytest.mark.parametrize("looks_ahead", [True, False])
def test_chunks_in_any_order(rows, looks_ahead, fake_device):
    def write(start, stop, arrays):
        arrays[0][...] = np.arange(start, stop)

    with active(fake_device):
        feed = Feed(fake_device, [((), np.dtype("f8"))], 5, 1, write)
        for row in rows:
            place = feed.place_of(row)
            assert to_host(feed.arrays[0])[place] == row
            if looks_ahead:
                feed.look_ahead()


# -- a device that is lost --------------------------------------------------------------------


@pytest.mark.parametrize("method", ["send", "follow"])
def test_a_device_that_fails_in_a_copy_leaves_the_estimator_as_it_was(method, monkeypatch):
    estimator = streamed.classifier("fake", early_stopping=True)
    with limited("fake"):
        before = learned(fitted(estimator))
    working, left = getattr(fake.FakeTransfers, method), [0]

    def failing(self, *args):
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("the device is lost")
        return working(self, *args)

    expected = learned(fitted(streamed.classifier("fake", early_stopping=True, alpha=0.1)))
    monkeypatch.setattr(fake.FakeTransfers, method, failing)
    for left[0] in (0, 1, 5, 20):
        with limited("fake"), pytest.raises(RuntimeError, match="the device is lost"):
            fitted(estimator.set_params(alpha=0.1))
        left[0] = 10**9
        with limited("fake"):
            assert_same(learned(estimator), before)
    with limited("fake"):
        assert_same(learned(fitted(estimator)), expected)


def test_rows_without_elements(fake_device):
    with active(fake_device):
        feed = Feed(fake_device, [((0,), np.dtype("f4"))], 5, 2, lambda start, stop, arrays: None)
        assert [feed.place_of(row) for row in (0, 2, 4)] == [0, 2, 0]
        assert not feed.nbytes
