"""Random sequences of user actions between steps: compiled, eager and copied models agree bit for bit."""

import pytest

from tests.fuzz.command import mismatches
from tests.fuzz.sequences import mismatch

CASES, PART = 100, 25


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_models_agree_whatever_is_done_between_steps(first):
    assert not list(mismatches(mismatch, range(first, first + PART)))
