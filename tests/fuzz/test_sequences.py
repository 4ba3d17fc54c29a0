"""Random sequences of what a user does between steps: compiled, eager and copied models agree bit for bit."""

import pytest

from tests.fuzz.sequences import mismatches

CASES, PART = 300, 50


@pytest.mark.parametrize("first", range(0, CASES, PART))
def test_models_agree_whatever_is_done_between_steps(first):
    assert not list(mismatches(range(first, first + PART)))
