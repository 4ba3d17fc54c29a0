"""Rows that do not fit on a GPU, sent there on a stream of their own, beside the steps."""

import numpy as np
import pytest

from sknet.device import Device, Feed, active, backend
from tests.engine.loop.streamed import BUFFERS, CASES, X, assert_same, classifier, learned, limited
from tests.engine.loop.test_device_fits import PAIRS, long_blocks, steps_on, trained
from tests.estimators.data import quiet

__all__ = ["long_blocks"]  # a fixture

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")


@pytest.mark.usefixtures("long_blocks")
@pytest.mark.parametrize(("case", "buffers"), PAIRS)
def test_fits_have_the_same_bits(case, buffers):
    expected = CASES[case]("cuda")
    with limited("cuda", BUFFERS[buffers]):
        found = CASES[case]("cuda")
    if case != "embedding":
        return assert_same(found, expected)
    for mine, theirs in zip(found, expected, strict=True):  # its gradient is added in any order
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    return None


@pytest.mark.usefixtures("long_blocks")
def test_steps_are_graphs():
    order = np.random.default_rng(0).permutation(len(X))
    expected = trained(steps_on(X, CUDA), order)
    with limited("cuda"):
        steps = steps_on(X, CUDA)
        assert_same(trained(steps, order), expected)
    assert not steps.refusals


def test_a_stream_of_the_users_own():
    cupy, fits = backend("cuda")._cupy, []
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream, quiet(), limited("cuda"):
            fits.append(learned(classifier("cuda").fit(X, X[:, 0] > 0)))
    assert_same(*fits)


def test_large_chunks():
    """Copies of several megabytes, with work that reads each of them several times."""
    rows = np.random.default_rng(0).standard_normal((5 * 1000 + 7, 500)).astype("float32")

    def write(start, stop, arrays):
        arrays[0][...] = rows[start:stop]

    with active(CUDA):
        feed, sums = Feed(CUDA, [((500,), rows.dtype)], len(rows), 1000, write), []
        for start in range(0, len(rows), 1000):
            place = feed.place_of(start)
            chunk = feed.arrays[0][place : place + min(1000, len(rows) - start)]
            sums.append([(chunk * factor).sum(axis=0) for factor in (1, 2, 4)])
        for start, found in zip(range(0, len(rows), 1000), sums, strict=True):
            expected = rows[start : start + 1000].sum(axis=0)
            for factor, total in zip((1, 2, 4), found, strict=True):
                np.testing.assert_allclose(total.get(), factor * expected, rtol=1e-4, atol=1e-2)
