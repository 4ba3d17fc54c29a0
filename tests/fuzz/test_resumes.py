"""Random sequences of fits that die and are resumed: a few of them."""

from tests.fuzz.command import mismatches
from tests.fuzz.resumes import mismatch


def test_resumed_fits_equal_uninterrupted_ones(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "0")  # machine code of so many optimizers takes long to make
    assert not list(mismatches(mismatch, range(12)))
