"""Some hundred random networks, trained in every way; `tests.fuzz.networks` runs as many as requested."""

from collections import Counter

import pytest

from tests.fuzz.command import HARMLESS
from tests.fuzz.networks import checked, draw

pytest.importorskip("sknet._native._core", reason="native code was not built")

SEEDS = range(80)
EACH = 20  # in one test


@pytest.mark.parametrize("start", SEEDS[::EACH])
def test_random_networks(start):
    counts = Counter()
    for seed in range(start, start + EACH):
        for kind, text in checked(seed):
            assert kind in HARMLESS, f"{kind}: {text}\n  {draw(seed)}"
            counts[kind] += 1
    assert counts["skipped"] < EACH / 4
    assert not counts["not native"]
    assert counts["ill-conditioned"] < EACH / 4
