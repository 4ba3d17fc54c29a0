"""Some random sequences of freezing, unfreezing and fitting."""

from tests.fuzz.command import mismatches
from tests.fuzz.freezes import mismatch


def test_frozen_parameters_stay_and_trained_ones_agree_with_eager_steps(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "never")  # compiling so many optimizers takes long
    assert not list(mismatches(mismatch, range(25)))
