"""Random sequences of freezing, thawing and fitting: a few of them."""

from tests.fuzz.command import mismatches
from tests.fuzz.freezes import mismatch


def test_frozen_parameters_stay_and_trained_ones_agree_with_eager_steps(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "0")  # machine code of so many optimizers takes long to make
    assert not list(mismatches(mismatch, range(25)))
