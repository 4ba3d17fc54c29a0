"""Some hundred randomly changed safe files; the command runs many more."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.files import CHANGES, mismatch, originals


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_changed_files(first):
    assert list(mismatches(mismatch, range(first, first + 50))) == []


def test_there_are_files_of_every_kind_and_changes_that_matter():
    assert {"classifier", "model", "module", "frozen", "pipeline", "checkpoint"} <= set(originals())
    assert {"exported", "graph"} <= set(originals())
    assert len({change.__name__ for change in CHANGES}) > 15
