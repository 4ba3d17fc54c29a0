"""The op table on a GPU: values and gradients agree with the CPU's."""

import numpy as np
import pytest

from sknet.device import Device
from tests.contracts.checks import value_and_gradients
from tests.contracts.rows import every_case

pytestmark = pytest.mark.gpu


@every_case()
def test_agrees_with_the_cpu(row, case):
    for dtype, tolerance in (("float32", 1e-5), ("float64", 1e-12)):
        operands = case.draw(dtype)
        expected = value_and_gradients(row, operands, case.params)
        found = value_and_gradients(row, operands, case.params, Device("cuda"))
        for mine, theirs in zip([found[0], *found[1]], [expected[0], *expected[1]], strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
