"""What callers of native passes and their source both say."""

import pytest

from sknet.compile.executors.native import (
    _helpers,
    _native_gates,
    _native_norms,
    _native_passes,
)
from sknet.compile.executors.native._gates import FIELDS
from sknet.compile.executors.native._passes import Work

CALLERS = _helpers, _native_gates, _native_norms, _native_passes


@pytest.mark.parametrize("work", Work, ids=lambda work: work.name)
def test_callers_give_the_numbers_of_the_source(work):
    [said] = [getattr(m, work.name) for m in CALLERS if hasattr(m, work.name)]
    assert said == work


def test_callers_give_as_many_fields_as_a_step_reads():
    assert FIELDS == _native_gates.FIELDS
