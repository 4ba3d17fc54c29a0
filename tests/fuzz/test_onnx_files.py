"""Some hundred damaged ONNX files; `tests.fuzz.onnx_files` reads as many as requested."""

from collections import Counter

import pytest

from tests.fuzz.command import HARMLESS
from tests.fuzz.onnx_files import MODULES, checked, damaged, original, shown

SEEDS = range(300)
EACH = 60  # in one test


@pytest.mark.parametrize("start", SEEDS[::EACH])
def test_damaged_files(start):
    counts = Counter()
    for seed in range(start, start + EACH):
        for kind, text in checked(seed):
            assert kind in HARMLESS, f"{kind}: {text}\n  {shown(seed)}"
            counts[kind] += 1
    assert min(counts["agrees"], counts["refused"]) > 0


def test_seeds_damage_files_again_in_the_same_way():
    assert all(
        damaged(seed) == damaged(seed) != (name, original(name)) for seed, name in enumerate(sorted(MODULES))
    )
