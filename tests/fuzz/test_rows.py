"""Some random fits on rows that are encoded when they are read."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.rows import mismatch


@pytest.mark.parametrize("start", [0, 20, 40])
def test_fits_on_computed_rows_are_those_on_arrays(start):
    assert not list(mismatches(mismatch, range(start, start + 20)))
