"""The tests of precisions by hand, on the emulated library, which rounds as they do; what it refuses."""

import numpy as np
import pytest

from sknet.compile import compile
from sknet.device import Device, active, to_device
from sknet.device._products import Library
from sknet.ops import matmul
from tests.devices.emulated import counted
from tests.devices.rounding import BITS, rounded
from tests.engine.predict.test_rows import test_predictions
from tests.engine.test_precisions import (
    test_a_copy_goes_on_in_its_precision_or_another,
    test_a_fit_follows_a_precision_that_is_assigned,
    test_a_fit_is_that_by_hand,
    test_many_fits,
    test_single_steps_are_too,
    test_small_updates_are_not_lost,
)

__all__ = [
    "test_a_copy_goes_on_in_its_precision_or_another",
    "test_a_fit_follows_a_precision_that_is_assigned",
    "test_a_fit_is_that_by_hand",
    "test_many_fits",
    "test_predictions",
    "test_single_steps_are_too",
    "test_small_updates_are_not_lost",
]

CUDA = Device("cuda")


@pytest.fixture
def place():
    """The device of the tests above."""
    return CUDA


def refusing(monkeypatch, is_refused):
    """Let the library have no algorithm for some forms and endings."""
    chosen = Library.chosen

    def refuse(self, form, parts, at):
        return None if is_refused(form, parts) else chosen(self, form, parts, at)

    monkeypatch.setattr(Library, "chosen", refuse)


REFUSED = {  # what of a precision, and which bits are left
    "nothing": (lambda form, parts: False, True),
    "endings": (lambda form, parts: form.dtype in BITS and parts, True),
    "all": (lambda form, parts: form.dtype in BITS, False),
}


@pytest.mark.parametrize("precision", BITS)
@pytest.mark.parametrize("refused", REFUSED)
def test_what_a_precision_does_not_have(refused, precision, monkeypatch):
    """An ending is a launch of its own then, and a product is float32."""
    is_refused, is_rounded = REFUSED[refused]
    refusing(monkeypatch, is_refused)
    n = {"nothing": 21, "endings": 22, "all": 23}[refused]  # rows of no other test
    rng = np.random.default_rng(0)
    x, y, row = (rng.standard_normal(shape).astype("float32") for shape in ((n, 7), (7, 33), 33))
    with active(CUDA, precision):
        given = [to_device(each, CUDA) for each in (x, y, row)]
        program = compile(lambda x, y, row: matmul(x, y) + row, tuple(given), slots=tuple(given))
        program.run()
        with counted() as counts:
            program.run()
    factors = [rounded(each, BITS[precision]) if is_rounded else each for each in (x, y)]
    np.testing.assert_allclose(program.result.get(), np.matmul(*factors) + row, atol=2e-6)
    assert (counts.launches, counts.allocations) == (1 if refused == "nothing" else 2, 0)
