"""A few hundred random programs through the rewriting rules; the module runs as many as requested."""

import pytest

from tests.fuzz.faults import put_in
from tests.fuzz.rewriting import Case, made, mismatches

CASES = 200


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("first", range(0, CASES, 20))
def test_cases(first):
    for number in range(first, first + 20):
        case = made(number, seed=1)
        assert not mismatches(case, number), f"case {number} of seed 1:\n{case.source}"


def test_a_case_is_its_number():
    first, again, other = made(7), made(7), made(8)
    assert first.source == again.source != other.source
    assert all(x.tobytes() == again.arrays[name].tobytes() for name, x in first.arrays.items())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_wrong_rule_is_found(monkeypatch):
    """The former rule for exp(x - log(y)), which is infinite where the value is 7.63."""
    put_in(monkeypatch, "a rule is wrong")
    cases = {number: made(number, seed=2) for number in range(600)}
    may_change = {number: x for number, x in cases.items() if "exp(" in x.source and "log(" in x.source}
    assert len(may_change) > 30
    found = [mismatches(case, number) for number, case in may_change.items()]
    assert any("relaxed" in text for texts in found for text in texts)
    assert not any("exact" in text for texts in found for text in texts)


def test_a_case_shows_its_program():
    assert isinstance(made(3), Case)
    assert made(3).source.startswith("def program(x0")
