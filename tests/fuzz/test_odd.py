"""Odd data is learned from, or refused in words: a few random cases, and all kinds of data by name."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.faults import put_in
from tests.fuzz.odd import LABELS, NUMBERS, TABLES, WEIGHTS, drawn, mismatch

CASES, PART = 120, 40


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_odd_data_is_learned_from_or_refused_in_words(first):
    assert not list(mismatches(mismatch, range(first, first + PART)))


def test_cases_reach_every_kind_of_data():
    said = " ".join(f"{drawn(seed).said}," for seed in range(3000))
    for prefix, kinds in (("X", TABLES), ("y", [*NUMBERS, *LABELS]), ("weights", WEIGHTS)):
        assert not [name for name in kinds if f"{prefix} {name}," not in said]


def test_cases_find_a_missing_check(monkeypatch):
    put_in(monkeypatch, "odd data is taken")
    assert next(mismatches(mismatch, range(300)), None) is not None
