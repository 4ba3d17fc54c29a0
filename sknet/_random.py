"""Random states, as scikit-learn reads them, and snapshots of them."""

import ctypes
import itertools
import struct
import sys
import threading
from copy import deepcopy
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.random.bit_generator import ISeedSequence

from sknet._constraints import Options, is_integer
from sknet._fields import ABSENT, FINITE, Arrays, Fields, Number, shown

_of_thread = threading.local()


def check_random_state(seed: Any) -> RandomState:
    """Return what draws random numbers."""
    if isinstance(seed, RandomState):
        return seed
    if seed is None or seed is np.random:
        return np.random.mtrand._rand
    if is_integer(seed) and 0 <= int(seed) < 2**32:
        return _seeded(int(seed))
    if isinstance(seed, np.random.Generator):
        return _seeded(int(seed.integers(2**32)))
    raise ValueError(
        f"{shown(seed)} cannot be used to seed a numpy.random.RandomState: random_state must be an int "
        "from 0 to 2**32 - 1, a RandomState, a Generator or None"
    )


def _pcg(name: str) -> dict[str, Any]:
    wide = Number(Integral, 0, 2**128 - 1)
    return {**_bits(name), "state": Fields.of(name, {"state": wide, "inc": wide})}


def _bits(name: str, *, has_half: bool = True) -> dict[str, Any]:
    """Return the fields of a state that most bit generators share: half of a word may be left over."""
    halves = {"has_uint32": Number(Integral, 0, 1), "uinteger": Number(Integral, 0, 2**32 - 1)}
    return {"bit_generator": Options(str, {name}), **(halves if has_half else {})}


def _words(n: int, itemsize: int = 8) -> Arrays:
    return Arrays("u", n, itemsize=itemsize)


# The state of each bit generator as NumPy writes it; what it does with others is not defined.
GENERATORS: dict[str, Fields] = {
    name: Fields.of(name, declared)
    for name, declared in {
        "MT19937": {
            **_bits("MT19937", has_half=False),
            "state": Fields.of(
                "MT19937", {"key": Arrays("u", 624, itemsize=4), "pos": Number(Integral, 0, 624)}
            ),
            "has_gauss": [Number(Integral, 0, 1), ABSENT],
            "gauss": [FINITE, ABSENT],
        },
        "PCG64": _pcg("PCG64"),
        "PCG64DXSM": _pcg("PCG64DXSM"),
        "Philox": {
            **_bits("Philox"),
            "state": Fields.of("Philox", {"counter": _words(4), "key": _words(2)}),
            "buffer": _words(4),
            "buffer_pos": Number(Integral, 0, 4),
        },
        "SFC64": {**_bits("SFC64"), "state": Fields.of("SFC64", {"state": _words(4)})},
    }.items()
}


def check_generator(state: Any, kind: Any = None) -> Any:
    name = state.get("bit_generator") if isinstance(state, dict) else None
    if not isinstance(name, str) or name not in GENERATORS or (kind is not None and name != kind.__name__):
        raise ValueError(f"{shown(name)} is no bit generator of a random state")
    GENERATORS[name].check(state)
    return getattr(np.random, name)


