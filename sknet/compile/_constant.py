"""Constants of graphs: copies with the values and the memory layout of what a captured function used."""

from collections.abc import Hashable

import numpy as np

from sknet.compile._key import key_of

__all__ = ["constant_key", "is_broadcast", "is_uniform", "same_bytes", "snapshot"]


def snapshot(array: np.ndarray) -> np.ndarray:
    """Copy an array with the order of its axes in memory; axes along which it is broadcast stay so.

    A product with a transposed or broadcast array rounds differently from that with a C-contiguous one.

    Parameters
    ----------
    array : ndarray
        Any array.

    Returns
    -------
    ndarray
        Read-only, of the same shape and values.
    """
    whole = tuple([slice(None) if stride else slice(1) for stride in array.strides])
    return np.broadcast_to(np.array(array[whole], order="K") if array.size else array, array.shape)


def same_bytes(array: np.ndarray, constant: np.ndarray) -> bool:
    """Tell whether an array still has the elements of its snapshot; False for arrays of objects."""
    if array.dtype.hasobject:
        return False
    if is_broadcast(constant):
        return bool(array.tobytes() == _first(constant) * array.size)
    return bool(array.tobytes() == constant.tobytes())


def is_broadcast(constant: np.ndarray) -> bool:
    """Tell whether an array of several elements is one element, broadcast."""
    return constant.size > 1 and not any(constant.strides)


def is_uniform(constant: np.ndarray) -> bool:
    """Tell whether an array has elements, and all of them have the same bits."""
    if constant.size < 2 or is_broadcast(constant):
        return bool(constant.size)
    first = _first(constant)
    last = constant[(-1,) * constant.ndim].tobytes()  # most arrays need no more than this
    return bool(first == last and constant.tobytes() == first * constant.size)


def constant_key(constant: np.ndarray) -> Hashable:
    """Return a key that identifies a constant: its values and its layout."""
    layout = None if constant.flags.c_contiguous else constant.strides
    return key_of(constant), layout


def _first(array: np.ndarray) -> bytes:
    first: bytes = array[(0,) * array.ndim].tobytes()
    return first
