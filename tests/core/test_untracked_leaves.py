"""Parameters that a loss misses in part: those frozen while some operations were recorded."""

import math

import numpy as np
import pytest

from sknet import Model, Tensor, nn
from sknet.exceptions import GradientError

# Actions on w and b, in order: "-w" freezes, "+w" unfreezes, and a letter or two record a product of them.
CASES = [
    ("w b", ""),
    ("wb -w +w", ""),
    ("-w b +w", "w"),
    ("-w b +w wb", "w"),
    ("wb -w b +w", "w"),
    ("wb -w b +w wb", "w"),
    ("wb -w b", ""),
    ("-w +w b", ""),
    ("-w b +w -b", None),  # nothing that is trained now was recorded
    ("-w b +w -b w", "w"),  # b, which shows when the first term was recorded, is frozen by now
    ("-b w +b -w b +w wb", "w"),
    ("-w b +w -w +w", "w"),
    ("-b w +b wb", "b"),
]


VALUES = {"w": 2.0, "b": 3.0}


class Product(nn.Module):
    def __init__(self):
        self.w, self.b = (nn.Parameter([value]) for value in VALUES.values())

    def forward(self, x):
        return x * self.w * self.b


@pytest.mark.parametrize(("events", "missed"), CASES)
def test_the_first_parameter_that_a_tape_misses_is_named(events, missed):
    model = Model(Product(), dtype="float64", random_state=0)
    leaves = dict(model.module.named_parameters())
    total, terms = Tensor([1.0], requires_grad=True) * 1, []
    for event in events.split():
        if event[0] in "+-":
            leaves[event[1]].requires_grad = event[0] == "+"
        else:
            terms.append(event)
            total = total + math.prod(leaves[name] for name in event)
    if missed == "":
        for name, found in model.backward(total.sum()).items():
            others = [term.replace(name, "") for term in terms if name in term]
            np.testing.assert_allclose(found, sum(math.prod(VALUES[x] for x in other) for other in others))
    else:
        named = f"'{missed}' was frozen, or not part .*: compute output and loss again"
        with pytest.raises(GradientError, match="does not depend on" if missed is None else named):
            model.backward(total.sum())
