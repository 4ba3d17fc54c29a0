"""Some random sequences of fits that are killed and resumed."""

from tests.fuzz.command import mismatches
from tests.fuzz.resumes import mismatch


def test_resumed_fits_equal_uninterrupted_ones(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "never")  # compiling so many optimizers takes long
    assert not list(mismatches(mismatch, range(12)))
