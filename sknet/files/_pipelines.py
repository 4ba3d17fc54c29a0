"""Estimators of other libraries around sknet's: skops writes them, with a seat for each of sknet's."""

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

from sknet.exceptions import LoadError
from sknet.files._registry import full_name, splitters

__all__ = ["Seat", "is_foreign", "packed", "unpacked"]

Bytes = np.ndarray[Any, Any]
LEAVES = (np.ndarray, str, bytes, int, float, type(None), type)


class Seat(BaseEstimator):
    """What stands in a frame for an estimator of sknet's.

    Parameters
    ----------
    number : int, default=0
        Which one.
    """

    def __init__(self, number: int = 0) -> None:
        self.number = number


def is_ours(x: Any) -> bool:
    """Tell whether an object is sknet's, or of a class that is derived from one of sknet's."""
    homes = [cls.__module__.partition(".")[0] for cls in type(x).__mro__]
    return "sknet" in homes and not isinstance(x, type)


def is_foreign(x: Any) -> bool:
    """Tell whether an object is an estimator of another library."""
    return isinstance(x, BaseEstimator) and not is_ours(x)


def packed(estimator: Any) -> tuple[Bytes, list[Any]]:
    """Take sknet's estimators out of another, and write what is left.

    Parameters
    ----------
    estimator : estimator
        Such as a Pipeline; left alone.

    Returns
    -------
    frame : ndarray of uint8
        What skops has written.
    inside : list
        The estimators of sknet's, in the order of their seats.

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
    """Return the estimator that `packed` has taken apart.

    Parameters
    ----------
    frame : ndarray of uint8
        What skops has written.
    inside : list
        Who has the seats.
    trusted : iterable of type or callable
        The user's own that it may name.

    Returns
    -------
    estimator
        With all of them in their places.

    Raises
    ------
    LoadError
        If skops knows a type in it neither by itself nor from `trusted`.
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
            "estimators of other libraries around sknet's are stored by skops, which is not installed: "
            'pip install "sknet[skops]"'
        ) from error
    return skops.io
