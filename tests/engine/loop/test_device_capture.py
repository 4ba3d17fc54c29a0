"""A step asks the device for nothing that a CUDA graph could not hold, but for the layers named here."""

import re
from itertools import chain

import numpy as np
import pytest

from sknet.device import active
from tests.devices import fake, kernels, texts

# Steps of these allocate: their primitives take indices that are arrays, or work in arrays that no plan
# knows of (`compile/cuda/_executor.py`). Everything else can be captured.
ALLOCATING = (
    "AdaptiveMaxPool", "AvgPool", "CTC", "CategoryEmbeddings", "Conv", "Cox", "Embedding", "MaxPool",
    "the network images", "the network sequences",
)  # fmt: skip
FAMILIES = ("layers", "losses", "optimizers", "sizes")


@pytest.fixture
def programs(limits):
    """What makes a step in float32, by name; nothing is compiled or computed."""
    limits.forget()
    families = (texts.PROGRAMS[family]() for family in FAMILIES)
    with kernels.recorded():
        yield [(name, make) for name, make in chain.from_iterable(families) if name.endswith("in float32")]


def refused(steps):
    """Run a step as if it were captured; return what is refused."""
    n_rows = min(steps.batches.size, steps.batches.n_samples)
    with active(steps.model.device), fake.idle():
        _, issue = steps._launches(n_rows, None)
        issue()  # allocates its memory
        try:
            with fake.capturing():
                issue()
        except fake.CaptureRefusedError as error:
            return str(error)
    return None


@pytest.mark.filterwarnings("ignore")  # of losses that are near their limits
def test_steps_can_be_captured(programs, monkeypatch):
    monkeypatch.setattr(fake, "FREE_MEMORY", 1 << 33)
    captured, others = set(), set()
    for name, make in programs:
        try:
            with np.errstate(all="ignore"):
                found = refused(make())
        except IndexError:  # nothing is computed, so indices may be anything
            continue
        (captured if found is None else others).add(name)
    named = {name for name in captured | others if re.match(rf"a step of ({'|'.join(ALLOCATING)})", name)}
    assert others <= named
    assert len(captured) > 400
