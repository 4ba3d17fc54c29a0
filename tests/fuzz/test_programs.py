"""Some hundred random programs against PyTorch; `tests.fuzz.programs` runs as many as requested."""

from collections import Counter

import pytest

from tests.fuzz.command import HARMLESS
from tests.fuzz.programs import checked, draw
from tests.project import has_native

pytest.importorskip("torch", reason="the measure of these tests is PyTorch: install scikit-neural[oracle]")

SEEDS = range(100)
EACH = 50  # in one test


@pytest.mark.parametrize("start", SEEDS[::EACH])
def test_random_programs(start):
    counts = Counter()
    for seed in range(start, start + EACH):
        there, natively = seed % 20 == 0, has_native() and seed % 4 == 0
        for kind, text in checked(seed, there, natively):
            assert kind in HARMLESS, f"{kind}: {text}\n  seed {seed}: {draw(seed)}"
            counts[kind] += 1
    assert counts["not captured"] + counts["ill-conditioned"] < EACH / 4
    assert counts["not native"] < EACH / 4
