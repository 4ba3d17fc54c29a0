"""Random sequences of user actions on fitted estimators, whose predictions stay consistent."""

from tests.fuzz.command import mismatches
from tests.fuzz.estimators import mismatch


def test_estimators_stay_consistent_whatever_is_done(monkeypatch):
    monkeypatch.setenv("SKNET_NATIVE", "never")  # native code is compared elsewhere
    assert not list(mismatches(mismatch, range(24)))
