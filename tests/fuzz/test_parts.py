"""Random streams of `partial_fit`: what is remembered from part to part never hides a change."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.faults import put_in
from tests.fuzz.parts import mismatch

CASES, PART = 60, 30


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_parts_are_the_same_whatever_is_remembered(first):
    assert not list(mismatches(mismatch, range(first, first + PART)))


@pytest.mark.parametrize("fault", ["changed parameters are not seen", "steps are never outdated"])
def test_cases_find_what_is_remembered_for_too_long(fault, monkeypatch):
    put_in(monkeypatch, fault)
    assert next(mismatches(mismatch, range(300)), None) is not None
