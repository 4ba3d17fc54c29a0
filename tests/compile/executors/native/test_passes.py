"""What callers of native passes and their source both say."""

import pytest

from sknet.compile.executors.native import _helpers, _native_norms, _native_passes
from sknet.compile.executors.native._gates import FIELDS
from sknet.compile.executors.native._passes import Work


@pytest.mark.parametrize("work", Work, ids=lambda work: work.name)
def test_callers_give_the_numbers_of_the_source(work):
    modules = _helpers, _native_norms, _native_passes
    [said] = [getattr(module, work.name) for module in modules if hasattr(module, work.name)]
    assert said == work


def test_callers_give_as_many_fields_as_a_step_reads():
    assert FIELDS == _native_passes.FIELDS
