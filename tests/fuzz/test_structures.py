"""Pairs of models with one difference: the second never gets the programs of the first."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.faults import put_in
from tests.fuzz.structures import NAMES, Parts, has_key, mismatch, outcome, without_captures

CASES = 40


def test_a_model_never_gets_the_programs_of_another():
    assert not list(mismatches(mismatch, range(CASES)))


@pytest.mark.parametrize("fault", ["all objects have one key", "all values have one key"])
def test_cases_find_a_key_that_is_blind(fault, monkeypatch):
    put_in(monkeypatch, fault)
    assert next(mismatches(mismatch, range(200)), None) is not None


def test_a_second_model_is_not_captured():
    known = 0
    for seed in range(0, len(NAMES), 7):
        parts, again = Parts(seed), Parts(seed)
        model = parts.model()
        first = outcome(model, parts)
        if has_key(model):
            known += 1
            with without_captures():
                for one, other in zip(first, outcome(again.model(), again), strict=True):
                    assert one is other or one == other
    assert known > 9