class _NoSeeds(ISeedSequence):
    """A first state that costs nothing, for a generator whose seed is set afterwards."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """Return zeros, in a list: they are read one by one."""
        return [0] * n_words


def _seeded(seed: int) -> RandomState:
    """Return ``RandomState(seed)`` in a twentieth of the time, without the first state that it draws."""
    seeds: Any = _NoSeeds()
    made = RandomState(np.random.MT19937(seeds))
    made.seed(seed)
    return made


class RandomSnapshot:
    """Snapshot of a random state, which is rarely read."""

    __slots__ = ("_normal", "_source", "_state", "_words")

    def __init__(self, source: RandomState) -> None:
        places = places_of_state()
        self._source = source
        self._words, self._normal = b"", b""
        self._state: Any = None
        if places is None or type(source._bit_generator) is not np.random.MT19937:
            self._state = source.get_state(legacy=False)
        else:
            self._words, self._normal = _read(source, *places)

    def twin(self) -> RandomState:
        """Return a random state of this thread that goes on from here; the next call sets it anew."""
        twin: RandomState | None = getattr(_of_thread, "twin", None)
        if twin is None:  # making one takes longer than all else that is done with it
            twin = _of_thread.twin = _seeded(0)
        words = self._words
        if not words or NORMAL.unpack(self._normal)[0]:
            twin.set_state(self.state())
        else:
            twin.seed(0)  # no normal number is left over
            ctypes.memmove(twin._bit_generator.ctypes.state_address, words, len(words))
        return twin

    def state(self) -> Any:
        """Return the state as ``get_state(legacy=False)`` would have returned it."""
        if not self._words:
            return self._state
        has_normal, normal = NORMAL.unpack(self._normal)
        key = np.frombuffer(self._words, np.uint32, KEY).copy()
        [position] = struct.unpack_from("i", self._words, 4 * KEY)
        words = {"key": key, "pos": position}
        return {"bit_generator": "MT19937", "state": words, "has_gauss": has_normal, "gauss": normal}

    def holds(self, source: RandomState) -> bool:
        """Tell whether this is a state of `source`, and its present one; not where memory is unknown."""
        now = RandomSnapshot(source)
        return source is self._source and now._words == self._words != b"" and now._normal == self._normal

    def restore(self) -> None:
        """Set the random state back."""
        self._source.set_state(self.state())


def twin_of(source: RandomState) -> RandomState:
    """Return a random state that goes on as the given one does; `RandomSnapshot.twin` says which."""
    return RandomSnapshot(source).twin() if is_plain(source) else deepcopy(source)


def is_plain(source: RandomState) -> bool:
    """Tell whether a random state is NumPy's own class with its default generator."""
    return type(source) is RandomState and type(source._bit_generator) is np.random.MT19937


KEY = 624  # words of the Mersenne Twister; an int, the position among them, follows in memory
NORMAL = struct.Struct("i4xd")  # whether a normal number is left over, and which: two are drawn at a time
FEW = 6  # uses: two fits of a network
_uses = itertools.count()
PROBES = ((7, 1, 0.8125), (0, 0, 0.0), (624, 1, -3.5))  # positions and numbers left over


def _read(source: RandomState, place: int, of_words: int) -> tuple[bytes, bytes]:
    """Return copies of the memory of a generator: its words, and the normal number."""
    words = ctypes.string_at(id(source._bit_generator) + of_words, 4 * KEY + 4)
    return words, ctypes.string_at(id(source) + place, NORMAL.size)


def places_of_state() -> tuple[int, int] | None:
    """Return where the normal number is in a RandomState, and the words are in its generator.

    None if memory cannot be read like this.
    """
    return None if next(_uses) < FEW else _found_places()


@cache
def _found_places() -> tuple[int, int] | None:
    """Find where the state is in a RandomState and in its generator."""
    if sys.implementation.name != "cpython":
        return None
    probe, place = _seeded(1), -1
    of_words, other = map(_place_of_words, (probe, _seeded(2)))  # NumPy's own way takes ten calls for each
    if of_words != other:
        return None
    key: Any = np.arange(KEY, dtype=np.uint32)
    for position, *normal in PROBES:
        state: Any = ("MT19937", key, position, *normal)
        probe.set_state(state)
        wanted = NORMAL.pack(*normal)
        if place < 0:
            memory = ctypes.string_at(id(probe), RandomState.__basicsize__)
            place = memory.find(wanted[8:]) - 8
            if place < 0:
                return None
        if _read(probe, place, of_words) != (key.tobytes() + struct.pack("i", position), wanted):
            return None
    return place, of_words


def _place_of_words(source: RandomState) -> int:
    generator = source._bit_generator
    return int(generator.ctypes.state_address) - id(generator)
