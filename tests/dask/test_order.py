import numpy as np
import pytest

from sknet.dask import batch_rows

SIZES = {
    "one partition": [100],
    "alike": [30, 30, 30, 30],
    "uneven": [1, 250, 3, 40, 7],
    "many small ones": [5] * 200,
    "of one row": [1] * 64,
}


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("batch_size", [1, 7, 32, 1000])
@pytest.mark.parametrize("case", SIZES)
def test_every_row_is_in_one_batch(case, batch_size, shuffle):
    sizes = SIZES[case]
    batches = batch_rows(sizes, batch_size, seed=1, epoch=2, shuffle=shuffle)
    assert len(batches) == -(-sum(sizes) // batch_size)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), np.arange(sum(sizes)))


@pytest.mark.parametrize("case", ["alike", "uneven", "many small ones", "of one row"])
def test_batches_are_of_nearly_one_size(case):
    sizes = SIZES[case]
    counts = [len(rows) for rows in batch_rows(sizes, 16, seed=0, epoch=1)]
    # Each partition is rounded by itself, up or down at random.
    assert np.ptp(counts) <= max(2, 4 * np.sqrt(len(sizes)))
    assert np.mean(counts) == pytest.approx(sum(sizes) / len(counts))


def test_each_partition_gives_each_batch_its_share():
    starts = np.cumsum([0, 60, 120])
    for rows in batch_rows([60, 120], 30, seed=3, epoch=1):
        counts, _ = np.histogram(rows, starts)
        np.testing.assert_allclose(counts, [10, 20], atol=1)


def test_one_partition_in_order_is_cut_as_it_stands():
    found = batch_rows([12], 4, seed=5, epoch=1, shuffle=False)
    assert [rows.tolist() for rows in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_the_order_of_a_partition_is_its_own():
    """Neither the sizes of others nor how often it is asked for change it; seed and epoch do."""
    first = np.concatenate(batch_rows([20, 50], 70, seed=0, epoch=1))[:20]
    second = np.concatenate(batch_rows([20, 31], 51, seed=0, epoch=1))[:20]
    np.testing.assert_array_equal(first, second)
    for other in ({"seed": 1, "epoch": 1}, {"seed": 0, "epoch": 2}):
        assert (np.concatenate(batch_rows([20, 50], 70, **other))[:20] != first).any()
