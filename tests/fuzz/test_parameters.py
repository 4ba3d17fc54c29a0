"""Bad values of parameters are refused by errors that name them, before anything changes."""

import sys
from pathlib import Path

import pytest

from tests.fuzz.command import mismatches, run
from tests.fuzz.faults import put_in
from tests.fuzz.parameters import VALUES, arguments, mismatch, of_case, pairs

CASES, PART = 400, 100
HOSTILE = (
    *("hostile object", "list of hostile objects", "long text", "module"),
    *("huge object", "endless object", "mute object"),
)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    """Work where files may be written, whose names are bad values."""
    monkeypatch.chdir(tmp_path)


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


@pytest.mark.parametrize("fault", ["any parameter is taken", "values are shown by their classes"])
def test_cases_find_unchecked_values(fault, monkeypatch):
    put_in(monkeypatch, fault)
    assert next(mismatches(mismatch, range(300)), None) is not None


def test_runs_by_hand_write_nothing_where_they_are_started(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["it", "--cases", "2"])
    assert not run(lambda seed: Path("nonsense").write_text("it") and None, "About it.", 1)
    assert not Path("nonsense").exists()
    assert "2 cases, 0 mismatches" in capsys.readouterr().out
