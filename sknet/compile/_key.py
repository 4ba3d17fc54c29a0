"""Keys: equal for values of the same type and bits, and for no others."""

import hashlib
import struct
from collections.abc import Callable, Hashable, Mapping
from types import EllipsisType
from typing import Any

import numpy as np

from sknet.device import MetaArray, device_of, is_array, to_host

__all__ = ["key_of", "same_value"]

INLINE = 64  # bytes up to which a key contains an array itself; larger ones are represented by a digest


class _Identity:
    """The key of an object that equals only itself; keeping the object keeps its id unique."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def key_of(value: Any) -> Hashable:
    """Return a key that identifies a value."""
    found = _KEYS.get(type(value))
    return found(value) if found is not None else _other(value)


def same_value(a: Any, b: Any) -> bool:
    """Tell whether two values have equal keys, or, if keys go by identity, equal types and values."""
    if key_of(a) == key_of(b):
        return True
    return type(a) is type(b) and isinstance(key_of(a), _Identity) and bool(a == b)


def _tagged(value: Any) -> Hashable:
    return type(value), value


def _float(value: float) -> Hashable:
    return float, struct.pack("d", value)


def _sequence(value: Any) -> Hashable:
    if set(map(type, value)) <= _INT:  # shapes and axes, which most parameters are
        return type(value), tuple(value)
    return type(value), tuple([key_of(x) for x in value])


def _mapping(value: Mapping[Any, Any]) -> Hashable:
    return type(value), tuple([(key_of(name), key_of(x)) for name, x in value.items()])


def _slice(value: slice) -> Hashable:
    return slice, key_of(value.start), key_of(value.stop), key_of(value.step)


def _array(value: np.ndarray) -> Hashable:
    if value.dtype.hasobject:
        return np.ndarray, value.dtype, value.shape, tuple([key_of(x) for x in value.flat])
    if value.size > 1 and not any(value.strides):  # one element, repeated
        return np.ndarray, value.dtype, value.shape, value[(0,) * value.ndim].tobytes(), "repeated"
    return np.ndarray, value.dtype, value.shape, _digest(value)


def _digest(value: np.ndarray) -> bytes:
    if value.nbytes <= INLINE:
        return value.tobytes()
    rows = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    return hashlib.blake2b(rows.data, digest_size=32).digest()


def _scalar(value: np.generic) -> Hashable:
    return type(value), value.dtype, key_of(value.item()) if value.dtype.hasobject else value.tobytes()


_BY_BASE: tuple[tuple[type, Callable[[Any], Hashable]], ...] = (
    (np.dtype, lambda value: (np.dtype, value)),
    (np.ndarray, _array),
    (np.generic, _scalar),
    (int, int.__int__),  # subclasses, such as a tensor's size
    (float, lambda value: _float(float(value))),
    (str, str.__str__),
    (tuple, _sequence),
    (list, _sequence),
    (dict, _mapping),
)
_INT: set[type] = {int}
_KEYS: dict[type, Callable[[Any], Hashable]] = {
    **dict.fromkeys((bool, int, str, bytes, type(None), EllipsisType), _tagged),
    float: _float,
    complex: lambda value: (complex, struct.pack("dd", value.real, value.imag)),
    slice: _slice,
    tuple: _sequence,
    list: _sequence,
    dict: _mapping,
    np.ndarray: _array,
}


def _other(value: Any) -> Hashable:
    for base, key in _BY_BASE:
        if isinstance(value, base):
            return type(value), key(value)
    if is_array(value) and not isinstance(value, MetaArray):
        return type(value), device_of(value), _array(to_host(value))
    return _Identity(value)
