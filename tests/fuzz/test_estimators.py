"""Random sequences of what a user does with fitted estimators: all ways to ask one give one answer."""

from tests.fuzz.command import mismatches
from tests.fuzz.estimators import mismatch


def test_estimators_stay_consistent_whatever_is_done(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "0")  # what native code computes is compared elsewhere
    assert not list(mismatches(mismatch, range(40)))
