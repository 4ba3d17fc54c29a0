"""Estimators of other libraries that contain sknet's: skops writes them, with placeholders for sknet's."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from sknet.exceptions import LoadError
from sknet.files._registry import full_name, is_ours, splitters

__all__ = ["Seat", "packed", "unpacked"]

Bytes = np.ndarray[Any, Any]
LEAVES = (np.ndarray, str, bytes, int, float, type(None), type)


class Seat(BaseEstimator):
    """The placeholder for an sknet estimator in an estimator of another library.

    Parameters
    ----------
    number : int, default=0
        Index of the estimator.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number


def packed(estimator: Any) -> tuple[Bytes, list[Any]]:
    """Replace sknet's estimators inside another by placeholders, and write it with skops.

    Parameters
    ----------
    estimator : estimator
        An estimator such as a Pipeline, which is not changed.

    Returns
    -------
    frame : ndarray of uint8
        The bytes that skops has written.
    inside : list
        sknet's estimators, by the index of their placeholders.

    Raises
    ------
    ImportError
        If skops is not installed.
    """
    skops = _skops()
    inside = list({id(x): x for x in _found_in(estimator, is_ours)}.values())
    seats = {id(x): Seat(number) for number, x in enumerate(inside)}
    frame = copy.deepcopy(estimator, dict(seats))
    return np.frombuffer(skops.dumps(frame), np.uint8), inside


def unpacked(frame: Bytes, inside: list[Any], trusted: Iterable[Any]) -> Any:
    """Return the estimator that `packed` has written.

    Parameters
    ----------
    frame : ndarray of uint8
        The bytes that skops has written.
    inside : list
        sknet's estimators, by the index of their placeholders.
    trusted : iterable of type or callable
        The user's own classes and functions that it may name.

    Returns
    -------
    estimator
        With its placeholders replaced.

    Raises
    ------
    LoadError
        If a type in it is neither trusted by skops nor in `trusted`.
    ImportError
        If skops is not installed.
    """
    skops, written = _skops(), frame.tobytes()
    known = [*map(full_name, (Seat, Bunch, np.dtype, *splitters(), *trusted))]
    unknown = [name for name in skops.get_untrusted_types(data=written) if name not in known]
    if unknown:
        short = ", ".join(name.rpartition(".")[2] for name in unknown)
        raise LoadError(f"it needs {', '.join(unknown)}: load(path, trusted=[{short}]) if you trust that")
    found = skops.loads(written, trusted=known)
    seats = {id(x): inside[x.number] for x in _found_in(found, lambda x: isinstance(x, Seat))}
    return copy.deepcopy(found, dict(seats))


def _found_in(x: Any, wanted: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the objects of some kind that an object holds, at any depth."""
    seen: set[int] = set()
    waiting = [x]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, LEAVES):
            continue
        seen.add(id(each))
        if wanted(each):
            yield each
        elif isinstance(each, dict):
            waiting += [*reversed(each.values())]
        elif isinstance(each, (list, tuple, set, frozenset)):
            waiting += [*reversed(list(each))]
        else:
            waiting += [*reversed(getattr(each, "__dict__", {}).values())]


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError(
            "estimators of other libraries that contain sknet's are stored by skops, which is not installed: "
            'pip install "sknet[skops]"'
        ) from error
    return skops.io
