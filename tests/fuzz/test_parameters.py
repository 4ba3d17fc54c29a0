"""Bad values of parameters are refused by errors that name them, before anything changes."""

import pytest

from sknet import _constraints
from tests.fuzz.command import mismatches
from tests.fuzz.parameters import VALUES, arguments, mismatch, of_case, pairs

CASES, PART = 400, 100
HOSTILE = (
    *("hostile object", "list of hostile objects", "long text", "module"),
    *("huge object", "endless object", "mute object"),
)


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_bad_parameters_are_refused_by_name(first):
    assert not list(mismatches(mismatch, range(first, first + PART)))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_parameter_is_shown_by_what_its_class_does(text):
    assert not [found for cls, name in pairs() if (found := of_case(cls, name, text)) is not None]


def test_there_are_many_parameters():
    assert len(pairs()) > 800
    assert len(arguments()) > 900
    assert len({cls for cls, _ in pairs()}) > 140
    assert len(VALUES) > 50


@pytest.mark.parametrize("blind", ["numbers", "representations"])
def test_cases_find_unchecked_values(blind, monkeypatch):
    if blind == "numbers":
        monkeypatch.setattr(_constraints, "satisfies", lambda value, of: of.is_satisfied_by(value))
    else:
        monkeypatch.setattr(_constraints, "shown", repr)
    assert next(mismatches(mismatch, range(300)), None) is not None
