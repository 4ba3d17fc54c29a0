"""Random streams of `partial_fit`: what is remembered from part to part never hides a change."""

import pytest

from sknet.estimators import _fit
from tests.fuzz.command import mismatches
from tests.fuzz.parts import mismatch

CASES, PART = 60, 30


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_parts_are_the_same_whatever_is_remembered(first):
    assert not list(mismatches(mismatch, range(first, first + PART)))


@pytest.mark.parametrize("blind", ["parameters", "steps"])
def test_cases_find_what_is_remembered_for_too_long(blind, monkeypatch):
    if blind == "parameters":
        monkeypatch.setattr(_fit, "is_", lambda one, other: True)
    else:
        monkeypatch.setattr("sknet.engine._runners.CompiledSteps.is_valid", lambda steps: True)
    assert next(mismatches(mismatch, range(300)), None) is not None
