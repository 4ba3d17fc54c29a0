"""Pairs of models with one difference: the second never gets the programs of the first."""

import pytest

from sknet.engine import _fingerprint
from sknet.engine._fingerprint import structure_of
from tests.fuzz.command import mismatches
from tests.fuzz.structures import NAMES, Parts, mismatch, outcome

CASES = 40


def test_a_model_never_gets_the_programs_of_another():
    assert not list(mismatches(mismatch, range(CASES)))


@pytest.mark.parametrize("blind_to", ["_key_of_object", "key_of"])
def test_cases_find_a_key_that_is_blind(blind_to, monkeypatch):
    monkeypatch.setattr(_fingerprint, blind_to, lambda *args: 0)
    assert next(mismatches(mismatch, range(200)), None) is not None


def test_a_second_model_is_not_captured(monkeypatch):
    def refused(*args):
        raise AssertionError("captured again")

    known = 0
    for seed in range(0, len(NAMES), 7):
        parts, again = Parts(seed), Parts(seed)
        model = parts.model()
        first = outcome(model, parts)
        if structure_of(model.module, model.loss_function, model.optimizer) is not None:
            known += 1
            with monkeypatch.context() as patched:
                patched.setattr("sknet.compile._compile.prepared", refused)
                for one, other in zip(first, outcome(again.model(), again), strict=True):
                    assert one is other or one == other
    assert known > 9
