"""Selecting parameters by patterns of their paths."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from sknet._params import InvalidParameterError

__all__ = ["check_patterns", "matches"]


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Tell whether a path, such as ``"0.weight"``, matches one of some patterns, such as ``"*.weight"``."""
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def check_patterns(patterns: Sequence[str], known: Iterable[str], parameter: str, owner: str) -> None:
    """Raise an InvalidParameterError for a pattern that matches none of the known paths."""
    known = list(known)
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in known):
            raise InvalidParameterError(
                f"The {parameter!r} parameter of {owner} must match parameters by their paths. "
                f"Got {pattern!r}, which matches none of {known}."
            )
