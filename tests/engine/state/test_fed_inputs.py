"""Rows of host arrays, gathered where they are sent from."""

import numpy as np
import pytest

from sknet.engine import _inputs
from sknet.engine._inputs import gather, gather_by_threads

X = np.random.default_rng(0).normal(size=(301, 7))
CHOSEN = {"a slice": slice(20, 257), "in any order": np.random.default_rng(1).permutation(301)[:237]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("chosen", CHOSEN)
@pytest.mark.parametrize("threads", [1, 3, 4])
def test_rows(threads, chosen, dtype, monkeypatch):
    monkeypatch.setattr(_inputs, "MOST_THREADS", threads)
    monkeypatch.setattr(_inputs, "BYTES_OF_A_THREAD", 100)
    monkeypatch.setattr(_inputs.os, "cpu_count", lambda: 8)
    out = np.full((237, 7), np.nan, dtype)
    gather_by_threads(X, CHOSEN[chosen], out)
    np.testing.assert_array_equal(out, X[CHOSEN[chosen]].astype(dtype))


def test_threads_know_what_is_to_be_done_with_overflows(monkeypatch):
    monkeypatch.setattr(_inputs, "BYTES_OF_A_THREAD", 100)
    with np.errstate(over="ignore"):
        gather_by_threads(1e300 * X, slice(0, 301), np.empty(X.shape, "f4"))
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        gather_by_threads(1e300 * X, slice(0, 301), np.empty(X.shape, "f4"))


def test_few_bytes_are_converted_together(monkeypatch):
    monkeypatch.setattr(_inputs, "AT_ONCE", 100)
    out = np.empty((237, 7), "f4")
    gather(X, CHOSEN["in any order"], out)
    np.testing.assert_array_equal(out, X[CHOSEN["in any order"]].astype("f4"))
