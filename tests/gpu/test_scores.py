"""Right labels, counted on a GPU, against the same scores of the host."""

import numpy as np
import pytest

from sknet.device import Device, active, to_device
from tests.engine.loop.test_device_steps import CASES_SCORES as CASES
from tests.engine.loop.test_device_steps import arrays, scored

pytestmark = pytest.mark.gpu

CUDA = Device("cuda")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("kind", "columns", "target"), CASES)
def test_it_is_that_of_the_host(kind, columns, target, dtype):
    output, labels = arrays(kind, columns, dtype, target)
    with active(CUDA):
        there = scored(to_device(output, CUDA), to_device(labels, CUDA))
    assert there.state() == scored(output, labels).state()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_has_no_score(bad):
    output, labels = arrays("classes", 3, "float32", "int64")
    output[700, 1] = bad
    with active(CUDA):
        assert np.isnan(scored(to_device(output, CUDA), to_device(labels, CUDA)).result())
