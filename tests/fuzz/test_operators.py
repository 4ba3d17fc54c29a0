"""Some random ONNX nodes of every operator; `tests.fuzz.operators` computes as many as requested."""

from collections import Counter

import pytest

from tests.fuzz.command import HARMLESS
from tests.fuzz.operands import DRAWS
from tests.fuzz.operators import checked, shown

SEEDS = range(4 * len(DRAWS))
EACH = 80  # in one test


@pytest.mark.parametrize("start", SEEDS[::EACH])
def test_random_operators(start):
    counts = Counter()
    for seed in SEEDS[start : start + EACH]:
        for kind, text in checked(seed):
            assert kind in HARMLESS, f"{kind}: {text}\n  {shown(seed)}"
            counts[kind] += 1
    assert counts["agrees"] > 0.6 * counts.total(), counts
