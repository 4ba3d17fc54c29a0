"""Snapshots of random states."""

import copy
import pickle
import random
import re
from itertools import product

import numpy as np
import pytest
from numpy.random import PCG64, RandomState

from sknet import _random, nn
from sknet._random import RandomSnapshot, check_random_state, twin_of

DRAWS = {
    "nothing": lambda source: None,
    "a normal number, so that another is left over": lambda source: source.normal(),
    "two normal numbers": lambda source: source.normal(size=2),
    "a permutation": lambda source: source.permutation(50),
    "all words": lambda source: source.randint(2**32, size=624 - source.get_state()[2], dtype=np.uint32),
    "many": lambda source: source.uniform(size=1000),
}


class Mine(RandomState):
    """A class of a user's own."""


def sources():
    return {"seed": RandomState(5), "subclass": Mine(7), "other generator": RandomState(PCG64(3))}


TWISTERS = ("seed", "subclass")


def as_text(source):
    return repr(source.get_state(legacy=False))


CASES = [
    (kind, *draws)
    for kind in sources()
    for draws in product(DRAWS, repeat=2)
    if kind in TWISTERS or "all words" not in draws
]


@pytest.mark.parametrize(("kind", "before", "after"), CASES)
def test_a_snapshot_is_the_state_and_restores_it(kind, before, after):
    source = sources()[kind]
    DRAWS[before](source)
    wanted, state = as_text(source), source.get_state(legacy=False)
    snapshot = RandomSnapshot(source)
    DRAWS[after](source)
    taken = snapshot.state()
    assert repr(taken) == wanted
    if kind in TWISTERS:
        np.testing.assert_array_equal(taken["state"]["key"], state["state"]["key"])
    snapshot.restore()
    assert as_text(source) == wanted
    assert source.normal() == _drawn_after(kind, before)


def _drawn_after(kind, before):
    source = sources()[kind]
    DRAWS[before](source)
    return source.normal()


@pytest.mark.parametrize("kind", sources())
def test_where_memory_cannot_be_read_the_state_is_asked_for(kind, monkeypatch):
    monkeypatch.setattr(_random, "place_of_normal", lambda: None)
    source = sources()[kind]
    source.normal()
    wanted, snapshot = as_text(source), RandomSnapshot(source)
    source.normal(size=4)
    snapshot.restore()
    assert as_text(source) == wanted


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**32 - 1, np.int64(7)])
def test_a_seed_gives_numpys_random_state(seed):
    mine, theirs = check_random_state(seed), RandomState(int(seed))
    assert as_text(mine) == as_text(theirs)
    assert pickle.dumps(mine) == pickle.dumps(theirs)
    assert copy.deepcopy(mine).normal() == theirs.normal() == mine.normal()


@pytest.mark.parametrize("seed", [-1, 2**32, np.timedelta64(3, "s"), np.timedelta64(3, "ns")])
def test_a_seed_out_of_range_is_refused_by_name(seed):
    with pytest.raises(ValueError, match=re.escape("random_state must be an int from 0 to 2**32 - 1")):
        check_random_state(seed)


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("kind", sources())
@pytest.mark.parametrize(
    "before", ["nothing", "a normal number, so that another is left over", "a permutation"]
)
def test_a_twin_goes_on_and_leaves_its_source_alone(kind, before, memory, monkeypatch):
    if not memory:
        monkeypatch.setattr(_random, "place_of_normal", lambda: None)
    source, again = sources()[kind], sources()[kind]
    for each in (source, again):
        DRAWS[before](each)
    state = as_text(source)
    assert twin_of(source).normal(size=3).tolist() == again.normal(size=3).tolist()
    assert as_text(source) == state


UNSEEDED = {
    "random": random.random,
    "global": np.random.random,
    "RandomState": lambda: RandomState().random(),
    "default_rng": lambda: np.random.default_rng().random(),
    "parameter": lambda: nn.Linear(1, 1).initialize().weight.item(),
}
drawn = {}


@pytest.mark.parametrize("number", range(2))
@pytest.mark.parametrize("kind", UNSEEDED)
def test_unseeded_numbers_are_the_same_in_each_test_but_not_within(kind, number):
    first, second = UNSEEDED[kind](), UNSEEDED[kind]()
    assert first != second
    assert drawn.setdefault(kind, first) == first
